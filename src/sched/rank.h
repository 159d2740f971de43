/* rank.h - one scheduler with its KV pool: what happens in a pass (spec/engine.md §4-6, §13).
 *
 * A pass is two calls (spec/reconciliation.md N1): aisim_rank_plan books progress, blocks and
 * publications at the begin; aisim_rank_complete delivers tokens and endings at the end. Between
 * them commands are accepted (E-O5). The time of a pass is decided outside, from rank->shape.
 *
 * There is no prefill and no decode phase: a pass tries to move every request's computed tokens C
 * up to its known tokens L; running requests first, in order, then the head of the waiting queue.
 *
 * Cost: a plan touches each running request once and each admitted one O(extents); the waiting
 * queue is never scanned, and a blocked head is looked up again only after the index changed
 * (§19.12). */
#ifndef AISIM_SCHED_RANK_H
#define AISIM_SCHED_RANK_H

#include "aisim/config.h"
#include "kv/block_pool.h"
#include "sched/queue.h"
#include "sched/requests.h"
#include "timing/timing.h"

/** One request scheduled in the pass in flight. */
typedef struct aisim_plan_entry {
    uint32_t slot, generation; /* generation differs from the slot's: it ended meanwhile */
    uint32_t before;           /* C before */
    uint32_t tokens;           /* 0 = undone (E-V3) */
    uint32_t published_before; /* blocks */
    bool prefill;              /* prompt tokens or a resumed context: prefill work (E-O4) */
} aisim_plan_entry;

typedef enum {
    AISIM_DECIDED_ADMIT,
    AISIM_DECIDED_PREEMPT,
    AISIM_DECIDED_REJECT
} aisim_decision_kind;

/** Decisions of a plan in order; they become visible at the pass end (E-O3). */
typedef struct aisim_decision {
    aisim_decision_kind kind;
    uint32_t slot, generation;
    uint32_t tokens; /* admit: reused; preempt: C before the pass */
    int64_t wait_ns; /* admit */
    uint8_t reason;  /* reject: aisim_end_reason */
} aisim_decision;

typedef struct aisim_running {
    uint32_t slot;
    uint32_t entry; /* plan entry of the pass in flight, AISIM_NONE = none */
} aisim_running;

typedef struct aisim_rank {
    aisim_engine *engine;
    uint32_t index; /* global, from 0 */
    aisim_rank_config config;
    aisim_block_pool pool;
    aisim_queue waiting;
    AISIM_ARRAY(aisim_running) running;
    uint32_t next_ordinal; /* E-L2 */

    /* the pass in flight or just planned */
    bool in_flight;
    int64_t begin_ns;
    uint64_t pass; /* number of the next pass */
    AISIM_ARRAY(aisim_plan_entry) plan;
    AISIM_ARRAY(aisim_decision) decisions;
    aisim_pass_shape shape;
    uint32_t budget_left;
    bool preempted;             /* E-P6 */
    bool deferred;              /* this pass defers prefills (§14) */
    bool capacity_bound;        /* E-P17 */
    bool blocked;               /* the last plan changed nothing: wait for a command */
    int64_t last_end_ns;        /* end of the previous pass */
    uint32_t preempting_passes; /* E-T8: consecutive, without a delivered token */

    /* memo of the blocked head (§19.12) */
    uint32_t memo_slot, memo_request_generation, memo_index_generation;
    uint32_t memo_hit, memo_active;
    uint32_t memo_known;

    aisim_length_stats queued_prefill, queued_decode; /* E-F1 */
} aisim_rank;

void aisim_rank_init(aisim_rank *rank, aisim_engine *engine, uint32_t index,
                     const aisim_rank_config *config);
void aisim_rank_deinit(aisim_rank *rank);

/** A placed request joins the waiting queue; it gets the next arrival ordinal. */
void aisim_rank_submit(aisim_rank *rank, uint32_t slot);

/** E-T5: takes the request out of whatever it is in and frees its blocks. The caller ends it. */
void aisim_rank_cancel(aisim_rank *rank, uint32_t slot);

/** The pass in flight is broken off: nothing of it is delivered (a worker stops). */
void aisim_rank_abandon(aisim_rank *rank);

/** New priority: under `priority` the queue place follows. */
void aisim_rank_set_priority(aisim_rank *rank, uint32_t slot, int32_t priority);

/** Something is queued or running, no pass is in flight, and the last plan was not in vain. */
static inline bool aisim_rank_ready(const aisim_rank *rank)
{
    return !rank->in_flight && !rank->blocked &&
           (rank->running.len > 0 || rank->waiting.slots.len > 0);
}

/** E-P0..E-P17 at time t. @param defer  the pass defers prefills (E-G2).
 *  @return false = it schedules nothing, decides nothing: no pass (E-T8). */
bool aisim_rank_plan(aisim_rank *rank, int64_t t_ns, bool defer);

/** E-O1..E-O3 at the pass end. @param begin_ns of the pass. */
void aisim_rank_complete(aisim_rank *rank, int64_t end_ns);

/** E-G2 for this rank: it may defer (a running request has its prompt complete). */
bool aisim_rank_has_decode(const aisim_rank *rank);

/** E-S/E-H3: bound on the hit of a request: the last token is recomputed while output is wanted. */
uint32_t aisim_rank_hit_bound(const aisim_rank *rank, const aisim_request *r);

/** Remaining output budget of E-O2. */
uint32_t aisim_rank_output_left(const aisim_rank *rank, const aisim_request *r);

/** I1-I23 that apply; expensive. */
void aisim_rank_verify(const aisim_rank *rank);

#endif
