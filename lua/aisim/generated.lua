--- Generated sessions: aisim.synthetic_session, aisim.agent, aisim.agentic_code (spec/traffic.md §3.2).
-- Drawn and run in C (src/workload/sessions.h, src/sim/session_traffic.h); this file checks and describes.
local check = require "aisim.check"
local dist = require "aisim.dist"
local workload = require "aisim.workload"

local M = {}

local DRAWN <const> = { "dist", expected = "distribution", read = dist.read }
local TOKENS <const> = { "integer", min = 0, max = 2147483647 }
local SHARE <const> = { "number", min = 0, max = 1 }

local function with(spec, default)
  local out = { default = default }
  for key, value in pairs(spec) do out[key] = value end
  return out
end

-- When sessions start: one of arrivals, concurrency, users (with think_ms), kv_capacity_fraction.
local LOAD <const> = workload.fields(workload.COMMON, workload.LOADS, { think_ms = DRAWN })

local function describe(kind, options, fields)
  local where = "aisim." .. kind
  options = check.options(where, options, fields)
  local n, name = workload.loads_given(options)
  if n == 0 then
    check.fail("%s.arrivals: arrival process expected, got nil (or give concurrency, users or kv_capacity_fraction)",
      where)
  elseif n > 1 then
    check.fail("%s: arrivals, concurrency, users and kv_capacity_fraction say when sessions start; give one", where)
  end
  if name == "users" and options.think_ms == nil then
    check.fail("%s.think_ms: distribution expected, got nil (users think before their next turn)", where)
  elseif name ~= "users" and options.think_ms ~= nil then
    check.fail("%s.think_ms: has no effect with %s; it belongs to users", where, name)
  end
  workload.needs_end(where, options)
  return workload.make(kind, options)
end

local function starter(kind, prepare)
  workload.starters[kind] = function(sim, description)
    local options = workload.prepare(sim, kind, rawget(description, "options"))
    prepare(options)
    return sim:generated_(kind, workload.settle(sim, "aisim." .. kind, kind, options))
  end
end

-- Synthetic sessions -------------------------------------------------------------------------------

local SYNTHETIC <const> = workload.fields(LOAD, {
  turns = with(DRAWN, 4),
  new_input_tokens_per_turn = with(DRAWN, 1024),
  output_tokens_per_turn = with(DRAWN, 128),
  inter_turn_delay_ms = with(DRAWN, 0),
  shared_prefix_ratio = with(SHARE, 0),
  prefix_groups = { "integer", min = 1, max = 100000000 },
  prefix_zipf = { "number", min = 0, finite = true },
  prefix_weights = { "table" },
})

--- Sessions of several turns; each prompt is the whole conversation so far and new input. A share of the first
-- input is the same for all sessions of a group.
function M.synthetic_session(options)
  local workload_of = describe("synthetic_session", options, SYNTHETIC)
  local o = rawget(workload_of, "options")
  if o.shared_prefix_ratio > 0 and not o.prefix_groups then
    check.fail("aisim.synthetic_session.prefix_groups: whole number expected, got nil (shared_prefix_ratio > 0)")
  end
  for _, key in ipairs { "prefix_groups", "prefix_weights", "prefix_zipf" } do
    if o[key] and o.shared_prefix_ratio == 0 then
      check.fail("aisim.synthetic_session.%s: has no effect without shared_prefix_ratio", key)
    end
  end
  return workload_of
end

starter("synthetic_session", function(o)
  if not o.prefix_groups then return end
  o.prefix_group = workload.groups("aisim.synthetic_session", o.prefix_groups, o.prefix_zipf, o.prefix_weights)
  o.prefix_name = o.rng .. "/prefix"
end)

-- Agents -------------------------------------------------------------------------------------------

-- Defaults: a task of some five requests behind the system prompt of spec/lua-api.md §5; tool results and gaps have
-- the medians of the recorded agents of spec/traffic.md §4.2. Whole recorded days are aisim.agentx_synthetic.
local AGENT_DEFAULTS <const> = {
  task = function() return dist.lognormal { p50 = 1000, p99 = 8000 } end,
  steps = function() return dist.clamp(dist.lognormal { p50 = 5, p99 = 20 }, 1, 100) end,
  output = function() return dist.clamp(dist.lognormal { p50 = 150, p99 = 1000 }, 10, 4000) end,
  tool_ms = function() return dist.lognormal { p50 = 8600, p99 = 120000 } end,
  tool_tokens = function() return dist.clamp(dist.lognormal { p50 = 281, p99 = 5400 }, 1, 30000) end,
}

local AGENT <const> = workload.fields(LOAD, {
  system = { "table" },
  task = DRAWN, steps = DRAWN, output = DRAWN, tool_ms = DRAWN, tool_tokens = DRAWN,
  compact = { "any" },
})
local SYSTEM <const> = { name = { "text", default = "agent-system" }, tokens = with(TOKENS, 12000) }
local COMPACT <const> = {
  above = { "integer", min = 1, max = 2147483647, default = 150000 },
  to = { "integer", min = 1, max = 2147483647, default = 8000 },
}

--- The agent of spec/lua-api.md §5 in C: system prompt, task, then steps of answer and tool result; a context above
-- compact.above tokens becomes the system prompt and a summary of compact.to tokens (compact = false: never).
function M.agent(options)
  local description = describe("agent", options, AGENT)
  local o = rawget(description, "options")
  for key, make in pairs(AGENT_DEFAULTS) do
    if o[key] == nil then o[key] = make() end
  end
  o.system = check.options("aisim.agent.system", o.system, SYSTEM)
  if o.compact ~= false then
    o.compact = check.options("aisim.agent.compact", o.compact, COMPACT)
    if o.system.tokens + o.compact.to >= o.compact.above then
      check.fail("aisim.agent.compact: system.tokens + to = %d must be < above = %d", o.system.tokens + o.compact.to,
        o.compact.above)
    end
  end
  return description
end

starter("agent", function(o)
  o.system_name, o.system_tokens = o.system.name, o.system.tokens
  if o.compact then o.compact_above_tokens, o.compact_to_tokens = o.compact.above, o.compact.to end
end)

-- Agentic code -------------------------------------------------------------------------------------

local CODE <const> = workload.fields(LOAD, {
  global_tokens = with(TOKENS, 14000),
  groups = { "integer", min = 1, max = 100000000, default = 16 },
  group_tokens = with(TOKENS, 8000),
  group_zipf = { "number", min = 0, finite = true },
  group_weights = { "table" },
  session_tokens = with(DRAWN, 2000),
  new_tokens = DRAWN, output = DRAWN, turn_gap_ms = DRAWN,
  reset = { "number", above = 0, max = 1, default = 0.02 },
  restart = with(SHARE, 0.02),
  max_turns = { "integer", min = 1, max = 1000000 },
})

--- Coding agents with four layers of context: tools and system prompt of everybody, context of a group (a
-- repository), context of the session, and a growing history. A reset ends a session; a restart goes on with its
-- history as a session of its own.
function M.agentic_code(options)
  local description = describe("agentic_code", options, CODE)
  local o = rawget(description, "options")
  o.new_tokens = o.new_tokens or AGENT_DEFAULTS.tool_tokens()
  o.output = o.output or AGENT_DEFAULTS.output()
  o.turn_gap_ms = o.turn_gap_ms or AGENT_DEFAULTS.tool_ms()
  return description
end

starter("agentic_code", function(o)
  o.prefix_group = workload.groups("aisim.agentic_code", o.groups, o.group_zipf, o.group_weights)
  o.prefix_name, o.global_name = o.rng .. "/group", o.rng .. "/global"
end)

return M
