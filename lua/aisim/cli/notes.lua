--- Notes of a run: what the user can act on, once per kind.
-- Watches rejections by the engine, and runs without any request. A request that can never run is a
-- mistake of the scenario (pool too small, context too short) that the totals alone would hide.
-- Rejections by a router or an admission function are the scenario's own will and get no note.
local render = require "aisim.render"

local M = {}

--- Why the engine rejects -> the note, without its ending.
local TEXTS <const> = {
  capacity = function(req, pool)
    local tokens = req.prompt_tokens
    local blocks = pool and -(-tokens // pool.block_size)
    if not pool or blocks <= pool.blocks then
      return ("request %d: prompt of %s tokens does not fit into the pool"):format(req.id, render.count(tokens))
    end
    return ("request %d: prompt of %s tokens needs %s blocks, the pool has %s"):format(req.id,
      render.count(tokens), render.count(blocks), render.count(pool.blocks))
  end,
  context = function(req)
    return ("request %d: prompt of %s tokens reaches the context length"):format(req.id,
      render.count(req.prompt_tokens))
  end,
  empty = function(req) return ("request %d: no prompt tokens"):format(req.id) end,
}

local function pool_of(pools, worker)
  for _, pool in ipairs(pools) do
    if worker and worker <= pool.workers then return pool end
    worker = worker and worker - pool.workers
  end
  return #pools == 1 and pools[1] or nil
end

--- Starts watching; call before the run.
---@param sim aisim.Sim
---@return fun(): string[] notes    what there is to say afterwards
function M.watch(sim)
  local first, counts, order = {}, {}, {}
  local pools
  sim:on("request.reject", function(_, _, where, reason, req)
    if where ~= "engine" then return end
    counts[reason] = (counts[reason] or 0) + 1
    if counts[reason] == 1 and TEXTS[reason] then
      pools = pools or sim:pools_()
      first[reason], order[#order + 1] = TEXTS[reason](req, pool_of(pools, req.worker)), reason
    end
  end)
  return function()
    local notes = {}
    for i, reason in ipairs(order) do
      local more = counts[reason] - 1
      notes[i] = first[reason] .. "; rejected"
        .. (more > 0 and (" (%s more like this)"):format(render.count(more)) or "")
    end
    local _, _, created = sim:stats_()
    if created == 0 then
      notes[#notes + 1] = "no request was made: sim:workload, sim:sessions, sim:submit make some (aisim help traffic)"
    end
    return notes
  end
end

return M
