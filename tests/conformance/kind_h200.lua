--- h200_*.csv: the tool of the timing room over the whole file (timing_check.c); its limits are those of
--- spec/timing.md §12. Operation lists are those the program prints (op_lists.lua).
local support = require "support"

local M = { by = { default = "function" } }

--- Runs the tool on the folder of the file; its last line counts rows.
local function check(context, report, name, mode, extra)
  local folder = context.path:match "^(.*)/[^/]*$" or "."
  local command = ("%s/timing_check %s %s %s 2>&1"):format(context.tools, mode, support.quote(folder), extra)
  local pipe = assert(io.popen(command))
  local last = ""
  for line in pipe:lines() do last = line end
  local ok = pipe:close() and last:find "^%d+ passed, 0 failed" ~= nil
  report(name, ok, not ok and last or nil)
end

function M.file(content, context, report)
  local name = context.path:match "[^/]*$"
  if name:find "capacity" then
    check(context, report, "capacity", "capacity", "")
  elseif name:find "latency" then
    local calibration = context.here .. "/../../lua/aisim/hardware/h200_sxm.calib"
    check(context, report, "calibration", "passes", "calibration " .. support.quote(calibration))
    check(context, report, "tables", "passes", "tables " .. support.quote(context.data .. "/h200"))
  else
    require "op_lists".check(content, context, report)
  end
end

return M
