--- Is one run long enough, and does it stand still? (spec/lua-api.md §8: batch means, stationarity)
-- Backlog: requests in flight. While traffic arrives it may fluctuate; when it grows by a good part of
-- what arrives, the system is overloaded and every latency depends on how long the run was. The trend is
-- the growth of the backlog from the second quarter of the arrivals to the last, in shares of what
-- arrived between the middles of both.
local interval = require "aisim.interval"

local M = {}

local STEPS <const> = 40      -- samples of the backlog
local BATCHES <const> = 10
local FEWEST <const> = 100    -- requests below which nothing is said
local GROWING <const> = 0.05  -- of the arrivals
local NOISE <const> = 3       -- standard deviations of a Poisson count that a trend must exceed

---@class aisim.RunVerdict     of one run
---@field state "stable"|"growing"|"short"|"unknown"   short: fewer than 100 requests; unknown: not all were kept
---@field trend number?      growth of the backlog, share of the arrivals
---@field ttft_ms aisim.Interval?   mean and 95 % interval from ten batch means

local function mean(list, from, to)
  local sum = 0
  for i = from, to do sum = sum + list[i] end
  return sum / (to - from + 1)
end

--- Judges a run.
---@param sim aisim.Sim   that has run
---@return aisim.RunVerdict
function M.of(sim)
  local backlog, arrivals = sim:backlog_(STEPS)
  if not backlog then
    local _, lost = sim:record_count_()
    return { state = lost > 0 and "unknown" or "short" }
  end
  if arrivals < FEWEST then return { state = "short" } end
  local quarter = STEPS // 4
  local growth = mean(backlog, STEPS - quarter + 1, STEPS) - mean(backlog, quarter + 1, 2 * quarter)
  local between = arrivals / 2
  local trend = growth / between
  local means = sim:batches_("ttft_ms", BATCHES)
  return {
    state = trend > GROWING and growth > NOISE * math.sqrt(between) and "growing" or "stable", trend = trend,
    ttft_ms = means and interval.of(means) or nil,
  }
end

--- What there is to act on, as a note; nil for a run that stands still.
---@param verdict aisim.RunVerdict
---@return string?
function M.note(verdict)
  if verdict.state ~= "growing" then return nil end
  return ("the backlog grows by %.0f %% of the arrivals: the workers are overloaded, and latencies depend on the "
    .. "length of the run"):format(100 * verdict.trend)
end

return M
