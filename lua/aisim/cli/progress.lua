--- The progress line: simulated time, percent, simulated/real speed, time left.
-- Only when standard error is a terminal, at most ten times a second, wiped at the end.
local terminal = require "aisim.cli.terminal"
local render = require "aisim.render"

local M = {}

local PERIOD_S <const> = 0.1
local FIRST_S <const> = 0.3 -- a run shorter than this shows nothing

--- A function for sim:run { progress = … }, and one that wipes the line; nil where nobody looks.
---@param until_ms number?            end of the run in virtual time, if known
---@param expect_runtime_s number?    of the scenario: used when the end is not known
---@return fun(t_ms: number)? show
---@return fun() wipe
function M.new(until_ms, expect_runtime_s)
  local on_terminal, columns = terminal.host.terminal(2)
  if not on_terminal then return nil, function() end end
  local started = terminal.host.clock()
  local last, shown = started + FIRST_S - PERIOD_S, false
  local function show(t_ms)
    local now = terminal.host.clock()
    if now - last < PERIOD_S then return end
    last, shown = now, true
    local spent = now - started
    local parts = { ("%s simulated"):format(render.duration(t_ms)) }
    local share
    if until_ms and until_ms > 0 then
      share = math.min(1, t_ms / until_ms)
    elseif expect_runtime_s and spent < expect_runtime_s then
      share = spent / expect_runtime_s
    end
    if share then parts[#parts + 1] = ("%.0f %%"):format(100 * share) end
    parts[#parts + 1] = ("%s × real time"):format(render.number(t_ms / 1000 / spent))
    if share and share > 0.02 then
      parts[#parts + 1] = ("%s left"):format(render.duration(spent * (1 - share) / share * 1000))
    end
    local line = table.concat(parts, "   ")
    if not terminal.utf8 then line = render.ascii(line) end
    io.stderr:write("\r\27[K", line:sub(1, (columns or 80) - 1))
    io.stderr:flush()
  end
  local function wipe()
    if shown then io.stderr:write("\r\27[K") end
    shown = false
  end
  return show, wipe
end

return M
