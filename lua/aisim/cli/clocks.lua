--- Finds functions of a scenario that read the clock of the machine: their results differ from run to run.
-- A function does when its text names os.time, os.clock or os.date, or when it keeps one of them, or a
-- function of the script that does, in a local of the file.
local scenario = require "aisim.scenario"

local M = {}

local NAMES <const> = { "time", "clock", "date" }

local function line_of(source, first, last)
  local text, number = scenario.sources[source], 0
  for line in ((text or "") .. "\n"):gmatch("(.-)\n") do
    number = number + 1
    if number >= first and number <= last then
      for _, name in ipairs(NAMES) do
        if line:gsub("%-%-.*$", ""):find("%f[%w_]os%." .. name .. "%f[^%w_]") then return name, number end
      end
    end
  end
end

--- Which clock a function reads, and on which line.
---@param fn function
---@return string? name     "os.clock"
---@return integer? line
function M.find(fn, visited)
  visited = visited or {}
  if visited[fn] then return nil end
  visited[fn] = true
  local info = debug.getinfo(fn, "S")
  if info.what == "C" then
    for _, name in ipairs(NAMES) do
      if os[name] == fn then return "os." .. name end
    end
    return nil
  end
  if not scenario.sources[info.source] then return nil end -- the library, or a module beside the file
  local name, line = line_of(info.source, info.linedefined, info.lastlinedefined)
  if name then return "os." .. name, line end
  local i = 1
  while true do
    local _, value = debug.getupvalue(fn, i)
    if not _ then return nil end
    if type(value) == "function" then
      local found, at = M.find(value, visited)
      if found then return found, at or info.linedefined end
    end
    i = i + 1
  end
end

return M
