--- What the terminal can do, and writing to it. Works without the program (plain lua5.4) too.
local render = require "aisim.render"

local M = {}

local found, host = pcall(require, "aisim.host")
M.host = found and host or {
  clock = os.clock,
  interrupted = function() end,
  polling = function() end,
  quiet = function() end,
  terminal = function() return false end,
  utf8 = function() return true end,
  file = function() end,
  modules = function() return {} end,
  program = function() end,
  version = "unknown",
}

M.utf8 = M.host.utf8()

--- Colour only where somebody looks and nobody has asked for none.
local function colour_on(fd)
  local no_colour = os.getenv("NO_COLOR")
  return M.host.terminal(fd) and (no_colour == nil or no_colour == "") and os.getenv("TERM") ~= "dumb"
end
local colour <const> = { [1] = colour_on(1), [2] = colour_on(2) }

local function paint(text, fd)
  if not colour[fd] then return text end
  return (text:gsub("✓", "\27[32m✓\27[0m"):gsub("✗", "\27[31m✗\27[0m"))
end

--- The text in the characters that the terminal has.
function M.plain(text) return M.utf8 and text or render.ascii(text) end

local function emit(file, fd, text)
  file:write(M.plain(paint(text, fd)), "\n")
end

--- A line or several to standard output.
function M.out(text) emit(io.stdout, 1, text) end

--- A line or several to standard error.
function M.err(text) emit(io.stderr, 2, text) end

return M
