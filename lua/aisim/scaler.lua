--- Autoscaling: sim:autoscale and the built-in decisions aisim.scaler.* (spec/lua-api.md §7).
local check = require "aisim.check"
local core = require "aisim.core"
local near = require "aisim.near"

local M = setmetatable({}, { __index = function(self, name)
  local hint = near.hint_or_names(tostring(name), self, "there are")
  return check.fail("aisim.scaler: unknown decision '%s'%s", tostring(name), hint)
end })

local Scaler = { __name = "aisim.Scaler" }
Scaler.__index = Scaler
Scaler.__tostring = function(self) return "scaler " .. self.type end

--- The decision as a function with a state of its own.
---@return fun(view: aisim.ScaleView, now: number): integer
function Scaler:make() return self.maker(self.options) end

local DOWN_AFTER <const> = { "ms", min = 0, default = 0 }

--- Fewer workers only when that was the answer for so long: the largest answer of the last down_after_ms.
local function patient(down_after_ms, decide)
  local answers = {} -- { time, workers }, oldest first
  return function(view, now)
    local workers = decide(view)
    answers[#answers + 1] = { now, workers }
    while answers[1][1] < now - down_after_ms do table.remove(answers, 1) end
    for _, answer in ipairs(answers) do workers = math.max(workers, math.min(answer[2], view.workers)) end
    return workers
  end
end

local function maker(name, fields, make)
  M[name] = function(options)
    options = check.options("scaler." .. name, options, fields)
    return setmetatable({ type = name, options = options, maker = make }, Scaler)
  end
end

-- As many workers as keep the share of used KV blocks of ready workers at `target`: ceil(ready * share / target).
-- Within `tolerance` of the target nothing changes. Requests that queue for want of blocks do not show in it.
maker("target_utilisation", {
  target = { "number", above = 0, max = 1, required = true },
  tolerance = { "number", min = 0, max = 1, default = 0.1 },
  down_after_ms = DOWN_AFTER,
}, function(o)
  return patient(o.down_after_ms, function(view)
    local ratio = view.kv_usage / o.target
    if view.ready == 0 or math.abs(ratio - 1) <= o.tolerance then return view.workers end
    return math.ceil(view.ready * ratio)
  end)
end)

-- As many workers as leave `per_worker` requests to each: ceil(requests in progress or waiting anywhere / per_worker).
maker("queue_depth", {
  per_worker = { "number", above = 0, finite = true, required = true },
  down_after_ms = DOWN_AFTER,
}, function(o)
  return patient(o.down_after_ms, function(view)
    return math.ceil((view.queued + view.waiting + view.running) / o.per_worker)
  end)
end)

--- What a decision sees: sums over the workers that serve (ready or draining), and counts of workers by state.
local function look(pool)
  local view = { ready = pool.ready, starting = pool.starting, draining = pool.draining, queued = pool.queued,
    waiting = 0, running = 0, active_requests = 0, kv_used = 0, kv_total = 0, kv_usage = 0 }
  view.workers = view.ready + view.starting
  for i = 1, pool.workers do
    local worker = pool:worker(i)
    local state = worker.state
    if state == "ready" or state == "draining" then
      view.waiting, view.running = view.waiting + worker.waiting, view.running + worker.running
      view.active_requests = view.active_requests + worker.active_requests
    end
    if state == "ready" then
      view.kv_used, view.kv_total = view.kv_used + worker.kv_used, view.kv_total + worker.kv_total
    end
  end
  if view.kv_total > 0 then view.kv_usage = view.kv_used / view.kv_total end
  return view
end

local OPTIONS <const> = {
  pool = { "any" },
  every_ms = { "ms", above = 0, finite = true, required = true },
  min = { "integer", min = 0, max = 1000000, default = 1 },
  max = { "integer", min = 1, max = 1000000, required = true },
  decide = { "any", required = true, expected = "function or a decision of aisim.scaler" },
  start_delay_ms = { "ms", min = 0, finite = true },
  drain = { "boolean", default = true },
}

--- Asks `decide` every every_ms how many workers there shall be (ready and starting), keeps the answer within min and
-- max, and adds or removes the difference.
---@param sim aisim.Sim
function M.autoscale(sim, options)
  options = check.options("autoscale", options, OPTIONS)
  if options.max < options.min then
    check.fail("autoscale.max = %d: must be >= min (%d)", options.max, options.min)
  end
  if options.pool == nil and sim:ranks_() == 0 then
    check.fail("sim:autoscale: the simulation has no pool yet; declare it first")
  end
  local pool = sim:pool_handle_(options.pool ~= nil and sim:pool_number_(options.pool) or 1)
  local decide = options.decide
  if getmetatable(decide) == Scaler then decide = decide:make() end
  if type(decide) ~= "function" then
    check.fail("autoscale.decide: function or a decision of aisim.scaler expected, got %s", type(decide))
  end
  local place = core.place(decide)
  return sim:every(options.every_ms, function(t)
    local view = look(pool)
    local wanted = decide(view, t)
    local whole = type(wanted) == "number" and math.tointeger(wanted)
    if not whole or whole < 0 then
      error(("%s: autoscale of pool '%s' returned %s at t=%.14g ms; a whole number of workers >= 0 expected"):format(
        place, pool.name, check.show(wanted), t), 0)
    end
    whole = math.max(options.min, math.min(options.max, whole))
    if whole > view.workers then
      pool:add(whole - view.workers, options.start_delay_ms)
    elseif whole < view.workers then
      pool:remove(view.workers - whole, options.drain)
    end
  end)
end

return M
