--- The block pool: states of blocks, eviction order, duplicates, reset (spec/engine.md §7).
local support = dofile "tests/spec/engine/support.lua"
local tokens, join = support.tokens, support.join

--- A pool with one cached, unused block per hash, released in this order.
local function pool_with(blocks, hashes)
  local t = support.rank { num_blocks = blocks }
  local held = {}
  for i, hash in ipairs(hashes) do
    local _, taken = t:pool_take({}, 1)
    held[i] = taken[1]
    t:pool_publish(taken[1], hash)
  end
  for _, block in ipairs(held) do t:pool_release(block) end
  return t
end

--- Hashes in the order in which they are evicted.
local function eviction_order(t)
  local order = {}
  while true do
    local ok, _, removed = t:pool_take({}, 1)
    if not ok then return order end
    table.move(removed, 1, #removed, #order + 1, order)
  end
end

local X <const>, Y <const>, Z <const> = 71, 72, 73

describe("the block pool", function()
  it("E-B1 free, active and inactive blocks are all there are", function()
    local t = pool_with(10, { X, Y })
    t:pool_take({}, 7)
    assert.same({ 7, 2, 1 }, t:blocks())
  end)

  it("E-B2 takes free blocks first, then the least recently released", function()
    local t = pool_with(4, { X, Y })
    local _, _, removed = t:pool_take({}, 3)
    assert.same({ X }, removed)
    assert.same({ 3, 1, 0 }, t:blocks())
  end)

  it("E-B2 never evicts a hit of the same operation", function()
    local t = pool_with(3, { X, Y })
    local ok, taken = t:pool_take({ X }, 2) -- the free one and Y
    assert.is_true(ok)
    assert.equal(3, #taken)
    assert.is_true(t:pool_lookup(X))
    assert.is_false(t:pool_lookup(Y))
  end)

  it("E-B2 is all or nothing: a failure pins nothing and moves nothing", function()
    local t = pool_with(3, { X, Y })
    assert.is_false((t:pool_take({ X }, 3)))
    assert.same({ 0, 2, 1 }, t:blocks())
    assert.same({ X, Y }, eviction_order(t))
  end)

  it("E-B2 a pinned block cannot make room for its own operation", function()
    local t = pool_with(1, { X })
    assert.is_false((t:pool_take({ X }, 1)))
    assert.same({ 0, 1, 0 }, t:blocks())
  end)

  it("E-B3 a private block is free as soon as it is released", function()
    local t = support.rank { num_blocks = 2 }
    local _, taken = t:pool_take({}, 1)
    t:pool_release(taken[1])
    assert.same({ 0, 0, 2 }, t:blocks())
  end)

  it("E-B3 a cached block stays active until the last holder releases it", function()
    local t = pool_with(2, { X })
    local _, first = t:pool_take({ X }, 0)
    local _, second = t:pool_take({ X }, 0)
    t:pool_release(first[1])
    assert.same({ 1, 0, 1 }, t:blocks())
    t:pool_release(second[1])
    assert.same({ 0, 1, 1 }, t:blocks())
  end)

  it("E-B3 E-B5 a hit leaves the order, its release appends it at the end", function()
    local t = pool_with(3, { X, Y, Z })
    local _, taken = t:pool_take({ Y }, 0)
    t:pool_release(taken[1])
    assert.same({ X, Z, Y }, eviction_order(t))
  end)

  it("E-B5 looking does not touch the order", function()
    local t = pool_with(3, { X, Y, Z })
    assert.is_true(t:pool_lookup(X))
    assert.same({ X, Y, Z }, eviction_order(t))
  end)

  it("E-B4 requests release their deepest block first, so prefixes survive longest", function()
    local t = support.rank { num_blocks = 10, max_batched_tokens = 64 }
    t:submit(1, tokens(15), 2)
    t:submit(2, join(tokens(10), tokens(3, 500)), 3)
    t:pass()
    t:pass()
    assert.same({ 4, 2, 4 }, t:blocks()) -- 1 has ended: a3 and a2
    t:pass()
    assert.same({ 0, 5, 5 }, t:blocks())
    t:submit(3, 36, 1)
    local evicted = {}
    for i, block in ipairs(t:pass().evicted) do evicted[i] = block.id .. ":" .. block.index end
    assert.same({ "1:3", "1:2", "2:2", "1:1" }, evicted)
  end)

  it("E-B6 two copies of one block are both capacity; the identity lives with the last", function()
    local t = support.rank { num_blocks = 2 }
    local _, taken = t:pool_take({}, 2)
    assert.is_true(t:pool_publish(taken[1], X))
    assert.is_false(t:pool_publish(taken[2], X))
    assert.same({ 2, 0, 0 }, t:blocks())
    t:pool_release(taken[1])
    t:pool_release(taken[2])
    local _, _, removed = t:pool_take({}, 1)
    assert.same({}, removed)
    assert.is_true(t:pool_lookup(X)) -- the duplicate answers now
    _, _, removed = t:pool_take({}, 1)
    assert.same({ X }, removed)
    assert.is_false(t:pool_lookup(X))
  end)

  it("E-B6 requests that compute the same prompt side by side fill the pool twice", function()
    local t = support.rank { num_blocks = 2, max_batched_tokens = 8 }
    t:submit(1, tokens(4), 9)
    t:submit(2, tokens(4), 9)
    t:submit(3, 4, 1)
    t:pass()
    assert.same({ 2, 0, 0 }, t:blocks()) -- the bound L - 1 leaves no whole block to share
    assert.same({ 3 }, t:state().waiting)
  end)

  it("E-B7 evicts the oldest, never an active block", function()
    local t = pool_with(3, { X, Y })
    t:pool_take({ X }, 1) -- X and the free one
    local ok, _, removed = t:pool_take({}, 1)
    assert.is_true(ok)
    assert.same({ Y }, removed)
    assert.is_false((t:pool_take({}, 1)))
    assert.is_true(t:pool_lookup(X))
  end)

  --- Five cached blocks of one prompt.
  local function five_cached()
    local t = support.rank { num_blocks = 8, max_batched_tokens = 32 }
    t:cache(9, tokens(20))
    assert.same({ 0, 5, 3 }, t:blocks())
    return t
  end

  it("E-B8 a reset empties the index of an idle pool", function()
    local t = five_cached()
    assert.is_true(t:reset())
    assert.same({ 0, 0, 8 }, t:blocks())
    t:submit(1, tokens(20), 1)
    assert.equal(0, t:pass().reused[1])
  end)

  it("E-B8 a reset with an active block changes nothing", function()
    local t = five_cached()
    t:submit(2, 3, 9)
    t:pass()
    assert.is_false(t:reset())
    assert.same({ 1, 5, 2 }, t:blocks())
    t:cancel(2)
    t:submit(1, tokens(20), 1)
    assert.equal(16, t:pass().reused[1])
  end)

  it("E-B8 a forced reset preempts everything first, newest first", function()
    local t = support.rank()
    t:submit(1, tokens(8), 9)
    t:submit(2, 8, 9)
    t:pass()
    assert.is_true(t:reset(true))
    assert.same({ 1, 2 }, t:state().waiting)
    assert.same({ 0, 0, 100 }, t:blocks())
    assert.equal(0, t:pass().reused[1])
  end)
end)
