-- A policy around a built-in one: a hash keeps equal prompts together, unless its target has too much to do; then the
-- least loaded one takes the request. One prompt in two is the same: first tokens come after 88 ms instead of 48 s:
-- aisim run examples/wrap_router.lua, then the same with --set limit=100000
local aisim = require "aisim"

local S = aisim.scenario {
  title = "A limit around a hash",
  params = { limit = { 16, "requests a target may have before the hash is overruled", min = 1, integer = true } },
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
    arrivals = aisim.arrivals.poisson { rate = 80 }, until_ms = 60e3,
    prompt = aisim.dist.uniform(500, 1500), output = aisim.dist.const(100),
    prefix = { groups = 12, tokens = 6000, zipf = 2 },
  })
  sim:router {
    name = "limited_hash", columns = { "active_requests" },
    wrap = { policy = "hash", key = "prefix", prefix_blocks = 300 },
    pick = function(_, targets, _, inner)
      local choice, active = inner(), targets.active_requests
      if active[choice] < p.limit then return choice end
      for i = 1, targets.n do
        if active[i] < active[choice] then choice = i end
      end
      return choice
    end,
  }
end

return S
