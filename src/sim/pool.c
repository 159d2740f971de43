/* pool.c - pools that grow and shrink while they serve. */
#include "sim/sim_internal.h"

void aisim_sim_pool(const aisim_sim *sim, uint32_t index, aisim_pool_view *out)
{
    const sim_pool *pool = &sim->pools.data[index];
    *out = (aisim_pool_view){.n_workers = pool->workers.len,
                             .n_ranks = pool->ranks.len,
                             .workers = pool->workers.data,
                             .ranks = pool->ranks.data,
                             .queued = pool->queued.len,
                             .startup_ns = pool->rank.startup_ns};
    for (uint32_t i = 0; i < pool->workers.len; i++) {
        aisim_worker_state state = sim->workers.data[pool->workers.data[i]].state;
        out->ready += state == AISIM_WORKER_READY;
        out->starting += state == AISIM_WORKER_STARTING;
        out->draining += state == AISIM_WORKER_DRAINING;
    }
}

void aisim_sim_on_grown(aisim_sim *sim, aisim_grown_fn fn, void *context)
{
    sim->grown = fn;
    sim->grown_context = context;
}

void sim_grow(aisim_sim *sim, uint32_t pool, uint32_t n, int64_t startup_ns)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t worker = sim_add_worker(sim, pool);
        if (sim->grown != NULL) {
            sim->grown(sim->grown_context, sim, pool, worker);
        }
        sim_worker_state(sim, worker, AISIM_WORKER_STARTING);
        if (startup_ns == 0) {
            sim_started(sim, worker);
        } else {
            sim->workers.data[worker].start_queued = true;
            aisim_heap_push(&sim->heap, sim->now_ns + startup_ns, AISIM_CLASS_TRANSFER,
                            AISIM_ENTRY_STARTED, worker, 0, false);
        }
    }
}

void sim_started(aisim_sim *sim, uint32_t worker)
{
    if (sim->workers.data[worker].state == AISIM_WORKER_STARTING) {
        sim_worker_state(sim, worker, AISIM_WORKER_READY);
    }
}

/* The newest worker of the pool in this state, AISIM_NONE = none. */
static uint32_t newest(const aisim_sim *sim, uint32_t index, aisim_worker_state state)
{
    const sim_pool *pool = &sim->pools.data[index];
    for (uint32_t i = pool->workers.len; i-- > 0;) {
        if (sim->workers.data[pool->workers.data[i]].state == state) {
            return pool->workers.data[i];
        }
    }
    return AISIM_NONE;
}

void sim_shrink(aisim_sim *sim, uint32_t pool, uint32_t n, bool drain)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t worker = newest(sim, pool, AISIM_WORKER_STARTING);
        bool starts = worker != AISIM_NONE;
        worker = starts ? worker : newest(sim, pool, AISIM_WORKER_READY);
        if (worker == AISIM_NONE) {
            return;
        }
        if (starts || !drain) {
            sim_stop_worker(sim, worker);
            continue;
        }
        sim->workers.data[worker].removed = true;
        sim_worker_state(sim, worker, AISIM_WORKER_DRAINING);
        sim_check_drained(sim, worker);
    }
}
