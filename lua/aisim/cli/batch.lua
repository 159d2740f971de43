--- A scenario file whose points are run in processes: what sweep, search and compare share.
-- Owns the folder of the points: DIR/points with --out, a temporary one without. A point is a folder
-- named by its identity (sweep.identity), so that --resume finds what is finished.
local check = require "aisim.check"
local fault = require "aisim.cli.fault"
local file_of = require "aisim.file"
local files = require "aisim.cli.files"
local folder_of = require "aisim.folder"
local jobs = require "aisim.cli.job"
local params = require "aisim.params"
local points = require "aisim.cli.points"
local scenario = require "aisim.scenario"
local sweep = require "aisim.sweep"
local terminal = require "aisim.cli.terminal"

local M = {}

local Batch <const> = {}
Batch.__index = Batch

--- Loads the file and makes ready. Raises with a message for the user.
---@param args table   of the parser: file, set, seed, out, jobs, launcher, resume, overwrite
---@param what string  the verb
function M.open(args, what)
  if not args.file:find("%.lua$") then
    fault.usage("%s: a scenario (.lua) expected%s", what,
      args.file == "-" and "; every point reads the file itself" or "")
  end
  if args.resume and not args.out then fault.usage("%s: --resume needs --out DIR", what) end
  if args.overwrite and not args.out then fault.usage("%s: --overwrite needs --out DIR", what) end
  if args.resume and args.overwrite then fault.usage("%s: --resume and --overwrite exclude each other", what) end
  local launcher = args.launcher or "local"
  if launcher ~= "local" and not args.out then
    fault.usage("%s: --launcher %s needs --out DIR", what, launcher)
  end
  local job = jobs.load(args)
  scenario.need_setup(job.S)
  if args.out then files.check(args.out, args.overwrite or args.resume, "--overwrite, --resume") end
  local of_parameters, of_configuration = jobs.overrides(args.set)
  local self = setmetatable({
    args = args, job = job, S = job.S, record = job.record, overrides = of_parameters,
    configuration = of_configuration, bytes = file_of.read(args.file), jobs = points.jobs(args), launcher = launcher,
    resume = args.resume or not args.out, remove = function() end, known = {},
  }, Batch)
  if args.out then
    self.dir = args.out .. "/points"
  else
    self.dir, self.remove = points.temporary()
  end
  return self
end

--- The texts of --set that make a point.
local function sets_of(batch, point)
  local sets = table.move(batch.args.set or {}, 1, #(batch.args.set or {}), 1, {})
  for _, name in ipairs(check.sorted(point.params)) do
    local value = point.params[name]
    sets[#sets + 1] = ("%s=%s"):format(name, type(value) == "number" and ("%.17g"):format(value) or tostring(value))
  end
  return sets
end

--- A task of a point and a seed; the same point gives the same task.
function Batch:task(point, seed)
  local id = sweep.identity(self.bytes, point.values, self.configuration, seed)
  local task = self.known[id]
  if not task then
    local folder = ("%s/%s"):format(self.dir, id)
    task = { id = id, folder = folder, place = sweep.place(point, seed),
      argv = points.argv(self.args.file, sets_of(self, point), seed, folder) }
    if self.resume then
      task.report = folder_of.finished(folder)
      task.code = task.report and fault.OK or nil
    end
    self.known[id] = task
  end
  return task
end

--- A point of some parameters.
---@param varied table<string, any>
---@return aisim.SweepPoint
function Batch:point(varied, index, names)
  local list = table.move(self.overrides, 1, #self.overrides, 1, {})
  local parts = {}
  for _, name in ipairs(names) do
    list[#list + 1] = { key = name, value = varied[name] }
    parts[#parts + 1] = ("%s=%s"):format(name, type(varied[name]) == "string" and varied[name]
      or params.shown(varied[name]))
  end
  return { index = index, params = varied, label = table.concat(parts, ", "),
    values = (params.resolve(self.record.params, list, self.record.path)) }
end

local INTERRUPTED <const> = { [130] = true, [143] = true }

local function status_of(code)
  return not code and "missing" or INTERRUPTED[code] and "interrupted" or "failed"
end

--- Runs points with seeds; the rows come in the order of the points.
---@param plan aisim.SweepPlan
---@return aisim.SweepRow[] rows
---@return aisim.Task[] failed
function Batch:run(plan)
  local tasks, where = {}, {}
  for _, point in ipairs(plan.points) do
    for _, seed in ipairs(plan.seeds) do
      local task = self:task(point, seed)
      tasks[#tasks + 1], where[#where + 1] = task, { point, seed }
    end
  end
  files.make(self.dir)
  points.run(tasks, { jobs = self.jobs, launcher = self.launcher, dir = self.dir })
  local rows, failed = {}, {}
  for i, task in ipairs(tasks) do
    local point, seed = where[i][1], where[i][2]
    local report = task.report
    local status = report and folder_of.status(report) or status_of(task.code)
    local row = sweep.row(plan, point, seed, status, report and folder_of.metrics(report) or nil)
    row.id, row.error, row.custom = task.id, task.error, report and report.custom or nil
    if status == "failed" then failed[#failed + 1] = task end
    rows[i] = row
  end
  return rows, failed
end

--- Says what failed and gives the exit status: that of the first failure.
---@param failed aisim.Task[]
---@return integer
function M.complain(failed)
  io.stdout:flush()
  for i, task in ipairs(failed) do
    if i > 5 then
      terminal.err(("aisim: %d more points failed"):format(#failed - 5))
      break
    end
    terminal.err(("aisim: %s: %s"):format(task.place, task.error))
  end
  return failed[1] and failed[1].code or fault.OK
end

return M
