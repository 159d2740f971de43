--- sim:cluster: a whole configuration file in a simulation (spec/lua-api.md §4).
local aisim = require "aisim"
local support = dofile "tests/spec/lua/support.lua"

local ENGINE <const> = [[
engine:
  model: llama-3.1-8b
  workers:
    aggregated:
      timing: { type: fixed, prefill_ms: 10, decode_ms: 4 }
      parallelism: { replicas: 3 }
      scheduler: { max_batched_tokens: 64, max_sequences: 8 }
      kv_cache: { block_size: 4, capacity: { type: fixed, blocks: 256 } }
router: { policy: least_requests }
]]
local TRAFFIC <const> = [[
traffic:
  source: { type: synthetic, input_tokens: 40, output_tokens: 20 }
  load: { type: poisson, requests_per_second: 40 }
  stop: { requests: 50 }
evaluation: { sla: { ttft_ms: 15 } }
]]

local function with_file(text, fn)
  local path = os.tmpname()
  local file = assert(io.open(path, "w"))
  file:write(text)
  file:close()
  local result = table.pack(pcall(fn, path))
  os.remove(path)
  if not result[1] then error(result[2], 0) end
  return table.unpack(result, 2, result.n)
end

describe("sim:cluster", function()
  it("builds pools, router, SLA and traffic of the file and returns the pools", function()
    local run, by_number, by_name = with_file(ENGINE .. TRAFFIC, function(path)
      local sim = aisim.new { seed = 7 }
      local pools = sim:cluster(path)
      return sim:run(), pools[1], pools.main
    end)
    assert.equal("main", by_number.name)
    assert.equal(3, by_name.workers)
    local sim = aisim.new { seed = 7 }
    local engine = support.engine()
    engine.parallelism = { replicas = 3 }
    sim:pool { engine = engine }
    sim:router { policy = "least_requests" }
    sim:slo { ttft_ms = 15 }
    local arrivals = aisim.arrivals.poisson { rate = 40 }
    sim:workload(aisim.open { arrivals = arrivals, requests = 50, prompt = 40, output = 20 })
    local by_hand = sim:run()
    assert.equal(50, run.metrics.completed_requests)
    assert.is_true(run.metrics.good_fraction < 1)
    assert.same(by_hand.metrics, run.metrics)
  end)

  it("without the key traffic leaves the traffic to the script", function()
    local metrics = with_file(ENGINE, function(path)
      local sim = aisim.new { seed = 7 }
      sim:cluster(path)
      sim:submit { prompt_tokens = 8, output_tokens = 1 }
      return sim:run().metrics
    end)
    assert.equal(1, metrics.completed_requests)
  end)

  it("obeys the stop rules of the file, unless sim:run names others", function()
    local text = ENGINE .. TRAFFIC:gsub("requests: 50", "max_virtual_time_seconds: 1")
    local short, long = with_file(text, function(path)
      local first, second = aisim.new { seed = 7 }, aisim.new { seed = 7 }
      first:cluster(path)
      second:cluster(path)
      return first:run().metrics.duration_ms, second:run { until_ms = 600 }.metrics.duration_ms
    end)
    assert.is_true(short <= 1000 and short > 600, short)
    assert.is_true(long <= 600)
  end)

  it("takes --set flags of the engine", function()
    local pool = with_file(ENGINE, function(path)
      local sim = aisim.new { seed = 7, overrides = {
        { key = "engine.workers.aggregated.kv_cache.capacity.blocks", value = "99", flag = "--set blocks" } } }
      return sim:cluster(path).main
    end)
    assert.equal(3 * 99, pool.kv_total)
  end)

  it("names the line of the file that is wrong, and what a script may not do", function()
    with_file(ENGINE:gsub("max_sequences: 8", "max_sequnces: 8"), function(path)
      local sim = aisim.new { seed = 1 }
      local _, message = pcall(sim.cluster, sim, path)
      assert.matches(path .. ":7:", message, 1, true)
      assert.matches("unknown key 'max_sequnces' (did you mean 'max_sequences'?)", message, 1, true)
    end)
    with_file(ENGINE, function(path)
      local sim = support.cluster(1)
      assert.equal("scenarios/a.lua:1: sim:cluster: the simulation has pools already; a file describes all of them",
        support.message("local sim, path = ...; sim:cluster(path)", sim, path))
    end)
    assert.equal("scenarios/a.lua:1: sim:cluster: path: text expected, got number",
      support.message("(...):cluster(3)", (aisim.new {})))
  end)
end)
