--- connector_double.lua - the host offload connector of the upstream engine, chunk by chunk, on the scheduler of
-- the block-by-block twin (facts 74 to 82; reconciliation R18 to R25, both values of each).
--
-- The scheduler (the twin) asks `match` after its device lookup; everything else happens around its steps:
--
--     plan        the twin schedules; loads begin; preempted requests are flushed
--     prepare     chunks whose last token is computed in this step are offered to the host
--     work        loads of this step and stores prepared in earlier steps move; they end now, or later
--     complete    every row gets its token; ended loads are told to the scheduler
--
-- So a store moves one step after it was prepared. A request that has ended is offered once more, in the step
-- after (the finishing step), and keeps its device blocks until its stores have ended.
--
-- The host is a slot manager (connector_host.lua, option `slots`), or what the caller says: `script` of a request
-- answers its lookups and `policy` of a step decides what is stored. Blocks of a report are indices inside their
-- request, in ascending order.

local hosts = require "connector_host"
local twin = require "aisim_twin"

local double = {}
local Double = {}
Double.__index = Double

--- name = { default, values or type }
local OPTIONS <const> = {
  block_size = { 16, "number" }, blocks = { 1000, "number" }, blocks_per_chunk = { 1, "number" },   -- R21
  slots = { nil, "number" }, prefix_caching = { true, "boolean" },
  max_num_batched_tokens = { 8192, "number" }, max_num_seqs = { 256, "number" }, max_model_len = { nil, "number" },
  store_scope = { "all", { all = true, prompt = true } },                                           -- R20
  full_load_recompute = { "token", { token = true, block = true } },                                -- R22
  on_preempt = { "flush", { flush = true, fence = true } },                                         -- R23
  on_cancel_load = { "wait", { wait = true, drop = true } },                                        -- R24
  pending_recompute_tokens = { 0, "number" },                                                       -- R25
  lru_tie_break = { "listed", { listed = true, deepest_first = true, key_asc = true } },            -- R18
  refresh_on_load = { false, "boolean" },                                                           -- R19
}

--- @return the options with their defaults, or nil and what is wrong
function double.options(given)
  local own = {}
  for key, value in pairs(given) do
    local option = OPTIONS[key]
    if not option then return nil, ("unknown config key '%s'"):format(tostring(key)) end
    local kind = option[2]
    if type(kind) == "table" and not kind[value] or type(kind) == "string" and type(value) ~= kind then
      return nil, ("config key '%s': unknown value '%s'"):format(key, tostring(value))
    end
    own[key] = math.type(value) == "float" and math.tointeger(value) or value
  end
  for key, option in pairs(OPTIONS) do
    if own[key] == nil then own[key] = option[1] end
  end
  return own
end

local function no_report()
  return { stored = {}, loaded = {}, flushed = {}, started = {}, loads_started = 0, store_jobs = 0, failures = 0,
    offered = false }
end

--- @param given see OPTIONS; raises on what is not among them
function double.new(given)
  local own = assert(double.options(given))
  local self = setmetatable({ own = own, chunk = own.block_size * own.blocks_per_chunk, by_serial = {}, by_id = {},
    jobs = {}, names = {}, n_names = 0, report = no_report(), next_id = 0 }, Double)
  self.host = own.slots and hosts.new { slots = own.slots, tie_break = own.lru_tie_break,
    refresh_on_load = own.refresh_on_load }
  self.twin = twin.new { block_size = own.block_size, num_blocks = own.blocks, max_seqs = own.max_num_seqs,
    max_batched_tokens = own.max_num_batched_tokens, max_model_len = own.max_model_len,
    prefix_caching = own.prefix_caching, never_fits = "wait", admit_at_zero_budget = false,
    self_preemption = "end_pass", overlap = "pipelined" }
  self.twin:set_connector { on_cancel_load = own.on_cancel_load, full_load_recompute = own.full_load_recompute,
    match = function(serial, device) return self:match(serial, device) end,
    keeps = function(serial) return self:keeps(self.by_serial[serial]) end }
  return self
end

-- ---- requests ---------------------------------------------------------------------------------------------

--- A request that samples `token` until it is finished. @return the record the other calls take
function Double:submit(tokens, token)
  self.next_id = self.next_id + 1
  local r = { id = self.next_id, prompt = #tokens, keys = {}, cursor = 0, stores = 0, outputs = 0,
    token = token or 0 }
  r.serial = assert(self.twin:submit { id = r.id, prompt = tokens, output = 1 << 30 })
  self.by_serial[r.serial], self.by_id[r.id] = r, r
  return r
end

function Double:view(r) return self.twin:request(r.serial) end

--- Identities of the whole chunks of its first `tokens` tokens: equal exactly when all tokens before are equal.
local function keys_of(self, r, tokens)
  local wanted = tokens // self.chunk
  if #r.keys < wanted then
    local all = self.twin:tokens(r.serial)
    for i = #r.keys + 1, wanted do
      local text = (r.keys[i - 1] or 0) .. ":" .. table.concat(all, ",", (i - 1) * self.chunk + 1, i * self.chunk)
      if not self.names[text] then
        self.n_names = self.n_names + 1
        self.names[text] = self.n_names
      end
      r.keys[i] = self.names[text]
    end
  end
  return table.move(r.keys, 1, wanted, 1, {})
end

-- ---- lookup -----------------------------------------------------------------------------------------------

--- What the host says of chunk i (from 1). A script counts from the chunk behind the device hit of the first look.
local function state_of(self, r, i, first)
  if self.host then return self.host:state(r.keys[i]) end
  local script = r.script
  if not script then return "miss" end
  script.first = script.first or first
  return i > script.first and script[i - script.first] or "miss"
end

local function loaded_by_another(self, r, key)
  for _, job in ipairs(self.jobs) do
    if job.load and job.r ~= r then
      for _, other in ipairs(job.keys) do
        if other == key then return true end
      end
    end
  end
  return false
end

--- Facts 78 and 79. @return chunks to load behind the first `first` ones, or nil: ask again
local function lookup(self, r, first, last)
  local ready, run = nil, 0
  for i = first + 1, last do
    local state = state_of(self, r, i, first)
    if state == "miss" then break end
    run = i - first
    if state == "pending" then ready = ready or run - 1 end
  end
  if ready and (run - ready) * self.chunk <= (r.recompute or self.own.pending_recompute_tokens) then
    run, ready = ready, nil -- R25: what is left of the run is cheap enough to compute
  end
  if ready then return nil end
  for i = first + 1, first + run do
    if loaded_by_another(self, r, r.keys[i]) then return nil end
  end
  return run
end

--- The scheduler's question. @return tokens beyond the device hit and whether by a load; nil: ask again
function Double:match(serial, device)
  local r = self.by_serial[serial]
  local keys = keys_of(self, r, self:view(r).known)
  r.offer, r.waits, r.device = nil, false, device
  if self.host then self.host:touch(keys) end -- fact 77
  if #keys * self.chunk - device < self.chunk then return 0, false end -- less than a chunk is not looked up
  r.looked_up = true
  local first = device // self.chunk
  local run = lookup(self, r, first, #keys)
  if not run then
    r.waits = true
    return nil
  end
  local tokens = (first + run) * self.chunk - device
  if run == 0 or tokens < self.chunk then return 0, false end
  r.offer = { first = first, last = first + run, device = device }
  return tokens, true
end

-- ---- transfers --------------------------------------------------------------------------------------------

local function add(list, n, from)
  for i = 0, n - 1 do list[#list + 1] = from + i end
end

local function new_job(self, r, load, chunks, from)
  local job = { r = r, load = load, keys = {}, blocks = {}, sources = {} }
  local n, held = self.own.blocks_per_chunk, self:view(r).blocks
  for i, chunk in ipairs(chunks) do
    job.keys[i] = r.keys[chunk + 1]
    for block = math.max(chunk * n, from), chunk * n + n - 1 do
      job.blocks[#job.blocks + 1] = block
      job.sources[#job.sources + 1] = held[block + 1]
    end
  end
  self.jobs[#self.jobs + 1] = job
  return job
end

local function start_load(self, r)
  local chunks = {}
  add(chunks, r.offer.last - r.offer.first, r.offer.first)
  r.load = new_job(self, r, true, chunks, r.offer.device // self.own.block_size)
  if self.host then self.host:load(r.load.keys) end
  r.cursor = math.max(r.cursor, r.offer.last)
  r.load.moves = true
  self.report.loads_started = self.report.loads_started + 1
  table.move(r.load.blocks, 1, #r.load.blocks, #self.report.started + 1, self.report.started)
end

local function give_back_if_done(self, r)
  if r.ended and r.offered_last and r.stores == 0 and not r.load then self.twin:let_go(r.serial) end
end

local function end_job(self, job)
  for i, other in ipairs(self.jobs) do
    if other == job then table.remove(self.jobs, i) break end
  end
  local r, list = job.r, job.load and self.report.loaded or self.report.stored
  table.move(job.blocks, 1, #job.blocks, #list + 1, list)
  if job.load then
    if self.host then self.host:load_done(job.keys) end
    r.load = nil
    self.twin:received(r.serial)
  else
    if self.host then self.host:store_done(job.keys, true) end
    r.stores = r.stores - 1
    give_back_if_done(self, r)
  end
end

--- Fact 80: what still reads the blocks of a preempted request ends before they are used again.
local function flush(self, r)
  for i = #self.jobs, 1, -1 do
    local job = self.jobs[i]
    if job and job.r == r and not job.load then
      table.move(job.blocks, 1, #job.blocks, #self.report.flushed + 1, self.report.flushed)
      end_job(self, job)
    end
  end
end

local function chunks_ready(self, r, computed, known)
  local tokens = math.min(computed, known)
  return (self.own.store_scope == "prompt" and math.min(tokens, r.prompt) or tokens) // self.chunk
end

--- Facts 74 and 75. The chunks [cursor, end) are offered; refused ones are offered again in the next step.
local function offer(self, r, computed, policy)
  local view = self:view(r)
  local last, chunks = chunks_ready(self, r, computed, view.known), {}
  if last <= r.cursor then return end
  self.report.offered = true
  local keys = keys_of(self, r, last * self.chunk)
  add(chunks, last - r.cursor, r.cursor)
  local accepted = policy and policy(chunks) or not policy and chunks or nil
  if accepted and self.host then
    local result = self.host:store(table.move(keys, r.cursor + 1, last, 1, {}))
    local missing = {}
    for _, key in ipairs(result and result.stored or {}) do missing[key] = true end
    accepted = result and {} or nil
    for _, chunk in ipairs(result and chunks or {}) do
      if missing[keys[chunk + 1]] then accepted[#accepted + 1] = chunk end
    end
  end
  if not accepted then
    self.report.failures = self.report.failures + 1
    return
  end
  r.cursor = last
  if #accepted > 0 then
    if self.host then self.host:touch(keys) end
    new_job(self, r, false, accepted, 0)
    r.stores = r.stores + 1
  end
end

--- Asked when a request ends: does a transfer need its blocks, or will one?
function Double:keeps(r)
  local view = self:view(r)
  return r.stores > 0 or chunks_ready(self, r, view.computed, view.known) > r.cursor
end

-- ---- steps ------------------------------------------------------------------------------------------------

local function note_end(r)
  r.ended, r.offered_last, r.waits = true, false, false
end

--- The request has sampled its end, or is aborted (R24 while it is being loaded).
function Double:finish(r)
  if r.ended then return end
  if r.load and self.own.on_cancel_load == "drop" then
    for i, job in ipairs(self.jobs) do
      if job == r.load then table.remove(self.jobs, i) break end
    end
    if self.host then self.host:load_done(r.load.keys) end
    r.load = nil
  end
  self.twin:cancel(r.id)
  note_end(r)
end

--- Preempts a running request between two steps.
function Double:preempt(r)
  assert(self.twin:preempt(r.id), "only a running request can be preempted")
  if self.own.on_preempt == "flush" then flush(self, r) end
end

--- Everything that moves ends.
function Double:complete_transfers()
  local moving = {}
  for _, job in ipairs(self.jobs) do moving[#moving + 1] = job.moves and job or nil end
  for _, job in ipairs(moving) do end_job(self, job) end
  return #moving > 0
end

--- Stores that were prepared begin to move. @return whether there are any
local function move_stores(self)
  local any = false
  for _, job in ipairs(self.jobs) do
    if not job.moves then
      any, job.moves = true, true
      self.report.store_jobs = self.report.store_jobs + 1
    end
  end
  return any
end

--- Everything that was begun ends, between two steps.
function Double:end_transfers()
  move_stores(self)
  return self:complete_transfers()
end

--- Loads begin, stores of earlier steps move, chunks of this step are prepared. @return whether anything happened
local function connect(self, record, policy)
  local any = move_stores(self)
  for id = 1, self.next_id do
    local r = self.by_id[id]
    if not r.load and self:view(r).status == "loading" and r.offer then
      start_load(self, r)
      r.offer, any = nil, true
    end
  end
  for _, item in ipairs(record.items) do
    offer(self, self.by_id[item.id], self.twin:request(item.serial).computed, policy)
  end
  for id = 1, self.next_id do
    local r = self.by_id[id]
    if r.ended and not r.offered_last then
      r.offered_last, any = true, true
      if #self:view(r).blocks > 0 then offer(self, r, self:view(r).computed, policy) end
      give_back_if_done(self, r)
    end
  end
  return any
end

local function sample(self, record, batch)
  local rows = {}
  for i, item in ipairs(record.items) do
    rows[i] = { serial = item.serial, ids = { self.by_id[item.id].token } }
  end
  local after = self.twin:complete(batch, rows)
  for _, emitted in ipairs(after.emitted) do
    local r = self.by_id[emitted.id]
    r.outputs = r.outputs + emitted.tokens
  end
  for _, finished in ipairs(after.finished) do
    if self.by_id[finished.id] then note_end(self.by_id[finished.id]) end
  end
end

--- One step. @param how complete = transfers that move end in it (default true); policy(chunks) = those of them
--- that are stored, nil = refused (default: all); stop = request whose last token is its `outputs`-th
--- @return whether anything happened
function Double:step(how)
  how = how or {}
  local batch = self.twin:plan()
  local record = self.twin:record()
  for _, victim in ipairs(record.preempted) do
    if self.own.on_preempt == "flush" then flush(self, self.by_id[victim.id]) end
  end
  local any = connect(self, record, how.policy)
  sample(self, record, batch)
  if how.stop and not how.stop.ended and how.stop.outputs >= how.outputs then self:finish(how.stop) end
  if how.complete ~= false then any = self:complete_transfers() or any end
  self:verify()
  return any or #record.items > 0 or #record.preempted > 0
end

--- What has happened since the last time: sorted block indices and counts. Begins a new report.
function Double:take_report()
  local report = self.report
  for _, list in ipairs { report.stored, report.loaded, report.flushed, report.started } do table.sort(list) end
  self.report = no_report()
  return report
end

--- Stops on a broken invariant: besides those of the twin and of the host, a store reads blocks that still are
--- its request's, unless a fence guards them.
function Double:verify()
  self.twin:verify()
  if self.host then self.host:verify() end
  for _, job in ipairs(self.jobs) do
    local view = self:view(job.r)
    for i, block in ipairs(job.blocks) do
      local fenced = self.own.on_preempt == "fence" and view.preemptions > 0
      assert(fenced or view.blocks[block + 1] == job.sources[i], "a transfer works on blocks of another request")
    end
  end
end

return double
