--- Completion of names for aisim repl. Whoever refuses an unknown field knows all names: objects of the
-- library are asked for a field that cannot be there, and the names of their message are listened to.
-- Code of the user is never run: of other tables only what is in them counts.
local near = require "aisim.near"

local M = {}

local KEYWORDS <const> = {
  "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in", "local", "nil", "not",
  "or", "repeat", "return", "then", "true", "until", "while",
}
local NOWHERE <const> = "\0" -- the name of no field

local function ours(value)
  local meta = getmetatable(value)
  if type(value) == "userdata" then return type(meta) == "string" and meta:find("^aisim%.") ~= nil end
  return type(meta) == "table" and tostring(rawget(meta, "__name") or ""):find("^aisim") ~= nil
end

local function add_keys(names, value)
  for key in next, value do
    if type(key) == "string" then names[key] = true end
  end
end

--- Names of the fields and methods of a value, as the keys of a table.
---@param value any
---@return table<string, boolean>
function M.members(value)
  local names = {}
  if type(value) == "string" then
    add_keys(names, string)
  elseif ours(value) then
    near.listen(function(known) add_keys(names, known) end, function() return value[NOWHERE] end)
  elseif type(value) == "table" then
    for _ = 1, 10 do -- classes: their parents too, and no endless chain
      add_keys(names, value)
      local meta = getmetatable(value)
      value = type(meta) == "table" and rawget(meta, "__index")
      if type(value) ~= "table" then break end
    end
  end
  return names
end

--- The value of a name without running code of the user, nil if there is none.
local function field(value, name)
  if type(value) == "string" then return string[name] end
  if ours(value) then
    local ok, found = pcall(function() return value[name] end)
    return ok and found or nil
  end
  for _ = 1, 10 do
    if type(value) ~= "table" then return nil end
    local found = rawget(value, name)
    if found ~= nil then return found end
    local meta = getmetatable(value)
    value = type(meta) == "table" and rawget(meta, "__index") or nil
  end
end

local function globals(env)
  local names = {}
  add_keys(names, _G)
  add_keys(names, env)
  for _, word in ipairs(KEYWORDS) do names[word] = true end
  return names
end

--- Is the cursor inside of a text or a comment?
local function quoted(text)
  local open
  for c in text:gsub("\\.", ""):gmatch "[\"'\n]" do
    if c == open or c == "\n" then open = nil elseif not open then open = c end
  end
  return open ~= nil or text:find "%-%-[^\n]*$" ~= nil
end

--- What the name before the cursor can become.
---@param text string   the line up to the cursor
---@param env table     what the line sees
---@return string begun       the part of the name that is there
---@return string[] names     all that begin so, sorted
function M.candidates(text, env)
  local path, begun = text:match "([%a_][%w_.:]-[.:])([%a_]?[%w_]*)$"
  if path and path:find("..", 1, true) then path = nil end -- a concatenation
  if not path then begun = text:match "[%a_][%w_]*$" or "" end
  local after = text:sub(1, #text - #begun)
  local of_something = not path and (after:find "%w$" or after:find "[^.]%.$" or after:find ":$")
  if quoted(text) or of_something then return begun, {} end
  local known
  if path then
    local before = text:sub(1, #text - #path - #begun)
    if before:find "[%w_%])}\"'.:]$" then return begun, {} end
    local value, first = nil, true
    for name in path:gmatch "[%a_][%w_]*" do
      if first then value = rawget(env, name) or rawget(_G, name) else value = field(value, name) end
      first = false
    end
    known = M.members(value)
    if path:sub(-1) == ":" then
      for name in pairs(known) do
        local kind = type(field(value, name))
        if kind ~= "function" and kind ~= "nil" then known[name] = nil end
      end
    end
  else
    known = globals(env)
  end
  local names = {}
  for name in pairs(known) do
    if name:sub(1, #begun) == begun and name:find "^[%a_][%w_]*$" then names[#names + 1] = name end
  end
  table.sort(names)
  return begun, names
end

--- The longest beginning that all names share.
local function shared(names)
  local first, last = names[1], names[#names]
  local n = 0
  while n < #first and first:byte(n + 1) == last:byte(n + 1) do n = n + 1 end
  return first:sub(1, n)
end

--- Names in columns, top to bottom.
local function columns(names, width)
  local widest = 0
  for _, name in ipairs(names) do widest = math.max(widest, #name) end
  local across = math.max(1, width // (widest + 2))
  local rows = (#names + across - 1) // across
  local lines = {}
  for row = 1, rows do
    local parts = {}
    for at = row, #names, rows do parts[#parts + 1] = names[at] .. (" "):rep(widest + 2 - #names[at]) end
    lines[row] = table.concat(parts):gsub(" +$", "")
  end
  return table.concat(lines, "\n")
end

--- What the Tab key does.
---@param text string    the line up to the cursor
---@param env table
---@param width integer  of the terminal
---@return string? insert   goes in at the cursor
---@return string? show     all candidates, where nothing can be inserted
function M.tab(text, env, width)
  if not text:find "%S" then return "  " end -- indentation
  local begun, names = M.candidates(text, env)
  if #names == 0 then return nil end
  local insert = shared(names):sub(#begun + 1)
  if insert ~= "" then return insert end
  if #names > 1 then return nil, columns(names, width) end
end

return M
