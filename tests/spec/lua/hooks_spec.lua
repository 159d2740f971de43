--- Hooks: registration, filters, batches, views (spec/lua-api.md §6).
local support = dofile "tests/spec/lua/support.lua"

describe("a hook", function()
  it("gets time and scalars first and the view last", function()
    local sim = support.cluster()
    sim:submit { at_ms = 2, prompt_tokens = 8, output_tokens = 2, class = "chat" }
    local seen
    sim:on("request.finish", function(t, id, rank, reason, generated, req)
      seen = { t, id, rank, reason, generated, req.id, req.class, req.arrival_ms, req.first_token_ms, req.worker }
    end)
    sim:run()
    assert.same({ 16, 1, 1, "length", 2, 1, "chat", 2, 12, 1 }, seen)
  end)

  it("is called in the order of registration", function()
    local sim = support.cluster()
    sim:submit { prompt_tokens = 4, output_tokens = 1 }
    local order = {}
    for i = 1, 3 do sim:on("request.finish", function() order[#order + 1] = i end) end
    sim:run()
    assert.same({ 1, 2, 3 }, order)
  end)

  it("that is disabled is not called, and called again when enabled", function()
    local sim = support.cluster()
    for i = 1, 3 do sim:submit { at_ms = 100 * i, prompt_tokens = 4, output_tokens = 1 } end
    local ids = {}
    local hook = sim:on("request.finish", function(_, id) ids[#ids + 1] = id end)
    sim:at(150, function() hook:enable(false) end)
    sim:at(250, function() hook:enable(true) end)
    sim:run()
    assert.same({ 1, 3 }, ids)
  end)

  it("that fails stops the run with hook, time, request and the lines of the script", function()
    local sim = support.cluster()
    sim:submit { prompt_tokens = 8, output_tokens = 1, class = "chat" }
    local ok, message = support.script([[
local sim = ...
local function compare(x) return x < nil end
sim:on("request.finish", function(t, id) compare(t) end)
sim:run()]], sim)
    assert.is_false(ok)
    assert.matches("^scenarios/a.lua:2: attempt to compare", message)
    assert.matches("in hook 'request.finish' at t = 10 ms, request 1 %(class \"chat\"%)", message)
    assert.matches("\n    scenarios/a.lua:2: in function 'compare'\n    scenarios/a.lua:3: in function", message)
    assert.not_matches("%[C%]", message)
    assert.equal("failed", sim.state)
    assert.equal("ECALLBACK", sim.error_code)
  end)

  it("that fails keeps the others of the event from being called", function()
    local sim = support.cluster()
    sim:submit { prompt_tokens = 8, output_tokens = 1 }
    local called = false
    sim:on("request.finish", function() error("stop here") end)
    sim:on("request.finish", function() called = true end)
    assert.has_error(function() sim:run() end)
    assert.is_false(called)
  end)
end)

describe("registration", function()
  local function message(call) return support.message("local sim = ...\n" .. call, (support.cluster())) end

  it("refuses an unknown hook with the line of the caller and a suggestion", function()
    assert.equal("scenarios/a.lua:2: sim:on: unknown hook 'request.finished' (did you mean 'request.finish'?)",
      message "sim:on('request.finished', print)")
  end)

  it("refuses an unknown option", function()
    assert.equal("scenarios/a.lua:2: sim:on: unknown key 'bach' (did you mean 'batch'?)",
      message "sim:on('request.finish', print, { bach = 1 })")
  end)

  it("refuses what is no function", function()
    assert.equal("scenarios/a.lua:2: sim:on: function expected, got nil", message "sim:on('request.finish')")
  end)

  it("refuses filters that could match nothing", function()
    assert.equal("scenarios/a.lua:2: sim:on: option 'class' needs a request, hook 'pass.end' has none",
      message "sim:on('pass.end', print, { class = 'chat' })")
    assert.equal("scenarios/a.lua:2: sim:on: option 'rank' needs a rank, hook 'request.arrive' has none",
      message "sim:on('request.arrive', print, { rank = 1 })")
    assert.equal("scenarios/a.lua:2: sim:on.rank = 3: the simulation has ranks 1..1",
      message "sim:on('request.finish', print, { rank = 3 })")
    assert.equal("scenarios/a.lua:2: sim:on.sample = 0: must be > 0",
      message "sim:on('request.finish', print, { sample = 0 })")
  end)

  it("wants a period for run.tick", function()
    assert.equal("scenarios/a.lua:2: sim:on.every_ms: time in ms expected, got nil",
      message "sim:on('run.tick', print)")
  end)
end)

describe("filters", function()
  local function ids(options, workers)
    local sim = support.cluster(workers or 1)
    for i = 1, 40 do
      sim:submit { at_ms = 20 * i, prompt_tokens = 4, output_tokens = 1, class = i % 2 == 0 and "even" or "odd" }
    end
    local out = {}
    sim:on("request.finish", function(_, id) out[#out + 1] = id end, options)
    sim:run()
    return out
  end

  it("class keeps the requests of one class", function()
    for _, id in ipairs(ids { class = "even" }) do assert.equal(0, id % 2) end
    assert.equal(20, #ids { class = "even" })
  end)

  it("from_ms and until_ms are a half-open window", function()
    assert.same({ 2, 3 }, ids { from_ms = 50, until_ms = 90 }) -- finished at 50 and 70; that of 90 is outside
  end)

  it("rank and pool look at where the request is", function()
    assert.equal(20, #ids({ rank = 2 }, 2))
    assert.equal(40, #ids({ pool = "main" }, 2))
  end)

  it("sample takes requests, the same ones for every hook", function()
    local first, second = ids { sample = 0.5 }, ids { sample = 0.5 }
    assert.same(first, second)
    assert.is_true(#first > 8 and #first < 32)
  end)
end)

describe("a batched hook", function()
  it("gets columns named like the arguments, when full and at the end", function()
    local sim = support.cluster()
    for i = 1, 5 do sim:submit { at_ms = 20 * i, prompt_tokens = 4, output_tokens = 1 } end
    local calls = {}
    sim:on("request.finish", function(n, cols)
      calls[#calls + 1] = { n, cols.t[1], cols.id[n], cols.reason[n], cols.generated[1] }
    end, { batch = 2 })
    sim:run()
    assert.same({ { 2, 30, 2, "length", 1 }, { 2, 70, 4, "length", 1 }, { 1, 110, 5, "length", 1 } }, calls)
  end)

  it("is flushed at run.tick", function()
    local sim = support.cluster()
    for i = 1, 4 do sim:submit { at_ms = 20 * i, prompt_tokens = 4, output_tokens = 1 } end
    local log = {}
    sim:on("request.finish", function(n) log[#log + 1] = n end, { batch = 100 })
    sim:on("run.tick", function(t) log[#log + 1] = "tick " .. math.tointeger(t) end, { every_ms = 50 })
    sim:run()
    assert.same({ 2, "tick 50", 2 }, log)
  end)

  it("may not change the simulation", function()
    local sim = support.cluster()
    sim:submit { prompt_tokens = 4, output_tokens = 1 }
    sim:on("request.finish", function() sim:submit { prompt_tokens = 4, output_tokens = 1 } end, { batch = 1 })
    assert.error_matches(function() sim:run() end, "a batched hook may not change the simulation")
  end)
end)

describe("a view", function()
  it("is stale after its hook, also inside a later hook", function()
    local sim = support.cluster()
    for _ = 1, 2 do sim:submit { prompt_tokens = 8, output_tokens = 1 } end
    local message = support.message([[
local sim = ...
local kept
sim:on("request.arrive", function(t, id, p, o, req) kept = kept or req end)
sim:on("request.finish", function(t, id)
  if id == 2 then return kept.prompt_tokens end
end)
sim:run()]], sim)
    assert.equal("scenarios/a.lua:5: request 1: view used after its hook returned; use req:copy() or keep req.id",
      message)
  end)

  it("can be copied", function()
    local sim = support.cluster()
    sim:submit { prompt_tokens = 8, output_tokens = 1, class = "chat", tag = { 1 }, deadline_ms = 500 }
    local copy
    sim:on("request.finish", function(_, _, _, _, _, req) copy = req:copy() end)
    sim:run()
    assert.equal("chat", copy.class)
    assert.equal(8, copy.prompt_tokens)
    assert.same({ 1 }, copy.tag)
    assert.equal(500, copy.deadline_ms)
  end)

  it("refuses unknown fields with a suggestion and fields that cannot be set", function()
    local sim = support.cluster()
    sim:submit { prompt_tokens = 8, output_tokens = 1 }
    sim:on("request.finish", function(_, _, _, _, _, req) return req.promt_tokens end)
    assert.error_matches(function() sim:run() end,
      "request: unknown field 'promt_tokens' %(did you mean 'prompt_tokens'%?%)")
    sim = support.cluster()
    sim:submit { prompt_tokens = 8, output_tokens = 1 }
    sim:on("request.finish", function(_, _, _, _, _, req) req.generated = 3 end)
    assert.error_matches(function() sim:run() end, "field 'generated' cannot be set %(only priority and tag can%)")
  end)

  it("of a pass has the figures of the pass", function()
    local sim = support.cluster()
    sim:submit { prompt_tokens = 8, output_tokens = 2 }
    local begins, ends = {}, {}
    sim:on("pass.begin", function(_, _, _, _, _, pass) begins[#begins + 1] = { pass.waiting, pass.number or "?" } end)
    sim:on("pass.end", function(_, _, _, _, _, _, pass)
      ends[#ends + 1] = { pass.number, pass.end_ms - pass.begin_ms, pass.prefill_tokens, pass.emitted }
    end)
    sim:run()
    assert.same({ { 1, "?" }, { 0, "?" } }, begins)
    assert.same({ { 1, 10, 8, 1 }, { 2, 4, 0, 1 } }, ends)
  end)
end)

describe("hooks of a state cache", function()
  local aisim = require "aisim"
  local NAMES <const> = { "request.admit", "state.restore", "request.chunk", "state.checkpoint", "request.finish" }

  local function hybrid(sim, mode)
    sim:pool { engine = support.engine {
      model = "qwen3.5-35b-a3b",
      kv_cache = {
        block_size = 4, prefix_match_unit = mode == "aligned" and 4 or nil, bytes_per_token = 1e6,
        capacity = { type = "fixed", blocks = 400 }, state_cache = { mode = mode, bytes_per_request = 6e6 },
      },
    } }
  end

  it("tell where a state was kept and where one was taken up, in the order of the pass end", function()
    local sim, seen = aisim.new { seed = 1 }, {}
    hybrid(sim, "aligned")
    for _, name in ipairs(NAMES) do
      sim:on(name, function(t, id, _, at) seen[#seen + 1] = { t, name, id, at } end)
    end
    sim:sessions { arrivals = aisim.arrivals.all_at_once { n = 1 }, body = function(s)
      for _ = 1, 2 do s:call { content = { { "p", 16 } }, output_tokens = 2 } end
    end }
    sim:run()
    assert.same({
      { 10, "request.admit", 1, 0 }, { 10, "request.chunk", 1, 0 }, { 10, "state.checkpoint", 1, 12 },
      { 20, "request.chunk", 1, 12 }, { 24, "request.finish", 1, "length" },
      { 34, "request.admit", 2, 12 }, { 34, "state.restore", 2, 12 }, { 34, "request.chunk", 2, 12 },
      { 38, "request.finish", 2, "length" },
    }, seen)
  end)

  it("are as many as the report counts, in each mode", function()
    for _, mode in ipairs { "latest", "aligned" } do
      local sim, kept, taken = aisim.new { seed = 1 }, 0, 0
      hybrid(sim, mode)
      sim:on("state.checkpoint", function(_, _, _, at)
        kept = kept + 1
        assert.equal(0, at % 4)
      end)
      sim:on("state.restore", function() taken = taken + 1 end)
      sim:sessions { arrivals = aisim.arrivals.poisson { rate = 20 }, sessions = 12, body = function(s)
        local context = s:context()
        context:append("head", 24)
        for _ = 1, 4 do
          s:call { context = context, output_tokens = s.rng:random(2, 20) }
          context:append_unique(s.rng:random(1, 30))
        end
      end }
      local run = sim:run()
      assert.is_true(kept > 20 and taken > 20)
      assert.equal(run.metrics["state_cache.checkpoints"], kept)
      assert.equal(run.metrics["state_cache.hits"], taken)
    end
  end)
end)

describe("a handle", function()
  it("lives until the request ends; id, state and cancel also later", function()
    local sim = support.cluster()
    local handle = sim:submit { prompt_tokens = 8, output_tokens = 3, priority = 2 }
    assert.equal(2, handle.priority)
    sim:run()
    assert.equal(1, handle.id)
    assert.equal("done", handle.state)
    handle:cancel()
    assert.error_matches(function() return handle.generated end,
      "request 1 has finished; copy the fields you need inside the hook")
  end)
end)
