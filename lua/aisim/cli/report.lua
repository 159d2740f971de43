--- aisim report DIR: a page from what a run, a sweep or a comparison left.
local fault = require "aisim.cli.fault"
local plot = require "aisim.plot"
local report = require "aisim.report"
local terminal = require "aisim.cli.terminal"

local M = {}

---@param args table
---@return integer status
function M.main(args)
  local path = args.output or args.dir:gsub("/+$", "") .. "/report.html"
  report.write(path, report.of_folder(args.dir))
  terminal.out(path)
  if not plot.available() then terminal.err("aisim: report: no plots: " .. plot.MISSING) end
  return fault.OK
end

return M
