--- aisim help [TOPIC or FILE]: generated from the tables that validate input.
local api = require "aisim.cli.api"
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
transfer = function(kind, bytes, src, dst) in it: ms of a copy to or from host memory (offload,
restore) and, in a prefill pool, of a hand-off, instead of the bandwidth.
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
Fields of req and pass: aisim help Request, aisim help Pass.
Examples: examples/hooks.lua, examples/failure_injection.lua]]
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
draw from. An argument called _ is not made, which saves its time. targets.n is the number of
candidates; each column below is an array targets.COLUMN[i].
Columns named in `columns` are kept up to date; overlaps are computed only if declared or read.

  filter      function(req, targets, out), or a list of them: out[i] = false drops candidate i
  score       function(req, targets, out), or { policy =, weight = }, or a list of both: costs are
              summed, the smallest is chosen; with pick they are targets.cost[i]
  wrap        built-ins that pick may ask: options, aisim.router.NAME{…}, or a list of them; pick
              gets a fourth argument that asks the first: inner() is what it would choose
  affinity    as in YAML: keeps the column `bound`
  delay_ms    a request is decided about so much later; in a hand-off each router has its own
  regret      true records residency on the chosen and on the best target of each decision
  init(pool, cfg)  on_dispatch, on_first_token(req, target, now)  on_done(req, target, status, now)
  on_kv_stored, on_kv_removed(target, blocks, tier, now): tier device, host, shared
  on_worker_up, on_worker_drain, on_worker_down(target)  on_tick(now) every tick_ms

Built-ins inside pick: local kv = aisim.router.kv { temperature = 0.5 } before the run, then
kv:pick(req, targets, now) is what it would choose, index or nil. It keeps books of its own from the
router's first decision on; name it in wrap to ask it only in later ones. Their pieces:

  aisim.kv_cost(req, targets[i], weights)   cost of the kv router, smaller is better
  aisim.softmax_pick(costs, T)              index, drawn as the kv router draws
  aisim.hash(key)  aisim.hash(key, worker, rank)   key and rendezvous weight of policy hash

]] .. table.concat(table_of.wrap(table.concat(columns, ", "), 96), "\n") .. [[


req is the request to place, valid during the call:

]] .. table.concat(table_of.wrap(api.fields "Request", 96), "\n") .. [[


Draw from a stream of its own: local rng = sim:rng "my_router" in setup, then rng:random(n) in pick.
Start from: aisim new router NAME, then aisim sweep NAME.lua.
Examples: examples/custom_router.lua, examples/wrap_router.lua]]
end

function TOPICS.traffic()
  return [[
sim:workload(aisim.KIND { … }) adds traffic; several workloads may run side by side.

  open               single requests at arrivals
  closed             users that ask, wait, think, and ask again
  synthetic_session  sessions of several turns: each prompt is the conversation so far and new input
  agent              system prompt, task, then steps of answer and tool result, with compaction
  agentic_code       layers of shared context, a growing history, resets and restarts
  trace              a file of recorded requests (aisim trace FILE looks at it)
  agentx             recorded or synthetic agent plays in lanes
  sim:sessions { body = function(s) … end }    sessions as coroutines

When units start is one of
  arrivals = aisim.arrivals.X   poisson, gamma, weibull, constant_rate, burst, all_at_once, trace,
                                schedule, ramp, square, sine; or function(now_ms, rng)
  concurrency = n               in flight (closed: users); or a line { { 0, 1 }, { 60, 8 } } of
                                { seconds, number }
  users = n, think_ms = t       each sends its next turn t after its previous answer
  kv_capacity_fraction = f      so many in flight that they fill this part of the KV cache
It ends at until_ms, requests, sessions, tokens, requests_per_load_unit or sessions_per_load_unit,
whichever comes first. warmup = { requests = n } or { seconds = s } comes before and is not measured;
with barrier = true the rest waits until it has ended. agentx prepares in its own way (warmup = true
or false) and has a duration (profile); of these rules it takes until_ms, requests, sessions = plays.
Lengths, times and numbers of turns may be distributions: aisim.dist.X (aisim list distributions).

The same in YAML:

]] .. require("aisim.tables").help("traffic") .. [[

In the place of a number marked "or a distribution": {lognormal: {p50: 800, p99: 8000}} and others,
with the names of aisim.dist.

]] .. require("aisim.tables").help("distribution")
end

function TOPICS.points()
  local rows = {}
  for _, point in ipairs(require("aisim.points").list) do
    rows[#rows + 1] = { point.name, point.form }
    rows[#rows + 1] = { "", point.meaning }
  end
  return [[
Functions of sim:pool { … } that decide instead of the engine, each optional. An answer that breaks
an invariant of the pass ends the run, nothing is corrected; aisim check prints what each one costs.

]] .. table_of.text(rows, 2) .. [[


Example: examples/custom_victim.lua]]
end

function TOPICS.preemption()
  return [[
A running request needs one more block and none is free: another one (or itself) loses its blocks and
waits at the head of the queue. When it comes back, what is not cached any more is computed again.

Where it shows:
  preemptions, recomputed_tokens    in all, and per worker; preemptions of each request (--requests)
  preempt_stall_ms                  how long requests stood still for it
  gauges.kv_usage                   mean, peak and p99 of the blocks in use
  sim:on("request.preempt", fn)     each of them: who, where, how many tokens were lost

What prevents it, in the order in which to try:
  max_sequences          fewer requests side by side: the rest waits instead of computing twice
  watermark              a share of the blocks that admissions leave free for those that run
  reserve_full_prompt    true: an admission counts its whole prompt, not only the first chunk
  capacity, workers      more blocks: engine.kv_cache.capacity, tensor parallelism, more workers
  speculation            look-ahead tokens of drafts take blocks as well
  a router               least_kv and kv look at blocks; round_robin does not
  sim:admission(fn)      refuses, or makes wait, what would only push others out

What it costs depends on who loses: preemption = lifo | fifo, self_preemption, or the function
victim = … of sim:pool (aisim help points). A host tier brings back what was stored in time (aisim
help engine, host_offload).

Example: examples/custom_victim.lua]]
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
Start from: aisim new metric NAME. Examples: examples/custom_metric.lua, examples/slo.lua]]
end

function TOPICS.outputs()
  local outputs, rows = require "aisim.cli.outputs", {}
  for i, file in ipairs(outputs.FILES) do rows[i] = { file.name, file.flag, file.text } end
  return [[
Files that a verb writes into the folder of --out. A file has its name when it is complete; the same
input and seed give the same bytes, and no file changes what stands in another.

]] .. table_of.text(rows, 2) .. [[


Keys of requests.jsonl beside those of aisim help metrics; null is undefined:

]] .. table_of.text(outputs.REQUEST, 2) .. [[


Keys of decisions.jsonl:

]] .. table_of.text(outputs.DECISION, 2) .. [[


--export writes results as another tool would have measured them, by its definitions. aiperf: a run
lasts from the first arrival to the last answer, rates are over that time, timestamps are simulated
nanoseconds after the measurement start, percentiles and std as in report.json. vllm: a run lasts
from the measurement start to the last answer; itl are all token gaps, tpot the mean gap of a request.
prometheus: counters and histograms of the measured requests, as if the server had been scraped at
the measurement start and at the end and both subtracted; cache queries and hits count tokens.

In Lua: sim:run { requests = path, decisions = path, series_ms = t, timeline = path }, then
run:json(path), run:csv(path), run:timeseries(path), run:html(path), run:export(format, folder).]]
end

function TOPICS.scenario()
  return [[
A scenario is a Lua file that returns what aisim.scenario { … } gave, with a function setup:

  local aisim = require "aisim"
  local S = aisim.scenario { title =, question =, params = { rate = { 4.0, "per second", min = 0 } } }
  function S.setup(sim, p)          -- builds one run; p.rate is read-only
    sim:pool { engine = { model = "llama-3.1-8b" } }                        -- aisim help engine
    sim:router { policy = "least_requests" }                                -- aisim help router
    sim:workload(aisim.open { arrivals = aisim.arrivals.poisson { rate = p.rate }, until_ms = "1m",
      prompt = aisim.dist.const(800), output = aisim.dist.const(200) })     -- aisim help api
  end
  S.expect = { "ttft_ms.p99 < 500", { "kv_usage.peak < 0.98", stop = true } }   -- stop ends the run
  S.sweep  = { grid = { rate = { 2, 4, 8 } }, seeds = 3, columns = { "ttft_ms.p99" } }
  S.search = { param = "rate", from = 1, to = 64, goal = "ttft_ms.p99 < 500", scale = "log" }
  function S.report(run, p) print(run:summary()) end   -- instead of the default table; optional
  return S

sweep: grid (every combination), zip = { { "a", "b" }, { 1, 2 }, … } (varied together), seeds (how
many, or a list), skip = function(p) … end, columns, pareto = { x =, y = } (small times are better).
search: find = "largest" or "smallest", scale = "linear" or "log", tolerance = 0.02, seeds.
A misspelt name anywhere is an error with the nearest name.
Start from: aisim new scenario NAME]]
end

function TOPICS.api()
  return ([[
Classes of the Lua API; aisim help CLASS lists fields and methods with their types.

  %s

The functions of the module: aisim help aisim. The same types serve editors (lua/aisim/meta.lua).]]):format(
    table.concat(table_of.wrap(table.concat(api.names(), ", "), 96), "\n  "))
end

function TOPICS.man() return require("aisim.cli.man").page() end

function TOPICS.limits()
  return [[
What a script may use is limited. A limit that is reached ends the program with status 3; the message
names the line, the call, and has a traceback. pcall in the script gains nothing.

]] .. table_of.text(require("aisim.cli.limits").rows()) .. [[


--hook-timeout is the time of one call into the script: a hook, a router, a session between two waits,
setup, the report. Computing counts, waiting does not; nor does what the engine does meanwhile, and
reading traces. Nothing runs in the script for it, so it costs nothing.
--max-instructions counts all Lua code, in steps of 100, the same way on every machine.
--memory-limit counts the values of the script without their garbage. A request for a quarter more
than the limit is refused at once, with the line but without a traceback.

Not stopped where it is: a C function, such as string.find with a pattern of several .- on a long text
(1.7 s for 300 characters), and a finalizer (__gc). When twice the time has gone by, the program ends.

--sandbox leaves the language, aisim, and the tables coroutine, math, string, table, utf8; require finds
aisim and files beside the scenario. Without it the whole standard library is there. In every mode
math.random draws from a stream of the seed, and a global that nobody declared is an error.]]
end

local function of_scenario(path)
  local S = scenario.load(path)
  local record = scenario.record(S)
  local out = {}
  local function add(text) out[#out + 1] = text end
  add(("%s  %s"):format(path, S.title or ""))
  local head = {}
  for _, item in ipairs { { "Question", S.question }, { "Finding", S.finding },
    { "Run time", S.expect_runtime_s and ("about %g s"):format(S.expect_runtime_s) } } do
    if item[2] then head[#head + 1] = item end
  end
  if #head > 0 then add(table_of.text(head)) end
  if #record.params > 0 then
    local rows = {}
    for i, param in ipairs(record.params) do rows[i] = M.param_row(param, param.default) end
    add("\nParameters (--set NAME=VALUE)\n" .. table_of.text(rows, 2))
  end
  if #record.expectations > 0 then
    add("\nExpectations")
    for _, expectation in ipairs(record.expectations) do
      add("  " .. expectation.text .. (expectation.stop and "   (ends the run)" or ""))
    end
  end
  for _, line in ipairs(M.experiments(S)) do add(line) end
  return table.concat(out, "\n")
end

--- A configuration says in its first comment what it asks.
local function of_configuration(path)
  local out = { path }
  local file <close> = io.open(path) or fault.usage("help: cannot open %s%s", path, near.file(path))
  for line in file:lines() do
    local text = line:match("^# ?(.*)$")
    if not text then break end
    local fits = utf8.len(text) and utf8.len(text) <= 100
    for _, part in ipairs(fits and { text } or table_of.wrap(text, 100)) do out[#out + 1] = part end
  end
  out[#out + 1] = ("\nEvery key: aisim check %s\nTheir meaning: aisim help engine, aisim help traffic"):format(path)
  return table.concat(out, "\n")
end

--- What the scenario can do beside one run, a line each.
---@param S aisim.Scenario
---@return string[]
function M.experiments(S)
  local lines = {}
  if S.sweep then
    local plan = require("aisim.sweep").plan(S, S.sweep, {}, S.seed)
    lines[1] = ("sweep        %d points of %s, %d seed%s each (aisim sweep FILE)"):format(#plan.points,
      #plan.names > 0 and table.concat(plan.names, ", ") or "nothing", #plan.seeds, #plan.seeds == 1 and "" or "s")
  end
  local search = S.search
  if search then
    lines[#lines + 1] = ("search       %s %s from %s to %s that meets %s (aisim search FILE)"):format(
      search.find or "largest", search.param, params.shown(search.from), params.shown(search.to), search.goal)
  end
  return lines
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
    local topics = table.concat(parser.WORDS.help, ", ")
    terminal.out(parser.help() .. "\n"
      .. table.concat(table_of.wrap(("Topics of aisim help: %s, a verb, a class, a file."):format(topics), 100), "\n")
      .. "\nNew here? aisim new scenario NAME writes a file to start from.")
    return fault.OK
  end
  if TOPICS[topic] then
    terminal.out((TOPICS[topic]():gsub("\n+$", "")))
  elseif topic:find("%.lua$") then
    terminal.out(of_scenario(topic))
  elseif topic:find("%.ya?ml$") then
    terminal.out(of_configuration(topic))
  else
    local text = parser.help(topic) or api.help(topic)
    if not text then
      local names = parser.verb_names()
      for name in pairs(TOPICS) do names[#names + 1] = name end
      table.move(api.names(), 1, #api.names(), #names + 1, names)
      table.sort(names)
      local hint = near.hint(topic, names)
      fault.usage("help: unknown topic '%s'%s", topic,
        hint ~= "" and hint or (" (see: aisim help)"))
    end
    terminal.out(text)
  end
  return fault.OK
end

return M
