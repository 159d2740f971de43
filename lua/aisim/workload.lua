--- Traffic: aisim.open, aisim.closed, sim:sessions, and what all workloads share (spec/lua-api.md §5).
-- aisim.open{…} only describes; sim:workload(…) checks it against the simulation and starts it.
local arrivals = require "aisim.arrivals"
local check = require "aisim.check"
local core = require "aisim.core"
local dist = require "aisim.dist"

local M = {}

local Workload = { __name = "aisim.Workload" }
Workload.__index = function(_, name) check.fail("workload: unknown field '%s'", tostring(name)) end
Workload.__tostring = function(self) return rawget(self, "kind") .. " workload" end

-- When units start, and when it is over (spec/traffic.md §3.1, §3.5, §3.6) --------------------------

local WARMUP <const> = {
  requests = { "integer", min = 1 },
  seconds = { "number", above = 0, finite = true },
  barrier = { "boolean", default = false },
}

--- Reader of warmup = { requests = n } or { seconds = s }.
function M.warmup(value, where)
  local warmup = check.options(where, value, WARMUP)
  if (warmup.requests == nil) == (warmup.seconds == nil) then
    check.fail("%s: one of requests, seconds expected", where)
  end
  return warmup
end

local LIMITS <const> = {
  until_ms = { "ms", above = 0 },
  requests = { "integer", min = 1 },
  sessions = { "integer", min = 1 },
  tokens = { "integer", min = 1 },
  requests_per_load_unit = { "number", above = 0, finite = true },
  sessions_per_load_unit = { "number", above = 0, finite = true },
  warmup = { "table", read = M.warmup },
}

--- A number of units in flight, or a line through { time, number }.
local function level(value, where)
  if type(value) == "table" then
    local times, levels = arrivals.points(where, value, { "number", min = 0, max = 10000000 })
    return { times = times, levels = levels }
  end
  value = check.value(where, value, { "integer", min = 1, max = 10000000 })
  return { times = { 0 }, levels = { value } }
end

local ARRIVALS <const> = { "arrivals", expected = "arrival process", read = arrivals.read }
local LEVEL <const> = { "any", expected = "number in flight", read = level }
local FRACTION <const> = { "number", above = 0, finite = true }

--- Every way to say when units start.
M.LOADS = { arrivals = ARRIVALS, concurrency = LEVEL, users = LEVEL, kv_capacity_fraction = FRACTION }

--- The names of M.LOADS that are given. @return how many, one of them
local function loads_given(options)
  local n, name = 0, nil
  for _, key in ipairs { "arrivals", "concurrency", "kv_capacity_fraction", "users" } do
    if options[key] ~= nil then n, name = n + 1, key end
  end
  return n, name
end
M.loads_given = loads_given

--- Merges tables of fields.
function M.fields(...)
  local out = {}
  for _, fields in ipairs { ... } do
    for key, spec in pairs(fields) do out[key] = spec end
  end
  return out
end

local COMMON <const> = M.fields(LIMITS, {
  class = { "text", default = "" },
  priority = { "integer", min = -2147483647, max = 2147483647, default = 0 },
  deadline_ms = { "ms", above = 0 },
  pool = { "any" },
  rng = { "text" },
})
M.COMMON = COMMON

--- Raises unless the traffic ends.
function M.needs_end(where, options)
  local warmup = options.warmup and options.warmup.seconds
  if options.arrivals and arrivals.is_endless_burst(options.arrivals) then
    if warmup then check.fail("%s.warmup: a burst that has no end fills the time; give requests", where) end
    if options.requests or options.sessions or options.tokens then return end
    check.fail("%s: a burst without an end; give requests, sessions or tokens", where)
  end
  for key in pairs(LIMITS) do
    if key ~= "warmup" and options[key] then return end
  end
  if options.arrivals and arrivals.is_finite(options.arrivals) then return end
  check.fail("%s: traffic without an end; give until_ms, requests, sessions or tokens", where)
end

-- traffic 3.5: max(1, round(x * load)), halves to even
local function of_load(x, load)
  local low = math.floor(x * load)
  local rest = x * load - low
  if rest > 0.5 or (rest == 0.5 and low % 2 == 1) then low = low + 1 end
  return math.max(1, math.tointeger(low) or math.maxinteger)
end

local function smaller(a, b)
  if a and b then return math.min(a, b) end
  return a or b
end

--- What one load unit is: the number in flight, or arrivals per second.
local function load_units(where, options)
  local flight = options.concurrency or options.users
  local load
  if flight then
    load = #flight.levels == 1 and flight.levels[1]
  else
    load = arrivals.rate(options.arrivals)
  end
  if not load then check.fail("%s: the load has no single value; give a number", where) end
  return load
end

--- Turns what people say into what the engine reads: number in flight, limits, warmup.
-- `kind` and `paths` are those of sim:fit_.
---@param where string
function M.settle(sim, where, kind, options, paths)
  if options.kv_capacity_fraction then
    local n = sim:fit_(kind, options, paths)
    options.concurrency = { times = { 0 }, levels = { n } }
  end
  for _, unit in ipairs { "requests", "sessions" } do
    local key = unit .. "_per_load_unit"
    if options[key] then
      local load = load_units(("%s.%s"):format(where, key), options)
      options[unit] = smaller(options[unit], of_load(options[key], load))
    end
  end
  local flight = options.concurrency or options.users
  if flight then options.level_times, options.levels = flight.times, flight.levels end
  local warmup = options.warmup
  if warmup then
    options.warmup_requests, options.warmup_barrier = warmup.requests, warmup.barrier
    options.warmup_ms = warmup.seconds and warmup.seconds * 1000
  end
  if not (options.until_ms or options.requests or options.sessions or options.tokens) then
    options.requests = math.maxinteger -- finite arrivals
  end
  return options
end

-- Single requests ----------------------------------------------------------------------------------

local PREFIX <const> = {
  groups = { "integer", min = 1, max = 100000000, required = true },
  tokens = { "integer", min = 1, required = true },
  zipf = { "number", min = 0, finite = true },
  weights = { "table" },
  name = { "text" },
}

--- Groups of equal content: a distribution over 1 .. groups, by weight or by Zipf.
function M.groups(where, groups, zipf, weights)
  if not weights then return core.dist_zipf(groups, zipf or 0) end
  if zipf then check.fail("%s: zipf and weights say the same thing; give one", where) end
  if #weights ~= groups then
    check.fail("%s.weights: one weight per group expected (%d), got %d", where, groups, #weights)
  end
  local numbers, sum = {}, 0
  for i = 1, groups do
    numbers[i] = i
    sum = sum + check.value(("%s.weights[%d]"):format(where, i), weights[i], { "number", min = 0, finite = true })
  end
  if sum == 0 then check.fail("%s.weights: the weights add up to nothing", where) end
  return core.dist_empirical(numbers, weights)
end

--- Reader of rows = { { prompt, output }, … }: lengths that belong together.
local function rows(value, where)
  if type(value) ~= "table" or #value == 0 then check.fail("%s: list of { prompt, output } expected", where) end
  local numbers, weights, prompts, outputs = {}, {}, {}, {}
  for i, row in ipairs(value) do
    local at = ("%s[%d]"):format(where, i)
    if type(row) ~= "table" or #row ~= 2 then check.fail("%s: { prompt, output } expected", at) end
    local tokens = { "integer", min = 1, max = 2147483647 }
    prompts[i] = check.value(at .. ": prompt", row[1], tokens)
    outputs[i] = check.value(at .. ": output", row[2], tokens)
    numbers[i], weights[i] = i, 1
  end
  return { core.dist_empirical(numbers, weights), prompts, outputs }
end

local UNITS <const> = M.fields(COMMON, {
  prompt = { "dist", expected = "distribution", read = dist.read },
  output = { "dist", expected = "distribution", read = dist.read },
  rows = { "table", read = rows },
  prefix = { "table" },
})

local OPEN <const> = M.fields(UNITS, {
  arrivals = { "arrivals", required = true, expected = "arrival process", read = arrivals.read },
})
local CLOSED <const> = M.fields(UNITS, {
  users = LEVEL, kv_capacity_fraction = FRACTION,
  think_ms = { "dist", read = dist.read },
})

local function describe(kind, options, spec)
  local where = "aisim." .. kind
  options = check.options(where, options, spec)
  if options.prefix then options.prefix = check.options(where .. ".prefix", options.prefix, PREFIX) end
  if options.rows and (options.prompt or options.output) then
    check.fail("%s.rows: prompt and output are in the rows", where)
  end
  for _, key in ipairs { "output", "prompt" } do
    if not options.rows and options[key] == nil then
      check.fail("%s.%s: distribution expected, got nil", where, key)
    end
  end
  local n = loads_given(options)
  if n ~= 1 then
    if n == 0 then check.fail("%s.users: whole number expected, got nil", where) end
    check.fail("%s: users and kv_capacity_fraction say the same thing; give one", where)
  end
  M.needs_end(where, options)
  return setmetatable({ kind = kind, options = options }, Workload)
end

--- Requests that come whatever the server does.
function M.open(options) return describe("open", options, OPEN) end

--- Users that wait for their answer, think, and ask again.
function M.closed(options) return describe("closed", options, CLOSED) end

-- Each workload has streams of its own: named by its class or kind, numbered from the second one on.
local used = setmetatable({}, { __mode = "k" })

local function stream_name(sim, kind, options)
  if options.rng then return options.rng end
  local names = used[sim] or {}
  used[sim] = names
  local name = options.class ~= "" and kind .. "/" .. options.class or kind
  names[name] = (names[name] or 0) + 1
  return names[name] == 1 and name or ("%s#%d"):format(name, names[name])
end

local function pool_number(sim, options)
  if sim:ranks_() == 0 then check.fail("sim:workload: the simulation has no pool yet; declare it first") end
  return options.pool ~= nil and sim:pool_number_(options.pool) or 1
end

--- A copy of the options with pool number and stream name, for other kinds of traffic.
function M.prepare(sim, kind, options)
  local copy = {}
  for key, value in pairs(options) do copy[key] = value end
  copy.pool = pool_number(sim, copy)
  copy.rng = stream_name(sim, kind, copy)
  return copy
end

local function start(sim, workload)
  local kind = rawget(workload, "kind")
  local options = M.prepare(sim, kind, rawget(workload, "options"))
  local prefix = options.prefix
  if prefix then
    options.prefix_group = M.groups(("aisim.%s.prefix"):format(kind), prefix.groups, prefix.zipf, prefix.weights)
    options.prefix_tokens = prefix.tokens
    options.prefix_name = prefix.name or options.rng .. "/prefix"
  end
  return sim:requests_(M.settle(sim, "aisim." .. kind, "requests", options))
end

-- kind -> function(sim, workload); aisim.agentx adds itself
M.starters = { open = start, closed = start }

--- A workload object for another kind of traffic.
function M.make(kind, options) return setmetatable({ kind = kind, options = options }, Workload) end

--- sim:workload(w)
function M.add(sim, workload)
  if getmetatable(workload) ~= Workload then
    check.fail("sim:workload: workload expected (aisim.open, aisim.closed, aisim.agent, aisim.synthetic_session, "
      .. "aisim.agentic_code, aisim.agentx, aisim.trace), got %s", type(workload))
  end
  return M.starters[rawget(workload, "kind")](sim, workload)
end

-- Sessions -----------------------------------------------------------------------------------------

local SESSIONS <const> = M.fields(COMMON, {
  arrivals = ARRIVALS,
  concurrency = LEVEL,
  body = { "function", required = true },
})

--- sim:sessions{…}
function M.sessions(sim, options)
  options = check.options("sessions", options, SESSIONS)
  local n = loads_given(options)
  if n == 0 then check.fail("sessions.arrivals: arrival process expected, got nil") end
  if n > 1 then check.fail("sessions: arrivals and concurrency say when sessions start; give one") end
  M.needs_end("sessions", options)
  sim:sessions_(M.settle(sim, "sessions", "sessions", M.prepare(sim, "sessions", options)))
end

local CALL <const> = {
  context = { "any" },
  content = { "any" },
  prompt_tokens = { "integer", min = 0, max = 2147483647 },
  output_tokens = { "number", min = 0, max = 2147483647, required = true, expected = "number of tokens" },
  priority = { "integer", min = -2147483647, max = 2147483647 },
  pool = { "any" },
  class = { "text" },
  deadline_ms = { "ms", above = 0 },
  keep = { "boolean" },
  tag = { "any" },
}

local Session = core.methods["aisim.Session"]

--- Sends a request and waits for its end.
function Session:call(options)
  options = check.options("s:call", options, CALL)
  if options.context == nil and options.content == nil and options.prompt_tokens == nil then
    check.fail("s:call.context: context expected, got nil (or give prompt_tokens)")
  end
  if options.context ~= nil and options.content ~= nil then
    check.fail("s:call: content and context say the same thing; give one")
  end
  return self:call_(options)
end

--- Waits.
function Session:sleep(delay_ms)
  return self:sleep_(check.value("s:sleep", delay_ms, { "ms", min = 0 }))
end

return M
