--- Agent plays: aisim.plays loads recorded ones, aisim.agentx_synthetic makes some up (spec/traffic.md §1, §4.3).
-- Both give an aisim.Plays, accepted wherever plays= is.
local check = require "aisim.check"
local core = require "aisim.core"
local file_of = require "aisim.file"

local M = {}

local Plays = core.methods["aisim.Plays"]

-- Reading ------------------------------------------------------------------------------------------

local SOURCE <const> = {
  path = { "any" },
  nested_timestamp_basis = { "text", one_of = { "auto", "absolute", "relative" }, default = "auto" },
  align_inputs = { "any", default = false },
}

local function paths_of(where, path)
  if type(path) == "string" then return { path } end
  if type(path) ~= "table" or #path == 0 then
    check.fail("%s: path, or list of paths expected, got %s", where, type(path))
  end
  for i, item in ipairs(path) do
    if type(item) ~= "string" then check.fail("%s[%d]: path expected, got %s", where, i, type(item)) end
  end
  return path
end

M.paths = paths_of

local function align_of(where, value)
  local align = tostring(value)
  if align ~= "false" and align ~= "floor" and align ~= "ceil" then
    check.fail("%s.align_inputs = %s: must be one of false, floor, ceil", where, check.show(value))
  end
  return align
end

--- Loads plays: files, folders, patterns such as "traces/weka-*.jsonl".
---@param source string|string[]|table   paths, or { path =, nested_timestamp_basis =, align_inputs = }
---@return aisim.Plays
function M.load(source)
  local options = { nested_timestamp_basis = "auto", align_inputs = false, path = source }
  if type(source) == "table" and source[1] == nil then
    options = check.options("aisim.plays", source, SOURCE)
    if options.path == nil then check.fail("aisim.plays.path: path expected, got nil") end
  end
  return core.plays(paths_of("aisim.plays", options.path), options.nested_timestamp_basis,
    align_of("aisim.plays", options.align_inputs))
end

-- Making -------------------------------------------------------------------------------------------

local SYNTHETIC <const> = {
  plays = { "integer", min = 1, max = 10000000 },
  seed = { "integer" },
  preset = { "text", one_of = { "042026", "052726", "062126" } },
  block_size = { "integer", min = 1, max = 65536 },
  whole_blocks = { "boolean" },
  api = { "text", one_of = { "lognormal", "linear" } },
  align_inputs = { "any", default = false },
}
for name, n in pairs(core.synthetic_fields()) do
  SYNTHETIC[name] = n == 1 and { "number", finite = true } or {
    "table",
    read = function(value, where)
      if type(value) ~= "table" or #value ~= n then check.fail("%s: list of %d numbers expected", where, n) end
      for i = 1, n do check.value(("%s[%d]"):format(where, i), value[i], { "number", finite = true }) end
      return value
    end,
  }
end

--- Plays drawn after the published statistics of recorded ones (spec/traffic.md §4.3).
---@param options table   { plays = 200, seed = 42, preset = "042026" } and every parameter of a law by its name
---@return aisim.Plays
function M.synthetic(options)
  options = check.options("aisim.agentx_synthetic", options or {}, SYNTHETIC)
  local align = align_of("aisim.agentx_synthetic", options.align_inputs)
  options.align_inputs = nil
  return core.agentx_synthetic(options, align)
end

-- Choosing and changing ----------------------------------------------------------------------------

local function need_function(where, fn)
  if type(fn) ~= "function" then check.fail("%s: function expected, got %s", where, type(fn)) end
end

local function pick(where, plays, numbers)
  if #numbers == 0 then check.fail("%s: no play is left of %d", where, #plays) end
  return core.plays_pick(plays, numbers)
end

--- The plays for which fn(play) is true.
function Plays:filter(fn)
  need_function("plays:filter", fn)
  local numbers = {}
  for i = 1, #self do
    if fn(self[i]) then numbers[#numbers + 1] = i end
  end
  return pick("plays:filter", self, numbers)
end

local COUNT <const> = { "integer", min = 1 }

--- The first n plays, or all.
function Plays:first(n)
  check.value("plays:first", n, COUNT)
  local numbers = {}
  for i = 1, math.min(n, #self) do numbers[i] = i end
  return pick("plays:first", self, numbers)
end

--- n plays chosen at random, in the order of the corpus.
function Plays:sample(n, seed)
  check.value("plays:sample", n, COUNT)
  local rng = core.rng(seed or 42, "plays:sample")
  local numbers = {}
  for i = 1, #self do
    if rng:uniform(0, 1) * (#self - i + 1) < n - #numbers then numbers[#numbers + 1] = i end
  end
  return pick("plays:sample", self, numbers)
end

--- Every play changed by fn(play): what it returns, the play itself when it returns nothing, none for false.
function Plays:map(fn)
  need_function("plays:map", fn)
  local builder = core.play_builder()
  for i = 1, #self do
    local play = self[i]
    local changed = fn(play)
    if changed == nil or changed == true then changed = play end
    if changed ~= false then
      if type(changed) ~= "table" then check.fail("plays:map: play, true or false expected, got %s", type(changed)) end
      builder:add(changed)
    end
  end
  return builder:finish()
end

local CUT <const> = {
  requests = { "integer", min = 1 },
  after_ms = { "ms", above = 0 },
  input_tokens = { "integer", min = 1 },
}

--- Drops requests of a play and everything that would wait for them.
local function cut_play(play, keep)
  local kept, number = {}, {}
  for i, request in ipairs(play.requests) do
    local whole = keep(request, i)
    for _, edge in ipairs(request.after) do whole = whole and number[edge.source] ~= nil end
    if whole then
      kept[#kept + 1] = request
      number[i] = #kept
      for _, edge in ipairs(request.after) do edge.source = number[edge.source] end
    end
  end
  if #kept == 0 then return false end
  play.requests = kept
  return play
end

--- Shorter plays: their first requests, what starts before a time, what has at most so long a prompt.
-- A request goes with those that it waits for. Plays that lose everything are left out.
---@param options table   { requests =, after_ms =, input_tokens = }
function Plays:cut(options)
  local o = check.options("plays:cut", options, CUT)
  if next(o) == nil then check.fail("plays:cut: one of requests, after_ms, input_tokens expected") end
  return self:map(function(play)
    return cut_play(play, function(request, i)
      return i <= (o.requests or math.huge) and request.start_ms < (o.after_ms or math.huge)
        and request.input_tokens <= (o.input_tokens or math.huge)
    end)
  end)
end

local FACTOR <const> = { "number", above = 0, finite = true }
local RESCALE <const> = { time = FACTOR, delay = FACTOR, output = FACTOR }

--- Times (starts, ends, waits), waits alone, or answers, times a factor.
---@param options table   { time = 0.5 }, { delay = 2 }, { output = 1.5 }
function Plays:rescale(options)
  local o = check.options("plays:rescale", options, RESCALE)
  if next(o) == nil then check.fail("plays:rescale: one of time, delay, output expected") end
  local time, delay = o.time or 1, (o.time or 1) * (o.delay or 1)
  return self:map(function(play)
    play.start_ms = play.start_ms * time
    for _, scope in ipairs(play.scopes) do
      scope.marker_ms = scope.marker_ms * time
      scope.duration_ms = scope.duration_ms and scope.duration_ms * time
    end
    for _, request in ipairs(play.requests) do
      request.start_ms, request.end_ms = request.start_ms * time, request.end_ms * time
      request.output_tokens = math.floor(request.output_tokens * (o.output or 1) + 0.5)
      for _, edge in ipairs(request.after) do edge.delay_ms = edge.delay_ms * delay end
    end
  end)
end

--- These plays and, behind them, those of others. Equal ids get a number.
function Plays:merge(...)
  local builder, seen = core.play_builder(), {}
  for n, plays in ipairs { self, ... } do
    if getmetatable(plays) ~= "aisim.Plays" then check.fail("plays:merge: plays expected, got %s", type(plays)) end
    for play in plays:each() do
      if seen[play.id] then play.id = ("%s#%d"):format(play.id, n) end
      seen[play.id] = true
      builder:add(play)
    end
  end
  return builder:finish()
end

--- Plays from tables of the form that plays:each() hands out; most fields may be left out.
---@param list table[]   { { id =, requests = { { input_tokens =, output_tokens =, start_ms =, after = {…} }, … } }, … }
---@return aisim.Plays
function M.build(list)
  if type(list) ~= "table" or #list == 0 then
    check.fail("aisim.plays_of: list of plays expected, got %s", type(list))
  end
  local builder = core.play_builder()
  for i, play in ipairs(list) do
    if type(play) ~= "table" then check.fail("aisim.plays_of[%d]: play expected, got %s", i, type(play)) end
    builder:add(play)
  end
  return builder:finish()
end

-- Writing ------------------------------------------------------------------------------------------

local SAVE <const> = {
  hash_runs = { "boolean", default = false },
  format = { "text", one_of = { "weka", "agentic_mooncake" }, default = "weka" },
}

--- Writes the plays: Weka JSON lines, or agentic_mooncake, which keeps edges that were changed.
---@param path string
---@param options? table   { format = "weka", hash_runs = true }: start,count lists in place of every block id
function Plays:save(path, options)
  if type(path) ~= "string" then check.fail("plays:save: path expected, got %s", type(path)) end
  options = check.options("plays:save", options or {}, SAVE)
  if options.hash_runs and options.format ~= "weka" then check.fail("plays:save.hash_runs: belongs to format weka") end
  core.plays_save(self, file_of.target(path), options.hash_runs, options.format == "agentic_mooncake")
  return self
end

return M
