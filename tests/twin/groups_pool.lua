--- The block pool of the double with several cache groups: the free list in order, references, and the
--- index from identities to blocks.
--
-- Idea: every block is looked at on its own; nothing is counted where it can be listed. Usable blocks are
-- 1 … n. Block 0 is the empty block: it fills table slots that need no memory, has no references, never
-- stands in the free list and has no identity.
-- Invariants: a block is in the free list exactly while nobody refers to it; a block in the index carries
-- the identity under which it is found. The reverse may fail: `forget` drops the entry, not the block's mark.
local M = { EMPTY = 0 }

-- ---- the free list ----------------------------------------------------------------------------------

local FreeList <const> = {}
FreeList.__index = FreeList

--- A free list; the first of `blocks` is the next victim.
function M.free_list(blocks)
  return setmetatable({ blocks = table.move(blocks, 1, #blocks, 1, {}) }, FreeList)
end

function FreeList:count() return #self.blocks end

function FreeList:list() return table.move(self.blocks, 1, #self.blocks, 1, {}) end

--- Takes n blocks from the front. @return them in order; nil and no effect if there are fewer
function FreeList:pop(n)
  if n > #self.blocks then return nil end
  local taken = table.move(self.blocks, 1, n, 1, {})
  self.blocks = table.move(self.blocks, n + 1, #self.blocks, 1, {})
  return taken
end

function FreeList:append(block) self.blocks[#self.blocks + 1] = block end

function FreeList:prepend(block) table.insert(self.blocks, 1, block) end

--- Takes one block out of the middle; an error if it is not there.
function FreeList:remove(block)
  for at, other in ipairs(self.blocks) do
    if other == block then return table.remove(self.blocks, at) end
  end
  error(("block %s is not in the free list"):format(block), 2)
end

-- ---- the pool ---------------------------------------------------------------------------------------

local Pool <const> = {}
Pool.__index = Pool

---@param n integer        usable blocks
---@param caching boolean  false: no block ever gets an identity
function M.new(n, caching)
  local pool = setmetatable({ caching = caching, refs = {}, identity = {}, index = {}, stored = 0, removed = 0 }, Pool)
  local all = {}
  for block = 1, n do all[block], pool.refs[block] = block, 0 end
  pool.size, pool.free = n, M.free_list(all)
  return pool
end

--- Is the block one that a new reference would take out of the free list?
function Pool:idle(block) return block ~= M.EMPTY and self.refs[block] == 0 end

--- The block found under an identity, the oldest of twins (fact 34); nil = none.
function Pool:find(identity)
  local twins = self.index[identity]
  return twins and twins[1]
end

function Pool:drop_entry(block)
  local identity = self.identity[block]
  local twins = identity and self.index[identity] or {}
  for at, other in ipairs(twins) do
    if other == block then
      table.remove(twins, at)
      self.removed = self.removed + 1
      break
    end
  end
  if identity and #twins == 0 then self.index[identity] = nil end
end

--- Fresh blocks from the front of the list; what they were found under is gone (fact 36).
---@return integer[]? blocks  nil and no effect when there are too few (fact 19)
function Pool:take(n)
  local blocks = self.free:pop(n)
  for _, block in ipairs(blocks or {}) do
    self:drop_entry(block)
    self.identity[block], self.refs[block] = nil, 1
  end
  return blocks
end

--- One more reference; an idle block leaves the free list.
function Pool:touch(block)
  if block == M.EMPTY then return end
  if self.refs[block] == 0 then self.free:remove(block) end
  self.refs[block] = self.refs[block] + 1
end

--- One reference less. The last one: a block with an identity goes to the back, one without to the front,
--- and with caching off always to the back (fact 35).
function Pool:release(block)
  if block == M.EMPTY then return end
  assert(self.refs[block] > 0, "a block is released more often than taken")
  self.refs[block] = self.refs[block] - 1
  if self.refs[block] > 0 then return end
  if self.caching and not self.identity[block] then
    self.free:prepend(block)
  else
    self.free:append(block)
  end
end

--- Registers a block; it keeps the identity until it is taken for something else.
function Pool:register(block, identity)
  assert(block ~= M.EMPTY and not self.identity[block], "a block is registered once")
  self.identity[block] = identity
  local twins = self.index[identity] or {}
  twins[#twins + 1] = block
  self.index[identity], self.stored = twins, self.stored + 1
end

--- Drops an identity from the index; the blocks that had it stay as they are.
function Pool:forget(identity)
  self.removed = self.removed + #(self.index[identity] or {})
  self.index[identity] = nil
end

--- Drops every identity, if nobody holds a block (fact 38). @return whether it did
function Pool:reset()
  if self.free:count() < self.size then return false end
  for identity in pairs(self.index) do self:forget(identity) end
  self.identity = {}
  return true
end

--- Distinct identities in the index, and blocks in it.
function Pool:indexed()
  local keys, entries = 0, 0
  for _, twins in pairs(self.index) do keys, entries = keys + 1, entries + #twins end
  return keys, entries
end

--- Fails if an invariant does not hold.
function Pool:verify()
  local listed = {}
  for _, block in ipairs(self.free:list()) do
    assert(not listed[block] and self.refs[block] == 0, "a block in the free list is in use or there twice")
    listed[block] = true
  end
  for block = 1, self.size do
    assert(listed[block] or self.refs[block] > 0, "a block without references is not in the free list")
  end
  for identity, twins in pairs(self.index) do
    assert(#twins > 0, "an identity without a block")
    for _, block in ipairs(twins) do assert(self.identity[block] == identity, "a block under a foreign identity") end
  end
end

return M
