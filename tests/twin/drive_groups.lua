-- drive_groups.lua - kinds of vllm_upstream.json that need several cache groups or the free list itself, on
-- the double of groups_*.lua: kv, lookup, window, capacity, queue; and spec, the draft statistics of a step.
-- A key that is not known is a difference.

local cjson = require "cjson"
local caches = require "groups_cache"
local lookups = require "groups_lookup"
local pools = require "groups_pool"
local rules = require "groups_rules"
local subset = require "compare"
local tokens_of = require "tokens_of"

local drivers = {}

local function set(text)
  local words = {}
  for word in text:gmatch "%S+" do words[word] = true end
  return words
end

local function unknown(given, known, what)
  for key in pairs(given or {}) do
    if not known[key] then return ("unknown %s '%s'"):format(what, tostring(key)) end
  end
end

--- A number, or nil; vectors name blocks in text where they are keys.
local function number(text) return math.tointeger(tonumber(text)) end

--- The value with whole numbers as integers (JSON knows none) and without null keys, except where null is
--- what is expected.
local function plain(value, expected)
  if type(value) ~= "table" then return math.type(value) == "float" and math.tointeger(value) or value end
  local copy = {}
  for key, inner in pairs(value) do
    local wanted = expected or key == "expect"
    if wanted or inner ~= cjson.null then copy[key] = plain(inner, wanted) end
  end
  return copy
end

-- ---- kv -------------------------------------------------------------------------------------------------

local CONFIG <const> = set "block_size blocks prefix_caching max_model_len eagle groups retention"
local REQUEST <const> = set [[prompt max_tokens priority arrival salt lora mm no_read state eos ignore_eos
  stop_tokens min_tokens]]
local SPAN <const> = set "offset len id"
local STEP <const> = {
  lookup = set "op expect req", alloc = set "op expect req new use_hit lookahead",
  advance = set "op expect req computed append", free = set "op expect req", reset = set "op expect",
  new_step = set "op expect req", forget = set "op expect req entries", check = set "op expect req",
}

local function unknown_in(vector)
  local trouble = unknown(vector.config, CONFIG, "config key")
  for _, request in pairs(vector.requests) do
    trouble = trouble or unknown(request, REQUEST, "request key")
    for _, span in ipairs(request.mm or {}) do trouble = trouble or unknown(span, SPAN, "key of an image span") end
  end
  for _, step in ipairs(vector.steps) do
    if not STEP[step.op] then return ("unknown op '%s'"):format(tostring(step.op)) end
    trouble = trouble or unknown(step, STEP[step.op], "key of " .. step.op)
    if step.req and not vector.requests[step.req] then return ("unknown request '%s'"):format(step.req) end
  end
  return trouble
end

local ops = {}

function ops.lookup(cache, request)
  local tokens, blocks, junction = cache:lookup(request)
  return { tokens = tokens, blocks = blocks, boundary = junction }
end

function ops.alloc(cache, request, step)
  local fresh = cache:allocate(request, step.new, step.lookahead or 0, step.use_hit or false)
  local have = { ok = fresh ~= nil, new_blocks = fresh, num_new = fresh and {} }
  for at, blocks in ipairs(fresh or {}) do have.num_new[at] = #blocks end
  return have
end

function ops.advance(cache, request, step)
  cache:advance(request, step.computed, step.append and tokens_of(step.append))
  return {}
end

function ops.free(cache, request)
  cache:release(request)
  return {}
end

function ops.reset(cache) return { ok = cache.pool:reset() } end

function ops.new_step(cache)
  cache:new_step()
  return {}
end

function ops.forget(cache, request, step)
  for _, entry in ipairs(step.entries) do cache:forget(request, entry[1] + 1, entry[2]) end
  return {}
end

function ops.check() return {} end

local function observe(cache, request, have, expect)
  local pool = cache.pool
  have.free, have.queue = pool.free:count(), pool.free:list()
  have.cached_keys, have.cached_entries = pool:indexed()
  have.refs = {}
  for block in pairs(expect.refs or {}) do have.refs[block] = pool.refs[number(block)] end
  if request then
    have.table, have.cached_index, have.keys = {}, {}, cache:count_identities(request)
    for at, held in ipairs(request.tables) do
      have.table[at], have.cached_index[at] = held.blocks, cache:found_indices(request, at)
    end
  end
end

function drivers.kv(vector)
  local trouble = unknown_in(vector)
  if trouble then return trouble end
  local cache, requests = caches.new(vector.config), {}
  for id, given in pairs(vector.requests) do
    requests[id] = cache:request { tokens = tokens_of(given.prompt), salt = given.salt, lora = given.lora,
      mm = given.mm, no_read = given.no_read }
  end
  for i, step in ipairs(vector.steps) do
    local pool, request = cache.pool, requests[step.req]
    local stored, removed = pool.stored, pool.removed
    local have = ops[step.op](cache, request, step)
    have.stored, have.removed = pool.stored - stored, pool.removed - removed
    pool:verify()
    if step.expect then
      observe(cache, request, have, step.expect)
      local difference = subset(step.expect, have, ("step %d (%s)"):format(i, step.op))
      if difference then return difference end
    end
  end
end

-- ---- cases ----------------------------------------------------------------------------------------------

--- Runs a function over the cases of a vector.
local function each_case(vector, config_keys, case_keys, run)
  local trouble = unknown(vector.config, set(config_keys), "config key")
  for i, case in ipairs(vector.cases or vector.steps) do
    trouble = trouble or unknown(case, set("expect " .. case_keys), "key of a case")
      or subset(case.expect, run(case), ("[%d]"):format(i))
    if trouble then return trouble end
  end
  return trouble
end

function drivers.lookup(vector)
  local groups = rules.groups(vector.config)
  return each_case(vector, "groups block_size eagle", "cached max_tokens", function(case)
    local tokens, junction = lookups.agree(groups, function(at, index)
      return (case.cached[at] or {})[index + 1] == 1
    end, case.max_tokens)
    local have = { tokens = tokens, blocks = {}, boundary = junction }
    for at, group in ipairs(groups) do have.blocks[at] = tokens // group.block end
    return have
  end)
end

function drivers.window(vector)
  local group = rules.groups({ groups = { vector.config.group } })[1]
  return each_case(vector, "group", "computed", function(case)
    return { skipped_tokens = rules.skipped_tokens(group, case.computed),
      dropped_blocks = rules.dropped_blocks(group, case.computed) }
  end)
end

local CAPACITY <const> = set "max_model_len max_num_batched_tokens blocks_total groups block_size eagle"

function drivers.capacity(vector)
  local config, blocks = vector.config, 0
  local trouble = unknown(config, CAPACITY, "config key")
  if trouble then return trouble end
  for _, group in ipairs(rules.groups(config)) do
    blocks = blocks + rules.blocks_per_request(group, config.max_model_len, config.max_num_batched_tokens)
  end
  local concurrency = config.blocks_total and config.blocks_total / blocks
  return subset(vector.expect, { blocks_per_request = blocks, concurrency = concurrency }, "expect")
end

--- Draft statistics of a verify step (facts 61, 65): a row without drafts is no round, a row without output
--- counts nothing but was verified all the same. Per position: in how many rows that draft was accepted.
local function statistics(case, width)
  local have = { drafts = 0, draft_tokens = 0, accepted = 0, per_position = {}, verify_tokens = 0 }
  for _, drafts in ipairs(case.drafts) do width = math.max(width, #drafts) end
  for position = 1, width do have.per_position[position] = 0 end
  for row, drafts in ipairs(case.drafts) do
    local emitted = #(case.emitted[row] or {})
    have.verify_tokens = have.verify_tokens + 1 + #drafts
    if #drafts > 0 and emitted > 0 then
      have.drafts, have.draft_tokens = have.drafts + 1, have.draft_tokens + #drafts
      have.accepted = have.accepted + emitted - 1
      for position = 1, emitted - 1 do
        have.per_position[position] = have.per_position[position] + 1
      end
    end
  end
  return have
end

function drivers.spec(vector)
  return each_case(vector, "spec_tokens", "drafts emitted", function(case)
    return statistics(case, vector.config.spec_tokens or 1)
  end)
end

-- ---- queue ----------------------------------------------------------------------------------------------

local QUEUE <const> = {
  pop = set "op expect n", remove = set "op expect block", append = set "op expect blocks",
  prepend = set "op expect blocks",
}

local queue_ops = {}

function queue_ops.pop(list, step)
  local got = list:pop(step.n or 1)
  return { ok = got ~= nil, got = got }
end

function queue_ops.remove(list, step)
  return { ok = (pcall(list.remove, list, step.block)) }
end

function queue_ops.append(list, step)
  for _, block in ipairs(step.blocks) do list:append(block) end
  return { ok = true }
end

--- The list in front of the others, in its order.
function queue_ops.prepend(list, step)
  for at = #step.blocks, 1, -1 do list:prepend(step.blocks[at]) end
  return { ok = true }
end

function drivers.queue(vector)
  local trouble = unknown(vector.config, set "blocks", "config key")
  if trouble then return trouble end
  local list = pools.free_list(vector.config.blocks)
  for i, step in ipairs(vector.steps) do
    if not QUEUE[step.op] then return ("unknown op '%s'"):format(tostring(step.op)) end
    trouble = unknown(step, QUEUE[step.op], "key of " .. step.op)
    if trouble then return trouble end
    local have = queue_ops[step.op](list, step)
    have.queue, have.len = list:list(), list:count()
    trouble = step.expect and subset(step.expect, have, ("step %d (%s)"):format(i, step.op))
    if trouble then return trouble end
  end
end

for kind, driver in pairs(drivers) do
  drivers[kind] = function(vector) return driver(plain(vector)) end
end

return drivers
