/* timeseries.c - counters per worker, read and cleared by each sample. */
#include "metrics/timeseries.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"

typedef struct {
    int64_t sampled_ns; /* -1 = never */
    uint64_t prefill_tokens, decode_tokens, cached_tokens;
    uint64_t preemptions, evicted_blocks, d2h_bytes, h2d_bytes;
    uint64_t verifications, accepted;
} worker_counters;

struct aisim_timeseries {
    AISIM_ARRAY(uint32_t) rank_worker;
    AISIM_ARRAY(worker_counters) workers;
    AISIM_ARRAY(aisim_metric *) columns; /* of the scenario */
    AISIM_ARRAY(char) text;
};

static const char header[] =
    "t_ms,worker,running,waiting,kv_used,kv_cached,kv_total,state_used,host_used,prefill_tok_s,"
    "decode_tok_s,cached_tok_s,preempt,evict,d2h_bytes,h2d_bytes,accept_len,in_flight_clients,"
    "live_plays,router_queue\n";

static void put(aisim_timeseries *series, const char *text, uint32_t size)
{
    aisim_array_reserve(&series->text, series->text.len + size);
    memcpy(series->text.data + series->text.len, text, size);
    series->text.len += size;
}

static worker_counters *worker_at(aisim_timeseries *series, uint32_t worker)
{
    while (series->workers.len <= worker) {
        aisim_array_push(&series->workers, (worker_counters){.sampled_ns = -1});
    }
    return &series->workers.data[worker];
}

aisim_timeseries *aisim_timeseries_new(const uint32_t *rank_worker, uint32_t ranks)
{
    aisim_timeseries *series = aisim_alloc_zero(1, sizeof *series);
    for (uint32_t i = 0; i < ranks; i++) {
        aisim_array_push(&series->rank_worker, rank_worker[i]);
    }
    put(series, header, sizeof header - 1);
    return series;
}

void aisim_timeseries_free(aisim_timeseries *series)
{
    if (series != NULL) {
        aisim_array_free(&series->rank_worker);
        aisim_array_free(&series->workers);
        aisim_array_free(&series->columns);
        aisim_array_free(&series->text);
        aisim_free(series);
    }
}

void aisim_timeseries_custom(aisim_timeseries *series, aisim_custom *custom)
{
    series->text.len--; /* the line feed of the header */
    for (uint32_t i = 0; i < aisim_custom_count(custom); i++) {
        aisim_metric *metric = aisim_custom_at(custom, i);
        const aisim_metric_spec *spec = aisim_metric_spec_of(metric);
        if (spec->series) {
            aisim_array_push(&series->columns, metric);
            put(series, ",", 1);
            put(series, spec->name, (uint32_t)strlen(spec->name));
        }
    }
    put(series, "\n", 1);
}

/* ---- counting -------------------------------------------------------------------------------- */

static void count(worker_counters *worker, const aisim_event *event)
{
    switch (event->type) {
    case AISIM_EV_PASS_END:
        worker->prefill_tokens += event->u.pass->prefill_tokens;
        worker->decode_tokens += event->u.pass->emitted;
        worker->evicted_blocks += event->u.pass->evicted;
        break;
    case AISIM_EV_ADMIT:
        worker->cached_tokens += event->u.admit.reused_tokens;
        break;
    case AISIM_EV_PREEMPT:
        worker->preemptions++;
        break;
    case AISIM_EV_VERIFY:
        worker->verifications++;
        worker->accepted += event->u.verify.accepted;
        break;
    default:
        break;
    }
}

static void observe(void *context, const aisim_event *event)
{
    aisim_timeseries *series = context;
    if (event->type == AISIM_EV_TRANSFER_END) {
        worker_counters *worker = worker_at(series, event->u.transfer.src);
        bool offload = event->u.transfer.kind == AISIM_TRANSFER_OFFLOAD;
        bool restore = event->u.transfer.kind == AISIM_TRANSFER_RESTORE;
        worker->d2h_bytes += offload ? event->u.transfer.bytes : 0;
        worker->h2d_bytes += restore ? event->u.transfer.bytes : 0;
    } else if (event->rank < series->rank_worker.len) {
        count(worker_at(series, series->rank_worker.data[event->rank]), event);
    }
}

aisim_observer aisim_timeseries_observer(aisim_timeseries *series)
{
    return (aisim_observer){.mask = AISIM_EV_BIT(AISIM_EV_PASS_END) | AISIM_EV_BIT(AISIM_EV_ADMIT) |
                                    AISIM_EV_BIT(AISIM_EV_PREEMPT) | AISIM_EV_BIT(AISIM_EV_VERIFY) |
                                    AISIM_EV_BIT(AISIM_EV_TRANSFER_END),
                            .context = series,
                            .fn = observe};
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* A number and what follows it; undefined is an empty field. */
static void put_number(aisim_timeseries *series, double value, char end)
{
    char text[48];
    uint32_t n = isfinite(value) ? aisim_json_number(text, sizeof text - 1, value) : 0;
    text[n++] = end;
    put(series, text, n);
}

/* The value of a metric of the scenario now. */
static double value_of(aisim_metric *metric)
{
    double num, den;
    switch (aisim_metric_spec_of(metric)->kind) {
    case AISIM_METRIC_COUNTER:
        return aisim_metric_total(metric, 0);
    case AISIM_METRIC_GAUGE: {
        const aisim_gauge *gauge = aisim_metric_gauge(metric, 0);
        return gauge->set ? gauge->value : (double)NAN;
    }
    case AISIM_METRIC_HIST:
        return (double)aisim_metric_digest(metric, 0)->n;
    case AISIM_METRIC_RATIO:
        aisim_metric_ratio(metric, &num, &den);
        return den != 0 ? num / den : (double)NAN;
    default:
        return (double)NAN;
    }
}

void aisim_timeseries_sample(aisim_timeseries *series, int64_t t_ns, uint32_t index,
                             const aisim_timeseries_state *state)
{
    worker_counters *worker = worker_at(series, index);
    int64_t since_ns = worker->sampled_ns < 0 ? 0 : worker->sampled_ns;
    if (worker->sampled_ns >= 0 && t_ns <= worker->sampled_ns) {
        return;
    }
    double seconds = t_ns > since_ns ? aisim_s_from_ns(t_ns - since_ns) : (double)NAN;
    double length = worker->verifications == 0
                        ? (double)NAN
                        : 1 + (double)worker->accepted / (double)worker->verifications;
    const double columns[] = {aisim_ms_from_ns(t_ns),
                              index + 1,
                              (double)state->running,
                              (double)state->waiting,
                              (double)state->kv_used,
                              (double)state->kv_cached,
                              (double)state->kv_total,
                              state->state_used == UINT64_MAX ? (double)NAN
                                                              : (double)state->state_used,
                              (double)state->host_used,
                              (double)worker->prefill_tokens / seconds,
                              (double)worker->decode_tokens / seconds,
                              (double)worker->cached_tokens / seconds,
                              (double)worker->preemptions,
                              (double)worker->evicted_blocks,
                              (double)worker->d2h_bytes,
                              (double)worker->h2d_bytes,
                              length,
                              (double)state->in_flight_clients,
                              (double)state->live_plays,
                              (double)state->router_queue};
    uint32_t n = sizeof columns / sizeof *columns;
    for (uint32_t i = 0; i < n; i++) {
        put_number(series, columns[i], i + 1 < n || series->columns.len > 0 ? ',' : '\n');
    }
    for (uint32_t i = 0; i < series->columns.len; i++) {
        put_number(series, value_of(series->columns.data[i]),
                   i + 1 < series->columns.len ? ',' : '\n');
    }
    *worker = (worker_counters){.sampled_ns = t_ns};
}

const char *aisim_timeseries_text(const aisim_timeseries *series, uint32_t *size)
{
    *size = series->text.len;
    return series->text.data;
}
