--- Holds the routers of the product against their twin (routing_twin.lua) on made-up event lists.
--
--     lua5.4 tests/twin/routing_compare.lua DRIVER [--count N] [--seed S] [--vectors FILE]
--
-- DRIVER is build/tests/routing_driver. --vectors takes the events of a file instead and holds its
-- expectations against the twin as well. Exit status 1 at a difference; its case is printed as a vector.
local here = arg[0]:match "^(.*)/[^/]*$" or "."
package.path = ("%s/?.lua;%s/../conformance/?.lua;%s"):format(here, here, package.path)
local cjson = require "cjson"
local support = require "support"
local made = require "made"
local twin = require "routing_twin"

local options = made.flags(2, true)
local driver = assert(arg[1], "usage: routing_compare.lua DRIVER [--count N] [--seed S] [--vectors FILE]")

-- Cases --------------------------------------------------------------------------------------------

local random <const>, pick <const>, chance <const> = made.random, made.pick, made.chance

local POLICIES <const> = { "round_robin", "random", "least_requests", "least_tokens", "least_kv", "shortest_queue",
  "p2c", "weighted_random", "hash", "hash_bounded", "prefix", "kv", "kv", "kv", "kv_v1" }

local function made_config()
  local config = { policy = pick(POLICIES), block_size = pick { 16, 64 } }
  local overlaps = config.policy:find "^kv" or config.policy == "prefix" or config.policy == "least_tokens"
  if overlaps and chance(20) then
    config.cache_view, config.ttl_ms = "approximate", pick { 40, 200 }
  elseif overlaps and chance(30) then
    config.event_delay_ms = pick { 1, 7, 25 }
  end
  if config.policy:find "^least" or config.policy == "shortest_queue" then
    if chance(40) then config.ties = "random" end
    if config.policy ~= "least_requests" and config.policy ~= "least_tokens" and chance(40) then
      config.telemetry_period_ms = pick { 5, 20, 50 }
    end
  elseif config.policy:find "^hash" then
    config.key = pick { "session", "root", "user", "prefix" }
    if config.key == "prefix" then config.prefix_blocks = random(3) end
    if config.policy == "hash_bounded" then config.load_factor = pick { 1, 1.25, 2 } end
  elseif config.policy == "prefix" then
    config.threshold = pick { 0, 0.25, 0.5, 1 }
    config.balance_abs, config.balance_rel = pick { 0, 1, 32 }, pick { 1.0001, 1.5, 3 }
  elseif config.policy == "kv" then
    config.overlap_score_credit = pick { 0, 0.5, 1 }
    config.prefill_load_scale = pick { 0, 1, 4 }
    config.active_request_weight = pick { 0, 0, 2 }
    config.overlap_decay = pick { 0, 0, 0.5 }
    config.temperature = pick { 0, 0, 0.5, 1 }
    config.shared_credit = pick { 0, 0.5 }
    config.track_prefill = not chance(20)
  elseif config.policy == "kv_v1" then
    config.overlap_weight = pick { 0, 1, 2 }
  end
  config.track_output_blocks = chance(20) or nil
  if chance(25) then config.overload = pick { { active_prefill_tokens = 300 }, { active_blocks_ratio = 0.5 } } end
  if chance(25) then
    config.queue = pick { { order = "lcfs" }, { order = "wspt" }, { threshold = 0.5, max_batched_tokens = 512 },
      { order = "wspt", threshold = 0.25, max_batched_tokens = 1024 } }
  end
  if chance(30) then
    config.affinity = { mode = pick { "session", "sibling_group" }, ttl_seconds = pick { 1, 1.25, 10 } }
    if config.policy:find "^kv" and chance(40) then
      config.affinity.binding, config.affinity.soft_factor = "soft", pick { 0.25, 0.5 }
    end
  end
  if chance(30) then config.auto_accept = false end
  return config
end

local function made_arrival(i, block_size, n_targets, config)
  local event = { op = "arrive", id = "r" .. i, blocks = {}, play = tostring(random(2)), session = "s" .. random(4),
    user = chance(70) and "u" .. random(3) or nil, weight = chance(30) and random(8) or nil }
  if chance(40) then
    event.parent = "p" .. random(2)
    event.root = "p" .. random(2)
  end
  local tree, depth = 100 * random(3), random(9) - 1
  for k = 1, depth do event.blocks[k] = tree + k + (k > 4 and 10 * random(2) or 0) end
  for k = 6, depth do event.blocks[k] = event.blocks[5] * 100 + k end -- equal id = equal prefix
  event.tokens = #event.blocks * block_size + random(block_size * 3)
  if event.tokens == 0 then event.tokens = 1 end
  if not config.affinity and chance(5) then event.pin = random(n_targets) - 1 end
  if chance(8) then event.exclude = { random(n_targets) - 1 } end
  event.draws = {}
  for k = 1, 8 do event.draws[k] = (random(1024) - 1) / 1024 end
  return event
end

local function made_kv_event(n_targets)
  local tree = 100 * random(3)
  local event = { op = chance(70) and "stored" or "removed", target = random(n_targets) - 1,
    tier = pick { "device", "device", "host", "disk" }, blocks = {} }
  if chance(4) then
    event.op, event.blocks = "cleared", nil
    return event
  end
  local from = random(4)
  for k = from, from + random(4) do event.blocks[#event.blocks + 1] = tree + k + (k > 4 and 10 or 0) end
  return event
end

local function made_case(number)
  made.begin(options.seed, number)
  local case = { name = ("seed %d case %d"):format(options.seed, number), kind = "route", config = made_config(),
    targets = {}, events = {} }
  for i = 1, random(5) do
    case.targets[i] = { worker = (i + 1) // 2, rank = (i + 1) % 2 + 1, weight = pick { 1, 1, 2, 0.5 }, kv_total = 40 }
  end
  if chance(20) then case.targets[1].weight = #case.targets > 1 and 0 or 1 end
  local n_targets, now, live, n = #case.targets, 0, {}, 0
  local function add(event)
    now = now + random(12)
    if chance(5) then now = now + 600 end
    event.at_ms = now
    case.events[#case.events + 1] = event
  end
  for _ = 1, 20 + random(40) do
    local what = random(100)
    if what <= 35 then
      n = n + 1
      live[#live + 1] = { id = "r" .. n }
      add(made_arrival(n, case.config.block_size, n_targets, case.config))
    elseif what <= 55 and #live > 0 then
      add { op = "progress", request = live[random(#live)] } -- becomes what the request allows, below
    elseif what <= 75 then
      add(made_kv_event(n_targets))
    elseif what <= 85 then
      add { op = "telemetry", target = random(n_targets) - 1, waiting = random(4) - 1, running = random(4) - 1,
        kv_used = random(41) - 1 }
    elseif what <= 89 then
      add { op = "worker", target = random(n_targets) - 1, state = pick { "drain", "down", "up", "up" } }
    elseif what <= 91 and n_targets < 7 and case.config.policy ~= "least_kv" then -- a new one has no kv_total
      add { op = "worker", target = n_targets, worker = 1 + n_targets // 2, rank = 3 + n_targets, state = "up" }
      n_targets = n_targets + 1
    elseif what <= 94 then
      add { op = "shared", blocks = { 100 * random(3) + random(8) } }
    else
      add { op = "look" }
    end
  end
  return case
end

--- Where the request is after the events so far: its target, or nil while it queues.
local function target_of(case, events, id)
  local target
  for i, step in ipairs(twin.run { config = case.config, targets = case.targets, events = events }) do
    if events[i].id == id and events[i].op == "arrive" then target = step.target end
    for _, pair in ipairs(step.routed or {}) do
      if pair[1] == id then target = pair[2] end
    end
  end
  return target
end

--- The next thing that can happen to a request. @return event, state after it
local function progress(request, stage)
  if stage == "sent" then
    if chance(80) then return { op = "accept" }, "accepted" end
    return { op = "refuse" }, "over"
  elseif stage == "accepted" then
    if chance(70) then return { op = "first_token" }, "decoding" end
    return { op = "done", status = "cancelled" }, "over"
  elseif chance(40) then
    request.generated = (request.generated or 1) + random(40)
    return { op = "tokens", generated = request.generated }, stage
  end
  return { op = "done", status = "completed" }, "over"
end

--- Progress of requests depends on where they are: it is settled while the twin plays the events.
local function settled(case)
  local stages, kept = {}, {}
  for _, event in ipairs(case.events) do
    local request = event.request
    if not request then
      kept[#kept + 1] = event
    else
      local stage = stages[request.id] or (case.config.auto_accept == false and "sent" or "accepted")
      if stage ~= "over" and target_of(case, kept, request.id) then
        local becomes
        becomes, stages[request.id] = progress(request, stage)
        becomes.id, becomes.at_ms = request.id, event.at_ms
        kept[#kept + 1] = becomes
      end
    end
  end
  case.events = kept
  return case
end

-- Comparison ---------------------------------------------------------------------------------------

local function answer(case)
  local path = support.json_file(case)
  local pipe = assert(io.popen(("%s < %s 2>&1"):format(support.quote(driver), support.quote(path))))
  local text = pipe:read "a"
  local ok = pipe:close()
  os.remove(path)
  local decoded, got = pcall(cjson.decode, text)
  if not ok or not decoded then return { refused = "the driver failed: " .. text } end
  return got
end

local function null(value) return value == cjson.null or value == nil or value == false end

local function same(want, got)
  if type(want) == "number" and type(got) == "number" then
    return math.abs(want - got) <= 1e-9 * math.max(1, math.abs(want))
  elseif type(want) == "table" and type(got) == "table" then
    for key, value in pairs(want) do
      if not same(value, got[key]) then return false end
    end
    for key, value in pairs(got) do
      if not null(value) and null(want[key]) then return false end
    end
    return true
  end
  return want == got or null(want) and null(got)
end

local PARTS <const> = { "target", "by", "draws_used", "costs", "fallback", "chosen_overlap", "best_overlap", "regret",
  "routed", "queue", "bindings", "leases", "book" }

local function step_difference(want, got, i, parts)
  for _, part in ipairs(parts or PARTS) do
    if want[part] ~= nil and not same(want[part], got[part]) then
      return ("event %d, %s: twin %s, product %s"):format(i, part, cjson.encode(want[part]), cjson.encode(got[part]))
    end
  end
end

local function difference(steps, got)
  if got.refused then return "refused: " .. got.refused end
  for i, step in ipairs(steps) do
    local found = step_difference(step, got.steps[i] or {}, i)
    if found then return found end
  end
end

local function from_file(path)
  local file <close> = assert(io.open(path))
  local cases = {}
  for _, vector in ipairs(cjson.decode(file:read "a").vectors) do
    local refusal = vector.kind ~= "route" or vector.expect.refused
    for _, step in ipairs(vector.expect.steps or {}) do
      if step ~= cjson.null and step.refused then refusal = true end
    end
    if not refusal then cases[#cases + 1] = vector end -- refusals have tests of their own
  end
  return cases
end

local function expected_difference(case, steps)
  local known = { "target", "by", "fallback", "chosen_overlap", "best_overlap", "regret", "routed", "queue", "bindings",
    "leases", "book" }
  for i, want in ipairs(case.expect.steps) do
    local found = want ~= cjson.null and step_difference(want, steps[i], i, known)
    if found then return "file against twin: " .. found end
  end
end

local given = options.vectors and from_file(options.vectors)
local bad, decisions, seen = 0, 0, {}
for number = 1, given and #given or options.count do
  local case = given and given[number] or settled(made_case(number))
  local steps = twin.run(case)
  for _, step in ipairs(steps) do
    if step.by then
      decisions = decisions + 1
      seen[step.by] = (seen[step.by] or 0) + 1
    end
    if step.routed and #step.routed > 0 then seen.routed = (seen.routed or 0) + 1 end
  end
  local found = difference(steps, answer(case)) or given and expected_difference(case, steps)
  if found then
    bad = bad + 1
    print(case.name .. " (" .. case.config.policy .. "): " .. found)
    if bad == 1 then print(cjson.encode(case)) end
  end
end
local names = {}
for name, n in pairs(seen) do names[#names + 1] = ("%s %d"):format(name, n) end
table.sort(names)
print(("%d cases, %d decisions: %s"):format(given and #given or options.count, decisions, table.concat(names, ", ")))
print(("%d differences"):format(bad))
if not given then
  for _, name in ipairs { "policy", "binding", "tentative", "pin", "routed" } do
    if (seen[name] or 0) < options.count // 20 then
      print(name .. ": hardly reached")
      bad = bad + 1
    end
  end
end
os.exit(bad == 0 and 0 or 1)
