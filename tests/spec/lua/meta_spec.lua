--- lua/aisim/meta.lua and meta_traffic.lua describe exactly what is registered.
local core = require "aisim.core"
local hooks = require "aisim.hooks"
require "aisim.sim"
require "aisim.workload"
require "aisim.timing"
require "aisim.plays"

local meta = ""
for _, name in ipairs { "aisim.meta", "aisim.meta_traffic" } do
  local file <close> = assert(io.open(assert(package.searchpath(name, package.path))))
  meta = meta .. file:read "a"
end

--- class -> set of methods, class -> set of fields
local function described()
  local methods, fields, class = {}, {}, nil
  for line in (meta .. "\n"):gmatch("(.-)\n") do
    local name = line:match("^%-%-%-@class aisim%.([%w_]+)")
    if name then
      class = name
      fields[class], methods[class] = fields[class] or {}, methods[class] or {}
    end
    local field = line:match("^%-%-%-@field ([%w_]+)")
    if field and class then
      local is_method = line:find(("^%%-%%-%%-@field %s fun%%(self"):format(field))
      local list = is_method and methods[class] or fields[class]
      list[field] = true
    end
    local owner, method = line:match("^function (%w+):([%w_]+)%(")
    if owner then methods[owner][method] = true end
  end
  return methods, fields
end

local methods, fields = described()

local CLASSES <const> = { "Sim", "Pool", "Worker", "Request", "Pass", "Context", "Hook", "Timer", "Rng", "Dist",
  "Arrivals",
  "Session", "Plays", "Metric" }

describe("the types for editors", function()
  for _, class in ipairs(CLASSES) do
    it(("name every method and field of %s, and no other"):format(class), function()
      local registered = core.methods["aisim." .. class]
      for name, value in pairs(registered) do
        if name:sub(-1) ~= "_" then
          local list = type(value) == "function" and methods[class] or fields[class]
          assert.is_true(list[name], ("%s.%s is missing"):format(class, name))
        end
      end
      for name in pairs(methods[class]) do
        assert.is_function(registered[name], ("%s:%s is described and not there"):format(class, name))
      end
    end)
  end

  it("name every hook with its arguments", function()
    for _, info in ipairs(hooks.list) do
      assert.truthy(meta:find(('%%-%%-%%-| "%s" +# %%(%s'):format(info.name:gsub("%.", "%%."),
        info.args[1] .. (info.args[2] and ", " .. info.args[2] or ""))), info.name)
    end
  end)

  it("name every function of aisim, aisim.dist, aisim.arrivals, aisim.timing", function()
    local aisim = require "aisim"
    for _, part in ipairs { "dist", "arrivals", "timing" } do
      local n = 0
      for name in pairs(fields[part]) do
        n = n + 1
        assert.is_function(aisim[part][name], part .. "." .. name)
      end
      assert.is_true(n >= 5)
    end
    for name in meta:gmatch("\nfunction aisim%.([%w_]+)%(") do
      local value = aisim[name]
      assert.is_true(type(value) == "function" or getmetatable(value).__call ~= nil, name)
    end
  end)

  it("name every column of targets", function()
    for _, column in ipairs(core.columns()) do
      assert.truthy(fields.Targets[column], column)
      assert.truthy(meta:find('"' .. column .. '"', 1, true), column)
    end
  end)
end)
