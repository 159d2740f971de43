-- What this scenario asks, in one sentence.
--
-- Run it:        aisim run FILE                      (aisim check FILE runs nothing and shows what would run)
-- Change it:     aisim run FILE --set rate=8 --set workers=2
-- Look around:   aisim help engine, aisim help router, aisim help hooks, aisim help metrics
local aisim = require "aisim"

local S = aisim.scenario {
  title = "NAME",
  question = "How many requests per second do the workers take?",
  params = { -- name = { default, "meaning", min =, max =, integer =, choices =, unit = }
    rate = { 4.0, "requests per second", min = 0, unit = "1/s" },
    workers = { 1, "workers in the pool", min = 1, integer = true },
  },
  -- What a good run meets; a run that does not ends with exit status 4.
  expect = { "ttft_ms.p99 < 2000" },
  -- aisim sweep FILE: every combination with every seed; from three seeds on with 95 % intervals.
  sweep = {
    grid = { rate = { 2, 4, 8, 16 } }, seeds = 3,
    columns = { "ttft_ms.mean", "ttft_ms.p99", "output_throughput_tok_s_per_gpu" },
  },
  -- aisim search FILE: the largest rate that meets the goal.
  search = { param = "rate", from = 1, to = 64, goal = "ttft_ms.p99 < 2000", scale = "log", tolerance = 0.05 },
}

--- Builds one run. p: the parameters, read-only.
function S.setup(sim, p)
  sim:pool {
    workers = p.workers,
    engine = { -- keys: aisim help engine; models: aisim list models
      model = "llama-3.1-8b", hardware = "h200_sxm",
      parallelism = { tensor = 1 },
      scheduler = { max_batched_tokens = 8192, max_sequences = 256 },
    },
  }
  sim:router { policy = "least_requests" } -- aisim list routers
  sim:workload(aisim.open { -- also aisim.closed, aisim.trace, aisim.agentx; laws: aisim list distributions
    arrivals = aisim.arrivals.poisson { rate = p.rate }, until_ms = "2m",
    prompt = aisim.dist.lognormal { p50 = 800, p99 = 8000 },
    output = aisim.dist.lognormal { p50 = 200, p99 = 1500 },
  })
end

return S
