--- Means over seeds and their 95 % confidence intervals (Student's t).
-- Sums run in the order given, so that the same runs give the same bytes.
local M = {}

local CONFIDENCE <const> = 0.95

--- From how many values on an interval is worth showing (spec/lua-api.md §8).
M.ENOUGH = 3

--- P(|T| < t) for a whole number of degrees of freedom: the finite series of the t distribution.
local function inside(t, df)
  local angle = math.atan(t / math.sqrt(df))
  local cosine, sine = math.cos(angle), math.sin(angle)
  local odd = df % 2 == 1
  local sum, term = 0.0, odd and cosine or 1.0
  for k = odd and 3 or 2, df, 2 do
    sum = sum + term
    term = term * cosine * cosine * (k - 1) / k
  end
  if not odd then return sine * sum end
  return 2 / math.pi * (angle + sine * sum)
end

local quantiles = {} -- df -> t

--- t with P(|T| < t) = 0.95.
---@param df integer   degrees of freedom, >= 1
---@return number
function M.quantile(df)
  if quantiles[df] then return quantiles[df] end
  local low, high = 0.0, 16.0
  for _ = 1, 60 do
    local middle = (low + high) / 2
    if inside(middle, df) < CONFIDENCE then low = middle else high = middle end
  end
  quantiles[df] = (low + high) / 2
  return quantiles[df]
end

---@class aisim.Interval
---@field n integer       values
---@field mean number
---@field std number?     of the sample; from two values on
---@field half number?    half the width of the 95 % interval of the mean; from three values on
---@field low number?
---@field high number?

--- Mean and interval; nil without a value.
---@param values number[]
---@return aisim.Interval?
function M.of(values)
  local n = #values
  if n == 0 then return nil end
  local sum = 0.0
  for i = 1, n do sum = sum + values[i] end
  local mean = sum / n
  local out = { n = n, mean = mean }
  if n < 2 then return out end
  local squares = 0.0
  for i = 1, n do squares = squares + (values[i] - mean) ^ 2 end
  out.std = math.sqrt(squares / (n - 1))
  if n >= M.ENOUGH then
    out.half = M.quantile(n - 1) * out.std / math.sqrt(n)
    out.low, out.high = mean - out.half, mean + out.half
  end
  return out
end

return M
