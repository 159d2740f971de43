--- Tables of figures: first columns to the left, numbers to the right; plain or Markdown.
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

return M
