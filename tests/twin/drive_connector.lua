--- drive_connector.lua - kinds `offload` and `host` of vllm_upstream.json on connector_double.lua and
-- connector_host.lua. What is not known is a difference, never passed over.
--
-- The words of an `offload` vector are scenarios; they are translated like this:
--
--   run, resume      the request `req` (made from `prompt` when it is new, without `req` one of its own) takes steps
--                    until it has `outputs` more tokens; 0 = one step. `resume` wants a preempted one
--   lookup_and_run   a run that ends with its last token; one token unless `outputs` says more
--   lookup           one step in which transfers go on (unless complete_transfers = true); without `req` the request
--                    is withdrawn again afterwards
--   start, queue     the new request `req` is submitted and takes one step whose transfers go on (unless
--                    complete_transfers = true), or none
--   complete         everything that moves ends, between two steps
--   preempt          between two steps; `finish`: a running request takes one more step and samples the end token,
--                    another is aborted; `abort`: at once
--   reset, clear_gpu_cache         the device forgets what it has cached
--   finish = true    the last of the outputs is the end token; steps follow until nothing moves any more
--   host_hit_chunks, host_state    what the host answers for the chunks behind the device hit, to that request
--   gpu_hit_tokens   the device finds exactly so many; gpu_cache = "empty": it has been reset
--   max_recompute_tokens           R25 for the lookups of that request
--   store_policy     which of the offered chunks are stored in this step; without it all of them
--   complete_transfers = false     what moves does not end in this step
--
-- Without config.slots the host is the script of the steps: it keeps nothing by itself. With it the slot manager
-- answers, and a script beside it is refused. All outputs are token 0, as in the upstream tests.

local cjson = require "cjson"
local double = require "connector_double"
local hosts = require "connector_host"
local subset = require "compare"
local tokens_of = require "tokens_of"

local drivers = {}

local function set(text)
  local words = {}
  for word in text:gmatch "%S+" do words[word] = true end
  return words
end

local function plain(value)
  if type(value) ~= "table" then return math.type(value) == "float" and math.tointeger(value) or value end
  local copy = {}
  for key, inner in pairs(value) do
    if inner ~= cjson.null then copy[key] = plain(inner) end
  end
  return copy
end

--- Ends the vector with what is wrong with it.
local function refuse(text, ...) error({ trouble = text:format(...) }, 0) end

local function known_keys(given, words, what)
  for key in pairs(given or {}) do
    if not words[key] then refuse("unknown %s '%s'", what, tostring(key)) end
  end
end

-- ---- policies -----------------------------------------------------------------------------------------------

local ORDINALS <const> = { first = 1, second = 2, third = 3, fourth = 4, fifth = 5, sixth = 6 }

local function policy_of(text)
  if text == nil or text == "all" then return nil end
  if text == "refuse" then return function() return nil end end
  if text == "none" or text == "nothing" then return function() return {} end end
  local which = text:match "^only the (%a+) of the offered chunks$"
  if not ORDINALS[which] and which ~= "last" then refuse("not modelled: store_policy '%s'", text) end
  return function(chunks) return { chunks[ORDINALS[which] or #chunks] } end
end

-- ---- requests -----------------------------------------------------------------------------------------------

local OUTPUT <const> = 0

--- A request for the device to find `tokens` of it, and no more.
local function make_device_find(d, r, prompt, tokens)
  if d.twin:lease_lookup(r.serial) == tokens then return r end
  d.twin:cancel(r.id)
  if not d.twin:reset() then refuse("not modelled: gpu_hit_tokens while the device is in use") end
  if tokens > 0 then
    local primer = d:submit(table.move(prompt, 1, tokens, 1, {}), OUTPUT)
    d:step { policy = function() return {} end }
    d:finish(primer)
    d:step { policy = function() return {} end }
    d:take_report()
  end
  local other = d:submit(prompt, OUTPUT)
  if d.twin:lease_lookup(other.serial) ~= tokens then refuse("the device cannot find %d tokens of it", tokens) end
  return other
end

--- Chunk states behind the device hit, from 1.
local function script_of(step)
  if step.host_hit_chunks and step.host_state then refuse("host_hit_chunks beside host_state") end
  local script = step.host_state
  if step.host_hit_chunks then
    script = {}
    for i = 1, step.host_hit_chunks do script[i] = "hit" end
  end
  for _, state in ipairs(script or {}) do
    if state ~= "hit" and state ~= "pending" and state ~= "miss" then refuse("unknown host_state '%s'", state) end
  end
  return script
end

--- The request of a step, made when it is new, with what the step says about its lookups.
local function request_of(run, step)
  local d, r = run.double, run.requests[step.req or ""]
  local script = script_of(step)
  if script and d.host then refuse("not modelled: a scripted host beside config.slots") end
  if step.gpu_cache ~= nil then
    if step.gpu_cache ~= "empty" then refuse("not modelled: gpu_cache '%s'", tostring(step.gpu_cache)) end
    if not d.twin:reset() then refuse("not modelled: gpu_cache 'empty' while the device is in use") end
  end
  if r and step.prompt then refuse("'%s' has a prompt already", step.req) end
  if not r and not step.prompt then refuse("unknown request '%s'", tostring(step.req)) end
  if not r then
    local prompt = tokens_of(step.prompt)
    r = d:submit(prompt, OUTPUT)
    if step.gpu_hit_tokens then r = make_device_find(d, r, prompt, step.gpu_hit_tokens) end
    if step.req then run.requests[step.req] = r end
  elseif step.gpu_hit_tokens and d.twin:lease_lookup(r.serial) ~= step.gpu_hit_tokens then
    refuse("not modelled: another gpu_hit_tokens for a request that is there already")
  end
  if script then r.script = script end
  r.recompute = step.max_recompute_tokens or r.recompute
  return r
end

-- ---- steps --------------------------------------------------------------------------------------------------

local ops = {}

--- Steps until nothing moves any more.
local function drain(d, how)
  for _ = 1, 1000 do
    if not d:step(how) then return end
  end
end

local function run_to(run, r, step, outputs, finish)
  local d, target = run.double, r.outputs + outputs
  if r.ended then refuse("'%s' has ended", tostring(step.req)) end
  local how = { complete = step.complete_transfers, policy = policy_of(step.store_policy), outputs = target,
    stop = finish and outputs > 0 and r or nil }
  repeat
    local any = d:step(how)
  until r.outputs >= target or r.ended or not any
  if finish and r.outputs >= target then
    d:finish(r)
    how.stop = nil
    if how.complete == false then
      d:step(how)
    else
      drain(d, how)
    end
  end
  return r
end

function ops.run(run, step) return run_to(run, request_of(run, step), step, step.outputs or 0, step.finish) end

function ops.lookup_and_run(run, step)
  return run_to(run, request_of(run, step), step, step.outputs or 1, step.finish == nil or step.finish)
end

function ops.resume(run, step)
  local r = run.requests[step.req]
  if not r or run.double:view(r).preemptions == 0 or run.double:view(r).status == "running" then
    refuse("'%s' is not preempted", tostring(step.req))
  end
  return ops.run(run, step)
end

function ops.lookup(run, step)
  local d, r = run.double, request_of(run, step)
  d:step { complete = step.complete_transfers or false, policy = policy_of(step.store_policy) }
  local have = { deferred = r.waits, gpu_hit_tokens = r.device }
  if not step.req then -- only a question: it leaves nothing behind
    local report = d:take_report()
    d:finish(r)
    drain(d, { policy = function() return {} end })
    d:take_report()
    d.report = report
  end
  if not step.complete_transfers then d.report.loaded = table.move(d.report.started, 1, #d.report.started, 1, {}) end
  return r, have
end

--- A request that is there already is no new one.
local function fresh(run, step)
  if step.req and run.requests[step.req] then refuse("'%s' has been submitted already", step.req) end
  return request_of(run, step)
end

function ops.queue(run, step) return fresh(run, step) end

function ops.start(run, step)
  local r = fresh(run, step)
  run.double:step { complete = step.complete_transfers or false, policy = policy_of(step.store_policy) }
  return r
end

function ops.complete(run, step)
  local r = step.req and (run.requests[step.req] or refuse("unknown request '%s'", step.req))
  run.double:end_transfers()
  run.double:verify()
  return r
end

local function live(run, step)
  local r = run.requests[step.req]
  if not r or r.ended then refuse("unknown request '%s'", tostring(step.req)) end
  return r
end

function ops.preempt(run, step)
  local r = live(run, step)
  if run.double:view(r).status ~= "running" then refuse("'%s' does not run", step.req) end
  run.double:preempt(r)
  return r
end

function ops.abort(run, step)
  local r = live(run, step)
  run.double:finish(r)
  return r
end

function ops.finish(run, step)
  local r = live(run, step)
  if run.double:view(r).status ~= "running" then return ops.abort(run, step) end
  return run_to(run, r, step, 1, true)
end

function ops.reset(run) return nil, { ok = run.double.twin:reset() } end
ops.clear_gpu_cache = ops.reset

-- ---- vectors ------------------------------------------------------------------------------------------------

local LOOKUPS <const> = "op expect req prompt host_hit_chunks host_state gpu_hit_tokens gpu_cache max_recompute_tokens "
local STEP <const> = {
  run = set(LOOKUPS .. "outputs finish store_policy complete_transfers"),
  lookup_and_run = set(LOOKUPS .. "outputs finish store_policy complete_transfers"),
  resume = set(LOOKUPS .. "outputs finish store_policy complete_transfers"),
  lookup = set(LOOKUPS .. "store_policy complete_transfers"), preempt = set "op expect req",
  start = set(LOOKUPS .. "store_policy complete_transfers"), queue = set(LOOKUPS), complete = set "op expect req",
  abort = set "op expect req", finish = set "op expect req store_policy complete_transfers", reset = set "op expect",
  clear_gpu_cache = set "op expect",
}

local function observe(run, r, have)
  local d, report = run.double, run.double:take_report()
  local state = d.twin:state()
  have.stored_block_index, have.loaded_block_index = report.stored, report.loaded
  have.flushed_block_index, have.loads_started = report.flushed, report.loads_started
  have.store_jobs = report.store_jobs
  have.offered, have.allocation_failures = report.offered, report.failures
  have.free = state.free + state.inactive
  if not r then return have end
  local view = d:view(r)
  have.still_known = #view.blocks > 0 or not r.ended
  if have.deferred == nil then have.deferred = r.waits or false end
  have.gpu_hit_tokens = have.gpu_hit_tokens or r.device
  have.computed, have.tokens, have.outputs, have.state = view.computed, view.known, r.outputs, view.status
  return have
end

local function offload(vector)
  known_keys(vector, set "name kind config steps note level origin requests", "key of the vector")
  if vector.requests and next(vector.requests) then refuse("not modelled: requests outside of the steps") end
  if vector.config and vector.config.groups then refuse("not modelled: cache groups of a connector (fact 81)") end
  local options, trouble = double.options(vector.config or {})
  if not options then refuse("%s", trouble) end
  local run = { double = double.new(options), requests = {} }
  for i, step in ipairs(vector.steps) do
    local path = ("step %d (%s)"):format(i, tostring(step.op))
    if not STEP[step.op] then refuse("unknown op '%s'", tostring(step.op)) end
    known_keys(step, STEP[step.op], "key of " .. step.op)
    local r, have = ops[step.op](run, step)
    have = observe(run, r, have or {})
    local difference = step.expect and subset(step.expect, have, path)
    if difference then return difference end
  end
end

--- Runs it; what the vector cannot have is its difference.
local function guarded(driver)
  return function(vector)
    local fine, difference = xpcall(driver, function(trouble)
      return type(trouble) == "table" and trouble or { trouble = debug.traceback(trouble, 2) }
    end, plain(vector))
    if fine then return difference end
    return difference.trouble
  end
end

drivers.offload = guarded(offload)

-- ---- host ---------------------------------------------------------------------------------------------------

local HOST <const> = set "op expect keys success"
local manager = {}

function manager.store(host, step)
  local result = host:store(step.keys)
  if not result then return { ok = false } end
  return { ok = true, stored = result.stored, slots = result.slots, evicted = result.evicted }
end

function manager.store_done(host, step) host:store_done(step.keys, step.success ~= false) end

function manager.load(host, step) return { slots = host:load(step.keys) } end

function manager.load_done(host, step) host:load_done(step.keys) end

function manager.touch(host, step) host:touch(step.keys) end

function manager.lookup(host, step)
  local state, ready = {}, 0
  for i, key in ipairs(step.keys) do
    state[i] = host:state(key)
    ready = ready == i - 1 and state[i] == "hit" and i or ready
  end
  return { state = state, ready_prefix = ready }
end

drivers.host = guarded(function(vector)
  known_keys(vector.config, set "slots policy", "config key")
  if (vector.config.policy or "lru") ~= "lru" then refuse("not modelled: policy '%s'", vector.config.policy) end
  local host = hosts.new { slots = vector.config.slots }
  for i, step in ipairs(vector.steps) do
    if not manager[step.op] then refuse("unknown op '%s'", tostring(step.op)) end
    known_keys(step, HOST, "key of " .. step.op)
    local have = manager[step.op](host, step) or {}
    have.lru = host:lru()
    host:verify()
    local difference = step.expect and subset(step.expect, have, ("steps[%d]"):format(i))
    if difference then return difference end
  end
end)

return drivers
