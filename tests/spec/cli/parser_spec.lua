-- The command line: what is built for which arguments (the messages are in tests/cli/transcripts).
package.preload["aisim.host"] = package.preload["aisim.host"] or function()
  return setmetatable({}, { __index = function() return function() end end }) -- of the program only
end
local parser = require "aisim.cli.parser"

describe("command line parser", function()
  local built, originals

  before_each(function()
    built, originals = {}, {}
    for i, verb in ipairs(parser.VERBS) do
      originals[i] = verb.build
      verb.build = function(command)
        built[#built + 1] = verb.name
        return originals[i](command)
      end
    end
  end)

  after_each(function()
    for i, verb in ipairs(parser.VERBS) do verb.build = originals[i] end
  end)

  it("fills in the flags of the verb that is meant, and of no other", function()
    local args = parser.parse { "run", "a.lua", "--seed", "7" }
    assert.same({ "run", "a.lua", "7" }, { args.verb, args.file, args.seed })
    assert.same({ "run" }, built)
  end)

  it("fills in all of them for the completions of a shell", function()
    parser.completion("bash")
    assert.equal(#parser.VERBS, #built)
  end)
end)
