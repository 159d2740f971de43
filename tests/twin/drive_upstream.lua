-- drive_upstream.lua - kinds `sched` and `split` of vllm_upstream.json.
--
-- Every vector runs with the upstream column of reconciliation.md. Tokens and drafts come from the
-- vector. Asynchronous external loads (facts 11, 20, 37, 79, 82) only the twin has; `loading` of a step
-- are the requests whose load began in it.

local twin = ... or require "aisim_twin" -- the backend: the twin, or the engine in its clothes
local subset = require "compare"
local tokens_of = require "tokens_of"

local drivers = {}

local function make(config)
  local own = {
    block_size = config.block_size,
    num_blocks = config.blocks,
    max_batched_tokens = config.max_num_batched_tokens,
    max_seqs = config.max_num_seqs,
    max_model_len = config.max_model_len,
    prefix_caching = config.prefix_caching or false,
    policy = config.policy,
    chunked_prefill = config.chunked_prefill,
    watermark = config.watermark,
    reserve_full_prompt = config.reserve_full_prompt,
    long_prefill_token_threshold = config.long_prefill_threshold,
    never_fits = "wait",
    admit_at_zero_budget = false,
    self_preemption = "end_pass",
    overlap = config.async and "async" or "pipelined",
    align_split = "upstream",
    checkpoints = "chunk_end",
    same_pass_hit = "wait",
    mtp = { mode = "native", depth = config.spec_tokens or 0 },
    drop_matched_block = config.eagle or false,
    lookahead_slots = config.lookahead or 0,
    first_chunk_lookahead = true,
    pad_first_decode = true,
  }
  if config.mamba_align then
    own.block_size = config.groups[1].block
    own.state_cache = { mode = "aligned", blocks = 1 }
    own.prefix_match_unit = own.block_size
  end
  local t = twin.new(own)
  local external = config.external
  if external and external.async then
    t:set_connector { match = function() return external.matched, true end }
  elseif external then
    t:set_external(external.matched)
  end
  return t
end

local function start(vector)
  local run = { t = make(vector.config), vector = vector, number = {}, name = {}, serial = {} }
  local names = {}
  for id in pairs(vector.requests) do
    names[#names + 1] = id
  end
  table.sort(names)
  for i, id in ipairs(names) do
    run.number[id], run.name[i] = i, id
  end
  run.batches, run.rows, run.drafts, run.outputs, run.stopped = {}, {}, {}, {}, {}
  run.blocked = {}
  return run
end

local function names(run, ids)
  local list = {}
  for i, id in ipairs(ids) do
    list[i] = run.name[id]
  end
  return list
end

-- Ids of the outputs in the order in which the steps give them: the engine wants to know them when a
-- request is submitted. A step that gives `each` is taken to give it to every request.
local function outputs_of(vector, id)
  local list = {}
  for _, step in ipairs(vector.steps) do
    local given = step.tokens and step.tokens[id] or (step.each and { step.each }) or {}
    table.move(given, 1, #given, #list + 1, list)
  end
  return list
end

local ops = {}

-- Numbers of the salts, over all vectors.
local salts = {}

local function salt_of(request)
  if request.salt and not salts[request.salt] then
    salts[#salts + 1] = request.salt
    salts[request.salt] = #salts
  end
  return request.salt and salts[request.salt]
end

function ops.add(run, step)
  local list = table.move(step.req, 1, #step.req, 1, {})
  local place = {}
  for i, id in ipairs(list) do
    place[id] = i
  end
  table.sort(list, function(x, y)
    local a, b = run.vector.requests[x].arrival or 0, run.vector.requests[y].arrival or 0
    if a ~= b then
      return a < b
    end
    return place[x] < place[y]
  end)
  for _, id in ipairs(list) do
    local request = run.vector.requests[id]
    run.blocked[id] = request.state == "blocked" or nil
    run.serial[id] = assert(run.t:submit {
      id = run.number[id],
      prompt = tokens_of(request.prompt),
      output = request.max_tokens or 16,
      output_ids = outputs_of(run.vector, id),
      priority = request.priority,
      no_read = request.no_read,
      salt = salt_of(request),
      blocked = request.state == "blocked",
    })
  end
  return {}
end

-- Requests with a load under way, in the order of the second queue.
local function loading(run)
  local list = {}
  for _, number in ipairs(run.t:state().skipped) do
    local id = run.name[number]
    if run.t:request(run.serial[id]).status == "loading" then
      list[#list + 1], list[id] = id, true
    end
  end
  return list
end

-- The drafts a request carries after this plan, as the vectors show them.
local function draft_list(run, id, n)
  local list = {}
  for i = 1, n do
    list[i] = (run.drafts[id] or {})[i] or -1
  end
  return list
end

function ops.schedule(run, step)
  if step.budget then
    run.t:set_budget(step.budget)
  end
  local before = loading(run)
  local batch = run.t:plan(step.throttle or false)
  run.t:verify()
  local record = run.t:record()
  local have = { scheduled = {}, order = {}, new = {}, resumed = {}, spec = {}, total = 0 }
  have.preempted, have.rows, have.loading = {}, {}, {}
  for _, id in ipairs(loading(run)) do
    have.loading[#have.loading + 1] = not before[id] and id or nil
  end
  for _, item in ipairs(record.items) do
    local id = run.name[item.id]
    have.scheduled[id] = item.tokens
    have.order[#have.order + 1] = id
    have.total = have.total + item.tokens
    have.rows[#have.rows + 1] = { id = id, serial = item.serial }
    if item.admitted then
      local again = #run.t:request(item.serial).readmit_reused > 0
      local list = again and have.resumed or have.new
      list[#list + 1] = id
    end
    if item.drafts > 0 then
      have.spec[id] = draft_list(run, id, item.drafts)
    end
  end
  for i, victim in ipairs(record.preempted) do
    have.preempted[i] = run.name[victim.id]
    run.drafts[run.name[victim.id]] = nil
  end
  have.batch = batch
  run.batches[step.id or ""] = batch
  run.rows[batch] = have.rows
  return have
end

-- How many of the ids stay when an end or stop token ends the request there (facts 66, 67), nil = it goes on.
-- Lengths are the engine's.
local function stops_after(run, id, ids)
  local request, count = run.vector.requests[id], #(run.outputs[id] or {})
  for i, token in ipairs(ids) do
    local ends = token == request.eos and not request.ignore_eos
    for _, stop in ipairs(request.stop_tokens or {}) do
      ends = ends or token == stop
    end
    if ends and count + i >= (request.min_tokens or 0) then
      return i
    end
  end
end

-- The engine counts tokens; what ends earlier is ended here, at the same moment.
local function end_stopped(run, record, stopped, have)
  for _, finished in ipairs(record.finished) do
    have.finished[#have.finished + 1] = run.name[finished.id]
    have.finished[run.name[finished.id]] = true
  end
  for _, emitted in ipairs(record.emitted) do
    local id = run.name[emitted.id]
    if stopped[id] then
      run.stopped[id] = true
      if not have.finished[id] then
        run.t:cancel(emitted.id)
        have.finished[#have.finished + 1] = id
      end
    end
  end
  for _, id in ipairs(have.finished) do
    have.finished[id] = nil
  end
end

local function complete(run, batch, step)
  local results, stopped = {}, {}
  for _, row in ipairs(run.rows[batch]) do
    local ids = step.tokens and step.tokens[row.id] or (step.each and { step.each })
    if ids then
      local keep = stops_after(run, row.id, ids)
      if keep then
        ids, stopped[row.id] = table.move(ids, 1, keep, 1, {}), true
      end
      local drafts = step.drafts and step.drafts[row.id]
      results[#results + 1] = { serial = row.serial, ids = ids, drafts = drafts and #drafts or 0 }
    end
  end
  local record = run.t:complete(batch, results)
  local have = { finished = {}, drafts = 0, draft_tokens = 0, accepted = 0 }
  end_stopped(run, record, stopped, have)
  run.t:verify()
  for _, emitted in ipairs(record.emitted) do
    local id = run.name[emitted.id]
    run.drafts[id] = step.drafts and step.drafts[id]
    local outputs, given = run.outputs[id] or {}, step.tokens and step.tokens[id] or { step.each }
    table.move(given, 1, emitted.tokens, #outputs + 1, outputs)
    run.outputs[id] = outputs
    if emitted.verified > 0 then
      have.drafts = have.drafts + 1
      have.draft_tokens = have.draft_tokens + emitted.verified
      have.accepted = have.accepted + emitted.accepted
    end
  end
  return have
end

function ops.output(run, step)
  local have = complete(run, run.batches[step["for"]], step)
  for _, id in ipairs(step.received or {}) do
    assert(run.serial[id] and run.t:received(run.serial[id]), ("nothing is being loaded for '%s'"):format(id))
  end
  run.t:verify()
  return have
end

function ops.finish(run, step)
  for _, id in ipairs(step.req) do
    run.t:cancel(run.number[id])
  end
  return {}
end

-- Makes blocked requests schedulable: `req` names them, or `state` maps ids to their new state.
function ops.state(run, step)
  local ids, states = step.req or {}, type(step.state) == "table" and step.state or {}
  ids = type(ids) == "table" and table.move(ids, 1, #ids, 1, {}) or { ids }
  for id in pairs(states) do
    ids[#ids + 1] = id
  end
  for _, id in ipairs(ids) do
    local to = states[id] or (type(step.state) == "string" and step.state) or "waiting"
    assert(to ~= "blocked", "a request is blocked from the start or not at all")
    run.t:unblock(run.number[id])
    run.blocked[id] = nil
  end
  return {}
end

function ops.reset(run, step)
  return { ok = run.t:reset(step.preempt_running or false) }
end

function ops.run_rest(run, step)
  local have = { steps = 0, total = 0 }
  while run.t:state().ready do
    local planned = ops.schedule(run, {})
    have.steps = have.steps + 1
    have.total = have.total + planned.total
    if planned.total == 0 then
      break
    end
    complete(run, planned.batch, { each = step.each or 0 })
  end
  return have
end

function ops.run_async(run, step)
  local have = { total = 0, first_scheduled = {} }
  local flight = {}
  for i, id in ipairs(step.inflight) do
    flight[i] = run.batches[id]
    have.total = have.total + run.totals[id]
  end
  local turn = 0
  while #flight > 0 do
    turn = turn + 1
    if step.abort and step.abort[turn] then
      ops.finish(run, { req = { step.abort[turn] } })
    end
    if step.add_each and step.add_each[turn] then
      ops.add(run, { req = { step.add_each[turn] } })
    end
    complete(run, table.remove(flight, 1), { each = 7 })
    local planned = ops.schedule(run, {})
    have.total = have.total + planned.total
    for id, tokens in pairs(planned.scheduled) do
      have.first_scheduled[id] = have.first_scheduled[id] or tokens
    end
    if planned.total > 0 then
      flight[#flight + 1] = planned.batch
    end
  end
  return have
end

local function request_state(run, id)
  local view = run.t:request(run.serial[id])
  return {
    computed = view.computed,
    tokens = view.known,
    with_drafts = view.known + view.drafts,
    outputs = run.outputs[id] or {},
    num_outputs = view.generated,
    state = run.blocked[id] and view.status ~= "finished" and "blocked" or view.status,
    reason = run.stopped[id] and "stop" or view.reason == "context" and "length" or view.reason,
    preemptions = view.preemptions,
    drafts = draft_list(run, id, view.drafts),
    blocks = { view.owned },
    hit = view.reused,
  }
end

local function observe(run, have, expect)
  local state = run.t:state()
  have.running, have.waiting = names(run, state.running), names(run, state.waiting)
  have.skipped = names(run, state.skipped)
  have.free = state.free + state.inactive
  have.prefill_pending = state.capacity_bound
  have.stats = { requests = state.lookups, queries = state.lookup_tokens, hits = state.hit_tokens }
  have.req = {}
  for id in pairs(expect.req or {}) do
    have.req[id] = request_state(run, id)
  end
end

-- `scheduled` and `spec` are complete lists.
local function complete_list(want, have, path)
  for id in pairs(have or {}) do
    if want[id] == nil then
      return path .. ": unexpected " .. id
    end
  end
end

function drivers.sched(vector)
  local config = vector.config
  if config.external and config.external.async then
    if not twin.has_connector then
      return nil, "asynchronous external loads: only the twin has them"
    elseif config.mamba_align then
      return nil, "not modelled: asynchronous external loads beside a state cache"
    end
  end
  local run = start(vector)
  run.totals = {}
  for i, step in ipairs(vector.steps) do
    local have = assert(ops[step.op], step.op)(run, step)
    if step.op == "schedule" then
      run.totals[step.id or ""] = have.total
    end
    local expect = step.expect or {}
    observe(run, have, expect)
    local path = ("step %d (%s)"):format(i, step.op)
    local difference = (step.expect and subset(expect, have, path))
      or (expect.scheduled and complete_list(expect.scheduled, have.scheduled, path))
      or (expect.spec and complete_list(expect.spec, have.spec, path))
    if difference then
      return difference
    end
  end
end

-- The pure split function with the upstream stops.
local function chunk(config, step)
  local threshold = config.long_prefill_threshold or 0
  local budget = step.budget or config.budget
  local cap = threshold > 0 and math.min(budget, threshold) or budget
  return twin.align_split {
    kind = "upstream",
    block_size = config.block,
    unit = config.partial_hits and config.hash_block or config.block,
    cap = cap,
    drop = config.eagle or false,
    junction = step.boundary or 0,
    start = step.start or 0,
    prompt = step.prompt,
    known = step.tokens or step.prompt,
    desired = step.offer,
  }
end

local function walk(vector)
  local path = vector.walk
  local have = { chunks = {}, ends = {} }
  local at, turn = path.start or 0, 0
  while at < path.prompt and turn < 1000 do
    local offer = path.offers[turn % #path.offers + 1]
    turn = turn + 1
    local n = chunk(vector.config, {
      start = at,
      offer = math.min(offer, path.prompt - at),
      prompt = path.prompt,
      tokens = path.tokens,
      boundary = path.boundary,
    })
    at = at + n
    have.chunks[turn] = n
    if n > 0 then
      have.ends[#have.ends + 1] = at
    end
  end
  return subset(vector.expect, have, "walk")
end

function drivers.split(vector)
  for i, step in ipairs(vector.cases or vector.steps or {}) do
    local difference = subset(step.expect, { chunk = chunk(vector.config, step) }, "[" .. i .. "]")
    if difference then
      return difference
    end
  end
  return vector.walk and walk(vector) or nil
end

return drivers
