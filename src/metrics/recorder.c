/* recorder.c - events in, sums out.
 *
 * Every figure of a request is taken from the request at its terminal event. Invariants:
 * arrived = sum of outcomes once finished; the per-class distributions exist from the second class
 * on, the first class gets a copy of the total at that moment. */
#include "metrics/recorder.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "metrics/recorder_state.h"

enum { FOLD_LEVELS = 8192, MAX_COMPLETION_WINDOWS = 1 << 24, MAX_LANES = 1 << 20 };

/* ---- cohort ---------------------------------------------------------------------------------- */

static bool has_window(const aisim_recorder *recorder)
{
    return recorder->config.window_from_ns >= 0;
}

bool aisim_recorder_measured(const aisim_recorder *recorder, const aisim_request *request)
{
    if (request->phase != AISIM_PHASE_PROFILE) {
        return false;
    }
    return !has_window(recorder) || (request->arrival_ns >= recorder->config.window_from_ns &&
                                     request->arrival_ns < recorder->config.window_to_ns);
}

void aisim_recorder_interval(const aisim_recorder *recorder, int64_t *from_ns, int64_t *to_ns)
{
    bool none = recorder->last_completion_ns < 0;
    *from_ns = *to_ns = recorder->start_ns;
    switch (recorder->config.duration) {
    case AISIM_DURATION_MEASUREMENT:
        if (recorder->last_completion_ns > *from_ns) {
            *to_ns = recorder->last_completion_ns;
        }
        break;
    case AISIM_DURATION_OBSERVATION:
        if (!none) {
            *from_ns = recorder->first_arrival_ns;
            *to_ns = recorder->last_completion_ns;
        }
        break;
    case AISIM_DURATION_WINDOW:
        *from_ns = recorder->config.window_from_ns;
        *to_ns = recorder->config.window_to_ns;
        if (*to_ns == AISIM_NEVER) { /* an open window ends with the run */
            *to_ns = recorder->end_ns > *from_ns ? recorder->end_ns : *from_ns;
        }
        break;
    }
}

/* From the second class on every class has its own distributions. */
static void use_class(aisim_recorder *recorder, uint16_t class_id)
{
    aisim_class_state *state = aisim_recorder_class_state(recorder, class_id);
    if (state->used) {
        return;
    }
    state->used = true;
    if (recorder->classes_used++ == 0) {
        recorder->only_class = class_id;
        return;
    }
    uint16_t need[2] = {recorder->only_class, class_id};
    for (uint32_t k = 0; k < 2; k++) {
        aisim_class_state *each = &recorder->classes.data[need[k]];
        if (each->distributions != NULL) {
            continue;
        }
        each->distributions = aisim_alloc(AISIM_DISTRIBUTIONS, sizeof *each->distributions);
        for (uint32_t i = 0; i < AISIM_DISTRIBUTIONS; i++) {
            aisim_digest_init(&each->distributions[i], recorder->config.rule,
                              recorder->config.exact_limit);
            if (k == 0) {
                aisim_digest_merge(&each->distributions[i], &recorder->distributions[i]);
            }
        }
    }
}

/* ---- requests -------------------------------------------------------------------------------- */

static void on_arrive(aisim_recorder *recorder, const aisim_request *request, int64_t t_ns)
{
    if (request->phase != AISIM_PHASE_PROFILE) {
        recorder->preparation++;
    } else if (aisim_recorder_measured(recorder, request)) {
        recorder->arrived++;
        aisim_trend_arrive(&recorder->trend, t_ns);
        use_class(recorder, request->class_id);
        recorder->classes.data[request->class_id].arrived++;
        if (recorder->first_measured == 0) {
            recorder->first_measured = request->id;
        }
    }
}

static void count_completion(aisim_recorder *recorder, int64_t t_ns)
{
    int64_t window = (t_ns - recorder->start_ns) / AISIM_NS_PER_S;
    if (window < 0 || window >= MAX_COMPLETION_WINDOWS) {
        return;
    }
    while (recorder->completions.len <= (uint32_t)window) {
        aisim_array_push(&recorder->completions, 0);
    }
    recorder->completions.data[window]++;
}

/* A request joins the cohort. */
static void add_to_cohort(aisim_recorder *recorder, const aisim_request *request,
                          aisim_record *record, int64_t t_ns)
{
    aisim_class_state *state = aisim_recorder_class_state(recorder, request->class_id);
    if (recorder->first_arrival_ns < 0 || request->arrival_ns < recorder->first_arrival_ns) {
        recorder->first_arrival_ns = request->arrival_ns;
    }
    if (t_ns > recorder->last_completion_ns) {
        recorder->last_completion_ns = t_ns;
    }
    recorder->first_known = recorder->first_known || request->id == recorder->first_measured;
    recorder->input_tokens += request->prompt_tokens;
    recorder->output_tokens += request->generated;
    recorder->reused_tokens += request->max_reused;
    recorder->first_reused_tokens += request->first_reused;
    recorder->host_reused_tokens += request->host_reused;
    recorder->hits += request->first_reused > 0;
    if (!isnan(record->overlap_best_blocks)) {
        recorder->regret_decisions++;
        recorder->chosen_blocks += (uint64_t)record->overlap_chosen_blocks;
        recorder->best_blocks += (uint64_t)record->overlap_best_blocks;
    }
    state->completed++;
    if (!isnan(record->ideal_reused_tokens)) {
        recorder->ideal_tokens += (uint64_t)record->ideal_reused_tokens;
        recorder->ideal_known = true;
    }
    if (recorder->any_slo) {
        bool good = aisim_record_good(record, state->has_slo ? &state->slo : &recorder->config.slo);
        record->good = good;
        recorder->good += good;
        state->good += good;
        recorder->good_output_tokens += good ? request->generated : 0;
    }
    const double values[AISIM_DISTRIBUTIONS] = {
#define X(member) record->member,
        AISIM_DISTRIBUTION_LIST(X)
#undef X
    };
    for (uint32_t i = 0; i < AISIM_DISTRIBUTIONS; i++) {
        if (!isnan(values[i])) {
            aisim_digest_add(&recorder->distributions[i], values[i], 1);
            if (state->distributions != NULL) {
                aisim_digest_add(&state->distributions[i], values[i], 1);
            }
        }
    }
    count_completion(recorder, t_ns);
}

static uint32_t worker_of(const aisim_recorder *recorder, uint32_t rank)
{
    return rank < recorder->ranks.len ? recorder->ranks.data[rank].worker : AISIM_NONE;
}

static double worker_number(const aisim_recorder *recorder, uint32_t rank)
{
    uint32_t worker = worker_of(recorder, rank);
    return worker == AISIM_NONE ? (double)NAN : (double)worker + 1;
}

static bool at_prefill_worker(const aisim_recorder *recorder, const aisim_request *request)
{
    uint32_t worker = worker_of(recorder, request->rank);
    return worker != AISIM_NONE && strcmp(recorder->workers.data[worker].role, "prefill") == 0;
}

/* Names and places that the request alone does not tell. */
static void complete_record(aisim_recorder *recorder, const aisim_request *request,
                            aisim_record *record)
{
    aisim_recorder_names(recorder, request, record);
    bool moved = (request->flags & AISIM_REQF_MOVED) != 0;
    record->decode_worker = worker_number(recorder, request->rank);
    record->prefill_worker = record->decode_worker;
    aisim_handed handed;
    bool known = aisim_recorder_handed(recorder, request->id, &handed);
    if (known && handed.sent) {
        record->transfer_bytes = (double)handed.bytes;
        record->prefill_worker = moved ? (double)handed.worker + 1 : record->decode_worker;
    }
    if (known && handed.wait_ns[0] >= 0) {
        record->prefill_router_queue_ms = aisim_ms_from_ns(handed.wait_ns[0]);
    }
    if (known && handed.wait_ns[1] >= 0) {
        record->decode_router_queue_ms = aisim_ms_from_ns(handed.wait_ns[1]);
    }
    if (!moved && at_prefill_worker(recorder, request)) {
        record->decode_worker = (double)NAN; /* it never got there */
    }
}

static void add_to_worker(aisim_recorder *recorder, const aisim_request *request,
                          const aisim_record *record)
{
    bool moved = (request->flags & AISIM_REQF_MOVED) != 0; /* both ends have served it */
    uint32_t worker = worker_of(recorder, request->rank);
    uint32_t source = moved ? (uint32_t)record->prefill_worker - 1 : worker;
    if (worker != AISIM_NONE) {
        recorder->workers.data[worker].completed++;
        recorder->workers.data[worker].output_tokens += request->generated;
    }
    if (source != AISIM_NONE) {
        recorder->workers.data[source].completed += source != worker;
        recorder->workers.data[source].input_tokens += request->prompt_tokens;
    }
}

/* The end of a request, or of the run for one in flight. ideal_tokens: -1 = unknown. */
static void on_over(aisim_recorder *recorder, const aisim_request *request, aisim_outcome outcome,
                    int64_t t_ns, int64_t ideal_tokens)
{
    aisim_record record;
    aisim_record_fill(&record, request, outcome, t_ns, recorder->start_ns);
    if (ideal_tokens >= 0) {
        record.ideal_reused_tokens = (double)ideal_tokens;
    }
    aisim_recorder_overlap(recorder, request, &record);
    complete_record(recorder, request, &record);
    record.measured = aisim_recorder_measured(recorder, request);
    bool over = outcome != AISIM_OUTCOME_IN_FLIGHT;

    if (record.measured) {
        bool counts = outcome == AISIM_OUTCOME_COMPLETED;
        recorder->outcomes[outcome]++;
        if (over) {
            aisim_trend_leave(&recorder->trend);
        }
        recorder->preemptions += request->preemptions;
        recorder->readmissions += (uint64_t)record.readmissions;
        recorder->recomputed += request->recomputed;
        if (has_window(recorder) && over && t_ns >= recorder->config.window_to_ns) {
            recorder->crossed_end++;
        }
        if (counts) {
            add_to_cohort(recorder, request, &record, t_ns);
            add_to_worker(recorder, request, &record);
        }
        aisim_gaps_over(&recorder->gaps, request->id, request->last_token_ns, request->generated,
                        counts);
    } else if (has_window(recorder) && request->phase == AISIM_PHASE_PROFILE && over &&
               request->arrival_ns < recorder->config.window_from_ns &&
               t_ns >= recorder->config.window_from_ns) {
        recorder->crossed_start++;
    }
    if (recorder->config.sink != NULL) {
        recorder->config.sink(recorder->config.sink_context, &record);
    }
}

/* ---- passes ---------------------------------------------------------------------------------- */

/* Passes of the preparation, and those outside of the window, are in no figure. */
bool aisim_recorder_counts(const aisim_recorder *recorder, int64_t t_ns)
{
    if (has_window(recorder)) {
        return t_ns >= recorder->config.window_from_ns && t_ns < recorder->config.window_to_ns;
    }
    return t_ns > recorder->start_ns;
}

/* Folds the levels that certainly lie inside the interval. */
static void fold(aisim_recorder *recorder, int64_t t_ns)
{
    int64_t from_ns, to_ns;
    aisim_recorder_interval(recorder, &from_ns, &to_ns);
    bool observed = recorder->config.duration == AISIM_DURATION_OBSERVATION;
    bool windowed = recorder->config.duration == AISIM_DURATION_WINDOW;
    if (!windowed && recorder->arrived == 0 && recorder->phases.len > 0) {
        aisim_levels_forget(&recorder->levels); /* preparation: the barrier is still to come */
    } else if (!observed || recorder->first_known) {
        aisim_levels_fold(&recorder->levels, from_ns, to_ns < t_ns ? to_ns : t_ns);
    }
}

void aisim_recorder_level(aisim_recorder *recorder, int64_t t_ns, uint32_t rank, uint64_t used,
                          uint64_t cached, uint64_t total)
{
    bool changed = aisim_levels_set(&recorder->levels, t_ns, rank, used, cached, total);
    if (changed && recorder->levels.log.len % FOLD_LEVELS == 0) {
        fold(recorder, t_ns);
    }
}

void aisim_recorder_peek(aisim_recorder *recorder, int64_t t_ns)
{
    int64_t from_ns, to_ns;
    if (recorder->finished) {
        return;
    }
    fold(recorder, t_ns);
    aisim_recorder_interval(recorder, &from_ns, &to_ns);
    aisim_levels_peek(&recorder->levels, to_ns < t_ns ? to_ns : t_ns);
    aisim_custom_end(recorder->custom, t_ns);
}

/* Evictions of a pass; no KV event is needed for them. */
static void count_evicted(aisim_recorder *recorder, const aisim_event *event)
{
    uint32_t worker = worker_of(recorder, event->rank);
    recorder->evicted_blocks += event->u.pass->evicted;
    if (worker != AISIM_NONE) {
        recorder->workers.data[worker].evicted_blocks += event->u.pass->evicted;
    }
}

static void on_pass(aisim_recorder *recorder, const aisim_event *event)
{
    const aisim_pass_facts *pass = event->u.pass;
    aisim_recorder_level(recorder, event->t_ns, event->rank, pass->active_blocks,
                         pass->inactive_blocks, pass->total_blocks);
    if (pass->gap_count > 0) {
        aisim_gaps_pass(&recorder->gaps, event->rank, event->t_ns, pass->gap_ns);
    }
    if (!aisim_recorder_counts(recorder, event->t_ns)) {
        return;
    }
    if (pass->evicted > 0) {
        count_evicted(recorder, event);
    }
    if (pass->scheduled == 0) {
        return;
    }
    aisim_rank_sums *sums = aisim_recorder_rank_sums(recorder, event->rank);
    uint64_t tokens = pass->prefill_tokens + pass->recomputed_tokens + pass->decode_tokens;
    sums->passes++;
    sums->prefill_passes += pass->n_prefill > 0 && pass->n_decode == 0;
    sums->decode_passes += pass->n_prefill == 0 && pass->n_decode > 0;
    sums->mixed_passes += pass->n_prefill > 0 && pass->n_decode > 0;
    sums->prefill_tokens += pass->prefill_tokens;
    sums->recomputed_tokens += pass->recomputed_tokens;
    sums->decode_tokens += pass->decode_tokens;
    sums->emitted += pass->emitted;
    sums->busy_ns += pass->end_ns - pass->begin_ns;
    aisim_digest_add(&recorder->pass_tokens, (double)tokens, 1);
    aisim_digest_add(&recorder->pass_requests, pass->scheduled, 1);
    aisim_digest_add(&recorder->pass_ms, aisim_ms_from_ns(pass->end_ns - pass->begin_ns), 1);
}

static void on_verify(aisim_recorder *recorder, const aisim_event *event)
{
    uint32_t accepted = event->u.verify.accepted, drafted = event->u.verify.drafted;
    if (!aisim_recorder_measured(recorder, event->request)) {
        return;
    }
    recorder->drafts++;
    recorder->drafted += drafted;
    recorder->accepted += accepted;
    for (uint32_t j = 0; j < accepted && j < AISIM_SPEC_POSITIONS; j++) {
        recorder->accepted_more[j]++;
    }
    if (drafted > recorder->positions) {
        recorder->positions = drafted < AISIM_SPEC_POSITIONS ? drafted : AISIM_SPEC_POSITIONS;
    }
}

/* ---- phases, workers, plays ------------------------------------------------------------------ */

/* What passes and transfers of the preparation have left behind. */
static void forget_passes(aisim_recorder *recorder)
{
    for (uint32_t i = 0; i < recorder->ranks.len; i++) {
        uint32_t worker = recorder->ranks.data[i].worker;
        recorder->ranks.data[i] = (aisim_rank_sums){.worker = worker};
    }
    for (uint32_t i = 0; i < recorder->workers.len; i++) {
        recorder->workers.data[i].evicted_blocks = 0;
    }
    memset(recorder->transfers, 0, sizeof recorder->transfers);
    recorder->evicted_blocks = 0;
    aisim_digest_clear(&recorder->pass_tokens);
    aisim_digest_clear(&recorder->pass_requests);
    aisim_digest_clear(&recorder->pass_ms);
}

static void start_measurement(aisim_recorder *recorder, int64_t t_ns)
{
    recorder->start_ns = t_ns;
    if (!has_window(recorder)) { /* otherwise the window decides which passes count */
        forget_passes(recorder);
    }
    if (recorder->config.duration != AISIM_DURATION_WINDOW) {
        aisim_levels_forget(&recorder->levels);
    }
    aisim_custom_barrier(recorder->custom, t_ns);
}

static void on_phase(aisim_recorder *recorder, const aisim_event *event)
{
    const char *from = event->u.phase.from, *to = event->u.phase.to;
    aisim_phase_mark mark = {.t_ns = event->t_ns,
                             .from = aisim_strdup(from == NULL ? "" : from),
                             .to = aisim_strdup(to == NULL ? "" : to)};
    aisim_array_push(&recorder->phases, mark);
    if (strcmp(mark.to, "barrier") == 0 || strcmp(mark.to, "profile") == 0) {
        start_measurement(recorder, event->t_ns);
    }
}

static void on_play_start(aisim_recorder *recorder, const aisim_event *event)
{
    uint32_t lane = event->u.play.lane;
    recorder->plays_total++;
    if (lane < MAX_LANES) {
        while (recorder->lane_start_ns.len <= lane) {
            aisim_array_push(&recorder->lane_start_ns, -1);
        }
        recorder->lane_start_ns.data[lane] = event->t_ns;
    }
}

static void on_play_end(aisim_recorder *recorder, const aisim_event *event)
{
    uint32_t lane = event->u.play.lane;
    bool known = lane < recorder->lane_start_ns.len && recorder->lane_start_ns.data[lane] >= 0;
    int64_t start_ns = known ? recorder->lane_start_ns.data[lane] : event->t_ns;
    if (start_ns < recorder->start_ns) {
        start_ns = recorder->start_ns;
    }
    recorder->plays_total--; /* counted again below */
    aisim_recorder_add_play(recorder, event->u.play.status == NULL ? "" : event->u.play.status,
                            known ? aisim_ms_from_ns(event->t_ns - start_ns) : (double)NAN);
    if (known) {
        recorder->lane_start_ns.data[lane] = -1;
    }
}

/* Blocks of a stopped worker are not there; one that begins again has lost its cache. */
static void set_capacity(aisim_recorder *recorder, uint32_t index, int64_t t_ns, bool there)
{
    const aisim_worker_sums *worker = &recorder->workers.data[index];
    for (uint32_t i = 0; worker->blocks > 0 && i < worker->ranks; i++) {
        aisim_recorder_level(recorder, t_ns, worker->first_rank + i, 0, 0,
                             there ? worker->blocks : 0);
    }
}

static void on_worker_state(aisim_recorder *recorder, const aisim_event *event)
{
    const char *to = event->u.worker.to;
    bool ends = strcmp(to, "stopped") == 0, begins = strcmp(event->u.worker.from, "stopped") == 0;
    if ((ends || begins) && event->u.worker.worker < recorder->workers.len) {
        set_capacity(recorder, event->u.worker.worker, event->t_ns, begins);
    }
    bool on =
        strcmp(to, "starting") == 0 || strcmp(to, "ready") == 0 || strcmp(to, "draining") == 0;
    aisim_recorder_provision(recorder, event->u.worker.worker, event->t_ns, on);
}

static void on_preempt(aisim_recorder *recorder, const aisim_event *event)
{
    uint32_t worker = worker_of(recorder, event->rank);
    if (worker != AISIM_NONE && aisim_recorder_measured(recorder, event->request)) {
        recorder->workers.data[worker].preemptions++;
    }
}

/* ---- the observer ---------------------------------------------------------------------------- */

void aisim_recorder_event(aisim_recorder *recorder, const aisim_event *event)
{
    const aisim_request *request = event->request;
    switch (event->type) {
    case AISIM_EV_ARRIVE:
        on_arrive(recorder, request, event->t_ns);
        break;
    case AISIM_EV_ROUTE:
        if (event->u.route.stage > 0) {
            aisim_recorder_stage(recorder, event);
        }
        aisim_recorder_route(recorder, event);
        break;
    case AISIM_EV_FIRST_TOKEN:
        if (aisim_recorder_measured(recorder, request)) {
            aisim_gaps_first(&recorder->gaps, request->id, event->rank, event->t_ns);
        }
        break;
    case AISIM_EV_GAP:
        aisim_gaps_irregular(&recorder->gaps, request->id, event->rank, event->t_ns,
                             event->u.gap.gap_ns);
        break;
    case AISIM_EV_FINISH:
        on_over(recorder, request, aisim_outcome_of((aisim_end_reason)request->end), event->t_ns,
                event->u.finish.ideal_tokens);
        break;
    case AISIM_EV_REJECT:
        on_over(recorder, request, aisim_outcome_of((aisim_end_reason)request->end), event->t_ns,
                -1);
        break;
    case AISIM_EV_UNFINISHED:
        on_over(recorder, request, AISIM_OUTCOME_IN_FLIGHT, event->t_ns, -1);
        break;
    case AISIM_EV_PREEMPT:
        on_preempt(recorder, event);
        break;
    case AISIM_EV_VERIFY:
        on_verify(recorder, event);
        break;
    case AISIM_EV_PASS_END:
        on_pass(recorder, event);
        break;
    case AISIM_EV_KV_LEVEL:
        aisim_recorder_level(recorder, event->t_ns, event->rank, event->u.level.used,
                             event->u.level.cached, event->u.level.total);
        break;
    case AISIM_EV_TRANSFER_END:
        aisim_recorder_transfer(recorder, event);
        break;
    case AISIM_EV_RANK_TOTALS:
        aisim_recorder_totals(recorder, event->u.totals);
        break;
    case AISIM_EV_WORKER_STATE:
        on_worker_state(recorder, event);
        break;
    case AISIM_EV_PHASE:
        on_phase(recorder, event);
        break;
    case AISIM_EV_PLAY_START:
        on_play_start(recorder, event);
        break;
    case AISIM_EV_PLAY_END:
        on_play_end(recorder, event);
        break;
    case AISIM_EV_RUN_END:
        aisim_recorder_finish(recorder, event->t_ns);
        break;
    default:
        break;
    }
}

static void observe(void *context, const aisim_event *event)
{
    aisim_recorder_event(context, event);
}

aisim_observer aisim_recorder_observer(aisim_recorder *recorder)
{
    static const aisim_event_type wanted[] = {
        AISIM_EV_RUN_END,      AISIM_EV_ARRIVE,     AISIM_EV_FIRST_TOKEN, AISIM_EV_PREEMPT,
        AISIM_EV_FINISH,       AISIM_EV_REJECT,     AISIM_EV_GAP,         AISIM_EV_TRANSFER_END,
        AISIM_EV_WORKER_STATE, AISIM_EV_PASS_END,   AISIM_EV_KV_LEVEL,    AISIM_EV_PHASE,
        AISIM_EV_VERIFY,       AISIM_EV_UNFINISHED, AISIM_EV_PLAY_START,  AISIM_EV_PLAY_END,
        AISIM_EV_RANK_TOTALS,  AISIM_EV_ROUTE};
    aisim_observer observer = {.context = recorder, .fn = observe, .passive = true};
    for (uint32_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        observer.mask |= AISIM_EV_BIT(wanted[i]);
    }
    return observer;
}
