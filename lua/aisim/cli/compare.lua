--- aisim compare A B: two output folders, or two parameter sets of scenarios that are run here.
local batch_of = require "aisim.cli.batch"
local compare = require "aisim.compare"
local experiment = require "aisim.experiment"
local fault = require "aisim.cli.fault"
local files = require "aisim.cli.files"
local terminal = require "aisim.cli.terminal"

local M = {}

--- --threshold ttft_ms.p99=+5% -> { ["ttft_ms.p99"] = "+5%" }
local function thresholds_of(texts)
  local out = {}
  for _, text in ipairs(texts) do
    local name, limit = text:match("^%s*([%a_][%w_%.]*)%s*=%s*(.-)%s*$")
    if not name then
      fault.usage("compare: --threshold %s: write it as METRIC=LIMIT, for example ttft_ms.p99=+5%%", text)
    end
    out[name] = limit
  end
  return out
end

--- Arguments of one side: the common --set and its own.
local function side_args(args, file, own)
  local set = table.move(args.set or {}, 1, #(args.set or {}), 1, {})
  table.move(own, 1, #own, #set + 1, set)
  return setmetatable({ file = file, set = set }, { __index = args })
end

--- Runs one side of a comparison of scenarios.
local function run_side(args, batch, file, own)
  local seeds = experiment.seeds(args.seeds and require("aisim.cli.sweep").seeds_of(args.seeds), batch.job.seed)
  local point = { index = 1, params = {}, values = batch.job.values, label = table.concat(own, ", ") }
  local plan = { S = batch.S, record = batch.record, spec = {}, names = {}, points = { point }, seeds = seeds }
  local rows, failed = batch:run(plan)
  return compare.of_rows(#own > 0 and ("%s  %s"):format(file, table.concat(own, "  ")) or file, rows), failed
end

--- Runs both. @return the sides, or nil and an exit status
local function run_sides(args)
  local files_of, own = { args.a, args.b or args.a }, { args.left, args.right }
  local batches, found = {}, {}
  local ok, status = xpcall(function()
    for i = 1, 2 do batches[i] = batch_of.open(side_args(args, files_of[i], own[i]), "compare") end
    for i = 1, 2 do
      local side, failed = run_side(args, batches[i], files_of[i], own[i])
      if failed[1] then return batch_of.complain(failed) end
      found[i] = side
    end
  end, fault.handler)
  for _, batch in ipairs(batches) do batch.remove() end
  if not ok then error(status, 0) end
  if status then return nil, status end
  return found[1], found[2]
end

local function is_scenario(path) return path:find("%.lua$") ~= nil end

--- The two sides, or nil and an exit status when runs failed.
local function sides(args)
  if not is_scenario(args.a) then
    if not args.b then fault.usage("compare: a second folder expected (see: aisim compare --help)") end
    if #args.left + #args.right > 0 or args.seeds or #args.set > 0 or args.seed then
      fault.usage("compare: --set, --seed, --seeds, --left and --right belong to scenarios, not to folders")
    end
    return args.a, args.b
  end
  if args.b and not is_scenario(args.b) then fault.usage("compare: %s: a scenario (.lua) expected", args.b) end
  if not args.b and #args.left + #args.right == 0 then
    fault.usage("compare: %s with itself; say what differs: --right NAME=VALUE", args.a)
  end
  return run_sides(args)
end

---@param args table
---@return integer status
function M.main(args)
  local thresholds = thresholds_of(args.threshold)
  if args.out and not is_scenario(args.a) then files.check(args.out, args.overwrite) end
  local left, right = sides(args)
  local signal = terminal.host.interrupted()
  terminal.host.quiet()
  if signal then
    terminal.err("aisim: interrupted; nothing compared")
    return 128 + signal
  end
  if not left then return right end
  local metrics
  if args.metrics then
    metrics = {}
    for name in args.metrics:gmatch("[^,%s]+") do metrics[#metrics + 1] = name end
  end
  local result = compare.compare(left, right, { metrics = metrics, all = args.all, thresholds = thresholds })
  if args.out then
    files.write(args.out, {
      ["compare.csv"] = result:csv(),
      ["compare.json"] = function(path) result:json(path) end,
    })
  end
  if args.format == "json" then
    io.stdout:write(result:json(), "\n")
  elseif not args.quiet then
    terminal.out(result:summary())
    if args.out then terminal.out("\nsaved: " .. args.out) end
  end
  return result.ok and fault.OK or fault.EXPECTATION
end

return M
