-- Failures from timers: two of four workers are lost for half a minute. What do users notice, and for how long?
-- aisim run examples/failure_injection.lua --set lost=3
local aisim = require "aisim"

local S = aisim.scenario {
  title = "Lost workers",
  params = {
    lost = { 2, "workers that fail; their requests go back to the router", min = 0, max = 3, integer = true },
    rate = { 30.0, "requests per second", min = 0, unit = "1/s" },
  },
  expect = { "failed == 0" },
}
local FAILURE_MS <const>, REPAIR_MS <const>, END_MS <const> = 60e3, 90e3, 180e3

function S.setup(sim, p)
  local pool = sim:pool { workers = 4, engine = { model = "llama-3.1-8b" } }
  sim:router { policy = "least_requests" }
  sim:workload(aisim.open { arrivals = aisim.arrivals.poisson { rate = p.rate }, until_ms = END_MS,
    prompt = aisim.dist.lognormal { p50 = 1500, p99 = 12000 }, output = aisim.dist.exp { mean = 250 } })
  sim:at(FAILURE_MS, function() for i = 1, p.lost do pool:worker(i):stop() end end)
  sim:at(REPAIR_MS, function() for i = 1, p.lost do pool:worker(i):resume() end end)

  local moved, routed = sim:counter { name = "moved", unit = "requests" }, {}
  sim:on("request.route", function(_, id)
    if routed[id] then moved:add(1) end -- a second time: its worker was lost
    routed[id] = true
  end)
  local wait = sim:hist { name = "wait", unit = "ms", by = "phase" }
  sim:on("request.first_token", function(t, _, _, ttft_ms)
    wait:add(ttft_ms, t < FAILURE_MS and "before" or t < REPAIR_MS and "during" or "after")
  end)
end

function S.report(run)
  local by <const> = run.wait.by
  print(("p99 of the first token: %.0f ms before the failure, %.0f ms during it, %.0f ms after it; %d requests moved")
    :format(by.before:p(99), by.during:p(99), by.after:p(99), run.metrics.moved))
end

return S
