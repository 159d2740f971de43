-- fuzz_twin.lua [first seed] [count] - random workloads under every option, invariants after each
-- call (twin_verify, §17), and at the end an empty pool and one terminal state per request.
-- AISIM_TWIN_DIR is the folder of aisim_twin.so.

package.cpath = (os.getenv("AISIM_TWIN_DIR") or ".") .. "/?.so;" .. package.cpath
local twin = require "aisim_twin"

local first, count = tonumber(arg[1] or 1), tonumber(arg[2] or 200)
local pick = math.random

local function one_of(...)
  return (select(pick(select("#", ...)), ...))
end

local function random_config()
  local b = one_of(2, 3, 4, 6, 8)
  local config = {
    block_size = b,
    num_blocks = pick(6, 40),
    max_batched_tokens = one_of(3, 5, 8, 16, 40),
    max_seqs = pick(1, 6),
    prefix_caching = pick(5) > 1,
    policy = one_of("fcfs", "fcfs", "priority"),
    preemption = one_of("lifo", "lifo", "fifo"),
    watermark = one_of(0, 0, 0.1, 0.3),
    max_model_len = one_of(nil, nil, 20, 45),
    long_prefill_token_threshold = one_of(0, 0, 0, 4),
    reserve_full_prompt = pick(4) > 1,
    admit_at_zero_budget = pick(4) > 1,
    self_preemption = one_of("continue", "continue", "end_pass"),
    unkeyed_release = one_of("front", "front", "back"),
  }
  if config.max_model_len and config.max_batched_tokens >= config.max_model_len then
    config.chunked_prefill = pick(2) == 1
  end
  if pick(3) == 1 then
    config.state_cache = { mode = one_of("latest", "aligned", "aligned"), blocks = pick(1, 2) }
    config.checkpoints = one_of("prompt_boundary", "prompt_boundary", "chunk_end")
    config.same_pass_hit = one_of("ignore", "wait")
    config.align_split = one_of("fixed", "fixed", "legacy", "upstream")
    if config.state_cache.mode == "aligned" then
      config.prefix_match_unit = one_of(b, b % 2 == 0 and b // 2 or b)
    end
  end
  if pick(3) == 1 and (config.prefix_match_unit or b) == b then
    local depth = pick(1, 3)
    local accept = {}
    for i = 1, depth do
      accept[i] = one_of(0, 1, 0.5, 0.8)
    end
    config.mtp = { mode = one_of("native", "burst"), depth = depth, accept = accept }
    config.stream = one_of("per_request", "worker")
    if config.mtp.mode == "native" then
      config.first_chunk_lookahead = pick(3) == 1
      config.pad_first_decode = pick(3) == 1
    end
  elseif pick(5) == 1 and not config.state_cache then
    config.overlap = one_of("pipelined", "async")
  end
  return config
end

local function random_prompt(longest)
  local tokens, base = {}, one_of(0, 0, 1000)
  local shared = pick(0, longest)
  for i = 1, shared do
    tokens[i] = base + i
  end
  for _ = 1, pick(0, 6) do
    tokens[#tokens + 1] = 10000 + pick(4)
  end
  return tokens
end

-- One request by one of the ways in: submitted, as the source of a handoff, or as a destination.
local function bring(t, run)
  local args = {
    id = run.next_id,
    prompt = random_prompt(30),
    output = one_of(0, 1, 2, 5, 12),
    priority = pick(0, 3),
    no_read = pick(10) == 1,
  }
  local way = run.handoffs and pick(3) or 1
  if way == 3 and t:reserve(args) then
    run.serials[args.id] = t:find(args.id).serial
  else
    args.hold = way == 2
    run.serials[args.id] = t:submit(args)
  end
end

local function external_commands(t, run)
  for id = 1, run.next_id do
    local view = t:find(id)
    if view and view.status == "reserved" and pick(3) == 1 then
      t:activate(id)
    elseif view and view.status == "held" and pick(3) == 1 then
      t:release_source(id)
    end
  end
  if pick(12) == 1 and run.next_id > 0 then
    t:cancel(pick(run.next_id))
  end
  if pick(40) == 1 then
    t:reset(pick(4) == 1 and run.forced)
  end
end

local function show(config)
  local keys = {}
  for key, value in pairs(config) do
    if type(value) == "table" then
      value = "{" .. show(value) .. "}"
    end
    keys[#keys + 1] = key .. "=" .. tostring(value)
  end
  table.sort(keys)
  return table.concat(keys, " ")
end

local function run(seed)
  math.randomseed(seed)
  local config = random_config()
  if os.getenv("AISIM_FUZZ_VERBOSE") then
    print(("seed %d  %s"):format(seed, show(config)))
  end
  local t = twin.new(config)
  local n = pick(3, 14)
  local own = { next_id = 0, serials = {}, handoffs = pick(4) == 1, forced = not config.overlap }
  local flight, idle, passes = {}, 0, 0
  while true do
    while own.next_id < n and pick(2) == 1 do
      own.next_id = own.next_id + 1
      bring(t, own)
    end
    external_commands(t, own)
    t:verify()
    local state = t:state()
    if state.drained and own.next_id == n then
      break -- results that are still out belong to requests that have ended
    end
    flight[#flight + 1] = t:plan(pick(10) == 1)
    t:verify()
    local planned = t:record()
    local scheduled = 0
    for _, item in ipairs(planned.items) do
      scheduled = scheduled + item.tokens
    end
    assert(scheduled + planned.budget_left == config.max_batched_tokens, "budget")
    if not config.overlap or #flight > 1 or scheduled == 0 then
      local record = t:complete(table.remove(flight, 1))
      t:verify()
      idle = (record.changed or own.next_id < n or #flight > 0 or own.handoffs) and 0 or idle + 1
    end
    passes = passes + 1
    if idle > 30 or passes > 3000 then
      return "stuck", config, t, idle
    end
  end
  assert(t:state().active == 0, "active blocks at the end")
  for id = 1, n do
    assert(t:request(own.serials[id]).reason ~= "", "no terminal state")
  end
  return "done", config
end

io.stdout:setvbuf("line")
local stuck = 0
for seed = first, first + count - 1 do
  local fine, result, config, t, idle = xpcall(run, debug.traceback, seed)
  if not fine then
    print(("seed %d: %s"):format(seed, result))
    os.exit(1)
  elseif result == "stuck" then
    stuck = stuck + 1
    local state = t:state()
    print(("seed %d: stuck, idle %d, preemptions %d, running %d, waiting %d  %s"):format(
      seed, idle, state.preemptions, #state.running, #state.waiting, show(config)))
  end
end
print(("%d workloads, %d stuck"):format(count, stuck))
