-- Ideal against measured reuse over the size of the cache.
--
-- Question  How large must the KV cache of one worker be until the reuse of eight agents comes within a
--           point of what an endless cache would give?
-- Finding   Little is reused while the live histories do not fit; where lanes times a typical history begins
--           to fit (16 to 24 GiB) reuse rises steeply, and it is flat beyond. The rest of the gap is work
--           that no cache size avoids.
-- Run time  less than a second per size. All sizes: aisim sweep scenarios/cache_size.lua
local aisim = require "aisim"

local S = aisim.scenario {
  title = "Reuse over cache size",
  question = "How large must the cache be until reuse is within a point of the ideal?",
  finding = "steep where the live histories begin to fit, flat beyond",
  expect_runtime_s = 1,
  seed = 42, -- that of the official recipes
  params = {
    kv = { "16GiB", "KV and state of the worker" },
    plays = { "", "file or folder of recorded agent plays (JSONL); empty: plays made up" },
    lanes = { 8, "clients, each with one live play", min = 1, integer = true },
    duration_s = { 3600, "measured time", min = 1, unit = "s" },
  },
}

S.sweep = {
  grid = { kv = { "12GiB", "16GiB", "20GiB", "24GiB", "32GiB", "64GiB" } },
  columns = { "first_admission_prefix_cache_reused_ratio", "ideal_reuse_ratio", "reuse_gap_ratio" },
}

function S.setup(sim, p)
  sim:pool {
    engine = {
      model = "qwen3.5-35b-a3b", context_length = 1048576,
      kv_cache = {
        block_size = 64, prefix_match_unit = 64, capacity = { type = "bytes", bytes = p.kv },
        state_cache = { mode = "aligned" },
      },
    },
  }
  sim:workload(aisim.agentx {
    plays = p.plays ~= "" and aisim.plays { path = p.plays, align_inputs = "floor" }
      or aisim.agentx_synthetic { plays = 200, align_inputs = "floor" },
    lanes = p.lanes, seed = sim.seed, on_error = "continue", profile = { duration_seconds = p.duration_s },
  })
end

function S.report(run, p)
  print(run:summary())
  local m = run.metrics
  print(("%s: measured %.2f %%, ideal %.2f %%, gap %.2f points"):format(p.kv,
    100 * m.first_admission_prefix_cache_reused_ratio, 100 * m.ideal_reuse_ratio, 100 * m.reuse_gap_ratio))
end

return S
