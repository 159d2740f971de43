-- luacheck: no max line length (rows of files)
-- Trace files as traffic: aisim.trace (spec/traffic.md §3.1, §3.3). Times are exact: passes cost nothing but
-- a fixed 10 ms, so arrivals can be read off.
local aisim = require "aisim"

local folder = os.tmpname()
os.remove(folder)

local function file_of(name, text)
  local path = folder .. "/" .. name
  local file <close> = assert(io.open(path, "wb"))
  file:write(text)
  return path
end

--- Runs a trace; returns arrivals { at, prompt, reused } in order.
local function run(options, blocks)
  local sim = aisim.new { seed = 1 }
  sim:pool { engine = {
    model = "llama-3.1-8b", timing = { type = "fixed", prefill_ms = 10, decode_ms = 10 },
    kv_cache = { block_size = 16, capacity = { type = "fixed", blocks = blocks or 10000 } },
  } }
  sim:workload(aisim.trace(options))
  local list = {}
  sim:on("request.arrive", function(t, _, prompt) list[#list + 1] = { t, prompt } end)
  local result = sim:run()
  return list, result
end

--- The message with its place (error_matches cuts it off).
local function failure(options) return tostring(select(2, pcall(run, options))) end

local function times(list)
  local out = {}
  for i, item in ipairs(list) do out[i] = item[1] end
  return out
end

describe("aisim.trace", function()
  setup(function() os.execute("mkdir " .. folder) end)
  teardown(function() os.execute("rm -rf " .. folder) end)

  local MOONCAKE <const> = '{"timestamp":1000,"input_length":64,"output_length":1,"hash_ids":[0,1,2,3]}\n'
    .. '{"timestamp":1500,"input_length":80,"output_length":1,"hash_ids":[0,1,2,3,4]}\n'
    .. '{"timestamp":4000,"input_length":64,"output_length":1,"hash_ids":[9,1,2,3]}\n'

  it("keeps the recorded times, from the first row on", function()
    local list = run { path = file_of("a.jsonl", MOONCAKE), block_size = 16 }
    assert.same({ 0, 500, 3000 }, times(list))
  end)

  it("divides times by speedup", function()
    assert.same({ 0, 125, 750 }, times(run { path = file_of("a.jsonl", MOONCAKE), block_size = 16, speedup = 4 }))
  end)

  it("takes a window and a limit", function()
    assert.equal(1, #run { path = file_of("a.jsonl", MOONCAKE), from_ms = 2000, block_size = 16 })
    assert.equal(2, #run { path = file_of("a.jsonl", MOONCAKE), limit = 2, block_size = 16 })
  end)

  it("shares what equal ids behind an equal prefix stand for", function()
    local _, result = run { path = file_of("a.jsonl", MOONCAKE), block_size = 16 }
    assert.near(64 / 208, result.metrics.first_admission_prefix_cache_reused_ratio, 1e-9)
    assert.near(64 / 208, result.metrics.ideal_reuse_ratio, 1e-9)
  end)

  it("keeps n in flight with concurrency, whatever the times", function()
    assert.same({ 0, 10, 20 }, times(run { path = file_of("a.jsonl", MOONCAKE), block_size = 16, concurrency = 1 }))
  end)

  it("starts units at arrivals of another process", function()
    local list = run { path = file_of("a.jsonl", MOONCAKE), block_size = 16,
      arrivals = aisim.arrivals.constant_rate { rate = 10 } }
    assert.same({ 0, 100, 200 }, times(list))
  end)

  it("sorts a file that is not in order of time", function()
    local rows = '{"timestamp":900,"input_length":3,"output_length":1}\n{"timestamp":100,"input_length":1,"output_length":1}\n'
      .. '{"timestamp":500,"input_length":2,"output_length":1}\n'
    assert.same({ { 0, 1 }, { 400, 2 }, { 800, 3 } }, run { path = file_of("b.jsonl", rows) })
  end)

  it("sends a turn after the one before it and its delay", function()
    local rows = '{"session_id":"s","timestamp":0,"input_length":16,"output_length":3}\n'
      .. '{"session_id":"s","delay":100,"input_length":32,"output_length":1}\n'
    assert.same({ 0, 130 }, times(run { path = file_of("c.jsonl", rows) }))
  end)

  it("keeps the ids of the file: records are sorted by them, hooks see numbers", function()
    local rows = '{"request_id":"c","session_id":"talk","timestamp":0,"input_length":16,"output_length":3}\n'
      .. '{"request_id":"a","session_id":"talk","delay":100,"input_length":32,"output_length":1}\n'
      .. '{"request_id":"b","timestamp":50,"input_length":32,"output_length":1}\n'
    local list, result = run { path = file_of("ids.jsonl", rows) }
    assert.equal(3, #list)
    local path = os.tmpname()
    result:jsonl(path)
    local lines = {}
    for line in io.lines(path) do lines[#lines + 1] = aisim.json.decode(line, "line") end
    os.remove(path)
    for i, expected in ipairs { { "a", "talk", "talk", 1 }, { "b", aisim.json.null, aisim.json.null, 0 },
      { "c", "talk", "talk", 0 } } do
      local r = lines[i]
      assert.same(expected, { r.request_id, r.session_id, r.root_session_id, r.turn })
    end
    assert.same({ "c", 1, "talk" }, { result.requests[1].request_id, result.requests[1].id,
      result.requests[1].session_id })
    assert.equal(1, math.tointeger(result.requests[1].id))
  end)

  it("mooncake-delta: a prompt is the one before, its answer and what is new", function()
    local rows = '{"session_id":"s","timestamp":0,"input_length":64,"output_length":16}\n'
      .. '{"session_id":"s","delay":5,"input_length":32,"output_length":1}\n'
    local list, result = run { path = file_of("d.jsonl", rows), format = "mooncake-delta" }
    assert.same({ { 0, 64 }, { 165, 112 } }, list)
    assert.near(64 / 176, result.metrics.first_admission_prefix_cache_reused_ratio, 0.1)
  end)

  it("applied_compute_agentic: num_turns + 1 requests that grow", function()
    local row = '{"num_turns":2,"input_prompt_length":16,"assistant_response_length":[4,4],"tool_call_output_length":[8,8],'
      .. '"tool_call_latency":[0.5,0.25],"final_assistant_response_length":2}\n'
    local list = run { path = file_of("e.jsonl", row), concurrency = 1 }
    assert.same({ { 0, 16 }, { 540, 28 }, { 830, 40 } }, list)
    assert.error_matches(function() run { path = file_of("e.jsonl", row) } end, "no timestamps")
  end)

  it("agentic_mooncake: nodes wait for one another and for their time", function()
    local rows = '{"schema":"dynamo.agentic_mooncake","version":2,"block_size":16,"hash_id_scope":"local","source":{}}\n'
      .. '{"request_id":"a","play_id":"p","input_length":16,"output_length":1,"hash_ids":[1],"not_before_ms":50}\n'
      .. '{"request_id":"b","play_id":"p","input_length":32,"output_length":1,"hash_ids":[1,2],"not_before_ms":50,'
      .. '"dependencies":[{"request_id":"a","trigger":"completion","delay_ms":5,"relation":"sequence"}]}\n'
      .. '{"request_id":"a","play_id":"q","input_length":16,"output_length":1,"hash_ids":[1],"not_before_ms":200}\n'
    local list = run { path = file_of("f.jsonl", rows) }
    assert.same({ 0, 15, 150 }, times(list))
  end)

  it("dynamo: plain events in order of their start", function()
    local function event(id, at, total)
      return ('{"event":{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":%d,"request":'
        .. '{"request_id":"%s","output_tokens":1,"request_received_ms":%d,"total_time_ms":%d,"replay":{"trace_block_size":16,'
        .. '"input_length":32,"input_sequence_hashes":[18446744073709551614,7]}}}}\n'):format(at + total, id, at, total)
    end
    assert.same({ 0, 30 }, times(run { path = file_of("g.jsonl", event("b", 1030, 5) .. event("a", 1000, 90)) }))
  end)

  it("dynamo: a child session starts after its tool and joins the parent", function()
    local function event(id, session, parent, at, total)
      return ('{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":%d,"agent_context":'
        .. '{"session_id":"%s"%s},"request":{"request_id":"%s","output_tokens":1,"request_received_ms":%d,"total_time_ms":%d,'
        .. '"replay":{"trace_block_size":16,"input_length":32,"input_sequence_hashes":[1,2]}}}\n'):format(at + total,
        session, parent and (',"parent_session_id":"%s"'):format(parent) or "", id, at, total)
    end
    local tool = '{"schema":"dynamo.request.trace.v1","event_type":"tool_end","event_time_unix_ms":1500,"agent_context":'
      .. '{"session_id":"main"},"tool":{"tool_call_id":"t","tool_class":"Task","claude":{"source_request_id":"a",'
      .. '"consumer_request_id":"c","child_session_id":"child","execution_mode":"foreground"}}}\n'
    local path = file_of("h.jsonl", event("a", "main", nil, 1000, 100) .. event("b", "child", "main", 1200, 300)
      .. tool .. event("c", "main", nil, 1600, 10))
    local plays = require("aisim.core").trace_plays({ path }, {})
    assert.equal(1, #plays)
    local edges = {}
    for i, request in ipairs(plays[1].requests) do
      for _, edge in ipairs(request.after) do
        edges[#edges + 1] = ("%d>%d %s %s %g"):format(edge.source, i, edge.relation, edge.trigger, edge.delay_ms)
      end
    end
    assert.same({ "1>2 spawn completion 100", "1>3 sequence completion 500", "2>3 join completion 100" }, edges)
  end)

  it("azure and burstgpt: columns by name, compressed or not", function()
    local azure = "ContextTokens,TIMESTAMP,GeneratedTokens\r\n100,2023-11-16 23:59:59.5000000,1\r\n200,2023-11-17 00:00:00.7500000,1"
    assert.same({ { 0, 100 }, { 1250, 200 } }, run { path = file_of("i.csv", azure) })
    os.execute(("gzip -kf %s/i.csv"):format(folder))
    assert.same({ { 0, 100 }, { 1250, 200 } }, run { path = folder .. "/i.csv.gz" })
    local burst = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
      .. "5,,1,M,10,1,11,API log\n6,,1,M,20,0,20,API log\n7,,1,M,30,1,31,API log\n"
    assert.same({ { 0, 10 }, { 2000, 30 } }, run { path = file_of("j.csv", burst) })
  end)

  it("mooncake-delta: recorded tokens of an answer are content that others find", function()
    local function session(name, at, tokens)
      return ('{"session_id":"%s","timestamp":%d,"input_length":32,"output_length":16,"hash_ids":[7,8]%s}\n'
        .. '{"session_id":"%s","delay":0,"input_length":16,"output_length":1,"hash_ids":[9]}\n'):format(name, at, tokens, name)
    end
    local function reuse(first, second)
      local text = session("a", 0, first) .. session("b", 5000, second)
      local _, result = run { path = file_of("k.jsonl", text), format = "mooncake-delta", block_size = 16 }
      return result.metrics.prefix_cache_reused_ratio * result.metrics.total_input_tokens
    end
    local one = ',"output_token_ids":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,99]'
    local other = ',"output_token_ids":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,98]'
    local without = reuse("", "") -- own prompt: 32; the other's prompt: 16 and 32
    assert.equal(without, reuse(one, other))
    -- the answer, and the block behind it but for the last token of the prompt
    assert.equal(without + 16, reuse(one, one))
    local path = file_of("l.jsonl", '{"timestamp":0,"input_length":4,"output_length":2,"output_token_ids":[1]}\n')
    assert.matches("l.jsonl:1: field 'output_token_ids' has 1 ids, expected one per output token %(2%)",
      failure { path = path })
  end)

  it("refuses fields of a router's queue by name, with their line", function()
    local function row(extra) return '{"timestamp":0,"input_length":4,"output_length":2' .. extra .. '}\n' end
    assert.equal(2, #run { path = file_of("m.jsonl", row '' .. row ',"strict_priority":0,"policy_class":null') })
    for field, value in pairs { strict_priority = "3", policy_class = '"gold"' } do
      local path = file_of("m.jsonl", row '' .. row((',"%s":%s'):format(field, value)))
      assert.matches(("m.jsonl:2: known, not modelled: field '%s' = "):format(field), failure { path = path })
    end
  end)

  local SESSIONS <const> = '{"session_id":"s","timestamp":0,"input_length":16,"output_length":1}\n'
    .. '{"session_id":"t","timestamp":0,"input_length":17,"output_length":1}\n'
    .. '{"session_id":"s","delay":100,"input_length":32,"output_length":1}\n'
    .. '{"session_id":"t","delay":100,"input_length":33,"output_length":1}\n'
    .. '{"session_id":"u","timestamp":700,"input_length":18,"output_length":1}\n'

  it("starts at most so many sessions, whose turns all come", function()
    local list = run { path = file_of("n.jsonl", SESSIONS), sessions = 1 }
    assert.same({ { 0, 16 }, { 110, 32 } }, list)
    list = run { path = file_of("n.jsonl", SESSIONS), sessions = 2, concurrency = 2 }
    assert.same({ { 0, 16 }, { 0, 17 }, { 110, 32 }, { 110, 33 } }, list)
    assert.equal(3, #run { path = file_of("n.jsonl", SESSIONS), requests = 3 })
  end)

  it("lets users think instead of the recorded delays", function()
    local list = run { path = file_of("n.jsonl", SESSIONS), users = 1, think_ms = 5 }
    assert.same({ { 0, 16 }, { 15, 32 }, { 30, 17 }, { 45, 33 }, { 60, 18 } }, list)
  end)

  it("fills a part of the KV capacity", function()
    local rows = ""
    for _ = 1, 40 do rows = rows .. '{"timestamp":0,"input_length":60,"output_length":8}\n' end
    local list = run({ path = file_of("o.jsonl", rows), kv_capacity_fraction = 0.5 }, 16) -- 256 tokens; 64 each
    assert.same({ 0, 0 }, { list[1][1], list[2][1] })
    assert.is_true(list[3][1] > 0)
  end)

  it("has a warmup with a barrier, at its own times too", function()
    local sim = aisim.new { seed = 1 }
    sim:pool { engine = { model = "llama-3.1-8b", timing = { type = "fixed", prefill_ms = 10, decode_ms = 10 },
      kv_cache = { block_size = 16, capacity = { type = "fixed", blocks = 100 } } } }
    sim:workload(aisim.trace { path = file_of("n.jsonl", SESSIONS), warmup = { requests = 2, barrier = true } })
    local at = {}
    sim:on("request.arrive", function(t) at[#at + 1] = t end)
    local m = sim:run().metrics
    assert.same({ 0, 0, 110, 110, 700 }, at)
    assert.equal(2, m.preparation_requests)
    assert.equal(3, m.completed_requests)
  end)

  it("reads long lists of ids in runs, and speaks of them as they stand in the file", function()
    local function row(last, extra)
      local ids = {}
      for i = 1, 2000 do ids[i] = i < 1500 and i or 10 * i end
      ids[2000] = last
      return ('{"timestamp":0,"input_length":32000,"output_length":1%s,"hash_ids":[%s]}\n'):format(extra or "",
        table.concat(ids, ","))
    end
    local runs = { "1,1499" }
    for i = 1500, 2000 do runs[#runs + 1] = 10 * i .. ",1" end
    local coded = ('{"timestamp":0,"input_length":32000,"output_length":1,"hash_runs":[%s]}\n'):format(
      table.concat(runs, ","))
    local function reuse(second)
      local _, result = run { path = file_of("p.jsonl", row(20000) .. second), block_size = 16 }
      return result.metrics.ideal_reuse_ratio * result.metrics.total_input_tokens
    end
    assert.equal(31984, reuse(row(20000))) -- the last token is always computed
    assert.equal(31984, reuse(coded))
    assert.equal(31984, reuse(row(20001)))
    assert.matches("q.jsonl:1: element 1999 of 'hash_ids' is %-5, expected a whole number >= 0",
      failure { path = file_of("q.jsonl", row(-5)), block_size = 16 })
    assert.matches("q.jsonl:1: 'hash_ids' has 2000 ids, but 32000 tokens are 1000 blocks of 32",
      failure { path = file_of("q.jsonl", row(20000)), block_size = 32 })
    assert.matches("q.jsonl:1: field 'output_length' missing; keys found: timestamp, input_length, hash_ids",
      failure { path = file_of("q.jsonl", (row(20000):gsub('"output_length":1,', ""))), block_size = 16 })
    assert.matches("q.jsonl:1: fields 'hash_ids' and 'hash_runs' say the same thing; give one",
      failure { path = file_of("q.jsonl", row(20000, ',"hash_runs":[1,2]')), block_size = 16 })
  end)

  it("refuses speedup with concurrency and unknown keys", function()
    assert.error_matches(function() aisim.trace { path = "x", concurrency = 1, speedup = 2 } end, "no effect with concurrency")
    assert.error_matches(function() aisim.trace { path = "x", spedup = 2 } end, "did you mean 'speedup'")
    assert.error_matches(function() aisim.trace { path = "x", kv_capacity_fraction = 1, speedup = 2 } end,
      "aisim.trace.speedup: has no effect with kv_capacity_fraction")
    assert.error_matches(function() aisim.trace { path = "x", think_ms = 1 } end, "think_ms: has no effect without users")
  end)
end)
