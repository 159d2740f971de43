--- Timers, the end of a run, stopping (spec/lua-api.md §6).
local support = dofile "tests/spec/lua/support.lua"

describe("timers", function()
  it("take texts with units and give the time in ms", function()
    local sim = support.cluster()
    local seen = {}
    sim:at("2s", function(t) seen[#seen + 1] = t end)
    sim:after("250ms", function(t) seen[#seen + 1] = t end)
    sim:run()
    assert.same({ 250, 2000 }, seen)
  end)

  it("can be removed, also by themselves", function()
    local sim = support.cluster()
    local n = 0
    local removed = sim:at(10, function() n = n + 100 end)
    removed:remove()
    local every
    every = sim:every(5, function() n = n + 1 if n == 3 then every:remove() end end)
    sim:at(100, function() end)
    sim:run()
    assert.equal(3, n)
  end)

  it("in the past are an error", function()
    local sim = support.cluster()
    sim:at(10, function() sim:at(5, print) end)
    assert.error_matches(function() sim:run() end, "sim:at: 5 ms is before now %(10 ms%)")
  end)

  it("refuse what is no time", function()
    local sim = support.cluster()
    assert.equal("scenarios/a.lua:1: sim:at: time = '2 parsecs': time expected, for example 250 (ms), " ..
      "\"250ms\", \"2m\"",
      support.message("(...):at('2 parsecs', print)", sim))
    assert.equal("scenarios/a.lua:1: sim:after: delay = -1: must be >= 0",
      support.message("(...):after(-1, print)", sim))
    assert.equal("scenarios/a.lua:1: sim:every: function expected, got nil", support.message("(...):every(1)", sim))
  end)

  it("that repeat do not keep the run alive", function()
    local sim = support.cluster()
    local n = 0
    sim:every(10, function() n = n + 1 end)
    sim:at(35, function() end)
    sim:run()
    assert.equal(3, n)
    assert.equal(35, sim:now())
  end)
end)

describe("a run", function()
  it("ends at until_ms, events at the limit included", function()
    local sim = support.cluster()
    local seen = {}
    for _, t in ipairs { 10, 20, 30 } do sim:at(t, function(now) seen[#seen + 1] = now end) end
    sim:run { until_ms = 20 }
    assert.same({ 10, 20 }, seen)
  end)

  it("that is stopped completes the event and says so", function()
    local sim = support.cluster()
    for i = 1, 9 do sim:submit { at_ms = i, prompt_tokens = 4, output_tokens = 1 } end
    local n = 0
    sim:on("request.finish", function() n = n + 1 sim:stop("enough") end)
    local run = sim:run()
    assert.equal("stopped", run.status)
    assert.equal("enough", run.reason)
    assert.is_true(n >= 1 and n < 9)
  end)

  it("happens once per simulation", function()
    local sim = support.cluster()
    sim:run()
    assert.error_matches(function() sim:run() end, "sim:run: this simulation has already run; make a new one")
  end)

  it("is the same again with the same seed, whatever hooks look at", function()
    local function figures(watch)
      local aisim = require "aisim"
      local sim = support.cluster(2)
      sim:workload(aisim.open { arrivals = aisim.arrivals.poisson { rate = 20 }, until_ms = 5000,
        prompt = aisim.dist.exp { mean = 30 }, output = aisim.dist.exp { mean = 5 } })
      if watch then
        for _, name in ipairs { "request.tokens", "pass.end", "request.finish" } do sim:on(name, function() end) end
      end
      return sim:run():json()
    end
    assert.equal(figures(false), figures(true))
  end)

  it("does not leak: a simulation that its own hooks hold is collected", function()
    local weak = setmetatable({}, { __mode = "v" })
    do
      local sim = support.cluster()
      sim:on("run.end", function() return sim end)
      sim:run()
      weak[1] = sim
    end
    collectgarbage()
    collectgarbage()
    assert.is_nil(weak[1])
  end)
end)

describe("math.random", function()
  it("follows the seed of the simulation", function()
    local aisim = require "aisim"
    aisim.new { seed = 7 }
    local first = { math.random(), math.random(10), math.random(3, 5) }
    aisim.new { seed = 7 }
    assert.same(first, { math.random(), math.random(10), math.random(3, 5) })
    aisim.new { seed = 8 }
    assert.not_equal(first[1], math.random())
  end)
end)
