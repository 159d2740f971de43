--- aisim: simulations of LLM serving, from the program or a stock lua5.4.
--   local aisim = require "aisim"
-- Parts that a script does not name are not loaded.
local core = require "aisim.core"
core.library() -- frames of this folder are folded in messages

local M = {
  version = core.version,
  spec_version = "1",
}

-- name -> module that provides it, and the field of that module ("" = the module itself)
local PARTS <const> = {
  new = { "aisim.sim", "new" },
  scenario = { "aisim.scenario", "" },
  dist = { "aisim.dist", "" },
  arrivals = { "aisim.arrivals", "" },
  timing = { "aisim.timing", "" },
  admission = { "aisim.admission", "" },
  scaler = { "aisim.scaler", "" },
  router = { "aisim.router_policy", "makers" },
  kv_cost = { "aisim.core", "kv_cost" },
  softmax_pick = { "aisim.core", "softmax_pick" },
  hash = { "aisim.core", "route_hash" },
  open = { "aisim.workload", "open" },
  closed = { "aisim.workload", "closed" },
  agentx = { "aisim.agentx", "agentx" },
  agent = { "aisim.generated", "agent" },
  synthetic_session = { "aisim.generated", "synthetic_session" },
  agentic_code = { "aisim.generated", "agentic_code" },
  trace = { "aisim.trace", "trace" },
  plays = { "aisim.plays", "load" },
  plays_of = { "aisim.plays", "build" },
  agentx_synthetic = { "aisim.plays", "synthetic" },
  model = { "aisim.catalogue", "model" },
  hardware = { "aisim.catalogue", "hardware" },
  yaml = { "aisim.file", "yaml" },
  json = { "aisim.json", "" },
  csv = { "aisim.csv", "" },
  table = { "aisim.figures", "table" },
  plot = { "aisim.plot", "" },
  sweep = { "aisim.sweep", "sweep" },
  search = { "aisim.search", "search" },
  compare = { "aisim.compare", "compare" },
}

local GC <const> = { incremental = true, generational = true }

--- Sets the collector: { mode = "incremental", pause = 200 }.
function M.gc(options)
  local check = require "aisim.check"
  options = check.options("aisim.gc", options, {
    mode = { "text", one_of = check.sorted(GC), default = "incremental" },
    pause = { "integer", min = 101, max = 1000, default = 200 },
  })
  if options.mode == "generational" then return collectgarbage("generational") end
  return collectgarbage("incremental", options.pause)
end

--- Stops with the line of the caller.
function M.fail(message)
  if message == nil then core.fail("aisim.fail: text expected, got nil") end
  return core.fail(tostring(message))
end

return setmetatable(M, {
  __name = "aisim",
  --- Every public name in alphabetical order, with its value.
  __pairs = function(self)
    local names = {}
    for name in pairs(PARTS) do names[#names + 1] = name end
    for name in next, self do
      if not PARTS[name] then names[#names + 1] = name end
    end
    table.sort(names)
    local i = 0
    return function()
      i = i + 1
      if names[i] then return names[i], self[names[i]] end
    end
  end,
  __index = function(self, name)
    local part = PARTS[name]
    if not part then
      local near = require "aisim.near"
      local known = {}
      for key in pairs(self) do known[key] = true end
      return core.fail(("aisim: unknown field '%s'%s"):format(tostring(name), near.hint(tostring(name), known)))
    end
    local module = require(part[1])
    local value = part[2] == "" and module or module[part[2]]
    rawset(self, name, value)
    return value
  end,
})
