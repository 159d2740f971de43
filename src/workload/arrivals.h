/* arrivals.h - when units of traffic start, whatever the server does (traffic 3.1).
 *
 * A process is immutable; whoever uses it keeps a cursor and a stream. Times are counted from the
 * start of the process. The n-th arrival of a constant rate is n / rate (no drift); random gaps are
 * rounded one by one. Rates that change smoothly are drawn by thinning against their maximum. */
#ifndef AISIM_WORKLOAD_ARRIVALS_H
#define AISIM_WORKLOAD_ARRIVALS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"

/** X(name in C, name outside): what a, b, c and d of the process mean. Rates are per second. */
#define AISIM_ARRIVAL_KINDS(X)                                                                     \
    X(POISSON, "poisson")        /* rate a: exponential gaps */                                    \
    X(GAMMA, "gamma")            /* rate a, smoothness (shape) b: CV = 1/sqrt(b) */                \
    X(WEIBULL, "weibull")        /* rate a, shape b */                                             \
    X(CONSTANT, "constant_rate") /* rate a, the first at 0 */                                      \
    X(BURST, "burst")            /* a at once every b ns, the first at 0; a = 0: all at 0 */       \
    X(AT_ONCE, "all_at_once")    /* a at 0, then none */                                           \
    X(SQUARE, "square")          /* rate a + b for the part d of each period of c ns, else a */    \
    X(SINE, "sine")              /* rate a + b sin(2 pi t / c), 0 <= b <= a */                     \
    X(SCHEDULE, "schedule")      /* rate values[i] from times[i] on */                             \
    X(RAMP, "ramp")              /* rate linear between (times[i], values[i]), then the last */    \
    X(TRACE, "trace")            /* at times[i] */

typedef enum {
#define X(name, text) AISIM_ARRIVALS_##name,
    AISIM_ARRIVAL_KINDS(X)
#undef X
        AISIM_ARRIVAL_KIND_COUNT
} aisim_arrival_kind;

/** "poisson", …; never NULL. */
const char *aisim_arrival_kind_name(aisim_arrival_kind kind);

typedef struct aisim_arrivals {
    aisim_arrival_kind kind;
    double a, b, c, d;
    uint32_t n;     /**< times */
    int64_t *times; /**< ascending, ns; owned */
    double *values; /**< n rates; owned, NULL for TRACE */
} aisim_arrivals;

/** Frees the lists. */
void aisim_arrivals_deinit(aisim_arrivals *arrivals);

/** Where a user of a process stands. Zero-initialise. */
typedef struct aisim_arrival_cursor {
    int64_t t_ns; /**< last arrival */
    uint64_t n;   /**< arrivals so far */
} aisim_arrival_cursor;

/** The next arrival into cursor->t_ns, never before the last one; AISIM_NEVER = beyond 146 years.
 *  @return false when there are no more. O(1) on average, SCHEDULE and RAMP O(n). */
bool aisim_arrivals_next(const aisim_arrivals *arrivals, aisim_rng *rng,
                         aisim_arrival_cursor *cursor);

/** Value at t of the line through (times[i], values[i]): the first before, the last behind; at a
 *  time given twice, the later one. n >= 1. O(n) */
double aisim_line_at(const int64_t *times, const double *values, uint32_t n, int64_t t_ns);

#endif
