-- AgentX: coding agents on a pool of LLM workers.
--
-- Question  How much of every prompt comes from the KV cache, and how long do agents wait for a first
--           token, when each of `lanes` clients always has one agent at work?
-- Finding   An agent sends its whole history again with every turn: with an endless cache more than 95 %
--           of all prompt tokens would be reused. A router that follows the prefix comes near; round_robin
--           scatters the history over the workers and computes it several times.
-- Run time  about a second. With plays=FILE recorded agents are replayed instead of generated ones.
local aisim = require "aisim"

local S = aisim.scenario {
  title = "AgentX: coding agents on a pool of workers",
  question = "How much of every prompt comes from the KV cache, and how long do agents wait?",
  finding = "prefix routing comes near the ideal reuse of 95 %; round_robin computes histories again",
  expect_runtime_s = 1,
  params = {
    plays = { "", "file or folder of recorded agent plays (JSONL); empty: agents generated here" },
    lanes = { 32, "clients, each with one live play", min = 1, integer = true },
    workers = { 4, "workers in the pool", min = 1, integer = true },
    duration_s = { 900, "measured time", min = 1, unit = "s" },
    router = { "prefix", "routing policy", choices = { "prefix", "round_robin", "least_requests" } },
    model = { "llama-3.1-8b", "model of the catalogue (aisim list models)" },
    tensor = { 1, "tensor parallel size of a worker", min = 1, integer = true },
    context_length = { 0, "longest prompt + answer; 0: the model's (plays: no limit)", min = 0, integer = true },
    block_size = { 16, "tokens per KV block", min = 2, integer = true },
    blocks = { 0, "KV blocks per worker; 0: what the GPU memory holds", min = 0, integer = true },
    max_batched_tokens = { 8192, "tokens per pass", min = 1, integer = true },
  },
}

-- What one generated agent does, in tokens and ms (fits to 710 recorded plays).
local SYSTEM <const> = 14000                                          -- tools and system prompt
local first_prompt = aisim.dist.clamp(aisim.dist.lognormal { p50 = 8000, p99 = 40000 }, 500, 60000)
local turns = aisim.dist.clamp(aisim.dist.lognormal { p50 = 40, p99 = 300 }, 3, 400)
local output = aisim.dist.clamp(aisim.dist.lognormal { p50 = 210, p99 = 3000 }, 10, 6000)
local tool_result = aisim.dist.clamp(aisim.dist.lognormal { p50 = 330, p99 = 15000 }, 1, 30000)
local tool_ms = aisim.dist.clamp(aisim.dist.lognormal { p50 = 9000, p99 = 120e3 }, 2000, 300e3)

--- One play: a conversation that grows turn by turn and is compacted when the window is full.
local function play(s, window, until_ms)
  local context = s:context()
  context:append("tools-and-system", SYSTEM)
  context:append_unique(first_prompt:sample(s.rng))
  for _ = 1, turns:sample(s.rng) do
    if s:now() >= until_ms then return end
    local answer = s:call { context = context, output_tokens = output:sample(s.rng) }
    if answer.reason ~= "length" then return end
    s:sleep(tool_ms:sample(s.rng))
    context:append_unique(tool_result:sample(s.rng))
    if context.tokens > window then context:compact(SYSTEM) end
  end
end

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

--- Recorded agents used windows of up to a million tokens; a model's own limit would reject them.
local function context_length(p)
  if p.context_length > 0 then return p.context_length end
  return p.plays ~= "" and 1000000 or nil
end

function S.setup(sim, p)
  sim:pool {
    name = "main", workers = p.workers,
    engine = {
      model = p.model, context_length = context_length(p),
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

  if p.plays ~= "" then
    sim:workload(aisim.agentx {
      plays = p.plays, lanes = p.lanes, profile = { duration_seconds = p.duration_s },
    })
    return
  end
  local until_ms = p.duration_s * 1000
  sim:sessions {
    class = "agent", arrivals = aisim.arrivals.all_at_once { n = p.lanes }, until_ms = until_ms,
    body = function(s)
      s:sleep(s.rng:uniform(0, 30e3)) -- lanes do not begin in step
      while s:now() < until_ms do play(s, 100000, until_ms) end
    end,
  }
end

return S
