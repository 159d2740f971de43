--- Tables of figures: first columns to the left, numbers to the right; plain or Markdown.
local check = require "aisim.check"

local M = {}

local function width_of(text) return utf8.len(text) or #text end

local function pad(cell, width, left)
  local space = (" "):rep(width - width_of(cell))
  return left and cell .. space or space .. cell
end

--- Rows as lines; the first row is the head.
---@param rows string[][]
---@param left integer      number of columns that are text
---@param indent? integer
---@return string
function M.text(rows, left, indent)
  local widths = {}
  for _, row in ipairs(rows) do
    for i, cell in ipairs(row) do widths[i] = math.max(widths[i] or 0, width_of(cell)) end
  end
  local lines = {}
  for _, row in ipairs(rows) do
    local cells = {}
    for i, cell in ipairs(row) do cells[i] = pad(cell, widths[i], i <= left) end
    lines[#lines + 1] = ((" "):rep(indent or 0) .. table.concat(cells, "  "):gsub("%s+$", ""))
  end
  return table.concat(lines, "\n")
end

--- The same as a Markdown table.
function M.markdown(rows, left)
  local lines = {}
  for r, row in ipairs(rows) do
    lines[#lines + 1] = "| " .. table.concat(row, " | ") .. " |"
    if r == 1 then
      local rule = {}
      for i = 1, #row do rule[i] = i <= left and "---" or "--:" end
      lines[#lines + 1] = "|" .. table.concat(rule, "|") .. "|"
    end
  end
  return table.concat(lines, "\n")
end

local COLUMN <const> = { key = { "any", required = true }, title = { "text" }, format = { "text" } }

--- aisim.table(rows, columns): rows as text. A column is a key of the rows (of a list: its title), or
-- { key =, title =, format = }; without `columns` rows are lists and the first one is the head. Texts stand left,
-- numbers right.
---@param rows table[]
---@param columns (string|integer|table)[]?
---@return string
function M.table(rows, columns)
  check.value("aisim.table: rows", rows, { "table" })
  local cells, left = {}, 0
  if columns == nil then
    for i, row in ipairs(rows) do
      cells[i] = {}
      for k, value in ipairs(row) do cells[i][k] = M.cell(value) end
    end
    return M.text(cells, 1)
  end
  local head, text, by_place = {}, {}, {}
  for i, row in ipairs(rows) do by_place[i] = type(next(row)) == "number" end -- lists: columns are places
  for k, column in ipairs(check.value("aisim.table: columns", columns, { "table" })) do
    if type(column) ~= "table" then column = { key = column } end
    column = check.options(("aisim.table: columns[%d]"):format(k), column, COLUMN)
    head[k], text[k] = column.title or tostring(column.key), true
    for i, row in ipairs(rows) do
      local value = row[column.key]
      if value == nil and by_place[i] then value = row[k] end
      text[k] = text[k] and type(value) ~= "number"
      cells[i + 1] = cells[i + 1] or {}
      cells[i + 1][k] = column.format and value ~= nil and column.format:format(value) or M.cell(value)
    end
  end
  cells[1] = head
  while left < #head and text[left + 1] do left = left + 1 end
  return M.text(cells, left)
end

--- A value as a cell: numbers with three to four digits, nil as "-".
function M.cell(value)
  if value == nil then return "-" end
  return type(value) == "number" and require("aisim.render").value(value) or tostring(value)
end

return M
