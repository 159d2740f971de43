--- Routers and admission written in Lua (spec/lua-api.md §7).
local support = dofile "tests/spec/lua/support.lua"

local function routed(sim)
  local workers = {}
  sim:on("request.route", function(_, id, worker) workers[id] = worker end)
  return workers
end

describe("a Lua router", function()
  it("chooses by columns", function()
    local sim = support.cluster(3)
    local workers = routed(sim)
    sim:router { columns = { "active_requests" }, pick = function(_, targets)
      local best = 1
      for i = 2, targets.n do
        if targets.active_requests[i] < targets.active_requests[best] then best = i end
      end
      return best
    end }
    for _ = 1, 5 do sim:submit { prompt_tokens = 8, output_tokens = 1 } end
    sim:run()
    assert.same({ 1, 2, 3, 1, 2 }, workers)
  end)

  it("sees the same figures in columns and views, declared or not", function()
    local sim = support.cluster(2)
    sim:router(function(req, targets, now)
      for i = 1, targets.n do
        for _, name in ipairs { "worker", "rank", "waiting", "running", "kv_used", "kv_total", "active_requests" } do
          assert.equal(targets[name][i], targets[i][name])
        end
      end
      assert.equal(2, #targets)
      assert.is_nil(targets[3])
      assert.equal(req.arrival_ms, now)
      return 1 + req.id % 2
    end)
    local workers = routed(sim)
    for i = 1, 4 do sim:submit { at_ms = 20 * i, prompt_tokens = 8, output_tokens = 1 } end
    sim:run()
    assert.same({ 2, 1, 2, 1 }, workers)
  end)

  it("reports the overlap it counted on only when it looked", function()
    local function overlaps(pick)
      local sim = support.cluster(1)
      sim:router(pick)
      local out = {}
      sim:on("request.route", function(_, id, _, overlap) out[id] = overlap or "nil" end)
      for i = 1, 2 do
        sim:submit { at_ms = 50 * i, prompt_tokens = 20, output_tokens = 1, content = { { "system", 16 } } }
      end
      sim:run()
      return out
    end
    assert.same({ "nil", "nil" }, overlaps(function() return 1 end))
    assert.same({ 0, 4 }, overlaps(function(_, targets) return targets.overlap_blocks[1] >= 0 and 1 end))
  end)

  it("may queue; the request is routed when load falls", function()
    local sim = support.cluster(1)
    local workers, tries = routed(sim), 0
    sim:router(function(_, targets)
      tries = tries + 1
      if targets.active_requests[1] >= 1 then return nil end
      return 1
    end)
    for _ = 1, 3 do sim:submit { prompt_tokens = 8, output_tokens = 1 } end
    sim:run()
    assert.same({ 1, 1, 1 }, workers)
    assert.is_true(tries > 3)
  end)

  it("may leave the draw to weights; the seed determines it", function()
    local function draw()
      local sim = support.cluster(3)
      local workers = routed(sim)
      sim:router { name = "thirds", pick = function() return nil, { 1, 0, 3 } end }
      for i = 1, 40 do sim:submit { at_ms = i, prompt_tokens = 4, output_tokens = 1 } end
      sim:run()
      return workers
    end
    local workers, count = draw(), { 0, 0, 0 }
    for _, worker in ipairs(workers) do count[worker] = count[worker] + 1 end
    assert.equal(0, count[2])
    assert.is_true(count[3] > count[1] and count[1] > 0)
    assert.same(workers, draw())
  end)

  it("hears of the end", function()
    local sim = support.cluster(2)
    local done = {}
    sim:router { pick = function() return 2 end, on_done = function(req, target, status, now)
      done[#done + 1] = { req.id, target.worker, target.rank, status, now }
    end }
    sim:submit { prompt_tokens = 8, output_tokens = 1 }
    local second = sim:submit { prompt_tokens = 8, output_tokens = 9 }
    sim:at(12, function() second:cancel() end)
    sim:run()
    assert.same({ { 1, 2, 1, "completed", 10 }, { 2, 2, 1, "cancelled", 12 } }, done)
  end)

  it("sees telemetry as old as its period", function()
    local sim = support.cluster(1)
    local seen = {}
    sim:router { columns = { "running", "telemetry_age_ms" }, telemetry_period_ms = 50, pick = function(_, targets)
      seen[#seen + 1] = { targets.running[1], targets.telemetry_age_ms[1] }
      return 1
    end }
    sim:submit { prompt_tokens = 8, output_tokens = 30 }
    sim:submit { at_ms = 30, prompt_tokens = 8, output_tokens = 1 }
    sim:submit { at_ms = 60, prompt_tokens = 8, output_tokens = 1 }
    sim:run()
    assert.same({ { 0, 0 }, { 0, 30 }, { 1, 10 } }, seen)
  end)
end)

describe("what a router returns", function()
  local function message(returned)
    local sim = support.cluster(8)
    sim:submit { at_ms = 3200, prompt_tokens = 8, output_tokens = 1 }
    return support.message(("local sim = ...\nsim:router { name = 'x', pick = function() return %s end }\nsim:run()")
      :format(returned), sim)
  end

  it("must be a candidate", function()
    assert.equal("scenarios/a.lua:2: router 'x' returned 9 at t=3200 ms for request 1; candidates are 1..8 " ..
      "(return nil to queue)", message "9")
    assert.equal("scenarios/a.lua:2: router 'x' returned 1.5 at t=3200 ms for request 1; candidates are 1..8 " ..
      "(return nil to queue)", message "1.5")
    assert.equal("scenarios/a.lua:2: router 'x' returned a table at t=3200 ms for request 1; candidates are 1..8 " ..
      "(return nil to queue)", message "{}")
  end)

  it("or weights that can be drawn from", function()
    assert.equal("scenarios/a.lua:2: router 'x' returned weight nan for candidate 2 at t=3200 ms for request 1; " ..
      "weights are finite numbers >= 0", message "nil, { 1, 0/0 }")
    assert.matches("weights without a finite sum > 0", message "nil, { 0, 0, 0, 0, 0, 0, 0, 0 }")
  end)
end)

describe("declaring a router", function()
  local function message(options)
    return support.message("local sim = ...\nsim:router " .. options, (support.cluster()))
  end

  it("refuses unknown columns, policies, options", function()
    assert.equal("scenarios/a.lua:2: router 'lua': columns: unknown column 'waitin' (did you mean 'waiting'?)",
      message "{ columns = { 'waitin' }, pick = print }")
    assert.equal("scenarios/a.lua:2: router: unknown policy 'round_robn' (did you mean 'round_robin'?)",
      message "{ policy = 'round_robn' }")
    assert.equal("scenarios/a.lua:2: router: unknown key 'colums' (did you mean 'columns'?)",
      message "{ colums = {}, pick = print }")
  end)

  it("wants load columns declared when columns are", function()
    local sim = support.cluster()
    sim:submit { prompt_tokens = 8, output_tokens = 1 }
    sim:router { name = "r", columns = { "waiting" }, pick = function(_, targets) return targets.active_blocks[1] end }
    assert.error_matches(function() sim:run() end, "router 'r': column 'active_blocks' is not kept; add it to columns")
  end)

  it("takes a built-in by name", function()
    local sim = support.cluster(3)
    local workers = routed(sim)
    sim:router { policy = "least_requests" }
    for _ = 1, 4 do sim:submit { prompt_tokens = 8, output_tokens = 1 } end
    sim:run()
    assert.same({ 1, 2, 3, 1 }, workers)
  end)
end)

describe("admission", function()
  it("refuses with a reason", function()
    local sim = support.cluster()
    local rejected
    sim:on("request.reject", function(_, id, where, reason) rejected = { id, where, reason } end)
    sim:admission(function(req) return req.prompt_tokens <= 32, "too long" end)
    sim:submit { prompt_tokens = 8, output_tokens = 1 }
    sim:submit { prompt_tokens = 40, output_tokens = 1 }
    sim:run()
    assert.same({ 2, "admission", "too long" }, rejected)
  end)

  it("must answer true, false or a delay", function()
    local sim = support.cluster()
    sim:submit { prompt_tokens = 8, output_tokens = 1 }
    assert.equal("scenarios/a.lua:1: admission returned 'no' at t=0 ms for request 1; true, false and a " ..
      "reason, or a delay in ms expected",
      support.message("local sim = ... sim:admission(function() return 'no' end)\nsim:run()", sim))
  end)
end)

describe("a worker", function()
  it("that is stopped gives its requests back to the router", function()
    local sim, pool = support.cluster(2)
    local states, finished = {}, 0
    sim:on("worker.state", function(t, worker, from, to) states[#states + 1] = { t, worker, from, to } end)
    sim:on("request.finish", function(_, _, _, reason) finished = finished + (reason == "length" and 1 or 0) end)
    for _ = 1, 4 do sim:submit { prompt_tokens = 8, output_tokens = 5 } end
    sim:at(15, function() pool:worker(1):stop() end)
    sim:run()
    assert.same({ { 15, 1, "ready", "stopped" } }, states)
    assert.equal(4, finished)
    assert.equal("stopped", pool:worker(1).state)
  end)

  it("has figures, and names the range when it does not exist", function()
    local _, pool = support.cluster(2)
    assert.equal(2, pool:worker(2).id)
    assert.equal(512, pool.kv_total)
    assert.equal(256, pool:worker(1).kv_total)
    assert.equal("scenarios/a.lua:1: pool 'main' has workers 1..2, got 3",
      support.message("return (...):worker(3)", pool))
    assert.equal("scenarios/a.lua:1: pool: unknown field 'wating' (did you mean 'waiting'?)",
      support.message("return (...).wating", pool))
  end)
end)
