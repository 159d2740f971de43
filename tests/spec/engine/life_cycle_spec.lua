--- Where a request stands between submission and end (spec/engine.md §3).
local support = dofile "tests/spec/engine/support.lua"
local tokens = support.tokens

describe("the life of a request", function()
  it("E-L1 is in one place at a time", function()
    local t = support.rank { max_seqs = 1 }
    t:submit(1, 4, 2)
    t:submit(2, 4, 1)
    t:submit(3, 4, 1, { blocked = true })
    assert.same({ 1, 2 }, t:state().waiting)
    assert.same({ 3 }, t:state().skipped)
    t:pass()
    assert.same({ 1 }, t:state().running)
    assert.same({ 2 }, t:state().waiting)
    assert.equal("running", t:request(1).status)
    assert.equal("waiting", t:request(2).status)
    t:unblock(3)
    assert.same({}, t:state().skipped)
    assert.same({ 2, 3 }, t:state().waiting)
    t:drain()
    assert.same({}, t:state().running)
    assert.equal("finished", t:request(1).status)
    assert.equal(0, t:state().live)
  end)

  it("E-L1 ends at once when a waiter is cancelled; a second cancel does nothing", function()
    local t = support.rank()
    t:submit(1, 4, 1)
    assert.equal(1, t:state().live)
    assert.is_true(t:cancel(1))
    assert.equal(0, t:state().live)
    assert.same({}, t:state().waiting)
    assert.is_false(t:cancel(1))
    assert.equal("cancelled", t:request(1).reason)
  end)

  it("E-L2 gives ordinals in order of submission, whatever the ids", function()
    local t = support.rank()
    for _, id in ipairs { 9, 3, 5 } do t:submit(id, 4, 1) end
    assert.same({ 9, 3, 5 }, t:state().waiting)
    assert.same({ 0, 1, 2 }, { t:request(9).ordinal, t:request(3).ordinal, t:request(5).ordinal })
  end)

  it("E-L2 puts a hand-off at the ordinal of its reservation, before later submissions", function()
    local t = support.rank()
    t:submit(1, 4, 1)
    assert.is_true(t:reserve(2, 8, 2))
    t:submit(3, 4, 1)
    t:submit(4, 4, 1)
    assert.same({ 1, 3, 4 }, t:state().waiting)
    assert.is_true(t:activate(2))
    assert.same({ 1, 2, 3, 4 }, t:state().waiting)
  end)

  it("E-L3 tells waiting and preempted apart; a victim counts as queued decode of P + G tokens", function()
    local t = support.rank { num_blocks = 6 }
    t:submit(1, 8, 8)
    t:submit(2, 8, 8)
    t:submit(3, 4, 1)
    local queued = t:state().queued
    assert.same({ 3, 20 }, { queued.prefill, queued.prefill_tokens })
    t:passes(5) -- both have 12 tokens on 6 blocks, then 1 needs a fourth block
    t:pass()
    assert.same({ 2, 3 }, t:state().waiting)
    assert.same({ "preempted", "waiting" }, { t:request(2).status, t:request(3).status })
    queued = t:state().queued
    assert.same({ 1, 4 }, { queued.prefill, queued.prefill_tokens })
    assert.same({ 1, 13 }, { queued.decode, queued.decode_tokens })
  end)

  it("E-L4 reports the reuse of the first admission, also after a preemption", function()
    local t = support.rank { num_blocks = 8, max_batched_tokens = 14 }
    t:cache(9, tokens(4))
    t:submit(1, 7, 3)
    t:submit(2, 7, 3)
    t:pass()
    t:set_budget(9)
    t:submit(3, tokens(16), 1)
    assert.equal(4, t:pass().reused[3]) -- 7 more tokens: two whole blocks of it are cached now
    local record = t:pass() -- 1 and 2 need a block each, one is free
    assert.same({ 3 }, record.victims)
    assert.equal(0, t:request(3).generated)
    record = t:pass()
    assert.equal(8, record.reused[3])
    assert.equal(4, t:request(3).reused)
    assert.same({ 8 }, t:request(3).readmit_reused)
  end)
end)
