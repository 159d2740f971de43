-- A routing policy of your own, beside built-in ones to compare it with.
--
-- Run it:        aisim run FILE                      aisim run FILE --set router=round_robin
-- Compare:       aisim compare FILE --left router=least_requests --right router=NAME --seeds 5
-- All at once:   aisim sweep FILE
-- More:          aisim help router (columns, what pick returns), examples/wrap_router.lua (ask a built-in)
local aisim = require "aisim"

local S = aisim.scenario {
  title = "Router NAME",
  question = "Does the policy NAME beat the built-in ones?",
  params = {
    router = { "NAME", "routing policy", choices = { "NAME", "round_robin", "least_requests", "prefix" } },
    weight = { 20.0, "NAME: blocks of prefix that one request in progress is worth", min = 0 },
    rate = { 20.0, "requests per second", min = 0, unit = "1/s" },
  },
  sweep = {
    grid = { router = { "NAME", "round_robin", "least_requests", "prefix" } }, seeds = 3,
    columns = { "ttft_ms.mean", "ttft_ms.p99", "first_admission_prefix_cache_reused_ratio" },
  },
}

--- Decides where a request goes: an index into targets, or nil (it waits at the router).
-- req: prompt_tokens, session, class, priority, … (valid during the call)
-- targets: n candidates; every column that is declared below is an array, targets.COLUMN[i]
local function pick(_, targets, weight)
  local best, best_score
  for i = 1, targets.n do
    local score = targets.overlap_blocks[i] - weight * targets.active_requests[i]
    if not best or score > best_score then best, best_score = i, score end
  end
  return best
end

function S.setup(sim, p)
  sim:pool {
    workers = 4,
    engine = {
      model = "llama-3.1-8b",
      kv_cache = { block_size = 16, capacity = { type = "fixed", blocks = 6000 } },
    },
  }
  if p.router == "NAME" then
    sim:router {
      name = "NAME",
      columns = { "overlap_blocks", "active_requests" }, -- only these are kept up to date
      pick = function(req, targets) return pick(req, targets, p.weight) end,
    }
  else
    sim:router { policy = p.router }
  end
  -- Prompts of 40 groups that share their beginning: what a router can win by looking at the cache.
  sim:workload(aisim.open {
    arrivals = aisim.arrivals.poisson { rate = p.rate }, until_ms = "1m",
    prompt = aisim.dist.uniform(500, 1500), output = aisim.dist.const(100),
    prefix = { groups = 40, tokens = 6000, zipf = 0.5 },
  })
end

return S
