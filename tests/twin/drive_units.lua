-- drive_units.lua - the unit kinds of engine.json that a twin can answer: pool, lease, commands,
-- handoff and handoff_missing. The pure functions of the product are not repeated here.

local cjson = require "cjson"
local twin = ... or require "aisim_twin" -- the backend: the twin, or the engine in its clothes
local subset = require "compare"

local drivers = {}

local function given(value)
  return value ~= nil and value ~= cjson.null
end

local function pool_op(t, held, op)
  if op.op == "put" then
    local ok, blocks, removed = t:pool_take({}, 1)
    held[op.as] = blocks
    return { ok = ok, removed = removed, first_copy = ok and t:pool_publish(blocks[1], op.hash) }
  elseif op.op == "private" then
    local ok, blocks, removed = t:pool_take({}, op.count)
    held[op.as] = blocks
    return { ok = ok, removed = removed }
  elseif op.op == "release" then
    for _, as in ipairs(op.blocks) do
      for i = #held[as], 1, -1 do
        t:pool_release(held[as][i])
      end
    end
  elseif op.op == "reserve" then
    for _, hash in ipairs(op.hits) do
      if not t:pool_lookup(hash) then return { ok = false } end -- E-K2: all of them must be there
    end
    local ok, blocks, removed = t:pool_take(op.hits, op.fresh)
    held[op.as] = blocks
    return { ok = ok, removed = removed }
  elseif op.op == "cancel" then
    for i = #held[op.res], 1, -1 do
      t:pool_release(held[op.res][i])
    end
  else
    assert(op.op == "lookup", op.op)
    local hit, active = t:pool_lookup(op.hash)
    return { hit = hit, active = active }
  end
end

function drivers.pool(vector)
  local t = twin.new { num_blocks = vector.config.num_blocks }
  local held = {}
  for i, op in ipairs(vector.requests) do
    local have = pool_op(t, held, op)
    local want = vector.expect.steps[i]
    if given(want) then
      local difference = subset(want, have, "steps[" .. i .. "]")
      if difference then
        return difference
      end
    end
  end
  return vector.expect.final and subset(vector.expect.final, t:state(), "final")
end

local function prompt_of(n, from)
  local tokens = {}
  for i = 1, n do
    tokens[i] = (from or 0) + i
  end
  return tokens
end

function drivers.lease(vector)
  if not vector.kind then
    return dofile(package.searchpath("drive_mtp", package.path)).mtp_lease(vector)
  end
  local b = vector.config.block_size
  local t = twin.new { num_blocks = 64, block_size = b }
  local serial
  local have = { entries = {}, owned = {}, watermark = {}, opaque = {}, fresh_taken = {} }
  for i, op in ipairs(vector.requests) do
    local before = t:state().active
    if op.op == "open" then
      serial = t:submit { id = 1, prompt = prompt_of(op.prompt), output = 100 }
    elseif op.op == "allocate" then
      t:lease_allocate(serial, op.tokens)
    elseif op.op == "sample" then
      t:lease_sample(serial, op.count)
    elseif op.op == "reserve_opaque" then
      t:lease_opaque(serial, op.count)
    elseif op.op == "preempt" then
      t:lease_release(serial)
    else
      assert(op.op == "finish", op.op)
      t:cancel(1)
    end
    local view = t:request(serial)
    local live = view.status ~= "finished"
    have.entries[i] = live and (view.known + b - 1) // b or 0
    have.owned[i], have.watermark[i], have.opaque[i] = view.owned, view.watermark, view.opaque
    have.fresh_taken[i] = math.max(0, t:state().active - before)
  end
  return subset(vector.expect, have, "expect")
end

-- Ids of the vectors are names; the twin wants numbers.
local function numbering()
  local numbers, next_number = {}, 0
  return function(name)
    if not numbers[name] then
      next_number = next_number + 1
      numbers[name] = next_number
    end
    return numbers[name]
  end
end

local function outcome(done)
  return done and "ok" or "noop"
end

local function command(t, number, cmd)
  local id = cmd.id and number(cmd.id)
  if cmd.cmd == "submit" or cmd.cmd == "submit_handoff" then
    local request = { id = id, prompt = prompt_of(cmd.prompt or 4), output = cmd.output or 1 }
    request.hold = cmd.cmd == "submit_handoff"
    return t:submit(request) and "ok" or "error"
  elseif cmd.cmd == "cancel" then
    return outcome(t:cancel(id))
  elseif cmd.cmd == "pass" then
    t:pass()
    return "ok"
  elseif cmd.cmd == "release_source" then
    return outcome(t:release_source(id))
  elseif cmd.cmd == "activate" then
    return outcome(t:activate(id))
  end
  assert(cmd.cmd == "reserve", cmd.cmd)
  local from = 1000 * number(cmd.prompt or "prompt of " .. cmd.id)
  local done = t:reserve { id = id, prompt = prompt_of(cmd.prompt_tokens, from), output = cmd.output }
  return done and "ok" or "error"
end

local keys = { block_size = true, num_blocks = true, max_batched_tokens = true, max_seqs = true }
keys.prefix_caching, keys.max_model_len = true, true

local function commands(vector)
  local config = {}
  for key, value in pairs(vector.config) do
    if keys[key] then
      config[key] = value
    end
  end
  local t, number = twin.new(config), numbering()
  for i, cmd in ipairs(vector.requests) do
    local have = { result = command(t, number, cmd) }
    local view = cmd.id and t:find(number(cmd.id))
    have.held = t:find(number(vector.requests[1].id) or 0) ~= nil
      and t:find(number(vector.requests[1].id)).status == "held"
    local reserved = cmd.cmd == "reserve" and have.result == "ok" and view and view.status == "reserved"
    have.missing = reserved and view.missing or nil -- a pending reservation does not know yet
    have.active, have.live = t:state().active, t:state().live
    t:verify()
    for key, list in pairs(vector.expect) do
      local difference = subset(list[i], have[key], key .. "[" .. i .. "]")
      if difference then
        return difference
      end
    end
  end
end

drivers.commands, drivers.handoff = commands, commands

function drivers.handoff_missing(vector)
  local config = vector.config
  for i, request in ipairs(vector.requests) do
    local t = twin.new { block_size = config.block_size, num_blocks = config.num_blocks }
    local resident = request.resident_prefix_blocks * config.block_size
    if resident > 0 then
      t:submit { id = 1, prompt = prompt_of(resident), output = 0 }
      t:pass()
    end
    t:reserve { id = 2, prompt = prompt_of(request.prompt), output = 1 }
    local missing = t:find(2).missing
    if missing ~= vector.expect.missing[i] then
      return ("[%d]: want %s, have %s"):format(i, vector.expect.missing[i], missing)
    end
  end
end

return drivers
