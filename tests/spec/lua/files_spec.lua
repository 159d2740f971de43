--- Time series and timeline of a run (spec/report.md §4, §6).
local support = dofile "tests/spec/lua/support.lua"
local aisim = require "aisim"

--- Two requests: 10 ms to the first token, then 4 ms per token; the second waits for the first.
local function simulation(prepare)
  local sim, pool = support.cluster()
  if prepare then prepare(sim, pool) end
  sim:submit { at_ms = 0, prompt_tokens = 8, output_tokens = 6, class = "a" }
  sim:submit { at_ms = 5, prompt_tokens = 12, output_tokens = 3, class = "b" }
  return sim
end

local function rows_of(run)
  local rows, columns = aisim.csv.decode(run:timeseries())
  return rows, columns
end

describe("the time series", function()
  it("has one row per worker and interval, state after everything of that instant", function()
    local rows = rows_of(simulation():run { series_ms = 10 })
    assert.same({ 0, 10, 20, 30 }, { rows[1].t_ms, rows[2].t_ms, rows[3].t_ms, rows[4].t_ms })
    assert.same({ 1, 0, 1 }, { rows[1].running, rows[1].waiting, rows[1].in_flight_clients })
    assert.same({ 2, 0, 2 }, { rows[2].running, rows[2].waiting, rows[2].in_flight_clients })
    assert.equal(800, rows[2].prefill_tok_s) -- 8 tokens in 10 ms
    assert.is_nil(rows[1].state_used)
    assert.is_true(rows[2].kv_used > 0 and rows[2].kv_total == rows[1].kv_total)
    assert.same({ 0, 0 }, { rows[#rows].running, rows[#rows].in_flight_clients })
  end)

  it("has a column for every metric that asks for one", function()
    local rows, columns = rows_of(simulation(function(sim)
      local n = sim:counter { name = "n", series = true }
      local depth = sim:gauge { name = "depth", series = true }
      local gap = sim:hist { name = "gap", series = true }
      sim:ratio { name = "share", num = "n", den = "m", series = true }
      sim:counter { name = "m" }:add(4)
      sim:at(15, function() n:add(2) depth:set(7) gap:add(3) end)
    end):run { series_ms = 10 })
    assert.same({ "n", "depth", "gap", "share" }, table.move(columns, #columns - 3, #columns, 1, {}))
    assert.same({ 0, nil, 0, 0 }, { rows[2].n, rows[2].depth, rows[2].gap, rows[2].share })
    assert.same({ 2, 7, 1, 0.5 }, { rows[3].n, rows[3].depth, rows[3].gap, rows[3].share })
  end)

  it("changes nothing in the run", function()
    local path = os.tmpname()
    assert.equal(simulation():run():json(), simulation():run({ series_ms = 0.5, timeline = path }):json())
    assert.equal(simulation():run { series_ms = 3 }:timeseries(), simulation():run { series_ms = 3 }:timeseries())
  end)

  it("is refused where nothing was sampled, and without an interval", function()
    assert.error_matches(function() simulation():run():timeseries() end, "nothing was sampled")
    assert.error_matches(function() simulation():run { series_ms = 0 } end, "sim:run.series_ms = 0: must be > 0")
  end)
end)

--- Events of the timeline of a run.
local function events_of(sim, options)
  options = options or {}
  options.path = os.tmpname()
  local run = sim:run { timeline = options }
  local value = aisim.json(options.path)
  os.remove(options.path)
  assert.equal("ms", value.displayTimeUnit)
  return value.traceEvents, run
end

--- { name, begin in ms, length in ms } of the spans of one thread, in the order of the file.
local function spans(events, pid, tid)
  local out = {}
  for _, event in ipairs(events) do
    if event.ph == "X" and event.pid == pid and event.tid == tid then
      out[#out + 1] = { event.name, event.ts / 1000, event.dur / 1000 }
    end
  end
  return out
end

--- { kind and name, process, thread, time in ms } of the points of the arrows, one arrow after the other.
local function arrows(events)
  local out = {}
  for _, event in ipairs(events) do
    if event.cat then
      assert.same({ "request", event.ph == "f" and "e" or nil }, { event.cat, event.bp })
      out[#out + 1] = { event.ph .. " " .. event.name, event.pid, event.tid,
        math.floor(event.ts * 1000 + 0.5) / 1e6, id = event.id }
    end
  end
  table.sort(out, function(a, b) return a.id < b.id or (a.id == b.id and a[4] < b[4]) end)
  for _, point in ipairs(out) do point.id = nil end
  return out
end

local function handed_off(count, link)
  local sim = aisim.new { seed = 1 }
  for _, role in ipairs { "prefill", "decode" } do sim:pool { role = role, engine = support.engine() } end
  sim:handoff(link)
  for _ = 1, count do sim:submit { prompt_tokens = 10, output_tokens = 4 } end
  return sim
end

describe("the timeline", function()
  it("splits the stay of a request", function()
    local events = events_of(simulation())
    assert.same({ { "request 1", 0, 40 }, { "prefill", 0, 10 }, { "decode", 10, 30 } }, spans(events, 1, 100))
    assert.same({ { "request 2", 5, 27 }, { "queued", 5, 5 }, { "prefill", 10, 14 }, { "decode", 24, 8 } },
      spans(events, 1, 101))
    assert.same({ { "request 1", 0, 40 } }, spans(events, 0, 1000))
  end)

  describe("of a hand-off", function()
    local function handoff(count, link) return events_of(handed_off(count, link)) end

    it("holds the source after its prefill, decodes at the second worker, and joins the two", function()
      local events = handoff(1, { latency_ms = 2 })
      assert.same({ { "request 1", 0, 12 }, { "prefill", 0, 10 }, { "held", 10, 2 } }, spans(events, 1, 100))
      assert.same({ { "request 1", 12, 12 }, { "decode", 12, 12 } }, spans(events, 2, 100))
      assert.same({ { "hand-off", 10, 2 } }, spans(events, 1, 4))
      assert.same({ { "s hand-off", 1, 100, 9.999999 }, { "t hand-off", 1, 4, 10 }, { "f hand-off", 2, 100, 12 } },
        arrows(events))
    end)

    it("joins prefill and decode directly where the transfer takes no time", function()
      assert.same({ { "s hand-off", 1, 100, 9.999999 }, { "f hand-off", 2, 100, 10 } }, arrows(handoff(1, {})))
    end)

    it("has a thread for each of the transfers at one time", function()
      local events = handoff(3, { latency_ms = 2 })
      for _, thread in ipairs { 4, 4000001, 4000002 } do
        assert.same({ { "hand-off", 10, 2 } }, spans(events, 1, thread))
      end
      assert.equal(9, #arrows(events))
    end)
  end)

  it("joins what a preemption, a lost worker or a copy from the host has parted", function()
    local sim = aisim.new()
    sim:pool { engine = support.engine {
      kv_cache = { block_size = 4, prefix_caching = false, capacity = { type = "fixed", blocks = 8 } },
    } }
    for i = 0, 1 do sim:submit { at_ms = i, prompt_tokens = 8, output_tokens = 12 } end
    local events, run = events_of(sim)
    local again = spans(events, 1, 101)
    assert.equal(1, run.metrics.preemptions)
    assert.same({ "queued", "prefill", "decode", "preempted", "prefill", "decode" }, {
      again[2][1], again[3][1], again[4][1], again[5][1], again[6][1], again[7][1] })
    assert.same({ { "s resumed", 1, 101, again[5][2] - 1e-6 }, { "f resumed", 1, 101, again[6][2] } }, arrows(events))

    local pool
    sim, pool = support.cluster(2)
    sim:submit { prompt_tokens = 8, output_tokens = 6 }
    sim:at(15, function() pool:worker(1):stop() end)
    events = events_of(sim)
    assert.same({ "decode", 10, 5 }, spans(events, 1, 100)[3])
    assert.same({ { "s lost", 1, 100, 14.999999 }, { "f lost", 2, 100, 15 } }, arrows(events))

    sim = aisim.new()
    sim:pool { engine = support.engine {
      kv_cache = {
        block_size = 4, capacity = { type = "fixed", blocks = 16 }, host_offload = { num_host_blocks = 99 },
      },
    } }
    for i = 1, 3 do
      sim:submit { at_ms = 100 * i, prompt_tokens = 44, output_tokens = 3, content = { { "talk" .. i % 2, 40 } } }
    end
    events = events_of(sim)
    local copy, prefill = spans(events, 1, 3)[1], spans(events, 1, 100)[9]
    assert.same({ "from host", "prefill" }, { copy[1], prefill[1] })
    local from, to = table.unpack(arrows(events))
    assert.same({ "s from host", 1, 3, "f from host", 1, 100, prefill[2] },
      { from[1], from[2], from[3], to[1], to[2], to[3], to[4] })
    assert.is_true(math.abs(copy[2] + copy[3] - from[4]) < 2e-6)
  end)

  it("has the passes of every worker, by kind", function()
    local passes = spans(events_of(simulation()), 1, 1)
    assert.same({ { "prefill", 0, 10 }, { "mixed", 10, 14 }, { "decode", 24, 4 } }, table.move(passes, 1, 3, 1, {}))
  end)

  it("is sorted by time and names its threads first", function()
    local events = events_of(simulation())
    local last = -1
    for _, event in ipairs(events) do
      local t = event.ts or -1
      assert.is_true(t >= last)
      last = t
    end
    assert.same({ "M", "client" }, { events[1].ph, events[1].args.name })
  end)

  it("shows preemptions, plays, phases and copies to host", function()
    local function has(events, ph, name)
      for _, event in ipairs(events) do
        if event.ph == ph and event.name:find(name) then return true end
      end
      return false
    end
    local sim = aisim.new()
    sim:pool { engine = support.engine {
      kv_cache = { block_size = 4, capacity = { type = "fixed", blocks = 14 } },
    } }
    for i = 1, 4 do sim:submit { at_ms = i, prompt_tokens = 8, output_tokens = 30 } end
    local events, run = events_of(sim)
    assert.is_true(run.metrics.preemptions > 0 and has(events, "X", "^preempted$"))

    sim = aisim.new()
    sim:pool { engine = support.engine {
      kv_cache = {
        block_size = 4, capacity = { type = "fixed", blocks = 40 }, host_offload = { num_host_blocks = 99 },
      },
    } }
    for i = 1, 12 do
      sim:submit { at_ms = 100 * i, prompt_tokens = 44, output_tokens = 3, content = { { "talk" .. i % 4, 40 } } }
    end
    events = events_of(sim)
    assert.is_true(#spans(events, 1, 2) > 0 and #spans(events, 1, 3) > 0)
    assert.is_true(has(events, "C", "^host blocks$") and has(events, "X", "^from host$"))

    sim = aisim.new { seed = 1 }
    sim:pool { engine = { model = "llama-3.1-8b", context_length = 1000000 } }
    sim:workload(aisim.agentx { plays = aisim.agentx_synthetic { plays = 3 }, lanes = 2,
      profile = { duration_seconds = 20 } })
    events = events_of(sim)
    assert.is_true(has(events, "i", "^profile$") and has(events, "M", "thread_name"))
    assert.is_true(#spans(events, 0, 1) > 0 and #spans(events, 0, 2) > 0)
  end)

  it("draws what requests of other sessions waited for, and the gaps that an idle guard cut", function()
    local function replay()
      local sim = aisim.new { seed = 1 }
      sim:pool { workers = 4, engine = { model = "llama-3.1-8b", context_length = 1000000 } }
      sim:workload(aisim.agentx { plays = aisim.agentx_synthetic { plays = 60 }, lanes = 24, t_star = { 0, 0.1 },
        profile = { duration_seconds = 3600 } })
      return sim
    end
    local events, run = events_of(replay(), { every_pass = 1000000 })
    local stays, edges, kinds, shifts = {}, {}, {}, 0
    for _, event in ipairs(events) do
      if event.ph == "X" and event.pid == 0 then
        stays[event.tid] = stays[event.tid] or {}
        table.insert(stays[event.tid], { event.ts, event.ts + event.dur, event.name })
      elseif event.ph == "s" or event.ph == "f" then
        edges[event.id] = edges[event.id] or {}
        edges[event.id][event.ph] = event
        kinds[event.name] = (kinds[event.name] or 0) + 1
      elseif event.ph == "i" and event.name:find "^idle shift" then
        shifts = shifts + 1
      end
    end
    local function around(event)
      for _, stay in ipairs(stays[event.tid]) do
        local is_in = event.ph == "f" and stay[1] == event.ts
          or event.ph == "s" and stay[1] <= event.ts and event.ts < stay[2]
        if is_in then return stay[3] end
      end
    end
    local records = {}
    for record in run.requests() do records["request " .. record.request_id] = record end
    for _, arrow in pairs(edges) do
      local from, to = records[around(arrow.s)], records[around(arrow.f)]
      assert.is_true(arrow.s.ts <= arrow.f.ts)
      assert.equal(from.play_id, to.play_id)
      assert.not_equal(from.session_id, to.session_id)
      if arrow.s.name == "spawn" then assert.equal(from.session_id, to.parent_session_id) end
    end
    assert.is_true((kinds.spawn or 0) > 0 and (kinds.join or 0) > 0)
    assert.equal(#run.agentx.shifts, shifts)
    assert.equal(replay():run():json(), run:json())
  end)

  it("keeps to its window, to every k-th pass, and to its limit, which the report says", function()
    local function passes(options) return #spans(events_of(simulation(), options), 1, 1) end
    assert.equal(6, passes())
    assert.equal(3, passes { every_pass = 2 })
    assert.equal(2, passes { from_ms = 11, until_ms = 24.5 })
    local cut = events_of(handed_off(1, { latency_ms = 2 }), { from_ms = 11 })
    assert.same({}, arrows(cut)) -- it would begin at a span that is not drawn
    assert.equal(1, #spans(cut, 2, 4) + #spans(cut, 1, 4))
    local events, run = events_of(simulation(), { max_events = 12 })
    assert.equal(12, #events)
    assert.matches("timeline.json stops before the end: %d+ events", run.notes[1])
  end)

  it("gives the same bytes for the same run", function()
    local function bytes()
      local path = os.tmpname()
      simulation():run { timeline = path }
      local file <close> = assert(io.open(path))
      return file:read "a"
    end
    assert.equal(bytes(), bytes())
  end)

  it("says what is wrong with it", function()
    for text, timeline in pairs {
      ["sim:run.timeline.path: text expected"] = {}, ["unknown key 'every'"] = { path = "x", every = 1 },
      ["cannot write /nowhere/x.json"] = "/nowhere/x.json",
    } do
      assert.error_matches(function() simulation():run { timeline = timeline } end, text)
    end
  end)
end)

describe("the request log", function()
  it("streams into a file, that of the preparation only when there is one", function()
    local path, preparation = os.tmpname(), os.tmpname()
    os.remove(preparation)
    local run = simulation():run { requests = { path = path, preparation = preparation } }
    local other = os.tmpname()
    run:jsonl(other)
    local a <close> = assert(io.open(path))
    local b <close> = assert(io.open(other))
    assert.equal(b:read "a", a:read "a")
    assert.is_nil(io.open(preparation))
    assert.is_nil(io.open(path .. ".part"))
  end)

  it("leaves nothing behind a run that fails", function()
    local path = os.tmpname()
    os.remove(path)
    local sim = simulation(function(sim) sim:at(7, function() aisim.fail "no" end) end)
    assert.is_false(pcall(sim.run, sim, { requests = path, timeline = path .. ".timeline" }))
    for _, name in ipairs { path, path .. ".part", path .. ".timeline", path .. ".timeline.part" } do
      assert.is_nil(io.open(name))
    end
  end)

  it("says what is wrong with it", function()
    assert.error_matches(function() simulation():run { requests = 3 } end, "sim:run.requests: true or false expected")
    assert.error_matches(function() simulation():run { requests = { pth = "x" } } end, "unknown key 'pth'")
    assert.error_matches(function() simulation():run { requests = "/nowhere/x" } end, "cannot write /nowhere/x")
  end)
end)
