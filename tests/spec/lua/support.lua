--- What the specs of the Lua API share: a small cluster with round numbers, scripts with a file name.
local aisim = require "aisim"

local M = {}

--- Passes of 10 ms for prompts, 4 ms for decoding, blocks of 4 tokens.
function M.engine(extra)
  local engine = {
    model = "llama-3.1-8b",
    scheduler = { max_batched_tokens = 64, max_sequences = 8 },
    kv_cache = { block_size = 4, capacity = { type = "fixed", blocks = 256 } },
    timing = { type = "fixed", prefill_ms = 10, decode_ms = 4 },
  }
  for key, value in pairs(extra or {}) do engine[key] = value end
  return engine
end

--- A simulation with one pool.
---@return aisim.Sim sim
---@return aisim.Pool pool
function M.cluster(workers, extra)
  local sim = aisim.new { seed = 1 }
  return sim, sim:pool { workers = workers or 1, engine = M.engine(extra) }
end

--- Runs the text of a scenario that is called scenarios/a.lua; line 1 is the first of the text.
---@return boolean ok
---@return any message
function M.script(text, ...)
  local chunk = assert(load(text, "@scenarios/a.lua", "t"))
  return pcall(chunk, ...)
end

--- The first line of the message that a script raises.
function M.message(text, ...)
  local ok, message = M.script(text, ...)
  if ok then error("the script did not fail", 2) end
  return (tostring(message):match("^[^\n]*"))
end

return M
