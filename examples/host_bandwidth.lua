-- What if the link to host memory were faster? A slow one is worse than none: stores and loads wait for it.
-- aisim run examples/host_bandwidth.lua --set gbps=8; aisim sweep examples/host_bandwidth.lua
local aisim = require "aisim"
local dist = aisim.dist

local S = aisim.scenario {
  title = "Bandwidth to the host tier",
  params = {
    gbps = { 32, "each way, decimal; below 0.1: no host tier", min = 0, unit = "GB/s" },
    users = { 40, "conversations that live side by side", min = 1, integer = true },
  },
  sweep = {
    grid = { gbps = { 0, 1, 4, 16, 64 } },
    columns = { "ttft_ms.mean", "ttft_ms.p99", "host_reused_tokens", "output_throughput_tok_s" },
  },
}

local UNTIL_MS <const> = 900e3

function S.setup(sim, p)
  local host = { num_host_blocks = 131072, d2h_bandwidth_gbps = p.gbps, h2d_bandwidth_gbps = p.gbps }
  sim:pool { engine = {
    model = "llama-3.1-8b",
    kv_cache = { block_size = 16, capacity = { type = "fixed", blocks = 8192 },
      host_offload = p.gbps >= 0.1 and host or nil },
  } }
  sim:sessions { arrivals = aisim.arrivals.all_at_once { n = p.users }, until_ms = UNTIL_MS, body = function(s)
    local context = s:context():append("system", 1500) -- shared; the rest belongs to one user
    while s:now() < UNTIL_MS do
      s:sleep(dist.lognormal { p50 = 15e3, p99 = 120e3 }:sample(s.rng)) -- thinking
      context:append_unique(dist.clamp(dist.lognormal { p50 = 600, p99 = 6000 }, 1, 8000):sample(s.rng))
      if context.tokens > 32000 then context:compact(1500) end
      s:call { context = context, output_tokens = dist.uniform(50, 500):sample(s.rng) }
    end
  end }
end

return S
