--- What a request owns: watermark, look-ahead blocks, release, the hand-over to a hold (spec/engine.md §9).
local support = dofile "tests/spec/engine/support.lua"

--- A lease alone, driven by hand; its request never runs.
local function lease(prompt, blocks)
  local t = support.rank { num_blocks = blocks or 10 }
  t:submit(1, prompt, 20)
  local serial = t:request(1).serial
  local l = {}
  function l.allocate(target) return t:lease_allocate(serial, target) end
  function l.opaque(n) t:lease_opaque(serial, n) end
  function l.sample(n) t:lease_sample(serial, n) end
  function l.release() t:lease_release(serial) end
  function l.state()
    local view = t:request(1)
    return { view.watermark, view.owned, view.opaque }
  end
  function l.active() return t:blocks()[1] end
  return l
end

describe("a lease", function()
  it("E-K1 owns the blocks of its watermark, in order", function()
    local t = support.rank { max_batched_tokens = 8 }
    t:submit(1, 10, 9)
    t:pass()
    assert.same({ 8, 2 }, { t:request(1).watermark, t:request(1).owned })
    t:pass()
    assert.same({ 10, 3 }, { t:request(1).watermark, t:request(1).owned })
    t:pass()
    assert.same({ 12, 11, 3 }, { t:request(1).known, t:request(1).watermark, t:request(1).owned })
    t:passes(2)
    assert.same({ 14, 13, 4 }, { t:request(1).known, t:request(1).watermark, t:request(1).owned })
  end)

  it("E-K2 takes nothing for a target inside its blocks", function()
    local l = lease(10)
    l.allocate(8)
    assert.equal(2, l.active())
    assert.is_true(l.allocate(7))
    assert.same({ 8, 2, 0 }, l.state())
    assert.is_true(l.allocate(8))
    assert.equal(2, l.active())
  end)

  it("E-K2 changes nothing when the blocks are not there", function()
    local l = lease(20, 4)
    l.allocate(8)
    assert.is_false(l.allocate(20))
    assert.same({ 8, 2, 0 }, l.state())
    assert.equal(2, l.active())
  end)

  it("E-K3 binds a retained look-ahead block before it takes one from the pool", function()
    local l = lease(10)
    l.allocate(10)
    l.sample(2)
    l.allocate(11)
    l.opaque(1)
    l.sample(1)
    assert.same({ 11, 4, 1 }, l.state())
    l.allocate(13)
    assert.same({ 13, 4, 0 }, l.state())
    assert.equal(4, l.active())
  end)

  it("E-K4 owns ceil(A / b) + q blocks after every pass", function()
    local t = support.rank { mtp = { mode = "native", depth = 3, accept = { 0.7, 0.5, 0.2 } } }
    t:submit(1, 11, 40)
    while t:state().ready do
      t:pass()
      local view = t:request(1)
      assert.equal((view.watermark + 3) // 4 + view.opaque, view.owned)
      assert.equal(view.owned, t:blocks()[1])
    end
  end)

  it("E-K5 gives everything back, look-ahead too; a second release changes nothing", function()
    local l = lease(10)
    l.allocate(10)
    l.opaque(1)
    assert.equal(4, l.active())
    l.release()
    assert.same({ 0, 0, 0 }, l.state())
    assert.equal(0, l.active())
    l.release()
    assert.equal(0, l.active())
  end)

  it("E-K5 releases from the last block to the first", function()
    local t = support.rank { num_blocks = 4 }
    t:cache(1, support.tokens(16))
    t:submit(2, 3, 0)
    assert.same({ { id = 1, index = 3 } }, t:pass().evicted)
  end)

  it("E-K6 of a finished prefill worker's request is kept whole until it is released", function()
    local t = support.rank()
    t:submit(1, 8, 2, { hold = true })
    local record = t:passes(2)
    assert.equal("length", record.ended[1])
    assert.equal("held", t:request(1).status)
    assert.equal(9, t:request(1).computed)
    assert.equal(3, t:blocks()[1])
    assert.same({}, t:state().running)
    assert.is_true(t:release_source(1))
    assert.equal(0, t:blocks()[1])
    assert.is_false(t:release_source(1))
  end)

  it("E-K7 takes no capacity when a token opens a block", function()
    local l = lease(10)
    l.allocate(10)
    l.sample(3) -- L = 13
    assert.same({ 10, 3, 0 }, l.state())
    l.allocate(13)
    assert.same({ 13, 4, 0 }, l.state())
  end)
end)
