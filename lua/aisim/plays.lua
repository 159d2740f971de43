--- Agent plays: aisim.plays loads recorded ones, aisim.agentx_synthetic makes some up (spec/traffic.md §1, §4.3).
-- Both give an aisim.Plays, accepted wherever plays= is.
local check = require "aisim.check"
local core = require "aisim.core"

local M = {}

local Plays = core.methods["aisim.Plays"]

-- Reading ------------------------------------------------------------------------------------------

local SOURCE <const> = {
  path = { "any" },
  nested_timestamp_basis = { "text", one_of = { "auto", "absolute", "relative" }, default = "auto" },
  align_inputs = { "any", default = false },
}

local function paths_of(where, path)
  if type(path) == "string" then return { path } end
  if type(path) ~= "table" or #path == 0 then
    check.fail("%s: path, or list of paths expected, got %s", where, type(path))
  end
  for i, item in ipairs(path) do
    if type(item) ~= "string" then check.fail("%s[%d]: path expected, got %s", where, i, type(item)) end
  end
  return path
end

M.paths = paths_of

local function align_of(where, value)
  local align = tostring(value)
  if align ~= "false" and align ~= "floor" and align ~= "ceil" then
    check.fail("%s.align_inputs = %s: must be one of false, floor, ceil", where, check.show(value))
  end
  return align
end

--- Loads plays: files, folders, patterns such as "traces/weka-*.jsonl".
---@param source string|string[]|table   paths, or { path =, nested_timestamp_basis =, align_inputs = }
---@return aisim.Plays
function M.load(source)
  local options = { nested_timestamp_basis = "auto", align_inputs = false, path = source }
  if type(source) == "table" and source[1] == nil then
    options = check.options("aisim.plays", source, SOURCE)
    if options.path == nil then check.fail("aisim.plays.path: path expected, got nil") end
  end
  return core.plays(paths_of("aisim.plays", options.path), options.nested_timestamp_basis,
    align_of("aisim.plays", options.align_inputs))
end

-- Making -------------------------------------------------------------------------------------------

local SYNTHETIC <const> = {
  plays = { "integer", min = 1, max = 10000000 },
  seed = { "integer" },
  preset = { "text", one_of = { "042026", "052726", "062126" } },
  block_size = { "integer", min = 1, max = 65536 },
  whole_blocks = { "boolean" },
  api = { "text", one_of = { "lognormal", "linear" } },
  align_inputs = { "any", default = false },
}
for name, n in pairs(core.synthetic_fields()) do
  SYNTHETIC[name] = n == 1 and { "number", finite = true } or {
    "table",
    read = function(value, where)
      if type(value) ~= "table" or #value ~= n then check.fail("%s: list of %d numbers expected", where, n) end
      for i = 1, n do check.value(("%s[%d]"):format(where, i), value[i], { "number", finite = true }) end
      return value
    end,
  }
end

--- Plays drawn after the published statistics of recorded ones (spec/traffic.md §4.3).
---@param options table   { plays = 200, seed = 42, preset = "042026" } and every parameter of a law by its name
---@return aisim.Plays
function M.synthetic(options)
  options = check.options("aisim.agentx_synthetic", options or {}, SYNTHETIC)
  local align = align_of("aisim.agentx_synthetic", options.align_inputs)
  options.align_inputs = nil
  return core.agentx_synthetic(options, align)
end

-- Writing ------------------------------------------------------------------------------------------

local SAVE <const> = { hash_runs = { "boolean", default = false } }

--- Writes the plays as Weka JSON lines.
---@param path string
---@param options? table   { hash_runs = true } writes start,count lists in place of every block id
function Plays:save(path, options)
  if type(path) ~= "string" then check.fail("plays:save: path expected, got %s", type(path)) end
  core.plays_save(self, path, check.options("plays:save", options or {}, SAVE).hash_runs)
  return self
end

return M
