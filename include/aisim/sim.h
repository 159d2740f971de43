/* sim.h - one simulation: virtual time, one event heap, pools of workers, requests (A1, A2, A8).
 *
 * Life: aisim_sim_new -> pools, clients, observers, timers, submissions -> aisim_sim_run (once) ->
 * read results -> aisim_sim_free. Several simulations may live in one process; none shares state.
 *
 * Event order is (time, class, sequence); the classes are listed below and in spec/lua-api.md §6.
 * Calls made from inside a callback (observer, timer, client, router) are legal for: submit,
 * cancel, timer, stop, worker state; "changes" (cancel, worker state) act after the current event.
 */
#ifndef AISIM_SIM_H
#define AISIM_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "aisim/clock.h"
#include "aisim/config.h"
#include "aisim/content.h"
#include "aisim/events.h"
#include "aisim/points.h"
#include "aisim/request.h"
#include "aisim/status.h"
#include "aisim/timing.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct aisim_sim aisim_sim;
struct aisim_profile;

/** Classes of events at equal times, in order. */
typedef enum {
    AISIM_CLASS_PASS_END = 1,
    AISIM_CLASS_TRANSFER = 2,
    AISIM_CLASS_TIMER = 3,
    AISIM_CLASS_ARRIVAL = 4,
    AISIM_CLASS_PASS_BEGIN = 5,
    AISIM_CLASS_TICK = 6
} aisim_event_class;

/** Reference to a request that survives its end: stale handles resolve to NULL. */
typedef struct aisim_handle {
    uint32_t index;
    uint32_t generation;
} aisim_handle;

/* ---- life ------------------------------------------------------------------------------------ */

aisim_sim *aisim_sim_new(uint64_t seed);
void aisim_sim_free(aisim_sim *sim); /**< NULL allowed */
uint64_t aisim_sim_seed(const aisim_sim *sim);
int64_t aisim_sim_now(const aisim_sim *sim);
aisim_content *aisim_sim_content(aisim_sim *sim);
aisim_observers *aisim_sim_observers(aisim_sim *sim);

/** Measures where the wall time of the run goes (base/profile.h). Before the run; borrowed until
 * the simulation is freed. Changes no result. */
void aisim_sim_profile(aisim_sim *sim, struct aisim_profile *profile);

/* ---- cluster --------------------------------------------------------------------------------- */

typedef struct aisim_pool_config {
    const char *name; /**< copied */
    aisim_role role;
    uint32_t workers; /**< >= 1 */
    aisim_rank_config rank;
    aisim_timing *timing;          /**< owned by the pool on success; shared by its ranks */
    const aisim_points *points;    /**< scheduler points, copied; NULL = none */
    aisim_transfer_price transfer; /**< of copies to and from its private host tiers and, role
                                        prefill, of its hand-offs; refused when there is neither */
} aisim_pool_config;

/** Adds a pool; its workers and ranks get the next numbers. At most one pool of role prefill and
 * one of role decode; a run needs both or neither.
 *  @param out  index of the pool, from 0
 *  @return AISIM_OK, or what aisim_rank_config_check says; AISIM_EEXIST for a second pool of that
 *  name; AISIM_EINVAL for points that contradict the configuration. */
aisim_status aisim_sim_pool_add(aisim_sim *sim, const aisim_pool_config *config, uint32_t *out,
                                aisim_error *err);
uint32_t aisim_sim_pools(const aisim_sim *sim);
uint32_t aisim_sim_workers(const aisim_sim *sim); /**< over all pools */
uint32_t aisim_sim_ranks(const aisim_sim *sim);   /**< over all pools */

typedef enum {
    AISIM_WORKER_STARTING,
    AISIM_WORKER_READY,
    AISIM_WORKER_DRAINING,
    AISIM_WORKER_DRAINED,
    AISIM_WORKER_STOPPED
} aisim_worker_state;
const char *aisim_worker_state_text(aisim_worker_state state);

/** Tokens per KV block of a pool. */
uint32_t aisim_sim_block_size(const aisim_sim *sim, uint32_t pool);
/** Its model keeps a recurrent state: only checkpoints can be restored (engine.md §11). */
bool aisim_sim_stateful(const aisim_sim *sim, uint32_t pool);

/** Load and state of one rank, all O(1). */
typedef struct aisim_rank_view {
    uint32_t pool, worker, rank_in_worker; /**< from 0; worker is global */
    aisim_worker_state state;
    uint32_t waiting, running;
    uint64_t kv_active, kv_inactive, kv_total; /**< blocks */
    uint64_t host_used; /**< blocks of its host pool, resident or on their way; shared: of all */
    uint64_t passes;
    /* kept by the router's book-keeping (spec/routing.md §1) */
    uint64_t active_requests, active_prefill_tokens, active_blocks;
} aisim_rank_view;

/** Single figures of many ranks, for policies that look at few of them. */
typedef enum {
    AISIM_FIGURE_ACTIVE_REQUESTS,
    AISIM_FIGURE_ACTIVE_PREFILL_TOKENS,
    AISIM_FIGURE_ACTIVE_BLOCKS,
    AISIM_FIGURE_WAITING,
    AISIM_FIGURE_RUNNING,
    AISIM_FIGURE_KV_USED, /**< kv_active */
    AISIM_FIGURE_KV_TOTAL
} aisim_figure;

/** One figure of a rank, the same as in aisim_rank_view. */
uint64_t aisim_sim_figure(const aisim_sim *sim, aisim_figure figure, uint32_t rank);

/** Which of n ranks have changed since a reading: of all others every figure is what it was. O(n),
 *  a comparison each.
 *  @param reading  of the last call, 0 = none: all ranks; receives the one to be given next
 *  @param places   receives the places of those ranks in the list, ascending; room for n
 *  @return how many they are */
uint32_t aisim_sim_touched(aisim_sim *sim, uint32_t n, const uint32_t ranks[], uint64_t *reading,
                           uint32_t places[]);
void aisim_sim_rank(const aisim_sim *sim, uint32_t rank, aisim_rank_view *out);
/** Blocks of kv_active that are recurrent state, checkpoints that are being read included;
 *  UINT64_MAX for a model without. O(extents) */
uint64_t aisim_sim_state_blocks(const aisim_sim *sim, uint32_t rank);

/** What a pool consists of. Numbers of workers and ranks are global, ascending; workers that were
 *  removed keep theirs. */
typedef struct aisim_pool_view {
    uint32_t n_workers, n_ranks;
    const uint32_t *workers, *ranks; /**< valid until workers are added */
    uint32_t ready, starting, draining;
    uint32_t queued;    /**< requests that wait at its router */
    int64_t startup_ns; /**< of its configuration */
} aisim_pool_view;
void aisim_sim_pool(const aisim_sim *sim, uint32_t pool, aisim_pool_view *out); /**< O(workers) */

/** Adds n workers; acts after the current event. Each is starting, and ready startup_ns later; they
 *  get the next numbers. */
void aisim_sim_pool_grow(aisim_sim *sim, uint32_t pool, uint32_t n, int64_t startup_ns);
/** Removes n workers, or as many as are starting or ready; acts after the current event. Those that
 *  start go first, then ready ones, the newest first. A removed worker is stopped; with drain it
 *  finishes what it has before (draining, drained, stopped), else its requests go back to the
 *  router. */
void aisim_sim_pool_shrink(aisim_sim *sim, uint32_t pool, uint32_t n, bool drain);
/** Tells of a worker that was added, before its first change of state. One listener. */
typedef void (*aisim_grown_fn)(void *context, aisim_sim *sim, uint32_t pool, uint32_t worker);
void aisim_sim_on_grown(aisim_sim *sim, aisim_grown_fn fn, void *context);

typedef enum { AISIM_WORKER_DRAIN, AISIM_WORKER_STOP, AISIM_WORKER_RESUME } aisim_worker_command;
/** Asks for a change of a worker's state; acts after the current event (spec/lua-api.md §6). */
void aisim_sim_worker(aisim_sim *sim, uint32_t worker, aisim_worker_command command);

/** E-B8: empties the prefix caches of a worker. AISIM_EBUSY with active blocks, nothing changed. */
aisim_status aisim_sim_flush_cache(aisim_sim *sim, uint32_t worker, aisim_error *err);

/* ---- routing --------------------------------------------------------------------------------- */

/** What a policy sees. Targets are the eligible ranks of the pool in (worker, rank) order. */
typedef struct aisim_targets {
    uint32_t n;
    const uint32_t *ranks; /**< global rank of each target */
    uint64_t version;      /**< of this pool's list: the same number, the same list; 0 = unknown */
    const void *host;      /**< for look */
    void (*look)(const void *host, uint32_t rank, aisim_rank_view *out);
} aisim_targets;

/** Where blocks are that a router hears of: device, host memory of the rank, host memory that ranks
 *  share. */
typedef enum { AISIM_ROUTER_DEVICE, AISIM_ROUTER_HOST, AISIM_ROUTER_SHARED } aisim_router_tier;

/** How a policy came to its last choice. */
typedef struct aisim_choice {
    const char *by; /**< "policy", "binding", "tentative", "pin" */
    double cost;    /**< of the chosen target, NaN = none */
} aisim_choice;

/** A routing policy: pick returns an index into targets, or AISIM_NONE = queue at the router.
 *  Anything else is an error of the policy. overlap, if not NULL, receives the overlap in blocks
 * that the policy counted on, or -1. On failure fill err and return AISIM_NONE. */
typedef struct aisim_router {
    const char *name; /**< copied */
    void *context;
    uint32_t (*pick)(void *context, aisim_sim *sim, const aisim_request *request,
                     const aisim_targets *targets, int64_t *overlap, aisim_error *err);
    void (*on_done)(void *context, const aisim_request *request,
                    uint32_t rank); /**< NULL allowed */
    void (*free)(void *context);    /**< NULL allowed */
    /* Book-keeping (spec/routing.md §1); each may be NULL, and then costs nothing. */
    void (*on_dispatch)(void *context, const aisim_request *request, uint32_t rank);
    void (*on_first_token)(void *context, const aisim_request *request, uint32_t rank);
    /** The worker was lost: the request goes back to the router. */
    void (*on_lost)(void *context, const aisim_request *request, uint32_t rank);
    void (*on_worker)(void *context, uint32_t worker); /**< its state has changed */
    /** Blocks of a run appeared in or left a tier of a rank; told when the pass ends, for host
     *  memory also when a copy ends. Of a shared tier each pool hears once, with one of its ranks.
     */
    void (*on_kv)(void *context, uint32_t rank, aisim_router_tier tier, bool stored, uint32_t run,
                  uint32_t first, uint32_t count);
    bool host_kv; /**< on_kv hears of host memory too; stores to it are then looked at one by one */
    /** Place in the queue of the router: smaller first, ties first come. `joins`: compute and
     *  remember it, else tell it again. NULL = first come, first served. */
    double (*queue_key)(void *context, const aisim_request *request, bool joins);
    /** Cost of each target, smaller = better; NaN = the policy would not take it. Books nothing.
     *  NULL = the policy has no cost. @return false: err is filled */
    bool (*cost)(void *context, aisim_sim *sim, const aisim_request *request,
                 const aisim_targets *targets, double *costs, aisim_error *err);
    /** Rank to which the affinity of the request is bound, AISIM_NONE = not. NULL = no affinity. */
    uint32_t (*bound)(void *context, const aisim_request *request);
    /** Explains the last choice of pick; NULL = by the policy, without a cost. */
    void (*explain)(void *context, aisim_choice *out);
    int64_t delay_ns; /**< a request is decided about so much later, with the figures of then: after
                           its arrival, in a decode pool after the choice of the prefill router */
    bool regret;      /**< measure chosen and best residency of each decision, O(targets) */
} aisim_router;

/** Where a request comes from, for affinity. AISIM_NO_SESSION = none. */
#define AISIM_NO_SESSION UINT32_MAX
typedef struct aisim_lineage {
    uint64_t play; /**< instance of a play; UINT64_MAX = no play */
    uint32_t session, parent, root;
    bool known; /**< false: parent and root are unknown and must not be guessed */
} aisim_lineage;
/** Asks the client of the request; without one its session is a root of its own. */
void aisim_sim_lineage(const aisim_sim *sim, const aisim_request *request, aisim_lineage *out);

/** Where a request comes from, for records: what a client knows beside the request itself. Sessions
 *  are numbers of the simulation, 0 = none or unknown. */
typedef struct aisim_descent {
    const char *request;   /**< what its file calls it, NULL = has no id; valid while it lives */
    const char *session;   /**< the same of its session */
    const char *play;      /**< id of its play, NULL = none; lives as long as the client */
    uint32_t lane;         /**< of the play, from 0; these two only with a play */
    uint32_t play_ordinal; /**< of the play in its lane, from 0 */
    uint32_t root_session, parent_session;
} aisim_descent;
/** Asks the client of a live request. */
void aisim_sim_descent(const aisim_sim *sim, const aisim_request *request, aisim_descent *out);

/** Hand-off: the rank that computes or has computed the prompt of a live request, AISIM_NONE =
 * none. O(1). */
uint32_t aisim_sim_prefill_rank(const aisim_sim *sim, const aisim_request *request);

/** Requests that have arrived and wait for their router to place them, over all pools. */
uint64_t aisim_sim_router_queue(const aisim_sim *sim);

/** Sets the policy of a pool; default is round_robin over targets. */
void aisim_sim_router(aisim_sim *sim, uint32_t pool, const aisim_router *router);
/** Name of the policy of a pool. */
const char *aisim_sim_router_name(const aisim_sim *sim, uint32_t pool);
/** The same policy wants to hear of more: its callbacks are replaced. Before the pool has a
 * request.
 */
void aisim_sim_router_listen(aisim_sim *sim, uint32_t pool, const aisim_router *router);

/** Leading full prompt blocks of the request that are resident on a rank (oracle view). O(extents).
 */
uint64_t aisim_sim_overlap_blocks(const aisim_sim *sim, const aisim_request *request,
                                  uint32_t rank);

/** Those an admission could use now: up to the last complete checkpoint for state-cache models,
 * else the same. O(extents). */
uint64_t aisim_sim_usable_blocks(const aisim_sim *sim, const aisim_request *request, uint32_t rank);

/** Leading full prompt blocks in host memory behind the resident ones (oracle view); 0 when the
 *  memory of the rank is not of that kind. @param tier  HOST or SHARED. O(extents). */
uint64_t aisim_sim_host_blocks(const aisim_sim *sim, const aisim_request *request, uint32_t rank,
                               aisim_router_tier tier);

/** Blocks active on a rank once the request is there too; what both have counts once
 *  (spec/routing.md §4). Needs aisim_sim_track_load. O(extents). */
uint64_t aisim_sim_potential_blocks(aisim_sim *sim, const aisim_request *request, uint32_t rank);

/** Asks for the router book-keeping of active_prefill_tokens (one lookup per dispatch). */
void aisim_sim_track_load(aisim_sim *sim);

/** Admission (spec/lua-api.md §7): called once per arrival before routing.
 *  @param delay_ns  0; may be set to hold the request back for so long, >= 0
 *  @return true = go on; false = rejected at the admission. */
typedef bool (*aisim_admission_fn)(void *context, aisim_sim *sim, const aisim_request *request,
                                   int64_t *delay_ns, aisim_error *err);
void aisim_sim_admission(aisim_sim *sim, aisim_admission_fn fn, void *context);

/* ---- hand-off from prefill to decode workers (spec/engine.md §15, routing.md §5) ---------------
 */

typedef enum {
    AISIM_HANDOFF_FULL_PROMPT,        /**< every token of the prompt is transferred */
    AISIM_HANDOFF_DESTINATION_MISSING /**< only what the decode rank lacks, in whole blocks */
} aisim_handoff_timing;

/** How long a transfer takes, and what it carries: latency + bytes / bandwidth, each transfer by
 *  itself. Zero-initialise, then set. */
typedef struct aisim_handoff_config {
    double gb_per_second; /**< decimal, 0 = bytes take no time */
    int64_t latency_ns;   /**< before the first byte, >= 0 */
    aisim_handoff_timing timing;
    double bytes_per_token; /**< of the whole model; 0 = unknown, then nothing is counted */
    double state_bytes;     /**< recurrent state of one request, travels always; 0 = has none */
    /* Bypass: the decode worker computes the prompt itself. 0 = never for this reason. */
    uint64_t local_below_tokens; /**< fewer prompt tokens than this are not on any decode rank */
    double local_below_usage; /**< some eligible decode rank uses less than this share of its KV */
} aisim_handoff_config;

/** Sets the link between the pools of role prefill and decode; without it transfers take no time.
 *  Requests sent to either pool take this way: targets of both pools are chosen at arrival, prefill
 *  first; the decode rank reserves blocks for the prompt; then the prefill rank computes it with
 * the first token; then the transfer; then the decode rank goes on and the source lets go. A
 * request that wants at most one token is served by the prefill pool alone. When a worker of either
 * end stops, its requests start again with the tokens they have. */
void aisim_sim_handoff(aisim_sim *sim, const aisim_handoff_config *config);

/** Decides at arrival, before any router (spec/lua-api.md §7); takes the place of the bypass above.
 *  @param overlap_blocks  leading prompt blocks on the decode target that has most of them
 *  @param targets         eligible ranks of the decode pool; none: the call is left out, remote
 *  @return true = local: the decode worker computes the prompt too. On failure fill err. */
typedef bool (*aisim_decide_fn)(void *context, aisim_sim *sim, const aisim_request *request,
                                uint64_t overlap_blocks, const aisim_targets *targets,
                                aisim_error *err);
void aisim_sim_decider(aisim_sim *sim, aisim_decide_fn fn, void *context);

/* ---- requests -------------------------------------------------------------------------------- */

/** What arrives. Zero-initialise, then set. */
typedef struct aisim_submit {
    int64_t at_ns;          /**< arrival; not before now */
    aisim_node content;     /**< the prompt; its run covers prompt_tokens. The caller keeps its own
                                 reference; the simulation takes one more until the request ends */
    uint32_t prompt_tokens; /**< = content.tokens */
    uint32_t output_tokens;
    aisim_node planned; /**< prompt + planned output ids (its run's path extends content), or
                             {0,0}: output is private to the request */
    int32_t priority;
    uint16_t client; /**< who hears of the end, AISIM_NO_CLIENT = nobody */
    uint32_t cookie; /**< for the client */
    uint32_t pool;
    uint32_t session;
    uint16_t turn;
    uint16_t class_id;
    uint8_t phase; /**< aisim_phase */
    uint8_t flags; /**< AISIM_REQF_NO_READ */
} aisim_submit;

/** Creates a request; it gets the next id at once and arrives at at_ns.
 *  @return AISIM_OK; AISIM_ERANGE (at_ns in the past, lengths), AISIM_ENOENT (pool). */
aisim_status aisim_sim_submit(aisim_sim *sim, const aisim_submit *submit, aisim_handle *out,
                              aisim_error *err);

/** The live request of a handle, NULL after its end. */
const aisim_request *aisim_sim_request(const aisim_sim *sim, aisim_handle handle);
aisim_handle aisim_sim_handle(const aisim_sim *sim, const aisim_request *request);

/** Asks for cancellation; acts after the current event. No-op for a finished request (E-T5). */
void aisim_sim_cancel(aisim_sim *sim, aisim_handle handle);
/** Changes the priority of a live request (reorders its queue under `priority`). */
void aisim_sim_set_priority(aisim_sim *sim, aisim_handle handle, int32_t priority);

/** Someone who issues requests and hears of their ends. Called after the observers. */
typedef struct aisim_client {
    void *context;
    void (*terminal)(void *context, aisim_sim *sim,
                     const aisim_request *request); /**< reason: request->end */
    void (*start)(
        void *context,
        aisim_sim *sim);         /**< at the begin of the run, in order of addition; NULL allowed */
    void (*free)(void *context); /**< NULL allowed */
    /** Prompt tokens that an infinite cache would reuse for this request; -1 = unknown. NULL
     *  allowed. */
    int64_t (*ideal)(void *context, const aisim_request *request);
    /** NULL allowed: sessions without parents. */
    void (*lineage)(void *context, const aisim_request *request, aisim_lineage *out);
    /** NULL allowed: no play, and the session is the root of itself. */
    void (*descent)(void *context, const aisim_request *request, aisim_descent *out);
} aisim_client;
uint16_t aisim_sim_client_add(aisim_sim *sim, const aisim_client *client);

/** Warmup of workloads (traffic 3.6). `add` says before the run that one will come; the first
 *  `begins` shows phase start -> warmup, the last `over` warmup -> profile, with a barrier between
 *  them if it ended in one. The measurement starts there. */
void aisim_sim_warmup_add(aisim_sim *sim);
void aisim_sim_warmup_begins(aisim_sim *sim);
void aisim_sim_warmup_over(aisim_sim *sim, bool barrier);

/** Workloads whose warmup has not ended. */
uint32_t aisim_sim_warming(const aisim_sim *sim);

/** The next number of a session, from 1: no two workloads have one in common. */
uint32_t aisim_sim_next_session(aisim_sim *sim);

/** When the next copy between tiers ends that a resting rank waits for; AISIM_NEVER (INT64_MAX) =
 *  none moves. O(tiers) */
int64_t aisim_sim_transfer_due(const aisim_sim *sim);

/** Index of a traffic class name, added if new ("" = 0). */
uint16_t aisim_sim_class(aisim_sim *sim, const char *name);
const char *aisim_sim_class_name(const aisim_sim *sim, uint16_t class_id);

/* ---- time ------------------------------------------------------------------------------------ */

/** fn(context, sim, t). The class decides the place among events of the same time: TIMER for user
 *  timers, ARRIVAL for generators of traffic, TICK for samples. `background` timers do not keep the
 *  run alive ("The run ends when only repetitions are left").
 *  @return a number > 0 for aisim_sim_timer_remove. at_ns < now is AISIM_ERANGE. */
typedef void (*aisim_timer_fn)(void *context, aisim_sim *sim, int64_t t_ns);
uint64_t aisim_sim_timer(aisim_sim *sim, int64_t at_ns, aisim_event_class class_, bool background,
                         aisim_timer_fn fn, void *context);
void aisim_sim_timer_remove(aisim_sim *sim, uint64_t timer); /**< no-op when it has fired */

/** Ends the run after the current event; reason is copied ("interrupted" by a signal, …). */
void aisim_sim_stop(aisim_sim *sim, const char *reason);
const char *aisim_sim_stop_reason(const aisim_sim *sim); /**< NULL = not stopped */
/** Ends the run with an error (from a callback). The first one wins. */
void aisim_sim_abort(aisim_sim *sim, const aisim_error *err);

typedef struct aisim_run_options {
    int64_t until_ns;        /**< events at the limit are processed; AISIM_NEVER = none */
    volatile int *interrupt; /**< polled every few thousand events; NULL = none */
    void (*progress)(void *context,
                     const aisim_sim *sim); /**< NULL = none; about every 65,536 events */
    void *progress_context;
    double max_wall_s; /**< traffic 3.5: stops the run after so much real time, looked at every few
                            thousand events; 0 = no guard */
} aisim_run_options;

/** Runs until nothing is left, the limit, or a stop.
 *  @return AISIM_OK; AISIM_EINVAL (a prefill pool without a decode pool, or the other way round);
 * AISIM_ELIVELOCK (E-T8, text names time, rank, head of queue; or events that ask for each other at
 * one time without an end); AISIM_ECALLBACK and others from
 * aisim_sim_abort; AISIM_EINTERRUPTED. */
aisim_status aisim_sim_run(aisim_sim *sim, const aisim_run_options *options, aisim_error *err);

/** Events that may still follow each other at this time before the run counts as a livelock. */
uint32_t aisim_sim_rounds_left(const aisim_sim *sim);

/** Totals of the run so far. */
typedef struct aisim_sim_stats {
    uint64_t events, passes, requests_created, requests_live;
} aisim_sim_stats;
void aisim_sim_stats_get(const aisim_sim *sim, aisim_sim_stats *out);

#ifdef __cplusplus
}
#endif
#endif
