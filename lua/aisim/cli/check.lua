--- aisim check FILE: everything of a run but the run. Loads, validates, builds, and shows the resolved
-- configuration, the parameters, and which hooks and scheduler points are set at what price.
local aisim = require "aisim"
local catalogue = require "aisim.cli.catalogue"
local check = require "aisim.check"
local clocks = require "aisim.cli.clocks"
local declared = require "aisim.cli.declared"
local fault = require "aisim.cli.fault"
local help = require "aisim.cli.help"
local jobs = require "aisim.cli.job"
local scenario = require "aisim.scenario"
local table_of = require "aisim.cli.table"
local terminal = require "aisim.cli.terminal"

local M = {}

local WARNINGS <const> = {
  pass = "makes the engine stop at each pass: fast-forward is off, expect a run several times slower",
  token = "makes the engine stop at each request of each pass: expect a run ten times slower and more",
}

local function parameters(job, out)
  if not job.record or #job.record.params == 0 then return end
  local rows = {}
  for i, param in ipairs(job.record.params) do
    rows[i] = help.param_row(param, job.values[param.name], job.origins[param.name])
  end
  out[#out + 1] = "parameters\n" .. table_of.text(rows, 2)
end

-- What calls functions of the script during a run: method -> how it is named.
local CALLERS <const> = {
  on = "hook", router = "router", admission = "admission", at = "timer", after = "timer", every = "timer",
  sessions = "sessions", series = "series", pool = "point", autoscale = "autoscaler", workload = "traffic",
  handoff = "hand-off",
}

--- Where a function was written, or a line in it.
local function place_of(fn, line)
  local info = debug.getinfo(fn, "S")
  return info.what == "C" and "(in C)" or ("%s:%d"):format(info.short_src, line or info.linedefined)
end

--- Functions among the arguments of a call, or in its table of options.
local function functions_of(...)
  local list = {}
  for i = 1, select("#", ...) do
    local value = select(i, ...)
    if type(value) == "function" then list[#list + 1] = value end
    if type(value) == "table" and not getmetatable(value) then
      for _, key in ipairs(check.sorted(value)) do
        if type(value[key]) == "function" then list[#list + 1] = value[key] end
      end
    end
  end
  return list
end

--- Runs setup and writes down the hooks, the scheduler points, every function that is called later, and what else is
-- declared.
local function build(job)
  local registered, points, called, lines = {}, {}, {}, {}
  require "aisim.sim" -- defines the methods that are watched here
  local methods = require("aisim.core").methods["aisim.Sim"]
  local before = {}
  for method, kind in pairs(CALLERS) do
    local original <const> = methods[method]
    before[method] = original
    methods[method] = function(sim, ...)
      for _, fn in ipairs(functions_of(...)) do
        called[#called + 1] = { fn = fn, name = method == "on" and ("hook '%s'"):format((...)) or kind }
      end
      if method == "on" then
        local name, fn = ...
        if type(fn) == "function" then registered[#registered + 1] = { name = name, place = place_of(fn) } end
      end
      local result = original(sim, ...)
      if declared.METHODS[method] then lines[#lines + 1] = declared.line(method, (...)) end
      for _, point in ipairs(method == "pool" and require("aisim.points").list or {}) do
        local fn = (...)[point.name]
        local what = ("%s of pool '%s'"):format(point.name, result.name)
        if fn then points[#points + 1] = { what, place_of(fn), point.price } end
      end
      return result
    end
  end
  local sim = aisim.new { seed = job.seed, name = job.title or job.file, overrides = job.overrides }
  local ok, problem = xpcall(job.setup, fault.handler, sim)
  for method, original in pairs(before) do methods[method] = original end
  if not ok then error(problem, 0) end
  jobs.need_used(job)
  return sim, registered, points, called, declared.text(lines)
end

local function clock_warnings(called, out)
  local rows = {}
  for _, call in ipairs(called) do
    local name, line = clocks.find(call.fn)
    if name then
      rows[#rows + 1] = { place_of(call.fn, line),
        ("warning: %s reads %s, the clock of the machine: results differ from run to run (sim:now() is virtual time)")
          :format(call.name, name) }
    end
  end
  if #rows > 0 then out[#out + 1] = "clocks\n" .. table_of.text(rows, 2) end
end

local function hooks(registered, out)
  local price = {}
  for _, info in ipairs(require("aisim.hooks").list) do price[info.name] = info.class end
  if #registered == 0 then
    out[#out + 1] = "hooks        none"
    return
  end
  local rows = {}
  for i, hook in ipairs(registered) do
    local class = price[hook.name]
    rows[i] = { hook.name, hook.place, WARNINGS[class] and "warning: " .. WARNINGS[class] or catalogue.price(class) }
  end
  out[#out + 1] = "hooks\n" .. table_of.text(rows, 2)
end

---@param args table
---@return integer status
function M.main(args)
  local job = jobs.load(args)
  local out = { job.title and ("%s  %s"):format(job.file, job.title) or job.file }
  if job.S then
    scenario.need_setup(job.S)
    if job.S.question then out[#out + 1] = table_of.text { { "question", job.S.question } } end
  end
  out[#out + 1] = ("seed         %d (%s)"):format(job.seed, job.seed_origin or "default")
  parameters(job, out)
  local sim, registered, points, called, lines = build(job)
  if job.yaml then
    out[#out + 1] = "configuration\n  " .. job.yaml:gsub("\n$", ""):gsub("\n", "\n  ")
  else
    for i, pool in ipairs(sim:pools_()) do
      local yaml = sim:configuration_(i):gsub("\n$", "")
      if pool.timing == "function" then yaml = yaml:gsub("\ntiming:\n.-\n(%l)", "\ntiming: a Lua function\n%1") end
      yaml = yaml:gsub("\n", "\n  ")
      out[#out + 1] = ("pool '%s': %s\n  %s"):format(pool.name, pool.line, yaml)
    end
  end
  if not job.yaml then out[#out + 1] = lines end
  hooks(registered, out)
  if #points > 0 then out[#out + 1] = "points\n" .. table_of.text(points, 2) end
  clock_warnings(called, out)
  if job.S then out[#out + 1] = "report       " .. (job.S.report and "of the scenario" or "default table") end
  for i, expectation in ipairs(job.expectations) do
    out[#out + 1] = (i == 1 and "expect       " or "             ") .. expectation.text
  end
  for _, line in ipairs(job.S and help.experiments(job.S) or {}) do out[#out + 1] = line end
  out[#out + 1] = "ok"
  terminal.out(table.concat(out, "\n"))
  return fault.OK
end

return M
