/* preempt.c - choosing a victim and undoing what the pass had booked for it (spec/engine.md §5). */
#include "base/check.h"
#include "sched/plan.h"

uint32_t aisim_rank_victim(const aisim_rank *rank)
{
    AISIM_ASSERT(rank->running.len > 0);
    if (rank->config.scheduler.policy != AISIM_POLICY_PRIORITY) {
        bool oldest = rank->config.scheduler.preemption == AISIM_PREEMPTION_FIFO;
        return oldest ? 0 : rank->running.len - 1; /* E-V1 */
    }
    /* E-V1 priority: largest (priority, ordinal). Only reached when blocks have run out; the list
     * is at most max_sequences long. */
    uint32_t worst = 0;
    for (uint32_t i = 1; i < rank->running.len; i++) {
        const aisim_request *a = aisim_rank_request(rank, rank->running.data[worst].slot);
        const aisim_request *b = aisim_rank_request(rank, rank->running.data[i].slot);
        if (b->priority > a->priority || (b->priority == a->priority && b->ordinal > a->ordinal)) {
            worst = i;
        }
    }
    return worst;
}

void aisim_rank_unrun(aisim_rank *rank, uint32_t place)
{
    aisim_array_remove(&rank->running, place);
    for (uint32_t i = place; i < rank->running.len; i++) {
        aisim_rank_request(rank, rank->running.data[i].slot)->position = i;
    }
}

/* E-V3: tokens back to the budget, work out of the shape.
 * @return first block whose publication is withdrawn, AISIM_NONE = nothing was scheduled */
static uint32_t undo(aisim_rank *rank, aisim_request *r, uint32_t entry_index)
{
    if (entry_index == AISIM_NONE) {
        return AISIM_NONE;
    }
    aisim_plan_entry *entry = &rank->plan.data[entry_index];
    rank->budget_left += entry->tokens;
    aisim_rank_shape_entry(rank, r, entry, -1);
    r->computed = entry->before;
    entry->tokens = 0;
    return entry->published_before;
}

void aisim_rank_preempt(aisim_rank *rank, uint32_t place)
{
    aisim_running running = rank->running.data[place];
    aisim_request *r = aisim_rank_request(rank, running.slot);
    uint32_t withdrawn_from = undo(rank, r, running.entry);
    aisim_decision decision = {.kind = AISIM_DECIDED_PREEMPT,
                               .slot = running.slot,
                               .generation = r->generation,
                               .tokens = r->computed};
    aisim_array_push(&rank->decisions, decision);
    aisim_lease_release(&rank->pool, &r->lease, withdrawn_from); /* E-K5, deepest first */
    aisim_rank_unrun(rank, place);
    if (r->computed > r->computed_high) {
        r->computed_high = r->computed;
    }
    r->computed = 0; /* E-V2: generated tokens stay known */
    r->state = AISIM_REQ_PREEMPTED;
    r->flags &= (uint8_t)~AISIM_REQF_RESUMED;
    r->preemptions++;
    r->waiting_since_ns = rank->begin_ns;
    aisim_rank_enqueue(rank, running.slot);
    rank->preempted = true;
}
