--- The simulation object: what scripts call, checked, on top of what C does.
-- C registers methods with a trailing underscore for the work; this file gives them their public names,
-- reads options and units, and words the mistakes. One method, one table of options.
local check = require "aisim.check"
local core = require "aisim.core"
local hooks = require "aisim.hooks"

local M = core.methods["aisim.Sim"]

M.on = hooks.on

-- Time ---------------------------------------------------------------------------------------------

local TIME <const> = { "ms", min = 0 }

local function timer_function(where, fn)
  if type(fn) ~= "function" then check.fail("%s: function expected, got %s", where, type(fn)) end
end

--- Calls fn(t) at virtual time t (ms).
function M:at(t_ms, fn)
  timer_function("sim:at", fn)
  return self:at_(check.value("sim:at: time", t_ms, TIME), fn)
end

--- Calls fn(t) after a delay (ms).
function M:after(delay_ms, fn)
  timer_function("sim:after", fn)
  return self:after_(check.value("sim:after: delay", delay_ms, TIME), fn)
end

--- Calls fn(t) every period (ms), first one period from now. Does not keep the run alive.
function M:every(period_ms, fn)
  timer_function("sim:every", fn)
  return self:every_(check.value("sim:every: period", period_ms, { "ms", above = 0 }), fn)
end

-- Requests -----------------------------------------------------------------------------------------

local U32 <const> = 2147483647
local SUBMIT <const> = {
  at_ms = { "ms", min = 0 },
  prompt_tokens = { "integer", min = 0, max = U32 },
  output_tokens = { "integer", min = 0, max = U32, required = true, expected = "number of tokens" },
  content = { "any" },
  context = { "any" },
  priority = { "integer", min = -U32, max = U32 },
  pool = { "any" },
  class = { "text" },
  session = { "integer", min = 1, max = U32 },
  turn = { "integer", min = 0, max = 65535 },
  deadline_ms = { "ms", min = 0 },
  tag = { "any" },
}

--- Options of one request; shared with sessions.
function M.check_request_(where, options)
  options = check.options(where, options, SUBMIT)
  if options.content ~= nil and options.context ~= nil then
    check.fail("%s: content and context say the same thing; give one", where)
  end
  if options.prompt_tokens == nil and options.content == nil and options.context == nil then
    check.fail("%s.prompt_tokens: number of tokens expected, got nil", where)
  end
  return options
end

--- Creates a request; it gets its number at once and arrives at at_ms (default now).
function M:submit(options)
  return self:submit_(M.check_request_("sim:submit", options))
end

--- Decides about every arrival: fn(req, targets, now) -> true, false and a reason, or ms to hold it back; or a
-- built-in of aisim.admission.
function M:admission(policy)
  local class = getmetatable(policy)
  if type(class) == "table" and class.__name == "aisim.Admission" then policy = policy:make(self) end
  for name, maker in pairs(require "aisim.admission") do
    if maker == policy then check.fail("sim:admission: options are missing; write aisim.admission.%s{}", name) end
  end
  if type(policy) ~= "function" then check.fail("sim:admission: function expected, got %s", type(policy)) end
  self:admission_(policy)
end

--- Adds traffic: aisim.open, aisim.closed, aisim.agentx.
function M:workload(workload) return require("aisim.workload").add(self, workload) end

--- Adds traffic whose sessions are coroutines.
function M:sessions(options) return require("aisim.workload").sessions(self, options) end

-- Cluster ------------------------------------------------------------------------------------------

local POOL <const> = {
  name = { "text" },
  role = { "text", one_of = { "aggregated", "prefill", "decode" }, default = "aggregated" },
  workers = { "integer", min = 1, max = 1000000 },
  engine = { "any", required = true, expected = "table of engine options" },
}

-- Scheduler points: functions that decide instead of the engine (aisim/points.h says when).
local points <const> = require("aisim.points").list
for _, point in ipairs(points) do POOL[point.name] = { "function" } end

local function points_of(options)
  local set
  for _, point in ipairs(points) do
    if options[point.name] then
      set = set or {}
      set[point.name] = options[point.name]
    end
  end
  return set
end

local partners <const> = setmetatable({}, { __mode = "k" }) -- simulation -> role -> { "file:line: ", name }

--- Before the run: workers of one of the roles prefill and decode alone have nothing to do.
local function check_partners(sim)
  local roles = partners[sim] or {}
  for role, partner in pairs { prefill = "decode", decode = "prefill" } do
    if roles[role] and not roles[partner] then
      error(("%spool '%s' of role %s has no partner: add a pool of role %s"):format(roles[role][1], roles[role][2],
        role, partner), 0)
    end
  end
end

--- Adds a pool of workers.
function M:pool(options)
  if type(options) ~= "table" then check.fail("pool: table of options expected, got %s", type(options)) end
  options = check.options("pool", options, POOL)
  if type(options.engine) ~= "table" then
    check.fail("pool.engine: table of engine options expected, got %s", type(options.engine))
  end
  local name = options.name or (options.role == "aggregated" and "main" or options.role)
  local engine, functions = require("aisim.timing").split(options.engine)
  partners[self] = partners[self] or {}
  partners[self][options.role] = { core.where(), name }
  return self:pool_(name, options.role, options.workers, engine, functions, points_of(options))
end

--- The link between the pools of role prefill and decode: the keys of kv_transfer, and decide, a function
-- that may send a request straight to the decode pool.
function M:handoff(options)
  if type(options) ~= "table" then check.fail("handoff: table of options expected, got %s", type(options)) end
  local rest = {}
  for key, value in pairs(options) do rest[key] = value end
  rest.decide = nil
  if options.decide ~= nil then check.value("handoff.decide", options.decide, { "function" }) end
  self:handoff_(rest, options.decide)
end

local limits_of_files <const> = setmetatable({}, { __mode = "k" }) -- simulation -> stop rules of its file

--- Everything from a configuration file: pools, router, SLA, and, if the file has the key `traffic`, the traffic and
-- its stop rules. The seed is that of the simulation.
function M:cluster(path)
  require("aisim.sandbox").refuse "reading a file"
  path = check.value("sim:cluster: path", path, { "text" })
  if self:ranks_() > 0 then
    check.fail("sim:cluster: the simulation has pools already; a file describes all of them")
  end
  local predict = require "aisim.predict"
  local prediction = predict.read(path, {})
  local traffic = core.yaml(path).traffic ~= nil
  if traffic then
    limits_of_files[self] = { until_ms = prediction.until_ms,
      max_wall_time_ms = prediction.tree.traffic.stop.max_wall_time_ms }
  end
  return predict.build(self, prediction, traffic)
end

local Pool = core.methods["aisim.Pool"]
local COUNT <const> = { "integer", min = 0, max = 1000000 }
local STARTUP <const> = { "ms", min = 0, finite = true }

--- Adds n workers after the current event: starting, then ready after startup_ms (default: startup_seconds).
function Pool:add(n, startup_ms)
  n = check.value("pool:add: workers", n, COUNT)
  if startup_ms ~= nil then startup_ms = check.value("pool:add: startup_ms", startup_ms, STARTUP) end
  self:add_(n, startup_ms)
end

--- Removes n workers after the current event: those that start first, then the newest; drained before they stop
-- unless drain is false.
function Pool:remove(n, drain)
  n = check.value("pool:remove: workers", n, COUNT)
  local there = self.ready + self.starting
  if n > there then check.fail("pool:remove: %d workers: pool '%s' has %d that could go", n, self.name, there) end
  self:remove_(n, drain == nil or check.value("pool:remove: drain", drain, { "boolean" }))
end

--- Adjusts the number of workers of a pool every so often.
function M:autoscale(options) return require("aisim.scaler").autoscale(self, options) end

--- Sets the routing policy of a pool: a function, a table with pick, filter or score, or the name of a built-in and
-- its options.
function M:router(options) return require("aisim.router").set(self, options) end

-- Metrics ------------------------------------------------------------------------------------------

for _, name in ipairs { "counter", "gauge", "hist", "ratio", "series", "derive", "slo", "measure" } do
  M[name] = function(self, options) return require("aisim.metrics")[name](self, options) end
end

-- Running ------------------------------------------------------------------------------------------

local RUN <const> = {
  until_ms = { "ms", min = 0 },
  progress = { "function" },
  requests = { "any" },
  series_ms = { "ms", above = 0 },
  timeline = { "any" },
  decisions = { "text" },
  max_wall_time_ms = { "ms", above = 0 },
}

local REQUESTS <const> = { path = { "text" }, preparation = { "text" }, aiperf = { "text" } }

local TIMELINE <const> = {
  path = { "text", required = true },
  from_ms = { "ms", min = 0 },
  until_ms = { "ms", min = 0 },
  every_pass = { "integer", min = 1, max = 4294967295 },
  max_events = { "integer", min = 1, max = 4294967295 },
}

--- What is written or sampled while the run goes on.
local function ask_for_files(sim, options)
  local requests = options.requests
  if type(requests) == "string" then requests = { path = requests } end
  if type(requests) == "table" then
    requests = check.options("sim:run.requests", requests, REQUESTS)
    if not next(requests) then check.fail("sim:run.requests: path, preparation or aiperf expected: a file to write") end
    local target = require("aisim.file").target
    sim:log_(requests.path and target(requests.path), requests.preparation and target(requests.preparation),
      requests.aiperf and target(requests.aiperf))
  elseif requests ~= nil then
    sim:keep_requests_(check.value("sim:run.requests", requests, { "boolean" }) and math.maxinteger or 0)
  end
  if options.series_ms then sim:sample_(options.series_ms) end
  if options.decisions then sim:decisions_(require("aisim.file").target(options.decisions)) end
  local timeline = options.timeline
  if timeline == nil then return end
  if type(timeline) == "string" then timeline = { path = timeline } end
  timeline = check.options("sim:run.timeline", timeline, TIMELINE)
  sim:timeline_(require("aisim.file").target(timeline.path), timeline)
end

--- Runs to the end, a limit or a stop. max_wall_time_ms guards real time: the run is then stopped, and where
-- depends on the machine.
function M:run(options)
  options = check.options("sim:run", options, RUN)
  for _, override in ipairs(self:overrides_()) do
    if not override.used then
      local what = override.key:find("^engine%.") and "no pool of that role"
        or "a scenario takes engine.… and its parameters"
      error(("%s: %s"):format(override.flag or override.key, what), 0)
    end
  end
  require("aisim.metrics").check_ratios(self)
  check_partners(self)
  ask_for_files(self, options)
  local of_file = limits_of_files[self] or {}
  local state, reason = self:run_(options.until_ms or of_file.until_ms, options.progress,
    options.max_wall_time_ms or of_file.max_wall_time_ms)
  return require("aisim.results").new(self, state, reason)
end

-- Declarations written with a dot: the first argument is then no simulation, and every other message misleads.
for _, name in ipairs { "pool", "workload", "sessions", "router", "handoff", "admission", "autoscale", "cluster", "on",
  "counter", "gauge", "hist", "ratio", "series", "derive", "slo", "run" } do
  local method <const> = M[name]
  M[name] = function(self, ...)
    if type(self) ~= "userdata" then check.fail("sim.%s: called with a dot; write sim:%s", name, name) end
    return method(self, ...)
  end
end

local STOP <const> = { "text" }

--- Ends the run after the current event; the result is marked "stopped".
function M:stop(reason)
  self:stop_(reason ~= nil and check.value("sim:stop: reason", reason, STOP) or "stopped by the script")
end

local M_NEW <const> = {
  seed = { "integer", min = 0, default = 1 },
  name = { "text", default = "" },
  overrides = { "table" },
}

local S = {}

--- A new simulation.
function S.new(options)
  options = check.options("aisim.new", options, M_NEW)
  core.seed_math(options.seed) -- the seed determines the run, math.random included
  local sim = core.sim(options.seed, options.name)
  if options.overrides then sim:overrides_(options.overrides) end
  return sim
end

return S
