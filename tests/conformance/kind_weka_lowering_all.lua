--- weka_lowering_all.csv: counts of every play of the corpus (weka_dump.c), one row per play.
local support = require "support"

local M = {}

local function cells_of(line)
  local cells = {}
  for cell in (line .. ","):gmatch "([^,]*)," do cells[#cells + 1] = cell end
  return cells
end

function M.file(content, context, report)
  local folder = context.data .. "/traces/weka/weka-corpus-runs-"
  local command = context.tools .. "/weka_dump"
  for i = 1, 3 do command = ("%s %s"):format(command, support.quote(folder .. i .. ".jsonl")) end
  local got, trouble = support.json_lines(command)
  if not got then return report("corpus", false, trouble) end
  local total = table.remove(got)
  local reuse = ("%d of %d"):format(total.ideal_reused_tokens, total.input_tokens)
  local want <const> = "5815020032 of 6037445403" -- traffic.md §4.2
  report("ideal reuse of the corpus", reuse == want, reuse ~= want and ("want %s, have %s"):format(want, reuse) or nil)
  local plays, header = {}, nil
  for _, play in ipairs(got) do plays[play.id] = play end
  for line in content:gmatch "[^\r\n]+" do
    local cells = cells_of(line)
    if not header then
      header = cells
    else
      local play, difference = plays[cells[1]], nil
      if not play then difference = "no such play" end
      for i = 2, #header do
        local known = header[i] == "join_conflicts" -- of the independent model
        if not difference and not known and play[header[i]] ~= tonumber(cells[i]) then
          difference = ("%s: want %s, have %s"):format(header[i], cells[i], tostring(play[header[i]]))
        end
      end
      report(cells[1], difference == nil, difference)
    end
  end
end

return M
