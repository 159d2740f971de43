--- A policy in Lua around a built-in one (spec/lua-api.md §7 and "each built-in is reachable from Lua").
local aisim = require "aisim"
local support = dofile "tests/spec/lua/support.lua"

local function cluster(workers, router, seed)
  local sim = aisim.new { seed = seed or 1 }
  local pool = sim:pool { workers = workers, engine = support.engine() }
  sim:router(router)
  local workers_of, overlaps = {}, {}
  sim:on("request.route", function(_, id, worker, overlap) workers_of[id], overlaps[id] = worker, overlap end)
  return sim, workers_of, overlaps, pool
end

--- 40 requests in five groups of shared prompts.
local function traffic(sim)
  for i = 1, 40 do
    sim:submit {
      at_ms = 7 * i, prompt_tokens = 40, output_tokens = 3, session = 1 + i % 7,
      content = { { "group " .. i % 5, 32 } },
    }
  end
  sim:run()
end

describe("a policy around a built-in one", function()
  it("that only passes on what it says routes like the built-in alone", function()
    for _, options in ipairs {
      { policy = "kv" }, { policy = "kv", temperature = 0.5 }, { policy = "prefix" }, { policy = "p2c" },
      { policy = "least_tokens" }, { policy = "session" }, { policy = "hash_bounded" }, { policy = "round_robin" },
      { policy = "prefix", cache_view = "approximate", ttl_ms = 100 },
      { policy = "least_kv", telemetry_period_ms = 30 },
    } do
      local alone, expected, expected_overlaps = cluster(3, options)
      traffic(alone)
      local around, workers_of, overlaps = cluster(3, {
        wrap = options, pick = function(_, _, _, inner) return inner() end,
      })
      traffic(around)
      assert.same(expected, workers_of, options.policy)
      assert.same(expected_overlaps, overlaps, options.policy)
    end
  end)

  it("may decide otherwise, and the built-in knows where the request went", function()
    local asked = {}
    local sim, workers_of = cluster(2, {
      wrap = { policy = "least_requests" },
      pick = function(req, _, _, inner)
        asked[req.id] = inner()
        return req.id <= 3 and 1 or asked[req.id]
      end,
    })
    for i = 1, 5 do sim:submit { at_ms = i, prompt_tokens = 8, output_tokens = 5 } end
    sim:run()
    assert.same({ 1, 2, 2, 2, 2 }, asked)
    assert.same({ 1, 1, 1, 2, 2 }, workers_of)
  end)

  it("binds a session to the target that took it", function()
    local sim, workers_of = cluster(3, {
      wrap = { policy = "session" },
      pick = function(req, _, _, inner) return req.id == 1 and 3 or inner() end,
    })
    for i = 1, 3 do sim:submit { at_ms = 20 * i, session = 5, prompt_tokens = 8, output_tokens = 1 } end
    sim:run()
    assert.same({ 3, 3, 3 }, workers_of)
  end)

  it("is asked only during a decision", function()
    local kept
    local sim = cluster(1, {
      name = "r", wrap = { policy = "random" }, pick = function(_, _, _, inner) kept = inner; return inner() end,
    })
    sim:submit { prompt_tokens = 8, output_tokens = 1 }
    sim:run()
    assert.error_matches(kept, "router 'r': the wrapped policy was asked outside of a decision")
  end)

  it("survives lost workers", function()
    local sim, workers_of, _, pool = cluster(2, {
      wrap = { policy = "kv" }, pick = function(_, _, _, inner) return inner() end,
    })
    for i = 1, 12 do sim:submit { at_ms = i, prompt_tokens = 40, output_tokens = 9, content = { { "a", 32 } } } end
    sim:at(25, function() pool:worker(1):stop() end)
    sim:at(60, function() pool:worker(1):resume() end)
    sim:run()
    assert.equal(12, #workers_of)
  end)

  it("names what is wrong with the wrapped options", function()
    local function message(wrap)
      local text = "local sim = ...\nsim:router { pick = print, wrap = " .. wrap .. " }"
      return support.message(text, (support.cluster(2)))
    end
    assert.equal("scenarios/a.lua:2: router: unknown policy 'kw' (did you mean 'kv'?)", message "{ policy = 'kw' }")
    assert.equal("scenarios/a.lua:2: router: unknown key 'temprature' (did you mean 'temperature'?)",
      message "{ policy = 'kv', temprature = 1 }")
  end)
end)
