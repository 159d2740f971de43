--- aisim doctor: is everything there that a run needs, one line each, with the remedy.
-- A line is "ok", "note" (something optional is missing) or "FAIL" (exit status 1).
local aisim = require "aisim"
local core = require "aisim.core"
local fault = require "aisim.cli.fault"
local plot = require "aisim.plot"
local render = require "aisim.render"
local terminal = require "aisim.cli.terminal"

local M = {}

local SPEED_S <const> = 2
local HARDWARE <const> = "h200_sxm"

--- Each check: name, function -> state, text, remedy.
local CHECKS <const> = {}

local function check(name, fn) CHECKS[#CHECKS + 1] = { name, fn } end

check("program", function()
  return "ok", ("aisim %s, %s, %s"):format(aisim.version, _VERSION, terminal.host.program() or "path unknown")
end)

check("library", function()
  local folder = os.getenv "AISIM_LUA_PATH"
  if folder and folder ~= "" then
    local file = io.open(folder .. "/aisim/init.lua", "rb")
    if not file then
      return "FAIL", ("AISIM_LUA_PATH=%s holds no aisim/init.lua"):format(folder), "unset AISIM_LUA_PATH"
    end
    file:close()
    return "note", ("read from %s instead of the program"):format(folder), "unset AISIM_LUA_PATH for the built-in one"
  end
  return "ok", ("built in, %d modules"):format(#terminal.host.modules("aisim."))
end)

for _, module in ipairs { { "lfs", "lua-filesystem" }, { "cjson", "lua-cjson" }, { "argparse", "lua-argparse" } } do
  check("module " .. module[1], function()
    local ok, problem = pcall(require, module[1])
    if ok then
      local where = package.searchpath(module[1], package.cpath) or package.searchpath(module[1], package.path)
      return "ok", where or "loaded"
    end
    return "FAIL", tostring(problem):match("^[^\n]*"), "apt-get install " .. module[2]
  end)
end

check("calibration", function()
  local text = require("aisim.catalogue").calibration(HARDWARE)
  if not text then return "FAIL", ("there is none for %s"):format(HARDWARE), "build or install again" end
  return "ok", ("%s, %s bytes, hash %s"):format(HARDWARE, render.count(#text), core.hash(text))
end)

check("models", function()
  local n = #require("aisim.cli.catalogue").models()
  if n == 0 then return "FAIL", "the catalogue is empty", "build or install again" end
  return "ok", ("%d in the catalogue (aisim list models)"):format(n)
end)

check("write access", function()
  local path = (".aisim-doctor-%d"):format(math.random(1, 1 << 30))
  local file, problem = io.open(path, "wb")
  if not file then
    return "note", "this folder cannot be written: " .. problem, "run elsewhere, or give --out a folder of yours"
  end
  file:close()
  os.remove(path)
  return "ok", "this folder can be written"
end)

check("line editing", function()
  if terminal.host.editor then return "ok", "libedit is built in (aisim repl)" end
  return "note", "aisim repl reads plain lines", "apt-get install libedit-dev, then build again"
end)

check("plots", function()
  if plot.available() then return "ok", "gnuplot is there" end
  return "note", "gnuplot is not installed: reports have tables only", "apt-get install gnuplot-nox"
end)

--- A run that depends on nothing but its seed.
local function simulation(until_ms)
  local sim = aisim.new { seed = 7 }
  sim:pool { workers = 2, engine = { model = "llama-3.1-8b" } }
  sim:router { policy = "p2c" }
  sim:workload(aisim.open {
    arrivals = aisim.arrivals.poisson { rate = 8 }, until_ms = until_ms,
    prompt = aisim.dist.lognormal { p50 = 800, p99 = 8000 }, output = aisim.dist.exp { mean = 200 },
    prefix = { groups = 8, tokens = 500, zipf = 1 },
  })
  return sim
end

check("determinism", function()
  local a, b = simulation(60e3):run():json(), simulation(60e3):run():json()
  if a == b then return "ok", ("two equal runs, equal reports, hash %s"):format(core.hash(a)) end
  return "FAIL", "two equal runs gave different reports", "please report it with this program and machine"
end)

check("speed", function()
  local clock = terminal.host.clock
  local started, events, simulated = clock(), 0, 0
  repeat
    local run = simulation(300e3):run()
    events, simulated = events + run.stats.events, simulated + run.metrics.duration_ms
  until clock() - started >= SPEED_S
  local spent = clock() - started
  return "ok", ("%s events per second, %s × real time (two workers of llama-3.1-8b)"):format(
    render.count(events / spent // 1000 * 1000), render.count(simulated / 1000 / spent // 10 * 10))
end)

---@return integer status
function M.main()
  local failed = false
  for _, entry in ipairs(CHECKS) do
    local ok, state, text, remedy = pcall(entry[2])
    if not ok then state, text, remedy = "FAIL", tostring(state):match("^[^\n]*"), "please report it" end
    failed = failed or state == "FAIL"
    terminal.out(("%-5s %-16s %s%s"):format(state, entry[1], text, remedy and (" -> %s"):format(remedy) or ""))
    io.stdout:flush()
  end
  return failed and fault.FAILED or fault.OK
end

return M
