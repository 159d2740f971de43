--- Compares report_driver with the vectors of report.json.
--   lua5.4 tests/conformance/report_check.lua [DRIVER [FILE…]]
-- One line per vector, last line "N passed, N failed". Exit 1 after a failure, 77 without vectors.
local cjson = require "cjson"

local source <const> = os.getenv("AISIM_SOURCE_DIR") or "."
local driver <const> = arg[1] or (os.getenv("AISIM_BUILD_DIR") or "build") .. "/tests/report_driver"
local files = { table.unpack(arg, 2) }
if #files == 0 then
  files[1] = (os.getenv("AISIM_VECTORS") or source .. "/../shared/vectors") .. "/report.json"
end

local M = {}

--- Numbers: times within 1e-6 ms, others within 1e-9 of the value, percentiles of a sketch as the vector says.
local function close(got, want, key, tolerance)
  if got == want then return true end
  local difference = math.abs(got - want)
  if key:find("_ms$") and difference <= 1e-6 then return true end
  return difference <= math.abs(want) * (tolerance or 1e-9)
end

--- First difference of the keys that are present in `want`, or nil. `times`: inside a distribution of a time.
function M.difference(got, want, path, key, tolerance)
  if type(want) == "table" then
    if type(got) ~= "table" then return ("%s: got %s, want an object or list"):format(path, tostring(got)) end
    if #want > 0 and #got ~= #want then return ("%s: %d entries, want %d"):format(path, #got, #want) end
    if next(want) == nil and #got > 0 then return ("%s: %d entries, want none"):format(path, #got) end
    local keys = {}
    for k in pairs(want) do keys[#keys + 1] = k end
    table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
    for _, k in ipairs(keys) do
      local below = path .. "." .. tostring(k)
      if got[k] == nil then return below .. ": missing" end
      -- the statistics of a time are times
      local name = key:find("_ms$") and key or tostring(k)
      local exact = k == "n" or k == "mean" or k == "min" or k == "max" or k == "std"
      local found = M.difference(got[k], want[k], below, name, not exact and tolerance or nil)
      if found then return found end
    end
    return nil
  end
  if type(want) == "number" and type(got) == "number" then
    if close(got, want, key, tolerance) then return nil end
    return ("%s: got %.15g, want %.15g"):format(path, got, want)
  end
  if got ~= want then return ("%s: got %s, want %s"):format(path, tostring(got), tostring(want)) end
  return nil
end

local function run(vector)
  local name = os.tmpname()
  local file = assert(io.open(name, "w"))
  file:write(cjson.encode(vector))
  file:close()
  local pipe = assert(io.popen(("%s < %s 2>&1"):format(driver, name)))
  local text = pipe:read("a")
  local ok = pipe:close()
  os.remove(name)
  if not ok then return nil, text end
  local decoded, result = pcall(cjson.decode, text)
  if not decoded then return nil, result end
  return result
end

local passed, failed = 0, 0
for _, path in ipairs(files) do
  local file = io.open(path)
  if not file then
    print(("skip  %s: no such file (reference numbers are not part of the project)"):format(path))
    os.exit(77)
  end
  local vectors = cjson.decode(file:read("a")).vectors
  file:close()
  for _, vector in ipairs(vectors) do
    local got, why = run(vector)
    why = why or M.difference(got, vector.expect, "expect", "", vector.relative_tolerance)
    if why then failed = failed + 1 else passed = passed + 1 end
    print(("%s  report.json  %s  by function%s"):format(why and "FAIL" or "ok", vector.name, why and "  " .. why or ""))
  end
end
print(("%d passed, %d failed"):format(passed, failed))
os.exit(failed == 0 and 0 or 1)
