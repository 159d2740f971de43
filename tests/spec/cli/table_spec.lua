local table_of = require "aisim.cli.table"

local function widest(text)
  local n = 0
  for line in text:gmatch "[^\n]+" do n = math.max(n, utf8.len(line)) end
  return n
end

describe("tables of text", function()
  it("wrap the last column at 100 columns", function()
    local text = table_of.text { { "name", "1", ("word "):rep(40) } }
    assert.is_true(widest(text) <= 100 and widest(text) > 90)
    assert.matches("\n         word", text)
  end)

  it("wrap a column between as well, where it leaves too little for the last", function()
    local choices = { "round_robin", "session", "sibling_group", "prefix", "least_requests", "shortest_queue", "p2c" }
    local rows = { { "router", "'round_robin'", table.concat(choices, " | "), "which worker gets a request" },
      { "n", "1", "≥ 1", "workers" } }
    assert.equal([[
  router  'round_robin'  round_robin | session | sibling_group | prefix  which worker gets a request
                         | least_requests | shortest_queue | p2c
  n       1              ≥ 1                                             workers]], table_of.text(rows, 2))
  end)

  it("cut a word that is longer than its column, by characters", function()
    local text = table_of.text({ { "path", "/" .. ("ä"):rep(150), "a file" } }, 2)
    assert.is_true(widest(text) <= 100)
    assert.equal(150, select(2, text:gsub("ä", "")))
  end)
end)
