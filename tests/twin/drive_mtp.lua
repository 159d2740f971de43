-- drive_mtp.lua - mtp.json: draws, the native trace and the burst trace.

local twin = ... or require "aisim_twin" -- the backend: the twin, or the engine in its clothes
local subset = require "compare"

local drivers = {}

function drivers.mtp_accept(vector)
  local config, expect = vector.config, vector.expect
  local seed, rank, request = config.seed or 42, config.rank or 0, config.request or 0
  for i, want in ipairs(expect.accepted_including_base or {}) do
    local have = 1 + twin.draw(seed, rank, request, 0, vector.requests[i].rates)
    if have ~= want then
      return ("[%d]: want %d, have %d"):format(i, want, have)
    end
  end
  for i, want in ipairs(expect.accepted_drafts or {}) do
    local have = twin.draw(seed, rank, request, i - 1, config.rates)
    if have ~= want then
      return ("draw %d: want %d, have %d"):format(i, want, have)
    end
  end
  if expect.mean_including_base then
    local sum = 0
    for step = 0, config.samples - 1 do
      sum = sum + 1 + twin.draw(seed, rank, request, step, config.rates)
    end
    local mean = sum / config.samples
    if math.abs(mean - expect.mean_including_base) > expect.tolerance then
      return ("mean %.4f"):format(mean)
    end
  end
end

local function start(config, mode)
  local t = twin.new {
    block_size = config.block_size or 16,
    num_blocks = config.num_gpu_blocks or 1000,
    seed = config.seed,
    max_batched_tokens = config.max_num_batched_tokens,
    max_model_len = config.max_model_len,
    mtp = { mode = mode, depth = config.depth, accept = config.rates or {} },
  }
  local prompt = {}
  for i = 1, config.prompt_tokens do
    prompt[i] = i
  end
  return t, t:submit { id = 1, prompt = prompt, output = config.output_tokens }
end

local function after_plan(view, item, before, b)
  return {
    scheduled = item.tokens,
    drafts = item.drafts,
    slots = item.slots,
    alloc = view.owned - before,
    owned = view.owned,
    watermark = view.watermark,
    bound = (view.watermark + b - 1) // b,
    opaque = view.opaque,
    hashed = view.published,
  }
end

local function totals(t, expect)
  return subset(
    { decode_forwards = expect.decode_forwards,
      accepted_including_base = expect.accepted_including_base },
    t:state(), "totals")
end

function drivers.mtp_native_trace(vector)
  local config = vector.config
  local t, serial = start(config, "native")
  local given, next_given = config.accepted_drafts_per_step, 1
  for i, want in ipairs(vector.expect.steps) do
    local before = t:request(serial).owned
    local batch = t:plan()
    local item = t:record().items[1]
    local row = after_plan(t:request(serial), item, before, config.block_size)
    local results
    if given and item.drafts > 0 then
      results = { { serial = serial, tokens = given[next_given] + 1 } }
      next_given = next_given + 1
    end
    local record = t:complete(batch, results)
    t:verify()
    local emitted = record.emitted[1]
    row.emitted = emitted and emitted.tokens or 0
    row.accepted = emitted and emitted.accepted or 0
    local view = t:request(serial)
    row.known, row.computed = view.known, view.computed
    local difference = subset(want, row, "steps[" .. i .. "]")
    if difference then
      return difference
    end
  end
  return totals(t, vector.expect)
end

function drivers.mtp_burst_trace(vector)
  local t = start(vector.config, "burst")
  local have = { passes = 0, emitted_per_pass = {}, budget_tokens_per_pass = {} }
  while t:state().ready do
    local record = t:pass()
    t:verify()
    have.passes = have.passes + 1
    have.emitted_per_pass[have.passes] = record.emitted[1] and record.emitted[1].tokens or 0
    have.budget_tokens_per_pass[have.passes] = record.items[1].tokens
  end
  local want = {}
  for key in pairs(have) do
    want[key] = vector.expect[key]
  end
  return subset(want, have, "expect") or totals(t, vector.expect)
end

local STATE <const> = "^known (%d+), computed (%d+), owned (%d+) "
  .. "%(bound (%d+), opaque (%d+)%), (%d+) drafts outstanding$"

-- Component `lease` with steps in words: the state of a request that verifies, then what happens to it.
-- Without steps the vectors are numbers for the product.
function drivers.mtp_lease(vector)
  local steps = vector.requests.steps
  if not steps then
    return nil, "numbers"
  end
  local known, computed, owned, bound, opaque, drafts = steps[1]:match(STATE)
  if not known or steps[2] ~= "preempt" or #steps > 2 then
    return "steps that are not understood: " .. table.concat(steps, "; ")
  end
  -- one pass for the prompt, one verification that emits a token
  local config = { block_size = vector.config.block_size, depth = vector.config.depth,
    prompt_tokens = tonumber(known) - 2, output_tokens = 9 }
  local t, serial = start(config, "native")
  t:pass()
  t:complete(t:plan(), { { serial = serial, tokens = 1 } })
  local before = { known = tonumber(known), computed = tonumber(computed), owned = tonumber(owned),
    opaque = tonumber(opaque), drafts = tonumber(drafts) }
  local difference = subset(before, t:request(serial), "before")
  if not difference and before.owned - before.opaque ~= tonumber(bound) then
    difference = "before: bound and opaque are not what is owned"
  end
  if difference then
    return difference
  end
  t:reset(true)
  local view = t:request(serial)
  t:plan()
  view.first_chunk_lookahead = t:record().items[1].slots - before.known
  return subset(vector.expect, view, "after")
end

return drivers
