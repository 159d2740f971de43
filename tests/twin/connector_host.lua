--- connector_host.lua - the manager of host slots as the upstream connector has it, key by key (facts 75 to 78,
-- reconciliation R18, R19). A key is any value that names a chunk; what it stands for is the caller's business.
--
--     local host = hosts.new { slots = 4, tie_break = "listed", refresh_on_load = false }
--     host:store { 1, 2 }            -- { stored = {1, 2}, slots = {0, 1}, evicted = {} }, or nil: not enough room
--     host:store_done({ 1, 2 }, true)
--
-- A key is a miss, pending (being written) or a hit (ready). Victims are ready keys without a load under way,
-- the least recently used first, never one of the keys that are being stored. Every look goes over all keys.

local hosts = {}
local Host = {}
Host.__index = Host

local function options_of(given)
  for key in pairs(given) do
    assert(key == "slots" or key == "tie_break" or key == "refresh_on_load", "unknown option " .. tostring(key))
  end
  local tie = given.tie_break or "listed"
  assert(tie == "listed" or tie == "deepest_first" or tie == "key_asc", "unknown tie_break " .. tostring(tie))
  return tie
end

--- @param given slots (number), tie_break "listed" | "deepest_first" | "key_asc" (R18), refresh_on_load (R19)
function hosts.new(given)
  local tie = options_of(given)
  return setmetatable({ slots = given.slots, tie = tie, refresh = given.refresh_on_load or false,
    entries = {}, keys = {}, fresh = 0, freed = {}, epoch = 0 }, Host)
end

-- ---- slots ------------------------------------------------------------------------------------------------

--- Fact 76: fresh ids first, then freed ones, the last freed first.
local function take_slot(host)
  if host.fresh < host.slots then
    host.fresh = host.fresh + 1
    return host.fresh - 1
  end
  return table.remove(host.freed)
end

local function drop(host, key)
  host.freed[#host.freed + 1] = host.entries[key].slot
  host.entries[key] = nil
  for i, other in ipairs(host.keys) do
    if other == key then table.remove(host.keys, i) break end
  end
end

-- ---- order ------------------------------------------------------------------------------------------------

--- These keys are the newest from now on; among themselves the option decides (R18).
local function renew(host, keys)
  host.epoch = host.epoch + 1
  for i, key in ipairs(keys) do
    local entry = host.entries[key]
    entry.epoch = host.epoch
    entry.place = host.tie == "listed" and i or host.tie == "deepest_first" and -i or key
  end
end

local function older(host, a, b)
  local x, y = host.entries[a], host.entries[b]
  if x.epoch ~= y.epoch then return x.epoch < y.epoch end
  return x.place < y.place
end

--- Ready keys, next victim first; pinned ones stand where they would without their load.
function Host:lru()
  local list = {}
  for _, key in ipairs(self.keys) do
    if self.entries[key].ready then list[#list + 1] = key end
  end
  table.sort(list, function(a, b) return older(self, a, b) end)
  return list
end

local function contains(list, key)
  for _, other in ipairs(list) do
    if other == key then return true end
  end
  return false
end

-- ---- what the connector asks ------------------------------------------------------------------------------

--- @return "miss", "pending" or "hit"
function Host:state(key)
  local entry = self.entries[key]
  return not entry and "miss" or entry.ready and "hit" or "pending"
end

--- Fact 76. @return what became of it, or nil when there is not room for all that is missing (nothing changes)
function Host:store(keys)
  local missing, victims = {}, {}
  for _, key in ipairs(keys) do
    if not self.entries[key] and not contains(missing, key) then missing[#missing + 1] = key end
  end
  local room = self.slots - #self.keys
  for _, key in ipairs(self:lru()) do
    if room + #victims >= #missing then break end
    if self.entries[key].pins == 0 and not contains(keys, key) then victims[#victims + 1] = key end
  end
  if room + #victims < #missing then return nil end
  for _, key in ipairs(victims) do drop(self, key) end
  local slots = {}
  for i, key in ipairs(missing) do
    slots[i] = take_slot(self)
    self.entries[key] = { slot = slots[i], ready = false, pins = 0 }
    self.keys[#self.keys + 1] = key
  end
  return { stored = missing, slots = slots, evicted = victims }
end

--- The copy has ended: what was pending is ready, or gone when the copy failed.
function Host:store_done(keys, success)
  local landed = {}
  for _, key in ipairs(keys) do
    local entry = self.entries[key]
    if entry and not entry.ready then
      if success then
        entry.ready = true
        landed[#landed + 1] = key
      else
        drop(self, key)
      end
    end
  end
  renew(self, landed)
end

--- Every key must be a hit. @return their slots
function Host:load(keys)
  local slots = {}
  for i, key in ipairs(keys) do
    local entry = assert(self.entries[key], "a load of a key that is not there")
    assert(entry.ready, "a load of a key that is not ready")
    entry.pins = entry.pins + 1
    slots[i] = entry.slot
  end
  return slots
end

function Host:load_done(keys)
  local back = {}
  for _, key in ipairs(keys) do
    local entry = self.entries[key]
    assert(entry and entry.pins > 0, "no load is under way")
    entry.pins = entry.pins - 1
    if entry.pins == 0 then back[#back + 1] = key end
  end
  if self.refresh then renew(self, back) end -- R19
end

--- Fact 77: in reverse, so that the first key of a prefix is the newest. Keys that are pending, being loaded or
--- absent are passed over (offload.md §6).
function Host:touch(keys)
  for i = #keys, 1, -1 do
    local entry = self.entries[keys[i]]
    if entry and entry.ready and entry.pins == 0 then renew(self, { keys[i] }) end
  end
end

--- Stops on a broken invariant: every slot once, as many as there are keys, no pin on what is not ready.
function Host:verify()
  local seen, n = {}, 0
  for _, key in ipairs(self.keys) do
    local entry = assert(self.entries[key], "a listed key without entry")
    assert(not seen[entry.slot] and entry.slot < self.slots, "a slot used twice")
    assert(entry.pins == 0 or entry.ready, "a pin on a pending key")
    seen[entry.slot], n = true, n + 1
  end
  for _, slot in ipairs(self.freed) do assert(not seen[slot], "a freed slot in use") end
  assert(n <= self.slots and n + #self.freed == self.fresh, "slots are lost")
end

return hosts
