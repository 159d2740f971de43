-- An admission of one's own: batch work is turned away while a share of the KV blocks is in use, a chat never is. Chats
-- wait at most 0.1 s for their first token instead of 17 s: aisim run examples/custom_admission.lua, then the same
-- with --set share=1
local aisim = require "aisim"

local S = aisim.scenario {
  title = "An admission of one's own",
  params = { share = { 0.3, "share of the blocks in use from which on batch work is turned away", min = 0, max = 1 } },
}

function S.setup(sim, p)
  sim:pool {
    workers = 2,
    engine = {
      model = "llama-3.1-8b",
      kv_cache = { block_size = 16, capacity = { type = "fixed", blocks = 4000 } },
      timing = { type = "linear", base_ms = 4, per_prefill_token_ms = 0.02, per_decode_ms = 0.05 },
    },
  }
  local function traffic(class, rate, prompt, output)
    sim:workload(aisim.open { class = class, arrivals = aisim.arrivals.poisson { rate = rate }, until_ms = 60e3,
      prompt = aisim.dist.const(prompt), output = aisim.dist.const(output), priority = class == "batch" and 1 or 0 })
  end
  traffic("chat", 4, 500, 100)
  traffic("batch", 12, 4000, 400)
  sim:admission(function(req, targets)
    if req.priority == 0 then return true end
    local used, total = 0, 0
    for i = 1, targets.n do used, total = used + targets.kv_used[i], total + targets.kv_total[i] end
    if used > p.share * total then return false, "busy" end
    return true
  end)
end

function S.report(run)
  print(("chat: p99 of the first token %.0f ms; batch: %d of %d turned away"):format(
    run.ttft_ms.by.chat:p(99), run.metrics.rejected, run.metrics.num_requests))
end

return S
