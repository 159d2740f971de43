-- Service levels by class, goodput, and a metric of one's own: how much of the output is worth having?
-- aisim run examples/slo.lua --set rate=8; aisim search examples/slo.lua
local aisim = require "aisim"

local S = aisim.scenario {
  title = "Goodput under two service levels",
  params = { rate = { 5.0, "requests per second, a quarter of them batch", min = 0, unit = "1/s" } },
  expect = { "good_fraction >= 0.95", "patience.p90 < 1" },
  search = { param = "rate", from = 1, to = 64, goal = "good_fraction >= 0.95", scale = "log", tolerance = 0.05 },
}

local TTFT_MS <const> = { chat = 500, batch = 5000 }

function S.setup(sim, p)
  sim:pool { engine = { model = "llama-3.1-8b", kv_cache = { block_size = 16 } } }
  for _, of in ipairs { { "chat", 0.75, 800 }, { "batch", 0.25, 6000 } } do -- class, share, median of the prompts
    sim:workload(aisim.open {
      class = of[1], arrivals = aisim.arrivals.poisson { rate = of[2] * p.rate }, until_ms = "2m",
      prompt = aisim.dist.lognormal { p50 = of[3], p99 = 16000 },
      output = aisim.dist.lognormal { p50 = 200, p99 = 1500 },
    })
  end
  sim:slo { class = "chat", ttft_ms = TTFT_MS.chat, itl_ms = 25 }
  sim:slo { class = "batch", ttft_ms = TTFT_MS.batch }

  -- A metric of one's own: the part of the bound that was used up, by class.
  local patience = sim:hist { name = "patience", unit = "", by = "class" }
  sim:on("request.first_token", function(_, _, _, ttft_ms, req)
    patience:add(ttft_ms / TTFT_MS[req.class], req.class)
  end)
end

function S.report(run)
  local m <const>, used <const> = run.metrics, run.patience.by
  print(("%.1f %% of %d requests are good: %.0f of %.0f tok/s; bound used up at p90: chat %.0f %%, batch %.0f %%")
    :format(100 * m.good_fraction, m.completed_requests, m.goodput_output_throughput_tok_s,
      m.output_throughput_tok_s, 100 * used.chat:p(90), 100 * used.batch:p(90)))
end

return S
