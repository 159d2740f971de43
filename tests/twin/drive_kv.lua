-- drive_kv.lua - kind `kv` of vllm_upstream.json with one dense group: concrete block ids, the queue
-- of unreferenced blocks, reference counts. The engine answers on the keys without ids. Several groups are
-- not modelled here.

local twin = ... or require "aisim_twin" -- the backend: the twin, or the engine in its clothes
local subset = require "compare"
local tokens_of = require "tokens_of"

local drivers = {}

-- Block ids of the vectors count from 1.
local function from_one(blocks)
  local list = {}
  for i, block in ipairs(blocks or {}) do
    list[i] = block + 1
  end
  return list
end

local salts = {}

local function salt_of(request)
  if request.salt and not salts[request.salt] then
    salts[#salts + 1] = request.salt
    salts[request.salt] = #salts
  end
  return request.salt and salts[request.salt]
end

local kv_ops = {}

function kv_ops.lookup(t, serial)
  local tokens, blocks = t:lease_lookup(serial)
  return { tokens = tokens, blocks = { from_one(blocks) } }
end

function kv_ops.alloc(t, serial, step)
  local ok, fresh, stored, removed =
    t:lease_extend(serial, step.new, step.lookahead or 0, step.use_hit or false)
  return {
    ok = ok,
    new_blocks = { from_one(fresh) },
    num_new = { #(fresh or {}) },
    stored = stored,
    removed = removed,
  }
end

function kv_ops.advance(t, serial, step)
  t:lease_advance(serial, step.computed, step.append and tokens_of(step.append))
  return {}
end

function kv_ops.free(t, serial)
  t:lease_release(serial)
  return {}
end

function kv_ops.reset(t)
  return { ok = t:reset() }
end

function kv_ops.check()
  return {}
end
kv_ops.new_step = kv_ops.check

local function kv_observe(t, serial, have, expect)
  local state = t:state()
  have.free = state.free + state.inactive
  have.queue = t.pool_queue and from_one(t:pool_queue()) -- the engine has no block ids
  have.cached_keys, have.cached_entries = t:pool_index()
  have.refs = {}
  for block in pairs(t.pool_refs and expect.refs or {}) do
    have.refs[block] = t:pool_refs(tonumber(block) - 1)
  end
  if serial then
    local pages, index = t:lease_pages(serial), {}
    for i, found in ipairs(pages) do
      index[#index + 1] = found and i - 1 or nil
    end
    have.cached_index, have.keys = { index }, #pages
    have.table = { from_one(t:request(serial).blocks) }
  end
end

local function kv_config(config)
  return {
    block_size = config.block_size or config.groups[1].block,
    num_blocks = config.blocks,
    prefix_caching = config.prefix_caching ~= false,
    max_model_len = config.max_model_len,
    mtp = { mode = "native", depth = config.eagle and 1 or 0 },
  }
end

local function one_dense_group(config)
  local groups = config.groups
  return not groups or (#groups == 1 and groups[1].type == "full")
end

function drivers.kv(vector)
  if not one_dense_group(vector.config) then
    return nil, "several groups"
  end
  local t, serials = twin.new(kv_config(vector.config)), {}
  local ids = {}
  for id, request in pairs(vector.requests) do
    if request.lora or request.mm then
      return nil, "image or adapter keys"
    end
    ids[#ids + 1] = id
  end
  table.sort(ids)
  for i, id in ipairs(ids) do
    local request = vector.requests[id]
    local outputs = {} -- what will be appended: the engine wants to know at once
    for _, step in ipairs(vector.steps) do
      if step.op == "advance" and step.req == id and step.append then
        local tokens = tokens_of(step.append)
        table.move(tokens, 1, #tokens, #outputs + 1, outputs)
      end
    end
    serials[id] = t:submit {
      id = i,
      prompt = tokens_of(request.prompt),
      output = 1000,
      output_ids = outputs,
      salt = salt_of(request),
      no_read = request.no_read,
    }
  end
  for i, step in ipairs(vector.steps) do
    local serial = serials[step.req]
    local have = assert(kv_ops[step.op], step.op)(t, serial, step)
    local expect = step.expect or {}
    kv_observe(t, serial, have, expect)
    local path = ("step %d (%s)"):format(i, step.op)
    local difference = step.expect and subset(expect, have, path)
    if difference then
      return difference
    end
  end
end

return drivers
