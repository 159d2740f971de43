local render = require "aisim.render"

describe("numbers on the screen", function()
  it("have three to four significant digits", function()
    local shown = {}
    for i, x in ipairs { 0, 0.00123456, 0.0123456, 0.123456, 1.23456, 12.3456, 123.456, 1234.56, 1234567, -2.5 } do
      shown[i] = render.number(x)
    end
    assert.same({ "0", "0.00123", "0.0123", "0.123", "1.23", "12.3", "123.5", "1,235", "1,234,567", "-2.50" }, shown)
  end)

  it("change the number of decimals only where rounding says so", function()
    assert.equal("10.0", render.number(9.996))
    assert.equal("9.99", render.number(9.99))
    assert.equal("1,000", render.number(999.96))
    assert.equal("999.9", render.number(999.94))
    assert.equal("1.00", render.number(0.9996))
  end)

  it("show an undefined value as a dash", function()
    assert.equal("-", render.number(nil))
    assert.equal("-", render.number(0 / 0))
  end)

  it("separate thousands", function()
    assert.equal("0", render.count(0))
    assert.equal("999", render.count(999))
    assert.equal("100,000", render.count(100000))
    assert.equal("-1,234", render.count(-1234))
  end)
end)

describe("the screen of a run", function()
  local function screen(extra)
    local s = {
      version = "1.0.0", file = "a.lua", seed = 7,
      settings = { { name = "rate", value = "4", origin = "--set" } },
      metrics = {
        completed_requests = 1200, failed = 0, rejected = 2, in_flight_at_end = 0, preemptions = 3, duration_ms = 600e3,
        ["ttft_ms.n"] = 1200, ["ttft_ms.mean"] = 412.123, ["ttft_ms.min"] = 18, ["ttft_ms.max"] = 6412,
        ["ttft_ms.p99"] = 2330, ["ttft_ms.p90"] = 861.2, ["ttft_ms.p75"] = 512, ["ttft_ms.std"] = 487.3,
        request_throughput_rps = 2,
      },
    }
    for key, value in pairs(extra or {}) do s[key] = value end
    return render.screen(s)
  end

  it("names what is not a default and where it came from", function()
    assert.truthy(screen():find("^aisim 1.0.0  a.lua  seed 7 +rate=4 %(%-%-set%)\n"))
  end)

  it("leaves out what was not computed", function()
    local text = screen()
    assert.falsy(text:find("reuse", 1, true))
    assert.falsy(text:find("verdict", 1, true))
    assert.falsy(text:find("inter-token", 1, true))
    assert.falsy(text:find("wall", 1, true))
  end)

  it("judges whether the backlog grows", function()
    local function shown(ratio, stable)
      local metrics = { completed_requests = 1200, backlog_trend_ratio = ratio, backlog_stable = stable }
      return screen({ metrics = metrics }):match "verdict +([^\n]*)"
    end
    assert.equal("STABLE (backlog trend +0.2 % of the arrivals)", shown(0.002, true))
    assert.equal("STABLE (backlog trend +0.0 % of the arrivals)", shown(-0.0001, true))
    assert.equal("UNSTABLE (backlog trend +74.9 % of the arrivals): the figures depend on how long the run is",
      shown(0.749, false))
  end)

  it("shows long times in seconds", function()
    local row = screen({ metrics = { completed_requests = 1, ["e2e_ms.n"] = 1, ["e2e_ms.mean"] = 909942,
      ["e2e_ms.min"] = 5845, ["e2e_ms.max"] = 1842084 } }):match "request latency[^\n]*"
    assert.equal("request latency           909.9     5.84    1,842        -        -        -        -   s", row)
  end)

  it("is at most 100 columns wide", function()
    local text = screen {
      settings = { { name = "a_long_parameter", value = ("x"):rep(40), origin = "--set" },
        { name = "another_one", value = ("y"):rep(20), origin = "--set" } },
      verdicts = {
        { text = "ttft_ms.p99 < 500", ok = false, got = 2330 }, { text = "preemptions == 0", ok = false, got = 3 },
        { text = "good_fraction >= 0.95", ok = false } },
    }
    for line in text:gmatch("[^\n]+") do assert.is_true(utf8.len(line) <= 100, line) end
  end)

  it("says that a run was cut short", function()
    assert.truthy(screen { status = "interrupted" }:find("\nstatus +interrupted"))
  end)

  it("shows what an expectation got", function()
    local text = screen {
      verdicts = { { text = "a < 1", ok = true, got = 0 }, { text = "b < 1", ok = false, got = 2 } },
    }
    assert.truthy(text:find("✓ a < 1   ✗ b < 1   got 2", 1, true))
  end)

  it("has an ASCII form", function()
    assert.equal("8 x h200, >= 1, ok, FAILED, ...", render.ascii "8 × h200, ≥ 1, ✓, ✗, …")
  end)
end)
