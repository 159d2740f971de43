--- Errors on their way to the user: what is said, and with which exit status.
-- Two kinds: a *fault* made here (usage, files) with its own status; an error of a script, which keeps
-- its "file:line:" and gets the script frames of its traceback unless the binding has already added
-- context and frames (errors in hooks, routers, session bodies). Frames of the embedded library
-- ("@aisim/…") and of C are folded: the reader wants the lines that can be edited.
local core = require "aisim.core"

local M = {}

M.OK, M.FAILED, M.USAGE, M.LIMIT, M.EXPECTATION, M.INTERNAL = 0, 1, 2, 3, 4, 70

---@class aisim.Fault
---@field message string
---@field code integer      exit status
---@field frames string[]?     script frames, innermost first
---@field traceback string?    of everything, if the program itself broke
---@field hint string?
local Fault = {}
Fault.__index = Fault
Fault.__name = "aisim.fault"
Fault.__tostring = function(self) return self.message end

--- Is this one of ours?
function M.is(value) return getmetatable(value) == Fault end

function M.new(code, message) return setmetatable({ code = code, message = message }, Fault) end

--- Raises with status 2; the message gets "aisim: " in front.
function M.usage(format, ...)
  error(M.new(M.USAGE, "aisim: " .. format:format(...)), 0)
end

--- Raises with a status of choice.
function M.raise(code, format, ...)
  error(M.new(code, "aisim: " .. format:format(...)), 0)
end

-- Where help is, by what the binding says it was calling: "  in router 'x' at t = …".
local HINTS <const> = {
  hook = "aisim help hooks lists the hooks and their arguments",
  router = "aisim help router lists the columns of targets",
}

local function is_library(info)
  return info.what == "C" or info.source:sub(1, 7) == "@aisim/" or info.source:sub(1, 1) == "="
end

--- Script frames of the running stack, innermost first: "a.lua:41: in function 'score'".
---@param level integer
---@return string[]
local function script_frames(level)
  local frames = {}
  local shown <const> = 20
  while true do
    local info = debug.getinfo(level, "Sln")
    if not info then return frames end
    if not is_library(info) then
      if #frames == shown then
        frames[shown + 1] = "..."
        return frames
      end
      local what = info.what == "main" and "in main chunk" or info.name and ("in function '%s'"):format(info.name)
        or ("in function <%s:%d>"):format(info.short_src, info.linedefined)
      frames[#frames + 1] = ("%s:%d: %s"):format(info.short_src, info.currentline, what)
    end
    level = level + 1
  end
end

-- What a verb says about its arguments by way of the library: "search.goal: …".
local VERBS <const> = { sweep = true, search = true, compare = true, report = true }

--- Message handler for xpcall: turns anything raised into a fault.
---@param value any
---@return aisim.Fault
function M.handler(value)
  if M.is(value) then return value end
  local limit = core.limit_message() -- whatever became of it on its way
  local text = limit or core.error_text(value)
  local fault = M.new((limit or value == "not enough memory") and M.LIMIT or M.USAGE, text)
  if value == "not enough memory" then fault.message = limit or "aisim: " .. text end
  if VERBS[text:match("^(%a+)[.:]")] then fault.message = "aisim: " .. text end -- no script is the place
  if text:find("^%-%-set ") then
    fault.message = "aisim: " .. text -- the flag is the place
  elseif text:find("^aisim/[%w_/]+%.lua:%d+: ") or text:find("^%[C%]") then
    -- The library broke, not the script: everything helps.
    fault.code, fault.traceback = M.INTERNAL, debug.traceback(nil, 2)
  elseif text:find("\nstack traceback:", 1, true) then
    fault.hint = HINTS[text:match("\n  in (%w+)")]
  else
    fault.frames = script_frames(3)
  end
  return fault
end

--- Does the list of frames say more than the position in front of the message?
local function worth_showing(fault)
  return #fault.frames > 1 or #fault.frames == 1 and not fault.message:find("^[^\n:]+:%d+: ")
end

--- The lines for the user.
---@param fault aisim.Fault
---@return string
function M.text(fault)
  local lines = { fault.message }
  if fault.traceback then
    lines[#lines + 1] = (fault.traceback:gsub("^%s+", ""))
  elseif fault.frames and worth_showing(fault) then
    lines[#lines + 1] = "stack traceback:"
    for _, frame in ipairs(fault.frames) do lines[#lines + 1] = "    " .. frame end
  end
  if fault.hint then lines[#lines + 1] = "hint: " .. fault.hint end
  return table.concat(lines, "\n")
end

return M
