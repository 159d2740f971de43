--- aisim run X.yaml: a configuration file as a job (cli/job.lua).
local near = require "aisim.near"
local predict = require "aisim.predict"
local tables = require "aisim.tables"

local M = {}

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
  local prediction = predict.read(file, sets)
  local load = prediction.tree.traffic.load
  local shown = {}
  for i, set in ipairs(sets) do
    local key, value = set:match("^%s*([^=]-)%s*=%s*(.*)$")
    shown[i] = { key = key, value = value }
  end
  return {
    file = file, seed = load.agentic_snapshot and load.agentic_snapshot.seed or load.seed or 42,
    setup = function(sim) predict.build(sim, prediction, true) end,
    expectations = {}, values = {}, origins = {}, overrides = {}, shown_overrides = shown,
    until_ms = prediction.until_ms, max_wall_time_ms = prediction.tree.traffic.stop.max_wall_time_ms,
    yaml = prediction.yaml,
  }
end

return M
