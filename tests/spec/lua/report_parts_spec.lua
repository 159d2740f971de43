--- Parts of the report that are not about single requests (spec/report.md §3, §4, routing.md §7, config.md).
local support = dofile "tests/spec/lua/support.lua"
local aisim = require "aisim"

local function report_of(run) return aisim.json.decode(run:json(), "report") end

--- Turns of two sessions on two workers.
local function sessions(router)
  local sim = support.cluster(2)
  sim:router(router)
  for turn = 0, 3 do
    for session = 1, 2 do
      sim:submit { at_ms = 200 * turn + 50 * session, prompt_tokens = 20, output_tokens = 2 + 4 * (session - 1),
        session = session, turn = turn }
    end
  end
  return sim
end

describe("totals.routing", function()
  it("counts placements, and the turns that went elsewhere than the one before", function()
    local away = { 1, 1, 2, 1, 1, 1, 2, 2 } -- session 1: 1 2 1 2; session 2: 1 1 1 2
    local i = 0
    local m = sessions { pick = function()
      i = i + 1
      return away[i]
    end }:run().metrics
    assert.same({ 8, 4, 2.0 }, { m["routing.placements"], m["routing.session_moves"], m["routing.moves_per_session"] })
    assert.equal(0, m["routing.affinity_hits"])
  end)

  it("counts what a binding decided; then no session moves", function()
    local run = sessions { policy = "session", inner = "round_robin" }:run()
    local m = run.metrics
    assert.same({ 8, 6, 0 }, { m["routing.placements"], m["routing.affinity_hits"], m["routing.session_moves"] })
    assert.same({ 4, 4 }, { report_of(run).workers[1].routed_requests, report_of(run).workers[2].routed_requests })
  end)

  it("relates the busiest worker to the mean of its pool", function()
    -- 4 × (20 + 2) tokens on one, 4 × (20 + 6) on the other
    local m = sessions { policy = "session", inner = "round_robin" }:run().metrics
    assert.near(104 / 96, m["routing.imbalance_ratio"], 1e-12)
    assert.equal(2, sessions { pick = function() return 1 end }:run().metrics["routing.imbalance_ratio"])
  end)

  it("counts both pools of a hand-off, each with sessions of its own", function()
    local sim = aisim.new { seed = 1 }
    sim:pool { role = "prefill", workers = 2, engine = support.engine() }
    sim:pool { role = "decode", engine = support.engine() }
    for turn = 0, 2 do
      sim:submit { at_ms = 500 * turn, prompt_tokens = 20, output_tokens = 3, session = 1, turn = turn }
    end
    local m = sim:run().metrics -- round robin over two prefill workers
    assert.same({ 6, 2, 1.0 }, { m["routing.placements"], m["routing.session_moves"], m["routing.moves_per_session"] })
  end)

  it("leaves out the preparation, and is undefined where nothing was routed", function()
    local sim = support.cluster(2)
    sim:workload(aisim.closed { users = 1, requests = 4, warmup = { requests = 2, barrier = true },
      prompt = aisim.dist.const(8), output = aisim.dist.const(2) })
    assert.equal(4, sim:run().metrics["routing.placements"])
    local m = support.cluster():run().metrics
    assert.equal(0, m["routing.placements"])
    assert.is_nil(m["routing.imbalance_ratio"])
  end)
end)

describe("totals.state_cache", function()
  --- Two prompts with a common beginning on a hybrid model.
  local function hybrid(state_cache, prepare)
    local sim = aisim.new { seed = 1 }
    sim:pool { engine = support.engine { model = "qwen3.5-35b-a3b", kv_cache = { block_size = 16,
      capacity = { type = "fixed", blocks = 4000 }, prefix_match_unit = state_cache.mode == "aligned" and 16 or nil,
      state_cache = state_cache } } }
    if prepare then prepare(sim) end
    for i = 0, 2 do
      sim:submit { at_ms = 400 * i, prompt_tokens = 96, output_tokens = 40,
        content = { { "system", 64 }, { i < 2 and "same" or "other", 32 } } }
    end
    return sim
  end

  it("tells tokens whose blocks were there from those that a checkpoint made usable (E-S8)", function()
    local run = hybrid { mode = "aligned" }:run()
    local m = run.metrics
    local usable = 0
    for record in run.requests() do usable = usable + record.first_admission_reused_tokens end
    assert.equal(3, m["state_cache.admissions"])
    assert.equal(usable, m["state_cache.usable_tokens"])
    -- the second finds the checkpoint before its last block; the third only blocks, its state was never kept
    assert.same({ 1, 80, 80 + 64 }, { m["state_cache.hits"], usable, m["state_cache.matched_tokens"] })
    assert.near(80 / 144, m["state_cache.usable_ratio"], 1e-12)
    assert.is_true(m["state_cache.checkpoints"] >= 2 and m["state_cache.checkpoint_bytes"] > 0)
  end)

  it("is the same when every token is watched, in all modes", function()
    for _, state_cache in ipairs { { mode = "aligned" }, { mode = "latest" },
      { mode = "aligned", checkpoints = "chunk_end" } } do
      local function watch(sim) sim:on("request.tokens", function() end) end
      local fast, slow = hybrid(state_cache):run(), hybrid(state_cache, watch):run()
      assert.equal(fast:json(), slow:json())
      assert.is_true(fast.metrics["state_cache.checkpoints"] > 0)
    end
  end)

  it("is null for a model without recurrent state", function()
    assert.equal(aisim.json.null, report_of(support.cluster():run()).totals.state_cache)
  end)

  it("has a column in the time series: k blocks for each running request", function()
    local rows = aisim.csv.decode(hybrid { mode = "aligned" }:run { series_ms = 5 }:timeseries())
    local most = 0
    for _, row in ipairs(rows) do
      assert.is_true(row.state_used <= row.kv_used)
      if row.running == 0 then assert.equal(0, row.state_used) end
      most = math.max(most, row.state_used)
    end
    assert.is_true(most > 0)
  end)
end)

describe("configuration", function()
  it("has the engine of every pool with every default, its router, and what a flag changed", function()
    local sim = aisim.new { seed = 1, overrides = { { key = "engine.scheduler.max_sequences", value = "7",
      flag = "--set engine.scheduler.max_sequences=7" } } }
    sim:pool { engine = support.engine() }
    sim:router { policy = "least_requests" }
    local pool = report_of(sim:run()).configuration[1]
    assert.same({ "main", "aggregated", "least_requests" }, { pool.pool, pool.role, pool.router })
    assert.same({ 7, 64, true }, { pool.engine.scheduler.max_sequences, pool.engine.scheduler.max_batched_tokens,
      pool.engine.scheduler.chunked_prefill })
  end)

  it("says when a function takes the place of the timing", function()
    local sim = aisim.new { seed = 1 }
    sim:pool { engine = support.engine { timing = { name = "mine", pass = function() return 3 end } } }
    sim:submit { prompt_tokens = 8, output_tokens = 2 }
    assert.equal("function", report_of(sim:run()).configuration[1].timing)
  end)
end)

describe("kv_cache_pool_tokens", function()
  it("is what the provisioned workers hold, weighted by time", function()
    local whole = support.cluster(2)
    whole:submit { prompt_tokens = 8, output_tokens = 26 } -- 10 ms + 25 × 4 ms = 110 ms
    assert.equal(2 * 256 * 4, whole:run().metrics.kv_cache_pool_tokens)
    local sim, pool = support.cluster(2)
    sim:submit { prompt_tokens = 8, output_tokens = 26 }
    sim:at(55, function() pool:worker(2):stop() end)
    assert.near(1.5 * 256 * 4, sim:run().metrics.kv_cache_pool_tokens, 1e-9)
  end)
end)

describe("percentiles of passes", function()
  it("are there for any p", function()
    local run = sessions { policy = "round_robin" }:run()
    assert.equal(10, run.pass_ms:p(100))
    assert.equal(run.metrics["pass_tokens.p90"], run.pass_tokens:p(90))
  end)
end)
