--- sim:on: names and options of hooks, checked before they reach the engine (spec/lua-api.md §6).
local check = require "aisim.check"
local core = require "aisim.core"
local near = require "aisim.near"

local M = {}

---@class aisim.HookInfo
---@field name string
---@field class string      "run", "request", "pass", "token": what it costs
---@field modelled boolean  false: known, the engine does not emit it yet
---@field args string[]     scalars
---@field view string?      last argument

---@type aisim.HookInfo[]
M.list = core.hook_list()

local by_name = {}
for _, info in ipairs(M.list) do by_name[info.name] = info end

local OPTIONS <const> = {
  batch = { "integer", min = 1, max = 65536 },
  class = { "text" },
  pool = { "any" },
  rank = { "integer", min = 1 },
  sample = { "number", above = 0, max = 1 },
  from_ms = { "ms", min = 0 },
  until_ms = { "ms", min = 0 },
  every_ms = { "ms", above = 0 },
}

-- Hooks whose events carry no request, or no rank: a filter would silently match nothing.
local NO_RANK <const> = { ["request.arrive"] = true, ["worker.state"] = true }

local function refuse_filters(info, options)
  local is_request = info.name:find("^request%.") ~= nil
  for _, name in ipairs { "class", "sample" } do
    if options[name] and not is_request then
      check.fail("sim:on: option '%s' needs a request, hook '%s' has none", name, info.name)
    end
  end
  local has_rank = (is_request or info.class == "pass") and not NO_RANK[info.name]
  for _, name in ipairs { "rank", "pool" } do
    if options[name] and not has_rank then
      check.fail("sim:on: option '%s' needs a rank, hook '%s' has none", name, info.name)
    end
  end
  if info.name == "run.tick" then
    if not options.every_ms then check.fail("sim:on.every_ms: time in ms expected, got nil") end
    if options.batch then check.fail("sim:on: hook 'run.tick' cannot be batched") end
  elseif options.every_ms then
    check.fail("sim:on: option 'every_ms' belongs to 'run.tick', not to '%s'", info.name)
  end
  if options.batch and info.class == "run" and info.view == "sim" then
    check.fail("sim:on: hook '%s' cannot be batched", info.name)
  end
end

--- Registers a hook. See lua/aisim/meta.lua for the arguments of each.
---@param sim aisim.Sim
---@param name aisim.HookName
---@param fn function
---@param options table?
---@return aisim.Hook
function M.on(sim, name, fn, options)
  if type(name) ~= "string" then check.fail("sim:on: name of a hook expected, got %s", type(name)) end
  local info = by_name[name]
  if not info then check.fail("sim:on: unknown hook '%s'%s", name, near.hint(name, by_name)) end
  if type(fn) ~= "function" then check.fail("sim:on: function expected, got %s", type(fn)) end
  options = check.options("sim:on", options, OPTIONS)
  refuse_filters(info, options)
  if options.from_ms and options.until_ms and options.until_ms <= options.from_ms then
    check.fail("sim:on.until_ms = %s: must be > from_ms (%s)", check.show(options.until_ms),
      check.show(options.from_ms))
  end
  if options.pool ~= nil then options.pool = sim:pool_number_(options.pool) end
  if options.rank and options.rank > sim:ranks_() and sim:ranks_() > 0 then
    check.fail("sim:on.rank = %d: the simulation has ranks 1..%d", options.rank, sim:ranks_())
  end
  return sim:on_(name, fn, options)
end

return M
