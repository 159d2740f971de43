--- Units that people write: "250ms", "2m", "80GiB", "8/s". Read at the border, never returned.
local core = require "aisim.core"

local M = {}

--- Milliseconds of a text such as "250ms", "1.5 s", "2m", "1h"; nil if it is none.
---@param text string
---@return number?
function M.ms(text) return core.scan_unit(text, "ms") end

--- Bytes of a text such as "80GiB", "24 kB"; nil if it is none.
---@param text string
---@return number?
function M.bytes(text) return core.scan_unit(text, "bytes") end

--- Rate per second of "2/s", "90/m", "0.5 /h"; nil if it is none.
---@param text string
---@return number?
function M.rate(text)
  local number, unit = text:match("^%s*([%d%.eE+-]+)%s*/%s*(%a+)%s*$")
  local rate = tonumber(number)
  local unit_ms = rate and M.ms("1" .. unit)
  return unit_ms and rate * 1000 / unit_ms
end

return M
