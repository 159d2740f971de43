--- The AgentX replay aisim.agentx (spec/traffic.md §2). Where plays come from: plays.lua.
local check = require "aisim.check"
local core = require "aisim.core"
local plays = require "aisim.plays"
local workload = require "aisim.workload"

local M = {}

local SECONDS <const>, CAP <const> = { "number", min = 0, finite = true }, { "number", above = 0, finite = true }
local PROFILE <const> = {
  duration_seconds = CAP, response_grace_seconds = SECONDS, cancel_drain_seconds = SECONDS,
  tree_idle_cap_seconds = CAP, global_idle_cap_seconds = CAP,
}

local function pair(value, where)
  if type(value) ~= "table" or #value ~= 2 or type(value[1]) ~= "number" or type(value[2]) ~= "number" then
    check.fail("%s: { from, to } expected", where)
  end
  if not (0 <= value[1] and value[1] <= value[2] and value[2] <= 1) then
    check.fail("%s = { %s, %s }: 0 <= from <= to <= 1 expected", where, check.show(value[1]), check.show(value[2]))
  end
  return value
end

local AGENTX <const> = {
  plays = { "any", required = true, expected = "plays or path" },
  lanes = { "integer", min = 1, max = 1048576, required = true, expected = "number of lanes" },
  seed = { "integer" },
  t_star = { "table", read = pair },
  warmup = { "boolean" },
  warmup_requests_per_lane = { "integer", min = 0 },
  warmup_mode = { "text", one_of = { "repeat", "advance" } },
  profile = { "table", read = function(value, where) return check.options(where, value, PROFILE) end },
  speedup = { "number", above = 0, finite = true },
  authored_gate = { "boolean" },
  cache_identity = { "text", one_of = { "isolated", "after_system" } },
  on_error = { "text", one_of = { "fail_play", "continue" } },
  preset = { "text", one_of = { "agentx-v1", "agentx-harness", "agentx-fast" } },
  once = { "boolean" },
  u = { "table" },
  pool = { "any" },
  class = { "text", default = "agentx" },
  priority = { "integer", min = -2147483647, max = 2147483647 },
  deadline_ms = { "ms", above = 0 },
  rng = { "text" },
  until_ms = { "ms", above = 0 },
  requests = { "integer", min = 1 },
  sessions = { "integer", min = 1, max = 4294967295 },
}

--- Replays plays in lanes. The stop rules end the profile as its duration does: until_ms on the clock of the run,
-- preparation included; requests that are issued in it; sessions = plays that are started, those of the snapshot
-- included. rng = "name" draws the snapshot from a stream of the run's seed instead of from `seed`.
function M.agentx(options)
  options = check.options("aisim.agentx", options, AGENTX)
  if options.until_ms and options.profile and options.profile.duration_seconds then
    check.fail("aisim.agentx: until_ms and profile.duration_seconds say the same thing; give one")
  end
  if options.seed and options.rng then check.fail("aisim.agentx: seed and rng say the same thing; give one") end
  if getmetatable(options.plays) ~= "aisim.Plays" then options.plays = plays.load(options.plays) end
  return workload.make("agentx", options)
end

workload.starters.agentx = function(sim, description)
  local options = {}
  for key, value in pairs(rawget(description, "options")) do options[key] = value end
  if options.rng then options.seed = tonumber("0x" .. core.hash(("%d/%s"):format(sim.seed, options.rng))) end
  if sim:ranks_() == 0 then check.fail("sim:workload: the simulation has no pool yet; declare it first") end
  return sim:agentx_(options.plays, options, options.pool ~= nil and sim:pool_number_(options.pool) or 1)
end

return M
