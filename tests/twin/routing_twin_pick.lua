--- The policies of spec/routing.md §2 and §4 for the twin of the routers. A candidate has its target, book,
-- load, telemetry (seen) and tiers; candidates come in (worker, rank) order.
local M = {}

local function draw(step)
  step.draws_used = (step.draws_used or 0) + 1
  return step.draws[step.draws_used]
end

local function uniform(list, step) return list[math.floor(draw(step) * #list) + 1] end

--- Smallest cost; ties by position or by the reservoir.
local function smallest(list, step, at_random)
  local least = math.huge
  for _, candidate in ipairs(list) do least = math.min(least, candidate.cost) end
  local kept, tied = nil, 0
  for _, candidate in ipairs(list) do
    if candidate.cost == least then
      tied = tied + 1
      if not kept or at_random and draw(step) * tied < 1 then kept = candidate end
    end
  end
  return kept
end

local function by_weight(list, weights, step)
  local total, u, sum = 0, draw(step), 0
  for _, w in ipairs(weights) do total = total + w end
  for i, candidate in ipairs(list) do
    sum = sum + weights[i] / total
    if sum >= u then return candidate end
  end
  return list[#list]
end

local COSTS <const> = {
  least_requests = function(_, c) return c.load end,
  least_tokens = function(router, c)
    return c.book.active_prefill_tokens + c.book.active_blocks * router.config.block_size
  end,
  least_kv = function(_, c) return c.seen.kv_used / c.seen.kv_total end,
}

local POLICIES <const> = {}

for name, cost in pairs(COSTS) do
  POLICIES[name] = function(router, _, list, _, step)
    for _, candidate in ipairs(list) do candidate.cost = cost(router, candidate) end
    return smallest(list, step, router.config.ties == "random")
  end
end

function POLICIES.shortest_queue(router, _, list, _, step)
  for _, c in ipairs(list) do c.cost = c.seen.waiting * 2 ^ 32 + c.seen.running end
  return smallest(list, step, router.config.ties == "random")
end

function POLICIES.round_robin(router, _, list)
  local after = router.last
  local chosen = list[1]
  for i = #list, 1, -1 do
    local t = list[i].target
    if after and (t.worker > after.worker or t.worker == after.worker and t.rank > after.rank) then chosen = list[i] end
  end
  router.last = chosen.target
  return chosen
end

function POLICIES.random(_, _, list, _, step) return uniform(list, step) end

function POLICIES.p2c(_, _, list, _, step)
  if #list == 1 then return list[1] end
  local i = math.floor(draw(step) * #list)
  local j = math.floor(draw(step) * (#list - 1))
  if j >= i then j = j + 1 end
  local a, b = list[i + 1], list[j + 1]
  return b.load < a.load and b or a
end

function POLICIES.weighted_random(_, _, list, _, step)
  local some, weights = {}, {}
  for _, c in ipairs(list) do
    if c.target.weight > 0 then
      some[#some + 1], weights[#weights + 1] = c, c.target.weight / (1 + c.load)
    end
  end
  return some[1] and by_weight(some, weights, step)
end

local function preference(router, request, list)
  local key = router.hash.key(router.config, request)
  local order = { table.unpack(list) }
  for _, c in ipairs(order) do c.h = router.hash.weight(key, c.target) end
  table.sort(order, function(a, b) return math.ult(b.h, a.h) end)
  return order
end

function POLICIES.hash(router, request, list) return preference(router, request, list)[1] end

function POLICIES.hash_bounded(router, request, list)
  local total = 0
  for _, c in ipairs(list) do total = total + c.load end
  for _, c in ipairs(preference(router, request, list)) do
    if c.load <= router.config.load_factor * total / #list then return c end
  end
end

function POLICIES.prefix(router, request, list, _, step)
  local config, best, most, least = router.config, 0, -math.huge, math.huge
  for _, c in ipairs(list) do
    best, most, least = math.max(best, c.tiers[1]), math.max(most, c.load), math.min(least, c.load)
  end
  local imbalance = most - least > config.balance_abs and most > config.balance_rel * least
  step.fallback = best * config.block_size / request.tokens < config.threshold or imbalance
  local some = {}
  for _, c in ipairs(list) do
    c.cost = c.load
    if step.fallback or c.tiers[1] == best then some[#some + 1] = c end
  end
  return smallest(some, step, false)
end

local function added_blocks(router, request, c)
  local R, active = math.max(1, -(-request.tokens // router.config.block_size)), 0
  for _, block in ipairs(request.blocks) do active = active + (c.named[block] and 1 or 0) end
  return R, R - active
end

local function kv_cost(router, request, c, least_prefill)
  local k, bs = router.config, router.config.block_size
  local R, added = added_blocks(router, request, c)
  local P = c.book.active_prefill_tokens
  local decode = c.book.active_blocks + added
  local decay = 1 / (1 + k.overlap_decay * ((P - least_prefill) / bs) / R)
  local credit = k.overlap_score_credit * decay * c.tiers[1] + k.host_credit * c.tiers[2] + k.disk_credit * c.tiers[3]
    + k.shared_credit * c.tiers[4]
  local requests = k.active_request_weight * c.load
  if not k.track_prefill then
    return (k.overlap_score_credit > 0 and math.max(0, decode - credit) or decode) + requests
  end
  return k.prefill_load_scale * math.max(0, (P + request.tokens) / bs - credit) + decode + requests
end

local function by_cost(router, list, bound, step)
  local T, low, high = router.config.temperature, math.huge, -math.huge
  for _, c in ipairs(list) do
    if bound == c.target then c.cost = c.cost * (router.affinity.soft_factor or 0.5) end
    low, high = math.min(low, c.cost), math.max(high, c.cost)
  end
  if T == 0 then return smallest(list, step, true) end
  if low == high then return uniform(list, step) end
  local weights = {}
  for i, c in ipairs(list) do weights[i] = math.exp(-(c.cost - low) / ((high - low) * T)) end
  return by_weight(list, weights, step)
end

function POLICIES.kv(router, request, list, bound, step)
  local least = math.huge
  for _, c in ipairs(list) do least = math.min(least, c.book.active_prefill_tokens) end
  for _, c in ipairs(list) do c.cost = kv_cost(router, request, c, least) end
  return by_cost(router, list, bound, step)
end

function POLICIES.kv_v1(router, request, list, bound, step)
  local bs = router.config.block_size
  for _, c in ipairs(list) do
    local _, added = added_blocks(router, request, c)
    c.cost = router.config.overlap_weight * (request.tokens - c.tiers[1] * bs) / bs + c.book.active_blocks + added
  end
  return by_cost(router, list, bound, step)
end

--- @return candidate; step gets draws_used, costs of policies that have them, fallback of prefix
function M.pick(router, request, list, bound, step)
  step.draws_used = 0
  local chosen = POLICIES[router.config.policy](router, request, list, bound, step)
  local policy = router.config.policy
  if COSTS[policy] or policy == "kv" or policy == "kv_v1" then
    step.costs = {}
    for number = 0, #router.targets - 1 do step.costs[number + 1] = false end
    for _, c in ipairs(list) do step.costs[c.target.number + 1] = c.cost end
  end
  return chosen
end

return M
