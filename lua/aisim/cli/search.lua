--- aisim search FILE: the scenario's search; the seeds of a probe run side by side in processes.
local batch_of = require "aisim.cli.batch"
local experiment = require "aisim.experiment"
local fault = require "aisim.cli.fault"
local files = require "aisim.cli.files"
local search_of = require "aisim.search"
local sweep = require "aisim.sweep"
local terminal = require "aisim.cli.terminal"

local M = {}

local function number_of(flag, text)
  local value = tonumber(text)
  if not value then fault.usage("%s %s: number expected", flag, text) end
  return value
end

--- A mistake in what a flag says names the flag.
local function check(args, record, spec)
  local ok, result = pcall(experiment.check_search, record, spec)
  if ok then return result end
  local text = tostring(result)
  local name, rest = text:match("^search%.(%a+)(.*)$")
  if name and args[name] then
    fault.usage("--%s %s: %s", name, args[name], (rest:gsub("^ = [^:]*", ""):gsub("^: ", "")))
  end
  if text:find("^search: from ") and (args.from or args.to) then
    fault.usage("search: --from %s must be below --to %s", args.from or spec.from, args.to or spec.to)
  end
  return error(result, 0)
end

--- The scenario's search with the flags laid over it.
local function search_of_args(args, S, record)
  local spec = {}
  for key, value in pairs(S.search or {}) do spec[key] = value end
  spec.param, spec.goal = args.param or spec.param, args.goal or spec.goal
  spec.find, spec.scale = args.find or spec.find, args.scale or spec.scale
  for _, name in ipairs { "from", "to", "tolerance" } do
    if args[name] then spec[name] = number_of("--" .. name, args[name]) end
  end
  if args.seeds then spec.seeds = require("aisim.cli.sweep").seeds_of(args.seeds) end
  if not (spec.param and spec.goal and spec.from and spec.to) then
    fault.usage("search: %s declares no search; add S.search = { param =, from =, to =, goal = }, or "
      .. "--param --from --to --goal", args.file)
  end
  return check(args, record, spec)
end

---@param args table
---@return integer status
function M.main(args)
  local batch = batch_of.open(args, "search")
  local search
  local failed
  local function measure(value, seeds)
    local plan = sweep.plan(batch.S, { grid = { [search.param] = { value } }, seeds = seeds }, batch.overrides,
      batch.job.seed)
    local rows
    rows, failed = batch:run(plan)
    if failed[1] or terminal.host.interrupted() then error(failed, 0) end
    return rows
  end
  local show = args.format == "table" and not args.quiet
  local function seen(p)
    if not show then return end
    local line = search_of.line(p)
    terminal.out(("%s = %s   %s %s   %s seed%s   %s"):format(search.param, line[1], search.goal.name, line[2], line[3],
      p.n == 1 and "" or "s", line[4]))
    io.stdout:flush()
  end
  local ok, result = xpcall(function()
    search = search_of_args(args, batch.S, batch.record)
    return search_of.run(search, experiment.seeds(search.seeds, batch.job.seed), measure, seen)
  end, function(problem) return problem == failed and failed or fault.handler(problem) end)
  batch.remove()
  local signal = terminal.host.interrupted()
  terminal.host.quiet()
  if signal then
    terminal.err("aisim: interrupted; nothing found")
    return 128 + signal
  end
  if not ok and result == failed then return batch_of.complain(failed) end
  if not ok then error(result, 0) end
  if args.out then files.write(args.out, { ["search.json"] = function(path) result:json(path) end }) end
  if args.format == "json" then
    io.stdout:write(result:json(), "\n")
  elseif show then
    terminal.out(result:answer())
    if args.out then terminal.out("saved: " .. args.out) end
  end
  return result.value and fault.OK or fault.EXPECTATION
end

return M
