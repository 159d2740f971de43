--- Limits on scripts: the flags, what they allow, and putting them in force (STYLE §11).
-- One table feeds the command line, its checks and aisim help limits.
local core = require "aisim.core"
local fault = require "aisim.cli.fault"
local terminal = require "aisim.cli.terminal"
local units = require "aisim.units"

local M = {}

---@class aisim.LimitFlag
---@field flag string        without the dashes
---@field argname string?    nil: a switch
---@field default any
---@field help string
---@field read fun(text: string): number?
---@field expected string?

---@type aisim.LimitFlag[]
M.FLAGS = {
  {
    flag = "hook-timeout", argname = "S", default = 10, expected = "seconds ≥ 0, for example 10 (0: no limit)",
    help = "Seconds that one call into the script may take; 0: no limit (default 10).",
    read = function(text)
      local seconds = tonumber(text)
      if not seconds and units.ms(text) then seconds = units.ms(text) / 1000 end
      return seconds and seconds >= 0 and seconds <= 1e6 and seconds or nil
    end,
  },
  {
    flag = "max-instructions", argname = "N", default = 0, expected = "whole number ≥ 1",
    help = "Instructions of Lua that the script may use in all; makes Lua code about half as fast.",
    read = function(text)
      local n = math.tointeger(tonumber(text))
      return n and n >= 1 and n or nil
    end,
  },
  {
    flag = "memory-limit", argname = "SIZE", default = 0, expected = "size ≥ 1MiB, for example \"512MiB\"",
    help = "Memory that the script's values may take; the whole program gets twice that and 256 MiB.",
    read = function(text)
      local bytes = tonumber(text) or units.bytes(text)
      return bytes and bytes >= 1048576 and bytes < 2 ^ 60 and bytes or nil
    end,
  },
  {
    flag = "sandbox", default = false,
    help = "For scripts of others: no io, os, debug, no files but through aisim.",
  },
}

local PROCESS_EXTRA <const> = 256 * 1048576

--- Adds the flags to a verb.
function M.add_to(command)
  for _, flag in ipairs(M.FLAGS) do
    if flag.argname then
      command:option("--" .. flag.flag, flag.help):argname(flag.argname)
    else
      command:flag("--" .. flag.flag, flag.help)
    end
  end
end

--- Rows for help: flag, meaning.
---@return string[][]
function M.rows()
  local rows = {}
  for i, flag in ipairs(M.FLAGS) do
    rows[i] = { "--" .. flag.flag .. (flag.argname and " " .. flag.argname or ""), flag.help }
  end
  return rows
end

--- Puts the limits of the command line (or the default ones) in force.
---@param args table   of the parser
function M.apply(args)
  local values = {}
  for _, flag in ipairs(M.FLAGS) do
    local text, value = args[flag.flag:gsub("-", "_")], flag.default
    if text and flag.read then
      value = flag.read(text)
      if not value then fault.usage("--%s %s: %s expected", flag.flag, text, flag.expected) end
    elseif text then
      value = text
    end
    values[flag.flag] = value
  end
  core.limit(values["hook-timeout"], values["max-instructions"], values["memory-limit"])
  if values["hook-timeout"] > 0 then terminal.host.watch(values["hook-timeout"]) end
  if values["memory-limit"] > 0 then terminal.host.limit_process(2 * values["memory-limit"] + PROCESS_EXTRA) end
  if values.sandbox then require("aisim.sandbox").on() end
end

return M
