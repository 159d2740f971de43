--- Order and arguments of hook calls (hooks.json, spec/lua-api.md §6), by the public module alone.
local aisim = require "aisim"

local TICK = "run.tick"

-- Arguments of each hook without the views.
local SCALARS <const> = {
  ["run.start"] = 1, ["run.end"] = 1, ["run.tick"] = 2,
  ["request.arrive"] = 4, ["request.route"] = 4, ["request.admit"] = 5, ["request.first_token"] = 4,
  ["request.preempt"] = 5, ["request.finish"] = 5, ["request.reject"] = 4,
  ["request.chunk"] = 5, ["request.tokens"] = 5,
  ["transfer.start"] = 6, ["transfer.end"] = 6, ["host.store"] = 6, ["host.load"] = 6, ["host.evict"] = 6,
  ["state.checkpoint"] = 4, ["state.restore"] = 4, ["play.start"] = 4, ["play.end"] = 4, phase = 3,
  ["worker.state"] = 4, ["pass.begin"] = 5, ["pass.end"] = 6, ["kv.store"] = 4, ["kv.evict"] = 4,
}

local VECTOR_KEYS <const> = {
  name = true, kind = true, rules = true, note = true, engine = true, workers = true, hooks = true,
  requests = true, lua = true, tick_ms = true, expect = true,
}

local function shown(entry)
  local items = {}
  for i = 1, entry.n or #entry do
    local item = entry[i]
    items[i] = type(item) == "string" and ("%q"):format(item) or tostring(item)
  end
  return "[" .. table.concat(items, ", ") .. "]"
end

local function is_null(value) return value == nil or type(value) == "userdata" end

local function same(entry, expected)
  local n = #expected
  if entry.n ~= n then return false end
  for i = 1, n do
    local got, want = entry[i], expected[i]
    if is_null(want) then
      if got ~= nil then return false end
    elseif type(want) == "number" then
      if type(got) ~= "number" or math.abs(got - want) > 1e-6 then return false end
    elseif got ~= want then
      return false
    end
  end
  return true
end

local function run(vector)
  local log = {}
  local function note(...) log[#log + 1] = table.pack(...) end

  local sim = aisim.new { seed = 1, name = vector.name }
  local engine = vector.engine
  engine.model, engine.hardware = engine.model or "llama-3.1-8b", engine.hardware or "h200_sxm"
  local pool = sim:pool { name = "main", workers = vector.workers or 1, engine = engine }
  for _, name in ipairs(vector.hooks) do
    local n = SCALARS[name] or error(("hook '%s' is not in the table of this check"):format(name), 0)
    sim:on(name, function(...) note(name, table.unpack({ ... }, 1, n)) end,
      name == TICK and { every_ms = vector.tick_ms } or nil)
  end
  local requests = {}
  for i, options in ipairs(vector.requests) do requests[i] = sim:submit(options) end
  if vector.lua then
    local body = "local sim, pool, requests, log = ...\n" .. vector.lua
    assert(load(body, "=" .. vector.name, "t"))(sim, pool, requests, note)
  end
  sim:run()
  return log
end

--- Checks one vector.
---@param vector table
---@return boolean ok
---@return string? message
return function(vector)
  for key in pairs(vector) do
    if not VECTOR_KEYS[key] then return false, ("unknown key '%s'"):format(key) end
  end
  local ok, log = pcall(run, vector)
  if not ok then return false, tostring(log) end
  local expected = vector.expect.log or vector.expect
  for i = 1, math.max(#log, #expected) do
    local got, want = log[i], expected[i]
    if not got then return false, ("call %d: nothing, expected %s"):format(i, shown(want)) end
    if not want then return false, ("call %d: %s, expected nothing"):format(i, shown(got)) end
    if not same(got, want) then return false, ("call %d: %s, expected %s"):format(i, shown(got), shown(want)) end
  end
  return true
end
