--- The driver of vectors with several cache groups (tests/twin/drive_groups.lua): what it does not know is a
--- difference, and so is every expectation that does not hold. Draft statistics (facts 61, 65).
package.path = "tests/twin/?.lua;" .. package.path
local drivers = assert(loadfile "tests/twin/drive_groups.lua")()

local function kv(change)
  local vector = { config = { blocks = 9, groups = { { type = "full", block = 4 } } },
    requests = { a = { prompt = { { fill = 1, n = 9 } } } },
    steps = { { op = "alloc", req = "a", new = 9, expect = { num_new = { 3 } } } } }
  change(vector)
  return drivers.kv(vector)
end

describe("a vector of several groups", function()
  it("passes when everything is as expected, whole numbers given as 4.0 included", function()
    assert.is_nil(kv(function(v) v.config.groups[1].block = 4.0 end))
  end)

  it("differs where an expectation does not hold or names what is not observed", function()
    assert.equal("step 1 (alloc).num_new[1]: want 2, have 3", kv(function(v) v.steps[1].expect.num_new = { 2 } end))
    assert.equal("step 1 (alloc).colour: want 1, have nil", kv(function(v) v.steps[1].expect.colour = 1 end))
  end)

  it("is refused with a key or an op that is not known", function()
    assert.equal("unknown config key 'watermark'", kv(function(v) v.config.watermark = 0.1 end))
    assert.equal("unknown request key 'colour'", kv(function(v) v.requests.a.colour = 1 end))
    assert.equal("unknown key of alloc 'colour'", kv(function(v) v.steps[1].colour = 1 end))
    assert.equal("unknown op 'evict'", kv(function(v) v.steps[1].op = "evict" end))
    assert.equal("unknown request 'b'", kv(function(v) v.steps[1].req = "b" end))
  end)
end)

describe("draft statistics of a step", function()
  local function spec(drafts, emitted, expect, config)
    return drivers.spec { config = config or {}, cases = { { drafts = drafts, emitted = emitted, expect = expect } } }
  end

  it("fact 61 count emitted tokens but one as accepted, by position", function()
    assert.is_nil(spec({ { 1, 2, 3 }, { 4, 5, 6 } }, { { 1, 2, 7 }, { 4, 8 } },
      { drafts = 2, draft_tokens = 6, accepted = 3, per_position = { 2, 1, 0 }, verify_tokens = 8 }))
  end)

  it("fact 65 leave out a row without drafts and one without output", function()
    assert.is_nil(spec({ {}, { 1, 2 }, { 3, 4 } }, { { 9 }, {}, { 8 } },
      { drafts = 1, draft_tokens = 2, accepted = 0, per_position = { 0, 0 }, verify_tokens = 7 }))
  end)
end)
