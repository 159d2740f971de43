--- Median, percentiles and worst of a list of errors.
local M = {}

--- Linear percentile of a sorted list; q from 0 to 1.
function M.percentile(sorted, q)
  local at = q * (#sorted - 1)
  local low = math.floor(at)
  local a, b = sorted[low + 1], sorted[math.min(low + 2, #sorted)]
  return a + (at - low) * (b - a)
end

---@class aisim.ErrorSummary
---@field n integer
---@field median number
---@field p90 number
---@field p95 number
---@field worst number

--- Of absolute values; nil for an empty list.
---@param values number[]
---@return aisim.ErrorSummary?
function M.summary(values)
  if #values == 0 then return nil end
  local sorted = {}
  for i, value in ipairs(values) do sorted[i] = math.abs(value) end
  table.sort(sorted)
  return { n = #sorted, median = M.percentile(sorted, 0.5), p90 = M.percentile(sorted, 0.9),
    p95 = M.percentile(sorted, 0.95), worst = sorted[#sorted] }
end

return M
