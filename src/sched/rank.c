/* rank.c - life of a rank: commands between passes, and the small questions everyone asks. */
#include "sched/plan.h"

void aisim_rank_init(aisim_rank *rank, aisim_engine *engine, uint32_t index,
                     const aisim_rank_config *config)
{
    const aisim_speculation_config *spec = &config->speculation;
    *rank = (aisim_rank){.engine = engine,
                         .index = index,
                         .config = *config,
                         .memo_slot = AISIM_NONE,
                         .last_delivery_ns = -1,
                         .previous_delivery_ns = -1};
    rank->rules.kv = config->kv;
    rank->rules.drop =
        spec->mode != AISIM_SPECULATION_NONE && spec->depth > 0 && spec->drop_matched_block;
    rank->rules.rotating =
        config->kv.state_mode == AISIM_STATE_ALIGNED && config->kv.prefix_caching;
    rank->rules.output_checkpoints = config->kv.state_mode == AISIM_STATE_LATEST ||
                                     config->kv.checkpoints == AISIM_CHECKPOINTS_CHUNK_END;
    aisim_block_pool_init(&rank->pool, engine->content, &config->kv);
    aisim_rank_set_index_in_worker(rank, 0);
    aisim_cruise_init(rank);
}

void aisim_rank_set_index_in_worker(aisim_rank *rank, uint32_t index)
{
    rank->rank_in_worker = index;
    rank->draws.state = aisim_mix64(rank->config.speculation.seed + index);
}

void aisim_rank_deinit(aisim_rank *rank)
{
    aisim_block_pool_deinit(&rank->pool);
    aisim_queue_deinit(&rank->waiting);
    aisim_recurrents_deinit(&rank->recurrents);
    aisim_cruise_deinit(rank);
    aisim_offload_deinit(rank);
    aisim_array_free(&rank->running);
    aisim_array_free(&rank->skipped);
    aisim_array_free(&rank->held);
    aisim_array_free(&rank->pending);
    aisim_array_free(&rank->received);
    aisim_array_free(&rank->passed);
    aisim_array_free(&rank->chosen);
    for (uint32_t i = 0; i < rank->batches.len; i++) {
        aisim_array_free(&rank->batches.data[i].plan);
        aisim_array_free(&rank->batches.data[i].decisions);
    }
    aisim_array_free(&rank->batches);
}

bool aisim_rank_has_decode(const aisim_rank *rank)
{
    if (rank->cruise.n > 0) {
        return true;
    }
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

void aisim_rank_enqueue(aisim_rank *rank, uint32_t slot)
{
    aisim_request *r = aisim_rank_request(rank, slot);
    aisim_queue_key key = {
        .key = aisim_queue_key_of(&rank->waiting, r, rank->config.scheduler.policy)};
    if (aisim_rank_point(rank, AISIM_POINT_ORDER)) {
        key.order = aisim_rank_ask_order(rank, slot);
    } else if (rank->offload.host != NULL && aisim_rank_arrived(r)) {
        key.key = r->ordinal; /* offload.md §7.5: before all others */
    }
    aisim_queue_push(&rank->waiting, &rank->engine->requests, slot, key);
    if (r->state == AISIM_REQ_PREEMPTED) {
        aisim_length_add(&rank->queued_decode, aisim_known(r));
    } else {
        aisim_length_add(&rank->queued_prefill, r->prompt_tokens);
    }
}

void aisim_rank_dequeue(aisim_rank *rank, uint32_t slot)
{
    aisim_request *r = aisim_rank_request(rank, slot);
    aisim_queue_remove(&rank->waiting, &rank->engine->requests, slot);
    if (r->state == AISIM_REQ_PREEMPTED) {
        aisim_length_remove(&rank->queued_decode, aisim_known(r));
    } else {
        aisim_length_remove(&rank->queued_prefill, r->prompt_tokens);
    }
}

void aisim_rank_submit(aisim_rank *rank, uint32_t slot)
{
    aisim_request *r = aisim_rank_request(rank, slot);
    r->rank = rank->index;
    r->ordinal = rank->next_ordinal++; /* E-L2 */
    r->state = AISIM_REQ_WAITING;
    r->stored_blocks = 0;
    aisim_rank_enqueue(rank, slot);
    rank->blocked = false;
}

void aisim_rank_cancel(aisim_rank *rank, uint32_t slot)
{
    aisim_request *r = aisim_rank_request(rank, slot);
    if (r->state == AISIM_REQ_WAITING || r->state == AISIM_REQ_PREEMPTED) {
        rank->arrived -= aisim_rank_arrived(r);
        aisim_rank_dequeue(rank, slot);
    }
    aisim_rank_forget_remote(rank, slot);
    aisim_offload_forget(rank, slot);
    aisim_cruise_leave(rank, slot);
    aisim_rank_give_back(rank, slot, AISIM_NONE);
    if (r->state == AISIM_REQ_RUNNING) {
        aisim_rank_unrun(rank, r->position);
    }
    r->state = AISIM_REQ_DONE;
    rank->blocked = false;
    aisim_rank_retry_reservations(rank);
}

void aisim_rank_withdraw(aisim_rank *rank, uint32_t slot)
{
    aisim_request *r = aisim_rank_request(rank, slot);
    for (uint32_t i = 0; i < rank->batches.len; i++) {
        aisim_batch *batch = &rank->batches.data[i];
        for (uint32_t j = 0; batch->in_use && j < batch->plan.len; j++) {
            aisim_plan_entry *p = &batch->plan.data[j];
            p->generation -= p->slot == slot && p->generation == r->generation;
        }
        for (uint32_t j = 0; batch->in_use && j < batch->decisions.len; j++) {
            aisim_decision *d = &batch->decisions.data[j];
            d->generation -= d->slot == slot && d->generation == r->generation;
        }
    }
    aisim_rank_cancel(rank, slot);
    r->outstanding = 0;
}

void aisim_rank_abandon(aisim_rank *rank)
{
    aisim_cruise_dissolve(rank);
    for (uint32_t i = 0; i < rank->running.len; i++) {
        rank->running.data[i].entry = AISIM_NONE;
        aisim_rank_request(rank, rank->running.data[i].slot)->outstanding = 0;
    }
    for (uint32_t i = 0; i < rank->batches.len; i++) {
        aisim_batch *batch = &rank->batches.data[i];
        for (uint32_t j = 0; batch->in_use && j < batch->decisions.len; j++) {
            const aisim_decision *d = &batch->decisions.data[j];
            aisim_request *r = aisim_rank_request(rank, d->slot);
            if (d->kind == AISIM_DECIDED_REJECT && r->generation == d->generation) {
                r->state = AISIM_REQ_WAITING; /* its rejection was not told yet */
                r->computed = 0;
                aisim_rank_enqueue(rank, d->slot);
            }
        }
        batch->in_use = false;
    }
    rank->in_flight = 0;
}

void aisim_rank_set_priority(aisim_rank *rank, uint32_t slot, int32_t priority)
{
    aisim_request *r = aisim_rank_request(rank, slot);
    bool queued = r->state == AISIM_REQ_WAITING || r->state == AISIM_REQ_PREEMPTED;
    bool placed = rank->config.scheduler.policy == AISIM_POLICY_PRIORITY ||
                  aisim_rank_point(rank, AISIM_POINT_ORDER);
    if (queued && placed) {
        aisim_rank_dequeue(rank, slot);
        r->priority = priority;
        aisim_rank_enqueue(rank, slot);
        rank->blocked = false;
    }
    r->priority = priority;
}

bool aisim_rank_reset(aisim_rank *rank, bool force)
{
    if (force) {
        aisim_cruise_dissolve(rank);
    }
    while (force && rank->running.len > 0) { /* fact 38: newest first, the order is kept */
        rank->running.data[rank->running.len - 1].entry = AISIM_NONE;
        aisim_rank_preempt(rank, rank->running.len - 1, false);
    }
    aisim_rank_listen(rank);
    return aisim_block_pool_reset(&rank->pool);
}

/* ---- verification -----------------------------------------------------------------------------
 */

static uint64_t verify_running(const aisim_rank *rank, uint64_t *published)
{
    uint64_t owned = 0;
    AISIM_CHECK(rank->running.len <= rank->config.scheduler.max_sequences); /* I3 */
    for (uint32_t i = 0; i < rank->running.len; i++) {
        const aisim_request *r = aisim_rank_request(rank, rank->running.data[i].slot);
        uint64_t own = aisim_lease_owned(&rank->pool, &r->lease);
        AISIM_CHECK(r->state == AISIM_REQ_RUNNING && r->position == i); /* I5 */
        AISIM_CHECK(aisim_known(r) >= r->lease.allocated);              /* I2 */
        AISIM_CHECK(own >= aisim_blocks_of(&rank->pool, r->computed));
        AISIM_CHECK(r->lease.published <= own);
        owned += own;
        *published += r->lease.published;
        if (rank->running.data[i].recurrent != AISIM_NONE) { /* I21 */
            const aisim_recurrent *s =
                &rank->recurrents.slots.data[rank->running.data[i].recurrent];
            AISIM_CHECK(aisim_state_alive(&rank->pool, s->working));
            owned += 4u * rank->config.kv.state_blocks;
        }
    }
    return owned;
}

static uint64_t verify_waiting(const aisim_rank *rank)
{
    uint64_t owned = 0; /* an activated hand-off waits with its blocks */
    uint64_t prefill = 0, decode = 0, prefill_n = 0;
    for (uint32_t i = 0; i < rank->waiting.slots.len; i++) { /* I6, I23 */
        const aisim_request *r = aisim_rank_request(rank, rank->waiting.slots.data[i]);
        AISIM_CHECK(r->position == i);
        owned += aisim_lease_owned(&rank->pool, &r->lease);
        AISIM_CHECK(i == 0 || aisim_queue_before(aisim_queue_at(&rank->waiting, (i - 1) / 2),
                                                 aisim_queue_at(&rank->waiting, i)));
        if (r->state == AISIM_REQ_WAITING) {
            prefill += r->prompt_tokens;
            prefill_n++;
        } else {
            AISIM_CHECK(r->state == AISIM_REQ_PREEMPTED && r->lease.allocated == 0);
            decode += aisim_known(r);
        }
    }
    for (uint32_t i = 0; i < rank->offload.queue.len; i++) { /* counted where they came from */
        const aisim_request *r = aisim_rank_request(rank, rank->offload.queue.data[i].slot);
        bool resumed = rank->offload.queue.data[i].resumed;
        prefill += resumed ? 0 : r->prompt_tokens;
        prefill_n += !resumed;
        decode += resumed ? aisim_known(r) : 0;
    }
    AISIM_CHECK(rank->queued_prefill.sum == prefill && rank->queued_prefill.count == prefill_n);
    AISIM_CHECK(rank->queued_decode.sum == decode);
    return owned;
}

void aisim_rank_verify(const aisim_rank *rank)
{
    uint64_t published = 0;
    aisim_cruise_sync_all(rank);
    aisim_block_pool_verify(&rank->pool); /* I1, I12, I13 */
    uint64_t owned = verify_running(rank, &published);
    owned += verify_waiting(rank) + (uint64_t)rank->received.len * rank->config.kv.state_blocks;
    aisim_offload_verify(rank);
    bool copies = rank->offload.host != NULL && rank->offload.host->outstanding > 0; /* may hold */
    if (!copies && rank->engine->requests.live == rank->running.len + rank->waiting.slots.len) {
        /* I14: what is active is what leases own, shared blocks counted once */
        AISIM_CHECK(aisim_block_pool_active(&rank->pool) <= owned);
        if (rank->running.len == 0 && rank->queued_prefill.count == rank->waiting.slots.len &&
            rank->waiting.slots.len == 0) {
            AISIM_CHECK(aisim_block_pool_active(&rank->pool) == 0); /* I19 */
        }
    }
}
