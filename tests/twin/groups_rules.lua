--- Rules of one cache group, as pure functions: what a group is, which tokens lie behind it, what of it can
--- serve a hit, and how many blocks one request may hold (vllm-facts 17, 43 to 47, 49, 50).
--
-- A group is one of
--     full     dense attention: every block from the start is needed
--     sliding  the last `window` tokens are needed
--     chunked  what lies in the current chunk of `chunk` tokens is needed
--     mamba    the state after the last computed token is needed; mode `none` keeps a table with one state
--              per block, mode `align` one running state and `spec_blocks` states for drafts
-- Lengths are tokens, indices of blocks count from 0.
local M = {}

local FIELDS <const> = { -- beyond type, block, eagle, retention: what a type takes; true = must be given
  full = {}, sliding = { window = true }, chunked = { chunk = true }, mamba = { mode = false, spec_blocks = false },
}

local function positive(value, what)
  if math.type(value) ~= "integer" or value < 1 then
    error(("%s: want a positive integer, have %s"):format(what, tostring(value)), 0)
  end
  return value
end

--- A group, checked and with its defaults.
local function group_of(given, at)
  local where = ("groups[%d]"):format(at)
  local fields = FIELDS[given.type] or error(("%s: unknown type '%s'"):format(where, tostring(given.type)), 0)
  for key in pairs(given) do
    local known = fields[key] ~= nil or key == "type" or key == "block" or key == "eagle" or key == "retention"
    if not known then error(("%s: unknown key '%s' of a %s group"):format(where, tostring(key), given.type), 0) end
  end
  local group = { type = given.type, block = positive(given.block, where .. ".block"), eagle = given.eagle or false,
    retention = given.retention }
  for key, must in pairs(fields) do
    if must then group[key] = positive(given[key], ("%s.%s"):format(where, key)) end
  end
  if given.type == "mamba" then
    group.mode, group.spec_blocks = given.mode or "none", given.spec_blocks or 0
    if group.mode ~= "none" and group.mode ~= "align" then
      error(("%s: unknown mode '%s'"):format(where, tostring(given.mode)), 0)
    end
  end
  return group
end

local function gcd(a, b)
  while b ~= 0 do a, b = b, a % b end
  return a
end

local function check_retention(group, multiple)
  local interval = group.retention
  if interval and (math.type(interval) ~= "integer" or interval < 0 or interval % multiple ~= 0) then
    error(("retention %s: want a multiple of %d tokens, or 0"):format(tostring(interval), multiple), 0)
  end
end

--- The groups of a configuration; one dense group of `block_size` if none is named. `eagle` with no marked
--- group marks them all (N11).
---@return table groups  in order; `multiple` the common multiple and `unit` the common divisor of their blocks
function M.groups(config)
  local groups = { multiple = 1, unit = 0 }
  local marked = false
  for at, given in ipairs(config.groups or { { type = "full", block = config.block_size } }) do
    groups[at] = group_of(given, at)
    marked = marked or groups[at].eagle
    groups.multiple = groups.multiple // gcd(groups.multiple, groups[at].block) * groups[at].block
    groups.unit = gcd(groups.unit, groups[at].block)
  end
  if #groups == 0 then error("groups: want at least one", 0) end
  for _, group in ipairs(groups) do
    if config.eagle and not marked then group.eagle = true end
    if group.retention == nil then group.retention = config.retention end
    check_retention(group, groups.multiple)
  end
  return groups
end

-- ---- what lies behind ---------------------------------------------------------------------------------

--- Tokens that no later step of the group looks at (facts 44, 45, 50).
function M.skipped_tokens(group, computed)
  if group.type == "sliding" then return math.max(0, computed - group.window + 1) end
  if group.type == "chunked" then return computed // group.chunk * group.chunk end
  if group.type == "mamba" then return math.max(0, computed - group.spec_blocks - 1) end
  return 0
end

--- Whole blocks among them.
function M.dropped_blocks(group, computed)
  return M.skipped_tokens(group, computed) // group.block
end

--- Adjacent blocks that a window needs in front of the next token (fact 43). A window of one token needs
--- nothing before it; a hit still has to end at a block that is there.
function M.window_blocks(group)
  return math.max(1, (group.window - 1 + group.block - 1) // group.block)
end

-- ---- what can serve a hit -----------------------------------------------------------------------------

--- Does a hit of that length need block `index` of the group?
local function serves(group, index, length)
  local first_behind = length // group.block
  if group.type == "sliding" then
    -- the drafter's window is matched one block past the end and loses that block again
    local last = group.eagle and first_behind or first_behind - 1
    return index <= last and index >= first_behind - M.window_blocks(group)
  end
  return group.type == "mamba" and index == first_behind - 1
end

--- Is a length one that a later lookup may end at, as far as sparse retention says (fact 47)?
local function retained(group, length, prompt, junction, multiple)
  local interval = group.retention
  if not interval then return true end
  return length == (prompt - 1) // multiple * multiple or length == junction
    or (interval > 0 and length % interval == 0)
end

--- Registration is limited to what can serve a hit (fact 46): lengths of hits are multiples of the common
--- multiple. Windows and states keep the tail before such a length, the other types everything before the
--- last one; a drafter's group also the block behind it.
---@param index integer     block of the group
---@param at table          `tokens` computed and known so far, `prompt`, `junction` (tokens or nil), `multiple`
function M.registers(group, index, at)
  local ends = (index + 1) * group.block
  if ends > at.tokens then return false end
  local last = at.tokens // at.multiple * at.multiple
  if group.type == "full" or group.type == "chunked" then
    return ends <= last + (group.eagle and group.block or 0)
  end
  for length = at.multiple, last, at.multiple do
    if serves(group, index, length) and retained(group, length, at.prompt, at.junction, at.multiple) then
      return true
    end
  end
  return false
end

-- ---- capacity -----------------------------------------------------------------------------------------

local function blocks_of(tokens, block) return (tokens + block - 1) // block end

--- Most blocks a request holds in the group (facts 17, 50): a window and a chunk what one step may cover
--- beside what it looks back at, one block more for a window that begins inside a block; a running state
--- the one before it too.
function M.blocks_per_request(group, max_model_len, budget)
  if group.type == "sliding" then
    return blocks_of(math.min(group.window - 1 + budget, max_model_len), group.block) + 1
  elseif group.type == "chunked" then
    return blocks_of(math.min(group.chunk + budget, max_model_len), group.block)
  elseif group.type == "mamba" and group.mode == "align" then
    return 2 + group.spec_blocks
  elseif group.type == "mamba" then
    return blocks_of(max_model_len, group.block) + group.spec_blocks
  end
  return blocks_of(max_model_len, group.block)
end

return M
