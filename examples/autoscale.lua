-- Autoscaling through a wave of traffic: workers follow the requests in progress, a new one takes 5 s to start. 0.26
-- GPU-hours instead of the 0.67 of eight workers all the time, first tokens after 70 ms (p99) instead of 34 ms:
-- aisim run examples/autoscale.lua, then the same with --set fixed=8
local aisim = require "aisim"

local S = aisim.scenario {
  title = "Workers that follow the traffic",
  params = { fixed = { 0, "workers from the start and no scaling, 0 = scaled", min = 0, integer = true } },
}

function S.setup(sim, p)
  local pool = sim:pool {
    workers = p.fixed > 0 and p.fixed or 1,
    engine = {
      model = "llama-3.1-8b", startup_seconds = 5,
      kv_cache = { block_size = 16, capacity = { type = "fixed", blocks = 6000 } },
      timing = { type = "linear", base_ms = 4, per_prefill_token_ms = 0.02, per_decode_ms = 0.3 },
    },
  }
  sim:workload(aisim.open {
    arrivals = aisim.arrivals.schedule { { 0, "4/s" }, { 60, "16/s" }, { 120, "32/s" }, { 180, "4/s" } },
    until_ms = 300e3,
    prompt = aisim.dist.uniform(200, 1200), output = aisim.dist.const(150),
  })
  sim:router { policy = "least_requests" }
  sim:series { name = "ready", every_ms = 30e3, value = function() return pool.ready end }
  if p.fixed > 0 then return end
  local depth = aisim.scaler.queue_depth { per_worker = 8, down_after_ms = 30e3 }:make()
  sim:autoscale {
    every_ms = 5e3, min = 1, max = 8,
    decide = function(view, now) return math.min(depth(view, now), view.workers + 2) end, -- two at a time
  }
end

function S.report(run)
  print("ready every 30 s: " .. table.concat(run.series.ready.v, " "):gsub("%.0", ""))
  print(("p99 of the first token %.0f ms, %.3f GPU-hours"):format(run.ttft_ms:p(99), run.metrics.gpu_hours))
end

return S
