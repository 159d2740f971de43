--- engine.json: the product engine behind the twin's interface, and pure functions.
local context <const> = ...
local engine = require "aisim_engine"
local functions = require "aisim_functions"
local support = require "support"

local M = { by = { default = "engine" } }

for _, file in ipairs { "drive_engine", "drive_units" } do
  for kind, driver in pairs(support.drivers(context, file, engine)) do M[kind] = support.adapt(driver) end
end

local REQUEST <const> = support.set "id prompt output output_ids priority arrive cancel"
local TRACE <const> = support.set [[tick scheduled prefill admitted emitted running waiting active inactive
  computed known owned]]
local EXPECT <const> = support.set "passes preemptions final requests evicted trace bounds"
local BOUNDS <const> = support.set "preemptions_min active_max"

local drive_engine <const> = M.engine

function M.engine(vector)
  local unknown = support.unknown(vector.expect, EXPECT, "expected key")
    or support.unknown(vector.expect.bounds, BOUNDS, "bound")
  for _, request in ipairs(vector.requests) do
    unknown = unknown or support.unknown(request, REQUEST, "request key")
  end
  for _, row in ipairs(vector.expect.trace or {}) do
    unknown = unknown or support.unknown(row, TRACE, "trace key")
  end
  if unknown then return false, unknown end
  return drive_engine(vector)
end

-- ---- functions ------------------------------------------------------------------------------------

--- Each key of expect is a list with one entry per request, or a tolerance.
local function check_lists(vector, columns, call)
  local expect = vector.expect
  for key in pairs(expect) do
    if not columns[key] and key ~= "tolerance" then return false, ("unknown expected key '%s'"):format(key) end
  end
  for i, request in ipairs(vector.requests) do
    local row = call(request)
    for key, list in pairs(expect) do
      if key ~= "tolerance" and not support.close(row[key], list[i], expect.tolerance or 1e-9) then
        return false, ("%s[%d]: want %s, have %s"):format(key, i, list[i], tostring(row[key]))
      end
    end
  end
  return true
end

M.by.align_split = "function"
M.by.state_blocks = "function"
M.by.queue_stats = "function"

function M.state_blocks(vector)
  return check_lists(vector, support.set "blocks", function(r)
    return { blocks = functions.state_blocks(r.bytes_per_request, r.bytes_per_token, r.block_size) }
  end)
end

function M.queue_stats(vector)
  return check_lists(vector, support.set "count sum variance", function(r)
    local count, sum, variance = functions.length_stats(r.lengths)
    return { count = count, sum = sum, variance = variance }
  end)
end

-- Name in aisim_functions, expected keys, arguments and results of what a later part of the product brings.
local later <const> = {
  headroom = { "owned remaining", function(f, r)
    local owned, remaining = f(r.block_size, r.prompt, r.allocated, r.opaque, r.lookahead)
    return { owned = owned, remaining = remaining }
  end },
  transfer_ms = { "ms", function(f, r)
    return { ms = f(r.tokens, r.bytes_per_token, r.state_bytes, r.gb_per_s) }
  end },
  group_end = { "end", function(f, r) return { ["end"] = f(r.start, r.rank_ends) } end },
}

for kind, entry in pairs(later) do
  M.by[kind] = "function"
  M[kind] = function(vector)
    local f = functions[kind]
    if not f then return false, "the product has no function for it: " .. kind end
    return check_lists(vector, support.set(entry[1]), function(r) return entry[2](f, r) end)
  end
end

M.by.headroom_gate = "function"

function M.headroom_gate(vector)
  local f, config = functions.headroom_gate, vector.config
  if not f then return false, "the product has no function for it: headroom_gate" end
  for i, request in ipairs(vector.requests) do
    local admits = f(config.num_blocks, config.active, config.headroom, request.need)
    if admits ~= vector.expect.admit[i] then
      return false, ("admit[%d]: want %s, have %s"):format(i, vector.expect.admit[i], admits)
    end
  end
  return true
end

local COMMAND <const> = "cmd id prompt output prompt_tokens"
local RANK <const> = "block_size num_blocks max_batched_tokens max_seqs prefix_caching max_model_len role"

return support.guard(M, {
  align_split = { "block_size prefix_match_unit max_batched_tokens align_split", "start prompt known desired",
    "tokens" },
  pool = { "num_blocks", "op as hash count blocks hits fresh res", "steps final" },
  lease = { "block_size", "op prompt tokens count", "entries owned watermark opaque fresh_taken" },
  commands = { RANK, COMMAND, "result live active held missing" },
  handoff = { RANK, COMMAND, "result live active held missing" },
  handoff_missing = { "block_size num_blocks", "prompt resident_prefix_blocks", "missing" },
  headroom_gate = { "num_blocks active headroom", "need", "admit" },
  headroom = { "", "block_size prompt allocated opaque lookahead" },
  state_blocks = { "", "bytes_per_request bytes_per_token block_size" },
  queue_stats = { "", "lengths" },
  transfer_ms = { "", "tokens bytes_per_token state_bytes gb_per_s" },
  group_end = { "", "start rank_ends" },
})
