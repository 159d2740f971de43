--- The program: arguments in, exit status out. One module per verb, loaded when it is asked for.
-- Every error ends here, in one place, as lines on standard error and a status (cli/fault.lua).
local fault = require "aisim.cli.fault"
local limits = require "aisim.cli.limits"
local parser = require "aisim.cli.parser"
local terminal = require "aisim.cli.terminal"

local function dispatch(arguments)
  local args = parser.parse(arguments)
  if not args.verb then
    terminal.err(parser.help())
    return fault.USAGE
  end
  if args.verb == "version" then
    terminal.out(("aisim %s (%s)"):format(require("aisim").version, _VERSION))
    return fault.OK
  end
  limits.apply(args)
  return require("aisim.cli." .. args.verb).main(args)
end

--- @param arguments string[]   [0] is the program
--- @return integer status
return function(arguments)
  local ok, result = xpcall(dispatch, fault.handler, arguments)
  if ok then return result end
  if not fault.is(result) then result = fault.handler(result) end -- raised where no handler can run
  local signal = terminal.host.interrupted()
  terminal.host.quiet()
  io.stdout:flush()
  if signal then
    terminal.err("aisim: interrupted; nothing written")
    return 128 + signal
  end
  terminal.err(fault.text(result))
  return result.code
end
