--- The AgentX client once more, from the text of spec/traffic.md §2 alone: plain lists, every rule looked
-- up anew at every instant. Slow and short; tests/twin/agentx_compare.lua holds it against the product.
--
-- In: lowered plays (as plays:each() hands them out), a config with every key, the draws u[lane], a stub
-- server as vectors/README.md describes it. Out: the object "expect" of an agentx vector. Times are
-- whole nanoseconds here, milliseconds in the result.
local cut = require "agentx_twin_cut"

local M = {}

local ns <const> = cut.ns
local function ms(t) return t and t / 1e6 end

-- The run ------------------------------------------------------------------------------------------

local function service_ns(run, key, input, output)
  local s = run.server
  local given = s.service_ms and s.service_ms[key]
  return ns(given or (s.fixed_ms or 0) + (s.per_input_token_ms or 0) * input + (s.per_output_token_ms or 0) * output)
end

local function send(run, lane, key, input, output, done)
  run.dispatch[#run.dispatch + 1] = { key, ms(run.now) }
  local fails = false
  for _, name in ipairs(run.server.fail or {}) do fails = fails or name == key end
  local flight = { lane = lane, key = key, fails = fails, sent = run.now, order = #run.dispatch,
    at = run.now + service_ns(run, key, input, output), done = done }
  run.flights[#run.flights + 1] = flight
  return flight
end

--- Removes and returns the flights that end now, in the order of their sending.
local function landed(run)
  local now, rest = {}, {}
  for _, flight in ipairs(run.flights) do
    if flight.at == run.now then now[#now + 1] = flight else rest[#rest + 1] = flight end
  end
  run.flights = rest
  return now
end

local function next_landing(run)
  local at = math.huge
  for _, flight in ipairs(run.flights) do at = math.min(at, flight.at) end
  return at
end

-- Preparation, 2.3 ---------------------------------------------------------------------------------

local function preparation_request(run, lane, prefix, i)
  local request = lane.play[i]
  local flight = send(run, lane, prefix .. request.name, request.input, 1)
  run.settled_at = math.max(run.settled_at, flight.at + run.settle)
  return flight
end

--- Sends one after the other in each lane what next(lane) says, all lanes side by side, until none has more.
--- @return time of the last terminal
local function phase_of_preparation(run, phase, next_of, counter)
  local last, failed = run.now, nil
  for _, lane in ipairs(run.lanes) do lane.busy = nil end
  while true do
    for _, lane in ipairs(run.lanes) do
      local i, prefix = nil, nil
      if not lane.busy and not failed then i, prefix = next_of(lane) end
      if i then
        lane.busy = preparation_request(run, lane, prefix, i)
        run.counts[counter] = run.counts[counter] + 1
      end
    end
    local at = next_landing(run)
    if at == math.huge then break end
    run.now, last = at, at
    for _, flight in ipairs(landed(run)) do
      flight.lane.busy = nil
      if flight.fails and (not failed or at == failed.at and flight.lane.number < failed.lane) then
        failed = { at = at, lane = flight.lane.number, key = flight.key }
      end
    end
  end
  if failed then
    run.failed = { phase = phase, request = failed.key, t_ms = ms(failed.at) }
    error(run, 0)
  end
  return last
end

local function next_primer(lane)
  lane.primed = (lane.primed or 0) + 1
  local i = lane.cut.primers[lane.primed]
  if i then return i, ("primer/%d/"):format(lane.number) end
end

local function earliest_retained(lane)
  for i = 1, lane.play.n do
    if not lane.cut.history[i] then return i end
  end
end

local function next_ahead(lane)
  local history, retained, found = lane.cut.history, 0, nil
  for i = 1, lane.play.n do
    if not history[i] then
      retained = retained + 1
      local free = true
      for _, edge in ipairs(lane.play[i].after) do free = free and history[edge.source] end
      if free and not found then found = i end
    end
  end
  if retained < 2 then return nil end
  return found
end

local function next_warmup(run)
  return function(lane)
    lane.warmed = lane.warmed or 0
    if lane.warmed >= run.config.warmup_requests_per_lane then return nil end
    local i
    if run.config.warmup_mode == "advance" then
      i = next_ahead(lane)
      if not i then return nil end
      lane.cut.history[i] = true
      lane.cut.t_star = math.max(lane.cut.t_star, lane.play[i].stop)
    else
      local primers = lane.cut.primers
      i = #primers > 0 and primers[lane.warmed % #primers + 1] or earliest_retained(lane)
    end
    lane.warmed = lane.warmed + 1
    return i, ("warmup/%d/%d/"):format(lane.number, lane.warmed - 1)
  end
end

local function prepare(run)
  local config = run.config
  if not config.warmup then return end
  run.phases.primer_end_ms = ms(phase_of_preparation(run, "primer", next_primer, "primer_requests"))
  run.phases.warmup_end_ms = ms(phase_of_preparation(run, "warmup", next_warmup(run), "warmup_requests"))
  run.now = math.max(run.now, run.settled_at)
end

-- Plays in lanes, 2.4 ------------------------------------------------------------------------------

--- Sets ready times of requests whose edges have all fired. gate and fired terms are absolute times.
local function start_play(run, lane, play, at)
  local speed = run.config.speedup
  lane.play, lane.state, lane.gate, lane.fired = play, {}, {}, {}
  lane.idle_since, lane.failed, lane.last = run.now, false, nil
  local record = { lane = lane.number, k = lane.k, slot = lane.k * run.config.lanes + lane.number, id = play.id,
    source = lane.source, start_ms = ms(run.now), start = run.now, planned = 0, issued = 0, successful = 0, failed = 0,
    cancelled = 0, status = "incomplete", unsettled = 0, first_dispatch = at and run.now or nil }
  lane.record = record
  run.plays[#run.plays + 1] = record
  local root = math.huge
  for i = 1, play.n do
    if #play[i].after == 0 then root = math.min(root, play[i].start) end
  end
  for i = 1, play.n do
    lane.fired[i] = {}
    if at and at.history[i] then
      lane.state[i] = "history"
    else
      lane.state[i] = "unsent"
      record.planned = record.planned + 1
      if at then
        lane.gate[i] = run.now + cut.remaining(play, at.history, i, at.t_star, run.config.authored_gate) / speed
      elseif run.config.authored_gate or #play[i].after == 0 then
        lane.gate[i] = run.now + (play[i].start - root) / speed
      else
        lane.gate[i] = run.now
      end
    end
  end
end

--- Time at which a request may be sent, nil while an edge has not fired.
local function ready_at(lane, i)
  if lane.state[i] ~= "unsent" then return nil end
  local at = lane.gate[i]
  for k, edge in ipairs(lane.play[i].after) do
    if lane.state[edge.source] ~= "history" then
      if not lane.fired[i][k] then return nil end
      at = math.max(at, lane.fired[i][k])
    end
  end
  return at
end

local function fire(run, lane, source, dispatch)
  for i = 1, lane.play.n do
    for k, edge in ipairs(lane.play[i].after) do
      if edge.source == source and edge.dispatch == dispatch then
        lane.fired[i][k] = run.now + edge.delay / run.config.speedup
      end
    end
  end
end

local function outstanding(lane)
  local n = 0
  for i = 1, lane.play and lane.play.n or 0 do n = n + (lane.state[i] == "sent" and 1 or 0) end
  return n
end

local function is_over(lane)
  for i = 1, lane.play.n do
    if lane.state[i] == "unsent" or lane.state[i] == "sent" then return false end
  end
  return true
end

local function retire(run, lane)
  local record = lane.record
  record.end_ms = ms(run.now)
  record.retired = true
  if record.status ~= "failed" then
    record.status = "completed"
    record.e2e_ms = ms(run.now - (record.first_dispatch or run.now))
  end
  lane.play = nil
end

local function terminal(run, flight)
  local lane, record, i, counts = flight.lane, flight.record, flight.node, run.counts
  lane.state[i] = "ended"
  lane.idle_since, run.idle_since = run.now, run.now
  flight.settles = run.now + run.settle
  if flight.cancelled then
    counts.cancelled, record.cancelled = counts.cancelled + 1, record.cancelled + 1
    if record.status == "failed" and outstanding(lane) == 0 then retire(run, lane) end
    return
  end
  if flight.fails then
    counts.failed, record.failed = counts.failed + 1, record.failed + 1
  else
    counts.successful, record.successful = counts.successful + 1, record.successful + 1
    run.first_arrival = math.min(run.first_arrival, flight.sent)
    run.last_success = run.now
  end
  if flight.fails and run.config.on_error == "fail_play" then
    local cause = record.cause
    if not cause or cause.at == run.now and i < cause.node then
      record.cause = { request = flight.key, t_ms = ms(run.now), at = run.now, node = i }
    end
    record.status = "failed"
    for n = 1, lane.play.n do
      if lane.state[n] == "unsent" then lane.state[n] = "skipped" end
    end
  end
  if record.status ~= "failed" then fire(run, lane, i, false) end
  if is_over(lane) then retire(run, lane) end
end

local function refill(run)
  for _, lane in ipairs(run.lanes) do
    if not lane.play then
      lane.k, lane.source = lane.k + 1, run.cursor
      run.cursor = (run.cursor + 1) % #run.corpus
      start_play(run, lane, run.corpus[lane.source + 1], nil)
    end
  end
end

--- Pending timers of a lane: number and earliest.
local function timers(lane)
  local n, first = 0, math.huge
  for i = 1, lane.play and lane.play.n or 0 do
    local at = ready_at(lane, i)
    if at then n, first = n + 1, math.min(first, at) end
  end
  return n, first
end

local function shift(lane, by)
  for i = 1, lane.play.n do
    if lane.state[i] == "unsent" then
      lane.gate[i] = lane.gate[i] - by
      for k, at in pairs(lane.fired[i]) do lane.fired[i][k] = at - by end
    end
  end
end

local function tree_guard_at(run, lane)
  local n, first = timers(lane)
  if n == 0 or outstanding(lane) > 0 then return math.huge end
  local at = lane.idle_since + run.tree_cap
  return first > at and at or math.huge
end

local function global_guard_at(run)
  local first = math.huge
  for _, lane in ipairs(run.lanes) do
    if outstanding(lane) > 0 then return math.huge end
    local _, at = timers(lane)
    first = math.min(first, at)
  end
  local at = run.idle_since + run.global_cap
  return first < math.huge and first > at and at or math.huge
end

local function note_shift(run, scope, by, n)
  run.shifts[#run.shifts + 1] = { at_ms = ms(run.now), scope = scope, shifted_by_ms = ms(by), timers = n }
end

local function guards(run)
  for _, lane in ipairs(run.lanes) do
    if tree_guard_at(run, lane) <= run.now then
      local n, first = timers(lane)
      note_shift(run, ("%d.%d"):format(lane.number, lane.k), first - run.now, n)
      shift(lane, first - run.now)
    end
  end
  if global_guard_at(run) <= run.now then
    local total, first = 0, math.huge
    for _, lane in ipairs(run.lanes) do
      local n, at = timers(lane)
      total, first = total + n, math.min(first, at)
    end
    note_shift(run, "global", first - run.now, total)
    local by = first - run.now
    for _, lane in ipairs(run.lanes) do shift(lane, by) end
  end
end

local function send_ready(run)
  while true do
    local lane, node
    for _, l in ipairs(run.lanes) do
      for i = 1, l.play and l.play.n or 0 do
        local at = ready_at(l, i)
        if at and at <= run.now and not lane then lane, node = l, i end
      end
    end
    if not lane then return end
    local request, record = lane.play[node], lane.record
    lane.state[node] = "sent"
    local key = ("%d.%d/%s"):format(lane.number, lane.k, request.name)
    local flight = send(run, lane, key, request.input, request.output)
    flight.node, flight.record = node, record
    run.profile[#run.profile + 1] = flight
    run.counts.issued, record.issued = run.counts.issued + 1, record.issued + 1
    run.first_request = run.first_request or run.now
    record.first_dispatch = record.first_dispatch or run.now
    fire(run, lane, node, true)
  end
end

local function profile(run)
  local deadline = run.now + ns(1000 * run.config.profile.duration_seconds)
  run.deadline = deadline
  while true do
    for _, flight in ipairs(landed(run)) do terminal(run, flight) end
    if run.now == deadline then return end
    refill(run)
    guards(run)
    send_ready(run)
    local at = math.min(deadline, next_landing(run), global_guard_at(run))
    for _, lane in ipairs(run.lanes) do
      local _, first = timers(lane)
      at = math.min(at, first, tree_guard_at(run, lane))
    end
    run.now = at
  end
end

local function finish(run)
  local grace = run.deadline + ns(1000 * run.config.profile.response_grace_seconds)
  while #run.flights > 0 and run.now < grace do
    run.now = math.min(grace, next_landing(run))
    for _, flight in ipairs(landed(run)) do terminal(run, flight) end
  end
  run.grace_end = run.now
  if #run.flights > 0 then
    local drain = run.now + ns(1000 * run.config.profile.cancel_drain_seconds)
    for _, flight in ipairs(run.flights) do
      flight.cancelled, flight.at = true, run.now + ns(run.server.cancel_ack_ms or 0)
    end
    while #run.flights > 0 and next_landing(run) <= drain do
      run.now = next_landing(run)
      for _, flight in ipairs(landed(run)) do terminal(run, flight) end
    end
    if #run.flights > 0 then run.now = drain end
  end
  run.counts.in_flight = #run.flights
end

-- Accounting, 2.6 ----------------------------------------------------------------------------------

local function account(run)
  local counts, plays = run.counts, run.plays
  for _, flight in ipairs(run.profile) do
    if not flight.settles or flight.settles > run.now then
      counts.unsettled = counts.unsettled + 1
      flight.record.unsettled = flight.record.unsettled + 1
    end
  end
  table.sort(plays, function(a, b)
    if a.start ~= b.start then return a.start < b.start end
    return a.lane < b.lane
  end)
  for _, p in ipairs(plays) do
    p.never_issued = p.planned - p.issued
    counts.planned, counts.plays_started = counts.planned + p.planned, counts.plays_started + 1
    local add = { plays_client_completed = p.status == "completed", plays_failed = p.status == "failed",
      plays_retired = p.retired, plays_server_quiescent = p.retired and p.unsettled == 0 }
    for name, yes in pairs(add) do counts[name] = counts[name] + (yes and 1 or 0) end
    if p.cause then p.cause.at, p.cause.node = nil, nil end
    p.start, p.retired, p.unsettled, p.first_dispatch = nil, nil, nil, nil
  end
  counts.never_issued = counts.planned - counts.issued
  counts.corpus_cursor = run.cursor
end

local COUNTS <const> = { "primer_requests", "warmup_requests", "planned", "issued", "successful", "failed", "cancelled",
  "in_flight", "never_issued", "unsettled", "plays_started", "plays_client_completed", "plays_failed", "plays_retired",
  "plays_server_quiescent" }

--- @param plays list of lowered plays   @param config table   @param u number[]? by lane   @param server table
--- @return expect of an agentx vector
function M.run(plays, config, u, server)
  local run = { config = config, server = server, now = 0, dispatch = {}, flights = {}, shifts = {}, plays = {},
    profile = {}, phases = {}, counts = {}, corpus = {}, lanes = {}, settled_at = 0, settle = ns(server.settle_ms or 0),
    cursor = config.lanes % #plays, first_arrival = math.huge,
    tree_cap = ns(1000 * config.profile.tree_idle_cap_seconds),
    global_cap = ns(1000 * config.profile.global_idle_cap_seconds) }
  for _, name in ipairs(COUNTS) do run.counts[name] = 0 end
  for i, play in ipairs(plays) do run.corpus[i] = cut.prepared(play) end
  local ok, problem = pcall(function()
    for lane = 0, config.lanes - 1 do
      local source = lane % #plays
      local play = run.corpus[source + 1]
      run.lanes[lane + 1] = { number = lane, k = 0, source = source, play = play,
        cut = cut.snapshot(play, config, u and u[lane + 1] or 0) }
    end
    prepare(run)
    run.phases.barrier_ms, run.idle_since = ms(run.now), run.now
    for _, lane in ipairs(run.lanes) do start_play(run, lane, lane.play, lane.cut) end
    profile(run)
    finish(run)
  end)
  if not ok and problem == run then
    return { failed = run.failed, dispatch = run.dispatch, phases = run.phases, plays = {}, counts = run.counts }
  elseif not ok then
    if type(problem) == "table" then return problem end
    error(problem, 0)
  end
  local phases = run.phases
  phases.cutoff_ms, phases.grace_end_ms, phases.drain_end_ms = ms(run.deadline), ms(run.grace_end), ms(run.now)
  account(run)
  local span = run.last_success and run.last_success - run.first_arrival or 0
  return {
    dispatch = run.dispatch, phases = run.phases, counts = run.counts, shifts = run.shifts, plays = run.plays,
    observation = { first_request_ms = ms(run.first_request), last_success_ms = ms(run.last_success),
      duration_ms = ms(span), throughput_rps = span > 0 and run.counts.successful / (span / 1e9) or nil },
  }
end

return M
