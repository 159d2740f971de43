-- A router in Lua: blocks of resident prefix against requests in progress. First tokens come after 41 ms instead of
-- 116 ms: aisim run examples/custom_router.lua, then the same with --set own=false
local aisim = require "aisim"

local S = aisim.scenario {
  title = "A router of one's own",
  params = {
    own = { true, "use the router below instead of round_robin" },
    alpha = { 20.0, "blocks of prefix that one request in progress is worth", min = 0 },
  },
}

function S.setup(sim, p)
  sim:pool {
    workers = 4,
    engine = {
      model = "llama-3.1-8b",
      kv_cache = { block_size = 16, capacity = { type = "fixed", blocks = 6000 } },
      timing = { type = "linear", base_ms = 4, per_prefill_token_ms = 0.02, per_decode_ms = 0.05 },
    },
  }
  sim:workload(aisim.open {
    arrivals = aisim.arrivals.poisson { rate = 20 }, until_ms = 60e3,
    prompt = aisim.dist.uniform(500, 1500), output = aisim.dist.const(100),
    prefix = { groups = 40, tokens = 6000, zipf = 0.5 },
  })
  sim:router(p.own and {
    name = "hit_or_queue", columns = { "overlap_blocks", "active_requests" },
    pick = function(_, targets)
      local best, best_score = nil, -math.huge
      for i = 1, targets.n do
        local score = targets.overlap_blocks[i] - p.alpha * targets.active_requests[i]
        if score > best_score then best, best_score = i, score end
      end
      return best
    end,
  } or { policy = "round_robin" })
end

return S
