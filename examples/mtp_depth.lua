-- What if the model drafted more tokens? Few requests gain up to depth 3; a full batch pays from depth 2 on.
-- aisim run examples/mtp_depth.lua --set depth=3; aisim sweep examples/mtp_depth.lua
local aisim = require "aisim"

local S = aisim.scenario {
  title = "Depth of speculation",
  params = {
    depth = { 1, "drafts per verification; 0: no speculation", min = 0, max = 5, integer = true },
    users = { 8, "requests in flight", min = 1, integer = true },
  },
  sweep = {
    grid = { users = { 8, 256 }, depth = { 0, 1, 2, 3, 5 } },
    columns = { "itl_ms.mean", "output_throughput_tok_s", "speculation.mean_accept_len" },
  },
}

local ACCEPTANCE <const> = { 0.85, 0.7, 0.55, 0.4, 0.3 } -- of each draft if those before it were accepted

function S.setup(sim, p)
  sim:pool { engine = {
    model = "llama-3.1-8b", kv_cache = { block_size = 16 },
    speculation = p.depth > 0 and {
      kind = "mtp", params = { depth = p.depth }, acceptance_rates = { table.unpack(ACCEPTANCE, 1, p.depth) },
    } or nil,
  } }
  sim:workload(aisim.closed { users = p.users, requests = 8 * p.users,
    prompt = aisim.dist.const(1000), output = aisim.dist.const(500) })
end

return S
