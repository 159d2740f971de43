--- Every key of `traffic` in a file changes a run or is refused (config: "a value that could do nothing is an error").
-- The walk goes over the rows of the schema, so a new row without an entry here fails.
--
-- An entry: values = texts of YAML that must all give different reports (ABSENT = key left out); on = the file
-- they are laid over (below); with = further --set arguments; refused = { value, text of the error }.
local core = require "aisim.core"

local program = os.getenv "AISIM" or "build/aisim"
local folder = os.tmpname()
os.remove(folder)

local ABSENT <const> = "ABSENT"

local ENGINE <const> = [[
engine:
  model: llama-3.1-8b
  workers:
    aggregated:
      scheduler: {max_sequences: 4}
      kv_cache: {block_size: 16, capacity: {type: fixed, blocks: 200}}
      timing: {type: fixed, prefill_ms: 10, decode_ms: 5}
]]

local function request(t, input, extra)
  local ids = {}
  for i = 1, input // 16 do ids[i] = i end
  return ('{"t":%g,"type":"n","model":"m","in":%d,"out":6,"hash_ids":[%s],"api_time":1%s}'):format(t, input,
    table.concat(ids, ","), extra or "")
end

local function play(id, start)
  local child = ('{"t":%g,"type":"subagent","agent_id":"c","status":"completed","duration_ms":2500,"requests":[%s]}')
    :format(start + 4, request(start + 4.2, 40))
  local requests = { request(start, 40), request(start + 2, 72), child, request(start + 30, 100),
    request(start + 400, 150), request(start + 1400, 170) }
  return ('{"id":"%s","models":["m"],"block_size":16,"hash_id_scope":"local","tool_tokens":16,"system_tokens":16,'
    .. '"requests":[%s]}'):format(id, table.concat(requests, ","))
end

local FILES <const> = {
  ["plays.jsonl"] = play("p", 0) .. "\n" .. play("q", 3) .. "\n" .. play("r", 5) .. "\n",
  ["rows.jsonl"] = '{"timestamp":0,"input_length":40,"output_length":6,"hash_ids":[1,2,3]}\n'
    .. '{"timestamp":400,"input_length":60,"output_length":6,"hash_ids":[1,2,3,4]}\n'
    .. '{"timestamp":900,"input_length":80,"output_length":6,"hash_ids":[1,2,3,4,5]}\n',
}

local REQUESTS <const> = [[
traffic:
  source: {input_tokens: 100, output_tokens: 8}
  load: {type: concurrency, concurrency: 3}
  stop: {requests: 20}
]]
local SESSIONS <const> = [[
traffic:
  source: {type: synthetic-session, new_input_tokens_per_turn: 60, output_tokens_per_turn: 8}
  load: {type: concurrency, concurrency: 3}
  stop: {sessions: 6}
]]
local AGENT <const> = [[
traffic:
  source: {type: agent, task: 60, steps: 3, output: 8, tool_ms: 20, tool_tokens: 30, system: {tokens: 100}}
  load: {type: concurrency, concurrency: 3}
  stop: {sessions: 6}
]]
local CODE <const> = [[
traffic:
  source: {type: agentic-code, global_tokens: 64, groups: 2, group_tokens: 64, session_tokens: 40, new_tokens: 20,
           output: 8, turn_gap_ms: 20, reset: 0.3, restart: 0.2}
  load: {type: concurrency, concurrency: 3}
  stop: {sessions: 12}
]]
local ROWS <const> = [[
traffic:
  source: {type: trace, format: mooncake, paths: [rows.jsonl], block_size: 16}
  load: {type: trace_timestamps}
]]
local PLAYS <const> = [[
traffic:
  source: {type: trace, format: weka, paths: [plays.jsonl]}
  load: {type: trace_timestamps}
]]
local LANES <const> = [[
traffic:
  source: {type: trace, format: weka, paths: [plays.jsonl]}
  load: {type: trace_timestamps, agentic_lanes: 2, agentic_snapshot: {seed: 1}, agentic_warmup: true,
         agentic_profile: {duration_seconds: 30}}
]]

local function load_of(shape) return "traffic.load={type: " .. shape .. "}" end

local RATE <const> = load_of "poisson"
local RAMP <const> = "[{seconds: 0, requests_per_second: %d}, {seconds: 2, requests_per_second: 30}]"
local SQUARE <const> = load_of "square, base: 5, amplitude: 20, period_ms: 500"

local OPTIONS <const> = {
  ["source.type"] = { values = { "synthetic", "trace" }, on = ROWS, refused_values = true },
  ["source.input_tokens"] = { values = { 50, 100, "{normal: {mean: 100, std: 30}}" } },
  ["source.output_tokens"] = { values = { 8, "{uniform: [2, 20]}" } },
  ["source.prefix.groups"] = { values = { 1, 4 }, with = { "traffic.source.prefix.tokens=64" } },
  ["source.prefix.tokens"] = { values = { 32, 64 }, with = { "traffic.source.prefix.groups=2" } },
  ["source.prefix.zipf"] = { values = { 0, 3 }, with = { "traffic.source.prefix={groups: 4, tokens: 64}" } },
  ["source.prefix.weights"] = { values = { "[1, 1]", "[0, 1]" },
    with = { "traffic.source.prefix={groups: 2, tokens: 64}" } },
  ["source.format"] = { values = { "mooncake", "mooncake-delta", "lengths" }, on = ROWS, refused_values = true,
    with = { "traffic.load={type: concurrency, concurrency: 1}" } },
  ["source.paths"] = { values = { "[rows.jsonl]", "[rows.jsonl, rows.jsonl]" }, on = ROWS },
  ["source.block_size"] = { refused = { 32, "another block size" }, on = ROWS },
  ["source.nested_timestamp_basis"] = { values = { "absolute", "relative" }, on = PLAYS },
  ["source.align_inputs"] = { values = { "false", "floor", "ceil" }, on = PLAYS },
  ["source.new_input_tokens_per_turn"] = { values = { 60, 90 }, on = SESSIONS },
  ["source.output_tokens_per_turn"] = { values = { 8, 9 }, on = SESSIONS },
  ["source.session.turns"] = { values = { 4, 2, "{uniform: [1, 6]}" }, on = SESSIONS },
  ["source.session.shared_prefix_ratio"] = { values = { 0.3, 0.9 }, on = SESSIONS,
    with = { "traffic.source.session.prefix_groups=2" } },
  ["source.session.prefix_groups"] = { values = { 1, 6 }, on = SESSIONS,
    with = { "traffic.source.session.shared_prefix_ratio=0.8" } },
  ["source.session.inter_turn_delay_ms"] = { values = { 0, 30 }, on = SESSIONS },
  ["source.system.tokens"] = { values = { 100, 160 }, on = AGENT },
  ["source.task"] = { values = { 60, 90, "{uniform: [20, 90]}" }, on = AGENT },
  ["source.steps"] = { values = { 3, 1 }, on = AGENT },
  ["source.output"] = { values = { 8, 12 }, on = AGENT },
  ["source.tool_ms"] = { values = { 20, "1s" }, on = AGENT },
  ["source.tool_tokens"] = { values = { 30, 40 }, on = AGENT },
  ["source.compact.above"] = { values = { 190, "never" }, on = AGENT, with = { "traffic.source.compact.to=10" },
    refused_values = true },
  ["source.compact.to"] = { values = { 10, 20 }, on = AGENT, with = { "traffic.source.compact.above=190" } },
  ["source.global_tokens"] = { values = { 64, 96 }, on = CODE },
  ["source.groups"] = { values = { 1, 6 }, on = CODE },
  ["source.group_tokens"] = { values = { 64, 96 }, on = CODE },
  ["source.group_zipf"] = { values = { ABSENT, 5 }, on = CODE },
  ["source.group_weights"] = { values = { "[1, 0]", "[1, 1]" }, on = CODE },
  ["source.session_tokens"] = { values = { 40, 90 }, on = CODE },
  ["source.new_tokens"] = { values = { 20, 50 }, on = CODE },
  ["source.turn_gap_ms"] = { values = { 20, 60 }, on = CODE },
  ["source.reset"] = { values = { 0.3, 0.9 }, on = CODE },
  ["source.restart"] = { values = { 0, 0.6 }, on = CODE,
    with = { "engine.workers.aggregated.parallelism={replicas: 3}", "router.policy=session" } },
  ["source.max_turns"] = { values = { ABSENT, 1 }, on = CODE },
  ["load.type"] = { values = { "concurrency", "kv_capacity_fraction" }, refused_values = true },
  ["load.concurrency"] = { values = { 1, 2 } },
  ["load.requests_per_second"] = { values = { 5, 20 }, with = { RATE } },
  ["load.sessions_per_second"] = { values = { 5, 20 }, on = SESSIONS, with = { RATE } },
  ["load.smoothness"] = { values = { 1, 9 }, with = { load_of "gamma, requests_per_second: 20" } },
  ["load.size"] = { values = { 2, 5 }, with = { load_of "burst, every_ms: 50" } },
  ["load.every_ms"] = { values = { 50, 150 }, with = { load_of "burst, size: 2" } },
  ["load.points"] = { values = { RAMP:format(5), RAMP:format(1), "[{seconds: 0, concurrency: 2}]" },
    with = { load_of "ramp" } },
  ["load.base"] = { values = { 2, 9 }, with = { load_of "square, amplitude: 20, period_ms: 500" } },
  ["load.amplitude"] = { values = { 5, 20 }, with = { load_of "square, base: 9, period_ms: 500" } },
  ["load.period_ms"] = { values = { 500, 900 }, with = { load_of "square, base: 9, amplitude: 20" } },
  ["load.duty"] = { values = { 0.2, 0.5 }, with = { SQUARE } },
  ["load.fraction"] = { values = { 0.05, 0.2 }, with = { load_of "kv_capacity_fraction" } },
  ["load.users"] = { values = { 1, 3 }, with = { load_of "user_centric, think_ms: 20" } },
  ["load.think_ms"] = { values = { 10, 20 }, with = { load_of "user_centric, users: 2" } },
  ["load.seed"] = { values = { 1, 2 }, with = { load_of "poisson, requests_per_second: 20" } },
  ["load.speedup"] = { values = { 1, 2 }, on = ROWS },
  ["load.from_ms"] = { values = { 0, 300 }, on = ROWS },
  ["load.to_ms"] = { values = { 500, 2000 }, on = ROWS },
  ["load.agentic_lanes"] = { values = { 1, 2 }, on = LANES },
  ["load.agentic_snapshot.seed"] = { values = { 1, 2 }, on = LANES },
  ["load.agentic_snapshot.u"] = { values = { "[0, 0]", "[0.9, 0.9]" }, on = LANES },
  ["load.agentic_t_star"] = { values = { "[0, 0]", "[0.9, 1]" }, on = LANES },
  ["load.agentic_warmup"] = { values = { "true", "false" }, on = LANES },
  ["load.agentic_warmup_requests_per_lane"] = { values = { 1, 2 }, on = LANES },
  ["load.agentic_warmup_mode"] = { words = true, on = LANES },
  ["load.agentic_profile.duration_seconds"] = { values = { 10, 600 }, on = LANES },
  ["load.agentic_profile.response_grace_seconds"] = { values = { 0, 30 }, on = LANES,
    with = { "traffic.load.agentic_profile.duration_seconds=0.005" } },
  ["load.agentic_profile.cancel_drain_seconds"] = { values = { 0, 10 }, on = LANES },
  ["load.agentic_profile.tree_idle_cap_seconds"] = { values = { 1, 300 }, on = LANES,
    with = { "traffic.load.agentic_profile.global_idle_cap_seconds=1000",
      "traffic.load.agentic_profile.duration_seconds=600" } },
  ["load.agentic_profile.global_idle_cap_seconds"] = { values = { 1, 100 }, on = LANES },
  ["load.agentic_authored_gate"] = { values = { "true", "false" }, on = LANES },
  ["load.agentic_cache_identity"] = { words = true, on = LANES },
  ["load.agentic_on_error"] = { words = true, on = LANES, with = { "engine.context_length=110",
    "traffic.load.agentic_warmup=false", "traffic.load.agentic_t_star=[0, 0]",
    "traffic.load.agentic_profile.duration_seconds=2000" } },
  ["stop.requests"] = { values = { 20, 5 } },
  ["stop.requests_per_load_unit"] = { values = { 2, 3 }, without = "{}" },
  ["stop.sessions"] = { values = { 6, 2 }, on = SESSIONS },
  ["stop.sessions_per_load_unit"] = { values = { 1, 2 }, on = SESSIONS, without = "{}" },
  ["stop.tokens"] = { values = { 500, 1000 } },
  ["stop.max_virtual_time_seconds"] = { values = { 0.1, 0.2 } },
  ["stop.max_wall_time_ms"] = { values = { ABSENT, 1 }, with = { "traffic.stop.requests=100000" } },
  ["warmup.requests"] = { values = { 2, 5 } },
  ["warmup.seconds"] = { values = { 0.05, 0.1 } },
  ["warmup.barrier"] = { values = { "false", "true" }, with = { "traffic.warmup.requests=4" } },
}

--- The report without the digest of the configuration and the speed of the machine, or nil and the message.
local function run(entry, path, value)
  local file <close> = assert(io.open(folder .. "/t.yaml", "wb"))
  file:write(entry.on or REQUESTS, ENGINE)
  file:close()
  local sets = {}
  if entry.without then sets[1] = "traffic.stop=" .. entry.without end
  for _, set in ipairs(entry.with or {}) do sets[#sets + 1] = set end
  if value ~= ABSENT then sets[#sets + 1] = ("traffic.%s=%s"):format(path, value) end
  local command = { ("cd %s && %s run t.yaml --format json --quiet"):format(folder, program) }
  for _, set in ipairs(sets) do command[#command + 1] = ("--set '%s'"):format(set) end
  local pipe <close> = io.popen(table.concat(command, " ") .. " 2>&1")
  local text = pipe:read "a"
  if text:sub(1, 1) ~= "{" then return nil, text end
  return (text:gsub('"config_digest":"%x+"', ""):gsub(',"wall":.*', ""))
end

local function makes_a_difference(entry, path, values)
  local seen = {}
  for _, value in ipairs(values) do
    local text, message = run(entry, path, value)
    if not text then assert.is_true(entry.refused_values, ("traffic.%s = %s: %s"):format(path, value, message)) end
    local what = text or message
    assert.is_nil(seen[what], ("traffic.%s = %s and %s give the same report"):format(path, seen[what], value))
    seen[what] = value
  end
end

describe("traffic option", function()
  setup(function()
    os.execute("mkdir " .. folder)
    for name, text in pairs(FILES) do
      local file <close> = assert(io.open(folder .. "/" .. name, "wb"))
      file:write(text)
    end
  end)
  teardown(function() os.execute("rm -rf " .. folder) end)

  local known = {}
  for _, row in ipairs(core.schema "prediction") do
    local path = row.path:match "^traffic%.(.+)$"
    local entry = path and OPTIONS[path]
    if path then known[path] = true end
    if path and row.status == "not_modelled" then
      it(path .. " is refused by name", function()
        local _, message = run({}, path, "{}")
        assert.truthy(message and message:find("known, not modelled: traffic." .. path, 1, true), message)
      end)
    elseif path and row.status == "default_only" then
      it(path .. " is refused with another value than the default", function()
        local _, message = run({}, path, 7)
        assert.truthy(message and message:find("known, not modelled: traffic." .. path, 1, true), message)
      end)
    elseif path and (not row.object or entry) then
      it(path .. " changes a run or is refused", function()
        assert.truthy(entry, path .. ": no entry in tests/spec/traffic_options_spec.lua; does it change anything?")
        if entry.refused then
          local _, message = run(entry, path, entry.refused[1])
          assert.truthy(message and message:find(entry.refused[2], 1, true), message)
          return
        end
        local values = entry.values
        if entry.words then
          values = {}
          for word in row.choices:gmatch "[^|]+" do values[#values + 1] = word end
        end
        makes_a_difference(entry, path, values)
      end)
    end
  end

  it("stop.requests and stop.sessions change a run of plays in lanes too", function()
    makes_a_difference({ on = LANES }, "stop.requests", { 1, 2, ABSENT })
    makes_a_difference({ on = LANES, with = { "traffic.load.agentic_profile.duration_seconds=600",
      "traffic.load.agentic_t_star=[0.9, 1]" } }, "stop.sessions", { 2, 3 })
  end)

  it("entries of this file are all options", function()
    for path in pairs(OPTIONS) do assert.truthy(known[path], path) end
  end)
end)
