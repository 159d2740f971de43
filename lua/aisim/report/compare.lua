--- The page of a comparison: its table, and the relative differences as a plot.
local json = require "aisim.json"
local render = require "aisim.render"
local report = require "aisim.report"

local M = {}

local MAX_BARS <const> = 24

local function known(x)
  if x ~= nil and x ~= json.null then return x end
end

local function signed(x)
  return x and (x > 0 and "+" or "") .. render.value(x) or nil
end

local function table_of(value)
  local rows = {}
  for i, row in ipairs(value.rows) do
    local low, high, relative = known(row.low), known(row.high), known(row.relative)
    rows[i] = { row.point, row.metric, known(row.a), known(row.b), signed(known(row.difference)),
      relative and ("%+.1f %%"):format(100 * relative),
      low and ("%s .. %s%s"):format(signed(low), signed(high), (low > 0 or high < 0) and " *" or "") or "",
      known(row.threshold) and ("%s %s"):format(row.exceeded and "beyond" or "within", row.threshold) or "" }
  end
  return report.table({ "point", "metric", "a", "b", "difference", "relative", "95 % interval", "threshold" }, rows, 2)
end

--- Relative differences in per cent, for comparisons that are short enough to read.
local function plot_of(value)
  local points, names = {}, {}
  for _, row in ipairs(value.rows) do
    local relative = known(row.relative)
    if relative and relative ~= 0 then
      names[#names + 1] = (row.point ~= "" and row.point .. " " or "") .. row.metric
      points[#points + 1] = { #names, 100 * relative }
    end
  end
  if #points == 0 or #points > MAX_BARS then return nil end
  return { title = "b against a", x = "", y = "difference, %", categories = names, from_zero = false,
    series = { { name = "relative difference", points = points, style = "impulses" } } }
end

--- The page.
---@param value table   compare.json
---@return aisim.Page
function M.page(value)
  local page = { title = "Comparison", about = { "a: " .. value.a, "b: " .. value.b }, notes = {}, parts = {} }
  page.about[#page.about + 1] = "Interval: of the mean difference over pairs of runs with the same seed; *: without 0."
  if not value.ok then page.notes[1] = "A threshold is exceeded." end
  if value.unmatched > 0 then
    page.notes[#page.notes + 1] = ("Points on one side only, left out: %d."):format(value.unmatched)
  end
  page.parts[1] = { title = "Differences", plot = plot_of(value), html = table_of(value) }
  return page
end

return M
