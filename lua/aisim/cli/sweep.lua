--- aisim sweep FILE: the scenario's sweep, point by point in processes.
local batch_of = require "aisim.cli.batch"
local experiment = require "aisim.experiment"
local fault = require "aisim.cli.fault"
local files = require "aisim.cli.files"
local near = require "aisim.near"
local params = require "aisim.params"
local sweep = require "aisim.sweep"
local sweep_result = require "aisim.sweep_result"
local terminal = require "aisim.cli.terminal"

local M = {}

--- --grid rate=1,2,4 --grid router=kv,prefix -> grid
local function grid_of(texts, record)
  local grid = {}
  for _, text in ipairs(texts) do
    local name, list = text:match("^%s*([%a_][%w_]*)%s*=(.+)$")
    if not name then fault.usage("--grid %s: write it as name=value,value", text) end
    local param = record.by_name[name]
    if not param then
      fault.usage("--grid %s: unknown parameter '%s'%s", text, name, near.hint(name, record.by_name))
    end
    if grid[name] then fault.usage("--grid %s: '%s' twice", text, name) end
    grid[name] = {}
    for item in list:gmatch("[^,]+") do
      local value = params.from_text(param, item, "--grid " .. text)
      grid[name][#grid[name] + 1] = params.check(param, value, "--grid " .. text)
    end
  end
  return grid
end

--- --seeds 5
function M.seeds_of(text)
  local n = math.tointeger(tonumber(text))
  if not n or n < 1 then fault.usage("--seeds %s: integer ≥ 1 expected", text) end
  return n
end

--- The scenario's sweep with the flags laid over it.
local function spec_of(args, S, record)
  local spec = {}
  for key, value in pairs(S.sweep or {}) do spec[key] = value end
  if #args.grid > 0 then spec.grid, spec.zip, spec.skip = grid_of(args.grid, record), nil, nil end
  if args.seeds then spec.seeds = M.seeds_of(args.seeds) end
  if args.columns then
    spec.columns = {}
    for name in args.columns:gmatch("[^,%s]+") do spec.columns[#spec.columns + 1] = name end
  end
  if not spec.grid and not spec.zip and not spec.seeds then
    fault.usage("sweep: %s declares no sweep; add S.sweep = { grid = { … } }, or --grid NAME=V,V, or --seeds N",
      args.file)
  end
  return experiment.check_sweep(record, spec)
end

---@param args table
---@return integer status
function M.main(args)
  local batch = batch_of.open(args, "sweep")
  local ok, result, failed = xpcall(function()
    local plan = sweep.plan(batch.S, spec_of(args, batch.S, batch.record), batch.overrides, batch.job.seed)
    local rows, failed = batch:run(plan)
    return sweep_result.new(plan, rows), failed
  end, fault.handler)
  batch.remove()
  if not ok then error(result, 0) end
  local signal = terminal.host.interrupted()
  terminal.host.quiet()
  if args.out then
    files.write(args.out, {
      ["sweep.csv"] = result:csv(),
      ["sweep.json"] = function(path) result:json(path) end,
    })
  end
  if args.format == "json" then
    io.stdout:write(result:json(), "\n")
  elseif not args.quiet then
    terminal.out(result:summary())
    if args.out then terminal.out("\nsaved: " .. args.out) end
  end
  local status = batch_of.complain(failed)
  if signal then return 128 + signal end
  return status
end

return M
