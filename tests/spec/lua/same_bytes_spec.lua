--- One scenario, one report: through the program, through this interpreter, and twice in one process.
local aisim = require "aisim"
local core = require "aisim.core"
local scenario = require "aisim.scenario"

local program = os.getenv "AISIM"

--- What `aisim run FILE --set …` does, without the program.
local function report_here(file, set)
  local overrides = {}
  for key, value in pairs(set) do overrides[#overrides + 1] = { key = key, value = value, flag = key } end
  core.seed_math(1)
  local S = scenario.load(file)
  local p = scenario.params(S, overrides)
  local sim = aisim.new { seed = S.seed, name = S.title or file }
  S.setup(sim, p)
  local run = sim:run()
  local path = os.tmpname()
  run:json(path)
  local handle <close> = assert(io.open(path, "rb"))
  os.remove(path)
  return handle:read "a"
end

local function report_of_program(file, set)
  local folder = os.tmpname()
  os.remove(folder)
  local command = ("'%s' run %s --quiet --out %s"):format(program, file, folder)
  for key, value in pairs(set) do command = ("%s --set %s=%s"):format(command, key, value) end
  assert(os.execute(command .. " >/dev/null 2>&1"), command)
  local handle <close> = assert(io.open(folder .. "/report.json", "rb"))
  os.execute("rm -rf " .. folder)
  return handle:read "a"
end

describe("the report of", function()
  for _, case in ipairs {
    { "scenarios/agentx.lua", { lanes = "4", duration_s = "60", synthetic_plays = "20" } }, -- a Lua router
    { "examples/agent_sessions.lua", {} }, -- coroutines
    { "examples/custom_timing.lua", {} },
    { "examples/custom_metric.lua", {} },
  } do
    local file, set = case[1], case[2]
    it(file .. " is the same bytes everywhere", function()
      local first = report_here(file, set)
      assert.is_true(#first > 1000)
      assert.are.equal(first, report_here(file, set))
      assert.are.equal(first, report_of_program(file, set))
    end)
  end
end)
