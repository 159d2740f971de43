--- The host connector's double (tests/twin/connector_double.lua) through its driver: facts 74, 75, 78 to 80 and the
--- values of R20 to R25. A vector is a list of steps; the driver tells the first difference.
package.path = "tests/twin/?.lua;" .. package.path
local double = require "connector_double"
local drivers = assert(loadfile "tests/twin/drive_connector.lua")()

local function fill(token, n) return { { fill = token, n = n } } end

--- Blocks of 4 tokens, one to a chunk, unless the options say otherwise. @return the difference
local function offload(options, ...)
  local config = { block_size = 4, blocks = 40 }
  for key, value in pairs(options) do config[key] = value end
  return drivers.offload { name = "own", config = config, steps = { ... } }
end

local function step(op, fields)
  fields.op = op
  return fields
end

describe("a store", function()
  it("fact 74 waits until the last token of a chunk is computed", function()
    assert.is_nil(offload({ blocks_per_chunk = 3 },
      step("run", { req = "a", prompt = fill(0, 11), outputs = 1, expect = { offered = false, computed = 11 } }),
      step("run", { req = "a", outputs = 1, expect = { offered = true, computed = 12 } })))
  end)

  it("fact 74 does not count the token sampled last", function()
    for n, blocks in pairs { [7] = { 0 }, [8] = { 0, 1 }, [9] = { 0, 1 } } do
      assert.is_nil(offload({}, step("run", { prompt = fill(0, n), outputs = 1, finish = true,
        expect = { stored_block_index = blocks } })))
    end
  end)

  it("moves one step after it was prepared", function()
    assert.is_nil(offload({},
      step("run", { req = "a", prompt = fill(0, 8), outputs = 1,
        expect = { stored_block_index = {}, offered = true } }),
      step("run", { req = "a", outputs = 1, expect = { stored_block_index = { 0, 1 }, offered = false } })))
  end)

  it("of outputs follows that of the prompt", function()
    assert.is_nil(offload({},
      step("run", { req = "a", prompt = fill(0, 4), outputs = 9, expect = { stored_block_index = { 0, 1 } } }),
      step("finish", { req = "a", expect = { stored_block_index = { 2 } } })))
  end)

  it("R20 prompt leaves outputs out", function()
    assert.is_nil(offload({ store_scope = "prompt" }, step("run", { req = "a", prompt = fill(0, 6), outputs = 9,
      finish = true, expect = { stored_block_index = { 0 } } })))
  end)

  it("R21 moves all blocks of a chunk and no part of one", function()
    assert.is_nil(offload({ blocks_per_chunk = 2 }, step("run", { prompt = fill(0, 21), outputs = 1, finish = true,
      expect = { stored_block_index = { 0, 1, 2, 3 } } })))
  end)

  it("fact 75 refused is tried again in each step, and in the finishing step", function()
    assert.is_nil(offload({},
      step("run", { req = "a", prompt = fill(0, 4), outputs = 3, store_policy = "refuse",
        expect = { allocation_failures = 3, stored_block_index = {} } }),
      step("finish", { req = "a", store_policy = "refuse", expect = { allocation_failures = 2 } })))
  end)

  it("fact 75 refused first can succeed later", function()
    assert.is_nil(offload({},
      step("run", { req = "a", prompt = fill(0, 4), outputs = 1, store_policy = "refuse",
        expect = { allocation_failures = 1 } }),
      step("finish", { req = "a", expect = { allocation_failures = 0, stored_block_index = { 0 } } })))
  end)

  it("of nothing is not offered again", function()
    assert.is_nil(offload({},
      step("run", { req = "a", prompt = fill(0, 8), outputs = 1, store_policy = "none", expect = { offered = true } }),
      step("finish", { req = "a", expect = { offered = false, stored_block_index = {} } })))
  end)

  it("takes the chunks that the policy names", function()
    for word, block in pairs { first = 0, second = 1, last = 3 } do
      assert.is_nil(offload({}, step("run", { prompt = fill(0, 16), outputs = 1, finish = true,
        store_policy = "only the " .. word .. " of the offered chunks", expect = { stored_block_index = { block } } })))
    end
  end)

  it("fact 75 skips what the host has already", function()
    assert.is_nil(offload({ slots = 10, prefix_caching = false },
      step("run", { prompt = fill(0, 8), outputs = 1, finish = true, expect = { stored_block_index = { 0, 1 } } }),
      step("run", { req = "b", prompt = { { fill = 0, n = 6 }, { fill = 1, n = 6 } }, outputs = 1,
        expect = { loaded_block_index = { 0 }, offered = true } }),
      step("finish", { req = "b", expect = { stored_block_index = { 1, 2 } } })))
  end)

  it("fact 76 gets all its slots or none", function()
    assert.is_nil(offload({ slots = 2 }, step("run", { prompt = fill(0, 12), outputs = 1, finish = true,
      expect = { stored_block_index = {}, allocation_failures = 2 } })))
    assert.is_nil(offload({ slots = 3 }, step("run", { prompt = fill(0, 12), outputs = 1, finish = true,
      expect = { stored_block_index = { 0, 1, 2 } } })))
  end)

  it("keeps the device blocks of a request that has ended until it is over", function()
    assert.is_nil(offload({ prefix_caching = false },
      step("run", { req = "a", prompt = fill(0, 8), outputs = 1, finish = true, complete_transfers = false,
        expect = { state = "finished", free = 38, stored_block_index = {} } }),
      step("run", { req = "b", prompt = fill(1, 3), outputs = 1,
        expect = { stored_block_index = { 0, 1 }, free = 39 } })))
  end)

  it("has nothing to keep when nothing is stored", function()
    assert.is_nil(offload({ prefix_caching = false }, step("run", { prompt = fill(0, 3), outputs = 1, finish = true,
      expect = { state = "finished", free = 40 } })))
  end)
end)

describe("a lookup", function()
  it("counts hits behind what the device has", function()
    assert.is_nil(offload({}, step("lookup", { prompt = fill(0, 17), gpu_hit_tokens = 8, host_hit_chunks = 1,
      expect = { loaded_block_index = { 2 }, loads_started = 1, gpu_hit_tokens = 8 } })))
  end)

  it("stops at the first chunk that is missing", function()
    assert.is_nil(offload({}, step("lookup", { prompt = fill(0, 17), host_state = { "hit", "hit", "miss", "hit" },
      expect = { loaded_block_index = { 0, 1 }, deferred = false } })))
  end)

  it("does not happen for less than a chunk", function()
    assert.is_nil(offload({ blocks_per_chunk = 3 }, step("lookup", { prompt = fill(0, 12), gpu_hit_tokens = 4,
      host_hit_chunks = 1, expect = { loads_started = 0, deferred = false } })))
  end)

  it("loads the rest of a chunk of which the device has a part", function()
    assert.is_nil(offload({ blocks_per_chunk = 3 }, step("lookup", { prompt = fill(0, 25), gpu_hit_tokens = 4,
      host_hit_chunks = 2, expect = { loaded_block_index = { 1, 2, 3, 4, 5 } } })))
  end)

  it("fact 78 waits for a chunk that is being written", function()
    assert.is_nil(offload({}, step("lookup", { prompt = fill(0, 13), host_state = { "hit", "pending" },
      expect = { deferred = true, loads_started = 0, loaded_block_index = {} } })))
  end)

  it("fact 78 a pending chunk behind a gap makes nobody wait", function()
    assert.is_nil(offload({}, step("lookup", { prompt = fill(0, 17), host_state = { "hit", "miss", "pending" },
      expect = { deferred = false, loaded_block_index = { 0 } } })))
  end)

  it("R25 computes what is left when the budget covers it: all of the run counts, not the pending chunk alone",
    function()
    for budget, deferred in pairs { [11] = true, [12] = false } do
      assert.is_nil(offload({}, step("lookup", { prompt = fill(0, 17), host_state = { "hit", "pending", "hit", "hit" },
        max_recompute_tokens = budget,
        expect = { deferred = deferred, loaded_block_index = deferred and {} or { 0 } } })))
    end
  end)

  it("R25 of a run that begins with a pending chunk loads nothing", function()
    assert.is_nil(offload({ pending_recompute_tokens = 4 }, step("lookup_and_run", { prompt = fill(0, 5),
      host_state = { "pending" }, expect = { deferred = false, loaded_block_index = {}, outputs = 1 } })))
  end)

  it("without a request leaves nothing behind", function()
    local question = { op = "lookup", prompt = fill(0, 9), host_hit_chunks = 2,
      expect = { loaded_block_index = { 0, 1 }, gpu_hit_tokens = 0, free = 40 } }
    assert.is_nil(offload({}, question, question))
  end)
end)

describe("a load", function()
  it("fact 79 is shared: a second request waits for it, then finds the blocks on the device", function()
    assert.is_nil(offload({ blocks_per_chunk = 3 },
      step("run", { req = "a", prompt = fill(0, 12), host_hit_chunks = 1, complete_transfers = false,
        expect = { loads_started = 1, state = "loading" } }),
      step("run", { req = "b", prompt = fill(0, 13), host_hit_chunks = 1, complete_transfers = false,
        expect = { loads_started = 0, deferred = true, state = "waiting" } }),
      step("run", { req = "b", outputs = 1, store_policy = "none",
        expect = { loads_started = 0, loaded_block_index = { 0, 1, 2 }, deferred = false, gpu_hit_tokens = 12 } })))
  end)

  it("fact 82 of the whole prompt leaves one token to run, R22 block one block", function()
    for value, used in pairs { token = 15, block = 12 } do
      local d = double.new { block_size = 4, blocks = 40, full_load_recompute = value }
      local tokens = {}
      for i = 1, 16 do tokens[i] = i end
      local r = d:submit(tokens)
      r.script = { "hit", "hit", "hit", "hit" }
      d:step()
      d:step()
      assert.equal(used, d:view(r).reused)
    end
  end)

  it("fact 37, R24 wait keeps the blocks of an aborted request until it has ended", function()
    assert.is_nil(offload({},
      step("run", { req = "a", prompt = fill(0, 8), host_hit_chunks = 2, complete_transfers = false,
        expect = { free = 38 } }),
      step("abort", { req = "a", expect = { free = 38, state = "finished" } }),
      step("run", { req = "b", prompt = fill(1, 3), outputs = 1,
        expect = { loaded_block_index = { 0, 1 }, free = 39 } })))
  end)

  it("is what `finish` aborts; `reset` then finds the device idle only when it has ended", function()
    assert.is_nil(offload({},
      step("lookup", { req = "a", prompt = fill(0, 8), host_hit_chunks = 2, expect = { loads_started = 1 } }),
      step("finish", { req = "a", expect = { state = "finished", outputs = 0 } }),
      step("reset", { expect = { ok = false } }),
      step("lookup", { prompt = fill(1, 3), complete_transfers = true, expect = { loads_started = 0 } }),
      step("reset", { expect = { ok = true, free = 40 } })))
  end)

  it("that has not ended keeps a run waiting, whatever its end should be", function()
    assert.is_nil(offload({},
      step("lookup_and_run", { req = "a", prompt = fill(0, 8), host_hit_chunks = 1, complete_transfers = false,
        expect = { state = "loading", outputs = 0 } }),
      step("lookup_and_run", { req = "a", expect = { state = "finished", outputs = 1, loaded_block_index = { 0 } } })))
  end)

  it("R24 drop gives them back at once and loads nothing", function()
    assert.is_nil(offload({ on_cancel_load = "drop" },
      step("run", { req = "a", prompt = fill(0, 8), host_hit_chunks = 2, complete_transfers = false,
        expect = { free = 38 } }),
      step("abort", { req = "a", expect = { free = 40 } }),
      step("run", { req = "b", prompt = fill(1, 3), outputs = 1, expect = { loaded_block_index = {} } })))
  end)

  it("is not stored again", function()
    assert.is_nil(offload({}, step("lookup_and_run", { prompt = fill(0, 12), host_hit_chunks = 2,
      expect = { loaded_block_index = { 0, 1 }, stored_block_index = { 2 } } })))
  end)

  it("pins its chunks: a store cannot have their slots", function()
    local d = double.new { block_size = 4, blocks = 40, slots = 1 }
    local function submit(token)
      local tokens = {}
      for i = 1, 5 do tokens[i] = token end
      return d:submit(tokens)
    end
    local a = submit(1)
    d:step()
    d:finish(a)
    repeat until not d:step()
    assert.equal(1, #d.host:lru())
    assert.is_true(d.twin:reset())
    local b = submit(1)
    d:step { complete = false }
    assert.equal("loading", d:view(b).status)
    submit(2)
    d:take_report()
    d:step { complete = false }
    assert.equal(1, d:take_report().failures)
  end)
end)

describe("a preemption", function()
  local function preempted(options, expect)
    return offload(options,
      step("run", { req = "a", prompt = fill(0, 8), outputs = 1, complete_transfers = false }),
      step("preempt", { req = "a", expect = expect }))
  end

  it("fact 80, R23 flush ends the stores of the victim, prepared ones too", function()
    assert.is_nil(preempted({}, { flushed_block_index = { 0, 1 }, stored_block_index = { 0, 1 }, state = "preempted" }))
  end)

  it("R23 fence lets them go on", function()
    assert.is_nil(preempted({ on_preempt = "fence" }, { flushed_block_index = {}, stored_block_index = {} }))
    assert.is_nil(offload({ on_preempt = "fence" },
      step("run", { req = "a", prompt = fill(0, 8), outputs = 1, complete_transfers = false }),
      step("preempt", { req = "a" }),
      step("resume", { req = "a", outputs = 1, expect = { stored_block_index = { 0, 1 } } })))
  end)

  it("flushes nothing when everything has ended", function()
    assert.is_nil(offload({}, step("run", { req = "a", prompt = fill(0, 8), outputs = 2 }),
      step("preempt", { req = "a", expect = { flushed_block_index = {}, stored_block_index = {} } })))
  end)

  it("is followed by a load of its own chunks, outputs included", function()
    assert.is_nil(offload({ slots = 20 },
      step("run", { req = "a", prompt = fill(0, 8), outputs = 6, expect = { stored_block_index = { 0, 1, 2 } } }),
      step("preempt", { req = "a" }),
      step("resume", { req = "a", gpu_cache = "empty", outputs = 1,
        expect = { loaded_block_index = { 0, 1, 2 }, loads_started = 1, tokens = 15 } })))
  end)

  it("of the scheduler is flushed before its blocks are used again", function()
    local d = double.new { block_size = 4, blocks = 6, slots = 20 }
    for token = 1, 2 do
      local tokens = {}
      for i = 1, 11 do tokens[i] = token end
      d:submit(tokens)
    end
    local flushed = {}
    for _ = 1, 4 do
      d:step { complete = false }
      local report = d:take_report()
      table.move(report.flushed, 1, #report.flushed, #flushed + 1, flushed)
    end
    assert.same({ 0, 1, 2 }, flushed)
    assert.equal(1, d.twin:state().preemptions)
  end)
end)

describe("a vector of kind offload", function()
  local function refused(options, ...)
    local why = offload(options, ...)
    return why and why:gsub("\n.*", "")
  end
  local ask = { op = "lookup", prompt = fill(0, 9) }
  local function with(fields)
    local copy = {}
    for key, value in pairs(ask) do copy[key] = value end
    for key, value in pairs(fields) do copy[key] = value end
    return copy
  end

  it("differs where an expectation does not hold or names what is not observed", function()
    assert.equal("step 1 (lookup).loads_started: want 1, have 0", refused({}, with { expect = { loads_started = 1 } }))
    assert.equal("step 1 (lookup).colour: want 1, have nil", refused({}, with { expect = { colour = 1 } }))
  end)

  it("is refused with what is not known, and never passed over", function()
    assert.equal("unknown config key 'colour'", refused({ colour = 1 }, ask))
    assert.equal("not modelled: cache groups of a connector (fact 81)", refused({ groups = {} }, ask))
    assert.equal("config key 'on_preempt': unknown value 'wait'", refused({ on_preempt = "wait" }, ask))
    assert.equal("unknown op 'evict'", refused({}, with { op = "evict" }))
    assert.equal("unknown key of lookup 'outputs'", refused({}, with { outputs = 1 }))
    assert.equal("unknown host_state 'warm'", refused({}, with { host_state = { "warm" } }))
    assert.equal("host_hit_chunks beside host_state", refused({}, with { host_state = { "hit" }, host_hit_chunks = 1 }))
    assert.equal("not modelled: store_policy 'half of them'", refused({}, with { store_policy = "half of them" }))
    assert.equal("not modelled: gpu_cache 'warm'", refused({}, with { gpu_cache = "warm" }))
    assert.equal("not modelled: a scripted host beside config.slots", refused({ slots = 4 },
      with { host_hit_chunks = 1 }))
    assert.equal("the device cannot find 6 tokens of it", refused({}, with { gpu_hit_tokens = 6 }))
  end)

  it("is refused where a step does not fit the state of its request", function()
    assert.equal("unknown request 'a'", refused({}, { op = "run", req = "a" }))
    assert.equal("'a' is not preempted", refused({}, step("run", { req = "a", prompt = fill(0, 5), outputs = 1 }),
      step("resume", { req = "a" })))
    assert.equal("'a' does not run", refused({}, with { req = "a", host_hit_chunks = 2 },
      step("preempt", { req = "a" })))
    assert.equal("'a' has a prompt already", refused({}, with { req = "a" }, with { req = "a" }))
    assert.equal("'a' has ended", refused({},
      step("run", { req = "a", prompt = fill(0, 5), outputs = 1, finish = true }),
      step("run", { req = "a", outputs = 1 })))
  end)
end)

describe("random talks with the connector", function()
  --- Everything the double knows, in any order; it verifies itself after each step.
  local function talk(seed)
    math.randomseed(seed)
    local function pick(list) return list[math.random(#list)] end
    local d = double.new { block_size = math.random(2, 4), blocks = math.random(8, 30),
      blocks_per_chunk = math.random(3),
      slots = math.random(1, 12), max_num_seqs = math.random(3), max_num_batched_tokens = math.random(4, 40),
      store_scope = pick { "all", "prompt" }, full_load_recompute = pick { "token", "block" },
      on_preempt = pick { "flush", "fence" }, on_cancel_load = pick { "wait", "drop" },
      pending_recompute_tokens = math.random(0, 1) * 8, lru_tie_break = pick { "listed", "deepest_first", "key_asc" },
      refresh_on_load = math.random(2) == 1 }
    local live = {}
    for _ = 1, 60 do
      local what = math.random(10)
      if what <= 3 and #live < 5 then
        local tokens, first = {}, math.random(2)
        for i = 1, math.random(3, 20) do tokens[i] = i < 10 and first or math.random(2) end
        live[#live + 1] = d:submit(tokens, 7)
      elseif what == 4 and #live > 0 then
        d:finish(table.remove(live, math.random(#live)))
      elseif what == 5 and #live > 0 and d:view(live[1]).status == "running" then
        d:preempt(live[1])
      elseif what == 6 then
        d.twin:reset()
      elseif what == 7 then
        d:complete_transfers()
      else
        d:step { complete = math.random(2) == 1 }
      end
      d:verify()
    end
    for _, r in ipairs(live) do d:finish(r) end
    for _ = 1, 20 do d:step() end
    return d
  end

  it("end with every block and every slot given back", function()
    local loads, stores, preemptions = 0, 0, 0
    for seed = 1, 300 do
      local d = talk(seed)
      local state = d.twin:state()
      assert.equal(0, #d.jobs)
      assert.equal(d.own.blocks, state.free + state.inactive, "seed " .. seed)
      for _, key in ipairs(d.host.keys) do assert.equal(0, d.host.entries[key].pins) end
      local report = d:take_report()
      loads, stores = loads + report.loads_started, stores + #report.stored
      preemptions = preemptions + state.preemptions
    end
    assert.is_true(loads > 100 and stores > 1000 and preemptions > 100,
      ("%d loads, %d blocks stored, %d preemptions"):format(loads, stores, preemptions))
  end)
end)
