--- aisim.sweep: points, seeds, statistics (spec/lua-api.md §10).
local aisim = require "aisim"
local interval = require "aisim.interval"
local sweep = require "aisim.sweep"

--- One request per "n", one output token more per "seed": nothing random, so that numbers are known.
local function scenario(decl)
  decl = decl or {}
  decl.params = { n = { 2, "requests", integer = true }, ms = { 10.0, "prefill" }, kind = { "a", "text" } }
  local S = aisim.scenario(decl)
  function S.setup(sim, p)
    if p.n == 13 then aisim.fail "thirteen" end
    sim:pool { engine = {
      model = "llama-3.1-8b", kv_cache = { block_size = 16, capacity = { type = "fixed", blocks = 1000 } },
      timing = { type = "fixed", prefill_ms = p.ms, decode_ms = 1 },
    } }
    for i = 1, p.n do sim:submit { at_ms = 1000 * i, prompt_tokens = 20, output_tokens = sim.seed } end
  end
  return S
end

describe("the interval of a mean", function()
  it("is Student's t, 95 %", function()
    for df, t in pairs { [1] = 12.7062, [2] = 4.3027, [4] = 2.7764, [9] = 2.2622, [30] = 2.0423, [120] = 1.9799 } do
      assert.near(t, interval.quantile(df), 1e-4)
    end
    local of = interval.of { 1, 2, 3, 4 }
    assert.same({ 4, 2.5 }, { of.n, of.mean })
    assert.near(3.1824463 * of.std / 2, of.half, 1e-6)
    assert.is_nil(interval.of { 1, 2 }.half) -- too few
    assert.is_nil(interval.of {})
  end)
end)

describe("a sweep", function()
  it("runs grid × zip × seeds in a fixed order", function()
    local result = aisim.sweep(scenario(), {
      grid = { n = { 1, 2 } }, zip = { { "ms", "kind" }, { 5, "x" }, { 7, "y" } }, seeds = { 4, 2 },
      columns = { "total_output_tokens", "ttft_ms.mean" },
    })
    local order = {}
    for i, row in ipairs(result.rows) do
      order[i] = ("%d %g %s %d %d"):format(row.params.n, row.params.ms, row.params.kind, row.seed,
        row.metrics.total_output_tokens)
    end
    assert.same({ "1 5 x 4 4", "1 5 x 2 2", "1 7 y 4 4", "1 7 y 2 2", "2 5 x 4 8", "2 5 x 2 4", "2 7 y 4 8",
      "2 7 y 2 4" }, order)
    assert.equal(6, result.points[3].statistics.total_output_tokens.mean)
    assert.equal(7, result.points[4].statistics["ttft_ms.mean"].mean)
  end)

  it("takes what is left out from S.sweep, leaves skipped points out, fixes others", function()
    local S = scenario { sweep = { grid = { n = { 1, 2, 3 } }, skip = function(p) return p.n == p.ms end, seeds = 3 } }
    local seen = {}
    local result = aisim.sweep(S, { set = { ms = 2 }, each = function(row, run)
      seen[#seen + 1] = row.seed .. ":" .. run.metrics.completed_requests
    end })
    assert.same({ "1:1", "2:1", "3:1", "1:3", "2:3", "3:3" }, seen)
    assert.same({ "n" }, result.names)
    assert.error_matches(function() aisim.sweep(S, { set = { n = 2 } }) end, "the sweep varies 'n'")
  end)

  it("marks the points that nothing beats: times smaller, everything else larger", function()
    local result = aisim.sweep(scenario(), {
      grid = { ms = { 1, 5 }, n = { 1, 2 } }, pareto = { x = "ttft_ms.mean", y = "completed_requests" },
    })
    local marks = {}
    for i, point in ipairs(result.points) do marks[i] = point.pareto end
    assert.same({ false, true, false, false }, marks)
  end)

  it("counts expectations per point", function()
    local S = scenario { expect = { "total_output_tokens >= 2" } }
    local result = aisim.sweep(S, { grid = { n = { 1, 2 } }, seeds = 2 })
    assert.same({ false, true, true, true }, { result.rows[1].met, result.rows[2].met, result.rows[3].met,
      result.rows[4].met })
    assert.matches("1 of 2", result:table())
  end)

  it("reads back what it has written", function()
    local result = aisim.sweep(scenario(), { grid = { n = { 1, 2 } }, seeds = 3 })
    local text = result:json()
    assert.equal(text, require("aisim.sweep_result").of_value(aisim.json.decode(text)):json())
    local rows, columns = aisim.csv.decode(result:csv())
    assert.same({ "point", "n", "seed", "status", "error" }, table.move(columns, 1, 5, 1, {}))
    assert.equal(result.rows[6].metrics["ttft_ms.p99"], rows[6]["ttft_ms.p99"])
  end)

  it("names point and seed of an error", function()
    assert.error_matches(function() aisim.sweep(scenario(), { grid = { n = { 1, 13 } }, seeds = { 5 } }) end,
      "thirteen\n  in point n=13, seed 5")
  end)

  it("says what is wrong with it", function()
    local S = scenario()
    for text, options in pairs {
      ["unknown parameter 'm'"] = { grid = { m = { 1 } } },
      ["sweep.grid.n: list of values expected"] = { grid = { n = {} } },
      ["must be an integer"] = { grid = { n = { 1.5 } } },
      ["parameter 'n' is in grid and in zip"] = { grid = { n = { 1 } }, zip = { { "n" }, { 2 } } },
      ["seeds: seed 3 twice"] = { seeds = { 3, 3 } },
      ["sweep.seeds: a number of seeds >= 1"] = { seeds = 0 },
      ["unknown metric 'ttft_ms.maen' %(did you mean 'ttft_ms.mean'%?%)"] = { seeds = 1, columns = { "ttft_ms.maen" } },
      ["unknown key 'gird' %(did you mean 'grid'%?%)"] = { gird = {} },
    } do
      assert.error_matches(function() aisim.sweep(S, options) end, text)
    end
    assert.error_matches(function() aisim.sweep {} end, "aisim.sweep: scenario expected")
  end)

  it("has an identity that depends on everything that decides a run", function()
    local function id(file, values, configuration, seed)
      return sweep.identity(file, values, configuration, seed)
    end
    local base = id("text", { a = 1, b = "x" }, {}, 1)
    assert.equal(base, id("text", { b = "x", a = 1 }, {}, 1))
    for _, other in ipairs { id("texts", { a = 1, b = "x" }, {}, 1), id("text", { a = 2, b = "x" }, {}, 1),
      id("text", { a = 1, b = "y" }, {}, 1), id("text", { a = 1, b = "x" }, {}, 2),
      id("text", { a = 1, b = "x" }, { { key = "engine.model", value = "z" } }, 1) } do
      assert.are_not.equal(base, other)
    end
  end)
end)

describe("a folder", function()
  it("gives the metrics of the run that wrote it", function()
    local sim = aisim.new { seed = 3 }
    scenario().setup(sim, { n = 3, ms = 4 })
    sim:submit { prompt_tokens = 20, output_tokens = 5, class = "other.class" }
    local c = sim:counter { name = "c", by = "kind" }
    sim:on("request.finish", function() c:add(2, "a.b") end)
    sim:hist { name = "h" }
    sim:ratio { name = "r", num = "c", den = "c" }
    sim:derive { name = "d", value = function(m) return m.c.total / 3 end }
    sim:series { name = "s", every_ms = 100, value = function() return 1 end }
    local run = sim:run()
    local read = require("aisim.folder").metrics(aisim.json.decode(run:json()))
    assert.same(run.metrics, read)
  end)
end)
