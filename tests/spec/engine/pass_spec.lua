--- One scheduling decision: running requests first, then the head of the queue (spec/engine.md §4).
local support = dofile "tests/spec/engine/support.lua"
local tokens, join = support.tokens, support.join

describe("the budget of a pass", function()
  it("E-P0 starts full every time; what is left over is not carried", function()
    local t = support.rank { max_batched_tokens = 8 }
    t:submit(1, 3, 3)
    assert.equal(5, t:pass().budget_left)
    t:submit(2, 12, 1)
    local record = t:pass()
    assert.same({ [1] = 1, [2] = 7 }, record.scheduled)
    assert.equal(0, record.budget_left)
  end)

  it("E-P5 is shared in running order", function()
    local t = support.rank { max_batched_tokens = 4, max_seqs = 3 }
    t:submit(1, 8, 4)
    t:submit(2, 8, 4)
    assert.same({ [1] = 4 }, t:pass().scheduled)
    assert.same({ [1] = 4 }, t:pass().scheduled)
    assert.equal(0, t:request(2).computed)
    assert.same({ [1] = 1, [2] = 3 }, t:pass().scheduled)
  end)

  it("E-P5 E-P15 fits two prompts in part: 8 and 4 of 8, three blocks", function()
    local t = support.rank { max_batched_tokens = 12 }
    t:submit(1, 8, 4)
    t:submit(2, 8, 4)
    assert.same({ [1] = 8, [2] = 4 }, t:pass().scheduled)
    assert.equal(3, t:blocks()[1])
  end)
end)

describe("running requests", function()
  it("E-P1a end as rejected when their known tokens exceed the pool", function()
    local t = support.rank { num_blocks = 4 }
    t:submit(1, 8, 10)
    local records = t:drain()
    assert.equal(9, t:request(1).generated)
    assert.equal("rejected:capacity", records[#records].ended[1])
    assert.equal(0, t:blocks()[1])
    t:submit(2, 8, 9)
    t:drain()
    assert.equal("length", t:request(2).reason)
  end)

  it("E-P1a take nobody with them", function()
    local t = support.rank { num_blocks = 6, max_batched_tokens = 32 }
    t:submit(1, 17, 9)
    t:submit(2, 4, 1)
    t:passes(8) -- L = 25: seven blocks
    t:submit(3, 4, 2)
    local record = t:pass()
    assert.equal("rejected:capacity", record.ended[1])
    assert.same({}, record.victims)
    assert.equal(0, record.reused[3])
  end)

  it("E-P1 are passed over while they prefill in a deferring pass", function()
    local t = support.rank { max_batched_tokens = 8 }
    t:submit(1, 4, 5)
    t:submit(2, 12, 1)
    t:pass()
    assert.same({ [1] = 1 }, t:pass(true).scheduled)
    assert.same({ [1] = 1, [2] = 7 }, t:pass().scheduled)
  end)

  it("E-P2 without chunks wait for a pass that takes the whole prompt", function()
    local t = support.rank { chunked_prefill = false, max_batched_tokens = 10 }
    t:submit(1, 8, 3)
    t:submit(2, 8, 3)
    local record = t:pass()
    assert.same({ [1] = 8 }, record.scheduled)
    assert.equal(2, record.budget_left)
    assert.same({ [1] = 1, [2] = 8 }, t:pass().scheduled)
  end)

  it("E-P2 without chunks stop everybody behind an unfinished prompt that does not fit", function()
    local t = support.rank { chunked_prefill = false, long_prefill_token_threshold = 6 }
    t:submit(1, 14, 3)
    t:submit(2, 14, 3)
    t:submit(3, 4, 3)
    assert.same({ [1] = 6, [2] = 6, [3] = 4 }, t:pass().scheduled)
    t:set_budget(10)
    assert.same({ [1] = 6 }, t:pass().scheduled) -- 4 left, 2 wants 6, 3 would decode
  end)

  it("E-P3 whose share the split makes zero are skipped; a decode behind them runs", function()
    local t = support.rank { block_size = 1536, max_batched_tokens = 1000, num_blocks = 200, prefix_match_unit = 128,
      state_cache = { mode = "aligned", blocks = 1 } }
    t:submit(1, 24300, 2)
    assert.same({ [1] = 1000 }, t:pass().scheduled)
    t:set_budget(8192)
    t:submit(2, 24300, 2)
    t:submit(3, 8, 4)
    assert.same({ [1] = 536, [2] = 6144, [3] = 8 }, t:pass().scheduled)
    assert.same({ [1] = 7680, [3] = 1 }, t:pass().scheduled)
  end)

  it("E-P4 own the blocks of their computed tokens, taken when the decision is made", function()
    local t = support.rank()
    t:submit(1, 4, 3)
    t:pass()
    assert.equal(1, t:request(1).owned)
    t:plan()
    assert.equal(2, t:request(1).owned)
  end)

  --- Request 1 runs first, is the least urgent, and needs a third block when the pool is full.
  local function evicts_itself(config)
    config.num_blocks, config.policy = 5, "priority"
    local t = support.rank(config)
    t:submit(1, 7, 8, { priority = 9 })
    t:pass()
    t:submit(2, 10, 4, { priority = 1 })
    t:pass()
    assert.same({ 1, 2 }, t:state().running)
    local record = t:pass()
    assert.same({ 1 }, record.victims)
    return record
  end

  it("E-P4 may be their own victim; the pass goes on behind them", function()
    assert.same({ [2] = 1 }, evicts_itself {}.scheduled)
  end)

  it("R6 with end_pass a request that evicts itself ends the pass", function()
    assert.same({}, evicts_itself { self_preemption = "end_pass" }.scheduled)
  end)
end)

describe("admission", function()
  it("E-P6 does not happen in a pass with a preemption", function()
    local t = support.rank { num_blocks = 6, policy = "priority" }
    t:submit(1, 8, 8, { priority = 1 })
    t:submit(2, 8, 8, { priority = 5 })
    t:passes(5)
    t:submit(3, 4, 1, { priority = 0 })
    local record = t:pass() -- the victim frees 3 blocks, 1 takes one
    assert.same({ 2 }, record.victims)
    assert.is_nil(record.reused[3])
    assert.equal(0, t:pass().reused[3])
  end)

  it("E-P7 stops at max_seqs although budget and blocks are left", function()
    local t = support.rank { max_seqs = 2 }
    for id = 1, 4 do t:submit(id, 4, 2) end
    local record = t:pass()
    assert.same({ [1] = 4, [2] = 4 }, record.scheduled)
    assert.equal(8, record.budget_left)
    assert.same({ 3, 4 }, t:state().waiting)
  end)

  it("E-P8 rejects an empty prompt and one of the context limit, and looks at the next head", function()
    local t = support.rank { max_model_len = 12 }
    t:submit(1, {}, 1)
    t:submit(2, 12, 1)
    t:submit(3, 11, 1)
    local record = t:pass()
    assert.same({ [1] = "rejected:empty", [2] = "rejected:context", [3] = "length" }, record.ended)
    assert.same({ [3] = 11 }, record.scheduled)
  end)

  it("E-P8 rejects a prompt that no pass can take whole, without chunks and context limit", function()
    local t = support.rank { chunked_prefill = false, max_batched_tokens = 10 }
    t:submit(1, 11, 1)
    t:submit(2, 10, 1)
    local record = t:pass()
    assert.equal("rejected:capacity", record.ended[1])
    assert.equal("length", record.ended[2])
  end)

  it("E-P9 takes an activated hand-off into a full pool without prompt work", function()
    local t = support.rank { num_blocks = 4 }
    assert.is_true(t:reserve(1, 8, 1))
    t:submit(2, 8, 1, { hold = true })
    t:pass()
    assert.same({ 4, 0, 0 }, t:blocks())
    t:activate(1)
    local _, record = t:plan()
    assert.equal(0, record.scheduled[1])
    assert.equal(8, record.reused[1])
  end)

  it("E-P10 reuses what is cached when the request reaches the head", function()
    local t = support.rank()
    t:cache(9, tokens(12))
    t:submit(1, tokens(12), 1)
    assert.equal(8, t:pass().reused[1])
  end)

  it("E-P11 rejects what exceeds the whole pool and goes on", function()
    local t = support.rank { num_blocks = 4, max_batched_tokens = 64 }
    t:submit(1, 17, 1)
    t:submit(2, 16, 1)
    local record = t:pass()
    assert.same({ [1] = "rejected:capacity", [2] = "length" }, record.ended)
  end)

  it("R1 with never_fits = wait such a head blocks the queue", function()
    local t = support.rank { num_blocks = 4, never_fits = "wait" }
    t:submit(1, 17, 1)
    t:submit(2, 4, 1)
    assert.is_false(t:pass().changed)
    assert.same({ 1, 2 }, t:state().waiting)
  end)
end)

describe("the full-context gate", function()
  it("E-P12 holds a request that would fit behind a head that does not", function()
    local t = support.rank { num_blocks = 6 }
    t:submit(1, 16, 8)
    t:submit(2, 12, 1)
    t:submit(3, 4, 1)
    t:pass()
    local record = t:pass() -- one block is free; 3 needs one
    assert.same({ [1] = 1 }, record.scheduled)
    assert.same({ 2, 3 }, t:state().waiting)
    t:cancel(2)
    assert.equal(0, t:pass().reused[3])
  end)

  it("E-P12 charges the whole known context, not the first chunk", function()
    local t = support.rank { num_blocks = 6, max_batched_tokens = 4 }
    t:submit(1, 8, 1, { hold = true })
    t:drain()
    t:submit(2, 20, 1) -- five blocks, four are free, the chunk needs one
    assert.is_false(t:pass().changed)
    t:release_source(1)
    assert.equal(4, t:pass().scheduled[2])
  end)

  it("R2 without reserve_full_prompt the first chunk decides", function()
    local t = support.rank { num_blocks = 6, max_batched_tokens = 4, reserve_full_prompt = false }
    t:submit(1, 8, 1, { hold = true })
    t:drain()
    t:submit(2, 20, 1)
    assert.equal(4, t:pass().scheduled[2])
  end)

  it("E-P12 counts hit blocks that somebody holds as paid", function()
    local t = support.rank { num_blocks = 3 }
    t:submit(1, tokens(8), 1, { hold = true })
    t:pass()
    assert.same({ 2, 0, 1 }, t:blocks())
    t:submit(2, tokens(12), 1)
    assert.equal(8, t:pass().reused[2])
  end)

  it("E-P12 gives no discount for inactive hit blocks", function()
    local t = support.rank { num_blocks = 3 }
    t:cache(1, tokens(8))
    t:submit(3, 4, 1, { hold = true })
    t:pass()
    assert.same({ 1, 2, 0 }, t:blocks())
    t:submit(2, tokens(12), 1)
    assert.is_false(t:pass().changed) -- needs 3, 2 are available
    t:release_source(3)
    assert.equal(8, t:pass().reused[2])
  end)

  it("E-P12 a head may evict what the next one hoped to hit", function()
    local t = support.rank { num_blocks = 3 }
    t:cache(9, tokens(4))
    t:submit(1, 12, 1)
    t:submit(2, tokens(4), 0)
    local record = t:pass()
    assert.same({ { id = 9, index = 0 } }, record.evicted)
    assert.same({ 2 }, t:state().waiting)
    assert.equal(0, t:pass().reused[2])
  end)

  it("E-P12b keeps a reserve while something runs", function()
    local t = support.rank { num_blocks = 10, watermark = 0.2, max_batched_tokens = 64 }
    t:submit(1, 16, 9)
    t:submit(2, 16, 9)
    t:submit(3, 8, 1)
    local record = t:pass() -- 4 of 10 - 4 - 2; then 2 of 0
    assert.same({ [1] = 16, [2] = 16 }, record.scheduled)
    assert.same({ 3 }, t:state().waiting)
  end)

  it("E-P12b lets an idle engine use the whole pool", function()
    local t = support.rank { num_blocks = 10, watermark = 0.2, max_batched_tokens = 64 }
    t:submit(1, 40, 1)
    assert.equal("length", t:pass().ended[1])
  end)
end)

describe("the share of a head", function()
  it("E-P13 in a deferring pass must be one token", function()
    local t = support.rank { max_batched_tokens = 32 }
    t:cache(9, tokens(4))
    t:submit(1, 4, 9)
    t:pass()
    t:submit(2, join(tokens(4), { 101 }), 1)
    t:submit(3, join(tokens(4), { 102, 103 }), 1)
    local record = t:pass(true)
    assert.same({ [1] = 1, [2] = 1 }, record.scheduled)
    assert.same({ 3 }, t:state().waiting)
  end)

  it("E-P14 is what the hit leaves, within the budget", function()
    local t = support.rank { max_batched_tokens = 6 }
    t:cache(9, tokens(4))
    t:submit(1, tokens(12), 1)
    assert.same({ 4, 6 }, t:pass().chunks[1])
    assert.same({ 10, 2 }, t:pass().chunks[1])
  end)

  it("E-P14 of zero stops admission: nobody overtakes", function()
    local t = support.rank { block_size = 1536, max_batched_tokens = 8192, num_blocks = 200, prefix_match_unit = 128,
      state_cache = { mode = "aligned", blocks = 1 } }
    t:submit(1, 24300, 2)
    t:submit(2, 24300, 2)
    t:submit(3, 8, 4)
    local record = t:pass()
    assert.same({ [1] = 7680 }, record.scheduled)
    assert.equal(512, record.budget_left)
    assert.same({ 2, 3 }, t:state().waiting)
  end)

  it("E-P15 starts behind the hit and joins the end of the running list", function()
    local t = support.rank()
    t:cache(9, tokens(8))
    t:submit(1, 4, 9)
    t:submit(2, tokens(12), 9)
    local record = t:pass()
    assert.equal(8, record.reused[2])
    assert.equal(4, record.scheduled[2])
    assert.equal(12, t:request(2).computed)
    assert.same({ 1, 2 }, t:state().running)
  end)

  it("E-P16 may be zero at budget zero for one fully cached request without output", function()
    local t = support.rank { max_batched_tokens = 8 }
    t:cache(9, tokens(4))
    t:submit(1, 8, 2)
    t:submit(2, tokens(4), 0)
    t:submit(3, tokens(4), 0)
    local record = t:pass()
    assert.same({ [1] = 8, [2] = 0 }, record.scheduled)
    assert.equal("length", record.ended[2])
    assert.same({ 3 }, t:state().waiting)
  end)

  it("R5 without admit_at_zero_budget the queue waits for tokens", function()
    local t = support.rank { max_batched_tokens = 8, admit_at_zero_budget = false }
    t:cache(9, tokens(4))
    t:submit(1, 8, 2)
    t:submit(2, tokens(4), 0)
    assert.same({ [1] = 8 }, t:pass().scheduled)
    assert.equal(4, t:pass().reused[2])
  end)

  it("R4 is capped per request and pass, in both loops", function()
    local t = support.rank { long_prefill_token_threshold = 5 }
    t:submit(1, 12, 1)
    t:submit(2, 7, 1)
    assert.same({ [1] = 5, [2] = 5 }, t:pass().scheduled)
    assert.same({ [1] = 5, [2] = 2 }, t:pass().scheduled)
  end)
end)

describe("the end of a pass", function()
  it("E-P17 remembers whether requests were left over", function()
    local t = support.rank { max_seqs = 1, prefill_interval = 4 }
    t:submit(1, 4, 9)
    t:pass()
    assert.is_false(t:state().capacity_bound)
    t:submit(2, 4, 1)
    t:pass()
    assert.is_true(t:state().capacity_bound)
    t:cancel(2)
    t:pass(true) -- a deferring pass says nothing about it
    assert.is_true(t:state().capacity_bound)
    t:pass()
    assert.is_false(t:state().capacity_bound)
  end)

  it("E-P18 shows tokens, endings and KV events at its end time, events last", function()
    local sim = dofile("tests/spec/lua/support.lua").cluster(1)
    local seen = {}
    local function note(name) return function(t) seen[#seen + 1] = ("%s %g"):format(name, t) end end
    for _, name in ipairs { "kv.store", "request.first_token", "request.finish", "pass.end" } do
      sim:on(name, note(name))
    end
    sim:submit { prompt_tokens = 8, output_tokens = 1 }
    sim:run()
    assert.same({ "request.first_token 10", "request.finish 10", "kv.store 10", "pass.end 10" }, seen)
  end)
end)
