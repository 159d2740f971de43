--- aisim.compare: absolute and relative differences, paired intervals, thresholds (spec/lua-api.md §11).
local aisim = require "aisim"

--- A run of one request whose first token takes `ms`.
local function run(ms, seed, metric)
  local sim = aisim.new { seed = seed }
  sim:pool { engine = {
    model = "llama-3.1-8b", kv_cache = { block_size = 16, capacity = { type = "fixed", blocks = 1000 } },
    timing = { type = "fixed", prefill_ms = ms, decode_ms = 1 },
  } }
  sim:submit { prompt_tokens = 20, output_tokens = 1 }
  if metric then sim:derive { name = metric, value = function() return ms end } end
  return sim:run()
end

local function row_of(result, name)
  for _, row in ipairs(result.rows) do
    if row.metric == name then return row end
  end
end

describe("a comparison", function()
  it("of two runs has differences and no interval", function()
    local result = aisim.compare(run(10, 1), run(12, 1), { metrics = { "ttft_ms.mean", "good_fraction" } })
    local row = row_of(result, "ttft_ms.mean")
    assert.same({ 10, 12, 2, 0.2, 1 }, { row.a, row.b, row.difference, row.relative, row.n })
    assert.is_nil(row.low)
    assert.is_nil(row_of(result, "good_fraction").difference)
  end)

  it("pairs runs by seed, whatever their order", function()
    local a = { run(10, 1), run(20, 2), run(30, 3), run(5, 8) }
    local b = { run(33, 3), run(11, 1), run(22, 2) }
    local row = row_of(aisim.compare(a, b), "ttft_ms.mean")
    assert.same({ 3, 2 }, { row.n, row.difference }) -- +1, +2, +3
    assert.near(4.3027 / math.sqrt(3), row.high - 2, 1e-4)
    assert.near(2 - 4.3027 / math.sqrt(3), row.low, 1e-4)
  end)

  it("of runs without a common seed is one of means", function()
    local result = aisim.compare({ run(10, 1), run(20, 2) }, { run(30, 3) })
    local row = row_of(result, "ttft_ms.mean")
    assert.same({ 0, 15, 30, 15 }, { row.n, row.a, row.b, row.difference })
    assert.matches("no seed is on both sides", result:summary())
  end)

  it("goes point by point through sweeps", function()
    local S = aisim.scenario { params = { ms = { 1.0, "prefill" }, more = { 0.0, "on top" } } }
    function S.setup(sim, p)
      sim:pool { engine = {
        model = "llama-3.1-8b", kv_cache = { block_size = 16, capacity = { type = "fixed", blocks = 1000 } },
        timing = { type = "fixed", prefill_ms = p.ms + p.more, decode_ms = 1 },
      } }
      sim:submit { prompt_tokens = 20, output_tokens = 1 }
    end
    local a = aisim.sweep(S, { grid = { ms = { 1, 2, 4 } }, columns = { "ttft_ms.mean" } })
    local b = aisim.sweep(S, { grid = { ms = { 2, 1 } }, set = { more = 3 }, columns = { "ttft_ms.mean" } })
    local result = aisim.compare(a, b)
    assert.same({ { "ms=1", 3, 3 }, { "ms=2", 3, 1.5 } }, { { result.rows[1].point, result.rows[1].difference,
      result.rows[1].relative }, { result.rows[2].point, result.rows[2].difference, result.rows[2].relative } })
    assert.equal(1, result.unmatched)
  end)

  it("adds the scenario's own metrics", function()
    assert.equal(2, row_of(aisim.compare(run(10, 1, "mine"), run(12, 1, "mine")), "mine").difference)
  end)

  it("judges thresholds: of either sign, of one, relative or not", function()
    local a, b = run(100, 1), run(110, 1)
    local limits = { ["5%"] = false, ["10%"] = true, ["+5%"] = false, ["-5%"] = true, ["9.9"] = false, ["+10"] = true }
    for limit, ok in pairs(limits) do
      assert.equal(ok, aisim.compare(a, b, { thresholds = { ["ttft_ms.mean"] = limit } }).ok, limit)
    end
    assert.is_false(aisim.compare(b, a, { thresholds = { ["ttft_ms.mean"] = "-5%" } }).ok)
  end)

  it("says what is wrong with it", function()
    local a = run(1, 1)
    assert.error_matches(function() aisim.compare(a, 3) end, "compare: b: run, list of runs, sweep or path")
    assert.error_matches(function() aisim.compare(a, a, { metrics = { "ttft_ms.maen" } }) end,
      "unknown metric 'ttft_ms.maen' %(did you mean 'ttft_ms.mean'%?%)")
    assert.error_matches(function() aisim.compare(a, a, { thresholds = { ["ttft_ms.p99"] = "much" } }) end,
      "threshold of ttft_ms.p99: 'much': write 5%%")
    assert.error_matches(function() aisim.compare(a, "/nowhere") end, "no such folder")
  end)
end)
