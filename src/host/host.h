/* host.h - what one rank sees of host memory: stores, lookups, loads, and when they end
 * (spec/offload.md §3-§8).
 *
 * A *group* is one pool of host blocks with its transfers. A private group has one client and two
 * FIFO lanes: completions are known at submission. A shared group has a client per rank and one
 * equal-share link: a copy is visible to everybody when it has physically ended, while its owner
 * hears of it at its next boundary. A *transfer* (aisim_host_job) is named by its place in the
 * group's table while it lives; ids count stores and loads together in order of preparation.
 *
 *     store   prepare (blocks reserved, victims gone) -> submit (pass end) -> landed -> delivered
 *     load    load (sources pinned) -> arrived (pins released) -> delivered
 *
 * The rank drives time: nothing happens before aisim_host_done or aisim_host_group_advance is
 * called. Prompts are content paths; all costs are O(extents), nothing is O(blocks). */
#ifndef AISIM_HOST_HOST_H
#define AISIM_HOST_HOST_H

#include "aisim/events.h"
#include "aisim/status.h"
#include "base/map.h"
#include "host/fair_link.h"
#include "host/host_pool.h"
#include "host/lane.h"

typedef enum { AISIM_HOST_STORE, AISIM_HOST_LOAD } aisim_host_kind;

typedef enum {
    AISIM_HOST_JOB_FREE,
    AISIM_HOST_JOB_PREPARED,  /* a store before its pass end */
    AISIM_HOST_JOB_MOVING,    /* in a lane or in the link */
    AISIM_HOST_JOB_ARRIVED,   /* host side settled, its owner has not heard of it */
    AISIM_HOST_JOB_CANCELLED, /* a load that stands in its lane and does nothing any more */
    AISIM_HOST_JOB_DELIVERED  /* with the owner, until aisim_host_forget */
} aisim_host_job_state;

typedef struct aisim_host_job {
    uint64_t id;
    aisim_host_kind kind;
    aisim_host_job_state state;
    uint32_t request_id, slot; /* whose it is */
    uint32_t client;
    uint32_t run;    /* leaf of its owner's path */
    bool withdrawn;  /* nobody wants the delivery */
    uint64_t blocks; /* of the cohort */
    int64_t prepared_ns;
    int64_t begin_ns; /* submitted */
    int64_t done_ns;  /* AISIM_NEVER while unknown */
    uint32_t next;    /* in its queue, or the free list */
    aisim_host_stretches cohort;
} aisim_host_job;

struct aisim_host;

typedef struct aisim_host_group {
    aisim_host_pool pool;
    AISIM_ARRAY(aisim_host_job) jobs;
    uint32_t free_job;
    uint64_t next_id;
    bool shared;
    aisim_fair_link link;
    aisim_fair_dones arrived; /* scratch */
    AISIM_ARRAY(struct aisim_host *) clients;
    uint32_t block_size;
    double block_bytes;
    aisim_host_config contract; /* of the first participant */
    aisim_host_stretches path;  /* scratch */
} aisim_host_group;

typedef struct aisim_host_queue {
    uint32_t first, last;
} aisim_host_queue;

/** Sums over the life of a client; index = aisim_host_kind. */
typedef struct aisim_host_totals {
    uint64_t jobs[2], completed[2], blocks[2]; /* submitted; ended; blocks submitted */
    uint64_t cancelled_loads;
    int64_t transfer_ns[2]; /* submission to completion, summed */
    uint64_t retries, unfittable;
    uint64_t lookups, hits, deferred, hit_blocks;
} aisim_host_totals;

typedef struct aisim_host {
    aisim_host_group *group;
    uint32_t client;
    aisim_host_config config;
    aisim_host_lane lanes[2];    /* private, by aisim_host_kind */
    aisim_transfer_price price;  /* private: instead of their rates */
    uint32_t worker;             /* for the price */
    aisim_host_queue lane[2];    /* private: jobs in order of completion */
    aisim_host_queue prepared;   /* stores of the pass under way */
    aisim_host_queue arrived;    /* shared: settled, not delivered */
    AISIM_ARRAY(uint32_t) loads; /* moving */
    aisim_map latest;            /* request id -> its latest store, while that is a job */
    uint32_t outstanding;        /* jobs prepared or moving or arrived */
    aisim_host_totals totals;
} aisim_host;

/* ---- life ---------------------------------------------------------------------------------- */

/** A group without clients. @param block_bytes  of one block on one rank, > 0 */
aisim_host_group *aisim_host_group_new(aisim_content *content, const aisim_host_config *config,
                                       uint32_t block_size, double block_bytes);
void aisim_host_group_free(aisim_host_group *group); /**< NULL allowed; its clients go with it */

/** Whether a participant agrees with the group in layout, block size, block bytes, capacity and
 *  pool bandwidths. @return AISIM_EINVAL with a message that shows both contracts */
aisim_status aisim_host_contract(const aisim_host_group *group, const aisim_host_config *config,
                                 uint32_t block_size, double block_bytes, aisim_error *err);

/** A rank becomes a client. A private group takes one.
 *  @return NULL when aisim_host_contract refuses; no client number is used then. */
aisim_host *aisim_host_join(aisim_host_group *group, const aisim_host_config *config,
                            uint32_t block_size, double block_bytes, aisim_error *err);

/** Private group: its copies are priced from now on. @param worker  global, for the price */
void aisim_host_priced(aisim_host *host, aisim_transfer_price price, uint32_t worker);

/** Private group: a copy of so many blocks enters its lane, not before start_ns. @return when it is
 *  done. O(1) and the price */
int64_t aisim_host_move(aisim_host *host, aisim_host_kind kind, uint64_t blocks, int64_t start_ns);

/** The rank goes (§8): its loads and its prepared stores vanish, nothing is delivered any more.
 *  Moving stores still land in a shared pool; a private pool is emptied with them. */
void aisim_host_leave(aisim_host *host, int64_t t_ns);

/** Blocks [first, end) of the path that ends in `run` as stretches, root first; valid until the
 * next call with this group. O(runs touched and those behind) */
const aisim_host_stretches *aisim_host_path(aisim_host_group *group, uint32_t run, uint32_t first,
                                            uint32_t end);

/** Blocks [first, end) of a path whose copies have ended, from `first` on without a gap; looks
 * only. O(runs touched and those behind + extents) */
uint32_t aisim_host_resident(aisim_host_group *group, uint32_t run, uint32_t first, uint32_t end);

/** §6: reverse touch of blocks [first, end) of a path. O(extents touched) */
void aisim_host_touch(aisim_host_group *group, uint32_t run, uint32_t first, uint32_t end);

/* ---- stores -------------------------------------------------------------------------------- */

/** §5: blocks [first, end) of the path that ends in `run` should be here.
 *  @param prompt_blocks  full blocks of the whole prompt, touched after success (§10)
 *  @param job            PREPARED: receives the job */
aisim_host_admission aisim_host_prepare(aisim_host *host, uint32_t run, uint32_t first,
                                        uint32_t end, uint32_t prompt_blocks, uint32_t slot,
                                        uint32_t request_id, int64_t t_ns, uint32_t *job);

/** The same for blocks given as stretches in cohort order; touches nothing. */
aisim_host_admission aisim_host_prepare_range(aisim_host *host, const aisim_host_stretch *range,
                                              uint32_t n, uint32_t slot, uint32_t request_id,
                                              int64_t t_ns, uint32_t *job);

/** Submits the next prepared store; done_ns is known afterwards in a private group.
 *  @return the job, AISIM_NONE when none is left */
uint32_t aisim_host_submit(aisim_host *host, int64_t t_ns);

/* ---- lookup and load ----------------------------------------------------------------------- */

typedef enum { AISIM_HOST_MISS, AISIM_HOST_HIT, AISIM_HOST_DEFERRED } aisim_host_outcome;

typedef struct aisim_host_query {
    uint32_t run;           /**< leaf of the path */
    uint32_t prompt_blocks; /**< full blocks of the prompt: its keys */
    uint32_t device_blocks; /**< leading blocks the device has */
    uint32_t request_id;
} aisim_host_query;

/** §7.2, steps 3 to 6. @param blocks  HIT: length of the run behind the device blocks */
aisim_host_outcome aisim_host_lookup(aisim_host *host, const aisim_host_query *query,
                                     uint32_t *blocks);

/** A store that has been moving outside of the table (host_stream.h) becomes an ordinary job at the
 *  end of its lane, with the times it has; totals know it already. @return the job; the caller
 *  fills its cohort and its number of blocks. */
uint32_t aisim_host_adopt(aisim_host *host, uint32_t slot, uint32_t request_id, uint64_t id,
                          int64_t prepared_ns, int64_t begin_ns, int64_t done_ns);

/** §7.4: copies blocks [first, end) of the path, all resident, to the device.
 *  @param start_ns  not before; >= now. @return the job */
uint32_t aisim_host_load(aisim_host *host, uint32_t run, uint32_t first, uint32_t end,
                         uint32_t slot, uint32_t request_id, int64_t start_ns, int64_t now_ns);

/** The same for blocks given as stretches in cohort order. */
uint32_t aisim_host_load_range(aisim_host *host, const aisim_host_stretch *range, uint32_t n,
                               uint32_t slot, uint32_t request_id, int64_t start_ns,
                               int64_t now_ns);

/** Nobody waits for this load any more. Its host side goes on until aisim_host_cancel_withdrawn. */
void aisim_host_withdraw(aisim_host *host, uint32_t job);

/** Cancels the withdrawn loads that are still moving at t_ns: pins are released, the lane keeps its
 *  times. @return how many */
uint32_t aisim_host_cancel_withdrawn(aisim_host *host, int64_t t_ns);

/* ---- ends ---------------------------------------------------------------------------------- */

/** When the next completion of a private client is due, AISIM_NEVER = none moves. */
int64_t aisim_host_next(aisim_host *host);

/** The next transfer of this client that ended at or before t_ns, in order of time, stores first,
 *  then by id; its host side is settled. @return the job, to be given back with aisim_host_forget
 *  before the next call, or AISIM_NONE */
uint32_t aisim_host_done(aisim_host *host, int64_t t_ns);
void aisim_host_forget(aisim_host *host, uint32_t job);

/** Shared group: something has arrived for this client and waits for aisim_host_done. */
static inline bool aisim_host_arrived(const aisim_host *host)
{
    return host->arrived.first != AISIM_NONE;
}

/** Shared group: time of the next event of the link, AISIM_NEVER = idle. */
int64_t aisim_host_group_next(const aisim_host_group *group);
/** Shared group: everything up to t_ns happens; blocks become visible to all clients. */
void aisim_host_group_advance(aisim_host_group *group, int64_t t_ns);

static inline const aisim_host_job *aisim_host_job_at(const aisim_host *host, uint32_t job)
{
    return &host->group->jobs.data[job];
}

void aisim_host_verify(const aisim_host *host);

/* ---- the fit test (§7.3) ------------------------------------------------------------------- */

/** Blocks that a prefill or a load still needs: max(0, ceil(min(known + lookahead, limit) / b) -
 *  owned) (E-R1, E-R2). */
static inline uint64_t aisim_headroom_of(uint64_t known, uint64_t lookahead, uint64_t limit,
                                         uint32_t block_size, uint64_t owned)
{
    uint64_t tokens = known + lookahead < limit ? known + lookahead : limit;
    uint64_t footprint = (tokens + block_size - 1) / block_size;
    return footprint > owned ? footprint - owned : 0;
}

/** Blocks a head may count on (E-R4): headroom only counts for a host hit; never below 0. */
static inline uint64_t aisim_load_available(uint64_t blocks, uint64_t active, uint64_t headroom)
{
    uint64_t idle = blocks > active ? blocks - active : 0;
    return idle > headroom ? idle - headroom : 0;
}

#endif
