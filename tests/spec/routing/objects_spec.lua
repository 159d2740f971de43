--- Built-in policies as objects inside a policy in Lua, and the pieces they are made of (spec/lua-api.md §14.7,
--- spec/routing.md §2, §4, §6).
local aisim = require "aisim"
local support = dofile "tests/spec/lua/support.lua"

local function cluster(workers, router, seed)
  local sim = aisim.new { seed = seed or 1 }
  local pool = sim:pool { workers = workers, engine = support.engine() }
  if router then sim:router(router) end
  local workers_of, overlaps = {}, {}
  sim:on("request.route", function(_, id, worker, overlap) workers_of[id], overlaps[id] = worker, overlap end)
  return sim, workers_of, overlaps, pool
end

--- 40 requests in five groups of shared prompts.
local function traffic(sim)
  for i = 1, 40 do
    sim:submit {
      at_ms = 7 * i, prompt_tokens = 40, output_tokens = 3, session = 1 + i % 7,
      content = { { "group " .. i % 5, 32 } },
    }
  end
  sim:run()
end

describe("aisim.router.NAME", function()
  it("asked in every decision routes like the built-in alone, for every policy", function()
    local policies = {
      round_robin = {}, random = {}, least_requests = { ties = "random" }, least_tokens = {},
      least_kv = { telemetry_period_ms = 30 }, shortest_queue = {}, p2c = {},
      weighted_random = { weights = { 1, 2, 3 } },
      hash = { key = "prefix" }, hash_bounded = {}, prefix = { cache_view = "approximate", ttl_ms = 100 },
      kv = { temperature = 0.5 }, kv_v1 = {}, session = {}, sibling_group = { inner = "kv" },
    }
    local known = require("aisim.core").router_names()
    for _, name in ipairs(known) do assert.is_table(policies[name], name) end
    for name, options in pairs(policies) do
      local built_in = { policy = name }
      for key, value in pairs(options) do built_in[key] = value end
      local alone, expected, expected_overlaps = cluster(3, built_in)
      traffic(alone)
      local policy = aisim.router[name](options)
      local around, workers_of, overlaps = cluster(3, function(req, targets, now)
        return policy:pick(req, targets, now)
      end)
      traffic(around)
      assert.same(expected, workers_of, name)
      assert.same(expected_overlaps, overlaps, name)
    end
  end)

  it("hears where requests went, whoever decided", function()
    local least, asked = aisim.router.least_requests {}, {}
    local sim, workers_of = cluster(2, function(req, targets, now)
      asked[req.id] = least:pick(req, targets, now)
      return req.id <= 3 and 1 or asked[req.id]
    end)
    for i = 1, 5 do sim:submit { at_ms = i, prompt_tokens = 8, output_tokens = 5 } end
    sim:run()
    assert.same({ 1, 2, 2, 2, 2 }, asked)
    assert.same({ 1, 1, 1, 2, 2 }, workers_of)
  end)

  it("of several kinds may be asked in one decision; the one that was followed lends its overlap", function()
    local kv, turn = aisim.router.kv {}, aisim.router.round_robin {}
    local sim, workers_of, overlaps = cluster(2, function(req, targets, now)
      local by_turn, by_kv = turn:pick(req, targets, now), kv:pick(req, targets, now)
      return req.session == 2 and by_kv or by_turn
    end)
    for i = 1, 4 do
      sim:submit { at_ms = 50 * i, output_tokens = 1, session = 1 + i % 2, content = { { "a", 40 } } }
    end
    sim:run()
    assert.equal(workers_of[1], workers_of[3])
    assert.same({ 0, 10 }, { overlaps[1], overlaps[3] })
  end)

  it("named in wrap may be asked late, and knows what happened before", function()
    local kv = aisim.router.kv {}
    local sim, workers_of = cluster(2, {
      wrap = kv, pick = function(req, targets, now) return req.id < 3 and req.id or kv:pick(req, targets, now) end,
    })
    for i, name in ipairs { "a", "b", "b", "a" } do
      sim:submit { at_ms = 50 * i, output_tokens = 1, content = { { name, 40 } } }
    end
    sim:run()
    assert.same({ 1, 2, 2, 1 }, workers_of)
  end)

  it("chooses among the candidates that the filters have left", function()
    local seen = {}
    local turn = aisim.router.round_robin {}
    local sim, workers_of = cluster(3, {
      filter = function(_, _, out) out[1] = false end,
      pick = function(req, targets, now)
        seen[#seen + 1] = turn:pick(req, targets, now) or "none"
        return 1
      end,
    })
    for _ = 1, 3 do sim:submit { prompt_tokens = 8, output_tokens = 1 } end
    sim:run()
    assert.same({ "none", 1, 2 }, seen)
    assert.same({ 2, 2, 2 }, workers_of)
  end)

  it("has books of its own in each router and each run", function()
    local kv = aisim.router.kv {}
    local function run()
      local sim, workers_of = cluster(2, function(req, targets, now) return kv:pick(req, targets, now) end)
      traffic(sim)
      return workers_of
    end
    assert.same(run(), run())
  end)

  it("draws from a stream of its own", function()
    local a, b, same = aisim.router.random {}, aisim.router.random {}, 0
    local sim = cluster(4, function(req, targets, now)
      local first, second = a:pick(req, targets, now), b:pick(req, targets, now)
      same = same + (first == second and 1 or 0)
      return first
    end)
    for i = 1, 100 do sim:submit { at_ms = i, prompt_tokens = 8, output_tokens = 1 } end
    sim:run()
    assert.near(25, same, 15)
  end)

  it("asked where it cannot answer says so", function()
    local kept = {}
    local kv, sessions = aisim.router.kv {}, aisim.router.session { inner = "kv" }
    local sim = cluster(2, { name = "mine", pick = function(req, targets, now)
      kept.targets = targets
      if req.id == 1 then return 1 end
      return kv:pick(req, targets, now)
    end })
    assert.equal("aisim.router.session", tostring(sessions))
    sim:submit { prompt_tokens = 8, output_tokens = 1 }
    sim:submit { at_ms = 50, prompt_tokens = 8, output_tokens = 1 }
    local ok, message = pcall(sim.run, sim)
    assert.is_false(ok)
    assert.matches("router 'mine': aisim.router.kv is asked for the first time in a later decision: it has not "
      .. "seen the ones before; name it in the router: wrap = { it }", message, 1, true)
    assert.error_matches(function() kv:pick(nil, kept.targets, 0) end,
      "aisim.router.kv: asked outside of a routing decision; call policy:pick(req, targets, now) inside pick of a "
      .. "router",
      1, true)
    assert.error_matches(function() kv:pick(nil, {}, 0) end, "asked outside of a routing decision", 1, true)
  end)

  it("names what is wrong with its options, at the line that makes it", function()
    assert.equal("scenarios/a.lua:2: router: unknown key 'temprature' (did you mean 'temperature'?)",
      support.message("local aisim = ...\nlocal kv = aisim.router.kv { temprature = 1 }", aisim))
    assert.equal("scenarios/a.lua:1: aisim.router: unknown policy 'kw' (did you mean 'kv'?)",
      support.message("local kv = (...).router.kw {}", aisim))
    assert.equal("scenarios/a.lua:1: aisim.router.kv: policy: is the name itself",
      support.message("local kv = (...).router.kv { policy = 'kv' }", aisim))
    assert.equal("scenarios/a.lua:1: router.wrap[2]: options of a built-in, or aisim.router.NAME{…}, expected, got "
      .. "number",
      support.message("local sim = ...; sim:router { pick = print, wrap = { { policy = 'kv' }, 2 } }", (cluster(2))))
  end)
end)

describe("aisim.kv_cost", function()
  --- Largest difference between the cost of the built-in and the function over all decisions and targets.
  local function difference(options, weights, extra)
    local worst, n = 0, 0
    local score = { policy = "kv" }
    for key, value in pairs(options) do score[key] = value end
    local sim = aisim.new { seed = 3 }
    sim:pool { workers = 3, engine = support.engine(extra) }
    sim:router {
      columns = { "active_blocks", "active_prefill_tokens" }, score = score,
      pick = function(req, targets)
        local best = 1
        for i = 1, targets.n do
          local cost = aisim.kv_cost(req, targets[i], weights)
          worst, n = math.max(worst, math.abs(cost - targets.cost[i])), n + 1
          best = cost < aisim.kv_cost(req, targets[best], weights) and i or best
        end
        return best
      end,
    }
    traffic(sim)
    assert.equal(120, n)
    return worst
  end

  it("is the cost of the built-in, to the bit", function()
    assert.equal(0, difference({}))
    assert.equal(0, difference({}, {}))
    local weights = { overlap_score_credit = 0.5, prefill_load_scale = 4, active_request_weight = 0.25,
      overlap_decay = 2 }
    assert.equal(0, difference(weights, weights))
    assert.equal(0, difference({ track_prefill = false }, { track_prefill = false }))
  end)

  it("gives the worked check: 42 and 20", function()
    local seen
    local sim = aisim.new { seed = 1 }
    local pool = sim:pool { workers = 2, engine = {
      model = "llama-3.1-8b", scheduler = { max_batched_tokens = 4096, max_sequences = 64 },
      kv_cache = { block_size = 64, capacity = { type = "fixed", blocks = 4096 } },
      timing = { type = "fixed", prefill_ms = 10, decode_ms = 4 },
    } }
    sim:router(function(req, targets)
      if req.id < 3 then return 1 end
      seen = { aisim.kv_cost(req, targets[1]), aisim.kv_cost(req, targets[2]),
        aisim.kv_cost(req, targets[1], { prefill_load_scale = 16 }) }
      return 1
    end)
    sim:submit { at_ms = 1, prompt_tokens = 512, output_tokens = 1, content = { { "document", 512 } } }
    sim:submit { at_ms = 20, prompt_tokens = 1920, output_tokens = 200 }
    sim:submit { at_ms = 60, prompt_tokens = 640, output_tokens = 1, content = { { "document", 512 } } }
    sim:run()
    assert.same({ 42.0, 20.0, 72.0 }, seen)
    assert.equal(2, pool.workers)
  end)

  it("says what it does not take", function()
    local function message(body, columns)
      local sim = cluster(1)
      sim:submit { prompt_tokens = 8, output_tokens = 1 }
      return support.message(([[
local sim, aisim = ...
sim:router { %s pick = function(req, targets)
  return %s end }
sim:run()]]):format(columns or "", body), sim, aisim)
    end
    assert.equal("scenarios/a.lua:3: aisim.kv_cost: unknown weight 'host_cedit' (did you mean 'host_credit'?)",
      message "aisim.kv_cost(req, targets[1], { host_cedit = 1 })")
    assert.equal("scenarios/a.lua:3: aisim.kv_cost: overlap_score_credit = 2: must be a number >= 0 and <= 1",
      message "aisim.kv_cost(req, targets[1], { overlap_score_credit = 2 })")
    assert.equal("scenarios/a.lua:3: router 'lua': column 'active_prefill_tokens' is not kept; add it to columns",
      message("aisim.kv_cost(req, targets[1])", "columns = { 'active_blocks' },"))
    assert.equal("scenarios/a.lua:3: aisim.softmax_pick: cost 2 is nan: finite numbers expected",
      message "aisim.softmax_pick({ 1, 0/0 }, 1)")
    assert.equal("scenarios/a.lua:3: aisim.softmax_pick: temperature -1: must be a number >= 0",
      message "aisim.softmax_pick({ 1 }, -1)")
  end)
end)

describe("aisim.softmax_pick", function()
  local function shares(costs, temperature, n, name)
    local count = {}
    for i = 1, #costs do count[i] = 0 end
    local sim = cluster(#costs, { name = name, pick = function()
      local i = aisim.softmax_pick(costs, temperature)
      count[i] = count[i] + 1
      return i
    end })
    for i = 1, n do sim:submit { at_ms = i, prompt_tokens = 4, output_tokens = 1 } end
    sim:run()
    for i = 1, #costs do count[i] = count[i] / n end
    return count
  end

  it("draws with the probabilities of the kv router: 0.1192 at T = 0.5", function()
    assert.near(0.1192, shares({ 42, 20 }, 0.5, 2000)[1], 0.02)
    assert.near(0.1192, shares({ 4.2, 2.0 }, 0.5, 2000)[1], 0.02) -- costs are range-normalised
  end)

  it("takes the smallest at T = 0, any of equal ones", function()
    assert.same({ 0, 1, 0 }, shares({ 3, 1, 2 }, 0, 50))
    local tied = shares({ 1, 2, 1 }, 0, 1000)
    assert.near(0.5, tied[1], 0.06)
    assert.equal(0, tied[2])
  end)

  it("comes from the router's stream: the same again, another one under another name", function()
    assert.same(shares({ 1, 1, 1 }, 1, 200), shares({ 1, 1, 1 }, 1, 200))
    assert.not_same(shares({ 1, 1, 1 }, 1, 200), shares({ 1, 1, 1 }, 1, 200, "other"))
  end)

  it("is refused outside of a decision", function()
    assert.equal("scenarios/a.lua:1: aisim.softmax_pick: used outside of a routing decision (it draws from the "
      .. "router's stream)", support.message("(...).softmax_pick({ 1, 2 }, 1)", aisim))
  end)
end)

describe("aisim.hash", function()
  it("gives the example of routing.md §2", function()
    assert.equal(0x0d5327f3a29c72b7, aisim.hash "0/s-17")
    assert.equal(0x65aa97d627159ae3, aisim.hash("0/s-17", 1, 1))
    assert.equal(0x87b6d8899b40601f, aisim.hash("0/s-17", 2, 1))
    assert.equal(aisim.hash "17", aisim.hash(17))
  end)

  it("names what it does not take", function()
    assert.equal("scenarios/a.lua:1: aisim.hash: key: text or integer expected, got number",
      support.message("(...).hash(1.5)", aisim))
    assert.equal("scenarios/a.lua:1: aisim.hash: rank: integer from 1 on expected, got nil",
      support.message("(...).hash('a', 1)", aisim))
  end)
end)
