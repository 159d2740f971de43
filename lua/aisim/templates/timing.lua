-- A timing model of your own: what a pass costs.
--
-- Tabulate it:   aisim timing FILE --grid n_decode=1..256,context=1000/8000
-- Beside others: aisim timing FILE --compare default,main --grid n_decode=1..256
-- Run it:        aisim run FILE                      aisim run FILE --set bandwidth=2
-- More:          aisim help timing
local aisim = require "aisim"

local S = aisim.scenario {
  title = "Timing model NAME",
  question = "What would faster memory change?",
  params = { bandwidth = { 1.0, "memory bandwidth, multiple of 4.8 TB/s", min = 0.1 } },
  sweep = { grid = { bandwidth = { 0.5, 1, 2, 4 } }, columns = { "itl_ms.mean", "output_throughput_tok_s" } },
}

local WEIGHT_BYTES <const> = 16e9 -- 8 G parameters in 16 bits
local KV_BYTES_PER_TOKEN <const> = 131072
local FLOP_PER_TOKEN <const> = 16e9
local FLOP_PER_MS <const> = 500e9

function S.setup(sim, p)
  local bytes_per_ms = 4.8e9 * p.bandwidth
  sim:pool {
    engine = {
      model = "llama-3.1-8b",
      timing = {
        name = "NAME",
        pure = true, -- a promise: the result depends on the arguments only, so it may be used again
        -- n_prefill requests compute new_tokens behind past_tokens that are there; n_decode requests
        -- compute one token each with context_tokens behind them. Result: milliseconds, finite and > 0.
        pass = function(_, new_tokens, past_tokens, n_decode, context_tokens)
          local memory = (WEIGHT_BYTES + KV_BYTES_PER_TOKEN * (past_tokens + context_tokens)) / bytes_per_ms
          local compute = (new_tokens + n_decode) * FLOP_PER_TOKEN / FLOP_PER_MS
          return 0.2 + math.max(memory, compute)
        end,
      },
    },
  }
  sim:workload(aisim.closed {
    users = 64, until_ms = "1m", think_ms = aisim.dist.exp { mean = 500 },
    prompt = aisim.dist.const(2000), output = aisim.dist.const(300),
  })
end

return S
