/* engine_state.c - the engine double: reading the state of the rank, and the pure functions. */
#include "base/check.h"
#include "engine_internal.h"
#include "sched/plan.h"
#include "sched/split.h"

/* ---- state ----------------------------------------------------------------------------------- */

bool twin_find(const twin *t, uint32_t id, twin_view *out)
{
    uint32_t serial = aisim_map_get(&t->live, id, 0);
    return serial != AISIM_NONE && twin_read(t, serial, out);
}

bool twin_read(const twin *t, uint32_t serial, twin_view *out)
{
    if (serial >= t->rows.len) {
        return false;
    }
    twin *writable = (twin *)(uintptr_t)t;
    engine_refresh(writable, serial);
    *out = t->rows.data[serial].view;
    return true;
}

uint32_t twin_running(const twin *t, const uint32_t **serials)
{
    twin *w = (twin *)(uintptr_t)t;
    w->serials.len = 0;
    for (uint32_t i = 0; i < t->rank.running.len; i++) {
        aisim_array_push(
            &w->serials,
            serial_of(t, aisim_requests_at(&t->engine.requests, t->rank.running.data[i].slot)));
    }
    *serials = w->serials.data;
    return w->serials.len;
}

uint32_t twin_waiting(const twin *t, const uint32_t **serials)
{
    twin *w = (twin *)(uintptr_t)t;
    uint32_t n = t->rank.waiting.slots.len;
    aisim_array_reserve(&w->serials, n);
    aisim_queue_sorted(&t->rank.waiting, w->serials.data);
    w->serials.len = n;
    for (uint32_t i = 0; i < n; i++) {
        w->serials.data[i] =
            serial_of(t, aisim_requests_at(&t->engine.requests, w->serials.data[i]));
    }
    *serials = w->serials.data;
    return n;
}

uint32_t twin_skipped(const twin *t, const uint32_t **serials)
{
    twin *w = (twin *)(uintptr_t)t;
    w->serials.len = 0;
    for (uint32_t i = 0; i < t->rank.skipped.len; i++) {
        aisim_array_push(&w->serials, serial_of(t, aisim_requests_at(&t->engine.requests,
                                                                     t->rank.skipped.data[i])));
    }
    *serials = t->serials.data;
    return w->serials.len;
}

twin_totals twin_sum(const twin *t)
{
    const aisim_block_pool *pool = &t->rank.pool;
    return (twin_totals){
        .active = (uint32_t)aisim_block_pool_active(pool),
        .inactive = (uint32_t)pool->extents.inactive,
        .free = (uint32_t)pool->free,
        .live = t->engine.requests.live,
        .ready =
            t->rank.running.len > 0 || t->rank.waiting.slots.len > 0 || t->rank.offload.ready > 0,
        .drained = t->engine.requests.live == 0,
        .capacity_bound = t->rank.capacity_bound,
        .livelock = t->rank.config.scheduler.preempting_pass_limit > 0 &&
                    t->rank.preempting_passes >= t->rank.config.scheduler.preempting_pass_limit,
        .preemptions = t->preemptions,
        .decode_forwards = t->rank.decode_forwards,
        .accepted_including_base = t->rank.accepted_with_base,
        .lookups = t->lookups,
        .lookup_tokens = t->lookup_tokens,
        .hit_tokens = t->hit_tokens,
        .queued_prefill = t->rank.queued_prefill.count,
        .queued_prefill_tokens = t->rank.queued_prefill.sum,
        .queued_prefill_variance = aisim_length_variance(&t->rank.queued_prefill),
        .queued_decode = t->rank.queued_decode.count,
        .queued_decode_tokens = t->rank.queued_decode.sum,
        .queued_decode_variance = aisim_length_variance(&t->rank.queued_decode),
    };
}

bool twin_defers(const twin *t, uint32_t ranks, uint64_t wave_step)
{
    uint32_t interval = t->rank.config.scheduler.prefill_schedule_interval;
    return ranks > 1 && wave_step % interval != 0 && !t->rank.capacity_bound &&
           aisim_rank_has_decode(&t->rank);
}

void twin_set_budget(twin *t, uint32_t tokens)
{
    t->rank.config.scheduler.max_batched_tokens = tokens;
}

bool twin_reset(twin *t, bool force)
{
    uint32_t running = t->rank.running.len;
    bool done = aisim_rank_reset(&t->rank, force);
    t->preemptions += running - t->rank.running.len;
    uint32_t evicted = t->evicted.len;
    engine_read_log(t);
    t->evicted.len = evicted; /* emptied, not evicted (E-B8) */
    return done;
}

uint32_t twin_align_split(aisim_align_split kind, uint32_t b, uint32_t u, uint32_t cap, bool drop,
                          uint32_t junction, uint32_t start, uint32_t prompt, uint32_t known,
                          uint32_t desired)
{
    aisim_split in = {kind, b, u, cap, drop, junction, start, prompt, known, desired};
    return aisim_split_tokens(&in);
}

uint32_t twin_draw(uint64_t seed, uint32_t rank, uint64_t request, uint64_t step,
                   const double *rates, uint32_t drafts)
{
    return aisim_draw_accepted(seed, rank, request, step, rates, drafts);
}

void twin_verify(const twin *t)
{
    aisim_rank_verify(&t->rank);
}
