--- Checks of option tables: every key known, every value of its kind and in its range.
-- Messages carry the line of the script that made the call, however deep in the library the check is
-- (core.fail walks up to the first frame that is not ours).
local core = require "aisim.core"
local near = require "aisim.near"
local units = require "aisim.units"

local M = {}

--- Raises "file:line: message" with the position of the script.
---@param format string
---@return any  never returns
function M.fail(format, ...)
  return core.fail(select("#", ...) > 0 and format:format(...) or format)
end
local fail <const> = M.fail

--- A value as messages show it.
---@param value any
---@return string
function M.show(value)
  if type(value) == "string" then return ("'%s'"):format(value) end
  if math.type(value) == "float" and value == math.floor(value) and math.abs(value) < 1e15 then
    return ("%d"):format(value)
  end
  if math.type(value) == "float" then return ("%.14g"):format(value) end
  if type(value) == "table" then return "a table" end
  return tostring(value)
end
local show <const> = M.show

--- Raises unless every key of a table is known.
---@param where string     "sim:on"
---@param options table
---@param known table      its keys are the known names
function M.keys(where, options, known)
  local unknown
  for key in pairs(options) do
    if known[key] == nil and (unknown == nil or tostring(key) < tostring(unknown)) then unknown = key end
  end
  if unknown ~= nil then
    unknown = tostring(unknown)
    fail("%s: unknown key '%s'%s", where, unknown, near.hint_or_names(unknown, known, "keys here"))
  end
end

--- Makes a table of functions refuse names that it does not have.
---@generic T: table
---@param where string    "aisim.dist"
---@param members T
---@return T
function M.namespace(where, members)
  return setmetatable(members, { __index = function(_, name)
    local hint = near.hint_or_names(tostring(name), members, "there are")
    return fail("%s: unknown name '%s'%s", where, tostring(name), hint)
  end })
end

-- One reader per kind of option: (value, spec, where) -> value. where is "sim:on.batch".
local KINDS <const> = {}

local function expected(what, value, where)
  return fail("%s: %s expected, got %s", where, what, type(value) == "string" and show(value) or type(value))
end

local function in_range(value, spec, where)
  if value ~= value then fail("%s: not a number (nan)", where) end
  if spec.min and value < spec.min then fail("%s = %s: must be >= %s", where, show(value), show(spec.min)) end
  if spec.above and value <= spec.above then fail("%s = %s: must be > %s", where, show(value), show(spec.above)) end
  if spec.max and value > spec.max then fail("%s = %s: must be <= %s", where, show(value), show(spec.max)) end
  if spec.finite and (value == math.huge or value == -math.huge) then fail("%s: must be finite", where) end
  return value
end

function KINDS.number(value, spec, where)
  if type(value) ~= "number" then expected("number", value, where) end
  return in_range(value, spec, where)
end

function KINDS.integer(value, spec, where)
  if type(value) ~= "number" then expected("whole number", value, where) end
  local whole = math.tointeger(value)
  if not whole then fail("%s = %s: whole number expected", where, show(value)) end
  return in_range(whole, spec, where)
end

function KINDS.boolean(value, _, where)
  if type(value) ~= "boolean" then expected("true or false", value, where) end
  return value
end

KINDS["function"] = function(value, _, where)
  if type(value) ~= "function" then expected("function", value, where) end
  return value
end

function KINDS.table(value, _, where)
  if type(value) ~= "table" then expected("table", value, where) end
  return value
end

function KINDS.text(value, spec, where)
  if type(value) ~= "string" then expected("text", value, where) end
  if spec.one_of then
    for _, choice in ipairs(spec.one_of) do
      if choice == value then return value end
    end
    fail("%s = %s: must be one of %s%s", where, show(value), table.concat(spec.one_of, ", "),
      near.hint(value, spec.one_of))
  end
  return value
end

--- Milliseconds: a number, or a text with a unit.
function KINDS.ms(value, spec, where)
  local ms = value
  if type(value) == "string" then
    ms = units.ms(value)
    if not ms then fail("%s = %s: time expected, for example 250 (ms), \"250ms\", \"2m\"", where, show(value)) end
  elseif type(value) ~= "number" then
    expected("time in ms", value, where)
  end
  if ms ~= ms then fail("%s: not a number (nan)", where) end
  return in_range(ms, spec, where)
end

function KINDS.bytes(value, spec, where)
  local bytes = value
  if type(value) == "string" then
    bytes = units.bytes(value)
    if not bytes then fail("%s = %s: size expected, for example \"80GiB\"", where, show(value)) end
  elseif type(value) ~= "number" then
    expected("size in bytes", value, where)
  end
  return in_range(bytes, spec, where)
end

--- Per second: a number, or "2/s", "90/m".
function KINDS.rate(value, spec, where)
  local rate = value
  if type(value) == "string" then
    rate = units.rate(value)
    if not rate then fail("%s = %s: rate expected, for example 2 (per second), \"2/s\"", where, show(value)) end
  elseif type(value) ~= "number" then
    expected("rate per second", value, where)
  end
  return in_range(rate, spec, where)
end

function KINDS.any(value) return value end

--- Reads one value that is not in a table.
---@param where string
---@param value any
---@param spec table    { kind, … } as in M.options
function M.value(where, value, spec)
  return KINDS[spec[1]](value, spec, where)
end

local order = setmetatable({}, { __mode = "k" }) -- fields -> sorted names

--- Reads an option table: unknown keys, kinds, ranges, defaults.
-- A field spec is { kind, default =, required =, min =, above =, max =, finite =, one_of =, read = };
-- read(value, where) replaces the reader of the kind.
---@param where string
---@param options any
---@param fields table<string, table>    a constant of the caller: its order is remembered
---@return table   fresh, with defaults filled in
function M.options(where, options, fields)
  if options == nil then options = {} end
  if type(options) ~= "table" then fail("%s: table of options expected, got %s", where, type(options)) end
  M.keys(where, options, fields)
  local names = order[fields]
  if not names then
    names = M.sorted(fields)
    order[fields] = names
  end
  local out = {}
  for i = 1, #names do
    local name = names[i]
    local spec, value = fields[name], options[name]
    if value == nil then
      if spec.required then
        local kind = spec.expected or spec[1]
        fail("%s.%s: %s expected, got nil", where, name, kind == "ms" and "time in ms" or kind)
      end
      out[name] = spec.default
    elseif spec.read then
      out[name] = spec.read(value, where .. "." .. name)
    else
      out[name] = KINDS[spec[1]](value, spec, where .. "." .. name)
    end
  end
  return out
end

--- Keys of a table in order (errors must not depend on the order of pairs).
---@param set table<string, any>
---@return string[]
function M.sorted(set)
  local names = {}
  for name in pairs(set) do names[#names + 1] = name end
  table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
  return names
end

core.on_unknown(function(name, names) return near.hint_or_names(name, names, "there are") end)

return M
