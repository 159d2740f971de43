--- Agents in a configuration file are those of aisim.agent and aisim.agentic_code: same options, same defaults.
local aisim = require "aisim"
local D = aisim.dist

local ENGINE <const> = [[
engine:
  model: llama-3.1-8b
  context_length: 1000000
  workers: {aggregated: {kv_cache: {capacity: {type: fixed, blocks: 20000}}, timing: {type: fixed, prefill_ms: 9,
                         decode_ms: 4}}}
]]

local function of_file(source)
  local path = os.tmpname() .. ".yaml"
  local file <close> = assert(io.open(path, "wb"))
  file:write("traffic:\n  source: {" .. source .. "}\n  load: {type: poisson, sessions_per_second: 0.5}\n"
    .. "  stop: {sessions: 30}\n", ENGINE)
  file:close()
  local sim = aisim.new { seed = 3 }
  sim:cluster(path)
  os.remove(path)
  return sim:run { until_ms = 300e3 }.metrics
end

local function of_script(workload)
  local sim = aisim.new { seed = 3 }
  sim:pool { engine = {
    model = "llama-3.1-8b", context_length = 1000000,
    kv_cache = { capacity = { type = "fixed", blocks = 20000 } },
    timing = { type = "fixed", prefill_ms = 9, decode_ms = 4 },
  } }
  sim:workload(workload)
  return sim:run { until_ms = 300e3 }.metrics
end

local function same(source, workload)
  local file, script = of_file(source), of_script(workload)
  assert.is_true(script.completed_requests > 20)
  assert.same(script, file)
end

local ARRIVALS <const> = { rate = 0.5 }

describe("agents in a configuration file", function()
  it("have the defaults of the script", function()
    same("type: agent", aisim.agent { arrivals = aisim.arrivals.poisson(ARRIVALS), sessions = 30 })
    same("type: agentic-code", aisim.agentic_code { arrivals = aisim.arrivals.poisson(ARRIVALS), sessions = 30 })
  end)

  it("have the options of the script", function()
    same("type: agent, task: {uniform: [50, 90]}, steps: 4, output: 12, tool_ms: 1s, tool_tokens: {exp: {mean: 40}}, "
      .. "system: {tokens: 1k}, compact: {above: 1200, to: 100}", aisim.agent {
        arrivals = aisim.arrivals.poisson(ARRIVALS), sessions = 30, task = D.uniform(50, 90), steps = 4, output = 12,
        tool_ms = 1000, tool_tokens = D.exp { mean = 40 }, system = { tokens = 1000 },
        compact = { above = 1200, to = 100 },
      })
    same("type: agent, compact: {above: never}, steps: 9, tool_ms: 5", aisim.agent {
      arrivals = aisim.arrivals.poisson(ARRIVALS), sessions = 30, compact = false, steps = 9, tool_ms = 5 })
    same("type: agentic-code, global_tokens: 500, groups: 3, group_tokens: 200, group_zipf: 1, session_tokens: 90, "
      .. "new_tokens: 30, output: 7, turn_gap_ms: 20, reset: 0.2, restart: 0.1, max_turns: 12", aisim.agentic_code {
        arrivals = aisim.arrivals.poisson(ARRIVALS), sessions = 30, global_tokens = 500, groups = 3,
        group_tokens = 200, group_zipf = 1, session_tokens = 90, new_tokens = 30, output = 7, turn_gap_ms = 20,
        reset = 0.2, restart = 0.1, max_turns = 12,
      })
  end)
end)
