-- Metrics of your own, and expectations about them.
--
-- Run it:        aisim run FILE                      (the line "custom" shows them; --out DIR keeps them)
-- More:          aisim help metrics (the built-in ones), aisim help hooks (where numbers come from)
local aisim = require "aisim"

local S = aisim.scenario {
  title = "Metric NAME",
  question = "How long do users wait per thousand tokens of their prompt?",
  params = { rate = { 6.0, "requests per second", min = 0, unit = "1/s" } },
  expect = { "NAME.p90 < 2000", { "late_share < 0.5", stop = true } }, -- stop: end the run when it is violated
  sweep = { grid = { rate = { 3, 6, 12 } }, seeds = 3, columns = { "NAME.p90", "late_share", "usd_per_mtok" } },
}

local LATE_MS <const> = 1000

function S.setup(sim, p)
  local pool = sim:pool { engine = { model = "llama-3.1-8b" } }
  sim:workload(aisim.open {
    arrivals = aisim.arrivals.poisson { rate = p.rate }, until_ms = "1m",
    prompt = aisim.dist.lognormal { p50 = 800, p99 = 8000 }, output = aisim.dist.exp { mean = 200 },
  })

  -- A distribution, by class; counters; a ratio of two counters; a value over time.
  local wait = sim:hist { name = "NAME", unit = "ms", by = "class", help = "TTFT per 1,000 prompt tokens" }
  local late = sim:counter { name = "late", unit = "requests" }
  local all = sim:counter { name = "all", unit = "requests", series = true } -- a column of --series SECONDS
  sim:ratio { name = "late_share", num = "late", den = "all" }
  sim:series { name = "waiting", every_ms = 1000, value = function() return pool.waiting end }

  sim:on("request.first_token", function(_, _, _, ttft_ms, req)
    wait:add(1000 * ttft_ms / req.prompt_tokens, req.class)
    all:add(1)
    if ttft_ms > LATE_MS then late:add(1) end
  end)

  -- A number computed from the others when the run has ended; nil = undefined.
  sim:derive {
    name = "usd_per_mtok", unit = "USD", help = "at 2.50 USD per GPU hour",
    value = function(m) return 2.5 * m.gpu_hours / m.total_output_tokens * 1e6 end,
  }
end

return S
