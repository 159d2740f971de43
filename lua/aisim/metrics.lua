--- Metrics and bounds that a scenario declares (spec/lua-api.md §8).
local check = require "aisim.check"
local near = require "aisim.near"

local M = {}

local NAME <const> = { "text", required = true, read = function(value, where)
  if type(value) ~= "string" or not value:find("^[%a_][%w_]*$") then
    check.fail("%s: name of letters, digits and _ expected", where)
  end
  return value
end }

local TEXT <const>, FLAG <const> = { "text" }, { "boolean", default = false }
local COMMON <const> = { name = NAME, unit = TEXT, help = TEXT, keep = FLAG, series = FLAG }

local function fields(extra)
  local out = {}
  for key, spec in pairs(COMMON) do out[key] = spec end
  for key, spec in pairs(extra or {}) do out[key] = spec end
  return out
end

local FIELDS <const> = {
  counter = fields { by = TEXT, labels = { "any" } },
  gauge = fields { by = TEXT, labels = { "any" } },
  hist = fields { by = TEXT, labels = { "any" } },
  ratio = fields { num = { "text", required = true }, den = { "text", required = true } },
  series = fields { every_ms = { "ms", above = 0, required = true }, value = { "function", required = true } },
}

-- sim -> { names = name -> true, counters = name -> true, ratios = { { options, where "file:line: " } … },
--          percentiles = { … } }
local declared = setmetatable({}, { __mode = "k" })

local function of_sim(sim)
  local list = declared[sim] or { names = {}, counters = {}, ratios = {}, percentiles = {} }
  declared[sim] = list
  return list
end

local function remember(sim, kind, options)
  local list = of_sim(sim)
  list.names[options.name] = true
  if kind == "counter" then list.counters[options.name] = true end
  if kind == "ratio" then
    local _, where = pcall(check.fail, "")
    list.ratios[#list.ratios + 1] = { options, where }
  end
end

--- Before the run: are the parts of each ratio counters? They may have been declared after it.
function M.check_ratios(sim)
  local list = declared[sim]
  for _, ratio in ipairs(list and list.ratios or {}) do
    for _, part in ipairs { "num", "den" } do
      local name = ratio[1][part]
      if not list.counters[name] then
        error(("%ssim:ratio.%s: no counter '%s'%s"):format(ratio[2], part, name, near.hint(name, list.counters)), 0)
      end
    end
  end
end

local function refuse_built_in(where, name)
  if require("aisim.results").is_defined(name) then
    check.fail("%s: '%s' is a built-in metric; choose another name", where, name)
  end
end

local function declare(kind)
  return function(sim, options)
    options = check.options("sim:" .. kind, options, FIELDS[kind])
    refuse_built_in("sim:" .. kind, options.name)
    if options.labels then
      options.by = options.by or type(options.labels) == "string" and options.labels or "label"
    end
    remember(sim, kind, options)
    return sim:metric_(kind, options)
  end
end

for kind in pairs(FIELDS) do M[kind] = declare(kind) end

local DERIVE <const> = { name = NAME, unit = TEXT, help = TEXT, value = { "function", required = true } }

-- sim -> list of derived metrics, computed when the run has ended
local derived = setmetatable({}, { __mode = "k" })

--- A number computed from the others after the run: value(m) -> number, or nil for undefined.
function M.derive(sim, options)
  options = check.options("sim:derive", options, DERIVE)
  refuse_built_in("sim:derive", options.name)
  local list = derived[sim] or {}
  derived[sim] = list
  for _, other in ipairs(list) do
    if other.name == options.name then check.fail("sim:derive: metric '%s' exists already", options.name) end
  end
  list[#list + 1] = options
  of_sim(sim).names[options.name] = true
end

--- What has been declared so far, besides the built-in metrics.
---@param sim aisim.Sim
---@return table<string, boolean> names
---@return number[] percentiles    asked for, besides the usual ones
function M.own(sim)
  local list = of_sim(sim)
  return list.names, list.percentiles
end

--- Derived metrics of a simulation, in order of declaration.
function M.derived(sim) return derived[sim] or {} end

local BOUND <const> = { "ms", min = 0 }
local SLO <const> = {
  class = TEXT, ttft_ms = BOUND, itl_ms = BOUND, tpot_ms = BOUND, e2e_ms = BOUND,
}

--- Bounds that a good request meets; of one class, or of all without their own.
function M.slo(sim, options)
  options = check.options("sim:slo", options, SLO)
  if options.itl_ms and options.tpot_ms then check.fail("sim:slo: tpot_ms is another name of itl_ms; give one") end
  options.itl_ms = options.itl_ms or options.tpot_ms
  if not (options.ttft_ms or options.itl_ms or options.e2e_ms) then
    check.fail("sim:slo: one of ttft_ms, itl_ms, e2e_ms expected")
  end
  sim:slo_(options.class, options)
end

local MEASURE <const> = {
  percentile_rule = { "text", one_of = { "linear", "nearest", "sketch" } },
  duration = { "text", one_of = { "measurement", "observation", "window" } },
  from_ms = { "ms", min = 0 },
  to_ms = { "ms", min = 0 },
  strict_slo = { "boolean" },
  percentiles = { "table" },
}

--- How to measure: percentile rule, window, interval of rates (spec/report.md §2, §3).
function M.measure(sim, options)
  options = check.options("sim:measure", options, MEASURE)
  for i, p in ipairs(options.percentiles or {}) do
    check.value(("sim:measure.percentiles[%d]"):format(i), p, { "number", min = 0, max = 100 })
  end
  of_sim(sim).percentiles = options.percentiles or of_sim(sim).percentiles
  sim:measure_(options)
end

return M
