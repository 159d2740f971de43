--- Built-in routing policies on a running cluster (spec/routing.md §1 to §4): what a person sees who
--- compares policies. Every number of the policies themselves is in the conformance vectors.
local aisim = require "aisim"
local support = dofile "tests/spec/lua/support.lua"

--- A pool of round numbers: blocks of 64 tokens, 10 ms prompts, 4 ms decoding.
local function cluster(workers, router, seed, blocks)
  local sim = aisim.new { seed = seed or 1 }
  local pool = sim:pool {
    workers = workers,
    engine = {
      model = "llama-3.1-8b", scheduler = { max_batched_tokens = 4096, max_sequences = 64 },
      kv_cache = { block_size = 64, capacity = { type = "fixed", blocks = blocks or 4096 } },
      timing = { type = "fixed", prefill_ms = 10, decode_ms = 4 },
    },
  }
  sim:router(router)
  local workers_of, overlaps = {}, {}
  sim:on("request.route", function(_, id, worker, overlap) workers_of[id], overlaps[id] = worker, overlap end)
  return sim, workers_of, overlaps, pool
end

--- §4 "Worked check": worker 1 has 8 of the 10 prompt blocks and 30 active ones, worker 2 nothing.
local function worked_check(router, seed)
  local sim, workers_of, overlaps, pool = cluster(2, router, seed)
  sim:at(0, function() pool:worker(2):drain() end)
  sim:submit { at_ms = 1, prompt_tokens = 512, output_tokens = 1, content = { { "document", 512 } } }
  sim:submit { at_ms = 20, prompt_tokens = 1920, output_tokens = 200 }
  sim:at(50, function() pool:worker(2):resume() end)
  sim:submit { at_ms = 60, prompt_tokens = 640, output_tokens = 1, content = { { "document", 512 } } }
  sim:run()
  return workers_of[3], overlaps[3]
end

describe("the cost of the kv router", function()
  it("prefers the idle worker in spite of the cache: 42 against 20", function()
    assert.same({ 2, 0 }, { worked_check { policy = "kv" } })
  end)

  it("prefers the cache when prompt work counts 16 times: 72 against 170", function()
    assert.same({ 1, 8 }, { worked_check { policy = "kv", prefill_load_scale = 16 } })
  end)

  it("draws the costlier worker with probability 0.1192 at temperature 0.5", function()
    local first, n = 0, 500
    for seed = 1, n do
      first = first + (worked_check({ policy = "kv", temperature = 0.5 }, seed) == 1 and 1 or 0)
    end
    assert.near(0.1192, first / n, 0.035) -- 2.4 standard deviations; the seeds are fixed
  end)

  it("sees what the historic form sees: missing blocks and active blocks", function()
    assert.same({ 2, 0 }, { worked_check { policy = "kv_v1" } }) -- 2 + 40 against 10 + 10
    assert.same({ 1, 8 }, { worked_check { policy = "kv_v1", overlap_weight = 4 } }) -- 8 + 40 against 40 + 10
  end)
end)

describe("the cache view of a router", function()
  --- Overlaps of three prompts with the same document on one worker, sent at the times.
  local function overlaps_at(router, times)
    local sim, _, overlaps = cluster(1, router)
    for _, t in ipairs(times) do
      sim:submit { at_ms = t, prompt_tokens = 640, output_tokens = 1, content = { { "document", 640 } } }
    end
    sim:run()
    return overlaps
  end

  it("does not know the blocks of a running prefill; they are seen when the pass ends", function()
    assert.same({ 0, 0, 10 }, overlaps_at({ policy = "prefix" }, { 0, 9.999, 10 }))
  end)

  it("sees events a delay later, an event due now included", function()
    assert.same({ 0, 0, 10 }, overlaps_at({ policy = "prefix", event_delay_ms = 50 }, { 0, 59.999, 60 }))
  end)

  it("assumes, when approximate, what was sent until it expires", function()
    assert.same({ 0, 10, 10, 0 }, overlaps_at({ policy = "prefix", cache_view = "approximate", ttl_ms = 100 },
      { 0, 1, 100.999, 300 }))
  end)

  it("forgets what was evicted", function()
    local sim, _, overlaps = cluster(1, { policy = "prefix" }, 1, 16)
    local function send(name, t)
      sim:submit { at_ms = t, prompt_tokens = 640, output_tokens = 1, content = { { name, 640 } } }
    end
    send("a", 0)
    send("b", 100) -- 16 blocks do not hold both
    send("b", 200)
    send("a", 300)
    sim:run()
    assert.equal(0, overlaps[2])
    assert.equal(10, overlaps[3])
    assert.is_true(overlaps[4] < 10)
  end)

  it("is empty again after its worker was lost", function()
    local sim, workers_of, overlaps, pool = cluster(1, { policy = "prefix" })
    for _, t in ipairs { 0, 100, 200 } do
      sim:submit { at_ms = t, prompt_tokens = 640, output_tokens = 1, content = { { "a", 640 } } }
    end
    sim:at(150, function() pool:worker(1):stop() end)
    sim:at(160, function() pool:worker(1):resume() end)
    sim:run()
    assert.same({ 0, 10, 0 }, overlaps)
    assert.same({ 1, 1, 1 }, workers_of)
  end)
end)

describe("sticky sessions", function()
  --- Workers of requests with the given session and time; outputs of one token.
  local function routed(router, list)
    local sim, workers_of = cluster(3, router)
    for _, item in ipairs(list) do
      sim:submit { session = item[1], at_ms = item[2], prompt_tokens = 64, output_tokens = 1 }
    end
    sim:run()
    return workers_of
  end

  it("stay where they began, whatever the inner policy would say", function()
    assert.same({ 1, 2, 1, 2, 3 },
      routed({ policy = "session" }, { { 7, 0 }, { 8, 1 }, { 7, 100 }, { 8, 101 }, { 9, 102 } }))
  end)

  it("choose again when the time after the last answer is over", function()
    local router = { policy = "round_robin", affinity = { mode = "session", ttl_seconds = 1 } }
    assert.same({ 1, 1 }, routed(router, { { 7, 0 }, { 7, 1009.999 } })) -- the answer came at 10 ms
    assert.same({ 1, 2 }, routed(router, { { 7, 0 }, { 7, 1010 } }))
  end)

  it("refuse a run whose requests have no lineage, with siblings", function()
    local sim = cluster(2, { policy = "sibling_group" })
    sim:submit { prompt_tokens = 64, output_tokens = 1 }
    assert.error_matches(function() sim:run() end, "needs the lineage of every session")
  end)
end)

describe("requests that wait at the router", function()
  it("wait while every worker is above the limit, and are served in the order of the queue", function()
    local function order(queue)
      local sim = cluster(1, {
        policy = "least_requests", overload = { active_prefill_tokens = 100 }, queue = queue,
      })
      local out = {}
      sim:on("request.route", function(_, id) out[#out + 1] = id end)
      for i, tokens in ipairs { 1280, 640, 128, 320 } do
        sim:submit { at_ms = i, prompt_tokens = tokens, output_tokens = 1 }
      end
      sim:run()
      return out
    end
    assert.same({ 1, 2, 3, 4 }, order { order = "fcfs" })
    assert.same({ 1, 4, 3, 2 }, order { order = "lcfs" })
    assert.same({ 1, 3, 4, 2 }, order { order = "wspt" })
  end)
end)

describe("telemetry of a router", function()
  it("is as old as its period", function()
    local function second(period_ms)
      local sim, workers_of = cluster(2, { policy = "shortest_queue", telemetry_period_ms = period_ms })
      sim:submit { at_ms = 5, prompt_tokens = 4000, output_tokens = 20 }
      sim:submit { at_ms = 30, prompt_tokens = 64, output_tokens = 1 }
      sim:run()
      return workers_of[2]
    end
    assert.equal(2, second(0))  -- it knows that worker 1 runs a request
    assert.equal(1, second(50)) -- its sample is of 0 ms, before there was any
    assert.equal(2, second(20))
  end)
end)

describe("options of a built-in policy", function()
  local function message(options)
    return support.message("local sim = ...\nsim:router " .. options, (support.cluster(2)))
  end

  it("are refused with what is near, their range, or the policy they belong to", function()
    assert.equal("scenarios/a.lua:2: router: unknown key 'treshold' (did you mean 'threshold'?)",
      message "{ policy = 'prefix', treshold = 0.5 }")
    assert.matches("overlap_score_credit = 2: must be >= 0 and <= 1",
      message "{ policy = 'kv', overlap_score_credit = 2 }", 1, true)
    assert.matches("threshold", message "{ policy = 'round_robin', threshold = 0.5 }", 1, true)
    assert.matches("no effect with inner policy 'hash'",
      message "{ policy = 'session', inner = 'hash', threshold = 0.4 }", 1, true)
    assert.matches("read by least_kv", message "{ policy = 'random', telemetry_period_ms = 50 }", 1, true)
    assert.matches("policy 'round_robin' has no cost",
      message "{ policy = 'round_robin', affinity = { mode = 'session', binding = 'soft' } }", 1, true)
    assert.matches("router.weights has 1 entries: the pool has 2 workers",
      message "{ policy = 'weighted_random', weights = { 1 } }", 1, true)
    assert.matches("missing key 'router.queue.max_batched_tokens'",
      message "{ policy = 'least_tokens', queue = { threshold = 0.5 } }", 1, true)
  end)
end)

describe("random streams of routers", function()
  it("give the same run twice, and another with another seed", function()
    local function draws(seed)
      local sim, workers_of = cluster(4, { policy = "p2c" }, seed)
      for i = 1, 30 do sim:submit { at_ms = i, prompt_tokens = 64, output_tokens = 1 } end
      sim:run()
      return table.concat(workers_of, " ")
    end
    assert.equal(draws(5), draws(5))
    assert.not_equal(draws(5), draws(6))
  end)
end)

describe("affinity under agents", function()
  --- Share of prompt tokens reused by AgentX traffic on four workers.
  local function reuse(router)
    local sim = aisim.new { seed = 1 }
    sim:pool {
      workers = 4,
      engine = {
        model = "llama-3.1-8b", context_length = 1000000,
        kv_cache = { block_size = 64, capacity = { type = "fixed", blocks = 60000 } },
        timing = { type = "fixed", prefill_ms = 20, decode_ms = 5 },
      },
    }
    sim:router(router)
    sim:workload(aisim.agentx {
      plays = aisim.agentx_synthetic { plays = 30, preset = "042026" }, lanes = 12,
      profile = { duration_seconds = 300 },
    })
    return sim:run().metrics.first_admission_prefix_cache_reused_ratio
  end

  it("closes most of the gap between round robin and full reuse; lineage comes with the plays", function()
    local scattered = reuse { policy = "round_robin" }
    for _, policy in ipairs { "session", "sibling_group" } do
      assert.is_true(reuse { policy = policy } > scattered + 0.75 * (1 - scattered), policy)
    end
  end)
end)
