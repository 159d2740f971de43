--- What a setup declares beside its pools, as lines for aisim check: routers, traffic, admission, scaling, hand-off.
-- Values are shown as they were written; distributions and functions by their kind.
local check = require "aisim.check"
local table_of = require "aisim.cli.table"

local M = {}

-- Method of the simulation -> how its line begins.
M.METHODS = {
  router = "router", workload = "traffic", sessions = "traffic", admission = "admission", autoscale = "autoscaler",
  handoff = "hand-off",
}

local ORDER <const> = { "router", "hand-off", "traffic", "admission", "autoscaler" }

local function shown(value)
  local kind = type(value)
  if kind == "function" then return "a function" end
  if kind == "userdata" then return (tostring(value):gsub("^%a+ ", "")) end -- "distribution exp", "arrivals poisson"
  if kind ~= "table" then return check.show(value) end
  if next(value) == nil then return "{}" end
  local items = {}
  for i, item in ipairs(value) do items[i] = type(item) == "table" and "…" or shown(item) end
  if #items == 0 then
    for i, key in ipairs(check.sorted(value)) do
      items[i] = type(value[key]) == "table" and key .. " = …" or ("%s = %s"):format(key, shown(value[key]))
    end
  end
  return #items > 6 and ("{ %d values }"):format(#items) or "{ " .. table.concat(items, ", ") .. " }"
end

--- "threshold = 0.5, pool = 'main'"
local function options_of(options, left_out)
  local parts = {}
  for _, key in ipairs(check.sorted(options)) do
    local value = options[key]
    local plain = value == "" or value == false or key == "priority" and value == 0
    if not left_out[key] and not plain then parts[#parts + 1] = key .. " = " .. shown(value) end
  end
  return table.concat(parts, ", ")
end

local function described(method, argument)
  if type(argument) == "function" then return "a function" end
  if type(argument) ~= "table" then return shown(argument) end
  local kind, options = rawget(argument, "kind"), rawget(argument, "options") -- a workload
  if method == "workload" and type(options) == "table" then return kind, options_of(options, {}) end
  if method == "admission" and type(options) == "table" then
    return rawget(argument, "type"), options_of(options, {})
  end
  if method == "sessions" then return "sessions", options_of(argument, { body = true }) end
  if method == "router" then
    return argument.policy or argument.name or "lua", options_of(argument, { policy = true, name = true })
  end
  return nil, options_of(argument, {})
end

--- One line of a call: { what, text }.
---@param method string      key of METHODS
---@param argument any       of the call
---@return string[]
function M.line(method, argument)
  local head, options = described(method, argument)
  local parts = {}
  for _, part in ipairs { head or "", options or "" } do
    if part ~= "" then parts[#parts + 1] = part end
  end
  return { M.METHODS[method], table.concat(parts, ": ") }
end

--- Lines in the order of what a request meets.
---@param lines string[][]
---@return string?   nil: nothing was declared
function M.text(lines)
  local rows = {}
  for _, what in ipairs(ORDER) do
    for _, line in ipairs(lines) do
      if line[1] == what then rows[#rows + 1] = line end
    end
  end
  return #rows > 0 and table_of.text(rows) or nil
end

return M
