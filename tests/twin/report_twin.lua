--- Metrics once more, from the text of spec/report.md §1 to §3 alone: records in lists, every figure from
-- its definition. tests/twin/report_compare.lua holds it against the recorder of the product.
local cjson = require "cjson"

local M = {}
local null <const> = cjson.null

local function opt(value) return value == nil and null or value end

--- a / b, or nil where it is undefined.
local function ratio(a, b)
  if a == nil or b == nil or b == 0 then return nil end
  return a / b
end

-- One request, §1 ------------------------------------------------------------------------------------

--- From each preemption to the next admission of the same pool, or to the terminal event.
local function stalls(r)
  local total = 0
  for i, at in ipairs(r.preempted_ms or {}) do
    local pool, stop, next_preemption = nil, nil, (r.preempted_ms[i + 1] or math.huge)
    for _, admission in ipairs(r.admissions) do
      if admission.at_ms <= at then pool = admission.pool or "aggregated" end
    end
    for _, admission in ipairs(r.admissions) do
      local same = (admission.pool or "aggregated") == pool
      local next_one = admission.at_ms > at and admission.at_ms <= next_preemption
      if same and next_one and not stop then stop = admission.at_ms end
    end
    total = total + ((stop or r.terminal_ms) - at)
  end
  return total
end

local function readmissions(r)
  local pools, n = {}, 0
  for _, admission in ipairs(r.admissions) do
    local pool = admission.pool or "aggregated"
    if pools[pool] then n = n + 1 end
    pools[pool] = true
  end
  return n
end

local function reuse(r)
  local first, most, pool = nil, 0, nil
  for _, admission in ipairs(r.admissions) do
    first = first or admission
    pool = pool or admission.pool or "aggregated"
    if (admission.pool or "aggregated") == pool then
      most = math.max(most, (admission.device or 0) + (admission.host or 0))
    end
  end
  first = first or {}
  return first.device or 0, first.host or 0, most
end

local function accept_len(r)
  local n = #(r.accepted_drafts or {})
  if n == 0 then return 1 end
  local sum = n
  for _, accepted in ipairs(r.accepted_drafts) do sum = sum + accepted end
  return sum / n
end

function M.request(r)
  local t, n = r.token_ms, #r.token_ms
  local a, f, l = r.arrival_ms, t[1], t[n]
  local m = r.admissions[1] and r.admissions[1].at_ms
  local o = { output_tokens = n }
  o.ttft_ms, o.ttst_ms, o.t2_ms = f and f - a, t[2] and t[2] - f, t[2] and t[2] - a
  o.e2e_ms = l and l - a
  o.itl_ms = n >= 2 and (l - f) / (n - 1) or nil
  o.decode_ms = l and l - f
  o.queue_ms = m and m - a
  o.router_queue_ms = r.dispatched_ms and r.dispatched_ms - a
  o.engine_queue_ms = m and m - r.dispatched_ms
  o.prefill_ms = f and m and f - m
  o.output_tok_s_per_user = ratio(1000, o.itl_ms)
  o.prefill_tok_s_per_user = f and ratio(1000 * r.input_tokens, o.ttft_ms) or nil
  o.e2e_output_tok_s = l and ratio(1000 * n, o.e2e_ms) or nil
  o.preempt_stall_ms, o.preemptions = stalls(r), #(r.preempted_ms or {})
  o.admissions, o.readmissions = #r.admissions, readmissions(r)
  o.device_reused_tokens, o.host_reused_tokens, o.reused_tokens = reuse(r)
  o.first_admission_reused_tokens = o.device_reused_tokens + o.host_reused_tokens
  o.accept_len, o.recomputed_tokens = accept_len(r), r.recomputed_tokens or 0
  return o
end

local REQUEST_KEYS <const> = { "output_tokens", "ttft_ms", "ttst_ms", "t2_ms", "e2e_ms", "itl_ms", "decode_ms",
  "queue_ms", "router_queue_ms", "engine_queue_ms", "prefill_ms", "output_tok_s_per_user", "prefill_tok_s_per_user",
  "e2e_output_tok_s", "preempt_stall_ms", "preemptions", "admissions", "readmissions", "first_admission_reused_tokens",
  "device_reused_tokens", "host_reused_tokens", "reused_tokens", "accept_len", "recomputed_tokens" }

-- Distributions, §2 ----------------------------------------------------------------------------------

local function percentile(sorted, p, rule)
  local k = (#sorted - 1) * p / 100
  if rule == "nearest" then return sorted[math.floor(k + 0.5) + 1] end
  local low = math.floor(k)
  local here, above = sorted[low + 1], sorted[math.min(low + 2, #sorted)]
  return here + (above - here) * (k - low)
end

--- @param values number[]   defined ones
function M.distribution(values, settings)
  local sorted = { table.unpack(values) }
  table.sort(sorted)
  local out = { n = #sorted, mean = 0, min = 0, max = 0, median = 0, std = 0 }
  local list = { "p50", "p75", "p90", "p95", "p99" }
  for _, p in ipairs(settings.extra_percentiles or {}) do list[#list + 1] = p end
  if #sorted == 0 then
    for _, p in ipairs(list) do out[p] = 0 end
    return out
  end
  local sum, square = 0, 0
  for _, v in ipairs(sorted) do sum = sum + v end
  out.mean = sum / #sorted
  for _, v in ipairs(sorted) do square = square + (v - out.mean) ^ 2 end
  out.std, out.min, out.max = math.sqrt(square / #sorted), sorted[1], sorted[#sorted]
  for _, p in ipairs(list) do out[p] = percentile(sorted, tonumber(p:sub(2)), settings.percentile_rule or "linear") end
  out.median = out.p50
  return out
end

--- Statistics of 1000 / the same statistic; those that are not one are left out.
local function inverse(distribution)
  local out = {}
  for name, value in pairs(distribution) do
    if name == "mean" or name:find "^p%d" then out[name] = opt(ratio(1000, value)) end
  end
  return out
end

-- Gauges ---------------------------------------------------------------------------------------------

function M.gauge(points, from, to)
  local pieces, value, since, area, known, peak = {}, nil, from, 0, 0, nil
  local function close(at)
    if value and at > since then
      pieces[#pieces + 1] = { value, at - since }
      area, known = area + value * (at - since), known + at - since
      peak = math.max(peak or value, value)
    end
  end
  for _, point in ipairs(points) do
    local at = point[1]
    if at <= from then
      value = point[2]
    elseif at < to then
      close(at)
      since, value = at, point[2]
    end
  end
  close(to)
  table.sort(pieces, function(a, b) return a[1] < b[1] end)
  local below, p99 = 0, nil
  for _, piece in ipairs(pieces) do
    below = below + piece[2]
    if not p99 and below >= 0.99 * known - 1e-9 then p99 = piece[1] end
  end
  return { mean = opt(ratio(area, known)), peak = opt(peak), p99 = opt(p99) }
end

-- The run, §3 ----------------------------------------------------------------------------------------

local function is_measured(r, settings)
  if (r.phase or "profile") ~= "profile" or r.status == "never_issued" then return false end
  local window = settings.window_ms
  return not window or r.arrival_ms >= window[1] and r.arrival_ms < window[2]
end

local function is_good(o, r, slo)
  local e2e = o.e2e_ms or r.terminal_ms - r.arrival_ms
  if slo.e2e_ms and e2e > slo.e2e_ms then return false end
  if o.output_tokens == 0 then return true end
  if slo.ttft_ms and o.ttft_ms > slo.ttft_ms then return false end
  local itl = slo.itl_ms or slo.tpot_ms
  return not (itl and o.itl_ms and o.itl_ms > itl)
end

local STATUS <const> = { failed = "failed", rejected = "rejected", cancelled = "cancelled",
  in_flight = "in_flight_at_end" }

local function count(records, settings)
  local c = { num_requests = 0, completed_requests = 0, failed = 0, rejected = 0, cancelled = 0, in_flight_at_end = 0,
    never_issued = 0, preparation_requests = 0, preemptions = 0, readmissions = 0, recomputed_tokens = 0 }
  local cohort = {}
  local window = settings.window_ms
  local crossed_start, crossed_end = 0, 0
  for _, r in ipairs(records) do
    local phase = r.phase or "profile"
    if phase ~= "profile" then c.preparation_requests = c.preparation_requests + 1 end
    if phase == "profile" and r.status == "never_issued" then c.never_issued = c.never_issued + 1 end
    if is_measured(r, settings) then
      c.num_requests = c.num_requests + 1
      for _, name in ipairs { "preemptions", "readmissions", "recomputed_tokens" } do
        c[name] = c[name] + r.values[name]
      end
      if r.status == "completed" then
        cohort[#cohort + 1] = r
      else
        c[STATUS[r.status]] = c[STATUS[r.status]] + 1
      end
      if window and (not r.terminal_ms or r.terminal_ms >= window[2]) then crossed_end = crossed_end + 1 end
    elseif window and phase == "profile" and r.status ~= "never_issued" and r.arrival_ms < window[1]
      and (not r.terminal_ms or r.terminal_ms >= window[1]) then
      crossed_start = crossed_start + (r.terminal_ms and 1 or 0)
    end
  end
  c.completed_requests = #cohort
  if window then c.crossed_start, c.crossed_end = crossed_start, crossed_end end
  return c, cohort
end

local function interval(cohort, settings)
  local start = settings.measurement_start_ms or 0
  local first, last
  for _, r in ipairs(cohort) do
    first, last = math.min(first or math.huge, r.arrival_ms), math.max(last or -math.huge, r.terminal_ms)
  end
  local window = settings.window_ms
  local out = { duration_ms = last and last - start or 0, observation_duration_ms = last and last - first or 0,
    window_duration_ms = window and window[2] - window[1] }
  local which = settings.duration or "measurement"
  if which == "window" then return out, window[1], window[2] end
  if which == "observation" then return out, first or 0, last or 0 end
  return out, start, last or start
end

local function workers(totals, settings, from, to)
  local worker_s, hours, gpus = {}, 0, 0
  for _, w in ipairs(settings.workers) do
    local stop = w.to_ms ~= null and w.to_ms or to
    local seconds = math.max(0, math.min(stop, to) - math.max(w.from_ms, from)) / 1000
    worker_s[w.role] = (worker_s[w.role] or 0) + seconds
    hours = hours + seconds * w.gpus_per_worker / 3600
    gpus = gpus + seconds * w.gpus_per_worker
  end
  totals.worker_s, totals.gpu_hours = worker_s, hours
  totals.gpus = ratio(gpus, (to - from) / 1000)
  for _, name in ipairs { "request_throughput_rps", "input_throughput_tok_s", "output_throughput_tok_s",
    "total_throughput_tok_s" } do
    totals[name .. "_per_gpu"] = opt(ratio(totals[name] ~= null and totals[name] or nil, totals.gpus))
  end
  totals.gpus = opt(totals.gpus)
end

--- Events of the engine, so of all measured requests, whatever their outcome.
local function speculation(records, settings)
  local drafts, drafted, accepted, more = 0, 0, 0, {}
  for _, r in ipairs(records) do
    for i, n in ipairs(is_measured(r, settings) and r.accepted_drafts or {}) do
      drafts, drafted, accepted = drafts + 1, drafted + r.drafted[i], accepted + n
      for j = 1, r.drafted[i] do more[j] = (more[j] or 0) + (n >= j and 1 or 0) end
    end
  end
  if drafts == 0 then return nil end
  for j, n in ipairs(more) do more[j] = n / drafts end
  return { drafts = drafts, drafted = drafted, accepted = accepted, acceptance_ratio = opt(ratio(accepted, drafted)),
    acceptance_ratio_per_position = more, mean_accept_len = (accepted + drafts) / drafts }
end

local GOODPUT <const> = { "goodput_completed_requests", "goodput_request_throughput_rps",
  "goodput_output_throughput_tok_s", "good_fraction" }

local function goodput(totals, cohort, settings, seconds)
  for _, name in ipairs(GOODPUT) do totals[name] = null end
  local slo = settings.slo
  if not slo then return nil end
  local good, tokens = {}, 0
  for _, r in ipairs(cohort) do
    if is_good(r.values, r, slo) then
      good[#good + 1], tokens = r.id, tokens + #r.token_ms
    end
  end
  totals.goodput_completed_requests = #good
  totals.goodput_request_throughput_rps = opt(ratio(#good, seconds))
  totals.goodput_output_throughput_tok_s = opt(ratio(tokens, seconds))
  totals.good_fraction = opt(ratio(#good, #cohort))
  return good
end

local function totals_of(records, settings)
  local totals, cohort = count(records, settings)
  local durations, from, to = interval(cohort, settings)
  local seconds = (to - from) / 1000
  local input, output, most, first, hit, ideal = 0, 0, 0, 0, 0, nil
  for _, r in ipairs(cohort) do
    local v = r.values
    input, output = input + r.input_tokens, output + v.output_tokens
    most, first = most + v.reused_tokens, first + v.first_admission_reused_tokens
    hit = hit + (v.first_admission_reused_tokens > 0 and 1 or 0)
    if r.ideal_reused_tokens then ideal = (ideal or 0) + r.ideal_reused_tokens end
  end
  for name, value in pairs(durations) do totals[name] = value end
  totals.window_duration_ms = opt(durations.window_duration_ms)
  totals.total_input_tokens, totals.total_output_tokens = input, output
  totals.request_throughput_rps = opt(ratio(#cohort, seconds))
  totals.input_throughput_tok_s = opt(ratio(input, seconds))
  totals.output_throughput_tok_s = opt(ratio(output, seconds))
  totals.total_throughput_tok_s = opt(ratio(input + output, seconds))
  totals.prefix_cache_reused_ratio = opt(ratio(most, input))
  totals.first_admission_prefix_cache_reused_ratio = opt(ratio(first, input))
  totals.request_hit_ratio = opt(ratio(hit, #cohort))
  if ideal then
    totals.ideal_reuse_ratio = opt(ratio(ideal, input))
    totals.reuse_gap_ratio = opt(ratio(ideal - first, input))
  end
  if settings.workers then workers(totals, settings, from, to) end
  totals.speculation = speculation(records, settings)
  local good = goodput(totals, cohort, settings, seconds)
  for name, points in pairs(settings.gauges or {}) do
    totals.gauges = totals.gauges or {}
    totals.gauges[name] = M.gauge(points, from, to)
  end
  return totals, cohort, good
end

local DISTRIBUTIONS <const> = { "ttft_ms", "ttst_ms", "t2_ms", "e2e_ms", "itl_ms", "decode_ms", "queue_ms",
  "router_queue_ms", "engine_queue_ms", "prefill_ms", "preempt_stall_ms", "output_tok_s_per_user",
  "prefill_tok_s_per_user", "e2e_output_tok_s", "accept_len", "output_tokens", "reused_tokens" }

local function distributions_of(cohort, settings)
  local out, gaps, per_token = {}, {}, {}
  for _, name in ipairs(DISTRIBUTIONS) do
    local values = {}
    for _, r in ipairs(cohort) do values[#values + 1] = r.values[name] end
    out[name] = M.distribution(values, settings)
  end
  for _, r in ipairs(cohort) do
    for i = 2, #r.token_ms do gaps[#gaps + 1] = r.token_ms[i] - r.token_ms[i - 1] end
    if r.values.e2e_ms then per_token[#per_token + 1] = r.values.e2e_ms / #r.token_ms end
  end
  out.token_gap_ms = M.distribution(gaps, settings)
  out.interactivity = inverse(out.itl_ms)
  out.normalised_interactivity = inverse(M.distribution(per_token, settings))
  return out
end

--- @param vector table   settings, requests   @return expect
function M.run(vector)
  local settings, expect = vector.settings, { requests = {} }
  for _, r in ipairs(vector.requests) do
    r.values = M.request(r)
    local shown = {}
    for _, key in ipairs(REQUEST_KEYS) do shown[key] = opt(r.values[key]) end
    expect.requests[r.id] = shown
  end
  local cohort
  expect.totals, cohort, expect.good = totals_of(vector.requests, settings)
  expect.distributions = distributions_of(cohort, settings)
  for _, r in ipairs(vector.requests) do r.values = nil end
  return expect
end

return M
