--- offload.json, kind `engine`: whole ranks with a host tier. One rank runs on the engine double under a
--- clock kept here; several ranks run through the public module. Vectors whose requests are prose are
--- scripted by name.
local engine = require "aisim_engine"
local support = require "support"

local M = { by = { default = "engine" } }

local CONFIG <const> = support.set [[component num_gpu_blocks block_size max_num_seqs max_num_batched_tokens
  prefix_caching bytes_per_token timing host waves replicas attention_dp mtp chunked_prefill max_model_len policy
  preemption watermark]]
local REQUEST <const> = support.set "id prompt output_tokens arrival_ms dp_rank replica note"

-- ---- tokens and names ---------------------------------------------------------------------------

--- "1..9" = tokens 1 to 9.
local function tokens_of(prompt)
  local first, last = prompt:match "^(%d+)%.%.(%d+)$"
  local list = {}
  for token = math.tointeger(first), math.tointeger(last) do list[#list + 1] = token end
  return list
end

--- Request ids of distinct prompts in order -> the letter of their first block.
local function letters_of(prompts)
  local letters, known, n = {}, {}, 0
  for id, prompt in ipairs(prompts) do
    if not known[prompt] then
      n = n + 1
      known[prompt] = ({ "a", "x", "y" })[n] or string.char(("b"):byte() + n - 4)
    end
    letters[id] = known[prompt]
  end
  return letters
end

-- ---- one rank under a clock -----------------------------------------------------------------------

local Rank = {}
Rank.__index = Rank

local function new_rank(config)
  local timing = config.timing or { type = "zero" }
  local zero = timing.type == "zero"
  return setmetatable({
    t = engine.new {
      num_blocks = config.num_gpu_blocks, block_size = config.block_size, max_seqs = config.max_num_seqs,
      max_batched_tokens = config.max_num_batched_tokens, prefix_caching = config.prefix_caching,
      bytes_per_token = config.bytes_per_token, host = config.host, mtp = config.mtp, policy = config.policy,
      preemption = config.preemption, watermark = config.watermark, chunked_prefill = config.chunked_prefill,
      max_model_len = config.max_model_len,
    },
    prefill_ms = zero and 0 or timing.prefill_ms, decode_ms = zero and 0 or timing.decode_ms,
    now = 0, prompts = {}, device = {}, host = {}, passes = {}, finish = {}, stores = {}, by_id = {}, n = 0,
  }, Rank)
end

function Rank:submit(request)
  local id = #self.prompts + 1
  self.prompts[id] = request.prompt
  self.t:set_time(self.now)
  return assert(self.t:submit { id = id, prompt = tokens_of(request.prompt), output = request.output_tokens or 1 })
end

--- Events and jobs since the last look.
function Rank:look(record)
  for _, event in ipairs(record and record.events or {}) do
    for _, block in ipairs(event.blocks) do
      self.device[#self.device + 1] = { event.stored and "stored" or "removed", block }
    end
  end
  for _, change in ipairs(self.t:host_look().changes) do
    self.host[#self.host + 1] = { change.stored and "stored" or "removed", change.block }
  end
  for _, job in ipairs(self.t:host_jobs()) do
    if job.kind == "store" then
      local store = self.by_id[job.id]
      if not store then
        store = { blocks = job.blocks, prepared_ms = job.prepared_ms }
        self.by_id[job.id] = store
        self.stores[#self.stores + 1] = store
      end
      store.submitted_ms, store.completed_ms = job.begin_ms, job.done_ms
    end
  end
end

--- One pass at the present time. @return whether there was one
function Rank:pass()
  self.t:set_time(self.now)
  local batch = self.t:plan()
  local planned = self.t:record()
  self:look(planned)
  if not planned.changed then
    self.t:complete(batch)
    return false
  end
  local prefill, decode = false, false
  for _, item in ipairs(planned.items) do
    prefill = prefill or item.chunk > 0
    decode = decode or item.chunk == 0
  end
  local start = math.max(self.now, self.t:fence())
  local stop = start + (prefill and self.prefill_ms or 0) + (decode and self.decode_ms or 0)
  self.started, self.now = start, stop
  self.t:set_time(stop)
  self.t:complete(batch)
  local record = self.t:record()
  self:look()
  for i = #planned.events + 1, #record.events do -- of the pass end: restored blocks
    for _, block in ipairs(record.events[i].blocks) do
      self.device[#self.device + 1] = { record.events[i].stored and "stored" or "removed", block }
    end
  end
  for _, finished in ipairs(record.finished) do self.finish[finished.id] = stop end
  self.passes[#self.passes + 1] = stop
  return true
end

--- The next end of a transfer. @return false when nothing moves
function Rank:transfer()
  local next_ms = self.t:next_transfer()
  if not next_ms then return false end
  self.now = math.max(self.now, next_ms)
  self.t:set_time(self.now)
  local before = #self.t:record().events
  self.t:transfers(self.now)
  local record = self.t:record()
  for i = before + 1, #record.events do
    for _, block in ipairs(record.events[i].blocks) do
      self.device[#self.device + 1] = { record.events[i].stored and "stored" or "removed", block }
    end
  end
  self:look()
  return true
end

--- Runs until nothing is left. @param arrivals list of {at, request}, by time
function Rank:run(arrivals)
  local at = 1
  for _ = 1, 10000 do
    while arrivals and arrivals[at] and arrivals[at][1] <= self.now do
      self:submit(arrivals[at][2])
      at = at + 1
    end
    local due = arrivals and arrivals[at] and arrivals[at][1]
    if not (self.t:state().ready and self:pass()) then
      local next_ms = self.t:next_transfer()
      if due and not (next_ms and next_ms <= due) then
        self.now = due
      elseif not self:transfer() then
        return
      end
    end
  end
  error "no end"
end

-- ---- what is expected -------------------------------------------------------------------------------

local function named(rank, events)
  local letters, list = letters_of(rank.prompts), {}
  for i, event in ipairs(events) do
    list[i] = { event[1], letters[event[2].id] .. event[2].index }
  end
  return list
end

local found = {}

function found.host_reused_tokens(rank)
  local list = {}
  for serial = 0, #rank.prompts - 1 do list[serial + 1] = rank.t:host_reused(serial) end
  return list
end

function found.device_events(rank) return named(rank, rank.device) end
function found.host_events(rank) return named(rank, rank.host) end
function found.pass_ends_ms(rank) return rank.passes end
function found.stores(rank) return rank.stores end
function found.finish_ms(rank) return rank.finish[#rank.prompts] end
function found.drained_ms(rank) return rank.now end

local function compare(rank, expect)
  for key, want in pairs(expect) do
    if not found[key] then return ("unknown expected key '%s'"):format(key) end
    local where = support.difference(want, found[key](rank), key)
    if where then return where end
  end
end

local function one_rank(vector)
  local rank = new_rank(vector.config)
  if vector.config.waves then
    for _, wave in ipairs(vector.requests) do
      for _, request in ipairs(wave) do rank:submit(request) end
      rank:run()
    end
  else
    local arrivals = {}
    for i, request in ipairs(vector.requests) do arrivals[i] = { request.arrival_ms or 0, request } end
    rank:run(arrivals)
  end
  return compare(rank, vector.expect)
end

-- ---- several ranks --------------------------------------------------------------------------------

local function several_ranks(vector)
  local aisim = require "aisim"
  local c, host = vector.config, {}
  local timing = c.timing or { type = "zero" }
  local names = { d2h_gbps = "d2h_bandwidth_gbps", h2d_gbps = "h2d_bandwidth_gbps",
    shared_d2h_gbps = "shared_d2h_bandwidth_gbps", shared_h2d_gbps = "shared_h2d_bandwidth_gbps",
    latency_ms = "latency_to_first_byte_ms" }
  for key, value in pairs(c.host) do host[names[key] or key] = value end
  local sim = aisim.new { seed = 1, name = vector.name }
  sim:pool { name = "main", workers = c.replicas or 1, engine = {
    model = "llama-3.1-8b", hardware = "h200_sxm",
    parallelism = { attention_data = c.attention_dp or 1 },
    scheduler = { max_batched_tokens = c.max_num_batched_tokens, max_sequences = c.max_num_seqs },
    kv_cache = { block_size = c.block_size, bytes_per_token = c.bytes_per_token,
      capacity = { type = "fixed", blocks = c.num_gpu_blocks }, host_offload = host },
    timing = { type = "fixed", prefill_ms = timing.prefill_ms or 0, decode_ms = timing.decode_ms or 0 },
  } }
  local place = {} -- by request id: worker, rank in worker
  sim:router { pool = "main", name = "fixed", pick = function(request, targets)
    local wanted = place[request.id]
    for i = 1, targets.n do
      if targets[i].worker == wanted.worker and (targets[i].rank - 1) % (c.attention_dp or 1) == wanted.rank then
        return i
      end
    end
  end }
  local next_worker = {}
  for i, request in ipairs(vector.requests) do
    local rank = request.dp_rank or 0
    next_worker[rank] = (next_worker[rank] or 0) % (c.replicas or 1) + 1
    place[i] = { worker = next_worker[rank], rank = rank }
    local prompt = tokens_of(request.prompt)
    sim:submit { at_ms = request.arrival_ms or 0, prompt_tokens = #prompt, output_tokens = request.output_tokens or 1,
      content = { hash_ids = prompt, block_size = 1, tokens = #prompt } }
  end
  local run = sim:run()
  local have = { host_reused_tokens = {} }
  for i = 1, #vector.requests do have.host_reused_tokens[i] = run.requests[i].host_reused_tokens end
  local offload = require "cjson".decode(run:json()).totals.offload
  have.pool = { capacity = offload.capacity_blocks, resident = offload.resident_blocks, used = offload.used_blocks }
  if not host.scope or host.scope == "dp_rank_local" then have.pool = nil end
  return support.difference(vector.expect, have, "expect")
end

-- ---- scripted ---------------------------------------------------------------------------------------

local script = {}

--- A store moves from 0.0 to 1.0; its block is handed on at once, the new owner computes from 1.0.
script["reused-source-fences-compute-not-capacity"] = function(vector)
  local rank = new_rank(vector.config)
  rank:submit { prompt = "1..4" }
  assert(rank:pass())
  local free = rank.t:state().free + rank.t:state().inactive
  rank:submit { prompt = "11..14" }
  assert(rank:pass())
  local have = { free_blocks_after_finish = free, compute_start_ms = rank.started }
  return support.difference(vector.expect, have, "expect")
end

--- The block stays held until the copy really ends, later because a peer joins at 0.5.
script["shared-pool-holds-the-source-instead"] = function(vector)
  local rank = new_rank(vector.config)
  local have = { alloc_ok_at_ms = {} }
  local function pass_at(t)
    while (rank.t:next_transfer() or math.huge) <= t do rank:transfer() end
    rank.now = t
    return rank:pass()
  end
  rank:submit { prompt = "1..4" }
  assert(rank:pass())
  rank:submit { prompt = "11..14" }
  local of_peer = rank:submit { prompt = "21..24" }
  have.alloc_ok_at_ms["0.0"] = pass_at(0.0)
  pass_at(0.5)
  assert(rank.t:peer_store(of_peer, 0, 1))
  have.alloc_ok_at_ms["1.0"] = pass_at(1.0)
  have.alloc_ok_at_ms["1.5"] = pass_at(1.5)
  have.compute_start_ms = rank.started
  return support.difference(vector.expect, have, "expect")
end

--- A load needs its device block, pins it, makes a second one wait, and gives it back when cancelled.
--- The loading request has one token more than its block, so the rank needs two blocks.
script["pinned-destination-and-cancel"] = function(vector)
  local config, have = {}, {}
  for key, value in pairs(vector.config) do config[key] = value end
  config.num_gpu_blocks = vector.config.num_gpu_blocks + 1
  local rank = new_rank(config)
  local function plan()
    rank.t:set_time(rank.now)
    rank.t:complete(rank.t:plan())
  end
  local function stage(place)
    local entry = rank.t:host_look().queue[place]
    return entry and entry.stage or "waiting"
  end
  rank:submit { prompt = "1..4" } -- K comes to the host
  rank:run()
  rank:submit { prompt = "21..27" } -- K leaves the device
  rank:run()
  rank:submit { prompt = "31..33", output_tokens = 2 } -- id 3: the device is busy, nothing to store
  plan()
  rank:submit { prompt = "1..5" } -- id 4
  plan()
  have[1] = stage(1) == "waiting" and "capacity_blocked" or stage(1)
  rank.t:cancel(3)
  plan()
  have[2] = stage(1) == "loading" and "queued" or stage(1)
  rank:submit { prompt = "1..5" } -- id 5
  plan()
  have[3] = stage(2) == "asleep" and "deferred" or stage(2)
  local before = rank.t:state().active
  rank.t:cancel(4)
  have[4] = ("active_blocks %d -> %d"):format(before, rank.t:state().active)
  plan()
  have[5] = stage(1) == "loading" and "hit" or stage(1)
  return support.difference(vector.expect.outcomes, have, "outcomes")
end

--- A prefill that takes the whole budget: the request that waits is not looked up, its blocks age.
script["exhausted-budget-skips-the-lookup"] = function(vector)
  local rank = new_rank(vector.config)
  local parts = { { 1, "x" }, { 1, "a" }, { 2, "b" }, { 3, "d" } } -- request and name of each stored block
  local names, seen = {}, {}
  for _, part in ipairs(parts) do
    seen[part[1]] = (seen[part[1]] or -1) + 1
    names[part[1] .. ":" .. seen[part[1]]] = part[2]
  end
  for i = 1, 3 do
    rank:submit(vector.requests[i])
    rank:run()
  end
  local chunks = {}
  rank:submit(vector.requests[4])
  for i = 1, 2 do
    local before = #rank.host
    if i == 2 then rank:submit(vector.requests[5]) end
    assert(rank:pass())
    chunks[i] = {}
    for k = before + 1, #rank.host do
      local event = rank.host[k]
      if event[1] == "removed" then
        table.insert(chunks[i], names[event[2].id .. ":" .. event[2].index] or "other")
      end
    end
  end
  return support.difference(vector.expect.evictions_by_chunk, chunks, "evictions_by_chunk")
end

--- Checks one vector.
function M.engine(vector)
  local unknown = support.unknown(vector.config, CONFIG, "config key")
  if script[vector.name] then
    local where = unknown or script[vector.name](vector)
    return where == nil, where
  end
  for _, request in ipairs(vector.requests) do
    for _, one in ipairs(vector.config.waves and request or { request }) do
      unknown = unknown or support.unknown(one, REQUEST, "request key")
    end
  end
  if unknown then return false, unknown end
  local several = (vector.config.replicas or 1) * (vector.config.attention_dp or 1) > 1
  local where = (several and several_ranks or one_rank)(vector)
  return where == nil, where
end

return M
