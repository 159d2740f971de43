-- Traffic of your own: a session is a coroutine that lives in virtual time; call and sleep suspend it.
--
-- Run it:        aisim run FILE                      aisim run FILE --set window=20000
-- More:          aisim list distributions, examples/agent_sessions.lua (subagents with fork and join)
local aisim = require "aisim"
local dist = aisim.dist

local S = aisim.scenario {
  title = "Sessions NAME",
  question = "How much of a growing context comes from the cache?",
  params = {
    rate = { 0.5, "sessions per second", min = 0, unit = "1/s" },
    window = { 60000, "tokens after which a session compacts its context", min = 10000, integer = true },
  },
  sweep = {
    grid = { window = { 20000, 60000 } }, seeds = 3,
    columns = { "first_admission_prefix_cache_reused_ratio", "ttft_ms.mean", "turns" },
  },
}

local steps = dist.uniform(3, 12)
local question = dist.clamp(dist.lognormal { p50 = 400, p99 = 6000 }, 1, 20000) -- tokens
local answer = dist.clamp(dist.lognormal { p50 = 200, p99 = 2000 }, 1, 4000)
local think_ms = dist.exp { mean = 8000 }

function S.setup(sim, p)
  sim:pool { workers = 2, engine = { model = "llama-3.1-8b" } }
  sim:router { policy = "prefix" }
  local turns = sim:counter { name = "turns", unit = "turns" }
  sim:sessions {
    class = "NAME", arrivals = aisim.arrivals.poisson { rate = p.rate }, until_ms = "5m",
    body = function(s) -- s.id, s.class, s.rng (a stream of its own)
      local context = s:context()
      context:append("system-prompt", 12000) -- the same name is the same content for every session
      for _ = 1, steps:sample(s.rng) // 1 do
        context:append_unique(question:sample(s.rng)) -- content that nobody else has
        -- Suspends until the answer is complete; the answer is appended to the context.
        local r = s:call { context = context, output_tokens = answer:sample(s.rng) }
        if r.reason ~= "length" then return end -- cancelled or rejected
        turns:add(1)
        if context.tokens > p.window then context:compact(4000) end -- keeps the shared head
        s:sleep(think_ms:sample(s.rng))
      end
    end,
  }
end

return S
