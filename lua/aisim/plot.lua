--- Plots through gnuplot, which is asked for only when a plot is wanted and may be absent.
--   aisim.plot { title =, x =, y =, series = { { name =, points = { { x, y }, … } } }, path = "a.svg" }
-- gives the SVG as text, or nil and the reason where there is no gnuplot. With `path` a file as well.
local check = require "aisim.check"
local file_of = require "aisim.file"

local M = {}

--- What is said where a plot was asked for.
M.MISSING = "gnuplot is not installed (Debian: apt-get install gnuplot-nox)"

--- Is there a gnuplot on the path?
function M.available()
  return (os.execute("command -v gnuplot >/dev/null 2>&1")) == true
end

--- Text inside double quotes of a gnuplot script, without its markup.
local function quoted(text)
  return '"' .. text:gsub('[\\"]', "\\%0"):gsub("[{}^_@&]", "\\\\%0"):gsub("\n", " ") .. '"'
end

local STYLES <const> = { lines = "lines lw 1.5", points = "points pt 7 ps 0.3", linespoints = "linespoints pt 7 ps 0.4",
  steps = "steps lw 1.5", impulses = "impulses lw 8" }

local SERIES <const> = {
  name = { "text", default = "" },
  points = { "table", required = true },
  style = { "text", one_of = { "impulses", "lines", "linespoints", "points", "steps" }, default = "linespoints" },
}
local PLOT <const> = {
  title = { "text", default = "" },
  x = { "text", default = "" },
  y = { "text", default = "" },
  log_x = { "boolean", default = false },  -- powers of two
  log_y = { "boolean", default = false },
  from_zero = { "boolean", default = true }, -- the y axis begins at 0
  categories = { "table" },                -- texts under x = 1, 2, … instead of numbers
  series = { "table", required = true },
  path = { "text" },
}

local function axes(plot)
  local lines = { "set grid", #plot.series > 1 and "set key outside right top" or "unset key" }
  if plot.from_zero and not plot.log_y then lines[#lines + 1] = "set yrange [0:*]" end
  if plot.log_x then lines[#lines + 1] = "set logscale x 2" end
  if plot.log_y then lines[#lines + 1] = "set logscale y" end
  if plot.categories then
    local tics = {}
    for i, text in ipairs(plot.categories) do tics[i] = ("%s %d"):format(quoted(tostring(text)), i) end
    lines[#lines + 1] = ("set xtics %s(%s)"):format(#tics > 6 and "rotate by -40 " or "", table.concat(tics, ", "))
    lines[#lines + 1] = ("set xrange [0.5:%d.5]"):format(#plot.categories)
  end
  return table.concat(lines, "\n")
end

--- The gnuplot script, data included; it draws to standard output.
---@param plot table   checked
---@return string
function M.script(plot)
  local lines = {
    "set terminal svg size 900,540 dynamic enhanced font 'sans,13' background rgb 'white'",
    "set title " .. quoted(plot.title), "set xlabel " .. quoted(plot.x), "set ylabel " .. quoted(plot.y),
    axes(plot),
  }
  local curves = {}
  for i, series in ipairs(plot.series) do
    lines[#lines + 1] = ("$d%d << EOD"):format(i)
    for _, point in ipairs(series.points) do lines[#lines + 1] = ("%.17g %.9g"):format(point[1], point[2]) end
    lines[#lines + 1] = "EOD"
    curves[i] = ("$d%d using 1:2 with %s title %s"):format(i, STYLES[series.style], quoted(series.name))
  end
  lines[#lines + 1] = "plot " .. table.concat(curves, ", \\\n  ")
  return table.concat(lines, "\n") .. "\n"
end

local function checked(options)
  local plot = check.options("aisim.plot", options, PLOT)
  local series = {}
  for i, one in ipairs(plot.series) do
    series[i] = check.options(("aisim.plot.series[%d]"):format(i), one, SERIES)
    for k, point in ipairs(series[i].points) do
      if type(point) ~= "table" or type(point[1]) ~= "number" or type(point[2]) ~= "number" then
        check.fail("aisim.plot.series[%d].points[%d]: two numbers expected", i, k)
      end
    end
  end
  if #series == 0 then check.fail("aisim.plot.series: at least one series expected") end
  plot.series = series
  return plot
end

--- Draws. See the head of this file.
---@return string? svg
---@return string? why
function M.draw(options)
  local plot = checked(options)
  if not M.available() then return nil, M.MISSING end
  local script = os.tmpname()
  file_of.write(script, M.script(plot))
  local pipe = io.popen(("gnuplot '%s'"):format(script))
  local svg = pipe and pipe:read("a")
  local ok = pipe and pipe:close()
  os.remove(script)
  if not ok or svg == "" then check.fail("aisim.plot: gnuplot failed on '%s'", plot.title) end
  if plot.path then file_of.write(plot.path, svg) end
  return svg
end

return setmetatable(M, { __call = function(_, options) return M.draw(options) end })
