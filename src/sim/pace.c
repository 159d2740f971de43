/* pace.c - one timer stands for the next start (open) or the next rise of the number in flight. */
#include "sim/pace.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "workload/arrivals.h"

void aisim_pace_give_up(aisim_pace *p, const aisim_error *err)
{
    p->exhausted = true;
    if (err->code != AISIM_OK) {
        p->over = true;
        aisim_sim_abort(p->sim, err);
    }
}

/* ---- warmup ---------------------------------------------------------------------------------- */

static void open_barrier(aisim_pace *p)
{
    aisim_pace_part from = p->part;
    p->part = AISIM_PACE_MEASURED;
    aisim_sim_warmup_over(p->sim, from == AISIM_PACE_SETTLE);
    for (uint32_t i = 0; i < p->held.len; i++) {
        const aisim_pace_held *held = &p->held.data[i];
        aisim_sim_timer(p->sim, aisim_sim_now(p->sim), AISIM_CLASS_ARRIVAL, false, held->fn,
                        held->context);
    }
    p->held.len = 0;
    p->waits = false;
}

/* After everything else of this instant; copies between tiers are waited for. */
static void settle(void *context, aisim_sim *sim, int64_t t_ns)
{
    aisim_pace *p = context;
    (void)t_ns;
    int64_t due_ns = aisim_sim_transfer_due(sim);
    if (due_ns != AISIM_NEVER) {
        aisim_sim_timer(sim, due_ns, AISIM_CLASS_TICK, false, settle, p);
        return;
    }
    open_barrier(p);
}

static void look_at_barrier(aisim_pace *p)
{
    if (p->part == AISIM_PACE_SETTLE && p->warmup_live == 0) {
        aisim_sim_timer(p->sim, aisim_sim_now(p->sim), AISIM_CLASS_TICK, false, settle, p);
    }
}

static void end_warmup(aisim_pace *p)
{
    if (p->config.barrier) {
        p->part = AISIM_PACE_SETTLE;
        look_at_barrier(p);
    } else {
        open_barrier(p);
    }
}

static void warmup_due(void *context, aisim_sim *sim, int64_t t_ns)
{
    aisim_pace *p = context;
    (void)sim, (void)t_ns;
    if (p->part == AISIM_PACE_WARMUP) {
        end_warmup(p);
    }
}

void aisim_pace_hold(aisim_pace *p, aisim_timer_fn fn, void *context, void (*drop)(void *))
{
    aisim_array_push(&p->held, (aisim_pace_held){fn, context, drop});
}

bool aisim_pace_holds(aisim_pace *p)
{
    /* the warmup ends with the issue of the request after it */
    if (p->part == AISIM_PACE_WARMUP && p->config.warmup_requests > 0 &&
        p->warmup_sent >= p->config.warmup_requests) {
        end_warmup(p);
    }
    return p->part == AISIM_PACE_SETTLE;
}

/* ---- limits ---------------------------------------------------------------------------------- */

aisim_pace_answer aisim_pace_ask(aisim_pace *p)
{
    const aisim_pace_config *c = &p->config;
    if (p->over || aisim_sim_now(p->sim) >= c->until_ns ||
        (c->requests > 0 && p->requests >= c->requests) ||
        (c->tokens > 0 && p->tokens >= c->tokens)) {
        p->over = true;
        return AISIM_PACE_OVER;
    }
    return aisim_pace_holds(p) ? AISIM_PACE_HOLD : AISIM_PACE_SEND;
}

uint8_t aisim_pace_sent(aisim_pace *p, uint64_t tokens)
{
    if (p->part == AISIM_PACE_WARMUP) {
        p->warmup_sent++;
        p->warmup_live++;
        return AISIM_PHASE_WARMUP;
    }
    p->requests++;
    p->tokens += tokens;
    return AISIM_PHASE_PROFILE;
}

bool aisim_pace_unit_allowed(const aisim_pace *p)
{
    return p->config.units == 0 || p->units < p->config.units;
}

void aisim_pace_unit_begun(aisim_pace *p)
{
    p->units += p->part == AISIM_PACE_MEASURED;
}

bool aisim_pace_think(aisim_pace *p, int64_t *think_ns)
{
    aisim_error err = {0};
    if (!p->config.think.next(p->config.think.context, think_ns, &err)) {
        aisim_pace_give_up(p, &err);
        return false;
    }
    return true;
}

void aisim_pace_request_over(aisim_pace *p, const aisim_request *request)
{
    if (request->phase != AISIM_PHASE_WARMUP) {
        return;
    }
    p->warmup_live--;
    bool success = request->end == AISIM_END_LENGTH || request->end == AISIM_END_CONTEXT;
    if (p->config.barrier && !success) {
        aisim_error err = {0};
        aisim_fail(&err, AISIM_EBUSY,
                   "the warmup failed: request %u ended with '%s', the barrier stays closed",
                   request->id, aisim_end_reason_text((aisim_end_reason)request->end));
        aisim_pace_give_up(p, &err);
        return;
    }
    look_at_barrier(p);
}

/* ---- starts ---------------------------------------------------------------------------------- */

static void fill(aisim_pace *p);
static void plan_gap(aisim_pace *p);

static void fill_due(void *context, aisim_sim *sim, int64_t t_ns)
{
    (void)sim, (void)t_ns;
    fill(context);
}

static void gap_due(void *context, aisim_sim *sim, int64_t t_ns);

/* @return false when no unit started; one that is held starts later */
static bool start_unit(aisim_pace *p)
{
    aisim_pace_answer answer = aisim_pace_ask(p);
    if (answer == AISIM_PACE_HOLD) {
        if (!p->waits) {
            aisim_pace_hold(p, p->config.gaps.next != NULL ? gap_due : fill_due, p, NULL);
        }
        p->waits = true;
        return false;
    }
    if (answer == AISIM_PACE_OVER || !aisim_pace_unit_allowed(p) || !p->start(p->owner)) {
        p->exhausted = true; /* units under way go on */
        return false;
    }
    p->live++;
    aisim_pace_unit_begun(p);
    return true;
}

static void gap_due(void *context, aisim_sim *sim, int64_t t_ns)
{
    aisim_pace *p = context;
    (void)sim, (void)t_ns;
    if (start_unit(p)) {
        plan_gap(p);
    }
}

static void plan_gap(aisim_pace *p)
{
    int64_t gap_ns = 0;
    aisim_error err = {0};
    if (p->over || p->exhausted || !aisim_pace_unit_allowed(p) ||
        (p->config.requests > 0 && p->requests >= p->config.requests)) {
        return;
    }
    if (!p->config.gaps.next(p->config.gaps.context, &gap_ns, &err)) {
        aisim_pace_give_up(p, &err);
        return;
    }
    int64_t now = aisim_sim_now(p->sim);
    if (gap_ns < p->config.until_ns - now) { /* the start itself is the event */
        aisim_sim_timer(p->sim, now + gap_ns, AISIM_CLASS_ARRIVAL, false, gap_due, p);
    }
}

static double wanted(const aisim_pace *p, int64_t t_ns)
{
    double level = aisim_line_at(p->config.level_times, p->config.levels, p->config.n_levels, t_ns);
    return floor(level + 1e-9);
}

static void fill(aisim_pace *p)
{
    while (!p->over && !p->exhausted && (double)p->live < wanted(p, aisim_sim_now(p->sim)) &&
           start_unit(p)) {
    }
}

/* When the number wanted next rises, AISIM_NEVER = no more. */
static int64_t next_rise(const aisim_pace *p, int64_t now_ns)
{
    const int64_t *t = p->config.level_times;
    const double *v = p->config.levels;
    for (uint32_t i = 0; i + 1 < p->config.n_levels; i++) {
        if (t[i + 1] <= now_ns) {
            continue;
        }
        int64_t from_ns = t[i] > now_ns ? t[i] : now_ns;
        double from = from_ns == t[i] ? v[i] : wanted(p, from_ns);
        if (t[i] > now_ns && i > 0 && t[i] == t[i - 1] && v[i] > v[i - 1]) {
            return t[i]; /* a step */
        }
        double rise = floor(from + 1e-9) + 1;
        if (t[i + 1] == t[i] || v[i + 1] + 1e-9 < rise) {
            continue;
        }
        double part = (rise - v[i]) / (v[i + 1] - v[i]);
        int64_t at = t[i] + (int64_t)ceil(part * (double)(t[i + 1] - t[i]));
        return at > now_ns ? at : now_ns + 1;
    }
    uint32_t last = p->config.n_levels - 1;
    return last > 0 && t[last] > now_ns && t[last] == t[last - 1] && v[last] > v[last - 1]
               ? t[last]
               : AISIM_NEVER;
}

static void rise_due(void *context, aisim_sim *sim, int64_t t_ns)
{
    aisim_pace *p = context;
    fill(p);
    int64_t next_ns = next_rise(p, t_ns);
    if (!p->over && !p->exhausted && next_ns < p->config.until_ns) {
        aisim_sim_timer(sim, next_ns, AISIM_CLASS_ARRIVAL, false, rise_due, p);
    }
}

static void thought(void *context, aisim_sim *sim, int64_t t_ns)
{
    aisim_pace *p = context;
    (void)sim, (void)t_ns;
    p->live--;
    fill(p);
}

void aisim_pace_unit_over(aisim_pace *p)
{
    int64_t think_ns = 0;
    if (p->config.gaps.next != NULL || p->over || p->exhausted) {
        p->live--;
        return;
    }
    if (p->config.think.next != NULL && !aisim_pace_think(p, &think_ns)) {
        return;
    }
    int64_t now = aisim_sim_now(p->sim);
    if (think_ns <= 0) {
        thought(p, p->sim, now);
    } else if (think_ns < p->config.until_ns - now) {
        aisim_sim_timer(p->sim, now + think_ns, AISIM_CLASS_ARRIVAL, false, thought, p);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

void aisim_pace_begin(aisim_pace *p, bool paced)
{
    if (p->part == AISIM_PACE_WARMUP) {
        aisim_sim_warmup_begins(p->sim);
        if (p->config.warmup_ns > 0) {
            aisim_sim_timer(p->sim, p->config.warmup_ns, AISIM_CLASS_TIMER, true, warmup_due, p);
        }
    }
    if (!paced) {
        return;
    }
    if (p->config.gaps.next != NULL) {
        plan_gap(p);
    } else {
        rise_due(p, p->sim, aisim_sim_now(p->sim));
    }
}

static void *copy_of(const void *from, size_t size)
{
    void *to = aisim_alloc(1, size);
    memcpy(to, from, size);
    return to;
}

aisim_status aisim_pace_init(aisim_pace *p, aisim_sim *sim, const aisim_pace_config *config,
                             bool endless, void *owner, bool (*start)(void *owner),
                             aisim_error *err)
{
    bool limited = config->requests > 0 || config->units > 0 || config->tokens > 0 ||
                   (config->until_ns != 0 && config->until_ns != AISIM_NEVER);
    if (endless && !limited) {
        return aisim_fail(err, AISIM_EINVAL,
                          "traffic without an end: give until_ms, requests, sessions or tokens (or "
                          "stop the run)");
    }
    for (uint32_t i = 0; i < config->n_levels; i++) {
        if (!(config->levels[i] >= 0 && config->levels[i] <= UINT32_MAX) ||
            config->level_times[i] < (i > 0 ? config->level_times[i - 1] : 0)) {
            return aisim_fail(err, AISIM_ERANGE,
                              "units in flight = %g: must be >= 0, at ascending times",
                              config->levels[i]);
        }
    }
    *p = (aisim_pace){.sim = sim, .config = *config, .owner = owner, .start = start};
    if (p->config.until_ns == 0) {
        p->config.until_ns = AISIM_NEVER;
    }
    bool warm = config->warmup_requests > 0 || config->warmup_ns > 0;
    p->part = warm ? AISIM_PACE_WARMUP : AISIM_PACE_MEASURED;
    if (warm) {
        aisim_sim_warmup_add(sim);
    }
    if (config->n_levels > 0) {
        p->config.level_times =
            copy_of(config->level_times, config->n_levels * sizeof *config->level_times);
        p->config.levels = copy_of(config->levels, config->n_levels * sizeof *config->levels);
    }
    return AISIM_OK;
}

void aisim_pace_deinit(aisim_pace *p)
{
    if (p->config.gaps.free != NULL) {
        p->config.gaps.free(p->config.gaps.context);
    }
    if (p->config.think.free != NULL) {
        p->config.think.free(p->config.think.context);
    }
    for (uint32_t i = 0; i < p->held.len; i++) {
        if (p->held.data[i].drop != NULL) {
            p->held.data[i].drop(p->held.data[i].context);
        }
    }
    aisim_array_free(&p->held);
    if (p->config.n_levels > 0) {
        aisim_free((void *)(uintptr_t)p->config.level_times);
        aisim_free((void *)(uintptr_t)p->config.levels);
    }
}
