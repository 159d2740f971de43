-- A timing model in Lua: what changes if decode were limited by memory bandwidth alone?
-- aisim run examples/custom_timing.lua --set bandwidth=2
local aisim = require "aisim"

local S = aisim.scenario {
  title = "Own timing model",
  params = { bandwidth = { 1.0, "memory bandwidth, multiple of 4.8 TB/s", min = 0.1 } },
}

local WEIGHT_BYTES <const> = 16e9       -- 8 G parameters in 16 bits
local KV_BYTES_PER_TOKEN <const> = 131072
local FLOP_PER_TOKEN <const> = 16e9

function S.setup(sim, p)
  local bytes_per_ms = 4.8e9 * p.bandwidth
  sim:pool {
    engine = {
      model = "llama-3.1-8b",
      kv_cache = { block_size = 16, capacity = { type = "fixed", blocks = 20000 } },
      timing = {
        name = "memory_or_compute", pure = true, -- pure: depends on the arguments only
        pass = function(_, new_tokens, _, n_decode, context_tokens)
          local memory = (WEIGHT_BYTES + KV_BYTES_PER_TOKEN * context_tokens) / bytes_per_ms
          local compute = (new_tokens + n_decode) * FLOP_PER_TOKEN / 500e9 -- 500 TFLOP/s
          return 0.2 + math.max(memory, compute)
        end,
      },
    },
  }
  sim:workload(aisim.closed {
    users = 64, until_ms = 60e3, think_ms = aisim.dist.exp { mean = 500 },
    prompt = aisim.dist.const(2000), output = aisim.dist.const(300),
  })
end

return S
