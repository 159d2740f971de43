--- aisim.search: bisection with confidence over seeds (spec/lua-api.md §10).
local aisim = require "aisim"
local experiment = require "aisim.experiment"
local scenario = require "aisim.scenario"
local search = require "aisim.search"

local S = aisim.scenario { params = { x = { 1.0, "number" }, n = { 1, "whole", integer = true } } }

--- Runs a search over a made-up metric `y`; y(value, seed) -> number.
local function run(options, y)
  options.goal = options.goal or "y < 10"
  local asked = {}
  local declared = experiment.check_search(scenario.record(S), options)
  local result = search.run(declared, experiment.seeds(declared.seeds, 1), function(value, seeds)
    local rows = {}
    for i, seed in ipairs(seeds) do
      rows[i] = { metrics = { y = y(value, seed) }, custom = { y = true } }
    end
    asked[#asked + 1] = value
    return rows
  end)
  return result, asked
end

describe("a search", function()
  it("ends within the tolerance below the largest value that meets the goal", function()
    for _, limit in ipairs { 3.21, 17.7, 99 } do
      local result = run({ param = "x", from = 1, to = 101, tolerance = 0.01 }, function(v) return 10 * v / limit end)
      assert.is_true(result.value < limit and result.beyond >= limit)
      assert.is_true(result.beyond - result.value <= 1)
      result = run({ param = "x", from = 1, to = 101, scale = "log" }, function(v) return 10 * v / limit end)
      assert.is_true(result.value < limit and result.beyond >= limit and result.beyond / result.value <= 1.02)
    end
  end)

  it("finds the smallest one as well", function()
    local result = run({ param = "x", from = 1, to = 101, find = "smallest" }, function(v) return 100 / v end)
    assert.is_true(result.value > 10 and result.value <= 12.1 and result.beyond <= 10)
    assert.matches("^smallest x that meets y < 10: ", result:answer())
  end)

  it("decides whole numbers exactly, few digits otherwise", function()
    local result = run({ param = "n", from = 1, to = 1000, tolerance = 1e-9 }, function(v) return v / 70 end)
    assert.same({ 699, 700 }, { result.value, result.beyond })
    local _, asked = run({ param = "x", from = 1, to = 3 }, function(v) return 5 * v end)
    for _, value in ipairs(asked) do assert.is_true(#("%.17g"):format(tonumber(("%.4g"):format(value))) > 0) end
    assert.equal(2, asked[3])
  end)

  it("says so when all values meet the goal, or none", function()
    local result = run({ param = "x", from = 1, to = 2 }, function() return 1 end)
    assert.same({ 2, nil, 2 }, { result.value, result.beyond, #result.probes })
    result = run({ param = "x", from = 1, to = 2 }, function() return 11 end)
    assert.same({ nil, 1, 1 }, { result.value, result.beyond, #result.probes })
    assert.equal("no value of x meets y < 10: 1 does not", result:answer())
  end)

  it("gives a probe more seeds while its interval contains the bound", function()
    local result = run({ param = "x", from = 1, to = 2, seeds = 3 }, function(v, seed)
      return v == 1 and 1 or 9.9 + (seed % 2 == 0 and -1 or 1)
    end)
    assert.same({ 3, true }, { result.probes[1].n, result.probes[1].sure })
    assert.same({ 12, false }, { result.probes[2].n, result.probes[2].sure })
  end)

  it("counts an undefined metric as missed", function()
    local result = run({ param = "x", from = 1, to = 2 }, function() return nil end)
    assert.is_nil(result.value)
    assert.is_nil(result.probes[1].mean)
  end)

  it("says what is wrong with it", function()
    local function fails(text, options)
      assert.error_matches(function() run(options, function() return 1 end) end, text)
    end
    fails("search.param: unknown parameter 'y'", { param = "y", from = 1, to = 2 })
    fails("search: from %(2%) must be below to %(1%)", { param = "x", from = 2, to = 1 })
    fails("search.scale = 'log': from must be > 0", { param = "x", from = 0, to = 1, scale = "log" })
    fails("search.goal: ", { param = "x", from = 0, to = 1, goal = "y" })
    fails("search.goal: unknown metric 'yy' %(did you mean 'y'%?%)", { param = "x", from = 0, to = 1, goal = "yy < 2" })
    fails("unknown key 'tolerence' %(did you mean 'tolerance'%?%)", { param = "x", from = 0, to = 1, tolerence = 1 })
  end)

  it("runs a scenario in this process", function()
    local T = aisim.scenario { params = { ms = { 10.0, "prefill", min = 0 }, late = { 0.0, "later" } } }
    function T.setup(sim, p)
      sim:pool { engine = {
        model = "llama-3.1-8b", kv_cache = { block_size = 16, capacity = { type = "fixed", blocks = 1000 } },
        timing = { type = "fixed", prefill_ms = p.ms + p.late, decode_ms = 1 },
      } }
      sim:submit { prompt_tokens = 20, output_tokens = 1 }
    end
    T.search = { param = "ms", from = 1, to = 65, goal = "ttft_ms.p99 <= 20", tolerance = 1e-9 }
    assert.near(20, aisim.search(T, { tolerance = 0.001 }).value, 0.1)
    assert.near(15, aisim.search(T, { tolerance = 0.001, set = { late = 5 } }).value, 0.1)
    assert.near(8, aisim.search(T, { goal = "ttft_ms.p99 <= 8", tolerance = 0.001 }).value, 0.1)
  end)
end)
