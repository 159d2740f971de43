-- Metrics of one's own: a histogram, a counter, a derived value, and an expectation on one of them.
-- aisim run examples/custom_metric.lua
local aisim = require "aisim"

local S = aisim.scenario {
  title = "What do users wait for?",
  params = { rate = { 6.0, "requests per second", min = 0, unit = "1/s" } },
  expect = { "patience < 0.05", "wait_per_ktok.p90 < 400" },
}

function S.setup(sim, p)
  sim:pool {
    engine = {
      model = "llama-3.1-8b",
      kv_cache = { block_size = 16, capacity = { type = "fixed", blocks = 8000 } },
      timing = { type = "linear", base_ms = 4, per_prefill_token_ms = 0.02, per_decode_ms = 0.05 },
    },
  }
  sim:workload(aisim.open {
    arrivals = aisim.arrivals.poisson { rate = p.rate }, until_ms = 60e3,
    prompt = aisim.dist.lognormal { p50 = 800, p99 = 8000 }, output = aisim.dist.exp { mean = 200 },
  })

  local wait = sim:hist { name = "wait_per_ktok", unit = "ms", help = "TTFT per 1,000 prompt tokens" }
  local late = sim:counter { name = "late", unit = "requests", help = "first token after 2 s" }
  local all = sim:counter { name = "all", unit = "requests", help = "first tokens" }
  sim:on("request.first_token", function(_, _, _, ttft_ms, req)
    wait:add(1000 * ttft_ms / req.prompt_tokens)
    all:add(1)
    if ttft_ms > 2000 then late:add(1) end
  end)
  sim:derive { name = "patience", unit = "", help = "share of late requests",
    value = function(m) return m.late.total / m.all.total end }
end

return S
