--- Reuse of a trace file in caches of given sizes, against a cache that is a list of ids: the model that
-- `aisim trace --capacity` documents, row by row (vectors/trace_reuse.json holds the same for real traces).
local core = require "aisim.core"

local state = 0

local function random(n)
  state = (state * 48271 + 11) % 2147483647
  return state // 7 % n + 1
end

--- Rows of a mooncake file over a small tree of blocks, in order of time.
local function made_rows(block_size)
  local rows, t = {}, 0
  for i = 1, 15 + random(40) do
    t = t + (random(3) - 1) * 500
    local ids, tree = {}, 1000 * random(4)
    for k = 1, random(12) - 1 do ids[k] = tree + k + (k > 3 and 100 * random(3) or 0) end
    for k = 5, #ids do ids[k] = ids[4] * 10 + k end -- equal id = equal prefix
    rows[i] = { t = t, ids = ids, tokens = math.max(1, #ids * block_size - random(block_size) + 1) }
    if #ids == 0 then rows[i].ids, rows[i].tokens = { 1 }, random(block_size) end
  end
  return rows
end

local function write(rows)
  local path = os.tmpname()
  local file <close> = assert(io.open(path, "w"))
  for _, row in ipairs(rows) do
    local line = '{"timestamp": %d, "input_length": %d, "output_length": 1, "hash_ids": [%s]}\n'
    file:write(line:format(row.t, row.tokens, table.concat(row.ids, ",")))
  end
  return path
end

--- Most recently used first.
local function touch(cache, id, capacity)
  for i, held in ipairs(cache) do
    if held == id then
      table.insert(cache, 1, table.remove(cache, i))
      return 0
    end
  end
  table.insert(cache, 1, id)
  if capacity and #cache > capacity then
    table.remove(cache)
    return 1
  end
  return 0
end

local function holds(cache, id)
  for _, held in ipairs(cache) do
    if held == id then return true end
  end
  return false
end

local function expected(rows, o)
  local caches, seen = {}, {}
  local out = { requests = #rows, input_tokens = 0, blocks_looked_up = 0, hit_blocks = 0, reused_tokens = 0,
    requests_with_hit = 0, evictions = 0, resident_blocks_end = 0 }
  for i = 1, o.servers or 1 do caches[i] = {} end
  for i, row in ipairs(rows) do
    local cache = caches[(i - 1) % #caches + 1]
    local looked = o.full_only and (row.tokens - 1) // o.block_size or #row.ids
    local inserted = o.full_only and row.tokens // o.block_size or #row.ids
    local k = 0
    while k < looked do
      local id = row.ids[k + 1]
      local there
      if o.ttl_ms then
        there = seen[id] and row.t - seen[id] <= o.ttl_ms
      else
        there = holds(cache, id)
      end
      if not there then break end
      k = k + 1
    end
    out.input_tokens, out.blocks_looked_up = out.input_tokens + row.tokens, out.blocks_looked_up + looked
    out.hit_blocks = out.hit_blocks + k
    out.reused_tokens = out.reused_tokens + (o.full_only and k * o.block_size or math.min(k * o.block_size, row.tokens))
    out.requests_with_hit = out.requests_with_hit + (k > 0 and 1 or 0)
    for n = 1, inserted do
      local id = row.ids[o.head_first and n or inserted + 1 - n]
      out.evictions = out.evictions + touch(cache, id, o.capacity)
      seen[id] = row.t
    end
  end
  for _, cache in ipairs(caches) do out.resident_blocks_end = out.resident_blocks_end + #cache end
  return out
end

describe("reuse of a trace", function()
  it("is that of a cache that is a list, whatever rule, order, size, number and age", function()
    local evictions, hits = 0, 0
    for seed = 1, 300 do
      state = seed * 7919
      for _ = 1, 4 do random(9) end
      local block_size = ({ 16, 64, 512 })[random(3)]
      local rows = made_rows(block_size)
      local o = { block_size = block_size }
      if random(4) == 1 then
        o.ttl_ms = 500 * random(6)
      else
        o.capacity = random(3) > 1 and random(20) or nil
        o.full_only, o.head_first, o.servers = random(2) == 1, random(2) == 1, random(3)
      end
      local path = write(rows)
      local got = core.trace_reuse({ path }, { block_size = block_size }, { o })[1]
      os.remove(path)
      local want = expected(rows, o)
      if o.ttl_ms then want.evictions, want.resident_blocks_end = nil, nil end
      for name, value in pairs(want) do assert.equal(value, got[name], ("seed %d: %s"):format(seed, name)) end
      evictions, hits = evictions + (want.evictions or 0), hits + want.hit_blocks
    end
    assert.is_true(evictions > 1000 and hits > 1000)
  end)
end)
