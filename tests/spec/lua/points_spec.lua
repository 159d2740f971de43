--- Scheduler points: functions of a pool that decide instead of the rules (lua-api §7).
local aisim = require "aisim"
local support = dofile "tests/spec/lua/support.lua"

--- A pool of one worker; blocks of 4 tokens, passes of 10 ms with a prompt and 4 ms without.
local function cluster(points, engine)
  local sim = aisim.new { seed = 1 }
  local options = { workers = 1, engine = support.engine(engine) }
  for name, fn in pairs(points) do options[name] = fn end
  return sim, sim:pool(options)
end

local function order_of(sim, hook)
  local ids = {}
  sim:on(hook, function(_, id) ids[#ids + 1] = id end)
  return ids
end

local function kv(blocks, more)
  local out = { block_size = 4, capacity = { type = "fixed", blocks = blocks } }
  for key, value in pairs(more or {}) do out[key] = value end
  return out
end

--- Everything a run tells, for comparing two of them.
local function story(points, engine)
  local sim = cluster(points, engine)
  local out = {}
  for _, hook in ipairs { "request.admit", "request.preempt", "request.first_token", "request.finish", "kv.evict" } do
    sim:on(hook, function(t, a, b) out[#out + 1] = ("%s %s %s %s"):format(hook, t, a, b) end)
  end
  local rng = sim:rng "prompts"
  local function draw(low, high) return math.floor(rng:uniform(low, high + 1)) end
  for i = 1, 60 do
    sim:submit { at_ms = 3 * i, content = { { "talk" .. draw(1, 6), 4 * draw(1, 12) }, { "own" .. i, 7 } },
      output_tokens = draw(1, 30), priority = draw(0, 3) }
  end
  sim:run()
  return table.concat(out, "\n")
end

describe("points that answer like the rules", function()
  local tight <const> = { kv_cache = kv(40), scheduler = { max_batched_tokens = 16, max_sequences = 6 } }
  local scored <const> = { kv_cache = kv(40, { eviction = "scored" }),
    scheduler = { max_batched_tokens = 16, max_sequences = 6 } }
  local plain = story({}, tight)

  it("change nothing: order, admit, victim, chunk", function()
    assert.truthy(plain:find("request.preempt", 1, true))
    assert.truthy(plain:find("kv.evict", 1, true))
    assert.equal(plain, story({ order = function() return 0 end }, tight))
    assert.equal(plain, story({ admit = function() return true end }, tight))
    assert.equal(plain, story({ victim = function(_, _, view) return view.n end }, tight))
    assert.equal(plain, story({ chunk = function(_, _, _, budget, remaining) return math.min(budget, remaining) end },
      tight))
  end)

  it("change nothing: evict by age, or by nothing at all", function()
    assert.equal(plain, story({ evict = function(_, _, age_ms) return -age_ms end }, scored))
    assert.equal(plain, story({ evict = function() return 7 end }, scored))
  end)
end)

describe("point order", function()
  it("decides who is next, smaller first; equal ones in order of arrival", function()
    local sim = cluster({ order = function(req) return req.prompt_tokens end },
      { scheduler = { max_batched_tokens = 64, max_sequences = 1 } })
    local admitted = order_of(sim, "request.admit")
    for _, tokens in ipairs { 8, 32, 16, 8, 16, 4 } do sim:submit { prompt_tokens = tokens, output_tokens = 1 } end
    sim:run()
    assert.same({ 6, 1, 4, 3, 5, 2 }, admitted)
  end)

  it("is asked once per enqueue: again after a preemption and a new priority", function()
    local asked = {}
    local sim = cluster({ order = function(req)
      asked[#asked + 1] = req.id
      return req.priority
    end }, { kv_cache = kv(6), scheduler = { max_batched_tokens = 64, max_sequences = 4 } })
    sim:submit { prompt_tokens = 8, output_tokens = 8 }
    sim:submit { prompt_tokens = 8, output_tokens = 8 }
    local third = sim:submit { prompt_tokens = 16, output_tokens = 1 }
    local preempted = order_of(sim, "request.preempt")
    sim:at(12, function() third.priority = -1 end)
    sim:run()
    assert.same({ 2 }, preempted)
    assert.same({ 1, 2, 3, 3, 2 }, asked)
  end)

  it("orders negative numbers, fractions and both zeros", function()
    local at = { 0.0, 5, -1e300, 2.5, -0.0, -3 }
    local sim = cluster({ order = function(req) return at[req.id] end },
      { scheduler = { max_batched_tokens = 64, max_sequences = 1 } })
    local admitted = order_of(sim, "request.admit")
    for _ = 1, 6 do sim:submit { prompt_tokens = 4, output_tokens = 1 } end
    sim:run()
    assert.same({ 3, 6, 1, 5, 4, 2 }, admitted)
  end)
end)

describe("point admit", function()
  it("sees the blocks of the gate E-P12", function()
    local seen = {}
    local sim = cluster({ admit = function(t, rank, req, need, free)
      seen[#seen + 1] = { t, rank, req.id, need, free }
      return true
    end }, { kv_cache = kv(10) })
    sim:submit { prompt_tokens = 10, output_tokens = 2 }
    sim:submit { at_ms = 5, prompt_tokens = 16, output_tokens = 1 }
    sim:run()
    assert.same({ { 0.0, 1, 1, 3, 10 }, { 10.0, 1, 2, 4, 7 } }, seen)
  end)

  it("does not open the gate: true is no objection", function()
    local sim = cluster({ admit = function() return true end }, { kv_cache = kv(6) })
    local admitted = {}
    sim:on("request.admit", function(t, id) admitted[id] = t end)
    sim:submit { prompt_tokens = 16, output_tokens = 3 }
    sim:submit { prompt_tokens = 12, output_tokens = 1 }
    sim:run()
    assert.is_true(admitted[2] > 18)
  end)

  it("skip passes over the head for this pass, and it keeps its place", function()
    local sim = cluster({ admit = function(t, _, req) return (req.prompt_tokens < 16 or t >= 20) or "skip" end },
      { scheduler = { max_batched_tokens = 64, max_sequences = 2 } })
    local admitted = order_of(sim, "request.admit")
    for _, tokens in ipairs { 16, 8, 16, 8, 8, 8 } do sim:submit { prompt_tokens = tokens, output_tokens = 1 } end
    sim:run()
    assert.same({ 2, 4, 5, 6, 1, 3 }, admitted)
  end)

  it("stop ends the admissions of the pass", function()
    local sim = cluster({ admit = function(t, _, req) return (req.id ~= 2 or t >= 50) or "stop" end }, {})
    local admitted = {}
    sim:on("request.admit", function(_, id, _, _, wait_ms) admitted[id] = wait_ms end)
    sim:submit { prompt_tokens = 8, output_tokens = 40 }
    sim:submit { prompt_tokens = 8, output_tokens = 1 }
    sim:submit { prompt_tokens = 8, output_tokens = 1 }
    sim:run()
    assert.same({ 0.0, 50.0, 50.0 }, admitted)
  end)

  it("E-T8 that keeps everybody waiting ends the run, and the message says which point it was", function()
    for point, answer in pairs { admit = "stop", chunk = 0 } do
      for _, value in ipairs { answer, point == "admit" and "skip" or 0 } do
        local sim = cluster({ [point] = function() return value end }, {})
        sim:submit { prompt_tokens = 8, output_tokens = 1 }
        local ok, message = pcall(sim.run, sim)
        assert.is_false(ok)
        local expected = "scheduler point '%s' keeps request 1 waiting on rank 1, where nothing else runs"
        assert.matches(expected:format(point), message, 1, true)
      end
    end
  end)
end)

describe("point victim", function()
  --- Two long answers on few blocks, and a short one in front of them.
  local function run(victim)
    local sim = cluster({ victim = victim }, { kv_cache = kv(12) })
    local preempted = order_of(sim, "request.preempt")
    for i = 1, 3 do sim:submit { prompt_tokens = 12, output_tokens = 12, priority = i } end
    assert.equal(3, sim:run().metrics.completed_requests)
    return preempted
  end

  it("may choose any running request, also one that this pass has served (E-V3)", function()
    assert.equal(3, run(function(_, _, view) return view.n end)[1])
    assert.equal(1, run(function() return 1 end)[1])
    assert.equal(2, run(function(_, _, view) return math.min(2, view.n) end)[1])
  end)

  it("sees the running requests in columns, and who needs the blocks", function()
    local seen
    run(function(t, rank, view)
      seen = seen or { t = t, rank = rank, n = view.n, needs = view.needs, ids = table.concat(view.id, " "),
        blocks = table.concat(view.blocks, " "), computed = table.concat(view.computed, " "),
        generated = view.generated[1], priority = view.priority[3], arrival = view.arrival_ms[2] }
      return view.n
    end)
    -- 13 tokens need a fourth block: there is room for three of them, then at 17 tokens there is none
    assert.same({ t = 26.0, rank = 1, n = 3, needs = 1, ids = "1 2 3", blocks = "4 4 4", computed = "16 16 16",
      generated = 5, priority = 3, arrival = 0.0 }, seen)
  end)

  it("refuses a column that does not exist and a view that is kept", function()
    local kept
    local ok, message = pcall(run, function(_, _, view) return view.blokcs[1] end)
    assert.is_false(ok)
    assert.matches("victim: unknown column 'blokcs' (did you mean 'blocks'?)", message, 1, true)
    run(function(_, _, view)
      kept = view
      return view.n
    end)
    assert.has_error(function() return kept.computed end)
  end)
end)

describe("points and the rest of a pass", function()
  it("victim of a burst reservation: nobody in particular needs the blocks (E-M1)", function()
    local needs = {}
    local sim = cluster({ victim = function(_, _, view)
      needs[#needs + 1] = tostring(view.needs)
      return 1
    end }, { kv_cache = kv(6), speculation = { kind = "mtp", params = { depth = 2 }, acceptance_rates = { 1, 1 },
      mode = "burst" } })
    local preempted = order_of(sim, "request.preempt")
    for _ = 1, 2 do sim:submit { prompt_tokens = 8, output_tokens = 9 } end
    assert.equal(2, sim:run().metrics.completed_requests)
    assert.equal(1, preempted[1])
    assert.equal("nil", needs[1])
  end)

  it("chunk of a state-cache model still ends at a block boundary (E-P3)", function()
    local chunks, asked = {}, 0
    local sim = cluster({ chunk = function(_, _, _, budget, remaining)
      asked = asked + 1
      return math.min(budget, remaining, 10)
    end }, { kv_cache = kv(40, { bytes_per_token = 16, state_cache = { mode = "aligned", bytes_per_request = 60 } }) })
    sim:on("request.chunk", function(_, _, _, _, tokens) chunks[#chunks + 1] = tokens end)
    sim:submit { prompt_tokens = 21, output_tokens = 1 }
    sim:run()
    assert.same({ 8, 8, 4, 1 }, chunks)
    assert.equal(4, asked)
  end)

  it("admit is asked again for what is preempted, order decides where it waits", function()
    local asked = {}
    local sim = cluster({
      order = function(req) return req.preemptions > 0 and 1 or 0 end,
      admit = function(_, _, req)
        asked[req.id] = (asked[req.id] or 0) + 1
        return true
      end,
    }, { kv_cache = kv(7) })
    local admitted, preempted = order_of(sim, "request.admit"), order_of(sim, "request.preempt")
    for _ = 1, 2 do sim:submit { prompt_tokens = 8, output_tokens = 10 } end
    sim:submit { at_ms = 5, prompt_tokens = 16, output_tokens = 1 }
    sim:run()
    assert.equal(2, preempted[1])
    assert.same({ 1, 2, 3, 2 }, admitted) -- the one that was preempted waits behind the fresh one
    assert.is_true(asked[2] > 1)
  end)
end)

describe("point chunk", function()
  it("sets the tokens of each prefill chunk, decodes are not asked about", function()
    local asked = {}
    local sim = cluster({ chunk = function(t, _, req, budget, remaining)
      asked[#asked + 1] = { t, req.id, budget, remaining }
      return math.min(budget, remaining, 10)
    end }, {})
    local chunks = {}
    sim:on("request.chunk", function(_, id, _, start, tokens) chunks[#chunks + 1] = { id, start, tokens } end)
    sim:submit { prompt_tokens = 25, output_tokens = 3 }
    sim:submit { prompt_tokens = 6, output_tokens = 1 }
    sim:run()
    assert.same({ { 0.0, 1, 64, 25 }, { 0.0, 2, 54, 6 }, { 10.0, 1, 64, 15 }, { 20.0, 1, 64, 5 } }, asked)
    assert.same({ 1, 0, 10 }, chunks[1])
    assert.same({ 2, 0, 6 }, chunks[2])
    assert.same({ 1, 10, 10 }, chunks[3])
  end)

  it("0 gives the request nothing in this pass", function()
    local sim = cluster({ chunk = function(t, _, req, budget, remaining)
      return req.id == 1 and t > 0 and t < 30 and 0 or math.min(budget, remaining, 16)
    end }, {})
    local first = {}
    sim:on("request.first_token", function(t, id) first[id] = t end)
    sim:submit { prompt_tokens = 32, output_tokens = 1 }
    sim:submit { prompt_tokens = 8, output_tokens = 8 }
    sim:run()
    assert.same({ 44.0, 10.0 }, first) -- decodes of the other until then
  end)
end)

describe("point evict", function()
  --- Three finished prompts of 4 blocks lie in 14; a fourth of 6 makes 4 of them go. @return blocks left of `name`
  local function left_of(name, evict, reused)
    local sim = cluster({ evict = evict }, { kv_cache = kv(14, { eviction = "scored" }) })
    local t, hit, last = 0, {}, nil
    local function prompt(text, tokens)
      t = t + 50
      last = sim:submit { at_ms = t, content = { { text, tokens } }, output_tokens = 0 }
    end
    for _, text in ipairs { "a", "b", "c" } do prompt(text, 16) end
    for _, text in ipairs(reused or {}) do prompt(text, 16) end
    prompt("d", 24)
    prompt(name, 16)
    sim:on("request.admit", function(_, id, _, reused_tokens) hit[id] = reused_tokens // 4 end)
    local id = last.id
    sim:run()
    return hit[id]
  end

  local function survivors(...)
    return { left_of("a", ...), left_of("b", ...), left_of("c", ...) }
  end

  it("takes the smallest score: the oldest, the newest", function()
    assert.same({ 0, 4, 4 }, survivors(function(_, _, age_ms) return -age_ms end))
    assert.same({ 4, 4, 0 }, survivors(function(_, _, age_ms) return age_ms end))
  end)

  it("takes the end of a prompt before its beginning, whatever the score says", function()
    local deepest = survivors(function(_, _, _, depth) return -depth end)
    assert.same({ 2, 3, 3 }, deepest) -- four blocks: the last of each, then the oldest again
    assert.same({ 0, 4, 4 }, survivors(function(_, _, _, depth) return depth < 3 and -1 or 0 end))
  end)

  it("counts how often blocks were reused", function()
    assert.same({ 4, 0, 4 }, survivors(function(_, _, _, _, reuse) return reuse end, { "a", "c" }))
    assert.same({ 0, 4, 4 }, survivors(function(_, _, _, _, reuse) return -reuse end, { "a" }))
  end)
end)

describe("answers that break an invariant", function()
  local function message(point, body, engine, tight)
    local sim = aisim.new { seed = 1 }
    local ok, text = support.script(([[
local sim, engine = ...
sim:pool { engine = engine,
  %s = function(...) %s end,
}
for i = 1, 3 do sim:submit { content = { { "p" .. i, 12 } }, output_tokens = 12 } end
sim:run()]]):format(point, body), sim, support.engine(engine or { kv_cache = kv(tight or 9) }))
    assert.is_false(ok)
    return (text:match("^[^\n]*"))
  end

  it("name point, time, rank and request, and what was expected", function()
    assert.equal("scenarios/a.lua:3: scheduler point 'chunk' returned 65 at t=0 ms on rank 1 for request 1; "
      .. "tokens of this chunk are 0..12", message("chunk", "return 65"))
    assert.equal("scenarios/a.lua:3: scheduler point 'chunk' returned 2.5 at t=0 ms on rank 1 for request 1; "
      .. "tokens of this chunk are 0..12", message("chunk", "return 2.5"))
    assert.equal("scenarios/a.lua:3: scheduler point 'victim' returned 9 at t=10 ms on rank 1 for request 1; "
      .. "running requests are 1..3", message("victim", "return 9"))
    assert.equal("scenarios/a.lua:3: scheduler point 'victim' returned 0 at t=10 ms on rank 1 for request 1; "
      .. "running requests are 1..3", message("victim", "return 0"))
    assert.equal("scenarios/a.lua:3: scheduler point 'order' returned nan at t=0 ms on rank 1 for request 1; "
      .. "a finite number expected", message("order", "return 0 / 0"))
    assert.equal("scenarios/a.lua:3: scheduler point 'order' returned nil at t=0 ms on rank 1 for request 1; "
      .. "a finite number expected", message("order", ""))
    assert.equal("scenarios/a.lua:3: scheduler point 'admit' returned false at t=0 ms on rank 1 for request 1; "
      .. "true, 'skip' or 'stop' expected", message("admit", "return false"))
    assert.equal("scenarios/a.lua:3: scheduler point 'admit' returned 'wait' at t=0 ms on rank 1 for request 1; "
      .. "true, 'skip' or 'stop' expected", message("admit", "return 'wait'"))
    assert.equal("scenarios/a.lua:3: scheduler point 'evict' returned 'x' at t=70 ms on rank 1; "
      .. "a finite number expected",
      message("evict", "return 'x'", { kv_cache = kv(9, { eviction = "scored" }),
        scheduler = { max_batched_tokens = 64, max_sequences = 1 } }):gsub("t=%d+", "t=70"))
  end)

  it("an error inside carries the traceback and the context", function()
    local sim = cluster({ chunk = function() error("broken") end }, {})
    sim:submit { prompt_tokens = 8, output_tokens = 1 }
    local ok, text = pcall(sim.run, sim)
    assert.is_false(ok)
    assert.matches("broken\n  in scheduler point 'chunk' at t = 0 ms, request 1, worker 1 rank 1", text, 1, true)
  end)

  it("a function that yields is refused", function()
    local sim = cluster({ order = function() coroutine.yield() end }, {})
    sim:submit { prompt_tokens = 8, output_tokens = 1 }
    local ok, text = pcall(sim.run, sim)
    assert.is_false(ok)
    assert.matches("yield", text)
    assert.matches("in scheduler point 'order'", text, 1, true)
  end)
end)

describe("points and the configuration", function()
  local function message(text)
    return support.message("local sim, support = ...\n" .. text, aisim.new { seed = 1 }, support)
  end

  it("refuse what would silently do nothing, and what is not modelled", function()
    assert.equal("scenarios/a.lua:2: pool 'main': the scheduler point evict needs kv_cache.eviction = 'scored'",
      message "sim:pool { engine = support.engine(), evict = print }")
    assert.equal("scenarios/a.lua:2: pool 'main': kv_cache.eviction = 'scored' needs the scheduler point evict",
      message "sim:pool { engine = support.engine { kv_cache = { eviction = 'scored' } } }")
    assert.equal("scenarios/a.lua:2: pool 'main': the scheduler point chunk needs scheduler.chunked_prefill = true",
      message("sim:pool { engine = support.engine { scheduler = { chunked_prefill = false, "
        .. "max_batched_tokens = 131072 } }, chunk = print }"))
    assert.equal("scenarios/a.lua:2: kv_cache.eviction = 'scored': known, not modelled together with host_offload",
      (message([[sim:pool { engine = support.engine { kv_cache = { eviction = 'scored', block_size = 4,
        host_offload = { num_host_blocks = 9 } } }, evict = print }]]):gsub("^(scenarios/a.lua:%d: )pool: ", "%1")))
    assert.equal("scenarios/a.lua:2: pool: unknown key 'victims' (did you mean 'victim'?)",
      message "sim:pool { engine = support.engine(), victims = print }")
    assert.equal("scenarios/a.lua:2: pool.victim: function expected, got number",
      message "sim:pool { engine = support.engine(), victim = 1 }")
  end)
end)
