--- Built-in routing policies as objects (spec/lua-api.md §14.7): local kv = aisim.router.kv { temperature = 0.5 }, and
-- inside pick of a router kv:pick(req, targets, now). An object describes; each router that asks it holds a policy with
-- books of its own, which hears of everything that router hears of.
local check = require "aisim.check"
local core = require "aisim.core"
local near = require "aisim.near"

local M = {}

local Policy = { __name = "aisim.RouterPolicy" }
Policy.__index = Policy
Policy.__tostring = function(self) return "aisim.router." .. self.type end

--- What the policy would choose among the candidates that the filters have left.
Policy.pick = core.router_ask

local NAMES <const> = {}
for _, name in ipairs(core.router_names()) do NAMES[name] = true end

--- Refuses a name that no built-in has.
function M.check_name(name)
  local text = tostring(name)
  if not NAMES[name] then check.fail("router: unknown policy '%s'%s", text, near.hint(text, NAMES)) end
end

--- The object of { policy = NAME, … }; an object stays what it is.
function M.of(where, value)
  if getmetatable(value) == Policy then return value end
  if type(value) ~= "table" then
    check.fail("%s: options of a built-in, or aisim.router.NAME{…}, expected, got %s", where, type(value))
  end
  M.check_name(check.value(where .. ".policy", value.policy, { "text", required = true }))
  core.router_check(value)
  return setmetatable({ type = value.policy, options = value }, Policy)
end

--- aisim.router: name -> maker.
M.makers = setmetatable({}, { __index = function(_, name)
  return check.fail("aisim.router: unknown policy '%s'%s", tostring(name), near.hint(tostring(name), NAMES))
end })

for name in pairs(NAMES) do
  M.makers[name] = function(options)
    local own = { policy = name }
    if options ~= nil and type(options) ~= "table" then
      check.fail("aisim.router.%s: table of options expected, got %s", name, type(options))
    end
    for key, value in pairs(options or {}) do
      if key == "policy" then check.fail("aisim.router.%s: policy: is the name itself", name) end
      own[key] = value
    end
    return M.of("aisim.router", own)
  end
end

return M
