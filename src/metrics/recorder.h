/* recorder.h - the observer behind the report: it listens, sums, and keeps nothing per live request
 * but the token gaps it cannot attribute yet (gaps.h).
 *
 *     aisim_recorder_config config;
 *     aisim_recorder_config_default(&config);
 *     aisim_recorder *recorder = aisim_recorder_new(&config);
 *     aisim_recorder_worker(recorder, …);             // each worker, in order of its number
 *     observers->list[observers->n++] = aisim_recorder_observer(recorder);
 *     … run …
 *     aisim_recorder_finish(recorder, t_end);          // RUN_END does it too
 *     aisim_report *report = aisim_report_build(recorder, &meta);   // report.h
 *
 * Definitions (spec/report.md §3):
 *   measured   request of the profile phase that arrived in [from, to) of the window, if there is
 * one cohort     measured requests that completed; only they enter latencies, tokens, ratios
 *   interval   of rates, gauges, worker time: [start, last cohort completion), or from the first
 *              arrival of a cohort request, or the window; chosen by `duration`
 * Sums of scheduler events run over all measured requests, ended or not (UNFINISHED events).
 * Pass figures (scheduler.*) count passes that end behind the start, within the window if any.
 * Measurement starts at measurement_start_ns, or at the phase events to "barrier" and "profile". */
#ifndef AISIM_METRICS_RECORDER_H
#define AISIM_METRICS_RECORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "aisim/events.h"
#include "metrics/custom.h"
#include "metrics/record.h"

typedef struct aisim_recorder aisim_recorder;

typedef enum {
    AISIM_DURATION_MEASUREMENT, /**< default */
    AISIM_DURATION_OBSERVATION,
    AISIM_DURATION_WINDOW
} aisim_duration;

/** "measurement", "observation", "window". */
const char *aisim_duration_text(aisim_duration duration);
aisim_status aisim_duration_parse(const char *text, aisim_duration *out, aisim_error *err);

enum { AISIM_MAX_EXTRA_PERCENTILES = 8 };

/** Receives every finished request of any phase once, in the order of the ends, and at the end of
 * the run those in flight. The record and its texts are valid during the call. */
typedef void (*aisim_record_sink)(void *context, const aisim_record *record);

/** Fills what only the workload knows (play, lane, names, ideal reuse, overlaps). Texts must live
 *  until the sink has returned. */
typedef void (*aisim_record_annotate)(void *context, const aisim_request *request,
                                      aisim_record *record);

typedef struct aisim_recorder_config {
    aisim_percentile_rule rule;
    uint32_t exact_limit; /**< distinct values of a distribution; 0 = AISIM_DIGEST_LIMIT */
    double extra_percentiles[AISIM_MAX_EXTRA_PERCENTILES];
    uint32_t n_extra_percentiles;
    int64_t measurement_start_ns; /**< 0 */
    aisim_duration duration;
    int64_t window_from_ns, window_to_ns; /**< [from, to); -1 = no window */
    aisim_slo slo;                        /**< for classes without their own; AISIM_SLO_NONE */
    bool strict_slo;                      /**< report whether the means meet `slo` */
    aisim_record_sink sink;               /**< NULL = no request log */
    void *sink_context;
    aisim_record_annotate annotate; /**< NULL allowed */
    void *annotate_context;
} aisim_recorder_config;

void aisim_recorder_config_default(aisim_recorder_config *config);

aisim_recorder *aisim_recorder_new(const aisim_recorder_config *config);
void aisim_recorder_free(aisim_recorder *recorder); /**< NULL allowed */

/** What to put into the observer list of the simulation. */
aisim_observer aisim_recorder_observer(aisim_recorder *recorder);

/** Hands one event over; what the observer calls. */
void aisim_recorder_event(aisim_recorder *recorder, const aisim_event *event);

/* ---- what the events do not tell ------------------------------------------------------------- */

typedef struct aisim_recorder_worker_info {
    const char *pool, *role; /**< copied; role: "aggregated", "prefill", "decode" */
    double gpus;             /**< per worker */
    uint32_t first_rank, ranks;
    uint64_t blocks;         /**< KV blocks of one rank; the level is 0 of blocks at first */
    uint32_t block_size;     /**< tokens of one, 0 = unknown */
    uint64_t batched_tokens; /**< budget of one pass of one rank, 0 = unknown */
    int64_t from_ns;         /**< when it joined, 0 = with the run */
    bool provisioned;        /**< paid for from then on */
} aisim_recorder_worker_info;

/** The next worker, numbered from 0. */
void aisim_recorder_worker(aisim_recorder *recorder, const aisim_recorder_worker_info *info);

/** From t on the worker is paid for or not. WORKER_STATE events call this: starting, ready and
 *  draining workers are provisioned, drained and stopped ones are not. */
void aisim_recorder_provision(aisim_recorder *recorder, uint32_t worker, int64_t t_ns, bool on);

/** Name of a traffic class, copied. */
void aisim_recorder_class(aisim_recorder *recorder, uint16_t class_id, const char *name);

/** Bounds for one class instead of those of the configuration. */
void aisim_recorder_class_slo(aisim_recorder *recorder, uint16_t class_id, const aisim_slo *slo);

/** Ideal reuse of a request that has ended; call it in the terminal callback of the client. Counts
 *  only for the cohort. Not for a request whose ideal_reused_tokens were set by annotate. */
void aisim_recorder_add_ideal(aisim_recorder *recorder, const aisim_request *request,
                              uint32_t ideal_tokens);

/** Requests that were planned and never sent. */
void aisim_recorder_add_never_issued(aisim_recorder *recorder, uint64_t n);

/** One play by outcome and duration (NaN = none), for workloads that emit no PLAY events: those are
 *  counted by themselves, from play.start (not before the measurement start) to play.end. */
void aisim_recorder_add_play(aisim_recorder *recorder, const char *status, double e2e_ms);

/** A sentence for `warnings` of the report; equal ones are kept once. */
void aisim_recorder_warn(aisim_recorder *recorder, const char *text);

/** The scenario's own metrics; owned by the recorder. */
aisim_custom *aisim_recorder_custom(aisim_recorder *recorder);

/** Makes a report of what has happened until t (now) possible while the run goes on: gauges count
 * up to the end of the interval as it stands; token gaps that wait for their request are not in it.
 * Changes no figure of the report at the end. */
void aisim_recorder_peek(aisim_recorder *recorder, int64_t t_ns);

/** Closes gaps and gauges at t, the end of the run. The first call counts. */
void aisim_recorder_finish(aisim_recorder *recorder, int64_t t_ns);

/* ---- reading ----------------------------------------------------------------------------------
 */

/** Is this request measured? (also before its end) */
bool aisim_recorder_measured(const aisim_recorder *recorder, const aisim_request *request);

/** Fills the record of a live request as far as it goes at t, with its names; for other logs. Texts
 *  as for the sink. @return t in ms after the measurement start */
double aisim_recorder_name(const aisim_recorder *recorder, const aisim_request *request,
                           int64_t t_ns, aisim_record *out);

/** The interval of rates and gauges as it stands. */
void aisim_recorder_interval(const aisim_recorder *recorder, int64_t *from_ns, int64_t *to_ns);

/** Part of the cohort's tokens reused at first admission that came from the host tier. */
uint64_t aisim_recorder_host_reused(const aisim_recorder *recorder);

/** Distribution over the cohort by its key (ttft_ms, …, token_gap_ms) or over passes and plays
 *  (pass_tokens, pass_requests, pass_ms, play_e2e_ms), of one class when class_id >= 0. NULL when there is none of that name or class. Owned by the recorder. */
aisim_digest *aisim_recorder_distribution(aisim_recorder *recorder, const char *key,
                                          int32_t class_id);

#endif
