--- What scripts cost: hooks, routers, timing functions. Printed, never asserted.
-- cmake --build build --target bench_hooks; every figure is the best of some runs, of processor time.
local aisim = require "aisim"

local REPEATS <const> = tonumber(arg and arg[1]) or 7
local FIXED <const> = { type = "fixed", prefill_ms = 5, decode_ms = 5 }
local PROMPT <const> = aisim.dist.const(100)

--- Best time of a run and what it did. Variants take turns, so that a busy moment hits all of them.
local function best_of(variants)
  local best = {}
  for _ = 1, REPEATS do
    for i, build in ipairs(variants) do
      local sim = aisim.new { seed = 1 }
      local seen = build(sim) or {}
      collectgarbage()
      local started = os.clock()
      local run = sim:run()
      local seconds = os.clock() - started
      if not best[i] or seconds < best[i].seconds then
        best[i] = { seconds = seconds, passes = run.stats.passes, seen = seen,
          requests = run.stats.requests_created }
      end
    end
  end
  return best
end

local rows = {}
local function row(what, value, unit, limit, note)
  rows[#rows + 1] = ("%-58s %9.1f %-12s %-12s %s"):format(what, value, unit, limit, note)
end

-- Hooks of requests on agent traffic: 64 lanes.
local plays = aisim.agentx_synthetic { plays = 200 }
local function agents(sim)
  sim:pool { workers = 8, engine = { model = "qwen3.5-35b-a3b", context_length = 1000000 } }
  sim:workload(aisim.agentx { plays = plays, lanes = 64, profile = { duration_seconds = 1800 } })
end
local agent = best_of {
  agents,
  function(sim)
    agents(sim)
    sim:on("request.arrive", function(_, _) end)
    sim:on("request.finish", function(_, _) end)
  end,
}
row("request.arrive + request.finish, AgentX C64", 100 * (agent[2].seconds / agent[1].seconds - 1), "%", "<= 5 %",
  ("%d requests, %.0f ms"):format(agent[1].requests, 1000 * agent[1].seconds))

-- A router over eight workers with two columns, against a policy that does nothing.
local function chat(sim)
  sim:pool { workers = 8, engine = { model = "llama-3.1-8b", timing = FIXED } }
  sim:workload(aisim.closed { users = 64, requests = 40000, prompt = PROMPT, output = aisim.dist.const(2) })
end
--- Policies that choose in turn, as round_robin does, after what they look at: the runs differ in nothing else.
local function reads_two()
  local turn = 0
  return function(_, targets)
    local best, lowest = 1, math.huge
    local active, used = targets.active_requests, targets.kv_used
    for i = 1, targets.n do
      local score = active[i] + used[i] / 1e6
      if score < lowest then best, lowest = i, score end
    end
    turn = turn % 8 + 1
    return best and turn
  end
end
local function reads_none()
  local turn = 0
  return function(_, _)
    turn = turn % 8 + 1
    return turn
  end
end
local function with(columns, policy)
  return function(sim)
    chat(sim)
    sim:router { name = "mine", columns = columns, pick = policy() }
  end
end
local router = best_of {
  function(sim)
    chat(sim)
    sim:router { policy = "round_robin" }
  end,
  with({ "active_requests", "kv_used" }, reads_two),
  with({ "active_requests", "kv_used" }, reads_none),
  with({}, reads_none),
}
local decisions = router[1].requests
local function over_built_in(i) return 1e9 * (router[i].seconds - router[1].seconds) / decisions end
row("Lua router over 8 workers that reads 2 columns", over_built_in(2), "ns/decision", "<= 300",
  ("%d decisions, over round_robin in C"):format(decisions))
row("... that declares 2 columns and reads none", over_built_in(3), "ns/decision", "", "")
row("... without columns", over_built_in(4), "ns/decision", "", "")

-- The same function without an engine: the speed of this machine right now.
local fake = { n = 8, active_requests = { 1, 2, 3, 4, 5, 6, 7, 8 }, kv_used = { 8, 7, 6, 5, 4, 3, 2, 1 } }
local alone, policy = math.huge, reads_two()
for _ = 1, REPEATS do
  local started = os.clock()
  for _ = 1, 100000 do policy(nil, fake) end
  alone = math.min(alone, os.clock() - started)
end
row("... of it the function alone, called by Lua", 1e9 * alone / 100000, "ns/call", "", "what no engine can save")

-- An empty pass.end on long decodes.
local function decodes(sim)
  sim:pool { workers = 1, engine = { model = "llama-3.1-8b", timing = FIXED } }
  sim:workload(aisim.closed { users = 8, requests = 800, prompt = PROMPT, output = aisim.dist.const(1000) })
end
local pass = best_of {
  decodes,
  function(sim)
    decodes(sim)
    sim:on("pass.end", function() end)
  end,
  function(sim)
    decodes(sim)
    sim:on("pass.end", function(_, _, _, _, _, _, p) local _ = p end)
  end,
}
local passes = pass[1].passes
row("empty pass.end", 1e9 * (pass[2].seconds - pass[1].seconds) / passes, "ns/pass", "<= 60",
  ("%d passes, %.0f ns each without"):format(passes, 1e9 * pass[1].seconds / passes))
row("pass.end that takes the view", 1e9 * (pass[3].seconds - pass[1].seconds) / passes, "ns/pass", "", "")

-- A timing function that promises to be pure is asked once per shape of a pass.
local function timed(pure)
  return function(sim)
    local seen = { calls = 0 }
    sim:pool { workers = 1, engine = { model = "llama-3.1-8b", timing = { name = "mine", pure = pure,
      pass = function(_, new_tokens, _, n_decode)
        seen.calls = seen.calls + 1
        return 1 + 0.01 * new_tokens + 0.1 * n_decode
      end } } }
    sim:workload(aisim.closed { users = 8, requests = 800, prompt = PROMPT, output = aisim.dist.const(1000) })
    return seen
  end
end
local timing = best_of { timed(true), timed(false) }
row("calls of a pure timing function", 100 * timing[1].seen.calls / timing[1].passes, "% of passes", "",
  ("%d calls, %d passes"):format(timing[1].seen.calls, timing[1].passes))
row("custom timing: pure", 1e9 * timing[1].seconds / timing[1].passes, "ns/pass", "", "")
row("custom timing: not pure", 1e9 * timing[2].seconds / timing[2].passes, "ns/pass", "", "")

print(("%-58s %9s %-12s %-12s %s"):format("what scripts cost", "", "", "limit", ""))
print(table.concat(rows, "\n"))
