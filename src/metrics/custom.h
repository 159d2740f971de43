/* custom.h - metrics that a scenario defines: counter, gauge, histogram, ratio, series.
 *
 * Every metric has a total and, when it was given labels, one series per label in the order of
 * their first use. The number of series of a run is bounded. At the measurement barrier all metrics
 * start again from nothing (a gauge keeps its value) unless they were declared with keep. A ratio
 * names two counters and is computed when read, so merging runs stays exact. Rules: spec/report.md
 * §8, spec/lua-api.md §8. Not thread-safe; belongs to one recorder. */
#ifndef AISIM_METRICS_CUSTOM_H
#define AISIM_METRICS_CUSTOM_H

#include <stdbool.h>
#include <stdint.h>

#include "aisim/status.h"
#include "metrics/gauge.h"

typedef enum {
    AISIM_METRIC_COUNTER,
    AISIM_METRIC_GAUGE,
    AISIM_METRIC_HIST,
    AISIM_METRIC_RATIO,
    AISIM_METRIC_SERIES
} aisim_metric_kind;

/** "counter", "gauge", "hist", "ratio", "series". */
const char *aisim_metric_kind_text(aisim_metric_kind kind);

/** Series of all metrics together. */
enum { AISIM_CUSTOM_SERIES = 1000 };

typedef struct aisim_custom aisim_custom;
typedef struct aisim_metric aisim_metric;

aisim_custom *aisim_custom_new(aisim_percentile_rule rule);
void aisim_custom_free(aisim_custom *custom); /**< NULL allowed */

/** Declaration of a metric; texts are copied, NULL = "". */
typedef struct aisim_metric_spec {
    aisim_metric_kind kind;
    const char *name; /**< not empty, unique */
    const char *unit, *help;
    const char *by;        /**< what the labels mean, for the report */
    const char *num, *den; /**< ratio: names of two counters */
    bool keep;             /**< not reset at the barrier */
    bool series;           /**< a column of the time series */
} aisim_metric_spec;

/** @param out  the metric; it lives as long as the registry
 *  @return AISIM_OK, AISIM_EINVAL (no name), AISIM_EEXIST, AISIM_ELIMIT. */
aisim_status aisim_custom_add(aisim_custom *custom, const aisim_metric_spec *spec,
                              aisim_metric **out, aisim_error *err);

/** Counter: adds x. Histogram: one more value x. label NULL or "" = without.
 *  @return AISIM_OK, AISIM_ERANGE (x is not finite), AISIM_EINVAL (other kinds), AISIM_ELIMIT. */
aisim_status aisim_metric_add(aisim_metric *metric, const char *label, double x, aisim_error *err);

/** Gauge: holds x from t on. Same errors. */
aisim_status aisim_metric_set(aisim_metric *metric, const char *label, int64_t t_ns, double x,
                              aisim_error *err);

/** Series: one more point. A value that is not finite is kept as NaN (null in files). */
aisim_status aisim_metric_push(aisim_metric *metric, int64_t t_ns, double value, aisim_error *err);

/** The measurement begins at t. */
void aisim_custom_barrier(aisim_custom *custom, int64_t t_ns);

/** The run ended at t: gauges count up to it. May be called again with a later t. */
void aisim_custom_end(aisim_custom *custom, int64_t t_ns);

/* ---- reading --------------------------------------------------------------------------------- */

uint32_t aisim_custom_count(const aisim_custom *custom);
aisim_metric *aisim_custom_at(const aisim_custom *custom, uint32_t index);
aisim_metric *aisim_custom_find(const aisim_custom *custom, const char *name); /**< or NULL */

/** The declaration; texts belong to the metric, never NULL. */
const aisim_metric_spec *aisim_metric_spec_of(const aisim_metric *metric);

/** Labels in the order of first use. Cell 0 is the total, cell i >= 1 has label i. */
uint32_t aisim_metric_cells(const aisim_metric *metric);
const char *aisim_metric_label(const aisim_metric *metric, uint32_t cell);

double aisim_metric_total(const aisim_metric *metric, uint32_t cell);   /**< counter: sum */
aisim_digest *aisim_metric_digest(aisim_metric *metric, uint32_t cell); /**< histogram */
aisim_gauge *aisim_metric_gauge(aisim_metric *metric, uint32_t cell);
/** Ratio: numerator and denominator (0 when a counter of that name does not exist). */
void aisim_metric_ratio(const aisim_metric *metric, double *num, double *den);
/** Series: points and their times; valid until the next push. */
uint32_t aisim_metric_points(const aisim_metric *metric, const int64_t **t_ns,
                             const double **values);

/** Adds what another run measured with the same declaration (gauges: the held times). */
aisim_status aisim_metric_merge(aisim_metric *metric, aisim_metric *from, aisim_error *err);

#endif
