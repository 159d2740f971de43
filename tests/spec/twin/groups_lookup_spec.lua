--- The agreement loop over cache groups and the rules of one group (vllm-facts 17, 39 to 47, 54, 55), on the
--- double of tests/twin/groups_*.lua.
package.path = "tests/twin/?.lua;" .. package.path
local lookup = require "groups_lookup"
local rules = require "groups_rules"

--- Hit length for flags per group ("110": blocks 0 and 1 are findable). @return tokens, junction
local function hit(groups, flags, cap, eagle)
  local checked = rules.groups { groups = groups, eagle = eagle }
  return lookup.agree(checked, function(at, index) return flags[at]:sub(index + 1, index + 1) == "1" end, cap)
end

local function full(block, eagle) return { type = "full", block = block, eagle = eagle } end
local function sliding(block, window, eagle)
  return { type = "sliding", block = block, window = window, eagle = eagle }
end
local function chunked(block, chunk) return { type = "chunked", block = block, chunk = chunk } end
local function state(block, mode, spec) return { type = "mamba", block = block, mode = mode, spec_blocks = spec } end

describe("a dense group", function()
  it("fact 33 serves the run of findable blocks from the start, up to the cap", function()
    assert.equal(8, hit({ full(4) }, { "1101" }, 100))
    assert.equal(4, hit({ full(4) }, { "1111" }, 7))
  end)

  it("fact 39 loses its last matched block to a drafter, after the cap", function()
    assert.equal(8, hit({ full(4) }, { "1111" }, 15, true))
    assert.equal(0, hit({ full(4) }, { "1" }, 15, true))
  end)
end)

describe("a sliding window", function()
  it("fact 43 needs adjacent blocks that cover all of the window but one token", function()
    assert.equal(16, hit({ sliding(4, 9) }, { "0011" }, 16))
    assert.equal(0, hit({ sliding(4, 10) }, { "0011" }, 16))
  end)

  it("fact 43 takes the rightmost run that is long enough", function()
    assert.equal(12, hit({ sliding(4, 8) }, { "1110100" }, 28))
  end)

  it("fact 43 takes a run at the very start although it is too short", function()
    assert.equal(4, hit({ sliding(4, 12) }, { "1011" }, 16))
  end)

  it("N11 may look one block past the length, needs one block more and drops it for a drafter", function()
    -- the dense group says 12; the block at 12 to 16 is what the drafter loses
    assert.equal(12, hit({ full(4), sliding(4, 8, true) }, { "1110", "0111" }, 20))
    assert.equal(0, hit({ full(4), sliding(4, 8, true) }, { "1110", "0110" }, 20))
  end)

  it("N11 never looks past the cap", function()
    assert.equal(0, hit({ full(4), sliding(4, 4, true) }, { "111", "0011" }, 14))
    assert.equal(12, hit({ full(4), sliding(4, 4, true) }, { "111", "0011" }, 16))
  end)

  it("fact 41 ends a run only where the common multiple allows a hit", function()
    assert.equal(8, hit({ full(8), sliding(4, 4) }, { "11", "0110" }, 20))
    assert.equal(0, hit({ full(8), sliding(4, 4) }, { "11", "1010" }, 20))
  end)

  it("a window of one token still ends at a block that is there", function()
    assert.equal(8, hit({ sliding(4, 1) }, { "010" }, 12))
  end)
end)

describe("chunked local attention", function()
  it("fact 45 counts what lies before the current chunk without looking", function()
    assert.equal(16, hit({ chunked(4, 8) }, { "0000" }, 16))
    assert.equal(8, hit({ chunked(4, 8) }, { "1100" }, 15))
    assert.equal(12, hit({ chunked(4, 8) }, { "0010" }, 15))
  end)

  it("looks again where another group ends the hit inside an earlier chunk", function()
    assert.equal(8, hit({ full(4), chunked(4, 8) }, { "111", "0000" }, 16))
    assert.equal(12, hit({ full(4), chunked(4, 8) }, { "111", "0010" }, 16))
  end)
end)

describe("a state group", function()
  it("fact 54 needs the state at the end of the hit and nothing else", function()
    assert.equal(12, hit({ full(4), state(4, "align") }, { "1111", "0010" }, 20))
  end)

  it("fact 54 backs off with the dense group of a drafter, not once more", function()
    assert.equal(12, hit({ full(4), state(4, "align") }, { "1111", "0010" }, 20, true))
  end)

  it("fact 39 loses its last block to a drafter when it stands alone", function()
    assert.equal(8, hit({ state(4) }, { "111" }, 12, true))
  end)

  it("fact 41 is found only at multiples of the common multiple", function()
    assert.equal(8, hit({ full(8), state(4) }, { "11", "0110" }, 20))
  end)

  it("fact 55 leaves a junction where dense blocks match further than the state", function()
    local tokens, junction = hit({ full(4), state(4, "align") }, { "1110", "1000" }, 20)
    assert.same({ 4, 12 }, { tokens, junction })
    tokens, junction = hit({ full(4), state(4, "align") }, { "1110", "0010" }, 20)
    assert.same({ 12, 0 }, { tokens, junction })
  end)

  it("fact 55 knows no junction without a state group", function()
    local _, junction = hit({ full(4), sliding(4, 8) }, { "1110", "1000" }, 20)
    assert.equal(0, junction)
  end)
end)

describe("the agreement loop", function()
  it("fact 41 shortens until every group agrees", function()
    assert.equal(4, hit({ sliding(4, 8), sliding(4, 12) }, { "1011", "1101" }, 16))
    assert.equal(16, hit({ sliding(4, 8), sliding(4, 8), full(4) }, { "0011", "1111", "1111" }, 16))
  end)

  it("fact 42 gives no hit without agreement", function()
    assert.equal(0, hit({ full(4), sliding(4, 8) }, { "110", "011" }, 13))
  end)

  it("loses one block, not one per group, when dense groups share a drafter", function()
    assert.equal(12, hit({ full(4), full(4), sliding(4, 8) }, { "1111", "1111", "1111" }, 16, true))
  end)

  --- May a hit of that length be, by the definition of each group? `n` findable flags, drafter included.
  local function allowed(group, present, length, cap)
    if length == 0 then return true end
    local past = group.eagle and group.block or 0
    if length + past > cap then return false end
    local ends = (length + past) // group.block
    local first = 0
    if group.type == "sliding" then first = math.max(0, length // group.block - rules.window_blocks(group)) end
    if group.type == "chunked" then first = length // group.chunk * group.chunk // group.block end
    if group.type == "mamba" then return present(length // group.block - 1) end
    for index = first, ends - 1 do
      if not present(index) then return false end
    end
    return true
  end

  it("finds the longest length that every group allows (property, seed 7)", function()
    math.randomseed(7)
    local sizes = { 2, 4, 8 }
    for round = 1, 3000 do
      local groups, flags = {}, {}
      for at = 1, math.random(4) do
        local block, kind = sizes[math.random(3)], math.random(4)
        groups[at] = kind == 1 and full(block, math.random(3) == 1)
          or kind == 2 and sliding(block, math.random(20), math.random(3) == 1)
          or kind == 3 and chunked(block, 8) or state(block)
        local text = {}
        for i = 1, 64 // block do text[i] = math.random(8) > 1 and "1" or "0" end
        flags[at] = table.concat(text)
      end
      local cap = math.random(0, 60)
      local checked = rules.groups { groups = groups }
      local have = hit(groups, flags, cap)
      local want = 0
      for length = 0, cap, checked.multiple do
        local fine = true
        for at, group in ipairs(checked) do
          fine = fine and allowed(group, function(i) return flags[at]:sub(i + 1, i + 1) == "1" end, length, cap)
        end
        want = fine and length or want
      end
      assert.equal(want, have, ("round %d"):format(round))
    end
  end)
end)

describe("what lies behind", function()
  local function behind(group, computed)
    local one = rules.groups({ groups = { group } })[1]
    return { rules.skipped_tokens(one, computed), rules.dropped_blocks(one, computed) }
  end

  it("fact 44 a window: tokens before computed - window + 1, whole blocks only", function()
    assert.same({ 0, 0 }, behind(sliding(2, 6), 5))
    assert.same({ 1, 0 }, behind(sliding(2, 6), 6))
    assert.same({ 6, 3 }, behind(sliding(2, 6), 11))
  end)

  it("fact 45 a chunk: everything before the current chunk", function()
    assert.same({ 8, 2 }, behind(chunked(4, 8), 15))
    assert.same({ 16, 4 }, behind(chunked(4, 8), 16))
  end)

  it("fact 50 a state: all but the last token, less the drafts in flight", function()
    assert.same({ 8, 2 }, behind(state(4, "align"), 9))
    assert.same({ 6, 1 }, behind(state(4, "align", 2), 9))
  end)

  it("nothing in a dense group", function()
    assert.same({ 0, 0 }, behind(full(4), 1000))
  end)
end)

describe("registration", function()
  local function registered(config, tokens, prompt, junction)
    local groups, list = rules.groups(config), {}
    for at, group in ipairs(groups) do
      list[at] = {}
      for index = 0, tokens // group.block do
        local state_at = { tokens = tokens, prompt = prompt or tokens, junction = junction, multiple = groups.multiple }
        if rules.registers(group, index, state_at) then table.insert(list[at], index) end
      end
    end
    return list
  end

  it("fact 46 floors tokens to the common multiple and keeps the tail of a window", function()
    assert.same({ { 0, 1 }, { 2, 3, 6, 7 } }, registered({ groups = { full(16), sliding(4, 6) } }, 47))
  end)

  it("fact 46 keeps the block past the boundary for a drafter's window", function()
    assert.same({ { 0 }, { 3, 4 } }, registered({ groups = { full(16), sliding(4, 4, true) } }, 20))
    assert.same({ { 0 }, { 3 } }, registered({ groups = { full(16), sliding(4, 4, true) } }, 19))
  end)

  it("fact 46 keeps of states the ones at which a hit may end", function()
    assert.same({ { 0, 1 }, { 3, 7 } }, registered({ groups = { full(16), state(4) } }, 40))
  end)

  it("fact 47 keeps with sparse retention every so many tokens and the replay boundary", function()
    local config = { groups = { full(32), sliding(8, 8) }, retention = 64 }
    assert.same({ 7, 11, 15 }, registered(config, 128)[2])
    config.retention = 0
    assert.same({ 11 }, registered(config, 128)[2])
    assert.same({ 3, 11 }, registered(config, 128, 128, 32)[2]) -- and the junction
  end)

  it("fact 47 refuses an interval that is no multiple of the common multiple", function()
    assert.has_error(function() rules.groups { groups = { full(32), sliding(8, 8) }, retention = 40 } end,
      "retention 40: want a multiple of 32 tokens, or 0")
  end)
end)

describe("the configuration of groups", function()
  it("refuses what it does not know", function()
    assert.has_error(function() rules.groups { groups = { { type = "full", block = 4, window = 8 } } } end,
      "groups[1]: unknown key 'window' of a full group")
    assert.has_error(function() rules.groups { groups = { full(4), { type = "sliding", block = 4 } } } end,
      "groups[2].window: want a positive integer, have nil")
    assert.has_error(function() rules.groups { groups = { { type = "cross", block = 4 } } } end,
      "groups[1]: unknown type 'cross'")
    assert.has_error(function() rules.groups { groups = { state(4, "all") } } end, "groups[1]: unknown mode 'all'")
  end)

  it("N11 marks all groups when the drafter marks none", function()
    local groups = rules.groups { groups = { full(4), sliding(6, 8) }, eagle = true }
    assert.same({ true, true, 12, 2 }, { groups[1].eagle, groups[2].eagle, groups.multiple, groups.unit })
    groups = rules.groups { groups = { full(4), sliding(4, 8, true) }, eagle = true }
    assert.same({ false, true }, { groups[1].eagle, groups[2].eagle })
  end)
end)

describe("blocks of one request", function()
  local function blocks(group, max_model_len, budget)
    return rules.blocks_per_request(rules.groups({ groups = { group } })[1], max_model_len, budget)
  end

  it("fact 17 bounds a window by the window and the tokens of one step", function()
    assert.equal(5, blocks(sliding(4, 8), 1000, 8)) -- 7 + 8 tokens are 4 blocks, one more for the offset
    assert.equal(3, blocks(sliding(4, 8), 8, 100)) -- the model length bounds both
  end)

  it("fact 50 holds one running state, one per draft and the one before", function()
    assert.equal(5, blocks(state(4, "align", 3), 1000, 8))
  end)

  it("needs all of a dense group, and of a chunk what a step covers", function()
    assert.equal(25, blocks(full(4), 99, 8))
    assert.equal(4, blocks(chunked(4, 8), 1000, 8))
  end)
end)
