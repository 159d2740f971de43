--- Properties of AgentX replay over 200 seeds (spec/traffic.md §2.6, §5): a ledger kept from hooks
-- alone against the accounting of the report, and what must hold for whatever is replayed.
local aisim = require "aisim"

local SEEDS <const> = 200

local function pick(random, list) return list[random(#list)] end

--- A replay drawn from the seed: fan-out, failures, cancellations and guards all occur among the seeds.
local function drawn(seed)
  local state = seed
  local function random(n) -- MINSTD, so that the cases stay what they are whatever the library does
    state = (state * 48271 + 11) % 2147483647
    return state % n + 1
  end
  for _ = 1, 5 do random(2) end
  local case = {
    plays = aisim.agentx_synthetic {
      plays = 1 + random(7), seed = seed, subagent_play_share = pick(random, { 0, 0.5, 1 }),
    },
    lanes = random(6),
    seed = seed,
    warmup = random(3) > 1,
    warmup_requests_per_lane = random(4) - 1,
    warmup_mode = pick(random, { "repeat", "advance" }),
    t_star = pick(random, { { 0, 0 }, { 0.25, 0.75 }, { 0, 1 } }),
    speedup = pick(random, { 1, 1, 4, 0.5 }),
    authored_gate = random(2) == 1,
    cache_identity = pick(random, { "isolated", "after_system" }),
    on_error = pick(random, { "fail_play", "continue" }),
    profile = {
      duration_seconds = pick(random, { 20, 120, 900 }),
      response_grace_seconds = pick(random, { 0, 0.5, 30 }),
      cancel_drain_seconds = pick(random, { 0, 10 }),
      tree_idle_cap_seconds = pick(random, { 5, 60, 300 }),
      global_idle_cap_seconds = pick(random, { 1, 10 }),
    },
  }
  local pressure = random(3) -- 1: prompts beyond the context are rejected; 2: slow, few blocks; 3: plenty
  if pressure == 1 then case.warmup = false end
  local engine = {
    model = "llama-3.1-8b",
    context_length = pressure == 1 and 60000 or 1048576,
    scheduler = { max_batched_tokens = 8192, max_sequences = 1 + random(8) },
    kv_cache = { block_size = 64, capacity = { type = "fixed", blocks = pressure == 2 and 16000 or 400000 } },
    timing = { type = "fixed", prefill_ms = pressure == 2 and 400 or 30, decode_ms = pressure == 2 and 20 or 5 },
  }
  return case, engine, random(3)
end

local function replay(case, engine, workers)
  local sim = aisim.new { seed = case.seed }
  sim:pool { workers = workers, engine = engine }
  local ledger = { issued = 0, successful = 0, cancelled = 0, failed = 0, prepared = 0, started = 0, live = 0,
    most_live = 0, ended = 0, last_issue = -math.huge, first_issue = math.huge, last_success = -math.huge }
  local phase, profile_requests = "start", {}
  sim:on("phase", function(_, _, to) phase = to end)
  sim:on("play.start", function()
    ledger.started, ledger.live = ledger.started + 1, ledger.live + 1
    ledger.most_live = math.max(ledger.most_live, ledger.live)
  end)
  sim:on("play.end", function() ledger.live, ledger.ended = ledger.live - 1, ledger.ended + 1 end)
  sim:on("request.arrive", function(t, id)
    if phase == "primer" or phase == "warmup" then
      ledger.prepared = ledger.prepared + 1
      return
    end
    assert(phase == "profile", "a request of the profile is sent in phase " .. phase)
    profile_requests[id] = t
    ledger.issued, ledger.last_issue = ledger.issued + 1, t
    ledger.first_issue = math.min(ledger.first_issue, t)
  end)
  sim:on("request.finish", function(t, id, _, reason)
    if not profile_requests[id] then return end
    profile_requests[id] = nil
    if reason == "cancelled" then
      ledger.cancelled = ledger.cancelled + 1
    else
      ledger.successful, ledger.last_success = ledger.successful + 1, t
    end
  end)
  sim:on("request.reject", function(_, id)
    if profile_requests[id] then ledger.failed = ledger.failed + 1 end
    profile_requests[id] = nil
  end)
  local options = {}
  for key, value in pairs(case) do options[key] = value end
  sim:workload(aisim.agentx(options))
  local run = sim:run()
  ledger.in_flight = 0
  for _ in pairs(profile_requests) do ledger.in_flight = ledger.in_flight + 1 end
  return run, ledger
end

local function check_accounting(a, ledger, case)
  -- issued = successful + failed + cancelled + in flight; planned = issued + never issued
  assert.equal(a.issued, a.successful + a.failed + a.cancelled + a.in_flight, "issued")
  assert.equal(a.planned, a.issued + a.never_issued, "planned")
  for _, name in ipairs { "issued", "successful", "failed", "cancelled", "in_flight" } do
    assert.equal(ledger[name], a[name], name)
  end
  assert.equal(ledger.prepared, a.primer_requests + a.warmup_requests, "preparation")
  assert.equal(ledger.started, a.plays_started, "plays started")
  assert.is_true(a.plays_server_quiescent <= a.plays_retired and a.plays_retired <= a.plays_started)
  assert.is_true(a.plays_client_completed + a.plays_failed <= a.plays_started)
  assert.is_true(a.plays_client_completed <= a.plays_retired)
  assert.is_true(a.unsettled <= a.issued)
  assert.is_true(ledger.most_live <= case.lanes, "live plays")
  -- times
  local D = case.profile
  assert.near(a.barrier_ms + 1000 * D.duration_seconds, a.cutoff_ms, 1e-3)
  assert.is_true(ledger.last_issue < a.cutoff_ms, "sent at or after the deadline")
  assert.is_true(ledger.issued == 0 or ledger.first_issue >= a.barrier_ms, "sent before the barrier")
  assert.is_true(ledger.last_success <= a.cutoff_ms + 1000 * D.response_grace_seconds + 1e-3, "success after grace")
  if a.successful == 0 then
    assert.equal(0, a.observation_duration_ms)
  else
    assert.near(ledger.last_success, a.last_success_ms, 1e-3)
    assert.near(1000 * a.successful / a.observation_duration_ms, a.throughput_rps, 1e-6)
  end
  assert.equal(math.max(0, a.plays_started - case.lanes), (a.corpus_cursor - case.lanes) % #case.plays
    + (a.plays_started - case.lanes) // #case.plays * #case.plays, "corpus cursor")
end

--- Where instances share nothing the ideal is a bound for every request, whatever was sent in preparation.
local function check_ideal(run, case)
  if case.cache_identity ~= "isolated" then return 0 end
  local reused = 0
  for r in run.requests() do
    if r.phase == "profile" and r.ideal_reused_tokens then -- nil: it got nothing
      assert.is_true(r.first_admission_reused_tokens <= r.ideal_reused_tokens, "more reuse than the ideal")
    end
    reused = reused + r.first_admission_reused_tokens
  end
  return reused
end

describe("200 replays drawn from their seeds", function()
  it("add up, and send nothing outside of the window", function()
    local seen = { failed = 0, cancelled = 0, never_issued = 0, successful = 0, plays_failed = 0,
      plays_client_completed = 0 }
    local reused = 0
    for seed = 1, SEEDS do
      local case, engine, workers = drawn(seed)
      local run, ledger = replay(case, engine, workers)
      local ok, message = pcall(function()
        check_accounting(run.agentx, ledger, case)
        reused = reused + check_ideal(run, case)
      end)
      if not ok then
        error(("seed %d: %s"):format(seed, type(message) == "table" and message.message or tostring(message)))
      end
      for name in pairs(seen) do seen[name] = seen[name] + run.agentx[name] end
    end
    for name, n in pairs(seen) do assert.is_true(n > 100, name .. " hardly occurs among the seeds") end
    assert.is_true(reused > 1e6)
  end)
end)

-- What replay must not change (§5) -----------------------------------------------------------------

local PLENTY <const> = {
  model = "llama-3.1-8b",
  context_length = 1048576,
  scheduler = { max_batched_tokens = 65536, max_sequences = 64 },
  kv_cache = { block_size = 64, capacity = { type = "fixed", blocks = 4000000 } },
  timing = { type = "fixed", prefill_ms = 64, decode_ms = 4 },
}

local function copied(into, from)
  for key, value in pairs(from) do into[key] = value end
  return into
end

--- Runs plays on one worker with a cache for everything; each request as text, in order of arrival.
local function requests_of(plays, options, engine)
  local sim = aisim.new { seed = 1 }
  sim:pool { engine = engine or PLENTY }
  sim:workload(aisim.agentx(copied({ plays = plays, lanes = 1, warmup = false, t_star = { 0, 0 } }, options or {})))
  local run = sim:run { requests = true }
  local list = {}
  for r in run.requests() do
    list[#list + 1] = { id = r.request_id, session = r.session_id, prompt = r.input_tokens, output = r.output_tokens,
      reused = r.first_admission_reused_tokens, arrival_ms = r.arrival_ms, end_ms = r.last_token_ms }
  end
  table.sort(list, function(a, b) return a.id < b.id end)
  return list, run
end

local function sum(list, key)
  local total = 0
  for _, r in ipairs(list) do total = total + r[key] end
  return total
end

describe("reuse", function()
  local plays = aisim.agentx_synthetic { plays = 6, seed = 11, subagent_play_share = 0.5 }

  it("is the ideal for a whole corpus on an infinite cache", function()
    local list, run = requests_of(plays, { lanes = 3, once = true, authored_gate = true,
      profile = { duration_seconds = 4e6, tree_idle_cap_seconds = 4e6, global_idle_cap_seconds = 4e6 } })
    assert.equal(plays.requests, #list)
    assert.near(run.metrics.ideal_reuse_ratio, run.metrics.first_admission_prefix_cache_reused_ratio, 1e-12)
  end)

  it("inside an instance does not depend on the number of lanes", function()
    local reused = {}
    for _, lanes in ipairs { 1, 2, 6 } do
      local list = requests_of(plays, { lanes = lanes, once = true, profile = { duration_seconds = 1e7 } })
      assert.equal(plays.requests, #list)
      reused[#reused + 1] = sum(list, "reused")
    end
    assert.equal(reused[1], reused[2])
    assert.equal(reused[1], reused[3])
  end)

  it("is nothing between two instances of one play, in two lanes or one after the other", function()
    for ordinal = 1, #plays do
      local one = plays:filter(function(play) return play.ordinal == ordinal - 1 end)
      local once = sum(requests_of(one, { once = true, profile = { duration_seconds = 1e7 } }), "reused")
      for _, lanes in ipairs { 1, 2 } do
        local n, list = 0, requests_of(one, { lanes = lanes, profile = { duration_seconds = 20000 } })
        local first = {} -- a session belongs to one instance; sessions of an instance start alike
        for _, r in ipairs(list) do
          if not first[r.session] then first[r.session] = r end
        end
        for _, r in pairs(first) do
          if r.prompt == list[1].prompt and r.output == list[1].output then
            assert.equal(0, r.reused, "an instance begins with what another left")
            n = n + 1
          end
        end
        assert.is_true(n >= lanes and sum(list, "reused") <= n * once)
      end
    end
  end)
end)

describe("the order of plays in a corpus", function()
  it("changes ordinals, not plays", function()
    local path = os.tmpname()
    aisim.agentx_synthetic { plays = 8, seed = 5, subagent_play_share = 0.5 }:save(path)
    local lines = {}
    for line in io.lines(path) do table.insert(lines, 1, line) end -- backwards
    local backwards <close> = assert(io.open(path .. ".back", "w"))
    backwards:write(table.concat(lines, "\n"), "\n")
    backwards:flush()
    local a, b = aisim.plays(path), aisim.plays(path .. ".back")
    assert.equal(#a, #b)
    for i = 1, #a do
      local here, there = a[i], b[#b + 1 - i]
      assert.equal(i - 1, here.ordinal)
      assert.equal(#b - i, there.ordinal)
      there.ordinal = here.ordinal
      assert.same(here, there)
    end
    os.remove(path)
    os.remove(path .. ".back")
  end)
end)

describe("a replay with all times scaled by a power of two", function()
  it("is the same run on another clock", function()
    local plays = aisim.agentx_synthetic { plays = 5, seed = 23, subagent_play_share = 0.5 }
    for _, factor in ipairs { 2, 8, 0.5 } do
      local profile = { duration_seconds = 512, response_grace_seconds = 8, tree_idle_cap_seconds = 64,
        global_idle_cap_seconds = 8 }
      local list = requests_of(plays, { lanes = 3, t_star = { 0.5, 0.5 }, profile = profile })
      local scaled, engine = {}, copied({}, PLENTY)
      for key, value in pairs(profile) do scaled[key] = value * factor end
      engine.timing = { type = "fixed", prefill_ms = 64 * factor, decode_ms = 4 * factor }
      local other = requests_of(plays:rescale { time = factor }, { lanes = 3, t_star = { 0.5, 0.5 }, profile = scaled },
        engine)
      assert.equal(#list, #other)
      assert.is_true(#list > 50)
      for i, r in ipairs(list) do
        local s = other[i]
        assert.same({ r.prompt, r.output, r.reused, r.session }, { s.prompt, s.output, s.reused, s.session })
        assert.near(r.arrival_ms * factor, s.arrival_ms, 0.01)
        assert.near(r.end_ms * factor, s.end_ms, 0.01)
      end
    end
  end)
end)
