--- What S.sweep and S.search may say (spec/lua-api.md §10), checked before anything runs.
-- Shared by the scenario table, aisim.sweep, aisim.search and the command line. Parameters are named
-- by `record.by_name` of the scenario; problems are raised with the line of the script.
local check = require "aisim.check"
local expect = require "aisim.expect"
local near = require "aisim.near"
local params = require "aisim.params"

local M = {}

local function param_of(record, name, where)
  local param = record.by_name[name]
  if not param then
    check.fail("%s: unknown parameter '%s'%s", where, tostring(name), near.hint(tostring(name), record.by_name))
  end
  return param
end

--- A value of a parameter in its own number type, or an error.
local function valid(param, value, where)
  local ok, result = pcall(params.check, param, value)
  if not ok then check.fail("%s: %s", where, (tostring(result):gsub("^.-: ", "", 1))) end
  return result
end

local function list_of_values(where, values)
  if type(values) ~= "table" or #values == 0 then check.fail("%s: list of values expected", where) end
end

local function check_grid(record, grid)
  check.value("sweep.grid", grid, { "table" })
  for _, name in ipairs(check.sorted(grid)) do
    local param = param_of(record, name, "sweep.grid")
    list_of_values("sweep.grid." .. name, grid[name])
    for _, item in ipairs(grid[name]) do valid(param, item, "sweep.grid") end
  end
end

local function check_zip(record, zip, grid)
  local names = type(zip) == "table" and zip[1]
  if type(names) ~= "table" or #names == 0 then
    check.fail("sweep.zip: the first row must be the parameter names")
  end
  if #zip < 2 then check.fail("sweep.zip: rows of values expected behind the names") end
  for row = 2, #zip do
    if type(zip[row]) ~= "table" or #zip[row] ~= #names then
      check.fail("sweep.zip: row %d has %d values for %d parameters", row,
        type(zip[row]) == "table" and #zip[row] or 1, #names)
    end
  end
  for column, name in ipairs(names) do
    local param = param_of(record, name, "sweep.zip")
    if grid and grid[name] ~= nil then check.fail("sweep: parameter '%s' is in grid and in zip", name) end
    for row = 2, #zip do valid(param, zip[row][column], "sweep.zip") end
  end
end

--- Seeds: how many, or which.
function M.check_seeds(where, seeds)
  if math.type(seeds) == "integer" and seeds >= 1 then return seeds end
  if type(seeds) ~= "table" or #seeds == 0 then
    check.fail("%s: a number of seeds >= 1 or a list of seeds expected", where)
  end
  local seen = {}
  for i, seed in ipairs(seeds) do
    check.value(("%s[%d]"):format(where, i), seed, { "integer", min = 0 })
    if seen[seed] then check.fail("%s: seed %d twice", where, seed) end
    seen[seed] = true
  end
  return seeds
end

local SWEEP <const> = { grid = true, zip = true, seeds = true, skip = true, columns = true, pareto = true }
local PARETO <const> = { x = { "text", required = true }, y = { "text", required = true } }

--- Checks a sweep.
---@param record table    of the scenario (scenario.record)
---@param sweep table
---@return table sweep
function M.check_sweep(record, sweep)
  if type(sweep) ~= "table" then check.fail("sweep: table expected, got %s", type(sweep)) end
  check.keys("sweep", sweep, SWEEP)
  if sweep.grid ~= nil then check_grid(record, sweep.grid) end
  if sweep.zip ~= nil then check_zip(record, sweep.zip, sweep.grid) end
  if sweep.seeds ~= nil then M.check_seeds("sweep.seeds", sweep.seeds) end
  if sweep.skip ~= nil then check.value("sweep.skip", sweep.skip, { "function" }) end
  for i, column in ipairs(sweep.columns ~= nil and check.value("sweep.columns", sweep.columns, { "table" }) or {}) do
    check.value(("sweep.columns[%d]"):format(i), column, { "text" })
  end
  if sweep.pareto ~= nil then check.options("sweep.pareto", sweep.pareto, PARETO) end
  return sweep
end

local SEARCH <const> = {
  param = { "text", required = true },
  from = { "number", required = true },
  to = { "number", required = true },
  goal = { "any", required = true, expected = "text" },
  find = { "text", one_of = { "largest", "smallest" }, default = "largest" },
  scale = { "text", one_of = { "log", "linear" }, default = "linear" },
  tolerance = { "number", above = 0, default = 0.02 },
  seeds = { "any", default = 1 },
}

--- Checks a search and fills in its defaults: { param, from, to, goal (parsed), find, scale, tolerance, seeds }.
---@param record table
---@param search table
---@return table
function M.check_search(record, search)
  if type(search) ~= "table" then check.fail("search: table expected, got %s", type(search)) end
  local out = check.options("search", search, SEARCH)
  local param = param_of(record, out.param, "search.param")
  if param.kind ~= "number" then check.fail("search.param: '%s' is not a number", out.param) end
  for _, bound in ipairs { "from", "to" } do out[bound] = valid(param, out[bound], "search." .. bound) end
  if out.from >= out.to then
    check.fail("search: from (%s) must be below to (%s)", check.show(out.from), check.show(out.to))
  end
  if out.scale == "log" and out.from <= 0 then check.fail("search.scale = 'log': from must be > 0") end
  local goal, problem = expect.parse(out.goal)
  if not goal then check.fail("search.goal: %s", problem) end
  out.goal, out.integer = goal, param.integer
  M.check_seeds("search.seeds", out.seeds)
  return out
end

--- The seeds that are meant: a list as it is, a number n as n seeds from `first` on.
---@param seeds integer|integer[]?
---@param first integer
---@return integer[]
function M.seeds(seeds, first)
  if type(seeds) == "table" then return seeds end
  local list = {}
  for i = 1, seeds or 1 do list[i] = first + i - 1 end
  return list
end

return M
