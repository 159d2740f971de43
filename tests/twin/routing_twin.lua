--- Routers once more, from the text of spec/routing.md alone: sets and loops over all targets, everything
-- recomputed at every decision. tests/twin/routing_compare.lua holds it against the product.
--
-- M.run(vector) plays the events of a vector of kind "route" (vectors/README.md) and returns the list of
-- steps, one per event: what the vector would expect. Targets are positions in their list, from 0.
local hash = require "routing_twin_hash"
local pickers = require "routing_twin_pick"

local M = {}

local DEFAULTS <const> = {
  block_size = 64, cache_view = "events", event_delay_ms = 0, ttl_ms = 120000, telemetry_period_ms = 0, key = "session",
  prefix_blocks = 1, ties = "lowest", inner = "round_robin", overlap_score_credit = 1, host_credit = 0.75,
  disk_credit = 0.25, shared_credit = 0, prefill_load_scale = 1, active_request_weight = 0, overlap_decay = 0,
  temperature = 0, overlap_weight = 1, track_prefill = true, track_output_blocks = false, threshold = 0.5,
  balance_abs = 32, balance_rel = 1.0001, load_factor = 1.25, auto_accept = true,
}

-- What is known of the targets -----------------------------------------------------------------------

--- Is the block on the target, as far as the router may know now?
local function present(router, target, tier, block)
  if tier == "shared" then return router.shared[block] end
  if router.config.cache_view == "approximate" then
    local until_ms = tier == "device" and target.assumed[block]
    return until_ms and router.now < until_ms
  end
  return target[tier][block]
end

--- D, H, K, S: every tier goes on where the one above it ends.
local function tiers_of(router, target, request)
  local out, at = {}, 1
  for i, tier in ipairs { "device", "host", "disk", "shared" } do
    out[i] = 0
    while request.blocks[at] and present(router, target, tier, request.blocks[at]) do
      out[i], at = out[i] + 1, at + 1
    end
  end
  return out
end

--- Blocks of a request on a target: shared identities by name, the others as a number.
local function blocks_of(router, request)
  local tokens = request.tokens
  if router.config.track_output_blocks then tokens = tokens + request.generated end
  return math.max(0, -(-tokens // router.config.block_size) - #request.blocks)
end

local function book_of(router, target)
  local book, named = { active_requests = 0, active_prefill_tokens = 0, active_blocks = 0 }, {}
  for _, request in ipairs(router.requests) do
    if request.target == target and request.accepted and not request.finished then
      book.active_requests = book.active_requests + 1
      if router.config.track_prefill and not request.first then
        book.active_prefill_tokens = book.active_prefill_tokens + request.uncached
      end
      for _, block in ipairs(request.blocks) do
        if not named[block] then book.active_blocks = book.active_blocks + 1 end
        named[block] = true
      end
      book.active_blocks = book.active_blocks + blocks_of(router, request)
    end
  end
  return book, named
end

--- Telemetry as of the last sample.
local function telemetry_of(router, target)
  local period = router.config.telemetry_period_ms
  local seen = { waiting = 0, running = 0, kv_used = 0, kv_total = target.kv_total }
  local at = period > 0 and router.now // period * period or router.now
  for _, report in ipairs(target.reports) do
    if report.at_ms <= at then
      for name in pairs(seen) do seen[name] = report[name] or seen[name] end
    end
  end
  return seen
end

-- Decisions ------------------------------------------------------------------------------------------

local function excluded(request, target)
  for _, number in ipairs(request.exclude or {}) do
    if number == target.number then return true end
  end
end

--- Candidates in (worker, rank) order with all that a policy may look at.
local function eligible(router, request)
  local limits, list = router.config.overload or {}, {}
  for _, target in ipairs(router.ordered) do
    local book, named = book_of(router, target)
    local seen = telemetry_of(router, target)
    local overloaded = limits.active_prefill_tokens and book.active_prefill_tokens > limits.active_prefill_tokens
      or limits.active_blocks_ratio and book.active_blocks > limits.active_blocks_ratio * seen.kv_total
    if target.state == "up" and not excluded(request, target) and not overloaded then
      list[#list + 1] = { target = target, book = book, named = named, seen = seen, load = book.active_requests,
        tiers = tiers_of(router, target, request) }
    end
  end
  return list
end

local function find(list, target)
  for _, candidate in ipairs(list) do
    if candidate.target == target then return candidate end
  end
end

local function affinity_key(router, request)
  local mode = router.affinity and router.affinity.mode
  if not mode then return nil end
  if mode == "sibling_group" and request.parent then return ("%s/%s/*"):format(request.play, request.parent) end
  return ("%s/%s"):format(request.play, request.session)
end

local function is_active(request) return request.accepted and not request.finished end

--- Live: a lease is held, or the TTL after the last release has not passed.
local function live_binding(router, key)
  local binding = router.bindings[key]
  if not binding then return nil end
  local held, released = false, binding.at
  for _, request in ipairs(router.requests) do
    if request.key == key then
      held = held or is_active(request)
      if request.finished then released = math.max(released, request.finished) end
    end
  end
  local ttl = router.affinity.ttl_seconds
  if held or not ttl or router.now < released + 1000 * ttl then return binding.target end
  router.bindings[key] = nil
end

local function is_unanswered(request) return request.target and not request.accepted and not request.refused end

--- The first choice made for the key, as long as a dispatch of the key is unanswered and its target was not lost.
local function tentative(router, request)
  for _, other in ipairs(router.requests) do
    if other ~= request and other.key == request.key and is_unanswered(other) then
      return router.tentative[request.key]
    end
  end
  router.tentative[request.key] = nil
end

--- A router queue holds while every candidate has more prefill than the threshold.
local function held_back(router, list)
  local queue = router.config.queue
  if not (queue and queue.threshold) then return false end
  for _, candidate in ipairs(list) do
    if candidate.book.active_prefill_tokens <= queue.threshold * queue.max_batched_tokens then return false end
  end
  return true
end

local function choose(router, request, step)
  local list = eligible(router, request)
  if request.pin then
    local pinned = find(list, router.targets[request.pin + 1])
    return pinned, "pin", list
  end
  if #list == 0 or held_back(router, list) then return nil, nil, list end
  local bound
  if request.key then
    bound = live_binding(router, request.key)
    local soft = router.affinity.binding == "soft"
    if not soft then
      local found = bound and find(list, bound)
      if found then return found, "binding", list end
      local other = not bound and tentative(router, request)
      found = other and find(list, other)
      if found then return found, "tentative", list end
      bound = nil
    end
  end
  return pickers.pick(router, request, list, bound, step), "policy", list
end

local function accept(router, request)
  request.accepted = true
  if request.key and not live_binding(router, request.key) then
    router.bindings[request.key] = { target = request.target, at = router.now }
  end
  for _, block in ipairs(request.blocks) do
    request.target.assumed[block] = router.now + router.config.ttl_ms
  end
end

--- @return true when the request has a target now
local function route(router, request, step)
  local chosen, by, list = choose(router, request, step)
  if not chosen then return false end
  local best = 0
  for _, candidate in ipairs(list) do best = math.max(best, candidate.tiers[1]) end
  if request.key then router.tentative[request.key] = tentative(router, request) or chosen.target end
  request.target = chosen.target
  request.uncached = request.tokens - chosen.tiers[1] * router.config.block_size
  step.target, step.by = chosen.target.number, by
  step.chosen_overlap, step.best_overlap, step.regret = chosen.tiers[1], best, best - chosen.tiers[1]
  if router.config.auto_accept then accept(router, request) end
  return true
end

-- The queue ------------------------------------------------------------------------------------------

local function enqueue(router, request)
  local best = 0
  for _, target in ipairs(router.targets) do -- one that may not serve has nothing to offer
    if target.state == "up" then best = math.max(best, tiers_of(router, target, request)[1]) end
  end
  request.urgency = request.weight / math.max(1, request.tokens - best * router.config.block_size)
  local order = router.config.queue and router.config.queue.order or "fcfs"
  local at = #router.queue + 1
  if order == "lcfs" then
    at = 1
  elseif order == "wspt" then
    while at > 1 and router.queue[at - 1].urgency < request.urgency do at = at - 1 end
  end
  table.insert(router.queue, at, request)
end

local function retry(router, step)
  local routed = {}
  while router.queue[1] do
    local request = router.queue[1]
    local scratch = { draws = request.draws }
    if not route(router, request, scratch) then break end
    table.remove(router.queue, 1)
    routed[#routed + 1] = { request.id, request.target.number }
  end
  step.routed = routed
end

-- Events ---------------------------------------------------------------------------------------------

local function add_target(router, description, number)
  local target = { number = number, worker = description.worker, rank = description.rank,
    weight = description.weight or 1, kv_total = description.kv_total or 0, state = description.state or "up",
    reports = {}, device = {}, host = {}, disk = {}, assumed = {} }
  router.targets[number + 1] = target
  router.ordered[#router.ordered + 1] = target
  table.sort(router.ordered, function(a, b)
    if a.worker ~= b.worker then return a.worker < b.worker end
    return a.rank < b.rank
  end)
end

--- KV events become visible event_delay_ms after they happened.
local function show_events(router)
  local later = {}
  for _, event in ipairs(router.pending) do
    if event.at_ms + router.config.event_delay_ms <= router.now then
      local target = router.targets[event.target + 1]
      if event.op == "cleared" then target[event.tier] = {} end
      for _, block in ipairs(event.blocks or {}) do
        target[event.tier][block] = event.op == "stored" or nil
      end
    else
      later[#later + 1] = event
    end
  end
  router.pending = later
end

local OPS <const> = {}

function OPS.arrive(router, event, step)
  local request = { weight = 1, generated = 0, arrival = router.now }
  for name, value in pairs(event) do request[name] = value end
  request.key = affinity_key(router, request)
  router.requests[#router.requests + 1] = request
  router.by_id[request.id] = request
  step.draws = request.draws
  if #router.queue > 0 or not route(router, request, step) then enqueue(router, request) end
end

function OPS.accept(router, event) accept(router, router.by_id[event.id]) end

function OPS.refuse(router, event)
  local request = router.by_id[event.id]
  request.refused, request.finished = true, nil
end

function OPS.tokens(router, event) router.by_id[event.id].generated = event.generated end

function OPS.first_token(router, event, step)
  router.by_id[event.id].first = true
  retry(router, step)
end

function OPS.done(router, event, step)
  router.by_id[event.id].finished = router.now
  retry(router, step)
end

function OPS.worker(router, event, step)
  local target = router.targets[event.target + 1]
  if not target then
    add_target(router, event, event.target)
    target = router.targets[event.target + 1]
  end
  target.state = event.state
  if event.state ~= "up" then
    for key, binding in pairs(router.bindings) do
      if binding.target == target then router.bindings[key] = nil end
    end
    for key, choice in pairs(router.tentative) do
      if choice == target then router.tentative[key] = nil end
    end
  else
    retry(router, step)
  end
end

function OPS.telemetry(router, event)
  local reports = router.targets[event.target + 1].reports
  reports[#reports + 1] = event
end

function OPS.shared(router, event)
  for _, block in ipairs(event.blocks) do router.shared[block] = true end
end

function OPS.look() end

local function queue_event(router, event) router.pending[#router.pending + 1] = event end
OPS.stored, OPS.removed, OPS.cleared = queue_event, queue_event, queue_event

local function describe(router, step)
  step.queue, step.book, step.bindings, step.leases = {}, {}, {}, {}
  for i, request in ipairs(router.queue) do step.queue[i] = request.id end
  for i, target in ipairs(router.targets) do step.book[i] = book_of(router, target) end
  for key in pairs(router.bindings) do
    local target = live_binding(router, key)
    step.bindings[key] = target and target.number
  end
  for _, request in ipairs(router.requests) do
    if request.key and is_active(request) then step.leases[request.key] = (step.leases[request.key] or 0) + 1 end
  end
end

--- @param vector table   config, targets, events   @return table[] steps
function M.run(vector)
  local config = {}
  for name, value in pairs(DEFAULTS) do config[name] = value end
  for name, value in pairs(vector.config) do config[name] = value end
  local router = { config = config, targets = {}, ordered = {}, requests = {}, by_id = {}, queue = {}, pending = {},
    shared = {}, bindings = {}, tentative = {}, affinity = config.affinity, hash = hash }
  if config.policy == "session" or config.policy == "sibling_group" then
    router.affinity, config.policy = { mode = config.policy }, config.inner
  end
  for i, description in ipairs(vector.targets) do add_target(router, description, i - 1) end
  local steps = {}
  for i, event in ipairs(vector.events) do
    local step = {}
    router.now = event.at_ms
    if event.op == "stored" or event.op == "removed" or event.op == "cleared" then queue_event(router, event) end
    show_events(router)
    if not event.tier then OPS[event.op](router, event, step) end
    describe(router, step)
    step.draws = nil
    steps[i] = step
  end
  return steps
end

return M
