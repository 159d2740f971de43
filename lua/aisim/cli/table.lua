--- Plain tables of text: left-aligned columns, the last one wrapped at 100 columns.
local render = require "aisim.render"

local M = { wrap = render.wrap }

local WIDTH <const> = 100

local function width_of(text) return utf8.len(text) or #text end

--- Rows as lines.
---@param rows string[][]
---@param indent? integer
---@return string
function M.text(rows, indent)
  local widths, columns = {}, 0
  for _, row in ipairs(rows) do
    for i, cell in ipairs(row) do widths[i] = math.max(widths[i] or 0, width_of(cell)) end
    columns = math.max(columns, #row)
  end
  local out = {}
  for _, row in ipairs(rows) do
    local line = (" "):rep(indent or 0)
    for i = 1, #row - 1 do
      line = line .. row[i] .. (" "):rep(widths[i] - width_of(row[i]) + 2)
    end
    local room = math.max(30, WIDTH - width_of(line))
    for i, part in ipairs(M.wrap(row[#row] or "", room)) do
      out[#out + 1] = ((i == 1 and line or (" "):rep(width_of(line))) .. part):gsub("%s+$", "")
    end
  end
  return table.concat(out, "\n")
end

return M
