--- aisim list KIND: one row per name that can be used.
local catalogue = require "aisim.cli.catalogue"
local fault = require "aisim.cli.fault"
local near = require "aisim.near"
local parser = require "aisim.cli.parser"
local table_of = require "aisim.cli.table"
local terminal = require "aisim.cli.terminal"

local M = {}

local KINDS <const> = parser.WORDS.list

---@param args table
---@return integer status
function M.main(args)
  local rows
  for _, kind in ipairs(KINDS) do
    if kind == args.kind then rows = catalogue[kind]() end
  end
  if not rows then
    local hint = near.hint(args.kind, KINDS)
    fault.usage("list: unknown kind '%s'%s", args.kind,
      hint ~= "" and hint or (" (one of %s)"):format(table.concat(KINDS, ", ")))
  end
  terminal.out(table_of.text(rows))
  return fault.OK
end

return M
