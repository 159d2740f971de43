/* plan.h - inside src/sched: what plan.c, admit.c, preempt.c, speculate.c and complete.c share. */
#ifndef AISIM_SCHED_PLAN_H
#define AISIM_SCHED_PLAN_H

#include "base/check.h"
#include "host/host_stream.h"
#include "sched/rank.h"

void aisim_rank_enqueue(aisim_rank *rank, uint32_t slot);
void aisim_rank_dequeue(aisim_rank *rank, uint32_t slot);

static inline aisim_request *aisim_rank_request(const aisim_rank *rank, uint32_t slot)
{
    return aisim_requests_at(&rank->engine->requests, slot);
}

static inline aisim_batch *aisim_rank_current(const aisim_rank *rank)
{
    return &rank->batches.data[rank->current];
}

static inline bool aisim_rank_stateful(const aisim_rank *rank)
{
    return rank->config.kv.state_mode != AISIM_STATE_NONE;
}

static inline bool aisim_rank_native(const aisim_rank *rank)
{
    return rank->config.speculation.mode == AISIM_SPECULATION_NATIVE;
}

static inline uint32_t aisim_min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/** M, or UINT32_MAX without a limit. */
static inline uint32_t aisim_rank_limit(const aisim_rank *rank)
{
    uint64_t m = rank->config.scheduler.context_length;
    return m == 0 || m > UINT32_MAX ? UINT32_MAX : (uint32_t)m;
}

/** Waits with the blocks that a hand-off brought. */
static inline bool aisim_rank_arrived(const aisim_request *r)
{
    return r->state == AISIM_REQ_WAITING && (r->flags & AISIM_REQF_ARRIVED) != 0 && r->computed > 0;
}

/** The scheduler point is set. */
static inline bool aisim_rank_point(const aisim_rank *rank, aisim_point point)
{
    return (rank->point_mask & AISIM_POINT_BIT(point)) != 0;
}
/* The questions (points.c). Each answer is checked; after one that is of no use the run ends, and
 * the rule of the specification stands in for it until then. */
uint64_t aisim_rank_ask_order(aisim_rank *rank, uint32_t slot); /**< key */
aisim_admit_answer aisim_rank_ask_admit(aisim_rank *rank, uint32_t slot, uint64_t need_blocks,
                                        uint64_t free_blocks);
/** @param fallback  place in the running list by E-V1
 *  @param needs     place of the request that wants blocks, AISIM_NONE = all (a burst) */
uint32_t aisim_rank_ask_victim(aisim_rank *rank, uint32_t fallback, uint32_t needs);
/** @param most  tokens by E-P2. @return tokens of the chunk */
uint32_t aisim_rank_ask_chunk(aisim_rank *rank, const aisim_request *r, uint32_t from,
                              uint32_t most);

/** KV events are recorded only while somebody wants them (E-H7). */
static inline void aisim_rank_listen(aisim_rank *rank)
{
    uint32_t kv_events = AISIM_EV_BIT(AISIM_EV_KV_STORE) | AISIM_EV_BIT(AISIM_EV_KV_EVICT);
    bool listened = (rank->engine->observers.mask & kv_events) != 0;
    rank->pool.listening = listened || rank->engine->kv_changed != NULL;
    if (rank->offload.host != NULL) {
        rank->offload.host->group->pool.listening =
            listened || (rank->engine->kv_changed != NULL && rank->engine->kv_host);
    }
}

/** Tokens a request that has `from` of them may compute now (E-P2, R4, mtp.md §3). */
uint32_t aisim_rank_share(const aisim_rank *rank, const aisim_request *r, uint32_t from,
                          uint32_t placeholders);
/** E-P2: chunking off and the rest of the prompt is more than the budget. */
bool aisim_rank_unsplittable(const aisim_rank *rank, const aisim_request *r, uint32_t from);
/** §11.4 for a request. */
uint32_t aisim_rank_split(const aisim_rank *rank, const aisim_request *r, uint32_t junction,
                          uint32_t from, uint32_t d);
/** E-P1a, E-P11, E-S12, E-S13, N5: it would fit into an empty pool. */
bool aisim_rank_fits_alone(const aisim_rank *rank, const aisim_request *r, uint32_t slots,
                           uint32_t state_blocks);
/** E-S3: a decision of a running request ended at `end` tokens; tells it at the pass end where
 *  anybody wants to hear of it. */
void aisim_rank_checkpoint(aisim_rank *rank, const aisim_request *r, uint32_t recurrent,
                           uint32_t end);
/** E-P5, E-P15: C moves from `from` by d, what that completes becomes visible. @return the entry */
aisim_plan_entry *aisim_rank_book(aisim_rank *rank, uint32_t slot, uint32_t from, uint32_t d,
                                  uint32_t slots);
/** The request ends as rejected at the end of this pass. */
void aisim_rank_decide_reject(aisim_rank *rank, uint32_t slot, aisim_end_reason reason);

/** E-P12: the whole known context fits. @param load  E-R4: minus what prefills and loads under way
 *  still need */
bool aisim_rank_gate_opens(const aisim_rank *rank, const aisim_request *r,
                           const aisim_head_hit *hit, bool load);
/** Blocks of the optional admission reserve (E-P12b, R3). */
uint64_t aisim_rank_admission_reserve(const aisim_rank *rank);
/** KV events of the device since the last time (complete.c). */
void aisim_rank_show_kv(aisim_rank *rank, int64_t t_ns);

/** A transfer begins or has been delivered (offload_events.c). */
void aisim_offload_tell(const aisim_rank *rank, uint32_t job, aisim_event_type type, int64_t t_ns);
/** The end of a store that was no job of its own (host/host_stream.h). */
void aisim_offload_tell_streamed(const aisim_rank *rank, const aisim_request *r,
                                 const aisim_streamed *store, int64_t t_ns);
/** Host blocks made room for this store. */
void aisim_offload_tell_evicted(const aisim_rank *rank, uint32_t job, uint64_t blocks);
/** KV events of both tiers since the last time. */
void aisim_offload_show(aisim_rank *rank, int64_t t_ns);

/** Step 2 of a pass (admit.c). */
void aisim_rank_plan_waiting(aisim_rank *rank);

/** E-V1: place in the running list of the next victim; the list is not empty.
 *  @param needs  place of the request that wants blocks, AISIM_NONE = all (a burst) */
uint32_t aisim_rank_victim(aisim_rank *rank, uint32_t needs);
/** E-V2: the running request at `place` loses its blocks and goes back to the queue. `undone`: what
 *  this pass gave it did not run (E-V3, E-S15); otherwise it ran, only its result is lost (E-M1).
 */
void aisim_rank_preempt(aisim_rank *rank, uint32_t place, bool undone);
/** Takes the state that was reserved with the blocks of a hand-off. @return AISIM_NONE = it has
 * none
 */
uint32_t aisim_rank_take_received(aisim_rank *rank, uint32_t slot);
/** Takes entry `place` out of the running list, keeping the order. */
void aisim_rank_unrun(aisim_rank *rank, uint32_t place);
/** E-K5, E-S14: all blocks of a running request go back. */
void aisim_rank_give_back(aisim_rank *rank, uint32_t slot, uint32_t withdrawn_from);

/** Adds (sign 1) or takes back (sign -1) an entry's share of the pass shape. */
void aisim_rank_shape_entry(aisim_rank *rank, const aisim_plan_entry *entry, int sign);

/** Tokens a burst needs storage for (mtp.md section 8): drafts + 1, at most what is left to
 * generate; a tree of drafts, wider than drafts + 1, needs its whole width also near the end. */
uint32_t aisim_burst_width(uint32_t verify_width, uint32_t drafts, uint32_t output_left);

/** E-M1, E-M5: blocks for the bursts of all ready requests (speculate.c). */
void aisim_rank_burst_reserve(aisim_rank *rank);
/** Accepted drafts of one verification. */
uint32_t aisim_rank_draw(aisim_rank *rank, aisim_request *r, uint32_t drafts);

/** A running request is over: its blocks go back, its end is told (complete.c). */
void aisim_rank_leave(aisim_rank *rank, uint32_t slot, int64_t end_ns);
/** The newest activated hand-off that waits gives its blocks back and will be computed here.
 *  @param except  not this one. @return false = there is none. O(queue), see its caller. */
bool aisim_rank_drop_arrived(aisim_rank *rank, uint32_t except);
/** Hand-off reservations are retried after capacity came free (§15). */
void aisim_rank_retry_reservations(aisim_rank *rank);
/** Takes a request out of the second queue and the pending reservations. */
void aisim_rank_forget_remote(aisim_rank *rank, uint32_t slot);
/** §15 point 5: a fresh prompt does not overtake a reservation that waits. */
bool aisim_rank_held_back(const aisim_rank *rank, const aisim_request *r);

#endif
