/* report_parts.c - distributions, classes, workers and custom metrics of the report. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "metrics/report_state.h"

/* ---- percentiles ----------------------------------------------------------------------------- */

char *aisim_percentile_key(double p, char *out, uint32_t size)
{
    out[0] = 'p';
    aisim_json_number(out + 1, size - 1, p);
    return out;
}

aisim_status aisim_percentile_parse(const char *key, double *out, aisim_error *err)
{
    /* by hand: strtod would ask the locale */
    double value = 0, scale = 0;
    const char *at = key + (key[0] == 'p');
    bool digits = false;
    for (; (*at >= '0' && *at <= '9') || (*at == '.' && scale == 0); at++) {
        if (*at == '.') {
            scale = 1;
            continue;
        }
        digits = true;
        value = value * 10 + (*at - '0');
        scale *= 10;
    }
    value = scale > 0 ? value / scale : value;
    if (!digits || *at != '\0' || value > 100) {
        return aisim_fail(err, AISIM_EINVAL,
                          "'%s' is no percentile (expected p0 to p100, for example p99.9)", key);
    }
    *out = value;
    return AISIM_OK;
}

/* ---- distributions --------------------------------------------------------------------------- */

uint32_t aisim_report_stats(aisim_results *results, uint32_t parent, const char *key,
                            aisim_digest *digest, const double *extra, uint32_t n_extra)
{
    aisim_stats stats;
    aisim_digest_stats(digest, &stats);
    uint32_t object = aisim_results_object(results, parent, key);
    aisim_results_uint(results, object, "n", stats.n);
    aisim_results_number(results, object, "mean", stats.mean);
    aisim_results_number(results, object, "min", stats.min);
    aisim_results_number(results, object, "max", stats.max);
    aisim_results_number(results, object, "median", stats.median);
    aisim_results_number(results, object, "std", stats.std);
    aisim_results_number(results, object, "p50", stats.median);
    aisim_results_number(results, object, "p75", stats.p75);
    aisim_results_number(results, object, "p90", stats.p90);
    aisim_results_number(results, object, "p95", stats.p95);
    aisim_results_number(results, object, "p99", stats.p99);
    for (uint32_t i = 0; i < n_extra; i++) {
        char name[32];
        aisim_percentile_key(extra[i], name, sizeof name);
        if (aisim_results_find(results, object, name) == AISIM_NONE) {
            aisim_results_number(results, object, name, aisim_digest_percentile(digest, extra[i]));
        }
    }
    if (stats.sketched) {
        aisim_results_bool(results, object, "sketched", true);
    }
    return object;
}

/* Interactivity: 1000 over the same statistic of a time per token; no min, max, std. */
static void put_inverse(aisim_results *results, uint32_t parent, const char *key,
                        aisim_digest *digest, const aisim_recorder_config *config)
{
    static const double usual[] = {50, 75, 90, 95, 99};
    uint32_t object = aisim_results_object(results, parent, key);
    aisim_results_uint(results, object, "n", digest->n);
    aisim_results_number(results, object, "mean",
                         aisim_report_ratio(1000, aisim_digest_mean(digest)));
    aisim_results_number(results, object, "median",
                         aisim_report_ratio(1000, aisim_digest_percentile(digest, 50)));
    for (uint32_t i = 0; i < 5 + config->n_extra_percentiles; i++) {
        char name[32];
        double p = i < 5 ? usual[i] : config->extra_percentiles[i - 5];
        aisim_percentile_key(p, name, sizeof name);
        if (aisim_results_find(results, object, name) == AISIM_NONE) {
            aisim_results_number(results, object, name,
                                 aisim_report_ratio(1000, aisim_digest_percentile(digest, p)));
        }
    }
}

static const char *class_name(const aisim_recorder *recorder, uint32_t class_id, char *out,
                              uint32_t size)
{
    const char *name = recorder->classes.data[class_id].name;
    if (name != NULL && name[0] != '\0') {
        return name;
    }
    snprintf(out, size, "class %u", class_id);
    return out;
}

/* One distribution, with `by` when there are several classes. */
static void put_metric(aisim_results *results, uint32_t parent, aisim_recorder *recorder,
                       uint32_t index)
{
    const double *extra = recorder->config.extra_percentiles;
    uint32_t n_extra = recorder->config.n_extra_percentiles;
    uint32_t object = aisim_report_stats(results, parent, aisim_distribution_key(index),
                                         &recorder->distributions[index], extra, n_extra);
    if (recorder->classes_used < 2) {
        return;
    }
    uint32_t by = aisim_results_object(results, object, "by");
    for (uint32_t i = 0; i < recorder->classes.len; i++) {
        char buffer[32];
        if (recorder->classes.data[i].used) {
            aisim_report_stats(results, by, class_name(recorder, i, buffer, sizeof buffer),
                               &recorder->classes.data[i].distributions[index], extra, n_extra);
        }
    }
}

/* Completions in each second since the measurement start, up to the last one. */
static void put_completions(aisim_results *results, uint32_t parent, aisim_recorder *recorder)
{
    aisim_digest digest;
    aisim_digest_init(&digest, recorder->config.rule, recorder->config.exact_limit);
    for (uint32_t i = 0; i < recorder->completions.len; i++) {
        aisim_digest_add(&digest, recorder->completions.data[i], 1);
    }
    aisim_report_stats(results, parent, "completions_per_second_rps", &digest,
                       recorder->config.extra_percentiles, recorder->config.n_extra_percentiles);
    aisim_digest_clear(&digest);
}

void aisim_report_distributions(aisim_results *results, aisim_recorder *recorder)
{
    const aisim_recorder_config *config = &recorder->config;
    uint32_t all = aisim_results_group(results, 0, "distributions");
    for (uint32_t i = 0; i < AISIM_DISTRIBUTIONS; i++) {
        put_metric(results, all, recorder, i);
        aisim_digest *digest = &recorder->distributions[i];
        if (i == AISIM_DIST_itl_ms) {
            put_inverse(results, all, "interactivity", digest, config);
        } else if (i == AISIM_DIST_e2e_per_token_ms) {
            put_inverse(results, all, "normalised_interactivity", digest, config);
        }
    }
    const struct {
        const char *key;
        aisim_digest *digest;
    } others[] = {{"token_gap_ms", &recorder->gaps.pooled},
                  {"pass_tokens", &recorder->pass_tokens},
                  {"pass_requests", &recorder->pass_requests},
                  {"pass_ms", &recorder->pass_ms},
                  {"play_e2e_ms", &recorder->play_ms}};
    for (uint32_t i = 0; i < sizeof others / sizeof *others; i++) {
        aisim_report_stats(results, all, others[i].key, others[i].digest, config->extra_percentiles,
                           config->n_extra_percentiles);
    }
    put_completions(results, all, recorder);
}

void aisim_report_classes(aisim_results *results, const aisim_recorder *recorder)
{
    uint32_t all = aisim_results_object(results, 0, "classes");
    for (uint32_t i = 0; recorder->classes_used > 1 && i < recorder->classes.len; i++) {
        const aisim_class_state *state = &recorder->classes.data[i];
        char buffer[32];
        if (!state->used) {
            continue;
        }
        uint32_t object =
            aisim_results_object(results, all, class_name(recorder, i, buffer, sizeof buffer));
        double good = aisim_report_ratio((double)state->good, (double)state->completed);
        aisim_results_uint(results, object, "num_requests", state->arrived);
        aisim_results_uint(results, object, "completed_requests", state->completed);
        aisim_results_number(results, object, "good_fraction",
                             recorder->any_slo ? good : (double)NAN);
    }
}

/* ---- workers --------------------------------------------------------------------------------- */

int64_t aisim_report_worker_ns(const aisim_worker_sums *worker, int64_t from_ns, int64_t to_ns)
{
    int64_t held_ns = 0;
    for (uint32_t i = 0; i < worker->provisions.len; i++) {
        const aisim_provision *change = &worker->provisions.data[i];
        int64_t begin_ns = change->t_ns > from_ns ? change->t_ns : from_ns;
        int64_t end_ns =
            i + 1 < worker->provisions.len ? worker->provisions.data[i + 1].t_ns : to_ns;
        end_ns = end_ns < to_ns ? end_ns : to_ns;
        if (change->on && end_ns > begin_ns) {
            held_ns += end_ns - begin_ns;
        }
    }
    return held_ns;
}

double aisim_report_worker_s(const aisim_worker_sums *worker, int64_t from_ns, int64_t to_ns)
{
    return aisim_s_from_ns(aisim_report_worker_ns(worker, from_ns, to_ns));
}

int64_t aisim_report_rank_ns(const aisim_recorder *recorder, uint32_t worker, int64_t from_ns,
                             int64_t to_ns)
{
    bool told = worker != AISIM_NONE && recorder->workers.data[worker].provisions.len > 0;
    return told ? aisim_report_worker_ns(&recorder->workers.data[worker], from_ns, to_ns)
                : to_ns - from_ns;
}

static void put_gauge(aisim_results *results, uint32_t parent, const char *key,
                      const aisim_gauge_stats *stats)
{
    bool none = stats->held_ns == 0;
    uint32_t object = aisim_results_object(results, parent, key);
    aisim_results_number(results, object, "mean", none ? (double)NAN : stats->mean);
    aisim_results_number(results, object, "peak", none ? (double)NAN : stats->peak);
    aisim_results_number(results, object, "p99", none ? (double)NAN : stats->p99);
}

void aisim_report_gauge(aisim_results *results, uint32_t parent, const char *key,
                        aisim_gauge *gauge)
{
    aisim_gauge_stats stats;
    aisim_gauge_read(gauge, &stats);
    put_gauge(results, parent, key, &stats);
}

/* Over the ranks of a worker: mean of the means, largest peak and p99. */
static void put_worker_usage(aisim_results *results, uint32_t parent, aisim_recorder *recorder,
                             const aisim_worker_sums *worker)
{
    aisim_gauge_stats all = {0};
    uint32_t n = 0;
    for (uint32_t i = 0; i < worker->ranks; i++) {
        uint32_t rank = worker->first_rank + i;
        aisim_gauge_stats stats = {0};
        if (rank < recorder->levels.ranks.len) {
            aisim_gauge_read(&recorder->levels.ranks.data[rank].usage, &stats);
        }
        if (stats.held_ns > 0) {
            all.held_ns += stats.held_ns;
            all.mean += stats.mean;
            all.peak = fmax(all.peak, stats.peak);
            all.p99 = fmax(all.p99, stats.p99);
            n++;
        }
    }
    all.mean = n > 0 ? all.mean / n : 0;
    put_gauge(results, parent, "kv_usage", &all);
}

static void put_worker(aisim_results *results, uint32_t list, aisim_recorder *recorder,
                       uint32_t index, int64_t from_ns, int64_t to_ns)
{
    const aisim_worker_sums *worker = &recorder->workers.data[index];
    uint64_t passes = 0;
    int64_t busy_ns = 0;
    for (uint32_t i = 0; i < worker->ranks; i++) {
        passes += recorder->ranks.data[worker->first_rank + i].passes;
        busy_ns += recorder->ranks.data[worker->first_rank + i].busy_ns;
    }
    double span_ns = (double)aisim_report_rank_ns(recorder, index, from_ns, to_ns) * worker->ranks;
    double idle = 1 - fmin(1, aisim_report_ratio((double)busy_ns, span_ns));
    uint32_t object = aisim_results_object(results, list, NULL);
    aisim_results_uint(results, object, "worker", index + 1);
    aisim_results_text(results, object, "pool", worker->pool);
    aisim_results_text(results, object, "role", worker->role);
    aisim_results_uint(results, object, "ranks", worker->ranks);
    aisim_results_number(results, object, "gpus", worker->gpus);
    aisim_results_number(results, object, "worker_s",
                         aisim_report_worker_s(worker, from_ns, to_ns));
    aisim_results_uint(results, object, "routed_requests", worker->routed);
    aisim_results_uint(results, object, "completed_requests", worker->completed);
    aisim_results_uint(results, object, "total_input_tokens", worker->input_tokens);
    aisim_results_uint(results, object, "total_output_tokens", worker->output_tokens);
    aisim_results_uint(results, object, "preemptions", worker->preemptions);
    aisim_results_uint(results, object, "evictions_blocks", worker->evicted_blocks);
    aisim_results_uint(results, object, "passes", passes);
    aisim_results_number(results, object, "busy_ms", aisim_ms_from_ns(busy_ns));
    aisim_results_number(results, object, "idle_ratio", span_ns > 0 ? idle : (double)NAN);
    put_worker_usage(results, object, recorder, worker);
}

void aisim_report_workers(aisim_results *results, aisim_recorder *recorder)
{
    int64_t from_ns, to_ns;
    aisim_recorder_interval(recorder, &from_ns, &to_ns);
    uint32_t list = aisim_results_array(results, 0, "workers");
    for (uint32_t i = 0; i < recorder->workers.len; i++) {
        put_worker(results, list, recorder, i, from_ns, to_ns);
    }
}

/* ---- custom ---------------------------------------------------------------------------------- */

static void put_held(aisim_results *results, uint32_t object, aisim_gauge *gauge)
{
    aisim_gauge_stats stats;
    aisim_gauge_read(gauge, &stats);
    bool none = stats.held_ns == 0;
    aisim_results_number(results, object, "mean", none ? (double)NAN : stats.mean);
    aisim_results_number(results, object, "max", none ? (double)NAN : stats.peak);
    aisim_results_number(results, object, "p99", none ? (double)NAN : stats.p99);
    aisim_results_number(results, object, "last", gauge->set ? gauge->value : (double)NAN);
}

/* The figures of one cell of a metric, as an object under `key`. */
static uint32_t put_cell(aisim_results *results, uint32_t parent, const char *key,
                         aisim_metric *metric, uint32_t cell)
{
    uint32_t object;
    switch (aisim_metric_spec_of(metric)->kind) {
    case AISIM_METRIC_COUNTER:
        object = aisim_results_object(results, parent, key);
        aisim_results_number(results, object, "total", aisim_metric_total(metric, cell));
        return object;
    case AISIM_METRIC_GAUGE:
        object = aisim_results_object(results, parent, key);
        put_held(results, object, aisim_metric_gauge(metric, cell));
        return object;
    case AISIM_METRIC_HIST:
        return aisim_report_stats(results, parent, key, aisim_metric_digest(metric, cell), NULL, 0);
    case AISIM_METRIC_RATIO: {
        double num, den;
        aisim_metric_ratio(metric, &num, &den);
        object = aisim_results_object(results, parent, key);
        aisim_results_number(results, object, "num", num);
        aisim_results_number(results, object, "den", den);
        aisim_results_number(results, object, "ratio", aisim_report_ratio(num, den));
        return object;
    }
    case AISIM_METRIC_SERIES:
        break;
    }
    object = aisim_results_object(results, parent, key);
    const int64_t *times;
    const double *values;
    uint32_t n = aisim_metric_points(metric, &times, &values);
    uint32_t t = aisim_results_array(results, object, "t_ms");
    for (uint32_t i = 0; i < n; i++) {
        aisim_results_number(results, t, NULL, aisim_ms_from_ns(times[i]));
    }
    uint32_t v = aisim_results_array(results, object, "v");
    for (uint32_t i = 0; i < n; i++) {
        aisim_results_number(results, v, NULL, values[i]);
    }
    return object;
}

void aisim_report_custom(aisim_results *results, aisim_recorder *recorder)
{
    uint32_t all = aisim_results_group(results, 0, "custom");
    for (uint32_t i = 0; i < aisim_custom_count(recorder->custom); i++) {
        aisim_metric *metric = aisim_custom_at(recorder->custom, i);
        const aisim_metric_spec *spec = aisim_metric_spec_of(metric);
        uint32_t object = put_cell(results, all, spec->name, metric, 0);
        aisim_results_text(results, object, "kind", aisim_metric_kind_text(spec->kind));
        aisim_results_text(results, object, "unit", spec->unit);
        if (aisim_metric_cells(metric) < 2) {
            continue;
        }
        uint32_t by = aisim_results_object(results, object, "by");
        for (uint32_t cell = 1; cell < aisim_metric_cells(metric); cell++) {
            put_cell(results, by, aisim_metric_label(metric, cell), metric, cell);
        }
    }
}
