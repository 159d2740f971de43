--- Traffic: aisim.open, aisim.closed and sim:sessions (spec/lua-api.md §5).
-- aisim.open{…} only describes; sim:workload(…) checks it against the simulation and starts it.
local arrivals = require "aisim.arrivals"
local check = require "aisim.check"
local core = require "aisim.core"
local dist = require "aisim.dist"

local M = {}

local Workload = { __name = "aisim.Workload" }
Workload.__index = function(_, name) check.fail("workload: unknown field '%s'", tostring(name)) end
Workload.__tostring = function(self) return rawget(self, "kind") .. " workload" end

local PREFIX <const> = {
  groups = { "integer", min = 1, max = 100000000, required = true },
  tokens = { "integer", min = 1, required = true },
  zipf = { "number", min = 0, finite = true, default = 0 },
  name = { "text" },
}

local COMMON <const> = {
  class = { "text", default = "" },
  prompt = { "dist", required = true, expected = "distribution", read = dist.read },
  output = { "dist", required = true, expected = "distribution", read = dist.read },
  prefix = { "table" },
  priority = { "integer", min = -2147483647, max = 2147483647, default = 0 },
  deadline_ms = { "ms", above = 0 },
  pool = { "any" },
  until_ms = { "ms", above = 0 },
  requests = { "integer", min = 1 },
  sessions = { "integer", min = 1 },
  rng = { "text" },
}

local function fields(extra)
  local out = {}
  for key, spec in pairs(COMMON) do out[key] = spec end
  for key, spec in pairs(extra) do out[key] = spec end
  return out
end

local OPEN <const> = fields {
  arrivals = { "arrivals", required = true, expected = "arrival process", read = arrivals.read },
}
local CLOSED <const> = fields {
  users = { "integer", min = 1, max = 10000000, required = true },
  think_ms = { "dist", read = dist.read },
}

local function smaller(a, b)
  if a and b then return math.min(a, b) end
  return a or b
end

local function describe(kind, options, spec)
  options = check.options("aisim." .. kind, options, spec)
  if options.prefix then options.prefix = check.options("aisim." .. kind .. ".prefix", options.prefix, PREFIX) end
  options.requests = smaller(options.requests, options.sessions) -- every unit is a session of one request
  if not (options.until_ms or options.requests) and not (options.arrivals and arrivals.is_finite(options.arrivals)) then
    check.fail("aisim.%s: traffic without an end; give until_ms or requests", kind)
  end
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
  local options = {}
  for key, value in pairs(rawget(workload, "options")) do options[key] = value end
  options.pool = pool_number(sim, options)
  options.rng = stream_name(sim, rawget(workload, "kind"), options)
  local prefix = options.prefix
  if prefix then
    options.prefix_group = core.dist_zipf(prefix.groups, prefix.zipf)
    options.prefix_tokens = prefix.tokens
    options.prefix_name = prefix.name or options.rng .. "/prefix"
  end
  if not options.until_ms and not options.requests then options.requests = math.maxinteger end
  if rawget(workload, "kind") == "open" then return sim:open_(options) end
  return sim:closed_(options)
end

-- kind -> function(sim, workload); aisim.agentx adds itself
M.starters = { open = start, closed = start }

--- A workload object for another kind of traffic.
function M.make(kind, options) return setmetatable({ kind = kind, options = options }, Workload) end

--- sim:workload(w)
function M.add(sim, workload)
  if getmetatable(workload) ~= Workload then
    check.fail("sim:workload: workload expected (aisim.open, aisim.closed, aisim.agentx, aisim.trace), got %s",
      type(workload))
  end
  return M.starters[rawget(workload, "kind")](sim, workload)
end

-- Sessions -----------------------------------------------------------------------------------------

local SESSIONS <const> = {
  class = { "text", default = "" },
  arrivals = { "arrivals", required = true, expected = "arrival process", read = arrivals.read },
  body = { "function", required = true },
  until_ms = { "ms", above = 0 },
  sessions = { "integer", min = 1 },
  requests = { "integer", min = 1 },
  pool = { "any" },
  priority = { "integer", min = -2147483647, max = 2147483647, default = 0 },
  rng = { "text" },
}

--- sim:sessions{…}
function M.sessions(sim, options)
  options = check.options("sessions", options, SESSIONS)
  if not (options.until_ms or options.sessions or options.requests) and not arrivals.is_finite(options.arrivals) then
    check.fail("sessions: traffic without an end; give until_ms, sessions or requests")
  end
  options.pool = pool_number(sim, options)
  options.rng = stream_name(sim, "sessions", options)
  options.sessions, options.requests = options.sessions or 0, options.requests or 0
  sim:sessions_(options)
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
