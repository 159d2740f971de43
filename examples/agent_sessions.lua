-- An agent as a coroutine: call and sleep suspend it in virtual time; every third turn asks a subagent.
-- aisim run examples/agent_sessions.lua --set window=40000
local aisim = require "aisim"
local dist = aisim.dist

local S = aisim.scenario {
  title = "Agents written as coroutines",
  params = {
    agents = { 16, "sessions that live side by side", min = 1, integer = true },
    window = { 100000, "tokens after which an agent compacts its history", min = 20000, integer = true },
  },
}

local UNTIL_MS <const>, SYSTEM <const> = 600e3, 14000 -- tokens of tools and system prompt
local output = dist.clamp(dist.lognormal { p50 = 210, p99 = 3000 }, 10, 6000)
local tool_result = dist.clamp(dist.lognormal { p50 = 330, p99 = 15000 }, 1, 30000)
local tool_ms = dist.clamp(dist.lognormal { p50 = 9000, p99 = 120e3 }, 2000, 300e3)

local function agent(s, window)
  local context = s:context()
  context:append("tools-and-system", SYSTEM) -- shared by name; what append_unique adds belongs to one
  for turn = 1, 400 do
    context:append_unique(tool_result:sample(s.rng))
    if context.tokens > window then context:compact(SYSTEM) end
    if s:now() >= UNTIL_MS or s:call { context = context, output_tokens = output:sample(s.rng) }.reason ~= "length" then
      return
    end
    local tool = s:fork(function() s:sleep(tool_ms:sample(s.rng)) end)
    if turn % 3 == 0 then s:call { content = { { "subagent", 3000 } }, output_tokens = 300 } end
    s:join(tool)
  end
end

function S.setup(sim, p)
  sim:pool { workers = 2, engine = { model = "llama-3.1-8b", kv_cache = { block_size = 16 } } }
  sim:sessions { class = "agent", arrivals = aisim.arrivals.all_at_once { n = p.agents }, until_ms = UNTIL_MS,
    body = function(s) while s:now() < UNTIL_MS do agent(s, p.window) end end }
end

return S
