/* offload_events.c - what a rank tells about its host tier: transfers and KV events of that tier
 * (spec/offload.md §9). */
#include "base/clock.h"
#include "sched/plan.h"

void aisim_offload_tell(const aisim_rank *rank, uint32_t index, aisim_event_type type, int64_t t_ns)
{
    const aisim_host *host = rank->offload.host;
    uint32_t all = AISIM_EV_BIT(AISIM_EV_TRANSFER_START) | AISIM_EV_BIT(AISIM_EV_TRANSFER_END) |
                   AISIM_EV_BIT(AISIM_EV_HOST_STORE) | AISIM_EV_BIT(AISIM_EV_HOST_LOAD);
    if ((rank->engine->observers.mask & all) == 0) {
        return;
    }
    if (type == AISIM_EV_TRANSFER_START) {
        bool stores = aisim_host_job_at(host, index)->kind == AISIM_HOST_STORE;
        aisim_offload_tell(rank, index, stores ? AISIM_EV_HOST_STORE : AISIM_EV_HOST_LOAD, t_ns);
    }
    if (!aisim_wanted(&rank->engine->observers, type)) {
        return;
    }
    const aisim_host_job *job = aisim_host_job_at(host, index);
    const aisim_request *r = aisim_rank_request(rank, job->slot);
    bool alive = r->id == job->request_id && r->state != AISIM_REQ_DONE;
    aisim_event event = {
        .type = type, .rank = rank->index, .t_ns = t_ns, .request = alive ? r : NULL};
    event.u.transfer.kind =
        job->kind == AISIM_HOST_STORE ? AISIM_TRANSFER_OFFLOAD : AISIM_TRANSFER_RESTORE;
    event.u.transfer.src = event.u.transfer.dst = rank->worker;
    event.u.transfer.request_id = job->request_id;
    event.u.transfer.blocks = job->blocks;
    event.u.transfer.bytes = (uint64_t)((double)job->blocks * host->group->block_bytes);
    event.u.transfer.begin_ns = job->begin_ns;
    event.u.transfer.end_ns = job->done_ns;
    aisim_emit(&rank->engine->observers, &event);
}

void aisim_offload_tell_streamed(const aisim_rank *rank, const aisim_request *r,
                                 const aisim_streamed *store, int64_t t_ns)
{
    if (!aisim_wanted(&rank->engine->observers, AISIM_EV_TRANSFER_END)) {
        return;
    }
    aisim_event event = {
        .type = AISIM_EV_TRANSFER_END, .rank = rank->index, .t_ns = t_ns, .request = r};
    event.u.transfer.kind = AISIM_TRANSFER_OFFLOAD;
    event.u.transfer.src = event.u.transfer.dst = rank->worker;
    event.u.transfer.request_id = r->id;
    event.u.transfer.blocks = store->end - store->first;
    event.u.transfer.bytes =
        (uint64_t)((double)event.u.transfer.blocks * rank->offload.host->group->block_bytes);
    event.u.transfer.begin_ns = store->begin_ns;
    event.u.transfer.end_ns = store->done_ns;
    aisim_emit(&rank->engine->observers, &event);
}

void aisim_offload_tell_evicted(const aisim_rank *rank, uint32_t index, uint64_t blocks)
{
    const aisim_host_job *job = aisim_host_job_at(rank->offload.host, index);
    aisim_event event = {.type = AISIM_EV_HOST_EVICT, .rank = rank->index, .t_ns = rank->now_ns};
    event.u.transfer.src = event.u.transfer.dst = rank->worker;
    event.u.transfer.request_id = job->request_id;
    event.u.transfer.blocks = blocks;
    event.u.transfer.bytes = (uint64_t)((double)blocks * rank->offload.host->group->block_bytes);
    event.u.transfer.end_ns = AISIM_NEVER;
    aisim_emit(&rank->engine->observers, &event);
}

static void fill_host(const aisim_rank *rank, aisim_rank_totals *out)
{
    const aisim_host *host = rank->offload.host;
    const aisim_host_pool *pool = &host->group->pool;
    out->host = true;
    out->pool = host->client == 0;
    if (out->pool) {
        out->host_blocks = pool->capacity;
        out->host_resident = pool->resident;
        out->host_used = pool->used;
        out->host_peak = pool->peak_used;
        out->host_evicted = pool->evicted_blocks;
    }
    for (uint32_t i = 0; i < 2; i++) {
        out->jobs[i] = host->totals.jobs[i];
        out->completed[i] = host->totals.completed[i];
        out->blocks[i] = host->totals.blocks[i];
        out->bytes[i] = (uint64_t)((double)host->totals.blocks[i] * host->group->block_bytes);
        out->transfer_ns[i] = host->totals.transfer_ns[i];
        out->busy_ns[i] = host->lanes[i].busy_ns;
        out->wait_ns[i] = host->lanes[i].wait_ns;
    }
    out->cancelled_loads = host->totals.cancelled_loads;
    out->retries = host->totals.retries;
    out->unfittable = host->totals.unfittable;
    out->lookups = host->totals.lookups;
    out->hits = host->totals.hits;
    out->hit_blocks = host->totals.hit_blocks;
    out->deferred = host->totals.deferred;
    out->fence_ns = rank->offload.fence_ns;
}

void aisim_rank_show_totals(const aisim_rank *rank, int64_t t_ns)
{
    aisim_rank_totals totals = {.allocated_blocks = rank->pool.taken_blocks,
                                .published_blocks = rank->pool.stored_blocks,
                                .evicted_blocks = rank->pool.evicted_blocks};
    if (aisim_rank_stateful(rank)) {
        const aisim_recurrent_totals *state = &rank->recurrents.totals;
        totals.state = true;
        totals.state_checkpoints = state->published;
        totals.state_bytes = rank->config.kv.state_bytes;
        totals.state_admissions = state->admissions;
        totals.state_restores = state->restores;
        totals.state_matched_tokens = state->matched_tokens;
        totals.state_usable_tokens = state->usable_tokens;
    }
    if (rank->offload.host != NULL) {
        fill_host(rank, &totals);
    }
    aisim_event event = {.type = AISIM_EV_RANK_TOTALS, .rank = rank->index, .t_ns = t_ns};
    event.u.totals = &totals;
    aisim_emit(&rank->engine->observers, &event);
}

void aisim_rank_tell_host(aisim_rank *rank)
{
    const aisim_engine *engine = rank->engine;
    if (rank->offload.host == NULL || engine->kv_changed == NULL || !engine->kv_host) {
        return;
    }
    aisim_host_pool *pool = &rank->offload.host->group->pool;
    while (pool->told < pool->changes.len) {
        aisim_host_change change = pool->changes.data[pool->told++];
        engine->kv_changed(engine->context, rank->index, AISIM_TIER_HOST, change.stored,
                           change.blocks.run, change.blocks.first, change.blocks.count);
    }
}

void aisim_offload_show(aisim_rank *rank, int64_t t_ns)
{
    aisim_host_pool *pool = &rank->offload.host->group->pool;
    if (rank->pool.log.len + pool->changes.len == 0) {
        return;
    }
    aisim_rank_show_kv(rank, t_ns);
    for (uint32_t i = 0; i < pool->changes.len;) { /* one call per store or admission */
        const aisim_host_change *first = &pool->changes.data[i];
        aisim_event event = {.type = first->stored ? AISIM_EV_KV_STORE : AISIM_EV_KV_EVICT,
                             .rank = rank->index,
                             .t_ns = t_ns};
        event.u.kv.tier = AISIM_TIER_HOST;
        event.u.kv.run = first->blocks.run;
        event.u.kv.first_block = first->blocks.first;
        for (; i < pool->changes.len && pool->changes.data[i].event == first->event; i++) {
            event.u.kv.blocks += pool->changes.data[i].blocks.count;
        }
        if (aisim_wanted(&rank->engine->observers, event.type)) {
            aisim_emit(&rank->engine->observers, &event);
        }
    }
    pool->changes.len = rank->pool.tracing ? pool->changes.len : 0; /* a test reads them */
    pool->told = pool->changes.len;
}
