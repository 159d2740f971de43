--- Identity of blocks, prefix lookup, publication, KV events (spec/engine.md §8).
local support = dofile "tests/spec/engine/support.lua"
local tokens, join = support.tokens, support.join

local DRAFTS <const> = { mode = "native", depth = 2, accept = { 1, 1 } }

--- Tokens reused by a second request after the first has gone.
local function reuse(first, second, output, config)
  local t = support.rank(config)
  t:cache(1, first)
  t:submit(2, second, output or 1)
  return t:pass().reused[2], t
end

describe("identity", function()
  it("E-H1 is that of the whole prefix, not of the block alone", function()
    local page = tokens(4, 100)
    assert.equal(8, reuse(join(tokens(4), page), join(tokens(4), page, { 7 })))
    assert.equal(0, reuse(join(tokens(4), page), join(tokens(4, 50), page, { 7 })))
  end)

  it("E-H1 outputs of two requests are never the same by accident", function()
    local t = support.rank()
    t:submit(1, tokens(8), 6)
    t:submit(2, tokens(8), 6)
    t:drain()
    assert.same({ 0, 5, 95 }, t:blocks()) -- one page of prompt, two copies of the other, two of output
    assert.is_true(t:reset())
  end)

  it("E-H1 a request meets its own outputs again after a preemption", function()
    local t = support.rank { num_blocks = 6, preemption = "fifo" }
    t:submit(1, 6, 8)
    t:submit(2, 10, 4)
    t:passes(4)
    assert.equal(8, t:pass().reused[1]) -- six of the prompt, two generated
  end)

  it("E-H2 does not exist with caching off", function()
    local t = support.rank { prefix_caching = false }
    t:submit(1, tokens(16), 1)
    t:submit(2, tokens(16), 1)
    assert.equal(0, t:pass().reused[1])
    assert.equal(0, t:pass().reused[2])
    assert.same({ 0, 0, 100 }, t:blocks())
  end)
end)

describe("the hit length", function()
  it("E-H3 leaves the last token to compute: an exact repeat recomputes one block", function()
    local reused, t = reuse(tokens(8), tokens(8))
    assert.equal(4, reused)
    assert.same({ 0, 3, 97 }, t:blocks())
  end)

  it("E-H3 covers everything when no output is wanted", function()
    local t = support.rank()
    t:cache(1, tokens(8))
    t:submit(2, tokens(8), 0)
    local record = t:pass()
    assert.equal(8, record.reused[2])
    assert.equal(0, record.scheduled[2])
    assert.equal("length", record.ended[2])
  end)

  it("E-H3 is whole blocks below the last token", function()
    assert.equal(8, reuse(tokens(9), tokens(9)))
    assert.equal(8, reuse(tokens(8), tokens(12)))
  end)

  it("E-H3 stops at the first miss", function()
    assert.equal(4, reuse(tokens(12), join(tokens(4), tokens(4, 90), tokens(4, 8))))
  end)

  it("E-H4 with a drafter loses the last matched block", function()
    assert.equal(4, reuse(tokens(8), tokens(12), 1, { mtp = DRAFTS }))
    assert.equal(0, reuse(tokens(8), tokens(8), 1, { mtp = DRAFTS }))
  end)

  it("E-H4 not for a request without output, nor with drop_matched_block = false (R14)", function()
    assert.equal(8, reuse(tokens(8), tokens(8), 0, { mtp = DRAFTS }))
    assert.equal(8, reuse(tokens(8), tokens(12), 1, { mtp = DRAFTS, drop_matched_block = false }))
  end)

  it("is zero for a request that may not read; it publishes all the same", function()
    local t = support.rank()
    t:cache(1, tokens(8))
    t:submit(2, tokens(12), 0, { no_read = true })
    assert.equal(0, t:pass().reused[2])
    t:submit(3, tokens(12), 0)
    assert.equal(12, t:pass().reused[3])
  end)

  it("is zero under another salt", function()
    local t = support.rank()
    t:cache(1, tokens(8))
    t:submit(2, tokens(12), 1, { salt = 5 })
    assert.equal(0, t:pass().reused[2])
  end)
end)

describe("publication", function()
  it("E-H5 is immediate: a later request of the same pass hits", function()
    local t = support.rank { max_batched_tokens = 16 }
    t:submit(1, tokens(8), 3)
    t:submit(2, tokens(8), 3)
    local record = t:pass()
    assert.same({ [1] = 0, [2] = 4 }, record.reused)
    assert.equal(3, t:blocks()[1])
  end)

  it("E-H5 gives a block with outputs its identity when the pass computes them", function()
    local t = support.rank()
    t:submit(1, { 0, 1, 2 }, 5, { output_ids = { 3, 9, 9, 9, 9 } })
    t:pass()
    t:submit(2, { 0, 1, 2, 3, 4 }, 1)
    local record = t:pass()
    assert.equal(1, record.scheduled[1])
    assert.equal(4, record.reused[2])
  end)

  it("E-H5 does not publish a half-filled block", function()
    assert.equal(4, reuse(tokens(7), tokens(12)))
  end)

  it("E-H6 capacity beyond the computed tokens stays private", function()
    local t = support.rank { max_batched_tokens = 2 }
    t:submit(1, tokens(8), 3)
    t:pass()
    assert.same({ 1, 0 }, { t:request(1).owned, t:request(1).published })
    t:set_budget(16)
    local _, record = t:plan()
    assert.equal(6, record.scheduled[1])
    assert.equal(2, t:request(1).published)
    t:set_budget(2)
  end)

  it("E-H6 an identical prompt finds nothing while the block is not full", function()
    local t = support.rank { long_prefill_token_threshold = 2 }
    t:submit(1, tokens(8), 3)
    t:submit(2, tokens(8), 3)
    assert.equal(0, t:pass().reused[2])
  end)
end)

describe("KV events", function()
  local function blocks(event)
    local list = {}
    for i, block in ipairs(event.blocks) do list[i] = block.id .. ":" .. block.index end
    return table.concat(list, " ")
  end

  it("E-H7 a run of new blocks is one stored event; a second copy is silent", function()
    local t = support.rank()
    t:submit(1, tokens(8), 3)
    t:submit(2, tokens(8), 3)
    local events = t:pass().events
    assert.equal(1, #events)
    assert.is_true(events[1].stored)
    assert.equal("1:0 1:1", blocks(events[1]))
    assert.is_nil(events[1].parent)
  end)

  it("E-H7 nothing is stored before a block is full; then the parent is named", function()
    local t = support.rank { max_batched_tokens = 2 }
    t:submit(1, tokens(8), 3)
    assert.equal(0, #t:pass().events)
    assert.equal("1:0", blocks(t:pass().events[1]))
    assert.equal(0, #t:pass().events)
    local event = t:pass().events[1]
    assert.equal("1:1", blocks(event))
    assert.same({ id = 1, index = 0 }, event.parent)
  end)

  it("E-H7 what one acquisition evicted is one removed event, in eviction order", function()
    local t = support.rank { num_blocks = 4 }
    t:cache(1, tokens(12))
    t:submit(2, 12, 0)
    local events = t:pass().events
    assert.is_false(events[1].stored)
    assert.equal("1:2 1:1", blocks(events[1]))
    assert.equal("2:0 2:1 2:2", blocks(events[2]))
  end)

  it("E-H7 no event while another copy remains", function()
    local t = support.rank { num_blocks = 4 }
    t:submit(1, tokens(8), 1)
    t:submit(2, tokens(8), 1)
    t:drain()
    assert.same({ 0, 3, 1 }, t:blocks())
    t:submit(3, 6, 0) -- the free one and the older copy of block 1
    local events = t:pass().events
    assert.equal(1, #events)
    assert.is_true(events[1].stored)
  end)
end)

describe("figures of a pass", function()
  it("E-F1 a chunk counts its tokens and what was computed before", function()
    local t = support.rank { max_batched_tokens = 8 }
    t:submit(1, 16, 1)
    assert.same({ 0, 8 }, t:pass().chunks[1])
    assert.same({ 8, 8 }, t:pass().chunks[1])
  end)

  it("E-F1 what was computed before includes the hit", function()
    for _, case in ipairs { { nil, 8, 4 }, { DRAFTS, 4, 8 } } do
      local t = support.rank { mtp = case[1] }
      t:cache(1, tokens(12))
      t:submit(2, tokens(12), 1)
      assert.same({ case[2], case[3] }, t:pass().chunks[2])
    end
  end)

  it("E-F1 queued prompts: count, sum and population variance, exact after removals", function()
    local t = support.rank()
    t:submit(1, 4, 1)
    t:submit(2, 12, 1)
    t:submit(3, 99, 1)
    t:cancel(3)
    local queued = t:state().queued
    assert.same({ 2, 16, 16.0 }, { queued.prefill, queued.prefill_tokens, queued.prefill_variance })
  end)

  it("E-F1 preempted requests are queued decodes of their known length", function()
    local t = support.rank { max_batched_tokens = 64 }
    t:submit(1, 3, 9)
    t:submit(2, 23, 9)
    t:pass()
    t:reset(true)
    local queued = t:state().queued
    assert.same({ 2, 28, 100.0 }, { queued.decode, queued.decode_tokens, queued.decode_variance })
    t:pass()
    queued = t:state().queued
    assert.same({ 0, 0, 0.0 }, { queued.decode, queued.decode_tokens, queued.decode_variance })
  end)
end)
