-- Teaches: load shapes, generated sessions, stop rules and warmup.
-- Question: how many agents can one worker hold before its first tokens are late?
-- Agents run in C (aisim.agent); their number climbs along a line, so one run shows the whole curve.
local aisim = require "aisim"

local S = aisim.scenario {
  title  = "Climbing number of agents",
  seed   = 1,
  params = { most = { 300, "agents at the end of the climb", min = 1, integer = true } },
}

local late_at -- agents in flight when a first token took more than a second

function S.setup(sim, p)
  sim:pool { engine = { model = "llama-3.1-8b", kv_cache = { block_size = 16 } } }
  sim:workload(aisim.agent {
    class = "agent", warmup = { seconds = 60 }, until_ms = "16m",
    concurrency = { { 60, 1 }, { "15m", p.most } }, -- { seconds or text, number }, linear between
    system = { tokens = 14000 }, steps = aisim.dist.uniform(5, 15), tool_ms = aisim.dist.exp { mean = 3000 },
  })
  local start, stop = 60e3, 15 * 60e3
  sim:on("request.first_token", function(t, _, _, ttft_ms)
    if not late_at and ttft_ms > 1000 then late_at = 1 + (p.most - 1) * (t - start) / (stop - start) end
  end, { class = "agent" })
end

function S.report(run)
  print(run:summary())
  if late_at then print(("first tokens of agents are late from about %d agents on"):format(late_at // 1)) end
end

return S
