--- One dense group is the case that both doubles know: the block-by-block twin in C and the double of several
-- groups in Lua were written apart and have to agree on ids, queue, hits and index after every operation.
package.path = "tests/twin/?.lua;" .. package.path
local caches = require "groups_cache"
local drive_twin = assert(loadfile "tests/twin/drive_kv.lua")(require "aisim_twin").kv

local function copy(list) return table.move(list, 1, #list, 1, {}) end

--- Few different tokens, so that prefixes are shared.
local function some_tokens()
  local ids = {}
  for i = 1, math.random(3, 18) do ids[i] = math.random(4) == 1 and math.random(0, 1) or 7 end
  return ids
end

local function vector_of()
  local vector = { requests = {}, steps = {}, config = { block_size = math.random(2, 4), blocks = math.random(4, 14),
    prefix_caching = math.random(5) > 1, eagle = math.random(3) == 1, max_model_len = math.random(24, 40) } }
  for i = 1, 4 do
    vector.requests["r" .. i] = { prompt = { { ids = some_tokens() } }, no_read = math.random(6) == 1 or nil,
      salt = math.random(4) == 1 and "s" or nil }
  end
  return vector
end

--- Allocates through the Lua double and returns the step with what it did.
local function alloc(cache, id, r, step)
  local fresh = cache:allocate(r, step.new, step.lookahead or 0, step.use_hit or false)
  step.op, step.req, step.expect = "alloc", id, { ok = fresh ~= nil, new_blocks = fresh }
  return step, fresh ~= nil
end

--- What the request does next; nil = nothing.
local function next_step(cache, id, r)
  if r.held and math.random(3) == 1 then
    cache:release(r)
    r.held, r.planned = nil, nil
    return { op = "free", req = id, expect = {} }
  elseif not r.held then
    local step, ok = alloc(cache, id, r, { new = math.random(#r.tokens - r.hit.tokens), use_hit = true,
      lookahead = math.random(3) == 1 and math.random(3) or 0 })
    r.held = ok or nil
    return step, ok
  elseif r.planned then
    local append = r.planned == #r.tokens and #r.tokens < 22 and { math.random(0, 1) } or nil
    cache:advance(r, r.planned, append)
    r.planned = nil
    return { op = "advance", req = id, computed = r.computed, append = append and { { ids = append } }, expect = {} }
  elseif r.computed < #r.tokens then
    local step, ok = alloc(cache, id, r, { new = math.random(#r.tokens - r.computed) })
    return step, ok
  end
end

local function observe(cache, r, expect)
  expect.free, expect.queue = cache.pool.free:count(), cache.pool.free:list()
  expect.cached_keys, expect.cached_entries = cache.pool:indexed()
  expect.table = #r.tables[1].blocks > 0 and { copy(r.tables[1].blocks) } or nil
end

--- Fills a vector with random steps and what the Lua double says to them.
local function play(vector, turns)
  local cache, requests = caches.new(vector.config), {}
  for id, given in pairs(vector.requests) do
    requests[id] = cache:request { tokens = given.prompt[1].ids, salt = given.salt, no_read = given.no_read }
  end
  for _ = 1, turns do
    local id = "r" .. math.random(4)
    local r, from = requests[id], requests[id].computed
    if not r.held then
      local tokens, blocks = cache:lookup(r)
      from = tokens
      local expect = { tokens = tokens, blocks = { copy(blocks[1]) } }
      table.insert(vector.steps, { op = "lookup", req = id, expect = expect })
    end
    local step, ok = next_step(cache, id, r)
    if step then
      if ok then r.planned = from + step.new end
      observe(cache, r, step.expect)
      table.insert(vector.steps, step)
    end
  end
end

describe("the two doubles of one dense group", function()
  it("agree on ids, queue, hits and index (facts 15, 19, 30 to 39; seed 11)", function()
    math.randomseed(11)
    for round = 1, 400 do
      local vector = vector_of()
      play(vector, 20)
      assert.is_nil(drive_twin(vector), ("round %d"):format(round))
    end
  end)
end)
