---@meta aisim
-- Types of the scenario API for editors (LuaLS). Nothing here runs. A test compares the names with what
-- is registered, so this file cannot drift. Times are ms of virtual time, numbers count from 1.
error("aisim.meta is read by editors, not by programs")

---@class aisim
---@field version string
---@field spec_version string
local aisim = {}

---@param options { seed?: integer, name?: string, overrides?: table }
---@return aisim.Sim
function aisim.new(options) end

---@param decl table
---@return aisim.Scenario
function aisim.scenario(decl) end

---@param options aisim.OpenOptions
---@return aisim.Workload
function aisim.open(options) end

---@param options aisim.ClosedOptions
---@return aisim.Workload
function aisim.closed(options) end

---@param options aisim.AgentxOptions
---@return aisim.Workload
function aisim.agentx(options) end

---@param source string|string[]|{ path: string|string[], nested_timestamp_basis?: "auto"|"absolute"|"relative", align_inputs?: false|"floor"|"ceil" }
---@return aisim.Plays
function aisim.plays(source) end

--- Plays drawn after the published statistics of recorded ones; every parameter of a law has a name:
--- { mu, sigma } of a log-normal, { low, high } of a range, or a share (list: src/workload/synthetic.h).
---@param options? { plays?: integer, seed?: integer, preset?: "042026"|"052726"|"062126", block_size?: integer, whole_blocks?: boolean, api?: "lognormal"|"linear", align_inputs?: false|"floor"|"ceil", [string]: any }
---@return aisim.Plays
function aisim.agentx_synthetic(options) end

---@param source string|table   catalogue name, alias, path of a config.json, YAML or Lua file, or a table
---@return table
function aisim.model(source) end

---@param source string|table
---@return table
function aisim.hardware(source) end

---@param path string
---@return any
function aisim.yaml(path) end

---@param options? { mode?: "incremental"|"generational", pause?: integer }
function aisim.gc(options) end

--- Stops with the line of the caller and exit status 2.
---@param message string
function aisim.fail(message) end

---@alias aisim.Ms number|string      milliseconds, or a text such as "250ms", "2m"
---@alias aisim.Rate number|string    per second, or a text such as "2/s"
---@alias aisim.Drawn number|aisim.Dist|fun(rng: aisim.Rng): number

-- Distributions and arrivals -----------------------------------------------------------------------

---@class aisim.dist
aisim.dist = {}
---@return aisim.Dist
function aisim.dist.const(x) end
---@return aisim.Dist
function aisim.dist.uniform(a, b) end
---@param options { mean: number }
---@return aisim.Dist
function aisim.dist.exp(options) end
---@param options { mean: number, cv: number }
---@return aisim.Dist
function aisim.dist.gamma(options) end
---@param options { mean?: number, p50?: number, p99?: number }   any two
---@return aisim.Dist
function aisim.dist.lognormal(options) end
---@param options { min: number, alpha?: number, mean?: number }
---@return aisim.Dist
function aisim.dist.pareto(options) end
---@param options { n: integer, s?: number }
---@return aisim.Dist
function aisim.dist.zipf(options) end
---@param source string|(number|{ [1]: number, [2]: number })[]   a file, values, or { value, weight }
---@return aisim.Dist
function aisim.dist.empirical(source) end
---@param list { [1]: number, [2]: aisim.Drawn }[]   { weight, distribution }
---@return aisim.Dist
function aisim.dist.mixture(list) end
---@param dist aisim.Drawn
---@return aisim.Dist
function aisim.dist.clamp(dist, low, high) end
---@param fn fun(rng: aisim.Rng): number
---@return aisim.Dist
function aisim.dist.fn(fn) end

---@class aisim.Dist
local Dist = {}
---@param rng aisim.Rng
---@return number
function Dist:sample(rng) end

---@class aisim.arrivals
aisim.arrivals = {}
---@param options { rate: aisim.Rate }
---@return aisim.Arrivals
function aisim.arrivals.poisson(options) end
---@param options { rate: aisim.Rate, cv: number }
---@return aisim.Arrivals
function aisim.arrivals.gamma(options) end
---@param options { rate: aisim.Rate, shape: number }
---@return aisim.Arrivals
function aisim.arrivals.weibull(options) end
---@param options { rate: aisim.Rate }
---@return aisim.Arrivals
function aisim.arrivals.constant_rate(options) end
---@param list { [1]: number|string, [2]: aisim.Rate }[]   { seconds or text, rate from then on }
---@return aisim.Arrivals
function aisim.arrivals.schedule(list) end
---@param options { size: integer, every_ms: aisim.Ms }
---@return aisim.Arrivals
function aisim.arrivals.burst(options) end
---@param options { n: integer }
---@return aisim.Arrivals
function aisim.arrivals.all_at_once(options) end
---@param times aisim.Ms[]   ascending
---@return aisim.Arrivals
function aisim.arrivals.trace(times) end

---@class aisim.Arrivals
local Arrivals = {}
---@param rng aisim.Rng
---@param n integer
---@return number[] times_ms   the first n
function Arrivals:times(rng, n) end

---@class aisim.Rng
local Rng = {}
--- As math.random.
---@return number
function Rng:random(m, n) end
---@return number
function Rng:uniform(a, b) end
---@return number
function Rng:exp(mean) end
---@return number
function Rng:normal(mean, std) end
---@param dist aisim.Drawn
---@return number
function Rng:sample(dist) end
---@generic T
---@param list T[]
---@return T
function Rng:pick(list) end
---@param p number
---@return boolean
function Rng:chance(p) end

-- Simulation ---------------------------------------------------------------------------------------

---@class aisim.Sim
---@field name string
---@field seed integer
---@field state "new"|"running"|"finished"|"stopped"|"interrupted"|"failed"
---@field error_code string   "OK", "ELIVELOCK", "ECALLBACK", …
local Sim = {}

---@return number t_ms
function Sim:now() end

---@param options { name?: string, role?: "aggregated"|"prefill"|"decode", workers?: integer, engine: table }
---@return aisim.Pool
function Sim:pool(options) end

---@param workload aisim.Workload
function Sim:workload(workload) end

---@param options aisim.SessionsOptions
function Sim:sessions(options) end

---@param options aisim.SubmitOptions
---@return aisim.Request handle   valid until the request ends; id, state and cancel() also later
function Sim:submit(options) end

---@param options fun(req: aisim.Request, targets: aisim.Targets, now: number): integer?, number[]?|aisim.RouterOptions
function Sim:router(options) end

---@param fn fun(req: aisim.Request, targets: aisim.Targets, now: number): boolean, string?
function Sim:admission(fn) end

---@param name aisim.HookName
---@param fn function
---@param options? aisim.HookOptions
---@return aisim.Hook
function Sim:on(name, fn, options) end

---@param t_ms aisim.Ms
---@param fn fun(t: number)
---@return aisim.Timer
function Sim:at(t_ms, fn) end

---@param delay_ms aisim.Ms
---@param fn fun(t: number)
---@return aisim.Timer
function Sim:after(delay_ms, fn) end

--- Does not keep the run alive.
---@param period_ms aisim.Ms
---@param fn fun(t: number)
---@return aisim.Timer
function Sim:every(period_ms, fn) end

---@param name string
---@return aisim.Rng
function Sim:rng(name) end

---@return aisim.Context
function Sim:context() end

---@param options aisim.MetricOptions
---@return aisim.Metric
function Sim:counter(options) end
---@param options aisim.MetricOptions
---@return aisim.Metric
function Sim:gauge(options) end
---@param options aisim.MetricOptions
---@return aisim.Metric
function Sim:hist(options) end
---@param options { name: string, num: string, den: string, unit?: string, help?: string }
---@return aisim.Metric
function Sim:ratio(options) end
---@param options { name: string, every_ms: aisim.Ms, value: fun(t: number): number?, unit?: string, help?: string }
---@return aisim.Metric
function Sim:series(options) end
---@param options { name: string, value: fun(m: table): number?, unit?: string, help?: string }
function Sim:derive(options) end
---@param options { class?: string, ttft_ms?: aisim.Ms, itl_ms?: aisim.Ms, tpot_ms?: aisim.Ms, e2e_ms?: aisim.Ms }
function Sim:slo(options) end
---@param options { percentile_rule?: "linear"|"nearest"|"sketch", duration?: "measurement"|"observation"|"window", from_ms?: aisim.Ms, to_ms?: aisim.Ms, strict_slo?: boolean, percentiles?: number[] }
function Sim:measure(options) end

---@param options? { until_ms?: aisim.Ms, progress?: fun(t_ms: number, events: integer), requests?: boolean }
---@return aisim.Run
function Sim:run(options) end

---@param reason? string
function Sim:stop(reason) end

--- Frees the engine early; also <close>.
function Sim:close() end

--- Known, not modelled.
function Sim:handoff(options) end
--- Known, not modelled.
function Sim:cluster(path) end
--- Known, not modelled.
function Sim:autoscale(options) end

---@class aisim.Pool
---@field name string
---@field workers integer
---@field ranks integer
---@field blocks integer      KV blocks of one rank
---@field waiting integer     sums over its workers from here on
---@field running integer
---@field active_requests integer
---@field active_prefill_tokens integer
---@field active_blocks integer
---@field kv_used integer
---@field kv_cached integer
---@field kv_total integer
---@field host_used integer
local Pool = {}
---@param i integer   inside the pool
---@return aisim.Worker
function Pool:worker(i) end
--- Known, not modelled.
function Pool:add(n) end
--- Known, not modelled.
function Pool:remove(n) end

---@class aisim.Worker
---@field id integer          over the whole simulation
---@field pool aisim.Pool
---@field ranks integer
---@field state "starting"|"ready"|"draining"|"drained"|"stopped"
---@field waiting integer
---@field running integer
---@field active_requests integer
---@field active_prefill_tokens integer
---@field active_blocks integer
---@field kv_used integer
---@field kv_cached integer
---@field kv_total integer
---@field host_used integer
local Worker = {}
function Worker:drain() end
function Worker:stop() end
function Worker:resume() end
--- true, or nil, message, code while blocks are in use.
---@return boolean?, string?, string?
function Worker:flush_cache() end

-- Requests -----------------------------------------------------------------------------------------

---@class aisim.SubmitOptions
---@field at_ms? aisim.Ms          default now
---@field prompt_tokens? integer   default: length of content or context
---@field output_tokens integer
---@field content? { [1]: string, [2]: integer }[]|{ hash_ids: integer[], block_size: integer, tokens?: integer }
---@field context? aisim.Context
---@field priority? integer        smaller = more urgent
---@field pool? string|aisim.Pool
---@field class? string
---@field session? integer
---@field turn? integer
---@field deadline_ms? aisim.Ms    after the arrival
---@field tag? any

--- In a hook: a view, valid during the call. From sim:submit: a handle, valid until the end.
---@class aisim.Request
---@field id integer
---@field class string
---@field session integer?
---@field turn integer
---@field prompt_tokens integer
---@field output_tokens integer
---@field generated integer
---@field computed integer
---@field reused_tokens integer     at first admission
---@field priority integer          may be set
---@field arrival_ms number
---@field first_admit_ms number?
---@field first_token_ms number?
---@field deadline_ms number?       virtual time
---@field preemptions integer
---@field worker integer?
---@field rank integer?
---@field state "created"|"waiting"|"running"|"preempted"|"remote"|"done"
---@field tag any                   may be set
local Request = {}
--- Acts after the current event; does nothing for a request that has ended.
function Request:cancel() end
---@return table
function Request:copy() end

--- View of a pass; what is not known at pass.begin is nil there.
---@class aisim.Pass
---@field rank integer
---@field waiting integer
---@field running integer
---@field free_blocks integer
---@field number integer?
---@field begin_ms number
---@field end_ms number?
---@field prefill_tokens integer?
---@field recomputed_tokens integer?
---@field prefix_tokens integer?
---@field decode_tokens integer?
---@field context_tokens integer?
---@field n_prefill integer?
---@field n_decode integer?
---@field scheduled integer?
---@field emitted integer?
---@field preempted integer?
---@field active_blocks integer?
---@field inactive_blocks integer?
---@field total_blocks integer?
local Pass = {}
---@return table
function Pass:copy() end

---@class aisim.Context
---@field tokens integer
---@field head_tokens integer   leading named extents, kept by compact
local Context = {}
---@param name string     same name = same content for everybody
---@param tokens number
---@return aisim.Context
function Context:append(name, tokens) end
---@param tokens number
---@return aisim.Context
function Context:append_unique(tokens) end
---@param tokens number   length of the summary that takes the place of all but the head
---@return aisim.Context
function Context:compact(tokens) end
---@return aisim.Context
function Context:copy() end

-- Hooks --------------------------------------------------------------------------------------------

---@alias aisim.HookName
---| "run.start"            # (t, sim)
---| "run.end"              # (t, sim)
---| "run.tick"             # (t, k), with every_ms
---| "request.arrive"       # (t, id, prompt_tokens, output_tokens, req)
---| "request.route"        # (t, id, worker, overlap_blocks, req)
---| "request.admit"        # (t, id, rank, reused_tokens, wait_ms, req)
---| "request.first_token"  # (t, id, rank, ttft_ms, req)
---| "request.preempt"      # (t, id, rank, lost_tokens, generated, req)
---| "request.finish"       # (t, id, rank, reason, generated, req)
---| "request.reject"       # (t, id, where, reason, req)
---| "transfer.start"       # (t, id, kind, src, dst, bytes)
---| "transfer.end"         # (t, id, kind, src, dst, bytes)
---| "worker.state"         # (t, worker, from, to)
---| "pass.begin"           # (t, rank, waiting, running, free_blocks, pass); stops the engine at each pass
---| "pass.end"             # (t, rank, begin_ms, prefill_tokens, n_prefill, n_decode, pass); the same
---| "kv.store"             # (t, rank, blocks, tier); the same
---| "kv.evict"             # (t, rank, blocks, tier); the same
---| "host.store"           # (t, rank, id, blocks, bytes, done_ms)
---| "host.load"            # (t, rank, id, blocks, bytes, done_ms)
---| "host.evict"           # (t, rank, id, blocks, bytes, done_ms)
---| "state.checkpoint"     # (t, id, rank, at_tokens)
---| "state.restore"        # (t, id, rank, at_tokens)
---| "play.start"           # (t, lane, play)
---| "play.end"             # (t, lane, play, status)
---| "phase"                # (t, from, to)
---| "request.chunk"        # (t, id, rank, start, tokens); stops at each request of each pass
---| "request.tokens"       # (t, id, rank, n, generated); the same

---@class aisim.HookOptions
---@field batch? integer      fn(n, cols) with columns named like the arguments; read-only; remove() drops what is held
---@field class? string
---@field pool? string|aisim.Pool
---@field rank? integer
---@field sample? number      share of requests, all events of a sampled request
---@field from_ms? aisim.Ms
---@field until_ms? aisim.Ms
---@field every_ms? aisim.Ms  run.tick

---@class aisim.Hook
local Hook = {}
function Hook:remove() end
---@param on boolean
function Hook:enable(on) end

---@class aisim.Timer
local Timer = {}
function Timer:remove() end

-- Routing ------------------------------------------------------------------------------------------

---@alias aisim.Column "worker"|"rank"|"active_requests"|"active_prefill_tokens"|"active_blocks"|"waiting"|"running"|"kv_used"|"kv_total"|"overlap_blocks"|"host_overlap_blocks"|"disk_overlap_blocks"|"usable_overlap_blocks"|"bound"|"telemetry_age_ms"

---@class aisim.RouterOptions
---@field pool? string|aisim.Pool
---@field policy? string            name of a built-in, instead of pick
---@field name? string              for messages and the stream of weights
---@field columns? aisim.Column[]   kept up to date; without the list every column is filled when read
---@field telemetry_period_ms? aisim.Ms
---@field pick? fun(req: aisim.Request, targets: aisim.Targets, now: number): integer?, number[]?
---@field on_done? fun(req: aisim.Request, target: { worker: integer, rank: integer, id: integer }, status: "completed"|"cancelled"|"rejected", now: number)

--- Candidates in (worker, rank) order: columns targets.waiting[i], views targets[i].waiting.
---@class aisim.Targets
---@field n integer
---@field worker integer[]
---@field rank integer[]                   inside its worker
---@field active_requests integer[]        routed there and not ended
---@field active_prefill_tokens integer[]
---@field active_blocks integer[]
---@field waiting integer[]
---@field running integer[]
---@field kv_used integer[]
---@field kv_total integer[]
---@field overlap_blocks integer[]         computed when declared or read
---@field host_overlap_blocks integer[]
---@field disk_overlap_blocks integer[]
---@field usable_overlap_blocks integer[]
---@field bound boolean[]
---@field telemetry_age_ms number[]
---@field [integer] table<aisim.Column, any>

-- Traffic ------------------------------------------------------------------------------------------

---@class aisim.Workload

---@class aisim.UnitOptions
---@field class? string
---@field prompt aisim.Drawn       tokens, at least 1
---@field output aisim.Drawn       tokens, at least 1
---@field prefix? { groups: integer, tokens: integer, zipf?: number, name?: string }   adds to the prompt
---@field priority? integer
---@field deadline_ms? aisim.Ms
---@field pool? string|aisim.Pool
---@field until_ms? aisim.Ms
---@field requests? integer
---@field sessions? integer
---@field rng? string              name of its streams

---@class aisim.OpenOptions: aisim.UnitOptions
---@field arrivals aisim.Arrivals|fun(now_ms: number, rng: aisim.Rng): number?

---@class aisim.ClosedOptions: aisim.UnitOptions
---@field users integer
---@field think_ms? aisim.Drawn

---@class aisim.AgentxOptions
---@field plays aisim.Plays|string|string[]
---@field lanes integer
---@field seed? integer                        42
---@field t_star? { [1]: number, [2]: number }
---@field warmup? boolean
---@field warmup_requests_per_lane? integer
---@field warmup_mode? "repeat"|"advance"
---@field profile? { duration_seconds?: number, response_grace_seconds?: number, cancel_drain_seconds?: number, tree_idle_cap_seconds?: number, global_idle_cap_seconds?: number }
---@field speedup? number
---@field authored_gate? boolean
---@field cache_identity? "isolated"|"after_system"
---@field on_error? "fail_play"|"continue"
---@field preset? "agentx-v1"|"agentx-harness"|"agentx-fast"
---@field u? number[]                          draws of the lanes, for tests
---@field pool? string|aisim.Pool

---@class aisim.Plays
---@field block_size integer
---@field requests integer
---@field nested_timestamp_basis "absolute"|"relative"
---@field [integer] table
local Plays = {}
--- for play in plays:each() do … end; play is a copy: id, ordinal, block_size, conversations, requests
---@return fun(): table?
function Plays:each() end
---@param fn fun(play: table): boolean
---@return aisim.Plays
function Plays:filter(fn) end
--- Writes Weka JSON lines.
---@param path string
---@param options? { hash_runs?: boolean }
---@return aisim.Plays
function Plays:save(path, options) end

---@class aisim.SessionsOptions
---@field class? string
---@field arrivals aisim.Arrivals|fun(now_ms: number, rng: aisim.Rng): number?
---@field body fun(s: aisim.Session)
---@field until_ms? aisim.Ms
---@field sessions? integer
---@field requests? integer
---@field pool? string|aisim.Pool
---@field priority? integer
---@field rng? string

---@class aisim.Session
---@field id integer
---@field class string
---@field turn integer
---@field rng aisim.Rng   a stream of its own
local Session = {}
---@return aisim.Context
function Session:context() end
--- Sends a request and waits for its end; the answer is appended to the context unless keep = false.
---@param options { context?: aisim.Context, content?: table, prompt_tokens?: integer, output_tokens: number, keep?: boolean, priority?: integer, pool?: string|aisim.Pool, class?: string, deadline_ms?: aisim.Ms, tag?: any }
---@return { id: integer, reason: string, status: string, ttft_ms: number?, e2e_ms: number, prompt_tokens: integer, output_tokens: integer, reused_tokens: integer, worker: integer?, rank: integer? }
function Session:call(options) end
---@param delay_ms aisim.Ms
function Session:sleep(delay_ms) end
--- Runs fn(…) beside the caller, from the current time on.
---@param fn function
---@return aisim.Branch
function Session:fork(fn, ...) end
--- Waits for forks; returns the first result of each.
---@param ... aisim.Branch
---@return any ...
function Session:join(...) end
---@param branch aisim.Branch
function Session:cancel(branch) end
---@return number t_ms
function Session:now() end

---@class aisim.Branch

-- Timing -------------------------------------------------------------------------------------------

---@class aisim.timing
aisim.timing = {}
---@param options { prefill_ms: aisim.Ms, decode_ms: aisim.Ms }
---@return aisim.TimingModel
function aisim.timing.fixed(options) end
---@param options { base_ms?: aisim.Ms, per_prefill_token_ms?: aisim.Ms, per_decode_ms?: aisim.Ms, per_context_token_ms?: aisim.Ms }
---@return aisim.TimingModel
function aisim.timing.linear(options) end
---@param options? { mfu?: number, mbu?: number, pass_overhead_ms?: aisim.Ms, model?: string|table, hardware?: string, parallelism?: table }
---@return aisim.TimingModel
function aisim.timing.roofline(options) end
---@param options { path: string }
---@return aisim.TimingModel
function aisim.timing.tables(options) end
---@param options? { model?: string|table, hardware?: string, parallelism?: table }
---@return aisim.TimingModel
function aisim.timing.default(options) end
---@param options? { data?: string, path?: string }
---@return aisim.TimingModel
function aisim.timing.measured(options) end

---@class aisim.TimingModel
local TimingModel = {}
--- Milliseconds of a pass: P, SN, SP, D, SK.
---@return number
function TimingModel:pass(n_prefill, new_tokens, past_tokens, n_decode, context_tokens) end
---@return string
function TimingModel:describe() end

-- Measuring ----------------------------------------------------------------------------------------

---@class aisim.MetricOptions
---@field name string
---@field unit? string
---@field help? string
---@field by? string        what the labels mean
---@field keep? boolean     not reset at the measurement barrier
---@field series? boolean   a column of the time series

---@class aisim.Metric
---@field name string
---@field total number   counter
---@field value number?  gauge
---@field count integer  hist; also n, mean, std, min, max
local Metric = {}
--- Counter: adds x. Hist: one more value.
---@param x number
---@param label? string
function Metric:add(x, label) end
--- Gauge: holds x from now on.
---@param x number
---@param label? string
function Metric:set(x, label) end
---@param q number   0 to 100
---@return number
function Metric:p(q) end

---@class aisim.Distribution
---@field n integer
---@field count integer
---@field mean number
---@field min number
---@field max number
---@field median number
---@field std number
---@field p50 number
---@field p75 number
---@field p90 number
---@field p95 number
---@field p99 number
---@field by table<string, aisim.Distribution>
local Distribution = {}
---@param q number
---@return number?
function Distribution:p(q) end

---@class aisim.Run
---@field metrics table<string, number>   flat: "ttft_ms.p99", "total_output_tokens"; undefined ones absent
---@field status "completed"|"stopped"|"interrupted"
---@field reason string?
---@field requests fun(): fun(): table?   for r in run.requests() do … end; #run.requests, run.requests[i]
---@field series table<string, { t: number[], v: number[] }>
---@field params table
---@field manifest table
---@field agentx table                    accounting of the replay
---@field stats { events: integer, passes: integer, requests_created: integer, requests_live: integer }
---@field custom { name: string, value: number, unit: string }[]
---@field pools string[]
---@field timing string
---@field notes string[]
---@field sim aisim.Sim
---@field ttft_ms aisim.Distribution
---@field ttst_ms aisim.Distribution
---@field itl_ms aisim.Distribution
---@field e2e_ms aisim.Distribution
---@field queue_ms aisim.Distribution
---@field [string] aisim.Distribution
local Run = {}
---@return string
function Run:summary() end
--- Writes the report, or returns it as one line without a path.
---@param path? string
---@return string?
function Run:json(path) end
---@param path string
function Run:jsonl(path) end
---@param path? string
---@return string?
function Run:csv(path) end
--- Known, not modelled.
function Run:html(path) end
---@param name string
---@return boolean
function Run:is_metric(name) end
