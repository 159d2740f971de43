--- profile_export_aiperf.json: the statistics of a run as AIPerf writes them.
-- Definitions of AIPerf: a run lasts from the first arrival to the last answer of the successful requests
-- (observation_duration_ms), and every rate is over that time; absent is what does not apply. Timestamps are
-- nanoseconds of simulated time since the measurement start. std is that of the population, as in report.json.
local core = require "aisim.core"
local json = require "aisim.json"

local M = {}

local PERCENTILES <const> = { 1, 5, 10, 25, 50, 75, 90, 95, 99 }

-- Metric of a request, distribution of the report, unit.
local DISTRIBUTIONS <const> = {
  { "time_to_first_token", "ttft_ms", "ms" },
  { "time_to_second_token", "ttst_ms", "ms" },
  { "request_latency", "e2e_ms", "ms" },
  { "inter_token_latency", "itl_ms", "ms" },
  { "output_token_throughput_per_user", "output_tok_s_per_user", "tokens/sec/user" },
  { "prefill_throughput_per_user", "prefill_tok_s_per_user", "tokens/sec/user" },
  { "e2e_output_token_throughput", "e2e_output_tok_s", "tokens/sec/user" },
  { "input_sequence_length", "input_tokens", "tokens" },
  { "output_sequence_length", "output_tokens", "tokens" },
  { "output_token_count", "output_tokens", "tokens" },
}

--- The statistics of a distribution; nil for an empty one.
local function statistics(run, key, unit)
  local m = run.metrics
  local n = m[key .. ".n"] or 0
  if n == 0 then return nil end
  local _, sum = run.sim:at_most_(key, {})
  local out = { "unit", unit, "avg", m[key .. ".mean"] }
  for _, p in ipairs(PERCENTILES) do
    out[#out + 1] = ("p%d"):format(p)
    out[#out + 1] = run.sim:percentile_(key, nil, p)
  end
  for _, pair in ipairs { { "min", m[key .. ".min"] }, { "max", m[key .. ".max"] }, { "std", m[key .. ".std"] },
    { "count", n }, { "sum", sum } } do
    out[#out + 1], out[#out + 2] = pair[1], pair[2]
  end
  return json.object(out)
end

--- Figures of the whole run: name, value, unit. nil where one does not apply.
local function totals(run)
  local m = run.metrics
  local seconds = (m.observation_duration_ms or 0) / 1000
  local function rate(count) return count and seconds > 0 and count / seconds or nil end
  local some = m.completed_requests > 0
  return {
    { "request_throughput", rate(m.completed_requests), "requests/sec" },
    { "output_token_throughput", rate(m.total_output_tokens), "tokens/sec" },
    { "total_token_throughput", rate(m.total_input_tokens + m.total_output_tokens), "tokens/sec" },
    { "request_count", m.completed_requests, "requests" },
    { "error_request_count", m.failed + m.rejected + m.cancelled, "requests" },
    { "total_isl", m.total_input_tokens, "tokens" },
    { "total_osl", m.total_output_tokens, "tokens" },
    { "total_output_tokens", m.total_output_tokens, "tokens" },
    { "goodput", rate(m.goodput_completed_requests), "requests/sec" },
    { "good_request_count", m.goodput_completed_requests, "requests" },
    { "benchmark_duration", some and seconds or nil, "sec" },
    { "min_request_timestamp", some and M.nanoseconds(m.duration_ms - m.observation_duration_ms) or nil, "ns" },
    { "max_response_timestamp", some and M.nanoseconds(m.duration_ms) or nil, "ns" },
  }
end

--- Milliseconds as whole nanoseconds.
function M.nanoseconds(ms) return math.floor(ms * 1e6 + 0.5) end

local ERRORS <const> = {
  { "cancelled", 499, "RequestCancellationError" }, { "rejected", 503, "RequestRejectedError" },
  { "failed", 500, "RequestFailedError" },
}

local function errors(run)
  local list = {}
  for _, row in ipairs(ERRORS) do
    local count = run.metrics[row[1]]
    if count > 0 then
      local details = json.object { "code", row[2], "type", row[3], "message", row[1] }
      list[#list + 1] = json.object { "error_details", details, "count", count }
    end
  end
  return list
end

--- The file.
---@param run aisim.Run
---@return string
function M.text(run)
  local out = { "schema_version", "1.1", "benchmark_id",
    ("%s-%d"):format(run.sim:results_("config_digest") or "none", run.sim.seed) }
  local function add(key, value)
    if value ~= nil then out[#out + 1], out[#out + 2] = key, value end
  end
  for _, row in ipairs(DISTRIBUTIONS) do add(row[1], statistics(run, row[2], row[3])) end
  for _, row in ipairs(totals(run)) do
    add(row[1], row[2] and json.object { "unit", row[3], "avg", row[2] })
  end
  add("was_cancelled", run.status == "interrupted")
  add("error_summary", errors(run))
  add("aisim", json.object { "version", core.version, "scenario", run.sim.name, "seed", run.sim.seed, "model",
    require("aisim.export").model(run), "pools", run.pools, "status", run.status })
  return json.encode(json.object(out), 2) .. "\n"
end

return M
