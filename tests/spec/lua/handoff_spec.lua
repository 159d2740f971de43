--- Prefill and decode pools as scripts see them (spec/lua-api.md §4, §6, §7; routing.md §5; engine.md §15).
local aisim = require "aisim"
local support = dofile "tests/spec/lua/support.lua"

--- A pair of pools with round numbers; `link` is what sim:handoff gets, nil = it is not called.
local function pair(link, options)
  options = options or {}
  local sim = aisim.new { seed = options.seed or 1 }
  local prefill = sim:pool { role = "prefill", workers = options.prefill or 1,
    engine = options.prefill_engine or support.engine() }
  local decode = sim:pool { role = "decode", workers = options.decode or 1,
    engine = options.decode_engine or support.engine() }
  if link then sim:handoff(link) end
  return sim, prefill, decode
end

--- A millisecond per token.
local LINK <const> = { bandwidth_gb_per_second = 1, bytes_per_token = 1e6 }

local function with(more)
  local link = {}
  for key, value in pairs(LINK) do link[key] = value end
  for key, value in pairs(more) do link[key] = value end
  return link
end

local function message(fn, ...)
  local ok, text = pcall(fn, ...)
  assert.is_false(ok)
  return (tostring(text):match "^[^\n]*":gsub("^%S+:%d+: ", ""))
end

describe("a hand-off", function()
  it("§15 goes through both workers and tells its times", function()
    local sim = pair(with { latency_ms = 2 })
    local log = {}
    for _, name in ipairs { "request.route", "request.admit", "request.first_token", "transfer.start",
      "transfer.end", "request.finish" } do
      sim:on(name, function(t, id, a, b, c, d)
        if name == "transfer.start" or name == "transfer.end" then
          log[#log + 1] = ("%g %s %s %d>%d %d"):format(t, name, a, b, c, d)
        else
          log[#log + 1] = ("%g %s %d at %d"):format(t, name, id, a)
        end
      end)
    end
    sim:submit { prompt_tokens = 10, output_tokens = 3 }
    sim:run()
    assert.same({
      "0 request.route 1 at 1", "0 request.route 1 at 2", "10 request.admit 1 at 1", "10 request.first_token 1 at 1",
      "10 transfer.start handoff 1>2 10000000", "22 transfer.end handoff 1>2 10000000",
      "26 request.admit 1 at 2", "30 request.finish 1 at 2" }, log)
  end)

  it("shows the request where it is", function()
    local sim = pair(LINK)
    local seen = {}
    local function look(t, _, _, _, req) seen[#seen + 1] = { t, req.worker or 0, req.rank or 0, req.state } end
    sim:on("request.first_token", look)
    sim:on("request.finish", function(t, id, rank, reason, _, req) look(t, id, rank, reason, req) end)
    local req = sim:submit { prompt_tokens = 10, output_tokens = 3 }
    sim:at(15, function(t) seen[#seen + 1] = { t, req.worker, req.rank, req.state } end)
    sim:run()
    assert.same({ { 10, 1, 1, "running" }, { 15, 1, 1, "held" }, { 28, 2, 2, "done" } }, seen)
  end)

  it("fills the record, the workers and the totals of the report", function()
    local sim = pair(with { timing_mode = "destination_missing" }, { decode = 2 })
    sim:submit { prompt_tokens = 10, output_tokens = 3 }
    sim:submit { at_ms = 100, prompt_tokens = 8, output_tokens = 1 }
    local run = sim:run { requests = true }
    local records = {}
    for record in run.requests() do records[#records + 1] = record end
    assert.same({ 1, 2, 12e6 }, { records[1].prefill_worker, records[1].decode_worker, records[1].transfer_bytes })
    assert.same({ 2, 10, 0 }, { records[1].admissions, records[1].ttft_ms, records[1].readmissions })
    assert.equal(1, records[2].prefill_worker)
    assert.is_nil(records[2].decode_worker)
    assert.is_nil(records[2].transfer_bytes)
    assert.equal(1, run.metrics["transfers.handoff.jobs"])
    assert.equal(12e6, run.metrics["transfers.handoff.bytes"])
    assert.equal(12, run.metrics["transfers.handoff.time_ms"])
    assert.equal(12, run.metrics["transfers.handoff.hold_ms"])
    assert.equal(2, run.metrics["worker_s.decode"] / run.metrics["worker_s.prefill"])
  end)

  it("report §1 counts the gap over the transfer once", function()
    local sim = pair(LINK)
    sim:submit { prompt_tokens = 10, output_tokens = 3 }
    local run = sim:run()
    assert.same({ 2, 4, 14 }, { run.token_gap_ms.n, run.token_gap_ms.min, run.token_gap_ms.max })
    assert.equal(9, run.itl_ms.mean) -- (28 - 10) / 2
    assert.equal(10, run.ttft_ms.mean)
  end)

  it("mtp §9 brings no drafts; the prefill worker never verifies", function()
    for _, mode in ipairs { "native", "burst" } do
      local extra = { speculation = { mode = mode, params = { depth = 2 }, acceptance_rates = { 1, 1 } } }
      local sim = pair(LINK, { prefill_engine = support.engine(extra), decode_engine = support.engine(extra) })
      local log = {}
      sim:on("request.tokens", function(t, _, rank, n) log[#log + 1] = ("%g %d@%d"):format(t, n, rank) end)
      sim:submit { prompt_tokens = 10, output_tokens = 8 }
      sim:run()
      local expected = { native = { "10 1@1", "24 1@2", "28 3@2", "32 3@2" },
        burst = { "10 1@1", "24 3@2", "28 3@2", "32 1@2" } }
      assert.same(expected[mode], log)
    end
  end)

  it("E-S2 brings the state of a hybrid model, which takes its blocks at the decode worker", function()
    local kv = { block_size = 4, bytes_per_token = 1e6, prefix_match_unit = 4,
      state_cache = { bytes_per_request = 6e6 },
      capacity = { type = "fixed", blocks = 30 } }
    local sim, prefill, decode = pair(with { timing_mode = "destination_missing" },
      { prefill_engine = support.engine { kv_cache = kv }, decode_engine = support.engine { kv_cache = kv } })
    local used = {}
    sim:at(5, function() used[1] = decode.kv_used end)
    sim:at(30, function() used[2] = decode.kv_used end)
    sim:submit { prompt_tokens = 8, output_tokens = 3 }
    sim:run()
    assert.same({ 4, 7 }, used) -- two blocks and two of the state; one and, for the next page, two more
    assert.same({ 0, 0 }, { prefill.kv_used, decode.kv_used })
  end)

  it("offload §7.5 at a decode worker with a host tier goes before all others", function()
    local extra = { kv_cache = { block_size = 4, bytes_per_token = 1e6, capacity = { type = "fixed", blocks = 24 },
      host_offload = { num_host_blocks = 40 } }, scheduler = { max_batched_tokens = 64, max_sequences = 1 } }
    local sim = pair(with { decide = function(req) return req.prompt_tokens == 10 and "remote" or "local" end },
      { decode_engine = support.engine(extra) })
    local order = {}
    sim:on("request.admit", function(_, id, rank) if rank == 2 then order[#order + 1] = id end end)
    sim:submit { prompt_tokens = 12, output_tokens = 5 } -- runs at the decode worker from 0 to 26
    sim:submit { prompt_tokens = 13, output_tokens = 2 } -- waits there
    sim:submit { prompt_tokens = 10, output_tokens = 2 } -- arrives there at 20
    sim:run()
    assert.same({ 1, 3, 2 }, order)
  end)

  it("traffic §2.4 two runs give the same bytes", function()
    local texts = {}
    for i = 1, 2 do
      local sim = pair(LINK, { prefill = 2, decode = 3 })
      sim:router { policy = "kv" }
      sim:workload(aisim.open { arrivals = aisim.arrivals.poisson { rate = 40 }, requests = 100,
        prompt = aisim.dist.uniform(5, 60), output = aisim.dist.uniform(1, 20) })
      local file = os.tmpname()
      sim:run():json(file)
      local handle <close> = assert(io.open(file))
      texts[i] = handle:read "a"
      os.remove(file)
    end
    assert.equal(texts[1], texts[2])
  end)
end)

describe("the decider", function()
  it("lua-api §7 sees request, overlap, decode targets and the time", function()
    local seen = {}
    local sim = pair(with { decide = function(req, overlap_blocks, targets, now)
      seen[#seen + 1] = { req.id, overlap_blocks, targets.n, targets[1].worker, now }
      return overlap_blocks > 0 and "local" or "remote"
    end }, { decode = 2 })
    local routes = {}
    sim:on("request.route", function(_, id, worker) routes[#routes + 1] = id .. ">" .. worker end)
    sim:submit { prompt_tokens = 10, output_tokens = 2, content = { { "a", 10 } } }
    sim:submit { at_ms = 50, prompt_tokens = 10, output_tokens = 2, content = { { "a", 10 } } }
    sim:run()
    assert.same({ { 1, 0, 2, 2, 0 }, { 2, 2, 2, 2, 50 } }, seen)
    assert.same({ "1>1", "1>2", "2>3" }, routes)
  end)

  it("routing §5 the built-in one compares what is missing with a bound", function()
    local sim = pair(with { local_below_tokens = 8 })
    local routes = {}
    sim:on("request.route", function(_, id, worker) routes[#routes + 1] = id .. ">" .. worker end)
    sim:submit { prompt_tokens = 8, output_tokens = 2 }
    sim:submit { at_ms = 50, prompt_tokens = 7, output_tokens = 2 }
    sim:run()
    assert.same({ "1>1", "1>2", "2>2" }, routes)
  end)

  it("names what it returned", function()
    local function run(word)
      local sim = pair(with { decide = function() return word end })
      sim:submit { at_ms = 3, prompt_tokens = 8, output_tokens = 2 }
      sim:run()
    end
    assert.truthy(message(run, "lokal"):find("decide of sim:handoff returned 'lokal' at t=3 ms for request 1; " ..
      '"local" or "remote" expected', 1, true))
    assert.truthy(message(run, 5):find("returned a number", 1, true))
  end)
end)

describe("the pools of a hand-off", function()
  it("need each other", function()
    local sim = aisim.new()
    sim:pool { role = "prefill", engine = support.engine() }
    assert.truthy(message(sim.run, sim):find("pool 'prefill' of role prefill has no partner: add a pool of role decode",
      1, true))
    sim = support.cluster()
    sim:handoff(LINK)
    assert.matches("_spec.lua:%d+: sim:handoff: has no effect without pools of role prefill and decode",
      message(sim.run, sim)) -- the line of the call, not that of sim:run
  end)

  it("are one of each role, with one model", function()
    local sim = pair()
    assert.truthy(message(sim.pool, sim, { name = "more", role = "decode", engine = support.engine() })
      :find("pool 'more': there is a pool of role decode already ('decode')", 1, true))
    sim = pair(LINK, { decode_engine = support.engine { model = "qwen3-8b" } })
    assert.equal("handoff: pool 'prefill' runs 'llama-3.1-8b' and pool 'decode' runs 'qwen3-8b'; " ..
      "both ends have one model", message(sim.run, sim))
  end)

  it("are told the link once", function()
    local sim = pair(LINK)
    assert.equal("handoff: called twice; there is one link", message(sim.handoff, sim, LINK))
    sim = aisim.new()
    sim:pool { role = "prefill", engine = support.engine { kv_transfer = { latency_ms = 1 } } }
    assert.equal("pool 'decode': kv_transfer is another one than that of pool 'prefill'; say it once",
      message(sim.pool, sim, { role = "decode", engine = support.engine { kv_transfer = { latency_ms = 2 } } }))
    sim = pair()
    assert.equal("handoff: unknown key 'latency_msec' (did you mean 'latency_ms'?)",
      message(sim.handoff, sim, { latency_msec = 1 }))
    assert.equal("handoff.decide: function expected, got number", message(sim.handoff, sim, { decide = 5 }))
    assert.equal("handoff: decide takes the place of local_below_tokens and local_below_usage_ratio; give one",
      message(sim.handoff, sim, { local_below_tokens = 5, decide = function() return "local" end }))
  end)

  it("need to know how large a token is when bytes take time", function()
    local bare = { kv_cache = { block_size = 4, capacity = { type = "fixed", blocks = 99 } },
      timing = { type = "fixed", prefill_ms = 10, decode_ms = 4 } }
    local sim = pair({ bandwidth_gb_per_second = 1 }, { prefill_engine = bare, decode_engine = bare })
    assert.equal("handoff: bandwidth_gb_per_second needs bytes_per_token, or a model that tells it",
      message(sim.run, sim))
  end)

  it("take the bytes of the whole model, and its state, from the catalogue", function()
    local function transferred(model, tensor, moe)
      local engine = support.engine { model = model, parallelism = { tensor = tensor, moe_expert = moe and tensor } }
      local sim = pair(nil, { prefill_engine = engine, decode_engine = engine })
      sim:submit { prompt_tokens = 10, output_tokens = 2 }
      return sim:run().metrics["transfers.handoff.bytes"]
    end
    assert.equal(10 * 131072, transferred("llama-3.1-8b", 1))
    assert.equal(10 * 131072, transferred("llama-3.1-8b", 2))
    local hybrid = transferred("qwen3.5-35b-a3b", 1, true)
    assert.equal(hybrid, transferred("qwen3.5-35b-a3b", 2, true))
    assert.is_true(hybrid > 10 * 2 * 10 * 2 * 256 * 2) -- more than its token blocks
  end)

  it("have a router each; a policy without a pool is for both", function()
    local sim = pair(LINK, { prefill = 2, decode = 2 })
    sim:router { policy = "least_requests" }
    sim:router { pool = "decode", pick = function(_, targets) return targets.n end }
    local routes = {}
    sim:on("request.route", function(_, id, worker) routes[#routes + 1] = id .. ">" .. worker end)
    for _ = 1, 2 do sim:submit { prompt_tokens = 8, output_tokens = 2 } end
    sim:run()
    assert.same({ "1>1", "1>4", "2>2", "2>4" }, routes)
    assert.equal("router.pool: name the pool, 'prefill' or 'decode'; a policy of your own is for one of them",
      message(sim.router, pair(LINK), function() return 1 end))
  end)

  it("routing §1 the decode router sees the prefill choice", function()
    local sim = pair(LINK, { prefill = 2, decode = 2 })
    sim:router { pool = "decode", pick = function(req) return req.prefill_worker end }
    local routes = {}
    sim:on("request.route", function(_, id, worker) routes[#routes + 1] = id .. ">" .. worker end)
    for _ = 1, 2 do sim:submit { prompt_tokens = 8, output_tokens = 2 } end
    sim:run()
    assert.same({ "1>1", "1>3", "2>2", "2>4" }, routes)
  end)

  it("routing §4 a decode pool counts no prefill tokens", function()
    local sim, prefill, decode = pair(LINK)
    for _, pool in ipairs { "prefill", "decode" } do
      sim:router { pool = pool, columns = { "active_prefill_tokens" }, pick = function() return 1 end }
    end
    sim:submit { prompt_tokens = 40, output_tokens = 2 }
    local seen = {}
    for _, t in ipairs { 5, 15, 60 } do
      sim:at(t, function()
        seen[#seen + 1] = { prefill.active_prefill_tokens, prefill.active_requests, decode.active_prefill_tokens,
          decode.active_requests }
      end)
    end
    sim:run()
    assert.same({ { 40, 1, 0, 1 }, { 0, 1, 0, 1 }, { 0, 0, 0, 0 } }, seen)
  end)

  it("drain when their part of the work is done", function()
    local sim, prefill, decode = pair(LINK, { prefill = 2, decode = 2 })
    local log = {}
    sim:on("worker.state", function(t, worker, _, to) log[#log + 1] = ("%g %d %s"):format(t, worker, to) end)
    sim:submit { prompt_tokens = 10, output_tokens = 3 }
    sim:at(5, function()
      prefill:worker(1):drain()
      decode:worker(1):drain()
    end)
    sim:run()
    assert.same({ "5 1 draining", "5 3 draining", "20 1 drained", "28 3 drained" }, log)
  end)

  it("config the link stands in the configuration of both", function()
    local sim = pair(with { latency_ms = 3 })
    for i = 1, 2 do
      local text = sim:configuration_(i)
      assert.truthy(text:find("bandwidth_gb_per_second: 1.0", 1, true), text)
      assert.truthy(text:find("latency_ms: 3.0", 1, true), text)
    end
  end)

  it("config --set reaches the link", function()
    local sim = aisim.new { overrides = { { key = "engine.kv_transfer.bandwidth_gb_per_second", value = "2" } } }
    sim:pool { role = "prefill", engine = support.engine() }
    sim:pool { role = "decode", engine = support.engine() }
    sim:handoff(LINK)
    sim:submit { prompt_tokens = 10, output_tokens = 2 }
    assert.equal(5, sim:run().metrics["transfers.handoff.time_ms"])
  end)
end)

describe("hand-offs over seeds", function()
  --- Few blocks, rejections, cancellations, lost and draining workers, both timing modes, all policies.
  local function drawn(seed)
    local state = seed
    local function random(n) -- MINSTD: the cases stay what they are
      state = (state * 48271 + 11) % 2147483647
      return state % n + 1
    end
    for _ = 1, 5 do random(2) end
    local extra = random(5) -- one feature at a time, in one engine or both
    local function engine(blocks)
      local kv = { block_size = random(2) == 1 and 4 or 8, prefix_caching = random(4) > 1,
        capacity = { type = "fixed", blocks = blocks } }
      local made = support.engine { context_length = random(2) == 1 and 90 or nil, kv_cache = kv,
        scheduler = { max_batched_tokens = 8 + random(60), max_sequences = random(6),
          policy = random(3) == 1 and "priority" or "fcfs" } }
      if extra == 1 and random(2) == 1 then
        kv.bytes_per_token, kv.host_offload, kv.prefix_caching = 1e6, { num_host_blocks = 30 + random(60) }, true
      elseif extra == 2 and random(2) == 1 then
        made.parallelism = { attention_data = 2 }
      elseif extra == 3 then
        made.speculation = { mode = random(2) == 1 and "native" or "burst", params = { depth = 2 },
          acceptance_rates = { 0.7, 0.4 } }
      elseif extra == 4 and random(4) > 1 then
        kv.bytes_per_token, kv.prefix_match_unit, kv.prefix_caching = 1e6, kv.block_size, true
        kv.state_cache = { bytes_per_request = 1e6 * random(20), mode = "aligned" }
        if random(2) == 1 then kv.prefix_match_unit, kv.state_cache.mode = nil, "latest" end
      end
      return made
    end
    local missing = random(2) == 1
    local sim, prefill, decode = pair(with { timing_mode = missing and "destination_missing" or "full_prompt",
      latency_ms = random(3) - 1, local_below_tokens = random(3) == 1 and 20 or nil,
      local_below_usage_ratio = random(4) == 1 and 0.3 or nil },
      { seed = seed, prefill = random(3), decode = random(3), prefill_engine = engine(8 + random(40)),
        decode_engine = engine(6 + random(30)) })
    local policy = ({ "round_robin", "kv", "least_tokens", "prefix", "least_requests", "lua" })[random(6)]
    for _, pool in ipairs(policy == "lua" and { "prefill", "decode" } or {}) do
      sim:router { pool = pool, columns = { "active_prefill_tokens", "active_blocks" },
        pick = function(_, targets) return targets.active_blocks[1] > 9 and targets.n or 1 end }
    end
    if policy ~= "lua" then sim:router { policy = policy } end
    local requests = {}
    for i = 1, 60 do
      local prompt = random(100) - 1
      local shared = random(3) == 1 and math.min(prompt, 16 * random(3)) or 0
      requests[i] = sim:submit { at_ms = random(300), prompt_tokens = prompt, output_tokens = random(14) - 1,
        priority = random(3), content = shared > 0 and { { "s" .. random(3), shared } } or nil }
    end
    for _ = 1, random(8) - 1 do
      local victim = requests[random(#requests)]
      sim:at(random(400), function() victim:cancel() end)
    end
    for _ = 1, random(5) - 1 do
      local pool = random(2) == 1 and prefill or decode
      local worker = pool:worker(random(pool.workers))
      local command = random(2) == 1 and "stop" or "drain"
      local t = random(300)
      sim:at(t, function() worker[command](worker) end)
      sim:at(t + 50, function() worker:resume() end)
    end
    return sim, prefill, decode
  end

  it("§15 every request ends once, all blocks go back, and bytes are what was transferred", function()
    local happened = {}
    for seed = 1, 300 do
      local sim, prefill, decode = drawn(seed)
      local open, ends, bytes, lost = {}, 0, 0, 0
      local function over(id)
        assert.is_nil(open[id], ("seed %d: request %d ends twice"):format(seed, id))
        open[id] = true
        ends = ends + 1
      end
      local function count(what) happened[what] = (happened[what] or 0) + 1 end
      sim:on("request.finish", function(_, id, _, reason)
        over(id)
        count(reason)
      end)
      sim:on("request.reject", function(_, id, where, reason)
        over(id)
        count(where .. " " .. reason)
      end)
      sim:on("request.preempt", function() count "preempt" end)
      sim:on("transfer.start", function(_, _, kind, src, dst, n)
        if kind ~= "handoff" then return end
        assert.is_true(src <= prefill.workers and dst > prefill.workers and n % 1e6 == 0)
        lost = lost + n
      end)
      sim:on("transfer.end", function(_, _, kind, _, _, n)
        if kind ~= "handoff" then return end
        bytes, lost = bytes + n, lost - n
        count "transfer"
      end)
      sim:on("worker.state", function(_, _, _, to) count(to) end)
      local run = sim:run { requests = true }
      assert.equal(60, ends, "seed " .. seed)
      assert.same({ 0, 0, 0, 0 }, { prefill.kv_used, decode.kv_used, prefill.active_requests, decode.active_requests },
        "seed " .. seed)
      assert.equal(bytes, run.metrics["transfers.handoff.bytes"])
      local of_records, gaps = 0, 0
      for record in run.requests() do
        of_records = of_records + (record.transfer_bytes or 0)
        if record.status == "completed" then gaps = gaps + math.max(0, record.output_tokens - 1) end
      end
      assert.equal(bytes, of_records)
      assert.equal(gaps, run.token_gap_ms.n, "seed " .. seed)
      assert.is_true(lost >= 0)
      for pool in pairs { [prefill] = true, [decode] = true } do
        assert.same({ 0, 0 }, { pool.active_prefill_tokens, pool.active_blocks }, "seed " .. seed)
      end
    end
    for _, what in ipairs { "length", "context", "cancelled", "engine capacity", "engine context", "engine empty",
      "preempt", "transfer", "stopped", "drained" } do
      assert.is_true((happened[what] or 0) > 0, what .. " never happens")
    end
  end)

  it("§15 with a destination that lacks everything both timing modes differ by the partial block only", function()
    for _, prompt in ipairs { 4, 5, 7, 8, 33 } do
      local bytes = {}
      for _, mode in ipairs { "full_prompt", "destination_missing" } do
        local sim = pair(with { timing_mode = mode })
        sim:submit { prompt_tokens = prompt, output_tokens = 2 }
        bytes[#bytes + 1] = sim:run().metrics["transfers.handoff.bytes"] // 1000000
      end
      assert.same({ prompt, (prompt + 3) // 4 * 4 }, bytes)
    end
  end)
end)

describe("agents on a prefill and a decode pool", function()
  it("traffic §2.7 a replay with two lanes and sibling affinity ends and adds up", function()
    local engine = { model = "llama-3.1-8b", context_length = 1048576,
      kv_cache = { block_size = 64, capacity = { type = "bytes", bytes = "64GiB" } } }
    local sim = pair({ bandwidth_gb_per_second = 50, timing_mode = "destination_missing" },
      { seed = 42, prefill = 2, decode = 4, prefill_engine = engine, decode_engine = engine })
    sim:router { policy = "kv", affinity = { mode = "sibling_group" } }
    local of_session, ends = {}, 0
    sim:on("request.route", function(_, _, worker, _, req)
      if worker <= 2 then
        of_session[req.session] = of_session[req.session] or {}
        of_session[req.session][worker] = true
      end
    end)
    sim:on("request.finish", function() ends = ends + 1 end)
    sim:workload(aisim.agentx { plays = aisim.agentx_synthetic { plays = 2 }, lanes = 2, seed = 42,
      profile = { duration_seconds = 600 } })
    local run = sim:run()
    local m, a = run.metrics, run.agentx
    assert.is_true(m.completed_requests > 20)
    assert.equal(a.issued, a.successful + a.failed + a.cancelled + a.in_flight)
    assert.equal(a.successful, m.completed_requests)
    assert.equal(0, a.unsettled)
    assert.equal(ends, m.completed_requests + m.cancelled + m.preparation_requests)
    assert.is_true(m.first_admission_prefix_cache_reused_ratio > 0.8)
    for session, workers in pairs(of_session) do
      assert.is_nil(next(workers, next(workers)), ("session %s moves"):format(session))
    end
  end)
end)
