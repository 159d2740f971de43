/* agentx.c - phases and the order of things at one instant (traffic 2.3, 2.4).
 *
 * advance() goes on until nothing is due any more at its time: a phase that ends hands over to the
 * next one in the same instant. Between two calls only terminals and settlements change anything;
 * they set `wake` when advance has to look. */
#include "workload/agentx.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "workload/agentx_parts.h"

const char *aisim_agentx_phase_name(aisim_agentx_phase phase)
{
    static const char *const names[] = {"start", "primer", "warmup", "settle", "profile",
                                        "grace", "drain",  "done",   "failed"};
    return names[phase];
}

char *aisim_agentx_request_key(const aisim_agentx_request *request, char *out)
{
    char node[48];
    aisim_play_request_name(request->play, request->request, node);
    if (request->phase == AISIM_AGENTX_PRIMER) {
        snprintf(out, 96, "primer/%" PRIu32 "/%s", request->lane, node);
    } else if (request->phase == AISIM_AGENTX_WARMUP) {
        snprintf(out, 96, "warmup/%" PRIu32 "/%" PRIu32 "/%s", request->lane, request->warmup_index,
                 node);
    } else {
        snprintf(out, 96, "%" PRIu32 ".%" PRIu32 "/%s", request->lane, request->k, node);
    }
    return out;
}

aisim_status aisim_agentx_new(const aisim_corpus *corpus, const aisim_agentx_config *config,
                              const aisim_agentx_callbacks *callbacks, void *ctx,
                              aisim_agentx **out, aisim_error *err)
{
    *out = NULL;
    AISIM_CHECK(callbacks->send != NULL && callbacks->cancel != NULL && corpus->n_plays > 0);
    aisim_status status = aisim_agentx_config_check(config, err);
    if (status != AISIM_OK) {
        return status;
    }
    if (config->once && config->lanes > corpus->n_plays) {
        return aisim_fail(err, AISIM_ERANGE,
                          "lanes = %u: must be <= %u, the plays of the corpus, when "
                          "each is replayed once",
                          config->lanes, corpus->n_plays);
    }
    aisim_agentx *a = aisim_alloc_zero(1, sizeof *a);
    a->corpus = corpus;
    a->config = *config;
    a->call = *callbacks;
    a->ctx = ctx;
    a->report = (aisim_agentx_report){.primer_end_ns = AISIM_AGENTX_NO_TIME,
                                      .warmup_end_ns = AISIM_AGENTX_NO_TIME,
                                      .barrier_ns = AISIM_AGENTX_NO_TIME,
                                      .cutoff_ns = AISIM_AGENTX_NO_TIME,
                                      .grace_end_ns = AISIM_AGENTX_NO_TIME,
                                      .drain_end_ns = AISIM_AGENTX_NO_TIME,
                                      .first_request_ns = AISIM_AGENTX_NO_TIME,
                                      .first_success_arrival_ns = AISIM_AGENTX_NO_TIME,
                                      .last_success_ns = AISIM_AGENTX_NO_TIME,
                                      .failed_ns = AISIM_AGENTX_NO_TIME};
    a->report.corpus_cursor = config->lanes % corpus->n_plays; /* 2.1 */
    a->first_plays = config->lanes;
    a->tree_cap_ns = aisim_ns_from_s(config->profile.tree_idle_cap_seconds);
    a->global_cap_ns = aisim_ns_from_s(config->profile.global_idle_cap_seconds);
    a->lanes = aisim_alloc_zero(config->lanes, sizeof *a->lanes);
    aisim_mintree_init(&a->timer_times, config->lanes);
    aisim_mintree_init(&a->guard_times, config->lanes);
    a->wake = true;
    status = aisim_agentx_prepare_init(a, err);
    a->config.u = NULL; /* the caller's array is not looked at any more */
    a->config.n_u = 0;
    if (status != AISIM_OK) {
        aisim_agentx_free(a);
        return status;
    }
    *out = a;
    return AISIM_OK;
}

void aisim_agentx_free(aisim_agentx *a)
{
    if (a == NULL) {
        return;
    }
    for (uint32_t i = 0; i < a->config.lanes; i++) {
        aisim_lane_deinit(&a->lanes[i]);
    }
    aisim_free(a->lanes);
    aisim_mintree_deinit(&a->timer_times);
    aisim_mintree_deinit(&a->guard_times);
    aisim_array_free(&a->handles);
    aisim_array_free(&a->free_handles);
    aisim_array_free(&a->settlings);
    aisim_array_free(&a->free_settlings);
    aisim_array_free(&a->plays);
    aisim_array_free(&a->shifts);
    aisim_free(a);
}

/* 2.4 global idle guard: nothing outstanding anywhere, the earliest timer later than s + cap. */
static int64_t global_guard_ns(const aisim_agentx *a)
{
    int64_t timer_ns = aisim_mintree_min(&a->timer_times);
    if (a->outstanding > 0 || timer_ns == AISIM_NEVER ||
        timer_ns <= a->idle_since_ns + a->global_cap_ns) {
        return AISIM_NEVER;
    }
    return a->idle_since_ns + a->global_cap_ns;
}

int64_t aisim_agentx_next_time_ns(const aisim_agentx *a)
{
    if (aisim_agentx_done(a)) {
        return AISIM_NEVER;
    }
    if (a->wake) {
        return a->now_ns;
    }
    int64_t next_ns = AISIM_NEVER;
    if (a->report.phase == AISIM_AGENTX_PROFILE) {
        int64_t candidates[] = {a->deadline_ns, aisim_mintree_min(&a->timer_times),
                                aisim_mintree_min(&a->guard_times), global_guard_ns(a)};
        for (size_t i = 0; i < sizeof candidates / sizeof candidates[0]; i++) {
            next_ns = candidates[i] < next_ns ? candidates[i] : next_ns;
        }
    } else if (a->report.phase == AISIM_AGENTX_GRACE) {
        next_ns = a->grace_end_ns;
    } else if (a->report.phase == AISIM_AGENTX_DRAIN) {
        next_ns = a->drain_end_ns;
    }
    return next_ns > a->now_ns ? next_ns : a->now_ns;
}

static void enter(aisim_agentx *a, aisim_agentx_phase phase)
{
    a->report.phase = phase;
    a->wake = true;
    if (a->call.phase != NULL) {
        a->call.phase(a->ctx, phase, a->now_ns);
    }
}

/* The barrier opens: profile time 0, the remaining timers start here (2.3). */
static void open_barrier(aisim_agentx *a)
{
    a->report.barrier_ns = a->now_ns;
    a->idle_since_ns = a->now_ns;
    a->deadline_ns = a->now_ns + aisim_ns_from_s(a->config.profile.duration_seconds);
    if (a->config.until_ns > 0) {
        a->deadline_ns = a->config.until_ns > a->now_ns ? a->config.until_ns : a->now_ns;
    }
    a->grace_end_ns = a->deadline_ns + aisim_ns_from_s(a->config.profile.response_grace_seconds);
    enter(a, AISIM_AGENTX_PROFILE);
    for (uint32_t i = 0; i < a->config.lanes; i++) {
        aisim_lane_start(a, i, a->lanes[i].record.play, true);
    }
}

static void step_preparation(aisim_agentx *a)
{
    if (!aisim_agentx_prepare_step(a)) {
        return;
    }
    if (a->report.failed_ns != AISIM_AGENTX_NO_TIME) {
        enter(a, AISIM_AGENTX_FAILED);
    } else if (a->report.phase == AISIM_AGENTX_PRIMER) {
        a->report.primer_end_ns = a->now_ns;
        enter(a, AISIM_AGENTX_WARMUP);
    } else {
        a->report.warmup_end_ns = a->now_ns;
        enter(a, AISIM_AGENTX_SETTLE);
    }
}

/* No lane starts another play. */
static bool plays_over(const aisim_agentx *a)
{
    return (a->config.once && a->first_plays == a->corpus->n_plays) ||
           (a->config.max_plays > 0 && a->report.plays_started >= a->config.max_plays);
}

static void refill(aisim_agentx *a)
{
    for (uint32_t i = 0; i < a->config.lanes; i++) {
        if (a->lanes[i].play != NULL || plays_over(a)) {
            continue;
        }
        a->first_plays++;
        const aisim_play *play = &a->corpus->plays[a->report.corpus_cursor];
        a->report.corpus_cursor = (a->report.corpus_cursor + 1) % a->corpus->n_plays;
        aisim_lane_start(a, i, play, false);
    }
}

static bool all_idle(const aisim_agentx *a)
{
    for (uint32_t i = 0; i < a->config.lanes; i++) {
        if (a->lanes[i].play != NULL) {
            return false;
        }
    }
    return true;
}

static void record_shift(aisim_agentx *a, aisim_agentx_shift shift)
{
    if (!a->config.forget_plays) {
        aisim_array_push(&a->shifts, shift);
    }
    if (a->call.shift != NULL) {
        a->call.shift(a->ctx, &shift);
    }
}

static void tree_guards(aisim_agentx *a)
{
    uint32_t i;
    while ((i = aisim_mintree_first_due(&a->guard_times, a->now_ns)) != AISIM_NONE) {
        aisim_lane *lane = &a->lanes[i];
        int64_t by_ns = aisim_mintree_get(&a->timer_times, i) - a->now_ns;
        aisim_lane_shift(a, i, by_ns);
        record_shift(a, (aisim_agentx_shift){.at_ns = a->now_ns,
                                             .shifted_by_ns = by_ns,
                                             .lane = i,
                                             .k = lane->record.k,
                                             .timers = lane->timers.len});
    }
}

static void global_guard(aisim_agentx *a)
{
    if (global_guard_ns(a) > a->now_ns) {
        return;
    }
    int64_t by_ns = aisim_mintree_min(&a->timer_times) - a->now_ns;
    uint32_t timers = 0;
    for (uint32_t i = 0; i < a->config.lanes; i++) {
        timers += a->lanes[i].timers.len;
        aisim_lane_shift(a, i, by_ns);
    }
    record_shift(a,
                 (aisim_agentx_shift){
                     .at_ns = a->now_ns, .shifted_by_ns = by_ns, .global = true, .timers = timers});
}

/* The end of the profile: at its deadline, or because a stop rule was reached before. */
static void cut_off(aisim_agentx *a)
{
    a->report.cutoff_ns = a->now_ns;
    a->grace_end_ns = a->now_ns + aisim_ns_from_s(a->config.profile.response_grace_seconds);
    enter(a, AISIM_AGENTX_GRACE);
}

/* One instant of the profile, in the order of 2.4; terminals came before. */
static void step_profile(aisim_agentx *a, bool freed)
{
    if (a->now_ns >= a->deadline_ns) {
        cut_off(a);
        return;
    }
    if (freed) {
        refill(a);
        if (plays_over(a) && all_idle(a)) { /* nothing is left to start */
            cut_off(a);
            return;
        }
    }
    tree_guards(a);
    global_guard(a);
    uint32_t i;
    while (!aisim_agentx_sent_all(a) &&
           (i = aisim_mintree_first_due(&a->timer_times, a->now_ns)) != AISIM_NONE) {
        aisim_lane_send_due(a, i);
    }
    if (aisim_agentx_sent_all(a)) {
        cut_off(a);
    }
}

static void end_run(aisim_agentx *a)
{
    a->report.drain_end_ns = a->now_ns;
    for (uint32_t i = 0; i < a->config.lanes; i++) {
        aisim_lane_close(a, i);
    }
    enter(a, AISIM_AGENTX_DONE);
}

/* What is left at the end of grace, by lane and node. */
static void cancel_rest(aisim_agentx *a)
{
    for (uint32_t i = 0; i < a->config.lanes; i++) {
        const aisim_lane *lane = &a->lanes[i];
        uint32_t n = lane->play == NULL ? 0 : lane->play->n_requests;
        for (uint32_t k = 0; k < n && lane->outstanding > 0; k++) {
            if (lane->turns[k].state == AISIM_TURN_SENT) {
                a->call.cancel(a->ctx, aisim_agentx_handle_name(a, lane->turns[k].handle));
            }
        }
    }
}

static void step_grace(aisim_agentx *a)
{
    if (a->outstanding == 0) {
        a->report.grace_end_ns = a->now_ns;
        end_run(a);
    } else if (a->now_ns >= a->grace_end_ns) {
        a->report.grace_end_ns = a->now_ns;
        a->drain_end_ns = a->now_ns + aisim_ns_from_s(a->config.profile.cancel_drain_seconds);
        enter(a, AISIM_AGENTX_DRAIN);
        cancel_rest(a);
        /* An in-process server acknowledges at this instant, in the call or after the current
         * event: a drain of no length is looked at again when those have been heard (2.4). */
        a->wake = a->outstanding == 0;
    }
}

static bool server_quiet(const aisim_agentx *a)
{
    return a->unsettled == 0 && (a->call.server_quiet == NULL || a->call.server_quiet(a->ctx));
}

void aisim_agentx_advance(aisim_agentx *a, int64_t now_ns)
{
    AISIM_CHECK(!a->advancing);
    AISIM_CHECK(now_ns >= a->now_ns);
    a->advancing = true;
    if (!aisim_agentx_done(a)) {
        a->now_ns = now_ns;
    }
    bool first = true;
    while (!aisim_agentx_done(a) && (first || a->wake)) {
        bool freed = a->wake;
        first = false;
        a->wake = false;
        switch (a->report.phase) {
        case AISIM_AGENTX_START:
            if (a->config.warmup) {
                enter(a, AISIM_AGENTX_PRIMER);
            } else {
                open_barrier(a);
            }
            break;
        case AISIM_AGENTX_PRIMER:
        case AISIM_AGENTX_WARMUP:
            step_preparation(a);
            break;
        case AISIM_AGENTX_SETTLE:
            if (server_quiet(a)) {
                open_barrier(a);
            }
            break;
        case AISIM_AGENTX_PROFILE:
            step_profile(a, freed);
            break;
        case AISIM_AGENTX_GRACE:
            step_grace(a);
            break;
        case AISIM_AGENTX_DRAIN:
            if (a->outstanding == 0 || a->now_ns >= a->drain_end_ns) {
                end_run(a);
            }
            break;
        case AISIM_AGENTX_DONE:
        case AISIM_AGENTX_FAILED:
            break;
        }
    }
    a->advancing = false;
}

bool aisim_agentx_done(const aisim_agentx *a)
{
    return a->report.phase == AISIM_AGENTX_DONE || a->report.phase == AISIM_AGENTX_FAILED;
}

const aisim_agentx_report *aisim_agentx_report_get(aisim_agentx *a)
{
    aisim_agentx_report *r = &a->report;
    r->config = &a->config;
    r->in_flight = a->outstanding;
    r->never_issued = r->planned - r->issued;
    r->unsettled = r->issued - a->settled;
    r->observation_ns = r->successful > 0 ? r->last_success_ns - r->first_success_arrival_ns : 0;
    r->throughput_rps = r->observation_ns > 0
                            ? (double)r->successful / aisim_s_from_ns(r->observation_ns)
                            : (double)NAN;
    r->plays = a->plays.data;
    r->n_plays = a->plays.len;
    r->shifts = a->shifts.data;
    r->n_shifts = a->shifts.len;
    return r;
}
