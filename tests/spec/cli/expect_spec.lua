local expect = require "aisim.expect"
local support = dofile "tests/spec/lua/support.lua"

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

  it("know every metric of a run before it", function()
    local sim, pool = support.cluster(1, {
      kv_cache = {
        block_size = 4, capacity = { type = "fixed", blocks = 99 }, host_offload = { num_host_blocks = 99 },
      },
      speculation = { kind = "mtp", params = { depth = 2 }, expected_accepted_tokens = 1.5 },
    })
    sim:router { pool = pool.name, policy = "prefix", regret = true }
    sim:slo { ttft_ms = 100 }
    sim:measure { percentiles = { 98 } }
    sim:hist { name = "mine", by = "class" }:add(3, "a")
    sim:derive { name = "half", value = function(m) return m.num_requests / 2 end }
    for _, class in ipairs { "a", "b" } do sim:submit { prompt_tokens = 12, output_tokens = 9, class = class } end
    local run = sim:run()
    local n = 0
    for name in pairs(run.metrics) do
      n = n + 1
      assert.has_no.errors(function() expect.check(sim, { { name = name, text = name } }) end)
    end
    assert.is_true(n > 500)
  end)

  it("refuse a metric that cannot be, before the run", function()
    local sim = support.cluster()
    sim:counter { name = "late" }
    for name, hint in pairs {
      ["ttft_msp99"] = " (did you mean 'ttft_ms.p99'?)", ["latte"] = " (did you mean 'late'?)",
      ["ttft_ms.meen"] = " (did you mean 'ttft_ms.mean'?)", ["nothing.like.it"] = "",
      ["e2e_ms.p98"] = " (did you mean 'e2e_ms.p90'?); other percentiles: sim:measure { percentiles = { 98 } }",
    } do
      local list = expect.list({ name .. " < 2" }, 1, function() return "a.lua:7" end)
      local ok, message = pcall(expect.check, sim, list)
      assert.is_false(ok)
      assert.equal(("a.lua:7: expect: '%s < 2': unknown metric '%s'%s"):format(name, name, hint), message)
    end
  end)

  it("name an unknown metric", function()
    local list = expect.list({ "ttft_ms.p98 < 2" }, 1)
    local verdicts, all = expect.judge(list, { ["ttft_ms.p99"] = 1 }, function() return false end)
    assert.is_false(all)
    assert.equal("expect: 'ttft_ms.p98 < 2': unknown metric 'ttft_ms.p98' (did you mean 'ttft_ms.p99'?)",
      verdicts[1].unknown)
  end)
end)
