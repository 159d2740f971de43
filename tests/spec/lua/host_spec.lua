--- Host tier in whole runs (spec/offload.md §7.5, spec/anchor-workloads.md §3).
local aisim = require "aisim"

describe("a connector queue whose head finds no room", function()
  it("lets a request behind it go on that has loaded its blocks already", function()
    local sim = aisim.new { seed = 1 }
    sim:pool {
      engine = {
        model = "llama-3.1-8b", timing = { type = "fixed", prefill_ms = 3, decode_ms = 1 },
        scheduler = { max_batched_tokens = 64, max_sequences = 8 },
        kv_cache = {
          block_size = 4, bytes_per_token = 1e6, capacity = { type = "fixed", blocks = 16 },
          host_offload = { scope = "dp_rank_local", num_host_blocks = 30, h2d_bandwidth_gbps = 1 },
        },
      },
    }
    local n = 0
    for i = 1, 40 do
      n = (n * 7 + i * i) % 11
      sim:submit {
        at_ms = (i - 1) * 5, content = { { "shared" .. n % 4, 20 + 4 * (i % 5) }, { "own" .. i, 3 } },
        output_tokens = 3,
      }
    end
    assert.are.equal(40, sim:run().metrics.completed_requests) -- it stood still for ever at 213 ms
  end)
end)

describe("device blocks", function()
  --- The workload of anchor-workloads §5 in small: long prompts, drafts, write-through.
  local function small(depth)
    local sim = aisim.new { seed = 42 }
    local pool = sim:pool {
      engine = {
        model = "llama-3.1-8b", timing = { type = "fixed", prefill_ms = 20, decode_ms = 2 },
        speculation = depth > 0 and {
          kind = "mtp", params = { depth = depth }, expected_accepted_tokens = 1.5, seed = 42,
        } or nil,
        scheduler = { max_batched_tokens = 256, max_sequences = 4 },
        kv_cache = {
          block_size = 16, bytes_per_token = 250000, capacity = { type = "fixed", blocks = 550 },
          host_offload = { scope = "dp_rank_local", num_host_blocks = 600 },
        },
      },
    }
    for i = 1, 64 do sim:submit { content = { { "prompt" .. i, 4000 } }, output_tokens = 64 } end
    local totals = sim:run().metrics
    return totals, pool:worker(1)
  end

  for depth = 0, 2, 2 do
    it("are all accounted for when the last request is gone, depth " .. depth, function()
      local m, worker = small(depth)
      local free = worker.kv_total - worker.kv_used - worker.kv_cached
      assert.are.equal(0, worker.kv_used)
      -- E-B1, E-B3: what has been published is cached still or was evicted; the last request leaves
      -- its half-filled block and its look-ahead behind, which nobody takes any more
      assert.is_true(free >= 1)
      assert.are.equal(m["kv_blocks.published"] - (worker.kv_total - free), m["kv_blocks.evicted"])
    end)
  end
end)

describe("a request view", function()
  it("tells which part of the reuse came from the host", function()
    local sim = aisim.new { seed = 1 }
    sim:pool {
      engine = {
        model = "llama-3.1-8b", timing = { type = "fixed", prefill_ms = 3, decode_ms = 1 },
        scheduler = { max_batched_tokens = 64, max_sequences = 8 },
        kv_cache = {
          block_size = 4, bytes_per_token = 1e6, capacity = { type = "fixed", blocks = 16 },
          host_offload = { scope = "dp_rank_local", num_host_blocks = 60 },
        },
      },
    }
    local seen = {}
    sim:on("request.first_token", function(_, id, _, _, req)
      seen[id] = { req.reused_tokens, req.host_reused_tokens }
    end)
    for i, name in ipairs { "a", "b", "a" } do -- b pushes 7 of the 8 blocks of a out of the device
      sim:submit { at_ms = 100 * i, content = { { name, i == 2 and 57 or 33 } }, output_tokens = 1 }
    end
    sim:run()
    assert.are.same({ 0, 0 }, seen[1])
    assert.are.same({ 32, 28 }, seen[3])
  end)
end)
