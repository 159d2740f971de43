--- A cache with several groups, block by block (vllm-facts 15, 17, 19, 30 to 56), on the double of
-- tests/twin/groups_*.lua.
package.path = "tests/twin/?.lua;" .. package.path
local caches = require "groups_cache"
local pools = require "groups_pool"
local rules = require "groups_rules"

local function full(block) return { type = "full", block = block } end
local function sliding(block, window) return { type = "sliding", block = block, window = window } end
local function state(block, mode, spec) return { type = "mamba", block = block, mode = mode, spec_blocks = spec } end

local function cache_of(groups, blocks, more)
  local config = { groups = groups, blocks = blocks or 50 }
  for key, value in pairs(more or {}) do config[key] = value end
  return caches.new(config)
end

--- A request whose tokens are first, first + 1, …
local function request(cache, n, first, more)
  local given = { tokens = {} }
  for i = 1, n do given.tokens[i] = (first or 0) + i end
  for key, value in pairs(more or {}) do given[key] = value end
  return cache:request(given)
end

local function table_of(r, at) return r.tables[at or 1].blocks end

describe("the free list", function()
  it("gives from the front, takes at either end and out of the middle", function()
    local list = pools.free_list { 1, 2, 3 }
    assert.same({ 1, 2 }, list:pop(2))
    list:append(1)
    list:prepend(2)
    list:remove(3)
    assert.same({ 2, 1 }, list:list())
    assert.is_nil(list:pop(3))
    assert.equal(2, list:count())
    assert.has_error(function() list:remove(3) end)
  end)

  it("fact 35 takes blocks back tail first: without identity to the front, with one to the back", function()
    local cache = cache_of({ full(4) }, 6)
    local r = request(cache, 10)
    cache:allocate(r, 10, 0, false)
    cache:release(r)
    assert.same({ 3, 4, 5, 6, 2, 1 }, cache.pool.free:list())
  end)

  it("fact 35 takes every block back at the back with caching off", function()
    local cache = cache_of({ full(4) }, 6, { prefix_caching = false })
    local r = request(cache, 10)
    cache:allocate(r, 10, 0, false)
    cache:release(r)
    assert.same({ 4, 5, 6, 3, 2, 1 }, cache.pool.free:list())
  end)
end)

describe("several groups", function()
  it("fact 40 draw from one pool, in order", function()
    local cache = cache_of { full(8), sliding(4, 8), full(8) }
    assert.same({ { 1, 2 }, { 3, 4, 5, 6 }, { 7, 8 } }, cache:allocate(request(cache, 16), 16, 0, false))
  end)

  it("fact 43 leave slots before the window of a hit empty", function()
    local cache = cache_of { full(4), sliding(4, 8) }
    cache:allocate(request(cache, 17), 17, 0, false)
    local tokens, blocks = cache:lookup(request(cache, 18))
    assert.same({ 16, { { 1, 2, 3, 4 }, { 0, 0, 8, 9 } } }, { tokens, blocks })
  end)

  it("fact 15 pay for idle blocks of a hit, and fact 19 leave nothing behind when they do not fit", function()
    local cache = cache_of({ full(4), sliding(4, 8) }, 10)
    local first = request(cache, 17)
    cache:allocate(first, 17, 0, false)
    cache:release(first)
    local second, queue = request(cache, 30), cache.pool.free:list()
    assert.equal(16, (cache:lookup(second)))
    -- 4 + 2 idle blocks of the hit and 3 + 3 fresh ones are 12
    assert.is_nil(cache:allocate(second, 10, 0, true))
    assert.same({ queue, {} }, { cache.pool.free:list(), table_of(second) })
    assert.same({ { 10 }, { 5 } }, cache:allocate(second, 4, 0, true)) -- 8 of 10, the hit was kept
    assert.equal(2, cache.pool.free:count())
  end)

  it("fact 63 give look-ahead its slots, up to the model length", function()
    local cache = cache_of({ full(4), sliding(4, 8) }, 50, { max_model_len = 9 })
    local fresh = cache:allocate(request(cache, 4), 4, 3, false)
    assert.same({ 2, 2 }, { #fresh[1], #fresh[2] })
    fresh = cache:allocate(request(cache, 8, 100), 8, 20, false)
    assert.same({ 3, 3 }, { #fresh[1], #fresh[2] })
  end)

  it("fact 38 are reset only when nothing is held", function()
    local cache = cache_of { full(4), sliding(4, 8) }
    local r = request(cache, 8)
    cache:allocate(r, 8, 0, false)
    assert.is_false(cache.pool:reset())
    cache:release(r)
    assert.is_true(cache.pool:reset())
    assert.equal(0, (cache.pool:indexed()))
  end)
end)

describe("a window", function()
  it("fact 44 gives whole blocks behind it back, the last first, and their content stays findable", function()
    local cache = cache_of({ sliding(2, 4) }, 20)
    local r = request(cache, 16)
    cache:allocate(r, 8, 0, false)
    cache:advance(r, 8)
    cache:allocate(r, 2, 0, false) -- tokens before 5 are dead: two blocks
    assert.same({ 0, 0, 3, 4, 5 }, table_of(r))
    local queue = cache.pool.free:list()
    assert.same({ 2, 1 }, { queue[#queue - 1], queue[#queue] })
    assert.same({ 0, 1, 2, 3, 4 }, cache:found_indices(r, 1))
  end)

  it("fact 17 never holds more than is predicted, nor does a chunk or a running state (seed 3)", function()
    math.randomseed(3)
    for _ = 1, 40 do
      local block, budget = 1 << math.random(3), math.random(40)
      local groups = { sliding(block, math.random(30)), { type = "chunked", block = block, chunk = 2 * block },
        state(block, "align"), full(block) }
      local cache = cache_of(groups, 300)
      local r = request(cache, 200)
      while r.computed < 200 do
        local n = math.min(math.random(budget), 200 - r.computed)
        assert(cache:allocate(r, n, 0, false))
        for at, group in ipairs(cache.groups) do
          local held = 0
          for _, id in ipairs(table_of(r, at)) do held = held + (id ~= 0 and 1 or 0) end
          assert.is_true(held <= rules.blocks_per_request(group, 200, budget), group.type)
        end
        cache.pool:verify()
        cache:advance(r, r.computed + n)
        cache:new_step()
      end
      cache:release(r)
      assert.equal(300, cache.pool.free:count())
    end
  end)
end)

describe("identities", function()
  it("fact 31 depend on adapter, salt and the images that touch a block", function()
    local cache = cache_of { full(4) }
    local image = { { offset = 6, len = 4, id = "cat" } }
    cache:allocate(request(cache, 13, 0, { mm = image }), 13, 0, false)
    local function hit(more) return (cache:lookup(request(cache, 13, 0, more))) end
    assert.equal(12, hit { mm = image })
    assert.equal(4, hit {}) -- block 0 has no part of the image
    assert.equal(4, hit { mm = { { offset = 6, len = 4, id = "dog" } } })
    assert.equal(4, hit { mm = { { offset = 7, len = 3, id = "cat" } } })
    assert.equal(0, hit { mm = image, lora = "a" })
    assert.equal(0, hit { mm = image, salt = "s" })
  end)

  it("fact 34 a request that may not read fills the cache all the same; twins are legal", function()
    local cache = cache_of { full(4), sliding(4, 8) }
    cache:allocate(request(cache, 9), 9, 0, false)
    local blind = request(cache, 9, 0, { no_read = true })
    assert.equal(0, (cache:lookup(blind)))
    cache:allocate(blind, 9, 0, true)
    assert.same({ 4, 8 }, { cache.pool:indexed() })
    local _, blocks = cache:lookup(request(cache, 9))
    assert.same({ 1, 2 }, blocks[1]) -- the oldest answers
  end)

  it("fact 32 are not shared by groups", function()
    local cache = cache_of { full(4), full(4) }
    local r = request(cache, 5)
    cache:allocate(r, 5, 0, false)
    cache:forget(r, 2, 0)
    assert.same({ { 0 }, {} }, { cache:found_indices(r, 1), cache:found_indices(r, 2) })
    assert.equal(0, (cache:lookup(request(cache, 5))))
  end)

  it("fact 30 are given to full blocks of known tokens only, never to drafts", function()
    local cache = cache_of { full(4) }
    local r = request(cache, 7)
    cache:allocate(r, 7 + 3, 0, false) -- three draft positions
    assert.same({ 0 }, cache:found_indices(r, 1))
  end)

  it("a forgotten one leaves the block as it was: released, it still goes to the back", function()
    local cache = cache_of({ full(4) }, 3)
    local r = request(cache, 4)
    cache:allocate(r, 4, 0, false)
    cache:forget(r, 1, 0)
    cache:release(r)
    assert.same({ 2, 3, 1 }, cache.pool.free:list())
    assert.equal(0, (cache:lookup(request(cache, 5))))
  end)

  it("fact 36 stay until the block is taken for something else", function()
    local cache = cache_of({ full(4) }, 2)
    local r = request(cache, 4)
    cache:allocate(r, 4, 0, false)
    cache:release(r)
    cache:allocate(request(cache, 4, 100), 4, 0, false)
    assert.equal(4, (cache:lookup(request(cache, 5))))
    cache:allocate(request(cache, 4, 200), 4, 0, false)
    assert.equal(0, (cache:lookup(request(cache, 5))))
    assert.equal(1, cache.pool.removed)
  end)
end)

describe("the running state", function()
  it("fact 50 takes one block per crossing and gives the one before back a step later", function()
    local cache = cache_of { state(4, "align") }
    local r = request(cache, 40)
    local seen = {}
    for step = 1, 3 do
      cache:allocate(r, 8, 0, false)
      cache:advance(r, 8 * step)
      seen[step] = table.concat(table_of(r), " ")
    end
    assert.same({ "0 1", "0 1 0 2", "0 0 0 2 0 3" }, seen)
  end)

  it("fact 50 ignores look-ahead", function()
    local cache = cache_of { state(4, "align") }
    local r = request(cache, 4)
    cache:allocate(r, 4, 5, false)
    assert.same({ 1 }, table_of(r))
  end)

  it("fact 50 keeps one state per draft and uses them again", function()
    local cache = cache_of { state(4, "align", 2) }
    local r = request(cache, 40)
    assert.same({ { 1, 2, 3 } }, cache:allocate(r, 8, 0, false))
    assert.same({ 0, 1, 2, 3 }, table_of(r))
    cache:advance(r, 8)
    assert.same({ { 4 } }, cache:allocate(r, 4, 0, false)) -- the first state of a draft becomes the running one
    assert.same({ 0, 1, 2, 3, 4 }, table_of(r))
    cache:advance(r, 12)
    assert.same({ { 5 } }, cache:allocate(r, 16, 0, false))
    assert.same({ 0, 0, 2, 0, 0, 0, 3, 4, 5 }, table_of(r))
  end)

  it("takes nothing when a step ends before what is held", function()
    local cache = cache_of { state(4, "align") }
    local r = request(cache, 40)
    cache:allocate(r, 8, 0, false)
    cache:advance(r, 3)
    assert.same({ {} }, cache:allocate(r, 1, 0, false))
  end)

  it("fact 49 is registered only when a step ends at the end of its block", function()
    local cache = cache_of { state(4, "align") }
    local r = request(cache, 40)
    cache:allocate(r, 6, 0, false)
    cache:advance(r, 6)
    cache:allocate(r, 4, 0, false) -- crosses 8 inside the step
    assert.same({}, cache:found_indices(r, 1))
    cache:advance(r, 10)
    cache:allocate(r, 2, 0, false)
    assert.same({ 2 }, cache:found_indices(r, 1))
  end)

  it("fact 56 is not hit in the step that wrote it, and fact 19 that costs nothing", function()
    for _, mode in ipairs { "align", "none" } do
      local cache = cache_of { full(4), state(4, mode) }
      cache:allocate(request(cache, 8), 8, 0, false)
      local second = request(cache, 9)
      assert.equal(8, (cache:lookup(second)))
      local free = cache.pool.free:count()
      assert.is_nil(cache:allocate(second, 1, 0, true))
      assert.equal(free, cache.pool.free:count())
      cache:new_step()
      assert.truthy(cache:allocate(second, 1, 0, true))
    end
  end)

  it("fact 55 is left at the junction for the third sibling", function()
    local cache = cache_of { full(4), state(4, "align") }
    local hits = {}
    for sibling = 1, 3 do
      local tokens = {}
      for i = 1, 14 do tokens[i] = i <= 8 and i or 100 * sibling + i end
      local r = cache:request { tokens = tokens }
      local hit, _, junction = cache:lookup(r)
      hits[sibling] = hit
      assert.equal(sibling == 2 and 8 or 0, junction)
      local from = hit
      for step, stop in ipairs(junction > 0 and { junction, 14 } or { 12, 14 }) do
        assert.truthy(cache:allocate(r, stop - from, 0, step == 1))
        from = stop
        cache:advance(r, from)
      end
      cache:release(r)
      cache:new_step()
    end
    assert.same({ 0, 0, 8 }, hits)
  end)
end)
