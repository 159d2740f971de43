--- aisim completion SHELL: from the same table as --help.
local fault = require "aisim.cli.fault"
local parser = require "aisim.cli.parser"

local M = {}

---@param args table
---@return integer status
function M.main(args)
  io.stdout:write((parser.completion(args.shell):gsub("\n+$", "")), "\n")
  return fault.OK
end

return M
