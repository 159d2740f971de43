--- Search: the largest (or smallest) value of a parameter that meets a goal, by bisection.
--   aisim.search(S, { param =, from =, to =, goal =, find =, scale =, tolerance =, seeds =, set = })
-- What is left out is that of S.search. The goal is expected to hold on one side of a value and to fail
-- on the other. A probe is judged by the mean over its seeds; with three seeds and more it also has a
-- 95 % interval, and while that interval contains the bound the probe gets more seeds, up to four times
-- as many: "sure" says that the interval lies on one side.
-- Steps halve the interval of candidates: its ratio for scale = "log", its width for "linear". They end
-- when it is no wider than `tolerance` (0.02): a share of the value for "log", of to - from for "linear".
local check = require "aisim.check"
local core = require "aisim.core"
local expect = require "aisim.expect"
local experiment = require "aisim.experiment"
local figures = require "aisim.figures"
local interval = require "aisim.interval"
local json = require "aisim.json"
local params = require "aisim.params"
local render = require "aisim.render"
local results = require "aisim.results"
local sweep = require "aisim.sweep"

local M = {}

local MORE_SEEDS <const> = 4 -- times the seeds asked for, at most

---@class aisim.Probe
---@field value number
---@field met boolean        by the mean
---@field sure boolean?      the interval agrees; nil with fewer than three seeds
---@field n integer          seeds
---@field mean number?       of the metric of the goal; nil = undefined
---@field half number?

---@class aisim.SearchResult
---@field param string
---@field goal string
---@field find "largest"|"smallest"
---@field value number?      the answer; nil when no value meets the goal
---@field beyond number?     nearest value that was seen to miss it; nil when all meet it
---@field probes aisim.Probe[]
local Result = { __name = "aisim.SearchResult" }
Result.__index = Result

--- A goal about something that no run has is a mistake, not a failure.
local function check_metric(name, rows)
  for _, row in ipairs(rows) do
    if row.metrics[name] ~= nil or row.custom[name] ~= nil then return end
  end
  local hint = results.unknown(name, rows[1].metrics)
  if hint then check.fail("search.goal: unknown metric '%s'%s", name, hint) end
end

--- Judges one value; measure(value, seeds) -> rows { metrics =, custom = } in the order of the seeds.
local function probe(search, value, seeds, measure)
  local goal = search.goal
  local wanted, limit = #seeds, #seeds >= interval.ENOUGH and MORE_SEEDS * #seeds or #seeds
  local all = table.move(seeds, 1, #seeds, 1, {})
  while true do
    local values = {}
    local rows = measure(value, all)
    check_metric(goal.name, rows)
    for _, row in ipairs(rows) do
      local got = row.metrics and row.metrics[goal.name]
      if type(got) == "number" then values[#values + 1] = got end
    end
    local s = interval.of(values)
    local out = { value = value, n = #all, mean = s and s.mean, half = s and s.half,
      met = s ~= nil and #values == #all and expect.meets(goal, s.mean) }
    if not s or not s.half then return out end
    out.sure = expect.meets(goal, s.low) == expect.meets(goal, s.high)
    if out.sure or #all >= limit then return out end
    local last = math.max(table.unpack(all))
    for i = 1, math.min(wanted, limit - #all) do all[#all + 1] = last + i end
  end
end

local function middle(search, low, high)
  local value = search.scale == "log" and math.sqrt(low * high) or (low + high) / 2
  if search.integer then return math.tointeger(math.floor(value)) end
  -- Few digits: a value that can be typed again.
  local short = tonumber(("%.4g"):format(value))
  return short > low and short < high and short or value
end

local function close_enough(search, low, high)
  if search.integer and high - low <= 1 then return true end
  if search.scale == "log" then return high / low <= 1 + search.tolerance end
  return high - low <= search.tolerance * (search.to - search.from)
end

--- Searches.
---@param search table      experiment.check_search
---@param seeds integer[]
---@param measure fun(value: number, seeds: integer[]): table[]
---@param seen? fun(probe: aisim.Probe)   called after every probe
---@return aisim.SearchResult
function M.run(search, seeds, measure, seen)
  local result = setmetatable({ param = search.param, goal = search.goal.text, find = search.find, probes = {},
    scale = search.scale, tolerance = search.tolerance }, Result)
  local function meets(value)
    local p = probe(search, value, seeds, measure)
    result.probes[#result.probes + 1] = p
    if seen then seen(p) end
    return p.met
  end
  -- `good` meets the goal, `bad` does not; the answer lies between them.
  local good, bad = search.from, search.to
  if search.find == "smallest" then good, bad = bad, good end
  if not meets(good) then
    result.beyond = good
    return result
  end
  if meets(bad) then
    result.value = bad
    return result
  end
  while not close_enough(search, math.min(good, bad), math.max(good, bad)) do
    local value = middle(search, math.min(good, bad), math.max(good, bad))
    if meets(value) then good = value else bad = value end
  end
  result.value, result.beyond = good, bad
  return result
end

--- One probe as a line of a table.
function M.line(p)
  return { params.shown(p.value), p.mean and render.value(p.mean) .. (p.half and " ± " .. render.number(p.half) or "")
    or "undefined", tostring(p.n), (p.met and "✓" or "✗") .. (p.sure == false and " (not sure)" or "") }
end

--- The answer in a sentence.
---@return string
function Result:answer()
  local shown = params.shown
  if not self.value then
    return ("no value of %s meets %s: %s does not"):format(self.param, self.goal, shown(self.beyond))
  end
  if not self.beyond then
    return ("every value of %s meets %s, up to the end of the range (%s)"):format(self.param, self.goal,
      shown(self.value))
  end
  return ("%s %s that meets %s: %s (%s does not)"):format(self.find, self.param, self.goal, shown(self.value),
    shown(self.beyond))
end

--- Probes in the order of the search, and the answer.
---@return string
function Result:summary()
  local rows = { { self.param, self.goal:match("^%s*([%w_%.]+)"), "seeds", "goal" } }
  for i, p in ipairs(self.probes) do rows[i + 1] = M.line(p) end
  return figures.text(rows, 1) .. "\n\n" .. self:answer()
end

--- The value of search.json.
function Result:json(path)
  local probes = {}
  for i, p in ipairs(self.probes) do
    probes[i] = json.object({ "value", p.value, "met", p.met, "sure", p.sure, "seeds", p.n, "mean", p.mean, "half",
      p.half }, 12)
  end
  local value = json.object({ "schema", "aisim-search/1", "version", core.version, "param", self.param, "goal",
    self.goal, "find", self.find, "scale", self.scale, "tolerance", self.tolerance, "value", self.value, "beyond",
    self.beyond, "confidence", 0.95, "probes", probes }, 22)
  if path == nil then return json.encode(value) end
  return json.write(path, value)
end

local OPTIONS <const> = {
  param = { "text" }, from = { "number" }, to = { "number" }, goal = { "any" }, find = { "text" }, scale = { "text" },
  tolerance = { "number" }, seeds = { "any" }, set = { "table" },
}

--- Searches in this process.
---@param S aisim.Scenario
---@param options table?
---@return aisim.SearchResult
function M.search(S, options)
  local record = sweep.need_scenario("aisim.search", S)
  options = check.options("aisim.search", options, OPTIONS)
  local declared = {}
  for key, value in pairs(S.search or {}) do declared[key] = value end
  for key, value in pairs(options) do
    if key ~= "set" then declared[key] = value end
  end
  local search = experiment.check_search(record, declared)
  local done = {} -- value and seed -> row: more seeds do not repeat the first ones
  local function measure(value, seeds)
    local plan = sweep.plan(S, { grid = { [search.param] = { value } } }, sweep.overrides(options.set), S.seed)
    local rows = {}
    for i, seed in ipairs(seeds) do
      local key = ("%.17g %d"):format(value, seed)
      if not done[key] then
        local run = sweep.run_point(S, plan.points[1], seed)
        done[key] = { metrics = results.numbers(run), custom = results.own_metrics(run) }
      end
      rows[i] = done[key]
    end
    return rows
  end
  return M.run(search, experiment.seeds(search.seeds, S.seed), measure)
end

M.methods = Result

return M
