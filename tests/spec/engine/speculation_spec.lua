--- Speculative decoding: draws, the native scheme, the burst scheme (spec/engine.md §12, spec/mtp.md).
local support = dofile "tests/spec/engine/support.lua"
local api = dofile "tests/spec/lua/support.lua"
local tokens = support.tokens

local function rank(mode, depth, accept, config)
  local all = { mtp = { mode = mode, depth = depth, accept = accept } }
  for key, value in pairs(config or {}) do all[key] = value end
  return support.rank(all)
end

local ALL <const>, NONE <const> = { 1, 1, 1, 1, 1 }, { 0, 0, 0, 0, 0 }

describe("acceptance", function()
  --- Tokens of one verification, base included.
  local function emitted(rates) return 1 + support.draw(42, 0, 0, 0, rates) end

  it("mtp §2 stops at the first rejection; certain rates need no draw", function()
    assert.same({ 1, 3, 2 }, { emitted { 0, 1 }, emitted { 1, 1 }, emitted { 1, 0, 1 } })
  end)

  it("mtp §2 is a function of seed, rank, request and verification", function()
    local drafts = {}
    for step = 0, 15 do drafts[step + 1] = support.draw(42, 0, 0, step, { 1, 0.5 }) end
    assert.same({ 1, 1, 1, 1, 2, 2, 1, 1, 1, 1, 1, 2, 1, 1, 2, 1 }, drafts)
  end)

  it("mtp §2 differs between seeds, ranks and requests", function()
    local function sequence(seed, of_rank, request)
      local list = {}
      for step = 0, 63 do list[step + 1] = support.draw(seed, of_rank, request, step, { 0.5 }) end
      return table.concat(list)
    end
    local base = sequence(42, 0, 0)
    assert.equal(base, sequence(42, 0, 0))
    assert.not_equal(base, sequence(43, 0, 0))
    assert.not_equal(base, sequence(42, 1, 0))
    assert.not_equal(base, sequence(42, 0, 1))
  end)

  it("mtp §1 has the mean 1 + sum of the products", function()
    local sum, n = 0, 20000
    for step = 0, n - 1 do sum = sum + 1 + support.draw(7, 0, 0, step, { 0.7, 0.5, 0.2 }) end
    assert.is_true(math.abs(sum / n - 2.12) < 0.02)
  end)

  it("mtp §1 a mean is ones, the fraction, zeros", function()
    local function run(speculation)
      local sim = api.cluster(1, { speculation = speculation })
      local seen = {}
      sim:on("request.tokens", function(t, id, _, n) seen[#seen + 1] = ("%g:%d:%d"):format(t, id, n) end)
      for _ = 1, 4 do sim:submit { prompt_tokens = 8, output_tokens = 40 } end
      sim:run()
      return table.concat(seen, " ")
    end
    for _, case in ipairs { { 3, 1.99, { 1, 0.99 } }, { 2, 1.5, { 1, 0.5 } }, { 3, 2.4, { 1, 1, 0.4 } },
      { 1, 0, { 0 } } } do
      local by_mean = run { params = { depth = case[1] }, expected_accepted_tokens = case[2] }
      local by_rates = run { params = { depth = case[1] }, acceptance_rates = case[3] }
      assert.equal(by_rates, by_mean)
    end
  end)

  it("mtp §1 missing rates are zero", function()
    local t = rank("native", 3, { 1 })
    t:submit(1, 4, 20)
    t:pass()
    assert.equal(2, t:pass().tokens[1])
  end)

  it("mtp §2 goes on counting verifications after a preemption", function()
    local function sequence(preempting)
      local t = rank("native", 2, { 1, 0.5 })
      t:submit(1, 4, 60)
      local list = {}
      for pass = 1, 12 do
        if preempting and pass == 6 then t:reset(true) end
        local record = t:pass()
        if record.items_of[1].drafts > 0 then list[#list + 1] = record.tokens[1] end
      end
      return table.concat(list, "", 1, 9)
    end
    assert.equal(sequence(false), sequence(true))
  end)
end)

describe("native speculation", function()
  local function row(t, record)
    local view, item = t:request(1), record.items_of[1]
    return { item.tokens, item.drafts, item.slots, view.owned, view.opaque, record.tokens[1], view.known,
      view.computed }
  end

  it("mtp §3 schedules base and drafts, takes slots for the look-ahead", function()
    local t = rank("native", 2, ALL)
    t:submit(1, 5, 20)
    assert.same({ 5, 0, 5, 2, 0, 1, 6, 5 }, row(t, t:pass()))
    assert.same({ 3, 2, 10, 3, 1, 3, 9, 8 }, row(t, t:pass()))
    assert.same({ 3, 2, 13, 4, 1, 3, 12, 11 }, row(t, t:pass()))
  end)

  it("mtp §3 a small budget cuts drafts, not the base token", function()
    local t = rank("native", 3, ALL, { max_batched_tokens = 3 })
    t:submit(1, 3, 20)
    t:pass()
    local record = t:pass()
    assert.same({ 3, 2 }, { record.scheduled[1], record.items_of[1].drafts })
    t:set_budget(1)
    record = t:pass()
    assert.same({ 1, 0, 1 }, { record.scheduled[1], record.items_of[1].drafts, record.tokens[1] })
  end)

  it("mtp §3 slots and outputs end at the model length", function()
    local t = rank("native", 2, ALL, { max_model_len = 10 })
    t:submit(1, 6, 20)
    t:pass()
    local record = t:pass()
    assert.same({ 10, 3, "context" }, { record.items_of[1].slots, record.tokens[1], record.ended[1] })
    assert.equal(10, t:request(1).known)
  end)

  it("mtp §3 §7 the last verification has full width; what is too much is dropped", function()
    local t = rank("native", 3, ALL)
    t:submit(1, 4, 3)
    t:pass()
    local record = t:pass()
    assert.same({ 4, 2, "length" }, { record.scheduled[1], record.tokens[1], record.ended[1] })
    assert.same({ 1, 4 }, { t:state().decode_forwards, t:state().accepted_including_base })
  end)

  it("E-M4 mtp §4 keeps look-ahead blocks after a rejection and binds them later", function()
    local t = rank("native", 2, NONE)
    t:submit(1, 5, 20)
    local seen = {}
    for pass = 1, 5 do
      local _, record = t:plan()
      seen[pass] = { record.items_of[1].slots, (t:request(1).watermark + 3) // 4, t:request(1).opaque,
        t:blocks()[1] }
      t:complete(pass - 1)
    end
    assert.same({ { 5, 2, 0, 2 }, { 10, 2, 1, 3 }, { 11, 2, 1, 3 }, { 12, 2, 1, 3 }, { 13, 3, 1, 4 } }, seen)
  end)

  it("mtp §4 a chunked prefill has look-ahead from its second chunk on", function()
    local t = rank("native", 2, NONE, { max_batched_tokens = 4 })
    t:submit(1, 11, 20)
    local seen = {}
    for pass = 1, 4 do
      local _, record = t:plan()
      local view = t:request(1)
      seen[pass] = { record.items_of[1].slots, view.watermark, (view.watermark + 3) // 4, view.opaque }
      t:complete(pass - 1)
    end
    assert.same({ { 4, 4, 1, 0 }, { 10, 10, 3, 0 }, { 13, 11, 3, 1 }, { 16, 12, 3, 1 } }, seen)
  end)

  it("R16 first_chunk_lookahead gives the first chunk look-ahead too", function()
    local t = rank("native", 2, NONE, { first_chunk_lookahead = true })
    t:submit(1, 4, 20)
    assert.equal(6, t:pass().items_of[1].slots)
  end)

  it("R15 lookahead_slots is how many slots beyond the share are taken", function()
    local t = rank("native", 2, NONE, { lookahead_slots = 7 })
    t:submit(1, 4, 20)
    t:pass()
    assert.equal(4 + 3 + 7, t:pass().items_of[1].slots)
  end)

  it("R17 pad_first_decode widens the first decode after a near-total hit", function()
    for pad, width in pairs { [false] = 1, [true] = 3 } do
      local t = rank("native", 2, NONE, { pad_first_decode = pad, drop_matched_block = false })
      t:cache(1, tokens(8))
      t:submit(2, tokens(9), 5)
      assert.equal(width, t:pass().scheduled[2])
    end
  end)

  it("mtp §5 a drafter's lost block counts at admission", function()
    for drop, admitted in pairs { [true] = false, [false] = true } do
      local t = rank("native", 2, NONE, { num_blocks = 3, drop_matched_block = drop })
      t:submit(1, tokens(8), 1, { hold = true })
      t:pass()
      t:submit(2, tokens(12), 1)
      assert.equal(admitted, t:pass().reused[2] ~= nil)
    end
  end)

  it("mtp §5 publishes known tokens only, never drafts", function()
    local t = rank("native", 2, ALL)
    t:submit(1, 5, 20)
    t:passes(2)
    assert.same({ 9, 8 }, { t:request(1).known, t:request(1).computed })
    assert.equal(1, t:request(1).published) -- when planned only 6 tokens were known
    t:plan()
    assert.equal(2, t:request(1).published) -- min(11, 9) / 4
  end)

  it("N5 a request whose look-ahead cannot fit even alone is rejected", function()
    local t = rank("native", 5, NONE, { num_blocks = 3 })
    t:submit(1, 8, 9)
    assert.equal(1, t:pass().tokens[1])
    assert.equal("rejected:capacity", t:pass().ended[1])
  end)

  it("mtp §9 a preemption loses drafts and slots, not tokens", function()
    local t = rank("native", 2, ALL)
    t:submit(1, 12, 30)
    t:pass()
    t:complete(t:plan(), { { serial = t:request(1).serial, tokens = 1 } })
    assert.same({ 14, 13, 5, 1, 2 }, { t:request(1).known, t:request(1).computed, t:request(1).owned,
      t:request(1).opaque, t:request(1).drafts })
    t:reset(true)
    local view = t:request(1)
    assert.same({ 14, 0, 0, 0, 0 }, { view.known, view.computed, view.owned, view.opaque, view.drafts })
    assert.equal(14, t:pass().items_of[1].slots)
  end)
end)

describe("burst speculation", function()
  it("E-M1 costs one token of the budget and verifies with the prompt's last pass", function()
    local t = rank("burst", 2, ALL)
    t:submit(1, 5, 7)
    local seen = {}
    for i, record in ipairs(t:drain()) do seen[i] = { record.scheduled[1], record.tokens[1] } end
    assert.same({ { 5, 3 }, { 1, 3 }, { 1, 1 } }, seen)
    assert.same({ 2, 6 }, { t:state().decode_forwards, t:state().accepted_including_base })
  end)

  it("E-M1 E-M3 unused blocks go back: one token, C = L - 1, A = L", function()
    local t = rank("burst", 2, NONE, { block_size = 2 })
    t:submit(1, 3, 9)
    local batch = t:plan()
    assert.equal(3, t:blocks()[1]) -- 3 + 3 tokens
    assert.equal(1, t:complete(batch).tokens[1])
    local view = t:request(1)
    assert.same({ 4, 3, 4 }, { view.known, view.computed, view.watermark })
    assert.equal(2, t:blocks()[1])
  end)

  it("E-M3 rejected drafts never count as computed", function()
    local t = rank("burst", 2, ALL)
    t:submit(1, 4, 9)
    assert.equal(3, t:pass().tokens[1])
    assert.same({ 7, 6 }, { t:request(1).known, t:request(1).computed })
  end)

  it("E-M1 all ready requests reserve together; the victim's prefill has run", function()
    local t = rank("burst", 2, ALL, { num_blocks = 3 })
    t:submit(1, tokens(4), 9)
    t:submit(2, tokens(4, 50), 9)
    local record = t:pass()
    assert.same({ [1] = 4, [2] = 4 }, record.scheduled)
    assert.same({ 2 }, record.victims)
    assert.same({ [1] = 3 }, record.tokens)
    t:cancel(2)
    t:cancel(1)
    t:submit(3, tokens(8, 50), 0)
    assert.equal(4, t:pass().reused[3]) -- what it computed stays cached
  end)

  it("E-M2 tokens of one verification share the time of the pass end", function()
    local sim = api.cluster(1, {
      speculation = { mode = "burst", params = { depth = 2 }, acceptance_rates = { 1, 1 } },
    })
    local seen = {}
    sim:on("request.tokens", function(t, id, _, n) seen[#seen + 1] = { t, id, n } end)
    sim:submit { prompt_tokens = 8, output_tokens = 3 }
    sim:submit { prompt_tokens = 8, output_tokens = 3 }
    local run = sim:run()
    assert.same({ { 14, 1, 3 }, { 14, 2, 3 } }, seen)
    assert.same({ 4, 0.0, 0.0 }, { run.metrics["token_gap_ms.n"], run.metrics["token_gap_ms.min"],
      run.metrics["token_gap_ms.max"] })
  end)

  it("E-M5 a burst that cannot fit even alone ends the request before any token", function()
    local t = rank("burst", 5, ALL, { num_blocks = 4, state_cache = { mode = "latest", blocks = 1 } })
    t:submit(1, 8, 9)
    local record = t:pass()
    assert.equal("rejected:capacity", record.ended[1])
    assert.same({}, record.tokens)
    assert.same({}, record.victims)
  end)
end)
