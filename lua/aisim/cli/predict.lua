--- aisim run X.yaml: builds a simulation from a configuration file.
-- The file has been read, overridden, checked and completed in C (src/config/prediction.h); what arrives
-- here is a tree with every default written out, so this file only says which call a key becomes.
local aisim = require "aisim"
local near = require "aisim.near"
local tables = require "aisim.tables"

local M = {}

--- Load shapes of synthetic sources.
local LOADS <const> = {
  concurrency = function(load, common)
    common.users = load.concurrency
    return aisim.closed(common)
  end,
  constant_rate = function(load, common)
    common.arrivals = aisim.arrivals.constant_rate { rate = load.requests_per_second }
    return aisim.open(common)
  end,
  poisson = function(load, common)
    common.arrivals = aisim.arrivals.poisson { rate = load.requests_per_second }
    return aisim.open(common)
  end,
}

local function synthetic(prediction, traffic)
  local source = traffic.source
  local common = {
    prompt = aisim.dist.const(source.input_tokens), output = aisim.dist.const(source.output_tokens),
    requests = prediction.stop_requests, until_ms = prediction.until_ms,
  }
  return LOADS[traffic.load.type](traffic.load, common)
end

--- No profile: every play once, without idle guards, until the last one is done.
local ONCE <const> = { duration_seconds = 1e9, tree_idle_cap_seconds = 1e9, global_idle_cap_seconds = 1e9 }

--- Recorded plays: the keys of aisim.agentx are those of the file without "agentic_".
local function plays(traffic)
  local source, load, options = traffic.source, traffic.load, {}
  for key, value in pairs(load) do
    local name = key:match("^agentic_(.+)$")
    if name and name ~= "snapshot" then options[name] = value end
  end
  options.plays = aisim.plays {
    path = source.paths, align_inputs = source.align_inputs,
    nested_timestamp_basis = source.nested_timestamp_basis,
  }
  options.speedup = load.speedup
  options.once = options.profile == nil
  options.profile = options.profile or ONCE
  options.lanes = options.lanes or math.min(load.concurrency or #options.plays, #options.plays)
  local snapshot = load.agentic_snapshot
  if snapshot then
    options.seed, options.u = snapshot.seed, snapshot.u
  else
    options.t_star = { 0, 0 } -- from the first turn
  end
  return aisim.agentx(options)
end

local function build(sim, prediction)
  local tree = prediction.tree
  for _, pool in ipairs(prediction.pools) do
    sim:pool { name = pool.role == "aggregated" and "main" or pool.role, role = pool.role, engine = pool.engine }
  end
  sim:router(tree.router)
  local sla = tree.evaluation and tree.evaluation.sla
  if sla and next(sla) then sim:slo(sla) end
  sim:workload(tree.traffic.source.type == "trace" and plays(tree.traffic) or synthetic(prediction, tree.traffic))
end

--- Paths for --set; a single word can only be a mistake for one of them.
local function check_paths(file, sets)
  local paths = tables.paths("prediction")
  for _, set in ipairs(sets) do
    local key = set:match("^%s*([^=]-)%s*=")
    if key and not key:find(".", 1, true) then
      local hint = near.path_hint(key, paths)
      error(("aisim: --set %s: unknown key '%s' in %s%s"):format(set, key, file,
        hint ~= "" and hint or "; write the whole path, such as engine.workers.aggregated.parallelism.tensor=2"), 0)
    end
  end
end

--- Loads a configuration file as a job (cli/job.lua).
---@param file string
---@param args table
---@return aisim.Job
function M.load(file, args)
  local sets = args.set or {}
  check_paths(file, sets)
  local prediction = tables.prediction(file, sets)
  local load = prediction.tree.traffic.load
  local shown = {}
  for i, set in ipairs(sets) do
    local key, value = set:match("^%s*([^=]-)%s*=%s*(.*)$")
    shown[i] = { key = key, value = value }
  end
  return {
    file = file, seed = load.agentic_snapshot and load.agentic_snapshot.seed or load.seed or 42,
    setup = function(sim) build(sim, prediction) end,
    expectations = {}, values = {}, origins = {}, overrides = {}, shown_overrides = shown,
    until_ms = prediction.until_ms, yaml = prediction.yaml,
  }
end

return M
