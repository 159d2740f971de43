/* worker.h - one engine instance: ranks in lock step (spec/engine.md §14).
 *
 * A group pass starts when no pass is in flight and at least one rank is ready; all ready ranks
 * plan at the same time; the group ends with its slowest rank and everything becomes visible then
 * (E-G1). With one rank this is just that rank. */
#ifndef AISIM_CLUSTER_WORKER_H
#define AISIM_CLUSTER_WORKER_H

#include "aisim/sim.h"
#include "sched/rank.h"

typedef struct aisim_worker {
    uint32_t index; /* global, from 0 */
    uint32_t pool;
    uint32_t first_rank; /* global */
    uint32_t n_ranks;
    aisim_rank **ranks; /* n_ranks pointers; owned by the simulation */
    struct aisim_timing *timing;
    aisim_worker_state state;
    bool removed;      /* it stops once it is drained */
    bool start_queued; /* the end of its start-up is on the heap */
    bool in_flight;
    bool begin_queued;               /* a pass begin of this worker is on the heap */
    uint32_t serial;                 /* counts passes begun or broken off: tells stale pass ends */
    uint32_t requests;               /* placed here and not ended */
    uint64_t wave_step;              /* E-G2: group passes since the group was drained */
    bool price_failed;               /* the timing model failed; see aisim_timing_error */
    aisim_pass_shape priced;         /* a pass that is priced already, but did not begin … */
    int64_t priced_ns;               /* … and its duration, -1 = none */
    int64_t last_pass_ns;            /* duration of the last one */
    uint64_t glided;                 /* passes that aisim_worker_glide walked through */
    AISIM_ARRAY(uint64_t) chunk_len; /* scratch of models that price each request */
    AISIM_ARRAY(uint64_t) chunk_start;
    AISIM_ARRAY(uint64_t) context;
} aisim_worker;

void aisim_worker_deinit(aisim_worker *worker);

/** Some rank could plan now. */
bool aisim_worker_ready(const aisim_worker *worker);

/** Emits pass.begin of all ready ranks, then plans them.
 *  @param end_ns  receives the end of the group pass
 *  @return false = nobody had anything to do: no pass. With worker->price_failed set the timing
 * model failed and the run has to end. */
bool aisim_worker_begin(aisim_worker *worker, const aisim_observers *observers, int64_t t_ns,
                        int64_t *end_ns);

/** Whoever walks through passes that active observers hear of. */
typedef struct aisim_pass_watch {
    void *context;
    void (*clock)(void *context, int64_t end_ns); /**< a pass ends: before anybody hears of it */
    bool (*asked)(void *context); /**< afterwards: somebody asked for something, stop here */
} aisim_pass_watch;

/** Passes of the only rank from t on in which nothing is decided (sched/glide.h), as far as they
 * end before limit_ns, at most `most` of them.
 *  @param passes  receives their number
 *  @param asked   receives whether the watch stopped them: no pass may begin before it is answered
 *  @return the end of the last one, t_ns without any */
int64_t aisim_worker_glide(aisim_worker *worker, int64_t t_ns, int64_t limit_ns, uint32_t most,
                           const aisim_pass_watch *watch, uint32_t *passes, bool *asked);
/** Emits KV_LEVEL of a rank: its blocks changed outside of a pass end. */
void aisim_worker_show_level(const aisim_rank *rank, const aisim_observers *observers,
                             int64_t t_ns);

/** Completes all planned ranks, in rank order. */
void aisim_worker_end(aisim_worker *worker, int64_t end_ns);

/** E-G1: the end of a group pass (begin: its start) when one more rank ends at rank_end_ns. */
static inline int64_t aisim_group_end_ns(int64_t end_ns, int64_t rank_end_ns)
{
    return rank_end_ns > end_ns ? rank_end_ns : end_ns;
}

/** E-G2 as a pure function: the pass with this wave step defers prefills. */
bool aisim_defers_prefill(uint32_t group_ranks, uint64_t wave_step, uint32_t interval,
                          bool capacity_bound, bool has_decode);

#endif
