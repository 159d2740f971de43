--- weka_snapshot.json: plays cut at a moment (weka_cut.c).
local support = require "support"

local M = {}

local function sorted(list, key)
  local copy = table.move(list, 1, #list, 1, {})
  table.sort(copy, function(a, b)
    if key and a[key] ~= b[key] then return a[key] < b[key] end
    return a.id < b.id
  end)
  return copy
end

function M.file(content, context, report)
  local by_file, fractions, seen = {}, {}, {}
  for _, case in ipairs(content.cases) do
    if not seen[case.fraction] then fractions[#fractions + 1] = ("%.17g"):format(case.fraction) end
    seen[case.fraction] = true
  end
  for _, case in ipairs(content.cases) do
    local name = ("%s %g"):format(case.id, case.fraction)
    local corpus = (case.file or "weka-16plays"):match "[^/]*$":gsub("%.jsonl$", "")
    local path = ("%s/traces/weka/%s.jsonl"):format(context.data, corpus)
    if not by_file[path] then
      by_file[path] = {}
      local lines, trouble = support.json_lines(("%s/weka_cut %s %s"):format(context.tools,
        table.concat(fractions, ","), support.quote(path)))
      if not lines then report(name, false, trouble) end
      for _, line in ipairs(lines or {}) do by_file[path][("%s %g"):format(line.id, line.fraction)] = line end
    end
    local found, difference = by_file[path][name], "no such cut"
    if found then
      found.primers, case.primers = sorted(found.primers), sorted(case.primers)
      found.initially_free = table.move(sorted(found.initially_free, "delay_ms"), 1, #case.initially_free, 1, {})
      case.initially_free = sorted(case.initially_free, "delay_ms")
      found.file = case.file
      difference = support.difference(case, found, "cut")
    end
    report(name, difference == nil, difference)
  end
end

return M
