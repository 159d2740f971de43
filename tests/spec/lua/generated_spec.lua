--- Generated sessions and their content (spec/traffic.md §3.2, spec/lua-api.md §5, §13 B).
local support = dofile "tests/spec/lua/support.lua"
local aisim = require "aisim"
local core = require "aisim.core"

local A, D = aisim.arrivals, aisim.dist

local function near(expected, got, relative)
  assert.is_true(math.abs(got - expected) <= relative * expected, ("%g is not near %g"):format(got, expected))
end

--- Requests in order of arrival: { at, prompt, output, session, turn, reused, end }.
local function requests_of(workload, engine, seed)
  local sim = aisim.new { seed = seed or 1 }
  sim:pool { engine = support.engine(engine) }
  sim:workload(workload)
  local list = {}
  sim:on("request.arrive", function(t, id, prompt, output, req)
    list[id] = { at = t, prompt = prompt, output = output, session = req.session, turn = req.turn }
  end)
  sim:on("request.admit", function(_, id, _, reused) list[id].reused = reused end)
  sim:on("request.finish", function(t, id) list[id].ended = t end)
  local run = sim:run()
  return list, run
end

local function columns(list, ...)
  local out = {}
  for i, name in ipairs { ... } do
    out[i] = {}
    for k, request in ipairs(list) do out[i][k] = request[name] end
  end
  return table.unpack(out)
end

local function message(text) return support.message("local aisim = ...\n" .. text, aisim) end
local LARGE <const> = { kv_cache = { block_size = 4, capacity = { type = "fixed", blocks = 1000000 } },
  scheduler = { max_batched_tokens = 100000, max_sequences = 64 } }

describe("a synthetic session", function()
  it("sends the whole conversation again with new input", function()
    local list = requests_of(aisim.synthetic_session { concurrency = 1, sessions = 1, turns = 3,
      new_input_tokens_per_turn = 10, output_tokens_per_turn = 5, inter_turn_delay_ms = 50 })
    local prompt, turn, reused, at = columns(list, "prompt", "turn", "reused", "at")
    assert.same({ 10, 25, 40 }, prompt)
    assert.same({ 0, 1, 2 }, turn)
    assert.same({ 0, 12, 28 }, reused) -- 14 and 29 tokens were computed: answers are found again
    assert.same({ list[1].ended + 50, list[2].ended + 50 }, { at[2], at[3] })
  end)

  it("shares a part of its first input with its group", function()
    local list, run = requests_of(aisim.synthetic_session { concurrency = 1, sessions = 6, turns = 1,
      new_input_tokens_per_turn = 40, output_tokens_per_turn = 1, shared_prefix_ratio = 0.5, prefix_groups = 1 })
    local prompt, reused = columns(list, "prompt", "reused")
    assert.same({ 40, 40, 40, 40, 40, 40 }, prompt)
    assert.same({ 0, 20, 20, 20, 20, 20 }, reused)
    assert.equal(100 / 240, run.metrics.ideal_reuse_ratio)
    list = requests_of(aisim.synthetic_session { concurrency = 1, sessions = 300, turns = 1,
      new_input_tokens_per_turn = 40, output_tokens_per_turn = 1, shared_prefix_ratio = 0.5, prefix_groups = 2,
      prefix_weights = { 1, 0 } }, LARGE)
    assert.equal(20, list[300].reused)
  end)

  it("draws the same whatever the server does and whoever else draws", function()
    local function lengths(prefill_ms, other)
      local sim = support.cluster(1, { timing = { type = "fixed", prefill_ms = prefill_ms, decode_ms = 1 } })
      if other then
        sim:workload(aisim.synthetic_session { class = "other", concurrency = 2, sessions = 5,
          turns = D.uniform(1, 9) })
      end
      sim:workload(aisim.synthetic_session { class = "chat", concurrency = 3, sessions = 12, turns = D.uniform(1, 6),
        new_input_tokens_per_turn = D.exp { mean = 20 }, output_tokens_per_turn = D.exp { mean = 9 } })
      local sessions, order = {}, {}
      sim:on("request.arrive", function(_, _, prompt, output, req)
        if not sessions[req.session] then
          sessions[req.session] = {}
          order[#order + 1] = sessions[req.session]
        end
        table.insert(sessions[req.session], { prompt, output })
      end, { class = "chat" })
      sim:run()
      return order
    end
    local all = lengths(3)
    assert.equal(12, #all)
    assert.same(all, lengths(50))
    assert.same(all, lengths(3, true))
  end)

  it("says which quantity a distribution gave that cannot be", function()
    for key, text in pairs { inter_turn_delay_ms = ">= 0, finite expected", turns = "0 .. 2147483647 expected" } do
      for _, dist in ipairs { D.const(-1), function() return -1 end } do
        local ok, failure = pcall(requests_of, aisim.synthetic_session { concurrency = 1, sessions = 1,
          new_input_tokens_per_turn = 4, output_tokens_per_turn = 1, [key] = dist })
        assert.is_false(ok)
        assert.matches(key .. ": the distribution gave %-1.000000; " .. text, tostring(failure))
      end
    end
    local ok, failure = pcall(requests_of, aisim.agent { concurrency = 1, sessions = 1,
      steps = function(rng) return rng.mean + 1 end })
    assert.is_false(ok)
    assert.matches("Rng: unknown field 'mean'", tostring(failure))
    assert.matches("in workload 'agent' at t = 0 ms", tostring(failure))
  end)

  it("draws the same with and without Lua", function()
    local function prompts(wrap)
      local list = requests_of(aisim.synthetic_session { concurrency = 2, sessions = 9,
        new_input_tokens_per_turn = wrap(D.clamp(D.lognormal { p50 = 20, p99 = 90 }, 5, 80)) })
      return (columns(list, "prompt"))
    end
    local plain = prompts(function(dist) return dist end)
    assert.same(plain, prompts(function(dist) return function(rng) return dist:sample(rng) end end))
  end)

  it("has a number that no session of another workload has", function()
    local sim = support.cluster()
    for _ = 1, 2 do
      sim:workload(aisim.synthetic_session { concurrency = 2, sessions = 4, turns = 2, new_input_tokens_per_turn = 8 })
    end
    local draws = {}
    for _, class in ipairs { "a", "b" } do
      sim:sessions { class = class, arrivals = A.constant_rate { rate = 10 }, sessions = 3, body = function(s)
        draws[class .. s.id] = s.rng:random()
        s:call { prompt_tokens = 8, output_tokens = 1 }
      end }
    end
    local owners, n = {}, 0
    sim:on("request.arrive", function(_, _, _, _, req)
      if req.turn > 0 then return end
      assert.is_nil(owners[req.session])
      owners[req.session], n = true, n + 1
    end)
    sim:run()
    assert.equal(14, n)
    -- what a session draws depends on its own kind alone
    local alone = aisim.new { seed = 1 }
    alone:pool { engine = support.engine() }
    local first
    alone:sessions { class = "b", arrivals = A.constant_rate { rate = 10 }, sessions = 1, body = function(s)
      first = s.rng:random()
    end }
    alone:run()
    local found = false
    for name, value in pairs(draws) do found = found or (name:sub(1, 1) == "b" and value == first) end
    assert.is_true(found)
  end)

  it("refuses what would do nothing", function()
    assert.equal("scenarios/a.lua:2: aisim.synthetic_session.prefix_groups: whole number expected, got nil "
      .. "(shared_prefix_ratio > 0)",
      message "aisim.synthetic_session { concurrency = 1, sessions = 1, shared_prefix_ratio = 0.5 }")
    assert.equal("scenarios/a.lua:2: aisim.synthetic_session.prefix_groups: has no effect without "
      .. "shared_prefix_ratio", message "aisim.synthetic_session { concurrency = 1, sessions = 1, prefix_groups = 2 }")
    assert.equal("scenarios/a.lua:2: aisim.synthetic_session: traffic without an end; give until_ms, requests, "
      .. "sessions or tokens", message "aisim.synthetic_session { concurrency = 1 }")
    assert.equal("scenarios/a.lua:2: aisim.synthetic_session: unknown key 'turn' (did you mean 'turns'?)",
      message "aisim.synthetic_session { concurrency = 1, sessions = 1, turn = 1 }")
    assert.equal("scenarios/a.lua:2: aisim.synthetic_session.think_ms: has no effect with concurrency; it belongs to "
      .. "users", message "aisim.synthetic_session { concurrency = 1, sessions = 1, think_ms = 1 }")
  end)
end)

describe("an agent", function()
  it("runs as printed, with defaults", function()
    local sim = aisim.new { seed = 1 }
    sim:pool { workers = 8, engine = { model = "qwen3-32b", parallelism = { tensor = 2 } } }
    sim:workload(aisim.agent { arrivals = A.poisson { rate = 0.2 }, until_ms = 120e3 })
    local m = sim:run().metrics
    assert.is_true(m.completed_requests > 50)
    assert.is_true(m.first_admission_prefix_cache_reused_ratio > 0.5)
    assert.is_true(m.first_admission_prefix_cache_reused_ratio <= m.ideal_reuse_ratio)
  end)

  it("does what the coroutine of the manual does", function()
    local function trail(start)
      local sim = aisim.new { seed = 1 }
      sim:pool { engine = support.engine(LARGE) }
      start(sim)
      local list = {}
      sim:on("request.arrive", function(t, _, prompt, output, req)
        list[#list + 1] = { t, prompt, output, req.session, req.turn }
      end)
      local m = sim:run().metrics
      return list, m.first_admission_prefix_cache_reused_ratio
    end
    local list, reuse = trail(function(sim)
      sim:workload(aisim.agent { arrivals = A.constant_rate { rate = 1 }, sessions = 3, task = 50, steps = 12,
        output = 20, tool_ms = 300, tool_tokens = 40, system = { tokens = 100 }, compact = { above = 500, to = 80 } })
    end)
    local same, same_reuse = trail(function(sim)
      sim:sessions { arrivals = A.constant_rate { rate = 1 }, sessions = 3, body = function(s)
        local ctx = s:context()
        ctx:append("agent-system", 100)
        ctx:append_unique(50)
        for step = 1, 12 do
          s:call { context = ctx, output_tokens = 20 }
          if step == 12 then return end
          s:sleep(300)
          ctx:append_unique(40)
          if ctx.tokens > 500 then ctx:compact(80) end
        end
      end }
    end)
    assert.equal(36, #list)
    assert.same(same, list)
    assert.equal(same_reuse, reuse)
    local compacted = 0
    for _, request in ipairs(list) do
      assert.is_true(request[2] <= 500)
      if request[2] == 180 then compacted = compacted + 1 end
    end
    assert.equal(3, compacted)
  end)

  it("ends with the first answer that is cut", function()
    local list = requests_of(aisim.agent { concurrency = 1, sessions = 1, task = 10, steps = 9, output = 20,
      tool_ms = 1, tool_tokens = 10, system = { tokens = 10 }, compact = false }, { context_length = 64 })
    assert.equal(2, #list) -- 20 -> 40, 50 -> 64: cut
  end)

  it("has a summary smaller than its limit", function()
    assert.equal("scenarios/a.lua:2: aisim.agent.compact: system.tokens + to = 20000 must be < above = 15000",
      message "aisim.agent { concurrency = 1, sessions = 1, compact = { above = 15000 } }")
    assert.equal("scenarios/a.lua:2: aisim.agent.system: unknown key 'token' (did you mean 'tokens'?)",
      message "aisim.agent { concurrency = 1, sessions = 1, system = { token = 1 } }")
    assert.equal("scenarios/a.lua:2: aisim.agent.arrivals: arrival process expected, got nil (or give concurrency, "
      .. "users or kv_capacity_fraction)", message "aisim.agent { sessions = 1 }")
  end)
end)

describe("agentic code", function()
  local function code(more)
    local options = { concurrency = 1, sessions = 1, global_tokens = 40, groups = 2, group_tokens = 20,
      session_tokens = 12, new_tokens = 8, output = 4, turn_gap_ms = 10, reset = 1e-9, restart = 0, max_turns = 3 }
    for key, value in pairs(more or {}) do options[key] = value end
    return aisim.agentic_code(options)
  end

  it("has layers that everybody, a group, and one session share", function()
    local list = requests_of(code { sessions = 2, groups = 1 }, LARGE)
    local prompt, reused, session = columns(list, "prompt", "reused", "session")
    assert.same({ 80, 92, 104, 80, 92, 104 }, prompt)
    assert.same({ 1, 1, 1, 2, 2, 2 }, session)
    assert.equal(0, reused[1])
    assert.equal(60, reused[4]) -- global and group
    list = requests_of(code { sessions = 40, groups = 40, max_turns = 1 }, LARGE)
    assert.equal(40, list[2].reused) -- another group: global alone
  end)

  it("ends a session with a reset", function()
    local list = requests_of(code { sessions = 400, reset = 0.25, max_turns = 1000 }, LARGE)
    near(4, #list / 400, 0.1)
  end)

  it("splits a session in two that share their history with a restart", function()
    local list = requests_of(code { sessions = 1, restart = 1, max_turns = 4 }, LARGE)
    local prompt, session, turn, reused = columns(list, "prompt", "session", "turn", "reused")
    assert.same({ 1, 2, 3, 4 }, session)
    assert.same({ 0, 0, 0, 0 }, turn)
    assert.same({ 80, 92, 104, 116 }, prompt)
    assert.same({ 0, 80, 92, 104 }, reused)
  end)
end)

describe("requests", function()
  it("may have lengths that belong together", function()
    local list = requests_of(aisim.closed { users = 1, requests = 60, rows = { { 10, 1 }, { 20, 2 }, { 30, 3 } } })
    local seen = {}
    for _, request in ipairs(list) do
      assert.equal(request.prompt, 10 * request.output)
      seen[request.prompt] = true
    end
    assert.same({ [10] = true, [20] = true, [30] = true }, seen)
    assert.equal("scenarios/a.lua:2: aisim.closed.rows: prompt and output are in the rows",
      message "aisim.closed { users = 1, requests = 1, rows = { { 1, 1 } }, prompt = 1 }")
    assert.equal("scenarios/a.lua:2: aisim.closed.rows[2]: output = 0: must be >= 1",
      message "aisim.closed { users = 1, requests = 1, rows = { { 1, 1 }, { 1, 0 } } }")
  end)

  it("share prefixes by weight", function()
    local _, run = requests_of(aisim.closed { users = 1, requests = 101, prompt = 4, output = 1,
      prefix = { groups = 3, tokens = 40, weights = { 0, 1, 0 } } })
    assert.equal(100 * 40 / (101 * 44), run.metrics.first_admission_prefix_cache_reused_ratio)
    local sim = support.cluster()
    local ok, text = pcall(function()
      sim:workload(aisim.closed { users = 1, requests = 1, prompt = 1, output = 1,
        prefix = { groups = 2, tokens = 1, weights = { 1 } } })
    end)
    assert.is_false(ok)
    assert.matches("aisim.closed.prefix.weights: one weight per group expected %(2%), got 1", text)
  end)

  it("may have normal and bounded log-normal lengths", function()
    local function stats(dist)
      local rng, sum, square, low, high = core.rng(3, "spec"), 0, 0, math.huge, 0
      for _ = 1, 40000 do
        local x = dist:sample(rng)
        sum, square, low, high = sum + x, square + x * x, math.min(low, x), math.max(high, x)
      end
      local mean = sum / 40000
      return mean, math.sqrt(square / 40000 - mean * mean), low, high
    end
    local mean, std = stats(D.normal { mean = 100, std = 20 })
    near(100, mean, 0.01)
    near(20, std, 0.02)
    local _, _, low, high = stats(D.normal { mean = 100, std = 50, min = 40, max = 120 })
    assert.same({ 40, 120 }, { low, high })
    mean = stats(D.lognormal { mu = 5, sigma = 0.5 })
    near(math.exp(5.125), mean, 0.02)
    _, _, low, high = stats(D.lognormal { mu = 5, sigma = 2, min = 10, max = 1000 })
    assert.same({ 10, 1000 }, { low, high })
    assert.equal("scenarios/a.lua:2: dist.normal: max = 1 is below min",
      message "aisim.dist.normal { mean = 1, std = 1, min = 2, max = 1 }")
    assert.equal("scenarios/a.lua:2: dist.lognormal: mu and sigma together, or two of mean, p50, p99",
      message "aisim.dist.lognormal { mu = 1, p50 = 1 }")
  end)
end)
