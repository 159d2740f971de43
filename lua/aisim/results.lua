--- The result of a run.
local M = {}

function M.new(sim, state, reason)
  return { status = state == "finished" and "completed" or state, reason = reason, sim = sim }
end

return M
