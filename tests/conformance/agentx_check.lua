--- Compares agentx_driver, weka_cut and weka_dump with the vectors of traffic 1 and 2.
--
--     lua5.4 tests/conformance/agentx_check.lua TOOLS_DIR SHARED_DIR
--
-- TOOLS_DIR holds the three programs, SHARED_DIR vectors/ and data/. One line per vector,
-- `ok|FAIL file name`, the first difference after a FAIL; the last line counts. Without
-- SHARED_DIR/vectors the check says so and ends with success.
local cjson = require "cjson"

local tools <const>, shared <const> = arg[1], arg[2]
assert(tools and shared, "usage: agentx_check.lua TOOLS_DIR SHARED_DIR")
local passed, failed = 0, 0

local function read(path)
  local file = io.open(path, "rb")
  if not file then return nil end
  local text = file:read "a"
  file:close()
  return text
end

local function quote(text)
  return "'" .. text:gsub("'", "'\\''") .. "'"
end

--- Runs a tool and decodes its JSON lines.
local function lines_of(command)
  local pipe = assert(io.popen(command, "r"))
  local list = {}
  for line in pipe:lines() do list[#list + 1] = cjson.decode(line) end
  assert(pipe:close(), "command failed: " .. command)
  return list
end

local function show(value)
  if type(value) ~= "table" then return tostring(value) end
  return cjson.encode(value)
end

--- First difference between what is expected and what was found, or nil. Objects are compared on
-- the expected keys, lists exactly; times within 1e-6 ms, rates within 1e-9 of their value.
local function difference(expected, found, path)
  if type(expected) == "number" and type(found) == "number" then
    local bound = path:find("rps", 1, true) and 1e-9 * math.abs(expected) or 1.001e-6
    if math.abs(expected - found) <= bound then return nil end
  elseif type(expected) == "table" and type(found) == "table" then
    if #expected ~= #found then
      return ("%s: %d entries expected, %d found"):format(path, #expected, #found)
    end
    local keys = {}
    for key in pairs(expected) do keys[#keys + 1] = key end
    table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
    if type(keys[1]) == "number" then table.sort(keys) end
    for _, key in ipairs(keys) do
      local where = difference(expected[key], found[key], path .. "." .. tostring(key))
      if where then return where end
    end
    return nil
  elseif expected == found then
    return nil
  end
  return ("%s: expected %s, found %s"):format(path, show(expected), show(found))
end

local function verdict(file, name, problem)
  if problem then failed = failed + 1 else passed = passed + 1 end
  print(("%-4s  %s  %s%s"):format(problem and "FAIL" or "ok", file, name,
                                 problem and "\n      " .. problem or ""))
end

local function as_set(list)
  local keyed = {}
  for i, row in ipairs(list) do
    keyed[i] = cjson.encode { row[1], row[2], row[3], row[4] + 0.0, row[5] }
  end
  table.sort(keyed)
  return keyed
end

local KNOWN <const> = { dispatch = true, phases = true, counts = true, observation = true, shifts = true,
  plays = true, shared_blocks = true, edges = true, failed = true, refused = true, error_mentions = true }

local function check_vector(vector, got)
  local expect = vector.expect
  for key in pairs(expect) do
    if not KNOWN[key] then return "unknown expected key " .. key end
  end
  if not got then return "the driver printed nothing" end
  if expect.refused then
    if not got.refused then return "expected a refusal" end
    for _, word in ipairs(expect.error_mentions or {}) do
      if not got.error:find(word, 1, true) then
        return ("the message does not mention %q: %s"):format(word, got.error)
      end
    end
    return nil
  end
  if got.refused then return "refused: " .. got.error end
  for _, key in ipairs { "failed", "dispatch", "phases", "shifts", "plays", "counts", "observation",
    "shared_blocks" } do
    if expect[key] ~= nil then
      local problem = difference(expect[key], got[key], key)
      if problem then return problem end
    end
  end
  for id, edges in pairs(expect.edges or {}) do
    local problem = difference(as_set(edges), as_set(got.edges[id] or {}), "edges " .. id)
    if problem then return problem end
  end
  return nil
end

local function check_replay(path)
  local file = cjson.decode(assert(read(path)))
  local by_name = {}
  for _, line in ipairs(lines_of(quote(tools .. "/agentx_driver") .. " " .. quote(path))) do
    by_name[line.name] = line
  end
  for _, vector in ipairs(file.vectors) do
    local problem = vector.kind == "agentx" and check_vector(vector, by_name[vector.name])
      or vector.kind ~= "agentx" and "unknown kind " .. tostring(vector.kind) or nil
    verdict("agentx_replay.json", vector.name, problem)
  end
end

local function sorted(list, key)
  local copy = table.move(list, 1, #list, 1, {})
  table.sort(copy, function(a, b)
    if key and a[key] ~= b[key] then return a[key] < b[key] end
    return a.id < b.id
  end)
  return copy
end

local function check_cuts(path)
  local file = cjson.decode(assert(read(path)))
  local got = {}
  for _, line in ipairs(lines_of(quote(tools .. "/weka_cut") .. " "
      .. quote(shared .. "/data/traces/weka/weka-16plays.jsonl"))) do
    got[("%s %g"):format(line.id, line.fraction)] = line
  end
  for _, case in ipairs(file.cases) do
    local name = ("%s %g"):format(case.id, case.fraction)
    local found = got[name]
    local problem = not found and "no such cut" or nil
    if found then
      found.primers = sorted(found.primers)
      case.primers = sorted(case.primers)
      found.initially_free = table.move(sorted(found.initially_free, "delay_ms"), 1, 6, 1, {})
      case.initially_free = sorted(case.initially_free, "delay_ms")
      found.file = case.file
      problem = difference(case, found, "cut")
    end
    verdict("weka_snapshot.json", name, problem)
  end
end

local function check_lowering()
  local weka = shared .. "/data/traces/weka/"
  local expect = cjson.decode(assert(read(shared .. "/vectors/weka_lowering.json")))
  local got = lines_of(quote(tools .. "/weka_dump") .. " " .. quote(weka .. "weka-16plays.jsonl"))
  local total = table.remove(got)
  for i, play in ipairs(expect.plays) do
    play.join_conflicts = nil
    verdict("weka_lowering.json", play.id, difference(play, got[i], "play"))
  end
  verdict("weka_lowering.json", "total", difference(expect.total, total, "total"))
  verdict("weka_lowering.json", "basis", difference(expect.resolved_basis, total.resolved_basis, "basis"))
end

local function check_corpus()
  local weka = shared .. "/data/traces/weka/weka-corpus-runs-"
  local got = lines_of(quote(tools .. "/weka_dump") .. " " .. quote(weka .. "1.jsonl") .. " "
    .. quote(weka .. "2.jsonl") .. " " .. quote(weka .. "3.jsonl"))
  local total = table.remove(got)
  local by_id, header, rows, problem = {}, nil, 0, nil
  for _, play in ipairs(got) do by_id[play.id] = play end
  for line in io.lines(shared .. "/vectors/weka_lowering_all.csv") do
    local cells = {}
    for cell in line:gmatch "[^,]+" do cells[#cells + 1] = cell end
    if header then
      rows = rows + 1
      local play = by_id[cells[1]] or {}
      for i = 2, #header do
        if header[i] ~= "join_conflicts" and play[header[i]] ~= tonumber(cells[i]) then
          problem = problem or ("%s: %s expected %s, found %s"):format(cells[1], header[i], cells[i],
            tostring(play[header[i]]))
        end
      end
    else
      header = cells
    end
  end
  verdict("weka_lowering_all.csv", rows .. " rows", problem)
  local figures = ("%d of %d"):format(total.ideal_reused_tokens, total.input_tokens)
  verdict("traffic.md 4.2", "ideal reuse " .. figures,
    figures ~= "5815020032 of 6037445403" and "expected 5815020032 of 6037445403" or nil)
end

if not read(shared .. "/vectors/agentx_replay.json") then
  print("skip  the vectors are not here: " .. shared .. "/vectors")
  os.exit(0)
end
check_lowering()
check_corpus()
check_cuts(shared .. "/vectors/weka_snapshot.json")
check_replay(shared .. "/vectors/agentx_replay.json")
print(("%d passed, %d failed"):format(passed, failed))
os.exit(failed == 0)
