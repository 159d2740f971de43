/* preempt.c - choosing a victim and undoing what the pass had booked for it (spec/engine.md §5). */
#include "sched/plan.h"

static uint32_t victim_by_rule(const aisim_rank *rank)
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

uint32_t aisim_rank_victim(aisim_rank *rank, uint32_t needs)
{
    uint32_t victim = victim_by_rule(rank);
    return aisim_rank_point(rank, AISIM_POINT_VICTIM) ? aisim_rank_ask_victim(rank, victim, needs)
                                                      : victim;
}

void aisim_rank_unrun(aisim_rank *rank, uint32_t place)
{
    rank->offload.headroom -= rank->running.data[place].headroom; /* E-R3 */
    aisim_array_remove(&rank->running, place);
    for (uint32_t i = place; i < rank->running.len; i++) {
        aisim_rank_request(rank, rank->running.data[i].slot)->position = i;
    }
}

/* The entry of a running or held request, or of one that waits with a state that was handed to it;
 * NULL for any other. */
static aisim_running *entry_of(aisim_rank *rank, uint32_t slot)
{
    const aisim_request *r = aisim_rank_request(rank, slot);
    if (r->state == AISIM_REQ_RUNNING) {
        return &rank->running.data[r->position];
    }
    for (uint32_t i = 0; r->state == AISIM_REQ_HELD && i < rank->held.len; i++) {
        if (rank->held.data[i].slot == slot) {
            return &rank->held.data[i];
        }
    }
    for (uint32_t i = 0; r->state != AISIM_REQ_HELD && i < rank->received.len; i++) {
        if (rank->received.data[i].slot == slot) {
            return &rank->received.data[i];
        }
    }
    return NULL;
}

void aisim_rank_give_back(aisim_rank *rank, uint32_t slot, uint32_t withdrawn_from)
{
    aisim_request *r = aisim_rank_request(rank, slot);
    aisim_running *running = entry_of(rank, slot);
    uint32_t recurrent = running == NULL ? AISIM_NONE : running->recurrent;
    uint32_t page =
        recurrent == AISIM_NONE ? AISIM_NONE : rank->recurrents.slots.data[recurrent].page;
    aisim_lease_release(&rank->pool, &r->lease, withdrawn_from, page);
    if (recurrent != AISIM_NONE) {
        aisim_recurrent_release(&rank->recurrents, recurrent, &rank->pool);
        running->recurrent = AISIM_NONE;
    }
    if (r->state == AISIM_REQ_HELD) {
        aisim_array_remove(&rank->held, (uint32_t)(running - rank->held.data));
    } else if (r->state != AISIM_REQ_RUNNING && running != NULL) {
        aisim_array_remove(&rank->received, (uint32_t)(running - rank->received.data));
    }
}

/* E-V3: tokens back to the budget, work out of the shape.
 * @return first block whose publication is withdrawn */
static uint32_t undo(aisim_rank *rank, aisim_request *r, aisim_plan_entry *entry)
{
    rank->budget_left += entry->tokens;
    aisim_rank_shape_entry(rank, entry, -1);
    if (entry->before < r->prompt_tokens) {
        uint32_t end = aisim_min_u32(entry->before + entry->tokens, r->prompt_tokens);
        rank->prompt_planned -= end - entry->before;
    }
    r->computed = entry->before;
    entry->undone = true;
    return entry->published_before;
}

/* The checkpoints that the pass being planned has made of a request. */
static void forget_checkpoints(aisim_rank *rank, uint32_t slot)
{
    aisim_batch *batch = aisim_rank_current(rank);
    for (uint32_t i = 0; i < batch->decisions.len; i++) {
        aisim_decision *d = &batch->decisions.data[i];
        if (d->kind == AISIM_DECIDED_CHECKPOINT && d->slot == slot) {
            d->kind = AISIM_DECIDED_NOTHING;
        }
    }
}

void aisim_rank_preempt(aisim_rank *rank, uint32_t place, bool undone)
{
    aisim_running running = rank->running.data[place];
    AISIM_CHECK(running.cruiser == AISIM_NONE);
    aisim_request *r = aisim_rank_request(rank, running.slot);
    aisim_plan_entry *entry = NULL;
    uint32_t withdrawn_from = AISIM_NONE, before = r->computed;
    if (running.entry != AISIM_NONE) {
        entry = &aisim_rank_current(rank)->plan.data[running.entry];
        before = entry->before;
        if (entry->samples) {
            r->outstanding--;
            entry->samples = false;
        }
    }
    if (entry != NULL && undone) {
        withdrawn_from = undo(rank, r, entry);
    }
    if (entry != NULL && !undone && !entry->prefill) {
        aisim_rank_shape_entry(rank, entry, -1); /* E-M1: the decode of a victim does not run */
        entry->lost = true;
    }
    if (running.recurrent != AISIM_NONE && undone) {
        aisim_recurrent_discard_step(&rank->recurrents.slots.data[running.recurrent], &rank->pool,
                                     rank->plan_serial); /* E-S15 */
        forget_checkpoints(rank, running.slot);
    }
    aisim_decision decision = {.kind = AISIM_DECIDED_PREEMPT,
                               .slot = running.slot,
                               .generation = r->generation,
                               .tokens = before};
    if (rank->batches.len > 0) {
        aisim_array_push(&aisim_rank_current(rank)->decisions, decision);
    }
    aisim_rank_give_back(rank, running.slot, withdrawn_from); /* E-K5, deepest first */
    aisim_rank_unrun(rank, place);
    if (r->computed > r->computed_high) {
        r->computed_high = r->computed;
    }
    r->computed = 0; /* E-V2: generated tokens stay known */
    r->drafts = 0;
    r->state = AISIM_REQ_PREEMPTED;
    r->flags &= (uint8_t)~AISIM_REQF_RESUMED;
    r->preemptions++;
    r->waiting_since_ns = rank->now_ns;
    aisim_rank_enqueue(rank, running.slot);
    rank->preempted = true;
}
