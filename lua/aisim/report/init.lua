--- Pages: one self-contained HTML file from a run, a sweep or a comparison. No script, no link, no font
-- from elsewhere: tables are HTML, plots are SVG drawn by gnuplot and set into the page. Without gnuplot
-- the page says so and keeps its tables. Same results, same gnuplot: same bytes.
local file_of = require "aisim.file"
local folder_of = require "aisim.folder"
local plot = require "aisim.plot"
local render = require "aisim.render"

local M = {}

local STYLE <const> = [[
body { font: 15px/1.45 sans-serif; max-width: 62em; margin: 2em auto; padding: 0 1em; color: #222; }
h1 { font-size: 1.5em; margin-bottom: 0; } h2 { font-size: 1.15em; margin-top: 2em; }
p.about { color: #555; margin-top: .3em; } p.note { background: #fff4d6; padding: .5em .8em; }
div.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: .93em; }
th, td { padding: .2em .8em .2em 0; text-align: right; border-bottom: 1px solid #e4e4e4; vertical-align: top; }
th.left, td.left { text-align: left; } td.text { text-align: left; color: #555; } thead th { border-color: #999; }
.bad { color: #b00020; } .good { color: #00703c; } svg { max-width: 100%; height: auto; }]]

local ESCAPES <const> = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" }

--- Text as HTML.
---@param value any
---@return string
function M.escape(value) return (tostring(value):gsub('[&<>"]', ESCAPES)) end
local escape <const> = M.escape

--- A cell: "" for nothing, numbers with three to four digits, texts as they are.
local function cell_text(value)
  if value == nil then return "–" end
  return escape(type(value) == "number" and render.value(value) or value)
end

--- A table. Columns up to `left` are texts; a column of texts behind the numbers is set left as well.
---@param head string[]
---@param rows any[][]    n = length of a row whose end may be nil
---@param left integer
---@return string
function M.table(head, rows, left)
  local out = { '<div class="scroll"><table><thead><tr>' }
  for i, name in ipairs(head) do
    out[#out + 1] = ("<th%s>%s</th>"):format(i <= left and ' class="left"' or "", escape(name))
  end
  out[#out + 1] = "</tr></thead><tbody>\n"
  for _, row in ipairs(rows) do
    out[#out + 1] = "<tr>"
    for i = 1, #head do
      local value = row[i]
      local class = i <= left and "left" or type(value) == "string" and value:find("%a%a%a") and "text"
      out[#out + 1] = ("<td%s>%s</td>"):format(class and (' class="%s"'):format(class) or "", cell_text(value))
    end
    out[#out + 1] = "</tr>\n"
  end
  out[#out + 1] = "</tbody></table></div>"
  return table.concat(out)
end

---@class aisim.Page
---@field title string
---@field about string[]     lines below the title
---@field notes string[]     what needs attention
---@field parts { title: string, html: string?, plot: table? }[]

--- A plot as SVG for a page: without the prologue, its names distinct from those of other plots.
local function drawing(options, number)
  local svg = plot.draw(options)
  if not svg then return nil end
  svg = svg:gsub("^.-(<svg)", "%1", 1)
  svg = svg:gsub("gnuplot_", ("plot%d_"):format(number)):gsub("%f[%w](gp%u%w*)", ("plot%d%%1"):format(number))
  return (svg:gsub("%f[%w](%a+box)%f[%W]", ("plot%d%%1"):format(number)))
end

--- The page as text.
---@param page aisim.Page
---@return string
function M.html(page)
  local drawn, missing = 0, false
  local body = {}
  for _, part in ipairs(page.parts) do
    local html = part.html
    if part.plot then
      drawn = drawn + 1
      local svg = drawing(part.plot, drawn)
      missing = missing or not svg
      html = (svg or "") .. (html or "")
    end
    if html and html ~= "" then
      body[#body + 1] = ("<section><h2>%s</h2>\n%s\n</section>"):format(escape(part.title), html)
    end
  end
  local out = {
    '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">',
    ("<title>%s</title>\n<style>\n%s\n</style></head><body>"):format(escape(page.title), STYLE),
    ("<h1>%s</h1>"):format(escape(page.title)),
  }
  for _, line in ipairs(page.about) do out[#out + 1] = ('<p class="about">%s</p>'):format(escape(line)) end
  local notes = table.move(page.notes, 1, #page.notes, 1, {})
  if missing then notes[#notes + 1] = ("No plots: %s. The tables are complete."):format(plot.MISSING) end
  for _, note in ipairs(notes) do out[#out + 1] = ('<p class="note">%s</p>'):format(escape(note)) end
  out[#out + 1] = table.concat(body, "\n")
  out[#out + 1] = "</body></html>\n"
  return table.concat(out, "\n")
end

--- Writes a page; the file appears when it is complete.
---@param path string
---@param page aisim.Page
function M.write(path, page) file_of.write(path, M.html(page)) end

--- The page of an output folder.
---@param dir string
---@return aisim.Page
function M.of_folder(dir)
  local folder = folder_of.need("report", dir)
  return require("aisim.report." .. folder.kind).page(folder.value, folder)
end

return M
