---@meta aisim
-- Types of policies for editors (LuaLS): scheduler points, routers, admission, autoscaling. The rest of the
-- scenario API is in lua/aisim/meta.lua, what is said at its top holds here too.
-- luacheck: ignore (declarations without bodies: every argument is unused, lines are types)
error("aisim.meta_policies is read by editors, not by programs")

-- Scheduler points ---------------------------------------------------------------------------------

--- Scheduler points decide instead of the engine (include/aisim/points.h says when each is asked and what it costs);
--- an answer that breaks an invariant of the pass ends the run, nothing is corrected. rank counts from 1.
---@class aisim.PoolOptions
---@field name? string                         default: main, or the role
---@field role? "aggregated"|"prefill"|"decode"
---@field workers? integer                     default: parallelism.replicas
---@field engine table                         keys of aisim help engine
---@field order? fun(req: aisim.Request): number   place in the waiting queue, smaller first; once per enqueue
---@field admit? fun(t: number, rank: integer, req: aisim.Request, need_blocks: integer, free_blocks: integer): true|"skip"|"stop"   for the head of the queue; true = no objection, the admission gate decides; skip = look at the next one; stop = nobody else in this pass
---@field victim? fun(t: number, rank: integer, view: aisim.Victims): integer   place of a running request, when blocks run out
---@field chunk? fun(t: number, rank: integer, req: aisim.Request, budget: integer, remaining: integer): integer   tokens of a prefill chunk, 0 = nothing in this pass; at most what the rules would give, never more than budget or remaining
---@field evict? fun(t: number, rank: integer, age_ms: number, depth: integer, reuse: integer): number   what a cached block is worth, the smallest goes first; needs kv_cache.eviction = "scored". A prompt loses its end before its beginning

--- Running requests as columns, in running order; valid during the call.
---@class aisim.Victims
---@field n integer
---@field needs? integer               place of the request that wants blocks; nil: several do
---@field id integer[]
---@field priority integer[]
---@field prompt_tokens integer[]
---@field output_tokens integer[]
---@field generated integer[]
---@field computed integer[]
---@field blocks integer[]             it owns, shared ones included
---@field preemptions integer[]
---@field session integer[]            0 = none
---@field arrival_ms number[]

-- Routing ------------------------------------------------------------------------------------------

---@alias aisim.Column "worker"|"rank"|"active_requests"|"active_prefill_tokens"|"active_blocks"|"waiting"|"running"|"kv_used"|"kv_total"|"overlap_blocks"|"host_overlap_blocks"|"disk_overlap_blocks"|"shared_overlap_blocks"|"usable_overlap_blocks"|"bound"|"telemetry_age_ms"

---@class aisim.RouterOptions
---@field pool? string|aisim.Pool
---@field policy? "round_robin"|"random"|"least_requests"|"least_tokens"|"least_kv"|"shortest_queue"|"p2c"|"weighted_random"|"hash"|"hash_bounded"|"prefix"|"kv"|"kv_v1"|"session"|"sibling_group"|"lua"   a built-in, instead of pick; the options below marked C are its own (aisim help router)
---@field inner? string             C: policy of keys that are not bound (session, sibling_group)
---@field ties? "lowest"|"random"   C
---@field weights? number[]         C: one per worker; further ones are of workers added later, 1 behind the last
---@field key? "session"|"root"|"user"|"prefix"   C
---@field prefix_blocks? integer    C
---@field load_factor? number       C
---@field threshold? number         C
---@field balance_abs? number       C
---@field balance_rel? number       C
---@field overlap_score_credit? number    C
---@field host_credit? number             C
---@field disk_credit? number             C
---@field shared_credit? number           C
---@field prefill_load_scale? number      C
---@field active_request_weight? number   C
---@field overlap_decay? number           C
---@field temperature? number             C
---@field overlap_weight? number          C
---@field track_prefill? boolean          C
---@field track_output_blocks? boolean    C
---@field cache_view? "events"|"approximate"|"oracle"   C
---@field event_delay_ms? aisim.Ms        C
---@field ttl_ms? aisim.Ms                C
---@field overload? { active_prefill_tokens?: integer, active_blocks_ratio?: number }   C
---@field queue? { order?: "fcfs"|"lcfs"|"wspt", threshold?: number, max_batched_tokens?: integer }   C
---@field affinity? { mode?: "session"|"sibling_group", binding?: "hard"|"soft", soft_factor?: number, ttl_seconds?: number, inner?: string }   C
---@field name? string              for messages and the stream of weights
---@field columns? aisim.Column[]   kept up to date; without the list every column is filled when read
---@field telemetry_period_ms? aisim.Ms
---@field wrap? aisim.RouterOptions|aisim.RouterPolicy|(aisim.RouterOptions|aisim.RouterPolicy)[]   built-ins that pick may ask in any decision: objects by policy:pick, the first also by the fourth argument; each answers an index or nil
---@field filter? aisim.Filter|aisim.Filter[]   out[i] = false drops candidate i; in order
---@field score? aisim.Score|aisim.CScore|(aisim.Score|aisim.CScore)[]   costs, summed; without pick the smallest is chosen, of equal ones the first
---@field pick? fun(req: aisim.Request, targets: aisim.Targets, now: number, inner?: fun(): integer?): integer?, number[]?
---@field affinity? { mode?: "session"|"sibling_group", ttl_seconds?: number }   keeps the column bound (inside wrap, if there is one)
---@field delay_ms? aisim.Ms        a request is decided about so much later, with the figures of then; in a hand-off each router has its own; also of a built-in
---@field regret? boolean           records residency on the chosen and on the best target of each decision; also of a built-in
---@field init? fun(pool: aisim.Pool, cfg: table)   at once; cfg is the table given to sim:router
---@field on_dispatch? fun(req: aisim.Request, target: aisim.Target, now: number)
---@field on_first_token? fun(req: aisim.Request, target: aisim.Target, now: number)
---@field on_done? fun(req: aisim.Request, target: aisim.Target, status: "completed"|"cancelled"|"rejected", now: number)
---@field on_kv_stored? fun(target: aisim.Target, blocks: integer, tier: aisim.RouterTier, now: number)   at the pass end, or the end of a copy, that made them visible; with shared host memory once, with one target of the pool
---@field on_kv_removed? fun(target: aisim.Target, blocks: integer, tier: aisim.RouterTier, now: number)
---@field on_worker_up? fun(target: aisim.Target)      once per rank
---@field on_worker_drain? fun(target: aisim.Target)
---@field on_worker_down? fun(target: aisim.Target)
---@field tick_ms? aisim.Ms         period of on_tick
---@field on_tick? fun(now: number)

---@alias aisim.RouterTier "device"|"host"|"shared"   host: of the rank; shared: scope = "cluster_shared"

--- A built-in policy as an object: aisim.router.kv { temperature = 0.5 }. It describes; every router that asks it holds
--- a policy with books of its own, which hears of all that router hears of. Not named in wrap it joins at the router's
--- first decision; asked for the first time in a later one is an error. Each object draws from a stream of its own.
---@class aisim.RouterPolicy
---@field type string
---@field options aisim.RouterOptions
---@field pick fun(self: aisim.RouterPolicy, req?: aisim.Request, targets: aisim.Targets, now?: number): integer?   inside a decision: index among the candidates, nil = queue or filtered out

---@class aisim.router
---@field round_robin fun(options?: aisim.RouterOptions): aisim.RouterPolicy
---@field random fun(options?: aisim.RouterOptions): aisim.RouterPolicy
---@field least_requests fun(options?: aisim.RouterOptions): aisim.RouterPolicy
---@field least_tokens fun(options?: aisim.RouterOptions): aisim.RouterPolicy
---@field least_kv fun(options?: aisim.RouterOptions): aisim.RouterPolicy
---@field shortest_queue fun(options?: aisim.RouterOptions): aisim.RouterPolicy
---@field p2c fun(options?: aisim.RouterOptions): aisim.RouterPolicy
---@field weighted_random fun(options?: aisim.RouterOptions): aisim.RouterPolicy
---@field hash fun(options?: aisim.RouterOptions): aisim.RouterPolicy
---@field hash_bounded fun(options?: aisim.RouterOptions): aisim.RouterPolicy
---@field prefix fun(options?: aisim.RouterOptions): aisim.RouterPolicy
---@field kv fun(options?: aisim.RouterOptions): aisim.RouterPolicy
---@field kv_v1 fun(options?: aisim.RouterOptions): aisim.RouterPolicy
---@field session fun(options?: aisim.RouterOptions): aisim.RouterPolicy
---@field sibling_group fun(options?: aisim.RouterOptions): aisim.RouterPolicy
aisim.router = {}

--- Cost of a candidate by the rule of policy kv, smaller is better, with true residency and the simulation's books; the
--- router keeps the columns active_prefill_tokens and active_blocks. O(extents of the prompt).
---@param req? aisim.Request      of the decision
---@param t table                 targets[i]
---@param weights? { overlap_score_credit?: number, host_credit?: number, disk_credit?: number, shared_credit?: number, prefill_load_scale?: number, active_request_weight?: number, overlap_decay?: number, track_prefill?: boolean }   defaults of kv
---@return number cost            in blocks
function aisim.kv_cost(req, t, weights) end

--- Draws a place from costs as policy kv does, from the stream of the router that is deciding.
---@param costs number[]          finite, smaller is better
---@param T number                >= 0; 0: the smallest, any of equal ones
---@return integer index
function aisim.softmax_pick(costs, T) end

--- Hash of a key as policy hash has it, 64 bits (compare with math.ult); with a target its rendezvous weight, the
--- highest wins.
---@param key string|integer      an integer counts as its decimal text
---@param worker? integer         from 1
---@param rank? integer           from 1
---@return integer
function aisim.hash(key, worker, rank) end

---@class aisim.Target
---@field worker integer
---@field rank integer   inside its worker
---@field id integer     over the whole simulation

---@alias aisim.Filter fun(req: aisim.Request, targets: aisim.Targets, out: boolean[])
---@alias aisim.Score fun(req: aisim.Request, targets: aisim.Targets, out: number[])   out[i] is 0 before

--- Cost of a built-in (least_requests, least_tokens, least_kv, kv, kv_v1; options as in RouterOptions) times weight.
---@class aisim.CScore
---@field policy string
---@field weight? number

-- Autoscaling --------------------------------------------------------------------------------------

--- Every every_ms decide says how many workers there shall be, ready or starting; min and max bound it, the difference
--- is added or removed.
---@class aisim.AutoscaleOptions
---@field pool? string|aisim.Pool
---@field every_ms aisim.Ms           first so long after the call
---@field min? integer                default 1
---@field max integer
---@field decide aisim.Scaler|fun(view: aisim.ScaleView, now: number): integer
---@field start_delay_ms? aisim.Ms    until a new worker is ready; default: startup_seconds of the engine
---@field drain? boolean              default true: a removed worker finishes what it has

--- Sums over the workers that serve, ready or draining; kv figures over ready ones.
---@class aisim.ScaleView
---@field workers integer            ready + starting
---@field ready integer
---@field starting integer
---@field draining integer
---@field queued integer             requests at the router
---@field waiting integer
---@field running integer
---@field active_requests integer
---@field kv_used integer            blocks
---@field kv_total integer
---@field kv_usage number            0 .. 1

--- A built-in decision: give it to sim:autoscale, or call what make() returns.
---@class aisim.Scaler
---@field type string
---@field make fun(self: aisim.Scaler): fun(view: aisim.ScaleView, now: number): integer   with a state of its own

---@class aisim.scaler
---@field target_utilisation fun(options: { target: number, tolerance?: number, down_after_ms?: aisim.Ms }): aisim.Scaler   ceil(ready * kv_usage / target); tolerance 0.1
---@field queue_depth fun(options: { per_worker: number, down_after_ms?: aisim.Ms }): aisim.Scaler   ceil(requests in progress or waiting / per_worker)
aisim.scaler = {}

-- Admission ----------------------------------------------------------------------------------------

---@alias aisim.Admit fun(req: aisim.Request, targets: aisim.Targets, now: number): boolean|number, string?   true; false and a reason; ms to hold the request back

--- A built-in: sim:admission(policy), or policy:make(sim) inside a function of one's own.
---@class aisim.AdmissionPolicy
---@field type string
---@field make fun(self: aisim.AdmissionPolicy, sim: aisim.Sim): aisim.Admit   with a state of its own

---@class aisim.admission
---@field always fun(): aisim.AdmissionPolicy
---@field token_bucket fun(options: { rate: number|string, burst: number, unit?: "requests"|"tokens", when_empty?: "reject"|"delay" }): aisim.AdmissionPolicy   rate per second
---@field max_outstanding fun(options: { limit: integer }): aisim.AdmissionPolicy   let in and not ended
---@field shed_by_priority fun(options: { limits: table<integer, integer> }): aisim.AdmissionPolicy   { [1] = 40, [2] = 20 }: with 20 outstanding priorities from 2 on are turned away, with 40 from 1 on
aisim.admission = {}

--- Candidates in (worker, rank) order: columns targets.waiting[i], views targets[i].waiting.
---@class aisim.Targets
---@field n integer
---@field worker integer[]
---@field rank integer[]                   inside its worker
---@field active_requests integer[]        routed there and not ended
---@field active_prefill_tokens integer[]
---@field active_blocks integer[]          distinct prompt blocks of requests routed there and not ended
---@field waiting integer[]
---@field running integer[]
---@field kv_used integer[]
---@field kv_total integer[]
---@field overlap_blocks integer[]         computed when declared or read
---@field host_overlap_blocks integer[]    host memory of the rank, behind the device's
---@field disk_overlap_blocks integer[]    0: there is no such tier
---@field shared_overlap_blocks integer[]  host memory that ranks share (cluster_shared), behind the device's
---@field usable_overlap_blocks integer[]  what an admission now could take: to the last checkpoint of a state-cache model
---@field bound boolean[]                  the affinity key of the request is bound there
---@field cost number[]                    with score: the sums, for pick
---@field telemetry_age_ms number[]
---@field [integer] table<aisim.Column, any>
