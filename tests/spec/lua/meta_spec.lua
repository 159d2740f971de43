--- lua/aisim/meta.lua and its neighbours meta_*.lua describe exactly what is registered.
local core = require "aisim.core"
local hooks = require "aisim.hooks"
require "aisim.sim"
require "aisim.workload"
require "aisim.timing"
require "aisim.plays"

local meta = ""
for _, name in ipairs { "aisim.meta", "aisim.meta_results", "aisim.meta_policies", "aisim.meta_traffic" } do
  local file <close> = assert(io.open((assert(package.searchpath(name, package.path)))))
  meta = meta .. file:read "a"
end

--- class -> set of methods, class -> set of fields
local function described()
  local methods, fields, class = {}, {}, nil
  for line in (meta .. "\n"):gmatch("(.-)\n") do
    local name = line:match("^%-%-%-@class aisim%.([%w_]+)") or line:match("^%-%-%-@class (aisim)$")
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

-- Between the parts of the library.
local INTERNAL <const> = { ["scaler.autoscale"] = true, ["dist.is"] = true, ["dist.read"] = true,
  ["arrivals.is_finite"] = true, ["arrivals.points"] = true, ["arrivals.is_endless_burst"] = true,
  ["arrivals.read"] = true, ["timing.split"] = true }

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

  --- Names that one set has and the other lacks, as text: "" when there are none.
  local function missing(have, want)
    local names = {}
    for name in pairs(have) do
      if not want[name] then names[#names + 1] = name end
    end
    table.sort(names)
    return table.concat(names, ", ")
  end

  it("name every public name of aisim, and no other", function()
    local registered, listed = {}, fields.aisim
    for name in pairs(require "aisim") do registered[name] = true end
    for name in meta:gmatch("\nfunction aisim%.([%w_]+)%(") do listed[name] = true end
    for name in meta:gmatch("\naisim%.([%w_]+) = {}") do listed[name] = true end
    assert.equal("", missing(registered, listed), "registered and not described")
    assert.equal("", missing(listed, registered), "described and not registered")
  end)

  for _, part in ipairs { "dist", "arrivals", "timing", "json", "csv", "plot", "admission", "scaler", "router" } do
    it(("name every name of aisim.%s, and no other"):format(part), function()
      local registered = {}
      for name, value in pairs(require("aisim")[part]) do
        if type(value) ~= "table" and not INTERNAL[part .. "." .. name] then registered[name] = true end
      end
      assert.equal("", missing(registered, fields[part]), "registered and not described")
      assert.equal("", missing(fields[part], registered), "described and not registered")
    end)
  end

  it("name every method and field of results", function()
    local results = require "aisim.results"
    assert.equal("", missing(results.methods, methods.Run), "registered and not described")
    assert.equal("", missing(methods.Run, results.methods), "described and not registered")
    assert.equal("", missing(results.fields, fields.Run), "registered and not described")
    for class, module in pairs { SweepResult = "sweep_result", SearchResult = "search", Comparison = "compare" } do
      local registered = {}
      for name in pairs(require("aisim." .. module).methods) do
        if name:sub(1, 2) ~= "__" then registered[name] = true end
      end
      assert.equal("", missing(registered, methods[class]), class .. ": registered and not described")
      assert.equal("", missing(methods[class], registered), class .. ": described and not registered")
    end
  end)

  it("name every scheduler point", function()
    for _, point in ipairs(core.point_names()) do assert.truthy(fields.PoolOptions[point], point) end
  end)

  it("name every column of targets", function()
    for _, column in ipairs(core.columns()) do
      assert.truthy(fields.Targets[column], column)
      assert.truthy(meta:find('"' .. column .. '"', 1, true), column)
    end
  end)
end)
