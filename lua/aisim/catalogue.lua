--- Models and hardware: descriptors by name, alias, file or table (spec/lua-api.md §3).
-- A descriptor is a plain table in the keys of the timing room; C checks keys and values when a pool is
-- built. Entries of the catalogue are files of lua/aisim/models and lua/aisim/hardware.
local check = require "aisim.check"
local core = require "aisim.core"
local near = require "aisim.near"

local M = {}

local function host() return package.loaded["aisim.host"] end

--- Text of a file of the library ("models/qwen3-8b.lua"), or nil.
local function library_file(path)
  local folder = core.folder()
  if folder then
    local file <close> = io.open(folder .. path, "rb")
    if file then return file:read("a") end
  end
  return host() and host().file and host().file("aisim/" .. path)
end

--- Names of the entries of a folder, sorted.
---@param kind "models"|"hardware"
---@return string[]
function M.names(kind)
  local seen, names = {}, {}
  local function add(name)
    if name and not seen[name] then seen[name], names[#names + 1] = true, name end
  end
  local folder = core.folder()
  local has_lfs, lfs = pcall(require, "lfs")
  if folder and has_lfs and lfs.attributes(folder .. kind, "mode") == "directory" then
    for file in lfs.dir(folder .. kind) do add(file:match("^(.+)%.lua$")) end
  end
  if host() and host().modules then
    local prefix = ("aisim.%s."):format(kind)
    for _, name in ipairs(host().modules(prefix)) do add(name:sub(#prefix + 1)) end
  end
  table.sort(names)
  return names
end

local loaded = { models = {}, hardware = {} }

local function entry(kind, name)
  local cache = loaded[kind]
  if cache[name] == nil then
    local path = ("%s/%s.lua"):format(kind, name)
    local text = name:find("^[%w%._%-]+$") and library_file(path)
    local chunk = text and assert(load(text, "@aisim/" .. path, "t", {}))
    cache[name] = chunk and chunk() or false
  end
  return cache[name] or nil
end

local function by_alias(kind, alias, names)
  local wanted = alias:lower()
  for _, name in ipairs(names) do
    local descriptor = entry(kind, name)
    if name:lower() == wanted then return descriptor end
    for _, other in ipairs(descriptor.aliases or {}) do
      other = other:lower()
      if other == wanted or other:match("[^/]+$") == wanted then return descriptor end -- without the organisation
    end
  end
end

local function from_file(path)
  local file <close> = io.open(path, "rb") or check.fail("model: cannot open %s", path)
  local text = file:read("a")
  if path:find("%.json$") then
    local ok, config = pcall(require("cjson").decode, text)
    if not ok then check.fail("%s: %s", path, tostring(config)) end
    return config.architectures and require("aisim.config_json").read(path, config) or config
  end
  if path:find("%.ya?ml$") then return core.yaml(path) end
  local chunk, message = load(text, "@" .. path, "t", {})
  if not chunk then check.fail("%s", message) end
  return chunk()
end

local function find(kind, what, source)
  if type(source) == "table" then return source end
  if type(source) ~= "string" then check.fail("%s: name, path or table expected, got %s", what, type(source)) end
  local descriptor = entry(kind, source)
  if descriptor then return descriptor end
  if source:find("%.json$") or source:find("%.ya?ml$") or source:find("%.lua$") then return from_file(source) end
  local names = M.names(kind)
  descriptor = by_alias(kind, source, names)
  if not descriptor then
    check.fail("%s: '%s' is not in the catalogue%s; there are %s", what, source, near.hint(source, names),
      table.concat(names, ", "))
  end
  return descriptor
end

--- Descriptor of a model: catalogue name or alias, path of a config.json, YAML or Lua file, or a table.
---@param source string|table
---@return table
function M.model(source) return find("models", "model", source) end

--- Descriptor of a GPU.
---@param source string|table
---@return table
function M.hardware(source) return find("hardware", "hardware", source) end

--- Text of the built-in calibration of a hardware, or nil.
---@param source string
---@return string?
function M.calibration(source)
  local descriptor = M.hardware(source)
  return descriptor.name and library_file(("hardware/%s.calib"):format(descriptor.name)) or nil
end

core.catalogue { model = M.model, hardware = M.hardware, calibration = M.calibration }

return M
