-- drive_engine.lua - kinds `engine` and `align_split` of engine.json.

local twin = ... or require "aisim_twin" -- the backend: the twin, or the engine in its clothes
local subset = require "compare"
local tokens_of = require "tokens_of"

local drivers = {}

-- Keys that steer the loop, not the rank.
local loop_keys = { dp_size = true, wave_steps = true }

local function make(config)
  local own = {}
  for key, value in pairs(config) do
    if not loop_keys[key] then
      own[key] = value
    end
  end
  return twin.new(own)
end

local function reason_of(reason)
  if reason == "" then
    return nil
  end
  return (reason:gsub(":.*", ""))
end

-- State of one vector while it runs.
local function start(vector)
  local run = { vector = vector, t = make(vector.config), tick = 0, passes = 0, waiting = {} }
  run.ids, run.rows, run.evicted, run.traces, run.active_max = {}, {}, {}, {}, 0
  for i, request in ipairs(vector.requests) do
    run.ids[request.id] = i
    run.rows[i] = { request = request }
  end
  return run
end

local function name(run, id)
  return run.vector.requests[id].id
end

local function names(run, ids)
  local list = {}
  for i, id in ipairs(ids) do
    list[i] = name(run, id)
  end
  return list
end

local function due(run, row)
  local arrive = row.request.arrive or 0
  if type(arrive) == "table" then
    local other = run.rows[run.ids[arrive.after]]
    return other.finish and other.finish + 1 <= run.tick
  end
  return arrive <= run.tick
end

local function submit(run)
  local left = false
  for i, row in ipairs(run.rows) do
    if not row.serial then
      if due(run, row) then
        local request = row.request
        row.serial = assert(run.t:submit {
          id = i,
          prompt = tokens_of(request.prompt),
          output = request.output,
          output_ids = request.output_ids,
          priority = request.priority,
        })
      else
        left = true
      end
    end
  end
  return left
end

local function cancel(run)
  for i, row in ipairs(run.rows) do
    if row.request.cancel == run.tick and row.serial and not row.finish then
      run.t:cancel(i)
      row.finish = run.tick
    end
  end
end

local function per_request(run, key)
  local values = {}
  for _, id in ipairs(run.t:state().running) do
    values[name(run, id)] = run.t:find(id)[key]
  end
  return values
end

local function observe(run, record)
  local trace = { tick = run.tick, scheduled = {}, prefill = {}, admitted = {}, emitted = {} }
  for _, item in ipairs(record.items) do
    local id = name(run, item.id)
    trace.scheduled[id] = item.tokens
    if item.chunk > 0 then
      trace.prefill[id] = { item.prefix, item.chunk }
    end
    if item.admitted then
      trace.admitted[#trace.admitted + 1] = id
      run.rows[item.id].admit = run.rows[item.id].admit or run.tick
    end
  end
  for _, emitted in ipairs(record.emitted) do
    trace.emitted[name(run, emitted.id)] = emitted.tokens
    run.rows[emitted.id].first_token = run.rows[emitted.id].first_token or run.tick
  end
  for _, finished in ipairs(record.finished) do
    run.rows[finished.id].finish = run.tick
  end
  for _, block in ipairs(record.evicted) do
    if block.index then
      run.evicted[#run.evicted + 1] = name(run, block.id) .. ":" .. block.index
    end
  end
  local state = run.t:state()
  trace.running, trace.waiting = names(run, state.running), names(run, state.waiting)
  trace.active, trace.inactive = state.active, state.inactive
  trace.computed, trace.known = per_request(run, "computed"), per_request(run, "known")
  trace.owned = per_request(run, "owned")
  run.traces[run.tick] = trace
  run.active_max = math.max(run.active_max, state.active)
end

local function pass(run)
  local config = run.vector.config
  local step = run.passes
  if config.wave_steps then
    step = config.wave_steps[run.passes + 1] or step
  end
  run.passes = run.passes + 1
  local record = run.t:pass(run.t:defers(config.dp_size or 1, step))
  run.t:verify()
  observe(run, record)
  return record
end

local function result(run)
  local state = run.t:state()
  local have = { passes = run.passes, preemptions = state.preemptions, requests = {} }
  have.final = { active = state.active, inactive = state.inactive, free = state.free }
  have.evicted = run.evicted
  for _, row in ipairs(run.rows) do
    local view = row.serial and run.t:request(row.serial) or { reason = "", generated = 0 }
    have.requests[row.request.id] = {
      reused = view.reused,
      readmit_reused = view.readmit_reused,
      admit = row.admit,
      first_token = row.first_token,
      finish = row.finish,
      reason = reason_of(view.reason),
      tokens = view.generated,
      preempted = view.preemptions,
    }
  end
  return have
end

local function compare(run, expect)
  local have = result(run)
  for _, trace in ipairs(expect.trace or {}) do
    local seen = run.traces[trace.tick]
    local difference = seen and subset(trace, seen, "trace[" .. trace.tick .. "]")
      or (not seen and "no pass at tick " .. trace.tick)
    if difference then
      return difference
    end
  end
  local bounds = expect.bounds or {}
  if have.preemptions < (bounds.preemptions_min or 0) then
    return "preemptions " .. have.preemptions
  end
  if run.active_max > (bounds.active_max or math.huge) then
    return "active " .. run.active_max
  end
  for key, value in pairs(expect) do
    if key ~= "trace" and key ~= "bounds" then
      local difference = subset(value, have[key], key)
      if difference then
        return difference
      end
    end
  end
end

function drivers.engine(vector)
  local run = start(vector)
  local limit = vector.stop_after_passes or math.huge
  while run.passes < limit do
    local left = submit(run)
    cancel(run)
    local state = run.t:state()
    if state.ready then
      local record = pass(run)
      if not record.changed then
        return "nothing can change at tick " .. run.tick
      end
    elseif not left then
      break
    end
    run.tick = run.tick + 1
  end
  return compare(run, vector.expect)
end

function drivers.align_split(vector)
  local config = vector.config
  for i, request in ipairs(vector.requests) do
    local tokens = twin.align_split {
      kind = config.align_split or "fixed",
      block_size = config.block_size,
      unit = config.prefix_match_unit,
      cap = config.max_batched_tokens,
      start = request.start,
      prompt = request.prompt,
      known = request.known,
      desired = request.desired,
    }
    if tokens ~= vector.expect.tokens[i] then
      return ("[%d]: want %s, have %s"):format(i, vector.expect.tokens[i], tokens)
    end
  end
end

return drivers
