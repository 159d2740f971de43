local near = require "aisim.near"

describe("near names", function()
  it("counts insertions, deletions, substitutions and swaps", function()
    assert.equal(0, near.distance("rate", "rate"))
    assert.equal(1, near.distance("rate", "raet"))
    assert.equal(1, near.distance("rate", "rat"))
    assert.equal(1, near.distance("rate", "crate"))
    assert.equal(1, near.distance("rate", "rite"))
    assert.equal(4, near.distance("", "rate"))
  end)

  it("suggests the nearest of a list or of the keys of a table", function()
    assert.equal("rate", near.name("raet", { "router", "rate" }))
    assert.equal("rate", near.name("raet", { router = 1, rate = 2 }))
    local names = { "max_sequences", "max_batched_tokens" }
    assert.equal(" (did you mean 'max_sequences'?)", near.hint("max_sequnces", names))
  end)

  it("ignores case", function()
    assert.equal("ttft_ms", near.name("TTFT_ms", { "ttft_ms", "itl_ms" }))
  end)

  it("takes a beginning for the shortest name that begins so", function()
    assert.equal("ttft_ms", near.name("ttft", { "ttft_ms_by_class", "ttft_ms", "ttst_ms" }))
    assert.equal("plays", near.name("plays_of_today", { "plays", "play" }))
    assert.is_nil(near.name("tt", { "ttft_ms" }))
  end)

  it("lists what there is when nothing is near and the list is short", function()
    assert.equal(" (keys here: arrivals, output)",
      near.hint_or_names("rate", { output = 1, arrivals = 1 }, "keys here"))
    local many = {}
    for i = 1, 30 do many[i] = "name" .. i end
    assert.equal("", near.hint_or_names("rate", many, "keys here"))
  end)

  it("says nothing rather than something far", function()
    assert.is_nil(near.name("colour", { "rate", "router", "workers" }))
    assert.equal("", near.hint("x", {}))
  end)

  it("does not depend on the order of the names", function()
    assert.equal("aa", near.name("a", { "ab", "aa" }))
    assert.equal("aa", near.name("a", { "aa", "ab" }))
  end)
end)
