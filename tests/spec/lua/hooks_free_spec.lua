--- Looking changes nothing: a run with hooks that only watch is the run without them (spec/lua-api.md §6).
local aisim = require "aisim"
local core = require "aisim.core"
local support = require "tests.spec.lua.support"

local function run(watch)
  local sim = support.cluster(2)
  sim:workload(aisim.open {
    class = "chat", arrivals = aisim.arrivals.poisson { rate = 40 }, until_ms = 4000,
    prompt = aisim.dist.uniform(8, 60), output = aisim.dist.uniform(2, 30),
  })
  watch(sim)
  local result = sim:run()
  return result:json(), result.stats
end

local function nothing() end

describe("hooks that only watch", function()
  local plain, stats = run(nothing)

  it("leave the report as it is, each of them", function()
    for _, info in ipairs(core.hook_list()) do
      local seen = run(function(sim)
        sim:on(info.name, nothing, info.name == "run.tick" and { every_ms = 100 } or nil)
      end)
      assert.are.equal(plain, seen, info.name)
    end
  end)

  it("make the engine do no more events when they are of class request or run", function()
    local _, watched = run(function(sim)
      for _, info in ipairs(core.hook_list()) do
        if (info.class == "request" or info.class == "run") and info.name ~= "run.tick" then
          sim:on(info.name, nothing)
        end
      end
    end)
    assert.are.equal(stats.events, watched.events)
    assert.are.equal(stats.passes, watched.passes)
  end)

  it("do not change it when it is measured where the time goes", function()
    local seen = run(function(sim) sim:profile_() end)
    assert.are.equal(plain, seen)
  end)
end)
