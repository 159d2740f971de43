/* test_metrics_trend.c - the line through the backlog against sums over all points. */
#include "metrics/trend.h"

#include <math.h>

#include "base/rng.h"
#include "check.h"

enum { POINTS = 400 };

/* Least squares over kept points. */
static double growth_of(const double t[], const double b[], int n)
{
    double mean_t = 0, mean_b = 0, tt = 0, tb = 0;
    for (int i = 0; i < n; i++) {
        mean_t += t[i] / n;
        mean_b += b[i] / n;
    }
    for (int i = 0; i < n; i++) {
        tt += (t[i] - mean_t) * (t[i] - mean_t);
        tb += (t[i] - mean_t) * (b[i] - mean_b);
    }
    return tb / tt * (t[n - 1] - t[0]) / n;
}

static void test_line(void)
{
    aisim_rng rng = aisim_rng_named(3, "trend");
    aisim_trend trend = {0};
    double t[POINTS], b[POINTS];
    int64_t now_ns = INT64_C(5000000000);
    uint64_t in_flight = 0;
    for (int i = 0; i < POINTS; i++) {
        now_ns += (int64_t)aisim_rng_below(&rng, 1000000000);
        t[i] = (double)(now_ns - INT64_C(5000000000)) / 1e9;
        b[i] = (double)in_flight;
        aisim_trend_arrive(&trend, now_ns);
        in_flight++;
        while (in_flight > 0 && aisim_rng_below(&rng, 3) > 0) {
            aisim_trend_leave(&trend);
            in_flight--;
        }
    }
    CHECK(fabs(aisim_trend_judge(&trend).growth_ratio - growth_of(t, b, POINTS)) < 1e-9);
    CHECK(aisim_trend_judge(&trend).stable);
}

static void test_overload(void)
{
    aisim_trend trend = {0}; /* of four arrivals one leaves */
    for (int i = 0; i < 100; i++) {
        CHECK(isnan(aisim_trend_judge(&trend).growth_ratio)); /* too few */
        aisim_trend_arrive(&trend, (int64_t)i * 1000000);
        if (i % 4 == 3) {
            aisim_trend_leave(&trend);
        }
    }
    aisim_trend_verdict verdict = aisim_trend_judge(&trend);
    CHECK(fabs(verdict.growth_ratio - 0.75) < 0.01);
    CHECK(!verdict.stable);
}

static void test_all_at_once(void)
{
    aisim_trend trend = {0}; /* no time passes: no line */
    for (int i = 0; i < 200; i++) {
        aisim_trend_arrive(&trend, 7);
    }
    CHECK(isnan(aisim_trend_judge(&trend).growth_ratio));
    CHECK(aisim_trend_judge(&trend).stable);
}

int main(void)
{
    test_line();
    test_overload();
    test_all_at_once();
    return check_done();
}
