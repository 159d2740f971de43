--- decisions.jsonl: one line per routing decision (spec/report.md §5, routing.md §4, §7).
local support = dofile "tests/spec/lua/support.lua"
local aisim = require "aisim"
local outputs = require "aisim.cli.outputs"

--- Runs with a log of decisions.
---@return table[] decisions
---@return table run
local function decisions_of(sim, options)
  options = options or {}
  options.decisions = os.tmpname()
  local run = sim:run(options)
  local list = {}
  for line in io.lines(options.decisions) do list[#list + 1] = aisim.json.decode(line, "line") end
  os.remove(options.decisions)
  return list, run
end

--- Three requests of one session and one of another, on two workers.
local function simulation(router)
  local sim = support.cluster(2)
  sim:router(router)
  for i = 0, 2 do
    sim:submit { at_ms = 100 * i, prompt_tokens = 40, output_tokens = 2, session = 1, turn = i,
      content = { { "system", 40 } } }
  end
  sim:submit { at_ms = 201, prompt_tokens = 40, output_tokens = 2, session = 2, content = { { "other", 40 } } }
  return sim
end

local function column(list, key)
  local out = {}
  for i, decision in ipairs(list) do out[i] = decision[key] end
  return out
end

describe("decisions.jsonl", function()
  it("has the keys that aisim help outputs explains, in that order", function()
    local path = os.tmpname()
    simulation { policy = "round_robin" }:run { decisions = path }
    local file <close> = assert(io.open(path))
    local keys = {}
    for key in file:read("l"):gmatch '"([%w_]+)":' do keys[#keys + 1] = key end
    local known = {}
    for i, row in ipairs(outputs.DECISION) do known[i] = row[1] end
    assert.same(known, keys)
  end)

  it("measures what was there on the chosen and on the best target", function()
    local list = decisions_of(simulation { policy = "round_robin" })
    assert.same({ 1, 2, 1, 2 }, column(list, "worker"))
    assert.same({ 0, 0, 10, 0 }, column(list, "overlap_chosen_blocks"))
    assert.same({ 0, 10, 10, 0 }, column(list, "overlap_best_blocks"))
    assert.same({ 0, 10, 0, 0 }, column(list, "regret_blocks"))
    assert.same({ 1, 1, 1, 2 }, column(list, "best_worker"))
    assert.same({ aisim.json.null }, { list[1].overlap_blocks }) -- the policy does not look
    assert.same({ 0, 0, 0, 0 }, column(list, "active_requests"))
    assert.same({ "round_robin", "policy", 2 }, { list[1].policy, list[1].by, list[1].targets })
  end)

  it("tells decisions by a binding from those of the policy", function()
    local list = decisions_of(simulation { policy = "session", inner = "round_robin" })
    assert.same({ "policy", "binding", "binding", "policy" }, column(list, "by"))
    assert.same({ 1, 1, 1, 2 }, column(list, "worker"))
  end)

  it("has overlap and cost of a policy that uses them", function()
    local list = decisions_of(simulation { policy = "kv" })
    assert.equal(10, list[2].overlap_blocks)
    assert.same({ list[1].worker, list[1].worker }, { list[2].worker, list[3].worker })
    assert.equal("number", type(list[2].cost))
    assert.equal(0, list[2].regret_blocks)
  end)

  it("has the choices of a Lua router, under its name", function()
    local list = decisions_of(simulation { name = "mine", pick = function() return 2 end })
    assert.same({ 2, 2, 2, 2 }, column(list, "worker"))
    assert.equal("mine", list[1].policy)
  end)

  it("has a line in both pools of a hand-off", function()
    local sim = aisim.new { seed = 1 }
    for _, role in ipairs { "prefill", "decode" } do sim:pool { role = role, engine = support.engine() } end
    sim:submit { at_ms = 3, prompt_tokens = 10, output_tokens = 4 }
    local list = decisions_of(sim)
    assert.same({ "prefill", "decode" }, column(list, "pool"))
    assert.same({ 1, 2 }, column(list, "worker"))
    assert.same({ 3, 3 }, column(list, "t_ms"))
  end)

  it("has another line for a request that lost its worker, and the wait for one", function()
    local sim, pool = support.cluster(2)
    sim:submit { at_ms = 0, prompt_tokens = 8, output_tokens = 10 }
    sim:at(12, function() pool:worker(1):stop() end)
    sim:at(5, function() pool:worker(2):stop() end)
    sim:at(30, function() pool:worker(2):resume() end)
    local list = decisions_of(sim)
    assert.same({ 1, 2 }, column(list, "worker"))
    assert.same({ 0, 30 }, column(list, "router_queue_ms"))
    assert.same({ 2, 1 }, column(list, "targets"))
  end)

  it("gives times after the measurement start, the preparation counts from the begin", function()
    local sim = support.cluster(1)
    sim:workload(aisim.closed { users = 1, requests = 4, warmup = { requests = 2, barrier = true },
      prompt = aisim.dist.const(8), output = aisim.dist.const(2) })
    local list, run = decisions_of(sim)
    local by_id = {}
    for record in run.requests() do by_id[record.request_id] = record end
    assert.same({ "warmup", "warmup", "profile", "profile", "profile", "profile" }, column(list, "phase"))
    assert.equal(0, list[3].t_ms)
    for _, decision in ipairs(list) do
      assert.equal(by_id[decision.request_id].dispatched_ms, decision.t_ms)
    end
  end)

  it("changes nothing in the run, and is the same bytes each time", function()
    for _, router in ipairs { { policy = "kv", temperature = 0.5 }, { policy = "random" },
      { policy = "prefix", regret = true } } do
      local plain = simulation(router):run()
      local one, logged = decisions_of(simulation(router))
      local two = decisions_of(simulation(router), { series_ms = 3, timeline = os.tmpname() })
      assert.equal(plain:json(), logged:json())
      assert.same(one, two)
    end
  end)

  it("says what cannot be written", function()
    assert.error_matches(function() simulation { policy = "kv" }:run { decisions = "/nowhere/d.jsonl" } end,
      "cannot write /nowhere/d.jsonl.part")
    assert.error_matches(function() simulation { policy = "kv" }:run { decisions = 3 } end,
      "sim:run.decisions: text expected, got number")
  end)
end)

describe("requests.jsonl", function()
  it("has no key without an explanation in aisim help outputs or aisim help metrics", function()
    local path = os.tmpname()
    simulation { policy = "kv" }:run { requests = path }
    local known = {}
    for _, row in ipairs(outputs.REQUEST) do known[row[1]] = true end
    for _, definition in ipairs(require("aisim.core").definitions()) do known[definition.key] = true end
    local file <close> = assert(io.open(path))
    for key in file:read("l"):gmatch '"([%w_]+)":' do assert.is_true(known[key], key) end
  end)
end)
