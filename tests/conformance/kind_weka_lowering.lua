--- weka_lowering.json: recorded plays as the trace reader lowers them (weka_dump.c).
local support = require "support"

local M = {}

function M.file(content, context, report)
  local path = context.vectors .. "/../" .. content.corpus
  local got, trouble = support.json_lines(context.tools .. "/weka_dump " .. support.quote(path))
  if not got then return report("corpus", false, trouble) end
  local total = table.remove(got)
  for i, play in ipairs(content.plays) do
    play.join_conflicts = nil -- of the independent model; the product has none by construction
    local difference = support.difference(play, got[i], "play")
    report(play.id, difference == nil, difference)
  end
  for name, pair in pairs { total = { content.total, total },
    resolved_basis = { content.resolved_basis, total.resolved_basis } } do
    local difference = support.difference(pair[1], pair[2], name)
    report(name, difference == nil, difference)
  end
end

return M
