--- Transfers priced by a function: the member `transfer` of a timing (spec/lua-api.md §9, offload.md §4).
local aisim = require "aisim"
local support = dofile "tests/spec/lua/support.lua"

local function engine(transfer, options)
  options = options or {}
  local offload = { scope = options.scope or "dp_rank_local", num_host_blocks = 100 }
  for key, value in pairs(options.offload or {}) do offload[key] = value end
  return {
    model = "llama-3.1-8b",
    timing = {
      pure = options.pure, transfer = transfer,
      prefill = function() return 10 end, decode = function() return 4 end,
    },
    scheduler = { max_batched_tokens = 64, max_sequences = 4 },
    kv_cache = {
      block_size = 4, bytes_per_token = 1000, capacity = { type = "fixed", blocks = options.blocks or 12 },
      host_offload = options.scope ~= false and offload or nil,
    },
  }
end

--- { "store" or "load", request, blocks, bytes, begin, done } in order, for three prompts of 10 blocks: a, b, a.
local function copies(transfer, options)
  local sim = aisim.new { seed = 1 }
  sim:pool { engine = engine(transfer, options) }
  local list = {}
  for _, kind in ipairs { "store", "load" } do
    sim:on("host." .. kind, function(t, _, id, blocks, bytes, done_ms)
      list[#list + 1] = { kind, id, blocks, bytes, t, done_ms }
    end)
  end
  for i, name in ipairs { "a", "b", "a" } do
    sim:submit { at_ms = 200 * i, output_tokens = 1, content = { { name, 40 } } }
  end
  return list, sim:run()
end

describe("timing.transfer", function()
  it("says how long each copy takes, with kind, bytes and both ends", function()
    local asked = {}
    local list = copies(function(kind, bytes, src, dst)
      asked[#asked + 1] = { kind, bytes, src, dst }
      return kind == "offload" and 7 or 3
    end)
    assert.same({ "offload", 40000, 1, 1 }, asked[1])
    assert.equal(#list, #asked)
    local kinds = {}
    for i, copy in ipairs(list) do
      kinds[copy[1]] = true
      assert.equal(copy[4], asked[i][2])
      assert.equal(copy[1] == "store" and 7.0 or 3.0, copy[6] - copy[5])
    end
    assert.same({ store = true, load = true }, kinds)
  end)

  it("of the bandwidth gives what the bandwidth gives", function()
    local by_rate, run = copies(nil, { offload = { d2h_bandwidth_gbps = 0.01, h2d_bandwidth_gbps = 0.02 } })
    local by_price, priced = copies(function(kind, bytes) return bytes / (kind == "offload" and 0.01e6 or 0.02e6) end)
    assert.equal(4.0, by_rate[1][6] - by_rate[1][5])
    assert.same(by_rate, by_price)
    assert.same(run.metrics, priced.metrics)
  end)

  it("is paid one copy after the other, behind the latency", function()
    local sim = aisim.new { seed = 1 }
    sim:pool { engine = engine(function() return 50 end, { blocks = 100, offload = { latency_to_first_byte_ms = 5 } }) }
    local done = {}
    sim:on("host.store", function(_, _, _, _, _, done_ms) done[#done + 1] = done_ms end)
    for i = 1, 3 do sim:submit { at_ms = 20 * i, output_tokens = 1, content = { { "p" .. i, 40 } } } end
    sim:run()
    assert.same({ 30 + 5 + 50.0, 135.0, 185.0 }, done)
  end)

  it("gives the same run whether it is promised to be pure or not", function()
    local function metrics(pure)
      local sim = aisim.new { seed = 1 }
      sim:pool { engine = engine(function(_, bytes) return bytes / 1e5 end, { pure = pure, blocks = 700 }) }
      for i = 1, 3 do sim:submit { at_ms = 900 * i, output_tokens = 9, content = { { "long" .. i % 2, 1000 } } } end
      return sim:run().metrics
    end
    assert.same(metrics(false), metrics(true))
  end)

  it("is refused where it would do nothing or cannot be exact", function()
    local function message(options, transfer)
      return support.message("local sim, engine = ...\nsim:pool { engine = engine }", aisim.new {},
        engine(transfer or function() return 1 end, options))
    end
    assert.equal("scenarios/a.lua:2: timing.transfer: has no effect without kv_cache.host_offload (hand-offs are "
      .. "priced by the prefill pool)",
      message { scope = false })
    assert.equal("scenarios/a.lua:2: timing.transfer: copies of a cluster_shared tier share its links equally, so how "
      .. "long one takes depends on the others and has no price; use scope = 'dp_rank_local'",
      message { scope = "cluster_shared" })
    assert.equal("scenarios/a.lua:2: kv_cache.host_offload.d2h_bandwidth_gbps: has no effect with timing.transfer",
      message { offload = { d2h_bandwidth_gbps = 3 } })
    assert.equal("scenarios/a.lua:2: timing.transfer: belongs to a timing with pass (local base = "
      .. "aisim.timing.default {}, then pass = function(...) return base:pass(...) end)",
      support.message("local sim = ...\nsim:pool { engine = { timing = { transfer = print } } }", aisim.new {}))
  end)

  it("that answers nonsense ends the run with its arguments", function()
    for value, shown in pairs { ["-1"] = "-1", ["0/0"] = "nan", ["'1'"] = "'1'", ["nil"] = "nil" } do
      local sim = aisim.new { seed = 1 }
      local text = ("local sim, make = ...\nsim:pool { engine = make(function() return %s end) }\n"):format(value)
        .. "sim:submit { output_tokens = 1, prompt_tokens = 40 }\nsim:run()"
      assert.equal("scenarios/a.lua:2: timing model 'lua': transfer returned " .. shown .. " for 'offload', "
        .. "bytes=40000, src=1, dst=1; a finite number of ms >= 0 expected", support.message(text, sim, engine))
    end
    local sim = aisim.new { seed = 1 }
    sim:pool { engine = engine(function() error("broken") end) }
    sim:submit { output_tokens = 1, prompt_tokens = 40 }
    local ok, text = pcall(sim.run, sim)
    assert.is_false(ok)
    assert.matches("broken\n  in timing model 'lua'", text, 1, true)
  end)
end)

describe("timing.transfer of a prefill pool", function()
  it("prices hand-offs, behind the latency of the link", function()
    local sim, asked, log = aisim.new { seed = 1 }, {}, {}
    sim:pool { role = "prefill", engine = engine(function(...)
      asked[#asked + 1] = { ... }
      return 25
    end, { scope = false }) }
    sim:pool { role = "decode", engine = engine(nil, { scope = false }) }
    sim:handoff { latency_ms = 2, bytes_per_token = 1e6 }
    sim:on("transfer.start", function(t) log[#log + 1] = t end)
    sim:on("transfer.end", function(t) log[#log + 1] = t end)
    sim:submit { prompt_tokens = 10, output_tokens = 3 }
    sim:run()
    assert.same({ { "handoff", 10000000, 1, 2 } }, asked)
    assert.same({ 10.0, 37.0 }, log)
  end)

  it("refuses a bandwidth beside it", function()
    local sim = aisim.new { seed = 1 }
    sim:pool { role = "prefill", engine = engine(function() return 25 end, { scope = false }) }
    sim:pool { role = "decode", engine = engine(nil, { scope = false }) }
    sim:handoff { bandwidth_gb_per_second = 10, bytes_per_token = 1e6 }
    sim:submit { prompt_tokens = 10, output_tokens = 3 }
    assert.error_matches(function() sim:run() end,
      "handoff: bandwidth_gb_per_second has no effect with timing.transfer of pool 'prefill'", nil, true)
  end)
end)
