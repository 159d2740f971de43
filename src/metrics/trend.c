/* trend.c - running means and products of deviations, one update per arrival. */
#include "metrics/trend.h"

#include <math.h>

#include "base/clock.h"

#define SHARE_OF_ARRIVALS 0.05
#define SPREADS 2.0

void aisim_trend_arrive(aisim_trend *trend, int64_t t_ns)
{
    if (trend->arrivals == 0) {
        trend->first_ns = t_ns;
    }
    trend->last_ns = t_ns;
    trend->arrivals++;
    double t = aisim_s_from_ns(t_ns - trend->first_ns), b = (double)trend->in_flight;
    double n = (double)trend->arrivals;
    double before_t = t - trend->mean_t, before_b = b - trend->mean_b;
    trend->mean_t += before_t / n;
    trend->mean_b += before_b / n;
    trend->moment_tt += before_t * (t - trend->mean_t);
    trend->moment_tb += before_t * (b - trend->mean_b);
    trend->moment_bb += before_b * (b - trend->mean_b);
    trend->in_flight++;
}

void aisim_trend_leave(aisim_trend *trend)
{
    trend->in_flight -= trend->in_flight > 0;
}

aisim_trend_verdict aisim_trend_judge(const aisim_trend *trend)
{
    aisim_trend_verdict verdict = {.growth_ratio = (double)NAN, .stable = true};
    if (trend->arrivals < AISIM_TREND_MIN_ARRIVALS || !(trend->moment_tt > 0.0)) {
        return verdict;
    }
    double slope = trend->moment_tb / trend->moment_tt, n = (double)trend->arrivals;
    double growth = slope * aisim_s_from_ns(trend->last_ns - trend->first_ns);
    double around = trend->moment_bb - slope * trend->moment_tb; /* sum of squares */
    double spread = around > 0.0 ? sqrt(around / n) : 0.0;
    verdict.growth_ratio = growth / n;
    verdict.stable = !(verdict.growth_ratio > SHARE_OF_ARRIVALS && growth > SPREADS * spread + 1.0);
    return verdict;
}
