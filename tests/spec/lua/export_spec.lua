--- Results in the formats of AIPerf, vLLM's benchmark and vLLM's /metrics (spec/report.md §5).
local support = dofile "tests/spec/lua/support.lua"
local aisim = require "aisim"
local lfs = require "lfs"

--- Four requests: two complete, one is cancelled, one does not fit the context.
local function simulation(options)
  options = options or {}
  local sim, pool = support.cluster(1, { context_length = 64 })
  if options.prepare then options.prepare(sim, pool) end
  sim:submit { at_ms = 0, prompt_tokens = 8, output_tokens = 6 } -- 10 ms, then 4 ms per token: first token at 10
  sim:submit { at_ms = 5, prompt_tokens = 12, output_tokens = 3 }
  sim:submit { at_ms = 6, prompt_tokens = 100, output_tokens = 3 }
  local late = sim:submit { at_ms = 60, prompt_tokens = 8, output_tokens = 30 }
  sim:at(75, function() late:cancel() end)
  return sim
end

local function folder()
  local path = os.tmpname()
  os.remove(path)
  assert(lfs.mkdir(path))
  return path
end

local function read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read "a"
end

local function lines_of(text)
  local list = {}
  for line in text:gmatch "[^\n]+" do list[#list + 1] = aisim.json.decode(line, "line") end
  return list
end

--- The metrics of a Prometheus text: name{labels} -> value, and the kinds of the families.
local function parse(text)
  local values, kinds, order = {}, {}, {}
  for line in text:gmatch "[^\n]*\n" do
    line = line:sub(1, -2)
    local family, kind = line:match "^# TYPE (%S+) (%S+)$"
    if family then
      assert.is_nil(kinds[family], "a family stands once: " .. family)
      kinds[family] = kind
    elseif not line:find "^# HELP %S+ .+" then
      local name, value = line:match '^(vllm:[%w_]+{[%w_]+=".*"}) (%S+)$'
      assert.is_truthy(name, line)
      assert.is_nil(values[name], "a sample stands once: " .. line)
      values[name] = assert(tonumber(value), line)
      order[#order + 1] = name
    end
  end
  return values, kinds, order
end

describe("profile_export.jsonl", function()
  local run = simulation():run()
  local dir = folder()
  run:export("aiperf", dir)
  local records = lines_of(read(dir .. "/profile_export.jsonl"))

  it("has one line per request that ended, in the order of the ends", function()
    local ids = {}
    for i, record in ipairs(records) do ids[i] = record.metadata.x_request_id end
    assert.same({ "3", "2", "1", "4" }, ids)
  end)

  it("has the times of AIPerf in nanoseconds, and its metrics with units", function()
    local first = records[3]
    assert.same({ 0, 40000000, 0, "profiling", false }, { first.metadata.request_start_ns,
      first.metadata.request_end_ns, first.metadata.session_num, first.metadata.benchmark_phase,
      first.metadata.was_cancelled })
    local m = first.metrics
    assert.same({ value = 10, unit = "ms" }, m.time_to_first_token)
    assert.same({ value = 40, unit = "ms" }, m.request_latency)
    assert.same({ value = 6, unit = "ms" }, m.inter_token_latency)
    assert.same({ value = 8, unit = "tokens" }, m.input_sequence_length)
    assert.same({ value = 6, unit = "tokens" }, m.output_sequence_length)
    assert.equal("tokens/sec/user", m.output_token_throughput_per_user.unit)
    assert.equal(aisim.json.null, first.error)
  end)

  it("says why a request did not complete, with the length of its prompt alone", function()
    local rejected, cancelled = records[1], records[4]
    assert.same({ error_isl = { value = 100, unit = "tokens" } }, rejected.metrics)
    assert.same({ code = 400, type = "RequestRejectedError", message = "rejected: context" }, rejected.error)
    assert.same({ 499, "RequestCancellationError", "cancelled after 15 ms" }, { cancelled.error.code,
      cancelled.error.type, cancelled.error.message })
    assert.is_true(cancelled.metadata.was_cancelled)
    assert.equal(75000000, cancelled.metadata.cancellation_time_ns)
  end)

  it("is the same when it streams during the run, and the report with it", function()
    local path = os.tmpname()
    local streamed = simulation():run { requests = { aiperf = path } }
    assert.equal(read(dir .. "/profile_export.jsonl"), read(path))
    assert.equal(run:json(), streamed:json())
  end)

  it("names plays, lanes and turns of agents", function()
    local sim = support.cluster(1, { context_length = 1048576,
      kv_cache = { block_size = 64, capacity = { type = "fixed", blocks = 60000 } },
      scheduler = { max_batched_tokens = 8192, max_sequences = 8 } })
    sim:workload(aisim.agentx { plays = aisim.agentx_synthetic { plays = 4 }, lanes = 2, seed = 3,
      profile = { duration_seconds = 900 } })
    local path = os.tmpname()
    local replay = sim:run { requests = { aiperf = path } }
    local turns, n = {}, 0
    for i, record in ipairs(lines_of(read(path))) do
      local meta, own = record.metadata, replay.requests[#replay.requests - #lines_of(read(path)) + i]
      assert.equal(tostring(own.request_id), meta.x_request_id)
      assert.equal(own.play_id, meta.conversation_id)
      assert.matches("^synthetic%-", own.play_id)
      assert.equal(("%d.%d/%d"):format(own.lane, own.play_ordinal, own.session_id), meta.x_correlation_id)
      assert.is_true(meta.turn_index > (turns[meta.x_correlation_id] or -1), "turns of a session go up")
      turns[meta.x_correlation_id] = meta.turn_index
      n = n + 1
    end
    assert.is_true(n > 10)
    assert.equal(replay.agentx.never_issued, replay.metrics.never_issued)
  end)
end)

describe("profile_export_aiperf.json", function()
  local run = simulation():run()
  local value = aisim.json.decode(run:export "aiperf", "export")

  it("has the distributions of the report under AIPerf's names", function()
    for name, key in pairs { time_to_first_token = "ttft_ms", request_latency = "e2e_ms",
      inter_token_latency = "itl_ms", output_sequence_length = "output_tokens" } do
      for theirs, ours in pairs { avg = "mean", min = "min", max = "max", std = "std", p99 = "p99", count = "n" } do
        assert.near(run.metrics[key .. "." .. ours], value[name][theirs], 1e-9, name .. "." .. theirs)
      end
      assert.near(value[name].avg * value[name].count, value[name].sum, 1e-9)
    end
    assert.equal(run.ttft_ms:p(5), value.time_to_first_token.p5)
  end)

  it("computes rates over first arrival to last answer, as AIPerf does", function()
    assert.same({ unit = "sec", avg = 0.040 }, value.benchmark_duration)
    assert.equal(2 / 0.040, value.request_throughput.avg)
    assert.equal(9 / 0.040, value.output_token_throughput.avg)
    assert.same({ unit = "ns", avg = 40000000 }, value.max_response_timestamp)
  end)

  it("counts errors, and leaves out what does not apply", function()
    assert.same({ unit = "requests", avg = 2 }, value.error_request_count)
    assert.equal(2, #value.error_summary)
    assert.is_nil(value.goodput)
    assert.is_false(value.was_cancelled)
  end)
end)

describe("vllm_bench.json", function()
  it("has vLLM's keys: itl are all token gaps, tpot the mean gap of a request", function()
    local run = simulation { prepare = function(sim)
      sim:slo { ttft_ms = 15 }
      sim:measure { percentiles = { 99.9, 50 } }
    end }:run()
    local value = aisim.json.decode(run:export "vllm", "export")
    local m = run.metrics
    assert.same({ 2, 2, 20, 9, 0.040 }, { value.completed, value.failed, value.total_input_tokens,
      value.total_output_tokens, value.duration })
    assert.equal(9 / 0.040, value.output_throughput)
    assert.equal(29 / 0.040, value.total_token_throughput)
    assert.equal(1 / 0.040, value.request_goodput)
    for name, key in pairs { ttft = "ttft_ms", tpot = "itl_ms", itl = "token_gap_ms", e2el = "e2e_ms" } do
      assert.equal(m[key .. ".mean"], value[("mean_%s_ms"):format(name)])
      assert.equal(m[key .. ".median"], value[("median_%s_ms"):format(name)])
      assert.equal(m[key .. ".std"], value[("std_%s_ms"):format(name)])
      assert.equal(m[key .. ".p99"], value[("p99_%s_ms"):format(name)])
      assert.equal(m[key .. ".p99.9"], value[("p99.9_%s_ms"):format(name)])
    end
    assert.equal("llama-3.1-8b", value.model_id)
  end)

  it("is zeros when nothing was measured, with rates undefined", function()
    local sim = support.cluster()
    local value = aisim.json.decode(sim:run():export "vllm", "export")
    assert.same({ 0, 0, 0, aisim.json.null, aisim.json.null }, { value.completed, value.duration, value.mean_ttft_ms,
      value.request_throughput, value.request_goodput })
  end)
end)

describe("metrics.prom", function()
  local L <const> = 'engine="0",model_name="llama-3.1-8b"'

  it("is text exposition: families with a head, counters that end in _total", function()
    local _, kinds = parse(simulation():run():export "prometheus")
    for family, kind in pairs(kinds) do
      if kind == "counter" then assert.matches("_total$", family) end
    end
    for _, family in ipairs { "num_requests_running", "num_requests_waiting", "kv_cache_usage_perc" } do
      assert.equal("gauge", kinds["vllm:" .. family])
    end
  end)

  it("counts what the report counts, tokens for the prefix cache", function()
    local sim = support.cluster()
    sim:submit { at_ms = 0, prompt_tokens = 40, output_tokens = 2, content = { { "system", 40 } } }
    sim:submit { at_ms = 100, prompt_tokens = 44, output_tokens = 2, content = { { "system", 40 }, { "b", 4 } } }
    local run = sim:run()
    local values = parse(run:export "prometheus")
    local m = run.metrics
    assert.equal(84, values[("vllm:prefix_cache_queries_total{%s}"):format(L)])
    assert.equal(40, values[("vllm:prefix_cache_hits_total{%s}"):format(L)])
    assert.equal(m.total_input_tokens, values[("vllm:prompt_tokens_total{%s}"):format(L)])
    assert.equal(m.total_output_tokens, values[("vllm:generation_tokens_total{%s}"):format(L)])
    assert.equal(m.preemptions, values[("vllm:num_preemptions_total{%s}"):format(L)])
    assert.equal(2, values['vllm:request_success_total{engine="0",finished_reason="length",model_name="llama-3.1-8b"}'])
  end)

  it("has histograms in seconds that go up to the count, with the mean of the report", function()
    local run = simulation():run()
    local values, kinds, order = parse(run:export "prometheus")
    for name, key in pairs { time_to_first_token_seconds = "ttft_ms", inter_token_latency_seconds = "token_gap_ms",
      e2e_request_latency_seconds = "e2e_ms", request_queue_time_seconds = "queue_ms",
      request_prefill_time_seconds = "prefill_ms", request_decode_time_seconds = "decode_ms",
      request_time_per_output_token_seconds = "itl_ms" } do
      assert.equal("histogram", kinds["vllm:" .. name])
      local last, bound, buckets = 0, -1, 0
      for _, sample in ipairs(order) do
        local le = sample:match("^vllm:" .. name .. '_bucket{engine="0",le="(.-)",')
        if le then
          local at = le == "+Inf" and math.huge or tonumber(le)
          assert.is_true(at > bound and values[sample] >= last, sample)
          bound, last, buckets = at, values[sample], buckets + 1
        end
      end
      local n = run.metrics[key .. ".n"]
      assert.equal(math.huge, bound)
      assert.is_true(buckets > 15)
      assert.equal(n, last)
      assert.equal(n, values[("vllm:%s_count{%s}"):format(name, L)])
      assert.near(run.metrics[key .. ".mean"] * n / 1000, values[("vllm:%s_sum{%s}"):format(name, L)], 1e-12)
    end
    -- first tokens after 10 and 19 ms: one of the two is at most 0.01 s
    assert.equal(1, values['vllm:time_to_first_token_seconds_bucket{engine="0",le="0.01",model_name="llama-3.1-8b"}'])
    assert.equal(2, values['vllm:time_to_first_token_seconds_bucket{engine="0",le="0.02",model_name="llama-3.1-8b"}'])
  end)

  it("separates what the host tier gave", function()
    local sim = support.cluster(1, { kv_cache = { block_size = 4, capacity = { type = "fixed", blocks = 16 },
      host_offload = { num_host_blocks = 100 } } })
    sim:submit { at_ms = 0, prompt_tokens = 40, output_tokens = 2, content = { { "a", 40 } } }
    sim:submit { at_ms = 1000, prompt_tokens = 40, output_tokens = 2, content = { { "b", 40 } } }
    sim:submit { at_ms = 2000, prompt_tokens = 40, output_tokens = 2, content = { { "a", 40 } } }
    local run = sim:run()
    local values = parse(run:export "prometheus")
    local device, host = 0, 0
    for record in run.requests() do
      device, host = device + record.device_reused_tokens, host + record.host_reused_tokens
    end
    assert.is_true(host > 0)
    assert.equal(host, values[("vllm:external_prefix_cache_hits_total{%s}"):format(L)])
    assert.equal(device, values[("vllm:prefix_cache_hits_total{%s}"):format(L)])
    assert.equal(120 - device, values[("vllm:external_prefix_cache_queries_total{%s}"):format(L)])
  end)
end)

describe("run:export", function()
  it("writes every file of the format into a folder, the same bytes each time", function()
    local one, two = folder(), folder()
    for _, dir in ipairs { one, two } do
      local run = simulation():run { series_ms = dir == two and 7 or nil }
      for _, format in ipairs { "aiperf", "vllm", "prometheus" } do run:export(format, dir) end
    end
    local n = 0
    for name in lfs.dir(one) do
      if name:sub(1, 1) ~= "." then
        assert.equal(read(one .. "/" .. name), read(two .. "/" .. name), name)
        n = n + 1
      end
    end
    assert.equal(4, n)
  end)

  it("refuses formats there are not, folders there are not, and requests that were not kept", function()
    local run = simulation():run()
    assert.error_matches(function() run:export "vlm" end, "run:export: unknown format 'vlm' %(did you mean 'vllm'%?%)")
    assert.error_matches(function() run:export "csv" end, "unknown format 'csv' %(one of aiperf, vllm, prometheus%)")
    assert.error_matches(function() run:export() end, "unknown format nil %(one of aiperf, vllm, prometheus%)")
    assert.error_matches(function() run:export("vllm", "/nowhere/at/all") end, "cannot write /nowhere/at/all")
    assert.error_matches(function() run:export("aiperf", "/nowhere/at/all") end, "cannot write /nowhere/at/all")
    local none = simulation():run { requests = false }
    assert.error_matches(function() none:export("aiperf", folder()) end, "requests, the first 0 are kept")
    assert.error_matches(function() simulation():run { requests = {} } end,
      "sim:run.requests: path, preparation or aiperf expected")
  end)

  it("has no reason for a run that ran to its end, nor has its manifest", function()
    local run = simulation():run()
    assert.is_nil(run.reason)
    assert.same({ "completed", nil }, { run.manifest.status, run.manifest.reason })
    assert.is_nil(aisim.json.decode(run:export "vllm", "export").interrupted)
  end)

  it("marks a run that was stopped", function()
    local sim = simulation()
    sim:at(30, function() sim:stop "enough" end)
    local run = sim:run()
    assert.equal("enough", aisim.json.decode(run:export "vllm", "export").interrupted)
    assert.equal("stopped", aisim.json.decode(run:export "aiperf", "export").aisim.status)
  end)
end)
