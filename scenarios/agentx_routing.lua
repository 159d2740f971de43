-- What routing costs and what capacity costs: agents on eight workers.
--
-- Question  Sixty-four agents on eight workers reuse far less than eight agents on one. How much of that is
--           lost because turns land on workers that do not hold the history, how much because the history
--           was thrown out, and how much because the state behind it was never stored (legacy)?
-- Finding   Round robin: legacy stops leave next to nothing, fixed stops about a third; with endless
--           capacity about 70 %, so most of the loss is capacity that eight copies of a history take.
--           Keeping a session on its worker brings almost all of it back at the same capacity.
-- Run time  one to two seconds per run. `plays` = recorded agent plays; empty: plays made up.
--           All of it:  aisim sweep scenarios/agentx_routing.lua
local aisim = require "aisim"

local S = aisim.scenario {
  title = "Agents on many workers: routing against capacity",
  question = "What do routing and capacity each cost when agents are spread over eight workers?",
  finding = "round robin loses most through capacity; session affinity brings it back",
  expect_runtime_s = 2,
  seed = 42, -- that of the official recipes
  params = {
    router = { "round_robin", "routing policy",
      choices = { "round_robin", "session", "sibling_group", "prefix", "least_requests" } },
    kv = { "64GiB", "KV and state per worker" },
    align_split = { "fixed", "where a chunk must stop", choices = { "fixed", "legacy" } },
    match_unit = { 64, "tokens of prefix_match_unit; 0: unset, mode latest", min = 0, integer = true },
    align_inputs = { "floor", "prompts cut to whole blocks", choices = { "floor", "ceil", "false" } },
    plays = { "", "file or folder of recorded agent plays (JSONL); empty: plays made up" },
    lanes = { 64, "clients, each with one live play", min = 1, integer = true },
    workers = { 8, "workers in the pool", min = 1, integer = true },
    duration_s = { 3600, "measured time", min = 1, unit = "s" },
  },
}

S.sweep = {
  grid = { kv = { "64GiB", "3000GiB" } },
  zip = {
    { "router", "align_split" },
    { "round_robin", "legacy" }, { "round_robin", "fixed" }, { "session", "fixed" }, { "sibling_group", "fixed" },
    { "prefix", "fixed" },
  },
  columns = { "first_admission_prefix_cache_reused_ratio", "ideal_reuse_ratio", "completed_requests" },
}

function S.setup(sim, p)
  local aligned = p.match_unit > 0
  sim:pool {
    workers = p.workers,
    engine = {
      model = "qwen3.5-35b-a3b", context_length = 1048576,
      kv_cache = {
        block_size = 64, prefix_match_unit = aligned and p.match_unit or nil,
        capacity = { type = "bytes", bytes = p.kv },
        state_cache = {
          mode = aligned and "aligned" or "latest", align_split = aligned and p.align_split or nil,
        },
      },
    },
  }
  sim:router { policy = p.router }
  local align = p.align_inputs ~= "false" and p.align_inputs or false
  sim:workload(aisim.agentx {
    plays = p.plays ~= "" and aisim.plays { path = p.plays, align_inputs = align }
      or aisim.agentx_synthetic { plays = 710, align_inputs = align },
    lanes = p.lanes, seed = sim.seed, profile = { duration_seconds = p.duration_s },
  })
end

return S
