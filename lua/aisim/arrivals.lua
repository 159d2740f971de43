--- Arrival processes: when units of traffic start (spec/traffic.md §3.1). Drawn in C.
local check = require "aisim.check"
local core = require "aisim.core"

local M = {}

-- traffic 3.1: finite, > 0, and so is the gap
local function read_rate(value, where)
  local rate = check.value(where, value, { "rate", above = 0, finite = true })
  if 1 / rate == math.huge then check.fail("%s = %s: its reciprocal must be finite", where, check.show(rate)) end
  return rate
end

local RATE <const> = { "rate", required = true, read = read_rate }

--- Mean rate per second of the processes that have one: what "per load unit" counts.
local rates = setmetatable({}, { __mode = "k" })

--- Mean arrivals per second, nil when the process has no single rate.
---@param arrivals any
---@return number?
function M.rate(arrivals) return rates[arrivals] end

local function steady(kind, rate, ...)
  local process = core.arrivals(kind, rate, ...)
  rates[process] = rate
  return process
end

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
function M.poisson(options) return steady("poisson", poisson(options).rate) end

local POSITIVE <const> = { "number", above = 0, finite = true }
local gamma = with_rate("gamma", { cv = POSITIVE, smoothness = POSITIVE })

--- Gamma gaps: cv, or smoothness = 1 / cv^2. cv > 1 (smoothness < 1) is burstier than Poisson.
function M.gamma(options)
  options = gamma(options)
  if (options.cv == nil) == (options.smoothness == nil) then
    check.fail("arrivals.gamma: one of cv, smoothness expected")
  end
  return steady("gamma", options.rate, options.smoothness or 1 / options.cv ^ 2)
end

local weibull = with_rate("weibull", { shape = { "number", above = 0, finite = true, required = true } })

--- Weibull gaps; shape < 1 is burstier than Poisson.
function M.weibull(options)
  options = weibull(options)
  return steady("weibull", options.rate, options.shape)
end

local constant = with_rate "constant_rate"

--- Equal gaps, the first arrival at the start.
function M.constant_rate(options) return steady("constant_rate", constant(options).rate) end

--- A list of { time, value } -> times in ms, values. Times are seconds, or texts with a unit.
---@param where string
---@param list any
---@param spec table    of the values
---@return number[] times, number[] values
function M.points(where, list, spec)
  if type(list) ~= "table" or #list == 0 then check.fail("%s: list of { time, value } expected", where) end
  local times, values = {}, {}
  for i, item in ipairs(list) do
    local at = ("%s[%d]"):format(where, i)
    if type(item) ~= "table" then check.fail("%s: { time, value } expected, got %s", at, type(item)) end
    local time = item[1]
    if type(time) == "number" then time = time * 1000 end
    times[i] = check.value(at .. ": time", time, { "ms", min = times[i - 1] or 0, finite = true })
    values[i] = check.value(at .. ": value", item[2], spec)
  end
  return times, values
end

local CHANGING <const> = { "rate", min = 0, finite = true }

--- Poisson with a rate that changes in steps: { { 0, "2/s" }, { 60, "8/s" } }. Times are seconds, or texts
-- with a unit; the rate holds from its time on, 0 is allowed.
function M.schedule(list) return core.arrivals_list("schedule", M.points("arrivals.schedule", list, CHANGING)) end

--- Poisson with a rate that changes along a line: { { 0, "2/s" }, { 60, "8/s" } }; the first rate holds before
-- the first time, the last one behind the last (0: the traffic ends there).
function M.ramp(list)
  local times, values = M.points("arrivals.ramp", list, CHANGING)
  local most = 0
  for _, rate in ipairs(values) do most = math.max(most, rate) end
  if most == 0 then check.fail("arrivals.ramp: the rate is 0 all the time") end
  return core.arrivals_list("ramp", times, values)
end

local PATTERN <const> = {
  base = { "rate", min = 0, finite = true, required = true },
  amplitude = { "rate", above = 0, finite = true, required = true },
  period_ms = { "ms", above = 0, finite = true, required = true },
}
local SQUARE <const> = { duty = { "number", above = 0, max = 1, default = 0.5 } }
for key, spec in pairs(PATTERN) do SQUARE[key] = spec end

--- Poisson with rate base + amplitude for the first part (duty) of every period, base for the rest.
function M.square(options)
  local o = check.options("arrivals.square", options, SQUARE)
  return core.arrivals("square", o.base, o.amplitude, o.period_ms * 1e6, o.duty)
end

--- Poisson with rate base + amplitude sin(2 pi t / period); amplitude <= base.
function M.sine(options)
  local o = check.options("arrivals.sine", options, PATTERN)
  if o.amplitude > o.base then
    check.fail("arrivals.sine.amplitude = %s: must be <= base, or the rate falls below 0", check.show(o.amplitude))
  end
  return core.arrivals("sine", o.base, o.amplitude, o.period_ms * 1e6)
end

-- Processes that never leave the time of their first arrival: no time limit ends them.
local endless = setmetatable({}, { __mode = "k" })

--- Does everything come at the start, without end?
function M.is_endless_burst(arrivals) return endless[arrivals] == true end

local BURST <const> = {
  size = { "integer", min = 1 },
  every_ms = { "ms", above = 0, finite = true },
}

--- Everything at the start; with size and every_ms: groups of `size` at once, one group every period, the first
-- at the start.
function M.burst(options)
  options = check.options("arrivals.burst", options, BURST)
  if (options.size == nil) ~= (options.every_ms == nil) then
    check.fail("arrivals.burst: size and every_ms belong together; without both everything comes at the start")
  end
  local process = core.arrivals("burst", options.size or 0, (options.every_ms or 0) * 1e6)
  if not options.size then endless[process] = true end
  return process
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
  return core.arrivals_list("trace", list)
end

return check.namespace("aisim.arrivals", M)
