local expect = require "aisim.expect"

describe("expectations", function()
  it("are METRIC OPERATOR NUMBER", function()
    assert.same({ text = " a.p99<1e3 ", name = "a.p99", op = "<", value = 1000 }, expect.parse " a.p99<1e3 ")
    assert.equal("~=", expect.parse("a != 2").op)
    assert.equal(-2.5, expect.parse("a >= -2.5").value)
  end)

  it("are never run as code", function()
    local texts = { "a < os.exit()", "a < 1; b", "a(1) < 2", "a < 2 < 3", "", "< 3", "a <", "a =< 3", "a < nan" }
    for _, text in ipairs(texts) do
      local parsed, problem = expect.parse(text)
      assert.is_nil(parsed, text)
      assert.is_string(problem)
    end
  end)

  it("are met or not", function()
    local list = expect.list({ "a < 2", "a <= 1", "a > 1", "a >= 1", "a == 1", "a ~= 1" }, 1)
    local verdicts, all = expect.judge(list, { a = 1 })
    local met = {}
    for i, verdict in ipairs(verdicts) do met[i] = verdict.ok end
    assert.same({ true, true, false, true, true, false }, met)
    assert.is_false(all)
  end)

  it("are not met by an undefined value", function()
    local verdicts, all = expect.judge(expect.list({ "a < 2" }, 1), {})
    assert.is_false(all)
    assert.is_nil(verdicts[1].got)
  end)

  it("name an unknown metric", function()
    local list = expect.list({ "ttft_ms.p98 < 2" }, 1)
    local verdicts, all = expect.judge(list, { ["ttft_ms.p99"] = 1 }, function() return false end)
    assert.is_false(all)
    assert.equal("expect: 'ttft_ms.p98 < 2': unknown metric 'ttft_ms.p98' (did you mean 'ttft_ms.p99'?)",
      verdicts[1].unknown)
  end)
end)
