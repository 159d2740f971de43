--- What the drivers of conformance vectors share.
local cjson = require "cjson"

local M = {}

--- The driver table of a file of tests/twin on a backend (aisim_engine or aisim_twin).
function M.drivers(context, file, backend)
  return assert(loadfile(("%s/%s.lua"):format(context.twin_dir, file)))(backend)
end

--- Turns a driver of tests/twin (returns difference, reason to skip) into one of ours.
function M.adapt(driver)
  return function(vector)
    local difference, skip = driver(vector)
    if skip then return false, skip end -- what cannot be driven does not conform
    return difference == nil, difference
  end
end

--- First key of the table that is not in the set, as a difference.
function M.unknown(table_, known, what)
  for key in pairs(table_ or {}) do
    if not known[key] then return ("unknown %s '%s'"):format(what, tostring(key)) end
  end
end

function M.set(text)
  local set = {}
  for word in text:gmatch "%S+" do set[word] = true end
  return set
end

--- Guards a driver: keys of config, of each request and of expect that it does not know are differences.
--- @param keys { config, requests, expect } as words; nil = that part is not checked
function M.strict(keys, driver)
  local sets = {}
  for i = 1, 3 do sets[i] = keys[i] and M.set(keys[i]) end
  return function(vector, context)
    local unknown = sets[1] and M.unknown(vector.config, sets[1], "config key")
    local list = vector.requests or {}
    for _, request in ipairs(list[1] ~= nil and list or { list }) do
      unknown = unknown or (sets[2] and M.unknown(request, sets[2], "request key"))
    end
    unknown = unknown or (sets[3] and M.unknown(vector.expect, sets[3], "expected key"))
    if unknown then return false, unknown end
    return driver(vector, context)
  end
end

--- Guards the drivers of a module by kind.
function M.guard(module, keys)
  for kind, words in pairs(keys) do
    module[kind] = M.strict(words, assert(module[kind], kind))
  end
  return module
end

function M.close(have, want, tolerance)
  return type(have) == "number" and math.abs(have - want) <= tolerance
end

local function show(value)
  if type(value) ~= "table" then return tostring(value) end
  return cjson.encode(value)
end

--- First difference of what is expected, or nil: objects on the expected keys, lists exactly, times
--- within 1e-6 ms, rates within 1e-9 of their value.
function M.difference(expected, found, path)
  if type(expected) == "number" and type(found) == "number" then
    local bound = path:find("rps", 1, true) and 1e-9 * math.abs(expected) or 1.001e-6
    if math.abs(expected - found) <= bound then return nil end
  elseif type(expected) == "table" and type(found) == "table" then
    if #expected ~= #found then
      return ("%s: want %d entries, have %d"):format(path, #expected, #found)
    end
    local keys = {}
    for key in pairs(expected) do keys[#keys + 1] = key end
    table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
    if type(keys[1]) == "number" then table.sort(keys) end
    for _, key in ipairs(keys) do
      local where = M.difference(expected[key], found[key], path .. "." .. tostring(key))
      if where then return where end
    end
    return nil
  elseif expected == found then
    return nil
  end
  return ("%s: want %s, have %s"):format(path, show(expected), show(found))
end

function M.quote(text)
  return "'" .. text:gsub("'", "'\\''") .. "'"
end

--- Runs a command and decodes its JSON lines. @return the list, or nil and what it printed
function M.json_lines(command)
  local pipe = assert(io.popen(command .. " 2>&1", "r"))
  local list, other = {}, {}
  for line in pipe:lines() do
    local fine, value = pcall(cjson.decode, line)
    if fine then
      list[#list + 1] = value
    else
      other[#other + 1] = line
    end
  end
  if not pipe:close() or #other > 0 then return nil, table.concat(other, "\n") end
  return list
end

--- A number as JSON: whole ones without a point, others with every digit (cjson writes 14 of them).
local function number_text(value)
  local whole = math.tointeger(value)
  return whole and ("%d"):format(whole) or ("%.17g"):format(value)
end

--- The value as JSON text that a tool reads back without loss.
function M.exact_json(value)
  if type(value) == "number" then return number_text(value) end
  if type(value) ~= "table" then return cjson.encode(value) end
  local items = {}
  if #value > 0 then
    for i, item in ipairs(value) do items[i] = M.exact_json(item) end
    return "[" .. table.concat(items, ",") .. "]"
  end
  local keys = {}
  for key in pairs(value) do keys[#keys + 1] = key end
  table.sort(keys)
  for i, key in ipairs(keys) do items[i] = cjson.encode(key) .. ":" .. M.exact_json(value[key]) end
  return "{" .. table.concat(items, ",") .. "}"
end

--- The value as a JSON file for a tool; the caller removes it.
function M.json_file(value)
  local path = os.tmpname()
  local file = assert(io.open(path, "w"))
  file:write(M.exact_json(value))
  file:close()
  return path
end

--- JSON text with whole numbers of more than 15 digits as texts: numbers of Lua's cjson are doubles, and
--- two 64-bit identities must not become one.
function M.keep_identities(text)
  return (text:gsub("([%[,:]%s*)(%d+)%f[%s,%]}]", function(before, digits)
    return #digits > 15 and ('%s"%s"'):format(before, digits) or nil
  end))
end

--- A driver for what the product has no function for.
function M.missing(what)
  return function() return false, "the product has no function for it: " .. what end
end

return M
