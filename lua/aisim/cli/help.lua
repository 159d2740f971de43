--- aisim help [TOPIC or FILE]: generated from the tables that validate input.
local catalogue = require "aisim.cli.catalogue"
local fault = require "aisim.cli.fault"
local near = require "aisim.near"
local params = require "aisim.params"
local parser = require "aisim.cli.parser"
local scenario = require "aisim.scenario"
local table_of = require "aisim.cli.table"
local terminal = require "aisim.cli.terminal"

local M = {}

local TOPICS <const> = {}

function TOPICS.engine()
  return require("aisim.tables").help("engine")
end

function TOPICS.timing()
  return require("aisim.tables").help("timing") .. [[

In Lua `timing` may also be a table with a function (five aggregates of the pass in, ms out):
  timing = { name = "mine", pure = true,
    pass = function(n_prefill, new_tokens, past_tokens, n_decode, context_tokens) return pass_ms end }
pure = true promises that the result depends on the arguments only: results are kept and used again.
Example: examples/custom_timing.lua

aisim timing FILE tabulates, --explain shows the operations of one pass, --against CSV the error.]]
end

function TOPICS.hooks()
  return [[
sim:on(name, fn, options) calls fn when something becomes visible. The first argument is virtual time
in ms; take as many arguments as you need. The view at the end (req, pass) is valid during the call:
use req:copy() or keep req.id. run.tick needs the option every_ms.

]] .. table_of.text(catalogue.hooks()) .. [[


The last column is the price: run and request hooks keep all fast paths; a pass hook makes the
engine stop at each pass, a token hook at each request of each pass (see aisim check FILE).
Options: batch = n (fn(n, cols)), class =, pool =, rank =, sample =, from_ms =, until_ms =.
Example: examples/hooks.lua]]
end

function TOPICS.router()
  local columns = require("aisim.core").columns()
  return [[
sim:router { policy = "NAME" } takes a built-in policy:

]] .. table_of.text(catalogue.routers(), 2) .. [[


Its options, in Lua beside `policy` and in YAML below `router:` (spec names in front of the meaning):

]] .. require("aisim.tables").help("router") .. [[

sim:router { name =, columns =, pick = function(req, targets, now) … end } takes your own. pick
returns the index of a target, nil (the request waits at the router), or nil and a list of weights to
draw from. targets.n is the number of candidates; each column below is an array targets.COLUMN[i].
Columns named in `columns` are kept up to date; overlaps are computed only if declared or read.

]] .. table.concat(table_of.wrap(table.concat(columns, ", "), 96), "\n") .. "\n\nExample: examples/custom_router.lua"
end

function TOPICS.handoff()
  return [[
Prompts computed by one pool and answered by another:

  sim:pool { role = "prefill", workers = 2, engine = … }
  sim:pool { role = "decode", workers = 4, engine = … }
  sim:handoff { bandwidth_gb_per_second = 50, timing_mode = "destination_missing" }

A request sent to either pool is routed in both at its arrival, prefill first. The decode worker
reserves blocks for the prompt, then the prefill worker computes it with the first token, then the KV
cache is transferred, then the decode worker goes on and the prefill worker lets go. A request that
wants at most one token stays with the prefill pool. The state of a hybrid model travels with the KV
cache. Each pool has its router: sim:router { pool = }.

Keys of sim:handoff, and of kv_transfer in an engine (YAML: engine.kv_transfer, mode: disaggregated):

]] .. require("aisim.tables").help("kv_transfer") .. [[

decide = function(req, overlap_blocks, targets, now) return "local" or "remote" end takes the place
of the last two: local = the decode worker computes the prompt too.

Example: scenarios/disaggregation.lua]]
end

function TOPICS.metrics()
  return [[
Keys of run.metrics, report.json and expectations. A distribution NAME has NAME.n, .mean, .min, .max,
.std and the percentiles .p50 .p75 .p90 .p95 .p99; undefined values are left out of it.

]] .. table_of.text(catalogue.metrics()) .. [[


Own metrics: sim:counter, sim:gauge, sim:hist, sim:ratio, sim:series, sim:derive
(examples/custom_metric.lua)]]
end

local function of_scenario(path)
  local S = scenario.load(path)
  local record = scenario.record(S)
  local out = {}
  local function add(text) out[#out + 1] = text end
  add(("%s  %s"):format(path, S.title or ""))
  for _, item in ipairs { { "Question", S.question }, { "Finding", S.finding } } do
    if item[2] then add(table_of.text { { item[1], item[2] } }) end
  end
  if S.expect_runtime_s then add(("Run time  about %g s"):format(S.expect_runtime_s)) end
  if #record.params > 0 then
    local rows = {}
    for i, param in ipairs(record.params) do rows[i] = M.param_row(param, param.default) end
    add("\nParameters (--set NAME=VALUE)\n" .. table_of.text(rows, 2))
  end
  if #record.expectations > 0 then
    add("\nExpectations")
    for _, expectation in ipairs(record.expectations) do add("  " .. expectation.text) end
  end
  return table.concat(out, "\n")
end

--- One parameter: name, value, range, help.
---@param param aisim.Param
---@param value any
---@param origin? string
---@return string[]
function M.param_row(param, value, origin)
  local range = {}
  if param.min then range[#range + 1] = "≥ " .. params.shown(param.min) end
  if param.max then range[#range + 1] = "≤ " .. params.shown(param.max) end
  if param.integer then range[#range + 1] = "integer" end
  if param.choices then
    local names = {}
    for i, choice in ipairs(param.choices) do names[i] = tostring(choice) end
    range[#range + 1] = table.concat(names, " | ")
  end
  return {
    param.name, params.shown(value) .. (param.unit and " " .. param.unit or ""), table.concat(range, ", "),
    param.help .. (origin and (" [%s]"):format(origin) or ""),
  }
end

---@param args table
---@return integer status
function M.main(args)
  local topic = args.topic
  if not topic then
    terminal.out(parser.help()
      .. "\nTopics of aisim help: engine, router, handoff, hooks, metrics, timing, a verb, a scenario file.")
    return fault.OK
  end
  if TOPICS[topic] then
    terminal.out((TOPICS[topic]():gsub("\n+$", "")))
  elseif topic:find("%.lua$") then
    terminal.out(of_scenario(topic))
  else
    local text = parser.help(topic)
    if not text then
      local names = parser.verb_names()
      for name in pairs(TOPICS) do names[#names + 1] = name end
      table.sort(names)
      local hint = near.hint(topic, names)
      fault.usage("help: unknown topic '%s'%s", topic,
        hint ~= "" and hint or (" (one of %s, or a scenario file)"):format(table.concat(names, ", ")))
    end
    terminal.out(text)
  end
  return fault.OK
end

return M
