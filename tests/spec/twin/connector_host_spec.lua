--- The slot manager of the host connector's double (facts 75 to 78; reconciliation R18, R19).
package.path = "tests/twin/?.lua;" .. package.path
local hosts = require "connector_host"

local function stored(options, ...)
  local host = hosts.new(options)
  for _, keys in ipairs { ... } do
    assert(host:store(keys))
    host:store_done(keys, true)
  end
  return host
end

describe("host slots", function()
  it("fact 76 are fresh ids first, then freed ones, the last freed first", function()
    local host = stored({ slots = 4 }, { 1, 2 })
    assert.same({ stored = { 3, 4, 5 }, slots = { 2, 3, 0 }, evicted = { 1 } }, host:store { 3, 4, 5 })
    host:store_done({ 3, 4, 5 }, true)
    assert.same({ slots = { 2, 1 }, stored = { 6, 7 }, evicted = { 2, 3 } }, host:store { 6, 7 })
  end)

  it("fact 76 are all or none", function()
    local host = stored({ slots = 2 }, { 1 })
    assert.is_nil(host:store { 2, 3, 4 })
    assert.same({ 1 }, host:lru())
    assert.same({ 1 }, host:store({ 2 }).slots)
    host:verify()
  end)

  it("fact 75 of keys that are there already are not taken again", function()
    local host = stored({ slots = 3 }, { 1, 2 })
    assert.same({ stored = { 3 }, slots = { 2 }, evicted = {} }, host:store { 1, 2, 3 })
    assert.same({ stored = {}, slots = {}, evicted = {} }, host:store { 1, 3 })
  end)

  it("fact 76 of keys of the same store, being written or being read are never taken", function()
    local host = stored({ slots = 2 }, { 1, 2 })
    assert.same({ 2 }, host:store({ 1, 3 }).evicted)
    assert.is_nil(host:store { 4, 5 }) -- 3 is pending
    assert.same({ 0 }, host:load { 1 })
    assert.is_nil(host:store { 4 })
    host:load_done { 1 }
    assert.same({ 1 }, host:store({ 4 }).evicted)
    host:verify()
  end)

  it("fact 77 a touch renews in reverse, so that the first key goes last", function()
    local host = stored({ slots = 4 }, { 5, 6, 7, 8 })
    host:touch { 5, 6, 7 }
    assert.same({ 8, 7, 6, 5 }, host:lru())
  end)

  it("a touch passes over keys that are pending, read or absent", function()
    local host = stored({ slots = 4 }, { 1, 2, 3 })
    host:store { 4 }
    host:load { 2 }
    host:touch { 1, 2, 4, 9 }
    assert.same({ 2, 3, 1 }, host:lru())
  end)

  it("fact 78 a key is pending until its copy has ended, and gone when that failed", function()
    local host = hosts.new { slots = 2 }
    host:store { 1, 2 }
    assert.equal("pending", host:state(1))
    host:store_done({ 1 }, true)
    host:store_done({ 1, 2 }, false)
    assert.same({ "hit", "miss" }, { host:state(1), host:state(2) })
    assert.same({ 1 }, host:store({ 3 }).slots)
    host:verify()
  end)

  it("R18 orders the victims of one store", function()
    local function victims(tie_break) return stored({ slots = 3, tie_break = tie_break }, { 3, 1, 2 }):lru() end
    assert.same({ 3, 1, 2 }, victims "listed")
    assert.same({ 2, 1, 3 }, victims "deepest_first")
    assert.same({ 1, 2, 3 }, victims "key_asc")
  end)

  it("R19 a load renews its keys only when asked to", function()
    for refresh, order in pairs { [false] = { 1, 2 }, [true] = { 2, 1 } } do
      local host = stored({ slots = 2, refresh_on_load = refresh }, { 1 }, { 2 })
      host:load { 1 }
      host:load { 1 }
      host:load_done { 1 }
      host:load_done { 1 }
      assert.same(order, host:lru())
    end
  end)

  it("stop on a load of what is not ready, and know their options", function()
    local host = hosts.new { slots = 2 }
    host:store { 1 }
    assert.has_error(function() host:load { 1 } end)
    assert.has_error(function() host:load { 2 } end)
    assert.has_error(function() host:load_done { 1 } end)
    assert.has_error(function() hosts.new { slots = 2, policy = "arc" } end)
  end)
end)

--- The product's host pool and the double were written apart; on everything but slot numbers they have to agree.
describe("the host pool of the product", function()
  local on_engine = assert(loadfile "tests/twin/drive_host.lua")(require "aisim_engine").host

  local function some_keys()
    local keys, seen, first = {}, {}, math.random(8)
    for i = 0, math.random(0, 3) do
      local key = math.random(3) == 1 and math.random(9) or first + i
      if not seen[key] then keys[#keys + 1], seen[key] = key, true end
    end
    return keys
  end

  --- One more step and what the double did; nil = nothing to do.
  local function next_step(host, pending, loads)
    local what, keys = math.random(7), some_keys()
    if what <= 2 then
      local result = host:store(keys)
      if result and #result.stored > 0 then pending[#pending + 1] = result.stored end
      return { op = "store", keys = keys, expect = result
        and { ok = true, stored = result.stored, evicted = result.evicted } or { ok = false } }
    elseif what == 3 and #pending > 0 then
      keys = table.remove(pending, math.random(#pending))
      local success = math.random(4) > 1
      host:store_done(keys, success)
      return { op = "store_done", keys = keys, success = success, expect = {} }
    elseif what == 4 then
      for _, key in ipairs(keys) do
        if host:state(key) ~= "hit" then return nil end
      end
      host:load(keys)
      loads[#loads + 1] = keys
      return { op = "load", keys = keys, expect = {} }
    elseif what == 5 and #loads > 0 then
      keys = table.remove(loads, math.random(#loads))
      host:load_done(keys)
      return { op = "load_done", keys = keys, expect = {} }
    elseif what == 6 then
      host:touch(keys)
      return { op = "touch", keys = keys, expect = {} }
    elseif what == 7 then
      local state = {}
      for i, key in ipairs(keys) do state[i] = host:state(key) end
      return { op = "lookup", keys = keys, expect = { state = state } }
    end
  end

  it("agrees on 500 random talks", function()
    for seed = 1, 500 do
      math.randomseed(seed)
      local slots, pending, loads, steps = math.random(6), {}, {}, {}
      local host = hosts.new { slots = slots }
      for _ = 1, 25 do
        local step = next_step(host, pending, loads)
        if step then
          step.expect.lru = host:lru()
          steps[#steps + 1] = step
        end
      end
      assert.is_nil(on_engine { config = { slots = slots }, steps = steps }, "seed " .. seed)
    end
  end)
end)
