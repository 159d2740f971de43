--- Configuration files as simulations: aisim run X.yaml, and sim:cluster "X.yaml" in a script.
-- The file has been read, overridden, checked and completed in C (src/config/prediction.h); what arrives
-- here is a tree with every default written out, so this file only says which call a key becomes.
local aisim = require "aisim"
local core = require "aisim.core"

local M = {}

--- Distributions of the file are those of aisim.dist: { lognormal = { p50 = …, p99 = … } }.
local DISTRIBUTIONS <const> = {
  const = aisim.dist.const,
  uniform = function(bounds)
    if #bounds ~= 2 then error("uniform: [from, to] expected", 0) end
    return aisim.dist.uniform(bounds[1], bounds[2])
  end,
}

local function quantity(path, value)
  if type(value) ~= "table" then return value end
  local name, parameters = next(value)
  local ok, law = pcall(DISTRIBUTIONS[name] or aisim.dist[name], parameters)
  if not ok then error(("%s: %s"):format(path, tostring(law)), 0) end
  return law
end

local function rate_of(load) return load.requests_per_second or load.sessions_per_second end

--- Points of a ramp as { seconds, value }, and whether they are numbers in flight.
local function ramp(points)
  local list = {}
  for i, point in ipairs(points) do list[i] = { point.seconds, point.concurrency or rate_of(point) } end
  return list, points[1].concurrency ~= nil
end

local A <const> = aisim.arrivals

--- Load shapes: what a workload needs to start its units so.
local LOADS <const> = {
  concurrency = function(load) return { concurrency = load.concurrency } end,
  constant_rate = function(load) return { arrivals = A.constant_rate { rate = rate_of(load) } } end,
  poisson = function(load) return { arrivals = A.poisson { rate = rate_of(load) } } end,
  gamma = function(load) return { arrivals = A.gamma { rate = rate_of(load), smoothness = load.smoothness } } end,
  burst = function(load) return { arrivals = A.burst { size = load.size, every_ms = load.every_ms } } end,
  ramp = function(load)
    local list, in_flight = ramp(load.points)
    return in_flight and { concurrency = list } or { arrivals = A.ramp(list) }
  end,
  square = function(load)
    return { arrivals = A.square { base = load.base, amplitude = load.amplitude, period_ms = load.period_ms,
      duty = load.duty } }
  end,
  sine = function(load)
    return { arrivals = A.sine { base = load.base, amplitude = load.amplitude, period_ms = load.period_ms } }
  end,
  kv_capacity_fraction = function(load) return { kv_capacity_fraction = load.fraction } end,
  user_centric = function(load)
    return { users = load.users, think_ms = quantity("traffic.load.think_ms", load.think_ms) }
  end,
  trace_timestamps = function(load)
    return { speedup = load.speedup, from_ms = load.from_ms, to_ms = load.to_ms }
  end,
}

--- Load, stop rules and warmup of any source.
local function common(prediction, traffic)
  local options = LOADS[traffic.load.type](traffic.load)
  local stop, warmup = traffic.stop, traffic.warmup
  options.requests, options.requests_per_load_unit = stop.requests, stop.requests_per_load_unit
  options.sessions, options.sessions_per_load_unit = stop.sessions, stop.sessions_per_load_unit
  options.tokens, options.until_ms = stop.tokens, prediction.until_ms
  if warmup then
    options.warmup = { requests = warmup.requests, seconds = warmup.seconds, barrier = warmup.barrier }
  end
  return options
end

local function synthetic(prediction, traffic)
  local source = traffic.source
  local options = common(prediction, traffic)
  options.prompt = quantity("traffic.source.input_tokens", source.input_tokens)
  options.output = quantity("traffic.source.output_tokens", source.output_tokens)
  options.prefix = source.prefix
  if options.arrivals then return aisim.open(options) end
  options.users, options.concurrency = options.users or options.concurrency, nil
  return aisim.closed(options)
end

local function sessions(prediction, traffic)
  local source, session = traffic.source, traffic.source.session
  local options = common(prediction, traffic)
  for _, key in ipairs { "new_input_tokens_per_turn", "output_tokens_per_turn" } do
    options[key] = quantity("traffic.source." .. key, source[key])
  end
  for _, key in ipairs { "turns", "inter_turn_delay_ms" } do
    options[key] = quantity("traffic.source.session." .. key, session[key])
  end
  options.shared_prefix_ratio = session.shared_prefix_ratio
  if session.prefix_groups > 0 then options.prefix_groups = session.prefix_groups end
  return aisim.synthetic_session(options)
end

--- Keys of the source that may be distributions, into options.
local function quantities(options, source, keys)
  for _, key in ipairs(keys) do options[key] = quantity("traffic.source." .. key, source[key]) end
end

local function agent(prediction, traffic)
  local source, options = traffic.source, common(prediction, traffic)
  quantities(options, source, { "task", "steps", "output", "tool_ms", "tool_tokens" })
  options.system = source.system
  options.compact = source.compact.above ~= "never" and source.compact
  return aisim.agent(options)
end

local function agentic_code(prediction, traffic)
  local source, options = traffic.source, common(prediction, traffic)
  quantities(options, source, { "session_tokens", "new_tokens", "output", "turn_gap_ms" })
  for _, key in ipairs { "global_tokens", "groups", "group_tokens", "group_zipf", "group_weights", "reset", "restart",
    "max_turns" } do
    options[key] = source[key]
  end
  return aisim.agentic_code(options)
end

--- No profile: every play once, without idle guards, until the last one is done.
local ONCE <const> = { duration_seconds = 1e9, tree_idle_cap_seconds = 1e9, global_idle_cap_seconds = 1e9 }

--- Plays in lanes: the keys of aisim.agentx are those of the file without "agentic_". Without a
-- snapshot a play starts at its first turn, without a profile every play runs once.
local function plays(traffic)
  local source, load = traffic.source, traffic.load
  local options = { speedup = load.speedup }
  if source.format == "weka" then
    options.plays = aisim.plays { path = source.paths, align_inputs = source.align_inputs,
      nested_timestamp_basis = source.nested_timestamp_basis }
    if source.block_size and source.block_size ~= options.plays.block_size then
      error(("traffic.source.block_size = %d: the plays have blocks of %d"):format(source.block_size,
        options.plays.block_size), 0)
    end
  else
    options.plays = core.trace_plays(source.paths, { format = source.format,
      block_size = source.block_size })
  end
  for key, value in pairs(load) do
    local name = key:match("^agentic_(.+)$")
    if name and name ~= "snapshot" then options[name] = value end
  end
  if load.agentic_snapshot then
    options.seed, options.u = load.agentic_snapshot.seed, load.agentic_snapshot.u
  else
    options.t_star, options.warmup = { 0, 0 }, false
  end
  if not load.agentic_profile then
    options.profile, options.once = ONCE, true
  end
  options.requests, options.sessions = traffic.stop.requests, traffic.stop.sessions
  return aisim.agentx(options)
end

local PLAYS <const> = { weka = true, agentic_mooncake = true, dynamo = true }

--- Other trace files, and plays without lanes.
local function trace(prediction, traffic)
  local source = traffic.source
  local options = common(prediction, traffic)
  options.path, options.format, options.block_size = source.paths, source.format, source.block_size
  if PLAYS[source.format] then options.until_ms = nil end -- the run ends there anyway
  if source.format == "weka" then
    options.align_inputs, options.nested_timestamp_basis = source.align_inputs, source.nested_timestamp_basis
  end
  return aisim.trace(options)
end

local SOURCES <const> = { synthetic = synthetic, ["synthetic-session"] = sessions, agent = agent,
  ["agentic-code"] = agentic_code, trace = trace }

local function traffic_of(prediction, traffic)
  if traffic.load.agentic_lanes then return plays(traffic) end
  return SOURCES[traffic.source.type](prediction, traffic)
end

--- Names that only the catalogue can judge, with the place where they were written.
local function check_names(prediction)
  for _, key in ipairs { "model", "hardware" } do
    local value = prediction.tree.engine[key]
    local ok, problem = pcall(aisim[key], value)
    if type(value) == "string" and not ok then
      local text = core.error_text(problem)
      local from = text:find(key .. ": ", 1, true)
      if not from then error(problem, 0) end -- about a file
      error(prediction.places[key] .. text:sub(from + #key), 0)
    end
  end
end

--- Everything the file says, in a simulation without pools.
---@param sim aisim.Sim
---@param prediction table   of M.read
---@param traffic boolean    its traffic too
---@return aisim.Pool[]      also by name
function M.build(sim, prediction, traffic)
  local tree, pools = prediction.tree, {}
  check_names(prediction)
  for i, pool in ipairs(prediction.pools) do
    local name = pool.role == "aggregated" and "main" or pool.role
    pools[i] = sim:pool { name = name, role = pool.role, engine = pool.engine }
    pools[name] = pools[i]
  end
  sim:router(tree.router)
  local sla = tree.evaluation and tree.evaluation.sla
  if sla and next(sla) then sim:slo(sla) end
  if traffic then sim:workload(traffic_of(prediction, tree.traffic)) end
  return pools
end

--- A file with --set arguments laid over it, checked, every default written out.
---@param path string
---@param sets string[]   "key=value"
---@return table   { tree, pools, until_ms, digest, yaml }
M.read = core.prediction

return M
