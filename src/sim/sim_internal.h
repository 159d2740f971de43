/* sim_internal.h - the simulation object, shared by the files of src/sim. */
#ifndef AISIM_SIM_INTERNAL_H
#define AISIM_SIM_INTERNAL_H

#include "aisim/sim.h"
#include "base/check.h"
#include "cluster/span.h"
#include "cluster/worker.h"
#include "sim/handoff.h"
#include "sim/heap.h"

typedef struct sim_pool {
    char *name;
    aisim_role role;
    aisim_rank_config rank;        /* of each of its ranks, also of workers added later */
    AISIM_ARRAY(uint32_t) workers; /* its workers, ascending; removed ones stay */
    AISIM_ARRAY(uint32_t) ranks;   /* their ranks, ascending */
    struct aisim_timing *timing;
    aisim_points *points; /* NULL = none */
    aisim_transfer_price transfer;
    aisim_router router;
    char *router_name;
    AISIM_ARRAY(uint32_t) queued;  /* slots that wait for a target, in order of arrival */
    AISIM_ARRAY(uint32_t) targets; /* ranks of its ready workers, ascending … */
    uint64_t targets_version;      /* … counts their changes, from 1 … */
    bool targets_stale;            /* … to be listed again: a worker has changed its state */
} sim_pool;

typedef struct sim_timer {
    aisim_timer_fn fn; /* NULL = free */
    void *context;
    uint32_t generation;
    uint32_t next_free;
    bool background;
} sim_timer;

typedef enum {
    CHANGE_CANCEL,
    CHANGE_WORKER,
    CHANGE_PRIORITY,
    CHANGE_GROW,
    CHANGE_SHRINK
} sim_change_kind;

/* A change asked for while an event was under way (spec/lua-api.md §6 "Changes"). */
typedef struct sim_change {
    sim_change_kind kind;
    aisim_handle handle;
    uint32_t worker; /* or pool */
    int32_t value;   /* worker command or priority; shrink: drain first */
    uint32_t n;      /* workers to add or to remove */
    int64_t ns;      /* start-up time */
} sim_change;

typedef AISIM_ARRAY(aisim_route_extent) sim_path;

/* Of a rank, see books.c. Blocks: references of shared ones, and how many are private. */
typedef struct sim_load {
    uint64_t active_requests, active_prefill_tokens, private_blocks;
    aisim_span_set blocks;
} sim_load;

/* What a request counts for, by slot. */
typedef struct sim_booked {
    uint32_t uncached; /* prompt tokens in active_prefill_tokens */
    bool counted;      /* its blocks are in the load of its rank; of a hand-off: the prefill rank */
    bool received;     /* … of the decode rank */
} sim_booked;

/* A pool of host blocks; its transfers are watched by one entry of the heap at a time. */
typedef struct sim_tier {
    aisim_host_group *group;
    uint32_t rank;  /* private: whose it is */
    int64_t due_ns; /* time of the entry that counts, AISIM_NEVER = none */
} sim_tier;

/* An observer whose time is measured. */
typedef struct sim_watched {
    aisim_observer inner;
    aisim_profile *profile;
} sim_watched;

struct aisim_sim {
    uint64_t seed;
    int64_t now_ns;
    aisim_engine engine;
    aisim_heap heap;
    AISIM_ARRAY(sim_pool) pools;
    AISIM_ARRAY(aisim_worker) workers;
    AISIM_ARRAY(aisim_rank *) ranks;
    AISIM_ARRAY(uint32_t) rank_workers; /* worker of each rank */
    AISIM_ARRAY(uint64_t) touched;    /* of each rank: readings when it changed last (sim_touch) */
    uint64_t readings;                /* of figures, so far */
    AISIM_ARRAY(sim_load) loads;      /* of each rank */
    AISIM_ARRAY(sim_tier) tiers;      /* host memory */
    AISIM_ARRAY(uint32_t) rank_tiers; /* of each rank, AISIM_NONE = no host tier */
    AISIM_ARRAY(sim_booked) booked;   /* with track_load */
    sim_path path;                    /* scratch */
    AISIM_ARRAY(aisim_client) clients;
    AISIM_ARRAY(sim_timer) timers;
    uint32_t free_timer;
    uint64_t removed_foreground; /* removed timers and start-ups that are still on the heap */
    AISIM_ARRAY(char *) classes;
    AISIM_ARRAY(sim_change) changes;
    sim_handoffs handoffs;
    aisim_grown_fn grown;
    void *grown_context;
    aisim_admission_fn admission;
    void *admission_context;
    bool track_load;  /* some policy reads active_prefill_tokens or active_blocks */
    uint32_t warming; /* workloads whose warmup is not over */
    bool warmup_shown;
    uint32_t sessions; /* numbers given */
    bool running, started;
    bool retry_routers; /* a load-lowering event happened */
    char *stop_reason;
    aisim_error error; /* of a callback */
    uint64_t events;
    uint64_t round_end; /* events from this sequence on were put on the heap in this round */
    uint32_t rounds;    /* of this time stamp: each waits for nothing but the one before */
    int64_t until_ns;   /* limit of the run */
    aisim_check_context check;
    sim_watched watched[AISIM_MAX_OBSERVERS]; /* with a profile */
};

static inline aisim_request *sim_request(const aisim_sim *sim, uint32_t slot)
{
    return aisim_requests_at(&sim->engine.requests, slot);
}

/** The rank in order to change it: its figures may be others afterwards (aisim_sim_touched).
 * Whoever only reads takes it from sim->ranks. No decision is made between the call and the change.
 */
static inline aisim_rank *sim_touch(aisim_sim *sim, uint32_t rank)
{
    sim->touched.data[rank] = sim->readings;
    return sim->ranks.data[rank];
}

/** The same for all ranks of a worker. */
static inline void sim_touch_worker(aisim_sim *sim, const aisim_worker *worker)
{
    for (uint32_t i = 0; i < worker->n_ranks; i++) {
        sim->touched.data[worker->first_rank + i] = sim->readings;
    }
}

/** Pool of a request: of its rank, or, while it is not placed, kept in `position`. */
static inline sim_pool *sim_pool_of(aisim_sim *sim, const aisim_request *r)
{
    uint32_t pool = r->rank == AISIM_NONE ? r->position
                                          : sim->workers.data[sim->rank_workers.data[r->rank]].pool;
    return &sim->pools.data[pool];
}

/** One more event or change that was asked for at the time at which it happens.
 *  @return AISIM_ELIVELOCK when there have been so many that time stands still. */
aisim_status sim_count_round(aisim_sim *sim, aisim_error *err);

/** Runs on the path of a prompt, from the root on: each with its full blocks. O(runs). */
void sim_prompt_path(const aisim_content *content, const aisim_request *r, uint32_t block_size,
                     sim_path *path);
/** The request counts for the rank from now on. @param overlap  blocks its policy counted on, -1 =
 *  to be looked up
 *  @param prefills  the rank will compute the prompt */
void sim_book(aisim_sim *sim, uint32_t slot, uint32_t rank, int64_t overlap, bool prefills);
/** It ends or leaves the rank. */
void sim_unbook(aisim_sim *sim, uint32_t slot, uint32_t rank);
/** Its prompt is computed: the tokens are no load any more (spec/routing.md §1). */
void sim_uncount_prefill(aisim_sim *sim, uint32_t slot, uint32_t rank);
/** Host tier for the rank just added to the list, private or shared (tiers.c).
 *  @param price  of its copies; price.price NULL = bandwidths */
void sim_tier_attach(aisim_sim *sim, aisim_rank *rank, aisim_transfer_price price);
/** The shared pool, if there is one, takes participants of this configuration; a price of transfers
 *  has transfers that it can price. */
aisim_status sim_tier_check(const aisim_sim *sim, const aisim_pool_config *config,
                            aisim_error *err);
/** Puts the next end of a transfer on the heap, for the tiers of the worker's ranks. */
void sim_watch_worker(aisim_sim *sim, uint32_t worker);
/** The rank shares its host memory with others. */
bool sim_shared_tier(const aisim_sim *sim, uint32_t rank);
/** Blocks of a shared tier: each router whose pool takes part hears once. */
void sim_tell_shared(aisim_sim *sim, uint32_t rank, bool stored, uint32_t run, uint32_t first,
                     uint32_t count);
/** A transfer of the tier ends now. */
void sim_transfer(aisim_sim *sim, uint32_t tier);
void sim_tiers_free(aisim_sim *sim);
/** One more worker of the pool, stopped (sim.c). @return its number */
uint32_t sim_add_worker(aisim_sim *sim, uint32_t pool);
/** pool.c: n more workers begin to start; n workers go. */
void sim_grow(aisim_sim *sim, uint32_t pool, uint32_t n, int64_t startup_ns);
void sim_shrink(aisim_sim *sim, uint32_t pool, uint32_t n, bool drain);
/** The worker has started, unless it was removed meanwhile. */
void sim_started(aisim_sim *sim, uint32_t worker);
/** Stops a worker: its requests go back to the router (change.c). */
void sim_stop_worker(aisim_sim *sim, uint32_t worker);
/** Puts a pass begin of the worker on the heap if it could plan and none is there. */
void sim_wake(aisim_sim *sim, uint32_t worker);
/** Ranks of the pool that may be chosen; valid until a worker changes its state. O(1) until then.
 */
aisim_targets sim_targets(aisim_sim *sim, sim_pool *pool);
/** A router has placed a request: books, callbacks, the event. @param prefills  as sim_book */
void sim_enter(aisim_sim *sim, uint32_t slot, uint32_t rank, int64_t overlap, bool prefills);
/** Off the books of a rank, its router is told. @param lost  the worker is gone */
void sim_leave(aisim_sim *sim, uint32_t slot, uint32_t rank, bool lost);
/** Routes an arrived or waiting request. @return false = it stays queued at the router. */
bool sim_route(aisim_sim *sim, uint32_t slot);
/** Routes it, or puts it into the queue of its pool. */
void sim_route_or_queue(aisim_sim *sim, uint32_t slot);
/** Puts a request into the queue of its router, where the router says. */
void sim_join_queue(aisim_sim *sim, sim_pool *pool, uint32_t slot);
/** Takes it out of the queue of its router, if it is in one. */
void sim_unqueue(aisim_sim *sim, uint32_t slot);
/** Serves the router queues after a load-lowering event. */
void sim_retry_routers(aisim_sim *sim);
/** Ends a request that is in no rank: terminal event, client, slot. */
void sim_end(aisim_sim *sim, uint32_t slot, aisim_end_reason reason, aisim_where where);
/** engine.ended: client, router, content, slot. */
void sim_ended(void *context, uint32_t slot);
/** engine.ideal: asks the client. */
int64_t sim_ideal(void *context, const aisim_request *r);
/** Carries out the changes asked for during the last event. */
void sim_apply_changes(aisim_sim *sim);
/** One arrival (spec/lua-api.md §6): arrive, admission, route or reject. */
void sim_arrive(aisim_sim *sim, uint32_t slot);
void sim_worker_state(aisim_sim *sim, uint32_t worker, aisim_worker_state to);
/** draining -> drained when nothing is left. */
void sim_check_drained(aisim_sim *sim, uint32_t worker);

#endif
