--- Is one run long enough, and does it stand still? (spec/lua-api.md §8: batch means, stationarity)
-- Backlog: the recorder draws a line through the requests in flight at every arrival (src/metrics/trend.h).
-- When the line grows by a good part of what arrives, the system is overloaded and every latency depends
-- on how long the run was.
local interval = require "aisim.interval"

local M = {}

local BATCHES <const> = 10

---@class aisim.RunVerdict     of one run
---@field state "stable"|"growing"|"short"   short: fewer than 100 requests, or all at once
---@field trend number?      growth of the backlog, share of the arrivals
---@field ttft_ms aisim.Interval?   mean and 95 % interval from ten batch means; nil unless all requests were kept

--- Judges a run.
---@param sim aisim.Sim   that has run
---@param metrics table   run.metrics
---@return aisim.RunVerdict
function M.of(sim, metrics)
  local trend = metrics.backlog_trend_ratio
  if not trend then return { state = "short" } end
  local means = sim:batches_("ttft_ms", BATCHES)
  return { state = metrics.backlog_stable and "stable" or "growing", trend = trend,
    ttft_ms = means and interval.of(means) or nil }
end

return M
