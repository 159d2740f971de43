/* report_driver.c - plays the records of a report vector into the recorder, prints what it reports.
 *
 *     report_driver < vector.json > result.json
 *
 * One vector of kind report, distribution or gauge as JSON on stdin; the result has the shape of
 * its `expect`. No engine runs: the records become the events an engine would have sent, ordered by
 * time, and pass through the observer. Unknown kinds and settings are errors (exit 2): nothing of a
 * vector is ignored. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "metrics/report_state.h"

static _Noreturn void stop(const char *what, const char *name)
{
    fprintf(stderr, "report_driver: %s '%s'\n", what, name == NULL ? "" : name);
    exit(2);
}

/* ---- reading --------------------------------------------------------------------------------- */

static int64_t time_of(const json_t *value)
{
    return json_is_number(value) ? aisim_ns_from_ms(json_number_value(value)) : -1;
}

static uint32_t count_of(const json_t *value)
{
    return json_is_number(value) ? (uint32_t)json_number_value(value) : 0;
}

static double bound_of(const json_t *value)
{
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static void read_slo(const json_t *slo, aisim_slo *out)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)slo, key, value)
    {
        if (strcmp(key, "ttft_ms") == 0) {
            out->ttft_ms = bound_of(value);
        } else if (strcmp(key, "itl_ms") == 0 || strcmp(key, "tpot_ms") == 0) {
            out->itl_ms = bound_of(value);
        } else if (strcmp(key, "e2e_ms") == 0) {
            out->e2e_ms = bound_of(value);
        } else {
            stop("unknown bound", key);
        }
    }
}

static void read_percentiles(const json_t *list, aisim_recorder_config *config)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        aisim_error err = {0};
        const char *key = json_string_value(json_array_get(list, i));
        if (i >= AISIM_MAX_EXTRA_PERCENTILES ||
            aisim_percentile_parse(key, &config->extra_percentiles[i], &err) != AISIM_OK) {
            stop("percentile", key);
        }
        config->n_extra_percentiles++;
    }
}

static void read_settings(const json_t *settings, aisim_recorder_config *config)
{
    const char *key;
    json_t *value;
    aisim_error err = {0};
    aisim_recorder_config_default(config);
    json_object_foreach((json_t *)(uintptr_t)settings, key, value)
    {
        if (strcmp(key, "percentile_rule") == 0) {
            aisim_percentile_rule_parse(json_string_value(value), &config->rule, &err);
        } else if (strcmp(key, "extra_percentiles") == 0) {
            read_percentiles(value, config);
        } else if (strcmp(key, "measurement_start_ms") == 0) {
            config->measurement_start_ns = time_of(value);
        } else if (strcmp(key, "duration") == 0) {
            aisim_duration_parse(json_string_value(value), &config->duration, &err);
        } else if (strcmp(key, "window_ms") == 0) {
            config->window_from_ns = time_of(json_array_get(value, 0));
            config->window_to_ns = time_of(json_array_get(value, 1));
        } else if (strcmp(key, "slo") == 0) {
            read_slo(value, &config->slo);
        } else if (strcmp(key, "strict_slo") == 0) {
            config->strict_slo = json_is_true(value);
        } else if (strcmp(key, "workers") != 0 && strcmp(key, "gauges") != 0) {
            stop("unknown setting", key);
        }
    }
    if (err.code != AISIM_OK) {
        stop(err.text, "");
    }
}

/* ---- records --------------------------------------------------------------------------------- */

typedef struct {
    aisim_request request;
    const json_t *record;
    const char *name, *status;
    int64_t terminal_ns;
    bool good; /* set by the sink */
} source;

typedef struct {
    int64_t t_ns;
    uint32_t order; /* among equal times */
    uint32_t sequence;
    aisim_event event;
    const source *from; /* NULL for levels and the end */
} step;

typedef struct {
    AISIM_ARRAY(step) steps;
    AISIM_ARRAY(source) sources;
    aisim_json requests;
} play;

static int64_t admitted(const json_t *admissions, size_t i)
{
    return time_of(json_object_get(json_array_get(admissions, i), "at_ms"));
}

static const char *pool_of(const json_t *admissions, size_t i)
{
    const char *pool = json_string_value(json_object_get(json_array_get(admissions, i), "pool"));
    return pool == NULL ? "aggregated" : pool;
}

static void fill_admissions(aisim_request *request, const json_t *admissions)
{
    size_t n = json_array_size(admissions);
    request->admissions = (uint32_t)n;
    for (size_t i = 0; i < n; i++) {
        const json_t *each = json_array_get(admissions, i);
        uint32_t host = count_of(json_object_get(each, "host"));
        uint32_t reused = count_of(json_object_get(each, "device")) + host;
        bool known = false;
        for (size_t k = 0; k < i; k++) {
            known = known || strcmp(pool_of(admissions, k), pool_of(admissions, i)) == 0;
        }
        if (i > 0 && !known) {
            request->flags |= AISIM_REQF_MOVED;
        }
        if (i == 0) {
            request->first_admit_ns = admitted(admissions, 0);
            request->first_reused = reused;
            request->host_reused = host;
        }
        /* hand-off: the prefill pool's value is the request's */
        if (strcmp(pool_of(admissions, i), pool_of(admissions, 0)) == 0 &&
            reused > request->max_reused) {
            request->max_reused = reused;
        }
    }
}

/* Each preemption ends with the next admission, or stays open. */
static void fill_stalls(aisim_request *request, const json_t *admissions, const json_t *preempted)
{
    request->preemptions = (uint32_t)json_array_size(preempted);
    request->waiting_since_ns = request->arrival_ns;
    for (size_t i = 0; i < json_array_size(preempted); i++) {
        int64_t from_ns = time_of(json_array_get(preempted, i));
        request->waiting_since_ns = from_ns;
        for (size_t k = 0; k < json_array_size(admissions); k++) {
            if (admitted(admissions, k) > from_ns) {
                request->stall_ns += admitted(admissions, k) - from_ns;
                break;
            }
        }
    }
}

static void fill_tokens(aisim_request *request, const json_t *tokens)
{
    size_t n = json_array_size(tokens);
    request->generated = request->output_tokens = (uint32_t)n;
    request->first_token_ns = time_of(json_array_get(tokens, 0));
    request->second_token_ns = time_of(json_array_get(tokens, 1));
    request->last_token_ns = n == 0 ? -1 : time_of(json_array_get(tokens, n - 1));
}

static aisim_end_reason end_of(const char *status)
{
    static const struct {
        const char *status;
        aisim_end_reason end;
    } ends[] = {{"completed", AISIM_END_LENGTH},
                {"failed", AISIM_END_FAILED},
                {"rejected", AISIM_END_REJECTED_CAPACITY},
                {"cancelled", AISIM_END_CANCELLED},
                {"in_flight", AISIM_END_NONE},
                {"never_issued", AISIM_END_NONE}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        if (strcmp(status, ends[i].status) == 0) {
            return ends[i].end;
        }
    }
    stop("unknown status", status);
}

static void check_keys(const json_t *record)
{
    static const char known[] = " id phase status arrival_ms dispatched_ms admissions preempted_ms "
                                "token_ms terminal_ms input_tokens recomputed_tokens "
                                "ideal_reused_tokens accepted_drafts drafted ";
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)record, key, value)
    {
        char word[64];
        snprintf(word, sizeof word, " %s ", key);
        if (strstr(known, word) == NULL) {
            stop("unknown key of a request", key);
        }
    }
}

static source read_source(const json_t *record, uint32_t id)
{
    check_keys(record);
    const json_t *admissions = json_object_get(record, "admissions");
    const char *phase = json_string_value(json_object_get(record, "phase"));
    source out = {.record = record,
                  .name = json_string_value(json_object_get(record, "id")),
                  .status = json_string_value(json_object_get(record, "status")),
                  .terminal_ns = time_of(json_object_get(record, "terminal_ms"))};
    aisim_request *request = &out.request;
    request->id = id;
    request->arrival_ns = time_of(json_object_get(record, "arrival_ms"));
    request->dispatched_ns = time_of(json_object_get(record, "dispatched_ms"));
    request->first_admit_ns = -1;
    request->prompt_tokens = count_of(json_object_get(record, "input_tokens"));
    request->recomputed = count_of(json_object_get(record, "recomputed_tokens"));
    request->rank = AISIM_NONE;
    request->client = AISIM_NO_CLIENT;
    request->end = (uint8_t)end_of(out.status);
    if (phase != NULL && strcmp(phase, "profile") != 0) {
        bool primer = strcmp(phase, "primer") == 0;
        request->phase = primer ? AISIM_PHASE_PRIMER : AISIM_PHASE_WARMUP;
    }
    fill_admissions(request, admissions);
    fill_stalls(request, admissions, json_object_get(record, "preempted_ms"));
    fill_tokens(request, json_object_get(record, "token_ms"));
    const json_t *accepted = json_object_get(record, "accepted_drafts");
    request->verifications = (uint32_t)json_array_size(accepted);
    for (size_t i = 0; i < json_array_size(accepted); i++) {
        request->accepted_drafts += count_of(json_array_get(accepted, i));
    }
    return out;
}

/* ---- events ---------------------------------------------------------------------------------- */

enum { ORDER_LEVEL, ORDER_ARRIVE, ORDER_TOKEN, ORDER_OVER, ORDER_UNFINISHED, ORDER_END };

static void push(play *out, uint32_t order, const source *from, aisim_event event)
{
    event.request = from == NULL ? NULL : &from->request;
    step next = {event.t_ns, order, out->steps.len, event, from};
    aisim_array_push(&out->steps, next);
}

static aisim_event at(aisim_event_type type, int64_t t_ns)
{
    return (aisim_event){.type = type, .t_ns = t_ns};
}

static void push_tokens(play *out, const source *from)
{
    const json_t *tokens = json_object_get(from->record, "token_ms");
    int64_t last_ns = -1;
    for (size_t i = 0; i < json_array_size(tokens); i++) {
        int64_t t_ns = time_of(json_array_get(tokens, i));
        if (i == 0) {
            push(out, ORDER_TOKEN, from, at(AISIM_EV_FIRST_TOKEN, t_ns));
        } else if (t_ns != last_ns) { /* tokens of one burst share their time */
            aisim_event event = at(AISIM_EV_GAP, t_ns);
            event.u.gap.gap_ns = t_ns - last_ns;
            push(out, ORDER_TOKEN, from, event);
        }
        last_ns = t_ns;
    }
    const json_t *accepted = json_object_get(from->record, "accepted_drafts");
    for (size_t i = 0; i < json_array_size(accepted); i++) {
        aisim_event event = at(AISIM_EV_VERIFY, last_ns);
        event.u.verify.accepted = count_of(json_array_get(accepted, i));
        event.u.verify.drafted =
            count_of(json_array_get(json_object_get(from->record, "drafted"), i));
        push(out, ORDER_TOKEN, from, event);
    }
}

static void push_source(play *out, const source *from)
{
    push(out, ORDER_ARRIVE, from, at(AISIM_EV_ARRIVE, from->request.arrival_ns));
    push_tokens(out, from);
    if (from->terminal_ns >= 0) {
        bool rejected = strcmp(from->status, "rejected") == 0;
        push(out, ORDER_OVER, from,
             at(rejected ? AISIM_EV_REJECT : AISIM_EV_FINISH, from->terminal_ns));
    }
}

/* Usage as parts of 10^12 blocks, so that any fraction of a vector is kept. */
static void push_levels(play *out, const json_t *points)
{
    const double total = 1e12;
    for (size_t i = 0; i < json_array_size(points); i++) {
        const json_t *point = json_array_get(points, i);
        aisim_event event = at(AISIM_EV_KV_LEVEL, time_of(json_array_get(point, 0)));
        event.u.level.total = (uint64_t)total;
        event.u.level.used = (uint64_t)llround(json_number_value(json_array_get(point, 1)) * total);
        push(out, ORDER_LEVEL, NULL, event);
    }
}

static int by_time(const void *left, const void *right)
{
    const step *a = left, *b = right;
    if (a->t_ns != b->t_ns) {
        return a->t_ns < b->t_ns ? -1 : 1;
    }
    if (a->order != b->order) {
        return a->order < b->order ? -1 : 1;
    }
    return (a->sequence > b->sequence) - (a->sequence < b->sequence);
}

static void push_end(play *out)
{
    int64_t end_ns = 0;
    for (uint32_t i = 0; i < out->steps.len; i++) {
        end_ns = out->steps.data[i].t_ns > end_ns ? out->steps.data[i].t_ns : end_ns;
    }
    for (uint32_t i = 0; i < out->sources.len; i++) {
        if (strcmp(out->sources.data[i].status, "in_flight") == 0) {
            push(out, ORDER_UNFINISHED, &out->sources.data[i], at(AISIM_EV_UNFINISHED, end_ns));
        }
    }
    push(out, ORDER_END, NULL, at(AISIM_EV_RUN_END, end_ns));
}

/* ---- running --------------------------------------------------------------------------------- */

static void annotate(void *context, const aisim_request *request, aisim_record *record)
{
    const play *out = context;
    record->name = out->sources.data[request->id - 1].name;
}

static void sink(void *context, const aisim_record *record)
{
    play *out = context;
    aisim_json_key(&out->requests, record->name);
    aisim_record_json(record, &out->requests);
    out->sources.data[(uint32_t)record->request_id - 1].good = record->good == 1;
}

static void add_workers(aisim_recorder *recorder, const json_t *workers)
{
    for (size_t i = 0; i < json_array_size(workers); i++) {
        const json_t *worker = json_array_get(workers, i);
        const char *role = json_string_value(json_object_get(worker, "role"));
        int64_t to_ns = time_of(json_object_get(worker, "to_ms"));
        aisim_recorder_worker_info info = {
            .pool = role,
            .role = role,
            .gpus = json_number_value(json_object_get(worker, "gpus_per_worker")),
            .from_ns = time_of(json_object_get(worker, "from_ms")),
            .provisioned = true};
        aisim_recorder_worker(recorder, &info);
        if (to_ns >= 0) {
            aisim_recorder_provision(recorder, (uint32_t)i, to_ns, false);
        }
    }
}

static void run_steps(aisim_recorder *recorder, play *out)
{
    aisim_observer observer = aisim_recorder_observer(recorder);
    for (uint32_t i = 0; i < out->steps.len; i++) {
        const step *each = &out->steps.data[i];
        if (observer.mask & AISIM_EV_BIT(each->event.type)) {
            observer.fn(observer.context, &each->event);
        }
        const json_t *ideal = each->order == ORDER_OVER
                                  ? json_object_get(each->from->record, "ideal_reused_tokens")
                                  : NULL;
        if (json_is_number(ideal)) {
            aisim_recorder_add_ideal(recorder, &each->from->request, count_of(ideal));
        }
    }
}

/* No event names it, so the recorder has no record of it; its figures are those of the definitions.
 */
static void put_never_issued(play *out, const source *from)
{
    aisim_record record;
    aisim_record_fill(&record, &from->request, AISIM_OUTCOME_IN_FLIGHT, 0, 0);
    aisim_json_key(&out->requests, from->name);
    aisim_record_json(&record, &out->requests);
}

static void build_steps(aisim_recorder *recorder, play *out, const json_t *vector)
{
    const json_t *requests = json_object_get(vector, "requests");
    for (size_t i = 0; i < json_array_size(requests); i++) {
        aisim_array_push(&out->sources, read_source(json_array_get(requests, i), (uint32_t)i + 1));
    }
    for (uint32_t i = 0; i < out->sources.len; i++) {
        if (strcmp(out->sources.data[i].status, "never_issued") == 0) {
            aisim_recorder_add_never_issued(recorder, 1);
            put_never_issued(out, &out->sources.data[i]);
        } else {
            push_source(out, &out->sources.data[i]);
        }
    }
    const char *key;
    json_t *points;
    json_t *gauges = json_object_get(json_object_get(vector, "settings"), "gauges");
    json_object_foreach(gauges, key, points)
    {
        if (strcmp(key, "kv_usage") == 0) {
            push_levels(out, points);
        }
    }
    push_end(out);
    qsort(out->steps.data, out->steps.len, sizeof *out->steps.data, by_time);
}

/* The values of `points` in [from, to). */
static void fill_gauge(aisim_gauge *gauge, const json_t *points, int64_t from_ns, int64_t to_ns)
{
    bool begun = false;
    aisim_gauge_init(gauge);
    for (size_t i = 0; i < json_array_size(points); i++) {
        const json_t *point = json_array_get(points, i);
        int64_t t_ns = time_of(json_array_get(point, 0));
        if (t_ns >= to_ns) {
            break;
        }
        if (t_ns > from_ns && !begun) {
            aisim_gauge_begin(gauge, from_ns);
            begun = true;
        }
        aisim_gauge_set(gauge, t_ns, json_number_value(json_array_get(point, 1)));
    }
    if (!begun) {
        aisim_gauge_begin(gauge, from_ns);
    }
    aisim_gauge_end(gauge, to_ns);
}

/* Gauges that no event of the engine carries: over the interval of the recorder. */
static void put_other_gauges(aisim_results *results, const aisim_recorder *recorder, json_t *gauges)
{
    const char *key;
    json_t *points;
    int64_t from_ns, to_ns;
    aisim_recorder_interval(recorder, &from_ns, &to_ns);
    uint32_t parent = aisim_results_path(results, 0, "totals.gauges");
    json_object_foreach(gauges, key, points)
    {
        if (aisim_results_find(results, parent, key) == AISIM_NONE) {
            aisim_gauge gauge;
            fill_gauge(&gauge, points, from_ns, to_ns);
            aisim_report_gauge(results, parent, key, &gauge);
            aisim_gauge_clear(&gauge);
        }
    }
}

static void run_report(const json_t *vector, aisim_json *json)
{
    play out = {0};
    const json_t *settings = json_object_get(vector, "settings");
    aisim_recorder_config config;
    read_settings(settings, &config);
    config.sink = sink;
    config.annotate = annotate;
    config.sink_context = config.annotate_context = &out;
    aisim_recorder *recorder = aisim_recorder_new(&config);
    add_workers(recorder, json_object_get(settings, "workers"));
    aisim_json_begin(&out.requests, '{');
    build_steps(recorder, &out, vector);
    run_steps(recorder, &out);
    aisim_json_end(&out.requests, '}');

    aisim_results results;
    aisim_report_build(&results, recorder, &(aisim_report_meta){0});
    put_other_gauges(&results, recorder, json_object_get(settings, "gauges"));
    static const char *const parts[] = {"totals", "distributions"};
    aisim_json_begin(json, '{');
    for (uint32_t i = 0; i < 2; i++) {
        aisim_json_key(json, parts[i]);
        aisim_results_json(&results, aisim_results_find(&results, 0, parts[i]), json);
    }
    aisim_json_key(json, "good");
    aisim_json_begin(json, '[');
    for (uint32_t i = 0; i < out.sources.len; i++) {
        if (out.sources.data[i].good) {
            aisim_json_text(json, out.sources.data[i].name);
        }
    }
    aisim_json_end(json, ']');
    aisim_json_key(json, "requests");
    aisim_json_raw(json, out.requests.text.data, out.requests.text.len);
    aisim_json_end(json, '}');

    aisim_results_free(&results);
    aisim_recorder_free(recorder);
    aisim_json_free(&out.requests);
    aisim_array_free(&out.steps);
    aisim_array_free(&out.sources);
}

static void run_distribution(const json_t *vector, aisim_json *json)
{
    aisim_recorder_config config;
    aisim_digest digest;
    aisim_results results;
    read_settings(json_object_get(vector, "settings"), &config);
    aisim_digest_init(&digest, config.rule, 0);
    const json_t *values = json_object_get(vector, "values");
    for (size_t i = 0; i < json_array_size(values); i++) {
        aisim_digest_add(&digest, json_number_value(json_array_get(values, i)), 1);
    }
    aisim_results_init(&results);
    uint32_t node = aisim_report_stats(&results, 0, "stats", &digest, config.extra_percentiles,
                                       config.n_extra_percentiles);
    aisim_results_json(&results, node, json);
    aisim_results_free(&results);
    aisim_digest_clear(&digest);
}

static void run_gauge(const json_t *vector, aisim_json *json)
{
    const json_t *interval = json_object_get(vector, "interval_ms");
    aisim_results results;
    aisim_gauge gauge;
    fill_gauge(&gauge, json_object_get(vector, "points"), time_of(json_array_get(interval, 0)),
               time_of(json_array_get(interval, 1)));
    aisim_results_init(&results);
    aisim_report_gauge(&results, 0, "gauge", &gauge);
    aisim_results_json(&results, aisim_results_find(&results, 0, "gauge"), json);
    aisim_results_free(&results);
    aisim_gauge_clear(&gauge);
}

int main(void)
{
    json_error_t error;
    json_t *vector = json_loadf(stdin, 0, &error);
    const char *kind = json_string_value(json_object_get(vector, "kind"));
    if (kind == NULL) {
        stop("no vector", error.text);
    }
    aisim_json json = {0};
    if (strcmp(kind, "report") == 0) {
        run_report(vector, &json);
    } else if (strcmp(kind, "distribution") == 0) {
        run_distribution(vector, &json);
    } else if (strcmp(kind, "gauge") == 0) {
        run_gauge(vector, &json);
    } else {
        stop("unknown kind", kind);
    }
    fwrite(json.text.data, 1, json.text.len, stdout);
    putchar('\n');
    aisim_json_free(&json);
    json_decref(vector);
    return 0;
}
