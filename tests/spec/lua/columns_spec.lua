--- Columns are kept up to date from decision to decision: they are what the workers show at that moment, whatever
--- happened since the one before (spec/lua-api.md §7 "dirty rows only").
local aisim = require "aisim"
local support = dofile "tests/spec/lua/support.lua"

local FIGURES <const> = { "active_requests", "active_prefill_tokens", "active_blocks", "waiting", "running", "kv_used",
  "kv_total" }

--- Compares the columns, added up over the ranks of each worker, with the worker's own figures.
local function compare(pool, targets)
  for _, figure in ipairs(FIGURES) do
    local sums = {}
    assert.equal(targets.n, #targets[figure])
    for i = 1, targets.n do
      local worker = targets.worker[i]
      sums[worker] = (sums[worker] or 0) + targets[figure][i]
    end
    for worker, sum in pairs(sums) do
      local shown = pool.workers >= worker and pool:worker(worker)[figure]
      assert.equal(shown, sum, ("%s of worker %d"):format(figure, worker))
    end
  end
end

--- A router that compares, then chooses by a number of its own. Some of its decisions come from a filter that drops
--- candidates, so lists of several lengths follow each other.
local function comparing(name, first_worker, pool)
  local decisions = { n = 0 }
  local columns = { "worker" }
  for _, figure in ipairs(FIGURES) do columns[#columns + 1] = figure end
  return {
    pool = name, columns = columns,
    filter = function(req, targets, out)
      if req.id % 4 == 0 and targets.n > 1 then out[1 + req.id % targets.n] = false end
    end,
    pick = function(req, targets)
      decisions.n = decisions.n + 1
      if req.id % 4 ~= 0 then -- every rank of a worker is a candidate
        compare(pool(), setmetatable({ worker = setmetatable({}, { __index = function(_, i)
          return targets.worker[i] - first_worker + 1
        end }) }, { __index = targets }))
      end
      return 1 + (req.id * 7) % targets.n
    end,
  }, decisions
end

local function stream(sim, n, every_ms, options)
  local handles = {}
  for i = 1, n do
    local o = { at_ms = every_ms * i, output_tokens = 1 + i % 9, content = { { "group " .. i % 6, 36 } },
      prompt_tokens = 40 + i % 7, priority = i % 3 }
    for key, value in pairs(options or {}) do o[key] = value end
    handles[i] = sim:submit(o)
  end
  return handles
end

describe("declared columns", function()
  local function tight(blocks) -- blocks for few requests: they preempt each other
    return support.engine { kv_cache = { block_size = 4, bytes_per_token = 1000,
      capacity = { type = "fixed", blocks = blocks } } }
  end

  local function run(engine, options)
    local sim = aisim.new { seed = 1 }
    local pool = sim:pool { name = "main", workers = 3, engine = engine }
    local router, decisions = comparing("main", 1, function() return pool end)
    sim:router(router)
    local handles = stream(sim, 120, options.every_ms or 3)
    if options.during then options.during(sim, pool, handles) end
    local result = sim:run()
    assert.is_true(decisions.n >= 100)
    return result
  end

  it("show what passes do", function() run(support.engine(), {}) end)

  it("show preemptions", function()
    local result = run(tight(32), { every_ms = 1 })
    assert.is_true(result.metrics.preemptions > 0)
  end)

  it("show every rank of a group", function()
    run(support.engine { parallelism = { attention_data = 2 } }, {})
  end)

  it("show workers that drain, stop, come back, start and leave, and requests that are cancelled", function()
    run(tight(64), { during = function(sim, pool, handles)
      sim:at(40, function() pool:worker(1):drain() end)
      sim:at(90, function() pool:worker(1):resume() end)
      sim:at(120, function() pool:worker(2):stop() end)
      sim:at(150, function() pool:worker(2):resume() end)
      sim:at(170, function() pool:add(2, 5) end)
      sim:at(250, function() pool:remove(1) end)
      for i = 5, 115, 10 do sim:at(3 * i + 1, function() handles[i]:cancel() end) end
    end })
  end)

  it("show loads from host memory", function()
    for _, scope in ipairs { "dp_rank_local", "cluster_shared" } do
      local engine = tight(24)
      engine.kv_cache.host_offload = { scope = scope, num_host_blocks = 200 }
      run(engine, {})
    end
  end)

  it("show both ends of a hand-off", function()
    local sim = aisim.new { seed = 1 }
    local prefill = sim:pool { name = "p", role = "prefill", workers = 2, engine = support.engine() }
    local decode = sim:pool { name = "d", role = "decode", workers = 3, engine = tight(48) }
    sim:handoff { bandwidth_gb_per_second = 1, bytes_per_token = 1e5, latency_ms = 1 }
    local at_prefill, decisions = comparing("p", 1, function() return prefill end)
    local at_decode, more = comparing("d", 3, function() return decode end)
    sim:router(at_prefill)
    sim:router(at_decode)
    stream(sim, 100, 3, { pool = "p" })
    sim:at(100, function() decode:worker(1):stop() end)
    sim:at(130, function() decode:worker(1):resume() end)
    sim:run()
    assert.is_true(decisions.n >= 100 and more.n >= 80)
  end)
end)
