--- Plots through gnuplot, which is asked for only when a plot is wanted and may be absent.
local fault = require "aisim.cli.fault"

local M = {}

--- Is there a gnuplot on the path?
function M.available()
  return (os.execute("command -v gnuplot >/dev/null 2>&1")) == true
end

--- Text inside double quotes of a gnuplot script, without its markup.
local function quoted(text)
  return '"' .. text:gsub('[\\"]', "\\%0"):gsub("[{}^_@&]", "\\\\%0"):gsub("\n", " ") .. '"'
end

---@class aisim.Series
---@field name string
---@field points number[][]    { x, y }

---@class aisim.Plot
---@field title string
---@field x string
---@field y string
---@field log_x boolean
---@field series aisim.Series[]

--- The gnuplot script, data included.
---@param plot aisim.Plot
---@return string
function M.script(plot, path)
  local lines = {
    "set terminal svg size 900,540 dynamic enhanced font 'sans,13' background rgb 'white'",
    "set output " .. quoted(path):gsub("\\\\[{}^_@&]", function(c) return c:sub(3) end),
    "set title " .. quoted(plot.title), "set xlabel " .. quoted(plot.x), "set ylabel " .. quoted(plot.y),
    "set grid", "set key outside right top", "set yrange [0:*]",
  }
  if plot.log_x then lines[#lines + 1] = "set logscale x 2" end
  local curves = {}
  for i, series in ipairs(plot.series) do
    lines[#lines + 1] = ("$d%d << EOD"):format(i)
    for _, point in ipairs(series.points) do lines[#lines + 1] = ("%.17g %.9g"):format(point[1], point[2]) end
    lines[#lines + 1] = "EOD"
    curves[i] = ("$d%d using 1:2 with linespoints pt 7 ps 0.4 title %s"):format(i, quoted(series.name))
  end
  lines[#lines + 1] = "plot " .. table.concat(curves, ", \\\n  ")
  return table.concat(lines, "\n") .. "\n"
end

--- Writes an SVG; the file appears when it is complete.
---@param plot aisim.Plot
---@param path string
---@return boolean drawn   false: there is no gnuplot
function M.svg(plot, path)
  if not M.available() then return false end
  local folder, name = path:match("^(.*/)([^/]*)$")
  local part = (folder or "") .. "." .. (name or path) .. ".part"
  local pipe = io.popen("gnuplot", "w")
  if pipe then pipe:write(M.script(plot, part)) end
  local ok = pipe and pipe:close()
  local renamed, why = nil, "gnuplot failed"
  if ok then renamed, why = os.rename(part, path) end
  if not renamed then
    os.remove(part)
    fault.raise(fault.LIMIT, "%s: cannot draw the plot: %s", path, why)
  end
  return true
end

return M
