--- vllm_bench.json: a run as vLLM's serving benchmark saves it, without the lists of single requests.
-- Definitions of vLLM: the benchmark lasts from its start to the last answer, so rates are over duration_ms whatever
-- the setting `duration`; TPOT is the mean gap of a request (itl_ms here), ITL all gaps of all requests
-- (token_gap_ms). What a simulation does not have is null: the date, and the load as one number.
local json = require "aisim.json"

local M = {}

local METRICS <const> = { { "ttft", "ttft_ms" }, { "tpot", "itl_ms" }, { "itl", "token_gap_ms" }, { "e2el", "e2e_ms" } }

--- "75", "99", and what sim:measure { percentiles } asks for, ascending.
local function percentiles(run)
  local list, seen = { 75, 90, 95, 99 }, { [75] = true, [90] = true, [95] = true, [99] = true }
  for _, key in ipairs(run.sim:results_("settings.extra_percentiles") or {}) do
    local p = tonumber(key:sub(2))
    p = math.tointeger(p) or p
    if not seen[p] then
      seen[p] = true
      list[#list + 1] = p
    end
  end
  table.sort(list)
  return list
end

--- Keys of speculative decoding; none without it.
local function speculation(run, add)
  local s = run.sim:results_("totals.speculation")
  if not s then return end
  add("spec_decode_acceptance_rate", (s.acceptance_ratio or 0) * 100) -- percent
  add("spec_decode_acceptance_length", s.mean_accept_len)
  add("spec_decode_num_drafts", s.drafts)
  add("spec_decode_draft_tokens", s.drafted)
  add("spec_decode_accepted_tokens", s.accepted)
  add("spec_decode_per_position_acceptance_rates", s.acceptance_ratio_per_position)
end

--- The file.
---@param run aisim.Run
---@return string
function M.text(run)
  local m = run.metrics
  local items, n = {}, 0
  local function add(key, value)
    items[n + 1], items[n + 2] = key, value
    n = n + 2
  end
  local seconds = m.duration_ms / 1000
  local function rate(count) return count and seconds > 0 and count / seconds or nil end
  local model = require("aisim.export").model(run)
  add("date", nil)
  add("endpoint_type", "aisim")
  add("backend", "aisim")
  add("label", run.sim.name)
  add("model_id", model)
  add("tokenizer_id", model)
  add("num_prompts", m.num_requests)
  add("request_rate", nil)
  add("burstiness", nil)
  add("max_concurrency", nil)
  add("duration", seconds)
  add("completed", m.completed_requests)
  add("failed", m.failed + m.rejected + m.cancelled)
  add("total_input_tokens", m.total_input_tokens)
  add("total_output_tokens", m.total_output_tokens)
  add("request_throughput", rate(m.completed_requests))
  add("request_goodput", rate(m.goodput_completed_requests))
  add("output_throughput", rate(m.total_output_tokens))
  add("total_token_throughput", rate(m.total_input_tokens + m.total_output_tokens))
  for _, metric in ipairs(METRICS) do
    local name, key = metric[1], metric[2]
    add(("mean_%s_ms"):format(name), m[key .. ".mean"] or 0)
    add(("median_%s_ms"):format(name), m[key .. ".median"] or 0)
    add(("std_%s_ms"):format(name), m[key .. ".std"] or 0)
    for _, p in ipairs(percentiles(run)) do
      add(("p%s_%s_ms"):format(json.number(p), name), run.sim:percentile_(key, nil, p) or 0)
    end
  end
  speculation(run, add)
  if run.status ~= "completed" then add("interrupted", run.reason or run.status) end
  return json.encode(json.object(items, n), 2) .. "\n"
end

return M
