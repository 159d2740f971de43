--- report.json: the recorder fed with the events of the records (report_driver.c).
local context <const> = ...
local cjson = require "cjson"
local support = require "support"

local M = { by = { default = "function" } }

--- Times within 1e-6 ms, others within 1e-9 of the value, percentiles of a sketch as the vector says.
local function close(got, want, key, tolerance)
  if got == want then return true end
  local difference = math.abs(got - want)
  if key:find "_ms$" and difference <= 1e-6 then return true end
  return difference <= math.abs(want) * (tolerance or 1e-9)
end

local EXACT <const> = support.set "n mean min max std" -- of a distribution: no sketch

local difference

local function children(got, want, path, key, tolerance)
  if type(got) ~= "table" then return ("%s: have %s, want an object or list"):format(path, tostring(got)) end
  if #want > 0 and #got ~= #want then return ("%s: %d entries, want %d"):format(path, #got, #want) end
  if next(want) == nil and #got > 0 then return ("%s: %d entries, want none"):format(path, #got) end
  local keys = {}
  for k in pairs(want) do keys[#keys + 1] = k end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  for _, k in ipairs(keys) do
    local below = path .. "." .. tostring(k)
    if got[k] == nil then return below .. ": missing" end
    local name = key:find "_ms$" and key or tostring(k) -- the statistics of a time are times
    local found = difference(got[k], want[k], below, name, not EXACT[k] and tolerance or nil)
    if found then return found end
  end
end

function difference(got, want, path, key, tolerance)
  if type(want) == "table" then return children(got, want, path, key, tolerance) end
  if type(want) == "number" and type(got) == "number" then
    if close(got, want, key, tolerance) then return nil end
    return ("%s: have %.15g, want %.15g"):format(path, got, want)
  end
  if got ~= want then return ("%s: have %s, want %s"):format(path, tostring(got), tostring(want)) end
end

local function run(vector)
  local path = support.json_file(vector)
  local pipe = assert(io.popen(("%s/report_driver < %s 2>&1"):format(context.tools, support.quote(path))))
  local text = pipe:read "a"
  local ok = pipe:close()
  os.remove(path)
  if not ok then return false, text end
  local decoded, got = pcall(cjson.decode, text)
  if not decoded then return false, text end
  local found = difference(got, vector.expect, "expect", "", vector.relative_tolerance)
  return found == nil, found
end

M.report, M.distribution, M.gauge = run, run, run

return M
