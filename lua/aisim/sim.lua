--- The simulation object: what scripts call, checked, on top of what C does.
-- C registers methods with a trailing underscore for the work; this file gives them their public names,
-- reads options and units, and words the mistakes. One method, one table of options.
local check = require "aisim.check"
local core = require "aisim.core"
local hooks = require "aisim.hooks"
local near = require "aisim.near"

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

--- Decides about every arrival: fn(req, targets, now) -> true, or false and a reason.
function M:admission(fn)
  if type(fn) ~= "function" then check.fail("sim:admission: function expected, got %s", type(fn)) end
  self:admission_(fn)
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

--- Adds a pool of workers.
function M:pool(options)
  options = check.options("pool", options, POOL)
  if type(options.engine) ~= "table" then
    check.fail("pool.engine: table of engine options expected, got %s", type(options.engine))
  end
  local name = options.name or (options.role == "aggregated" and "main" or options.role)
  local engine, functions = require("aisim.timing").split(options.engine)
  return self:pool_(name, options.role, options.workers, engine, functions)
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

-- Parts of the contract that the engine does not have yet: refused by name, never ignored.
for _, name in ipairs { "cluster", "autoscale" } do
  M[name] = function() check.fail("sim:%s: known, not modelled", name) end
end

local Pool = core.methods["aisim.Pool"]
for _, name in ipairs { "add", "remove" } do
  Pool[name] = function() check.fail("pool:%s: known, not modelled", name) end
end

local ROUTER <const> = {
  pool = { "any" },
  policy = { "text" },
  name = { "text" },
  columns = { "table" },
  telemetry_period_ms = { "ms", min = 0, default = 0 },
  pick = { "function" },
  on_done = { "function" },
  wrap = { "table" }, -- a built-in that pick may ask
}

-- Options of spec/routing.md and spec/lua-api.md §7 that the engine does not have yet: refused by name.
local ROUTER_LATER <const> = {
  "delay_ms", "filter", "score", "regret", "init", "on_dispatch", "on_first_token", "on_kv_stored", "on_kv_removed",
  "on_worker_up", "on_worker_drain", "on_worker_down", "on_tick",
}
for _, name in ipairs(ROUTER_LATER) do
  ROUTER[name] = { "any", read = function() check.fail("router: known, not modelled: '%s'", name) end }
end

local function refuse_policy(name)
  local names = {}
  for _, known in ipairs(core.router_names()) do names[known] = true end
  if not names[name] then check.fail("router: unknown policy '%s'%s", tostring(name), near.hint(name, names)) end
end

-- A decode pool computes no prompts: unless told otherwise its kv router looks at load only (spec/routing.md §4).
local function of_decode_pool(options, shared)
  local kv = options.policy == "kv" or options.inner == "kv"
    or type(options.affinity) == "table" and options.affinity.inner == "kv"
  if kv and (shared or options.track_prefill == nil) then options.track_prefill = false end
  if kv and (shared or options.overlap_score_credit == nil) then options.overlap_score_credit = 0 end
end

-- A policy in C: everything but the pool is checked by the schema that YAML files use too.
local function builtin_policy(sim, pool, options, shared)
  refuse_policy(options.policy)
  local rest = {}
  for name, value in pairs(options) do
    if name == "pick" or name == "on_done" or name == "wrap" or name == "columns" or name == "name" then
      check.fail("router: policy = '%s' is built in; %s belongs to a policy of your own", options.policy, name)
    elseif ROUTER[name] and ROUTER[name].read then
      ROUTER[name].read()
    elseif name ~= "pool" then
      rest[name] = value
    end
  end
  if sim:pools_()[pool].role == "decode" then of_decode_pool(rest, shared) end
  sim:router_builtin_(pool, rest)
end

-- Numbers of the pools that the options are for. Without a name: the first, or both ends of a hand-off.
local function router_pools(sim, options)
  if options.pool ~= nil then return { sim:pool_number_(options.pool) } end
  if sim:ranks_() == 0 then check.fail("sim:router: the simulation has no pool yet; declare it first") end
  local pools, ends = sim:pools_(), {}
  if pools[1].role == "aggregated" then return { 1 } end
  for i, pool in ipairs(pools) do
    if pool.role ~= "aggregated" then ends[#ends + 1] = i end
  end
  return ends
end

--- Sets the routing policy of a pool: a function, a table with pick, or the name of a built-in and its options.
function M:router(options)
  if type(options) == "function" then options = { pick = options } end
  if type(options) == "table" and type(options.policy) == "string" and options.policy ~= "lua" then
    local pools = router_pools(self, options)
    for _, pool in ipairs(pools) do builtin_policy(self, pool, options, #pools > 1) end
    return
  end
  options = check.options("router", options, ROUTER)
  local pools = router_pools(self, options)
  if #pools > 1 then
    check.fail("router.pool: name the pool, '%s' or '%s'; a policy of your own is for one of them",
      self:pools_()[pools[1]].name, self:pools_()[pools[2]].name)
  end
  local pool = pools[1]
  if not options.pick then check.fail("router.pick: function expected, got nil (or name a policy)") end
  if options.wrap then refuse_policy(options.wrap.policy) end
  self:router_(pool, options.name or "lua", options.pick, options.on_done, options.columns,
    options.telemetry_period_ms, options.wrap)
end

-- Metrics ------------------------------------------------------------------------------------------

for _, name in ipairs { "counter", "gauge", "hist", "ratio", "series", "derive", "slo", "measure" } do
  M[name] = function(self, options) return require("aisim.metrics")[name](self, options) end
end

-- Running ------------------------------------------------------------------------------------------

local RUN <const> = {
  until_ms = { "ms", min = 0 },
  progress = { "function" },
  requests = { "boolean" },
}

--- Runs to the end, a limit or a stop.
function M:run(options)
  options = check.options("sim:run", options, RUN)
  for _, override in ipairs(self:overrides_()) do
    if not override.used then
      local what = override.key:find("^engine%.") and "no pool of that role"
        or "a scenario takes engine.… and its parameters"
      error(("%s: %s"):format(override.flag or override.key, what), 0)
    end
  end
  if options.requests ~= nil then self:keep_requests_(options.requests and math.maxinteger or 0) end
  local state, reason = self:run_(options.until_ms, options.progress)
  return require("aisim.results").new(self, state, reason)
end

local STOP <const> = { "text" }

--- Ends the run after the current event; the result is marked "stopped".
function M:stop(reason)
  self:stop_(reason ~= nil and check.value("sim:stop: reason", reason, STOP) or "stopped by the script")
end

local M_NEW <const> = {
  seed = { "integer", default = 1 },
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
