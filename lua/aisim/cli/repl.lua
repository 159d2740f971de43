--- aisim repl: Lua with the library loaded. An expression prints its value, a statement that is not
-- complete goes on in the next line. Globals are allowed here: what a line assigns, the next may read;
-- reading a name that nobody has assigned is an error with a suggestion.
-- Line editing comes from the terminal, or from rlwrap aisim repl.
local aisim = require "aisim"
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

--- Reads and runs until the end of input or `exit`.
---@return integer status
function M.main()
  local interactive = terminal.host.terminal(0)
  local env, text = environment(), nil
  if interactive then
    terminal.out(("aisim %s, %s: aisim.new{…} makes a simulation, exit leaves"):format(aisim.version, _VERSION))
  end
  while true do
    if interactive then
      io.stdout:write(text and ">> " or "> ")
      io.stdout:flush()
    end
    local line = io.read("L")
    if not line or not text and line:find("^%s*exit%s*$") then break end
    text = (text or "") .. line
    local chunk, problem = compile(text, env)
    if chunk then
      local results = table.pack(xpcall(chunk, fault.handler))
      text = nil
      if results[1] then
        print_results(table.pack(table.unpack(results, 2, results.n)))
      else
        io.stdout:flush()
        terminal.err(results[2].message)
      end
      if terminal.host.interrupted() then return 128 + terminal.host.interrupted() end
    elseif problem then
      io.stdout:flush()
      terminal.err(problem)
      text = nil
    end
  end
  if interactive then terminal.out("") end
  local signal = terminal.host.interrupted() -- while it waited for a line
  if signal then return 128 + signal end
  if text then
    terminal.err("input: not complete at the end of the input")
    return fault.USAGE
  end
  return fault.OK
end

return M
