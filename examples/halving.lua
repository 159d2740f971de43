-- Successive halving with aisim.sweep: all candidates on short runs, the better half on runs twice as long.
-- LUA_PATH='build/lua/?.lua;build/lua/?/init.lua;;' LUA_CPATH='build/lua/?.so;;' lua5.4 examples/halving.lua
local aisim = require "aisim"

local S = aisim.scenario {
  params = {
    tokens = { 2048, "tokens per pass", min = 1, integer = true },
    seconds = { 5, "length of the run", min = 1 },
  },
}

function S.setup(sim, p)
  sim:pool {
    engine = {
      model = "llama-3.1-8b", scheduler = { max_batched_tokens = p.tokens },
      kv_cache = { block_size = 16, capacity = { type = "fixed", blocks = 8000 } },
      timing = { type = "linear", base_ms = 4, per_prefill_token_ms = 0.02, per_decode_ms = 0.05 },
    },
  }
  sim:workload(aisim.open {
    arrivals = aisim.arrivals.poisson { rate = 12 }, until_ms = 1000 * p.seconds,
    prompt = aisim.dist.lognormal { p50 = 800, p99 = 8000 }, output = aisim.dist.exp { mean = 150 },
  })
end

local left, seconds = { 256, 512, 1024, 2048, 4096, 8192, 16384, 32768 }, 5
while #left > 1 do
  local sweep = aisim.sweep(S, { grid = { tokens = left }, set = { seconds = seconds }, seeds = 3,
    columns = { "e2e_ms.mean" } })
  local points = sweep.points
  local function cost(point) return point.statistics["e2e_ms.mean"].mean end
  table.sort(points, function(a, b) return cost(a) < cost(b) end)
  print(("%3d s, %d candidates: best %d tokens per pass, %.0f ms"):format(seconds, #left, points[1].params.tokens,
    cost(points[1])))
  left = {}
  for i = 1, #points // 2 do left[i] = points[i].params.tokens end
  seconds = 2 * seconds
end
