--- The result of a run (spec/lua-api.md §11): numbers by name, distributions, requests, files.
-- A view of the simulation's report; it holds the simulation alive. What is not asked for is not built.
local check = require "aisim.check"
local core = require "aisim.core"
local file_of = require "aisim.file"
local metrics = require "aisim.metrics"
local near = require "aisim.near"
local render = require "aisim.render"

local M = {}

-- Distributions ------------------------------------------------------------------------------------

local Distribution = { __name = "aisim.Distribution" }

local STATISTICS <const> = {
  n = true, count = true, mean = true, min = true, max = true, median = true, std = true, p50 = true, p75 = true,
  p90 = true, p95 = true, p99 = true,
}

local function distribution(sim, key, class, statistics)
  return setmetatable({ sim_ = sim, key_ = key, class_ = class, statistics_ = statistics }, Distribution)
end

--- Percentile q (0 to 100), nil when the distribution is empty.
local function percentile(self, q)
  check.value(rawget(self, "key_") .. ":p", q, { "number", min = 0, max = 100 })
  return rawget(self, "sim_"):percentile_(rawget(self, "key_"), rawget(self, "class_"), q)
end

local function by_class(self)
  local sim, key, out = rawget(self, "sim_"), rawget(self, "key_"), {}
  for class, statistics in pairs(rawget(self, "statistics_").by or {}) do
    out[class] = distribution(sim, key, class, statistics)
  end
  if next(out) == nil then -- a run with one class has no parts: the whole is that class
    for _, class in ipairs(sim:classes_()) do out[class] = self end
  end
  return setmetatable(out, { __index = function(_, class)
    check.fail("%s.by: no class '%s'%s", key, tostring(class), near.hint(tostring(class), out))
  end })
end

function Distribution:__index(name)
  if name == "p" then return percentile end
  if name == "by" then
    local by = by_class(self)
    rawset(self, "by", by)
    return by
  end
  local statistics = rawget(self, "statistics_")
  if name == "count" then return statistics.n end
  local value = statistics[name]
  if value ~= nil then return value end
  if STATISTICS[name] then return nil end
  local known = { p = true, by = true }
  for key in pairs(STATISTICS) do known[key] = true end
  return check.fail("%s: unknown field '%s'%s", rawget(self, "key_"), tostring(name), near.hint(tostring(name), known))
end

function Distribution:__tostring()
  local s = rawget(self, "statistics_")
  if not s.n or s.n == 0 then return rawget(self, "key_") .. ": no values" end
  return ("%s: n %d, mean %.4g, p50 %.4g, p99 %.4g, max %.4g"):format(rawget(self, "key_"), s.n, s.mean or 0 / 0,
    s.p50 or 0 / 0, s.p99 or 0 / 0, s.max or 0 / 0)
end

-- Derived metrics ----------------------------------------------------------------------------------

--- What value(m) of sim:derive sees: m.total_output_tokens, m.gpu_cost.total, m.ttft_ms.p99.
local function numbers_view(flat, own)
  local function view(prefix)
    return setmetatable({}, {
      __index = function(_, name)
        local key = prefix .. name
        local inner = key .. "."
        for other in pairs(flat) do
          if other:sub(1, #inner) == inner then return view(inner) end
        end
        local value = flat[key]
        if value == nil and not M.is_defined(key) and not own[key] and not own[prefix:sub(1, -2)] then
          local heads = {}
          for other in pairs(flat) do heads[prefix == "" and other:match("^[^.]+") or other] = true end
          check.fail("derive: unknown metric '%s'%s", key, near.hint(key, heads))
        end
        return value
      end,
      __newindex = function() check.fail("derive: metrics are read-only here") end,
    })
  end
  return view ""
end

--- Names of what the scenario measures itself, defined in this run or not.
local function own_names(sim)
  local names = {}
  for name in pairs(sim:results_("custom") or {}) do names[name] = true end
  for _, derived in ipairs(metrics.derived(sim)) do names[derived.name] = true end
  return names
end

local function add_scalars(sim, flat)
  for name, metric in pairs(sim:results_("custom") or {}) do
    if type(metric) == "table" then -- the one figure that a name alone means
      if metric.kind == "counter" then flat[name] = metric.total end
      if metric.kind == "ratio" then flat[name] = metric.ratio end
    end
  end
end

local function add_derived(sim, flat)
  local list, own = metrics.derived(sim), own_names(sim)
  for _, derived in ipairs(list) do
    local plain = {}
    for key, value in pairs(flat) do plain[key] = value end
    local value
    do
      local _ <close> = core.call("derive", derived.name)
      value = derived.value(numbers_view(plain, own))
    end
    if value ~= nil and type(value) ~= "number" then
      core.fail_in(derived.value, ("derive '%s': number or nil expected, the function returned %s"):format(derived.name,
        check.show(value)))
    end
    if value and (value ~= value or value == math.huge or value == -math.huge) then value = nil end
    flat[derived.name] = value
    sim:add_result_(derived.name, value)
  end
end

-- Requests -----------------------------------------------------------------------------------------

local Requests = { __name = "aisim.Requests" }

local function kept(self)
  local n, lost = rawget(self, "sim_"):record_count_()
  if lost > 0 then
    check.fail("run.requests: %d requests, the first %d are kept; sim:run { requests = true } keeps all", n + lost, n)
  end
  return n
end

local record_keys

--- A record whose undefined fields are nil and whose unknown ones are a mistake.
local RECORD <const> = { __index = function(_, key)
  if not record_keys then
    record_keys = { class = true }
    for _, name in ipairs(core.record_keys()) do record_keys[name] = true end
  end
  if record_keys[key] then return nil end
  return check.fail("run.requests: unknown field '%s'%s", tostring(key), near.hint(tostring(key), record_keys))
end }

local function record_of(sim, i) return setmetatable(sim:record_(i), RECORD) end

function Requests:__len() return (kept(self)) end

function Requests:__index(i)
  if math.type(i) ~= "integer" then check.fail("run.requests: number of a request expected, got %s", tostring(i)) end
  local n = kept(self)
  return i >= 1 and i <= n and record_of(rawget(self, "sim_"), i) or nil
end

--- for r in run.requests do … end, or run.requests(), in the order of the ends: a loop calls it with its state and
-- the record before.
function Requests:__call(...)
  local n, sim = kept(self), rawget(self, "sim_")
  local i = 0
  if select("#", ...) == 2 then
    local before = select(2, ...)
    local at = before == nil and 1 or rawget(self, "at_") + 1
    rawset(self, "at_", at)
    return at <= n and record_of(sim, at) or nil
  end
  return function()
    i = i + 1
    if i <= n then return record_of(sim, i) end
  end
end

function Requests:__pairs()
  local each = self()
  local i = 0
  return function()
    local record = each()
    if record then
      i = i + 1
      return i, record
    end
  end
end

-- The run ------------------------------------------------------------------------------------------

---@class aisim.Run
local Run = { __name = "aisim.Run" }
local methods = {}

-- name -> function(self) that builds the field
local lazy = {}

--- Numbers of a run by name, undefined ones absent; what scripts read is run.metrics.
---@param self aisim.Run
---@return table<string, number>
function M.numbers(self)
  local flat = rawget(self, "flat_")
  if not flat then
    local sim = self.sim
    flat = sim:flat_()
    add_scalars(sim, flat)
    add_derived(sim, flat)
    rawset(self, "flat_", flat)
  end
  return flat
end

--- The same for scripts: a metric without a value is nil, a name that is no metric is a mistake.
function lazy.metrics(self)
  local flat, own = M.numbers(self), own_names(self.sim)
  local shown = {}
  for name, value in pairs(flat) do shown[name] = value end
  return setmetatable(shown, { __index = function(_, name)
    local key = tostring(name)
    local hint = M.unknown(key, flat)
    if hint and not own[key:match("^(.+)%.[^.]+$") or key] then
      check.fail("run.metrics: unknown metric '%s'%s", key, hint)
    end
  end })
end

function lazy.requests(self) return setmetatable({ sim_ = self.sim }, Requests) end

function lazy.series(self)
  return setmetatable({}, { __index = function(list, name)
    local t, v = self.sim:series_(name)
    if not t then check.fail("run.series: no series '%s'", tostring(name)) end
    local series = { t = t, v = v }
    rawset(list, name, series)
    return series
  end })
end

function lazy.stats(self)
  local events, passes, created, live = self.sim:stats_()
  return { events = events, passes = passes, requests_created = created, requests_live = live }
end

function lazy.custom(self)
  local out = {}
  local parts = self.sim:results_("custom") or {}
  for _, name in ipairs(check.sorted(parts)) do
    local metric = parts[name]
    local value = M.numbers(self)[name]
    if type(metric) == "table" then value = value or metric.mean end
    if value ~= nil and not (type(metric) == "table" and metric.kind == "series") then
      out[#out + 1] = { name = name, value = value, unit = type(metric) == "table" and metric.unit or "" }
    end
  end
  for _, derived in ipairs(metrics.derived(self.sim)) do
    for _, item in ipairs(out) do
      if item.name == derived.name then item.unit = derived.unit or "" end
    end
  end
  return out
end

function lazy.pools(self)
  local lines = {}
  for i, pool in ipairs(self.sim:pools_()) do lines[i] = pool.line end
  return lines
end

--- Models that rest on data: where a roofline guess is worth a word.
local MEASURED <const> = { default = true, tables = true }

--- Share of the time that had to be guessed for lack of data; nil where nothing was.
local function guessed(self)
  local usage = self.sim:results_("totals.timing") or {}
  for _, pool in ipairs(self.sim:pools_()) do
    if MEASURED[pool.timing] and (usage.roofline_ops or 0) > 0 then return usage.roofline_time_ratio, usage end
  end
end

function lazy.timing(self)
  local pool = self.sim:pools_()[1]
  local share = guessed(self)
  local guess = share and (" (%.1f %% roofline)"):format(100 * share) or ""
  return pool and ("timing: %s%s"):format(pool.timing, guess) or ""
end

--- Requests lost their blocks: where, and how full the cache was there. nil = none did.
local function preempted(self)
  local workers, total, hit, worst = self.sim:results_("workers") or {}, 0, 0, nil
  for _, worker in ipairs(workers) do
    if worker.preemptions > 0 then
      total, hit = total + worker.preemptions, hit + 1
      if not worst or (worker.kv_usage.peak or 0) > (worst.kv_usage.peak or 0) then worst = worker end
    end
  end
  if not worst then return nil end
  local place = #workers > 1 and (" on worker %d"):format(worst.worker) or ""
  local others = #workers == 1 and "" or hit == 1 and ", all there" or (" on %d workers"):format(hit)
  return ("kv usage reached %.0f %%%s; %s preemption%s%s; see: aisim help preemption"):format(
    100 * (worst.kv_usage.peak or 0), place, render.count(total), total == 1 and "" or "s", others)
end

function lazy.notes(self)
  local notes = self.sim:results_("warnings") or {}
  local share, usage = guessed(self)
  if share then
    notes[#notes + 1] = ("no measured data for %s: %.1f %% of the pass time is a roofline guess "
      .. "(engine.fallback_policy = 'deny' refuses)"):format(table.concat(usage.roofline_names, ", "), 100 * share)
  end
  notes[#notes + 1] = preempted(self)
  if self.sim:warming_() > 0 then
    notes[#notes + 1] = "the warmup had not ended when the run did: what it sent is not measured"
  end
  return notes
end

function lazy.manifest(self)
  return { version = core.version, spec_version = "1", name = self.sim.name, seed = self.sim.seed, pools = self.pools,
    status = self.status, reason = rawget(self, "reason") }
end

--- Accounting of the AgentX replay (spec/traffic.md §2.6); an empty table without one.
function lazy.agentx(self) return self.sim:agentx_report_(1) or {} end

function lazy.params() return {} end

--- Why the run was stopped; of others nil.
function lazy.reason() return nil end

--- Names of what the scenario measures itself, defined in this run or not.
---@param run aisim.Run
---@return table<string, boolean>
function M.own_metrics(run) return own_names(run.sim) end

--- Is there a metric of that name, defined in this run or not?
function methods:is_metric(name)
  return M.unknown(name, M.numbers(self)) == nil or M.own_metrics(self)[name] == true
end

--- Does the run stand still, and how sure is its mean TTFT? (verdict.lua)
function methods:verdict() return require("aisim.verdict").of(self.sim, M.numbers(self)) end

--- The screen of `aisim run` as text.
function methods:summary()
  return require("aisim.render").screen {
    version = core.version, file = self.sim.name, seed = self.sim.seed, metrics = M.numbers(self), pools = self.pools,
    timing = self.timing, status = self.status, notes = self.notes, custom = self.custom,
    agentx = self.agentx,
  }
end

--- The report as JSON: to a file, or as text of one line without a path.
function methods:json(path)
  local _ = M.numbers(self) -- derived metrics belong to the report
  if path == nil then return self.sim:json_(0) end
  file_of.write(path, self.sim:json_(2) .. "\n")
end

--- One JSON object per measured request.
function methods:jsonl(path)
  kept(self.requests)
  self.sim:jsonl_(file_of.target(check.value("run:jsonl: path", path, { "text" })), false)
end

--- The run in the format of another tool (aisim.export): its files in a folder that exists; without a folder the
-- summary as text. Files of single requests need all requests kept, or sim:run { requests = { aiperf = path } }.
function methods:export(name, folder)
  local export = require "aisim.export"
  local format = export.find("run:export", name)
  if folder == nil then return export.summary(self, format) end
  folder = check.value("run:export: folder", folder, { "text" })
  for _, file in ipairs(format.files) do
    local path = ("%s/%s"):format(folder, file)
    if file == format.requests then
      kept(self.requests)
      self.sim:profile_jsonl_(file_of.target(path))
    else
      file_of.write(path, export.summary(self, format))
    end
  end
end

--- The time series as CSV, of a run with series_ms: to a file, or as text without a path.
function methods:timeseries(path)
  local text = self.sim:timeseries_()
  if not text then check.fail("run:timeseries: nothing was sampled; sim:run { series_ms = 1000 } samples") end
  if path == nil then return text end
  file_of.write(path, text)
end

--- metric,value lines.
function methods:csv(path)
  local lines = { "metric,value" }
  for _, name in ipairs(check.sorted(M.numbers(self))) do
    local value = M.numbers(self)[name]
    if math.type(value) == "float" then value = ("%.17g"):format(value) end
    lines[#lines + 1] = ("%s,%s"):format(name, tostring(value))
  end
  local text = table.concat(lines, "\n") .. "\n"
  if path == nil then return text end
  file_of.write(path, text)
end

--- A page with tables and plots.
function methods:html(path)
  check.value("run:html: path", path, { "text" })
  local value = require("aisim.json").decode(self:json(), "report")
  return require("aisim.report").write(path, require("aisim.report.run").page(value))
end

function Run:__index(name)
  if methods[name] then return methods[name] end
  local build = lazy[name]
  if build then
    local value = build(self)
    rawset(self, name, value)
    return value
  end
  local sim = rawget(self, "sim")
  local key = type(name) == "string" and name or tostring(name)
  local statistics = sim:results_("distributions." .. key)
  if statistics == nil then
    local custom = sim:results_("custom." .. key)
    if type(custom) == "table" and custom.kind == "hist" then statistics = custom end
  end
  if type(statistics) == "table" then
    local object = distribution(sim, key, nil, statistics)
    rawset(self, name, object)
    return object
  end
  local known = {}
  for _, set in ipairs { methods, lazy, sim:results_("distributions") or {} } do
    for other in pairs(set) do known[other] = true end
  end
  return check.fail("run: unknown field '%s'%s", key, near.hint(key, known))
end

function Run:__tostring() return ("run of '%s' (%s)"):format(self.sim.name, self.status) end

local defined

--- Is the name one of the built-in metrics, or a statistic of one?
function M.is_defined(name)
  if not defined then
    defined = {}
    for _, definition in ipairs(core.definitions()) do defined[definition.key] = true end
  end
  if defined[name] then return true end
  local base = tostring(name):match("^(.+)%.p%d[%d.]*$")
  if base then return defined[base] == true end
  local other, statistic = tostring(name):match("^(.+)%.([^.]+)$")
  return other ~= nil and (STATISTICS[statistic] or statistic == "peak") == true and defined[other] == true
end

--- What is wrong with a name that stands for a metric.
---@param name string
---@param present table<string, any>    metrics of one run or of several, by name
---@return string? hint    nil = it is one, in these runs or defined; else "", or what to do
function M.unknown(name, present)
  if present[name] ~= nil then return nil end
  local base, p = tostring(name):match("^(.+)%.p(%d[%d.]*)$")
  if base and M.is_defined(base) and present[base .. ".mean"] ~= nil then
    local hint = near.hint(name, present)
    return ("%s; other percentiles: sim:measure { percentiles = { %s } }"):format(hint, p)
  end
  if not M.is_defined(name) then return near.hint(name, present) end
end

-- Keys that stand for several figures, which depend on the run (definitions.c).
local GROUPS <const> = { transfers = true, offload = true, plays = true, worker_s = true }

--- Hint for a name that no run of a simulation can have: no such metric, or no such figure of it.
---@param sim aisim.Sim   before its run
---@param name string
---@return string? hint    nil = it may be a metric
function M.impossible(sim, name)
  local own, percentiles = metrics.own(sim)
  local base, statistic = name:match("^([^.]+)%.?(.*)$")
  if own[base] or GROUPS[base] or M.is_defined(name) and not statistic:find("^p%d") then return nil end
  if M.is_defined(statistic:match("^[^.]+") or "") then return nil end -- of a class
  local names, known = {}, false
  for key in pairs(own) do names[key] = true end
  for _, definition in ipairs(core.definitions()) do
    local key = definition.key
    names[key], known = true, known or key == base
    for figure in pairs(STATISTICS) do names[key .. "." .. figure] = true end
  end
  if not known then return near.hint(name, names) end
  local p = tonumber(statistic:match("^p(%d[%d.]*)$"))
  for _, asked in ipairs(percentiles) do
    if asked == p then return nil end
  end
  if STATISTICS[statistic] or statistic:find("^by%.") then return nil end
  return near.hint(name, names)
    .. (p and ("; other percentiles: sim:measure { percentiles = { %s } }"):format(statistic:sub(2)) or "")
end

--- Methods and fields of a run, beside the distributions of its report.
M.methods, M.fields = methods, lazy

--- Result of a run that has ended.
function M.new(sim, state, reason)
  local run = { sim = sim, status = state == "finished" and "completed" or state, reason = reason }
  return setmetatable(run, Run)
end

return M
