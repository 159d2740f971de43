--- How the tree looks: what stands at the top, how long files are, no path of anybody's machine,
-- spaces instead of tabs, one newline at the end.
package.path = "tests/house/?.lua;" .. package.path
local house = require "house"

local TOP <const> = {
  ["CMakeLists.txt"] = true, ["README.md"] = true, src = true, lua = true, scenarios = true, include = true,
  tests = true, examples = true, [".ci"] = true, [".clang-format"] = true, [".luacheckrc"] = true,
  [".busted"] = true, [".editorconfig"] = true, [".gitignore"] = true,
}
local MAX_LINES <const> = 600  -- a file holds one concept: 100 to 500 lines
local WARN_LINES <const> = 500
-- Catalogues and recorded data are as long as they are.
local DATA <const> = { "^lua/aisim/models/", "^lua/aisim/hardware/", "^lua/aisim/meta%.lua$", "^tests/data/",
  "^tests/.*/corpus/" }
-- Absolute folders that exist only where somebody works. Written apart, so that this file may be checked too.
local HOMES <const> = { "/" .. "work/", "/" .. "root/", "/" .. "home/", "/" .. "farm/" }

local function is_data(path)
  for _, pattern in ipairs(DATA) do
    if path:find(pattern) then return true end
  end
  return false
end

local function is_source(path)
  return path:find("%.[ch]$") or path:find("%.lua$") or path:find("%.sh$") or path:find("%.cmake$")
    or path == "CMakeLists.txt"
end

local tops = {}
for _, path in ipairs(house.files()) do
  local top = path:match("^[^/]+")
  if not tops[top] then
    tops[top] = true
    house.check(TOP[top], "%s: does not belong at the top level", top)
  end

  local text = house.read(path)
  local binary = text:find("\0", 1, true)
  if not binary then
    for _, home in ipairs(HOMES) do
      local at = text:find(home, 1, true)
      local _, line = text:sub(1, at or 0):gsub("\n", "")
      -- inside a longer path the folder is an ordinary name; only one that begins there is absolute
      local before = at and at > 1 and text:sub(at - 1, at - 1) or " "
      house.check(not at or before:find("[%w_.%-]"), "%s:%d: absolute path of one machine (%s)", path, line + 1, home)
    end
  end

  if is_source(path) and not is_data(path) then
    local _, lines = text:gsub("\n", "")
    if lines > WARN_LINES and lines <= MAX_LINES then
      print(("warning: %s has %d lines; does it hold one concept?"):format(path, lines))
    end
    house.check(lines <= MAX_LINES, "%s: %d lines, at most %d", path, lines, MAX_LINES)
    house.check(text == "" or text:sub(-1) == "\n", "%s: no newline at the end", path)
    house.check(not text:find("\r", 1, true), "%s: carriage returns", path)
    house.check(not text:find("\t", 1, true), "%s: tabs", path)
  end
end

house.done()
