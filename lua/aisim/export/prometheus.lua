--- metrics.prom: text exposition with the names, units and bucket bounds of vLLM's /metrics.
-- Counters and histograms are those of the cohort (iteration_tokens_total: of the measured passes), as if the server
-- had been scraped at the measurement start and at its end and both subtracted; the cluster is one engine. Gauges are
-- those of the end of the run. Queries and hits of the prefix cache count tokens, once per request, at its first
-- admission; what the host tier gave is a hit of the external cache. Buckets are exact up to the number of distinct
-- values at which a distribution becomes a sketch; then a value within 0.1 % of a bound may stand beside it.
local json = require "aisim.json"

local M = {}

local TTFT <const> = { 1, 5, 10, 20, 40, 60, 80, 100, 250, 500, 750, 1000, 2500, 5000, 7500, 10000, 20000, 40000, 80000,
  160000, 640000, 2560000 }
local GAP <const> = { 10, 25, 50, 75, 100, 150, 200, 300, 400, 500, 750, 1000, 2500, 5000, 7500, 10000, 20000, 40000,
  80000 }
local LATENCY <const> = { 300, 500, 800, 1000, 1500, 2000, 2500, 5000, 10000, 15000, 20000, 30000, 40000, 50000, 60000,
  120000, 240000, 480000, 960000, 1920000, 7680000 }
local PASS <const> = { 1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384 }

-- Name, distribution of the report, bounds (of ms: written in seconds; nil: 1, 2, 5, 10, … up to the context), meaning.
local HISTOGRAMS <const> = {
  { "iteration_tokens_total", "pass_tokens", PASS, "Tokens of a pass." },
  { "time_to_first_token_seconds", "ttft_ms", TTFT, "Arrival to first token." },
  { "inter_token_latency_seconds", "token_gap_ms", GAP, "Time between tokens, every gap of every request." },
  { "request_time_per_output_token_seconds", "itl_ms", GAP, "Mean time between the tokens of a request." },
  { "e2e_request_latency_seconds", "e2e_ms", LATENCY, "Arrival to last token." },
  { "request_queue_time_seconds", "queue_ms", LATENCY, "Arrival to first admission." },
  { "request_prefill_time_seconds", "prefill_ms", LATENCY, "First admission to first token." },
  { "request_decode_time_seconds", "decode_ms", LATENCY, "First to last token." },
  { "request_prompt_tokens", "input_tokens", nil, "Prompt tokens of a request." },
  { "request_generation_tokens", "output_tokens", nil, "Tokens that a request generated." },
}

--- 1, 2, 5, 10, … up to the longest context of a pool.
local function lengths(run)
  local longest = 0
  for _, pool in ipairs(run.sim:pools_()) do longest = math.max(longest, pool.context_length) end
  if longest == 0 then longest = 1 << 20 end -- no limit: a million tokens
  local out, power = {}, 1
  while true do
    for _, digit in ipairs { 1, 2, 5 } do
      if digit * power > longest then return out end
      out[#out + 1] = digit * power
    end
    power = power * 10
  end
end

local ESCAPES <const> = { ["\\"] = "\\\\", ['"'] = '\\"', ["\n"] = "\\n" }

--- A bound as servers write it: always with a point.
local function bound(x)
  local text = json.number(x)
  return text:find("[.eE]") and text or text .. ".0"
end

local Writer = {}
Writer.__index = Writer

--- One family with its head.
function Writer:family(name, kind, help)
  self.lines[#self.lines + 1] = ("# HELP vllm:%s %s"):format(name, help)
  self.lines[#self.lines + 1] = ("# TYPE vllm:%s %s"):format(name, kind)
end

--- One sample; labels: { "name", "value" } pairs in alphabetical order among engine and model_name.
function Writer:sample(name, value, before, after)
  self.lines[#self.lines + 1] = ('vllm:%s{engine="0"%s,model_name="%s"%s} %s'):format(name, before or "", self.model,
    after or "", json.number(value))
end

function Writer:one(kind, name, value, help)
  if value == nil then return end
  self:family(name, kind, help)
  self:sample(name, value)
end

function Writer:histogram(run, row, bounds)
  local name, key = row[1], row[2]
  local scale = key:find("_ms$") and 1000 or 1
  local counts, sum, n = run.sim:at_most_(key, bounds)
  self:family(name, "histogram", row[4])
  for i, count in ipairs(counts) do
    self:sample(name .. "_bucket", count, (',le="%s"'):format(bound(bounds[i] / scale)))
  end
  self:sample(name .. "_bucket", n, ',le="+Inf"')
  self:sample(name .. "_sum", sum / scale)
  self:sample(name .. "_count", n)
end

--- Reasons of vLLM and the outcomes they stand for. A request rejected at the door never reaches a server.
local REASONS <const> = { { "abort", "cancelled" }, { "error", "failed" }, { "length", "completed_requests" } }

local function speculation(run, w)
  local s = run.sim:results_("totals.speculation")
  if not s then return end
  w:one("counter", "spec_decode_num_drafts_total", s.drafts, "Verifications.")
  w:one("counter", "spec_decode_num_draft_tokens_total", s.drafted, "Draft tokens verified.")
  w:one("counter", "spec_decode_num_accepted_tokens_total", s.accepted, "Draft tokens accepted.")
  w:family("spec_decode_num_accepted_tokens_per_pos_total", "counter", "Draft tokens accepted at each position.")
  for j, ratio in ipairs(s.acceptance_ratio_per_position) do
    w:sample("spec_decode_num_accepted_tokens_per_pos_total", math.floor(ratio * s.drafts + 0.5), nil,
      (',position="%d"'):format(j - 1))
  end
end

local function counters(run, w)
  local m, state = run.metrics, run.sim:end_state_()
  local first = select(2, run.sim:at_most_("first_admission_reused_tokens", {}))
  local device = math.tointeger(first) - state.host_reused_tokens
  w:one("gauge", "num_requests_running", state.running, "Requests in execution batches at the end of the run.")
  w:one("gauge", "num_requests_waiting", state.waiting, "Requests waiting at the engines at the end of the run.")
  w:one("gauge", "kv_cache_usage_perc", state.kv_total > 0 and state.kv_used / state.kv_total or nil,
    "Used KV blocks at the end of the run; 1 means all.")
  w:one("counter", "prefix_cache_queries_total", m.total_input_tokens, "Prompt tokens looked up in the device cache.")
  w:one("counter", "prefix_cache_hits_total", device, "Prompt tokens found there.")
  if run.sim:results_("totals.offload") then
    w:one("counter", "external_prefix_cache_queries_total", m.total_input_tokens - device,
      "Prompt tokens looked up in the host tier.")
    w:one("counter", "external_prefix_cache_hits_total", state.host_reused_tokens, "Prompt tokens found there.")
  end
  w:one("counter", "num_preemptions_total", m.preemptions, "Preemptions.")
  w:one("counter", "prompt_tokens_total", m.total_input_tokens, "Prompt tokens.")
  w:one("counter", "generation_tokens_total", m.total_output_tokens, "Generated tokens.")
  w:family("request_success_total", "counter", "Requests that ended, by reason.")
  for _, reason in ipairs(REASONS) do
    w:sample("request_success_total", m[reason[2]], (',finished_reason="%s"'):format(reason[1]))
  end
end

--- The file.
---@param run aisim.Run
---@return string
function M.text(run)
  local model = require("aisim.export").model(run):gsub('[\\"\n]', ESCAPES)
  local w = setmetatable({ lines = {}, model = model }, Writer)
  counters(run, w)
  speculation(run, w)
  local by_length = lengths(run)
  for _, row in ipairs(HISTOGRAMS) do w:histogram(run, row, row[3] or by_length) end
  return table.concat(w.lines, "\n") .. "\n"
end

return M
