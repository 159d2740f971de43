--- Runs one transcript of the command line: lua5.4 tests/house/transcripts.lua FILE [--update]
--
--   # a comment
--   $ aisim version            a shell command; the built program comes first in PATH
--   aisim <version>            what it prints, standard output and error together
--   ? 0                        its exit status, 0 if not given
--
-- In an expected line <number>, <version>, <duration>, <path> and <any> stand for what their name says;
-- a line of three dots stands for any number of lines. $TMP is an empty folder of this transcript, and
-- its name is printed as $TMP. Commands run in the source folder. `$ aisim …` without a built program
-- skips the transcript. --update writes what was printed into the file where it differs.
package.path = "tests/house/?.lua;" .. package.path
local house = require "house"

local PATTERNS <const> = {
  number = "[%-%d][%d,.]*",
  version = "%d+%.%d+%.%d+",
  duration = "[%d.,]+ ?[nmu]?s",
  path = "[^%s:]+",
  any = ".-",
}

--- Expected line as an anchored Lua pattern.
local function pattern_of(line)
  local escaped = line:gsub("[%^%$%(%)%%%.%[%]%*%+%-%?]", "%%%0")
  return "^" .. escaped:gsub("<(%l+)>", PATTERNS) .. "$"
end

--- Do the printed lines from i on match the expected ones from j on?
local function matches(printed, i, expected, j)
  while expected[j] do
    if expected[j] == "..." then
      for k = i, #printed + 1 do
        if matches(printed, k, expected, j + 1) then return true end
      end
      return false
    end
    if not (printed[i] and (printed[i] == expected[j] or printed[i]:find(pattern_of(expected[j])))) then
      return false
    end
    i, j = i + 1, j + 1
  end
  return printed[i] == nil
end

--- Splits the file into {head = comment lines, command =, expected = lines, status =}.
local function parse(text)
  local steps, head = {}, {}
  local step
  for line in text:gmatch("([^\n]*)\n") do
    if line:find("^%$ ") then
      step = { head = head, command = line:sub(3), expected = {}, status = 0 }
      steps[#steps + 1], head = step, {}
    elseif line:find("^#") then
      head[#head + 1], step = line, nil
    elseif line:find("^%? %d+$") and step then
      step.status = tonumber(line:sub(3))
    elseif step then
      step.expected[#step.expected + 1] = line
    else
      head[#head + 1] = line
    end
  end
  for _, one in ipairs(steps) do -- blank lines before the next command are layout
    while one.expected[#one.expected] == "" do
      one.expected[#one.expected] = nil
    end
  end
  return steps, head
end

local function run(command, folder)
  local build = os.getenv("AISIM_BUILD_DIR") or "build"
  local prelude = ("TMP=%s; PATH=%s:$PATH; export TMP PATH; exec 2>&1 </dev/null\n")
    :format(house.quote(folder), house.quote(build))
  local pipe = assert(io.popen(prelude .. command))
  local text = pipe:read("a")
  local _, how, status = pipe:close()
  local quoted = folder:gsub("%p", "%%%0")
  text = text:gsub(quoted, "$TMP")
  local lines = {}
  for line in (text:sub(-1) == "\n" and text or text .. "\n"):gmatch("([^\n]*)\n") do lines[#lines + 1] = line end
  while lines[#lines] == "" do
    lines[#lines] = nil
  end
  return lines, how == "exit" and status or 128 + status
end

local path, update = arg[1], arg[2] == "--update"
local text = house.read(path)
local program <const> = os.getenv("AISIM") or "build/aisim"
local file = io.open(program, "rb")
if file then
  file:close()
elseif text:find("%f[%w]aisim%f[%W]") then
  house.skip(path .. ": no program yet")
end

local folder = house.lines("mktemp -d")[1]
local steps, tail = parse(text)
local rewritten = {}
for _, step in ipairs(steps) do
  local printed, status = run(step.command, folder)
  local same = matches(printed, 1, step.expected, 1) and status == step.status
  if not same and not update then
    print(("%s: $ %s"):format(path, step.command))
    print("  expected (status " .. step.status .. "):\n    " .. table.concat(step.expected, "\n    "))
    print("  printed (status " .. status .. "):\n    " .. table.concat(printed, "\n    "))
  end
  house.check(same or update, "  differs: sh tests/run.sh again, or %s --update", arg[0])
  local shown, code = same and step.expected or printed, same and step.status or status
  for _, line in ipairs(step.head) do rewritten[#rewritten + 1] = line end
  rewritten[#rewritten + 1] = "$ " .. step.command
  for _, line in ipairs(shown) do rewritten[#rewritten + 1] = line end
  if code ~= 0 then rewritten[#rewritten + 1] = "? " .. code end
  rewritten[#rewritten + 1] = ""
end
os.execute("rm -rf " .. house.quote(folder))

if update then
  for _, line in ipairs(tail) do rewritten[#rewritten + 1] = line end
  local out <close> = assert(io.open(path, "wb"))
  out:write((table.concat(rewritten, "\n"):gsub("\n*$", "\n")))
end
house.done()
