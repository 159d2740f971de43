/* plan.h - inside src/sched: what plan.c, preempt.c and complete.c share. */
#ifndef AISIM_SCHED_PLAN_H
#define AISIM_SCHED_PLAN_H

#include "sched/rank.h"

void aisim_rank_enqueue(aisim_rank *rank, uint32_t slot);
void aisim_rank_dequeue(aisim_rank *rank, uint32_t slot);

static inline aisim_request *aisim_rank_request(const aisim_rank *rank, uint32_t slot)
{
    return aisim_requests_at(&rank->engine->requests, slot);
}

/** E-V1: place in the running list of the next victim; the list is not empty. */
uint32_t aisim_rank_victim(const aisim_rank *rank);

/** E-V2, E-V3: the running request at `place` loses its blocks and goes back to the queue. */
void aisim_rank_preempt(aisim_rank *rank, uint32_t place);

/** Takes entry `place` out of the running list, keeping the order. */
void aisim_rank_unrun(aisim_rank *rank, uint32_t place);

/** Adds (sign 1) or takes back (sign -1) an entry's share of the pass shape. */
void aisim_rank_shape_entry(aisim_rank *rank, const aisim_request *r, const aisim_plan_entry *entry,
                            int sign);

#endif
