--- Metrics of a scenario and the result of a run (spec/lua-api.md §8, §11).
local support = dofile "tests/spec/lua/support.lua"
local aisim = require "aisim"

--- Two requests, 10 ms to the first token, the second with two more tokens of 4 ms.
local function run(prepare)
  local sim, pool = support.cluster()
  sim:submit { at_ms = 0, prompt_tokens = 8, output_tokens = 1, class = "short" }
  sim:submit { at_ms = 100, prompt_tokens = 12, output_tokens = 3, class = "long" }
  if prepare then prepare(sim, pool) end
  return sim:run(), sim
end

describe("the result of a run", function()
  it("has totals and distributions under flat names", function()
    local m = run().metrics
    assert.equal(2, m.completed_requests)
    assert.equal(20, m.total_input_tokens)
    assert.equal(4, m.total_output_tokens)
    assert.equal(10, m["ttft_ms.mean"])
    assert.equal(118, m.duration_ms)
    assert.is_nil(m.good_fraction) -- no SLO: undefined
  end)

  it("has distributions with percentiles, by class", function()
    local result = run()
    assert.equal(2, result.e2e_ms.n)
    assert.equal(14, result.e2e_ms.mean)
    assert.equal(14, result.e2e_ms:p(50))
    assert.equal(18, result.e2e_ms.by.long.mean)
    assert.equal(18, result.e2e_ms.by.long:p(99))
    assert.error_matches(function() return result.e2e_ms.by.longer end, "no class 'longer' %(did you mean 'long'%?%)")
    assert.error_matches(function() return result.e2e_ms.p98 end, "e2e_ms: unknown field 'p98'")
    assert.error_matches(function() return result.ttft end, "run: unknown field 'ttft' ?")
  end)

  it("has the requests in the order of their ends", function()
    local result = run()
    local ids = {}
    for r in result.requests() do ids[#ids + 1] = { r.request_id, r.ttft_ms, r.output_tokens, r.class, r.status } end
    assert.same({ { 1, 10, 1, "short", "completed" }, { 2, 10, 3, "long", "completed" } }, ids)
    assert.equal(2, #result.requests)
    assert.equal(112 + 6, result.requests[2].last_token_ms)
  end)

  it("keeps no requests when told so, and says so", function()
    local sim = support.cluster()
    sim:submit { prompt_tokens = 8, output_tokens = 1 }
    local result = sim:run { requests = false }
    assert.error_matches(function() return result.requests() end, "sim:run { requests = true } keeps all")
  end)

  it("writes JSON, the same bytes for the same run", function()
    local a, b = run():json(), run():json()
    assert.equal(a, b)
    local report = require("cjson").decode(a)
    assert.equal(2, report.totals.completed_requests)
    assert.equal(1, report.seed)
    local path = os.tmpname()
    run():json(path)
    local file <close> = assert(io.open(path))
    assert.equal(2, require("cjson").decode(file:read "a").totals.num_requests)
    os.remove(path)
  end)

  it("writes one line per request and a table of metrics", function()
    local path = os.tmpname()
    run():jsonl(path)
    local n = 0
    for line in io.lines(path) do
      n = n + 1
      assert.equal(n, require("cjson").decode(line).request_id)
    end
    os.remove(path)
    assert.equal(2, n)
    assert.matches("\ncompleted_requests,2\n", run():csv())
  end)

  it("writes a page of its own", function()
    local path = os.tmpname()
    run():html(path)
    local file <close> = assert(io.open(path))
    local page = file:read "a"
    assert.matches("^<!DOCTYPE html>", page)
    assert.matches('<td class="left">ttft_ms</td><td>2</td><td>10</td>', page, 1, true)
  end)

  it("knows which names are metrics", function()
    local result = run()
    for _, name in ipairs { "ttft_ms.p99", "good_fraction", "kv_usage.peak", "ttft_ms.p99.9" } do
      assert.is_true(result:is_metric(name), name)
    end
    assert.is_false(result:is_metric "tttf_ms.p99")
  end)

  it("counts events and passes", function()
    local stats = run().stats
    assert.equal(2, stats.requests_created)
    assert.equal(4, stats.passes)
  end)
end)

describe("a metric of a scenario", function()
  it("counter, gauge and hist appear in the result by name", function()
    local result = run(function(sim)
      local cost = sim:counter { name = "cost", unit = "USD" }
      local depth = sim:gauge { name = "depth" }
      local gap = sim:hist { name = "gap", unit = "ms", by = "class" }
      sim:on("request.finish", function(_, id, _, _, _, req)
        cost:add(2)
        gap:add(10 * id, req.class)
      end)
      sim:at(0, function() depth:set(4) end)
      sim:at(59, function() depth:set(0) end)
      assert.equal(0, cost.total)
    end)
    local m = result.metrics
    assert.equal(4, m.cost)
    assert.equal(4, m["cost.total"])
    assert.equal(2, m["depth.mean"])
    assert.equal(4, m["depth.max"])
    assert.equal(15, m["gap.mean"])
    assert.equal(20, m["gap.by.long.mean"])
    assert.equal(15, result.gap:p(50))
  end)

  it("ratio and derive are computed from the others", function()
    local m = run(function(sim)
      local late, all = sim:counter { name = "late_n" }, sim:counter { name = "all_n" }
      sim:ratio { name = "late", num = "late_n", den = "all_n" }
      sim:derive { name = "per_token", value = function(x) return x.all_n.total / x.total_output_tokens end }
      sim:derive { name = "twice", value = function(x) return 2 * x.per_token + x.ttft_ms.p99 end }
      sim:derive { name = "nothing", value = function() return nil end }
      sim:on("request.finish", function(_, id) all:add(1) late:add(id == 2 and 1 or 0) end)
    end).metrics
    assert.equal(0.5, m.late)
    assert.equal(0.5, m.per_token)
    assert.equal(11, m.twice)
    assert.is_nil(m.nothing)
  end)

  it("series are sampled after everything else of their instant", function()
    local result = run(function(sim, pool)
      sim:series { name = "running", every_ms = 50, value = function() return pool.running end }
    end)
    assert.same({ t = { 0, 50, 100 }, v = { 1, 0, 1 } }, result.series.running)
  end)

  it("goodput needs bounds, of one class or of all", function()
    local m = run(function(sim) sim:slo { class = "long", e2e_ms = 10 } sim:slo { ttft_ms = "10ms" } end).metrics
    assert.equal(0.5, m.good_fraction)
  end)

  it("says what is wrong with it", function()
    local sim = support.cluster()
    local function message(text) return support.message("local sim = ...\n" .. text, sim) end
    assert.equal("scenarios/a.lua:2: sim:counter: unknown key 'nmae' (did you mean 'name'?)",
      message "sim:counter { nmae = 'x' }")
    assert.equal("scenarios/a.lua:2: sim:series.every_ms: time in ms expected, got nil",
      message "sim:series { name = 'x', value = print }")
    assert.equal("scenarios/a.lua:2: metric 'x': add: number expected, got nil",
      message "sim:counter { name = 'x' }:add()")
    assert.equal("scenarios/a.lua:2: sim:gauge: metric 'x' exists already", message "sim:gauge { name = 'x' }")
    assert.equal("scenarios/a.lua:2: sim:slo: one of ttft_ms, itl_ms, e2e_ms expected", message "sim:slo {}")
  end)
end)

describe("plays", function()
  local path

  setup(function()
    path = os.tmpname() .. ".jsonl"
    local file = assert(io.open(path, "w"))
    for i = 1, 3 do
      local requests = {}
      for turn = 0, i do
        local ids = {}
        for block = 0, turn do ids[#ids + 1] = block end
        requests[#requests + 1] = ('{"t":%d,"type":"s","model":"m","in":%d,"out":4,"hash_ids":[%s],"api_time":0.5}')
          :format(turn, 64 * (turn + 1), table.concat(ids, ","))
      end
      file:write(('{"id":"play-%d","models":["m"],"block_size":64,"hash_id_scope":"local","requests":[%s]}\n')
        :format(i, table.concat(requests, ",")))
    end
    file:close()
  end)

  teardown(function() os.remove(path) end)

  it("can be looked at and selected", function()
    local plays = aisim.plays(path)
    assert.equal(3, #plays)
    assert.equal(9, plays.requests)
    local ids = {}
    for play in plays:each() do ids[#ids + 1] = play.id .. " " .. #play.requests end
    assert.same({ "play-1 2", "play-2 3", "play-3 4" }, ids)
    local long = plays:filter(function(play) return #play.requests >= 3 end)
    assert.equal(2, #long)
    assert.equal(0, long[1].ordinal)
    assert.equal("sequence", long[1].requests[2].after[1].relation)
    assert.equal(128, long[1].requests[2].input_tokens)
  end)

  it("are replayed in lanes; the accounting adds up", function()
    local sim = support.cluster(1, { kv_cache = { block_size = 16, capacity = { type = "fixed", blocks = 4096 } },
      scheduler = { max_batched_tokens = 2048 } })
    sim:workload(aisim.agentx { plays = path, lanes = 2, profile = { duration_seconds = 10 } })
    local phases, started = {}, 0
    sim:on("phase", function(_, from, to) phases[#phases + 1] = from .. ">" .. to end)
    sim:on("play.start", function() started = started + 1 end)
    local a = sim:run().agentx
    assert.equal("start>primer", phases[1])
    assert.equal(started, a.plays_started)
    assert.equal(a.issued, a.successful + a.failed + a.cancelled + a.in_flight)
    assert.equal(a.planned, a.issued + a.never_issued)
    assert.is_true(a.successful > 0)
  end)

  it("say what is wrong with the options", function()
    assert.equal("scenarios/a.lua:1: aisim.agentx.lanes: number of lanes expected, got nil",
      support.message("(...).agentx { plays = 'x' }", aisim))
    assert.equal("scenarios/a.lua:1: aisim.agentx: unknown key 'lane' (did you mean 'lanes'?)",
      support.message("(...).agentx { plays = 'x', lane = 2 }", aisim))
  end)
end)
