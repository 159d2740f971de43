--- Classes and functions of the Lua API as help, read from the types for editors (aisim/meta.lua,
-- meta_results.lua), which a test compares with what is registered: nothing is written down twice.
local table_of = require "aisim.cli.table"
local terminal = require "aisim.cli.terminal"

local M = {}

local FILES <const> = { "aisim/meta.lua", "aisim/meta_results.lua" }

---@class aisim.ApiClass
---@field name string
---@field text string        what is said of the class
---@field rows string[][]    { name or call, meaning }

--- "options { a?: integer }" of the parameters of a function, short enough to read.
local function parameter_text(parameters)
  local parts = {}
  for i, parameter in ipairs(parameters) do
    parts[i] = ("%s: %s"):format(parameter[1], (parameter[2]:gsub("%s%s+", ", ")))
  end
  return table.concat(parts, "; ")
end

local classes

--- All classes in the order of the files; "aisim" holds the functions of the module.
local function load_classes()
  if classes then return classes end
  classes = {}
  local by_name, current, comment, parameters, returns = {}, nil, {}, {}, nil
  local function class_of(name)
    if not by_name[name] then
      by_name[name] = { name = name, text = "", rows = {} }
      classes[#classes + 1] = by_name[name]
    end
    return by_name[name]
  end
  local function add(class, call)
    local parts = { table.concat(comment, " ") }
    if #parameters > 0 then parts[#parts + 1] = parameter_text(parameters) end
    if returns then parts[#parts + 1] = "-> " .. returns end
    if parts[1] == "" then table.remove(parts, 1) end
    class.rows[#class.rows + 1] = { call, table.concat(parts, "  ") }
  end
  for _, file in ipairs(FILES) do
    for line in (terminal.host.file(file) or ""):gmatch("[^\n]*") do
      local class = line:match("^%-%-%-@class aisim%.([%w_]+)") or line:match("^%-%-%-@class (aisim)$")
      local field, kind = line:match("^%-%-%-@field ([%w_]+%??) (.+)$")
      local parameter, type_of = line:match("^%-%-%-@param ([%w_%.?]+) (.+)$")
      local returned = line:match("^%-%-%-@return (.+)$")
      local owner, separator, name, arguments = line:match("^function (%w+)([:.])([%w_]+)%((.-)%)")
      if class then
        current = class_of(class)
        current.text = table.concat(comment, " ")
      elseif field and current then
        current.rows[#current.rows + 1] = { field, (kind:gsub("%s%s+", ", ")) }
      elseif parameter then
        parameters[#parameters + 1] = { parameter, type_of }
      elseif returned then
        returns = returned:gsub("%s%s+", ", ")
      elseif owner then
        add(class_of(owner), ("%s%s(%s)"):format(separator, name, arguments))
      end
      if line:find("^%-%-%- ?[^@]") or line:find("^%-%-%- ") then
        comment[#comment + 1] = line:match("^%-%-%- ?(.*)$")
      elseif not (parameter or returned) then
        comment, parameters, returns = {}, {}, nil
      end
    end
  end
  return classes
end

--- Names of the classes that help knows.
---@return string[]
function M.names()
  local names = {}
  for i, class in ipairs(load_classes()) do names[i] = class.name end
  return names
end

--- One class, whatever the case of its name; nil when there is none.
---@param name string
---@return string?
function M.help(name)
  for _, class in ipairs(load_classes()) do
    if class.name:lower() == name:lower() then
      local head = class.name == "aisim" and "functions of the module aisim" or class.name
      return head .. (class.text ~= "" and ": " .. class.text or "") .. "\n\n" .. table_of.text(class.rows, 2)
    end
  end
end

--- Fields of a class in one line.
---@param name string
---@return string
function M.fields(name)
  local fields = {}
  for _, class in ipairs(load_classes()) do
    for _, row in ipairs(class.name == name and class.rows or {}) do
      if not row[2]:find("^fun") then fields[#fields + 1] = (row[1]:gsub("%?$", "")) end
    end
  end
  return table.concat(fields, ", ")
end

return M
