-- An agent as a coroutine: its turns stand in the order in which they happen.
--
-- Question  What does traffic look like that no generator offers: a loop of calls, waits and compactions?
-- Finding   `call` and `sleep` suspend the body in virtual time; content with the same name is shared by
--           all sessions, what append_unique adds belongs to one.
-- Run time  about a second.
local aisim = require "aisim"

local S = aisim.scenario {
  title = "Agents written as coroutines",
  question = "How much of every prompt is reused by agents that grow, wait and compact?",
  finding = "more than 90 % with the prefix cache, nothing without",
  expect_runtime_s = 1,
  params = {
    agents = { 16, "sessions that live side by side", min = 1, integer = true },
    workers = { 2, "workers in the pool", min = 1, integer = true },
    duration_s = { 600, "measured time", min = 1, unit = "s" },
    window = { 100000, "tokens after which an agent compacts its history", min = 20000, integer = true },
    prefix_caching = { true, "reuse of prompts" },
  },
}

-- What one agent does, in tokens and ms.
local SYSTEM <const> = 14000 -- tools and system prompt
local first_prompt = aisim.dist.clamp(aisim.dist.lognormal { p50 = 8000, p99 = 40000 }, 500, 60000)
local turns = aisim.dist.clamp(aisim.dist.lognormal { p50 = 40, p99 = 300 }, 3, 400)
local output = aisim.dist.clamp(aisim.dist.lognormal { p50 = 210, p99 = 3000 }, 10, 6000)
local tool_result = aisim.dist.clamp(aisim.dist.lognormal { p50 = 330, p99 = 15000 }, 1, 30000)
local tool_ms = aisim.dist.clamp(aisim.dist.lognormal { p50 = 9000, p99 = 120e3 }, 2000, 300e3)

--- One conversation: it grows turn by turn and is compacted when the window is full.
local function conversation(s, window, until_ms)
  local context = s:context()
  context:append("tools-and-system", SYSTEM)
  context:append_unique(first_prompt:sample(s.rng))
  for _ = 1, turns:sample(s.rng) do
    if s:now() >= until_ms then return end
    local answer = s:call { context = context, output_tokens = output:sample(s.rng) }
    if answer.reason ~= "length" then return end
    s:sleep(tool_ms:sample(s.rng))
    context:append_unique(tool_result:sample(s.rng))
    if context.tokens > window then context:compact(SYSTEM) end
  end
end

function S.setup(sim, p)
  sim:pool {
    workers = p.workers,
    engine = {
      model = "llama-3.1-8b",
      kv_cache = { block_size = 16, prefix_caching = p.prefix_caching },
    },
  }
  sim:router { policy = "least_requests" }
  local until_ms = p.duration_s * 1000
  sim:sessions {
    class = "agent", arrivals = aisim.arrivals.all_at_once { n = p.agents }, until_ms = until_ms,
    body = function(s)
      s:sleep(s.rng:uniform(0, 30e3)) -- agents do not begin in step
      while s:now() < until_ms do conversation(s, p.window, until_ms) end
    end,
  }
end

return S
