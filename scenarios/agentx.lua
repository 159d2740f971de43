-- AgentX: coding agents on a pool of LLM workers.
--
-- Question  How much of every prompt comes from the KV cache, and how long do agents wait for a first
--           token, when each of `lanes` clients always has one agent at work?
-- Finding   An agent sends its whole history again with every turn: with an endless cache 95 % of all
--           prompt tokens would be reused. A router that follows the prefix comes within half a point;
--           round_robin scatters the history over the workers, reuses 71 % and waits five times longer
--           (710 recorded plays: 93 % against 62 %, and the same factor of five).
-- Run time  about a second. Agents are made up after published statistics; plays=FILE replays recorded ones.
local aisim = require "aisim"

local S = aisim.scenario {
  title = "AgentX: coding agents on a pool of workers",
  question = "How much of every prompt comes from the KV cache, and how long do agents wait?",
  finding = "prefix routing comes within half a point of the ideal reuse of 95 %; round_robin reuses 71 %",
  expect_runtime_s = 1,
  seed = 42, -- that of the official recipes
  params = {
    plays = { "", "file or folder of recorded agent plays (JSONL); empty: agents made up here" },
    synthetic_plays = { 200, "how many to make up", min = 1, integer = true },
    corpus = { "042026", "whose subagents they have", choices = { "042026", "052726", "062126" } },
    lanes = { 32, "clients, each with one live play", min = 1, integer = true },
    workers = { 4, "workers in the pool", min = 1, integer = true },
    duration_s = { 900, "measured time", min = 1, unit = "s" },
    router = { "prefix", "routing policy", choices = { "prefix", "round_robin", "least_requests" } },
    model = { "qwen3.5-35b-a3b", "model of the catalogue (aisim list models)" },
    tensor = { 1, "tensor parallel size of a worker", min = 1, integer = true },
    context_length = { 1000000, "longest prompt + answer; agents use windows of up to a million", min = 1,
      integer = true },
    block_size = { 64, "tokens per KV block", min = 2, integer = true },
    blocks = { 0, "KV blocks per worker; 0: what the GPU memory holds", min = 0, integer = true },
    max_batched_tokens = { 8192, "tokens per pass", min = 1, integer = true },
  },
}

--- Longest resident prefix first; below half the prompt, or behind a much longer queue, the least loaded.
local function prefix_router(block_size)
  return function(req, targets)
    local hit, load = targets.overlap_blocks, targets.active_requests
    local best, idle = 1, 1
    for i = 2, targets.n do
      if hit[i] > hit[best] or hit[i] == hit[best] and load[i] < load[best] then best = i end
      if load[i] < load[idle] then idle = i end
    end
    if 2 * hit[best] * block_size < req.prompt_tokens or load[best] - load[idle] > 8 then return idle end
    return best
  end
end

function S.setup(sim, p)
  sim:pool {
    name = "main", workers = p.workers,
    engine = {
      model = p.model, context_length = p.context_length,
      parallelism = { tensor = p.tensor },
      scheduler = { max_batched_tokens = p.max_batched_tokens },
      kv_cache = {
        block_size = p.block_size,
        capacity = p.blocks > 0 and { type = "fixed", blocks = p.blocks } or nil,
      },
    },
  }
  if p.router == "prefix" then
    sim:router {
      name = "prefix", columns = { "overlap_blocks", "active_requests" }, pick = prefix_router(p.block_size),
    }
  else
    sim:router { policy = p.router }
  end
  local recorded = p.plays ~= "" and aisim.plays(p.plays)
  sim:workload(aisim.agentx {
    plays = recorded or aisim.agentx_synthetic { plays = p.synthetic_plays, preset = p.corpus },
    lanes = p.lanes, seed = sim.seed, profile = { duration_seconds = p.duration_s },
  })
end

return S
