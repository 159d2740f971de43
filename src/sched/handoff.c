/* handoff.c - both ends of a prefill/decode hand-off (spec/engine.md §15) and the queue of requests
 * that cannot be scheduled yet. */
#include "sched/plan.h"

/* @return whether it was there */
static bool forget(uint32_t *slots, uint32_t *len, uint32_t slot)
{
    for (uint32_t i = 0; i < *len; i++) {
        if (slots[i] == slot) {
            for (uint32_t j = i + 1; j < *len; j++) {
                slots[j - 1] = slots[j];
            }
            (*len)--;
            return true;
        }
    }
    return false;
}

void aisim_rank_submit_blocked(aisim_rank *rank, uint32_t slot)
{
    aisim_request *r = aisim_rank_request(rank, slot);
    r->rank = rank->index;
    r->ordinal = rank->next_ordinal++;
    r->state = AISIM_REQ_SKIPPED;
    aisim_array_push(&rank->skipped, slot);
}

void aisim_rank_unblock(aisim_rank *rank, uint32_t slot)
{
    aisim_request *r = aisim_rank_request(rank, slot);
    if (!forget(rank->skipped.data, &rank->skipped.len, slot)) {
        return; /* in another queue, that of the host connector among them */
    }
    r->state = AISIM_REQ_WAITING;
    aisim_rank_enqueue(rank, slot);
    rank->blocked = false;
}

void aisim_rank_forget_remote(aisim_rank *rank, uint32_t slot)
{
    forget(rank->skipped.data, &rank->skipped.len, slot);
    forget(rank->pending.data, &rank->pending.len, slot);
}

/* Resident prompt blocks are pinned, the rest is taken fresh; no look-ahead for outputs. */
static bool try_reserve(aisim_rank *rank, uint32_t slot)
{
    aisim_request *r = aisim_rank_request(rank, slot);
    uint32_t known =
        aisim_known(r); /* G > 0: it was handed off before, to a worker that was lost */
    uint32_t whole = known / rank->pool.block_size;
    aisim_grant grant = {.watermark = known, .slots = known};
    grant.extra = aisim_rank_stateful(rank) ? rank->config.kv.state_blocks : 0; /* E-S2, E-S11 */
    grant.hit_blocks = aisim_block_pool_lookup(&rank->pool, r->lease.run, whole, &grant.hit_active);
    if (!aisim_grant_fits(&rank->pool, &r->lease, &grant)) {
        return false;
    }
    aisim_rank_listen(rank);  /* perhaps before the first pass */
    bool shadow = r->id == 0; /* it is the transfer that waits for copies, not the rank */
    int64_t *fence_ns = &rank->pool.extents.evicted_copy_ns, others_ns = *fence_ns;
    *fence_ns = shadow ? 0 : others_ns;
    aisim_grant_take(&rank->pool, &r->lease, &grant);
    if (shadow) { /* offload.md §7.5: nothing is received into blocks being copied out */
        r->waiting_since_ns = *fence_ns;
        *fence_ns = others_ns;
    }
    if (aisim_rank_stateful(rank)) {
        aisim_running state = {.slot = slot,
                               .entry = AISIM_NONE,
                               .recurrent = aisim_recurrent_take(&rank->recurrents),
                               .cruiser = AISIM_NONE};
        aisim_recurrent_start(&rank->recurrents.slots.data[state.recurrent], &rank->rules,
                              &rank->pool, known);
        aisim_array_push(&rank->received, state);
    }
    r->state = AISIM_REQ_RESERVED;
    if (rank->engine->reserved != NULL) {
        rank->engine->reserved(rank->engine->context, slot);
    }
    return true;
}

void aisim_rank_retry_reservations(aisim_rank *rank)
{
    /* offload.md §7.5: not into blocks that are copied out; a store of the pass in flight has no
     * end yet */
    if (rank->offload.host != NULL && rank->offload.host->prepared.first != AISIM_NONE) {
        return;
    }
    while (rank->pending.len > 0 && try_reserve(rank, rank->pending.data[0])) {
        aisim_array_remove(&rank->pending, 0);
    }
}

bool aisim_rank_held_back(const aisim_rank *rank, const aisim_request *r)
{
    if (r->state != AISIM_REQ_WAITING || r->computed >= r->prompt_tokens) {
        return false;
    }
    return rank->pending.len > 0 &&
           aisim_rank_request(rank, rank->pending.data[0])->ordinal < r->ordinal;
}

aisim_end_reason aisim_rank_unreservable(const aisim_rank *rank, const aisim_request *r)
{
    if (r->prompt_tokens == 0) {
        return AISIM_END_REJECTED_EMPTY;
    }
    if (aisim_known(r) >= aisim_rank_limit(rank)) {
        return AISIM_END_REJECTED_CONTEXT;
    }
    uint32_t state = aisim_rank_stateful(rank) ? rank->config.kv.state_blocks : 0; /* E-S12 */
    bool fits = aisim_blocks_of(&rank->pool, aisim_known(r)) + state <= rank->pool.blocks;
    return fits ? AISIM_END_NONE : AISIM_END_REJECTED_CAPACITY;
}

bool aisim_rank_reserve(aisim_rank *rank, uint32_t slot)
{
    aisim_request *r = aisim_rank_request(rank, slot);
    if (aisim_rank_unreservable(rank, r) != AISIM_END_NONE) {
        return false;
    }
    r->rank = rank->index;
    r->ordinal = rank->next_ordinal++;
    r->state = AISIM_REQ_PENDING;
    aisim_array_push(&rank->pending, slot);
    aisim_rank_retry_reservations(rank);
    return true;
}

uint32_t aisim_rank_missing(const aisim_rank *rank, uint32_t slot)
{
    const aisim_request *r = aisim_rank_request(rank, slot);
    uint64_t owned = aisim_lease_owned(&rank->pool, &r->lease);
    return (uint32_t)(owned - r->lease.published) * rank->pool.block_size;
}

double aisim_handoff_ms(uint64_t tokens, double bytes_per_token, double state_bytes,
                        double gb_per_second)
{
    AISIM_CHECK(gb_per_second > 0);
    return ((double)tokens * bytes_per_token + state_bytes) / (gb_per_second * 1e9) * 1e3;
}

bool aisim_rank_activate(aisim_rank *rank, uint32_t slot)
{
    aisim_request *r = aisim_rank_request(rank, slot);
    if (r->state != AISIM_REQ_RESERVED) {
        return false;
    }
    aisim_rank_listen(rank);
    r->state = AISIM_REQ_WAITING;
    r->computed = r->lease.allocated;
    aisim_lease_publish(&rank->pool, &r->lease, r->computed / rank->pool.block_size, NULL);
    aisim_rank_enqueue(rank, slot);
    rank->arrived += (r->flags & AISIM_REQF_ARRIVED) != 0;
    rank->blocked = false;
    return true;
}

void aisim_rank_adopt(aisim_rank *rank, uint32_t from, uint32_t to)
{
    aisim_request *a = aisim_rank_request(rank, from), *b = aisim_rank_request(rank, to);
    AISIM_CHECK(a->state == AISIM_REQ_RESERVED && b->lease.allocated == 0);
    b->lease.allocated = a->lease.allocated;
    b->lease.published = a->lease.published;
    b->lease.opaque = a->lease.opaque;
    b->rank = rank->index;
    b->ordinal = a->ordinal;
    b->state = AISIM_REQ_RESERVED;
    b->stored_blocks = 0;
    for (uint32_t i = 0; i < rank->received.len; i++) {
        if (rank->received.data[i].slot == from) {
            rank->received.data[i].slot = to;
        }
    }
    a->lease.allocated = a->lease.published = a->lease.opaque = 0;
    a->state = AISIM_REQ_DONE;
}

uint32_t aisim_rank_take_received(aisim_rank *rank, uint32_t slot)
{
    for (uint32_t i = 0; i < rank->received.len; i++) {
        if (rank->received.data[i].slot == slot) {
            uint32_t recurrent = rank->received.data[i].recurrent;
            aisim_array_remove(&rank->received, i);
            return recurrent;
        }
    }
    return AISIM_NONE;
}

bool aisim_rank_drop_arrived(aisim_rank *rank, uint32_t except)
{
    uint32_t newest = AISIM_NONE;
    for (uint32_t i = 0; rank->arrived > 0 && i < rank->waiting.slots.len; i++) {
        uint32_t slot = rank->waiting.slots.data[i];
        const aisim_request *r = aisim_rank_request(rank, slot);
        if (aisim_rank_arrived(r) && slot != except &&
            (newest == AISIM_NONE || r->ordinal > aisim_rank_request(rank, newest)->ordinal)) {
            newest = slot;
        }
    }
    if (newest == AISIM_NONE) {
        return false;
    }
    aisim_request *r = aisim_rank_request(rank, newest);
    aisim_rank_give_back(rank, newest, AISIM_NONE);
    r->computed_high = r->computed > r->computed_high ? r->computed : r->computed_high;
    r->computed = 0;
    rank->arrived--;
    return true;
}

bool aisim_rank_release_source(aisim_rank *rank, uint32_t slot)
{
    aisim_request *r = aisim_rank_request(rank, slot);
    if (r->state != AISIM_REQ_HELD) {
        return false;
    }
    aisim_rank_give_back(rank, slot, AISIM_NONE); /* E-K6 */
    r->state = AISIM_REQ_DONE;
    rank->blocked = false;
    aisim_rank_retry_reservations(rank);
    return true;
}
