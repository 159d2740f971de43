-- luacheck: no max line length (rows of files)
-- Plays as objects of a script: chosen, changed, built, saved (spec/lua-api.md §5, traffic §1, §4.3).
local aisim = require "aisim"
local core = require "aisim.core"

local function requests_of(plays)
  local list = {}
  for play in plays:each() do
    for _, request in ipairs(play.requests) do list[#list + 1] = request end
  end
  return list
end

local function text_of(plays, format)
  local path = os.tmpname()
  plays:save(path, { format = format })
  local file <close> = io.open(path)
  local text = file:read "a"
  os.remove(path)
  return text
end

describe("plays", function()
  local plays = aisim.agentx_synthetic { plays = 12, seed = 3, subagent_play_share = 0.5 }

  it("are the same for the same seed", function()
    assert.equal(text_of(plays), text_of(aisim.agentx_synthetic { plays = 12, seed = 3, subagent_play_share = 0.5 }))
    assert.not_equal(text_of(plays), text_of(aisim.agentx_synthetic { plays = 12, seed = 4, subagent_play_share = 0.5 }))
  end)

  it("come out of map as they went in", function()
    assert.equal(text_of(plays, "agentic_mooncake"), text_of(plays:map(function() end), "agentic_mooncake"))
    assert.equal(text_of(plays), text_of(plays:map(function(play) return play end)))
  end)

  it("lose those for which map returns false", function()
    assert.equal(1, #plays:map(function(play) return play.ordinal == 5 end))
  end)

  it("take other waits", function()
    local slower = plays:map(function(play)
      for _, request in ipairs(play.requests) do
        for _, edge in ipairs(request.after) do edge.delay_ms = edge.delay_ms * 2 end
      end
    end)
    local before, after = requests_of(plays), requests_of(slower)
    for i, request in ipairs(before) do
      for k, edge in ipairs(request.after) do assert.equal(2 * edge.delay_ms, after[i].after[k].delay_ms) end
    end
  end)

  it("are cut together with what waits for the rest", function()
    local short = plays:cut { requests = 4 }
    for play in short:each() do assert.is_true(#play.requests <= 4) end
  end)

  it("are rescaled in time", function()
    local fast, slow = requests_of(plays:rescale { time = 0.5 }), requests_of(plays)
    for i, request in ipairs(slow) do assert.near(request.start_ms / 2, fast[i].start_ms, 1e-6) end
  end)

  it("are merged; equal ids get a number", function()
    local both = plays:merge(plays)
    assert.equal(24, #both)
    assert.equal(both[1].id .. "#2", both[13].id)
  end)

  it("are sampled without changing their order", function()
    local part, last = plays:sample(5, 1), -1
    assert.equal(5, #part)
    for play in part:each() do
      local number = tonumber(play.id:match "%d+$")
      assert.is_true(number > last)
      last = number
    end
  end)

  it("are built from tables", function()
    local built = aisim.plays_of { { id = "a", requests = {
      { input_tokens = 640, output_tokens = 5, hash_runs = { 0, 10 } },
      { input_tokens = 1280, output_tokens = 5, start_ms = 900, hash_runs = { 0, 20 },
        after = { { source = 1, delay_ms = 500 } } },
      { input_tokens = 64, output_tokens = 5, start_ms = 100, conversation = "helper",
        after = { { source = 1, relation = "spawn", trigger = "dispatch" } } },
    } } }
    local play = built[1]
    assert.equal(3, #play.requests)
    assert.equal(100, play.requests[2].start_ms)
    assert.equal("spawn", play.requests[2].after[1].relation)
    assert.same({ 640 + 1280 + 64, 576 + 64 - 64 + 64 }, { core.plays_ideal(built, 64) })
  end)

  it("refuse a circle, and a request that waits for itself", function()
    local function play(source) return { { id = "a", requests = {
      { input_tokens = 1, output_tokens = 1 },
      { input_tokens = 1, output_tokens = 1, start_ms = 1, after = { { source = source } } },
      { input_tokens = 1, output_tokens = 1, start_ms = 2, after = { { source = 2 } } },
    } } } end
    assert.has_error(function() aisim.plays_of(play(3)) end)
    assert.has_error(function() aisim.plays_of(play(2)) end)
  end)

  it("name the parameter that is wrong", function()
    assert.error_matches(function() aisim.agentx_synthetic { windoww = { 1, 2 } } end, "did you mean 'window'")
    assert.error_matches(function() aisim.agentx_synthetic { fresh_share = 2 } end, "fresh_share = 2: must be from 0 to 1")
    assert.error_matches(function() aisim.agentx_synthetic { window = { 5000, 2000 } } end, "low above high")
  end)
end)
