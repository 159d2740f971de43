--- The models that `aisim timing` shows: those of a file's pools, or one described by flags.
-- A model is { name, line, timing }: timing is an object with pass and explain. A file is built but not
-- run; the model of each pool is asked, so overrides and Lua functions count as they would in a run.
local aisim = require "aisim"
local core = require "aisim.core"
local fault = require "aisim.cli.fault"
local jobs = require "aisim.cli.job"
local near = require "aisim.near"
local scenario = require "aisim.scenario"

require "aisim.catalogue"
require "aisim.sim"

local M = {}

---@class aisim.ShownModel
---@field name string
---@field line string      "llama-3.1-8b on h200_sxm, tp 1"
---@field timing any       the object

--- Built-in models that need no figures, by the words of --compare.
local BUILT_IN <const> = { default = "default", measured = "default", tables = "tables", roofline = "roofline" }

local DEGREES <const> = { "tensor", "pipeline", "attention_data", "moe_tensor", "moe_expert" }

local function degree(args, name)
  local text = args[name]
  if not text then return nil end
  local value = math.tointeger(tonumber(text))
  if not value or value < 1 then fault.usage("timing: --%s %s: integer ≥ 1 expected", name:gsub("_", "-"), text) end
  return value
end

--- The engine that the flags describe, nil without --model.
local function engine_of_flags(args)
  local parallelism = {}
  for _, name in ipairs(DEGREES) do parallelism[name] = degree(args, name) end
  if not args.model then
    if next(parallelism) then fault.usage("timing: --%s needs --model", (next(parallelism):gsub("_", "-"))) end
    return nil
  end
  if args.file then fault.usage("timing: FILE and --model: give one of them") end
  local known, model = pcall(require("aisim.catalogue").model, args.model)
  if not known then fault.usage("timing: --%s", tostring(model)) end
  if (model.experts or 0) > 0 and not parallelism.moe_tensor and not parallelism.moe_expert then
    local gpus, by_data = (parallelism.tensor or 1) * (parallelism.attention_data or 1), parallelism.attention_data
    parallelism[by_data and "moe_expert" or "moe_tensor"] = gpus -- as the ranks are: by width, or by number
  end
  return { model = args.model, hardware = args.hardware, parallelism = parallelism }
end

--- Flags of --set as paths below an engine: { key, value, flag }.
function M.engine_flags(sets)
  local list = {}
  for i, text in ipairs(sets or {}) do
    local key, value = text:match("^%s*([%a_][%w_%.]*)%s*=(.*)$")
    if not key then fault.usage("--set %s: write it as key=value", text) end
    key = key:gsub("^engine%.", ""):gsub("^workers%.%a+%.", "")
    list[i] = { key = key, value = value, flag = "--set " .. text }
  end
  return list
end

--- Degrees behind tensor, as the line shows them.
local SHORT <const> = { { "pipeline", "pp" }, { "attention_data", "dp" }, { "moe_tensor", "moe tp" },
  { "moe_expert", "ep" } }

local function line_of(engine)
  local split = engine.parallelism or {}
  local parts = { ("tp %d"):format(split.tensor or 1) }
  for _, item in ipairs(SHORT) do
    if (split[item[1]] or 1) > 1 then parts[#parts + 1] = ("%s %d"):format(item[2], split[item[1]]) end
  end
  local function name(value) return type(value) == "table" and (value.name or "a descriptor") or value end
  return ("%s on %s, %s"):format(name(engine.model) or "no model", name(engine.hardware) or "h200_sxm",
    table.concat(parts, ", "))
end

--- A built-in model for the machine of an engine.
local function built_in(kind, engine, args, flags)
  if kind == "tables" and not args.tables then fault.usage("timing: the model 'tables' needs --tables DIR") end
  local copy = {}
  for key, value in pairs(engine) do copy[key] = value end
  copy.timing = { type = kind, path = kind == "tables" and args.tables or nil }
  local timing, type_ = core.timing(copy, nil, flags)
  return { name = type_, line = line_of(engine), timing = timing }
end

-- Files ----------------------------------------------------------------------------------------------

--- Builds the file's simulation and notes the engine of each pool.
local function build(args)
  local job = jobs.load(args)
  if job.S then scenario.need_setup(job.S) end
  local methods, engines = core.methods["aisim.Sim"], {}
  local pool <const> = methods.pool
  methods.pool = function(sim, options)
    local made = pool(sim, options)
    engines[#engines + 1] = { pool = made, engine = options.engine }
    return made
  end
  local sim = aisim.new { seed = job.seed, name = job.title or job.file, overrides = job.overrides }
  local ok, problem = xpcall(job.setup, fault.handler, sim)
  methods.pool = pool
  if not ok then error(problem, 0) end
  jobs.need_used(job)
  if #engines == 0 then fault.usage("timing: %s makes no pool", job.file) end
  return sim, engines
end

local function pool_models(args)
  local sim, engines = build(args)
  local infos, models = sim:pools_(), {}
  for i, made in ipairs(engines) do
    local timing = made.engine.timing
    local named = type(timing) == "table" and rawget(timing, "name")
    models[i] = { name = named or infos[i].timing, pool = made.pool.name,
      line = infos[i].line:gsub(", [%d,]+ blocks.*$", ""), timing = sim:timing_(made.pool) }
  end
  return models, engines[1].engine
end

-- Choice -----------------------------------------------------------------------------------------------

local function find(name, of_file)
  for _, model in ipairs(of_file) do
    if model.name == name or model.pool == name then return model end
  end
end

local function chosen(names, of_file, engine, args, flags)
  local list = {}
  for name in names:gmatch("[^,]+") do
    local model = find(name, of_file)
    if not model then
      local kind = BUILT_IN[name]
      if not kind then
        local known = {}
        for word in pairs(BUILT_IN) do known[word] = true end
        for _, other in ipairs(of_file) do known[other.name], known[other.pool] = true, true end
        local hint = near.hint(name, known)
        fault.usage("timing: --compare: unknown model '%s'%s", name,
          hint ~= "" and hint or (" (there are %s)"):format(table.concat(require("aisim.check").sorted(known), ", ")))
      end
      model = built_in(kind, engine, args, flags)
    end
    list[#list + 1] = { name = name, line = model.line, timing = model.timing }
  end
  if #list < 2 then fault.usage("timing: --compare %s: names of two models or more expected", names) end
  return list
end

--- The models to show.
---@param args table   of the parser
---@return aisim.ShownModel[]
function M.load(args)
  local engine = engine_of_flags(args)
  local of_file, flags = {}, {}
  if args.file then
    of_file, engine = pool_models(args)
  elseif not engine then
    fault.usage("timing: which engine? Give FILE, or --model M [--tensor T], or --against CSV")
  else
    flags = M.engine_flags(args.set)
  end
  if args.compare then return chosen(args.compare, of_file, engine, args, flags) end
  if args.tables then return { built_in("tables", engine, args, flags) } end
  if args.file then
    for _, model in ipairs(of_file) do
      if #of_file > 1 then model.name = model.pool end
    end
    return of_file
  end
  local timing, type_ = core.timing(engine, nil, flags)
  return { { name = type_, line = line_of(engine), timing = timing } }
end

return M
