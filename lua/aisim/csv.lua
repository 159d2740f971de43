--- CSV: a header line, comma, '.' decimal, quotes only where needed (spec/report.md §5).
--   aisim.csv(path) -> list of rows { column = value }, columns (list of names)
--   aisim.csv.encode(rows, columns), aisim.csv.write(path, rows, columns)
-- Read: a field that is a number becomes one, an empty field is absent. Written: nil is an empty field,
-- numbers in the shortest form that reads back as the same number.
local check = require "aisim.check"
local file_of = require "aisim.file"
local json = require "aisim.json"

local M = {}

local function field(value)
  if value == nil or value ~= value then return "" end
  if type(value) == "number" then
    return (value == math.huge or value == -math.huge) and "" or json.number(value)
  end
  local text = tostring(value)
  return text:find('[,"\n\r]') and '"' .. text:gsub('"', '""') .. '"' or text
end

--- Rows as text.
---@param rows table<string, any>[]
---@param columns string[]
---@return string
function M.encode(rows, columns)
  local lines, cells = {}, {}
  for i, name in ipairs(columns) do cells[i] = field(name) end
  lines[1] = table.concat(cells, ",")
  for _, row in ipairs(rows) do
    cells = {}
    for i, name in ipairs(columns) do cells[i] = field(row[name]) end
    lines[#lines + 1] = table.concat(cells, ",")
  end
  return table.concat(lines, "\n") .. "\n"
end

--- Writes a file; it appears when it is complete.
function M.write(path, rows, columns)
  check.value("csv.write: path", path, { "text" })
  check.value("csv.write: rows", rows, { "table" })
  check.value("csv.write: columns", columns, { "table" })
  file_of.write(path, M.encode(rows, columns))
end

--- One record from `at`: its fields, where the next begins, lines it took.
local function record(text, at, where, line)
  local fields, lines = {}, 1
  while true do
    local value
    if text:sub(at, at) == '"' then
      local close = at
      repeat
        close = text:find('"', close + 1, true)
        if not close then error(("%s:%d: a quote is not closed"):format(where, line), 0) end
        local doubled = text:sub(close + 1, close + 1) == '"'
        if doubled then close = close + 1 end
      until not doubled
      value = text:sub(at + 1, close - 1):gsub('""', '"')
      local _, inner = value:gsub("\n", "")
      lines, at = lines + inner, close + 1
    else
      value = text:match("^[^,\r\n]*", at)
      at = at + #value
    end
    fields[#fields + 1] = value
    local ending = text:match("^\r?\n", at)
    if ending then return fields, at + #ending, lines end
    if at > #text then return fields, at, lines end
    if text:sub(at, at) ~= "," then error(("%s:%d: comma expected behind a quote"):format(where, line), 0) end
    at = at + 1
  end
end

--- Rows of a text; an error names the line.
---@param text string
---@param name? string   of the file
---@return table<string, any>[] rows
---@return string[] columns
function M.decode(text, name)
  name = name or "csv"
  text = text:gsub("^\xEF\xBB\xBF", "")
  if text == "" then error(("%s:1: empty; a header line expected"):format(name), 0) end
  local columns, at, lines = record(text, 1, name, 1)
  local rows, line = {}, 1 + lines
  while at <= #text do
    local fields
    fields, at, lines = record(text, at, name, line)
    if not (#fields == 1 and fields[1] == "") then
      if #fields ~= #columns then
        error(("%s:%d: %d fields, the header has %d"):format(name, line, #fields, #columns), 0)
      end
      local row = {}
      for i, value in ipairs(fields) do
        if value ~= "" then row[columns[i]] = tonumber(value) or value end
      end
      rows[#rows + 1] = row
    end
    line = line + lines
  end
  return rows, columns
end

getmetatable(check.namespace("aisim.csv", M)).__call = function(_, path)
  return M.decode(file_of.read(check.value("aisim.csv: path", path, { "text" })), path)
end

return M
