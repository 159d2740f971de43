--- Completion of names in aisim repl.
local aisim = require "aisim"
local complete = require "aisim.cli.complete"
local support = dofile "tests/spec/lua/support.lua"

local function names(text, env)
  local _, list = complete.candidates(text, env or {})
  return table.concat(list, " ")
end

describe("completion in aisim repl", function()
  it("knows globals, what the session has assigned, and the words of Lua", function()
    assert.equal("string", names "x = stri")
    assert.equal("rate rawequal rawget rawlen rawset", names("ra", { rate = 1 }))
    assert.equal("repeat require return", names "re")
  end)

  it("knows the members of the library without loading them, and of its parts", function()
    assert.equal("agent agentic_code agentx agentx_synthetic", names("aisim.agent", { aisim = aisim }))
    assert.equal("poisson", names("aisim.arrivals.poisso", { aisim = aisim }))
  end)

  it("knows methods and fields of objects by asking them", function()
    local sim, pool = support.cluster()
    sim:submit { prompt_tokens = 8, output_tokens = 2 }
    local env = { sim = sim, pool = pool, list = { inner = pool } }
    assert.equal("series sessions", names("sim:se", env))
    assert.equal("waiting worker workers", names("pool.w", env))
    assert.equal("worker", names("x = list.inner:w", env))
    env.run = sim:run()
    assert.equal("ttft_ms ttst_ms", names("run.tt", env))
    assert.equal("p p50 p75 p90 p95 p99", names("run.ttft_ms.p", env))
  end)

  it("shows after a colon what can be called", function()
    assert.equal("kind", names("t.k", { t = { kind = 1 } }))
    assert.equal("", names("t:k", { t = { kind = 1 } }))
    assert.equal("rep reverse", names("s:re", { s = "text" }))
  end)

  it("runs no code of the user", function()
    local trap = setmetatable({}, { __index = function() error "called" end, __pairs = function() error "called" end })
    assert.equal("", names("trap.", { trap = trap }))
    assert.equal("", names("trap.x.", { trap = trap }))
    local child = setmetatable({ own = 1 }, { __index = { of_class = 2 } })
    assert.equal("of_class own", names("child.o", { child = child }))
  end)

  it("leaves texts, comments, numbers and results of calls alone", function()
    for _, text in ipairs { "print('ai", "-- ai", "f().a", "t[1].a", "12a", "x = \"a\" .. 'it" } do
      assert.equal("", names(text), text)
    end
    assert.equal("aisim", names("'it' .. ai", { aisim = aisim }))
    assert.equal("aisim", names("x..ai", { aisim = aisim, x = "text" }))
  end)

  it("inserts what all candidates share, then shows them in columns", function()
    local env = { rate_a = 1, rate_b = 2 }
    assert.same({ "e_" }, { complete.tab("rat", env, 80) })
    assert.same({ nil, "rate_a  rate_b" }, { complete.tab("rate_", env, 80) })
    assert.same({ nil, "rate_a\nrate_b" }, { complete.tab("rate_", env, 10) })
    assert.same({}, { complete.tab("nothing_like_it", env, 80) })
    assert.equal("  ", (complete.tab("  ", env, 80)))
  end)
end)
