---@meta aisim
-- Types of the scenario API for editors (LuaLS). Nothing here runs. A test compares the names with what
-- is registered, so this file cannot drift; results and experiments are in meta_results.lua, routers and
-- scheduler points in meta_policies.lua, traffic in meta_traffic.lua. Times are ms of virtual time, numbers
-- count from 1.
-- luacheck: ignore (declarations without bodies: every argument is unused, lines are types)
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
--- Agents in C: system prompt, task, then steps of answer and tool result (spec/lua-api.md §5).
---@param options aisim.AgentOptions
---@return aisim.Workload
function aisim.agent(options) end
--- Sessions of several turns: each prompt is the conversation so far and new input.
---@param options aisim.SyntheticSessionOptions
---@return aisim.Workload
function aisim.synthetic_session(options) end
--- Coding agents with layers of shared context, resets and restarts.
---@param options aisim.AgenticCodeOptions
---@return aisim.Workload
function aisim.agentic_code(options) end
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

--- Plays from tables of the form that plays:each() hands out.
---@param list table[]
---@return aisim.Plays
function aisim.plays_of(list) end

--- Traffic from a trace file: at its times, or at a load of its own.
---@param options aisim.TraceOptions
---@return aisim.Workload
function aisim.trace(options) end
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
---@field const fun(x: number): aisim.Dist
---@field uniform fun(a: number, b: number): aisim.Dist
---@field exp fun(options: { mean: number }): aisim.Dist
---@field gamma fun(options: { mean: number, cv: number }): aisim.Dist
---@field normal fun(options: { mean: number, std: number, min?: number, max?: number }): aisim.Dist   cut to [min, max]
---@field lognormal fun(options: { mean?: number, p50?: number, p99?: number, mu?: number, sigma?: number, min?: number, max?: number }): aisim.Dist   two of mean, p50, p99, or mu and sigma
---@field pareto fun(options: { min: number, alpha?: number, mean?: number }): aisim.Dist
---@field zipf fun(options: { n: integer, s?: number }): aisim.Dist
---@field empirical fun(source: string|(number|{ [1]: number, [2]: number })[]): aisim.Dist   a file, values, or { value, weight }
---@field mixture fun(list: { [1]: number, [2]: aisim.Drawn }[]): aisim.Dist   { weight, distribution }
---@field clamp fun(dist: aisim.Drawn, low: number, high: number): aisim.Dist
---@field fn fun(fn: fun(rng: aisim.Rng): number): aisim.Dist
aisim.dist = {}

---@class aisim.Dist
---@field sample fun(self: aisim.Dist, rng: aisim.Rng): number

---@class aisim.arrivals
---@field poisson fun(options: { rate: aisim.Rate }): aisim.Arrivals
---@field gamma fun(options: { rate: aisim.Rate, cv?: number, smoothness?: number }): aisim.Arrivals   smoothness = 1 / cv^2
---@field weibull fun(options: { rate: aisim.Rate, shape: number }): aisim.Arrivals
---@field constant_rate fun(options: { rate: aisim.Rate }): aisim.Arrivals
---@field schedule fun(list: { [1]: number|string, [2]: aisim.Rate }[]): aisim.Arrivals   { seconds or text, rate from then on }
---@field ramp fun(list: { [1]: number|string, [2]: aisim.Rate }[]): aisim.Arrivals   { seconds or text, rate }, linear between
---@field square fun(options: { base: aisim.Rate, amplitude: aisim.Rate, period_ms: aisim.Ms, duty?: number }): aisim.Arrivals   base + amplitude for the part duty of a period
---@field sine fun(options: { base: aisim.Rate, amplitude: aisim.Rate, period_ms: aisim.Ms }): aisim.Arrivals
---@field burst fun(options?: { size?: integer, every_ms?: aisim.Ms }): aisim.Arrivals   without options: everything at the start
---@field all_at_once fun(options: { n: integer }): aisim.Arrivals
---@field trace fun(times: aisim.Ms[]): aisim.Arrivals   ascending
---@field rate fun(arrivals: aisim.Arrivals): number?   mean per second, nil when there is no single one
aisim.arrivals = {}

---@class aisim.Arrivals
---@field times fun(self: aisim.Arrivals, rng: aisim.Rng, n: integer): number[]   the first n

---@class aisim.Rng
---@field random fun(self: aisim.Rng, m?: number, n?: number): number   As math.random.
---@field uniform fun(self: aisim.Rng, a?: number, b?: number): number
---@field exp fun(self: aisim.Rng, mean?: number): number
---@field normal fun(self: aisim.Rng, mean?: number, std?: number): number
---@field sample fun(self: aisim.Rng, dist: aisim.Drawn): number
---@field pick fun(self: aisim.Rng, list: any[]): any
---@field chance fun(self: aisim.Rng, p: number): boolean

-- Simulation ---------------------------------------------------------------------------------------

---@class aisim.Sim
---@field name string
---@field seed integer
---@field state "new"|"running"|"finished"|"stopped"|"interrupted"|"failed"
---@field error_code string   "OK", "ELIVELOCK", "ECALLBACK", …
local Sim = {}

---@return number t_ms
function Sim:now() end
---@param options aisim.PoolOptions
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
---@param options aisim.AutoscaleOptions
---@return aisim.Timer
function Sim:autoscale(options) end
---@param policy aisim.Admit|aisim.AdmissionPolicy
function Sim:admission(policy) end
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
--- requests: true keeps all (100,000 otherwise), false none, a path streams them into files, some 50 bytes each
--- in memory.
---@param options? { until_ms?: aisim.Ms, max_wall_time_ms?: aisim.Ms, progress?: fun(t_ms: number, events: integer), requests?: boolean|string|{ path?: string, preparation?: string, aiperf?: string }, decisions?: string, series_ms?: aisim.Ms, timeline?: string|{ path: string, from_ms?: aisim.Ms, until_ms?: aisim.Ms, every_pass?: integer, max_events?: integer } }
---@return aisim.Run
function Sim:run(options) end
---@param reason? string
function Sim:stop(reason) end
--- Frees the engine early; also <close>.
function Sim:close() end
--- The link from the prefill to the decode pool (`aisim help handoff`); decide in place of the two bounds before it.
---@param options { bandwidth_gb_per_second?: number, latency_ms?: aisim.Ms, timing_mode?: "full_prompt"|"destination_missing", bytes_per_token?: number|"auto", local_below_tokens?: integer, local_below_usage_ratio?: number, decide?: fun(req: aisim.Request, overlap_blocks: integer, targets: aisim.Targets, now: number): "local"|"remote" }
function Sim:handoff(options) end
--- Everything from a configuration file, in a simulation without pools: pools, router, SLA and, if the file has the
--- key traffic, the traffic and its stop rules (sim:run may name others). The seed is that of the simulation; --set
--- engine.… applies.
---@param path string
---@return aisim.Pool[]   in the order of the file, also by name: pools.main
function Sim:cluster(path) end
---@param options aisim.AutoscaleOptions
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
---@field worker fun(self: aisim.Pool, i: integer): aisim.Worker   i: inside the pool; removed workers keep theirs
---@field add fun(self: aisim.Pool, n: integer, startup_ms?: aisim.Ms)   after the current event: starting, then ready
---@field remove fun(self: aisim.Pool, n: integer, drain?: boolean)   after the current event; those that start first, then the newest
---@field ready integer       workers
---@field starting integer
---@field draining integer
---@field queued integer      requests at its router

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
---@field drain fun(self: aisim.Worker)
---@field stop fun(self: aisim.Worker)
---@field resume fun(self: aisim.Worker)
---@field flush_cache fun(self: aisim.Worker): boolean?, string?, string?   true, or nil, message, code while blocks are in use.

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
---@field host_reused_tokens integer   part of it that was loaded from the host tier
---@field priority integer          may be set
---@field arrival_ms number
---@field first_admit_ms number?
---@field first_token_ms number?
---@field deadline_ms number?       virtual time
---@field preemptions integer
---@field worker integer?
---@field rank integer?
---@field prefill_worker integer?   chosen to compute the prompt of a hand-off
---@field state "created"|"waiting"|"running"|"preempted"|"remote"|"pending"|"reserved"|"held"|"done"   held: prompt computed, on its way to a decode worker
---@field tag any                   may be set
---@field cancel fun(self: aisim.Request)   Acts after the current event; does nothing for a request that has ended.
---@field copy fun(self: aisim.Request): table

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
---@field copy fun(self: aisim.Pass): table

---@class aisim.Context
---@field tokens integer
---@field head_tokens integer   leading named extents, kept by compact
---@field append fun(self: aisim.Context, name: string, tokens: number): aisim.Context   name: same name = same content for everybody
---@field append_unique fun(self: aisim.Context, tokens: number): aisim.Context
---@field compact fun(self: aisim.Context, tokens: number): aisim.Context   tokens: length of the summary that takes the place of all but the head
---@field copy fun(self: aisim.Context): aisim.Context

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
---@field remove fun(self: aisim.Hook)
---@field enable fun(self: aisim.Hook, on: boolean)

---@class aisim.Timer
---@field remove fun(self: aisim.Timer)


-- Timing -------------------------------------------------------------------------------------------

---@class aisim.timing
---@field fixed fun(options: { prefill_ms: aisim.Ms, decode_ms: aisim.Ms }): aisim.TimingModel
---@field linear fun(options: { base_ms?: aisim.Ms, per_prefill_token_ms?: aisim.Ms, per_decode_ms?: aisim.Ms, per_context_token_ms?: aisim.Ms }): aisim.TimingModel
---@field roofline fun(options?: { mfu?: number, mbu?: number, pass_overhead_ms?: aisim.Ms, model?: string|table, hardware?: string, parallelism?: table }): aisim.TimingModel
---@field tables fun(options: { path: string }): aisim.TimingModel
---@field default fun(options?: { model?: string|table, hardware?: string, parallelism?: table }): aisim.TimingModel
---@field measured fun(options?: { data?: string, path?: string, interpolate?: "log"|"linear" }): aisim.TimingModel
aisim.timing = {}

---@class aisim.TimingModel
local TimingModel = {}
--- Milliseconds of a pass: P, SN, SP, D, SK.
---@return number
function TimingModel:pass(n_prefill, new_tokens, past_tokens, n_decode, context_tokens) end
---@return string
function TimingModel:describe() end

--- Last argument of pass: columns that are made when they are read, valid during the call.
---@class aisim.TimingBatch
---@field max_context integer    longest attended length, chunks with their past included
---@field chunk_start integer[]  past tokens of each prefill item
---@field chunk_len integer[]    its new tokens
---@field context integer[]      attended length of each decode item

--- timing of an engine as functions; milliseconds > 0. A pass with `batch` as sixth parameter makes the
--- engine collect the items of every pass and is not memoised.
---@class aisim.TimingFunctions
---@field name? string
---@field pure? boolean    depends on its arguments alone: results are memoised
---@field pass? fun(n_prefill: integer, new_tokens: integer, past_tokens: integer, n_decode: integer, context_tokens: integer, batch: aisim.TimingBatch): number
---@field prefill? fun(n_prefill: integer, new_tokens: integer, past_tokens: integer): number   with decode, instead of pass: the two are summed
---@field decode? fun(n_decode: integer, context_tokens: integer): number
---@field transfer? fun(kind: "offload"|"restore"|"handoff", bytes: integer, src: integer, dst: integer): number   ms >= 0 of a copy from or to host memory of scope dp_rank_local (src = dst = the worker) and, in a prefill pool, of a hand-off; instead of the bandwidth, behind the latency
---@field describe? fun(): string   one line for the manifest

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
---@field add fun(self: aisim.Metric, x: number, label?: string)   Counter: adds x. Hist: one more value.
---@field set fun(self: aisim.Metric, x: number, label?: string)   Gauge: holds x from now on.
---@field p fun(self: aisim.Metric, q: number): number   q: 0 to 100
