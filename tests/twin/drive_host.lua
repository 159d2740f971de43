-- drive_host.lua - the parts of the host tier: kinds host_tier, fair_link, load_admission and
-- host_lookup of offload.json, and host of vllm_upstream.json. Only the product has them.

local cjson = require "cjson"
local engine = ... or require "aisim_twin"
local subset = require "compare"

local drivers = {}
if not engine.host then
  return drivers
end

local TIE_BREAKS <const> = { deepest_first = 0, key_asc = 1, listed = 2 }
local HOST_KEYS <const> = { component = true, capacity_blocks = true, block_bytes = true, d2h_gbps = true,
  h2d_gbps = true, latency_ms = true, scope = true, lru_tie_break = true, refresh_on_load = true }

local NO_LIMIT <const> = 1 << 40

local function given(value)
  return value ~= nil and value ~= cjson.null
end

-- Numbers of a list or record with times rounded to whole nanoseconds.
local function round(value)
  if type(value) == "table" then
    local out = {}
    for key, item in pairs(value) do
      out[key] = round(item)
    end
    return out
  end
  if math.type(value) == "float" then
    return math.floor(value * 1e6 + 0.5) / 1e6
  end
  return value
end

local ops = {}

function ops.store_prepare(host, op)
  local result, id, stored, evicted = host:prepare(op.keys, op.t)
  if result == "prepared" then
    return { result = result, id = id, blocks = #stored, evicted = evicted }
  elseif result == "already_present" then
    return { result = result }
  end
  return { result = "retry", structurally_unfittable = result == "unfittable" }
end

function ops.store_submit(host, op)
  local list = host:submit(op.t)
  for _, job in ipairs(list) do
    job.kind = nil
  end
  return list
end

function ops.tick(host, op)
  local list = host:tick(op.t)
  for _, job in ipairs(list) do
    job.at_ms, job.done_ms = job.done_ms, nil
  end
  return list
end

function ops.load(host, op)
  local job = host:load(op.keys, op.t, op.not_before)
  return job and { result = "queued", id = job.id, done_ms = job.done_ms } or { result = "miss" }
end

function ops.cancel_load(host, op)
  host:cancel(op.id, op.t)
end

function ops.next_deadline(host)
  return host:next()
end

function ops.touch(host, op)
  host:touch(op.keys)
end

function ops.lookup(host, op)
  local states = {}
  for i, key in ipairs(op.keys) do
    states[i] = host:state(key)
  end
  return states
end

-- Pinned blocks are resident too, but no members of the list of victims: every key is asked for.
function ops.resident(host, _, seen)
  local keys = {}
  for key in pairs(seen) do
    keys[#keys + 1] = host:state(key) == "hit" and key or nil
  end
  table.sort(keys)
  return keys
end

function drivers.host_tier(vector)
  local config = {}
  for key, value in pairs(vector.config) do
    if not HOST_KEYS[key] then return ("unknown config key '%s'"):format(key) end
    config[key] = value
  end
  config.tie_break = TIE_BREAKS[config.lru_tie_break or "deepest_first"]
  config.keep_on_load = config.refresh_on_load == false and 1 or 0
  local host, seen = engine.host(config), {}
  for i, op in ipairs(vector.requests) do
    for _, key in ipairs(op.op == "store_prepare" and op.keys or {}) do
      seen[key] = true
    end
    local have = assert(ops[op.op], op.op)(host, op, seen)
    local want = vector.expect.per_op[i]
    if given(want) then
      local difference = subset(round(want), round(have), ("per_op[%d]"):format(i))
      if difference then
        return difference
      end
    end
  end
end

-- A copy of the list by time, events of one time in their order.
local function by_time(list, key)
  local sorted, place = table.move(list or {}, 1, #(list or {}), 1, {}), {}
  for i, item in ipairs(sorted) do
    place[item] = i
  end
  table.sort(sorted, function(a, b)
    if a[key] ~= b[key] then return a[key] < b[key] end
    return place[a] < place[b]
  end)
  return sorted
end

function drivers.fair_link(vector)
  local jobs, numbers, n = by_time(vector.requests.jobs, "submit"), {}, 0
  for i, job in ipairs(jobs) do
    if not numbers[job.client] then
      numbers[job.client], n = n, n + 1
    end
    jobs[i] = setmetatable({ client = numbers[job.client], latency_ms = job.latency_ms or 0 }, { __index = job })
  end
  local completions = engine.fair_link(jobs, by_time(vector.requests.cancels, "t"))
  return subset(round(vector.expect), round { completions = completions }, "expect")
end

function drivers.load_admission(vector)
  local config, request = vector.config, vector.requests
  local b, lookahead = config.block_size, config.lookahead or 0
  local prefill, loads = 0, 0
  for _, r in ipairs(config.running_prefills) do
    local owned = (r.watermark + b - 1) // b + (r.opaque or 0)
    prefill = prefill + engine.headroom(r.known, lookahead, NO_LIMIT, b, owned)
  end
  for _, load in ipairs(config.loads or {}) do
    loads = loads + engine.headroom(load.footprint, 0, NO_LIMIT, 1, load.loaded)
  end
  local hit = request.host_hit_blocks > 0
  local available = engine.available(config.num_gpu_blocks, config.active_blocks, hit and prefill + loads or 0)
  local needed = (request.known + b - 1) // b - (request.active_cached_blocks or 0)
  local fits = hit and "start_load" or "admit"
  return subset(vector.expect, {
    headroom_prefill = prefill,
    headroom_loads = loads,
    available = available,
    needed = needed,
    decision = needed <= available and fits or "wait",
  }, "expect")
end

function drivers.host_lookup(vector)
  local b, request = vector.config.block_size, vector.requests
  local host = engine.host { capacity_blocks = 100, block_size = b, d2h_gbps = 0, h2d_gbps = 1 }
  local ready, pending = {}, {}
  for i, state in ipairs(request.host_state) do
    local list = state == "hit" and ready or state == "pending" and pending or {}
    list[#list + 1] = i - 1
  end
  if #ready > 0 then
    host:prepare(ready, 0)
    host:submit(0)
    host:tick(0)
  end
  if #pending > 0 then
    host:prepare(pending, 0)
  end
  if #request.being_loaded > 0 then
    host:load(request.being_loaded, 0)
  end
  local keys, device = request.prompt_tokens // b, request.device_cached_tokens // b
  local outcome, blocks = host:lookup(keys, device)
  return subset(vector.expect, {
    outcome = outcome,
    first_block = device,
    blocks = blocks,
    touched_in_order = host:lru(),
  }, "expect")
end

-- ---- vllm_upstream.json ------------------------------------------------------------------------

local upstream = {}

function upstream.store(host, step)
  local result, _, stored, evicted = host:prepare(step.keys, 0)
  return { ok = result == "prepared" or result == "already_present", stored = stored or {}, evicted = evicted or {} }
end

function upstream.store_done(host, step)
  host:settle(step.keys, step.success == false and "drop" or "land")
end

function upstream.load(host, step)
  host:settle(step.keys, "pin")
end

function upstream.load_done(host, step)
  host:settle(step.keys, "unpin")
end

function upstream.touch(host, step)
  local reversed = {}
  for i = #step.keys, 1, -1 do
    reversed[#reversed + 1] = step.keys[i]
  end
  host:touch(reversed)
end

function upstream.lookup(host, step)
  local state, ready = {}, 0
  for i, key in ipairs(step.keys) do
    state[i] = host:state(key)
    ready = ready == i - 1 and state[i] == "hit" and i or ready
  end
  return { ready_prefix = ready, state = state }
end

-- The product has no slot numbers: those the double of drive_connector.lua answers.
function drivers.host(vector)
  local host = engine.host { capacity_blocks = vector.config.slots, tie_break = TIE_BREAKS.listed, keep_on_load = 1 }
  for i, step in ipairs(vector.steps) do
    local have = assert(upstream[step.op], step.op)(host, step) or {}
    have.lru = host:lru()
    if given(step.expect) then
      local difference = subset(step.expect, have, ("steps[%d]"):format(i))
      if difference then
        return difference
      end
    end
  end
end

return drivers
