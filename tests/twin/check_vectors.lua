-- check_vectors.lua FILE… - drives the block-by-block twin with conformance vectors.
--
-- Prints `ok name`, `FAIL name  first difference` or `skip name  why` per vector and
-- `N passed, N failed, N skipped` at the end; exit status 1 after a failure. AISIM_TWIN_DIR is the
-- folder of aisim_twin.so (default: the current one). The files are described in the README beside
-- them; a missing file is reported and skipped.

local here = arg[0]:match("^(.*)/[^/]*$") or "."
package.path = here .. "/?.lua;" .. package.path
package.cpath = (os.getenv("AISIM_TWIN_DIR") or ".") .. "/?.so;" .. package.cpath

local cjson = require "cjson"
if os.getenv("AISIM_ENGINE") then -- the product engine behind the same interface
  package.loaded.aisim_twin = require "aisim_engine"
end

local drivers = {}
for _, file in ipairs { "drive_engine", "drive_units", "drive_mtp", "drive_upstream", "drive_kv", "drive_host",
  "drive_connector" } do
  local found = package.searchpath(file, package.path)
  if found then
    for kind, driver in pairs(dofile(found)) do
      drivers[kind] = driver
    end
  end
end

local function read(path)
  local file = io.open(path, "rb")
  if not file then
    return nil
  end
  local text = file:read("a")
  file:close()
  return cjson.decode(text)
end

local passed, failed, skipped = 0, 0, 0

local function run(vector)
  local kind = vector.kind or (vector.config and vector.config.component)
  local driver = drivers[kind]
  if not driver then
    skipped = skipped + 1
    return print(("skip %s  kind %s"):format(vector.name, kind))
  end
  local fine, difference, skip = xpcall(driver, debug.traceback, vector)
  if fine and skip then
    skipped = skipped + 1
    print(("skip %s  %s"):format(vector.name, skip))
  elseif fine and not difference then
    passed = passed + 1
    print("ok   " .. vector.name)
  else
    failed = failed + 1
    print(("FAIL %s  %s"):format(vector.name, difference))
  end
end

for _, path in ipairs(arg) do
  local content = read(path)
  if not content then
    print("skip " .. path .. "  not found")
  else
    for _, vector in ipairs(content.vectors or content) do
      run(vector)
    end
  end
end
print(("%d passed, %d failed, %d skipped"):format(passed, failed, skipped))
os.exit(failed == 0)
