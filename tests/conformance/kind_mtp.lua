--- mtp.json: traces on the engine, draws and rates by the product's functions, refusals by its schema.
local context <const> = ...
local cjson = require "cjson"
local engine = require "aisim_engine"
local functions = require "aisim_functions"
local support = require "support"

local M = { by = { default = "function", mtp_native_trace = "engine", mtp_burst_trace = "engine",
  prefix_recompute = "engine", admission = "engine", anchor = "engine" } }

for kind, driver in pairs(support.drivers(context, "drive_mtp", engine)) do
  M[kind] = support.adapt(driver)
end

local ACCEPT <const> = support.set [[accepted_including_base accepted_drafts mean_including_base
  tolerance first_uniforms]]
local drive_accept <const> = M.mtp_accept

--- A seed of more than 15 digits comes as a text; those above 2^63 wrap, as the bits are what counts.
local function seed_of(value)
  if type(value) ~= "string" then return value end
  local bits = 0
  for digit in value:gmatch "%d" do bits = bits * 10 + math.tointeger(digit) end
  return bits
end

--- The uniforms behind the first draws: a position is accepted exactly when its uniform is below the rate.
local function uniforms(config, want)
  for i, u in ipairs(want) do
    local at = { config.seed or 42, config.rank or 0, config.request or 0, 0 }
    local rates = {}
    for j = 1, i - 1 do rates[j] = 1.0 end
    rates[i] = u + 1e-11
    local above = engine.draw(at[1], at[2], at[3], at[4], rates) >= i
    rates[i] = u - 1e-11
    local below = engine.draw(at[1], at[2], at[3], at[4], rates) >= i
    if not above or below then return ("first_uniforms[%d]: not %.12f"):format(i, u) end
  end
end

function M.mtp_accept(vector)
  local unknown = support.unknown(vector.expect, ACCEPT, "expected key")
  if unknown then return false, unknown end
  vector.config.seed = seed_of(vector.config.seed)
  local difference = uniforms(vector.config, vector.expect.first_uniforms or {})
  if difference then return false, difference end
  return drive_accept(vector)
end

-- ---- rates ----------------------------------------------------------------------------------------

local function same_rates(have, want, path)
  if #have ~= #want then return ("%s: %d rates, want %d"):format(path, #have, #want) end
  for i, rate in ipairs(want) do
    if not support.close(have[i], rate, 1e-9) then
      return ("%s[%d]: want %.17g, have %.17g"):format(path, i, rate, have[i])
    end
  end
end

function M.mtp_rates(vector)
  local config, expect = vector.config, vector.expect
  if config.expected_accepted_tokens then
    local rates, mean = functions.rates_from_mean(config.expected_accepted_tokens, config.depth)
    local difference = same_rates(rates, expect.rates, "rates")
    if not difference and not support.close(1 + mean, expect.mean_emitted, 1e-9) then
      difference = ("mean_emitted: want %s, have %s"):format(expect.mean_emitted, 1 + mean)
    end
    return difference == nil, difference
  end
  for i, request in ipairs(vector.requests) do
    local rates = functions.resolved_rates(cjson.encode(request.rates), request.depth)
    local difference = expect.rates and same_rates(rates, expect.rates[i], ("rates[%d]"):format(i))
    local mean, product = 1.0, 1.0 -- tokens emitted per verification (mtp.md 1)
    for _, rate in ipairs(rates) do
      product = product * rate
      mean = mean + product
    end
    local want = type(expect.mean_emitted) == "table" and expect.mean_emitted[i] or mean
    if not difference and not support.close(mean, want, 1e-9) then
      difference = ("mean_emitted[%d]: want %s, have %s"):format(i, want, mean)
    end
    if difference then return false, difference end
  end
  return true
end

-- ---- lookups and admission on a small engine --------------------------------------------------------

local function tokens(first, n)
  local list = {}
  for i = 1, n do list[i] = first + i - 1 end
  return list
end

local function small(block_size, blocks, mtp)
  return engine.new { block_size = block_size, num_blocks = blocks, max_batched_tokens = 1000, max_seqs = 8,
    mtp = mtp and { mode = "native", depth = 2, accept = { 0.0, 0.0 } } or nil }
end

--- Leaves the first `active` tokens of 1, 2, … in blocks that a held request owns, and the blocks behind
--- them up to `cached` unowned.
local function fill(t, cached, active)
  if cached > active then
    t:submit { id = 1, prompt = tokens(1, cached), output = 0 }
    t:pass()
  end
  if active > 0 then
    t:submit { id = 2, prompt = tokens(1, active), output = 0, hold = true }
    t:pass()
  end
end

--- A fresh request: what it reused, and whether it was admitted.
local function admit(t, known)
  local before = t:state().active
  t:submit { id = 9, prompt = tokens(1, known), output = 4 }
  t:plan()
  local item = t:record().items[1]
  return item, before
end

function M.prefix_recompute(vector)
  local config, given, expect = vector.config, vector.requests, vector.expect
  local t = small(config.block_size, 64, config.mtp)
  fill(t, given.cached_tokens, given.active_cached_tokens)
  local item, active = admit(t, given.known_tokens)
  if not item then return false, "not admitted" end
  local fresh = t:state().active - active -- blocks that became active: all but the active hits
  local owned = t:find(9).owned
  local have = { cached_tokens = item.reused, new_tokens = item.tokens,
    active_cached_tokens = (owned - fresh) * config.block_size }
  for key, want in pairs(expect) do
    if have[key] ~= want then return false, ("%s: want %s, have %s"):format(key, want, tostring(have[key])) end
  end
  return true
end

--- Free blocks that the head needs beside the active ones: tried out.
local function needed(config, request)
  for free = 0, 64 do
    local t = small(config.block_size, config.active_blocks + free, request.mtp)
    fill(t, request.active_cached_tokens, request.active_cached_tokens)
    local item = admit(t, request.known)
    if item then return free end
  end
end

function M.admission(vector)
  local config, expect = vector.config, vector.expect
  for i, request in ipairs(vector.requests) do
    local t = small(config.block_size, config.num_gpu_blocks, request.mtp)
    fill(t, request.active_cached_tokens, request.active_cached_tokens)
    local state = t:state()
    local item = admit(t, request.known)
    local have = { decision = item and "admit" or "wait", available = state.free + state.inactive,
      needed = needed(config, request) }
    for key, list in pairs(expect) do
      if have[key] ~= list[i] then
        return false, ("%s[%d]: want %s, have %s"):format(key, i, list[i], tostring(have[key]))
      end
    end
  end
  return true
end

-- ---- lease ----------------------------------------------------------------------------------------

--- known 14, computed 13, owned 5, 2 drafts outstanding, then a preemption.
local function preempted(vector)
  local t = engine.new { block_size = vector.config.block_size, num_blocks = 5, max_batched_tokens = 100, max_seqs = 2,
    reserve_full_prompt = false, mtp = { mode = "native", depth = vector.config.depth, accept = { 0.0, 0.0 } } }
  local serial = t:submit { id = 1, prompt = tokens(1, 12), output = 40 }
  t:pass()
  t:pass()
  local view = t:request(serial)
  if view.known ~= 14 or view.computed ~= 13 or view.owned ~= 5 or view.drafts ~= 2 then
    return false, ("before: known %d, computed %d, owned %d, drafts %d"):format(view.known, view.computed,
      view.owned, view.drafts)
  end
  t:reset(true) -- everything that runs is preempted
  view = t:request(serial)
  t:plan()
  local item = t:record().items[1]
  local have = { owned = view.owned, opaque = view.opaque, computed = view.computed, drafts = view.drafts,
    known = view.known, first_chunk_lookahead = item and item.slots - item.known }
  for key, want in pairs(vector.expect) do
    if have[key] ~= want then return false, ("%s: want %s, have %s"):format(key, want, tostring(have[key])) end
  end
  return true, nil, "engine"
end

function M.lease(vector)
  local expect = vector.expect
  if vector.requests.steps then return preempted(vector) end
  for i, request in ipairs(vector.requests) do
    local owned = functions.lease_owned(vector.config.block_size, request.watermark, request.opaque)
    if owned ~= expect.owned[i] then
      return false, ("owned[%d]: want %s, have %s"):format(i, expect.owned[i], owned)
    end
  end
  return true
end

function M.mtp_lookahead(vector)
  for key in pairs(vector.expect) do
    if key ~= "lookahead_tokens" then return false, "unknown expected key " .. key end
  end
  for i, r in ipairs(vector.requests) do
    local want = vector.expect.lookahead_tokens[i]
    local have = functions.burst_width(r.verify_width, r.max_drafts, r.remaining)
    if have ~= want then return false, ("lookahead_tokens[%d]: want %s, have %s"):format(i, want, have) end
  end
  return true
end

-- ---- anchor, refusals -----------------------------------------------------------------------------

function M.anchor(vector)
  local config = vector.config
  local p, b, size = config.input_tokens, config.max_batched_tokens, config.block_size
  local t = engine.new { block_size = size, num_blocks = p // size + 8, max_batched_tokens = b, max_seqs = 1 }
  t:submit { id = 1, prompt = tokens(1, p), output = 1 }
  local passes = 0
  local owned = 0
  while t:state().ready do
    local batch = t:plan()
    owned = math.max(owned, t:find(1).owned)
    t:complete(batch)
    passes = passes + 1
  end
  local have = { blocks = owned, prefill_passes = passes, visits_per_request_formula = p * p / (b * size) }
  for key, want in pairs(vector.expect) do
    if have[key] ~= want then return false, ("%s: want %s, have %s"):format(key, want, tostring(have[key])) end
  end
  return true
end

M.validate = require "refusals"

return support.guard(M, {
  mtp_rates = { "component depth expected_accepted_tokens", "depth rates", "rates mean_emitted" },
  mtp_accept = { "component seed rank request rates samples", "rates" },
  prefix_recompute = { "component block_size mtp", "known_tokens cached_tokens active_cached_tokens" },
  admission = { "component num_gpu_blocks block_size active_blocks", "mtp known active_cached_tokens" },
  mtp_native_trace = { [[component prompt_tokens output_tokens block_size depth rates max_model_len
    max_num_batched_tokens accepted_drafts_per_step seed num_gpu_blocks]], "",
    "steps decode_forwards accepted_including_base" },
  mtp_burst_trace = { [[component prompt_tokens output_tokens depth rates block_size seed num_gpu_blocks
    max_model_len max_num_batched_tokens]], "",
    "passes emitted_per_pass budget_tokens_per_pass decode_forwards accepted_including_base" },
  lease = { "component block_size depth", "watermark opaque steps" },
  anchor = { "component input_tokens max_batched_tokens block_size" },
  validate = { "component", "case config" },
})
