--- The README tells the truth: its scenario and its commands are run, its outputs compared.
-- ```lua blocks whose first line is "-- NAME.lua: …" are saved under that name. In ```console blocks each
-- "$ command" runs in a folder that looks like the source folder, and what it prints must be what stands
-- below it; lines that begin with "duration" are compared without their figures (they contain wall time).
-- Commands in backticks that begin with "aisim " must end with status 0. Of the two commands that build
-- (```sh) only the syntax is checked here: this test is part of one of them.
local lfs = require "lfs"

local root = os.getenv("AISIM_SOURCE_DIR") or lfs.currentdir()
local program = os.getenv("AISIM") or root .. "/build/aisim"
local build = os.getenv("AISIM_BUILD_DIR") or root .. "/build"

local passed, failed = 0, 0
local function check(ok, what, detail)
  if ok then
    passed = passed + 1
  else
    failed = failed + 1
    print("FAIL " .. what .. (detail and "\n" .. detail or ""))
  end
end

local function quoted(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read("a")
  file:close()
  return text
end

-- A folder with links to everything, so that commands find scenarios/ and may write results.
local folder = os.tmpname()
os.remove(folder)
assert(lfs.mkdir(folder))
for name in lfs.dir(root) do
  if not name:find("^%.") and name ~= "build" then lfs.link(root .. "/" .. name, folder .. "/" .. name, true) end
end
lfs.link(build, folder .. "/build", true)

local function run(command)
  local out = folder .. "/.out"
  local form = "cd %s && export LC_ALL=C.UTF-8 NO_COLOR=1 PATH=%s:$PATH; (%s) >.out 2>&1 </dev/null"
  local _, _, status = os.execute(form
    :format(quoted(folder), quoted(program:match("^(.*)/") or "."), command))
  return status, read(out)
end

local function comparable(text)
  local lines = {}
  for line in (text:gsub("\n+$", "") .. "\n"):gmatch("(.-)\n") do
    if line:find("^duration") then line = line:gsub("[%d,.]+ [%a]*", "N "):gsub("%s+", " ") end
    lines[#lines + 1] = line:gsub("%s+$", "")
  end
  return table.concat(lines, "\n")
end

local text = read(root .. "/README.md")
for kind, body in text:gmatch("\n```(%a+)\n(.-)\n```") do
  if kind == "lua" then
    local name = body:match("^%-%- ([%w_]+%.lua):")
    check(load(body), "the Lua block parses")
    if name then
      local file = assert(io.open(folder .. "/" .. name, "wb"))
      file:write(body, "\n")
      file:close()
    end
  elseif kind == "console" then
    local command, expected = body:match("^%$ ([^\n]+)\n?(.*)$")
    local status, got = run(command)
    check(status == 0 or status == 4, command .. ": exit status", got)
    check(comparable(got) == comparable(expected), command .. ": output differs from the README", got)
  elseif kind == "sh" then
    for script in body:gmatch("sh ([%w/_%.]+%.sh)") do
      check(os.execute("sh -n " .. quoted(root .. "/" .. script)), script .. " parses")
    end
  end
end
for command in text:gmatch("`(aisim [^`\n]+)`") do
  if not command:find("%f[%u]%u%u+") then -- FILE, DIR: not meant to be typed
    local status, got = run(command)
    check(status == 0 or status == 4, "`" .. command .. "`: exit status " .. status, got)
  end
end
os.execute("rm -rf " .. quoted(folder))
print(("%d passed, %d failed"):format(passed, failed))
os.exit(failed == 0)
