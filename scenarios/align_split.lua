-- The founding change: where a prefill has to stop so that an agent can continue from its state.
--
-- Question  A hybrid model (linear attention) continues a prompt only from a stored state. How much of
--           every prompt is reused when the last stop lies one block before the end of the prompt
--           (fixed), and when it lies at floor(L/b)*b, the end itself for whole-block prompts (legacy)?
-- Finding   With prompts of whole blocks the legacy stop stores no state that a repeat may use: reuse
--           falls from about 94 % to a few percent, and every turn computes its history again. With
--           prompts that end inside a block (align_inputs=false) both rules agree.
-- Run time  about a second. `plays` = recorded agent plays; empty: agents generated here.
local aisim = require "aisim"

local S = aisim.scenario {
  title = "Boundary of state checkpoints",
  question = "What does one block decide for a hybrid model under agent traffic?",
  finding = "fixed reuses about 94 % of the prompts, legacy a few percent",
  expect_runtime_s = 1,
  params = {
    align_split = { "fixed", "where a chunk must stop", choices = { "fixed", "legacy" } },
    match_unit = { 64, "tokens of prefix_match_unit; 0: unset, mode latest", min = 0, integer = true },
    align_inputs = { "floor", "prompts cut to whole blocks", choices = { "floor", "ceil", "false" } },
    plays = { "", "file or folder of recorded agent plays (JSONL); empty: agents generated here" },
    lanes = { 8, "clients, each with one live play", min = 1, integer = true },
    duration_s = { 3600, "measured time", min = 1, unit = "s" },
    kv = { "64GiB", "KV and state of the worker" },
  },
}

--- One generated agent: prompts of whole blocks that grow by a few hundred tokens a turn.
local function agent(s, until_ms)
  local context = s:context()
  context:append("tools-and-system", 64 * 200)
  while s:now() < until_ms do
    context:append_unique(64 * s.rng:random(20))
    local answer = s:call { context = context, output_tokens = s.rng:random(50, 500), keep = false }
    if answer.reason ~= "length" then return end
    s:sleep(s.rng:exp(8000))
  end
end

function S.setup(sim, p)
  local aligned = p.match_unit > 0
  sim:pool {
    engine = {
      model = "qwen3.5-35b-a3b", context_length = 1048576,
      kv_cache = {
        block_size = 64, prefix_match_unit = aligned and p.match_unit or nil,
        capacity = { type = "bytes", bytes = p.kv },
        state_cache = {
          mode = aligned and "aligned" or "latest",
          align_split = aligned and p.align_split or nil,
        },
      },
    },
  }
  if p.plays ~= "" then
    local align = p.align_inputs ~= "false" and p.align_inputs or false
    sim:workload(aisim.agentx {
      plays = aisim.plays { path = p.plays, align_inputs = align }, lanes = p.lanes,
      profile = { duration_seconds = p.duration_s },
    })
    return
  end
  sim:sessions {
    class = "agent", arrivals = aisim.arrivals.all_at_once { n = p.lanes }, until_ms = p.duration_s * 1000,
    body = function(s) agent(s, p.duration_s * 1000) end,
  }
end

function S.report(run, p)
  print(run:summary())
  local m = run.metrics
  print(("%s: %.2f %% of prompt tokens reused, %d passes with prefill"):format(
    p.align_split, 100 * m.first_admission_prefix_cache_reused_ratio,
    m["scheduler.passes"] * (1 - m["scheduler.decode_pass_ratio"]) // 1))
end

return S
