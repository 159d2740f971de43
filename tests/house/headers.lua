--- Every header compiles alone, twice in a row, without a warning.
package.path = "tests/house/?.lua;" .. package.path
local house = require "house"

local FLAGS <const> = "-std=c11 -fsyntax-only -Werror -Wall -Wextra -Wpedantic -Wshadow -Wconversion " ..
  "-Wstrict-prototypes -Wvla -Wundef -D_POSIX_C_SOURCE=200809L -DAISIM_VERSION='\"0\"' -Iinclude -Isrc"

local compiler = os.getenv("CC") or "cc"
local lua_flags = table.concat(house.lines("pkg-config --cflags lua5.4 2>/dev/null"), " "):gsub("%-I", "-isystem ")

for _, path in ipairs(house.files("src", "include")) do
  if path:find("%.h$") then
    local header = path:gsub("^src/", ""):gsub("^include/", "")
    local flags = FLAGS
    if path:find("^src/lua/") or path:find("^src/cli/") then flags = flags .. " " .. lua_flags end
    -- The second inclusion shows a missing guard; the declaration avoids an empty translation unit.
    local source = ('#include "%s"\\n#include "%s"\\nextern int aisim_alone;\\n'):format(header, header)
    local ok = os.execute(("printf '%s' | %s %s -x c - 2>&1"):format(source, house.quote(compiler), flags))
    house.check(ok, "%s: does not compile alone", path)
  end
end

house.done()
