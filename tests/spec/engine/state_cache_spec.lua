--- Recurrent states: checkpoints, preservation, restores, capacity, release (spec/engine.md §11).
local support = dofile "tests/spec/engine/support.lua"
local tokens, join = support.tokens, support.join

--- A rank whose model keeps k blocks of state per request.
local function rank(mode, k, config)
  local all = { state_cache = { mode = mode, blocks = k }, max_batched_tokens = 64 }
  for key, value in pairs(config or {}) do all[key] = value end
  return support.rank(all)
end

--- Pages of 6 with a match unit of 2: a prompt of 17 is computed to 6, 12, 16, 17.
local function fine(config)
  local all = { block_size = 6, prefix_match_unit = 2, max_batched_tokens = 11 }
  for key, value in pairs(config or {}) do all[key] = value end
  return rank("aligned", 1, all)
end

describe("a checkpoint", function()
  it("E-S1 is found at its length and nowhere else", function()
    local t = rank("latest", 2)
    t:cache(1, tokens(12))
    t:submit(2, tokens(8), 1)
    assert.equal(0, t:pass().reused[2])
    t:submit(3, tokens(13), 1)
    assert.equal(12, t:pass().reused[3])
  end)

  it("E-S1 with one of its blocks evicted is worth nothing, whatever tokens are there", function()
    for _, evicting in ipairs { false, true } do
      local t = rank("latest", 2, { num_blocks = 12 })
      t:submit(1, tokens(8), 9)
      t:passes(2) -- C = 9: the copy of checkpoint 8 is cached
      if evicting then
        t:submit(2, 15, 1) -- 6 blocks, 5 are free
        assert.same({ { id = nil, index = nil } }, t:pass().evicted)
      end
      t:submit(3, tokens(9), 1)
      assert.equal(evicting and 0 or 8, t:pass().reused[3])
      assert.equal("running", t:request(1).status)
    end
  end)

  it("E-S2 the working state belongs to one request", function()
    local t = rank("latest", 2)
    t:submit(1, 5, 3)
    t:submit(2, 5, 3)
    t:pass()
    assert.same({ 2, 2 }, { t:request(1).state_blocks, t:request(2).state_blocks })
    assert.equal(4 + 4, t:blocks()[1])
  end)

  it("E-S3 needs no extra capacity", function()
    local t = rank("latest", 2, { num_blocks = 4 })
    t:cache(1, tokens(8))
    assert.same({ 0, 4, 0 }, t:blocks()) -- two pages, two blocks of state
  end)

  it("E-S3 is not invented where no decision ended", function()
    local t = rank("latest", 2)
    t:cache(1, tokens(9))
    t:submit(2, tokens(10), 1)
    assert.equal(0, t:pass().reused[2])
  end)

  it("E-S4 is invisible in the pass that writes it", function()
    local t = rank("latest", 2)
    t:submit(1, tokens(8), 9)
    t:submit(2, tokens(9), 9)
    assert.equal(0, t:pass().reused[2])
    t:submit(3, tokens(9), 9)
    assert.equal(8, t:pass().reused[3])
  end)

  it("R12 with same_pass_hit = wait the second request waits for it", function()
    local t = rank("latest", 2, { same_pass_hit = "wait" })
    t:submit(1, tokens(8), 9)
    t:submit(2, tokens(9), 9)
    assert.is_nil(t:pass().reused[2])
    assert.equal(8, t:pass().reused[2])
  end)
end)

describe("before a published state is written again", function()
  it("E-S5 latest: it is copied; the copy is cached when the pass is over", function()
    local t = rank("latest", 2, { num_blocks = 7 })
    t:submit(1, tokens(8), 9)
    t:pass()
    assert.same({ 4, 0, 3 }, t:blocks())
    t:plan()
    assert.same({ 7, 0, 0 }, t:blocks()) -- three pages, working state, the copy held for this pass
    t:complete(0)
  end)

  it("E-S5 latest: at the next checkpoint the older copy goes", function()
    local t = rank("latest", 2)
    t:submit(1, tokens(8), 9)
    t:passes(5) -- C = 12: published again
    t:submit(2, tokens(9), 1)
    assert.equal(0, t:pass().reused[2])
  end)

  it("E-S6 aligned: another page gets another state, the old one is held until the next write", function()
    local t = rank("aligned", 1, { max_batched_tokens = 4 })
    t:submit(1, tokens(8), 9)
    t:pass() -- to 4: published
    assert.same({ 2, 0 }, { t:blocks()[1], t:blocks()[2] })
    t:pass() -- to 8
    assert.same({ 2 + 1 + 1, 0 }, { t:blocks()[1], t:blocks()[2] })
    t:pass() -- to 9: checkpoint 4 is let go, the state of page 1 is held
    assert.same({ 3 + 1 + 1, 1 }, { t:blocks()[1], t:blocks()[2] })
    t:pass() -- to 10: that one had no identity
    assert.same({ 3 + 1, 1 }, { t:blocks()[1], t:blocks()[2] })
  end)

  it("E-S6 aligned: no rotation with caching off", function()
    local t = rank("aligned", 1, { max_batched_tokens = 4, prefix_caching = false })
    t:submit(1, tokens(8), 9)
    t:passes(3)
    assert.same({ 3 + 1, 0 }, { t:blocks()[1], t:blocks()[2] })
  end)

  it("E-S6 aligned: a state published inside its page is copied for the rest of the pass", function()
    local t = fine()
    t:submit(1, tokens(17), 9)
    t:passes(3) -- to 6, 12, 16
    assert.equal(16, t:request(1).computed)
    t:plan() -- to 17, same page
    assert.same({ 3 + 1 + 1, 1 }, { t:blocks()[1], t:blocks()[2] }) -- the copy of 16 is held, 12 is cached
  end)

  it("E-S7 growth and copy fit together or not at all; the checkpoint survives", function()
    local t = rank("latest", 2, { num_blocks = 8 })
    t:submit(9, 3, 1, { hold = true })
    t:submit(1, tokens(8), 9)
    t:pass()
    assert.same({ 7, 0, 1 }, t:blocks())
    assert.same({ 1 }, t:pass().victims) -- one page and a copy of two blocks do not fit
    t:release_source(9)
    assert.equal(8, t:pass().reused[1])
  end)
end)

describe("a hybrid hit", function()
  it("E-S8 is the longest checkpoint below the resident tokens", function()
    local t = rank("latest", 1)
    t:cache(1, tokens(8))
    t:cache(2, tokens(17)) -- tokens to 16, no checkpoint there
    t:submit(3, tokens(20), 1)
    assert.equal(8, t:pass().reused[3])
  end)

  it("E-S8 never reaches the last token", function()
    local t = rank("latest", 1)
    t:cache(1, tokens(12))
    t:submit(2, tokens(12), 1)
    assert.equal(0, t:pass().reused[2])
  end)

  it("E-S8 with a drafter loses one block once, before a checkpoint is searched", function()
    local t = rank("latest", 1, { mtp = { mode = "native", depth = 2, accept = { 1, 1 } } })
    t:cache(1, tokens(8))
    t:cache(2, tokens(21)) -- tokens to 20: bound 16
    t:submit(3, tokens(21), 1)
    assert.equal(8, t:pass().reused[3])
  end)

  it("E-S8 E-S9 finds the tail of a prompt by the match unit", function()
    local t = rank("aligned", 1, { block_size = 1536, prefix_match_unit = 128, max_batched_tokens = 8192 })
    t:cache(1, tokens(24300))
    t:submit(2, tokens(23700), 1)
    t:submit(3, tokens(24300), 1)
    assert.same({ [2] = 23040, [3] = 24192 }, t:pass().reused)
  end)

  it("E-S9 a page that matches in part is copied, not shared", function()
    local t = fine()
    t:cache(1, tokens(17))
    assert.same({ 0, 3 + 2, 95 }, t:blocks()) -- three pages (one in part), checkpoints 12 and 16
    t:submit(2, join(tokens(16), { 900, 901 }), 9)
    assert.equal(16, t:pass().reused[2])
    assert.equal(3, t:request(2).owned)
    t:pass()
    t:pass() -- nothing held any more: two shared pages, its own third and fourth, its state
    assert.equal(4 + 1, t:blocks()[1])
    t:submit(3, join(tokens(16), { 700 }), 1)
    assert.equal(16, t:pass().reused[3]) -- the source is still there
  end)

  it("E-S10 readers of one checkpoint get their own working states", function()
    local t = rank("latest", 2)
    t:cache(1, tokens(8))
    t:submit(2, join(tokens(8), tokens(2, 500)), 9)
    t:submit(3, join(tokens(8), tokens(2, 600)), 9)
    assert.same({ [2] = 8, [3] = 8 }, t:pass().reused)
    t:pass() -- the source is held during the first pass only
    assert.equal(4 + 4, t:blocks()[1])
    assert.same({ 3, 3 }, { t:request(2).owned, t:request(3).owned })
  end)
end)

describe("capacity for states", function()
  it("E-S11 token blocks and k are asked for together", function()
    local t = rank("latest", 2, { block_size = 64, num_blocks = 8, max_batched_tokens = 512 })
    for id = 1, 3 do t:submit(id, 128, 1) end
    local record = t:pass()
    assert.same({ [1] = 128, [2] = 128 }, record.scheduled)
    assert.equal(128, t:pass().scheduled[3])
  end)

  it("E-S11 a restore also pays for an idle source", function()
    for blocks, reused in pairs { [6] = false, [7] = 8 } do
      local t = rank("latest", 1, { num_blocks = blocks })
      t:submit(9, 3, 1, { hold = true }) -- a page and a state
      t:cache(1, tokens(8))
      t:submit(2, tokens(9), 1) -- three pages, a state, the idle source
      assert.equal(reused, t:pass().reused[2] or false)
    end
  end)

  it("E-S11 a source in use is not charged again", function()
    local t = rank("latest", 1, { num_blocks = 7 })
    t:cache(1, tokens(8))
    t:submit(2, join(tokens(8), { 100 }), 1) -- five blocks
    t:submit(3, join(tokens(8), { 200 }), 1) -- one page and one state more
    assert.same({ [2] = 8, [3] = 8 }, t:pass().reused)
  end)

  it("E-S12 a restore that cannot fit even alone is rejected, not computed cold", function()
    local t = rank("latest", 1, { num_blocks = 4 })
    t:cache(1, tokens(4))
    t:submit(2, tokens(9), 1)
    assert.equal("rejected:capacity", t:pass().ended[2])
  end)

  it("E-S13 a running request whose next write cannot fit even alone is rejected", function()
    local t = rank("latest", 1, { num_blocks = 3, prefix_caching = false })
    t:submit(1, 8, 8)
    assert.equal(1, t:pass().tokens[1])
    assert.equal("rejected:capacity", t:pass().ended[1])
  end)

  it("E-S13 counts the copy of a published state", function()
    for blocks, reason in pairs { [6] = "rejected:capacity", [7] = "length" } do
      local t = rank("latest", 2, { num_blocks = blocks })
      t:submit(1, tokens(8), 2)
      t:drain()
      assert.equal(reason, t:request(1).reason)
    end
  end)
end)

describe("the end of a request with a state", function()
  it("E-S14 leaves a published state behind and frees a private one", function()
    local t = rank("latest", 2)
    t:cache(1, tokens(8))
    assert.same({ 0, 2 + 2 }, { t:blocks()[1], t:blocks()[2] })
    local other = rank("latest", 2)
    other:cache(1, tokens(9))
    assert.same({ 0, 2 }, { other:blocks()[1], other:blocks()[2] })
  end)

  --- Request 1 is preempted in a pass that has already computed it further: 2, behind it, needs a
  -- page and a state. `passes`: of request 1 before 2 joins.
  local function preempted(passes, computed, blocks)
    local t = fine { num_blocks = 8, preemption = "fifo", max_batched_tokens = 6 }
    t:submit(1, tokens(17), 9)
    t:passes(passes)
    t:set_budget(12)
    t:submit(2, 6, 9)
    t:pass()
    assert.equal(computed, t:request(1).computed)
    local record = t:pass()
    assert.same({ 1 }, record.victims)
    assert.same({ [2] = 1 }, record.scheduled)
    assert.same(blocks, t:blocks())
    assert.same({}, record.evicted) -- what 2 took was free: no checkpoint, no page had to go
    t:cancel(1)
    t:cancel(2)
    t:submit(3, tokens(17), 1)
    return t:pass().reused[3]
  end

  it("E-S15 a preemption discards the checkpoint of the pass that did not run", function()
    -- in the pass that ran to 16: two pages and checkpoint 12 stay
    assert.equal(12, preempted(1, 12, { 4, 3, 1 }))
  end)

  it("E-S15 a preemption discards a checkpoint that was moved in this pass", function()
    -- in the pass that ran to 17: the page that is known up to 16 stays too
    assert.equal(12, preempted(2, 16, { 4, 4, 0 }))
  end)
end)
