--- vllm_upstream.json: `sched` on the engine, `split` by its function, `kv` on the engine as far as blocks
--- have no ids and on the twin for the rest, `host` on the engine as far as slots have no numbers, `offload` and
--- asynchronous external loads on the connector double of the twin (tests/twin/connector_*.lua, twin_external.h),
--- `stop` and `metric` by the test library. What needs several cache groups is answered by their double in
--- Lua, label `twin` (tests/twin/groups_*.lua).
local context <const> = ...
local engine = require "aisim_engine"
local twin = require "aisim_twin"
local support = require "support"

local M = { by = { default = "engine", split = "function", queue = "twin", stop = "function", metric = "function",
  lookup = "twin", window = "twin", capacity = "twin", spec = "twin", offload = "twin" } }

local on_engine <const> = support.drivers(context, "drive_upstream", engine)
local on_twin <const> = support.drivers(context, "drive_upstream", twin)

-- ---- sched, split ---------------------------------------------------------------------------------

local CONFIG <const> = support.set [[block_size blocks max_num_batched_tokens max_num_seqs max_model_len
  prefix_caching policy chunked_prefill watermark reserve_full_prompt long_prefill_threshold spec_tokens lookahead
  eagle async mamba_align groups external]]
local REQUEST <const> = support.set [[prompt max_tokens priority arrival no_read state salt
  eos ignore_eos stop_tokens min_tokens]]
local EXTERNAL <const> = support.set "matched async"
local STEP <const> = {
  add = "req", schedule = "id throttle budget", output = "for tokens each drafts received", finish = "req why",
  state = "req state", reset = "preempt_running", run_rest = "each", run_async = "inflight abort add_each",
}

local function unknown_in(vector)
  local unknown = support.unknown(vector.config, CONFIG, "config key")
  for _, request in pairs(vector.requests) do
    unknown = unknown or support.unknown(request, REQUEST, "request key")
  end
  for _, step in ipairs(vector.steps) do
    if not STEP[step.op] then return ("unknown op '%s'"):format(tostring(step.op)) end
    unknown = unknown or support.unknown(step, support.set("op expect " .. STEP[step.op]), "key of " .. step.op)
  end
  return unknown
end

function M.sched(vector)
  local unknown = unknown_in(vector)
  if unknown then return false, unknown end
  local external = vector.config.external
  if external then unknown = support.unknown(external, EXTERNAL, "key of external") end
  if unknown then return false, unknown end
  if external and external.async then
    local ok, text = support.adapt(on_twin.sched)(vector)
    return ok, text, "twin"
  end
  return support.adapt(on_engine.sched)(vector)
end

local SPLIT <const> = "block budget long_prefill_threshold eagle partial_hits hash_block"
M.split = support.strict({ SPLIT }, support.adapt(on_engine.split))

-- ---- host, offload --------------------------------------------------------------------------------

local on_connector <const> = support.drivers(context, "drive_connector")
local host_on_engine <const> = support.drivers(context, "drive_host", engine).host

--- The vector without the expected keys of a set. @return it, and whether there were any
local function without(vector, keys)
  local copy, any = {}, false
  for key, value in pairs(vector) do copy[key] = value end
  copy.steps = {}
  for i, step in ipairs(vector.steps) do
    local other = {}
    for key, value in pairs(step) do other[key] = value end
    if step.expect then
      other.expect = {}
      for key, value in pairs(step.expect) do
        if keys[key] then
          any = true
        else
          other.expect[key] = value
        end
      end
      other.expect = next(other.expect) and other.expect or nil
    end
    copy.steps[i] = other
  end
  return copy, any
end

function M.host(vector)
  local difference = on_connector.host(vector)
  if difference then return false, "double: " .. difference, "twin" end
  local copy, any = without(vector, support.set "slots") -- slots have numbers in the double alone
  difference = host_on_engine(copy)
  if difference then return false, "engine: " .. difference, "engine" end
  return true, nil, any and "twin" or "engine"
end

M.offload = support.adapt(on_connector.offload)

-- ---- kv -------------------------------------------------------------------------------------------

local IDS <const> = support.set "new_blocks queue refs table blocks" -- block ids: the twin alone has them

local kv_on_twin <const> = support.drivers(context, "drive_kv", twin).kv
local kv_on_engine <const> = support.drivers(context, "drive_kv", engine).kv
local on_groups <const> = support.drivers(context, "drive_groups")

--- Several groups, and keys with images or adapters: the double of tests/twin/groups_*.lua alone has them.
local function needs_groups(vector)
  local groups = vector.config.groups
  for _, request in pairs(vector.requests) do
    if request.lora or request.mm then return true end
  end
  return vector.config.retention ~= nil or groups and (#groups > 1 or groups[1].type ~= "full")
end

local KV_CONFIG <const> = support.set "block_size blocks eagle groups max_model_len prefix_caching retention"
local KV_REQUEST <const> = support.set [[prompt salt no_read lora mm max_tokens priority arrival state
  eos ignore_eos stop_tokens min_tokens]]
local KV_STEP <const> = support.set "op req expect new use_hit lookahead computed append entries"

local function unknown_in_kv(vector)
  local unknown = support.unknown(vector.config, KV_CONFIG, "config key")
  for _, request in pairs(vector.requests) do
    unknown = unknown or support.unknown(request, KV_REQUEST, "request key")
  end
  for _, step in ipairs(vector.steps) do unknown = unknown or support.unknown(step, KV_STEP, "key of a step") end
  return unknown
end

function M.kv(vector)
  local unknown = unknown_in_kv(vector)
  if unknown then return false, unknown, "twin" end
  local skip
  local difference = on_groups.kv(vector) -- it answers the vectors of one dense group as well
  if difference then return false, "groups: " .. difference, "twin" end
  if needs_groups(vector) then return true, nil, "twin" end
  difference, skip = kv_on_twin(vector)
  if difference or skip then return false, "twin: " .. (difference or skip), "twin" end
  local copy, any = without(vector, IDS)
  difference, skip = kv_on_engine(copy)
  if difference or skip then return false, "engine: " .. (difference or skip), "engine" end
  return true, nil, any and "twin" or "engine"
end

-- ---- the test library -----------------------------------------------------------------------------

local function same(have, want, path)
  local difference = require "compare"(want, have, path)
  return difference
end

local function each_case(vector, run)
  for i, case in ipairs(vector.cases or vector.steps) do
    local difference = same(run(case), case.expect, ("[%d]"):format(i))
    if difference then return false, difference end
  end
  return true
end

--- Order of the stop rules (fact 67): minimum length, end token, stop tokens, length.
function M.stop(vector)
  local config = vector.config
  local unknown = support.unknown(config,
    support.set "eos stop_tokens min_tokens max_tokens max_model_len ignore_eos", "config key")
  if unknown then return false, unknown end
  local stops = {}
  for _, token in ipairs(config.stop_tokens or {}) do stops[token] = true end
  return each_case(vector, function(case)
    local kept, count = {}, #(case.already or {})
    if type(case.already) == "number" then count = case.already end
    for _, token in ipairs(case.emitted) do
      kept[#kept + 1] = token
      count = count + 1
      local total = (case.prompt_tokens or 0) + count
      if count >= (config.min_tokens or 0) then
        if token == config.eos and not config.ignore_eos then
          return { kept = kept, finished = true, reason = "stop" }
        elseif stops[token] then
          return { kept = kept, finished = true, reason = "stop", stop_token = token }
        elseif count >= (config.max_tokens or 16) or total >= (config.max_model_len or math.huge) then
          return { kept = kept, finished = true, reason = "length" }
        end
      end
    end
    return { kept = kept, finished = false }
  end)
end

--- Hit rate over the last so many requests: whole observations leave while enough requests stay.
function M.metric(vector)
  local window, rows = vector.config.window_requests, {}
  local function sums()
    local requests, queries, hits = 0, 0, 0
    for _, row in ipairs(rows) do
      requests, queries, hits = requests + row.requests, queries + row.queries, hits + row.hits
    end
    return requests, queries, hits
  end
  for i, step in ipairs(vector.steps) do
    if step.op == "observe" then
      rows[#rows + 1] = step
      while #rows > 1 and sums() > window do table.remove(rows, 1) end
    elseif step.op == "reset" then
      rows = {}
    else
      return false, ("unknown op '%s'"):format(tostring(step.op))
    end
    local requests, queries, hits = sums()
    local rate = queries > 0 and hits / queries or 0.0
    for key, want in pairs(step.expect or {}) do
      local have = ({ hit_rate = rate, requests = requests, queries = queries, hits = hits })[key]
      if not support.close(have, want, 1e-9) then
        return false, ("[%d].%s: want %s, have %s"):format(i, key, want, tostring(have))
      end
    end
  end
  return true
end

-- ---- several cache groups: the double of tests/twin/groups_*.lua ----------------------------------

for _, kind in ipairs { "lookup", "window", "capacity", "spec", "queue" } do
  M[kind] = support.adapt(on_groups[kind])
end

return M
