--- Built-in admission policies (spec/lua-api.md §7): each describes a policy; sim:admission gives it its own state.
-- A custom policy may use one: local limit = aisim.admission.max_outstanding{ limit = 8 }:make(sim), then
-- limit(req, targets, now) answers true, false and a reason, or ms to hold the request back. All are pure functions
-- of what happened before, so equal runs admit equally.
local check = require "aisim.check"
local near = require "aisim.near"

local M = setmetatable({}, { __index = function(self, name)
  local hint = near.hint_or_names(tostring(name), self, "there are")
  return check.fail("aisim.admission: unknown policy '%s'%s", tostring(name), hint)
end })

local Policy = { __name = "aisim.Admission" }
Policy.__index = Policy
Policy.__tostring = function(self) return "admission " .. self.type end

--- The policy as a function with a state of its own.
---@param sim aisim.Sim
---@return function
function Policy:make(sim) return self.maker(sim, self.options) end

local function maker(name, fields, make)
  M[name] = function(options)
    options = check.options("admission." .. name, options, fields)
    return setmetatable({ type = name, options = options, maker = make }, Policy)
  end
end

maker("always", {}, function() return function() return true end end)

local BUCKET <const> = {
  rate = { "rate", above = 0, required = true },
  burst = { "number", min = 1, finite = true, required = true },
  unit = { "text", one_of = { "requests", "tokens" }, default = "requests" },
  when_empty = { "text", one_of = { "reject", "delay" }, default = "reject" },
}

-- `rate` per second flow into a bucket that holds `burst`; a request takes 1, or its prompt and output tokens. What it
-- lacks makes it wait in line, or turns it away. A request larger than the bucket can never be served.
maker("token_bucket", BUCKET, function(_, o)
  local level, at = o.burst, 0
  return function(req, _, now)
    local cost = o.unit == "tokens" and req.prompt_tokens + req.output_tokens or 1
    level, at = math.min(o.burst, level + (now - at) * o.rate / 1000), now
    if cost > o.burst then return false, "larger than the bucket" end
    if level >= cost then
      level = level - cost
      return true
    end
    if o.when_empty == "reject" then return false, "rate" end
    level = level - cost -- a debt: those behind wait longer
    return -level * 1000 / o.rate
  end
end)

--- Requests that were let in and have not ended: counted at admission, let go at the terminal event.
local function outstanding(sim)
  local inside, n = {}, 0
  local function gone(_, id)
    if inside[id] then
      inside[id] = nil
      n = n - 1
    end
  end
  sim:on("request.finish", gone)
  sim:on("request.reject", gone)
  return function() return n end, function(req)
    inside[req.id] = true
    n = n + 1
  end
end

maker("max_outstanding", { limit = { "integer", min = 1, required = true } }, function(sim, o)
  local count, enter = outstanding(sim)
  return function(req)
    if count() >= o.limit then return false, "outstanding" end
    enter(req)
    return true
  end
end)

local function read_limits(value, where)
  if type(value) ~= "table" or next(value) == nil then
    check.fail("%s: table of priority = outstanding requests expected, got %s", where,
      type(value) == "table" and "an empty table" or type(value))
  end
  local limits = {}
  for priority, limit in pairs(value) do
    check.value(where .. ": priority", priority, { "integer" })
    limits[#limits + 1] = { priority, check.value(("%s[%d]"):format(where, priority), limit, { "integer", min = 0 }) }
  end
  table.sort(limits, function(a, b) return a[1] < b[1] end)
  return limits
end

-- { [1] = 40, [2] = 20 }: with 20 outstanding requests priorities from 2 on are turned away, with 40 also 1; 0 never.
maker("shed_by_priority", { limits = { "table", required = true, read = read_limits } }, function(sim, o)
  local count, enter = outstanding(sim)
  return function(req)
    local limit = math.huge
    for _, row in ipairs(o.limits) do
      if row[1] <= req.priority then limit = math.min(limit, row[2]) end
    end
    if count() >= limit then return false, "shed" end
    enter(req)
    return true
  end
end)

return M
