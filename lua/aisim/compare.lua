--- Comparison of two results: differences, and their intervals where seeds are paired.
--   aisim.compare(a, b, { metrics = { … }, all = true, thresholds = { ["ttft_ms.p99"] = "+5%" } })
-- A side is a run, a list of runs, a sweep (aisim.sweep), or the path of an output folder. Two sweeps are
-- compared point by point, points with the same parameters. Runs with the same seed are a pair: they saw
-- the same random numbers, so the interval of the mean of their differences is narrower than that of
-- two means. Difference = b - a; relative = difference / |a|.
local check = require "aisim.check"
local core = require "aisim.core"
local csv = require "aisim.csv"
local figures = require "aisim.figures"
local file_of = require "aisim.file"
local folder_of = require "aisim.folder"
local interval = require "aisim.interval"
local json = require "aisim.json"
local params = require "aisim.params"
local render = require "aisim.render"
local results = require "aisim.results"
local sweep_result = require "aisim.sweep_result"

local M = {}

local Side <const> = { __name = "aisim.Side" }

--- What is compared unless the caller says what; own metrics of the scenario come behind.
local METRICS <const> = {
  "completed_requests", "failed", "rejected", "duration_ms", "ttft_ms.mean", "ttft_ms.p50", "ttft_ms.p99",
  "itl_ms.mean", "itl_ms.p99", "e2e_ms.mean", "e2e_ms.p99", "queue_ms.mean", "request_throughput_rps",
  "output_throughput_tok_s", "output_throughput_tok_s_per_gpu", "good_fraction",
  "first_admission_prefix_cache_reused_ratio", "preemptions", "kv_usage.mean", "kv_usage.peak", "gpu_hours",
}

---@class aisim.Side
---@field name string
---@field cases { label: string, samples: { seed: integer, metrics: table }[] }[]   one per point
---@field columns string[]?    of a sweep
---@field own table<string, boolean>   names of the scenario's own metrics

-- Sides ----------------------------------------------------------------------------------------------

local function own_scalars(custom, metrics, own)
  for name in pairs(custom or {}) do
    if type(metrics[name]) == "number" then own[name] = true end
  end
end

local function of_sweep(name, sweep)
  local side = { name = name, cases = {}, columns = sweep.columns, own = {} }
  for i, point in ipairs(sweep.points) do
    local parts, samples = {}, {}
    for k, parameter in ipairs(sweep.names) do
      local value = point.params[parameter]
      parts[k] = ("%s=%s"):format(parameter, type(value) == "string" and value or params.shown(value))
    end
    for _, row in ipairs(point.rows) do
      if row.metrics then samples[#samples + 1] = { seed = row.seed, metrics = row.metrics } end
    end
    side.cases[i] = { label = table.concat(parts, ", "), samples = samples }
  end
  return side
end

local function of_runs(name, runs)
  local side = { name = name, cases = { { label = "", samples = {} } }, own = {} }
  for i, run in ipairs(runs) do
    side.cases[1].samples[i] = { seed = run.sim.seed, metrics = results.numbers(run) }
    own_scalars(results.own_metrics(run), results.numbers(run), side.own)
  end
  return side
end

local function of_folder(path)
  local folder = folder_of.need("compare", path)
  if folder.kind == "sweep" then return of_sweep(path, sweep_result.of_value(folder.value)) end
  if folder.kind == "compare" then check.fail("compare: %s is a comparison; a run or a sweep expected", path) end
  local side = { name = path, own = {},
    cases = { { label = "", samples = { { seed = folder.value.seed, metrics = folder.metrics } } } } }
  own_scalars(folder.value.custom, folder.metrics, side.own)
  return side
end

--- Rows of one point (cli/batch.lua) as a side.
---@param name string
---@param rows aisim.SweepRow[]
---@return aisim.Side
function M.of_rows(name, rows)
  local side = setmetatable({ name = name, own = {}, cases = { { label = "", samples = {} } } }, Side)
  for _, row in ipairs(rows) do
    if row.metrics then
      table.insert(side.cases[1].samples, { seed = row.seed, metrics = row.metrics })
      own_scalars(row.custom, row.metrics, side.own)
    end
  end
  return side
end

local function is(value, name)
  local meta = type(value) == "table" and getmetatable(value)
  return type(meta) == "table" and meta.__name == name
end

local function side_of(value, where)
  if type(value) == "string" then return of_folder(value) end
  if is(value, "aisim.Run") then return of_runs(where, { value }) end
  if is(value, "aisim.SweepResult") then return of_sweep(where, value) end
  if getmetatable(value) == Side then return value end
  if type(value) == "table" and #value > 0 then
    for i, run in ipairs(value) do
      if not is(run, "aisim.Run") then check.fail("compare: %s[%d]: run expected, got %s", where, i, type(run)) end
    end
    return of_runs(where, value)
  end
  return check.fail("compare: %s: run, list of runs, sweep or path of a folder expected, got %s", where, type(value))
end

-- Rows -----------------------------------------------------------------------------------------------

---@class aisim.CompareRow
---@field point string        "rate=4", "" without a sweep
---@field metric string
---@field a number?           mean over the samples; nil = undefined
---@field b number?
---@field difference number?
---@field relative number?    of |a|; nil when a is 0
---@field n integer           pairs, or 0 where seeds are not paired
---@field low number?         95 % interval of the difference, from three pairs on
---@field high number?
---@field exceeded boolean?   beyond its threshold; nil without one

local function mean_of(samples, name)
  local values = {}
  for _, sample in ipairs(samples) do
    if type(sample.metrics[name]) == "number" then values[#values + 1] = sample.metrics[name] end
  end
  local s = interval.of(values)
  return s and s.mean
end

--- Differences b - a of the seeds that both sides have.
local function paired(a, b, name)
  local by_seed, differences = {}, {}
  for _, sample in ipairs(a.samples) do by_seed[sample.seed] = sample.metrics[name] end
  for _, sample in ipairs(b.samples) do
    local first, second = by_seed[sample.seed], sample.metrics[name]
    if type(first) == "number" and type(second) == "number" then differences[#differences + 1] = second - first end
  end
  return interval.of(differences)
end

--- "5%", "+5%", "-0.02" -> sign, size, relative
local function threshold_of(name, text)
  local sign, size, per_cent = tostring(text):match("^%s*([+-]?)(%d*%.?%d*[eE]?%-?%d*)%s*(%%?)%s*$")
  local value = tonumber(size)
  if not value then
    check.fail("compare: threshold of %s: '%s': write 5%%, +5%% (only increases count), -0.02", name, tostring(text))
  end
  return { sign = sign, size = per_cent == "%" and value / 100 or value, relative = per_cent == "%",
    text = tostring(text) }
end

local function exceeds(limit, row)
  local change = limit.relative and row.relative or row.difference
  if limit.relative and row.relative == nil and row.difference then -- from nothing to something: beyond any share
    change = row.difference == 0 and 0 or row.difference > 0 and math.huge or -math.huge
  end
  if not change then return row.a ~= nil or row.b ~= nil end -- a metric that one side does not have
  if limit.sign == "+" then return change > limit.size end
  if limit.sign == "-" then return -change > limit.size end
  return math.abs(change) > limit.size
end

local function compare_case(a, b, name)
  local row = { metric = name, a = mean_of(a.samples, name), b = mean_of(b.samples, name), n = 0 }
  local s = paired(a, b, name)
  if s then
    row.n, row.difference, row.low, row.high = s.n, s.mean, s.low, s.high
  elseif row.a and row.b then
    row.difference = row.b - row.a
  end
  if row.difference and row.a and row.a ~= 0 then row.relative = row.difference / math.abs(row.a) end
  return row
end

local function cases_in_both(a, b)
  if #a.cases == 1 and #b.cases == 1 then return { { "", a.cases[1], b.cases[1] } }, 0 end
  local by_label, pairs_of, only = {}, {}, 0
  for _, case in ipairs(b.cases) do by_label[case.label] = case end
  for _, case in ipairs(a.cases) do
    if by_label[case.label] then
      pairs_of[#pairs_of + 1] = { case.label, case, by_label[case.label] }
    else
      only = only + 1
    end
  end
  if #pairs_of == 0 then check.fail("compare: no point of %s is in %s", a.name, b.name) end
  return pairs_of, only + #b.cases - #pairs_of
end

local function has_metric(side, name)
  for _, case in ipairs(side.cases) do
    for _, sample in ipairs(case.samples) do
      if sample.metrics[name] ~= nil then return true end
    end
  end
  return false
end

local function every_metric(a, b)
  local set = {}
  for _, side in ipairs { a, b } do
    for _, case in ipairs(side.cases) do
      for _, sample in ipairs(case.samples) do
        for name, value in pairs(sample.metrics) do set[name] = type(value) == "number" or nil end
      end
    end
  end
  return set
end

--- Which metrics, in which order.
local function metrics_of(a, b, options)
  local all = every_metric(a, b)
  if options.all then return check.sorted(all) end
  local names = options.metrics
  if not names then
    names = {}
    local list = a.columns or b.columns or METRICS
    for _, name in ipairs(list) do
      if list ~= METRICS or has_metric(a, name) or has_metric(b, name) then names[#names + 1] = name end
    end
    local own = {}
    for _, side in ipairs { a, b } do
      for name in pairs(side.own) do own[name] = true end
    end
    for _, name in ipairs(check.sorted(own)) do names[#names + 1] = name end
  end
  names = table.move(names, 1, #names, 1, {})
  for name in pairs(options.thresholds or {}) do
    local present = false
    for _, other in ipairs(names) do present = present or other == name end
    if not present then names[#names + 1] = name end
  end
  for _, name in ipairs(names) do
    local hint = results.unknown(name, all)
    if hint then check.fail("compare: unknown metric '%s'%s", name, hint) end
  end
  return names
end

local OPTIONS <const> = { metrics = { "table" }, all = { "boolean" }, thresholds = { "table" } }

---@class aisim.Comparison
---@field a string
---@field b string
---@field rows aisim.CompareRow[]
---@field ok boolean          no threshold is exceeded
---@field unmatched integer   points that only one side has
local Result = { __name = "aisim.Comparison" }
Result.__index = Result

--- Compares. See the head of this file.
---@return aisim.Comparison
function M.compare(a, b, options)
  options = check.options("aisim.compare", options, OPTIONS)
  a, b = side_of(a, "a"), side_of(b, "b")
  local limits = {}
  for _, name in ipairs(check.sorted(options.thresholds or {})) do
    limits[name] = threshold_of(name, options.thresholds[name])
  end
  local cases, unmatched = cases_in_both(a, b)
  local names = metrics_of(a, b, options)
  local out = { a = a.name, b = b.name, rows = {}, ok = true, unmatched = unmatched, pairs = 0 }
  for _, case in ipairs(cases) do
    for _, name in ipairs(names) do
      local row = compare_case(case[2], case[3], name)
      row.point = case[1]
      if limits[name] then
        row.exceeded, row.threshold = exceeds(limits[name], row), limits[name].text
        out.ok = out.ok and not row.exceeded
      end
      out.pairs = math.max(out.pairs, row.n)
      out.rows[#out.rows + 1] = row
    end
  end
  return setmetatable(out, Result)
end

-- Forms ----------------------------------------------------------------------------------------------

local function signed(x)
  if x == nil then return "-" end
  return (x > 0 and "+" or "") .. render.value(x)
end

--- Does the interval leave out 0?
local function clear(row) return row.low ~= nil and (row.low > 0 or row.high < 0) end

--- Rows as a table.
---@return string
function Result:table()
  local with_point, with_interval, with_threshold = false, false, false
  for _, row in ipairs(self.rows) do
    with_point = with_point or row.point ~= ""
    with_interval = with_interval or row.low ~= nil
    with_threshold = with_threshold or row.threshold ~= nil
  end
  local head = { "metric", "a", "b", "difference", "relative" }
  if with_point then table.insert(head, 1, "point") end
  if with_interval then head[#head + 1] = "95 % interval" end
  if with_threshold then head[#head + 1] = "threshold" end
  local rows, last = { head }, nil
  for _, row in ipairs(self.rows) do
    local cells = { row.metric, row.a and render.value(row.a) or "-", row.b and render.value(row.b) or "-",
      signed(row.difference), row.relative and ("%+.1f %%"):format(100 * row.relative) or "-" }
    if with_point then
      table.insert(cells, 1, row.point ~= last and row.point or "")
      last = row.point
    end
    if with_interval then
      cells[#cells + 1] = row.low and ("%s .. %s%s"):format(signed(row.low), signed(row.high),
        clear(row) and " *" or "  ") or ""
    end
    if with_threshold then
      cells[#cells + 1] = row.threshold and ("%s %s"):format(row.exceeded and "✗" or "✓", row.threshold) or ""
    end
    rows[#rows + 1] = cells
  end
  return figures.text(rows, with_point and 2 or 1)
end

--- Sides, table, what is worth knowing.
---@return string
function Result:summary()
  local out = { ("a  %s\nb  %s"):format(self.a, self.b), "", self:table() }
  local notes = {}
  if self.pairs >= interval.ENOUGH then
    notes[#notes + 1] = ("interval of the mean difference of %d pairs of runs with the same seed; *: without 0")
      :format(self.pairs)
  elseif self.pairs == 0 then
    notes[#notes + 1] = "no seed is on both sides: differences of means, without intervals"
  end
  if self.unmatched > 0 then
    notes[#notes + 1] = ("points on one side only, left out: %d"):format(self.unmatched)
  end
  if #notes > 0 then out[#out + 1] = "\n" .. table.concat(notes, "\n") end
  return table.concat(out, "\n")
end

local COLUMNS <const> = { "point", "metric", "a", "b", "difference", "relative", "pairs", "low", "high", "threshold",
  "exceeded" }

--- One line per row. As text without a path.
function Result:csv(path)
  local rows = {}
  for i, row in ipairs(self.rows) do
    rows[i] = { point = row.point, metric = row.metric, a = row.a, b = row.b, difference = row.difference,
      relative = row.relative, pairs = row.n, low = row.low, high = row.high, threshold = row.threshold,
      exceeded = row.exceeded }
  end
  if path == nil then return csv.encode(rows, COLUMNS) end
  return file_of.write(path, csv.encode(rows, COLUMNS))
end

--- The value that compare.json holds.
function Result:value()
  local rows = {}
  for i, row in ipairs(self.rows) do
    rows[i] = json.object({ "point", row.point, "metric", row.metric, "a", row.a, "b", row.b, "difference",
      row.difference, "relative", row.relative, "pairs", row.n, "low", row.low, "high", row.high, "threshold",
      row.threshold, "exceeded", row.exceeded }, 22)
  end
  return json.object { "schema", "aisim-compare/1", "version", core.version, "a", self.a, "b", self.b, "confidence",
    0.95, "ok", self.ok, "unmatched", self.unmatched, "rows", rows }
end

--- The comparison as JSON. As one line of text without a path.
function Result:json(path)
  if path == nil then return json.encode(self:value()) end
  return json.write(path, self:value())
end

--- A page with the table and a plot (report/).
function Result:html(path)
  return require("aisim.report").write(path, require("aisim.report.compare").page(json.decode(self:json(), "compare")))
end

M.methods = Result

return M
