--- Sweeps: the points of S.sweep, their identity, running one of them (spec/lua-api.md §10).
--   aisim.sweep(S, { grid =, zip =, seeds =, skip =, columns =, pareto =, set = { name = value }, each = fn })
-- runs every point in this process and gives an aisim.SweepResult (sweep_result.lua); what is left out
-- is that of S.sweep. `aisim sweep FILE` runs the same points in processes (cli/sweep.lua).
-- Order: names of the grid alphabetical, the last one fastest, then the rows of zip; seeds fastest of
-- all. All points use the same seeds: common random numbers.
local check = require "aisim.check"
local core = require "aisim.core"
local expect = require "aisim.expect"
local experiment = require "aisim.experiment"
local params = require "aisim.params"
local scenario = require "aisim.scenario"

local M = {}

---@class aisim.SweepPoint
---@field index integer
---@field params table<string, any>   what is varied
---@field values table<string, any>   all parameters
---@field label string                "rate=4, router=kv"

---@class aisim.SweepPlan
---@field S aisim.Scenario
---@field record table
---@field spec table                  grid, zip, columns, pareto
---@field names string[]              what is varied, in the order of the columns
---@field points aisim.SweepPoint[]
---@field seeds integer[]

--- "rate=4, router=kv", or "" for a point of nothing varied.
local function label_of(names, values)
  local parts = {}
  for i, name in ipairs(names) do
    local value = values[name]
    parts[i] = ("%s=%s"):format(name, type(value) == "string" and value or params.shown(value))
  end
  return table.concat(parts, ", ")
end

--- All combinations: list of tables name -> value.
local function combinations(spec, names)
  local list = { {} }
  local function vary(count, assign)
    local longer = {}
    for _, before in ipairs(list) do
      for i = 1, count do
        local values = {}
        for name, value in pairs(before) do values[name] = value end
        assign(values, i)
        longer[#longer + 1] = values
      end
    end
    list = longer
  end
  for _, name in ipairs(check.sorted(spec.grid or {})) do
    names[#names + 1] = name
    vary(#spec.grid[name], function(values, i) values[name] = spec.grid[name][i] end)
  end
  local zip = spec.zip
  if zip then
    for _, name in ipairs(zip[1]) do names[#names + 1] = name end
    vary(#zip - 1, function(values, i)
      for column, name in ipairs(zip[1]) do values[name] = zip[i + 1][column] end
    end)
  end
  return list
end

--- Points and seeds of a sweep that has been checked.
---@param S aisim.Scenario
---@param spec table                  experiment.check_sweep
---@param overrides aisim.Override[]  of parameters, the same for all points
---@param seed integer                the first one
---@return aisim.SweepPlan
function M.plan(S, spec, overrides, seed)
  local record, names, points = scenario.record(S), {}, {}
  local all = combinations(spec, names)
  for _, override in ipairs(overrides) do
    for _, name in ipairs(names) do
      if override.key == name then
        check.fail("%s: the sweep varies '%s'; leave one of them out", override.flag or "sweep.set", name)
      end
    end
  end
  for _, varied in ipairs(all) do
    local list = table.move(overrides, 1, #overrides, 1, {})
    for _, name in ipairs(names) do list[#list + 1] = { key = name, value = varied[name] } end
    local values = params.resolve(record.params, list, record.path or record.file)
    for _, name in ipairs(names) do varied[name] = values[name] end
    if not (spec.skip and spec.skip(params.view(values))) then
      points[#points + 1] = { index = #points + 1, params = varied, values = values, label = label_of(names, varied) }
    end
  end
  if #points == 0 then check.fail("sweep: no point is left (skip returned true for all)") end
  return { S = S, record = record, spec = spec, names = names, points = points,
    seeds = experiment.seeds(spec.seeds, seed) }
end

--- What a run is known by: the same bytes of the file, parameters, configuration, seed and version give
--- the same identity. Files that the scenario reads itself are not part of it.
---@param file string                 bytes of the scenario file
---@param values table<string, any>   all parameters
---@param configuration aisim.Override[]   of the engine
---@param seed integer
---@return string   16 hexadecimal digits
function M.identity(file, values, configuration, seed)
  local parts = { core.version, file, ("seed=%d"):format(seed) }
  for _, name in ipairs(check.sorted(values)) do
    local value = values[name]
    parts[#parts + 1] = ("%s=%s"):format(name, type(value) == "number" and ("%.17g"):format(value) or tostring(value))
  end
  for _, override in ipairs(configuration) do
    parts[#parts + 1] = ("%s=%s"):format(override.key, tostring(override.value))
  end
  return core.hash(table.concat(parts, "\0"))
end

---@class aisim.SweepRow
---@field point integer
---@field params table<string, any>
---@field seed integer
---@field status "completed"|"stopped"|"interrupted"|"failed"|"missing"
---@field met boolean?                all expectations; nil without any
---@field metrics table<string, any>? run.metrics; nil when it failed
---@field error string?
---@field custom table<string, any>?  keys: names of the scenario's own metrics, defined or not

--- "point rate=4, seed 2".
function M.place(point, seed)
  return point.label == "" and ("seed %d"):format(seed) or ("point %s, seed %d"):format(point.label, seed)
end

--- Simulates one point in this process. Errors name point and seed.
---@param S aisim.Scenario
---@param point aisim.SweepPoint
---@param seed integer
---@return aisim.Run
function M.run_point(S, point, seed)
  local ok, result = pcall(function()
    local sim = require("aisim.sim").new { seed = seed, name = S.title or "" }
    S.setup(sim, params.view(point.values))
    expect.check(sim, scenario.record(S).expectations)
    expect.watch(sim, scenario.record(S).expectations)
    local run = sim:run()
    rawset(run, "params", point.values)
    return run
  end)
  if ok then return result end
  return error(type(result) == "string" and ("%s\n  in %s"):format(result, M.place(point, seed)) or result, 0)
end

--- A finished run as a row.
---@param plan aisim.SweepPlan
---@return aisim.SweepRow
function M.row(plan, point, seed, status, metrics)
  local row = { point = point.index, params = point.params, seed = seed, status = status, metrics = metrics }
  local expectations = plan.record.expectations
  if metrics and #expectations > 0 then
    local _, met = expect.judge(expectations, metrics)
    row.met = met
  end
  return row
end

local OPTIONS <const> = {
  grid = { "table" }, zip = { "table" }, seeds = { "any" }, skip = { "function" }, columns = { "table" },
  pareto = { "table" }, set = { "table" }, each = { "function" },
}

--- The scenario behind S, which must be able to run.
function M.need_scenario(where, S)
  local record = scenario.record(S)
  if not record then
    check.fail("%s: scenario expected (what aisim.scenario { … } gave), got %s", where, type(S))
  end
  if not record.values.setup then check.fail("%s: the scenario has no setup", where) end
  return record
end

--- { name = value } as overrides.
function M.overrides(set)
  local list = {}
  for i, name in ipairs(check.sorted(set or {})) do list[i] = { key = name, value = set[name] } end
  return list
end

--- Runs a sweep in this process. each(row, run) is called after every run.
---@param S aisim.Scenario
---@param options table?
---@return aisim.SweepResult
function M.sweep(S, options)
  local record = M.need_scenario("aisim.sweep", S)
  options = check.options("aisim.sweep", options, OPTIONS)
  local spec = {}
  for key, value in pairs(S.sweep or {}) do spec[key] = value end
  if options.grid or options.zip then spec.grid, spec.zip = nil, nil end
  for key, value in pairs(options) do
    if key ~= "set" and key ~= "each" then spec[key] = value end
  end
  experiment.check_sweep(record, spec)
  local plan = M.plan(S, spec, M.overrides(options.set), S.seed)
  local rows = {}
  for _, point in ipairs(plan.points) do
    for _, seed in ipairs(plan.seeds) do
      local run = M.run_point(S, point, seed)
      local row = M.row(plan, point, seed, run.status, run.metrics)
      row.custom = require("aisim.results").own_metrics(run)
      rows[#rows + 1] = row
      if options.each then options.each(row, run) end
    end
  end
  return require("aisim.sweep_result").new(plan, rows)
end

return M
