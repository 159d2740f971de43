--- The block-by-block double of a cache with several groups: requests, lookup, allocation, registration
--- (vllm-facts 15, 19, 30 to 56). All groups draw from one pool, in order of the configuration.
--
-- Idea: what a block holds is its whole prefix. A content id stands for one prefix under one root (salt,
-- adapter, image spans), found by comparing text, so that equal means equal and nothing is hashed.
-- Invariant: an allocation that fails has taken nothing, referred to nothing and registered nothing. (What
-- lay behind a window before it is given back all the same: it is dead, whoever asks.)
local lookup = require "groups_lookup"
local pools = require "groups_pool"
local rules = require "groups_rules"
local tables = require "groups_tables"

local Cache <const> = {}
Cache.__index = Cache

local M = {}

---@param config table  `blocks`, `groups` or `block_size`, `eagle`, `retention`, `prefix_caching` (default
---                     true), `max_model_len` (tokens)
function M.new(config)
  local caching = config.prefix_caching ~= false
  return setmetatable({
    groups = rules.groups(config), pool = pools.new(config.blocks, caching), caching = caching,
    limit = config.max_model_len or math.maxinteger, contents = { n = 0 }, fresh_states = {},
  }, Cache)
end

--- A request that holds nothing.
---@param given table  `tokens`, `salt`, `lora`, `mm` (list of {offset, len, id}), `no_read`
function Cache:request(given)
  local r = { tokens = table.move(given.tokens, 1, #given.tokens, 1, {}), prompt = #given.tokens, computed = 0,
    salt = given.salt, lora = given.lora, mm = given.mm or {}, no_read = given.no_read, chain = {}, tables = {} }
  for at, group in ipairs(self.groups) do
    r.chain[at], r.tables[at] = {}, tables.new(group, self.pool)
  end
  return r
end

-- ---- identities -----------------------------------------------------------------------------------------

--- What belongs to the identity beside parent and tokens (fact 31): the adapter, image spans that touch the
--- block by their distance from its start, the salt in the first block.
local function extras(r, first, behind)
  local list = { ("adapter %q"):format(tostring(r.lora or "")) }
  for _, span in ipairs(r.mm) do
    if span.offset < behind and span.offset + span.len > first then
      list[#list + 1] = ("image %q at %d"):format(tostring(span.id), span.offset - first)
    end
  end
  if first == 0 and r.salt then list[#list + 1] = ("salt %q"):format(tostring(r.salt)) end
  return table.concat(list, ";")
end

--- Identity of a full block of the request's content in a group. The group is part of it (fact 32).
function Cache:identity(r, at, index)
  local block, chain = self.groups[at].block, r.chain[at]
  for i = #chain, index do
    local tokens = table.concat(r.tokens, ",", i * block + 1, (i + 1) * block)
    local text = ("%d|%d|%s|%s"):format(at, chain[i] or 0, extras(r, i * block, (i + 1) * block), tokens)
    if not self.contents[text] then
      self.contents.n = self.contents.n + 1
      self.contents[text] = self.contents.n
    end
    chain[i + 1] = self.contents[text]
  end
  return chain[index + 1]
end

function Cache:findable(r, at, index)
  return (index + 1) * self.groups[at].block <= #r.tokens and self.pool:find(self:identity(r, at, index))
end

--- Block indices of the request's content that can be found in a group.
function Cache:found_indices(r, at)
  local list = {}
  for index = 0, #r.tokens // self.groups[at].block - 1 do
    if self:findable(r, at, index) then list[#list + 1] = index end
  end
  return list
end

--- Full blocks that have an identity, counted in the common divisor of the groups' blocks.
function Cache:count_identities(r)
  return self.caching and #r.tokens // self.groups.unit or 0
end

-- ---- lookup ---------------------------------------------------------------------------------------------

--- Longest hit, at most all tokens but the last; kept with the request until it is adopted.
---@return integer tokens, integer[][] blocks, integer junction  blocks per group, 0 = empty slot
function Cache:lookup(r)
  local tokens, junction = 0, 0
  if self.caching and not r.no_read then
    tokens, junction = lookup.agree(self.groups, function(at, index)
      return self:findable(r, at, index) and true or false
    end, math.max(0, #r.tokens - 1))
  end
  r.hit, r.junction = { tokens = tokens, blocks = {} }, junction
  for at, group in ipairs(self.groups) do
    local blocks = {}
    local used = lookup.used(group, function(index) return self:findable(r, at, index) end, tokens)
    for position, block in ipairs(used) do blocks[position] = block or pools.EMPTY end
    r.hit.blocks[at] = blocks
  end
  return tokens, r.hit.blocks, junction
end

-- ---- allocation -----------------------------------------------------------------------------------------

--- Does the hit end at a state written in this step (fact 56)? The step after is early enough.
function Cache:too_fresh(hit)
  for at, group in ipairs(self.groups) do
    local blocks = hit.blocks[at]
    if group.type == "mamba" and blocks and self.fresh_states[blocks[#blocks]] then return true end
  end
  return false
end

function Cache:register(r, at)
  for number, group in ipairs(self.groups) do
    local new = r.tables[number]:register(function(index) return self:identity(r, number, index) end, at)
    for _, block in ipairs(group.type == "mamba" and new or {}) do self.fresh_states[block] = true end
  end
end

local NO_HIT <const> = { tokens = 0, blocks = {} }

--- Blocks for `new` tokens more, behind the last hit if it is adopted.
---@return integer[][]? fresh  blocks taken, per group; nil = it does not fit (or the hit is too fresh)
function Cache:allocate(r, new, lookahead, use_hit)
  local hit = use_hit and r.hit or NO_HIT
  local from = math.min(r.computed + hit.tokens, self.limit)
  local at = { tokens = from + new, slots = math.min(from + new + lookahead, self.limit) }
  local need = 0
  for number, held in ipairs(r.tables) do
    held:skip(from)
    need = need + held:need(hit.blocks[number] or {}, at)
  end
  if need > self.pool.free:count() or self:too_fresh(hit) then return nil end
  local fresh = {}
  for number, held in ipairs(r.tables) do held:adopt(hit.blocks[number] or {}) end
  for number, held in ipairs(r.tables) do fresh[number] = held:extend(at) end
  r.hit = not use_hit and r.hit or nil
  if self.caching then
    self:register(r, { tokens = math.min(at.tokens, #r.tokens), prompt = r.prompt, junction = r.junction,
      multiple = self.groups.multiple })
  end
  return fresh
end

--- Tokens computed so far, and more known ones.
function Cache:advance(r, computed, more)
  r.computed = computed or r.computed
  table.move(more or {}, 1, #(more or {}), #r.tokens + 1, r.tokens)
end

--- Gives everything back, group by group, tail first.
function Cache:release(r)
  for _, held in ipairs(r.tables) do held:release() end
  r.computed, r.hit = 0, nil
end

--- A new scheduling step begins.
function Cache:new_step() self.fresh_states = {} end

--- Drops what the request's content is found under in a group at an index; the block is not touched.
function Cache:forget(r, at, index)
  self.pool:forget(self:identity(r, at, index))
end

return M
