--- routing.json: the router of the engine, driven event by event (routing_driver.c).
local context <const> = ...
local cjson = require "cjson"
local support = require "support"

local M = { by = { default = "engine" } }

local function is_null(value) return value == nil or value == cjson.null end

--- Numbers within 1e-9 of their value, everything else exactly; null of `want` = really null.
local function difference(got, want, path)
  if type(want) == "number" and type(got) == "number" then
    if math.abs(got - want) <= 1e-9 * math.max(1, math.abs(want)) then return nil end
  elseif type(want) == "table" and type(got) == "table" then
    if #want ~= #got then return ("%s: %d entries, want %d"):format(path, #got, #want) end
    local keys = {}
    for key in pairs(want) do keys[key] = true end
    for key in pairs(got) do keys[key] = true end
    for key in pairs(keys) do
      local found = difference(got[key], want[key], path .. "." .. tostring(key))
      if found then return found end
    end
    return nil
  elseif got == want or (is_null(got) and is_null(want)) then
    return nil
  end
  local function show(value) return value == nil and "nothing" or cjson.encode(value) end
  return ("%s: have %s, want %s"):format(path, show(got), show(want))
end

local function compare_step(got, want, path)
  for key, value in pairs(want) do
    local found
    if key == "refused" then
      found = not (got.refused or ""):find(value, 1, true)
        and ("%s: have '%s', want a refusal that names %s"):format(path, tostring(got.refused), value)
    else
      found = difference(got[key], value, path .. "." .. key)
    end
    if found then return found end
  end
end

local function run(vector)
  local file = support.json_file(vector)
  local pipe = assert(io.popen(("%s/routing_driver < %s 2>&1"):format(context.tools, support.quote(file))))
  local text = pipe:read "a"
  local ok = pipe:close()
  os.remove(file)
  local decoded, got = pcall(cjson.decode, text)
  if not ok or not decoded then return false, text end
  return got
end

function M.route(vector)
  local got, trouble = run(vector)
  if not got then return false, trouble end
  local want = vector.expect
  if want.refused then
    local found = compare_step(got, want, "expect")
    return found == nil, found
  end
  if got.refused then return false, "refused: " .. got.refused end
  for i, step in ipairs(want.steps) do
    if not is_null(step) then
      local have = got.steps[i]
      if not have then return false, ("step %d: nothing happened"):format(i) end
      local found = compare_step(have, step, ("step %d"):format(i))
      if found then return false, found end
    end
  end
  return true
end

function M.rendezvous(vector)
  local got, trouble = run(vector)
  if not got then return false, trouble end
  local found = difference(got, vector.expect, "expect")
  return found == nil, found
end

return M
