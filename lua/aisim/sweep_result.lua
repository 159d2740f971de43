--- What a sweep found: rows, points with their intervals over seeds, and the forms in which it is shown.
-- Rows are in point order, seeds fastest, however they were run. Columns are keys of run.metrics.
local check = require "aisim.check"
local core = require "aisim.core"
local csv = require "aisim.csv"
local expect = require "aisim.expect"
local figures = require "aisim.figures"
local file_of = require "aisim.file"
local interval = require "aisim.interval"
local json = require "aisim.json"
local near = require "aisim.near"
local params = require "aisim.params"
local render = require "aisim.render"

local M = {}

--- Shown when a sweep names no columns.
local COLUMNS <const> = {
  "completed_requests", "ttft_ms.mean", "ttft_ms.p99", "itl_ms.mean", "output_throughput_tok_s",
  "first_admission_prefix_cache_reused_ratio",
}

---@class aisim.SweepResult
---@field names string[]              parameters that were varied
---@field columns string[]            metrics that are shown
---@field seeds integer[]
---@field rows aisim.SweepRow[]       one per point and seed
---@field points { params: table, rows: aisim.SweepRow[], statistics: table, pareto: boolean? }[]
local Result = { __name = "aisim.SweepResult" }
Result.__index = function(_, name)
  local method = Result[name]
  if method == nil then check.fail("sweep: unknown field '%s'%s", tostring(name), near.hint(tostring(name), Result)) end
  return method
end

--- Columns must be metrics: of the report, or of some run.
local function check_columns(columns, rows)
  local known = {}
  for _, row in ipairs(rows) do
    for name in pairs(row.metrics or {}) do known[name] = true end
    for name in pairs(row.custom or {}) do known[name] = true end
  end
  if next(known) == nil then return end
  for _, name in ipairs(columns) do
    if not known[name] and not require("aisim.results").is_defined(name) then
      check.fail("sweep.columns: unknown metric '%s'%s", name, near.hint(name, known))
    end
  end
end

--- Times count as better when smaller, everything else when larger.
local function better(name, a, b)
  if name:find("_ms%f[^%w_]") or name:find("_ms$") then return a < b end
  return a > b
end

--- Marks the points that no other point beats in both figures.
local function mark_pareto(points, pareto)
  local function at_least(name, a, b) return a == b or better(name, a, b) end
  for _, point in ipairs(points) do
    local x, y = point.statistics[pareto.x], point.statistics[pareto.y]
    point.pareto = x ~= nil and y ~= nil
    for _, other in ipairs(point.pareto and points or {}) do
      local ox, oy = other.statistics[pareto.x], other.statistics[pareto.y]
      if ox and oy and at_least(pareto.x, ox.mean, x.mean) and at_least(pareto.y, oy.mean, y.mean)
        and (ox.mean ~= x.mean or oy.mean ~= y.mean) then
        point.pareto = false
      end
    end
  end
end

local function statistics_of(rows, columns)
  local out = {}
  for _, name in ipairs(columns) do
    local values = {}
    for _, row in ipairs(rows) do
      local value = row.metrics and row.metrics[name]
      if type(value) == "number" then values[#values + 1] = value end
    end
    out[name] = interval.of(values)
  end
  return out
end

--- Result of a plan whose rows are complete.
---@param plan aisim.SweepPlan
---@param rows aisim.SweepRow[]
---@return aisim.SweepResult
function M.new(plan, rows)
  local columns = table.move(plan.spec.columns or COLUMNS, 1, #(plan.spec.columns or COLUMNS), 1, {})
  local pareto = plan.spec.pareto
  local present = {}
  for _, name in ipairs(columns) do present[name] = true end
  for _, name in ipairs(pareto and { pareto.x, pareto.y } or {}) do
    if not present[name] then columns[#columns + 1], present[name] = name, true end
  end
  check_columns(columns, rows)
  local points = {}
  for i, point in ipairs(plan.points) do points[i] = { params = point.params, rows = {} } end
  for _, row in ipairs(rows) do
    local list = points[row.point].rows
    list[#list + 1] = row
  end
  for _, point in ipairs(points) do point.statistics = statistics_of(point.rows, columns) end
  if pareto then mark_pareto(points, pareto) end
  return setmetatable({
    file = plan.record.path or plan.record.file, title = plan.S.title or false, question = plan.S.question or false,
    names = plan.names, columns = columns, seeds = plan.seeds, rows = rows, points = points, pareto = pareto or false,
    expectations = plan.record.expectations,
  }, Result)
end

-- Table --------------------------------------------------------------------------------------------

local WIDTH <const> = 100

--- A name in pieces of at most `width` columns, broken behind '_' and '.'.
local function pieces(name, width)
  local lines, line = {}, ""
  for part in name:gmatch("[^_%.]+[_%.]?") do
    if line ~= "" and #line + #part > width then lines[#lines + 1], line = line, "" end
    line = line .. part
  end
  lines[#lines + 1] = line
  return lines
end

--- Head of a table in as many lines as it takes to stay on the screen.
local function head_rows(names, width)
  local cells, most = {}, 1
  for i, name in ipairs(names) do
    cells[i] = pieces(name, width)
    most = math.max(most, #cells[i])
  end
  local rows = {}
  for line = 1, most do
    rows[line] = {}
    for i = 1, #names do rows[line][i] = cells[i][line - most + #cells[i]] or "" end
  end
  return rows
end

local function width_of(rows)
  local total = 0
  for i = 1, #rows[1] do
    local width = 0
    for _, row in ipairs(rows) do width = math.max(width, utf8.len(row[i]) or #row[i]) end
    total = total + width + 2
  end
  return total - 2
end

local function shown(value)
  return type(value) == "string" and value or params.shown(value)
end

--- A mean with its interval: "412.1 ± 7.30".
function M.cell(statistics)
  if not statistics then return "-" end
  local text = render.value(statistics.mean)
  return statistics.half and ("%s ± %s"):format(text, render.number(statistics.half)) or text
end

local function state_of(point)
  local states = {}
  for _, row in ipairs(point.rows) do
    if row.status ~= "completed" then states[row.status] = (states[row.status] or 0) + 1 end
  end
  local parts = {}
  for _, status in ipairs(check.sorted(states)) do
    parts[#parts + 1] = #point.rows > 1 and ("%d %s"):format(states[status], status) or status
  end
  return table.concat(parts, ", ")
end

local function expect_of(point)
  local met, n = 0, 0
  for _, row in ipairs(point.rows) do
    if row.met ~= nil then met, n = met + (row.met and 1 or 0), n + 1 end
  end
  return n == 0 and "-" or met == n and "✓" or n == 1 and "✗" or ("%d of %d"):format(met, n)
end

--- One row per point, means over the seeds.
---@return string
function Result:table()
  local names = table.move(self.names, 1, #self.names, 1, {})
  table.move(self.columns, 1, #self.columns, #names + 1, names)
  local judged, states = #self.expectations > 0, false
  if judged then names[#names + 1] = "expect" end
  if self.pareto then names[#names + 1] = "pareto" end
  local body = {}
  for i, point in ipairs(self.points) do
    local row = {}
    for _, name in ipairs(self.names) do row[#row + 1] = shown(point.params[name]) end
    for _, name in ipairs(self.columns) do row[#row + 1] = M.cell(point.statistics[name]) end
    if judged then row[#row + 1] = expect_of(point) end
    if self.pareto then row[#row + 1] = point.pareto and "*" or "" end
    row[#row + 1] = state_of(point)
    states = states or row[#row] ~= ""
    body[i] = row
  end
  for _, row in ipairs(body) do
    if not states then row[#row] = nil end
  end
  if states then names[#names + 1] = "status" end
  local rows
  for _, width in ipairs { 100, 24, 16, 12, 8 } do
    rows = head_rows(names, width)
    table.move(body, 1, #body, #rows + 1, rows)
    if width_of(rows) <= WIDTH then break end
  end
  return figures.text(rows, #self.names)
end

--- Table, what it shows and what is worth knowing.
---@return string
function Result:summary()
  local seeds = #self.seeds == 1 and ("seed %d"):format(self.seeds[1])
    or ("%d seeds from %d to %d"):format(#self.seeds, self.seeds[1], self.seeds[#self.seeds])
  local out = { ("aisim %s  %s  %d point%s, %s"):format(core.version, self.file, #self.points,
    #self.points == 1 and "" or "s", seeds) }
  if self.question then
    for _, line in ipairs(render.wrap(self.question, WIDTH)) do out[#out + 1] = line end
  end
  out[#out + 1] = ""
  out[#out + 1] = self:table()
  local notes = {}
  if #self.seeds >= interval.ENOUGH then notes[#notes + 1] = "±: 95 % interval of the mean over the seeds" end
  if self.pareto then
    notes[#notes + 1] = ("*: no point is better in %s and in %s"):format(self.pareto.x, self.pareto.y)
  end
  for _, expectation in ipairs(self.expectations) do notes[#notes + 1] = "expect: " .. expectation.text end
  if #notes > 0 then out[#out + 1] = "\n" .. table.concat(notes, "\n") end
  return table.concat(out, "\n")
end

-- Files --------------------------------------------------------------------------------------------

--- Every metric of any row, sorted.
local function all_metrics(rows)
  local set = {}
  for _, row in ipairs(rows) do
    for name, value in pairs(row.metrics or {}) do
      if type(value) == "number" or type(value) == "boolean" then set[name] = true end
    end
  end
  return check.sorted(set)
end

--- One line per point and seed: parameters, seed, status, then every metric. As text without a path.
---@param path string?
---@return string?
function Result:csv(path)
  local columns = { "point" }
  table.move(self.names, 1, #self.names, 2, columns)
  table.move({ "seed", "status", "error" }, 1, 3, #columns + 1, columns)
  local metrics, rows = all_metrics(self.rows), {}
  table.move(metrics, 1, #metrics, #columns + 1, columns)
  for i, row in ipairs(self.rows) do
    local out = { point = row.point, seed = row.seed, status = row.status, error = row.error }
    for _, name in ipairs(metrics) do
      local value = row.metrics and row.metrics[name]
      if type(value) == "boolean" then value = value and 1 or 0 end
      out[name] = value
    end
    for name, value in pairs(row.params) do out[name] = value end
    rows[i] = out
  end
  if path == nil then return csv.encode(rows, columns) end
  return file_of.write(path, csv.encode(rows, columns))
end

local function ordered(names, values)
  local list = {}
  for _, name in ipairs(names) do list[#list + 1], list[#list + 2] = name, values[name] end
  return json.object(list, 2 * #names)
end

--- The value that sweep.json holds (json.encode).
function Result:value()
  local points = {}
  for i, point in ipairs(self.points) do
    local statistics, runs = {}, {}
    for _, name in ipairs(self.columns) do
      local s = point.statistics[name]
      statistics[#statistics + 1] = name
      statistics[#statistics + 1] = s and json.object({ "n", s.n, "mean", s.mean, "std", s.std, "low", s.low,
        "high", s.high }, 10) or json.null
    end
    for k, row in ipairs(point.rows) do
      local metrics = {}
      for _, name in ipairs(check.sorted(row.metrics or {})) do
        metrics[#metrics + 1], metrics[#metrics + 2] = name, row.metrics[name]
      end
      runs[k] = json.object({ "seed", row.seed, "id", row.id, "status", row.status, "error", row.error,
        "expectations_met", row.met, "metrics", json.object(metrics) }, 12)
    end
    points[i] = json.object({ "params", ordered(self.names, point.params), "pareto", point.pareto, "statistics",
      json.object(statistics), "runs", runs }, 8)
  end
  local expectations = {}
  for i, expectation in ipairs(self.expectations) do expectations[i] = expectation.text end
  return json.object({ "schema", "aisim-sweep/1", "version", core.version, "scenario", self.title or json.null,
    "file", self.file, "question", self.question or json.null, "params", self.names, "columns", self.columns,
    "seeds", self.seeds, "confidence", 0.95,
    "pareto", self.pareto and json.object { "x", self.pareto.x, "y", self.pareto.y } or json.null,
    "expectations", expectations, "points", points }, 24)
end

--- Points with statistics and every run. As one line of text without a path.
---@param path string?
---@return string?
function Result:json(path)
  if path == nil then return json.encode(self:value()) end
  return json.write(path, self:value())
end

--- A page with tables and plots (report/).
---@param path string
function Result:html(path)
  return require("aisim.report").write(path, require("aisim.report.sweep").page(json.decode(self:json(), "sweep")))
end

--- A sweep that was written by :json.
---@param value table    of json.decode
---@return aisim.SweepResult
function M.of_value(value)
  local function known(x) return x ~= json.null and x or nil end
  local plan = { record = { path = value.file, expectations = {} }, S = { title = known(value.scenario),
    question = known(value.question) }, names = value.params, seeds = value.seeds, points = {},
    spec = { columns = value.columns, pareto = known(value.pareto) } }
  for i, text in ipairs(value.expectations) do plan.record.expectations[i] = expect.parse(text) end
  local rows = {}
  for i, point in ipairs(value.points) do
    plan.points[i] = { params = point.params }
    for _, run in ipairs(point.runs) do
      local metrics = {}
      for name, x in pairs(run.metrics) do metrics[name] = known(x) end
      rows[#rows + 1] = { point = i, params = point.params, seed = run.seed, id = known(run.id), status = run.status,
        error = known(run.error), met = known(run.expectations_met), metrics = next(metrics) and metrics or nil }
    end
  end
  return M.new(plan, rows)
end

M.methods = Result

return M
