---@meta aisim_traffic
-- Types of traffic for editors, continued from meta.lua: workloads, their options, sessions.
-- luacheck: ignore (declarations without bodies: every argument is unused, lines are types)
error("aisim.meta_traffic is read by editors, not by programs")

---@class aisim.Workload

---@alias aisim.InFlight integer|{ [1]: number|string, [2]: number }[]   a number, or { seconds or text, number }, linear between

--- Shared by all workloads; the stop rule reached first wins, warmup counts in none of them.
---@class aisim.CommonOptions
---@field class? string
---@field priority? integer
---@field deadline_ms? aisim.Ms
---@field pool? string|aisim.Pool
---@field until_ms? aisim.Ms       nothing is sent at or after it
---@field requests? integer
---@field sessions? integer        units begun; a single request is one
---@field tokens? integer          prompt + output tokens sent; the request that reaches it is the last
---@field requests_per_load_unit? number   requests = max(1, round(x * users or rate))
---@field sessions_per_load_unit? number
---@field warmup? { requests?: integer, seconds?: number, barrier?: boolean }   the first requests or seconds; with a barrier the rest waits until they have ended
---@field rng? string              name of its streams

--- When units start: one of these.
---@class aisim.LoadOptions: aisim.CommonOptions
---@field arrivals? aisim.Arrivals|fun(now_ms: number, rng: aisim.Rng): number?
---@field concurrency? aisim.InFlight
---@field kv_capacity_fraction? number     so many in flight that their KV tokens (prompt + output / 2) are this part of the pool
---@field users? aisim.InFlight            each sends its next turn think_ms after its previous answer
---@field think_ms? aisim.Drawn

---@class aisim.UnitOptions: aisim.CommonOptions
---@field prompt? aisim.Drawn      tokens, at least 1
---@field output? aisim.Drawn      tokens, at least 1
---@field rows? { [1]: integer, [2]: integer }[]   { prompt, output }: lengths that belong together, instead of both
---@field prefix? { groups: integer, tokens: integer, zipf?: number, weights?: number[], name?: string }   adds to the prompt

---@class aisim.OpenOptions: aisim.UnitOptions
---@field arrivals aisim.Arrivals|fun(now_ms: number, rng: aisim.Rng): number?

---@class aisim.ClosedOptions: aisim.UnitOptions
---@field users? aisim.InFlight
---@field kv_capacity_fraction? number
---@field think_ms? aisim.Drawn

---@class aisim.SyntheticSessionOptions: aisim.LoadOptions
---@field turns? aisim.Drawn                       4
---@field new_input_tokens_per_turn? aisim.Drawn   1024
---@field output_tokens_per_turn? aisim.Drawn      128
---@field inter_turn_delay_ms? aisim.Drawn         0
---@field shared_prefix_ratio? number              part of the first input that a group shares
---@field prefix_groups? integer
---@field prefix_zipf? number
---@field prefix_weights? number[]

---@class aisim.AgentOptions: aisim.LoadOptions
---@field system? { name?: string, tokens?: integer }   "agent-system", 12000: the same for all agents of that name
---@field task? aisim.Drawn         tokens of the first message; median 1000
---@field steps? aisim.Drawn        requests of an agent; median 5
---@field output? aisim.Drawn       median 150
---@field tool_ms? aisim.Drawn      median 8600
---@field tool_tokens? aisim.Drawn  median 281
---@field compact? false|{ above?: integer, to?: integer }   150000, 8000: a longer context becomes system prompt + summary

---@class aisim.AgenticCodeOptions: aisim.LoadOptions
---@field global_tokens? integer    14000: shared by all
---@field groups? integer           16
---@field group_tokens? integer     8000: shared by a group
---@field group_zipf? number
---@field group_weights? number[]
---@field session_tokens? aisim.Drawn   2000
---@field new_tokens? aisim.Drawn   per turn; median 281
---@field output? aisim.Drawn       median 150
---@field turn_gap_ms? aisim.Drawn  median 8600
---@field reset? number             0.02: a turn is the last of its session
---@field restart? number           0.02: the session goes on as another one with the same history
---@field max_turns? integer

---@class aisim.TraceOptions: aisim.LoadOptions
---@field path string|string[]
---@field format? string
---@field block_size? integer
---@field speedup? number
---@field limit? integer
---@field from_ms? aisim.Ms
---@field to_ms? aisim.Ms
---@field lanes? integer           plays of a file in lanes; none = at their times
---@field align_inputs? false|"floor"|"ceil"   weka
---@field nested_timestamp_basis? "auto"|"absolute"|"relative"   weka

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
---@field once? boolean   every source play at most once; the run ends with the last one
---@field cache_identity? "isolated"|"after_system"
---@field on_error? "fail_play"|"continue"
---@field preset? "agentx-v1"|"agentx-harness"|"agentx-fast"
---@field u? number[]                          draws of the lanes, for tests
---@field until_ms? aisim.Ms                   end of the profile on the clock of the run, instead of its duration
---@field requests? integer                    at most so many in the profile
---@field sessions? integer                    at most so many plays are started; >= lanes
---@field rng? string                          the snapshot follows the seed of the run and this name, instead of seed
---@field class? string                        "agentx"
---@field priority? integer
---@field deadline_ms? aisim.Ms
---@field pool? string|aisim.Pool

---@class aisim.Plays
---@field block_size integer
---@field requests integer
---@field nested_timestamp_basis "absolute"|"relative"
---@field [integer] table
---@field each fun(self: aisim.Plays): fun():   for play in plays:each() do … end; play is a copy: id, ordinal, block_size, conversations, requests
---@field filter fun(self: aisim.Plays, fn: fun(play: table): boolean): aisim.Plays
---@field save fun(self: aisim.Plays, path: string, options?: { format?: "weka"|"agentic_mooncake", hash_runs?: boolean }): aisim.Plays
---@field first fun(self: aisim.Plays, n: integer): aisim.Plays
---@field sample fun(self: aisim.Plays, n: integer, seed?: integer): aisim.Plays
---@field map fun(self: aisim.Plays, fn: fun(play: table): table|boolean|nil): aisim.Plays   nil, true: the play as changed; false: without it
---@field cut fun(self: aisim.Plays, options: { requests?: integer, after_ms?: number, input_tokens?: integer }): aisim.Plays
---@field rescale fun(self: aisim.Plays, options: { time?: number, delay?: number, output?: number }): aisim.Plays
---@field merge fun(self: aisim.Plays, ...: aisim.Plays): aisim.Plays

--- One of arrivals, concurrency; stop rules end the starts of sessions, not the calls of a body.
---@class aisim.SessionsOptions: aisim.CommonOptions
---@field arrivals? aisim.Arrivals|fun(now_ms: number, rng: aisim.Rng): number?
---@field concurrency? aisim.InFlight
---@field body fun(s: aisim.Session)

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
