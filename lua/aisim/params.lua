--- Parameters of a scenario: declaration, overrides, and the read-only table that setup gets.
-- A declaration is { default, help, min =, max =, integer =, choices =, unit = }; its kind (number,
-- text, boolean) is that of the default. Every message names the file and the line of the declaration
-- and, if an override caused it, the flag.
local near = require "aisim.near"

local M = {}

local KEYS <const> = {
  default = true, help = true, min = true, max = true, integer = true, choices = true, unit = true,
}
local KINDS <const> = { number = true, string = true, boolean = true }

---@class aisim.Param
---@field name string
---@field kind "number"|"string"|"boolean"
---@field default any
---@field help string
---@field min number?
---@field max number?
---@field integer boolean
---@field choices any[]?
---@field unit string?
---@field where string     "scenarios/a.lua:7"

local function shown(value)
  if type(value) == "string" then return "'" .. value .. "'" end
  if math.type(value) == "float" then
    local whole = math.tointeger(value)
    if whole then return ("%d"):format(whole) end
    return ("%.14g"):format(value)
  end
  return tostring(value)
end
M.shown = shown

local function fail(param, value, what, flag)
  error(("%s: param %s = %s: %s%s"):format(param.where, param.name, shown(value), what,
    flag and (" (%s)"):format(flag) or ""), 0)
end

--- Checks a value against a declaration and brings it into its number type.
---@param param aisim.Param
---@param value any
---@param flag? string   "--set rate=-1", named in the message
---@return any value
function M.check(param, value, flag)
  if type(value) ~= param.kind then
    fail(param, value, ("%s expected"):format(param.kind == "string" and "text" or param.kind), flag)
  end
  if param.kind == "number" then
    if value ~= value or value == math.huge or value == -math.huge then fail(param, value, "must be finite", flag) end
    if param.integer then
      local whole = math.tointeger(value)
      if not whole then fail(param, value, "must be an integer", flag) end
      value = whole
    elseif math.type(param.default) == "float" then
      value = value + 0.0
    end
    if param.min and value < param.min then fail(param, value, ("must be ≥ %s"):format(shown(param.min)), flag) end
    if param.max and value > param.max then fail(param, value, ("must be ≤ %s"):format(shown(param.max)), flag) end
  end
  if param.choices then
    local names = {}
    for i, choice in ipairs(param.choices) do
      if choice == value then return value end
      names[i] = tostring(choice)
    end
    fail(param, value, ("must be one of %s%s"):format(table.concat(names, ", "),
      type(value) == "string" and near.hint(value, names) or ""), flag)
  end
  return value
end

--- One declaration.
---@param name string
---@param decl any
---@param where string
---@return aisim.Param
local function declare(name, decl, where)
  local function bad(what, ...) error(("%s: params.%s: %s"):format(where, name, what:format(...)), 0) end
  if type(name) ~= "string" or not name:match("^[%a_][%w_]*$") then
    error(("%s: params: '%s' is not a name (letters, digits, _)"):format(where, tostring(name)), 0)
  end
  if type(decl) ~= "table" then bad("{ default, \"help\" } expected, got %s", type(decl)) end
  for key in pairs(decl) do
    if key ~= 1 and key ~= 2 and not KEYS[key] then
      bad("unknown key '%s'%s", tostring(key), type(key) == "string" and near.hint(key, KEYS) or "")
    end
  end
  local default = decl.default
  if default == nil then default = decl[1] end
  local help = decl.help or decl[2]
  if not KINDS[type(default)] then bad("the default must be a number, a text or a boolean, got %s", type(default)) end
  if type(help) ~= "string" then bad("second item: help text expected, got %s", type(help)) end
  for _, bound in ipairs { "min", "max" } do
    if decl[bound] ~= nil and (type(decl[bound]) ~= "number" or type(default) ~= "number") then
      bad("%s: only for numbers", bound)
    end
  end
  if decl.integer and type(default) ~= "number" then bad("integer: only for numbers") end
  if decl.choices ~= nil and (type(decl.choices) ~= "table" or #decl.choices == 0) then
    bad("choices: list of values expected")
  end
  if decl.unit ~= nil and type(decl.unit) ~= "string" then bad("unit: text expected") end
  local param = {
    name = name, kind = type(default), help = help, min = decl.min, max = decl.max,
    integer = decl.integer and true or false, choices = decl.choices, unit = decl.unit, where = where,
    default = default,
  }
  for _, choice in ipairs(decl.choices or {}) do
    if type(choice) ~= param.kind then bad("choices: all of the kind of the default (%s)", param.kind) end
  end
  param.default = M.check(param, default)
  return param
end

--- All declarations, sorted by name.
---@param decls any
---@param where fun(name?: string): string   place of a declaration (nil: of the whole)
---@return aisim.Param[]
function M.declare(decls, where)
  local list = {}
  if decls == nil then return list end
  if type(decls) ~= "table" then
    error(("%s: params: table expected, got %s"):format(where(), type(decls)), 0)
  end
  local names = {}
  for name in pairs(decls) do names[#names + 1] = name end
  table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
  for i, name in ipairs(names) do list[i] = declare(name, decls[name], where(tostring(name))) end
  return list
end

--- Brings the text of a --set into the kind of the parameter.
---@param param aisim.Param
---@param text string
---@param flag string
---@return any
function M.from_text(param, text, flag)
  if param.kind == "string" then return text end
  if param.kind == "number" then
    local value = tonumber(text)
    if not value then fail(param, text, "number expected", flag) end
    return value
  end
  if text == "true" or text == "false" then return text == "true" end
  return fail(param, text, "true or false expected", flag)
end

---@class aisim.Override
---@field key string
---@field value any     text if it was typed, else a value
---@field flag string?  how the user wrote it, "--set rate=4"

--- Values of all parameters.
---@param params aisim.Param[]
---@param overrides aisim.Override[]   later ones win
---@param file string                  named when a parameter is unknown
---@return table<string, any> values
---@return table<string, string> origins   name -> "--set" for what is not the default
function M.resolve(params, overrides, file)
  local values, origins, by_name = {}, {}, {}
  for _, param in ipairs(params) do
    values[param.name], by_name[param.name] = param.default, param
  end
  for _, override in ipairs(overrides) do
    local param = by_name[override.key]
    local flag = override.flag
    if not param then
      local hint = near.hint(override.key, by_name)
      if hint == "" then
        local names = {}
        for i, known in ipairs(params) do names[i] = known.name end
        hint = #names > 0 and (" (it has %s)"):format(table.concat(names, ", ")) or " (it declares none)"
      end
      error(("aisim: %s: unknown parameter '%s' in %s%s"):format(flag or override.key, override.key, file, hint), 0)
    end
    local value = override.value
    if flag and type(value) == "string" then value = M.from_text(param, value, flag) end
    value = M.check(param, value, flag)
    values[param.name] = value
    origins[param.name] = value ~= param.default and (flag and "--set" or "given") or nil
  end
  return values, origins
end

--- What setup and report get: reading an undeclared name is an error, writing too.
---@param values table<string, any>
---@return table
function M.view(values)
  return setmetatable({}, {
    __index = function(_, name)
      local value = values[name]
      if value == nil then
        error(("param '%s' is not declared%s"):format(tostring(name),
          type(name) == "string" and near.hint(name, values) or ""), 2)
      end
      return value
    end,
    __newindex = function(_, name)
      error(("param '%s': parameters are read-only; change them with --set %s=…"):format(tostring(name),
        tostring(name)), 2)
    end,
    __pairs = function()
      local names = {}
      for name in pairs(values) do names[#names + 1] = name end
      table.sort(names)
      local i = 0
      return function()
        i = i + 1
        if names[i] then return names[i], values[names[i]] end
      end
    end,
    __name = "aisim.params",
  })
end

return M
