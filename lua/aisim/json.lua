--- JSON: reading with positions in messages, writing with the keys in a fixed order.
--   aisim.json(path) -> value of a file;  aisim.json.decode(text, name);  aisim.json.encode(value, indent)
--   aisim.json.write(path, value): a file, complete or not there
-- Written: the keys of json.object { "key", value, … } in the order given, those of a plain table sorted;
-- a table without text keys is a list. Numbers in the shortest form that reads back as the same number;
-- nil, nan and infinities as null. Read: null becomes json.null, whole numbers become integers.
local cjson = require "cjson"
local check = require "aisim.check"
local file_of = require "aisim.file"

local M = { null = cjson.null }

local Object <const> = {}

--- Marks a list of alternating keys and values as an object. n: length, when values may be nil.
---@param list any[]
---@param n? integer
function M.object(list, n)
  return setmetatable({ items = list, n = n or #list }, Object)
end

local ESCAPES <const> = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }

local function quoted(value)
  return '"' .. value:gsub('[%c"\\]', function(c) return ESCAPES[c] or ("\\u%04x"):format(c:byte()) end) .. '"'
end

--- The shortest text that reads back as the same number.
---@param x number   finite
---@return string
function M.number(x)
  if math.type(x) == "integer" then return ("%d"):format(x) end
  for digits = 15, 16 do
    local text = ("%." .. digits .. "g"):format(x)
    if tonumber(text) == x then return text end
  end
  return ("%.17g"):format(x)
end

local encode

--- Keys and values of a table in the order in which they are written; nil for a list.
local function members(value)
  if getmetatable(value) == Object then
    local keys, values = {}, {}
    for i = 1, value.n, 2 do keys[(i + 1) // 2], values[(i + 1) // 2] = value.items[i], value.items[i + 1] end
    return keys, values
  end
  local keys, values = {}, {}
  for key in pairs(value) do
    if type(key) == "string" then keys[#keys + 1] = key end
  end
  if #keys == 0 then return nil end
  table.sort(keys)
  for i, key in ipairs(keys) do values[i] = value[key] end
  return keys, values
end

local function joined(parts, open, close, indent, depth)
  if not indent or #parts == 0 then return open .. table.concat(parts, ",") .. close end
  local pad = "\n" .. (" "):rep(indent * (depth + 1))
  return open .. pad .. table.concat(parts, "," .. pad) .. "\n" .. (" "):rep(indent * depth) .. close
end

function encode(value, indent, depth)
  local kind = type(value)
  if kind == "string" then return quoted(value) end
  if kind == "boolean" then return tostring(value) end
  if kind == "number" then
    return value == value and value ~= math.huge and value ~= -math.huge and M.number(value) or "null"
  end
  if kind ~= "table" then return "null" end
  local keys, values = members(value)
  local parts = {}
  if not keys then
    for i, item in ipairs(value) do parts[i] = encode(item, indent, depth + 1) end
    return joined(parts, "[", "]", indent, depth)
  end
  for i, key in ipairs(keys) do
    parts[i] = quoted(key) .. (indent and ": " or ":") .. encode(values[i], indent, depth + 1)
  end
  return joined(parts, "{", "}", indent, depth)
end

--- One line, or with `indent` spaces per level.
---@param value any
---@param indent? integer
---@return string
function M.encode(value, indent) return encode(value, indent, 0) end

-- Whole numbers are integers again, as they were before they were written.
local function restored(value)
  if type(value) == "number" then return math.tointeger(value) or value end
  if type(value) == "table" then
    for key, item in pairs(value) do value[key] = restored(item) end
  end
  return value
end

--- The value of a text. An error names the place: "name:line:column: …".
---@param text string
---@param name? string   of the file
---@return any
function M.decode(text, name)
  if type(text) ~= "string" then check.fail("json.decode: text expected, got %s", type(text)) end
  local ok, value = pcall(cjson.decode, text)
  if ok then return restored(value) end
  local what, at = tostring(value):match("^(.-) at character (%d+)$")
  local before = text:sub(1, (tonumber(at) or 1) - 1)
  local _, lines = before:gsub("\n", "")
  error(("%s:%d:%d: %s"):format(name or "json", lines + 1, #before:match("[^\n]*$") + 1, what or tostring(value)), 0)
end

--- Writes a value; the file appears when it is complete.
---@param path string
---@param value any
function M.write(path, value)
  check.value("json.write: path", path, { "text" })
  file_of.write(path, M.encode(value, 2) .. "\n")
end

getmetatable(check.namespace("aisim.json", M)).__call = function(_, path)
  return M.decode(file_of.read(check.value("aisim.json: path", path, { "text" })), path)
end

return M
