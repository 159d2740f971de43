--- aisim.json, aisim.csv, aisim.table: readers and writers with places in messages (spec/lua-api.md §3).
local aisim = require "aisim"

local function file(text)
  local path = os.tmpname()
  local out <close> = assert(io.open(path, "wb"))
  out:write(text)
  return path
end

local function read(path)
  local input <close> = assert(io.open(path, "rb"))
  return input:read "a"
end

--- The whole text of an error (luassert cuts places off).
local function message(fn, ...)
  local ok, text = pcall(fn, ...)
  assert.is_false(ok)
  return text
end

describe("aisim.json", function()
  it("reads a file; whole numbers are integers, null is json.null", function()
    local value = aisim.json(file '{"a": 1, "b": [1.5, null, "x"]}')
    assert.same({ a = 1, b = { 1.5, aisim.json.null, "x" } }, value)
    assert.equal("integer", math.type(value.a))
  end)

  it("names line and column of a mistake", function()
    local path = file '{\n  "a": 1,\n  "b": }'
    assert.equal(path .. ":3:8: Expected value but found T_OBJ_END", message(aisim.json, path))
    assert.error_matches(function() aisim.json "/nowhere.json" end, "cannot open /nowhere.json: No such file")
  end)

  it("writes keys in order and numbers that read back as the same", function()
    assert.equal('{"b":1,"a":[0.1,1e+300,null,true]}',
      aisim.json.encode(aisim.json.object { "b", 1, "a", { 0.1, 1e300, 0 / 0, true } }))
    assert.equal('{"a":"x\\ny","b":{"c":2}}', aisim.json.encode { b = { c = 2 }, a = "x\ny" })
    for _, x in ipairs { 1 / 3, 0.1 + 0.2, 2 ^ 53, -1e-7, 12345678.9 } do
      assert.equal(x, tonumber(aisim.json.encode(x)))
    end
    local path = os.tmpname()
    aisim.json.write(path, { 1, { a = {} } })
    assert.equal('[\n  1,\n  {\n    "a": []\n  }\n]\n', read(path))
  end)
end)

describe("aisim.csv", function()
  it("reads rows by the names of the header", function()
    local rows, columns = aisim.csv(file 'name,n,x\n"a ""b"", c",3,\nd,-1.5,7\n')
    assert.same({ "name", "n", "x" }, columns)
    assert.same({ { name = 'a "b", c', n = 3 }, { name = "d", n = -1.5, x = 7 } }, rows)
  end)

  it("names the line of a mistake", function()
    assert.equal("t.csv:3: 1 fields, the header has 2", message(aisim.csv.decode, "a,b\n1,2\n3\n", "t.csv"))
    assert.equal("t.csv:2: a quote is not closed", message(aisim.csv.decode, 'a\n"x\n', "t.csv"))
    assert.equal("t.csv:1: empty; a header line expected", message(aisim.csv.decode, "", "t.csv"))
  end)

  it("reads back what it writes", function()
    local rows = { { a = 0.1, b = "x,y" }, { a = 3, b = 'q"' }, { b = "two\nlines" } }
    local path = os.tmpname()
    aisim.csv.write(path, rows, { "a", "b" })
    assert.equal('a,b\n0.1,"x,y"\n3,"q"""\n,"two\nlines"\n', read(path))
    assert.same(rows, (aisim.csv(path)))
  end)
end)

describe("aisim.table", function()
  it("puts texts to the left and numbers to the right", function()
    assert.equal("name        n  share\nlong one    1   12.5\nb         200      -",
      aisim.table({ { name = "long one", n = 1, share = 12.5 }, { name = "b", n = 200 } }, { "name", "n", "share" }))
    assert.equal("n   part\n1  0.50%",
      aisim.table({ { n = 1, share = 0.5 } }, { "n", { key = "share", title = "part", format = "%.2f%%" } }))
    assert.equal("a      b\nx  1,000", aisim.table { { "a", "b" }, { "x", 1000 } })
  end)

  it("says what is wrong", function()
    assert.error_matches(function() aisim.table({}, { { name = "x" } }) end,
      "aisim.table: columns%[1%]: unknown key 'name'")
  end)
end)

describe("aisim.plot", function()
  it("says what is wrong before it looks for gnuplot", function()
    assert.error_matches(function() aisim.plot { series = {} } end, "aisim.plot.series: at least one series expected")
    assert.error_matches(function() aisim.plot { series = { { points = { { 1 } } } } } end,
      "aisim.plot.series%[1%].points%[1%]: two numbers expected")
    assert.error_matches(function() aisim.plot { sries = {} } end, "unknown key 'sries' %(did you mean 'series'%?%)")
  end)

  it("draws, or says that gnuplot is missing", function()
    local svg, why = aisim.plot { title = "a_b", series = { { name = "x", points = { { 1, 2 }, { 2, 3 } } } } }
    assert.is_true(svg ~= nil and svg:find "<svg" ~= nil or why:find "^gnuplot is not installed" ~= nil)
  end)
end)
