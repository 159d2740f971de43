/* test_clock.c - milliseconds outside, whole nanoseconds inside (A1). */
#include "base/clock.h"
#include "check.h"

static void rounds_to_the_nearest_nanosecond(void)
{
    CHECK_EQ(aisim_ns_from_ms(0.0), 0);
    CHECK_EQ(aisim_ns_from_ms(1.0), 1000000);
    CHECK_EQ(aisim_ns_from_ms(12.3456784), 12345678);
    CHECK_EQ(aisim_ns_from_ms(12.3456786), 12345679);
    CHECK_EQ(aisim_ns_from_ms(-2.5), -2500000);
    CHECK_EQ(aisim_ns_from_s(1.0), AISIM_NS_PER_S);
    /* ties away from zero; 0.5 and 1.5 ns are exact in binary after the multiplication */
    CHECK_EQ(aisim_ns_from_ms(0.5e-6), 1);
    CHECK_EQ(aisim_ns_from_ms(1.5e-6), 2);
    CHECK_EQ(aisim_ns_from_ms(-0.5e-6), -1);
}

static void far_times_are_never(void)
{
    CHECK_EQ(aisim_ns_from_ms(INFINITY), AISIM_NEVER);
    CHECK_EQ(aisim_ns_from_s(1e300), AISIM_NEVER);
    CHECK_EQ(aisim_ns_from_ms(4.611686018427387904e12), AISIM_NEVER);
    CHECK(aisim_ns_from_ms(4.6e12) < AISIM_NEVER);
}

static void there_and_back(void)
{
    for (int64_t ns = 1; ns < INT64_C(1000000000000000); ns = ns * 3 + 1) {
        CHECK_EQ(aisim_ns_from_ms(aisim_ms_from_ns(ns)), ns);
        CHECK_EQ(aisim_ns_from_s(aisim_s_from_ns(ns)), ns);
    }
}

/* Away from zero at ties, also where adding a half would round by itself. */
static void test_round(void)
{
    static const double values[] = {0,    0.5,    1.5,    2.5,     0.49999999999999994,
                                    -0.5, -2.5,   1e-300, 1e6 / 3, 4503599627370495.5,
                                    1e15, 0x1p52, 0x1p53, 0x1p60,  -4503599627370495.5};
    for (uint32_t i = 0; i < sizeof values / sizeof *values; i++) {
        CHECK(aisim_round(values[i]) == (int64_t)llround(values[i]));
    }
}

int main(void)
{
    test_round();
    rounds_to_the_nearest_nanosecond();
    far_times_are_never();
    there_and_back();
    return check_done();
}
