--- Holds the recorder of the product against its twin (report_twin.lua) on made-up records.
--
--     lua5.4 tests/twin/report_compare.lua [--count N] [--seed S]
--
-- The cases become a file of report vectors whose expectations are the twin's, and the runner of
-- conformance vectors does the rest (tests/conformance/run.lua): exit status and messages are its own.
local here = arg[0]:match "^(.*)/[^/]*$" or "."
package.path = ("%s/?.lua;%s"):format(here, package.path)
local cjson = require "cjson"
local made = require "made"
local twin = require "report_twin"

local options = made.flags(1, false)

local random <const>, pick <const>, chance <const> = made.random, made.pick, made.chance
local function gap() return chance(15) and 0 or random(400) / 4 end

--- Admissions and preemptions in turn, all before the first token or between tokens of one pool.
local function admitted(r, t, pool, ends_open)
  r.admissions[#r.admissions + 1] = { at_ms = t, pool = pool, device = chance(60) and 16 * random(20) or nil,
    host = chance(30) and 16 * random(5) or nil }
  for _ = 1, chance(30) and random(2) or 0 do
    t = t + random(40) / 4
    r.preempted_ms[#r.preempted_ms + 1] = t
    if ends_open and chance(40) then return t, true end
    t = t + random(80) / 4
    r.admissions[#r.admissions + 1] = { at_ms = t, pool = pool, device = chance(60) and 16 * random(20) or nil }
  end
  return t
end

local function with_tokens(r, t, n)
  t = t + gap()
  r.token_ms[1] = t
  if chance(30) and n > 1 then -- speculation: bursts, the last one trimmed
    r.accepted_drafts, r.drafted = {}, {}
    while #r.token_ms < n do
      local depth = random(3)
      local accepted = random(depth + 1) - 1
      t = t + random(40) / 4
      r.accepted_drafts[#r.accepted_drafts + 1], r.drafted[#r.drafted + 1] = accepted, depth
      for _ = 1, math.min(accepted + 1, n - #r.token_ms) do r.token_ms[#r.token_ms + 1] = t end
    end
  else
    for i = 2, n do
      t = t + gap()
      r.token_ms[i] = t
    end
  end
  return t
end

local STATUSES <const> = { "completed", "completed", "completed", "completed", "failed", "rejected", "cancelled",
  "in_flight", "never_issued" }

local function made_request(i)
  local a = random(8000) / 4
  local r = { id = "r" .. i, status = pick(STATUSES), arrival_ms = a, input_tokens = 100 + random(4000),
    admissions = {}, token_ms = {}, preempted_ms = {} }
  if r.status ~= "never_issued" and chance(15) then r.phase = pick { "primer", "warmup" } end
  if r.status == "never_issued" then
    r.preempted_ms = nil
    return r
  end
  r.dispatched_ms = a + (chance(50) and gap() or 0)
  local t = r.dispatched_ms
  if r.status ~= "rejected" and not (r.status == "cancelled" and chance(30)) then
    local split = chance(15)
    local open
    t, open = admitted(r, t + gap(), split and "prefill" or nil, r.status == "cancelled")
    local n = open and 0 or r.status == "completed" and random(12) - (chance(10) and 1 or 0) or random(6) - 1
    if n > 0 then t = with_tokens(r, t, n) end
    if split and n > 0 and r.status == "completed" then
      r.admissions[#r.admissions + 1] = { at_ms = r.token_ms[1], pool = "decode", device = 16 * random(20) }
    end
  end
  if r.status ~= "in_flight" then r.terminal_ms = chance(70) and t or t + gap() end
  if r.status == "completed" and #r.token_ms > 0 then r.terminal_ms = t end
  r.recomputed_tokens = chance(20) and random(500) or nil
  if #r.preempted_ms == 0 then r.preempted_ms = nil end
  return r
end

local function made_settings()
  local s = {}
  if chance(40) then s.percentile_rule = pick { "nearest", "linear" } end
  if chance(30) then s.extra_percentiles = { "p1", "p10", "p99.9" } end
  if chance(30) then s.window_ms = { 250 * random(3), 1000 + 250 * random(4) } end
  if chance(30) then s.measurement_start_ms = s.window_ms and s.window_ms[1] or random(400) / 4 end
  if chance(40) then s.duration = pick { "measurement", "observation", s.window_ms and "window" } end
  if chance(50) then
    s.slo = { ttft_ms = chance(60) and random(200) or nil, e2e_ms = chance(50) and random(600) or nil }
    if chance(60) then s.slo[pick { "itl_ms", "tpot_ms" }] = random(60) end
    if next(s.slo) == nil then s.slo.ttft_ms = 100 end
  end
  if chance(50) then
    s.workers = {}
    for i = 1, random(3) do
      s.workers[i] = { role = pick { "prefill", "decode", "aggregated" }, gpus_per_worker = pick { 1, 2, 8 },
        from_ms = chance(50) and 0 or random(1500), to_ms = cjson.null }
      if chance(40) then s.workers[i].to_ms = s.workers[i].from_ms + random(1500) end
    end
  end
  if chance(40) then
    local points, t = {}, -1
    for i = 1, random(12) do
      t = t + random(400)
      points[i] = { t, random(64) / 64 }
    end
    s.gauges = { kv_usage = points }
  end
  return s
end

local function made_case(number)
  made.begin(options.seed, number)
  local case = { name = ("seed %d case %d"):format(options.seed, number), kind = "report", settings = made_settings(),
    requests = {} }
  for i = 1, random(30) do case.requests[i] = made_request(i) end
  if chance(30) then
    for _, r in ipairs(case.requests) do r.ideal_reused_tokens = random(r.input_tokens) - 1 end
  end
  case.expect = twin.run(case)
  return case
end

local cases, folder = {}, os.tmpname()
for number = 1, options.count do cases[number] = made_case(number) end
os.remove(folder)
assert(os.execute("mkdir " .. folder))
local path = folder .. "/report.json"
local file = assert(io.open(path, "w"))
file:write(cjson.encode { schema = "aisim-report-vectors/1", vectors = cases })
file:close()
local ok = os.execute(("lua5.4 %s/../conformance/run.lua %s"):format(here, path))
if ok then os.execute("rm -r " .. folder) else print("the cases are kept in " .. path) end
os.exit(ok == true)
