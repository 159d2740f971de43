--- What a router of one's own is given (spec/lua-api.md §7).
local support = require "tests.spec.lua.support"

local function arguments_of(pick)
  local sim = support.cluster(2)
  sim:router { name = "mine", columns = {}, pick = pick }
  sim:submit { at_ms = 5, prompt_tokens = 8, output_tokens = 2 }
  sim:run()
end

describe("the request of a decision", function()
  it("is given under any name", function()
    local seen
    arguments_of(function(req) seen = req.prompt_tokens return 1 end)
    assert.are.equal(8, seen)
    arguments_of(function(...) seen = (...).id return 1 end)
    assert.are.equal(1, seen)
    arguments_of(function(r) seen = r.arrival_ms return 1 end)
    assert.are.equal(5.0, seen)
  end)

  it("is not made for an argument called _", function()
    local seen = "something"
    arguments_of(function(_, targets, now)
      seen = _
      return targets.n == 2 and now == 5.0 and 1 or nil
    end)
    assert.is_nil(seen)
  end)
end)
