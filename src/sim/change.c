/* change.c - changes asked for from outside: they act after the current event, in the order of the
 * calls, each with its own hooks (spec/lua-api.md §6 "Changes"). */
#include "sim/sim_internal.h"

static void ask(aisim_sim *sim, sim_change change)
{
    aisim_array_push(&sim->changes, change);
}

void aisim_sim_cancel(aisim_sim *sim, aisim_handle handle)
{
    ask(sim, (sim_change){.kind = CHANGE_CANCEL, .handle = handle});
}

void aisim_sim_set_priority(aisim_sim *sim, aisim_handle handle, int32_t priority)
{
    ask(sim, (sim_change){.kind = CHANGE_PRIORITY, .handle = handle, .value = priority});
}

void aisim_sim_worker(aisim_sim *sim, uint32_t worker, aisim_worker_command command)
{
    ask(sim, (sim_change){.kind = CHANGE_WORKER, .worker = worker, .value = (int32_t)command});
}

void aisim_sim_pool_grow(aisim_sim *sim, uint32_t pool, uint32_t n, int64_t startup_ns)
{
    ask(sim, (sim_change){.kind = CHANGE_GROW, .worker = pool, .n = n, .ns = startup_ns});
}

void aisim_sim_pool_shrink(aisim_sim *sim, uint32_t pool, uint32_t n, bool drain)
{
    ask(sim, (sim_change){.kind = CHANGE_SHRINK, .worker = pool, .n = n, .value = drain});
}

/* ---- requests -------------------------------------------------------------------------------- */

void sim_unqueue(aisim_sim *sim, uint32_t slot)
{
    sim_pool *pool = sim_pool_of(sim, sim_request(sim, slot));
    for (uint32_t i = 0; i < pool->queued.len; i++) {
        if (pool->queued.data[i] == slot) {
            aisim_array_remove(&pool->queued, i);
            return;
        }
    }
}

static void cancel(aisim_sim *sim, aisim_handle handle)
{
    if (aisim_sim_request(sim, handle) == NULL) {
        return; /* E-T5: ended meanwhile */
    }
    aisim_request *r = sim_request(sim, handle.index);
    uint32_t worker = AISIM_NONE;
    if (r->rank == AISIM_NONE) {
        sim_unqueue(sim, handle.index);
    } else {
        worker = sim->rank_workers.data[r->rank];
        aisim_rank_cancel(sim_touch(sim, r->rank), handle.index);
        aisim_offload_settle_cancel(sim_touch(sim, r->rank), sim->now_ns);
    }
    sim_end(sim, handle.index, AISIM_END_CANCELLED, AISIM_WHERE_ENGINE);
    if (worker != AISIM_NONE) {
        sim_wake(sim, worker);
        sim_watch_worker(sim, worker);
        sim_check_drained(sim, worker);
    }
}

static void set_priority(aisim_sim *sim, aisim_handle handle, int32_t priority)
{
    if (aisim_sim_request(sim, handle) == NULL) {
        return;
    }
    aisim_request *r = sim_request(sim, handle.index);
    if (r->rank == AISIM_NONE) {
        r->priority = priority;
    } else {
        aisim_rank_set_priority(sim_touch(sim, r->rank), handle.index, priority);
        sim_wake(sim, sim->rank_workers.data[r->rank]);
    }
}

/* ---- workers --------------------------------------------------------------------------------- */

void sim_worker_state(aisim_sim *sim, uint32_t index, aisim_worker_state to)
{
    aisim_worker *worker = &sim->workers.data[index];
    aisim_worker_state from = worker->state;
    if (from == to) {
        return;
    }
    worker->state = to;
    sim->pools.data[worker->pool].targets_stale = true;
    sim->removed_foreground += worker->start_queued; /* a start-up that is given up */
    worker->start_queued = false;
    if (aisim_wanted(&sim->engine.observers, AISIM_EV_WORKER_STATE)) {
        aisim_event event = {
            .type = AISIM_EV_WORKER_STATE, .rank = AISIM_NONE, .t_ns = sim->now_ns};
        event.u.worker.worker = index;
        event.u.worker.from = aisim_worker_state_text(from);
        event.u.worker.to = aisim_worker_state_text(to);
        aisim_emit(&sim->engine.observers, &event);
    }
    aisim_router *router = &sim->pools.data[worker->pool].router;
    if (router->on_worker != NULL) {
        router->on_worker(router->context, index);
    }
    if (to == AISIM_WORKER_READY) {
        sim->retry_routers = true;
        sim_wake(sim, index);
    }
}

void sim_check_drained(aisim_sim *sim, uint32_t index)
{
    const aisim_worker *worker = &sim->workers.data[index];
    if (worker->state == AISIM_WORKER_DRAINING && worker->requests == 0) {
        sim_worker_state(sim, index, AISIM_WORKER_DRAINED);
        if (sim->workers.data[index].removed) {
            sim_stop_worker(sim, index);
        }
    }
}

/* A stopped worker loses the pass in flight, its blocks and its cache; its requests go back to the
 * router with the tokens they have, first those that ran. */
void sim_stop_worker(aisim_sim *sim, uint32_t index)
{
    aisim_worker *worker = &sim->workers.data[index];
    worker->in_flight = false;
    worker->serial++;
    worker->wave_step = 0;
    sim_slots moved = {0}, lost = {0};
    sim_handoff_lose(sim, index, &lost);
    sim_touch_worker(sim, worker);
    for (uint32_t i = 0; i < worker->n_ranks; i++) {
        aisim_rank *rank = worker->ranks[i];
        aisim_rank_abandon(rank);
        while (rank->running.len > 0) {
            uint32_t slot = rank->running.data[0].slot;
            aisim_rank_cancel(rank, slot);
            aisim_array_push(&moved, slot);
        }
        uint32_t first = moved.len;
        aisim_array_reserve(&moved, moved.len + rank->waiting.slots.len);
        aisim_queue_sorted(&rank->waiting, moved.data + moved.len);
        moved.len += rank->waiting.slots.len;
        for (uint32_t j = first; j < moved.len; j++) {
            aisim_rank_cancel(rank, moved.data[j]);
        }
        while (rank->offload.queue.len > 0) {
            uint32_t slot = rank->offload.queue.data[0].slot;
            aisim_rank_cancel(rank, slot);
            aisim_array_push(&moved, slot);
        }
        aisim_offload_leave(rank, sim->now_ns);
        aisim_rank_tell_kv(rank); /* while the runs live */
        aisim_block_pool_reset(&rank->pool);
        aisim_rank_tell_kv(rank);
    }
    for (uint32_t i = 0; i < lost.len; i++) {
        aisim_array_push(&moved, lost.data[i]);
    }
    aisim_array_free(&lost);
    sim_watch_worker(sim, index);
    sim_worker_state(sim, index, AISIM_WORKER_STOPPED);
    for (uint32_t i = 0; i < moved.len; i++) {
        aisim_request *r = sim_request(sim, moved.data[i]);
        if (r->rank != AISIM_NONE) {
            sim_leave(sim, moved.data[i], r->rank, true);
        }
        if (r->computed > r->computed_high) {
            r->computed_high = r->computed;
        }
        r->computed = 0;
        r->position = sim_handoff_restart(sim, moved.data[i]);
        r->rank = AISIM_NONE;
        r->state = AISIM_REQ_CREATED;
        r->waiting_since_ns = sim->now_ns;
        sim_join_queue(sim, &sim->pools.data[r->position], moved.data[i]);
    }
    aisim_array_free(&moved);
    sim->retry_routers = true;
}

static void command(aisim_sim *sim, uint32_t index, aisim_worker_command what)
{
    aisim_worker_state state = sim->workers.data[index].state;
    if (what == AISIM_WORKER_DRAIN && state == AISIM_WORKER_READY) {
        sim_worker_state(sim, index, AISIM_WORKER_DRAINING);
        sim_check_drained(sim, index);
    } else if (what == AISIM_WORKER_STOP && state != AISIM_WORKER_STOPPED) {
        sim_stop_worker(sim, index);
    } else if (what == AISIM_WORKER_RESUME && state != AISIM_WORKER_READY) {
        sim->workers.data[index].removed = false;
        sim_worker_state(sim, index, AISIM_WORKER_READY);
    }
}

void sim_apply_changes(aisim_sim *sim)
{
    sim_handoff_settle(sim);
    for (uint32_t i = 0; i < sim->changes.len; i++) { /* hooks of a change may ask for more */
        aisim_error err = {0};
        if (i > 0 && sim_count_round(sim, &err) != AISIM_OK) {
            aisim_sim_abort(sim, &err);
            break;
        }
        sim_change change = sim->changes.data[i];
        if (change.kind == CHANGE_CANCEL) {
            cancel(sim, change.handle);
        } else if (change.kind == CHANGE_PRIORITY) {
            set_priority(sim, change.handle, change.value);
        } else if (change.kind == CHANGE_GROW) {
            sim_grow(sim, change.worker, change.n, change.ns);
        } else if (change.kind == CHANGE_SHRINK) {
            sim_shrink(sim, change.worker, change.n, change.value != 0);
        } else {
            command(sim, change.worker, (aisim_worker_command)change.value);
        }
    }
    sim->changes.len = 0;
    while (sim->retry_routers || sim->handoffs.todo) {
        sim_retry_routers(sim);
        sim_handoff_settle(sim);
    }
}
