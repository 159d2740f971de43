--- aisim repl: Lua with the library loaded. An expression prints its value, a statement that is not
-- complete goes on in the next line. Globals are allowed here: what a line assigns, the next may read;
-- reading a name that nobody has assigned is an error with a suggestion.
-- At a terminal lines can be edited, called back and completed with Tab, if the program was built with libedit;
-- they are kept in $XDG_STATE_HOME/aisim/repl_history (~/.local/state without it). Ctrl-C drops what was typed, or
-- stops what runs.
local aisim = require "aisim"
local core = require "aisim.core"
local complete = require "aisim.cli.complete"
local fault = require "aisim.cli.fault"
local near = require "aisim.near"
local terminal = require "aisim.cli.terminal"

local M = {}

local MAX_ITEMS <const> = 40 -- of a table that is shown
local MAX_DEPTH <const> = 3

local function key_text(key)
  if type(key) == "string" and key:find("^[%a_][%w_]*$") then return key end
  return ("[%s]"):format(type(key) == "string" and ("%q"):format(key) or tostring(key))
end

local function sorted_keys(value)
  local keys = {}
  for key in next, value do keys[#keys + 1] = key end
  table.sort(keys, function(a, b)
    if type(a) == type(b) and (type(a) == "number" or type(a) == "string") then return a < b end
    return type(a) == "number" or type(b) ~= "number" and tostring(a) < tostring(b)
  end)
  return keys
end

--- A value as text: tables with their fields, objects by what they say of themselves.
---@param value any
---@param depth? integer
---@return string
function M.show(value, depth)
  depth = depth or 0
  if type(value) == "string" then return depth == 0 and value or ("%q"):format(value) end
  local meta = getmetatable(value)
  if type(value) ~= "table" or type(meta) == "table" and meta.__tostring then return tostring(value) end
  if next(value) == nil then return type(meta) == "table" and meta.__name or "{}" end
  if depth == MAX_DEPTH then return "{…}" end
  local parts, keys = {}, sorted_keys(value)
  for i, key in ipairs(keys) do
    if i > MAX_ITEMS then
      parts[i] = ("… %d more"):format(#keys - MAX_ITEMS)
      break
    end
    local item = M.show(rawget(value, key), depth + 1)
    parts[i] = key == i and item or ("%s = %s"):format(key_text(key), item)
  end
  local line = "{ " .. table.concat(parts, ", ") .. " }"
  if #line <= 96 - 2 * depth then return line end
  local pad = "\n" .. ("  "):rep(depth + 1)
  return "{" .. pad .. table.concat(parts, "," .. pad) .. "\n" .. ("  "):rep(depth) .. "}"
end

--- What a line sees: the library, the standard library, what earlier lines assigned.
local function environment()
  return setmetatable({ aisim = aisim }, { __index = function(env, name)
    local value = rawget(_G, name)
    if value == nil then
      local known = {}
      for _, set in ipairs { env, _G } do
        for key in next, set do known[key] = true end
      end
      error(("'%s' is not defined%s"):format(tostring(name), near.hint(tostring(name), known)), 2)
    end
    return value
  end })
end

--- Compiles what has been typed so far: an expression first. nil, nil: more is needed.
local function compile(text, env)
  local chunk, why = load("return " .. text, "=input", "t", env)
  if chunk then return chunk end
  local problem
  chunk, problem = load(text, "=input", "t", env)
  if not chunk and (problem:find("near <eof>$") or why:find("near <eof>$")) then return nil, nil end
  return chunk, problem
end

local function print_results(results)
  local parts = {}
  for i = 1, results.n do parts[i] = M.show(results[i]) end
  if #parts > 0 then terminal.out(table.concat(parts, "   ")) end
end

-- Lines ---------------------------------------------------------------------------------------------

--- The file of the history, its folder made; nil where nobody has a home.
local function history_path()
  local has_lfs, lfs = pcall(require, "lfs")
  local state, home = os.getenv "XDG_STATE_HOME", os.getenv "HOME"
  if not state or state:sub(1, 1) ~= "/" then -- relative ones do not count (XDG base directories)
    if not home or home:sub(1, 1) ~= "/" then return nil end
    state = home .. "/.local/state"
  end
  local folder = state .. "/aisim"
  if has_lfs then
    for at in (folder .. "/"):gmatch "()/" do
      if at > 1 then lfs.mkdir(folder:sub(1, at - 1)) end
    end
  end
  return folder .. "/repl_history"
end

--- Lines from a terminal with an editor: next(prompt) -> line, or nil at the end, or nil and a signal.
local function edited(editor, path)
  if path then editor:load(path) end
  return {
    next = function(prompt) return editor:line(prompt) end,
    close = function()
      local problem = path and editor:save(path)
      if problem then terminal.err(("repl: the history is not kept: %s: %s"):format(path, problem)) end
    end,
  }
end

--- Lines as they come.
local function plain(interactive)
  return {
    next = function(prompt)
      if interactive then
        io.stdout:write(prompt)
        io.stdout:flush()
        terminal.host.wait_for_input()
      end
      local line = not (interactive and terminal.host.interrupted()) and io.read("L") or nil
      return line, not line and terminal.host.interrupted() or nil
    end,
    close = function() end,
  }
end

local function lines_of(interactive, env)
  local make = interactive and terminal.host.editor
  local editor = make and make(function(text)
    local _, width = terminal.host.terminal(1)
    return complete.tab(text, env, width or 80)
  end)
  return editor and edited(editor, history_path()) or plain(interactive)
end

-- The loop -----------------------------------------------------------------------------------------

local SIGINT <const> = 2

--- A signal came. At a terminal Ctrl-C asks for the prompt, not for the end.
---@return integer? status    the loop ends
local function stopped(interactive)
  local signal = terminal.host.interrupted()
  if not signal then return nil end
  if not (interactive and signal == SIGINT and terminal.host.resume) then return 128 + signal end
  terminal.host.resume()
end

local function run(chunk)
  local results = table.pack(xpcall(function()
    local _ <close> = core.call("input") -- a call that Ctrl-C can end
    return chunk()
  end, fault.handler))
  if results[1] then return print_results(table.pack(table.unpack(results, 2, results.n))) end
  io.stdout:flush()
  terminal.err(results[2].message)
end

--- Reads and runs until the end of the lines or `exit`.
---@return integer status
local function loop(lines, env, interactive)
  local text
  while true do
    local line, signal = lines.next(text and ">> " or "> ")
    if signal then
      local status = stopped(interactive)
      if status then return status end
      terminal.out ""
      text = nil
    elseif not line or not text and line:find("^%s*exit%s*$") then
      break
    else
      text = (text or "") .. line
      local chunk, problem = compile(text, env)
      if chunk then
        run(chunk)
      elseif problem then
        io.stdout:flush()
        terminal.err(problem)
      end
      if chunk or problem then text = nil end
      local status = stopped(interactive)
      if status then return status end
    end
  end
  if interactive then terminal.out("") end
  if text then
    terminal.err("input: not complete at the end of the input")
    return fault.USAGE
  end
  return fault.OK
end

--- Reads and runs until the end of input or `exit`.
---@return integer status
function M.main()
  local interactive = terminal.host.terminal(0)
  local env = environment()
  local lines = lines_of(interactive, env)
  if interactive then
    terminal.out(("aisim %s, %s: aisim.new{…} makes a simulation, exit leaves"):format(aisim.version, _VERSION))
  end
  local status = loop(lines, env, interactive)
  lines.close()
  return status
end

return M
