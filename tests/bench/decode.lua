-- 256 requests of 1,000 tokens decode side by side; with hook=true a Lua function hears of every pass.
local aisim = require "aisim"

local S = aisim.scenario {
  title = "Steady decode",
  params = {
    requests = { 256, "side by side", min = 1, integer = true },
    output_tokens = { 9766, "of each", min = 1, integer = true },
    hook = { false, "count the passes in Lua" },
  },
}

function S.setup(sim, p)
  sim:pool {
    engine = {
      model = "llama-3.1-8b", scheduler = { max_sequences = 256, max_batched_tokens = 8192 },
      kv_cache = { capacity = { type = "fixed", blocks = 1000000 } },
    },
  }
  for _ = 1, p.requests do sim:submit { prompt_tokens = 1000, output_tokens = p.output_tokens } end
  if p.hook then
    local passes = 0
    sim:on("pass.end", function() passes = passes + 1 end)
  end
end

return S
