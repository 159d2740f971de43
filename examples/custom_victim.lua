-- A victim of one's own: when blocks run out, the request with the fewest computed tokens goes, not the newest one. It
-- is the cheapest to do again: aisim run examples/custom_victim.lua, then the same with --set cheapest=false
local aisim = require "aisim"

local S = aisim.scenario {
  title = "The cheapest victim",
  params = { cheapest = { true, "preempt what is cheapest to compute again, else the newest" } },
}

local function cheapest(_, _, view)
  local best = 1
  for i = 2, view.n do
    if view.computed[i] < view.computed[best] then best = i end
  end
  return best
end

function S.setup(sim, p)
  sim:pool {
    engine = {
      model = "llama-3.1-8b",
      kv_cache = { block_size = 16, prefix_caching = false, capacity = { type = "fixed", blocks = 2000 } },
      timing = { type = "linear", base_ms = 4, per_prefill_token_ms = 0.02, per_decode_ms = 0.05 },
    },
    victim = p.cheapest and cheapest or nil,
  }
  sim:workload(aisim.closed {
    users = 24, requests = 400, prompt = aisim.dist.uniform(100, 2000), output = aisim.dist.uniform(100, 1500),
  })
end

function S.report(run)
  local m = run.metrics
  print(("%d preemptions, %d tokens computed again, %.1f s"):format(m.preemptions, m.recomputed_tokens,
    m.duration_ms / 1e3))
end

return S
