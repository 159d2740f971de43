--- Both ends of a prefill/decode hand-off (spec/engine.md §15).
local support = dofile "tests/spec/engine/support.lua"
local tokens = support.tokens

describe("a reservation", function()
  it("§15.1 takes the blocks of the prompt and says what must be transferred, in whole blocks", function()
    local t = support.rank()
    assert.is_true(t:reserve(1, 10, 5))
    assert.equal("reserved", t:request(1).status)
    assert.equal(12, t:request(1).missing)
    assert.same({ 3, 0, 97 }, t:blocks())
  end)

  it("§15.1 pins resident blocks instead of taking new ones", function()
    local t = support.rank()
    t:cache(9, tokens(8))
    t:reserve(1, tokens(10), 5)
    assert.equal(4, t:request(1).missing)
    assert.same({ 3, 0, 97 }, t:blocks())
  end)

  it("§15.1 of a prompt that can never be here is an error without trace", function()
    local t = support.rank { num_blocks = 4, max_model_len = 14 }
    assert.is_false(t:reserve(1, 14, 5)) -- P >= M
    assert.is_false(t:reserve(1, {}, 5))
    local small = support.rank { num_blocks = 2 }
    assert.is_false(small:reserve(1, 9, 5))
    for _, rank in ipairs { t, small } do
      assert.equal(0, rank:state().live)
      assert.equal(0, rank:blocks()[1])
    end
    assert.is_true(t:reserve(1, 13, 5)) -- the id is free
  end)

  it("§15.1 E-S2 takes the blocks of the state too and gives them back", function()
    local t = support.rank { num_blocks = 6, state_cache = { mode = "latest", blocks = 2 } }
    assert.is_false(t:reserve(9, 17, 1)) -- five and two of six
    assert.is_true(t:reserve(1, 8, 2))
    assert.equal(8, t:request(1).missing)
    assert.same({ 4, 0, 2 }, t:blocks())
    assert.is_true(t:activate(1))
    assert.same({ 0, 8 }, { t:pass().scheduled[1], t:request(1).computed })
    t:pass()
    assert.equal("length", t:request(1).reason)
    assert.equal(0, t:blocks()[1])
    t:reserve(2, 8, 2)
    t:cancel(2)
    assert.equal(0, t:blocks()[1])
  end)

  it("§15.1 waits in order until capacity comes free; a prefix that arrived meanwhile is not transferred", function()
    local t = support.rank { num_blocks = 1 }
    t:reserve(1, tokens(4), 1)
    t:reserve(2, tokens(4), 1)
    assert.equal(4, t:request(1).missing)
    assert.equal("pending", t:request(2).status)
    t:activate(1)
    assert.equal("pending", t:request(2).status)
    t:pass()
    assert.equal("reserved", t:request(2).status)
    assert.equal(0, t:request(2).missing)
  end)

  it("§15.1 a later one does not overtake the head", function()
    local t = support.rank { num_blocks = 4 }
    t:submit(9, 8, 1, { hold = true })
    t:pass()
    t:reserve(1, 12, 1) -- three blocks, two are free
    t:reserve(2, 4, 1)
    assert.same({ "pending", "pending" }, { t:request(1).status, t:request(2).status })
    t:release_source(9)
    assert.same({ "reserved", "reserved" }, { t:request(1).status, t:request(2).status })
  end)

  it("§15.5 a fresh prompt behind a pending reservation is not admitted", function()
    local t = support.rank { num_blocks = 4 }
    t:submit(9, 8, 1, { hold = true })
    t:pass()
    t:reserve(1, 12, 1)
    t:submit(2, 4, 1)
    assert.is_false(t:pass().changed)
    t:cancel(1)
    assert.equal(1, t:pass().tokens[2])
  end)
end)

describe("activation", function()
  it("§15.4 publishes the prompt, computes nothing, and gives the first token", function()
    local t = support.rank()
    t:reserve(1, tokens(8), 2)
    assert.is_true(t:activate(1))
    local view = t:request(1)
    assert.same({ "waiting", 8, 8, 2 }, { view.status, view.computed, view.watermark, view.published })
    local record = t:pass()
    assert.same({ 0, 8, 1 }, { record.scheduled[1], record.reused[1], record.tokens[1] })
    assert.same({ 1, 1, "length" }, { t:pass().scheduled[1], t:request(1).generated - 1, t:request(1).reason })
  end)

  it("§15.4 its blocks serve others at once", function()
    local t = support.rank()
    t:reserve(1, tokens(8), 2)
    t:submit(2, tokens(9), 1)
    t:activate(1)
    assert.equal(8, t:pass().reused[2])
  end)

  it("§15.4 happens once", function()
    local t = support.rank()
    t:reserve(1, 8, 3)
    assert.is_true(t:activate(1))
    assert.is_false(t:activate(1))
    t:pass()
    assert.is_false(t:activate(1))
    assert.is_false(t:activate(77))
  end)

  it("§15.4 is not possible before there are blocks", function()
    local t = support.rank { num_blocks = 2 }
    t:reserve(1, 8, 1)
    t:reserve(2, 8, 1)
    assert.is_false(t:activate(2))
  end)
end)

describe("the source", function()
  it("§15.2 frees its slot but keeps its blocks", function()
    local t = support.rank { max_seqs = 1 }
    t:submit(1, 8, 1, { hold = true })
    t:submit(2, 8, 1)
    assert.equal("length", t:pass().ended[1])
    assert.same({ "held", 2 }, { t:request(1).status, t:blocks()[1] })
    assert.equal(1, t:pass().tokens[2])
  end)

  it("§15.4 E-K6 releases once", function()
    local t = support.rank()
    t:submit(1, 8, 1, { hold = true })
    assert.is_false(t:release_source(1)) -- still waiting
    t:pass()
    assert.is_true(t:release_source(1))
    assert.same({ 0, 2, 98 }, t:blocks())
    assert.is_false(t:release_source(1))
  end)
end)

describe("cancelling a hand-off", function()
  it("§15.4 works in every stage and leaves nothing", function()
    local stages = {
      pending = function(t)
        t:submit(9, 8, 1, { hold = true })
        t:pass()
        t:reserve(1, 12, 1)
      end,
      reserved = function(t) t:reserve(1, 12, 1) end,
      waiting = function(t)
        t:reserve(1, 12, 1)
        t:activate(1)
      end,
      running = function(t)
        t:reserve(1, 12, 5)
        t:activate(1)
        t:pass()
      end,
      held = function(t)
        t:submit(1, 12, 1, { hold = true })
        t:pass()
      end,
    }
    for stage, reach in pairs(stages) do
      local t = support.rank { num_blocks = 4 }
      reach(t)
      assert.equal(stage, t:request(1).status)
      assert.is_true(t:cancel(1))
      assert.is_false(t:cancel(1))
      t:release_source(9)
      assert.equal(0, t:state().live)
      assert.equal(0, t:blocks()[1])
    end
  end)
end)

describe("a reservation beside a host tier", function()
  local function rank()
    return support.rank { num_blocks = 2, bytes_per_token = 250,
      host = { num_host_blocks = 8, d2h_gbps = 1, h2d_gbps = 1 } }
  end

  it("offload.md §7.5 does not take blocks whose store waits for the end of the pass", function()
    local t = rank()
    t:submit(1, 8, 1)
    t:set_time(0)
    local batch = t:plan() -- both blocks are to be stored when it ends
    t:cancel(1)
    assert.is_true(t:reserve(2, 8, 1))
    assert.equal("pending", t:request(2).status)
    t:set_time(1)
    t:complete(batch)
    assert.equal("reserved", t:request(2).status)
  end)

  it("offload.md §5.1 in blocks that are being copied holds the rank up until the copy has ended", function()
    local t = rank()
    t:submit(1, 8, 1)
    t:set_time(0)
    local batch = t:plan()
    assert.is_true(t:reserve(2, 8, 1))
    t:set_time(1)
    t:complete(batch) -- the request ends here: 2,000 bytes are copied at 1 GB/s
    assert.equal("reserved", t:request(2).status)
    t:activate(2)
    t:plan()
    assert.equal(1.002, t:fence())
  end)
end)
