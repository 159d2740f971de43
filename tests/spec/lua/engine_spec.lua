--- Engine tables, catalogue, timing models (spec/lua-api.md §4, §9).
local support = dofile "tests/spec/lua/support.lua"
local aisim = require "aisim"

local function message(engine)
  return support.message("local aisim = ...\naisim.new():pool { engine = " .. engine .. " }", aisim)
end

describe("an engine table", function()
  it("names misspelt keys with the line and a suggestion", function()
    assert.equal("scenarios/a.lua:2: pool: unknown key 'max_sequnces' (did you mean 'max_sequences'?)",
      message "{ model = 'llama-3.1-8b', scheduler = { max_sequnces = 4 } }")
  end)

  it("names the bound of a value out of range", function()
    assert.equal("scenarios/a.lua:2: pool: scheduler.max_sequences = 0: must be >= 1",
      message "{ model = 'llama-3.1-8b', scheduler = { max_sequences = 0 } }")
  end)

  it("refuses what is known and not modelled by name", function()
    assert.matches("known, not modelled", message "{ model = 'llama-3.1-8b', gemm_quant_mode = 'fp8' }")
  end)

  it("takes sizes with units", function()
    local pool = aisim.new():pool { engine = { model = "llama-3.1-8b",
      kv_cache = { block_size = 16, capacity = { type = "bytes", bytes = "8GiB" } } } }
    assert.equal(4096, pool.kv_total) -- 131,072 bytes per token, 2 MiB per block
  end)

  it("computes the capacity from model and memory, or says what would fit", function()
    local pool = aisim.new():pool { engine = { model = "llama-3.1-8b" } }
    assert.is_true(pool.blocks > 10000)
    assert.matches("weights 61.0 GiB .* do not fit 1 × h200_sxm.* smallest tensor that fits: 2",
      message "{ model = 'qwen3-32b', kv_cache = { capacity = { memory_fraction = 0.3 } } }")
  end)

  it("needs a name per pool and refuses the second of one name", function()
    local sim = support.cluster()
    assert.error_matches(function() sim:pool { engine = support.engine() } end, "pool 'main' exists already")
    local second = sim:pool { name = "second", workers = 2, engine = support.engine() }
    assert.equal(3, second:worker(2).id)
  end)

  it("is overruled by --set flags, and errors name the flag", function()
    local function pool(key, value)
      local flag = ("--set %s=%s"):format(key, value)
      local sim = aisim.new { overrides = { { key = key, value = value, flag = flag } } }
      return sim:pool { engine = support.engine() }
    end
    assert.equal(99, pool("engine.workers.aggregated.kv_cache.capacity.blocks", "99").kv_total)
    assert.error_matches(function() pool("engine.kv_cache.block_size", "0") end,
      "^%-%-set engine.kv_cache.block_size=0: pool: kv_cache.block_size = 0: must be")
  end)
end)

describe("the catalogue", function()
  it("finds models by name and by the name on the hub", function()
    assert.equal(32, aisim.model("llama-3.1-8b").layers)
    assert.equal("llama-3.1-8b", aisim.model("meta-llama/Llama-3.1-8B-Instruct").name)
    assert.equal("h200_sxm", aisim.hardware("h200").name)
  end)

  it("suggests a near name", function()
    local text = support.message("(...).model 'lama-3.1-8b'", aisim)
    assert.truthy(text:find("scenarios/a.lua:1: model: 'lama-3.1-8b' is not in the catalogue " ..
      "(did you mean 'llama-3.1-8b'?)", 1, true))
  end)

  it("reads the config.json of a checkpoint", function()
    local path = os.tmpname() .. ".json"
    local file = assert(io.open(path, "w"))
    file:write([[{"architectures":["Qwen3ForCausalLM"],"num_hidden_layers":4,"hidden_size":64,"intermediate_size":128,
      "num_attention_heads":4,"num_key_value_heads":2,"head_dim":16,"vocab_size":1000,"max_position_embeddings":2048}]])
    file:close()
    local model = aisim.model(path)
    assert.equal(4, model.layers)
    assert.equal(2, model.kv_heads)
    assert.is_true(model.qk_norm)
    aisim.new():pool { engine = { model = path } }
    os.remove(path)
  end)
end)

describe("a timing model", function()
  local function ttft(timing, extra)
    local sim = support.cluster(1, { timing = timing, model = extra and extra.model or "llama-3.1-8b" })
    sim:submit { prompt_tokens = 32, output_tokens = 2 }
    local out
    sim:on("request.finish", function(t, _, _, _, _, req) out = { req.first_token_ms, t } end)
    sim:run()
    return out
  end

  it("may be a built-in object", function()
    assert.same({ 5, 7 }, ttft(aisim.timing.fixed { prefill_ms = 5, decode_ms = "2ms" }))
    local linear = aisim.timing.linear { base_ms = 4, per_prefill_token_ms = 0.01, per_decode_ms = 0.18 }
    assert.same({ 4.32, 8.5 }, ttft(linear))
  end)

  it("may be a function of the five aggregates", function()
    local calls = {}
    local times = ttft(function(n_prefill, new_tokens, past_tokens, n_decode, context_tokens)
      calls[#calls + 1] = { n_prefill, new_tokens, past_tokens, n_decode, context_tokens }
      return n_prefill > 0 and 3 or 1
    end)
    assert.same({ 3, 4 }, times)
    assert.same({ { 1, 32, 0, 0, 0 }, { 0, 0, 0, 1, 33 } }, calls)
  end)

  it("may be two parts that are summed", function()
    local function prefill(n, new) return n * new / 32 * 6 end
    assert.same({ 6, 8 }, ttft { prefill = prefill, decode = function(n) return 2 * n end })
  end)

  it("called pure is asked once per shape", function()
    local function calls(pure)
      local n = 0
      local function pass()
        n = n + 1
        return 1
      end
      local sim = support.cluster(1, { timing = { name = "mine", pure = pure, pass = pass } })
      for i = 1, 5 do sim:submit { at_ms = 100 * i, prompt_tokens = 8, output_tokens = 1 } end
      sim:run()
      return n
    end
    assert.equal(5, calls(false))
    assert.equal(1, calls(true))
  end)

  it("can wrap a built-in one of the pool's machine", function()
    local base = aisim.timing.roofline { pass_overhead_ms = 0.2 }
    local plain = ttft(base)
    local halved = ttft { name = "halved", pass = function(...) return base:pass(...) / 2 end }
    assert.is_true(math.abs(plain[1] / 2 - halved[1]) < 1e-5)
    assert.error_matches(function() base:pass(1, 1, 0, 0, 0) end, "timing.roofline: which model%?")
    assert.is_true(aisim.timing.roofline { model = "llama-3.1-8b" }:pass(1, 1000, 0, 0, 0) > 1)
  end)

  it("must return a finite number of ms > 0", function()
    assert.equal("scenarios/a.lua:2: timing model 'lua' returned -1 for n_prefill=1 new_tokens=8 past_tokens=0 " ..
      "n_decode=0 context_tokens=0; a finite number of ms > 0 expected", support.message([[
local support = ...
local sim = support.cluster(1, { timing = function() return -1 end })
sim:submit { prompt_tokens = 8, output_tokens = 1 }
sim:run()]], support))
  end)

  it("says what is missing or too much", function()
    assert.equal("scenarios/a.lua:2: timing.decode: function expected, got nil",
      message "{ timing = { prefill = function() end } }")
    assert.equal("scenarios/a.lua:2: timing: unknown key 'pur' (did you mean 'pure'?)",
      message "{ timing = { pass = function() end, pur = true } }")
    assert.matches("follows from the model", message "{ kv_cache = { capacity = { type = 'fixed', blocks = 9 } } }")
  end)
end)

describe("the module", function()
  it("says what it does not know, with a suggestion", function()
    assert.equal("scenarios/a.lua:1: aisim: unknown field 'opne' (did you mean 'open'?)",
      support.message("return (...).opne", aisim))
    assert.equal("scenarios/a.lua:1: aisim.new: unknown key 'sed' (did you mean 'seed'?)",
      support.message("(...).new { sed = 1 }", aisim))
  end)

  it("fails with the line of the caller", function()
    assert.equal("scenarios/a.lua:1: no such luck", support.message("(...).fail 'no such luck'", aisim))
  end)
end)
