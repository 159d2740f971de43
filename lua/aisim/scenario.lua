--- Scenarios: declaration, loading in a strict environment, one run.
-- A scenario *declares* (title, parameters, sweep, expectations) and *builds* (setup). The declaration
-- is checked here, completely and at once, so that check, help and sweep need to run nothing.
-- The module is callable: aisim.scenario { … } gives the scenario table S. S takes only the fields
-- below; S.setpu = … raises instead of being ignored. Invariant: whatever S holds has been checked.
local core = require "aisim.core"
local expect = require "aisim.expect"
local near = require "aisim.near"
local params = require "aisim.params"
local sandbox = require "aisim.sandbox"

local M = {}

---@class aisim.Scenario
---@field title string?
---@field question string?           what the run answers
---@field finding string?            what it is expected to show
---@field expect_runtime_s number?   wall time of one run, for progress and for the reader
---@field seed integer               default 1
---@field params table?              name -> { default, help, min =, max =, integer =, choices =, unit = }
---@field setup fun(sim, p)          cluster, workload, policies, metrics, hooks
---@field report fun(run, p)?        instead of the default table
---@field expect string[]?           "ttft_ms.p99 < 500"
---@field sweep table?
---@field search table?

-- One checker per field: (value, level, record) -> stored value. level: where an error is reported.
local FIELDS <const> = {}

local hidden = setmetatable({}, { __mode = "k" }) -- S -> record

local function kind(name, wanted, check)
  FIELDS[name] = function(value, level)
    if type(value) ~= wanted then
      error(("scenario.%s: %s expected, got %s"):format(name, wanted == "string" and "text" or wanted, type(value)),
        level + 1)
    end
    if check then check(value, level + 1) end
    return value
  end
end

kind("title", "string")
kind("question", "string")
kind("finding", "string")
kind("setup", "function")
kind("report", "function")
kind("expect_runtime_s", "number", function(value, level)
  if not (value > 0 and value < math.huge) then error("scenario.expect_runtime_s: must be > 0", level + 1) end
end)

function FIELDS.seed(value, level)
  local whole = math.tointeger(value)
  if type(value) ~= "number" or not whole or whole < 0 then
    error("scenario.seed: integer ≥ 0 expected", level + 1)
  end
  return whole
end

M.sources = {} -- chunk name -> text: where in it something is declared

--- Where a text is written: its row nearest to the line that declares it.
local function text_place(text, info)
  local number, best = 0, nil
  for row in ((M.sources[info.source] or "") .. "\n"):gmatch("(.-)\n") do
    number = number + 1
    if row:find(text, 1, true)
      and (not best or math.abs(number - info.currentline) < math.abs(best - info.currentline)) then
      best = number
    end
  end
  return ("%s:%d"):format(info.short_src, best or info.currentline)
end

function FIELDS.expect(value, level, record)
  local info = debug.getinfo(level + 1, "Sl")
  record.expectations = expect.list(value, level + 1, function(text) return text_place(text, info) end)
  return value
end

function FIELDS.sweep(value, _, record) return require("aisim.experiment").check_sweep(record, value) end

function FIELDS.search(value, _, record)
  require("aisim.experiment").check_search(record, value)
  return value
end

--- Where a parameter is declared: the first line from the call on that reads "name = ".
local function declaration_line(source, line, name)
  local text = M.sources[source]
  if not text then return line end
  local number = 0
  for row in (text .. "\n"):gmatch("(.-)\n") do
    number = number + 1
    if number >= line and row:find("%f[%w_]" .. name .. "%s*=") then return number end
  end
  return line
end


local function declare(decl, level)
  if type(decl) ~= "table" then
    error(("aisim.scenario: table expected, got %s"):format(type(decl)), level + 1)
  end
  local info = debug.getinfo(level + 1, "Sl")
  local file, line = info.short_src, info.currentline
  local record = { file = file, line = line, values = { seed = 1 }, expectations = {}, by_name = {} }
  record.params = params.declare(decl.params, function(name)
    return ("%s:%d"):format(file, name and declaration_line(info.source, line, name) or line)
  end)
  for _, param in ipairs(record.params) do record.by_name[param.name] = param end
  record.values.params = decl.params or {}

  local S = setmetatable({}, {
    __index = record.values,
    __newindex = function(_, key, value)
      if record.sealed then
        error(("scenario.%s: comes too late, setup is running; assign it before"):format(tostring(key)), 2)
      end
      local field = FIELDS[key]
      if not field then
        if key == "params" then error("scenario.params: declare them inside aisim.scenario { … }", 2) end
        error(("scenario: unknown key '%s'%s"):format(tostring(key), near.hint(tostring(key), FIELDS)), 2)
      end
      if value == nil then record.values[key] = nil return end
      record.values[key] = field(value, 2, record)
    end,
    __name = "aisim.scenario",
  })
  hidden[S] = record
  local keys = {}
  for key in pairs(decl) do
    if key ~= "params" then keys[#keys + 1] = key end
  end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  for _, key in ipairs(keys) do
    local field = FIELDS[key]
    if not field then
      local known = { params = true }
      for name in pairs(FIELDS) do known[name] = true end
      error(("scenario: unknown key '%s'%s"):format(tostring(key), near.hint(tostring(key), known)), level + 1)
    end
    record.values[key] = field(decl[key], level + 1, record)
  end
  return S
end

--- Nothing more may be declared: what a run reads of a scenario it has read.
---@param S any
function M.seal(S) hidden[S].sealed = true end

--- What was declared: { file, line, params (list), expectations (list), values }.
---@param S any
---@return table? record   nil if S is not a scenario
function M.record(S) return hidden[S] end

-- Globals ------------------------------------------------------------------------------------------

--- Names that the function at a level of the stack can see: globals and its locals.
local function visible(level)
  local names = {}
  for name in pairs(_G) do
    if type(name) == "string" then names[name] = true end
  end
  local i = 1
  while true do
    local name = debug.getlocal(level + 1, i)
    if not name then break end
    names[name], i = true, i + 1
  end
  local info = debug.getinfo(level + 1, "f")
  i = 1
  while info do
    local name = debug.getupvalue(info.func, i)
    if not name then break end
    names[name], i = true, i + 1
  end
  return names
end

--- An environment in which a misspelt name raises: reading an undeclared global, or assigning one.
---@param folder string   of the scenario
---@return table
function M.strict_environment(folder)
  local environment = {}
  local globals = sandbox.globals(folder, environment)
  return setmetatable(environment, {
    __metatable = false,
    __index = function(_, name)
      local value = globals[name]
      if value == nil then
        if sandbox.hides(name) then error(("'%s': not in the sandbox (--sandbox)"):format(name), 2) end
        error(("undeclared global '%s'%s"):format(tostring(name), near.hint(tostring(name), visible(2))), 2)
      end
      return value
    end,
    __newindex = function(_, name, value)
      name = tostring(name)
      local hint = near.name(name, visible(2))
      local remedy = hint and ("did you mean '%s'?"):format(hint)
        or (type(value) == "function" and "write 'local function %s'" or "write 'local %s'"):format(name)
      error(("assignment to undeclared global '%s' (%s)"):format(name, remedy), 2)
    end,
  })
end

-- Loading ------------------------------------------------------------------------------------------

local function read(path)
  if path == "-" then return io.read("a"), "stdin" end
  local file, problem = io.open(path, "rb")
  if not file then error(("aisim: cannot open %s%s"):format(problem, near.file(path)), 0) end
  local text, why = file:read("a")
  file:close()
  if not text then error(("aisim: cannot read %s: %s"):format(path, why), 0) end
  return text, path
end

--- Loads a scenario file ("-": standard input).
---@param path string
---@return aisim.Scenario S
function M.load(path)
  local text, name = read(path)
  text = text:gsub("^\xEF\xBB\xBF", ""):gsub("^#[^\n]*", "")
  M.sources["@" .. name] = text
  local folder = name:match("^(.*)/[^/]*$")
  if folder then
    package.path = ("%s/?.lua;%s/?/init.lua;%s"):format(folder, folder, package.path)
  end
  local chunk, problem = load(text, "@" .. name, "t", M.strict_environment(folder or "."))
  if not chunk then error(problem, 0) end
  local S
  do
    local _ <close> = core.call "the scenario file"
    S = chunk()
  end
  if S == nil then
    error(("%s: returns nothing; end it with 'return S' (S = aisim.scenario { … })"):format(name), 0)
  end
  if not hidden[S] then
    error(("%s: returns a %s; return the table that aisim.scenario { … } gave"):format(name, type(S)), 0)
  end
  hidden[S].path = name
  return S
end

--- Raises unless S can be run.
function M.need_setup(S)
  local record = hidden[S]
  if not record.values.setup then
    error(("%s:%d: the scenario has no setup; write 'function S.setup(sim, p) … end'"):format(record.file, record.line),
      0)
  end
end

--- Values of the parameters.
---@param S aisim.Scenario
---@param overrides aisim.Override[]
---@return table p         read-only, for setup and report
---@return table values    plain table
---@return table origins   name -> "--set" where a value is not the default
function M.params(S, overrides)
  local record = hidden[S]
  local values, origins = params.resolve(record.params, overrides or {}, record.path or record.file)
  return params.view(values), values, origins
end

-- No tail calls: the levels of error count these frames.
return setmetatable(M, {
  __call = function(_, decl)
    local S = declare(decl, 2)
    return S
  end,
})
