--- Where a prefill of a state-cache model must stop (spec/engine.md §11.2, §11.4; R10).
local support = dofile "tests/spec/engine/support.lua"

--- Tokens of a share: start, prompt, known, desired; blocks of 6, unit 2, 8 tokens per pass.
local function split(start, prompt, known, desired, extra)
  local args = { kind = "fixed", block_size = 6, unit = 2, cap = 8, start = start, prompt = prompt, known = known,
    desired = desired }
  for key, value in pairs(extra or {}) do args[key] = value end
  return support.align_split(args)
end

--- Ends of the passes of one prompt.
local function ends(prompt, b, u, budget, extra)
  local list, at = {}, 0
  while at < prompt do
    local args = { block_size = b, unit = u, cap = budget }
    for key, value in pairs(extra or {}) do args[key] = value end
    local n = split(at, prompt, prompt, math.min(prompt - at, budget), args)
    assert(n > 0, "no progress")
    at = at + n
    list[#list + 1] = at
  end
  return list
end

describe("the split of a prefill", function()
  it("§11.4 ends inside the prompt on a page", function()
    assert.equal(6, split(0, 25, 25, 8))
  end)

  it("§11.4 gives nothing when the share does not reach a page", function()
    assert.equal(0, split(6, 25, 25, 3))
  end)

  it("§11.4 first completes a page that was begun", function()
    assert.equal(2, split(16, 25, 25, 8))
  end)

  it("§11.4 takes the rest of the prompt whatever it is", function()
    assert.equal(6, split(18, 24, 24, 6))
    assert.equal(1, split(24, 25, 25, 1))
  end)

  it("§11.4 leaves decoding alone", function()
    assert.equal(1, split(25, 25, 26, 1))
  end)

  it("§11.4 allows unaligned steps when no pass can hold a page", function()
    assert.equal(4, split(0, 25, 25, 4, { cap = 4 }))
    assert.equal(2, split(4, 25, 25, 4, { cap = 4 }))
  end)

  it("§11.2 stops at the last page a repeat can use and at the tail unit", function()
    assert.same({ 7680, 15360, 23040, 24192, 24300 }, ends(24300, 1536, 128, 8192))
    assert.same({ 6, 12, 16, 17 }, ends(17, 6, 2, 8))
  end)

  it("§11.2 an aligned prompt stops one page before its end", function()
    assert.same({ 12, 16 }, ends(16, 4, 4, 16))
    assert.same({ 16, 17 }, ends(17, 4, 4, 32))
  end)

  it("§11.2 with a drafter one page earlier", function()
    assert.same({ 8, 16 }, ends(16, 4, 4, 32, { drop = true }))
    assert.same({ 12, 17 }, ends(17, 4, 4, 32, { drop = true }))
  end)

  it("R10 legacy stops at the end of an aligned prompt", function()
    assert.same({ 16 }, ends(16, 4, 4, 16, { kind = "legacy" }))
    assert.same({ 16, 18 }, ends(18, 4, 4, 32, { kind = "legacy" }))
  end)

  it("R10 upstream backs off from the end only with a drafter", function()
    assert.same({ 16 }, ends(16, 4, 4, 32, { kind = "upstream" }))
    assert.same({ 12, 16 }, ends(16, 4, 4, 32, { kind = "upstream", drop = true }))
  end)

  it("R10 upstream also stops at a junction (N2)", function()
    assert.equal(8, split(0, 25, 25, 25, { kind = "upstream", block_size = 4, unit = 4, cap = 32, junction = 8 }))
  end)
end)

describe("reuse after the split", function()
  local function repeats(prompt, config)
    local all = { block_size = 4, max_batched_tokens = 64, prefix_match_unit = 4,
      state_cache = { mode = "aligned", blocks = 1 } }
    for key, value in pairs(config or {}) do all[key] = value end
    local t = support.rank(all)
    t:submit(1, support.tokens(prompt), 16)
    t:drain()
    t:submit(2, support.tokens(prompt), 1)
    return t:pass().reused[2]
  end

  it("R10 fixed: an identical prompt of 16 tokens reuses 12; legacy: nothing", function()
    assert.equal(12, repeats(16))
    assert.equal(0, repeats(16, { align_split = "legacy" }))
  end)

  it("N9 with a drafter a repeat reuses one page less", function()
    local drafts = { mtp = { mode = "native", depth = 2, accept = { 1, 1 } } }
    assert.same({ 0, 8, 8, 12 }, { repeats(5, drafts), repeats(14, drafts), repeats(16, drafts), repeats(17, drafts) })
  end)

  it("§11.2 follows the law measured on servers (pages of 2144 tokens)", function()
    local reused = {}
    for i, prompt in ipairs { 3784, 7542, 11292, 15019, 18770 } do
      reused[i] = repeats(prompt, { block_size = 2144, prefix_match_unit = 2144, max_batched_tokens = 8192,
        mtp = { mode = "native", depth = 2, accept = { 1, 1 } } })
    end
    assert.same({ 0, 4288, 8576, 12864, 15008 }, reused)
  end)

  it("R11 chunk_end keeps every aligned end of a chunk", function()
    local t = support.rank { checkpoints = "chunk_end", max_batched_tokens = 8, prefix_match_unit = 4,
      state_cache = { mode = "aligned", blocks = 1 } }
    t:submit(1, support.tokens(21), 1)
    t:drain()
    t:submit(2, support.tokens(9), 1)
    assert.equal(8, t:pass().reused[2])
    local plain = support.rank { max_batched_tokens = 8, prefix_match_unit = 4,
      state_cache = { mode = "aligned", blocks = 1 } }
    plain:submit(1, support.tokens(21), 1)
    plain:drain()
    plain:submit(2, support.tokens(9), 1)
    assert.equal(0, plain:pass().reused[2])
  end)
end)
