--- Decision delays of the two routers of a hand-off, and the time at each (spec/lua-api.md §7, routing.md §5, §7).
local aisim = require "aisim"
local support = dofile "tests/spec/lua/support.lua"

local function pair(options)
  local sim = aisim.new { seed = 1 }
  local prefill = sim:pool { role = "prefill", engine = support.engine() }
  local decode = sim:pool { role = "decode", workers = options.decode or 1, engine = support.engine() }
  sim:handoff(options.link or {})
  for name, delay in pairs(options.delays) do
    sim:router { pool = name, policy = "round_robin", delay_ms = delay }
  end
  return sim, prefill, decode
end

local function routes(sim)
  local log = {}
  sim:on("request.route", function(t, id, worker) log[#log + 1] = ("%g: %d at %d"):format(t, id, worker) end)
  return log
end

local function records_of(run)
  local records = {}
  for record in run.requests() do records[#records + 1] = record end
  return records
end

describe("delay_ms of a hand-off", function()
  it("is added by each router before its decision", function()
    local sim = pair { delays = { prefill = 3, decode = 5 } }
    local log = routes(sim)
    sim:submit { at_ms = 1, prompt_tokens = 10, output_tokens = 3 }
    local run = sim:run { requests = true }
    assert.same({ "4: 1 at 1", "9: 1 at 2" }, log)
    local record = records_of(run)[1]
    assert.same({ 8, 3, 5 }, { record.router_queue_ms, record.prefill_router_queue_ms, record.decode_router_queue_ms })
    assert.same({ 3, 5 }, { run.prefill_router_queue_ms.mean, run.decode_router_queue_ms.mean })
    assert.equal(18, record.ttft_ms)
  end)

  it("looks at the decode pool when it is over", function()
    local sim, _, decode = pair { delays = { decode = 5 }, decode = 2 }
    local log = routes(sim)
    sim:at(2, function() decode:worker(1):drain() end)
    sim:submit { prompt_tokens = 10, output_tokens = 3 }
    sim:run()
    assert.same({ "0: 1 at 1", "5: 1 at 3" }, log)
  end)

  it("is that of the router that decides: alone for a request that stays local", function()
    local sim = pair { delays = { prefill = 3, decode = 5 }, link = { local_below_tokens = 100 } }
    local log = routes(sim)
    sim:submit { prompt_tokens = 10, output_tokens = 3 }
    local record = records_of(sim:run { requests = true })[1]
    assert.same({ "5: 1 at 2" }, log)
    assert.same({ 5 }, { record.router_queue_ms, record.prefill_router_queue_ms, record.decode_router_queue_ms })
  end)

  it("comes after the delay of the admission", function()
    local sim = pair { delays = { prefill = 3, decode = 5 } }
    local log = routes(sim)
    sim:admission(function() return 7 end)
    sim:submit { prompt_tokens = 10, output_tokens = 3 }
    local record = records_of(sim:run { requests = true })[1]
    assert.same({ "10: 1 at 1", "15: 1 at 2" }, log)
    assert.same({ 15, 10, 5 }, { record.router_queue_ms, record.prefill_router_queue_ms,
      record.decode_router_queue_ms })
  end)

  it("ends with the request or with the worker that it was to come from", function()
    local sim, prefill = pair { delays = { decode = 5 } }
    local log = routes(sim)
    local req = sim:submit { prompt_tokens = 10, output_tokens = 3 }
    sim:at(2, function() req:cancel() end)
    sim:submit { at_ms = 20, prompt_tokens = 10, output_tokens = 3 }
    sim:at(22, function() prefill:worker(1):stop() end) -- its first choice is gone, with its delay
    sim:at(24, function() prefill:worker(1):resume() end)
    local run = sim:run { requests = true }
    assert.same({ "0: 1 at 1", "20: 2 at 1", "24: 2 at 1", "29: 2 at 2" }, log)
    local records = records_of(run)
    assert.equal("cancelled", records[1].status)
    assert.same({ 2, 5, 9 }, { records[2].prefill_router_queue_ms, records[2].decode_router_queue_ms,
      records[2].router_queue_ms })
  end)

  it("and the queue of the router are one time per stage", function()
    local sim, _, decode = pair { delays = {} }
    sim:at(0, function() decode:worker(1):drain() end)
    sim:at(40, function() decode:worker(1):resume() end)
    sim:submit { at_ms = 10, prompt_tokens = 10, output_tokens = 3 }
    local record = records_of(sim:run { requests = true })[1]
    assert.same({ 0, 30, 30 }, { record.prefill_router_queue_ms, record.decode_router_queue_ms,
      record.router_queue_ms })
  end)
end)
