/* trend.h - does the backlog grow? (spec/cli.md "verdict")
 *
 * Every measured arrival is a point (time, requests in flight before it). A line through the points
 * by least squares gives the growth over all arrivals; a server that keeps up has none, one that is
 * overloaded collects a share of what arrives. Memory is a few numbers, a point costs O(1). */
#ifndef AISIM_METRICS_TREND_H
#define AISIM_METRICS_TREND_H

#include <stdbool.h>
#include <stdint.h>

enum { AISIM_TREND_MIN_ARRIVALS = 100 /**< fewer say nothing */ };

typedef struct aisim_trend {
    uint64_t arrivals;
    uint64_t in_flight;
    int64_t first_ns, last_ns;
    double mean_t, mean_b;                  /**< seconds since the first arrival; requests */
    double moment_tt, moment_tb, moment_bb; /**< sums of products of deviations */
} aisim_trend;

/** A measured request arrives. Times never decrease. O(1). */
void aisim_trend_arrive(aisim_trend *trend, int64_t t_ns);

/** A measured request has ended. O(1). */
void aisim_trend_leave(aisim_trend *trend);

typedef struct aisim_trend_verdict {
    double growth_ratio; /**< growth along the line / arrivals; NaN below the minimum */
    bool stable;         /**< false: more than 5 % of the arrivals stay behind, and the growth is
                              above twice the spread of the points around the line */
} aisim_trend_verdict;

aisim_trend_verdict aisim_trend_judge(const aisim_trend *trend);

#endif
