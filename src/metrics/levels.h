/* levels.h - KV usage over the reported interval, per rank and for the whole run.
 *
 * Changes of level arrive in the order of the events, but the interval that is reported often ends
 * at the last completion of the cohort, which is known only later. Changes therefore wait in a log
 * and are folded into gauges up to a time that is certain to belong to the interval. Entries of one
 * rank are in order; entries of different ranks may arrive out of order (passes run ahead between
 * events) and are sorted when folded. Rules: spec/report.md §3 kv_usage. */
#ifndef AISIM_METRICS_LEVELS_H
#define AISIM_METRICS_LEVELS_H

#include <stdbool.h>
#include <stdint.h>

#include "metrics/gauge.h"

typedef struct aisim_level { /* blocks of a rank from t on */
    int64_t t_ns;
    uint64_t used, cached, total;
    uint32_t rank;
    uint32_t sequence; /* keeps equal times in order of arrival */
} aisim_level;

typedef struct aisim_level_gauges {
    uint64_t used, cached, total; /**< at the end of what was folded */
    aisim_gauge usage;            /**< used / total */
    aisim_gauge share;            /**< cached / total: reusable, not in use */
} aisim_level_gauges;

typedef struct aisim_levels {
    AISIM_ARRAY(aisim_level) log;
    AISIM_ARRAY(aisim_level_gauges) ranks;
    aisim_level_gauges sum; /* of all ranks, from the second one on: aisim_levels_sum */
    bool begun;             /* gauges count since the begin of the interval */
} aisim_levels;

void aisim_levels_init(aisim_levels *levels);
void aisim_levels_free(aisim_levels *levels);

/** From t on the rank has these blocks. O(1). @return entries that wait in the log. */
uint32_t aisim_levels_set(aisim_levels *levels, int64_t t_ns, uint32_t rank, uint64_t used,
                          uint64_t cached, uint64_t total);

/** Nothing before t belongs to the interval: applies what waits without counting time. */
void aisim_levels_forget(aisim_levels *levels);

/** The interval begins at from and lasts at least until to: folds the entries before to. */
void aisim_levels_fold(aisim_levels *levels, int64_t from_ns, int64_t to_ns);

/** Counts what holds up to t, which is not before what was folded: the gauges may be read although
 *  the interval goes on. */
void aisim_levels_peek(aisim_levels *levels, int64_t to_ns);

/** Gauges of all ranks together. */
aisim_level_gauges *aisim_levels_sum(aisim_levels *levels);

/** The interval is [from, to): folds, counts up to its end, drops what lies behind. */
void aisim_levels_finish(aisim_levels *levels, int64_t from_ns, int64_t to_ns);

#endif
