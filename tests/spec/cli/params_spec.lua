local params = require "aisim.params"

local function where(name) return "a.lua:" .. (name and "5" or "1") end

describe("parameters of a scenario", function()
  local list = params.declare({
    rate = { 2.0, "requests per second", min = 0 },
    workers = { 4, "workers", integer = true, min = 1 },
    router = { "kv", "policy", choices = { "kv", "random" } },
    warm = { true, "warm up" },
  }, where)

  local function resolved(overrides) return params.resolve(list, overrides, "a.lua") end

  it("take their kind from the default", function()
    local values = resolved {
      { key = "rate", value = "3", flag = "--set rate=3" },
      { key = "workers", value = "8.0", flag = "--set workers=8.0" },
      { key = "warm", value = "false", flag = "--set warm=false" },
    }
    assert.equal("float", math.type(values.rate))
    assert.equal("integer", math.type(values.workers))
    assert.equal(8, values.workers)
    assert.is_false(values.warm)
  end)

  it("remember where a value came from, unless it is the default", function()
    local _, origins = resolved {
      { key = "rate", value = "3", flag = "--set rate=3" }, { key = "workers", value = "4", flag = "--set workers=4" },
    }
    assert.same({ rate = "--set" }, origins)
  end)

  it("let the last override win", function()
    local values = resolved { { key = "rate", value = 3 }, { key = "rate", value = 5 } }
    assert.equal(5, values.rate)
  end)

  it("are read-only and complete", function()
    local p = params.view(resolved {})
    assert.has_error(function() p.rate = 1 end)
    assert.has_error(function() return p.rat end)
    local names = {}
    for name in pairs(p) do names[#names + 1] = name end
    assert.same({ "rate", "router", "warm", "workers" }, names)
  end)

  it("refuse a default out of its own range", function()
    local ok, problem = pcall(params.declare, { n = { 1, "n", min = 2 } }, where)
    assert.is_false(ok)
    assert.equal("a.lua:5: param n = 1: must be ≥ 2", problem)
  end)

  it("refuse infinite numbers", function()
    assert.has_error(function() resolved { { key = "rate", value = math.huge } } end)
    assert.has_error(function() resolved { { key = "rate", value = "1e999", flag = "--set rate=1e999" } } end)
  end)
end)
