--- Sessions as coroutines, contexts (spec/lua-api.md §5).
local support = dofile "tests/spec/lua/support.lua"
local aisim = require "aisim"

local function sessions(sim, body, n, extra)
  local options = { class = "agent", arrivals = aisim.arrivals.all_at_once { n = n or 1 }, body = body }
  for key, value in pairs(extra or {}) do options[key] = value end
  sim:sessions(options)
end

describe("a session", function()
  it("calls, waits for the answer, sleeps", function()
    local sim = support.cluster()
    local log = {}
    sessions(sim, function(s)
      local r = s:call { prompt_tokens = 8, output_tokens = 2 }
      log[#log + 1] = { s:now(), r.reason, r.ttft_ms, r.e2e_ms, r.output_tokens, r.worker }
      s:sleep "1s"
      log[#log + 1] = s:now()
    end)
    sim:run()
    assert.same({ { 14, "length", 10, 14, 2, 1 }, 1014 }, log)
  end)

  it("has a number, a class, turns, and a stream of its own", function()
    local function draws()
      local sim = support.cluster()
      local out = {}
      sessions(sim, function(s)
        out[#out + 1] = { s.id, s.class, s.turn, s.rng:random(1000) }
        s:call { prompt_tokens = 8, output_tokens = 1 }
        out[#out + 1] = s.turn
      end, 2)
      local turns = {}
      sim:on("request.arrive", function(_, _, _, _, req) turns[#turns + 1] = { req.session, req.turn, req.class } end)
      sim:run()
      return out, turns
    end
    local first, turns = draws()
    assert.equal("agent", first[1][2])
    assert.not_equal(first[1][4], first[2][4])
    assert.same({ { 1, 0, "agent" }, { 2, 0, "agent" } }, turns)
    assert.same(first, (draws()))
  end)

  it("appends answers to its context, so the next turn finds them in the cache", function()
    local sim = support.cluster()
    local log = {}
    sessions(sim, function(s)
      local context = s:context():append("system", 16):append_unique(7)
      for _ = 1, 2 do
        local r = s:call { context = context, output_tokens = 5 }
        log[#log + 1] = { r.prompt_tokens, r.reused_tokens, context.tokens }
      end
    end)
    sim:run()
    -- second prompt: 23 + 5 = 28 tokens; 27 computed by the first call, 6 whole blocks of 4
    assert.same({ { 23, 0, 28 }, { 28, 24, 33 } }, log)
  end)

  it("keeps answers out of the context with keep = false", function()
    local sim = support.cluster()
    local tokens
    sessions(sim, function(s)
      local context = s:context():append_unique(8)
      s:call { context = context, output_tokens = 5, keep = false }
      tokens = context.tokens
    end)
    sim:run()
    assert.equal(8, tokens)
  end)

  it("shares named content with other sessions and nothing else", function()
    local sim = support.cluster()
    local reused = {}
    sessions(sim, function(s)
      s:sleep(100 * s.id)
      local r = s:call { context = s:context():append("system", 16):append_unique(16), output_tokens = 1 }
      reused[s.id] = r.reused_tokens
    end, 3)
    sim:run()
    assert.same({ 0, 16, 16 }, reused)
  end)

  it("compacts: the named head stays, the rest becomes new content", function()
    local sim = support.cluster()
    local log = {}
    sessions(sim, function(s)
      local context = s:context():append("system", 16):append_unique(40)
      s:call { context = context, output_tokens = 4 }
      context:compact(8)
      log[1] = context.tokens
      log[2] = s:call({ context = context, output_tokens = 1 }).reused_tokens
    end)
    sim:run()
    assert.same({ 24, 16 }, log)
  end)

  it("forks and joins; branches run side by side", function()
    local sim = support.cluster()
    local log
    sessions(sim, function(s)
      local context = s:context():append("system", 16)
      local a = s:fork(function(name)
        s:call { context = context:copy(), output_tokens = 2 }
        return name .. s:now()
      end, "a")
      local b = s:fork(function() s:sleep(500) return "b" .. s:now() end)
      log = { s:join(a, b) }
      log[3] = s:now()
    end)
    sim:run()
    assert.same({ "a14.0", "b500.0", 500 }, log)
  end)

  it("cancels a fork with its request and closes what it held", function()
    local sim = support.cluster()
    local closed, reason, joined = false, nil, "?"
    sim:on("request.finish", function(_, _, _, why) reason = why end)
    sessions(sim, function(s)
      local fork = s:fork(function()
        local _ <close> = setmetatable({}, { __close = function() closed = true end })
        s:call { prompt_tokens = 8, output_tokens = 1000 }
      end)
      s:sleep(50)
      s:cancel(fork)
      joined = s:join(fork)
    end)
    sim:run()
    assert.is_true(closed)
    assert.equal("cancelled", reason)
    assert.is_nil(joined)
    assert.equal(50, sim:now())
  end)

  it("sees rejections as answers", function()
    local sim = support.cluster(1, { context_length = 32 })
    local r
    sessions(sim, function(s) r = s:call { prompt_tokens = 64, output_tokens = 1 } end)
    sim:run()
    assert.equal("context", r.reason)
    assert.equal("rejected", r.status)
    assert.is_nil(r.ttft_ms)
  end)

  it("ends the run with class, number, time and its own lines when it fails", function()
    local sim = support.cluster()
    local ok, message = support.script([[
local sim, aisim = ...
local function broken(x) return x.y.z end
sim:sessions { class = "agent", arrivals = aisim.arrivals.all_at_once { n = 1 }, body = function(s)
  s:sleep(20)
  broken {}
end }
sim:run()]], sim, aisim)
    assert.is_false(ok)
    assert.matches("^scenarios/a.lua:2: attempt to index a nil value %(field 'y'%)\n" ..
      "  in session 1 %(class \"agent\"%) at t = 20 ms\nstack traceback:\n" ..
      "    scenarios/a.lua:2: in function 'broken'\n" ..
      "    scenarios/a.lua:5: in function", message)
  end)

  it("must wait in its own coroutine", function()
    local sim = support.cluster()
    sessions(sim, function(s) coroutine.wrap(function() s:sleep(1) end)() end)
    assert.error_matches(function() sim:run() end, "s:sleep: only the body of this session and its forks can wait")
  end)
end)

describe("declaring sessions", function()
  it("names what is missing", function()
    local sim = support.cluster()
    local head = "local sim, aisim = ...\nlocal a = aisim.arrivals.poisson { rate = 1 }\n"
    assert.equal("scenarios/a.lua:3: sessions.body: function expected, got nil",
      support.message(head .. "sim:sessions { arrivals = a, sessions = 1 }", sim, aisim))
    assert.equal("scenarios/a.lua:3: sessions: traffic without an end; give until_ms, requests, sessions or tokens",
      support.message(head .. "sim:sessions { arrivals = a, body = print }", sim, aisim))
  end)

  it("stops at the number of sessions and at until_ms", function()
    local function count(extra)
      local sim = support.cluster()
      local n = 0
      sessions(sim, function() n = n + 1 end, nil, extra)
      sim:run()
      return n
    end
    assert.equal(7, count { arrivals = aisim.arrivals.poisson { rate = 10 }, sessions = 7 })
    assert.equal(5, count { arrivals = aisim.arrivals.constant_rate { rate = 10 }, until_ms = 500 })
  end)
end)
