--- The agreement loop: the longest prefix that every cache group can serve (vllm-facts 33, 39, 41 to 45, 54;
--- reconciliation N11).
--
-- Idea: start from the cap; each group in turn may only shorten the length; repeat until a whole round changes
-- nothing. Dense groups come first and are searched once: whatever they found, any shorter length is there as
-- well. A group of the drafter may look one block past the current length, never past the cap, and loses the
-- last block it matched.
-- Invariant: every length a search returns is a multiple of the common multiple of all blocks.
local rules = require "groups_rules"

local M = {}

--- Blocks of a dense group: the run from the start.
local function dense_run(group, found, limit)
  local n = 0
  while n < limit // group.block and found(n) do n = n + 1 end
  return n
end

--- Blocks up to the end of the rightmost run that is long enough and ends where a hit may end. A run at the
--- very start counts even if it is too short.
local function window_run(group, found, limit, drop, multiple)
  local need, run = rules.window_blocks(group) + drop, 0
  for index = limit // group.block - 1, 0, -1 do
    local may_end = (index + 1 - drop) * group.block % multiple == 0
    if not found(index) then
      run = 0
    elseif run > 0 or may_end then
      run = run + 1
      if run >= need then return index + run end
    end
  end
  return run
end

--- Blocks of a chunked group: what lies before the current chunk is there, the rest is looked up.
local function chunk_run(group, found, limit)
  local n = rules.dropped_blocks(group, limit)
  while n < limit // group.block and found(n) do n = n + 1 end
  return n
end

--- Blocks up to the rightmost findable state at which a hit may end.
local function state_run(group, found, limit, multiple)
  for n = limit // group.block, 1, -1 do
    if found(n - 1) and n * group.block % multiple == 0 then return n end
  end
  return 0
end

local function down(tokens, multiple) return tokens // multiple * multiple end

--- Longest length of at most `length` tokens that the group alone can serve.
---@param found fun(index: integer): boolean  is that block of the group findable?
---@param drop integer  1 if the last matched block is lost
local function search(group, found, length, cap, drop, multiple)
  local limit = math.min(length + drop * group.block, cap)
  if group.type == "sliding" then
    return math.max(0, window_run(group, found, limit, drop, multiple) - drop) * group.block
  elseif group.type == "mamba" then
    return state_run(group, found, down(limit, group.block) - drop * group.block, multiple)  * group.block
  elseif group.type == "full" then
    return down(math.max(0, dense_run(group, found, limit) - drop) * group.block, multiple)
  end
  while true do -- a shorter length may lie in an earlier chunk, which has not been looked at
    local tokens = math.max(0, chunk_run(group, found, limit) - drop) * group.block
    if tokens % multiple == 0 then return tokens end
    limit = down(tokens, multiple) + drop * group.block
  end
end

--- Does a group lose its last matched block? A state is not lost once more where a dense group of the
--- drafter has backed off already (fact 54: nothing else is needed).
local function drops(groups)
  local dense, list = false, {}
  for _, group in ipairs(groups) do dense = dense or (group.eagle and group.type == "full") end
  for at, group in ipairs(groups) do
    list[at] = group.eagle and not (group.type == "mamba" and dense) and 1 or 0
  end
  return list
end

--- The order of a round: dense groups, then the others, each in order of the configuration.
local function round_of(groups)
  local order = {}
  for _, dense in ipairs { true, false } do
    for at, group in ipairs(groups) do
      if (group.type == "full") == dense then order[#order + 1] = at end
    end
  end
  return order
end

--- Where a chunk has to stop so that the next sibling finds a state (fact 55, N2): the dense match, if it is
--- longer than the state found below it; else 0.
local function junction_of(groups, found, dense)
  local shared
  for at, group in ipairs(groups) do
    if dense and group.type == "mamba" then
      local state = state_run(group, function(i) return found(at, i) end, dense, groups.multiple) * group.block
      if state < dense then shared = dense end
    end
  end
  return shared or 0
end

---@param groups table      of groups_rules.groups
---@param found fun(group: integer, index: integer): boolean
---@param cap integer       longest length allowed
---@return integer tokens, integer junction
function M.agree(groups, found, cap)
  local drop, order, length, dense = drops(groups), round_of(groups), cap, nil
  local function one(at, limit)
    return search(groups[at], function(i) return found(at, i) end, limit, cap, drop[at], groups.multiple)
  end
  local first = true
  repeat
    local before = length
    for _, at in ipairs(order) do
      if groups[at].type ~= "full" then
        length = one(at, length)
      elseif first then
        length = one(at, length)
        dense = length
      end
    end
    first = false
  until length == before
  return length, junction_of(groups, found, dense)
end

--- Indices of a group that a hit of `tokens` really uses; the other positions stay empty.
---@return boolean[] used  by position, from 1
function M.used(group, found, tokens)
  local list, n = {}, tokens // group.block
  local behind = group.type == "chunked" and rules.dropped_blocks(group, tokens) or 0
  if group.type == "sliding" then behind = n - rules.window_blocks(group) end
  if group.type == "mamba" then behind = n - 1 end
  for position = 1, n do list[position] = position > behind and found(position - 1) end
  return list
end

return M
