--- Load shapes, stop rules and warmup (spec/traffic.md §3.1, §3.5, §3.6).
local support = dofile "tests/spec/lua/support.lua"
local aisim = require "aisim"
local core = require "aisim.core"

local A = aisim.arrivals

local function times(process, n) return process:times(core.rng(3, "spec"), n) end

local function near(expected, got, relative)
  assert.is_true(math.abs(got - expected) <= relative * expected, ("%g is not near %g"):format(got, expected))
end

--- Arrival times (ms) of a workload, and the tags of the requests.
local function arrivals_of(workload, sim)
  sim = sim or support.cluster()
  sim:workload(workload)
  local at, sessions = {}, {}
  sim:on("request.arrive", function(t, _, _, _, req) at[#at + 1], sessions[#sessions + 1] = t, req.session end)
  local run = sim:run()
  return at, run, sessions
end

local function message(text) return support.message("local aisim = ...\nlocal A = aisim.arrivals\n" .. text, aisim) end

describe("an arrival process", function()
  it("of gamma gaps has CV 1 / sqrt(smoothness)", function()
    for _, smoothness in ipairs { 0.25, 1, 4, 16 } do
      local t = times(A.gamma { rate = 10, smoothness = smoothness }, 40000)
      local sum, square = 0, 0
      for i = 2, #t do
        local gap = t[i] - t[i - 1]
        sum, square = sum + gap, square + gap * gap
      end
      local n = #t - 1
      local mean = sum / n
      near(100, mean, 0.05)
      near(1 / math.sqrt(smoothness), math.sqrt(square / n - mean * mean) / mean, 0.05)
    end
    assert.same(times(A.gamma { rate = 2, cv = 0.5 }, 50), times(A.gamma { rate = 2, smoothness = 4 }, 50))
  end)

  it("along a ramp has the rate of its line", function()
    local t = times(A.ramp { { 0, 0 }, { 100, "100/s" }, { "200s", 0 } }, 1e6)
    near(10000, #t, 0.05)
    assert.is_true(t[#t] < 200e3)
    local half = 0
    for _, ms in ipairs(t) do
      if ms >= 50e3 and ms < 150e3 then half = half + 1 end
    end
    near(7500, half, 0.05)
    assert.is_true(#times(A.ramp { { 0, 1 }, { 1, 5 } }, 3000) == 3000) -- the last rate stays
  end)

  it("along a square is high for its part of the period", function()
    local t = times(A.square { base = 10, amplitude = 90, period_ms = 1000, duty = 0.2 }, 28000)
    near(1000e3, t[#t], 0.05) -- 28 per second
    local high = 0
    for _, ms in ipairs(t) do
      if ms % 1000 < 200 then high = high + 1 end
    end
    near(20 / 28, high / #t, 0.03)
    for _, ms in ipairs(times(A.square { base = 0, amplitude = 5, period_ms = 1000 }, 500)) do
      assert.is_true(ms % 1000 < 500)
    end
  end)

  it("along a sine follows it", function()
    local t = times(A.sine { base = 50, amplitude = 50, period_ms = 1000 }, 50000)
    near(1000e3, t[#t], 0.05)
    local first = 0 -- integral over the first half of 1 + sin: 1/2 + 1/pi
    for _, ms in ipairs(t) do
      if ms % 1000 < 500 then first = first + 1 end
    end
    near(0.5 + 1 / math.pi, first / #t, 0.02)
  end)

  it("may be one burst, or many", function()
    assert.same({ 0, 0, 0, 0 }, times(A.burst {}, 4))
    assert.same({ 0, 0, 0, 250, 250, 250, 500 }, times(A.burst { size = 3, every_ms = 250 }, 7))
  end)

  it("with a rate refuses what has no gap", function()
    assert.equal("scenarios/a.lua:3: arrivals.poisson.rate = 0: must be > 0", message "A.poisson { rate = 0 }")
    assert.equal("scenarios/a.lua:3: arrivals.constant_rate.rate: must be finite",
      message "A.constant_rate { rate = 1 / 0 }")
    assert.equal("scenarios/a.lua:3: arrivals.gamma.rate = 4.9406564584125e-324: its reciprocal must be finite",
      message "A.gamma { rate = 2^-1074, cv = 1 }")
    assert.equal("scenarios/a.lua:3: arrivals.gamma: one of cv, smoothness expected",
      message "A.gamma { rate = 1 }")
    assert.equal("scenarios/a.lua:3: arrivals.sine.amplitude = 3: must be <= base, or the rate falls below 0",
      message "A.sine { base = 2, amplitude = 3, period_ms = 10 }")
    assert.equal("scenarios/a.lua:3: arrivals.ramp[2]: time = 500: must be >= 1000",
      message "A.ramp { { 1, 2 }, { 0.5, 3 } }")
    assert.equal("scenarios/a.lua:3: arrivals.ramp: the rate is 0 all the time", message "A.ramp { { 1, 0 } }")
    assert.equal("scenarios/a.lua:3: arrivals.burst: size and every_ms belong together; without both everything "
      .. "comes at the start", message "A.burst { size = 2 }")
  end)
end)

describe("a number in flight", function()
  -- one request takes 10 ms of prefill; worker capacity is not the limit
  local function most_in_flight(users, until_ms)
    local sim = support.cluster(8)
    sim:workload(aisim.closed { users = users, until_ms = until_ms, prompt = 8, output = 1 })
    local live, levels = 0, {}
    sim:on("request.arrive", function(t)
      live = live + 1
      levels[t // 1000] = math.max(levels[t // 1000] or 0, live)
    end)
    sim:on("request.finish", function() live = live - 1 end)
    sim:run()
    return levels
  end

  it("rises and falls along a line", function()
    local levels = most_in_flight({ { 0, 1 }, { 4, 5 }, { 6, 5 }, { 10, 1 } }, 12e3)
    assert.same({ 2, 3, 4, 5 }, { levels[1], levels[2], levels[3], levels[4] })
    assert.equal(5, levels[5])
    assert.same({ 5, 4, 3, 2, 1 }, { levels[6], levels[7], levels[8], levels[9], levels[11] })
  end)

  it("takes steps, and starts a unit at the moment the line reaches it", function()
    local sim = support.cluster()
    -- requests that take more than 3 s
    sim:workload(aisim.closed { users = { { 0, 1 }, { 2, 3 }, { 3, 3 }, { 3, 5 } }, until_ms = 10e3, prompt = 8,
      output = 1000 })
    local t = {}
    sim:on("request.arrive", function(now) t[#t + 1] = now end)
    sim:run { until_ms = 3500 }
    assert.same({ 0, 1000, 2000, 3000, 3000 }, t)
  end)

  it("may begin with none", function()
    local at = arrivals_of(aisim.closed { users = { { 1, 0 }, { 3, 1 } }, requests = 1, prompt = 8, output = 1 })
    assert.same({ 3000 }, at)
  end)

  it("is chosen to fill a part of the KV capacity", function()
    -- 256 blocks of 4 tokens; 60 + 8 / 2 = 64 tokens each: 16 fill it
    local function users(fraction, prompt)
      local sim = support.cluster(2)
      sim:workload(aisim.closed { kv_capacity_fraction = fraction, requests = 200, prompt = prompt or 60, output = 8 })
      local live, most = 0, 0
      sim:on("request.arrive", function() live = live + 1 most = math.max(most, live) end)
      sim:on("request.finish", function() live = live - 1 end)
      sim:run()
      return most
    end
    assert.equal(32, users(1)) -- two workers
    assert.equal(16, users(0.5))
    assert.equal(48, users(1.5)) -- more than fits may be asked for
    assert.equal(1, users(1e-6))
    near(32, users(1, aisim.dist.uniform(20, 100)), 0.04)
  end)

  it("of users with think times is user-centric traffic", function()
    local at, _, sessions = arrivals_of(aisim.synthetic_session { users = 1, think_ms = 100, sessions = 2, turns = 2,
      new_input_tokens_per_turn = 4, output_tokens_per_turn = 1 })
    assert.same({ 0, 110, 220, 330 }, at) -- also between the sessions of a user
    assert.same({ 1, 1, 2, 2 }, sessions)
  end)

  it("needs one way to say it", function()
    assert.equal("scenarios/a.lua:3: aisim.closed: users and kv_capacity_fraction say the same thing; give one",
      message "aisim.closed { users = 2, kv_capacity_fraction = 1, requests = 1, prompt = 1, output = 1 }")
    assert.equal("scenarios/a.lua:3: aisim.closed.users: whole number expected, got nil",
      message "aisim.closed { requests = 1, prompt = 1, output = 1 }")
    assert.equal("scenarios/a.lua:3: aisim.closed.users = 0: must be >= 1",
      message "aisim.closed { users = 0, requests = 1, prompt = 1, output = 1 }")
    assert.equal("scenarios/a.lua:3: aisim.closed.kv_capacity_fraction = 0: must be > 0",
      message "aisim.closed { kv_capacity_fraction = 0, requests = 1, prompt = 1, output = 1 }")
    assert.equal("scenarios/a.lua:3: aisim.closed.users[2]: value = -1: must be >= 0",
      message "aisim.closed { users = { { 0, 1 }, { 1, -1 } }, requests = 1, prompt = 1, output = 1 }")
    assert.equal("scenarios/a.lua:3: aisim.agent.think_ms: distribution expected, got nil (users think before their "
      .. "next turn)", message "aisim.agent { users = 2, sessions = 1 }")
  end)
end)

describe("a stop rule", function()
  local function count(options)
    options.prompt, options.output = options.prompt or 8, options.output or 2
    return #arrivals_of(options.users and aisim.closed(options) or aisim.open(options))
  end

  it("is a number of requests, of tokens, or a time; the first reached wins", function()
    assert.equal(7, count { users = 2, requests = 7 })
    assert.equal(5, count { users = 2, requests = 9, sessions = 5 })
    assert.equal(4, count { users = 1, tokens = 35 }) -- 10, 20, 30: one more
    assert.equal(3, count { users = 1, tokens = 30, requests = 9 })
    assert.equal(10, count { arrivals = A.constant_rate { rate = 10 }, until_ms = 1000, requests = 500 })
  end)

  it("may be per load unit, halves to even", function()
    assert.equal(8, count { arrivals = A.constant_rate { rate = 2.5 }, requests_per_load_unit = 3 })
    assert.equal(6, count { users = 2, requests_per_load_unit = 3 })
    assert.equal(1, count { users = 2, requests_per_load_unit = 0.01 })
    assert.equal(2, #arrivals_of(aisim.synthetic_session { concurrency = 1, sessions_per_load_unit = 2,
      turns = 1, new_input_tokens_per_turn = 4 }))
    local sim = support.cluster()
    local workload = aisim.open { arrivals = A.ramp { { 0, 1 }, { 1, 2 } }, requests_per_load_unit = 3, prompt = 1,
      output = 1 }
    local ok, text = pcall(function() sim:workload(workload) end)
    assert.is_false(ok)
    assert.matches("aisim.open.requests_per_load_unit: the load has no single value; give a number", text)
  end)

  it("of a burst is a number", function()
    assert.equal(9, count { arrivals = A.burst {}, requests = 9 })
    assert.equal("scenarios/a.lua:3: aisim.open: a burst without an end; give requests, sessions or tokens",
      message "aisim.open { arrivals = A.burst {}, until_ms = 1000, prompt = 1, output = 1 }")
    assert.equal("scenarios/a.lua:3: aisim.open.warmup: a burst that has no end fills the time; give requests",
      message "aisim.open { arrivals = A.burst {}, requests = 1, warmup = { seconds = 1 }, prompt = 1, output = 1 }")
  end)

  it("may be real time, which the result says", function()
    local sim = support.cluster()
    sim:workload(aisim.closed { users = 4, requests = 1e7, prompt = 8, output = 2 })
    local run = sim:run { max_wall_time_ms = 1 }
    assert.equal("stopped", run.status)
    assert.equal("max_wall_time_ms = 1 reached", run.reason)
  end)

  it("counts sessions begun and turns sent", function()
    local function session(options)
      options.turns, options.new_input_tokens_per_turn, options.output_tokens_per_turn = 3, 4, 1
      return #arrivals_of(aisim.synthetic_session(options))
    end
    assert.equal(6, session { concurrency = 1, sessions = 2 })
    assert.equal(4, session { concurrency = 1, requests = 4 })
    assert.equal(6, session { arrivals = A.constant_rate { rate = 1 }, sessions = 2 }) -- a rate starts first turns
  end)
end)

describe("a warmup", function()
  local function run(workload, more)
    local sim = support.cluster(1, more)
    local phases, at = {}, {}
    sim:on("phase", function(t, from, to) phases[#phases + 1] = ("%g %s %s"):format(t, from, to) end)
    sim:on("request.arrive", function(t) at[#at + 1] = t end)
    sim:workload(workload)
    local result = sim:run()
    return result.metrics, phases, at
  end

  it("is the first requests, told apart by their phase, and counts in no stop rule", function()
    local m, phases = run(aisim.closed { users = 1, requests = 5, warmup = { requests = 3 }, prompt = 8, output = 1 })
    assert.equal(3, m.preparation_requests)
    assert.equal(5, m.completed_requests)
    assert.same({ "0 start warmup", "30 warmup profile" }, phases)
    assert.equal(50, m.duration_ms) -- the clock starts with the first measured request
  end)

  it("is the first seconds", function()
    local m, phases = run(aisim.open { arrivals = A.constant_rate { rate = 10 }, until_ms = 2000,
      warmup = { seconds = 0.5 }, prompt = 8, output = 1 })
    assert.equal(5, m.preparation_requests)
    assert.equal(15, m.completed_requests)
    assert.same({ "0 start warmup", "500 warmup profile" }, phases)
  end)

  it("with a barrier waits until everything has ended", function()
    local m, phases, at = run(aisim.open { arrivals = A.constant_rate { rate = 100 }, requests = 3,
      warmup = { requests = 2, barrier = true }, prompt = 8, output = 10 })
    assert.equal(2, m.preparation_requests)
    assert.equal(3, m.completed_requests)
    assert.same({ 0, 10 }, { at[1], at[2] })
    local opened = tonumber(phases[2]:match "^(%S+) warmup barrier$")
    assert.is_true(opened > 40) -- ten tokens take longer than the next gap
    assert.same({ opened, opened + 10, opened + 20 }, { at[3], at[4], at[5] })
    assert.equal(("%g barrier profile"):format(opened), phases[3])
  end)

  it("with a barrier holds turns of sessions under way", function()
    local _, phases, at = run(aisim.synthetic_session { concurrency = 2, sessions = 4, turns = 3,
      new_input_tokens_per_turn = 4, output_tokens_per_turn = 2, warmup = { requests = 3, barrier = true } })
    local opened = tonumber(phases[2]:match "^(%S+) warmup barrier$")
    assert.is_true(at[3] < opened)
    assert.equal(opened, at[4])
    assert.equal(opened, at[5])
  end)

  it("with a barrier waits for copies to the host tier", function()
    local _, phases = run(aisim.closed { users = 1, requests = 1, warmup = { requests = 1, barrier = true },
      prompt = 40, output = 1 }, {
      kv_cache = { block_size = 4, bytes_per_token = 1e6, capacity = { type = "fixed", blocks = 64 },
        host_offload = { num_host_blocks = 64, d2h_bandwidth_gbps = 0.4 } },
    })
    -- ten blocks of 4 MB at 0.4 GB/s take 100 ms behind the pass of 10 ms
    assert.is_true(tonumber(phases[2]:match "^(%S+) warmup barrier$") >= 100, phases[2])
  end)

  it("tags and holds the calls of coroutines", function()
    local sim = support.cluster()
    local phases, at, answers = {}, {}, 0
    sim:on("phase", function(t, from, to) phases[#phases + 1] = ("%g %s %s"):format(t, from, to) end)
    sim:on("request.arrive", function(t) at[#at + 1] = t end)
    sim:sessions { concurrency = 2, sessions = 3, warmup = { requests = 3, barrier = true }, body = function(s)
      for _ = 1, 2 do
        local r = s:call { prompt_tokens = 8, output_tokens = 2 }
        assert(r.reason == "length" and r.prompt_tokens == 8)
        answers = answers + 1
      end
    end }
    local m = sim:run().metrics
    assert.equal(3, m.preparation_requests)
    assert.equal(#at - 3, m.completed_requests)
    assert.equal(answers, #at)
    local opened = tonumber(phases[2]:match "^(%S+) warmup barrier$")
    assert.is_true(at[3] < opened)
    assert.equal(opened, at[4])
    assert.equal(5 * 2, #at) -- two sessions begun in the warmup, three measured
  end)

  it("that fails keeps the barrier closed", function()
    local sim = support.cluster(1, { context_length = 16 })
    sim:workload(aisim.closed { users = 1, requests = 1, warmup = { requests = 1, barrier = true }, prompt = 40,
      output = 1 })
    local ok, text = pcall(function() sim:run() end)
    assert.is_false(ok)
    assert.matches("the warmup failed: request 1 ended with 'context', the barrier stays closed", tostring(text))
  end)

  it("of several workloads ends with the last one", function()
    local sim = support.cluster()
    local phases = {}
    sim:on("phase", function(t, from, to) phases[#phases + 1] = ("%g %s %s"):format(t, from, to) end)
    for _, seconds in ipairs { 0.2, 0.4 } do
      sim:workload(aisim.open { arrivals = A.constant_rate { rate = 10 }, until_ms = 1000,
        warmup = { seconds = seconds }, prompt = 8, output = 1 })
    end
    local m = sim:run().metrics
    assert.same({ "0 start warmup", "400 warmup profile" }, phases)
    assert.equal(6, m.preparation_requests)
    assert.equal(14, m.completed_requests)
  end)

  it("that does not end is told", function()
    local sim = support.cluster()
    sim:workload(aisim.open { arrivals = A.constant_rate { rate = 10 }, until_ms = 1000, warmup = { requests = 50 },
      prompt = 8, output = 1 })
    local result = sim:run()
    assert.equal(0, result.metrics.completed_requests)
    assert.same({ "the warmup had not ended when the run did: what it sent is not measured" }, result.notes)
  end)

  it("is one of two things", function()
    assert.equal("scenarios/a.lua:3: aisim.open.warmup: one of requests, seconds expected",
      message "aisim.open { arrivals = A.burst {}, requests = 1, warmup = {}, prompt = 1, output = 1 }")
    assert.equal("scenarios/a.lua:3: aisim.open.warmup: unknown key 'second' (did you mean 'seconds'?)",
      message "aisim.open { arrivals = A.burst {}, requests = 1, warmup = { second = 1 }, prompt = 1, output = 1 }")
  end)
end)
