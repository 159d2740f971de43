-- Recorded plays, changed: what if every tool answered twice as slowly?
--
-- Question  How do slower tools change throughput, and does the cache keep what an agent will need again?
-- Finding   Plays take longer and the server does less at a time; reuse stays, because a play's own
--           history is still there after the longer wait.
-- Run time  about a second. plays=FILE takes recorded plays; empty: plays made up.
local aisim = require "aisim"

local S = aisim.scenario {
  title = "Slower tools",
  question = "What do slower tools change?",
  finding = "plays take longer, reuse stays",
  expect_runtime_s = 1,
  params = {
    factor = { 2, "tool latency, times", min = 0 },
    plays = { "", "file or folder of recorded agent plays (JSONL); empty: plays made up" },
    lanes = { 8, "clients, each with one live play", min = 1, integer = true },
    duration_s = { 900, "measured time", min = 1, unit = "s" },
  },
}

function S.setup(sim, p)
  local plays = p.plays ~= "" and aisim.plays(p.plays) or aisim.agentx_synthetic { plays = 100 }
  plays = plays:map(function(play)
    for _, request in ipairs(play.requests) do
      for _, edge in ipairs(request.after) do edge.delay_ms = edge.delay_ms * p.factor end
    end
  end)
  sim:pool { engine = { model = "qwen3.5-35b-a3b", context_length = 1000000, kv_cache = { block_size = 64 } } }
  sim:workload(aisim.agentx {
    plays = plays, lanes = p.lanes, authored_gate = false, profile = { duration_seconds = p.duration_s },
  })
end

return S
