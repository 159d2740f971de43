--- The page of a sweep: its table, one plot per column over the first numeric parameter, the Pareto plot.
local params = require "aisim.params"
local render = require "aisim.render"
local report = require "aisim.report"
local sweep_result = require "aisim.sweep_result"

local M = {}

local function shown(value) return type(value) == "string" and value or params.shown(value) end

local function table_of(sweep)
  local head = table.move(sweep.names, 1, #sweep.names, 1, {})
  table.move(sweep.columns, 1, #sweep.columns, #head + 1, head)
  head[#head + 1] = "runs"
  if sweep.pareto then head[#head + 1] = "pareto" end
  local rows = {}
  for i, point in ipairs(sweep.points) do
    local row, good = {}, 0
    for k, name in ipairs(sweep.names) do row[k] = shown(point.params[name]) end
    for _, name in ipairs(sweep.columns) do row[#row + 1] = sweep_result.cell(point.statistics[name]) end
    for _, run in ipairs(point.rows) do good = good + (run.status == "completed" and 1 or 0) end
    row[#row + 1] = good == #point.rows and tostring(good) or ("%d of %d"):format(good, #point.rows)
    if sweep.pareto then row[#row + 1] = point.pareto and "*" or "" end
    rows[i] = row
  end
  return report.table(head, rows, #sweep.names)
end

--- The parameter of the x axis: the first with several numbers, else the first with several values.
local function axis_of(sweep)
  local first
  for _, name in ipairs(sweep.names) do
    local values, n = {}, 0
    for _, point in ipairs(sweep.points) do
      local value = point.params[name]
      if values[value] == nil then values[value], n = true, n + 1 end
    end
    if n > 1 and type(sweep.points[1].params[name]) == "number" then return name end
    if n > 1 then first = first or name end
  end
  return first
end

--- Curves of a column over the axis, one per combination of the other parameters.
local function curves(sweep, axis, column)
  local list, by_label, categories, place = {}, {}, {}, {}
  local numeric = type(sweep.points[1].params[axis]) == "number"
  local low, high = math.huge, -math.huge
  for _, point in ipairs(sweep.points) do
    local parts, x = {}, point.params[axis]
    for _, name in ipairs(sweep.names) do
      if name ~= axis then parts[#parts + 1] = ("%s=%s"):format(name, shown(point.params[name])) end
    end
    if not numeric then
      if not place[x] then
        categories[#categories + 1] = shown(x)
        place[x] = #categories
      end
      x = place[x]
    end
    local label, statistics = table.concat(parts, ", "), point.statistics[column]
    if not by_label[label] then
      by_label[label] = { name = label, points = {} }
      list[#list + 1] = by_label[label]
    end
    if statistics then
      table.insert(by_label[label].points, { x, statistics.mean })
      low, high = math.min(low, x), math.max(high, x)
    end
  end
  local series = {}
  for _, curve in ipairs(list) do
    table.sort(curve.points, function(a, b) return a[1] < b[1] end)
    if #curve.points > 0 then series[#series + 1] = curve end
  end
  if #series == 0 then return nil end
  return { title = column, x = axis, y = column, series = series, categories = not numeric and categories or nil,
    log_x = numeric and low > 0 and high >= 16 * low }
end

local function pareto_plot(sweep)
  local all, best = {}, {}
  for _, point in ipairs(sweep.points) do
    local x, y = point.statistics[sweep.pareto.x], point.statistics[sweep.pareto.y]
    if x and y then
      all[#all + 1] = { x.mean, y.mean }
      if point.pareto then best[#best + 1] = { x.mean, y.mean } end
    end
  end
  if #all == 0 then return nil end
  table.sort(best, function(a, b) return a[1] < b[1] end)
  return { title = "no point of the line is beaten in both", x = sweep.pareto.x, y = sweep.pareto.y, series = {
    { name = "points", points = all, style = "points" }, { name = "front", points = best },
  } }
end

--- The page.
---@param value table   sweep.json
---@return aisim.Page
function M.page(value)
  local sweep = sweep_result.of_value(value)
  local page = { title = sweep.title or sweep.file, about = {}, notes = {}, parts = {} }
  if sweep.question then page.about[1] = sweep.question end
  page.about[#page.about + 1] = ("aisim %s, %s, %d points, %d seeds"):format(value.version, sweep.file, #sweep.points,
    #sweep.seeds)
  if #sweep.seeds >= 3 then page.about[#page.about + 1] = "±: 95 % interval of the mean over the seeds" end
  local failed = 0
  for _, row in ipairs(sweep.rows) do failed = failed + (row.status == "completed" and 0 or 1) end
  if failed > 0 then
    page.notes[1] = ("%s of %s runs are not complete."):format(render.count(failed), render.count(#sweep.rows))
  end
  page.parts[1] = { title = "Points", html = table_of(sweep) }
  local axis = axis_of(sweep)
  for _, column in ipairs(axis and sweep.columns or {}) do
    page.parts[#page.parts + 1] = { title = column, plot = curves(sweep, axis, column) }
  end
  if sweep.pareto then page.parts[#page.parts + 1] = { title = "Pareto front", plot = pareto_plot(sweep) } end
  return page
end

return M
