/* worker.c - group passes. */
#include "cluster/worker.h"

#include "base/check.h"
#include "sched/glide.h"

void aisim_worker_deinit(aisim_worker *worker)
{
    aisim_free(worker->ranks);
    aisim_array_free(&worker->chunk_len);
    aisim_array_free(&worker->chunk_start);
    aisim_array_free(&worker->context);
}

bool aisim_worker_ready(const aisim_worker *worker)
{
    if (worker->in_flight ||
        (worker->state != AISIM_WORKER_READY && worker->state != AISIM_WORKER_DRAINING)) {
        return false;
    }
    for (uint32_t i = 0; i < worker->n_ranks; i++) {
        if (aisim_rank_ready(worker->ranks[i])) {
            return true;
        }
    }
    return false;
}

bool aisim_defers_prefill(uint32_t group_ranks, uint64_t wave_step, uint32_t interval,
                          bool capacity_bound, bool has_decode)
{
    return group_ranks > 1 && wave_step % interval != 0 && !capacity_bound && has_decode; /* E-G2 */
}

static bool defers(const aisim_worker *worker, const aisim_rank *rank)
{
    uint32_t interval = rank->config.scheduler.prefill_schedule_interval;
    if (worker->n_ranks == 1 || interval == 1) {
        return false;
    }
    return aisim_defers_prefill(worker->n_ranks, worker->wave_step, interval, rank->capacity_bound,
                                aisim_rank_has_decode(rank));
}

static void show_begin(const aisim_rank *rank, const aisim_observers *observers, int64_t t_ns)
{
    aisim_event event = {.type = AISIM_EV_PASS_BEGIN, .rank = rank->index, .t_ns = t_ns};
    event.u.pass_begin.waiting = rank->waiting.slots.len + rank->offload.queue.len;
    event.u.pass_begin.running = rank->running.len;
    event.u.pass_begin.free_blocks = rank->pool.blocks - aisim_block_pool_active(&rank->pool);
    event.u.pass_begin.pass = rank->pass;
    aisim_emit(observers, &event);
}

/* Planning takes blocks at the begin of the pass; the end is told by pass.end. */
void aisim_worker_show_level(const aisim_rank *rank, const aisim_observers *observers, int64_t t_ns)
{
    if (!aisim_wanted(observers, AISIM_EV_KV_LEVEL)) {
        return;
    }
    aisim_event event = {.type = AISIM_EV_KV_LEVEL, .rank = rank->index, .t_ns = t_ns};
    event.u.level.used = aisim_block_pool_active(&rank->pool);
    event.u.level.cached = rank->pool.extents.inactive;
    event.u.level.total = rank->pool.blocks;
    aisim_emit(observers, &event);
}

/* Lengths of the single items, for models that price attention per request (timing.md §6). */
static aisim_pass_items collect_items(aisim_worker *worker, const aisim_rank *rank,
                                      const aisim_batch *batch)
{
    bool burst = rank->config.speculation.mode == AISIM_SPECULATION_BURST;
    worker->chunk_len.len = worker->chunk_start.len = worker->context.len = 0;
    aisim_cruise_sync_all(rank);
    for (uint32_t i = 0; i < batch->cruised; i++) {
        uint32_t slot = rank->running.data[i].slot;
        aisim_array_push(&worker->context,
                         aisim_known(aisim_requests_at(&rank->engine->requests, slot)));
    }
    for (uint32_t i = 0; i < batch->plan.len; i++) {
        const aisim_plan_entry *p = &batch->plan.data[i];
        bool ran = !p->undone && !p->lost;
        if (ran && p->prefill && p->tokens > 0) {
            aisim_array_push(&worker->chunk_len, p->tokens);
            aisim_array_push(&worker->chunk_start, p->before);
        }
        bool verifies = burst && p->verified > 0 && p->prefill;
        if (ran && ((!p->prefill && !p->idle) || verifies)) {
            aisim_array_push(&worker->context, p->known);
        }
    }
    return (aisim_pass_items){worker->chunk_len.data, worker->chunk_start.data,
                              worker->context.data, worker->chunk_len.len, worker->context.len};
}

static bool same_shape(const aisim_pass_shape *a, const aisim_pass_shape *b)
{
    return a->n_prefill == b->n_prefill && a->new_tokens == b->new_tokens &&
           a->past_tokens == b->past_tokens && a->n_decode == b->n_decode &&
           a->context_tokens == b->context_tokens && a->verify_width == b->verify_width;
}

/* Duration of one rank's pass. */
static int64_t price(aisim_worker *worker, const aisim_rank *rank, const aisim_batch *batch)
{
    int64_t ns;
    if (worker->priced_ns >= 0) { /* the pass before which a glide ended */
        AISIM_CHECK(same_shape(&worker->priced, &batch->shape));
        ns = worker->priced_ns;
        worker->priced_ns = -1;
        return ns;
    }
    aisim_profile *profile = rank->engine->profile;
    aisim_part before = aisim_part_enter(profile, AISIM_PART_TIMING);
    if (aisim_timing_wants_items(worker->timing)) {
        aisim_pass_items items = collect_items(worker, rank, batch);
        ns = aisim_timing_pass_items_ns(worker->timing, &batch->shape, &items);
    } else {
        ns = aisim_timing_pass_ns(worker->timing, &batch->shape);
    }
    aisim_part_leave(profile, before);
    return ns;
}

bool aisim_worker_begin(aisim_worker *worker, const aisim_observers *observers, int64_t t_ns,
                        int64_t *end_ns)
{
    AISIM_CHECK(!worker->in_flight);
    if (aisim_wanted(observers, AISIM_EV_PASS_BEGIN)) {
        for (uint32_t i = 0; i < worker->n_ranks; i++) {
            if (aisim_rank_ready(worker->ranks[i])) {
                show_begin(worker->ranks[i], observers, t_ns);
            }
        }
    }
    *end_ns = t_ns;
    bool any = false;
    for (uint32_t i = 0; i < worker->n_ranks; i++) {
        aisim_rank *rank = worker->ranks[i];
        if (!aisim_rank_ready(rank)) {
            continue;
        }
        uint32_t planned = aisim_rank_plan(rank, t_ns, defers(worker, rank));
        if (planned == AISIM_NONE) {
            continue;
        }
        any = true;
        aisim_worker_show_level(rank, observers, t_ns);
        const aisim_batch *batch = aisim_rank_batch(rank, planned);
        if (batch->plan.len + batch->cruised > 0) { /* a pass that only rejects takes no time */
            int64_t duration_ns = price(worker, rank, batch);
            int64_t start_ns = aisim_offload_start(rank, t_ns); /* E-O4 */
            worker->price_failed |= duration_ns == AISIM_TIMING_FAILED;
            worker->last_pass_ns = duration_ns;
            *end_ns = aisim_group_end_ns(*end_ns, start_ns + duration_ns);
        }
    }
    worker->in_flight = any;
    if (any) {
        worker->serial++;
        worker->wave_step++;
    }
    return any;
}

int64_t aisim_worker_glide(aisim_worker *worker, int64_t t_ns, int64_t limit_ns, uint32_t most,
                           const aisim_pass_watch *watch, uint32_t *passes, bool *asked)
{
    aisim_glide glide;
    *passes = 0;
    *asked = false;
    if (worker->n_ranks > 1 || worker->last_pass_ns > (limit_ns - t_ns) / 4 ||
        !aisim_timing_is_pure(worker->timing) || aisim_timing_wants_items(worker->timing) ||
        !aisim_glide_begin(&glide, worker->ranks[0], t_ns)) {
        return t_ns;
    }
    const aisim_pass_shape *shape;
    while (glide.passes < most && !*asked && (shape = aisim_glide_plan(&glide)) != NULL) {
        int64_t duration_ns = aisim_timing_pass_ns(worker->timing, shape);
        if (duration_ns == AISIM_TIMING_FAILED) {
            break; /* again, and reported, when the pass is planned */
        }
        if (duration_ns >= limit_ns - t_ns) {
            worker->priced = *shape;
            worker->priced_ns = duration_ns;
            break;
        }
        if (glide.heard) {
            watch->clock(watch->context, t_ns + duration_ns);
        }
        aisim_glide_commit(&glide, t_ns, t_ns + duration_ns);
        t_ns += duration_ns;
        *asked = glide.heard && watch->asked(watch->context);
    }
    aisim_glide_end(&glide);
    worker->glided += glide.passes;
    worker->serial += glide.passes;
    worker->wave_step += glide.passes;
    *passes = glide.passes;
    return t_ns;
}

void aisim_worker_end(aisim_worker *worker, int64_t end_ns)
{
    AISIM_CHECK(worker->in_flight);
    worker->in_flight = false;
    bool drained = true;
    for (uint32_t i = 0; i < worker->n_ranks; i++) {
        aisim_rank *rank = worker->ranks[i];
        if (rank->in_flight > 0) {
            aisim_rank_complete(rank, rank->current, end_ns, NULL, 0);
        }
        drained = drained && rank->running.len == 0 && rank->waiting.slots.len == 0 &&
                  rank->offload.queue.len == 0;
    }
    if (drained) {
        worker->wave_step = 0;
    }
}
