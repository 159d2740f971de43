--- What the specs of the engine share: one rank of the product, driven pass by pass.
-- The module aisim_engine (tests/twin) puts the interface of the block-by-block twin in front of the
-- product's scheduler, so a spec can look at blocks, leases and budgets that the Lua API does not show.
local engine = require "aisim_engine"

local M = { align_split = engine.align_split, draw = engine.draw }

local Rank = {}

--- Methods of the module reach through.
function Rank.__index(self, key)
  local own = rawget(Rank, key)
  if own ~= nil then return own end
  return function(_, ...) return self.engine[key](self.engine, ...) end
end

--- A rank with small round numbers: blocks of 4 tokens, 16 tokens per pass.
function M.rank(config)
  local all = { block_size = 4, num_blocks = 100, max_batched_tokens = 16, max_seqs = 8 }
  for key, value in pairs(config or {}) do all[key] = value end
  return setmetatable({ engine = engine.new(all), serials = {} }, Rank)
end

--- n token ids that follow each other; `from` keeps two lists apart.
function M.tokens(n, from)
  local list = {}
  for i = 1, n do list[i] = (from or 0) + i - 1 end
  return list
end

--- All elements of the lists, in order.
function M.join(...)
  local all = {}
  for _, list in ipairs { ... } do table.move(list, 1, #list, #all + 1, all) end
  return all
end

local function request_of(id, prompt, output, extra)
  if type(prompt) == "number" then prompt = M.tokens(prompt, 1000000 * id) end
  local args = { id = id, prompt = prompt, output = output or 1 }
  for key, value in pairs(extra or {}) do args[key] = value end
  return args
end

--- Submits a request. A prompt given as a number has content that nobody else has.
function Rank:submit(id, prompt, output, extra)
  local serial = self.engine:submit(request_of(id, prompt, output, extra))
  if serial then self.serials[id] = serial end
  return serial ~= nil
end

--- §15: asks for blocks at the decode side.
function Rank:reserve(id, prompt, output)
  local ok = self.engine:reserve(request_of(id, prompt, output))
  if ok then self.serials[id] = self.engine:find(id).serial end
  return ok
end

--- What is known of the request submitted last under this id, finished ones too.
function Rank:request(id)
  return self.engine:request(self.serials[id])
end

local function digest(record)
  record.scheduled, record.chunks, record.reused, record.items_of = {}, {}, {}, {}
  for _, item in ipairs(record.items) do
    record.items_of[item.id] = item
    record.scheduled[item.id] = item.tokens
    record.chunks[item.id] = { item.prefix, item.chunk }
    record.reused[item.id] = item.reused -- nil unless admitted in this pass
  end
  record.victims, record.tokens, record.ended = {}, {}, {}
  for i, victim in ipairs(record.preempted) do record.victims[i] = victim.id end
  for _, emitted in ipairs(record.emitted) do record.tokens[emitted.id] = emitted.tokens end
  for _, finished in ipairs(record.finished) do record.ended[finished.id] = finished.reason end
  return record
end

--- One pass, invariants checked. By id: scheduled tokens, chunks {prefix, prompt tokens}, reused of
-- admissions, tokens delivered, ended (reasons); victims in order.
function Rank:pass(defer)
  local record = digest(self.engine:pass(defer))
  self.engine:verify()
  return record
end

--- The first half of a pass: booked, nothing delivered yet.
---@return integer batch  for complete()
---@return table record
function Rank:plan(defer)
  local batch = self.engine:plan(defer)
  self.engine:verify()
  return batch, digest(self.engine:record())
end

function Rank:complete(batch, results)
  local record = digest(self.engine:complete(batch, results))
  self.engine:verify()
  return record
end

--- Passes until nothing is left to do; the records in order.
function Rank:drain()
  local records = {}
  while self.engine:state().ready do
    records[#records + 1] = self:pass()
    if #records > 1000 then error("the rank does not come to an end", 2) end
  end
  return records
end

--- Several passes; the last record.
function Rank:passes(n)
  local record
  for _ = 1, n do record = self:pass() end
  return record
end

--- { active, inactive, free }
function Rank:blocks()
  local state = self.engine:state()
  return { state.active, state.inactive, state.free }
end

--- Puts the whole blocks of a prompt into the index: a request without output computes it and leaves.
function Rank:cache(id, prompt)
  self:submit(id, prompt, 0)
  self:drain()
end

return M
