--- The page of one run: report.json, and the time series and requests beside it where they were kept.
local core = require "aisim.core"
local csv = require "aisim.csv"
local file_of = require "aisim.file"
local folder_of = require "aisim.folder"
local json = require "aisim.json"
local report = require "aisim.report"

local M = {}

local STATISTICS <const> = { "n", "mean", "min", "p50", "p75", "p90", "p95", "p99", "max", "std" }
local MAX_POINTS <const> = 5000 -- of one curve

local function known(x)
  if x ~= nil and x ~= json.null then return x end
end

--- Metrics in the order in which they are defined, own ones behind.
local function totals(metrics)
  local rows = {}
  for _, definition in ipairs(core.definitions()) do
    local value = metrics[definition.key]
    if value ~= nil then rows[#rows + 1] = { definition.key, value, definition.unit, definition.text } end
  end
  return report.table({ "metric", "value", "unit", "meaning" }, rows, 1)
end

local function distributions(value)
  local units, rows, names = {}, {}, {}
  for _, definition in ipairs(core.definitions()) do units[definition.key] = definition.unit end
  for name in pairs(value.distributions) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    local d = value.distributions[name]
    if type(d) == "table" and (d.n or 0) > 0 then
      local row = { name }
      for i, statistic in ipairs(STATISTICS) do row[i + 1] = known(d[statistic]) end
      row[#STATISTICS + 2] = units[name] or ""
      rows[#rows + 1] = row
    end
  end
  local head = { "distribution" }
  table.move(STATISTICS, 1, #STATISTICS, 2, head)
  head[#head + 1] = "unit"
  return report.table(head, rows, 1)
end

local SHARES <const> = { { "min", 0 }, { "p50", 50 }, { "p75", 75 }, { "p90", 90 }, { "p95", 95 }, { "p99", 99 },
  { "max", 100 } }

--- Latencies over their percentiles.
local function latency_plot(value)
  local series = {}
  for _, name in ipairs { "ttft_ms", "itl_ms", "e2e_ms" } do
    local d, points = value.distributions[name], {}
    for _, share in ipairs(d and (d.n or 0) > 0 and SHARES or {}) do
      local x = known(d[share[1]])
      if x and x > 0 then points[#points + 1] = { share[2], x } end
    end
    if #points > 1 then series[#series + 1] = { name = name, points = points } end
  end
  return #series > 0 and { title = "Latency", x = "percentile", y = "ms", log_y = true, series = series } or nil
end

local function workers(value)
  local rows = {}
  for i, worker in ipairs(value.workers or {}) do
    rows[i] = { tostring(worker.worker), worker.pool, worker.role, worker.completed_requests, worker.total_input_tokens,
      worker.total_output_tokens, worker.passes, known(worker.idle_ratio), known(worker.kv_usage.mean),
      known(worker.kv_usage.peak), worker.preemptions }
  end
  return #rows > 0 and report.table({ "worker", "pool", "role", "requests", "input tokens", "output tokens", "passes",
    "idle ratio", "kv usage mean", "kv usage peak", "preemptions" }, rows, 3) or nil
end

local function custom_parts(value, parts)
  local names, rows = {}, {}
  for name in pairs(value.custom or {}) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    local metric = value.custom[name]
    if type(metric) == "number" then
      rows[#rows + 1] = { name, metric, "" }
    elseif type(metric) == "table" and metric.kind ~= "series" then
      local one = known(metric.total) or known(metric.ratio) or known(metric.mean)
      rows[#rows + 1] = { name, one, metric.unit or "" }
    end
  end
  if #rows > 0 then
    parts[#parts + 1] = { title = "Own metrics", html = report.table({ "metric", "value", "unit" }, rows, 1) }
  end
  for _, name in ipairs(names) do
    local metric = value.custom[name]
    if type(metric) == "table" and metric.kind == "series" then
      local points = {}
      for i, t in ipairs(metric.t_ms) do
        if known(metric.v[i]) then points[#points + 1] = { t / 1000, metric.v[i] } end
      end
      if #points > 1 then
        parts[#parts + 1] = { title = name, plot = { title = name, x = "s", y = metric.unit or "",
          series = { { name = name, points = points, style = "steps" } } } }
      end
    end
  end
end

-- Time series ------------------------------------------------------------------------------------------

--- Sums of a column over the workers, by time.
local function summed(rows, column)
  local times, sums = {}, {}
  for _, row in ipairs(rows) do
    if sums[row.t_ms] == nil then times[#times + 1], sums[row.t_ms] = row.t_ms, 0 end
    sums[row.t_ms] = sums[row.t_ms] + (row[column] or 0)
  end
  local points, every = {}, math.max(1, #times // MAX_POINTS)
  for i = 1, #times, every do points[#points + 1] = { times[i] / 1000, sums[times[i]] } end
  return points
end

local SERIES <const> = {
  { "Requests over time", "requests", { "running", "waiting", "router_queue" } },
  { "Tokens per second over time", "tok/s", { "prefill_tok_s", "decode_tok_s", "cached_tok_s" } },
  { "KV blocks over time", "blocks", { "kv_used", "kv_cached", "host_used" } },
}

local function series_parts(path, parts)
  local rows = csv(path)
  for _, group in ipairs(SERIES) do
    local series = {}
    for _, column in ipairs(group[3]) do
      local points, any = summed(rows, column), false
      for _, point in ipairs(points) do any = any or point[2] ~= 0 end
      if any and #points > 1 then series[#series + 1] = { name = column, points = points, style = "lines" } end
    end
    if #series > 0 then
      parts[#parts + 1] = { title = group[1], plot = { title = "sum of all workers", x = "s", y = group[2],
        series = series } }
    end
  end
end

local function requests_part(path, parts)
  local points, n = {}, 0
  local lines = file_of.read(path)
  local _, total = lines:gsub("\n", "")
  local every = math.max(1, total // MAX_POINTS)
  for line in lines:gmatch("[^\n]+") do
    n = n + 1
    if n % every == 0 then
      local record = json.decode(line, path)
      local t, y = known(record.arrival_ms), known(record.ttft_ms)
      if t and y then points[#points + 1] = { t / 1000, y } end
    end
  end
  if #points > 1 then
    parts[#parts + 1] = { title = "Time to first token of each request", plot = {
      title = every > 1 and ("every %dth of %d requests"):format(every, total) or "", x = "arrival, s", y = "ms",
      series = { { name = "ttft_ms", points = points, style = "points" } } } }
  end
end

--- The page.
---@param value table            report.json
---@param folder? aisim.Folder   where it lies; nil for a run in memory
---@return aisim.Page
function M.page(value, folder)
  local metrics = folder and folder.metrics or folder_of.metrics(value)
  local status = folder_of.status(value)
  local page = {
    title = known(value.scenario) or "aisim run",
    about = { ("aisim %s, seed %s, configuration %s, %s"):format(value.version, tostring(value.seed),
      tostring(known(value.config_digest) or "none"), status) },
    notes = {}, parts = {},
  }
  if status ~= "completed" then
    page.notes[1] = ("The run was %s: the numbers cover what had happened until then."):format(status)
  end
  for _, warning in ipairs(value.warnings or {}) do page.notes[#page.notes + 1] = warning end
  local parts = page.parts
  parts[1] = { title = "Latencies", plot = latency_plot(value), html = distributions(value) }
  if folder and folder.files["timeseries.csv"] then series_parts(folder.path .. "/timeseries.csv", parts) end
  if folder and folder.files["requests.jsonl"] then requests_part(folder.path .. "/requests.jsonl", parts) end
  custom_parts(value, parts)
  parts[#parts + 1] = { title = "Workers", html = workers(value) }
  parts[#parts + 1] = { title = "Totals", html = totals(metrics) }
  return page
end

return M
