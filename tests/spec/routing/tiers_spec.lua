--- What routers know below the device: host tier, shared host tier, checkpoints (spec/routing.md §1, §4, §6).
local aisim = require "aisim"

--- Blocks of 4 tokens, 12 on the device; host memory if there is a scope. Copies take no time worth naming.
local function engine(scope, more)
  local e = {
    model = "llama-3.1-8b", timing = { type = "fixed", prefill_ms = 10, decode_ms = 4 },
    scheduler = { max_batched_tokens = 64, max_sequences = 4 },
    kv_cache = {
      block_size = 4, bytes_per_token = 1000, capacity = { type = "fixed", blocks = 12 },
      host_offload = scope and { scope = scope, num_host_blocks = 100 } or nil,
    },
  }
  for key, value in pairs(more or {}) do e.kv_cache[key] = value end
  return e
end

--- Prompts of 40 tokens (10 blocks) by name, 200 ms apart: each pushes the one before off the device.
local function send(sim, names)
  for i, name in ipairs(names) do
    sim:submit { at_ms = 200 * i, output_tokens = 1, content = { { name, 40 } } }
  end
end

describe("columns of host memory", function()
  local function seen(scope)
    local sim = aisim.new { seed = 1 }
    sim:pool { workers = 2, engine = engine(scope) }
    local rows = {}
    sim:router { columns = { "overlap_blocks", "host_overlap_blocks", "shared_overlap_blocks", "disk_overlap_blocks" },
      pick = function(_, t)
        rows[#rows + 1] = { t.overlap_blocks[1], t.host_overlap_blocks[1], t.shared_overlap_blocks[1],
          t.overlap_blocks[2], t.host_overlap_blocks[2], t.shared_overlap_blocks[2], t.disk_overlap_blocks[1] }
        return 1
      end }
    send(sim, { "a", "b", "a", "a" })
    sim:run()
    return rows
  end

  it("go on where the device ends, per rank", function()
    -- a pushed out by b: 2 leading blocks are left on the device (12 - 10), 8 only in host memory
    local rows = seen "dp_rank_local"
    assert.same({ 0, 0, 0, 0, 0, 0, 0 }, rows[1])
    assert.same(10, rows[3][1] + rows[3][2])
    assert.is_true(rows[3][2] > 0)
    assert.same({ 0, 0, 0, 0 }, { rows[3][3], rows[3][4], rows[3][5], rows[3][6] })
    assert.same({ 10, 0 }, { rows[4][1], rows[4][2] }) -- loaded back
  end)

  it("of a shared tier are there for every rank", function()
    local rows = seen "cluster_shared"
    assert.same({ 0, 0, 10 }, { rows[3][4], rows[3][5], rows[3][6] })
    assert.same({ 0, 10 }, { rows[3][2], rows[3][1] + rows[3][3] })
  end)

  it("are zero without one", function()
    local rows = seen(nil)
    assert.same({ 0, 0, 0, 0 }, { rows[3][2], rows[3][3], rows[3][5], rows[3][6] })
  end)
end)

describe("the kv router", function()
  --- Cost of targets 1 and 2 for the third request: its prompt was computed on 1 and pushed out by another.
  local function costs(scope, options)
    local sim = aisim.new { seed = 1 }
    sim:pool { workers = 2, engine = engine(scope) }
    local built_in, by_hand
    local score = { policy = "kv" }
    for key, value in pairs(options or {}) do score[key] = value end
    sim:router { score = score, pick = function(req, t)
      built_in = { t.cost[1], t.cost[2] }
      by_hand = { aisim.kv_cost(req, t[1], options), aisim.kv_cost(req, t[2], options) }
      return 1
    end }
    send(sim, { "a", "b", "a" })
    sim:run()
    assert.same(by_hand, built_in)
    return built_in[1], built_in[2]
  end

  it("credits what lies in host memory: 10 + 10 - D - 0.75 H", function()
    local without, other = costs(nil)
    assert.equal(20.0, other)
    local left = 20 - without -- leading blocks on the device
    assert.equal(20 - left - 0.75 * (10 - left), (costs "dp_rank_local"))
    assert.equal(20 - left - 0.5 * (10 - left), (costs("dp_rank_local", { host_credit = 0.5 })))
    assert.equal(without, (costs("dp_rank_local", { host_credit = 0 })))
  end)

  it("credits what lies in a shared tier on every target", function()
    local first, other = costs("cluster_shared", { shared_credit = 0.5 })
    assert.equal(15.0, other)
    local left = 20 - (costs(nil))
    assert.equal(20 - left - 0.5 * (10 - left), first)
    assert.equal(20.0, select(2, costs "cluster_shared")) -- shared_credit is 0
  end)

  it("sees a host tier that throws blocks out", function()
    local sim = aisim.new { seed = 1 }
    sim:pool { workers = 2, engine = engine("dp_rank_local", { host_offload = { scope = "dp_rank_local",
      num_host_blocks = 12 } }) }
    local equal, n = true, 0
    sim:router { score = { policy = "kv" }, pick = function(req, t)
      for i = 1, t.n do
        equal, n = equal and t.cost[i] == aisim.kv_cost(req, t[i]), n + 1
      end
      return req.id % 2 + 1
    end }
    local names = {}
    for i = 1, 60 do names[i] = "p" .. (i * i) % 7 end
    send(sim, names)
    sim:run()
    assert.is_true(equal)
    assert.equal(120, n)
  end)
end)

describe("callbacks of a policy", function()
  local function told(scope)
    local sim = aisim.new { seed = 1 }
    sim:pool { workers = 2, engine = engine(scope) }
    local sums = {}
    local function note(sign) return function(target, blocks, tier)
      local key = tier .. target.worker
      sums[key] = (sums[key] or 0) + sign * blocks
    end end
    sim:router { pick = function() return 1 end, on_kv_stored = note(1), on_kv_removed = note(-1) }
    send(sim, { "a", "b", "c" })
    local run = sim:run()
    return sums, run
  end

  it("hear of the device and of host memory, and the sums are what is there", function()
    assert.same({ device1 = 12, host1 = 30 }, (told "dp_rank_local"))
    assert.same({ device1 = 12, shared1 = 30 }, (told "cluster_shared"))
    assert.same({ device1 = 12 }, (told(nil)))
  end)
end)

describe("usable_overlap_blocks", function()
  --- Overlap, usable overlap and what the engine then took from the cache, in blocks, for each request.
  local function seen(more)
    local sim = aisim.new { seed = 1 }
    local kv = { capacity = { type = "fixed", blocks = 400 } }
    for key, value in pairs(more) do kv[key] = value end
    sim:pool { engine = engine(nil, kv) }
    local rows = {}
    sim:router { columns = { "overlap_blocks", "usable_overlap_blocks" }, pick = function(req, t)
      rows[req.id] = { t.overlap_blocks[1], t.usable_overlap_blocks[1] }
      return 1
    end }
    sim:on("request.admit", function(_, id, _, reused_tokens) rows[id][3] = reused_tokens // 4 end)
    for i, tokens in ipairs { 100, 100, 180, 52, 100 } do
      sim:submit { at_ms = 400 * i, output_tokens = 1, content = { { "a", math.min(tokens, 100) },
        tokens > 100 and { "b", tokens - 100 } or nil } }
    end
    sim:run()
    return rows
  end

  it("ends at the last checkpoint of a state-cache model, where the engine goes on", function()
    local rows = seen { state_cache = { mode = "aligned", bytes_per_request = 4000 } }
    assert.same({ 0, 0, 0 }, rows[1])
    local shorter = 0
    for _, row in ipairs(rows) do
      assert.equal(row[3], row[2])
      shorter = shorter + (row[2] < row[1] and 1 or 0)
    end
    assert.is_true(shorter > 0)
  end)

  it("is the overlap for other models", function()
    for _, row in ipairs(seen {}) do assert.equal(row[1], row[2]) end
  end)
end)

describe("router.weights", function()
  it("may go on for workers that are added later", function()
    local function share(weights)
      local sim = aisim.new { seed = 1 }
      local pool = sim:pool { workers = 1, engine = engine(nil) }
      local third = 0
      sim:on("request.route", function(t, _, worker) third = third + (t > 1 and worker == 3 and 1 or 0) end)
      sim:router { policy = "weighted_random", weights = weights }
      sim:at(0, function() pool:add(2, 0) end)
      for i = 1, 200 do sim:submit { at_ms = 100 * i, prompt_tokens = 4, output_tokens = 1 } end
      sim:run()
      return third / 200
    end
    assert.equal(0, share { 1, 1, 0 })
    assert.near(0.8, share { 1, 1, 8 }, 0.08)
    assert.near(1 / 3, share { 1 }, 0.1) -- behind the list: 1
  end)
end)
