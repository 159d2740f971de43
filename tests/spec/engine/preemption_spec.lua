--- Victims: who, what they lose, what is undone, how they come back (spec/engine.md §5).
local support = dofile "tests/spec/engine/support.lua"

--- Two requests of 8 tokens on 6 blocks; both have 12 tokens, the next pass is one block short.
local function full_pool(config, first, second)
  local all = { num_blocks = 6, prefix_caching = false }
  for key, value in pairs(config or {}) do all[key] = value end
  local t = support.rank(all)
  t:submit(1, 8, 8, first)
  t:submit(2, 8, 8, second)
  t:passes(5)
  assert.same({ 12, 12 }, { t:request(1).computed, t:request(2).computed })
  assert.same({ 6, 0, 0 }, t:blocks())
  return t
end

describe("the victim", function()
  it("E-V1 is the newest running request with lifo", function()
    local t = full_pool()
    assert.same({ 2 }, t:pass().victims)
    assert.same({ 1 }, t:state().running)
  end)

  it("E-V1 is the oldest running request with fifo", function()
    local t = full_pool { preemption = "fifo" }
    assert.same({ 1 }, t:pass().victims)
    assert.same({ 2 }, t:state().running)
  end)

  it("E-V1 under priority is the least urgent one, although older", function()
    local t = full_pool({ policy = "priority" }, { priority = 9 }, { priority = 1 })
    assert.same({ 1 }, t:pass().victims)
  end)

  it("E-V1 under priority is the latest of equally urgent ones", function()
    local t = full_pool({ policy = "priority" }, { priority = 4 }, { priority = 4 })
    assert.same({ 2 }, t:pass().victims)
  end)
end)

describe("a preemption", function()
  it("E-V2 takes all blocks and computed tokens; generated tokens stay known", function()
    local t = full_pool()
    t:pass()
    local view = t:request(2)
    assert.equal("preempted", view.status)
    assert.same({ 0, 0, 0 }, { view.owned, view.watermark, view.computed })
    assert.same({ 5, 13, 1 }, { view.generated, view.known, view.preemptions })
    assert.equal(1, t:state().preemptions)
    assert.same({ 4, 0, 2 }, t:blocks())
  end)

  it("E-V2 puts the victim in front of the queue", function()
    local t = full_pool()
    t:submit(3, 4, 1)
    t:pass()
    assert.same({ 2, 3 }, t:state().waiting)
  end)

  it("E-V2 of two victims in one pass the one taken last stands first", function()
    local t = support.rank { num_blocks = 6, long_prefill_token_threshold = 8 }
    t:submit(1, 24, 1)
    t:submit(2, 3, 9)
    t:submit(3, 3, 9)
    t:submit(4, 12, 1)
    t:passes(2)
    assert.same({ 6, 0, 0 }, t:blocks())
    assert.same({ 3, 2 }, t:pass().victims) -- 1 needs its last two blocks at once
    assert.same({ 2, 3, 4 }, t:state().waiting)
  end)

  it("E-V2 under priority the queue place follows the key", function()
    local t = full_pool({ policy = "priority" }, { priority = 9 }, { priority = 1 })
    t:submit(3, 20, 1, { priority = 5 })
    t:pass()
    assert.same({ 3, 1 }, t:state().waiting)
  end)

  --- fifo: request 1 has got one token and filled its third block when 2 needs a block.
  local function undone()
    local t = support.rank { num_blocks = 6, preemption = "fifo", max_batched_tokens = 32 }
    t:submit(1, 11, 8)
    t:submit(2, 8, 2)
    t:submit(3, 3, 8)
    t:pass()
    t:set_budget(16)
    return t, t:pass()
  end

  it("E-V3 gives the victim's tokens of this pass back to the budget", function()
    local _, record = undone()
    assert.same({ 1 }, record.victims)
    assert.same({ [2] = 1, [3] = 1 }, record.scheduled)
    assert.equal(14, record.budget_left)
  end)

  it("E-V3 D2 skips nobody when the victim stood before", function()
    local _, record = undone()
    assert.same({ [2] = 1, [3] = 1 }, record.tokens)
  end)

  it("E-V3 withdraws what the undone decision had published: that block is free, not cached", function()
    local t, record = undone()
    assert.same({}, record.evicted) -- 2 took the free block, nothing cached had to go
    assert.equal(1 + 0, t:request(3).owned)
    assert.same({ 1, 4, 1 }, t:blocks()) -- two blocks of 1, two of 2, which has finished
    record = t:pass()
    assert.equal(8, record.reused[1])
    assert.equal(4, record.scheduled[1])
  end)

  it("E-V4 recomputes all known tokens that are not cached any more", function()
    local t = support.rank { num_blocks = 6, preemption = "fifo" }
    t:submit(1, 6, 8)
    t:submit(2, 10, 4)
    t:passes(3)
    assert.equal(9, t:request(1).known)
    assert.same({ 1 }, t:pass().victims) -- its third block, just taken, goes to 2
    local record = t:pass()
    assert.equal(8, record.reused[1])
    assert.equal(1, record.scheduled[1])
    assert.equal(0, record.items_of[1].chunk) -- one generated token, no prompt token
    assert.equal(1, record.items_of[1].generated)
  end)

  it("E-V4 without caching a resume computes prompt and output again", function()
    local t = full_pool()
    t:pass()
    t:cancel(1)
    local record = t:pass()
    assert.same({ 13, 8, 5 }, { record.scheduled[2], record.items_of[2].chunk, record.items_of[2].generated })
    assert.equal(1, record.tokens[2])
    assert.equal(6, t:request(2).generated)
  end)

  it("E-V5 keeps the queue closed for the rest of the pass", function()
    local t = full_pool()
    local record = t:pass()
    assert.equal(15, record.budget_left)
    assert.is_nil(record.reused[2]) -- 2 needs 4 blocks: they are not even asked for
    t:submit(3, 4, 1)
    assert.same({ 2, 3 }, t:state().waiting)
  end)
end)
