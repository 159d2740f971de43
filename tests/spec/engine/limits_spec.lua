--- Limits, endings, cancellation, readiness, livelock (spec/engine.md §13).
local support = dofile "tests/spec/engine/support.lua"
local api = dofile "tests/spec/lua/support.lua"

describe("the context limit", function()
  it("E-T1 rejects a prompt that reaches it; it is never admitted", function()
    local t = support.rank { max_model_len = 12 }
    t:submit(1, 12, 1)
    local record = t:pass()
    assert.equal("rejected:context", record.ended[1])
    assert.same({}, record.scheduled)
    assert.is_nil(t:request(1).reused)
  end)

  it("E-T1 leaves a prompt one below it exactly one token", function()
    for output, reason in pairs { [5] = "context", [1] = "length" } do
      local t = support.rank { max_model_len = 12 }
      t:submit(1, 11, output)
      local record = t:pass()
      assert.same({ 1, reason }, { record.tokens[1], record.ended[1] })
    end
  end)
end)

describe("a request", function()
  it("E-T2 without output ends with its prompt, token-free and never as decode work", function()
    local calls = {}
    local sim = api.cluster(1, { timing = function(n_prefill, _, _, n_decode)
      calls[#calls + 1] = { n_prefill, n_decode }
      return 1
    end })
    local reasons = {}
    sim:on("request.finish", function(t, id, _, reason, generated) reasons[id] = { t, reason, generated } end)
    sim:submit { prompt_tokens = 100, output_tokens = 0 } -- 64 tokens a pass
    sim:run()
    assert.same({ { 2, "length", 0 } }, reasons)
    assert.same({ { 1, 0 }, { 1, 0 } }, calls)
  end)

  it("E-T2 without output and fully cached adds nothing to the pass it ends in", function()
    local calls = {}
    local sim = api.cluster(1, { timing = function(n_prefill, new, past, n_decode, context)
      calls[#calls + 1] = { n_prefill, new, past, n_decode, context }
      return 1
    end })
    sim:submit { prompt_tokens = 8, output_tokens = 0, content = { { "a", 8 } } }
    sim:submit { at_ms = 10, prompt_tokens = 12, output_tokens = 1 }
    sim:submit { at_ms = 10, prompt_tokens = 8, output_tokens = 0, content = { { "a", 8 } } }
    sim:run()
    assert.same({ { 1, 8, 0, 0, 0 }, { 1, 12, 0, 0, 0 } }, calls)
  end)

  it("E-T3 with an empty prompt is rejected without capacity or token", function()
    local t = support.rank()
    t:submit(1, {}, 5)
    local record = t:pass()
    assert.equal("rejected:empty", record.ended[1])
    assert.same({}, record.tokens)
    assert.same({ 0, 0, 100 }, t:blocks())
  end)

  it("E-T4 of a live id is an error that changes nothing", function()
    local t = support.rank()
    assert.is_true(t:submit(1, 4, 1))
    assert.is_false(t:submit(1, 4, 1))
    assert.is_false(t:reserve(1, 4, 1))
    assert.equal(1, t:state().live)
    assert.same({ 1 }, t:state().waiting)
    t:pass()
    assert.is_true(t:submit(1, 4, 1)) -- free again
  end)

  it("E-T4 held and reserved ids are live too", function()
    local t = support.rank()
    t:submit(1, 4, 1, { hold = true })
    t:pass()
    t:reserve(2, 4, 1)
    assert.is_false(t:submit(1, 4, 1))
    assert.is_false(t:submit(2, 4, 1))
    t:release_source(1)
    assert.is_true(t:submit(1, 4, 1))
  end)
end)

describe("cancelling", function()
  it("E-T5 a waiter takes it out of the queue, nothing else", function()
    local t = support.rank { max_seqs = 1 }
    for id = 1, 3 do t:submit(id, 4, 5) end
    t:pass()
    local before = t:blocks()
    assert.is_true(t:cancel(2))
    assert.same({ 3 }, t:state().waiting)
    assert.same({ 1 }, t:state().running)
    assert.same(before, t:blocks())
  end)

  it("E-T5 a running request frees its blocks; what it published stays cached", function()
    local t = support.rank()
    t:submit(1, 10, 5)
    t:pass()
    assert.same({ 3, 0, 97 }, t:blocks())
    t:cancel(1)
    assert.same({ 0, 2, 98 }, t:blocks())
    assert.same({}, t:state().running)
  end)

  it("E-T5 during a pass drops its tokens; slot and blocks serve the next pass", function()
    local t = support.rank { max_seqs = 1, num_blocks = 3 }
    t:submit(1, 12, 5)
    t:submit(2, 12, 5)
    local batch = t:plan()
    t:cancel(1)
    local record = t:complete(batch)
    assert.same({}, record.tokens)
    assert.equal(0, t:request(1).generated)
    assert.equal(1, t:pass().tokens[2])
  end)

  it("E-T5 what is unknown or over does nothing", function()
    local t = support.rank()
    assert.is_false(t:cancel(7))
    t:submit(1, 4, 1)
    t:pass()
    assert.is_false(t:cancel(1))
    assert.equal("length", t:request(1).reason)
  end)

  it("E-T5 E-T6 gives one terminal signal, whatever comes later", function()
    local sim = api.cluster(1)
    local signals = {}
    local function count(_, id, _, reason) signals[#signals + 1] = id .. " " .. reason end
    sim:on("request.finish", count)
    sim:on("request.reject", count)
    local requests = {}
    for i = 1, 3 do requests[i] = sim:submit { prompt_tokens = 8, output_tokens = i == 3 and 1 or 50 } end
    sim:submit { prompt_tokens = 5000, output_tokens = 1 } -- does not fit
    sim:at(5, function() requests[1]:cancel() end) -- in the first pass
    sim:at(6, function() requests[1]:cancel() end)
    sim:at(16, function() requests[2]:cancel() end)
    sim:run()
    table.sort(signals)
    assert.same({ "1 cancelled", "2 cancelled", "3 length", "4 capacity" }, signals)
  end)
end)

describe("a rank", function()
  it("E-T7 is ready with something to run and drained with nothing left", function()
    local t = support.rank()
    assert.same({ false, true }, { t:state().ready, t:state().drained })
    t:submit(1, 4, 1)
    assert.same({ true, false }, { t:state().ready, t:state().drained })
    t:pass()
    assert.same({ false, true }, { t:state().ready, t:state().drained })
  end)

  it("E-T7 with a held source, a reservation or a blocked request is neither", function()
    local function neither(t) assert.same({ false, false }, { t:state().ready, t:state().drained }) end
    local t = support.rank()
    t:submit(1, 4, 1, { hold = true })
    t:pass()
    neither(t)
    t = support.rank()
    t:reserve(1, 4, 1)
    neither(t)
    t = support.rank()
    t:submit(1, 4, 1, { blocked = true })
    neither(t)
    t:unblock(1)
    assert.is_true(t:state().ready)
  end)

  it("E-T8 does not repeat a pass that changed nothing; the run says who blocks it", function()
    local t = support.rank { num_blocks = 4, never_fits = "wait" }
    t:submit(1, 17, 1)
    assert.is_false(t:pass().changed)

    local passes = 0
    local sim = api.cluster(1, { scheduler = { never_fits = "wait" } })
    sim:on("pass.end", function() passes = passes + 1 end)
    sim:submit { prompt_tokens = 5000, output_tokens = 1 }
    assert.error_matches(function() sim:run() end,
      "no event can change the state at t=0.000 ms; head of queue of rank 1: request 1 needs 1250 blocks")
    assert.equal(0, passes)
  end)

  it("E-T8 a request that waits sleeps until something happens", function()
    local sim = api.cluster(1, { scheduler = { never_fits = "wait" } })
    local begins = {}
    sim:on("pass.begin", function(t) begins[#begins + 1] = t end)
    local first = sim:submit { prompt_tokens = 5000, output_tokens = 1 }
    sim:submit { prompt_tokens = 8, output_tokens = 1 }
    sim:at(50, function() first:cancel() end)
    sim:run()
    assert.equal(50, begins[#begins])
    assert.is_true(#begins <= 2) -- one in vain at 0, one at 50
  end)

  it("E-T8 counts preempting passes without a token; fifo bursts can go on like that for ever", function()
    local t = support.rank { block_size = 3, num_blocks = 5, max_batched_tokens = 5, preemption = "fifo",
      preempting_pass_limit = 30, mtp = { mode = "burst", depth = 2, accept = { 1, 1 } } }
    t:submit(1, 2, 40)
    t:submit(2, 2, 40)
    local delivered = 0
    for _ = 1, 60 do
      local record = t:pass()
      if record.tokens[1] or record.tokens[2] then delivered = delivered + 1 end
      if t:state().livelock then break end
    end
    assert.is_true(t:state().livelock)
    assert.equal(2, delivered)
  end)

  it("E-T8 a run of such passes ends with an error", function()
    local sim = api.cluster(1, {
      scheduler = { max_batched_tokens = 5, preemption = "fifo" },
      kv_cache = { block_size = 3, capacity = { type = "fixed", blocks = 5 } },
      speculation = { mode = "burst", params = { depth = 2 }, acceptance_rates = { 1, 1 } },
    })
    for _ = 1, 2 do sim:submit { prompt_tokens = 2, output_tokens = 40 } end
    assert.error_matches(function() sim:run() end,
      "rank 1 preempted in 10000 passes in a row without delivering a token at t=%d+")
  end)

  it("E-T8 lifo and priority do not", function()
    for _, config in ipairs { { preemption = "lifo" }, { policy = "priority" } } do
      local t = support.rank { block_size = 3, num_blocks = 5, max_batched_tokens = 5, preempting_pass_limit = 30,
        preemption = config.preemption, policy = config.policy, mtp = { mode = "burst", depth = 2, accept = { 1, 1 } } }
      t:submit(1, 2, 7)
      t:submit(2, 2, 7)
      t:drain()
      assert.same({ "length", "length" }, { t:request(1).reason, t:request(2).reason })
    end
  end)
end)
