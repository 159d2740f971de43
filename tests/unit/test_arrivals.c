/* test_arrivals.c - arrival processes without Lua: exact times, far times, lines (traffic 3.1). */
#include "base/clock.h"
#include "check.h"
#include "workload/arrivals.h"

static int64_t nth(const aisim_arrivals *process, uint32_t n)
{
    aisim_rng rng = aisim_rng_named(1, "test");
    aisim_arrival_cursor cursor = {0};
    for (uint32_t i = 0; i < n; i++) {
        if (!aisim_arrivals_next(process, &rng, &cursor)) {
            return -1;
        }
    }
    return cursor.t_ns;
}

static void constant_rates_do_not_drift(void)
{
    const aisim_arrivals third = {.kind = AISIM_ARRIVALS_CONSTANT, .a = 3};
    CHECK_EQ(nth(&third, 1), 0);
    CHECK_EQ(nth(&third, 2), 333333333);
    CHECK_EQ(nth(&third, 3000001), INT64_C(1000000000000000));
}

static void bursts(void)
{
    const aisim_arrivals twos = {.kind = AISIM_ARRIVALS_BURST, .a = 2, .b = 5};
    const aisim_arrivals all = {.kind = AISIM_ARRIVALS_BURST};
    const aisim_arrivals four = {.kind = AISIM_ARRIVALS_AT_ONCE, .a = 4};
    CHECK_EQ(nth(&twos, 2), 0);
    CHECK_EQ(nth(&twos, 3), 5);
    CHECK_EQ(nth(&twos, 7), 15);
    CHECK_EQ(nth(&all, 1000), 0);
    CHECK_EQ(nth(&four, 4), 0);
    CHECK_EQ(nth(&four, 5), -1);
}

static void far_arrivals_are_never(void)
{
    static const aisim_arrival_kind kinds[] = {AISIM_ARRIVALS_POISSON, AISIM_ARRIVALS_GAMMA,
                                               AISIM_ARRIVALS_WEIBULL, AISIM_ARRIVALS_CONSTANT};
    for (int i = 0; i < 4; i++) {
        const aisim_arrivals slow = {.kind = kinds[i], .a = 1e-300, .b = 1};
        CHECK_EQ(nth(&slow, 3), AISIM_NEVER);
    }
    const aisim_arrivals sine = {.kind = AISIM_ARRIVALS_SINE, .a = 1e-300, .b = 1e-300, .c = 1e9};
    CHECK_EQ(nth(&sine, 3), AISIM_NEVER);
}

static void lines(void)
{
    const int64_t times[] = {10, 20, 20, 40};
    const double values[] = {1, 3, 7, 5};
    CHECK(aisim_line_at(times, values, 4, 0) == 1);
    CHECK(aisim_line_at(times, values, 4, 10) == 1);
    CHECK(aisim_line_at(times, values, 4, 15) == 2);
    CHECK(aisim_line_at(times, values, 4, 20) == 7); /* a step: the later value */
    CHECK(aisim_line_at(times, values, 4, 30) == 6);
    CHECK(aisim_line_at(times, values, 4, 40) == 5);
    CHECK(aisim_line_at(times, values, 4, 99) == 5);
    CHECK(aisim_line_at(times, values, 1, 99) == 1);
}

/* 0 to 100/s over 10 s and back: 1000 arrivals, half of them in the middle half and more. */
static void ramps_are_thinned(void)
{
    int64_t times[] = {0, 10 * AISIM_NS_PER_S, 20 * AISIM_NS_PER_S};
    double values[] = {0, 100, 0};
    const aisim_arrivals ramp = {
        .kind = AISIM_ARRIVALS_RAMP, .n = 3, .times = times, .values = values};
    aisim_rng rng = aisim_rng_named(1, "test");
    aisim_arrival_cursor cursor = {0};
    int all = 0, middle = 0;
    int64_t last_ns = 0;
    while (aisim_arrivals_next(&ramp, &rng, &cursor)) {
        CHECK(cursor.t_ns >= last_ns && cursor.t_ns < 20 * AISIM_NS_PER_S);
        last_ns = cursor.t_ns;
        all++;
        middle += cursor.t_ns >= 5 * AISIM_NS_PER_S && cursor.t_ns < 15 * AISIM_NS_PER_S;
    }
    CHECK(all > 850 && all < 1150);
    CHECK(middle > 0.7 * all && middle < 0.8 * all);
}

int main(void)
{
    constant_rates_do_not_drift();
    bursts();
    far_arrivals_are_never();
    lines();
    ramps_are_thinned();
    return check_done();
}
