--- Stop rules of the AgentX replay, and what its requests are (spec/lua-api.md §5: what every workload takes).
local aisim = require "aisim"

local PLAYS <const> = aisim.agentx_synthetic { plays = 12, turns_range = { 3, 9 } }

local function simulation(options, seed)
  local sim = aisim.new { seed = seed or 1 }
  sim:pool { engine = {
    model = "llama-3.1-8b", context_length = 1000000, timing = { type = "fixed", prefill_ms = 40, decode_ms = 5 },
    kv_cache = { capacity = { type = "fixed", blocks = 100000 } },
  } }
  local all = { plays = PLAYS, lanes = 3, warmup = false, speedup = 50 }
  for key, value in pairs(options) do all[key] = value end
  sim:workload(aisim.agentx(all))
  return sim
end

local function replay(options, seed) return simulation(options, seed):run() end

local function message(options)
  local ok, text = pcall(replay, options)
  assert.is_false(ok)
  return text
end

describe("the AgentX replay", function()
  it("issues at most so many requests, and what was sent ends", function()
    local run = replay { requests = 7 }
    local ledger = run.agentx
    assert.same({ 7, 7, 0 }, { ledger.issued, ledger.successful, ledger.in_flight })
    assert.equal(7, run.metrics.completed_requests)
    assert.is_true(ledger.cutoff_ms < ledger.grace_end_ms and ledger.cutoff_ms < 3600e3)
    assert.equal(ledger.planned, ledger.issued + ledger.never_issued)
  end)

  it("counts only requests of the profile", function()
    local ledger = replay({ requests = 7, warmup = true, warmup_requests_per_lane = 2 }).agentx
    assert.same({ 7, 6 }, { ledger.issued, ledger.warmup_requests })
  end)

  it("ends with the last of so many plays", function()
    local ledger = replay({ sessions = 5 }).agentx
    assert.same({ 5, 5, 0 }, { ledger.plays_started, ledger.plays_client_completed, ledger.never_issued })
    assert.is_true(ledger.cutoff_ms < 3600e3)
  end)

  it("sends nothing at or after a time on the clock of the run", function()
    local at, last = 20e3, 0
    local sim = simulation { until_ms = at, warmup = true, warmup_requests_per_lane = 1 }
    sim:on("request.arrive", function(t) last = t end)
    local ledger = sim:run().agentx
    assert.equal(at, ledger.cutoff_ms)
    assert.is_true(ledger.barrier_ms > 0 and last > ledger.barrier_ms and last < at)
  end)

  it("has no profile when the preparation takes longer than that", function()
    local ledger = replay({ until_ms = 1, warmup = true }).agentx
    assert.same({ 0, "done" }, { ledger.issued, ledger.phase })
    assert.equal(ledger.barrier_ms, ledger.cutoff_ms)
  end)

  it("is what it was without stop rules", function()
    local options = { profile = { duration_seconds = 30 } }
    assert.equal(replay(options):json(), replay(options):json())
    local limited = { profile = { duration_seconds = 30 }, requests = 1000000, sessions = 1000000 }
    assert.equal(replay(options).metrics.total_output_tokens, replay(limited).metrics.total_output_tokens)
  end)

  it("draws its snapshot from a stream of the run when that has a name", function()
    local function first(options, seed)
      options.profile = { duration_seconds = 10 }
      return replay(options, seed).metrics.total_input_tokens
    end
    assert.equal(first({}, 1), first({}, 2)) -- seed = 42
    assert.not_equal(first({ rng = "a" }, 1), first({ rng = "a" }, 2))
    assert.not_equal(first({ rng = "a" }, 1), first({ rng = "b" }, 1))
    assert.equal(first({ rng = "a" }, 1), first({ rng = "a" }, 1))
  end)

  it("has requests of a class and a priority", function()
    local sim = simulation { requests = 4, class = "agents", priority = 3, deadline_ms = 500 }
    local seen = {}
    sim:on("request.arrive", function(t, _, _, _, req)
      seen[#seen + 1] = ("%s %d %g"):format(req.class, req.priority, req.deadline_ms - t)
    end)
    sim:run()
    assert.same({ "agents 3 500", "agents 3 500", "agents 3 500", "agents 3 500" }, seen)
  end)

  it("says what is wrong with them", function()
    assert.matches("aisim.agentx: sessions = 2: must be >= lanes %(3%), which begin with a play each",
      message { sessions = 2 })
    assert.matches("aisim.agentx: until_ms and profile.duration_seconds say the same thing; give one",
      message { until_ms = 5, profile = { duration_seconds = 3 } })
    assert.matches("aisim.agentx: seed and rng say the same thing; give one", message { seed = 5, rng = "x" })
    assert.matches("aisim.agentx: unknown key 'request' %(did you mean 'requests'%?%)", message { request = 5 })
  end)
end)
