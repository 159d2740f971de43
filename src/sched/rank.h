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
#include "aisim/points.h"
#include "base/rng.h"
#include "kv/block_pool.h"
#include "sched/cruise.h"
#include "sched/offload.h"
#include "sched/queue.h"
#include "sched/recurrent.h"
#include "sched/requests.h"
#include "timing/timing.h"

/** One request scheduled in a pass. */
typedef struct aisim_plan_entry {
    uint32_t slot, generation; /* generation differs from the slot's: it ended meanwhile */
    uint32_t epoch;            /* its preemptions when planned */
    uint32_t before;           /* C before */
    uint32_t tokens;           /* 0 = undone (E-V3) or nothing to compute */
    uint32_t known;            /* L when planned */
    uint32_t slots;            /* tokens for which storage was asked */
    uint32_t published_before; /* blocks */
    uint32_t reused;           /* of the admission */
    uint8_t drafts;            /* draft positions scheduled */
    uint8_t verified;          /* drafts to verify at the end: drafts, or depth in burst mode */
    bool admitted;
    bool samples; /* C reaches L: a token comes out */
    bool prefill; /* prompt tokens or a resumed context: prefill work (E-O4) */
    bool idle;    /* E-T2, E-F1: all was cached and no token is wanted, so no work at all */
    bool undone;  /* E-V3 */
    bool lost;    /* E-M1: its decode did not run */
} aisim_plan_entry;

typedef enum {
    AISIM_DECIDED_ADMIT,
    AISIM_DECIDED_PREEMPT,
    AISIM_DECIDED_REJECT,
    AISIM_DECIDED_CHECKPOINT, /* told after the chunks, only if anybody wants to hear of it */
    AISIM_DECIDED_NOTHING     /* a checkpoint of a pass that a preemption undid (E-S15) */
} aisim_decision_kind;

/** Decisions of a plan in order; they become visible at the pass end (E-O3). */
typedef struct aisim_decision {
    aisim_decision_kind kind;
    uint32_t slot, generation;
    uint32_t tokens; /* admit: reused; preempt: C before the pass; checkpoint: its C */
    int64_t wait_ns; /* admit */
    bool restored;   /* admit: from a checkpoint at `tokens` */
    uint8_t reason;  /* reject: aisim_end_reason */
} aisim_decision;

/** A planned pass that is not complete yet. Several only with overlap (R7). */
typedef struct aisim_batch {
    bool in_use;
    uint64_t pass;
    int64_t begin_ns;
    AISIM_ARRAY(aisim_plan_entry) plan;
    AISIM_ARRAY(aisim_decision) decisions;
    aisim_pass_shape shape;
    uint32_t cruised; /* steady decoders in it, one token each (sched/cruise.h); not in plan */
} aisim_batch;

typedef struct aisim_running {
    uint32_t slot;
    uint32_t entry;        /* entry of the batch being planned, AISIM_NONE = none */
    uint32_t recurrent;    /* record of its state, AISIM_NONE = no state cache */
    uint32_t cruiser;      /* AISIM_NONE = does not cruise */
    uint32_t junction;     /* N2 */
    uint32_t headroom;     /* E-R1: its part of offload.headroom */
    uint32_t placeholders; /* N1, async */
    bool unknown_drafts;   /* N1, async */
} aisim_running;

/** What a lookup found for the head of the queue. */
typedef struct aisim_head_hit {
    uint32_t tokens;         /* reused, connector excluded */
    uint32_t blocks, active; /* whole blocks of it; held by somebody */
    uint32_t whole;          /* leading blocks on the device, before E-H3 and E-H4 */
    uint32_t reserved;       /* blocks its lease holds already (a finished load) */
    uint32_t from_host;      /* tokens of it that were loaded */
    uint32_t external;       /* tokens offered by rank.connector_tokens */
    aisim_state_ref source;  /* E-S8 */
    uint32_t partial;        /* extent of the partial page, AISIM_NONE = none */
    uint32_t junction;       /* N2 */
    bool same_pass;          /* R12 wait */
} aisim_head_hit;

/** A head that waits outside the queue until the end of step 2 (point admit). */
typedef struct aisim_skipped {
    uint32_t slot;
    aisim_queue_key key;
} aisim_skipped;

/** Result of one entry given by a test instead of drawn: tokens with the base, 0 = none. */
typedef struct aisim_result {
    uint32_t slot;
    uint32_t tokens;
    uint32_t drafts; /* outstanding afterwards, AISIM_NONE = depth */
} aisim_result;

typedef struct aisim_rank {
    aisim_engine *engine;
    uint32_t index;          /* global, from 0 */
    uint32_t rank_in_worker; /* for the draws (mtp.md §2) */
    uint32_t worker;         /* global, for events */
    aisim_rank_config config;
    aisim_block_pool pool;
    aisim_queue waiting;
    AISIM_ARRAY(aisim_running) running;
    AISIM_ARRAY(uint32_t) skipped;       /* cannot be scheduled yet, in order (fact 11) */
    AISIM_ARRAY(aisim_running) held;     /* hand-off sources that keep their lease (E-K6) */
    AISIM_ARRAY(uint32_t) pending;       /* hand-off reservations that wait for blocks (§15) */
    AISIM_ARRAY(aisim_running) received; /* states of reservations until they are admitted (E-S2) */
    uint32_t arrived; /* activated, not admitted, with flag ARRIVED: their blocks can be dropped */
    aisim_recurrents recurrents;
    aisim_recurrent_rules rules;
    aisim_rng draws;       /* stream = worker */
    uint32_t next_ordinal; /* E-L2 */

    /* passes */
    AISIM_ARRAY(aisim_batch) batches;
    uint32_t current;     /* batch planned last */
    uint32_t in_flight;   /* batches in use */
    uint64_t pass;        /* number of the next pass to complete */
    uint32_t plan_serial; /* counts plans: "this pass" of §11 */
    uint32_t budget_left;
    uint32_t prompt_planned;      /* N3 */
    bool preempted;               /* E-P6 */
    bool deferred;                /* this pass defers prefills (§14) */
    bool capacity_bound;          /* E-P17 */
    bool blocked;                 /* the last plan changed nothing: wait for a command */
    int64_t now_ns;               /* begin of the plan under way */
    int64_t last_delivery_ns;     /* end of the last pass that delivered a token */
    uint32_t kv_told;             /* entries of pool.log that engine.kv_changed has seen */
    int64_t previous_delivery_ns; /* of the one before the pass that completes */
    uint64_t told_lost;           /* pool.extents.lost in the last facts */
    aisim_cruise cruise;
    aisim_offload offload;      /* host tier */
    uint32_t left;              /* running entries to take out when all have been seen */
    uint32_t preempting_passes; /* E-T8: consecutive, without a delivered token */
    uint64_t decode_forwards, accepted_with_base; /* mtp.md §7 */
    uint32_t connector_tokens; /* tests: a connector that offers so many to every lookup */

    /* memo of the blocked head (§19.12) */
    uint32_t memo_slot, memo_request_generation, memo_index_generation, memo_known;
    bool memo_stable; /* nothing of it waits for the next pass (E-S4) */
    aisim_head_hit memo;

    aisim_length_stats queued_prefill, queued_decode; /* E-F1 */

    const aisim_points *points; /* of the pool */
    uint32_t point_mask;        /* AISIM_POINT_BIT: which of them are set */
    uint32_t kept_waiting;      /* id of a request that a point kept from this plan, 0 = none … */
    aisim_point kept_by;        /* … and the point */
    AISIM_ARRAY(aisim_skipped) passed;   /* heads that the point admit skips in this pass */
    AISIM_ARRAY(aisim_candidate) chosen; /* scratch: what the point victim sees */
} aisim_rank;

void aisim_rank_init(aisim_rank *rank, aisim_engine *engine, uint32_t index,
                     const aisim_rank_config *config);
/** Its place in the attention-data-parallel group, from 0: part of the draws (mtp.md §2). */
void aisim_rank_set_index_in_worker(aisim_rank *rank, uint32_t index);
void aisim_rank_deinit(aisim_rank *rank);

/** Sets the scheduler points, before the first request. @param points  of the caller, outlives the
 *  rank; NULL = none. */
void aisim_rank_points(aisim_rank *rank, const aisim_points *points);

/** A placed request joins the waiting queue; it gets the next arrival ordinal. */
void aisim_rank_submit(aisim_rank *rank, uint32_t slot);

/** E-T5: takes the request out of whatever it is in and frees its blocks. The caller ends it. */
void aisim_rank_cancel(aisim_rank *rank, uint32_t slot);

/** The same for a request that lives on elsewhere: a pass in flight delivers nothing of it, its
 * work counts. O(plan) */
void aisim_rank_withdraw(aisim_rank *rank, uint32_t slot);

/** Every pass in flight is broken off: nothing of it is delivered (a worker stops). */
void aisim_rank_abandon(aisim_rank *rank);

/** Tells engine.kv_changed what the cache log holds and it has not seen; a pass end does it too. */
void aisim_rank_tell_kv(aisim_rank *rank);
/** The same for its host tier alone, also while a pass is in flight (offload_events.c). */
void aisim_rank_tell_host(aisim_rank *rank);
/** Leading full blocks of the prompt that an admission now could use: state-cache models restore
 *  at a checkpoint only (E-S8); for others the resident ones. O(depth + extents matched). */
uint32_t aisim_rank_usable_blocks(aisim_rank *rank, const aisim_request *r);

/** New priority: under `priority` the queue place follows. */
void aisim_rank_set_priority(aisim_rank *rank, uint32_t slot, int32_t priority);

/** Something is queued or running, no pass is in flight, and the last plan was not in vain. */
static inline bool aisim_rank_ready(const aisim_rank *rank)
{
    return rank->in_flight == 0 && !rank->blocked &&
           (rank->running.len > 0 || rank->waiting.slots.len > 0 || rank->offload.ready > 0);
}

/** E-P0..E-P17 at time t. @param defer  the pass defers prefills (E-G2).
 *  @return the batch, or AISIM_NONE: it schedules nothing, decides nothing, no pass (E-T8). */
uint32_t aisim_rank_plan(aisim_rank *rank, int64_t t_ns, bool defer);

static inline aisim_batch *aisim_rank_batch(const aisim_rank *rank, uint32_t batch)
{
    return &rank->batches.data[batch];
}

/** E-O1..E-O3 at the end of a pass. @param results  NULL: one token per ready request, drafts drawn
 *  (mtp.md §2); else entries without a result get nothing (tests). */
void aisim_rank_complete(aisim_rank *rank, uint32_t batch, int64_t end_ns,
                         const aisim_result *results, uint32_t n_results);

/** E-G2 for this rank: it may defer (a running request has its prompt complete). */
bool aisim_rank_has_decode(const aisim_rank *rank);

/** Remaining output budget of E-O2: min(O - G, M - L), the second only with a context limit. */
static inline uint32_t aisim_rank_output_left(const aisim_rank *rank, const aisim_request *r)
{
    uint32_t left = r->output_tokens - r->generated;
    if ((r->flags & AISIM_REQF_PREFILL) != 0) { /* §15.2, mtp.md §9: one token, from the prefill */
        left = left > 0 && r->generated == 0;
    }
    uint64_t limit = rank->config.scheduler.context_length;
    if (limit > 0) {
        uint64_t known = aisim_known(r);
        uint64_t room = limit > known ? limit - known : 0;
        left = room < left ? (uint32_t)room : left;
    }
    return left;
}

/* ---- queue of what cannot be scheduled yet, hand-off (§15) ----------------------------------- */

/** A request joins the second queue until aisim_rank_unblock, which is a no-op for any other. */
void aisim_rank_submit_blocked(aisim_rank *rank, uint32_t slot);
void aisim_rank_unblock(aisim_rank *rank, uint32_t slot);

/** Destination: reserves the blocks of the prompt, now or when capacity comes free, in order.
 *  @return false = it can never be here (P = 0, P >= M, larger than the pool); no state. */
bool aisim_rank_reserve(aisim_rank *rank, uint32_t slot);
/** Tokens that a reserved request still needs transferred (whole blocks). */
uint32_t aisim_rank_missing(const aisim_rank *rank, uint32_t slot);
/** Time on the link between source and destination (engine.md section 15), in ms.
 *  @param tokens        the prompt, or what is missing
 *  @param state_bytes   recurrent state that travels along
 *  @param gb_per_second decimal, > 0 */
double aisim_handoff_ms(uint64_t tokens, double bytes_per_token, double state_bytes,
                        double gb_per_second);
/** Why aisim_rank_reserve refuses the request for ever, AISIM_END_NONE = it does not. */
aisim_end_reason aisim_rank_unreservable(const aisim_rank *rank, const aisim_request *r);
/** What `from` has reserved here is from now on of `to`, with its place in the order; `from` has
 *  nothing any more. */
void aisim_rank_adopt(aisim_rank *rank, uint32_t from, uint32_t to);
/** The transfer has arrived: blocks are published, C = A = what was reserved for, it queues at its
 *  ordinal. @return false = no-op */
bool aisim_rank_activate(aisim_rank *rank, uint32_t slot);
/** Source: gives a held lease back. @return false = no-op. The caller ends the request. */
bool aisim_rank_release_source(aisim_rank *rank, uint32_t slot);

/** E-B8; with force everything running is preempted first, newest first. False: nothing changed. */
bool aisim_rank_reset(aisim_rank *rank, bool force);

/** The draw of mtp.md §2: accepted drafts of `drafts` verified, stream per_request. */
uint32_t aisim_draw_accepted(uint64_t seed, uint32_t rank, uint64_t request, uint64_t step,
                             const double *rates, uint32_t drafts);
/** The same in two steps: r of the request, then the draw of one verification. */
uint64_t aisim_draw_key(uint64_t seed, uint32_t rank, uint64_t request);
uint32_t aisim_draw_from(uint64_t key, uint64_t step, const double *rates, uint32_t drafts);

/** Emits RANK_TOTALS. */
void aisim_rank_show_totals(const aisim_rank *rank, int64_t t_ns);

/** I1-I23 that apply; expensive. */
void aisim_rank_verify(const aisim_rank *rank);

#endif
