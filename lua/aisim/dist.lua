--- Distributions: aisim.dist.lognormal { p50 = 800, p99 = 8000 } and others.
-- Drawn in C (src/lua/l_dist.c); this file checks and turns what people know (mean, quantiles) into the
-- parameters of the law. A plain number is accepted wherever a distribution is.
local check = require "aisim.check"
local core = require "aisim.core"

local M = {}

local Z99 <const> = 2.3263478740408408 -- 99 % quantile of the standard normal

local function number(where, value, bounds)
  local spec = { "number", finite = true }
  for key, bound in pairs(bounds or {}) do spec[key] = bound end
  return check.value(where, value, spec)
end

--- Is this something that can be drawn from?
---@param value any
---@return boolean
function M.is(value)
  return type(value) == "number" or type(value) == "function" or getmetatable(value) == "aisim.Dist"
end

--- Reader for option tables: a distribution, a number, or a function(rng).
---@param value any
---@param where string
function M.read(value, where)
  if type(value) == "string" and where:find("_ms$") then return check.value(where, value, { "ms", min = 0 }) end
  if type(value) == "number" then return number(where, value, { min = 0 }) end
  if not M.is(value) then
    check.fail("%s: distribution or number expected, got %s", where, type(value))
  end
  return value
end

--- Always x.
function M.const(x) return core.dist("const", number("dist.const", x)) end

--- Uniform between a and b.
function M.uniform(a, b)
  number("dist.uniform: from", a)
  return core.dist("uniform", a, number("dist.uniform: to", b, { min = a }))
end

local EXP <const> = { mean = { "number", above = 0, finite = true, required = true } }

--- Exponential with a mean.
function M.exp(options) return core.dist("exp", check.options("dist.exp", options, EXP).mean) end

local GAMMA <const> = {
  mean = { "number", above = 0, finite = true, required = true },
  cv = { "number", above = 0, finite = true, required = true },
}

--- Gamma with a mean and a coefficient of variation.
function M.gamma(options)
  options = check.options("dist.gamma", options, GAMMA)
  local shape = 1 / options.cv ^ 2
  return core.dist("gamma", shape, options.mean / shape)
end

--- Cut to [min, max] where one of them is given.
local function bounded(where, dist, o)
  if not (o.min or o.max) then return dist end
  if o.min and o.max and o.max < o.min then check.fail("%s: max = %s is below min", where, check.show(o.max)) end
  return core.dist_clamp(dist, o.min or -math.huge, o.max or math.huge)
end

local NORMAL <const> = {
  mean = { "number", finite = true, required = true },
  std = { "number", min = 0, finite = true, required = true },
  min = { "number", finite = true },
  max = { "number", finite = true },
}

--- Normal with a mean and a standard deviation, cut to [min, max].
function M.normal(options)
  local o = check.options("dist.normal", options, NORMAL)
  return bounded("dist.normal", core.dist("normal", o.mean, o.std), o)
end

local LOGNORMAL <const> = {
  mu = { "number", finite = true },
  sigma = { "number", min = 0, finite = true },
  min = { "number", finite = true },
  max = { "number", finite = true },
  mean = { "number", above = 0, finite = true },
  p50 = { "number", above = 0, finite = true },
  p99 = { "number", above = 0, finite = true },
}

--- Log-normal from any two of mean, p50, p99, or from mu and sigma; cut to [min, max].
function M.lognormal(options)
  local o = check.options("dist.lognormal", options, LOGNORMAL)
  if o.mu or o.sigma then
    if not (o.mu and o.sigma) or o.mean or o.p50 or o.p99 then
      check.fail("dist.lognormal: mu and sigma together, or two of mean, p50, p99")
    end
    return bounded("dist.lognormal", core.dist("lognormal", o.mu, o.sigma), o)
  end
  local given = (o.mean and 1 or 0) + (o.p50 and 1 or 0) + (o.p99 and 1 or 0)
  if given ~= 2 then check.fail("dist.lognormal: exactly two of mean, p50, p99 expected, got %d", given) end
  local mu, sigma
  if o.p50 and o.p99 then
    if o.p99 < o.p50 then check.fail("dist.lognormal: p99 = %s is below p50", check.show(o.p99)) end
    mu, sigma = math.log(o.p50), math.log(o.p99 / o.p50) / Z99
  elseif o.p50 then
    if o.mean < o.p50 then
      check.fail("dist.lognormal: mean = %s is below p50; a log-normal leans the other way", check.show(o.mean))
    end
    mu, sigma = math.log(o.p50), math.sqrt(2 * math.log(o.mean / o.p50))
  else -- ln(p99 / mean) = z sigma - sigma^2 / 2; the smaller root
    local ratio = math.log(o.p99 / o.mean)
    if ratio < 0 or ratio > Z99 ^ 2 / 2 then
      check.fail("dist.lognormal: p99 / mean = %.3g: no log-normal has it (1 to %.4g expected)", o.p99 / o.mean,
        math.exp(Z99 ^ 2 / 2))
    end
    sigma = Z99 - math.sqrt(Z99 ^ 2 - 2 * ratio)
    mu = math.log(o.mean) - sigma ^ 2 / 2
  end
  return bounded("dist.lognormal", core.dist("lognormal", mu, sigma), o)
end

local PARETO <const> = {
  min = { "number", above = 0, finite = true, required = true },
  alpha = { "number", above = 0, finite = true },
  mean = { "number", above = 0, finite = true },
}

--- Pareto with a smallest value and either the tail index alpha or the mean.
function M.pareto(options)
  local o = check.options("dist.pareto", options, PARETO)
  if (o.alpha == nil) == (o.mean == nil) then check.fail("dist.pareto: one of alpha, mean expected") end
  if o.mean and o.mean <= o.min then check.fail("dist.pareto: mean must be > min") end
  return core.dist("pareto", o.min, o.alpha or o.mean / (o.mean - o.min))
end

local ZIPF <const> = {
  n = { "integer", min = 1, max = 100000000, required = true },
  s = { "number", min = 0, finite = true, default = 1 },
}

--- Ranks 1..n with weight 1 / rank^s.
function M.zipf(options)
  options = check.options("dist.zipf", options, ZIPF)
  return core.dist_zipf(options.n, options.s)
end

local function read_values(path)
  local file <close> = io.open(path) or check.fail("dist.empirical: cannot open %s", path)
  local values, weights, number_of_line = {}, {}, 0
  for line in file:lines() do
    number_of_line = number_of_line + 1
    if line:find("%S") and not line:find("^%s*#") then
      local value, weight = line:match("^%s*([^,%s]+)%s*,?%s*([^,%s]*)%s*$")
      value, weight = tonumber(value), weight ~= "" and tonumber(weight) or 1
      if value and weight then
        values[#values + 1], weights[#weights + 1] = value, weight
      elseif #values > 0 or number_of_line > 1 then -- the first line may be a header
        check.fail("%s:%d: number, or number,weight expected", path, number_of_line)
      end
    end
  end
  return values, weights
end

local function positive_sum(where, weights)
  local sum = 0
  for i, weight in ipairs(weights) do
    if type(weight) ~= "number" or weight ~= weight or weight < 0 or weight == math.huge then
      check.fail("%s: weight %d: finite number >= 0 expected", where, i)
    end
    sum = sum + weight
  end
  if sum == 0 then check.fail("%s: the weights add up to nothing", where) end
end

--- Values as observed: a list of numbers or of { value, weight }, or a file with one per line.
function M.empirical(source)
  local values, weights
  if type(source) == "string" then
    values, weights = read_values(source)
  elseif type(source) == "table" then
    values, weights = {}, {}
    for i, item in ipairs(source) do
      local value = type(item) == "table" and item[1] or item
      if type(value) ~= "number" then
        check.fail("dist.empirical[%d]: number or { value, weight } expected, got %s", i, type(item))
      end
      values[i], weights[i] = value, type(item) == "table" and item[2] or 1
    end
  else
    check.fail("dist.empirical: list of values or path expected, got %s", type(source))
  end
  if #values == 0 then check.fail("dist.empirical: no values") end
  positive_sum("dist.empirical", weights)
  return core.dist_empirical(values, weights)
end

--- { { weight, distribution }, … }
function M.mixture(list)
  if type(list) ~= "table" or #list == 0 then check.fail("dist.mixture: list of { weight, distribution } expected") end
  local parts, weights = {}, {}
  for i, item in ipairs(list) do
    if type(item) ~= "table" then check.fail("dist.mixture[%d]: { weight, distribution } expected", i) end
    weights[i], parts[i] = item[1], M.read(item[2], ("dist.mixture[%d]"):format(i))
  end
  positive_sum("dist.mixture", weights)
  return core.dist_mixture(parts, weights)
end

--- Cut to [low, high].
function M.clamp(dist, low, high)
  M.read(dist, "dist.clamp")
  check.value("dist.clamp: low", low, { "number" })
  check.value("dist.clamp: high", high, { "number", min = low })
  return core.dist_clamp(dist, low, high)
end

--- A function(rng) -> number.
function M.fn(fn)
  if type(fn) ~= "function" then check.fail("dist.fn: function expected, got %s", type(fn)) end
  return core.dist_fn(fn)
end

return check.namespace("aisim.dist", M)
