--- A job: one file, its overrides and a seed, checked and ready to be built.
-- Shared by the verbs that load a file. Parameters of the scenario and paths of the configuration
-- (they contain a dot) come through the same flag; each goes to whoever knows it.
local core = require "aisim.core"
local fault = require "aisim.cli.fault"
local near = require "aisim.near"
local params = require "aisim.params"
local scenario = require "aisim.scenario"

local M = {}

---@class aisim.Job
---@field file string                    as named on the command line; "stdin" for -
---@field title string?
---@field seed integer
---@field seed_origin string?            "--seed", or nil
---@field setup fun(sim)                 builds
---@field report fun(run)?               instead of the default table
---@field expectations aisim.Expectation[]
---@field values table<string, any>      resolved parameters
---@field origins table<string, string>  of parameters that are not the default
---@field overrides aisim.Override[]     of the configuration, for the simulation to apply
---@field shown_overrides aisim.Override[]?    those already applied: for the head of the screen
---@field until_ms number?               limit of virtual time
---@field max_wall_time_ms number?       guard of real time
---@field yaml string?                   a configuration: resolved, with the origin of every value
---@field expect_runtime_s number?
---@field S aisim.Scenario?              nil for a configuration
---@field record table?

--- "key=value" -> key, value.
local function split(text)
  local key, value = text:match("^%s*([%a_][%w_%.%-]*)%s*=(.*)$")
  if not key then fault.usage("--set %s: write it as key=value", text) end
  return key, value
end

--- Overrides of the command line, in two lists.
---@return aisim.Override[] of_parameters
---@return aisim.Override[] of_configuration
function M.overrides(texts)
  local of_parameters, of_configuration = {}, {}
  for _, text in ipairs(texts or {}) do
    local key, value = split(text)
    local list = key:find(".", 1, true) and of_configuration or of_parameters
    list[#list + 1] = { key = key, value = value, flag = "--set " .. text }
  end
  return of_parameters, of_configuration
end

local function seed_of(text, default)
  if not text then return default end
  local seed = math.tointeger(tonumber(text))
  if not seed or seed < 0 then fault.usage("--seed %s: integer ≥ 0 expected", text) end
  return seed, "--seed"
end

local function load_scenario(file, args)
  local of_parameters, of_configuration = M.overrides(args.set)
  -- What a script draws while it is loaded depends on the seed as well; aisim.new seeds again.
  core.seed_math(seed_of(args.seed, 1))
  local S = scenario.load(file)
  local record = scenario.record(S)
  local p, values, origins = scenario.params(S, of_parameters)
  local seed, seed_origin = seed_of(args.seed, S.seed)
  return {
    file = record.path, title = S.title, seed = seed, seed_origin = seed_origin,
    setup = function(sim)
      local _ <close> = core.call "setup"
      scenario.seal(S)
      S.setup(sim, p)
    end,
    report = S.report and function(run)
      local _ <close> = core.call "report"
      S.report(run, p)
    end or nil,
    expectations = record.expectations, values = values, origins = origins, overrides = of_configuration,
    expect_runtime_s = S.expect_runtime_s, S = S, record = record,
  }
end

--- Loads and checks a file. Raises with a message for the user.
---@param args table   of the parser: file, set, seed
---@return aisim.Job
function M.load(args)
  local file = args.file
  if file:find("%.ya?ml$") then
    local job = require("aisim.cli.predict").load(file, args)
    job.seed, job.seed_origin = seed_of(args.seed, job.seed)
    return job
  end
  if file ~= "-" and not file:find("%.lua$") then
    if not io.open(file, "rb") then
      fault.usage("cannot open %s: No such file or directory%s", file, near.file(file))
    end
    fault.usage("%s: a scenario (.lua) or a configuration (.yaml) expected", file)
  end
  return load_scenario(file, args)
end

--- Raises when an override of the configuration has met no pool: it would do nothing.
---@param job aisim.Job   after setup; the simulation marks the overrides it has applied
function M.need_used(job)
  for _, override in ipairs(job.overrides) do
    if not override.used then
      local paths = require("aisim.tables").paths("prediction")
      local known = false
      for _, path in ipairs(paths) do known = known or path == override.key end
      fault.usage("%s: %s", override.flag, known and ("no pool of %s has this key"):format(job.file)
        or ("unknown key '%s'%s"):format(override.key, near.path_hint(override.key, paths)))
    end
  end
end

--- What is not a default, for the head of the screen.
---@param job aisim.Job
---@param sim? aisim.Sim   after setup: its routers are shown as well
---@return { name: string, value: string, origin: string? }[]
function M.settings(job, sim)
  local names, list = {}, {}
  for name in pairs(job.origins) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do
    local value = job.values[name]
    list[i] = { name = name, value = type(value) == "string" and value or params.shown(value),
      origin = job.origins[name] }
  end
  for _, override in ipairs(job.shown_overrides or job.overrides) do
    list[#list + 1] = { name = override.key, value = override.value, origin = "--set" }
  end
  local said = {}
  for _, setting in ipairs(list) do
    if setting.name:find("router", 1, true) then said[setting.value] = true end
  end
  for _, router in ipairs(sim and require("aisim.router").of(sim) or {}) do
    if not said[router.policy] then list[#list + 1] = { name = router.name, value = router.policy } end
  end
  return list
end

return M
