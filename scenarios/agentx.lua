-- AgentX: coding agents on a pool of LLM workers.
--
-- Question  How much of every prompt comes from the KV cache, and how long do agents wait for a first
--           token, when each of `lanes` clients always has one agent at work?
-- Finding   An agent sends its whole history again with every turn: with an endless cache 97 % of all
--           prompt tokens would be reused. A router that follows the prefix gets there (mean time to first
--           token 100 ms); round_robin scatters the histories, reuses 66 % and needs 1,040 ms.
-- Run time  about a second. With plays=FILE recorded agents are replayed instead of generated ones.
local aisim = require "aisim"

local S = aisim.scenario {
  title = "AgentX: coding agents on a pool of workers",
  question = "How much of every prompt comes from the KV cache, and how long do agents wait?",
  finding = "prefix routing reaches the ideal reuse of 97 %; round_robin reuses 66 % and waits 10 times longer",
  expect_runtime_s = 1,
  params = {
    plays = { "", "file or folder of recorded agent plays (JSONL); empty: agents generated here" },
    lanes = { 48, "clients, each with one live play", min = 1, integer = true },
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

local WINDOW <const> = 100000                                         -- compaction above it

--- One play: a conversation that grows turn by turn and is compacted when the window is full.
-- ideal(prompt, known) hears how much of each prompt somebody has sent before.
local function play(s, until_ms, ideal)
  local context = s:context()
  context:append("tools-and-system", SYSTEM)
  context:append_unique(first_prompt:sample(s.rng))
  local known = SYSTEM
  for _ = 1, turns:sample(s.rng) do
    if s:now() >= until_ms then return end
    ideal(context.tokens, known)
    local answer = s:call { context = context, output_tokens = output:sample(s.rng) }
    if answer.reason ~= "length" then return end
    known = context.tokens
    s:sleep(tool_ms:sample(s.rng))
    context:append_unique(tool_result:sample(s.rng))
    if context.tokens > WINDOW then
      context:compact(SYSTEM)
      known = SYSTEM
    end
  end
end

--- Reuse with an endless cache: whole blocks that were sent before, but never the last token.
local function ideal_reuse(sim, block_size)
  local reusable = sim:counter { name = "reusable_tokens", unit = "tokens" }
  local prompts = sim:counter { name = "prompt_tokens", unit = "tokens" }
  sim:ratio { name = "ideal_reuse", num = "reusable_tokens", den = "prompt_tokens" }
  return function(prompt, known)
    reusable:add(math.min(known, prompt - 1) // block_size * block_size)
    prompts:add(prompt)
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
  local until_ms, ideal = p.duration_s * 1000, ideal_reuse(sim, p.block_size)
  sim:sessions {
    class = "agent", arrivals = aisim.arrivals.all_at_once { n = p.lanes }, until_ms = until_ms,
    body = function(s)
      s:sleep(s.rng:uniform(0, 30e3)) -- lanes do not begin in step
      while s:now() < until_ms do play(s, until_ms, ideal) end
    end,
  }
end

return S
