--- aisim run: build, simulate, report, judge.
local fault = require "aisim.cli.fault"
local files = require "aisim.cli.files"
local jobs = require "aisim.cli.job"
local progress = require "aisim.cli.progress"
local profile = require "aisim.cli.profile"
local render = require "aisim.render"
local results = require "aisim.results"
local terminal = require "aisim.cli.terminal"
local watch = require "aisim.cli.notes"
local aisim = require "aisim"
local expect = require "aisim.expect"
local scenario = require "aisim.scenario"
local units = require "aisim.units"

local M = {}

-- How the engine names the end of a run that failed (include/aisim/status.h) -> exit status.
local ENGINE_CODES <const> = {
  ELIVELOCK = fault.FAILED, EFULL = fault.FAILED, EBUSY = fault.FAILED,
  ENOMEM = fault.LIMIT, ELIMIT = fault.LIMIT, ECALLBACK = fault.USAGE,
}

--- While a report is one line on standard output, everything a script prints goes elsewhere.
local function print_to_stderr()
  io.output(io.stderr)
  rawset(_G, "print", function(...)
    local items = table.pack(...)
    for i = 1, items.n do items[i] = tostring(items[i]) end
    io.stderr:write(table.concat(items, "\t"), "\n")
  end)
end

--- --series SECONDS
local function series_ms(args)
  if not args.series then return nil end
  local ms = units.ms(args.series) or (tonumber(args.series) or 0) * 1000
  if not (ms > 0 and ms < math.huge) then fault.usage("--series %s: seconds > 0 expected", args.series) end
  return ms
end

--- Formats of --export.
---@return aisim.ExportFormat[]
local function formats(args)
  local list = {}
  for i, name in ipairs(args.export or {}) do list[i] = require("aisim.export").find("--export", name) end
  return list
end

--- --requests and --export: logs that stream to the parts that files.write renames.
local function request_logs(args)
  local logs = {}
  if args.requests then
    logs.path, logs.preparation = files.part(args.out, "requests.jsonl"), files.part(args.out, "preparation.jsonl")
  end
  for _, format in ipairs(formats(args)) do
    if format.requests then logs[format.name] = files.part(args.out, format.requests) end
  end
  return next(logs) and logs or nil
end

--- Writers of the files of --export.
local function add_exports(args, run, writers)
  for _, format in ipairs(formats(args)) do
    for _, name in ipairs(format.files) do
      writers[name] = name == format.requests and files.written(args.out, name)
        or require("aisim.export").summary(run, format)
    end
  end
end

--- --timeline and its parts, as an option of sim:run. It streams to the part that files.write renames.
local function timeline(args)
  if not args.timeline then return nil end
  local options = { path = files.part(args.out, "timeline.json") }
  if args.timeline_window then
    local from, to = args.timeline_window:match("^(.-),(.*)$")
    options.from_ms, options.until_ms = units.ms(from or ""), units.ms(to or "")
    if not (options.from_ms and options.until_ms) then
      fault.usage("--timeline-window %s: two times expected, for example 60s,2m", args.timeline_window)
    end
  end
  if args.timeline_passes then
    options.every_pass = math.tointeger(tonumber(args.timeline_passes))
    if not options.every_pass or options.every_pass < 1 then
      fault.usage("--timeline-passes %s: integer ≥ 1 expected", args.timeline_passes)
    end
  end
  return options
end

--- Flags that say something about files need a folder, parts of the timeline the timeline.
local function check_flags(args)
  for _, flag in ipairs { "requests", "series", "timeline", "decisions", "overwrite" } do
    if args[flag] and not args.out then fault.usage("run: --%s needs --out DIR", flag) end
  end
  if #(args.export or {}) > 0 and not args.out then fault.usage("run: --export needs --out DIR") end
  for _, flag in ipairs { "window", "passes" } do
    if args["timeline_" .. flag] and not args.timeline then
      fault.usage("run: --timeline-%s needs --timeline", flag)
    end
  end
  series_ms(args)
end

--- A replay whose preparation failed has measured nothing (traffic: the barrier never opened).
---@param notes string[]   why the engine rejects
local function need_preparation(run, notes)
  local replay = run.agentx
  if replay.phase ~= "failed" then return end
  local failure = replay.failure
  fault.raise(fault.FAILED, "the preparation failed in the %s phase at t=%.14g ms, in lane %d%s; nothing was measured",
    failure.phase, failure.at_ms, failure.lane + 1, notes[1] and ": " .. notes[1] or "")
end

--- Simulates a job.
---@param job aisim.Job
---@param args table
---@return table run
---@return table wall    { wall_ms, setup_ms, events, passes }
local function simulate(job, args)
  local clock = terminal.host.clock
  local started = clock()
  local sim = aisim.new { seed = job.seed, name = job.title or job.file, overrides = job.overrides }
  job.setup(sim)
  jobs.need_used(job)
  expect.check(sim, job.expectations)
  expect.watch(sim, job.expectations)
  local notes = watch.watch(sim)
  local built = clock()
  local show, wipe
  if args.quiet then
    wipe = function() end
  else
    show, wipe = progress.new(job.until_ms, job.expect_runtime_s)
  end
  if args.profile then sim:profile_() end
  terminal.host.polling(true)
  local options = { progress = show, until_ms = job.until_ms, requests = request_logs(args),
    series_ms = series_ms(args), timeline = timeline(args),
    decisions = args.decisions and files.part(args.out, "decisions.jsonl") or nil,
    max_wall_time_ms = job.max_wall_time_ms }
  local ok, result = xpcall(function() return sim:run(options) end, fault.handler)
  local ended = clock()
  terminal.host.polling(false)
  wipe()
  if not ok then
    if not fault.is(result) then result = fault.handler(result) end
    result.code = ENGINE_CODES[sim.error_code] or result.code
    error(result, 0)
  end
  local list = notes()
  need_preparation(result, list)
  rawset(result, "params", job.values)
  table.move(result.notes, 1, #result.notes, #list + 1, list)
  rawset(result, "notes", list)
  local stats = result.stats
  return result, {
    wall_ms = (ended - built) * 1000, setup_ms = (built - started) * 1000,
    events = stats.events, passes = stats.passes, profile = sim:profile_rows_(),
  }
end

local function wall_json(wall)
  local function rate(count) return wall.wall_ms > 0 and ("%.0f"):format(count / wall.wall_ms * 1000) or "null" end
  local form = '{"wall_ms":%.3f,"setup_ms":%.3f,"events":%d,"passes":%d,"events_per_s":%s,'
    .. '"processed_tokens_per_s":%s%s}'
  return form:format(wall.wall_ms, wall.setup_ms, wall.events, wall.passes, rate(wall.events), rate(wall.tokens),
    wall.profile and ',"profile":' .. profile.json(wall.profile) or "")
end

--- One line: the report, with the object `wall` behind it.
local function one_line(report, wall)
  local line = report:gsub("\n%s*", "") -- no raw line feed can stand inside a JSON text
  return (line:gsub("}%s*$", function() return ',"wall":' .. wall_json(wall) .. "}" end))
end

---@param args table
---@return integer status
function M.main(args)
  check_flags(args)
  local as_json = args.format == "json"
  if as_json then print_to_stderr() end
  local job = jobs.load(args)
  if job.S then scenario.need_setup(job.S) end
  if args.out then files.check(args.out, args.overwrite) end

  local forget = (args.timeline or args.decisions or request_logs(args)) and files.prepare(args.out) or function() end
  local simulated, run, wall = xpcall(simulate, fault.handler, job, args)
  if not simulated then
    forget()
    error(run, 0)
  end
  if wall.profile then terminal.err(profile.text(wall.profile)) end
  local signal = terminal.host.interrupted()
  terminal.host.quiet()
  local verdicts, all_met = expect.judge(job.expectations, results.numbers(run), run.is_metric and function(name)
    return run:is_metric(name)
  end)
  wall.tokens = run.metrics.total_input_tokens + run.metrics.total_output_tokens
  if args.out then
    local writers = {
      ["report.json"] = function(path) run:json(path) end,
      ["requests.jsonl"] = args.requests and files.written(args.out, "requests.jsonl") or nil,
      ["preparation.jsonl"] = args.requests and files.written(args.out, "preparation.jsonl") or nil,
      ["timeseries.csv"] = args.series and function(path) run:timeseries(path) end or nil,
      ["timeline.json"] = args.timeline and files.written(args.out, "timeline.json") or nil,
      ["decisions.jsonl"] = args.decisions and files.written(args.out, "decisions.jsonl") or nil,
      ["wall.json"] = wall_json(wall) .. "\n",
    }
    add_exports(args, run, writers)
    files.write(args.out, writers)
  end

  local screen = {
    version = aisim.version, file = job.file, seed = job.seed, settings = jobs.settings(job, run.sim), run = run,
    metrics = results.numbers(run), wall = wall, status = run.status, reason = rawget(run, "reason"),
    verdicts = verdicts, notes = run.notes,
    pools = run.pools, timing = run.timing, custom = run.custom, agentx = run.agentx, saved = args.out,
  }
  -- run:summary() in a report of the scenario's own is the whole screen, with origins and wall time.
  local shown = false
  rawset(run, "summary", function()
    shown = true
    return terminal.plain(render.screen(screen))
  end)
  if as_json then
    io.stdout:write(one_line(run:json(), wall), "\n")
    if job.report then job.report(run) end
  elseif job.report then
    job.report(run)
    local line = not shown and render.expect(verdicts)
    if line then terminal.out(line) end
  elseif not args.quiet then
    terminal.out(render.screen(screen))
  end
  if signal then return 128 + signal end
  for _, verdict in ipairs(verdicts) do
    if verdict.unknown then error(fault.new(fault.USAGE, verdict.unknown), 0) end
  end
  return all_met and fault.OK or fault.EXPECTATION
end

return M
