-- Prefill and decode on the same six workers, or on two and four of their own.
--
-- Question  A long prompt in a pass delays every token that is decoded beside it. Six workers can share both
--           kinds of work, or two of them compute prompts and hand the KV cache to four that only decode.
--           When does the split pay?
-- Finding   While the prefill workers keep up. At 16 requests of 4,000 tokens per second and a bound of 8 ms per
--           token the split serves nearly all in time, sharing a third: the slowest gap of a hundred is 7.6 ms
--           instead of 105. First tokens pay: their median waits 570 ms instead of 100, because two workers
--           compute what six did; at 20 per second they cannot, and the wait is twelve seconds. A slow link
--           undoes it all: at 1 GB/s the transfer costs what the interference did.
-- Run time  a fifth of a second per run; the sweep has both kinds at five rates.
--           Change one thing at a time:  --set kind=aggregated  --set rate=20  --set bandwidth=1
local aisim = require "aisim"

local S = aisim.scenario {
  title = "Disaggregation: six workers, shared or split",
  question = "When do two prefill and four decode workers serve better than six that do both?",
  finding = "while prefill workers keep up the split keeps gaps even; sharing has the faster first token",
  expect_runtime_s = 1,
  seed = 1,
  params = {
    kind = { "split", "who computes prompts", choices = { "aggregated", "split" } },
    rate = { 16.0, "request arrivals per second", min = 0.01, unit = "1/s" },
    prompt_tokens = { 4000, "median prompt", min = 1, integer = true },
    output_tokens = { 300, "mean answer", min = 1, integer = true },
    prefill_workers = { 2, "of the workers, when split", min = 1, integer = true },
    workers = { 6, "all together", min = 2, integer = true },
    bandwidth = { 50.0, "of the link to a decode worker", min = 0.001, unit = "GB/s" },
    timing_mode = { "full_prompt", "what a transfer carries", choices = { "full_prompt", "destination_missing" } },
    model = { "llama-3.1-8b", "model of the catalogue (aisim list models)" },
    ttft_ms = { 2000.0, "bound on the time to first token", min = 0.001, unit = "ms" },
    itl_ms = { 8.0, "bound on the time per token", min = 0.001, unit = "ms" },
    duration_s = { 120, "arrivals stop after it", min = 1, unit = "s" },
  },
}

S.sweep = {
  grid = { kind = { "aggregated", "split" }, rate = { 4, 8, 12, 16, 20 } },
  columns = { "good_fraction", "ttft_ms.p99", "itl_ms.p99", "token_gap_ms.p99" },
}

function S.setup(sim, p)
  local engine = { model = p.model }
  if p.kind == "split" then
    sim:pool { role = "prefill", workers = p.prefill_workers, engine = engine }
    sim:pool { role = "decode", workers = p.workers - p.prefill_workers, engine = engine }
    sim:handoff { bandwidth_gb_per_second = p.bandwidth, timing_mode = p.timing_mode }
  else
    sim:pool { workers = p.workers, engine = engine }
  end
  sim:router { policy = "least_requests" }
  sim:slo { ttft_ms = p.ttft_ms, itl_ms = p.itl_ms }
  sim:workload(aisim.open {
    arrivals = aisim.arrivals.poisson { rate = p.rate }, until_ms = 1000 * p.duration_s,
    prompt = aisim.dist.lognormal { p50 = p.prompt_tokens, p99 = 4 * p.prompt_tokens },
    output = aisim.dist.lognormal { mean = p.output_tokens, p99 = 4 * p.output_tokens },
  })
end

return S
