--- Distributions, arrivals, open and closed traffic, content of requests (spec/lua-api.md §3, §5).
local support = dofile "tests/spec/lua/support.lua"
local aisim = require "aisim"
local core = require "aisim.core"

local D, A = aisim.dist, aisim.arrivals

local function sample(dist, n)
  local rng, values, sum = core.rng(3, "spec"), {}, 0
  for i = 1, n or 40000 do
    values[i] = dist:sample(rng)
    sum = sum + values[i]
  end
  table.sort(values)
  return { mean = sum / #values, p50 = values[#values // 2], p99 = values[#values * 99 // 100], min = values[1],
    max = values[#values] }
end

local function near(expected, got, relative)
  assert.is_true(math.abs(got - expected) <= (relative or 0.03) * expected, ("%g is not near %g"):format(got, expected))
end

describe("distributions", function()
  it("have the figures they were made from", function()
    local s = sample(D.lognormal { p50 = 800, p99 = 8000 })
    near(800, s.p50)
    near(8000, s.p99, 0.08)
    s = sample(D.lognormal { mean = 250, p99 = 1500 })
    near(250, s.mean)
    near(1500, s.p99, 0.08)
    s = sample(D.lognormal { mean = 250, p50 = 200 })
    near(250, s.mean)
    near(200, s.p50)
    near(5, sample(D.exp { mean = 5 }).mean)
    near(5, sample(D.gamma { mean = 5, cv = 2 }).mean, 0.06)
    near(2, sample(D.uniform(1, 3)).mean)
    near(3.25, sample(D.empirical { { 1, 3 }, { 10, 1 } }).mean)
    near(2, sample(D.mixture { { 0.9, 1 }, { 0.1, D.const(11) } }).mean)
  end)

  it("stay in their bounds", function()
    local s = sample(D.clamp(D.exp { mean = 5 }, 1, 6))
    assert.equal(1, s.min)
    assert.equal(6, s.max)
    s = sample(D.zipf { n = 8, s = 1.1 })
    assert.equal(1, s.min)
    assert.equal(8, s.max)
    assert.equal(2, sample(D.pareto { min = 2, alpha = 3 }, 1e5).min // 1)
  end)

  it("may be functions of the stream", function()
    near(3.5, sample(D.fn(function(rng) return rng:random(1, 6) end)).mean)
  end)

  it("say what cannot be", function()
    local function message(text) return support.message("local D = ...\n" .. text, D) end
    assert.equal("scenarios/a.lua:2: dist.lognormal: exactly two of mean, p50, p99 expected, got 1",
      message "D.lognormal { p50 = 1 }")
    assert.equal("scenarios/a.lua:2: dist.lognormal: unknown key 'p98' (did you mean 'p99'?)",
      message "D.lognormal { p50 = 1, p98 = 2 }")
    assert.equal("scenarios/a.lua:2: dist.exp.mean: number expected, got nil", message "D.exp {}")
    assert.equal("scenarios/a.lua:2: dist.exp.mean = -1: must be > 0", message "D.exp { mean = -1 }")
  end)

  it("draw the same for the same (seed, name), whoever else draws", function()
    local sim = aisim.new { seed = 4 }
    local a = sim:rng "think"
    sim:rng("other"):random()
    local other = aisim.new { seed = 4 }
    assert.equal(a:random(), other:rng("think"):random())
    assert.equal(sim:rng "think", a)
  end)
end)

describe("arrivals", function()
  local function times(process, n) return process:times(core.rng(3, "spec"), n or 20000) end

  it("come at their rate", function()
    local weibull = A.weibull { rate = "5/s", shape = 0.7 }
    for _, process in ipairs { A.poisson { rate = 5 }, A.gamma { rate = 5, cv = 2 }, weibull } do
      near(20000 / 5 * 1000, times(process)[20000], 0.05)
    end
  end)

  it("of a constant rate have no drift", function()
    local t = times(A.constant_rate { rate = 3 }, 3001)
    assert.equal(0, t[1])
    assert.equal(1000000, t[3001])
  end)

  it("follow a schedule of rates", function()
    local t = times(A.schedule { { 0, "2/s" }, { 60, "8/s" }, { "2m", 0 } })
    local first, second = 0, 0
    for _, ms in ipairs(t) do
      if ms < 60e3 then first = first + 1 else second = second + 1 end
    end
    near(120, first, 0.3)
    near(480, second, 0.2)
    assert.is_true(t[#t] < 120e3)
  end)

  it("may come in bursts, at once, at given times", function()
    assert.same({ 0, 0, 1000, 1000 }, times(A.burst { size = 2, every_ms = 1000 }, 4))
    assert.same({ 0, 0, 0 }, times(A.all_at_once { n = 3 }))
    assert.same({ 1, 2, 2, 5 }, times(A.trace { 1, 2, 2, 5 }))
  end)
end)

describe("open traffic", function()
  it("arrives whatever the server does, until its end", function()
    local sim = support.cluster()
    sim:workload(aisim.open { class = "chat", arrivals = A.constant_rate { rate = 10 }, until_ms = "1s", prompt = 8,
      output = 2 })
    local seen = {}
    sim:on("request.arrive", function(t, _, prompt, output, req) seen[#seen + 1] = { t, prompt, output, req.class } end)
    sim:run()
    assert.equal(10, #seen)
    assert.same({ 0, 8, 2, "chat" }, seen[1])
    assert.equal(900, seen[10][1])
  end)

  it("shares prefixes by group", function()
    local sim = support.cluster()
    sim:workload(aisim.open { arrivals = A.constant_rate { rate = 10 }, requests = 20, prompt = 8, output = 1,
      prefix = { groups = 2, tokens = 16 } })
    local reused, prompt = 0, nil
    sim:on("request.finish", function(_, _, _, _, _, req)
      reused, prompt = reused + req.reused_tokens, req.prompt_tokens
    end)
    sim:run()
    assert.equal(18 * 16, reused)
    assert.equal(24, prompt)
  end)

  it("gives requests their deadline", function()
    local sim = support.cluster()
    sim:workload(aisim.open { arrivals = A.constant_rate { rate = 10 }, requests = 2, prompt = 8, output = 1,
      deadline_ms = "2s" })
    local deadlines = {}
    sim:on("request.arrive", function(_, id, _, _, req) deadlines[id] = req.deadline_ms end)
    sim:run()
    assert.same({ 2000, 2100 }, deadlines)
  end)

  it("does not shift when another workload is added", function()
    local function chat(more)
      local sim = support.cluster()
      if more then
        sim:workload(aisim.open { class = "bulk", arrivals = A.poisson { rate = 2 }, requests = 20,
          prompt = D.exp { mean = 9 }, output = 1 })
      end
      sim:workload(aisim.open { class = "chat", arrivals = A.poisson { rate = 5 }, requests = 30,
        prompt = D.exp { mean = 9 }, output = 1 })
      local out = {}
      sim:on("request.arrive", function(t, _, prompt) out[#out + 1] = { t, prompt } end, { class = "chat" })
      sim:run()
      return out
    end
    assert.same(chat(false), chat(true))
  end)

  it("needs an end, and a pool", function()
    assert.equal("scenarios/a.lua:2: aisim.open: traffic without an end; "
      .. "give until_ms, requests, sessions or tokens", support.message(
      "local aisim = ...\naisim.open { arrivals = aisim.arrivals.poisson { rate = 1 }, prompt = 1, output = 1 }",
      aisim))
    assert.equal("scenarios/a.lua:2: sim:workload: the simulation has no pool yet; declare it first", support.message(
      "local aisim = ...\naisim.new():workload(aisim.closed { users = 1, requests = 1, prompt = 1, output = 1 })",
      aisim))
  end)

  it("reports errors of its functions with the line", function()
    local sim = support.cluster()
    local message = select(2, support.script([[
local sim, aisim = ...
sim:workload(aisim.open { class = "chat", arrivals = aisim.arrivals.constant_rate { rate = 1 }, requests = 1,
  prompt = 4, output = function(rng) return rng.mean + 1 end })
sim:run()]], sim, aisim))
    assert.matches("^scenarios/a.lua:3: Rng: unknown field 'mean'", message)
    assert.matches("in workload 'open/chat' at t = 0 ms", message)
  end)
end)

describe("closed traffic", function()
  it("keeps as many requests in flight as there are users", function()
    local sim = support.cluster()
    sim:workload(aisim.closed { users = 3, requests = 12, prompt = 8, output = 1 })
    local live, most, n = 0, 0, 0
    sim:on("request.arrive", function() live = live + 1 most = math.max(most, live) n = n + 1 end)
    sim:on("request.finish", function() live = live - 1 end)
    sim:run()
    assert.equal(3, most)
    assert.equal(12, n)
  end)

  it("thinks between answer and next request", function()
    local sim = support.cluster()
    sim:workload(aisim.closed { users = 1, requests = 2, think_ms = 100, prompt = 8, output = 1 })
    local t = {}
    sim:on("request.arrive", function(now) t[#t + 1] = now end)
    sim:run()
    assert.same({ 0, 110 }, t)
  end)
end)

describe("a submitted request", function()
  it("shares content by name or by block ids", function()
    local function reused(content)
      local sim = support.cluster()
      local out = {}
      sim:on("request.admit", function(_, id, _, tokens) out[id] = tokens end)
      for i = 1, 2 do sim:submit { at_ms = 100 * i, prompt_tokens = 20, output_tokens = 1, content = content } end
      sim:run()
      return out[2]
    end
    assert.equal(12, reused { { "a", 8 }, { "b", 4 } })
    assert.equal(16, reused { hash_ids = { 7, 8 }, block_size = 8 })
    assert.equal(0, reused(nil))
  end)

  it("says what is wrong with it", function()
    local sim = support.cluster()
    local function message(options) return support.message("(...):submit " .. options, sim) end
    assert.equal("scenarios/a.lua:1: sim:submit: unknown key 'prompt_token' (did you mean 'prompt_tokens'?)",
      message "{ prompt_token = 1, output_tokens = 1 }")
    assert.equal("scenarios/a.lua:1: sim:submit.prompt_tokens = -4: must be >= 0",
      message "{ prompt_tokens = -4, output_tokens = 1 }")
    assert.equal("scenarios/a.lua:1: sim:submit.prompt_tokens: number of tokens expected, got nil",
      message "{ output_tokens = 1 }")
    assert.equal("scenarios/a.lua:1: content[1]: { name, tokens } expected, got string",
      message "{ prompt_tokens = 8, output_tokens = 1, content = { 'system' } }")
    assert.equal("scenarios/a.lua:1: unknown pool 'mian' (did you mean 'main'?)",
      message "{ prompt_tokens = 8, output_tokens = 1, pool = 'mian' }")
  end)
end)
