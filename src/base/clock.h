/* clock.h - virtual time: whole nanoseconds inside, milliseconds outside (A1).
 *
 * These are the only conversions in the project. Rounding is to nearest, ties away from zero. */
#ifndef AISIM_BASE_CLOCK_H
#define AISIM_BASE_CLOCK_H

#include <math.h>
#include <stdint.h>

#include "aisim/clock.h"

/** To the nearest whole number. The common case without a call into the library. */
static inline int64_t aisim_round(double x)
{
    if (x >= 0 && x < 0x1p52) {
        int64_t whole = (int64_t)x;
        return whole + (x - (double)whole >= 0.5);
    }
    return (int64_t)llround(x);
}

/** Milliseconds to nanoseconds. Anything at or above 2^62 ns (146 years) gives AISIM_NEVER. */
static inline int64_t aisim_ns_from_ms(double ms)
{
    double ns = ms * 1e6;
    if (ns >= 4.611686018427387904e18) {
        return AISIM_NEVER;
    }
    return aisim_round(ns);
}

static inline int64_t aisim_ns_from_s(double s)
{
    double ns = s * 1e9;
    if (ns >= 4.611686018427387904e18) {
        return AISIM_NEVER;
    }
    return aisim_round(ns);
}

static inline double aisim_ms_from_ns(int64_t ns)
{
    return (double)ns / 1e6;
}

static inline double aisim_s_from_ns(int64_t ns)
{
    return (double)ns / 1e9;
}

#endif
