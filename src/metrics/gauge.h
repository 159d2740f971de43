/* gauge.h - a value that holds until it is set again: time-weighted mean, peak, p99.
 *
 * The gauge watches an interval [begin, end). A value set before the interval holds at its start;
 * time before the first value does not count; a value that is replaced at the same instant has held
 * for no time and counts nowhere. p99 is the smallest value v such that values <= v held for at
 * least 99 % of the counted time (spec/report.md §3 kv_usage). Times never decrease. */
#ifndef AISIM_METRICS_GAUGE_H
#define AISIM_METRICS_GAUGE_H

#include <stdbool.h>
#include <stdint.h>

#include "metrics/digest.h"

typedef struct aisim_gauge {
    aisim_digest held; /**< value, weighted with nanoseconds */
    double value;      /**< holds since since_ns */
    int64_t since_ns;
    bool set; /**< there is a value */
    /* shares of a small whole are counted by their part and join `held` when it is asked for */
    uint64_t *parts;                   /**< nanoseconds for each part 0 .. whole; NULL = none */
    uint32_t whole, part, least, most; /**< the parts counted so far lie in [least, most] */
} aisim_gauge;

/** Largest whole whose parts are counted one by one (8 bytes each, touched where they occur). */
enum { AISIM_GAUGE_PARTS = 1 << 19 };

void aisim_gauge_init(aisim_gauge *gauge);
void aisim_gauge_clear(aisim_gauge *gauge); /**< empty, no value */

/** to, which is empty, becomes what from is. */
void aisim_gauge_copy(aisim_gauge *to, aisim_gauge *from);

/** The interval begins at t: forgets what was held, keeps the value. */
void aisim_gauge_begin(aisim_gauge *gauge, int64_t t_ns);

/** From t on the value is v. O(1). */
void aisim_gauge_set(aisim_gauge *gauge, int64_t t_ns, double value);

/** The same with v = part / whole, 0 <= part <= whole, whole > 0. */
void aisim_gauge_set_share(aisim_gauge *gauge, int64_t t_ns, uint64_t part, uint64_t whole);

/** Counts the value up to t; may be called again with a later t. */
void aisim_gauge_end(aisim_gauge *gauge, int64_t t_ns);

typedef struct aisim_gauge_stats {
    int64_t held_ns; /**< counted time; 0 = the others are undefined (and 0) */
    double mean, peak, p99;
} aisim_gauge_stats;

/** Statistics of what was counted so far: call aisim_gauge_end first. */
void aisim_gauge_read(aisim_gauge *gauge, aisim_gauge_stats *out);

#endif
