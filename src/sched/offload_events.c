/* offload_events.c - what a rank tells about its host tier: transfers and KV events of that tier
 * (spec/offload.md §9). */
#include "sched/plan.h"

void aisim_offload_tell(const aisim_rank *rank, uint32_t index, aisim_event_type type, int64_t t_ns)
{
    if (!aisim_wanted(&rank->engine->observers, type)) {
        return;
    }
    const aisim_host *host = rank->offload.host;
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

void aisim_offload_show(aisim_rank *rank, int64_t t_ns)
{
    aisim_rank_show_kv(rank, t_ns);
    aisim_host_pool *pool = &rank->offload.host->group->pool;
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
}
