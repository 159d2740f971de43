--- Arrival processes: when units of traffic start (spec/traffic.md §3.1). Drawn in C.
local check = require "aisim.check"
local core = require "aisim.core"

local M = {}

local RATE <const> = { "rate", above = 0, finite = true, required = true }

--- Reader for option tables: an arrival process, or a function(now_ms, rng) -> next time or nil.
function M.read(value, where)
  if type(value) == "function" then return core.arrivals_fn(value) end
  if getmetatable(value) ~= "aisim.Arrivals" then
    check.fail("%s: arrival process expected, got %s", where, type(value))
  end
  return value
end

--- Does the process end by itself?
function M.is_finite(arrivals)
  local kind = tostring(arrivals)
  return kind == "arrivals all_at_once" or kind == "arrivals trace" or kind == "arrivals function"
end

local function with_rate(name, extra)
  local fields = { rate = RATE }
  for key, spec in pairs(extra or {}) do fields[key] = spec end
  return function(options) return check.options("arrivals." .. name, options, fields) end
end

local poisson = with_rate "poisson"

--- Exponential gaps.
function M.poisson(options) return core.arrivals("poisson", poisson(options).rate) end

local gamma = with_rate("gamma", { cv = { "number", above = 0, finite = true, required = true } })

--- Gamma gaps; cv > 1 is burstier than Poisson.
function M.gamma(options)
  options = gamma(options)
  return core.arrivals("gamma", options.rate, 1 / options.cv ^ 2)
end

local weibull = with_rate("weibull", { shape = { "number", above = 0, finite = true, required = true } })

--- Weibull gaps; shape < 1 is burstier than Poisson.
function M.weibull(options)
  options = weibull(options)
  return core.arrivals("weibull", options.rate, options.shape)
end

local constant = with_rate "constant_rate"

--- Equal gaps, the first arrival at the start.
function M.constant_rate(options) return core.arrivals("constant_rate", constant(options).rate) end

--- Poisson with a rate that changes: { { 0, "2/s" }, { 60, "8/s" } }. Times are seconds, or texts with a
-- unit; the rate holds from its time on, 0 is allowed.
function M.schedule(list)
  if type(list) ~= "table" or #list == 0 then
    check.fail("arrivals.schedule: list of { time, rate } expected")
  end
  local times, rates = {}, {}
  for i, item in ipairs(list) do
    local where = ("arrivals.schedule[%d]"):format(i)
    if type(item) ~= "table" then check.fail("%s: { time, rate } expected, got %s", where, type(item)) end
    local time = item[1]
    if type(time) == "number" then time = time * 1000 end
    times[i] = check.value(where .. ": time", time, { "ms", min = times[i - 1] or 0, finite = true })
    rates[i] = check.value(where .. ": rate", item[2], { "rate", min = 0, finite = true })
  end
  return core.arrivals_list(times, rates)
end

local BURST <const> = {
  size = { "integer", min = 1, required = true },
  every_ms = { "ms", above = 0, finite = true, required = true },
}

--- Groups of `size` at once, one group every period, the first at the start.
function M.burst(options)
  options = check.options("arrivals.burst", options, BURST)
  return core.arrivals("burst", options.size, options.every_ms)
end

local AT_ONCE <const> = { n = { "integer", min = 1, required = true } }

--- n at the start.
function M.all_at_once(options)
  return core.arrivals("all_at_once", check.options("arrivals.all_at_once", options, AT_ONCE).n)
end

--- At the given times (ms), ascending.
function M.trace(times)
  if type(times) ~= "table" then check.fail("arrivals.trace: list of times expected, got %s", type(times)) end
  local list = {}
  for i, time in ipairs(times) do
    list[i] = check.value(("arrivals.trace[%d]"):format(i), time, { "ms", min = list[i - 1] or 0, finite = true })
  end
  return core.arrivals_list(list)
end

return M
