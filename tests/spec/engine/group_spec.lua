--- Ranks in lock step: common pass end, deferred prefills (spec/engine.md §14).
local support = dofile "tests/spec/engine/support.lua"
local api = dofile "tests/spec/lua/support.lua"

--- Two ranks of one worker; a request goes to the rank that its tag names.
local function group(extra)
  local engine = { parallelism = { attention_data = 2 } }
  for key, value in pairs(extra or {}) do engine[key] = value end
  local sim = api.cluster(1, engine)
  sim:router(function(req) return req.tag end)
  return sim
end

describe("a group of ranks", function()
  it("E-G1 ends its pass with the slowest rank; outputs of all appear then", function()
    for slow = 1, 2 do -- whichever it is
      local sim = group { timing = function(_, new) return new == 8 and 12 or 30.5 end }
      local tokens = {}
      sim:on("request.tokens", function(t, id, rank) tokens[id] = { t, rank } end)
      for rank = 1, 2 do
        sim:submit { prompt_tokens = rank == slow and 16 or 8, output_tokens = 1, tag = rank }
      end
      sim:run()
      assert.same({ { 30.5, 1 }, { 30.5, 2 } }, tokens)
    end
  end)

  it("E-G1 holds idle ranks until the common end", function()
    local sim = group { timing = function() return 10 end }
    local first = {}
    sim:on("request.admit", function(_, id, _, _, wait) first[id] = wait end)
    sim:submit { prompt_tokens = 8, output_tokens = 1, tag = 1 }
    sim:submit { at_ms = 4, prompt_tokens = 8, output_tokens = 1, tag = 2 }
    sim:run()
    assert.same({ 0, 6 }, first)
  end)

  it("E-G4 a request that one rank refuses leaves the other alone", function()
    local sim = group()
    local ends = {}
    sim:on("request.finish", function(_, id, _, reason) ends[id] = reason end)
    sim:on("request.reject", function(_, id, _, reason) ends[id] = reason end)
    sim:submit { prompt_tokens = 8, output_tokens = 2, tag = 1 }
    sim:submit { prompt_tokens = 5000, output_tokens = 2, tag = 2 }
    sim:submit { prompt_tokens = 8, output_tokens = 2, tag = 2 }
    sim:run()
    assert.same({ "length", "capacity", "length" }, ends)
  end)
end)

describe("deferring prefills", function()
  --- A rank with interval 4; a decoding request when `decoding`.
  local function rank(decoding)
    local t = support.rank { prefill_interval = 4, max_seqs = 2, max_batched_tokens = 8 }
    t:cache(9, support.tokens(8))
    if decoding then
      t:submit(1, 4, 30)
      t:pass()
    end
    return t
  end

  it("E-G2 happens in passes off the interval", function()
    local t = rank(true)
    assert.same({ false, true, true, true, false },
      { t:defers(2, 0), t:defers(2, 1), t:defers(2, 2), t:defers(2, 3), t:defers(2, 4) })
  end)

  it("E-G2 needs a group and a request that decodes", function()
    assert.is_false(rank(true):defers(1, 1))
    assert.is_false(rank(false):defers(2, 1))
    local t = rank(false)
    t:submit(1, 12, 3) -- two chunks
    t:pass()
    assert.is_false(t:defers(2, 1)) -- prefills itself
    t:pass()
    assert.is_true(t:defers(2, 1))
  end)

  it("E-G2 E-P17 does not happen while requests were left over", function()
    local t = rank(true)
    t:submit(2, 4, 30)
    t:submit(3, 4, 30)
    t:pass() -- two running, one waits
    assert.is_false(t:defers(2, 5))
    t:cancel(3)
    t:pass()
    assert.is_true(t:defers(2, 5))
  end)

  it("E-G3 skips prompts that are not complete and heads with more than one token to do", function()
    local t = rank(true)
    t:submit(2, 12, 1)
    t:pass() -- seven tokens of it
    assert.same({ [1] = 1 }, t:pass(true).scheduled)
    t:pass()
    t:submit(3, support.tokens(9), 1)
    t:submit(4, support.tokens(10), 1)
    assert.same({ [1] = 1, [3] = 1 }, t:pass(true).scheduled)
  end)

  --- Passes of 1 ms: the pass of wave step n begins at n ms. Begins of the chunks of request 2.
  local function chunk_steps(scheduler, more)
    local sim = group { timing = function() return 1 end, scheduler = scheduler }
    local steps = {}
    sim:on("request.chunk", function(t, id)
      if id == 2 then steps[#steps + 1] = t - 1 end
    end)
    sim:submit { prompt_tokens = 4, output_tokens = 20, tag = 1 }
    sim:submit { at_ms = 0.5, prompt_tokens = 12, output_tokens = 9, tag = 1 }
    for _ = 1, more or 0 do sim:submit { at_ms = 0.5, prompt_tokens = 4, output_tokens = 1, tag = 1 } end
    sim:run()
    return steps
  end

  it("E-G2 admits at every fourth step only, and computes the second chunk at the one after", function()
    assert.same({ 4, 8 }, chunk_steps { max_batched_tokens = 8, max_sequences = 2, prefill_schedule_interval = 4 })
    assert.same({ 1, 2 }, chunk_steps { max_batched_tokens = 8, max_sequences = 2, prefill_schedule_interval = 1 })
  end)

  it("E-P17 goes on at the next step when the queue stayed non-empty", function()
    assert.same({ 4, 5 }, chunk_steps({ max_batched_tokens = 8, max_sequences = 2, prefill_schedule_interval = 4 }, 1))
  end)

  it("E-G2 counts steps from 0 again after the group was drained", function()
    local sim = group { timing = function() return 1 end,
      scheduler = { max_batched_tokens = 8, max_sequences = 2, prefill_schedule_interval = 4 } }
    local first = {}
    sim:on("request.first_token", function(_, id, _, ttft) first[id] = ttft end)
    sim:submit { prompt_tokens = 4, output_tokens = 2, tag = 1 } -- steps 0 and 1
    sim:submit { at_ms = 10, prompt_tokens = 4, output_tokens = 9, tag = 1 } -- step 0
    sim:submit { at_ms = 10.5, prompt_tokens = 4, output_tokens = 1, tag = 1 } -- waits for step 4
    sim:run()
    assert.same({ 1, 1, 4.5 }, first)
  end)
end)
