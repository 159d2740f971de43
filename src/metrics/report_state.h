/* report_state.h - the parts of the report that have their own file. */
#ifndef AISIM_METRICS_REPORT_STATE_H
#define AISIM_METRICS_REPORT_STATE_H

#include "metrics/recorder_state.h"
#include "metrics/report.h"

/** Seconds in [from, to) in which a worker was provisioned. */
/** Time in [from, to) for which the worker is provisioned. */
int64_t aisim_report_worker_ns(const aisim_worker_sums *worker, int64_t from_ns, int64_t to_ns);
/** The same for a rank of a worker, AISIM_NONE or one that nobody provisioned: the whole time. */
int64_t aisim_report_rank_ns(const aisim_recorder *recorder, uint32_t worker, int64_t from_ns,
                             int64_t to_ns);
double aisim_report_worker_s(const aisim_worker_sums *worker, int64_t from_ns, int64_t to_ns);

/** Object {mean, peak, p99}; all null when no time was counted. */
void aisim_report_gauge(aisim_results *results, uint32_t parent, const char *key,
                        aisim_gauge *gauge);

/** a / b, NaN for b = 0. */
double aisim_report_ratio(double a, double b);

void aisim_report_distributions(aisim_results *results, aisim_recorder *recorder);
void aisim_report_classes(aisim_results *results, const aisim_recorder *recorder);
void aisim_report_workers(aisim_results *results, aisim_recorder *recorder);
/** totals.routing (recorder_routing.c). */
void aisim_report_routing(aisim_results *results, uint32_t totals, const aisim_recorder *recorder);
void aisim_report_custom(aisim_results *results, aisim_recorder *recorder);

#endif
