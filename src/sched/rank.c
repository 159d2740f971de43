/* rank.c - life of a rank: commands between passes, and the small questions everyone asks. */
#include "sched/rank.h"

#include "base/check.h"

void aisim_rank_init(aisim_rank *rank, aisim_engine *engine, uint32_t index,
                     const aisim_rank_config *config)
{
    *rank = (aisim_rank){.engine = engine,
                         .index = index,
                         .config = *config,
                         .memo_slot = AISIM_NONE,
                         .last_end_ns = -1};
    aisim_block_pool_init(&rank->pool, engine->content, &config->kv);
}

void aisim_rank_deinit(aisim_rank *rank)
{
    aisim_block_pool_deinit(&rank->pool);
    aisim_queue_deinit(&rank->waiting);
    aisim_array_free(&rank->running);
    aisim_array_free(&rank->plan);
    aisim_array_free(&rank->decisions);
}

uint32_t aisim_rank_output_left(const aisim_rank *rank, const aisim_request *r)
{
    /* E-O2: min(O - G, M - L), the second only with a context limit */
    uint32_t left = r->output_tokens - r->generated;
    uint64_t limit = rank->config.scheduler.context_length;
    if (limit > 0) {
        uint64_t known = aisim_known(r);
        uint64_t room = limit > known ? limit - known : 0;
        left = room < left ? (uint32_t)room : left;
    }
    return left;
}

uint32_t aisim_rank_hit_bound(const aisim_rank *rank, const aisim_request *r)
{
    uint32_t known = aisim_known(r);
    return aisim_rank_output_left(rank, r) > 0 ? known - 1 : known; /* E-H3 */
}

bool aisim_rank_has_decode(const aisim_rank *rank)
{
    for (uint32_t i = 0; i < rank->running.len; i++) {
        const aisim_request *r =
            aisim_requests_at(&rank->engine->requests, rank->running.data[i].slot);
        if (r->computed >= r->prompt_tokens) {
            return true;
        }
    }
    return false;
}

/* ---- commands ---------------------------------------------------------------------------------
 */

static void enqueue(aisim_rank *rank, uint32_t slot)
{
    aisim_request *r = aisim_requests_at(&rank->engine->requests, slot);
    aisim_queue_push(&rank->waiting, &rank->engine->requests, slot,
                     aisim_queue_key(&rank->waiting, r, rank->config.scheduler.policy));
    if (r->state == AISIM_REQ_PREEMPTED) {
        aisim_length_add(&rank->queued_decode, aisim_known(r));
    } else {
        aisim_length_add(&rank->queued_prefill, r->prompt_tokens);
    }
}

static void dequeue(aisim_rank *rank, uint32_t slot)
{
    aisim_request *r = aisim_requests_at(&rank->engine->requests, slot);
    aisim_queue_remove(&rank->waiting, &rank->engine->requests, slot);
    if (r->state == AISIM_REQ_PREEMPTED) {
        aisim_length_remove(&rank->queued_decode, aisim_known(r));
    } else {
        aisim_length_remove(&rank->queued_prefill, r->prompt_tokens);
    }
}

void aisim_rank_enqueue(aisim_rank *rank, uint32_t slot)
{
    enqueue(rank, slot);
}

void aisim_rank_dequeue(aisim_rank *rank, uint32_t slot)
{
    dequeue(rank, slot);
}

void aisim_rank_submit(aisim_rank *rank, uint32_t slot)
{
    aisim_request *r = aisim_requests_at(&rank->engine->requests, slot);
    r->rank = rank->index;
    r->ordinal = rank->next_ordinal++; /* E-L2 */
    r->state = AISIM_REQ_WAITING;
    enqueue(rank, slot);
    rank->blocked = false;
}

void aisim_rank_cancel(aisim_rank *rank, uint32_t slot)
{
    aisim_request *r = aisim_requests_at(&rank->engine->requests, slot);
    if (r->state == AISIM_REQ_WAITING || r->state == AISIM_REQ_PREEMPTED) {
        dequeue(rank, slot);
    } else if (r->state == AISIM_REQ_RUNNING) {
        uint32_t at = r->position;
        AISIM_CHECK(rank->running.data[at].slot == slot);
        aisim_array_remove(&rank->running, at);
        for (uint32_t i = at; i < rank->running.len; i++) {
            aisim_requests_at(&rank->engine->requests, rank->running.data[i].slot)->position = i;
        }
        aisim_lease_release(&rank->pool, &r->lease, AISIM_NONE);
    }
    r->state = AISIM_REQ_DONE;
    rank->blocked = false;
}

void aisim_rank_abandon(aisim_rank *rank)
{
    rank->in_flight = false;
    for (uint32_t i = 0; i < rank->running.len; i++) {
        rank->running.data[i].entry = AISIM_NONE;
    }
    for (uint32_t i = 0; i < rank->decisions.len; i++) { /* a rejection was not told yet */
        const aisim_decision *d = &rank->decisions.data[i];
        aisim_request *r = aisim_requests_at(&rank->engine->requests, d->slot);
        if (d->kind == AISIM_DECIDED_REJECT && r->generation == d->generation) {
            r->state = AISIM_REQ_WAITING;
            r->computed = 0;
            enqueue(rank, d->slot);
        }
    }
}

void aisim_rank_set_priority(aisim_rank *rank, uint32_t slot, int32_t priority)
{
    aisim_request *r = aisim_requests_at(&rank->engine->requests, slot);
    r->priority = priority;
    bool queued = r->state == AISIM_REQ_WAITING || r->state == AISIM_REQ_PREEMPTED;
    if (queued && rank->config.scheduler.policy == AISIM_POLICY_PRIORITY) {
        dequeue(rank, slot);
        enqueue(rank, slot);
        rank->blocked = false;
    }
}

/* ---- verification -----------------------------------------------------------------------------
 */

void aisim_rank_verify(const aisim_rank *rank)
{
    const aisim_requests *table = &rank->engine->requests;
    const aisim_scheduler_config *s = &rank->config.scheduler;
    uint64_t owned = 0, published = 0;
    aisim_block_pool_verify(&rank->pool);
    AISIM_CHECK(rank->running.len <= s->max_sequences); /* I3 */
    for (uint32_t i = 0; i < rank->running.len; i++) {
        const aisim_request *r = aisim_requests_at(table, rank->running.data[i].slot);
        AISIM_CHECK(r->state == AISIM_REQ_RUNNING && r->position == i); /* I5 */
        AISIM_CHECK(r->computed <= r->lease.allocated);                 /* I2 */
        AISIM_CHECK(r->computed <= aisim_known(r));
        AISIM_CHECK(aisim_lease_owned(&rank->pool, &r->lease) >=
                    aisim_blocks_of(&rank->pool, r->computed));
        AISIM_CHECK(r->lease.published <= aisim_lease_owned(&rank->pool, &r->lease));
        owned += aisim_lease_owned(&rank->pool, &r->lease);
        published += r->lease.published;
    }
    /* I14: what is active is what leases own, shared blocks counted once */
    AISIM_CHECK(aisim_block_pool_active(&rank->pool) <= owned);
    AISIM_CHECK(aisim_block_pool_active(&rank->pool) + published >= owned);
    uint64_t prefill = 0, decode = 0, prefill_n = 0;
    for (uint32_t i = 0; i < rank->waiting.slots.len; i++) { /* I6, I23 */
        const aisim_request *r = aisim_requests_at(table, rank->waiting.slots.data[i]);
        AISIM_CHECK(r->position == i && r->lease.allocated == 0 && r->computed == 0);
        AISIM_CHECK(i == 0 || rank->waiting.keys.data[(i - 1) / 2] < rank->waiting.keys.data[i]);
        if (r->state == AISIM_REQ_WAITING) {
            prefill += r->prompt_tokens;
            prefill_n++;
        } else {
            AISIM_CHECK(r->state == AISIM_REQ_PREEMPTED);
            decode += aisim_known(r);
        }
    }
    AISIM_CHECK(rank->queued_prefill.sum == prefill && rank->queued_prefill.count == prefill_n);
    AISIM_CHECK(rank->queued_decode.sum == decode);
    if (rank->running.len == 0) {
        AISIM_CHECK(aisim_block_pool_active(&rank->pool) == 0); /* I19 */
    }
}
