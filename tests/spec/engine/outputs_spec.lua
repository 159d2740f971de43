--- Tokens, endings and the time of a pass (spec/engine.md §6).
local support = dofile "tests/spec/engine/support.lua"
local api = dofile "tests/spec/lua/support.lua"

describe("tokens", function()
  it("E-O1 come when the known tokens are computed: the first from the prompt's last pass", function()
    local t = support.rank { max_batched_tokens = 8 }
    t:submit(1, 8, 2)
    local record = t:pass()
    assert.equal(8, record.scheduled[1])
    assert.equal(1, record.tokens[1])
    record = t:pass()
    assert.same({ 1, 1, "length" }, { record.scheduled[1], record.tokens[1], record.ended[1] })
  end)

  it("E-O1 do not come from a chunk inside the prompt", function()
    local t = support.rank { max_batched_tokens = 8 }
    t:submit(1, 16, 1)
    assert.is_nil(t:pass().tokens[1])
    assert.equal(1, t:pass().tokens[1])
  end)

  it("E-O1 dangle: no capacity before the next pass computes them", function()
    local t = support.rank()
    t:submit(1, 4, 3)
    t:pass()
    local view = t:request(1)
    assert.same({ 5, 4, 4, 1 }, { view.known, view.computed, view.watermark, view.owned })
    t:pass()
    view = t:request(1)
    assert.same({ 6, 5, 5, 2 }, { view.known, view.computed, view.watermark, view.owned })
  end)

  it("E-O1 the last one needs no block", function()
    local t = support.rank { num_blocks = 2 }
    t:submit(1, 8, 1)
    assert.equal("length", t:pass().ended[1])
  end)

  it("E-O2 end with the context limit", function()
    local t = support.rank { max_model_len = 8 }
    t:submit(1, 7, 4)
    local record = t:pass()
    assert.same({ 1, "context" }, { record.tokens[1], record.ended[1] })
  end)

  it("E-O2 the last one frees the blocks for the next pass", function()
    local t = support.rank { num_blocks = 2 }
    t:submit(1, 8, 1)
    t:submit(2, 8, 1)
    assert.same({ [1] = "length" }, t:pass().ended)
    assert.equal(0, t:blocks()[1])
    assert.same({ [2] = "length" }, t:pass().ended)
  end)
end)

describe("the pass end", function()
  it("E-O3 shows everything at once, nothing before", function()
    local t = support.rank { max_model_len = 20 }
    t:submit(1, 4, 1)
    t:submit(2, 12, 2)
    t:submit(3, 20, 1)
    local batch = t:plan()
    assert.same({ 0, 0 }, { t:request(1).generated, t:request(2).generated })
    assert.equal("", t:request(1).reason)
    local record = t:complete(batch)
    assert.same({ [1] = 1, [2] = 1 }, record.tokens)
    assert.same({ [1] = "length", [3] = "rejected:context" }, record.ended)
  end)

  it("E-O3 orders endings: without a token, by last tokens in running order, rejections", function()
    local t = support.rank { max_model_len = 20 }
    t:submit(1, 20, 1)
    t:submit(2, 4, 1)
    t:submit(3, 4, 1)
    t:submit(4, 4, 0)
    local order = {}
    for i, finished in ipairs(t:pass().finished) do order[i] = finished.id end
    assert.same({ 4, 2, 3, 1 }, order)
  end)
end)

describe("the price of a pass", function()
  --- Shapes {n_prefill, new tokens, past tokens, n_decode, context tokens} the timing model is asked for.
  local function shapes(engine, submits)
    local calls = {}
    local function timing(n_prefill, new, past, n_decode, context)
      calls[#calls + 1] = { n_prefill, new, past, n_decode, context }
      return 1
    end
    local extra = { timing = timing }
    for key, value in pairs(engine or {}) do extra[key] = value end
    local sim = api.cluster(1, extra)
    for _, submit in ipairs(submits) do sim:submit(submit) end
    sim:run()
    return calls
  end

  it("E-O4 leaves the first token out of the decode part: the prompt's forward holds it", function()
    assert.same({ { 1, 8, 0, 0, 0 }, { 0, 0, 0, 1, 9 } }, shapes({}, { { prompt_tokens = 8, output_tokens = 2 } }))
  end)

  it("E-O4 counts chunks with what was computed before", function()
    local calls = shapes({ scheduler = { max_batched_tokens = 8 } }, { { prompt_tokens = 12, output_tokens = 1 } })
    assert.same({ { 1, 8, 0, 0, 0 }, { 1, 4, 8, 0, 0 } }, calls)
  end)

  it("E-O4 a mixed pass has both parts", function()
    local calls = shapes({}, {
      { prompt_tokens = 8, output_tokens = 3 },
      { at_ms = 0.5, prompt_tokens = 20, output_tokens = 1 },
    })
    assert.same({ 1, 20, 0, 1, 9 }, calls[2])
  end)

  it("E-O4 a resumed context is prefill work, its generated tokens too (D3)", function()
    local calls = shapes({
      kv_cache = { block_size = 4, prefix_caching = false, capacity = { type = "fixed", blocks = 6 } },
    }, { { prompt_tokens = 8, output_tokens = 6 }, { prompt_tokens = 8, output_tokens = 6 } })
    local last = calls[#calls]
    assert.same({ 1, 13, 0, 0, 0 }, last)
  end)

  it("E-O4 a resume is prefill work also when only generated tokens are missing", function()
    local calls = shapes({
      scheduler = { preemption = "fifo" },
      kv_cache = { block_size = 4, capacity = { type = "fixed", blocks = 6 } },
    }, { { prompt_tokens = 6, output_tokens = 5 }, { prompt_tokens = 10, output_tokens = 4 } })
    -- the first has 9 tokens when it loses its blocks, 8 of them are found again
    assert.same({ 1, 1, 8, 0, 0 }, calls[5])
    assert.same({ 0, 0, 0, 1, 10 }, calls[6])
  end)

  it("E-O4 a burst pays its verification in the pass of the prompt too", function()
    local calls = shapes({ speculation = { mode = "burst", params = { depth = 2 }, acceptance_rates = { 1, 1 } } },
      { { prompt_tokens = 8, output_tokens = 3 } })
    assert.same({ { 1, 8, 0, 1, 8 } }, calls)
  end)

  it("E-O5 a request that arrives during a pass waits for the next one", function()
    local sim = api.cluster(1)
    local admitted = {}
    sim:on("pass.begin", function(t, _, waiting) admitted[#admitted + 1] = { t, waiting } end)
    sim:submit { prompt_tokens = 8, output_tokens = 1 } -- 0 to 10 ms
    sim:submit { at_ms = 3, prompt_tokens = 8, output_tokens = 1 }
    sim:run()
    assert.same({ { 0, 1 }, { 10, 1 } }, admitted)
  end)

  it("E-O5 a request submitted between plan and completion is in neither", function()
    local t = support.rank()
    t:submit(1, 4, 1)
    local batch = t:plan()
    t:submit(2, 4, 1)
    assert.same({ [1] = 1 }, t:complete(batch).tokens)
    assert.same({ [2] = 1 }, t:pass().tokens)
  end)
end)
