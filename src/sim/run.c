/* run.c - the event loop, timers, and the ways a run ends. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "sim/sim_internal.h"

enum { GLIDE_PASSES = 1024, POLL_EVENTS = 1 << 12, PROGRESS_EVENTS = 1 << 16 };

/* Events and changes at one time, each asked for by the one before, until the run counts as one
 * that will never go on. Passes that take no time are such a chain as well, and a long one may end. */
enum { ROUNDS_MAX = 1 << 22 };

/* ---- timers ---------------------------------------------------------------------------------- */

uint64_t aisim_sim_timer(aisim_sim *sim, int64_t at_ns, aisim_event_class class_, bool background,
                         aisim_timer_fn fn, void *context)
{
    AISIM_CHECK(at_ns >= sim->now_ns);
    uint32_t index = sim->free_timer;
    if (index == AISIM_NONE) {
        index = sim->timers.len;
        aisim_array_push(&sim->timers, (sim_timer){.generation = 0});
    } else {
        sim->free_timer = sim->timers.data[index].next_free;
    }
    sim_timer *timer = &sim->timers.data[index];
    timer->fn = fn;
    timer->context = context;
    timer->background = background;
    timer->generation++;
    aisim_heap_push(&sim->heap, at_ns, class_, AISIM_ENTRY_TIMER, index, timer->generation,
                    background);
    return (uint64_t)timer->generation << 32 | index;
}

static void free_timer(aisim_sim *sim, uint32_t index)
{
    sim->timers.data[index].fn = NULL;
    sim->timers.data[index].next_free = sim->free_timer;
    sim->free_timer = index;
}

void aisim_sim_timer_remove(aisim_sim *sim, uint64_t timer)
{
    uint32_t index = (uint32_t)timer;
    if (index < sim->timers.len && sim->timers.data[index].fn != NULL &&
        sim->timers.data[index].generation == timer >> 32) {
        sim->removed_foreground += !sim->timers.data[index].background;
        free_timer(sim, index);
    }
}

static void fire(aisim_sim *sim, const aisim_entry *entry)
{
    sim_timer timer = sim->timers.data[entry->a];
    free_timer(sim, entry->a);
    timer.fn(timer.context, sim, entry->t_ns);
}

/* ---- passes ---------------------------------------------------------------------------------- */

void sim_wake(aisim_sim *sim, uint32_t index)
{
    aisim_worker *worker = &sim->workers.data[index];
    if (!worker->begin_queued && aisim_worker_ready(worker)) {
        worker->begin_queued = true;
        aisim_heap_push(&sim->heap, sim->now_ns, AISIM_CLASS_PASS_BEGIN, AISIM_ENTRY_PASS_BEGIN,
                        index, 0, false);
    }
}

typedef struct pass_watch {
    aisim_sim *sim;
    uint64_t sequence;                  /* of the heap: nothing was put on it */
    uint64_t observed, observed_active; /* masks of the observers */
} pass_watch;

static void pass_ends(void *context, int64_t end_ns)
{
    aisim_sim *sim = ((pass_watch *)context)->sim;
    sim->now_ns = sim->engine.now_ns = sim->check.now_ns = end_ns;
}

static bool asked(void *context)
{
    const pass_watch *watch = context;
    const aisim_sim *sim = watch->sim;
    const aisim_observers *observers = &sim->engine.observers;
    return sim->heap.sequence != watch->sequence || sim->changes.len > 0 || sim->retry_routers ||
           sim->handoffs.todo || sim->stop_reason != NULL || sim->error.code != AISIM_OK ||
           observers->mask != watch->observed || observers->active_mask != watch->observed_active;
}

/* Passes in which nothing is decided and before whose ends nothing else happens.
 * @return false: what somebody asked for at the end of the last one comes first */
static bool glide(aisim_sim *sim, aisim_worker *worker)
{
    const aisim_observers *observers = &sim->engine.observers;
    pass_watch heard = {sim, sim->heap.sequence, observers->mask, observers->active_mask};
    aisim_pass_watch watch = {&heard, pass_ends, asked};
    bool stopped;
    int64_t limit_ns = sim->until_ns == AISIM_NEVER ? AISIM_NEVER : sim->until_ns + 1;
    if (!aisim_heap_empty(&sim->heap) && aisim_heap_top(&sim->heap)->t_ns < limit_ns) {
        limit_ns = aisim_heap_top(&sim->heap)->t_ns;
    }
    uint32_t passes;
    sim->now_ns =
        aisim_worker_glide(worker, sim->now_ns, limit_ns, GLIDE_PASSES, &watch, &passes, &stopped);
    sim->check.now_ns = sim->now_ns;
    sim->events += 2 * (uint64_t)passes; /* as many begins and ends */
    return !stopped;
}

static void begin_pass(aisim_sim *sim, uint32_t index)
{
    aisim_worker *worker = &sim->workers.data[index];
    worker->begin_queued = false;
    if (!aisim_worker_ready(worker)) {
        sim_watch_worker(sim, index);
        return; /* stopped or emptied meanwhile */
    }
    sim_touch_worker(sim, worker);
    if (!glide(sim, worker)) {
        sim->events--; /* the begin that comes is counted */
        sim_wake(sim, index);
        sim_watch_worker(sim, index);
        sim_check_drained(sim, index);
        return;
    }
    int64_t end_ns;
    bool planned = aisim_worker_begin(worker, &sim->engine.observers, sim->now_ns, &end_ns);
    if (worker->price_failed) {
        aisim_sim_abort(sim, aisim_timing_error(worker->timing));
        return;
    }
    if (planned) {
        aisim_heap_push(&sim->heap, end_ns, AISIM_CLASS_PASS_END, AISIM_ENTRY_PASS_END, index,
                        worker->serial, false);
    }
    sim_watch_worker(sim, index);
}

static void check_preempting(aisim_sim *sim, const aisim_worker *worker)
{
    for (uint32_t i = 0; i < worker->n_ranks; i++) {
        const aisim_rank *rank = worker->ranks[i];
        uint32_t limit = rank->config.scheduler.preempting_pass_limit;
        if (limit > 0 && rank->preempting_passes >= limit) { /* E-T8 */
            aisim_error err = {0};
            aisim_fail(&err, AISIM_ELIVELOCK,
                       "rank %u preempted in %u passes in a row without delivering a token at "
                       "t=%.3f ms: its running requests take blocks from each other; more blocks, "
                       "fewer max_sequences or preemption = lifo end it",
                       rank->index + 1, limit, aisim_ms_from_ns(sim->now_ns));
            aisim_sim_abort(sim, &err);
        }
    }
}

static void end_pass(aisim_sim *sim, const aisim_entry *entry)
{
    aisim_worker *worker = &sim->workers.data[entry->a];
    sim_touch_worker(sim, worker);
    aisim_worker_end(worker, entry->t_ns);
    check_preempting(sim, worker);
    sim_wake(sim, entry->a);
    sim_watch_worker(sim, entry->a);
    sim_check_drained(sim, entry->a);
}

/* ---- ends ------------------------------------------------------------------------------------ */

void aisim_sim_stop(aisim_sim *sim, const char *reason)
{
    if (sim->stop_reason == NULL) {
        sim->stop_reason = aisim_strdup(reason);
    }
}

const char *aisim_sim_stop_reason(const aisim_sim *sim)
{
    return sim->stop_reason;
}

void aisim_sim_abort(aisim_sim *sim, const aisim_error *err)
{
    if (sim->error.code == AISIM_OK) {
        sim->error = *err;
    }
}

/* E-T8: live requests and no event that could move one of them. */
static aisim_status livelock(const aisim_sim *sim, aisim_error *err)
{
    double t_ms = aisim_ms_from_ns(sim->now_ns);
    for (uint32_t i = 0; i < sim->ranks.len; i++) {
        const aisim_rank *rank = sim->ranks.data[i];
        uint32_t slot = aisim_queue_head(&rank->waiting);
        if (rank->kept_waiting != 0 && rank->blocked) {
            return aisim_fail(err, AISIM_ELIVELOCK,
                              "no event can change the state at t=%.3f ms; scheduler point '%s' "
                              "keeps request %u waiting on rank %u, where nothing else runs",
                              t_ms, aisim_point_text(rank->kept_by), rank->kept_waiting, i + 1);
        }
        if (slot != AISIM_NONE) {
            const aisim_request *r = sim_request(sim, slot);
            uint64_t held = aisim_block_pool_active(&rank->pool);
            return aisim_fail(
                err, AISIM_ELIVELOCK,
                "no event can change the state at t=%.3f ms; head of queue of rank %u: request %u "
                "needs %" PRIu64 " blocks, %" PRIu64 " can ever be free",
                t_ms, i + 1, r->id,
                aisim_blocks_of(&rank->pool, (uint64_t)r->prompt_tokens + r->generated),
                rank->pool.blocks - held);
        }
    }
    for (uint32_t i = 0; i < sim->ranks.len; i++) { /* not reached as long as hand-offs end */
        const aisim_rank *rank = sim->ranks.data[i];
        if (rank->pending.len > 0) {
            const aisim_request *r = sim_request(sim, rank->pending.data[0]);
            return aisim_fail(
                err, AISIM_ELIVELOCK,
                "no event can change the state at t=%.3f ms; request %u waits for %" PRIu64
                " blocks of decode rank %u, %" PRIu64 " can ever be free",
                t_ms, sim_request(sim, r->cookie)->id, aisim_blocks_of(&rank->pool, aisim_known(r)),
                i + 1, rank->pool.blocks - aisim_block_pool_active(&rank->pool));
        }
    }
    for (uint32_t i = 0; i < sim->pools.len; i++) {
        if (sim->pools.data[i].queued.len > 0) {
            return aisim_fail(err, AISIM_ELIVELOCK,
                              "no event can change the state at t=%.3f ms; %u requests wait at the "
                              "router of pool '%s', the first is request %u: no worker is ready or "
                              "the policy returns none",
                              t_ms, sim->pools.data[i].queued.len, sim->pools.data[i].name,
                              sim_request(sim, sim->pools.data[i].queued.data[0])->id);
        }
    }
    return aisim_fail(err, AISIM_ELIVELOCK,
                      "no event can change the state at t=%.3f ms although %u requests are live",
                      t_ms, sim->engine.requests.live);
}

static void show(aisim_sim *sim, aisim_event_type type)
{
    if (aisim_wanted(&sim->engine.observers, type)) {
        aisim_event event = {.type = type, .rank = AISIM_NONE, .t_ns = sim->now_ns};
        aisim_emit(&sim->engine.observers, &event);
    }
}

/* The entry has lost its meaning: a removed timer, a cancelled arrival, a pass that was broken off.
 * It must not move the clock. */
static bool stale(aisim_sim *sim, const aisim_entry *entry)
{
    if (entry->kind == AISIM_ENTRY_TIMER) {
        const sim_timer *timer = &sim->timers.data[entry->a];
        bool removed = timer->fn == NULL || timer->generation != entry->b;
        sim->removed_foreground -= removed && !entry->background;
        return removed;
    }
    if (entry->kind == AISIM_ENTRY_ARRIVAL) {
        return sim_request(sim, entry->a)->generation != entry->b;
    }
    if (entry->kind == AISIM_ENTRY_HANDOFF) {
        return !sim_handoff_moves(sim, entry->a, entry->b);
    }
    if (entry->kind == AISIM_ENTRY_TRANSFER) {
        return sim->tiers.data[entry->a].due_ns != entry->t_ns;
    }
    const aisim_worker *worker = &sim->workers.data[entry->a];
    if (entry->kind == AISIM_ENTRY_STARTED) {
        bool given_up = worker->state != AISIM_WORKER_STARTING;
        sim->removed_foreground -= given_up;
        return given_up;
    }
    return entry->kind == AISIM_ENTRY_PASS_END &&
           (!worker->in_flight || worker->serial != entry->b);
}

aisim_status sim_count_round(aisim_sim *sim, aisim_error *err)
{
    if (++sim->rounds < ROUNDS_MAX) {
        return AISIM_OK;
    }
    return aisim_fail(err, AISIM_ELIVELOCK,
                      "time stands still at t=%.3f ms: %u events in a row, each asked for at that "
                      "time by the one before",
                      aisim_ms_from_ns(sim->now_ns), sim->rounds);
}

/* Counts how often the events of one time stamp have put others there. */
static aisim_status watch_time(aisim_sim *sim, const aisim_entry *entry, aisim_error *err)
{
    if (entry->t_ns > sim->now_ns) {
        sim->rounds = 0;
        sim->round_end = sim->heap.sequence;
    } else if (aisim_entry_sequence(entry) >= sim->round_end) {
        sim->round_end = sim->heap.sequence;
        return sim_count_round(sim, err);
    }
    return AISIM_OK;
}

uint32_t aisim_sim_rounds_left(const aisim_sim *sim)
{
    return sim->rounds < ROUNDS_MAX ? ROUNDS_MAX - sim->rounds : 0;
}

/* Whose time an event is, as far as nothing further down says otherwise. */
static aisim_part part_of(const aisim_entry *entry)
{
    switch ((aisim_entry_kind)entry->kind) {
    case AISIM_ENTRY_PASS_END:
    case AISIM_ENTRY_PASS_BEGIN:
        return AISIM_PART_SCHED;
    case AISIM_ENTRY_TRANSFER:
        return AISIM_PART_HOST;
    default:
        return AISIM_PART_SIM;
    }
}

static void handle(aisim_sim *sim, const aisim_entry *entry)
{
    aisim_part before = aisim_part_enter(sim->engine.profile, part_of(entry));
    switch ((aisim_entry_kind)entry->kind) {
    case AISIM_ENTRY_PASS_END:
        end_pass(sim, entry);
        break;
    case AISIM_ENTRY_PASS_BEGIN:
        begin_pass(sim, entry->a);
        break;
    case AISIM_ENTRY_ARRIVAL:
        sim_arrive(sim, entry->a);
        break;
    case AISIM_ENTRY_TIMER:
        fire(sim, entry);
        break;
    case AISIM_ENTRY_TRANSFER:
        sim_transfer(sim, entry->a);
        break;
    case AISIM_ENTRY_HANDOFF:
        sim_handoff_due(sim, entry->a);
        break;
    case AISIM_ENTRY_STARTED:
        sim->workers.data[entry->a].start_queued = false;
        sim_started(sim, entry->a);
        break;
    }
    aisim_part_leave(sim->engine.profile, before);
    if (sim->changes.len > 0 || sim->retry_routers || sim->handoffs.todo) {
        sim_apply_changes(sim);
    }
}

static aisim_status failure(const aisim_sim *sim, aisim_error *err)
{
    return aisim_fail_at(err, sim->error.code, sim->error.file, sim->error.line, sim->error.column,
                         "%s", sim->error.text);
}

static double wall_s(void)
{
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* traffic 3.5: the only place where real time reaches a run, and the result says so. */
static void guard_wall(aisim_sim *sim, double limit_s, double begun_s)
{
    if (limit_s > 0 && wall_s() - begun_s >= limit_s) {
        char reason[64];
        snprintf(reason, sizeof reason, "max_wall_time_ms = %.14g reached", limit_s * 1e3);
        aisim_sim_stop(sim, reason);
    }
}

static aisim_status loop(aisim_sim *sim, const aisim_run_options *options, aisim_error *err)
{
    double begun_s = options->max_wall_s > 0 ? wall_s() : 0;
    if (sim->error.code != AISIM_OK) { /* of a client at its start */
        return failure(sim, err);
    }
    while (!aisim_heap_empty(&sim->heap) && sim->stop_reason == NULL) {
        const aisim_entry *top = aisim_heap_top(&sim->heap);
        if (sim->heap.foreground == sim->removed_foreground && top->t_ns > sim->now_ns) {
            break; /* only repetitions are left */
        }
        if (top->t_ns > options->until_ns && options->until_ns < AISIM_NEVER) {
            return AISIM_OK;
        }
        if (top->t_ns >= AISIM_NEVER) {
            return aisim_fail(err, AISIM_ERANGE,
                              "the next event after t=%.3f ms is more than 146 years away: a pass, "
                              "a timer or an arrival without an end",
                              aisim_ms_from_ns(sim->now_ns));
        }
        aisim_entry entry = aisim_heap_pop(&sim->heap);
        if (stale(sim, &entry)) {
            continue;
        }
        if (watch_time(sim, &entry, err) != AISIM_OK) {
            return err->code;
        }
        sim->now_ns = sim->engine.now_ns = entry.t_ns;
        sim->check.now_ns = entry.t_ns;
        uint64_t before = sim->events++;
        handle(sim, &entry);
        if (sim->error.code != AISIM_OK) {
            return failure(sim, err);
        }
        if (options->interrupt != NULL && *options->interrupt) { /* an event may take long */
            return aisim_fail(err, AISIM_EINTERRUPTED, "interrupted at t=%.3f ms",
                              aisim_ms_from_ns(sim->now_ns));
        }
        if (sim->events / POLL_EVENTS != before / POLL_EVENTS) {
            guard_wall(sim, options->max_wall_s, begun_s);
            if (sim->events / PROGRESS_EVENTS != before / PROGRESS_EVENTS &&
                options->progress != NULL) {
                options->progress(options->progress_context, sim);
            }
        }
    }
    if (sim->stop_reason == NULL && sim->engine.requests.live > 0) {
        return livelock(sim, err);
    }
    return AISIM_OK;
}

static int by_value(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* Requests that have arrived and are still live, by id: their scheduler events count. */
static void show_unfinished(aisim_sim *sim)
{
    if (!aisim_wanted(&sim->engine.observers, AISIM_EV_UNFINISHED)) {
        return;
    }
    AISIM_ARRAY(uint64_t) live = {0}; /* id, slot */
    for (uint32_t slot = 0; slot < sim->engine.requests.slots; slot++) {
        const aisim_request *r = sim_request(sim, slot);
        if (r->id != 0 && r->state != AISIM_REQ_DONE && r->arrival_ns <= sim->now_ns) {
            aisim_array_push(&live, (uint64_t)r->id << 32 | slot);
        }
    }
    if (live.len > 0) {
        qsort(live.data, live.len, sizeof *live.data, by_value);
    }
    for (uint32_t i = 0; i < live.len; i++) {
        const aisim_request *r = sim_request(sim, (uint32_t)live.data[i]);
        if (r->rank != AISIM_NONE) {
            aisim_cruise_sync(sim->ranks.data[r->rank], (uint32_t)live.data[i]);
        }
        aisim_event event = {
            .type = AISIM_EV_UNFINISHED, .rank = r->rank, .t_ns = sim->now_ns, .request = r};
        aisim_emit(&sim->engine.observers, &event);
    }
    aisim_array_free(&live);
}

static void observe_timed(void *context, const aisim_event *event)
{
    const sim_watched *watched = context;
    aisim_part before = aisim_part_enter(watched->profile, AISIM_PART_METRICS);
    watched->inner.fn(watched->inner.context, event);
    aisim_part_leave(watched->profile, before);
}

/* Gives the watch to those who cannot ask the engine for it. */
static void start_profile(aisim_sim *sim)
{
    aisim_profile *profile = sim->engine.profile;
    for (uint32_t i = 0; i < sim->ranks.len; i++) {
        sim->ranks.data[i]->pool.profile = profile;
    }
    aisim_observers *observers = &sim->engine.observers;
    for (uint32_t i = 0; i < observers->n; i++) {
        sim->watched[i] = (sim_watched){observers->list[i], profile};
        observers->list[i].context = &sim->watched[i];
        observers->list[i].fn = observe_timed;
    }
    aisim_profile_start(profile);
}

aisim_status aisim_sim_run(aisim_sim *sim, const aisim_run_options *options, aisim_error *err)
{
    AISIM_CHECK(!sim->running);
    sim->running = true;
    if (sim->engine.profile != NULL && !sim->started) {
        start_profile(sim);
    }
    sim->until_ns = options->until_ns;
    sim->check.seed = sim->seed;
    const aisim_check_context *previous = aisim_check_context_set(&sim->check);
    if (!sim->started) {
        aisim_status fits = sim_handoff_check(sim, err);
        if (fits != AISIM_OK) {
            aisim_check_context_set(previous);
            sim->running = false;
            return fits;
        }
        sim->started = true;
        show(sim, AISIM_EV_RUN_START);
        for (uint32_t i = 0; i < sim->clients.len; i++) {
            if (sim->clients.data[i].start != NULL) {
                sim->clients.data[i].start(sim->clients.data[i].context, sim);
            }
        }
        sim_apply_changes(sim);
    }
    aisim_status status = loop(sim, options, err);
    show_unfinished(sim);
    if (aisim_wanted(&sim->engine.observers, AISIM_EV_RANK_TOTALS)) {
        for (uint32_t i = 0; i < sim->ranks.len; i++) {
            aisim_rank_show_totals(sim->ranks.data[i], sim->now_ns);
        }
    }
    show(sim, AISIM_EV_RUN_END);
    aisim_part_leave(sim->engine.profile, AISIM_PART_SIM);
    aisim_check_context_set(previous);
    sim->running = false;
    return status;
}
