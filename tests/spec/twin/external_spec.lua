--- Asynchronous loads of a connector outside of the scheduler (facts 11, 16, 20, 22, 37, 63, 79, 82; R22, R24), on
--- the block-by-block twin through the driver of kind `sched` and directly.
package.path = "tests/twin/?.lua;" .. package.path
local twin = require "aisim_twin"
local drive = assert(loadfile "tests/twin/drive_upstream.lua")(twin).sched

local function fill(token, n) return { { fill = token, n = n } } end

local function sched(config, requests, steps)
  local full = { block_size = 4, blocks = 20, max_num_seqs = 4, max_num_batched_tokens = 64, max_model_len = 512,
    prefix_caching = true, external = { matched = 8, async = true } }
  for key, value in pairs(config) do full[key] = value end
  for _, request in pairs(requests) do request.max_tokens = request.max_tokens or 4 end
  return drive { config = full, requests = requests, steps = steps }
end

local function add(...) return { op = "add", req = { ... } } end
local function schedule(id, expect) return { op = "schedule", id = id, expect = expect } end
local function output(id, extra)
  local step = { op = "output", ["for"] = id }
  for key, value in pairs(extra or {}) do step[key] = value end
  return step
end

describe("a load of an outside connector", function()
  it("fact 79 takes its blocks at once and neither a seat nor budget", function()
    assert.is_nil(sched({ max_num_seqs = 1 }, { a = { prompt = fill(0, 13) }, b = { prompt = fill(1, 13) } }, {
      add("a", "b"),
      schedule("s0", { loading = { "a", "b" }, running = {}, waiting = {}, skipped = { "a", "b" }, total = 0, free = 16,
        req = { a = { state = "loading", computed = 8, blocks = { 2 } } } }),
      output("s0", { received = { "a" } }),
      schedule("s1", { scheduled = { a = 5 }, new = { "a" }, loading = {}, running = { "a" }, skipped = { "b" } }),
    }))
  end)

  it("is asked for until it has ended, and stays what it was", function()
    assert.is_nil(sched({}, { a = { prompt = fill(0, 13) } }, {
      add "a", schedule("s0", { loading = { "a" } }), output "s0",
      schedule("s1", { loading = {}, total = 0, skipped = { "a" } }), output("s1", { received = { "a" } }),
      schedule("s2", { scheduled = { a = 5 }, req = { a = { computed = 13, hit = 8, state = "running" } } }),
    }))
  end)

  it("fact 79 is findable when it has ended, not before", function()
    assert.is_nil(sched({}, { a = { prompt = fill(0, 13) }, b = { prompt = fill(0, 9), no_read = true },
      c = { prompt = fill(0, 9) } }, {
      add "a", schedule("s0", { loading = { "a" } }), output "s0",
      add "c", schedule("s1", { loading = { "c" }, req = { c = { computed = 8, blocks = { 2 } } } }),
      output("s1", { received = { "a" } }),
      schedule("s2", { scheduled = { a = 5 }, stats = { requests = 1, queries = 13, hits = 0 } }),
      add "b", output("s2", { tokens = { a = { 9 } }, received = { "c" } }),
      schedule("s3", { loading = { "b" }, scheduled = { a = 1, c = 1 } }),
    }))
  end)

  it("comes on top of what the device has", function()
    assert.is_nil(sched({}, { a = { prompt = fill(0, 9), max_tokens = 1 }, b = { prompt = fill(0, 25) } }, {
      add "a", schedule "s0", output("s0", { received = { "a" } }), schedule "s1",
        output("s1", { tokens = { a = { 9 } } }),
      add "b", schedule("s2", { loading = { "b" }, req = { b = { computed = 16 } } }),
      output("s2", { received = { "b" } }), schedule("s3", { scheduled = { b = 9 }, req = { b = { hit = 16 } } }),
    }))
  end)

  it("fact 82 of a whole prompt leaves the last token to run", function()
    assert.is_nil(sched({ external = { matched = 64, async = true } }, { a = { prompt = fill(0, 16) } }, {
      add "a", schedule("s0", { req = { a = { computed = 16, blocks = { 4 } } } }),
        output("s0", { received = { "a" } }),
      schedule("s1", { scheduled = { a = 1 }, req = { a = { computed = 16, hit = 15, blocks = { 4 } } } }),
    }))
  end)

  it("fact 16 waits until the whole prompt has room", function()
    assert.is_nil(sched({ blocks = 5 }, { a = { prompt = fill(0, 21) } }, {
      add "a", schedule("s0", { loading = {}, waiting = { "a" }, free = 5 }),
    }))
    assert.is_nil(sched({ blocks = 6 }, { a = { prompt = fill(0, 21) } }, {
      add "a", schedule("s0", { loading = { "a" }, free = 4 }),
    }))
  end)

  it("fact 20 leaves room for what other loads will need yet: exact fit loads, one block less waits", function()
    local function run(blocks)
      return sched({ blocks = blocks }, { a = { prompt = fill(0, 24) }, b = { prompt = fill(1, 16) } }, {
        add("a", "b"), schedule("s0", { loading = { "a", "b" } }),
      })
    end
    assert.is_nil(run(10))
    assert.matches("loading", run(9))
  end)

  it("fact 20 leaves room for a chunked prefill that runs", function()
    local function run(blocks)
      return sched({ blocks = blocks, max_num_batched_tokens = 8, external = { matched = 4, async = true } },
        { a = { prompt = fill(0, 24) }, b = { prompt = fill(1, 9) } }, {
          add "a", schedule "s0", output("s0", { received = { "a" } }),
          schedule("s1", { scheduled = { a = 8 } }), output "s1", add "b",
          schedule("s2", { scheduled = { a = 8 } }), output "s2",
          schedule("s3", { scheduled = { a = 4 }, loading = { "b" } }),
        })
    end
    assert.is_nil(run(9))
    assert.matches("loading", run(8))
  end)

  it("fact 22 never preempts anybody", function()
    assert.is_nil(sched({ blocks = 5 }, { a = { prompt = fill(0, 13) }, b = { prompt = fill(1, 13) } }, {
      add "a", schedule "s0", output("s0", { received = { "a" } }), schedule("s1", { running = { "a" } }), add "b",
      output("s1", { tokens = { a = { 9 } } }),
      schedule("s2", { scheduled = { a = 1 }, preempted = {}, loading = {}, waiting = { "b" } }),
    }))
  end)

  it("of nothing is none: the prompt is computed", function()
    assert.is_nil(sched({ external = { matched = 0, async = true } }, { a = { prompt = fill(0, 13) } },
      { add "a", schedule("s0", { scheduled = { a = 13 }, loading = {} }) }))
  end)

  it("fact 11 is examined before the waiting queue when it has ended", function()
    assert.is_nil(sched({ max_num_batched_tokens = 5 }, { a = { prompt = fill(0, 13) }, b = { prompt = fill(1,
      13) } }, {
      add "a", schedule "s0", add "b", output("s0", { received = { "a" } }),
      schedule("s1", { order = { "a" }, scheduled = { a = 5 }, waiting = { "b" } }), -- the budget is used up
    }))
  end)

  it("fact 37 keeps the blocks of an aborted request until it has ended", function()
    assert.is_nil(sched({}, { a = { prompt = fill(0, 13) } }, {
      add "a", schedule("s0", { free = 18 }),
      { op = "finish", req = { "a" }, expect = { free = 18, skipped = {}, req = { a = { state = "finished" } } } },
      output("s0", { received = { "a" }, expect = { free = 20 } }),
      schedule("s1", { total = 0, loading = {}, free = 20 }),
    }))
  end)

  it("is begun again after a preemption, which is then a resumption", function()
    assert.is_nil(sched({ block_size = 2, blocks = 6, external = { matched = 2, async = true } },
      { a = { prompt = fill(0, 5) }, b = { prompt = fill(1, 5) } }, {
        add("a", "b"), schedule("s0", { loading = { "a", "b" } }), output("s0", { received = { "a", "b" } }),
        schedule("s1", { scheduled = { a = 3, b = 3 } }), output("s1", { tokens = { a = { 9 }, b = { 9 } } }),
        schedule("s2", { scheduled = { a = 1, b = 1 } }), output("s2", { tokens = { a = { 9 }, b = { 9 } } }),
        schedule("s3", { scheduled = { a = 1 }, preempted = { "b" }, waiting = { "b" } }),
        output("s3", { tokens = { a = { 9 } } }),
        schedule("s4", { scheduled = { a = 1 }, loading = {}, waiting = { "b" } }),
        output("s4", { tokens = { a = { 9 } }, expect = { finished = { "a" }, free = 6 } }),
        schedule("s5", { total = 0, loading = { "b" }, req = { b = { computed = 6, preemptions = 1 } } }),
        output("s5", { received = { "b" } }),
        schedule("s6", { scheduled = { b = 1 }, resumed = { "b" }, new = {}, req = { b = { hit = 2 } } }),
      }))
  end)

  it("of two sets of prompts counts device hits only", function()
    assert.is_nil(sched({ external = { matched = 8, async = true } },
      { a = { prompt = fill(0, 16), max_tokens = 1 }, b = { prompt = fill(0, 32), max_tokens = 1 } }, {
        add "a", schedule "s0", output("s0", { received = { "a" } }), schedule "s1",
          output("s1", { tokens = { a = { 9 } } }),
        add "b", schedule("s2", { stats = { requests = 1, queries = 16, hits = 0 } }),
          output("s2", { received = { "b" } }),
        schedule("s3", { scheduled = { b = 8 }, stats = { requests = 2, queries = 48, hits = 16 },
          req = { b = { hit = 24 } } }),
      }))
  end)

  it("is not told of by a step that names a request without a load", function()
    assert.has_error(function()
      sched({}, { a = { prompt = fill(0, 5) } }, { add "a", output("s0", { received = { "a" } }) })
    end)
    assert.has_error(function()
      sched({}, { a = { prompt = fill(0, 5) } },
        { add "a", schedule "s0", output("s0", { received = { "a" } }), schedule "s1",
          output("s1", { received = { "a" } }) })
    end, "nothing is being loaded for 'a'")
  end)

  it("beside a state cache is refused", function()
    local _, why = sched({ mamba_align = true, groups = { { type = "mamba", block = 4 } } }, {}, {})
    assert.equal("not modelled: asynchronous external loads beside a state cache", why)
  end)
end)

--- A twin of its own with a connector; answers[serial] = { tokens, async } or false for "ask again".
local function connected(answers, options)
  local t = twin.new { block_size = 4, num_blocks = 12, max_batched_tokens = 32, max_seqs = 4, never_fits = "wait",
    policy = options and options.policy }
  t:set_connector { on_cancel_load = options and options.on_cancel_load,
    full_load_recompute = options and options.full_load_recompute, keeps = options and options.keeps,
    match = function(serial)
      local answer = answers[serial]
      if answer == false then return nil end
      return table.unpack(answer or { 0, false })
    end }
  return t
end

local function submit(t, id, n, priority)
  local prompt = {}
  for i = 1, n do prompt[i] = 100 * id + i end
  return t:submit { id = id, prompt = prompt, output = 4, priority = priority }
end

describe("a connector", function()
  it("that wants to be asked again sets the request aside, in order, and others pass", function()
    local answers = { [0] = false, [1] = false }
    local t = connected(answers)
    for id = 1, 3 do submit(t, id, 5) end
    t:complete(t:plan())
    assert.same({ 1, 2 }, t:state().skipped)
    assert.same({ 3 }, t:state().running)
    answers[1] = nil
    t:plan()
    assert.same({ 1 }, t:state().skipped)
    assert.same({ 3, 2 }, t:state().running)
    t:verify()
  end)

  it("is asked once in a pass by a request it sends away", function()
    local asked = 0
    local t = twin.new { block_size = 4, num_blocks = 12, max_batched_tokens = 32, max_seqs = 4 }
    t:set_connector { match = function() asked = asked + 1 end }
    submit(t, 1, 5)
    t:complete(t:plan())
    assert.equal(1, asked)
    t:complete(t:plan())
    assert.equal(2, asked)
  end)

  it("fact 11 under priority takes the better head of both queues", function()
    local answers = { [0] = false }
    local t = connected(answers, { policy = "priority" })
    submit(t, 1, 5, 5)
    t:complete(t:plan())
    submit(t, 2, 5, 1)
    submit(t, 3, 5, 9)
    answers[0] = nil
    t:plan()
    local order = {}
    for i, item in ipairs(t:record().items) do order[i] = item.id end
    assert.same({ 2, 1, 3 }, order)
  end)

  it("R22 block recomputes the last block of a prompt that was loaded whole", function()
    for value, computed in pairs { token = 15, block = 12 } do
      local t = connected({ [0] = { 16, true } }, { full_load_recompute = value })
      local serial = submit(t, 1, 16)
      t:complete(t:plan())
      assert.is_true(t:received(serial))
      t:plan()
      assert.equal(16 - computed, t:record().items[1].tokens)
      t:verify()
    end
  end)

  it("R24 drop frees the blocks of a cancelled load at once", function()
    local t = connected({ [0] = { 8, true } }, { on_cancel_load = "drop" })
    local serial = submit(t, 1, 16)
    t:complete(t:plan())
    assert.equal(10, t:state().free)
    t:cancel(1)
    assert.equal(12, t:state().free)
    assert.is_false(t:received(serial))
    t:verify()
  end)

  it("may keep the blocks of a request that has ended", function()
    local t = connected({}, { keeps = function() return true end })
    local serial = submit(t, 1, 9)
    t:complete(t:plan())
    t:cancel(1)
    assert.equal(9, t:state().free)
    assert.is_true(t:let_go(serial))
    assert.is_false(t:let_go(serial))
    assert.equal(12, t:state().free + t:state().inactive)
    t:verify()
  end)

  it("gives tokens at once, but never the last one", function()
    local t = connected { [0] = { 99, false } }
    submit(t, 1, 16)
    t:plan()
    assert.equal(1, t:record().items[1].tokens)
  end)

  it("raises what goes wrong in its functions when the plan is over", function()
    local t = twin.new { block_size = 4, num_blocks = 12, max_batched_tokens = 32, max_seqs = 4 }
    t:set_connector { match = function() error("no answer", 0) end }
    submit(t, 1, 5)
    assert.has_error(function() t:plan() end, "no answer")
    t:verify()
  end)

  it("needs a twin without requests, a known word and a function", function()
    local t = twin.new { block_size = 4, num_blocks = 12, max_batched_tokens = 32, max_seqs = 4 }
    assert.has_error(function() t:set_connector {} end)
    assert.has_error(function() t:set_connector { match = print, on_cancel_load = "forget" } end)
    submit(t, 1, 5)
    assert.has_error(function() t:set_connector { match = print } end)
  end)
end)

describe("random talks of the scheduler with a connector", function()
  local function pick(list) return list[math.random(#list)] end

  local function talk(seed)
    math.randomseed(seed)
    local kept = {}
    local t = twin.new { block_size = math.random(2, 4), num_blocks = math.random(4, 16), max_seqs = math.random(4),
      max_batched_tokens = math.random(4, 40),
      policy = pick { "fcfs", "priority" }, prefix_caching = math.random(4) > 1,
      reserve_full_prompt = math.random(3) > 1, watermark = pick { 0, 0, 0.2 }, never_fits = pick { "wait", "reject" },
      overlap = pick { "none", "pipelined", "async" }, admit_at_zero_budget = false }
    t:set_connector { on_cancel_load = pick { "wait", "drop" }, full_load_recompute = pick { "token", "block" },
      match = function()
        if math.random(4) == 1 then return nil end
        return math.random(0, 12), math.random(3) > 1
      end,
      keeps = function(serial)
        kept[serial] = math.random(2) == 1
        return kept[serial]
      end }
    local flight, n = {}, 0
    for _ = 1, 80 do
      local what = math.random(8)
      if what <= 2 and n < 12 then
        local prompt, same = {}, math.random(2)
        for i = 1, math.random(20) do prompt[i] = i < 8 and same or math.random(3) end
        n = n + 1
        t:submit { id = n, prompt = prompt, output = math.random(6), priority = math.random(3) }
      elseif what == 3 and n > 0 then
        t:cancel(math.random(n))
      elseif what == 4 and n > 0 then
        t:received(math.random(n) - 1)
      elseif what == 5 and n > 0 then
        t:let_go(math.random(n) - 1)
      elseif what == 6 and #flight > 0 then
        t:complete(table.remove(flight, 1))
      elseif what == 7 and n > 0 and #flight == 0 then
        t:preempt(math.random(n))
      elseif #flight < 2 then
        flight[#flight + 1] = t:plan()
        if math.random(3) > 1 then t:complete(table.remove(flight, 1)) end
      end
      t:verify()
    end
    for _, batch in ipairs(flight) do t:complete(batch) end
    for id = 1, n do t:cancel(id) end
    for serial = 0, n - 1 do
      t:received(serial)
      t:let_go(serial)
    end
    t:verify()
    return t
  end

  it("end with every block given back", function()
    local preemptions, live = 0, 0
    for seed = 1, 600 do
      local state = talk(seed):state()
      assert.equal(0, state.active, "seed " .. seed)
      preemptions, live = preemptions + state.preemptions, live + state.live
    end
    assert.equal(0, live)
    assert.is_true(preemptions > 200, preemptions .. " preemptions")
  end)
end)
