-- The smallest case of the founding change: one prompt, asked twice of a hybrid model.
--
-- Question  A prompt of 16 tokens in blocks of 4, answered with 16 tokens: how much of it does an exact
--           repeat reuse when the last state is stored at floor((P-1)/b)*b (fixed), and at floor(P/b)*b
--           (legacy)?
-- Finding   12 tokens with fixed, nothing with legacy: the state at 16 belongs to the whole prompt, and a
--           repeat may use at most P-1 tokens. The price is one more prefill pass: 12 + 4 for 16.
-- Run time  instant. With prompt_tokens=17 both rules agree.
local aisim = require "aisim"

local S = aisim.scenario {
  title = "One prompt, twice, with a state cache",
  question = "How much of a prompt of whole blocks does an exact repeat reuse?",
  finding = "fixed reuses all but the last block, legacy nothing",
  expect_runtime_s = 1,
  params = {
    prompt_tokens = { 16, "tokens of the prompt", min = 1, integer = true },
    output_tokens = { 16, "tokens of every answer", min = 1, integer = true },
    block_size = { 4, "tokens per KV block", min = 1, integer = true },
    match_unit = { 4, "tokens of prefix_match_unit: every rule needs a state there", min = 1, integer = true },
    repeats = { 2, "how often the prompt is sent", min = 1, integer = true },
  },
}

local RULES <const> = { "fixed", "legacy" }

--- One worker of a hybrid model under one rule; counts the tokens of its prefill passes.
local function worker(sim, p, rule)
  local pool = sim:pool {
    name = rule,
    engine = {
      model = "qwen3.5-35b-a3b",
      kv_cache = {
        block_size = p.block_size, prefix_match_unit = p.match_unit,
        capacity = { type = "fixed", blocks = 100000 // p.block_size },
        state_cache = { mode = "aligned", align_split = rule },
      },
    },
  }
  local passes = sim:counter { name = rule .. "_prefill_passes", unit = "passes" }
  sim:on("pass.end", function(_, _, _, prefill_tokens)
    if prefill_tokens > 0 then passes:add(1) end
  end, { pool = pool })
  return sim:counter { name = rule .. "_reused", unit = "tokens" }
end

function S.setup(sim, p)
  for _, rule in ipairs(RULES) do
    local reused = worker(sim, p, rule)
    sim:sessions {
      class = rule, pool = rule, arrivals = aisim.arrivals.all_at_once { n = 1 },
      body = function(s)
        for _ = 1, p.repeats do
          local answer = s:call { content = { { "the-prompt", p.prompt_tokens } }, output_tokens = p.output_tokens }
          reused:add(answer.reused_tokens)
        end
      end,
    }
  end
end

function S.report(run, p)
  for _, rule in ipairs(RULES) do
    print(("%-7s %5d of %d repeated tokens reused, %d prefill passes"):format(rule, run.metrics[rule .. "_reused"],
      (p.repeats - 1) * p.prompt_tokens, run.metrics[rule .. "_prefill_passes"]))
  end
end

return S
