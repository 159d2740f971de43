--- Routing policies: a built-in by name, or functions (spec/lua-api.md §7, spec/routing.md).
local check = require "aisim.check"
local policies = require "aisim.router_policy"

local M = {}

local FN <const> = { "function" }

local ROUTER <const> = {
  pool = { "any" },
  policy = { "text" },
  name = { "text" },
  columns = { "table" },
  telemetry_period_ms = { "ms", min = 0, default = 0 },
  delay_ms = { "ms", min = 0, finite = true, default = 0 },
  regret = { "boolean", default = false },
  filter = { "any" },
  score = { "any" },
  pick = FN,
  wrap = { "table" },     -- built-ins that pick may ask
  affinity = { "table" }, -- keeps the column `bound`
  tick_ms = { "ms", above = 0, finite = true },
  init = FN,
  on_dispatch = FN,
  on_first_token = FN,
  on_done = FN,
  on_kv_stored = FN,
  on_kv_removed = FN,
  on_worker_up = FN,
  on_worker_drain = FN,
  on_worker_down = FN,
  on_tick = FN,
}

-- What a built-in policy takes beside its own options, which the schema of YAML files checks.
local BUILTIN <const> = {
  delay_ms = ROUTER.delay_ms,
  regret = ROUTER.regret,
}

-- A decode pool computes no prompts: unless told otherwise its kv router looks at load only (spec/routing.md §4).
local function of_decode_pool(options, shared)
  local kv = options.policy == "kv" or options.inner == "kv"
    or type(options.affinity) == "table" and options.affinity.inner == "kv"
  if kv and (shared or options.track_prefill == nil) then options.track_prefill = false end
  if kv and (shared or options.overlap_score_credit == nil) then options.overlap_score_credit = 0 end
end

local function builtin_policy(sim, pool, options, shared)
  policies.check_name(options.policy)
  local rest, own = {}, {}
  for name, value in pairs(options) do
    if BUILTIN[name] then
      own[name] = value
    elseif name == "telemetry_period_ms" or name == "affinity" then
      rest[name] = value -- options of both kinds
    elseif ROUTER[name] and name ~= "policy" and name ~= "pool" then
      check.fail("router: policy = '%s' is built in; %s belongs to a policy of your own", options.policy, name)
    elseif name ~= "pool" then
      rest[name] = value
    end
  end
  own = check.options("router", own, BUILTIN)
  if sim:pools_()[pool].role == "decode" then of_decode_pool(rest, shared) end
  sim:router_builtin_(pool, rest, own.delay_ms, own.regret)
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

--- A function, or a list of functions.
local function filters(value)
  if value == nil then return {} end
  local list = type(value) == "table" and value or { value }
  for i, fn in ipairs(list) do
    if type(fn) ~= "function" then
      check.fail("router.filter%s: function expected, got %s", value == list and ("[%d]"):format(i) or "", type(fn))
    end
  end
  return list
end

--- The built-ins that pick may ask: options or an object, or a list of them.
local function wrapped(value)
  if value == nil then return {} end
  if #value == 0 then return { policies.of("router.wrap", value) } end
  local list = {}
  for i, part in ipairs(value) do list[i] = policies.of(("router.wrap[%d]"):format(i), part) end
  return list
end

--- Functions and built-ins { policy =, …, weight = } whose costs are added.
local function scorers(value)
  if value == nil then return {} end
  local single = type(value) ~= "table" or value.policy ~= nil
  local out = {}
  for i, part in ipairs(single and { value } or value) do
    local where = single and "router.score" or ("router.score[%d]"):format(i)
    if type(part) == "table" then
      policies.check_name(part.policy)
      local rest = {}
      for name, option in pairs(part) do
        if name ~= "weight" then rest[name] = option end
      end
      local weight = part.weight == nil and 1 or check.value(where .. ".weight", part.weight,
        { "number", above = 0, finite = true })
      out[i] = { options = rest, weight = weight }
    elseif type(part) == "function" then
      out[i] = part
    else
      check.fail("%s: function or table with policy expected, got %s", where, type(part))
    end
  end
  return out
end

local policies_of <const> = setmetatable({}, { __mode = "k" }) -- simulation -> number of the pool -> policy

local function remember(sim, pool, policy)
  policies_of[sim] = policies_of[sim] or {}
  policies_of[sim][pool] = policy
end

--- The routers that are not the default: { name = "router" or "router.POOL", policy = }, in the order of the pools.
---@param sim aisim.Sim
---@return { name: string, policy: string }[]
function M.of(sim)
  local list, pools = {}, sim:pools_()
  for i, pool in ipairs(pools) do
    local policy = policies_of[sim] and policies_of[sim][i]
    if policy and policy ~= "round_robin" then
      list[#list + 1] = { name = #pools == 1 and "router" or "router." .. pool.name, policy = policy }
    end
  end
  return list
end

--- Sets the policy of a pool.
---@param sim aisim.Sim
---@param options aisim.RouterOptions|function
function M.set(sim, options)
  if type(options) == "function" then options = { pick = options } end
  if type(options) == "table" and type(options.policy) == "string" and options.policy ~= "lua" then
    local pools = router_pools(sim, options)
    for _, pool in ipairs(pools) do
      builtin_policy(sim, pool, options, #pools > 1)
      remember(sim, pool, options.policy)
    end
    return
  end
  local given = options
  options = check.options("router", options, ROUTER)
  local pools = router_pools(sim, options)
  if #pools > 1 then
    check.fail("router.pool: name the pool, '%s' or '%s'; a policy of your own is for one of them",
      sim:pools_()[pools[1]].name, sim:pools_()[pools[2]].name)
  end
  local pool = pools[1]
  if not options.pick and options.score == nil and options.filter == nil then
    check.fail("router.pick: function expected, got nil (or name a policy)")
  end
  if not options.pick and options.score == nil then
    check.fail("router.filter: leaves candidates; give pick or score to choose one of them")
  end
  if options.wrap and not options.pick then check.fail("router.wrap: only pick can ask it; give pick") end
  if options.wrap and options.affinity then
    check.fail("router.affinity: belongs into wrap when there is one")
  end
  if options.on_tick and not options.tick_ms then check.fail("router.tick_ms: time in ms expected, got nil") end
  if options.tick_ms and not options.on_tick then check.fail("router.tick_ms: has no effect without on_tick") end
  options.name = options.name or "lua"
  options.wrap = wrapped(options.wrap)
  options.filter, options.score = filters(options.filter), scorers(options.score)
  options.affinity = options.affinity and { policy = "round_robin", affinity = options.affinity }
  options.tick_ms = options.tick_ms or 0
  sim:router_(pool, options)
  remember(sim, pool, options.name)
  if options.init then options.init(sim:pool_handle_(pool), given) end
end

return M
