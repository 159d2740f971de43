--- Runs many points, each in a process of its own that loads the file itself: `aisim run FILE --set …
-- --seed N --out FOLDER`. Results do not depend on how many run at once.
-- Launchers: local (processes of this one), parallel (GNU parallel), slurm (an array job, sbatch --wait).
-- The last two read DIR/commands.txt, one shell command per point, and need DIR on a shared file system.
local fault = require "aisim.cli.fault"
local file_of = require "aisim.file"
local folder_of = require "aisim.folder"
local lfs = require "lfs"
local render = require "aisim.render"
local terminal = require "aisim.cli.terminal"

local M = {}

---@class aisim.Task
---@field folder string        where the run writes
---@field argv string[]        of aisim run
---@field place string         "point rate=4, seed 2"
---@field code integer?        exit status; nil = not run
---@field error string?        what the run said when it failed
---@field report table?        report.json, decoded

--- Arguments of one run.
---@param file string
---@param sets string[]        texts of --set
---@param seed integer
---@param folder string
---@return string[]
function M.argv(file, sets, seed, folder)
  local argv = { terminal.host.program() or "aisim", "run", file }
  for _, set in ipairs(sets) do
    argv[#argv + 1], argv[#argv + 2] = "--set", set
  end
  table.move({ "--seed", tostring(seed), "--out", folder, "--overwrite", "--quiet" }, 1, 6, #argv + 1, argv)
  return argv
end

local function error_path(task) return task.folder .. ".err" end

--- What the run wrote to standard error, in one line or more.
local function said(task)
  local file = io.open(error_path(task), "rb")
  local text = file and file:read("a") or ""
  if file then file:close() end
  os.remove(error_path(task))
  return (text:gsub("%s+$", ""))
end

--- A process has ended: read what it left.
local function settle(task, code)
  task.code = code
  local text = said(task)
  if code == fault.OK or code == fault.EXPECTATION then
    task.report = folder_of.finished(task.folder)
    if not task.report then task.error = "the run left no report" end
  else
    task.error = text ~= "" and text or ("exit status %d"):format(code)
  end
end

-- Progress -------------------------------------------------------------------------------------------

local function progress(total, done)
  local on_terminal, columns = terminal.host.terminal(2)
  if not on_terminal then return function() end, function() end end
  local started = terminal.host.clock()
  return function(n)
    local spent = terminal.host.clock() - started
    local left = n > done and (total - n) * spent / (n - done) or nil
    local line = ("%d of %d points   %s%s"):format(n, total, render.duration(spent * 1000),
      left and left > 0 and "   " .. render.duration(left * 1000) .. " left" or "")
    io.stderr:write("\r\27[K", line:sub(1, (columns or 80) - 1))
    io.stderr:flush()
  end, function() io.stderr:write("\r\27[K") end
end

-- Launchers ------------------------------------------------------------------------------------------

local LAUNCHERS <const> = {}

function LAUNCHERS.local_(tasks, options)
  local running, n_running, next_task, done = {}, 0, 1, options.total - #tasks
  local show, wipe = progress(options.total, done)
  local host = terminal.host
  local stopped = false
  while n_running > 0 or (next_task <= #tasks and not stopped) do
    while not stopped and n_running < options.jobs and next_task <= #tasks do
      local task = tasks[next_task]
      local pid, why = host.spawn(task.argv, error_path(task))
      if not pid then
        for other in pairs(running) do host.kill(other) end
        fault.raise(fault.LIMIT, "cannot start a process: %s", why)
      end
      running[pid], n_running, next_task = task, n_running + 1, next_task + 1
    end
    local pid, code = host.wait()
    if pid and running[pid] then
      settle(running[pid], code)
      running[pid], n_running, done = nil, n_running - 1, done + 1
      show(done)
    end
    if host.interrupted() and not stopped then
      stopped = true
      for other in pairs(running) do host.kill(other) end
    end
  end
  wipe()
end

local function quoted(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

--- One shell command per point; the exit status goes into FOLDER.status.
local function write_commands(tasks, dir)
  local lines = {}
  for i, task in ipairs(tasks) do
    local words = {}
    for k, word in ipairs(task.argv) do words[k] = quoted(word) end
    lines[i] = ("%s >/dev/null 2>%s; echo $? >%s"):format(table.concat(words, " "), quoted(error_path(task)),
      quoted(task.folder .. ".status"))
  end
  file_of.write(dir .. "/commands.txt", table.concat(lines, "\n") .. "\n")
end

local function need_program(name, launcher)
  if not os.execute(("command -v %s >/dev/null 2>&1"):format(name)) then
    fault.usage("--launcher %s: %s is not installed; --launcher local needs nothing", launcher, name)
  end
end

local function collect(tasks)
  for _, task in ipairs(tasks) do
    local path = task.folder .. ".status"
    local file = io.open(path, "rb")
    local code = file and tonumber((file:read("a"):match("%d+")))
    if file then file:close() end
    os.remove(path)
    if code then settle(task, code) end
  end
end

function LAUNCHERS.parallel(tasks, options)
  need_program("parallel", "parallel")
  write_commands(tasks, options.dir)
  os.execute(("parallel --jobs %d <%s"):format(options.jobs, quoted(options.dir .. "/commands.txt")))
  collect(tasks)
end

function LAUNCHERS.slurm(tasks, options)
  need_program("sbatch", "slurm")
  write_commands(tasks, options.dir)
  local script = options.dir .. "/sweep.sbatch"
  file_of.write(script, table.concat({
    "#!/bin/sh", "#SBATCH --job-name=aisim", "#SBATCH --output=/dev/null",
    ("#SBATCH --array=1-%d%%%d"):format(#tasks, options.jobs),
    ("eval \"$(sed -n \"${SLURM_ARRAY_TASK_ID}p\" %s)\""):format(quoted(options.dir .. "/commands.txt")), "",
  }, "\n"))
  os.execute(("sbatch --wait %s >/dev/null"):format(quoted(script)))
  collect(tasks)
end

--- Runs tasks that have no report yet.
---@param tasks aisim.Task[]
---@param options { jobs: integer, launcher: string, dir: string }
function M.run(tasks, options)
  local pending = {}
  for _, task in ipairs(tasks) do
    if not task.report then pending[#pending + 1] = task end
  end
  if #pending == 0 then return end
  lfs.mkdir(options.dir)
  options.total = #tasks
  LAUNCHERS[options.launcher == "local" and "local_" or options.launcher](pending, options)
end

--- --jobs N, by default one per processor.
---@param args table
---@return integer
function M.jobs(args)
  if args.jobs == nil then return terminal.host.processors() end
  local jobs = math.tointeger(tonumber(args.jobs))
  if not jobs or jobs < 1 then fault.usage("--jobs %s: integer ≥ 1 expected", args.jobs) end
  return jobs
end

--- A folder for points that nobody wants to keep.
---@return string dir
---@return fun() remove
function M.temporary()
  local dir = os.tmpname()
  os.remove(dir)
  assert(lfs.mkdir(dir))
  return dir, function() os.execute("rm -rf " .. quoted(dir)) end
end

return M
