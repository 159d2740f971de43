--- Expectations that end a run early (spec/lua-api.md §8).
local aisim = require "aisim"
local expect = require "aisim.expect"

--- One request per second, each slower than the one before; expectations as in S.expect.
local function run(list, prepare)
  local sim = aisim.new { seed = 1 }
  sim:pool { engine = {
    model = "llama-3.1-8b", kv_cache = { block_size = 16, capacity = { type = "fixed", blocks = 1000 } },
    timing = { name = "slower", pass = function(_, new_tokens) return 1 + new_tokens end },
  } }
  for i = 1, 100 do sim:submit { at_ms = 1000 * i, prompt_tokens = i, output_tokens = 2 } end
  if prepare then prepare(sim) end
  expect.watch(sim, expect.list(list, 1))
  return sim:run()
end

describe("an expectation with stop", function()
  it("ends the run in the second in which it is seen to be violated", function()
    local result = run { { "ttft_ms.max < 20", stop = true }, "completed_requests == 100" }
    assert.same({ "stopped", "expect: ttft_ms.max < 20" }, { result.status, result.reason })
    assert.equal(19, result.metrics.completed_requests) -- the request of 19 tokens takes 20 ms
  end)

  it("watches gauges, totals and metrics of the scenario", function()
    assert.equal("stopped", run({ { "kv_usage.peak < 0.003", stop = true } }).status)
    local result = run({ { "seen < 7", stop = true } }, function(sim)
      local seen = sim:counter { name = "seen" }
      sim:on("request.arrive", function() seen:add(1) end)
    end)
    assert.same({ "stopped", 7 }, { result.status, result.metrics.seen })
  end)

  it("changes nothing while it holds, nor without stop, nor before the metric is defined", function()
    local plain = run({}):json()
    assert.equal(plain, run({ { "ttft_ms.p99 < 1000", stop = true }, { "kv_usage.peak < 1", stop = true } }):json())
    assert.equal(plain, run({ "ttft_ms.max < 20", { "good_fraction > 2", stop = true } }):json())
  end)

  it("says what is wrong with it", function()
    assert.error_matches(function() expect.list({ { "a < 1", stopp = true } }, 1) end,
      "expect%[1%]: unknown key 'stopp' %(did you mean 'stop'%?%)")
    assert.error_matches(function() expect.list({ { "a < 1", stop = 1 } }, 1) end, "expect%[1%].stop: true or false")
    assert.error_matches(function() expect.list({ { stop = true } }, 1) end, "expect%[1%]: text such as")
  end)
end)
