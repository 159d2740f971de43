-- luacheck: no max line length (one broken line per row)
-- Broken trace lines: each one clear error, exit status 2 (spec/cli.md: errors of traces).
local program = os.getenv "AISIM" or "build/aisim"

local function play(request, rest)
  return '{"id":"p","block_size":64,"hash_id_scope":"local","requests":[' .. request .. "]" .. (rest or "") .. "}"
end
local function request(fields) return '{"t":0,"type":"n","model":"m","in":100,"out":5,"hash_ids":[0]' .. fields .. "}" end
local ROW <const> = '{"timestamp":0,"input_length":1000,"output_length":5,"hash_ids":[0,1]}\n'
local HEADER <const> = '{"schema":"dynamo.agentic_mooncake","version":2,"block_size":64,"hash_id_scope":"local",'
  .. '"source":{"format":"x","digest":"y"}}\n'

local function node(id, rest)
  return ('{"request_id":"%s","play_id":"p","input_length":64,"output_length":1,"hash_ids":[1],"not_before_ms":0%s}\n')
    :format(id, rest or "")
end
local function after(id, trigger)
  return (',"dependencies":[{"request_id":"%s","trigger":"%s","delay_ms":0,"relation":"sequence"}]'):format(id,
    trigger or "completion")
end
local function event(fields)
  return '{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":10,' .. fields .. "}\n"
end
local REQUEST <const> = '"request":{"request_id":"%s","output_tokens":1,"request_received_ms":0,'
  .. '"replay":{"trace_block_size":4,"input_length":4,"input_sequence_hashes":[1]}}'

-- what is broken, the end of the file's name, the text, a part of the message, the line
local BROKEN <const> = {
  { "truncated play", "jsonl", play(request ""):sub(1, 60), "not a JSON object", 1 },
  { "truncated row in the middle", "jsonl", ROW .. ROW:sub(1, 30) .. "\n" .. ROW, "not a JSON object", 2 },
  { "array for a row", "jsonl", ROW .. "[1,2]\n", "expected one JSON object per line", 2 },
  { "text for a row", "jsonl", ROW .. '"x"\n', "not a JSON object", 2 },
  { "missing length", "jsonl", ROW .. '{"timestamp":1,"output_length":5}\n', "field 'input_length' missing; keys found: timestamp, output_length", 2 },
  { "missing output", "jsonl", ROW .. '{"timestamp":1,"input_length":5}\n', "field 'output_length' missing; keys found", 2 },
  { "length as text", "jsonl", '{"timestamp":0,"input_length":"10","output_length":5}\n', "field 'input_length' is \"10\"", 1 },
  { "negative length", "jsonl", '{"timestamp":0,"input_length":-1,"output_length":5}\n', "field 'input_length' is -1", 1 },
  { "fraction of a token", "jsonl", '{"timestamp":0,"input_length":1.5,"output_length":5}\n', "field 'input_length' is 1.5", 1 },
  { "huge length", "jsonl", '{"timestamp":0,"input_length":5000000000,"output_length":5}\n', "field 'input_length' is 5000000000", 1 },
  { "negative time", "jsonl", '{"timestamp":-3,"input_length":1,"output_length":5}\n', "field 'timestamp' is -3", 1 },
  { "time not a number", "jsonl", '{"timestamp":NaN,"input_length":1,"output_length":5}\n', "not a JSON object", 1 },
  { "infinite time", "jsonl", '{"timestamp":1e400,"input_length":1,"output_length":5}\n', "not a JSON object", 1 },
  { "time as text", "jsonl", '{"timestamp":"soon","input_length":1,"output_length":5}\n', "field 'timestamp' is \"soon\"", 1 },
  { "negative block id", "jsonl", '{"timestamp":0,"input_length":600,"output_length":5,"hash_ids":[0,-1]}\n', "element 1 of 'hash_ids' is -1", 1 },
  { "block id as text", "jsonl", '{"timestamp":0,"input_length":600,"output_length":5,"hash_ids":[0,"b"]}\n', "element 1 of 'hash_ids' is \"b\"", 1 },
  { "block ids no list", "jsonl", '{"timestamp":0,"input_length":600,"output_length":5,"hash_ids":7}\n', "field 'hash_ids' is 7", 1 },
  { "mixed block sizes", "jsonl", ROW:rep(120) .. '{"timestamp":0,"input_length":64,"output_length":5,"hash_ids":[0,1,2,3]}\n', "'hash_ids' has 4 ids, but 64 tokens are 1 blocks", 121 },
  { "a key twice", "jsonl", '{"timestamp":0,"timestamp":1,"input_length":1,"output_length":5}\n', "duplicate", 1 },
  { "a request id twice", "jsonl", '{"request_id":"a","timestamp":0,"input_length":1,"output_length":5}\n'
    .. '{"request_id":"a","timestamp":0,"input_length":1,"output_length":5}\n', "request id 'a' was already used", 2 },
  { "empty file", "jsonl", "", "empty" },
  { "blank lines only, CRLF", "jsonl", "\r\n\r\n", "empty" },
  { "byte order mark and nothing", "jsonl", "\239\187\191", "empty" },
  { "no known format", "jsonl", '{"hello":1}\n', "no known format", 1 },
  { "CSV of unknown columns", "csv", "a,b\r\n1,2\r\n", "no known format", 1 },
  { "CSV with a field too few", "csv", "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:17:03.97,5\r\n", "2 fields, expected 3", 2 },
  { "CSV with a date that is none", "csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-13-16 18:17:03,5,1\n", "field 'TIMESTAMP' is '2023-13-16", 2 },
  { "CSV with a length that is none", "csv", "num_prefill_tokens,num_decode_tokens\nx,1\n", "field 'num_prefill_tokens' is 'x'", 2 },
  { "CSV with an empty length", "csv", "num_prefill_tokens,num_decode_tokens\n5,\n", "field 'num_decode_tokens' missing; keys found", 2 },
  { "CSV with a time that is not finite", "csv", "Timestamp,Request tokens,Response tokens\ninf,1,1\n", "field 'Timestamp' is 'inf'", 2 },
  { "play with an unknown status", "jsonl", play(request "" .. ',{"t":1,"type":"subagent","agent_id":"a","status":"paused","requests":[' .. request "" .. "]}"), "field 'status' is \"paused\"", 1 },
  { "play with a second block size", "jsonl", play(request "") .. "\n" .. play(request ""):gsub('"p"', '"q"'):gsub("64", "32"), "field 'block_size' is 32", 2 },
  { "play id twice", "jsonl", play(request "") .. "\n" .. play(request ""), "play id 'p' was already used", 2 },
  { "play with both kinds of ids", "jsonl", play(request ',"hash_runs":[0,1]'), "either 'hash_ids' or 'hash_runs'", 1 },
  { "play with a negative time", "jsonl", play(((request ""):gsub('"t":0', '"t":-1'))), "field 't' is -1", 1 },
  { "play without requests", "jsonl", play "", "no model request", 1 },
  { "graph in a circle", "jsonl", HEADER .. node "r" .. node("a", after "b") .. node("b", after "a"), "wait for one another in a circle", 2 },
  { "graph with an unknown id", "jsonl", HEADER .. node("a", after "nobody"), "waits for 'nobody', which is not in the trace", 2 },
  { "graph with a node for itself", "jsonl", HEADER .. node "r" .. node("a", after "a"), "request 'a' waits for itself", 3 },
  { "graph with an id twice", "jsonl", HEADER .. node "a" .. node "a", "request id 'a' was already used", 3 },
  { "graph with an unknown trigger", "jsonl", HEADER .. node "r" .. node("a", after("r", "later")), "field 'trigger'", 3 },
  { "graph of another version", "jsonl", (HEADER:gsub('"version":2', '"version":7')) .. node "a", "field 'version': 2 expected", 1 },
  { "events with context on some", "jsonl", event(REQUEST:format "a") .. event('"agent_context":{"session_id":"s"},' .. REQUEST:format "b"), "1 of 2 requests have an agent_context" },
  { "event of an unknown type", "jsonl", event(REQUEST:format "a") .. '{"event_type":"coffee"}\n', "field 'event_type' is 'coffee'", 2 },
  { "session of the wrong length", "jsonl", '{"num_turns":2,"input_prompt_length":4,"assistant_response_length":[1],'
    .. '"tool_call_output_length":[1,1],"tool_call_latency":[0,0],"final_assistant_response_length":1}\n', "field 'assistant_response_length': array of 2 numbers expected", 1 },
  { "compressed and cut off", "jsonl.gz", "\31\139\8\0\0\0\0\0\0\3\171", "cannot be read" },
}

describe("a broken trace line", function()
  local folder = os.tmpname()
  os.remove(folder)
  os.execute("mkdir " .. folder)

  teardown(function() os.execute("rm -rf " .. folder) end)

  for i, case in ipairs(BROKEN) do
    it(("%d: %s gives one error and status 2"):format(i, case[1]), function()
      local path = ("%s/t%d.%s"):format(folder, i, case[2])
      local file <close> = assert(io.open(path, "wb"))
      file:write(case[3])
      file:close()
      local pipe = io.popen(("%s trace %s 2>&1; echo status $?"):format(program, path))
      local output = pipe:read "a"
      pipe:close()
      local text, status = output:match "^(.*)\nstatus (%d+)\n$"
      assert.equal("2", status, output)
      assert.is_nil(text:find("\n", 1, true), "more than one line: " .. text)
      assert.is_truthy(text:find(case[4], 1, true), text)
      if case[5] then assert.equal(path .. ":" .. case[5], text:match "^([^:]+:%d+)", text) end
    end)
  end
end)
