--- The sandbox: what a scenario of somebody else may see (STYLE §11).
-- Functions that compute, and aisim; nothing that opens files, runs programs, loads binary code or looks
-- into other functions. Tables of the standard library are copies, so that a script cannot change what
-- the library itself calls. Files are read through aisim (traces, models) and written by --out alone.
local core = require "aisim.core"

local M = {}

local BASE <const> = {
  "_VERSION", "assert", "error", "getmetatable", "ipairs", "next", "pairs", "pcall", "print", "rawequal", "rawget",
  "rawlen", "rawset", "select", "setmetatable", "tonumber", "tostring", "type", "warn", "xpcall",
}
local LIBRARIES <const> = { "coroutine", "math", "string", "table", "utf8" }
local LEFT_OUT <const> = { string = { dump = true } }

-- Modules of the library that are tools of the program.
local CLOSED <const> = { ["aisim.core"] = true, ["aisim.host"] = true, ["aisim.tables"] = true,
  ["aisim.sandbox"] = true, ["aisim.scenario"] = true }

local active = false

--- Raises when a script in the sandbox asks: what is not for scripts of others.
---@param what string
function M.refuse(what)
  if active and core.in_call() then core.fail(what .. ": not in the sandbox (--sandbox)") end
end

--- A require of the sandbox: modules of aisim, and files beside the scenario in its environment.
local function require_in(folder, environment)
  local loaded = {}
  return function(name)
    if type(name) ~= "string" or not name:find("^[%w_][%w_.-]*$") then
      core.fail("require: name of a module expected")
    end
    if name == "aisim" or name:find("^aisim%.") then
      if CLOSED[name] or name:find("^aisim%.cli") then
        core.fail(("require '%s': not in the sandbox (--sandbox)"):format(name))
      end
      return require(name)
    end
    if loaded[name] ~= nil then return loaded[name] end
    for _, form in ipairs { "%s/%s.lua", "%s/%s/init.lua" } do
      local path = form:format(folder, (name:gsub("%.", "/")))
      local file = io.open(path, "rb")
      if file then
        local text = file:read("a")
        file:close()
        local chunk, problem = load(text or "", "@" .. path, "t", environment)
        if not chunk then error(problem, 0) end
        local value = chunk(name, path)
        loaded[name] = value == nil and true or value
        return loaded[name]
      end
    end
    return core.fail(("require '%s': no such module beside the scenario (--sandbox looks nowhere else)"):format(name))
  end
end

--- The globals of a scenario: the whole environment, or what the sandbox leaves of it.
---@param folder string        of the scenario
---@param environment table    that modules of the scenario are loaded in
---@return table
function M.globals(folder, environment)
  if not active then return _G end
  local globals = { require = require_in(folder, environment) }
  for _, name in ipairs(BASE) do globals[name] = _G[name] end
  for _, library in ipairs(LIBRARIES) do
    local copy = {}
    for name, value in pairs(_G[library]) do
      if not (LEFT_OUT[library] and LEFT_OUT[library][name]) then copy[name] = value end
    end
    globals[library] = copy
  end
  return globals
end

--- Is a name missing only because of the sandbox?
function M.hides(name) return active and rawget(_G, name) ~= nil end

--- Turns the sandbox on, for good.
function M.on()
  active = true
  require "aisim.sim"
  local methods = core.methods["aisim.Sim"]
  local write <const> = methods.jsonl_
  methods.jsonl_ = function(...)
    M.refuse "writing a file"
    return write(...)
  end
  rawset(string, "dump", nil) -- also reached through ("").dump
  getmetatable("").__metatable = false
end

return M
