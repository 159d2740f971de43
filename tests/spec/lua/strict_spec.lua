--- Nothing is silent (spec/lua-api.md §1): names that do not exist, values nobody can use, places of mistakes.
local support = dofile "tests/spec/lua/support.lua"
local aisim = require "aisim"

--- First line of the message of a scenario body; `aisim` and `support` are there.
local function message(body)
  return support.message("local aisim, support = ...\n" .. body, aisim, support)
end

--- A run of n requests of 8 + 3 tokens, one every 100 ms.
local function run(prepare, n)
  local sim, pool = support.cluster()
  for i = 1, n or 3 do sim:submit { at_ms = 100 * i, prompt_tokens = 8, output_tokens = 3, class = "chat" } end
  if prepare then prepare(sim, pool) end
  return sim:run()
end

describe("a name that does not exist", function()
  it("is refused in every table of constructors, with the nearest one", function()
    assert.equal("scenarios/a.lua:2: aisim.dist: unknown name 'lognorml' (did you mean 'lognormal'?)",
      message "aisim.dist.lognorml {}")
    assert.equal("scenarios/a.lua:2: aisim.arrivals: unknown name 'poison' (did you mean 'poisson'?)",
      message "aisim.arrivals.poison {}")
    assert.equal("scenarios/a.lua:2: aisim.timing: unknown name 'rofline' (did you mean 'roofline'?)",
      message "aisim.timing.rofline {}")
    assert.equal("scenarios/a.lua:2: aisim.json: unknown name 'encod' (did you mean 'encode'?)",
      message "aisim.json.encod {}")
  end)

  it("is met by what begins like it", function()
    assert.matches("unknown field 'prompt' %(did you mean 'prompt_tokens'%?%)", message [[
      local sim = support.cluster()
      sim:submit { prompt_tokens = 8, output_tokens = 1 }
      sim:on("request.arrive", function(_, _, _, _, req) return req.prompt end)
      sim:run()]])
    assert.equal("scenarios/a.lua:2: sim:on: unknown key 'every' (did you mean 'every_ms'?)",
      message "support.cluster():on('run.tick', print, { every = 3 })")
  end)

  it("is met by all names when there are few and none is near", function()
    assert.equal("scenarios/a.lua:2: aisim.gc: unknown key 'speed' (keys here: mode, pause)",
      message "aisim.gc { speed = 3 }")
  end)

  it("is refused among the columns of a batched hook", function()
    assert.matches("scenarios/a.lua:4: columns of a batched hook: unknown field 'raeson' %(did you mean 'reason'%?%)",
      message [[local sim = support.cluster()
      sim:submit { prompt_tokens = 8, output_tokens = 1 }
      sim:on("request.finish", function(_, columns) return columns.raeson[1] end, { batch = 4 })
      sim:run()]])
  end)

  it("is refused in the answer of a call, where an undefined field is nil", function()
    local seen
    local sim = support.cluster()
    sim:sessions { arrivals = aisim.arrivals.all_at_once { n = 1 }, body = function(s)
      local r = s:call { prompt_tokens = 100000000, output_tokens = 1 }
      seen = { r.reason, r.ttft_ms, r.worker, select(2, pcall(function() return r.ttft end)) }
    end }
    sim:run()
    assert.equal("context", seen[1])
    assert.is_nil(seen[2])
    assert.matches("answer of s:call: unknown field 'ttft' %(did you mean 'ttft_ms'%?%)", seen[4])
  end)

  it("is refused among the numbers of a run, where an undefined metric is nil", function()
    local result = run(function(sim) sim:hist { name = "gap" } end)
    assert.equal(3, result.metrics.completed_requests)
    assert.is_nil(result.metrics.good_fraction) -- no SLO
    assert.is_nil(result.metrics.gap)
    assert.error_matches(function() return result.metrics["ttft_ms.p9"] end,
      "run.metrics: unknown metric 'ttft_ms.p9' %(did you mean 'ttft_ms.p90'%?%)")
    assert.error_matches(function() return result.metrics.complete_requests end, "did you mean 'completed_requests'")
    local seen = 0
    for _ in pairs(result.metrics) do seen = seen + 1 end
    assert.is_true(seen > 100)
  end)

  it("is refused where numbers are derived, down to the statistic", function()
    local function value_of(fn)
      local result = run(function(sim) sim:derive { name = "mine", value = fn } end)
      return select(2, pcall(function() return result.metrics end))
    end
    assert.matches("derive: unknown metric 'ttft_m' %(did you mean 'ttft_ms'%?%)",
      value_of(function(m) return m.ttft_m.mean end))
    assert.matches("derive: unknown metric 'ttft_ms.men' %(did you mean 'ttft_ms.mean'%?%)",
      value_of(function(m) return m.ttft_ms.men end))
  end)

  it("is refused in the record of a request", function()
    local result = run()
    assert.error_matches(function() return result.requests[1].prompt_tokns end,
      "run.requests: unknown field 'prompt_tokns'")
    assert.is_nil(result.requests[4])
  end)
end)

describe("a metric of one's own", function()
  it("cannot take a name that the report has", function()
    local sim = support.cluster()
    assert.error_matches(function() sim:counter { name = "ttft_ms" } end,
      "sim:counter: 'ttft_ms' is a built%-in metric; choose another name")
    assert.error_matches(function() sim:derive { name = "gpu_hours", value = print } end, "'gpu_hours' is a built%-in")
  end)

  it("takes a label only where labels were declared", function()
    assert.equal("scenarios/a.lua:2: metric 'x': has no labels; declare by = \"NAME\"",
      message "support.cluster():hist { name = 'x' }:add(3, 'chat')")
    local sim = support.cluster()
    sim:hist { name = "x", by = "class" }:add(3, "chat")
    sim:counter { name = "y", labels = true }:add(3, "chat")
  end)

  it("says once which one got a number that is none", function()
    assert.equal("scenarios/a.lua:2: metric 'x': nan is not a finite number",
      message "support.cluster():counter { name = 'x' }:add(-(0 / 0))")
  end)
end)

describe("a result", function()
  it("gives its requests to a loop with and without parentheses", function()
    local result, ids = run(), {}
    for r in result.requests do ids[#ids + 1] = r.request_id end
    for r in result.requests() do ids[#ids + 1] = r.request_id end
    for r in result.requests do
      ids[#ids + 1] = r.request_id
      if r.request_id == 2 then break end
    end
    for r in result.requests do ids[#ids + 1] = r.request_id end -- from the begin again
    assert.same({ 1, 2, 3, 1, 2, 3, 1, 2, 1, 2, 3 }, ids)
  end)

  it("has a manifest", function()
    local manifest = run().manifest
    assert.equal("completed", manifest.status)
    assert.equal(1, manifest.seed)
    assert.is_nil(manifest.reason)
  end)

  it("knows the one class of its requests by name", function()
    local result = run()
    assert.equal(result.ttft_ms.mean, result.ttft_ms.by.chat.mean)
    assert.error_matches(function() return result.ttft_ms.by.chaat end, "no class 'chaat' %(did you mean 'chat'%?%)")
  end)

  it("takes rows that are lists with titles of columns", function()
    assert.equal("n  s\n1  a\n2  b", (aisim.table({ { 1, "a" }, { 2, "b" } }, { "n", "s" }):gsub("%s+$", "")))
  end)
end)

describe("the place of a mistake", function()
  it("is that of the script for errors without a position", function()
    local hook = [[local sim = support.cluster()
      sim:submit { prompt_tokens = 8, output_tokens = 1 }
      sim:on("request.finish", function() %s end)
      sim:run()]]
    assert.equal("scenarios/a.lua:4: boom", message(hook:format "error('boom', 0)"))
    assert.equal("scenarios/a.lua:4: (error object is a table value)", message(hook:format "error { code = 3 }"))
    assert.equal("scenarios/a.lua:4: attempt to yield from outside a coroutine",
      message(hook:format "coroutine.yield()"))
  end)

  it("is that of the traffic when a distribution cannot be used", function()
    local open = [[local sim = support.cluster()
      sim:workload(aisim.open { arrivals = aisim.arrivals.all_at_once { n = 3 }, output = 1, prompt = %s })
      sim:run()]]
    assert.equal("scenarios/a.lua:3: aisim.open.prompt = -100: must be >= 0", message(open:format "-100"))
    assert.equal("scenarios/a.lua:3: number expected, the function returned 'x'",
      message(open:format "function() return 'x' end"))
  end)

  it("is that of the declaration for what only a run can judge", function()
    assert.matches("^scenarios/a.lua:2: pool 'prefill' of role prefill has no partner", message [[
local sim = aisim.new() sim:pool { role = "prefill", engine = support.engine() }
      sim:run()]])
  end)
end)

describe("calls that are written almost right", function()
  it("a dot instead of a colon", function()
    assert.equal("scenarios/a.lua:2: sim.pool: called with a dot; write sim:pool",
      message "local sim = aisim.new() sim.pool { engine = support.engine() }")
    assert.equal("scenarios/a.lua:2: sim.workload: called with a dot; write sim:workload",
      message "local sim = aisim.new() sim.workload(3)")
  end)

  it("a built-in admission without its braces", function()
    assert.equal("scenarios/a.lua:2: sim:admission: options are missing; write aisim.admission.always{}",
      message "support.cluster():admission(aisim.admission.always)")
  end)

  it("a window that is empty", function()
    assert.equal("scenarios/a.lua:2: sim:on.until_ms = 100: must be > from_ms (3000)",
      message "support.cluster():on('request.arrive', print, { from_ms = 3000, until_ms = 100 })")
  end)

  it("a think time as people write it", function()
    local sim = support.cluster()
    sim:workload(aisim.closed { users = 1, requests = 2, think_ms = "100ms", prompt = 8, output = 1 })
    assert.equal(120, sim:run().metrics.duration_ms)
    assert.matches("aisim.closed.think_ms = 'soon': time expected",
      message "aisim.closed { users = 1, requests = 2, think_ms = 'soon', prompt = 8, output = 1 }")
  end)
end)
