--- Small JSON texts with the keys in the order they are given.
-- An object is made with json.object { "key", value, "key", value, … }; a table without that mark is a
-- list. Numbers are written with nine significant digits; nil, nan and infinities as null.
local M = {}

local Object <const> = {}

--- Marks a list of alternating keys and values as an object. n: length, when values may be nil.
function M.object(pairs_list, n)
  return setmetatable({ items = pairs_list, n = n or #pairs_list }, Object)
end

local ESCAPES <const> = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }

local function text(value)
  return '"' .. value:gsub('[%c"\\]', function(c) return ESCAPES[c] or ("\\u%04x"):format(c:byte()) end) .. '"'
end

--- One line.
---@return string
function M.encode(value)
  local kind = type(value)
  if kind == "string" then return text(value) end
  if kind == "boolean" then return tostring(value) end
  if kind == "number" then
    if value ~= value or value == math.huge or value == -math.huge then return "null" end
    return math.type(value) == "integer" and ("%d"):format(value) or ("%.9g"):format(value)
  end
  if kind ~= "table" then return "null" end
  local parts = {}
  if getmetatable(value) == Object then
    for i = 1, value.n, 2 do
      parts[#parts + 1] = text(value.items[i]) .. ":" .. M.encode(value.items[i + 1])
    end
    return "{" .. table.concat(parts, ",") .. "}"
  end
  for i, item in ipairs(value) do parts[i] = M.encode(item) end
  return "[" .. table.concat(parts, ",") .. "]"
end

return M
