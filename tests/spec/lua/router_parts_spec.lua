--- Parts of a routing policy: filter, score, weights, delay, regret, callbacks (lua-api §7, routing §1, §6, §7).
local aisim = require "aisim"
local support = dofile "tests/spec/lua/support.lua"

local function routed(sim)
  local workers = {}
  sim:on("request.route", function(_, id, worker) workers[id] = worker end)
  return workers
end

local function submit(sim, n, options)
  for _ = 1, n do
    local o = { prompt_tokens = 8, output_tokens = 1 }
    for key, value in pairs(options or {}) do o[key] = value end
    sim:submit(o)
  end
end

describe("filter", function()
  it("leaves candidates to pick, several filters one after the other", function()
    local sim = support.cluster(4)
    local workers, seen = routed(sim), nil
    sim:router {
      filter = {
        function(_, targets, out) for i = 1, targets.n do out[i] = targets.worker[i] ~= 2 end end,
        function(_, targets, out)
          assert.equal(3, targets.n)
          out[1] = false
        end,
      },
      pick = function(_, targets)
        seen = table.concat(targets.worker, " ")
        return 2
      end,
    }
    submit(sim, 1)
    sim:run()
    assert.equal("3 4", seen)
    assert.same({ 4 }, workers)
  end)

  it("that leaves nobody queues the request at the router", function()
    local sim = support.cluster(2)
    local workers, dispatched = routed(sim), nil
    sim:on("request.route", function(t, id) if id == 2 then dispatched = t end end)
    sim:router {
      filter = function(_, targets, out)
        for i = 1, targets.n do out[i] = targets.active_requests[i] == 0 and i == 1 end
      end,
      pick = function() return 1 end,
    }
    submit(sim, 2)
    sim:run()
    assert.same({ 1, 1 }, workers)
    assert.equal(10.0, dispatched) -- when the first has ended
  end)
end)

describe("score", function()
  it("is a cost: the smallest sum is chosen, of equal ones the first", function()
    local sim = support.cluster(3)
    local workers = routed(sim)
    sim:router { score = {
      function(_, targets, out) for i = 1, targets.n do out[i] = targets.active_requests[i] end end,
      function(_, _, out) out[1] = 1.5 end,
    } }
    submit(sim, 5)
    sim:run()
    assert.same({ 2, 3, 2, 3, 1 }, workers)
  end)

  it("is summed with policies in C", function()
    local function choices(score)
      local sim = support.cluster(3)
      local workers = routed(sim)
      sim:router(score)
      submit(sim, 6)
      sim:run()
      return workers
    end
    assert.same(choices { policy = "least_requests" }, choices { score = { policy = "least_requests" } })
    assert.same({ 3, 3, 1, 2, 3, 1 }, choices { score = { { policy = "least_requests", weight = 2 },
      function(_, _, out) out[1], out[2], out[3] = 3, 3.5, 0 end } })
  end)

  it("of the kv router follows the prefix", function()
    local sim = support.cluster(2)
    local workers = routed(sim)
    sim:router { score = { policy = "kv" } }
    for i = 1, 6 do
      sim:submit { at_ms = 100 * i, output_tokens = 1, content = { { i % 2 == 1 and "a" or "b", 64 } } }
    end
    sim:run()
    assert.equal(workers[1], workers[3])
    assert.equal(workers[3], workers[5])
    assert.equal(workers[2], workers[4])
  end)

  it("in C behind a filter that looked at overlaps reports the overlap of the chosen target", function()
    local sim = support.cluster(3)
    local overlaps = {}
    sim:on("request.route", function(_, id, worker, overlap) overlaps[id] = { worker, overlap } end)
    sim:router {
      filter = function(_, targets, out) out[1] = targets.overlap_blocks[1] > 0 end,
      score = { policy = "kv" },
    }
    for i = 1, 2 do sim:submit { at_ms = 50 * i, output_tokens = 1, content = { { "a", 16 }, { "b" .. i, 4 } } } end
    sim:run()
    assert.same({ { 2, 0 }, { 2, 4 } }, overlaps) -- not that of target 1, which the filter dropped
  end)

  it("shows its sums to pick as targets.cost", function()
    local sim = support.cluster(3)
    local workers, seen = routed(sim), {}
    sim:router {
      filter = function(_, _, out) out[2] = false end,
      score = function(_, targets, out) for i = 1, targets.n do out[i] = 10 * targets.worker[i] end end,
      pick = function(_, targets)
        seen[#seen + 1] = table.concat(targets.cost, " ")
        return #targets.cost
      end,
    }
    submit(sim, 1)
    sim:run()
    assert.same({ "10.0 30.0" }, seen)
    assert.same({ 3 }, workers)
  end)
end)

describe("weights", function()
  it("are drawn from the router's own stream: the same every time, in proportion", function()
    local function counts(name)
      local sim = support.cluster(2)
      local n = { 0, 0 }
      sim:on("request.route", function(_, _, worker) n[worker] = n[worker] + 1 end)
      sim:router { name = name, pick = function() return nil, { 3, 1 } end }
      submit(sim, 400)
      sim:run()
      return n
    end
    local first = counts "a"
    assert.same(first, counts "a")
    assert.not_same(first, counts "b")
    assert.near(300, first[1], 30)
  end)
end)

describe("delay_ms", function()
  it("adds to the time at the router, and the decision sees the figures of then", function()
    local function story(options)
      local sim = support.cluster(2)
      local times, decided = {}, {}
      sim:on("request.route", function(t, id) times[id] = t end)
      options.pick = options.policy == nil and function(req, _, now)
        decided[req.id] = now
        return 1
      end or nil
      sim:router(options)
      for i = 1, 3 do sim:submit { at_ms = 5 * i, prompt_tokens = 8, output_tokens = 1 } end
      local run = sim:run()
      return times, decided, run.router_queue_ms.mean
    end
    local times, decided, queued = story { delay_ms = 3 }
    assert.same({ 8.0, 13.0, 18.0 }, times)
    assert.same({ 8.0, 13.0, 18.0 }, decided)
    assert.near(3, queued, 1e-9)
    times, decided, queued = story { policy = "round_robin", delay_ms = 3 }
    assert.same({}, decided)
    assert.same({ 8.0, 13.0, 18.0 }, times)
    assert.near(3, queued, 1e-9)
  end)

  it("keeps a request that is cancelled meanwhile from being routed", function()
    local sim = support.cluster(1)
    local events = {}
    for _, hook in ipairs { "request.arrive", "request.route", "request.finish" } do
      sim:on(hook, function(t) events[#events + 1] = hook .. " " .. t end)
    end
    sim:router { delay_ms = 10, pick = function() return 1 end }
    local request = sim:submit { prompt_tokens = 8, output_tokens = 1 }
    sim:at(4, function() request:cancel() end)
    sim:run()
    assert.same({ "request.arrive 0.0", "request.finish 4.0" }, events)
  end)
end)

describe("regret", function()
  it("records chosen and best residency of each decision, for any policy", function()
    local function run(options)
      local sim = support.cluster(2)
      options.regret = true
      sim:router(options)
      for i = 1, 3 do sim:submit { at_ms = 50 * i, output_tokens = 1, content = { { "a", 40 } } } end
      return sim:run()
    end
    local one = run { pick = function() return 1 end }
    assert.same({ 3, 20, 20, 0 }, { one.metrics["routing.decisions"], one.metrics["routing.overlap_chosen_blocks"],
      one.metrics["routing.overlap_best_blocks"], one.metrics["routing.regret_blocks"] })
    local around = run { policy = "round_robin" }
    assert.same({ 3, 10, 20, 10 }, { around.metrics["routing.decisions"],
      around.metrics["routing.overlap_chosen_blocks"], around.metrics["routing.overlap_best_blocks"],
      around.metrics["routing.regret_blocks"] })
    local chosen, best = {}, {}
    for request in around.requests() do
      chosen[request.request_id], best[request.request_id] = request.overlap_chosen_blocks, request.overlap_best_blocks
    end
    assert.same({ 0, 0, 10 }, chosen)
    assert.same({ 0, 10, 10 }, best)
  end)

  it("costs nothing and reports nothing unless asked for", function()
    local sim = support.cluster(2)
    sim:router(function() return 1 end)
    submit(sim, 1)
    assert.is_nil(sim:run().metrics["routing.decisions"])
  end)
end)

describe("callbacks", function()
  it("hear of the life of a request and of the cache, in this order", function()
    local sim, pool = support.cluster(2)
    local told = {}
    local function note(...) told[#told + 1] = table.concat({ ... }, " ") end
    sim:router {
      name = "mine",
      init = function(of, cfg) note("init", of.name, of.workers, cfg.name) end,
      pick = function(req)
        note("pick", req.id)
        return 2
      end,
      on_dispatch = function(req, target, now) note("dispatch", req.id, target.worker, target.rank, now) end,
      on_first_token = function(req, target, now) note("first", req.id, target.worker, now) end,
      on_done = function(req, target, status, now) note("done", req.id, target.worker, status, now) end,
      on_kv_stored = function(target, blocks, tier, now) note("stored", target.worker, blocks, tier, now) end,
      on_worker_drain = function(target) note("drain", target.worker) end,
      on_worker_down = function(target) note("down", target.worker) end,
      on_worker_up = function(target) note("up", target.worker) end,
      tick_ms = 25,
      on_tick = function(now) note("tick", now) end,
    }
    sim:submit { prompt_tokens = 9, output_tokens = 2 }
    sim:at(20, function() pool:worker(1):drain() end)
    sim:at(21, function() pool:worker(1):stop() end)
    sim:at(22, function() pool:worker(1):resume() end)
    sim:at(30, function() end)
    sim:run()
    assert.same({ "init main 2 mine", "pick 1", "dispatch 1 2 1 0.0", "first 1 2 10.0", "stored 2 2 device 10.0",
      "done 1 2 completed 14.0", "drain 1", "down 1", "up 1", "tick 25.0" }, told)
  end)

  it("hear of blocks that went", function()
    local sim = support.cluster(1, { kv_cache = { block_size = 4, capacity = { type = "fixed", blocks = 10 } } })
    local gone = 0
    sim:router { pick = function() return 1 end, on_kv_removed = function(_, blocks) gone = gone + blocks end }
    for i = 1, 3 do sim:submit { at_ms = 50 * i, prompt_tokens = 20, output_tokens = 0 } end
    sim:run()
    assert.equal(5, gone)
  end)

  it("that fail end the run and name the policy", function()
    local sim = support.cluster(1)
    sim:router { name = "x", pick = function() return 1 end, on_dispatch = function() error("broken") end }
    submit(sim, 1)
    local ok, message = pcall(sim.run, sim)
    assert.is_false(ok)
    assert.matches("broken\n  in on_dispatch of router 'x' at t = 0 ms, request 1", message, 1, true)
  end)
end)

describe("columns", function()
  it("active_blocks counts distinct blocks of requests routed there and not finished", function()
    local sim = support.cluster(2)
    local seen = {}
    sim:router { columns = { "active_blocks", "active_prefill_tokens" }, pick = function(_, targets)
      seen[#seen + 1] = { targets.active_blocks[1], targets.active_blocks[2], targets.active_prefill_tokens[1] }
      return 1
    end }
    for _, own in ipairs { 6, 7, 8 } do
      sim:submit { output_tokens = 1, content = { { "shared", 16 }, { "own" .. own, own } } }
    end
    sim:submit { at_ms = 300, prompt_tokens = 4, output_tokens = 1 }
    sim:run()
    -- 16 shared tokens are 4 blocks; 6, 7, 8 own ones are 2 blocks each, of which the partial ones are private
    assert.same({ { 0, 0, 0 }, { 6, 0, 22 }, { 8, 0, 45 }, { 0, 0, 0 } }, seen)
  end)

  it("bound is the target of the affinity key", function()
    local function seen(options)
      local sim = support.cluster(2)
      local out = {}
      options.columns = { "bound" }
      options.pick = function(req, targets)
        out[#out + 1] = { targets.bound[1], targets.bound[2] }
        return req.id % 2 + 1
      end
      sim:router(options)
      for i, session in ipairs { 7, 8, 7, 8 } do
        sim:submit { at_ms = 50 * i, prompt_tokens = 8, output_tokens = 1, session = session }
      end
      sim:run()
      return out
    end
    local both = { { false, false }, { false, false }, { false, true }, { true, false } }
    assert.same(both, seen { affinity = { mode = "session" } })
    assert.same(both, seen { wrap = { policy = "session" } })
    assert.same({ { false, false }, { false, false }, { false, false }, { false, false } }, seen {})
  end)
end)

describe("a policy that returns garbage", function()
  local function message(body, more)
    local sim = support.cluster(2)
    submit(sim, 1)
    local ok, text = support.script(([[
local sim = ...
sim:router { name = "x", %s
  pick = function(_, targets) %s end }
sim:run()]]):format(more or "", body), sim)
    assert.is_false(ok)
    return (text:match "^[^\n]*"), text
  end
  local CANDIDATES <const> = " at t=0 ms for request 1; candidates are 1..2 (return nil to queue)"

  it("is named with time, request and candidates", function()
    for value, shown in pairs { ["9"] = "9", ["0"] = "0", ["1.5"] = "1.5", ["0/0"] = "nan", ["'1'"] = "'1'",
      ["true"] = "a boolean", ["{}"] = "a table", ["nil, 1"] = "1" } do
      assert.equal("scenarios/a.lua:3: router 'x' returned " .. shown .. CANDIDATES, (message("return " .. value)))
    end
    assert.equal("scenarios/a.lua:3: router 'x' returned weight nan for candidate 2 at t=0 ms for request 1; "
      .. "weights are finite numbers >= 0", (message "return nil, { 1, 0/0 }"))
    assert.equal("scenarios/a.lua:3: router 'x' returned weights without a finite sum > 0 at t=0 ms for request 1; "
      .. "one of them must be > 0 (return nil to queue)", (message "return nil, { 0, 0 }"))
  end)

  it("counts the candidates that the filters have left", function()
    assert.equal("scenarios/a.lua:3: router 'x' returned 2 at t=0 ms for request 1; candidates are 1..1 "
      .. "(return nil to queue)", (message("return 2", "filter = function(_, _, out) out[1] = false end,")))
  end)

  it("filter and score likewise", function()
    assert.equal("scenarios/a.lua:3: router 'x' filtered candidate 2 by 1 at t=0 ms for request 1; out[i] is true or "
      .. "false", (message("return 1", "filter = function(_, _, out) out[2] = 1 end,")))
    assert.equal("scenarios/a.lua:3: router 'x' gave candidate 1 the cost nan at t=0 ms for request 1; costs are "
      .. "finite numbers, the smallest sum is chosen",
      (message("return 1", "score = function(_, _, out) out[1] = 0/0 end,")))
    assert.equal("scenarios/a.lua:3: router 'x' gave candidate 2 the cost a table at t=0 ms for request 1; costs are "
      .. "finite numbers, the smallest sum is chosen",
      (message("return 1", "score = function(_, _, out) out[2] = {} end,")))
  end)

  it("may not yield", function()
    local first, text = message "coroutine.yield(1)"
    assert.matches("yield", first)
    assert.matches("in router 'x' at t = 0 ms, request 1", text, 1, true)
  end)
end)

describe("options that do not go together", function()
  local function message(options)
    return support.message("local sim = ...\nsim:router " .. options, (support.cluster(1)))
  end

  it("are refused by name", function()
    assert.equal("scenarios/a.lua:2: router.filter: leaves candidates; give pick or score to choose one of them",
      message "{ filter = print }")
    assert.equal("scenarios/a.lua:2: router.score: policy 'hash' has no cost that could be added",
      message "{ score = { policy = 'hash' } }")
    assert.equal("scenarios/a.lua:2: router: unknown policy 'kvv' (did you mean 'kv'?)",
      message "{ score = { policy = 'kvv' } }")
    assert.equal("scenarios/a.lua:2: router.wrap: only pick can ask it; give pick",
      message "{ score = print, wrap = { policy = 'hash' } }")
    assert.equal("scenarios/a.lua:2: router.tick_ms: time in ms expected, got nil",
      message "{ pick = print, on_tick = print }")
    assert.equal("scenarios/a.lua:2: router: policy = 'kv' is built in; filter belongs to a policy of your own",
      message "{ policy = 'kv', filter = print }")
    assert.equal("scenarios/a.lua:2: router.filter[2]: function expected, got number",
      message "{ pick = print, filter = { print, 2 } }")
    assert.equal("scenarios/a.lua:2: router: unknown key 'fliter' (did you mean 'filter'?)",
      message "{ pick = print, fliter = print }")
  end)
end)

describe("aisim.admission", function()
  local function run(policy, requests)
    local sim = support.cluster(1, { scheduler = { max_sequences = 2 } })
    local routes, rejected = {}, {}
    sim:on("request.route", function(t, id) routes[id] = t end)
    sim:on("request.reject", function(_, id, where, reason) rejected[id] = where .. " " .. reason end)
    sim:admission(policy)
    for _, r in ipairs(requests) do
      sim:submit { at_ms = r[1], prompt_tokens = 8, output_tokens = r[3] or 1, priority = r[2] or 0 }
    end
    sim:run()
    return routes, rejected
  end

  it("always", function()
    local routes = run(aisim.admission.always(), { { 1 }, { 2 } })
    assert.same({ 1.0, 2.0 }, routes)
  end)

  it("token_bucket turns away what comes too fast, or makes it wait in line", function()
    local burst = { { 0 }, { 0 }, { 0 }, { 0 }, { 150 }, { 160 } }
    local _, rejected = run(aisim.admission.token_bucket { rate = 10, burst = 2 }, burst)
    assert.same({ [3] = "admission rate", [4] = "admission rate", [6] = "admission rate" }, rejected)
    local routes
    routes, rejected = run(aisim.admission.token_bucket { rate = "10/s", burst = 2, when_empty = "delay" }, burst)
    assert.same({}, rejected)
    assert.same({ 0.0, 0.0, 100.0, 200.0, 300.0, 400.0 }, routes)
  end)

  it("token_bucket counts tokens if told to", function()
    local _, rejected = run(aisim.admission.token_bucket { rate = 100, burst = 20, unit = "tokens" },
      { { 0, 0, 2 }, { 0, 0, 2 }, { 0, 0, 2 }, { 100, 0, 2 }, { 200, 0, 30 } })
    assert.same({ [3] = "admission rate", [5] = "admission larger than the bucket" },
      { [3] = rejected[3], [5] = rejected[5] })
    assert.is_nil(rejected[1])
    assert.is_nil(rejected[4])
  end)

  it("max_outstanding counts what was let in and has not ended", function()
    local _, rejected = run(aisim.admission.max_outstanding { limit = 2 }, { { 0 }, { 1 }, { 2 }, { 30 } })
    assert.same({ [3] = "admission outstanding" }, rejected)
  end)

  it("shed_by_priority turns the least urgent away first", function()
    local _, rejected = run(aisim.admission.shed_by_priority { limits = { [1] = 2, [2] = 1 } },
      { { 0, 2 }, { 1, 2 }, { 2, 1 }, { 3, 1 }, { 4, 0 }, { 5, 0 } })
    assert.same({ [2] = "admission shed", [4] = "admission shed" }, rejected)
  end)

  it("has its own state in each simulation, and can be used by a policy of one's own", function()
    local policy = aisim.admission.token_bucket { rate = 1, burst = 1 }
    local _, first = run(policy, { { 0 }, { 1 } })
    local _, second = run(policy, { { 0 }, { 1 } })
    assert.same(first, second)
    local sim = support.cluster(1)
    local limit, turned = aisim.admission.max_outstanding { limit = 1 }:make(sim), 0
    sim:admission(function(req, targets, now)
      if req.priority < 0 then return true end
      local go_on, reason = limit(req, targets, now)
      turned = turned + (go_on and 0 or 1)
      return go_on, reason
    end)
    for i = 1, 4 do sim:submit { prompt_tokens = 8, output_tokens = 1, priority = i == 4 and -1 or 0 } end
    sim:run()
    assert.equal(2, turned)
  end)

  it("refuses what it does not know", function()
    assert.equal("scenarios/a.lua:1: aisim.admission: unknown policy 'alway' (did you mean 'always'?)",
      support.message("(...).admission.alway {}", aisim))
    assert.equal("scenarios/a.lua:1: admission.token_bucket.burst: number expected, got nil",
      support.message("(...).admission.token_bucket { rate = 1 }", aisim))
    assert.equal("scenarios/a.lua:1: admission.shed_by_priority.limits: table of priority = outstanding requests "
      .. "expected, got an empty table", support.message("(...).admission.shed_by_priority { limits = {} }", aisim))
    assert.equal("scenarios/a.lua:1: sim:admission: function expected, got table",
      support.message("(...):admission {}", (support.cluster(1))))
  end)

  it("a delay holds a request back before the router, 0 does not", function()
    local sim = support.cluster(1)
    local routes = {}
    sim:on("request.route", function(t, id) routes[id] = t end)
    sim:admission(function(req) return req.id == 1 and 7.5 or 0 end)
    submit(sim, 2)
    sim:run()
    assert.same({ 7.5, 0.0 }, routes)
  end)
end)
