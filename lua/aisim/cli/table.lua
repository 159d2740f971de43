--- Plain tables of text: left-aligned columns within 100 columns of the screen. The last column is wrapped; where
-- little is left for it, the widest of those between it and the first are wrapped too.
local render = require "aisim.render"

local M = { wrap = render.wrap }

local WIDTH <const> = 100
local LAST <const> = 30   -- columns that the last one gets at least, if its texts are that long
local NARROW <const> = 16 -- no column is made narrower

local function width_of(text) return utf8.len(text) or #text end

local function natural_widths(rows)
  local widths = {}
  for _, row in ipairs(rows) do
    for i, cell in ipairs(row) do widths[i] = math.max(widths[i] or 0, width_of(cell)) end
  end
  return widths
end

--- Takes from the widest columns but the last what is missing for it. The first, the name, goes last.
local function fit(widths, indent)
  local last = #widths
  local missing = indent + math.min(widths[last] or 0, LAST) - WIDTH
  for i = 1, last - 1 do missing = missing + widths[i] + 2 end
  for first = 2, 1, -1 do
    while missing > 0 do
      local widest
      for i = first, last - 1 do
        if widths[i] > NARROW and (not widest or widths[i] > widths[widest]) then widest = i end
      end
      if not widest then break end
      widths[widest], missing = widths[widest] - 1, missing - 1
    end
  end
end

--- A cell as lines; words longer than it are cut.
local function lines_of(cell, width)
  if width_of(cell) <= width then return { cell } end
  local out = {}
  for _, line in ipairs(M.wrap(cell, width)) do
    while width_of(line) > width do
      local cut = utf8.offset(line, width + 1) or width + 1
      out[#out + 1], line = line:sub(1, cut - 1), line:sub(cut)
    end
    out[#out + 1] = line
  end
  return out
end

local function add_row(out, row, widths, indent)
  local cells, height = {}, 1
  local room = WIDTH - indent
  for i, cell in ipairs(row) do
    local width = i < #row and widths[i] or math.max(LAST, room)
    cells[i] = lines_of(cell, width)
    height = math.max(height, #cells[i])
    room = room - width - 2
  end
  for at = 1, height do
    local line = (" "):rep(indent)
    for i = 1, #row do
      local part = cells[i][at] or ""
      line = line .. part .. (i < #row and (" "):rep(widths[i] - width_of(part) + 2) or "")
    end
    out[#out + 1] = line:gsub("%s+$", "")
  end
end

--- Rows as lines.
---@param rows string[][]
---@param indent? integer
---@return string
function M.text(rows, indent)
  local widths = natural_widths(rows)
  fit(widths, indent or 0)
  local out = {}
  for _, row in ipairs(rows) do add_row(out, row, widths, indent or 0) end
  return table.concat(out, "\n")
end

return M
