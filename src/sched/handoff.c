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
    uint32_t whole = r->prompt_tokens / rank->pool.block_size;
    aisim_grant grant = {.watermark = r->prompt_tokens, .slots = r->prompt_tokens};
    grant.hit_blocks = aisim_block_pool_lookup(&rank->pool, r->lease.run, whole, &grant.hit_active);
    if (!aisim_grant_fits(&rank->pool, &r->lease, &grant)) {
        return false;
    }
    aisim_rank_listen(rank); /* perhaps before the first pass */
    aisim_grant_take(&rank->pool, &r->lease, &grant);
    r->state = AISIM_REQ_RESERVED;
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

bool aisim_rank_reserve(aisim_rank *rank, uint32_t slot)
{
    aisim_request *r = aisim_rank_request(rank, slot);
    if (aisim_rank_stateful(rank) || r->prompt_tokens == 0 ||
        r->prompt_tokens >= aisim_rank_limit(rank) ||
        aisim_blocks_of(&rank->pool, r->prompt_tokens) > rank->pool.blocks) {
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
    r->computed = r->prompt_tokens;
    aisim_lease_publish(&rank->pool, &r->lease, r->prompt_tokens / rank->pool.block_size, NULL);
    aisim_rank_enqueue(rank, slot);
    rank->blocked = false;
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
