--- Block tables: what one request holds in one cache group (vllm-facts 15, 19, 40, 44, 49, 50).
--
-- A table is a list of blocks by position; an empty slot (0) is a position whose tokens nobody needs. Two
-- sorts: a growing table (dense, windows, chunks, one state per block), and the running state of the aligned
-- mode, which holds one state and one per draft, whatever the length.
-- Invariants: `need` says exactly how many blocks `adopt` and `extend` will take out of the free list
-- (an idle block of a hit counts, it leaves the list too); nothing here fails half way.
local pools = require "groups_pool"
local rules = require "groups_rules"

local EMPTY <const> = pools.EMPTY

local function blocks_of(tokens, block) return (tokens + block - 1) // block end

local Table <const> = {}
Table.__index = Table
local Running <const> = setmetatable({}, { __index = Table })
Running.__index = Running

local M = {}

--- An empty table of a group.
function M.new(group, pool)
  local running = group.type == "mamba" and group.mode == "align"
  return setmetatable({ group = group, pool = pool, blocks = {} }, running and Running or Table)
end

function Table:idle_of(hit)
  local n = 0
  for _, block in ipairs(hit) do n = n + (self.pool:idle(block) and 1 or 0) end
  return n
end

--- Blocks that the table has when `at.slots` tokens have a slot. States for drafts come behind the last one.
function Table:required(at)
  return blocks_of(at.slots, self.group.block) + (self.group.spec_blocks or 0)
end

--- Blocks that leave the free list when the hit is adopted and the table extended.
function Table:need(hit, at)
  return math.max(0, self:required(at) - #hit - #self.blocks) + self:idle_of(hit)
end

--- The blocks of a hit become the first of the table.
function Table:adopt(hit)
  assert(#hit == 0 or #self.blocks == 0, "a request adopts a hit before it holds blocks")
  for position, block in ipairs(hit) do
    self.pool:touch(block)
    self.blocks[position] = block
  end
end

function Table:grow(n)
  local fresh = assert(self.pool:take(n), "more blocks taken than were needed")
  table.move(fresh, 1, #fresh, #self.blocks + 1, self.blocks)
  return fresh
end

--- @return the fresh blocks
function Table:extend(at)
  return self:grow(math.max(0, self:required(at) - #self.blocks))
end

function Table:empty(position)
  self.pool:release(self.blocks[position])
  self.blocks[position] = EMPTY
end

--- Gives back whole blocks behind what is still looked at, the last of them first.
function Table:skip(computed)
  for position = math.min(rules.dropped_blocks(self.group, computed), #self.blocks), 1, -1 do
    if self.blocks[position] == EMPTY then break end
    self:empty(position)
  end
end

--- Gives back everything, tail first.
function Table:release()
  for position = #self.blocks, 1, -1 do self.pool:release(self.blocks[position]) end
  self.blocks = {}
end

--- May the block at this index be registered when `tokens` are computed and known? A table that keeps
--- every block: whenever the rules of the group say so.
function Table:written(_index, _tokens) return true end

--- Registers what can serve a hit and is not registered yet.
---@param identity fun(index: integer)
---@param at table  see groups_rules.registers
---@return integer[] blocks  registered now
function Table:register(identity, at)
  local list = {}
  for position, block in ipairs(self.blocks) do
    local index <const> = position - 1
    if block ~= EMPTY and not self.pool.identity[block] and self:written(index, at.tokens)
      and rules.registers(self.group, index, at) then
      self.pool:register(block, identity(index))
      list[#list + 1] = block
    end
  end
  return list
end

-- ---- the running state ----------------------------------------------------------------------------------

--- Slots for look-ahead are ignored (fact 50).
function Running:required(at)
  return blocks_of(at.tokens, self.group.block) + self.group.spec_blocks
end

--- One block for each crossing, states for drafts are used again; the first time also those.
function Running:need(hit, at)
  local n = self:required(at) - #hit - #self.blocks
  if n > 0 then n = self.started and 1 or 1 + self.group.spec_blocks end
  return math.max(0, n) + self:idle_of(hit)
end

--- Positions before the running state stay empty.
function Running:extend(at)
  local drafts <const>, before <const>, required <const> = self.group.spec_blocks, #self.blocks, self:required(at)
  if required <= before then return {} end -- fewer drafts than last time
  local blocks, behind = self.blocks, required - drafts - 1
  for position = before + 1, behind do blocks[position] = EMPTY end
  if self.started then -- states of drafts that are now behind move up
    for position = before - drafts + 1, math.min(before, behind) do
      blocks[#blocks + 1], blocks[position] = blocks[position], EMPTY
    end
  end
  self.started = true
  return self:grow(required - #blocks)
end

--- The state that a step starts from is read while the next one is written, so it is released a step later.
--- Empty slots lie between states: every position is looked at.
function Running:skip(computed)
  for position = math.min(rules.dropped_blocks(self.group, computed), #self.blocks), 1, -1 do
    if self.blocks[position] ~= EMPTY then self:empty(position) end
  end
end

function Running:release()
  Table.release(self)
  self.started = nil
end

--- A slot holds the state after exactly its last token only if the step ended there (fact 49).
function Running:written(index, tokens) return tokens == (index + 1) * self.group.block end

return M
