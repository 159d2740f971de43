--- What is in a trace file: lengths, arrivals, sessions, reuse (aisim trace FILE; trace_stats.json).
-- Rows are streamed; kept are the numbers whose percentiles are asked for.
local core = require "aisim.core"

local M = {}

--- Value at rank (n - 1) q of a sorted list, linear between order statistics.
local function quantile(sorted, q)
  local rank = (#sorted - 1) * q
  local low = rank // 1
  local first = sorted[math.tointeger(low) + 1]
  local second = sorted[math.tointeger(low) + 2] or first
  return first + (rank - low) * (second - first)
end
M.quantile = quantile

local QUANTILES <const> = { p25 = 0.25, p50 = 0.5, p75 = 0.75, p90 = 0.9, p95 = 0.95, p99 = 0.99 }

--- sum, mean, percentiles, min, max of a list (which gets sorted); nil when empty.
function M.summary(values)
  if #values == 0 then return nil end
  local sum = 0
  for _, value in ipairs(values) do sum = sum + value end
  table.sort(values)
  local out = { count = #values, sum = sum, mean = sum / #values, min = values[1], max = values[#values] }
  for name, q in pairs(QUANTILES) do out[name] = quantile(values, q) end
  return out
end

--- Variance over mean of arrivals in windows of w seconds, counted from the first one.
local function dispersion(times, first, last, w)
  local windows = math.tointeger((last - first) // w) + 1
  local counts, sum, squares = {}, 0, 0
  for _, t in ipairs(times) do
    local i = math.tointeger((t - first) // w)
    counts[i] = (counts[i] or 0) + 1
  end
  for _, n in pairs(counts) do sum, squares = sum + n, squares + n * n end
  local mean = sum / windows
  return (squares / windows - mean * mean) / mean
end

--- Statistics of arrival times in seconds, in file order.
function M.arrivals(times)
  local n = #times
  if n == 0 then return nil end
  local first, last, backwards, distinct, seen = times[1], times[1], 0, 0, {}
  local gaps, squares = 0, 0
  for i, t in ipairs(times) do
    first, last = math.min(first, t), math.max(last, t)
    if not seen[t] then seen[t], distinct = true, distinct + 1 end
    if i > 1 then
      local gap = t - times[i - 1]
      if gap < 0 then backwards = backwards + 1 end
      gaps, squares = gaps + gap, squares + gap * gap
    end
  end
  local out = { first_s = times[1], last_s = times[n], span_s = last - first, non_monotonic = backwards,
    distinct_timestamps = distinct }
  if n > 1 and last > first then
    local mean = gaps / (n - 1)
    out.rate_per_s = (n - 1) / (last - first)
    out.interarrival_cv = mean > 0 and math.sqrt(math.max(0, squares / (n - 1) - mean * mean)) / mean or nil
  end
  out.count_dispersion_1s = dispersion(times, first, last, 1)
  out.count_dispersion_60s = dispersion(times, first, last, 60)
  return out
end

--- Collects rows { input_tokens, output_tokens, arrival_ms, session, kept_tokens, blocks, max_id }.
local Collector = {}
Collector.__index = Collector

function M.collector()
  return setmetatable({ rows = 0, input = {}, output = {}, times = {}, kept = {}, added = {}, gaps = {}, growth = {},
    sessions = {}, n_sessions = 0, references = 0, failed = 0 }, Collector)
end

function Collector:add(row)
  self.rows = self.rows + 1
  local n = self.rows
  self.input[n], self.output[n] = row.input_tokens, row.output_tokens
  if row.arrival_ms then self.times[#self.times + 1] = row.arrival_ms / 1000 end
  if row.kept_tokens then
    self.kept[#self.kept + 1], self.added[#self.added + 1] = row.kept_tokens, row.input_tokens - row.kept_tokens
  end
  self.references = self.references + row.blocks
  if row.failed then self.failed = self.failed + 1 end
  if row.max_id and row.max_id > (self.max_id or -1) then self.max_id = row.max_id end
  if row.session then
    local session = self.sessions[row.session]
    if not session then
      self.n_sessions = self.n_sessions + 1
      session = { turns = 0 }
      self.sessions[row.session] = session
    elseif row.arrival_ms and session.arrival_ms then
      self.gaps[#self.gaps + 1] = (row.arrival_ms - session.arrival_ms) / 1000
      self.growth[#self.growth + 1] = row.input_tokens - session.input_tokens
    end
    session.turns, session.arrival_ms, session.input_tokens = session.turns + 1, row.arrival_ms, row.input_tokens
  end
end

function Collector:result()
  local out = { rows = self.rows, input_tokens = M.summary(self.input), output_tokens = M.summary(self.output),
    arrivals = M.arrivals(self.times), prefix_tokens = M.summary(self.kept), append_tokens = M.summary(self.added) }
  if self.references > 0 then out.block_references, out.max_hash_id = self.references, self.max_id end
  if self.failed > 0 then out.failed_rows = self.failed end
  if self.n_sessions > 0 then
    local turns = {}
    for _, session in pairs(self.sessions) do turns[#turns + 1] = session.turns end
    out.sessions, out.turns_per_session = self.n_sessions, M.summary(turns)
    out.gap_between_turns_s, out.input_growth_per_turn = M.summary(self.gaps), M.summary(self.growth)
  end
  return out
end

--- Statistics of the rows of a trace.
---@param paths string[]
---@param options? table   of core.trace
function M.rows(paths, options)
  local rows, all = core.trace(paths, options or {}), M.collector()
  local row = rows:next()
  while row do
    all:add(row)
    row = rows:next()
  end
  local out = all:result()
  out.format, out.block_size = rows:about()
  return out
end

--- Statistics of plays: every request a row, every conversation a session, times on the play clock.
function M.plays(plays, format)
  local all, lengths, requests, conversations, nested = M.collector(), {}, {}, 0, 0
  for play in plays:each() do
    local last = 0
    for _, request in ipairs(play.requests) do
      request.session = play.ordinal .. "/" .. request.conversation
      request.arrival_ms = request.start_ms
      last = math.max(last, request.end_ms)
      if request.inner then nested = nested + 1 end
      all:add(request)
    end
    lengths[#lengths + 1], requests[#requests + 1] = last / 1000, #play.requests
    conversations = conversations + play.conversations
  end
  local out = all:result()
  out.arrivals = nil -- every play has a clock of its own
  out.format, out.block_size, out.plays, out.conversations = format, plays.block_size, #plays, conversations
  out.play_length_s, out.requests_per_play = M.summary(lengths), M.summary(requests)
  out.requests_in_subagents = nested
  return out
end

return M
