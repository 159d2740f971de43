--- Trace files of other people as traffic: aisim.trace (spec/traffic.md §3.3).
-- Rows are read by C while the run needs them. Graphs of requests (agentic_mooncake, dynamo with agent
-- context) and plays (weka) are replayed as plays, each once, on the clock of the file.
local agentx = require "aisim.agentx"
local check = require "aisim.check"
local core = require "aisim.core"
local dist = require "aisim.dist"
local plays = require "aisim.plays"
local workload = require "aisim.workload"

local M = {}

local FORMATS <const> = {}
for i, format in ipairs(core.trace_formats()) do FORMATS[i] = format[1] end

local TRACE <const> = workload.fields(workload.COMMON, workload.LOADS, {
  path = { "any", required = true, expected = "path or list of paths" },
  format = { "text", one_of = FORMATS, default = "auto" },
  block_size = { "integer", min = 1, max = 1048576 },
  speedup = { "number", above = 0, finite = true },
  think_ms = { "dist", read = dist.read },
  limit = { "integer", min = 1 },
  from_ms = { "ms", min = 0 },
  to_ms = { "ms", above = 0 },
  lanes = { "integer", min = 1, max = 1048576 },
  align_inputs = { "any" },
  nested_timestamp_basis = { "text" },
})
TRACE.priority = nil -- rows have their own

--- Is the file a graph or a corpus of plays?
local function holds_plays(paths, options)
  local format = options.format
  if format == "auto" then format = core.trace_detect(paths[1]) end
  if format == "weka" then return "weka" end
  if format == "agentic_mooncake" then return "graph" end
  if format ~= "dynamo" then return nil end
  local _, _, graph = core.trace(paths, { format = format }):about()
  return graph and "graph" or nil
end

local FOREVER <const> = 1e9 -- seconds
local OF_ROWS <const> = { "concurrency", "arrivals", "users", "think_ms", "kv_capacity_fraction",
  "tokens", "requests_per_load_unit", "sessions_per_load_unit", "warmup", "from_ms", "to_ms" }
local OF_BOTH <const> = { "speedup", "pool", "deadline_ms", "until_ms", "requests", "sessions" }

--- Plays with lanes are AgentX; without, every play once at its time.
local function replay(options, kind, paths)
  for _, key in ipairs(OF_ROWS) do
    if options[key] ~= nil then check.fail("aisim.trace.%s: has no effect on a trace of plays", key) end
  end
  local source
  if kind == "weka" then
    source = plays.load { path = paths, align_inputs = options.align_inputs,
      nested_timestamp_basis = options.nested_timestamp_basis }
    if options.block_size and options.block_size ~= source.block_size then
      check.fail("aisim.trace.block_size = %d: the plays have blocks of %d", options.block_size, source.block_size)
    end
  else
    source = core.trace_plays(paths, { format = options.format, block_size = options.block_size })
  end
  if options.limit then source = source:first(options.limit) end
  local replayed = { plays = source, lanes = options.lanes, class = options.class ~= "" and options.class or "agentx" }
  for _, key in ipairs(OF_BOTH) do replayed[key] = options[key] end
  if options.lanes then return agentx.agentx(replayed) end
  if options.sessions then
    check.fail("aisim.trace.sessions: every play starts at its time; limit = n reads n plays")
  end
  replayed.lanes, replayed.once, replayed.shared_clock = #source, true, true
  replayed.warmup, replayed.t_star = false, { 0, 0 }
  replayed.profile = { duration_seconds = FOREVER, tree_idle_cap_seconds = FOREVER, global_idle_cap_seconds = FOREVER }
  return workload.make("agentx", replayed)
end

--- Traffic from a trace file: at the recorded times, or with a load of its own.
function M.trace(options)
  options = check.options("aisim.trace", options, TRACE)
  local paths = plays.paths("aisim.trace.path", options.path)
  local n, load = workload.loads_given(options)
  if n > 1 then
    check.fail("aisim.trace: concurrency, arrivals, users and kv_capacity_fraction say the same thing; give one")
  end
  if n == 1 and options.speedup then check.fail("aisim.trace.speedup: has no effect with %s", load) end
  if load == "users" and options.think_ms == nil then
    check.fail("aisim.trace.think_ms: distribution expected, got nil (users think before their next turn)")
  elseif load ~= "users" and options.think_ms ~= nil then
    check.fail("aisim.trace.think_ms: has no effect without users")
  end
  if options.to_ms and options.from_ms and options.to_ms <= options.from_ms then
    check.fail("aisim.trace.to_ms = %s: must be > from_ms", check.show(options.to_ms))
  end
  local kind = holds_plays(paths, options)
  for _, key in ipairs { "align_inputs", "nested_timestamp_basis" } do
    if options[key] and kind ~= "weka" then check.fail("aisim.trace.%s: only plays of format weka have it", key) end
  end
  if kind then return replay(options, kind, paths) end
  if options.lanes then check.fail("aisim.trace.lanes: only a trace of plays has lanes") end
  options.paths = paths
  return workload.make("trace", options)
end

workload.starters.trace = function(sim, description)
  local options = workload.prepare(sim, "trace", rawget(description, "options"))
  sim:trace_(options.paths, workload.settle(sim, "aisim.trace", "trace", options, options.paths))
end

return M
