-- The founding change: where a prefill has to stop so that an agent can continue from its state.
--
-- Question  A hybrid model (linear attention) continues a prompt only from a stored state. How much of
--           every prompt is reused when the last stop lies one block before the end of the prompt
--           (fixed), and when it lies at floor(L/b)*b, the end itself for whole-block prompts (legacy)?
-- Finding   With prompts of whole blocks the legacy stop stores no state that a repeat may use: reuse
--           falls from about 94 % to a few percent, and every turn computes its history again. With
--           prompts that end inside a block (align_inputs=false) both rules agree.
-- Run time  about a second. `plays` = recorded agent plays; empty: plays made up.
--           All of it:  aisim sweep scenarios/align_split.lua   (match_unit 0: unset, the latest state only)
local aisim = require "aisim"

local S = aisim.scenario {
  title = "Boundary of state checkpoints",
  question = "What does one block decide for a hybrid model under agent traffic?",
  finding = "fixed reuses about 94 % of the prompts, legacy a few percent",
  expect_runtime_s = 1,
  seed = 42, -- that of the official recipes
  params = {
    align_split = { "fixed", "where a chunk must stop", choices = { "fixed", "legacy" } },
    match_unit = { 64, "tokens of prefix_match_unit; 0: unset, mode latest", min = 0, integer = true },
    align_inputs = { "floor", "prompts cut to whole blocks", choices = { "floor", "ceil", "false" } },
    plays = { "", "file or folder of recorded agent plays (JSONL); empty: plays made up" },
    lanes = { 8, "clients, each with one live play", min = 1, integer = true },
    duration_s = { 3600, "measured time", min = 1, unit = "s" },
    kv = { "64GiB", "KV and state of the worker" },
  },
}

S.sweep = {
  grid = { align_inputs = { "floor", "false" } },
  zip = { { "align_split", "match_unit" }, { "legacy", 64 }, { "fixed", 64 }, { "fixed", 0 } },
  columns = { "first_admission_prefix_cache_reused_ratio", "ideal_reuse_ratio", "completed_requests" },
}

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
  local align = p.align_inputs ~= "false" and p.align_inputs or false
  sim:workload(aisim.agentx {
    plays = p.plays ~= "" and aisim.plays { path = p.plays, align_inputs = align }
      or aisim.agentx_synthetic { plays = 710, align_inputs = align },
    lanes = p.lanes, seed = sim.seed, profile = { duration_seconds = p.duration_s },
  })
end

function S.report(run, p)
  print(run:summary())
  local m = run.metrics
  print(("%s: %.2f %% of prompt tokens reused, %d passes with prefill"):format(
    p.align_split, 100 * m.first_admission_prefix_cache_reused_ratio,
    m["scheduler.passes"] * (1 - m["scheduler.decode_pass_ratio"]) // 1))
end

return S
