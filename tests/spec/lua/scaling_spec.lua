--- Pools that grow and shrink, and who decides it (lua-api §4, §7; report §3: worker time).
local aisim = require "aisim"
local support = dofile "tests/spec/lua/support.lua"

local function states_of(sim)
  local out = {}
  sim:on("worker.state", function(t, worker, from, to) out[#out + 1] = ("%g %d %s %s"):format(t, worker, from, to) end)
  return out
end

local function stream(sim, n, every_ms, options)
  for i = 0, n - 1 do
    local o = { at_ms = i * every_ms, prompt_tokens = 8, output_tokens = 3 }
    for key, value in pairs(options or {}) do o[key] = value end
    sim:submit(o)
  end
end

describe("pool:add", function()
  it("starts workers that are ready after startup_seconds, or the time given", function()
    local sim, pool = support.cluster(1, { startup_seconds = 0.05 })
    local states = states_of(sim)
    sim:at(10, function() pool:add(1) end)
    sim:at(20, function() pool:add(2, 5) end)
    sim:at(200, function() end)
    sim:run()
    assert.same({ "10 2 stopped starting", "20 3 stopped starting", "20 4 stopped starting", "25 3 starting ready",
      "25 4 starting ready", "60 2 starting ready" }, states)
    assert.same({ 4, 4, 4 }, { pool.workers, pool.ready, pool.ranks })
    assert.equal("ready", pool:worker(4).state)
  end)

  it("gives them requests only when they are ready", function()
    local sim, pool = support.cluster(1)
    local workers = {}
    sim:on("request.route", function(_, id, worker) workers[id] = worker end)
    sim:at(15, function() pool:add(1, 30) end)
    stream(sim, 8, 10)
    sim:run()
    assert.same({ 1, 1, 1, 1, 1, 2, 1, 2 }, workers) -- request 6 arrives at 50, the worker is ready at 45
  end)

  for _, policy in ipairs { "round_robin", "random", "least_requests", "least_tokens", "least_kv", "shortest_queue",
    "p2c", "hash", "hash_bounded", "prefix", "kv", "kv_v1", "weighted_random", "session" } do
    it("and pool:remove work under " .. policy, function()
      local sim, pool = support.cluster(2)
      local per_worker, open = { 0, 0, 0, 0 }, true
      sim:router { policy = policy }
      sim:on("request.route", function(_, _, worker)
        per_worker[worker] = per_worker[worker] + 1
        assert.is_true(open or worker < 3)
      end)
      sim:at(100, function() pool:add(2) end)
      sim:at(300, function()
        pool:remove(2)
        open = false
      end)
      for i = 1, 80 do
        sim:submit { at_ms = 5 * i, prompt_tokens = 12, output_tokens = 2, session = i // 3 + 1,
          content = { { "p" .. i // 4, 12 } } }
      end
      local run = sim:run()
      assert.equal(80, run.metrics.completed_requests)
      assert.is_true(per_worker[3] > 0 and per_worker[4] > 0, table.concat(per_worker, " "))
      assert.same({ 4, 2 }, { pool.workers, pool.ready })
    end)
  end

  it("serves what waits at the router for want of a worker", function()
    local sim, pool = support.cluster(1)
    local routed
    sim:on("request.route", function(t) routed = t end)
    pool:worker(1):drain()
    sim:submit { at_ms = 5, prompt_tokens = 8, output_tokens = 1 }
    sim:at(20, function()
      assert.equal(1, pool.queued)
      pool:add(1, 100)
    end)
    sim:run()
    assert.equal(120.0, routed)
  end)

  it("keeps pools apart", function()
    local sim = aisim.new { seed = 1 }
    local a = sim:pool { name = "a", workers = 1, engine = support.engine() }
    local b = sim:pool { name = "b", workers = 1, engine = support.engine() }
    local workers = {}
    sim:router { pool = "a", policy = "least_requests" }
    sim:router { pool = "b", policy = "kv" }
    sim:on("request.route", function(_, id, worker) workers[id] = worker end)
    sim:at(1, function()
      a:add(1)
      b:add(1)
      a:add(1)
    end)
    for i = 1, 6 do
      sim:submit { at_ms = 10, pool = i <= 3 and a or b, content = { { "x" .. i, 8 } }, output_tokens = 1 }
    end
    sim:run()
    table.sort(workers, function(x, y) return x < y end)
    assert.same({ 3, 2 }, { a.workers, b.workers })
    assert.same({ 1, 3, 5 }, { a:worker(1).id, a:worker(2).id, a:worker(3).id })
    assert.same({ 1, 2, 2, 3, 4, 5 }, workers)
  end)
end)

describe("pool:remove", function()
  it("drains first: draining, drained, stopped; the newest goes", function()
    local sim, pool = support.cluster(2)
    local states = states_of(sim)
    stream(sim, 2, 0)
    sim:at(5, function() pool:remove(1) end)
    local run = sim:run()
    assert.same({ "5 2 ready draining", "18 2 draining drained", "18 2 drained stopped" }, states)
    assert.equal(2, run.metrics.completed_requests)
    assert.equal("stopped", pool:worker(2).state)
  end)

  it("without draining gives the requests back to the router", function()
    local sim, pool = support.cluster(2)
    local states, routed = states_of(sim), {}
    sim:on("request.route", function(t, id, worker) routed[#routed + 1] = ("%g %d %d"):format(t, id, worker) end)
    stream(sim, 2, 0)
    sim:at(5, function() pool:remove(1, false) end)
    sim:run()
    assert.same({ "5 2 ready stopped" }, states)
    assert.same({ "0 1 1", "0 2 2", "5 2 1" }, routed)
  end)

  it("takes those that start before those that serve", function()
    local sim, pool = support.cluster(2)
    local states = states_of(sim)
    sim:at(1, function() pool:add(1, 1000) end)
    sim:at(2, function() pool:remove(2) end)
    sim:run()
    assert.same({ "1 3 stopped starting", "2 3 starting stopped", "2 2 ready draining", "2 2 draining drained",
      "2 2 drained stopped" }, states)
    assert.is_true(sim:now() < 10)
  end)

  it("of a worker that starts does not keep the run alive", function()
    local sim, pool = support.cluster(1)
    sim:every(10, function() end)
    sim:at(1, function() pool:add(1, 1000) end)
    sim:at(2, function() pool:remove(1) end)
    sim:submit { prompt_tokens = 8, output_tokens = 1 }
    sim:run()
    assert.equal(10.0, sim:now())
  end)

  it("refuses more than there are", function()
    local _, pool = support.cluster(2)
    assert.equal("scenarios/a.lua:1: pool:remove: 3 workers: pool 'main' has 2 that could go",
      support.message("(...):remove(3)", pool))
    assert.equal("scenarios/a.lua:1: pool:add: workers = -1: must be >= 0", support.message("(...):add(-1)", pool))
  end)
end)

describe("worker time", function()
  it("counts starting, ready and draining workers, from and to the moment", function()
    local sim, pool = support.cluster(1)
    sim:at(100, function() pool:add(1, 50) end)    -- 0.3 s until it has stopped
    sim:at(400, function() pool:remove(1) end)
    sim:submit { at_ms = 990, prompt_tokens = 8, output_tokens = 1 }
    local run = sim:run()
    assert.near(1000, run.metrics.duration_ms, 1e-9)
    assert.near(1.3, run.metrics["worker_s.aggregated"], 1e-9)
    assert.near(1.3 / 3600, run.metrics.gpu_hours, 1e-12)
    assert.near(1.3, run.metrics.gpus, 1e-9)
    assert.near(1 - 10 / 1300, run.metrics["scheduler.idle_ratio"], 1e-9)
    -- 2 of 256 blocks for the 10 ms of the only pass
    assert.near(10 / 1000 * 2 / 256, run.metrics["kv_usage.mean"], 1e-9)
    local file = os.tmpname()
    run:json(file)
    local handle <close> = assert(io.open(file))
    local text = handle:read "a"
    os.remove(file)
    assert.truthy(text:find('"worker_s": 0.3,', 1, true), text)
  end)
end)

describe("capacity", function()
  it("of a stopped worker is no part of the usage", function()
    local sim, pool = support.cluster(2)
    sim:at(0, function() pool:remove(1) end)
    sim:submit { at_ms = 10, prompt_tokens = 128, output_tokens = 30 }
    local usage = sim:run().metrics["kv_usage.peak"]
    assert.near(40 / 256, usage, 1e-9)
  end)
end)

describe("sim:autoscale", function()
  it("asks every so often and keeps the answer within min and max", function()
    local sim, pool = support.cluster(2)
    local states, views = states_of(sim), {}
    local answers = { 3, 99, 0, 1 }
    sim:autoscale { every_ms = 10, min = 1, max = 4, start_delay_ms = 15, decide = function(view, now)
      views[#views + 1] = ("%g %d %d %d"):format(now, view.workers, view.ready, view.starting)
      return table.remove(answers, 1) or 1
    end }
    sim:at(45, function() end)
    sim:run()
    assert.same({ "10 2 2 0", "20 3 2 1", "30 4 3 1", "40 1 1 0" }, views)
    assert.same({ "10 3 stopped starting", "20 4 stopped starting", "25 3 starting ready", "30 4 starting stopped",
      "30 3 ready draining", "30 3 draining drained", "30 3 drained stopped", "30 2 ready draining",
      "30 2 draining drained", "30 2 drained stopped" }, states)
    assert.equal(1, pool.ready)
  end)

  it("does not keep the run alive", function()
    local sim = support.cluster(1)
    sim:autoscale { every_ms = 10, max = 2, decide = function() return 1 end }
    stream(sim, 1, 0)
    sim:run()
    assert.equal(18.0, sim:now())
  end)

  it("names an answer that is no number of workers", function()
    local sim = support.cluster(1)
    stream(sim, 1, 0, { output_tokens = 20 })
    local ok, message = support.script([[
local sim = ...
sim:autoscale { every_ms = 10, max = 2, decide = function() return 1.5 end }
sim:run()]], sim)
    assert.is_false(ok)
    assert.equal("scenarios/a.lua:2: autoscale of pool 'main' returned 1.5 at t=10 ms; a whole number of workers >= 0 "
      .. "expected", (message:match "^[^\n]*"))
  end)

  it("refuses options that make no sense", function()
    local function message(options)
      return support.message("local sim = ...\nsim:autoscale " .. options, (support.cluster(1)))
    end
    assert.equal("scenarios/a.lua:2: autoscale.max: integer expected, got nil",
      message "{ every_ms = 1, decide = print }")
    assert.equal("scenarios/a.lua:2: autoscale.max = 2: must be >= min (3)",
      message "{ every_ms = 1, min = 3, max = 2, decide = print }")
    assert.equal("scenarios/a.lua:2: autoscale.decide: function or a decision of aisim.scaler expected, got table",
      message "{ every_ms = 1, max = 2, decide = {} }")
    assert.equal("scenarios/a.lua:2: autoscale: unknown key 'evry_ms' (did you mean 'every_ms'?)",
      message "{ evry_ms = 1, max = 2, decide = print }")
  end)
end)

describe("aisim.scaler", function()
  local function view(values)
    local out = { workers = 2, ready = 2, starting = 0, draining = 0, queued = 0, waiting = 0, running = 0,
      kv_usage = 0 }
    for key, value in pairs(values) do out[key] = value end
    return out
  end

  it("target_utilisation is proportional, with a tolerance", function()
    local decide = aisim.scaler.target_utilisation { target = 0.5 }:make()
    assert.equal(4, decide(view { kv_usage = 0.9 }, 0))
    assert.equal(2, decide(view { kv_usage = 0.54 }, 1))
    assert.equal(1, decide(view { kv_usage = 0.2 }, 2))
    assert.equal(2, decide(view { ready = 0, starting = 2, kv_usage = 0 }, 3))
  end)

  it("queue_depth counts requests everywhere, and waits before it gives workers back", function()
    local decide = aisim.scaler.queue_depth { per_worker = 4, down_after_ms = 100 }:make()
    assert.equal(4, decide(view { queued = 3, waiting = 4, running = 6 }, 0))
    assert.equal(2, decide(view { running = 1 }, 50))
    assert.equal(2, decide(view { running = 1 }, 100))
    assert.equal(1, decide(view { running = 1 }, 151))
  end)

  it("follows a wave of traffic and gives the workers back", function()
    local sim, pool = support.cluster(1, { startup_seconds = 0.02 })
    local most = 0
    sim:autoscale { every_ms = 20, min = 1, max = 6,
      decide = aisim.scaler.queue_depth { per_worker = 8, down_after_ms = 100 } }
    sim:every(10, function() most = math.max(most, pool.ready) end)
    stream(sim, 120, 1, { output_tokens = 20 })
    sim:at(1500, function() end)
    local run = sim:run()
    assert.equal(120, run.metrics.completed_requests)
    assert.is_true(most >= 4, tostring(most))
    assert.equal(1, pool.ready)
    assert.is_true(run.metrics.gpus > 1 and run.metrics.gpus < 6)
  end)

  it("refuses what it does not know", function()
    assert.equal("scenarios/a.lua:1: aisim.scaler: unknown decision 'queue_dept' (did you mean 'queue_depth'?)",
      support.message("(...).scaler.queue_dept {}", aisim))
  end)
end)

describe("everything at once", function()
  --- All points, workers that come, go, fail and return, two ranks each; @return the report
  local function report(policy, scored)
    local sim = aisim.new { seed = 3 }
    local kv_cache = { block_size = 16, capacity = { type = "fixed", blocks = 150 } }
    kv_cache[scored and "eviction" or "host_offload"] = scored and "scored" or { num_host_blocks = 500 }
    local pool = sim:pool {
      workers = 2,
      engine = support.engine { startup_seconds = 0.05, parallelism = { attention_data = 2 }, kv_cache = kv_cache,
        scheduler = { max_batched_tokens = 256, max_sequences = 16 } },
      order = function(req) return req.prompt_tokens end,
      admit = function(_, _, req, need, free) return req.id % 5 == 0 and need > free // 2 and "skip" or true end,
      victim = function(_, _, view) return view.n // 2 + 1 end,
      chunk = function(_, _, req, budget, remaining) return math.min(budget, remaining, 64 + req.id % 64) end,
      evict = scored and function(_, _, age_ms, depth, reuse) return 3 * reuse - age_ms / 1000 - depth % 3 end or nil,
    }
    sim:router { policy = policy, regret = true, delay_ms = 0.5 }
    sim:workload(aisim.open { arrivals = aisim.arrivals.poisson { rate = 60 }, until_ms = 4e3,
      prompt = aisim.dist.uniform(20, 600), output = aisim.dist.uniform(1, 120),
      prefix = { groups = 20, tokens = 300, zipf = 1 } })
    local rng = sim:rng "operator"
    local function some() return pool:worker(1 + math.floor(rng:uniform(0, 1) * pool.workers)) end
    sim:every(37, function()
      local x = rng:uniform(0, 1)
      if x < 0.3 then
        pool:add(1)
      elseif x < 0.55 and pool.ready > 1 then
        pool:remove(1, x < 0.45)
      elseif x < 0.65 then
        some():stop()
      elseif x < 0.8 then
        some():resume()
      end
      if pool.ready == 0 then pool:add(1, 1) end
    end)
    local file = os.tmpname()
    local run = sim:run()
    run:json(file)
    local handle <close> = assert(io.open(file))
    local text = handle:read "a"
    os.remove(file)
    assert.equal(run.metrics.num_requests, run.metrics.completed_requests)
    assert.is_true(run.metrics.preemptions > 0)
    return text
  end

  for _, policy in ipairs { "kv", "session", "least_tokens" } do
    it("ends every request and gives the same bytes again: " .. policy, function()
      assert.equal(report(policy, true), report(policy, true))
      assert.equal(report(policy, false), report(policy, false))
    end)
  end
end)
