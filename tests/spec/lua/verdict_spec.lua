--- run:verdict: backlog and batch means of one run (spec/lua-api.md §8).
local aisim = require "aisim"

--- Poisson arrivals at a worker that serves one request at a time, in 100 ms.
local function run(rate, until_ms, options)
  local sim = aisim.new { seed = 5 }
  sim:pool { engine = {
    model = "llama-3.1-8b", scheduler = { max_sequences = 1 },
    kv_cache = { block_size = 16, capacity = { type = "fixed", blocks = 1000 } },
    timing = { type = "fixed", prefill_ms = 100, decode_ms = 1 },
  } }
  sim:workload(aisim.open { arrivals = aisim.arrivals.poisson { rate = rate }, until_ms = until_ms,
    prompt = aisim.dist.const(16), output = aisim.dist.const(1) })
  return sim:run(options)
end

describe("the verdict on a run", function()
  it("is stable below the capacity, growing above it", function()
    for rate, state in pairs { [3] = "stable", [7] = "stable", [13] = "growing", [30] = "growing" } do
      assert.equal(state, run(rate, 200e3):verdict().state, rate)
    end
    assert.near(1 - 10 / 20, run(20, 200e3):verdict().trend, 0.06) -- ten of twenty a second pile up
  end)

  it("has the interval of the mean TTFT from batches: the long run of a queue lies in it", function()
    local ttft = run(5, 2000e3):verdict().ttft_ms
    assert.equal(10, ttft.n)
    assert.is_true(ttft.low < 150 and ttft.high > 150) -- M/D/1 at half load: 100 + 50 ms
    assert.is_true(ttft.half < 15)
  end)

  it("says nothing of short runs; the interval needs the requests", function()
    assert.same({ state = "short" }, run(5, 5e3):verdict())
    local verdict = run(5, 100e3, { requests = false }):verdict()
    assert.equal("stable", verdict.state)
    assert.is_nil(verdict.ttft_ms)
  end)
end)
