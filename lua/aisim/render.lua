--- The screen of a run: what the numbers of a report look like for a reader.
-- Right-aligned columns, three to four significant digits, thousands separated (on screen only), at
-- most 100 columns, ASCII where the locale is not UTF-8. A line whose numbers were not computed is
-- left out; nothing is guessed. Input is plain data, so that run:summary(), the program and tests
-- share it. Cost: a few hundred string operations.
local M = {}

local WIDTH <const> = 100
local LABEL <const> = 13 -- width of "throughput   "

-- Numbers ------------------------------------------------------------------------------------------

--- 1234567 -> "1,234,567".
---@param n number   whole
---@return string
function M.count(n)
  local text = ("%.0f"):format(n)
  local sign, digits = text:match("^(%-?)(%d+)$")
  if not digits then return text end
  digits = digits:reverse():gsub("(%d%d%d)", "%1,"):reverse():gsub("^,", "")
  return sign .. digits
end

--- Three to four significant digits: 0.00123, 0.123, 1.23, 12.3, 412.1, 6,412.
---@param x number?
---@return string   "-" for an undefined value
function M.number(x)
  if x == nil or x ~= x then return "-" end
  local size = math.abs(x)
  if size == math.huge then return x > 0 and "inf" or "-inf" end
  if size >= 999.95 then return M.count(x) end
  if size >= 9.995 then return ("%.1f"):format(x) end
  if size >= 0.9995 then return ("%.2f"):format(x) end
  if size >= 0.0009995 then return ("%.3g"):format(x) end
  return size == 0 and "0" or ("%.2e"):format(x)
end

--- A figure that may be a count: whole numbers as they are, others with three to four digits.
---@param x number
---@return string
function M.value(x)
  local whole = math.tointeger(x)
  return whole and math.abs(whole) < 1e15 and M.count(whole) or M.number(x)
end

--- 31000000 -> "31.0 M".
local function magnitude(n)
  if n >= 1e9 then return M.number(n / 1e9) .. " G" end
  if n >= 1e6 then return M.number(n / 1e6) .. " M" end
  if n >= 1e4 then return M.number(n / 1e3) .. " k" end
  return M.count(n)
end

--- Milliseconds as "1.40 s" or "12.3 ms".
function M.duration(ms)
  if ms >= 1000 then return M.number(ms / 1000) .. " s" end
  return M.number(ms) .. " ms"
end

local function percent(ratio)
  return ("%.1f %%"):format(100 * ratio)
end

-- Text ---------------------------------------------------------------------------------------------

local ASCII <const> = {
  ["≥"] = ">=", ["≤"] = "<=", ["×"] = "x", ["✓"] = "ok", ["✗"] = "FAILED", ["…"] = "...", ["±"] = "+-", ["→"] = "->",
  ["µ"] = "u", ["–"] = "-",
}

--- The same text for terminals without UTF-8.
---@param text string
---@return string
function M.ascii(text)
  return (text:gsub(utf8.charpattern, function(c) return #c > 1 and (ASCII[c] or "?") or nil end))
end

local function width_of(text) return utf8.len(text) or #text end

--- Breaks a text into lines of at most n columns, at blanks.
---@param text string
---@param n integer
---@return string[]
function M.wrap(text, n)
  local lines, line = {}, ""
  for word in text:gmatch("%S+") do
    if line == "" then
      line = word
    elseif width_of(line) + 1 + width_of(word) <= n then
      line = line .. " " .. word
    else
      lines[#lines + 1], line = line, word
    end
  end
  lines[#lines + 1] = line
  return lines
end

--- Two texts at both ends of a line; on two lines if they do not fit.
local function both_ends(left, right)
  if right == "" then return left end
  local space = WIDTH - width_of(left) - width_of(right)
  if space >= 2 or left == "" then return left .. (" "):rep(space) .. right end
  return left .. "\n" .. (" "):rep(math.max(0, WIDTH - width_of(right))) .. right
end

--- Items in as few lines as possible, none wider than the screen.
local function packed(items, gap)
  local lines = {}
  for _, item in ipairs(items) do
    local line = lines[#lines]
    if line and width_of(line) + #gap + width_of(item) <= WIDTH then
      lines[#lines] = line .. gap .. item
    else
      lines[#lines + 1] = item
    end
  end
  return lines
end

--- "label  a   b   c", continued on the next line where 100 columns end.
local function items_line(label, items)
  local lines, line = {}, label .. (" "):rep(LABEL - #label)
  local empty = true
  for _, item in ipairs(items) do
    if not empty and width_of(line) + 3 + width_of(item) > WIDTH then
      lines[#lines + 1], line, empty = line, (" "):rep(LABEL), true
    end
    line, empty = line .. (empty and "" or "   ") .. item, false
  end
  lines[#lines + 1] = line
  return table.concat(lines, "\n")
end

-- Parts of the screen ------------------------------------------------------------------------------

---@class aisim.Screen      everything optional but metrics
---@field version string
---@field file string
---@field seed integer
---@field settings { name: string, value: string, origin: string? }[]    what is not a default
---@field pools string[]    one line each: "8 × qwen3-32b on h200_sxm, tp 2, 24,310 blocks of 16 (auto)"
---@field timing string     "timing: measured h200"
---@field metrics table<string, number>   run.metrics
---@field wall { wall_ms: number, events: integer }
---@field status string     "interrupted", "stopped", …
---@field reason string     why it was stopped
---@field verdicts aisim.Verdict[]
---@field notes string[]
---@field saved string      folder

local function header(screen, out)
  local left = ("aisim %s  %s  seed %s"):format(screen.version or "?", screen.file or "(no file)",
    tostring(screen.seed or "?"))
  local settings = {}
  for i, setting in ipairs(screen.settings or {}) do
    settings[i] = ("%s=%s"):format(setting.name, setting.value)
      .. (setting.origin and (" (%s)"):format(setting.origin) or "")
  end
  for i, line in ipairs(packed(settings, "  ")) do
    out[#out + 1] = both_ends(i == 1 and left or "", line)
  end
  if #settings == 0 then out[#out + 1] = left end
  for i, pool in ipairs(screen.pools or {}) do
    pool = pool:gsub("(%d+) blocks", function(n) return M.count(tonumber(n)) .. " blocks" end)
    out[#out + 1] = both_ends(pool, i == 1 and screen.timing or "")
  end
end

local function add(items, value, format, convert)
  if value ~= nil then items[#items + 1] = format:format((convert or M.count)(value)) end
end

local function requests(screen, out)
  local m, items = screen.metrics, {}
  add(items, m.completed_requests, "%s completed")
  add(items, m.failed, "%s failed")
  add(items, m.rejected, "%s rejected")
  if (m.cancelled or 0) > 0 then add(items, m.cancelled, "%s cancelled") end
  if (m.never_issued or 0) > 0 then add(items, m.never_issued, "%s never issued") end
  add(items, m.in_flight_at_end, "%s in flight at end")
  add(items, m.preemptions, "%s preemptions")
  if #items > 0 then out[#out + 1] = items_line("requests", items) end
  items = {}
  if m.duration_ms then
    local warm = (m.preparation_ms or 0) > 0 and (" (warm-up %s)"):format(M.duration(m.preparation_ms)) or ""
    items[1] = ("%s virtual%s"):format(M.duration(m.duration_ms), warm)
  end
  local wall = screen.wall
  if wall then
    items[#items + 1] = M.duration(wall.wall_ms) .. " wall"
    if wall.events then
      items[#items + 1] = magnitude(wall.events) .. " events"
      if wall.wall_ms > 0 then items[#items + 1] = magnitude(wall.events / wall.wall_ms * 1000) .. " events/s" end
    end
  end
  if #items > 0 then out[#out + 1] = items_line("duration", items) end
end

local ROWS <const> = {
  { "ttft_ms", "time to first token", "ms" },
  { "ttst_ms", "time to second token", "ms" },
  { "itl_ms", "inter-token latency", "ms" },
  { "e2e_ms", "request latency", "ms" },
  { "output_tok_s_per_user", "output per user", "tok/s" },
}
local COLUMNS <const> = {
  { "mean", "avg" }, { "min", "min" }, { "max", "max" }, { "p99", "p99" }, { "p90", "p90" }, { "p75", "p75" },
  { "std", "std" },
}

local function latencies(screen, out)
  local m, rows = screen.metrics, {}
  for _, row in ipairs(ROWS) do
    local key, label, unit = row[1], row[2], row[3]
    if m[key .. ".mean"] and (m[key .. ".n"] or 1) > 0 then
      local cells, scale = { ("%-22s"):format(label) }, 1
      if unit == "ms" and (m[key .. ".max"] or 0) >= 1e6 then unit, scale = "s", 1e-3 end -- no room for more digits
      for _, column in ipairs(COLUMNS) do
        local value = m[key .. "." .. column[1]]
        cells[#cells + 1] = (" %8s"):format(M.number(value and value * scale))
      end
      rows[#rows + 1] = table.concat(cells) .. "   " .. unit
    end
  end
  if #rows == 0 then return end
  local head = { (" "):rep(22) }
  for _, column in ipairs(COLUMNS) do head[#head + 1] = ("%9s"):format(column[2]) end
  out[#out + 1] = ""
  out[#out + 1] = table.concat(head) .. "   unit"
  for _, row in ipairs(rows) do out[#out + 1] = row end
end

--- Does the server keep up with what arrives?
local function backlog(screen, out)
  local trend, stable = screen.metrics.backlog_trend_ratio, screen.metrics.backlog_stable
  if not trend then return end
  local grows = ("backlog trend %+.1f %% of the arrivals"):format(100 * trend):gsub("%-0%.0", "+0.0")
  if stable == false then
    local text = "UNSTABLE (%s): the figures depend on how long the run is"
    out[#out + 1] = items_line("verdict", { text:format(grows) })
  else
    out[#out + 1] = items_line("verdict", { ("STABLE (%s)"):format(grows) })
  end
end

local function throughput(screen, out)
  local m, items = screen.metrics, {}
  add(items, m.request_throughput_rps, "%s req/s", M.number)
  add(items, m.output_throughput_tok_s, "%s output tok/s", M.number)
  add(items, m.output_throughput_tok_s_per_gpu, "%s output tok/s/gpu", M.number)
  add(items, m.gpu_hours, "%s gpu-hours", M.number)
  if #items > 0 then out[#out + 1] = items_line("throughput", items) end
  items = {}
  local reused = m.first_admission_prefix_cache_reused_ratio
  if reused then
    local ideal = m.ideal_reuse_ratio and (" (ideal %s)"):format(percent(m.ideal_reuse_ratio)) or ""
    items[1] = ("%s of prompt tokens at first admission%s"):format(percent(reused), ideal)
  end
  local mean, peak = m["kv_usage.mean"], m["kv_usage.peak"]
  if mean and peak then
    items[#items + 1] = ("kv usage mean %.0f %%, peak %.0f %%"):format(100 * mean, 100 * peak)
  end
  if #items > 0 then out[#out + 1] = items_line("reuse", items) end
end

--- What went from prefill to decode workers.
local function handoff(screen, out)
  local m = screen.metrics
  local jobs = m["transfers.handoff.jobs"]
  if not jobs or jobs == 0 then return end
  out[#out + 1] = items_line("hand-off", {
    ("%s transfers"):format(M.count(jobs)), ("%s GB"):format(M.number(m["transfers.handoff.bytes"] / 1e9)),
    ("%s ms each"):format(M.number(m["transfers.handoff.time_ms"] / jobs)),
  })
end

--- The ledger of an AgentX replay (spec/traffic.md §2.6).
local function agentx(screen, out)
  local a = screen.agentx
  if not a or not a.barrier_ms then return end
  local tree, global = 0, 0
  for _, shift in ipairs(a.shifts) do
    if shift.global then global = global + 1 else tree = tree + 1 end
  end
  out[#out + 1] = items_line("agentx", {
    ("%s plays started"):format(M.count(a.plays_started)), ("%s completed"):format(M.count(a.plays_client_completed)),
    ("%s failed"):format(M.count(a.plays_failed)), ("authored gate %s"):format(a.authored_gate and "on" or "off"),
    ("idle cut %d times"):format(tree + global),
  })
  out[#out + 1] = items_line("", {
    ("%s planned = %s issued + %s never issued"):format(M.count(a.planned), M.count(a.issued), M.count(a.never_issued)),
    ("prepared until %s"):format(M.duration(a.barrier_ms)), ("%s unsettled"):format(M.count(a.unsettled)),
  })
end

--- "expect       ✓ ttft_ms.p99 < 500   ✗ good_fraction >= 0.95   got 0.931".
---@param verdicts aisim.Verdict[]
---@return string? line    nil without expectations
function M.expect(verdicts)
  local items = {}
  for i, verdict in ipairs(verdicts) do
    items[i] = (verdict.ok and "✓ " or "✗ ") .. verdict.text
    if not verdict.ok then
      items[i] = items[i] .. "   got " .. (verdict.got and M.value(verdict.got)
        or verdict.unknown and "nothing (no such metric)" or "nothing (undefined)")
    end
  end
  return #items > 0 and items_line("expect", items) or nil
end

local function goodput(screen, out)
  local m, items = screen.metrics, {}
  if not m.good_fraction then return end
  items[1] = ("%s of requests meet the SLO"):format(percent(m.good_fraction))
  add(items, m.goodput_request_throughput_rps, "%s good req/s", M.number)
  out[#out + 1] = items_line("goodput", items)
end

local function custom(screen, out)
  local items = {}
  for i, metric in ipairs(screen.custom or {}) do
    items[i] = ("%s %s%s"):format(metric.name, M.value(metric.value),
      metric.unit and metric.unit ~= "" and " " .. metric.unit or "")
  end
  if #items > 0 then out[#out + 1] = items_line("custom", items) end
end

--- The whole screen, without a final newline.
---@param screen aisim.Screen
---@return string
function M.screen(screen)
  local out = {}
  header(screen, out)
  out[#out + 1] = ""
  if screen.status and screen.status ~= "completed" then
    local why = screen.reason and screen.reason ~= screen.status and (" (%s)"):format(screen.reason) or ""
    out[#out + 1] = items_line("status", { screen.status .. why .. ": the numbers cover what had happened until then" })
  end
  requests(screen, out)
  latencies(screen, out)
  out[#out + 1] = ""
  throughput(screen, out)
  handoff(screen, out)
  backlog(screen, out)
  agentx(screen, out)
  goodput(screen, out)
  custom(screen, out)
  out[#out + 1] = M.expect(screen.verdicts or {})
  local label = "notes" .. (" "):rep(LABEL - 5)
  for _, note in ipairs(screen.notes or {}) do
    for _, line in ipairs(M.wrap(note, WIDTH - LABEL)) do
      out[#out + 1], label = label .. line, (" "):rep(LABEL)
    end
  end
  if screen.saved then out[#out + 1] = items_line("saved", { screen.saved }) end
  return table.concat(out, "\n")
end

return M
