/* report.h - the result tree of one run, built from its recorder (spec/report.md §1-3, 5, 7, 8).
 *
 *     aisim_results results;
 *     aisim_report_build(&results, recorder, &meta);
 *     aisim_json json = {.indent = 2};
 *     aisim_results_json(&results, 0, &json);
 *
 * Shape, keys in this order:
 *   schema, version, scenario, config_digest, seed, interrupted
 *   settings       what the definitions depend on: percentile rule, duration, window, SLO
 *   phases         [{t_ms, from, to}], absolute clock
 *   totals         counts, rates, ratios; inside: worker_s, gauges, speculation, scheduler,
 *                  transfers, plays
 *   distributions  {metric: {n, mean, min, max, median, std, p50 … p99, by: {class: {…}}}}
 *   classes        {class: {num_requests, completed_requests, good_fraction}}
 *   workers        [{worker, pool, role, …}]
 *   custom         the scenario's own metrics
 *   warnings       [text]
 * totals, distributions, gauges and custom are transparent for flat names. A result that does not
 * exist for a run (no SLO, no speculation, no window) is null, not absent.
 */
#ifndef AISIM_METRICS_REPORT_H
#define AISIM_METRICS_REPORT_H

#include "metrics/recorder.h"
#include "metrics/results.h"

/** What the report says about the run besides its measurements. NULL texts become null. */
typedef struct aisim_report_meta {
    const char *version, *scenario, *config_digest;
    uint64_t seed;
    const char *interrupted; /**< reason of an early end, NULL = complete */
} aisim_report_meta;

/** Fills *results (aisim_results_free it). Finishes the recorder's open gauges as far as the run is
 *  over; may be called while it runs for an intermediate view. */
void aisim_report_build(aisim_results *results, aisim_recorder *recorder,
                        const aisim_report_meta *meta);

/** The statistics of a distribution as an object: n … p99 and the extra percentiles. */
uint32_t aisim_report_stats(aisim_results *results, uint32_t parent, const char *key,
                            aisim_digest *digest, const double *extra, uint32_t n_extra);

/** Key of a percentile: 99.9 -> "p99.9". @return out */
char *aisim_percentile_key(double p, char *out, uint32_t size);

/** "p99.9" -> 99.9. @return AISIM_OK or AISIM_EINVAL. */
aisim_status aisim_percentile_parse(const char *key, double *out, aisim_error *err);

/* ---- definitions ------------------------------------------------------------------------------
 */

/** One line of `aisim help metrics`. Percentiles and other statistics of a distribution are not
 *  listed one by one. */
typedef struct aisim_definition {
    const char *key, *unit, *text;
} aisim_definition;

/** @return NULL behind the last one. */
const aisim_definition *aisim_definition_at(uint32_t index);
/** @return NULL when there is none of that key. */
const aisim_definition *aisim_definition_find(const char *key);

/* ---- console table ----------------------------------------------------------------------------
 */

/** A row of the table of `aisim run`: a distribution and how it is called on screen. */
typedef struct aisim_table_row {
    const char *title, *key, *unit;
} aisim_table_row;

/** @return NULL behind the last one. */
const aisim_table_row *aisim_table_row_at(uint32_t index);
/** Columns in order: title and key of the statistic ("avg", "mean"). @return NULL behind the last.
 */
typedef struct aisim_table_column {
    const char *title, *key;
} aisim_table_column;
const aisim_table_column *aisim_table_column_at(uint32_t index);

#endif
