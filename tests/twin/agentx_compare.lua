--- Holds the AgentX client of the product against its twin (agentx_twin.lua) on made-up workloads.
--
--     lua5.4 tests/twin/agentx_compare.lua DRIVER [--count N] [--seed S] [--vectors FILE]
--
-- DRIVER is build/tests/agentx_driver. Each case is an agentx vector (vectors/README.md) without its
-- expectations; those come from the twin. --vectors takes the cases of a file instead, and then the
-- expectations of the file are held against the twin as well. Exit status 1 at a difference; its case
-- is printed as a vector.
local here = arg[0]:match "^(.*)/[^/]*$" or "."
package.path = ("%s/?.lua;%s/../conformance/?.lua;%s"):format(here, here, package.path)
local aisim = require "aisim"
local cjson = require "cjson"
local support = require "support"
local made = require "made"
local twin = require "agentx_twin"

local options = made.flags(2, true)
local driver = assert(arg[1], "usage: agentx_compare.lua DRIVER [--count N] [--seed S] [--vectors FILE]")

-- Cases --------------------------------------------------------------------------------------------

local random <const>, pick <const>, chance <const> = made.random, made.pick, made.chance

--- Eighths of a second: exact in binary, in milliseconds and in nanoseconds.
local function eighths(from, to) return (from + random(to - from + 1) - 1) / 8 end

local function entry(t, ids, model)
  local copy = {}
  for i, id in ipairs(ids) do copy[i] = id end
  local request = { t = t, type = pick { "n", "s" }, model = model, hash_ids = copy }
  request.out = random(40) - (chance(5) and 1 or 0)
  request["in"] = math.max(1, 64 * #ids + random(64) - 1)
  if not chance(10) then request.api_time = eighths(0, 40) end
  return request, t + (request.api_time or 0)
end

local function extended(ids, keep, fresh)
  local out = {}
  for i = 1, math.min(keep, #ids) do out[i] = ids[i] end
  for _ = 1, random(3) do
    fresh.id = fresh.id + 1
    out[#out + 1] = fresh.id
  end
  return out
end

--- A chain of turns from time t on; now and then it shrinks, forks or overlaps itself.
local function chain(requests, t, ids, n, fresh, model)
  local stop
  for _ = 1, n do
    local request
    request, stop = entry(t, ids, model)
    requests[#requests + 1] = request
    if chance(15) then -- an agent that was flattened into the list
      local at = t + eighths(0, 30)
      local branch = extended(ids, random(#ids), fresh)
      for _ = 1, random(3) do
        local fork, fork_end = entry(at, branch, model)
        requests[#requests + 1] = fork
        branch, at = extended(branch, #branch, fresh), fork_end + eighths(0, 20)
      end
    end
    ids = extended(ids, chance(85) and #ids or random(#ids) - 1, fresh)
    t = chance(10) and t + eighths(0, 10) or stop + (chance(15) and eighths(80, 4000) or eighths(0, 60))
  end
  return t, stop
end

local function subagent(t, fresh, name)
  local children = {}
  local first = chance(30) and { 0 } or extended({}, 0, fresh)
  local after = chain(children, t + eighths(0, 8), first, random(3), fresh, "m")
  for _, child in ipairs(children) do after = math.max(after, child.t + (child.api_time or 0)) end
  local blocking = chance(70)
  local out = { t = t, type = "subagent", agent_id = name, subagent_type = "Explore",
    status = blocking and "completed" or "async_launched", requests = children, tool_tokens = 64 }
  if chance(60) then out.duration_ms = (after - t) * 1000 end
  return out, blocking and after or t
end

local function made_play(number)
  local fresh, requests, t = { id = 0 }, {}, eighths(0, 16)
  local ids = extended({ 0 }, 1, fresh)
  local model = "m"
  if chance(20) then
    local preamble, stop = entry(t, { 9000 + number }, "m")
    requests[1], t = preamble, stop + eighths(0, 8)
  end
  for _ = 1, random(3) do
    if chance(5) then model = pick { "m", "other" } end
    local at = chain(requests, t, ids, random(3), fresh, model)
    local last = requests[#requests]
    ids, t = extended(last.hash_ids, #last.hash_ids, fresh), at
    for k = 1, chance(35) and random(2) or 0 do
      local group, free = subagent(t, fresh, ("a%d-%d"):format(#requests, k))
      requests[#requests + 1] = group
      t = math.max(t, free) + eighths(0, 16)
    end
  end
  if requests[#requests].type == "subagent" then requests[#requests + 1] = entry(t, ids, model) end
  return { id = "p" .. number, models = { "m", "other" }, block_size = 64, hash_id_scope = "local",
    requests = requests, tool_tokens = 64, system_tokens = 32 }
end

local function made_case(number)
  made.begin(options.seed, number)
  local plays = {}
  for i = 1, random(4) do plays[i] = made_play(i) end
  local t_star = pick { { 0, 0 }, { 0.25, 0.75 }, { 0.5, 0.5 }, { 0, 1 } }
  local case = { name = ("seed %d case %d"):format(options.seed, number), kind = "agentx", plays = plays }
  case.config = {
    lanes = random(4), t_star = t_star, warmup = chance(60), warmup_requests_per_lane = random(5) - 1,
    warmup_mode = pick { "repeat", "advance" }, speedup = pick { 1, 1, 2, 0.5 }, authored_gate = chance(60),
    on_error = pick { "fail_play", "fail_play", "continue" },
    profile = {
      duration_seconds = eighths(8, 8 * pick { 30, 300 }), response_grace_seconds = pick { 0, 1, 8.5 },
      cancel_drain_seconds = pick { 0, 2, 10 }, tree_idle_cap_seconds = pick { 1, 5, 60, 10000 },
      global_idle_cap_seconds = pick { 0.5, 5, 10000 },
    },
  }
  if t_star[1] ~= t_star[2] then
    case.u = {}
    for lane = 1, case.config.lanes do case.u[lane] = (random(9) - 1) / 8 end
  end
  local server = { fixed_ms = 125 * random(24), settle_ms = pick { 0, 0, 500, 4500 } }
  server.cancel_ack_ms = pick { 0, 0, 1000, 5000 }
  if chance(40) then server.per_output_token_ms = pick { 1, 31.25, 125 } end
  if chance(20) then server.per_input_token_ms = 0.5 end
  case.server = server
  return case
end

-- Comparison ---------------------------------------------------------------------------------------

local DEFAULTS <const> = { t_star = { 0.25, 0.75 }, warmup = true, warmup_requests_per_lane = 10,
  warmup_mode = "repeat", speedup = 1, authored_gate = true, on_error = "fail_play", profile = {} }
local PROFILE <const> = { duration_seconds = 3600, response_grace_seconds = 30, cancel_drain_seconds = 10,
  tree_idle_cap_seconds = 300, global_idle_cap_seconds = 10 }

local function complete(given, defaults)
  local out = {}
  for key, value in pairs(defaults) do out[key] = value end
  for key, value in pairs(given) do out[key] = value end
  return out
end

--- What the twin expects, or nil when corpus or configuration are refused (both have tests of
--- their own).
local function expectation(case)
  if case.config.profile.duration_seconds == 0 then return nil end
  local path = os.tmpname()
  local file <close> = assert(io.open(path, "w"))
  for _, play in ipairs(case.plays) do file:write(cjson.encode(play), "\n") end
  file:flush()
  local ok, plays = pcall(aisim.plays, path)
  os.remove(path)
  if not ok then return nil end
  local list = {}
  for play in plays:each() do list[#list + 1] = play end
  local config = complete(case.config, DEFAULTS)
  config.profile = complete(config.profile, PROFILE)
  return twin.run(list, config, case.u, case.server)
end

--- Marks some of the requests that the twin saw as failing, so that failures fall on real ones.
local function with_failures(case, expect)
  if #(expect.dispatch or {}) == 0 or not chance(30) then return expect end
  case.server.fail = {}
  for _ = 1, random(3) do case.server.fail[#case.server.fail + 1] = pick(expect.dispatch)[1] end
  return expectation(case)
end

local PARTS <const> = { "failed", "dispatch", "phases", "shifts", "plays", "counts", "observation" }

local function differs(expect, got)
  if expect.refused or got.refused then
    if (expect.refused or false) ~= (got.refused or false) then
      return ("refused: want %s, have %s (%s)"):format(expect.refused, got.refused, got.error)
    end
    return nil
  end
  for _, part in ipairs(PARTS) do
    if expect[part] ~= nil then
      local difference = support.difference(expect[part], got[part], part)
      if difference then return difference end
    end
  end
end

local function load_cases(path)
  local file <close> = assert(io.open(path))
  local cases = {}
  for _, vector in ipairs(cjson.decode(file:read "a").vectors) do cases[#cases + 1] = vector end
  return cases
end

--- null counts as absent.
local function without_null(value)
  if type(value) ~= "table" then return value end
  local out = {}
  for key, item in pairs(value) do
    if item ~= cjson.null then out[key] = without_null(item) end
  end
  return out
end

local function compare(cases, expects)
  local path = support.json_file { vectors = cases }
  local lines, trouble = support.json_lines(support.quote(driver) .. " " .. support.quote(path))
  os.remove(path)
  if not lines or #lines ~= #cases then
    error(("the driver answered %d of %d: %s"):format(lines and #lines or 0, #cases, trouble))
  end
  local bad = 0
  for i, case in ipairs(cases) do
    local got = without_null(lines[i])
    local difference = differs(expects[i], got)
    if not difference and options.vectors then
      local given = without_null(case.expect)
      if not given.refused then difference = differs(given, expects[i]) end
    end
    if difference then
      bad = bad + 1
      case.expect = expects[i]
      print(case.name .. ": " .. difference)
      if bad == 1 then print(cjson.encode(case)) end
    end
  end
  return bad
end

local totals, seen, refused, bad = 0, {}, 0, 0

local function note(expect)
  totals = totals + 1
  if expect.refused then refused = refused + 1 end
  for name, n in pairs(expect.counts or {}) do seen[name] = (seen[name] or 0) + (n > 0 and 1 or 0) end
  for _, shift in ipairs(expect.shifts or {}) do
    local name = shift.scope == "global" and "global shifts" or "tree shifts"
    seen[name] = (seen[name] or 0) + 1
  end
  if expect.failed then seen["failed preparations"] = (seen["failed preparations"] or 0) + 1 end
end

local cases, expects = {}, {}

local function flush()
  bad = bad + (#cases > 0 and compare(cases, expects) or 0)
  cases, expects = {}, {}
end

local given = options.vectors and load_cases(options.vectors)
for number = 1, given and #given or options.count do
  local case = given and given[number] or made_case(number)
  local expect = expectation(case)
  if expect then
    if not given then expect = with_failures(case, expect) end
    note(expect)
    cases[#cases + 1], expects[#expects + 1] = case, expect
    if #cases == 100 then flush() end
  end
end
flush()

local names = {}
for name, n in pairs(seen) do names[#names + 1] = ("%s %d"):format(name, n) end
table.sort(names)
print(("%d workloads, %d refused; cases with: %s"):format(totals, refused, table.concat(names, ", ")))
print(("%d differences"):format(bad))
if not given then
  -- a generator that no longer reaches the rules would compare nothing
  local floor = options.count // 50
  for _, name in ipairs { "cancelled", "failed", "in_flight", "plays_failed", "plays_client_completed", "unsettled",
    "never_issued", "primer_requests", "warmup_requests", "global shifts", "tree shifts" } do
    if (seen[name] or 0) < floor then
      print(("%s: in %d cases only, %d expected"):format(name, seen[name] or 0, floor))
      bad = bad + 1
    end
  end
end
os.exit(bad == 0 and 0 or 1)
