-- aisim as a module of plain Lua: no scenario file, no program, the same numbers.
-- lua5.4 examples/embed.lua      (LUA_PATH and LUA_CPATH: see README, "From plain Lua")
local aisim = require "aisim"

--- p99 of the time to first token at a request rate.
local function ttft_p99(rate)
  local sim = aisim.new { seed = 1 }
  sim:pool {
    engine = {
      model = "llama-3.1-8b",
      kv_cache = { block_size = 16, capacity = { type = "fixed", blocks = 8000 } },
      timing = { type = "linear", base_ms = 4, per_prefill_token_ms = 0.02, per_decode_ms = 0.05 },
    },
  }
  sim:workload(aisim.open {
    arrivals = aisim.arrivals.poisson { rate = rate }, until_ms = 60e3,
    prompt = aisim.dist.lognormal { p50 = 800, p99 = 8000 }, output = aisim.dist.const(150),
  })
  return sim:run().ttft_ms:p(99)
end

print "rate 1/s   p99 of time to first token, ms"
for _, rate in ipairs { 2, 4, 8, 16 } do
  print(("%8d   %10.1f"):format(rate, ttft_p99(rate)))
end
