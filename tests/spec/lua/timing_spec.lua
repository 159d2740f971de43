--- Timing models in scripts (spec/lua-api.md §9, spec/timing.md §7): functions, purity, reports.
local aisim = require "aisim"
local core = require "aisim.core"
local support = require "tests.spec.lua.support"

local function run(timing, extra)
  local engine = { timing = timing }
  for key, value in pairs(extra or {}) do engine[key] = value end
  local sim = support.cluster(1, engine)
  for i = 1, 4 do sim:submit { at_ms = 1000 * (i - 1), prompt_tokens = 40, output_tokens = 20 } end
  return sim:run()
end

local function usage(result) return result.sim:results_("totals.timing") end

describe("a timing function", function()
  it("is called once per kind of pass when it is pure", function()
    local calls = { pure = 0, impure = 0 }
    local function counting(name)
      return function(_, new_tokens, _, n_decode)
        calls[name] = calls[name] + 1
        return 1 + 0.1 * new_tokens + 0.5 * n_decode
      end
    end
    local pure = run { pure = true, pass = counting "pure" }
    local impure = run { pass = counting "impure" }
    assert.are.equal(80, calls.impure) -- 4 requests, 20 passes each
    assert.are.equal(20, calls.pure) -- alike for every request
    assert.are.equal(impure.e2e_ms.max, pure.e2e_ms.max)
  end)

  it("may be a bare function", function()
    local result = run(function() return 2 end)
    assert.are.near(40, result.e2e_ms.max, 1e-9)
  end)

  it("may look at the single items of a pass", function()
    local kept, seen
    local result = run { pass = function(n_prefill, new_tokens, past_tokens, n_decode, context_tokens, batch)
      local chunks, past, contexts, longest = 0, 0, 0, 0
      for i = 1, #batch.chunk_len do
        chunks, past = chunks + batch.chunk_len[i], past + batch.chunk_start[i]
        longest = math.max(longest, batch.chunk_len[i] + batch.chunk_start[i])
      end
      for i = 1, #batch.context do
        contexts, longest = contexts + batch.context[i], math.max(longest, batch.context[i])
      end
      assert(#batch.chunk_len == n_prefill and #batch.context == n_decode)
      assert(chunks == new_tokens and past == past_tokens and contexts == context_tokens)
      assert(longest == batch.max_context and longest > 0)
      kept, seen = batch, (seen or 0) + 1
      return 2
    end }
    assert.are.equal(80, seen)
    assert.are.near(40, result.e2e_ms.max, 1e-9)
    assert.error_matches(function() return kept.chunk_start end, "used after the timing function returned")
  end)

  it("names the fields of a batch", function()
    assert.error_matches(function()
      run { pass = function(_, _, _, _, _, batch) return batch.contexts end }
    end, "batch: unknown field 'contexts'; there are max_context, chunk_start, chunk_len and context")
  end)

  it("is formula in the report", function()
    local result = run { pure = true, pass = function() return 2 end }
    assert.are.equal(1, usage(result).formula_time_ratio)
    assert.are.equal(0, usage(result).roofline_ops)
    assert.are.equal(160, usage(result).time_ms)
    assert.are.equal(80, result.metrics["timing.passes"])
  end)
end)

--- A model of which nothing but the experts lacks data.
local ODD <const> = {
  name = "odd", architecture = "moe", layers = 12, hidden = 3000, heads = 16, kv_heads = 4, head_size = 128,
  vocabulary = 50000, context_length = 32768, experts = 24, experts_per_token = 3, expert_intermediate = 1000,
  moe_dtype = "int4_wo", gemm_dtype = "bfloat16",
}

describe("operations without data", function()
  it("are named and weighed", function()
    local result = run({ type = "default" }, { model = ODD })
    local found = usage(result)
    assert.are.same({ "moe" }, found.roofline_names)
    assert.is_true(found.roofline_time_ratio > 0.2 and found.roofline_time_ratio < 1)
    local sum = 0
    for key, value in pairs(found) do
      if key:find "_ratio$" then sum = sum + value end
    end
    assert.are.near(1, sum, 1e-6)
    assert.is_truthy(result.notes[1]:find("no measured data for moe", 1, true))
    assert.is_truthy(result.timing:find("%% roofline"))
  end)

  it("are refused under deny, by name", function()
    local ok, message = pcall(run, { type = "default" },
      { model = ODD, database_mode = "SILICON", fallback_policy = "deny" })
    assert.is_false(ok)
    assert.is_truthy(tostring(message):find("no measured data for operation 'moe'", 1, true))
  end)

  it("do not exist in the catalogue, but for the experts of one model that nobody has measured", function()
    for _, name in ipairs(require("aisim.catalogue").names "models") do
      local policy = name:find "next" and "allow" or "deny"
      local model = require("aisim.catalogue").model(name)
      local tensor = name:find "235b" and 8 or name:find "397b" and 8 or name:find "70b" and 4
        or name:find "deepseek" and 8 or 2
      local moe = (model.experts or 0) > 0 and tensor or nil
      local timing = core.timing { model = name, fallback_policy = policy,
        parallelism = { tensor = tensor, moe_tensor = moe and (name:find "fp8" and name:find "235b" and 1 or moe),
          moe_expert = moe and name:find "fp8" and name:find "235b" and moe or nil } }
      assert.is_true(timing:pass(1, 2048, 512, 16, 40000) > 1, name)
      assert.is_true(timing:pass(0, 0, 0, 16, 40000) > 1, name)
      assert.are.same(policy == "deny" and {} or { "gdn_moe", "full_moe", "gdn_moe", "full_moe" }, timing:guessed())
    end
  end)

  it("are not counted when rooflines are what was asked for", function()
    local result = run { type = "roofline" }
    assert.are.same({}, result.notes)
    assert.are.equal("timing: roofline", result.timing)
  end)
end)

describe("a timing object", function()
  it("explains what it prices", function()
    local timing, kind = core.timing { model = "qwen3-30b-a3b" }
    assert.are.equal("default", kind)
    local parts, total = timing:explain(1, 2048, 100, 16, 40000)
    local sum = 0
    for _, part in ipairs(parts) do sum = sum + part.ms end
    assert.are.near(1, sum / total, 1e-9)
    assert.are.near(timing:pass(1, 2048, 100, 16, 40000), total, 1e-6)
    assert.are.same({}, (timing:explain(0, 0, 0, 0, 0)))
  end)

  it("says when it is closed", function()
    local timing = core.timing { model = "qwen3-8b" }
    timing:close()
    assert.has_error(function() timing:pass(0, 0, 0, 1, 10) end)
  end)

  it("takes every switch of the configuration", function()
    local function ms(timing)
      return core.timing({ model = "qwen3-32b-fp8", timing = timing }):pass(0, 0, 0, 1, 1000)
    end
    assert.is_true(ms { type = "default", fix = { block_gemm_floor = true } } < 0.7 * ms { type = "default" }) -- Q1
    assert.are.near(ms { type = "default" } + 0.5, ms { type = "default", overhead_pass_us = 500 }, 1e-6)
    assert.are.near(ms { type = "default" } / 2, ms { type = "default", speedup = 2 }, 1e-5)
    local function mixed(timing)
      return core.timing({ model = "llama-3.1-8b", timing = timing }):pass(1, 2048, 0, 16, 36800)
    end
    assert.are.near(49.86, mixed { type = "default", mixed = "serial" }, 0.5) -- W3 of timing.md §9
    assert.are.near(44.41, mixed { type = "default" }, 0.5)
  end)

  it("prices the requests of a pass one by one when asked", function()
    local function run_with(per_request)
      return run({ type = "default", per_request = per_request }, { kv_cache = { block_size = 16 } })
    end
    assert.are.near(1, run_with(true).e2e_ms.max / run_with(false).e2e_ms.max, 0.02)
  end)
end)

describe("the library", function()
  it("knows how measured operators are interpolated, and refuses another way", function()
    local said = run(aisim.timing.measured { data = "h200", interpolate = "log" }, { kv_cache = { block_size = 16 } })
    local silent = run({ type = "default" }, { kv_cache = { block_size = 16 } })
    assert.are.equal(silent.e2e_ms.max, said.e2e_ms.max)
    assert.error_matches(function() aisim.timing.measured { interpolate = "linear" } end,
      "timing.measured.interpolate = 'linear': 'log' expected; the built%-in calibration")
    assert.error_matches(function() aisim.timing.measured { path = "tables", interpolate = "log" } end,
      "timing.measured.interpolate = 'log': 'linear' expected; the tables of a folder")
  end)

  it("prices for the machine of the pool whose function runs", function()
    local base = aisim.timing.default {}
    local sim = support.cluster(1, { timing = { pass = function(...) return base:pass(...) end } })
    sim:submit { prompt_tokens = 40, output_tokens = 2 }
    assert.is_true(sim:run().e2e_ms.max > 5)
  end)
end)
