--- Who may see whom (ARCHITECTURE, rooms): by #include lines, and by symbols in the built objects.
-- A room may use itself and what stands in its list; any room may include public headers unless its
-- list says which. Lua headers belong to src/lua and src/cli alone.
package.path = "tests/house/?.lua;" .. package.path
local house = require "house"

-- The tower, lowest first; a room sees everything below it.
local TOWER <const> = { "base", "content", "kv", "host", "timing", "sched", "cluster", "workload", "sim", "lua", "cli" }

-- Rooms beside the tower: what they see, and from which floor up they may be seen.
local BESIDE <const> = {
  metrics = { sees = { "base" }, public = { events = true, status = true }, seen_from = "lua" },
  config = { sees = { "base", "timing" }, seen_from = "lua" },
}

local LUA_HEADERS <const> = { ["lua.h"] = true, ["lauxlib.h"] = true, ["lualib.h"] = true, ["luaconf.h"] = true }

local allowed = {} -- room -> set of rooms
do
  local below = {}
  for _, room in ipairs(TOWER) do
    for name, beside in pairs(BESIDE) do
      if beside.seen_from == room then below[#below + 1] = name end
    end
    below[#below + 1] = room
    allowed[room] = {}
    for _, name in ipairs(below) do allowed[room][name] = true end
  end
  for name, beside in pairs(BESIDE) do
    allowed[name] = { [name] = true }
    for _, room in ipairs(beside.sees) do allowed[name][room] = true end
  end
end

local function exists(path)
  local file = io.open(path, "rb")
  if file then file:close() end
  return file ~= nil
end

--- One #include of a file in a room (room = nil: a public header).
local function check_include(path, number, room, header, quoted)
  local place = path .. ":" .. number
  if LUA_HEADERS[header] then
    house.check(room == "lua" or room == "cli", "%s: %s belongs to src/lua and src/cli alone", place, header)
    return
  end
  local public = header:match("^aisim/(.+)%.h$")
  if public then
    local only = room and BESIDE[room] and BESIDE[room].public
    house.check(not only or only[public], "%s: room '%s' may not include %s", place, room, header)
    return
  end
  if not quoted then return end
  local folder = path:match("^(.*)/")
  local target = header:match("^([^/]+)/")
  if not (target and exists("src/" .. header)) then
    target = exists(folder .. "/" .. header) and folder:match("^src/([^/]+)$")
  end
  if not house.check(target, "%s: \"%s\" is neither src/%s nor beside the file", place, header, header) then return end
  if room == nil then
    house.check(false, "%s: a public header includes a private one (%s)", place, header)
  elseif target ~= room then
    house.check(allowed[room][target], "%s: room '%s' may not see room '%s' (%s)", place, room, target, header)
  end
end

for _, path in ipairs(house.files("src", "include")) do
  if path:find("%.[ch]$") then
    local room = path:match("^src/([^/]+)/")
    if room and not allowed[room] then
      house.check(false, "%s: '%s' is no room (see TOWER in tests/house/layers.lua)", path, room)
    else
      local number = 0
      for line in (house.read(path) .. "\n"):gmatch("(.-)\n") do
        number = number + 1
        local open, header = line:match('^%s*#%s*include%s*([<"])([^>"]+)[>"]')
        if header then check_include(path, number, room, header, open == '"') end
      end
    end
  end
end

-- Programs that show C embedding live on public headers, as their readers will.
for _, path in ipairs(house.files("examples")) do
  if path:find("%.[ch]$") then
    for header in house.read(path):gmatch('#%s*include%s*"([^"]+)"') do
      house.check(header:find("^aisim/"), "%s: an example includes a private header (%s)", path, header)
    end
  end
end

-- Symbols. An object file lies under …/src/<room>/; what it needs must be defined in a room it may see.
local build = os.getenv("AISIM_BUILD_DIR") or "build"
local defined, needed = {}, {} -- symbol -> room; list of {room, object, symbol}
local find_objects = "find " .. house.quote(build .. "/CMakeFiles") .. " -name '*.c.o' 2>/dev/null | sort"
for _, object in ipairs(house.lines(find_objects)) do
  local room, source = object:match("/src/([^/]+)/([^/]+)%.o$")
  if room and exists(("src/%s/%s"):format(room, source)) then -- not what an older build left
    for _, line in ipairs(house.lines("nm -P -g " .. house.quote(object) .. " 2>/dev/null")) do
      local symbol, kind = line:match("^(%S+) (%a)")
      if kind == "U" then
        needed[#needed + 1] = { room = room, object = room .. "/" .. source, symbol = symbol }
      elseif symbol then
        defined[symbol] = room
      end
    end
  end
end
if #needed == 0 then house.skip_one("symbol check: no object files in %s", build) end
for _, use in ipairs(needed) do
  local from = defined[use.symbol]
  if from and from ~= use.room then
    house.check(allowed[use.room][from], "src/%s uses %s of room '%s', which room '%s' may not see",
      use.object, use.symbol, from, use.room)
  end
end

house.done()
