/* test_metrics_digest.c - percentiles, sums, sketches, gauges against plain computations. */
#include <stdlib.h>

#include "base/rng.h"
#include "check.h"
#include "metrics/gauge.h"
#include "metrics/report.h"

enum { N = 5000 };

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* report §2: "values 1..10: nearest p50 = 6, linear 5.5; p99 nearest 10, linear 9.91". */
static void the_two_rules_on_one_to_ten(void)
{
    aisim_digest linear, nearest;
    aisim_digest_init(&linear, AISIM_PERCENTILE_LINEAR, 0);
    aisim_digest_init(&nearest, AISIM_PERCENTILE_NEAREST, 0);
    for (int i = 10; i >= 1; i--) {
        aisim_digest_add(&linear, i, 1);
        aisim_digest_add(&nearest, i, 1);
    }
    CHECK(aisim_digest_percentile(&linear, 50) == 5.5);
    CHECK(aisim_digest_percentile(&nearest, 50) == 6);
    CHECK_NEAR(aisim_digest_percentile(&linear, 99), 9.91, 1e-12);
    CHECK(aisim_digest_percentile(&nearest, 99) == 10);
    aisim_digest_clear(&linear);
    CHECK(aisim_digest_percentile(&linear, 50) == 0);
    aisim_digest_clear(&nearest);
}

static void an_empty_digest_is_all_zero(void)
{
    aisim_digest digest;
    aisim_stats stats;
    for (int rule = 0; rule < 3; rule++) {
        aisim_digest_init(&digest, (aisim_percentile_rule)rule, 0);
        aisim_digest_add(&digest, 7, 0);
        aisim_digest_stats(&digest, &stats);
        CHECK(stats.n == 0 && stats.mean == 0 && stats.max == 0 && stats.p99 == 0 &&
              stats.std == 0);
        CHECK(aisim_digest_share(&digest, 99) == 0);
        aisim_digest_clear(&digest);
    }
}

/* Counts for histograms: exact with the samples, off by a bucket's width with a sketch. */
static void values_up_to_a_bound_are_counted(void)
{
    for (int rule = 0; rule < 3; rule++) {
        aisim_digest digest;
        aisim_digest_init(&digest, (aisim_percentile_rule)rule, 0);
        CHECK(aisim_digest_at_most(&digest, 1e9) == 0 && aisim_digest_sum(&digest) == 0);
        for (int i = -500; i <= 500; i++) {
            aisim_digest_add(&digest, i * 10, 2);
        }
        CHECK(aisim_digest_at_most(&digest, -5000.5) == 0);
        CHECK(aisim_digest_at_most(&digest, 5000) == 2002);
        CHECK(aisim_digest_at_most(&digest, 4999) == 2000);
        CHECK(aisim_digest_at_most(&digest, 0) == 1002);
        CHECK(aisim_digest_at_most(&digest, 1005) == 2 * 601);
        CHECK(aisim_digest_at_most(&digest, -995) == 2 * 401);
        CHECK_NEAR(aisim_digest_sum(&digest), 0, 1e-9);
        aisim_digest_add(&digest, 1000, 3);
        CHECK_NEAR(aisim_digest_sum(&digest), 3000, 1e-9);
        if (rule != AISIM_PERCENTILE_SKETCH) { /* equality counts */
            CHECK(aisim_digest_at_most(&digest, 1000) == 2 * 601 + 3);
        }
        aisim_digest_clear(&digest);
    }
}

/* A weight stands for that many equal values, under every rule. */
static void weights_are_repetitions(void)
{
    aisim_rng rng = aisim_rng_named(1, "weights");
    for (int rule = 0; rule < 3; rule++) {
        aisim_digest heavy, single;
        aisim_stats a, b;
        aisim_digest_init(&heavy, (aisim_percentile_rule)rule, 0);
        aisim_digest_init(&single, (aisim_percentile_rule)rule, 0);
        for (int i = 0; i < 300; i++) {
            double value = (double)aisim_rng_below(&rng, 90) / 7 - 3;
            uint64_t weight = aisim_rng_below(&rng, 6);
            aisim_digest_add(&heavy, value, weight);
            for (uint64_t k = 0; k < weight; k++) {
                aisim_digest_add(&single, value, 1);
            }
        }
        aisim_digest_stats(&heavy, &a);
        aisim_digest_stats(&single, &b);
        CHECK(a.n == b.n && a.min == b.min && a.max == b.max && a.p90 == b.p90 && a.p99 == b.p99);
        CHECK_NEAR(a.mean, b.mean, 1e-12);
        CHECK_NEAR(a.std, b.std, 1e-10);
        aisim_digest_clear(&heavy);
        aisim_digest_clear(&single);
    }
}

/* Exact results are the same bits for every order, however often they are read in between. */
static void the_order_of_additions_does_not_matter(void)
{
    static double values[N];
    aisim_rng rng = aisim_rng_named(2, "order");
    aisim_digest forth, back;
    aisim_stats a, b;
    aisim_digest_init(&forth, AISIM_PERCENTILE_LINEAR, 0);
    aisim_digest_init(&back, AISIM_PERCENTILE_LINEAR, 0);
    for (int i = 0; i < N; i++) {
        values[i] = aisim_rng_exponential(&rng, 10) * (i % 3 == 0 ? 1e9 : 1);
    }
    for (int i = 0; i < N; i++) {
        aisim_digest_add(&forth, values[i], 1);
        aisim_digest_add(&back, values[N - 1 - i], 1);
        if (i % 100 == 0) {
            aisim_digest_stats(&back, &b);
        }
    }
    aisim_digest_stats(&forth, &a);
    aisim_digest_stats(&back, &b);
    CHECK(memcmp(&a.mean, &b.mean, sizeof a.mean) == 0);
    CHECK(memcmp(&a.std, &b.std, sizeof a.std) == 0);
    qsort(values, N, sizeof *values, by_value);
    CHECK(a.min == values[0] && a.max == values[N - 1]);
    double k = (N - 1) * 0.9;
    int whole = (int)k;
    double want = values[whole] + (values[whole + 1] - values[whole]) * (k - whole);
    CHECK_NEAR(a.p90, want, 1e-9 * want);
    aisim_digest_clear(&forth);
    aisim_digest_clear(&back);
}

/* Sketch: percentiles within 0.1 % of `nearest`; n, min, max exact, mean and std very nearly. */
static void a_sketch_stays_within_a_thousandth(void)
{
    static double values[N];
    static const double ps[] = {0, 1, 5, 25, 50, 75, 90, 99, 99.9, 100};
    aisim_rng rng = aisim_rng_named(3, "sketch");
    aisim_digest sketch, exact;
    aisim_stats a, b;
    aisim_digest_init(&sketch, AISIM_PERCENTILE_SKETCH, 0);
    aisim_digest_init(&exact, AISIM_PERCENTILE_NEAREST, 0);
    for (int i = 0; i < N; i++) {
        double size = exp(aisim_rng_unit(&rng) * 40 - 20);
        values[i] = i % 10 == 0 ? 0 : i % 4 == 0 ? -size : size;
        aisim_digest_add(&sketch, values[i], 1 + (uint64_t)i % 3);
        aisim_digest_add(&exact, values[i], 1 + (uint64_t)i % 3);
    }
    double worst = 0;
    for (uint32_t i = 0; i < sizeof ps / sizeof *ps; i++) {
        double want = aisim_digest_percentile(&exact, ps[i]);
        double got = aisim_digest_percentile(&sketch, ps[i]);
        worst = fmax(worst, want == 0 ? fabs(got) : fabs(got - want) / fabs(want));
    }
    CHECK(worst <= 0.001);
    CHECK(fabs(aisim_digest_share(&sketch, 99) / aisim_digest_share(&exact, 99) - 1) <= 0.001);
    aisim_digest_stats(&sketch, &a);
    aisim_digest_stats(&exact, &b);
    CHECK(a.sketched && !b.sketched);
    CHECK(a.n == b.n && a.min == b.min && a.max == b.max);
    CHECK_NEAR(a.mean, b.mean, 1e-12 * fabs(b.mean));
    CHECK_NEAR(a.std, b.std, 1e-9 * b.std);
    aisim_digest_clear(&sketch);
    aisim_digest_clear(&exact);
}

/* Few distinct values stay exact however many there are; many turn into a sketch by themselves. */
static void the_limit_counts_distinct_values(void)
{
    aisim_digest digest;
    aisim_rng rng = aisim_rng_named(4, "limit");
    aisim_digest_init(&digest, AISIM_PERCENTILE_LINEAR, 100);
    for (int i = 0; i < 10000; i++) {
        aisim_digest_add(&digest, (double)aisim_rng_below(&rng, 40), 1);
    }
    CHECK(digest.sketch == NULL && digest.n == 10000);
    for (int i = 0; i < 200; i++) {
        aisim_digest_add(&digest, 100 + i, 1);
    }
    CHECK(digest.sketch != NULL && digest.n == 10200);
    CHECK(digest.max == 299 && digest.min == 0);
    aisim_digest_clear(&digest);
}

/* Merging is adding, between any two representations. */
static void a_merge_is_the_sum(void)
{
    for (int kind = 0; kind < 4; kind++) {
        aisim_rng rng = aisim_rng_named(5, "merge");
        aisim_digest left, right, all;
        aisim_stats a, b;
        aisim_digest_init(&left, AISIM_PERCENTILE_NEAREST, kind & 1 ? 50 : 0);
        aisim_digest_init(&right, AISIM_PERCENTILE_NEAREST, kind & 2 ? 50 : 0);
        aisim_digest_init(&all, AISIM_PERCENTILE_NEAREST, 0);
        for (int i = 0; i < 2000; i++) {
            double value = aisim_rng_normal(&rng) * 20 + 100;
            aisim_digest_add(i % 3 == 0 ? &left : &right, value, 2);
            aisim_digest_add(&all, value, 2);
        }
        aisim_digest_merge(&left, &right);
        aisim_digest_stats(&left, &a);
        aisim_digest_stats(&all, &b);
        CHECK(a.n == b.n && a.min == b.min && a.max == b.max);
        CHECK_NEAR(a.mean, b.mean, 1e-10);
        CHECK_NEAR(a.std, b.std, 1e-9);
        CHECK_NEAR(a.p95, b.p95, kind == 0 ? 0 : 0.001 * b.p95);
        aisim_digest_clear(&left);
        aisim_digest_clear(&right);
        aisim_digest_clear(&all);
    }
}

static void percentiles_have_names(void)
{
    char key[32];
    double p;
    aisim_error err = {0};
    CHECK_STR(aisim_percentile_key(99.9, key, sizeof key), "p99.9");
    CHECK_STR(aisim_percentile_key(5, key, sizeof key), "p5");
    CHECK(aisim_percentile_parse("p99.9", &p, &err) == AISIM_OK && p == 99.9);
    CHECK(aisim_percentile_parse("25", &p, &err) == AISIM_OK && p == 25);
    CHECK(aisim_percentile_parse("p", &p, NULL) == AISIM_EINVAL);
    CHECK(aisim_percentile_parse("p101", &p, NULL) == AISIM_EINVAL);
    CHECK(aisim_percentile_parse("p9x", &p, NULL) == AISIM_EINVAL);
}

/* report §3 kv_usage: the share of time, not of changes. */
static void a_gauge_weighs_with_time(void)
{
    aisim_gauge gauge;
    aisim_gauge_stats stats;
    aisim_gauge_init(&gauge);
    aisim_gauge_end(&gauge, 50);
    aisim_gauge_read(&gauge, &stats);
    CHECK(stats.held_ns == 0 && stats.mean == 0);
    aisim_gauge_set(&gauge, 100, 4);
    aisim_gauge_set(&gauge, 200, 9);
    aisim_gauge_set(&gauge, 200, 8); /* 9 held for no time */
    aisim_gauge_begin(&gauge, 250);
    aisim_gauge_set(&gauge, 299, 1);
    aisim_gauge_end(&gauge, 300);
    aisim_gauge_end(&gauge, 350);
    aisim_gauge_read(&gauge, &stats);
    CHECK_EQ(stats.held_ns, 100);
    CHECK_NEAR(stats.mean, (8 * 49 + 1 * 51) / 100.0, 1e-12);
    CHECK(stats.peak == 8 && stats.p99 == 8);
    aisim_gauge_set(&gauge, 350, 0);
    aisim_gauge_end(&gauge, 350 + 4800); /* 8 has held exactly 1 % of 4,900 */
    aisim_gauge_read(&gauge, &stats);
    CHECK(stats.p99 == 1 && stats.peak == 8);
    aisim_gauge_clear(&gauge);
}

/* Parts of a whole are counted one by one; the figures are those of their shares. */
static void a_share_is_its_quotient(void)
{
    aisim_gauge parts, values;
    aisim_gauge_init(&parts);
    aisim_gauge_init(&values);
    uint64_t whole = 7;
    for (int64_t t = 0; t < 2000; t++) {
        whole = t == 300   ? 1000
                : t == 600 ? 2 * (uint64_t)AISIM_GAUGE_PARTS
                : t == 900 ? 31
                           : whole;
        uint64_t part = (uint64_t)(t * t) % (whole + 1);
        aisim_gauge_set_share(&parts, 10 * t, part, whole);
        aisim_gauge_set(&values, 10 * t, (double)part / (double)whole);
        if (t == 100) {
            aisim_gauge_begin(&parts, 1005);
            aisim_gauge_begin(&values, 1005);
        }
    }
    aisim_gauge_set(&parts, 20000, 0.5); /* a plain value again */
    aisim_gauge_set(&values, 20000, 0.5);
    aisim_gauge_end(&parts, 20100);
    aisim_gauge_end(&values, 20100);
    aisim_gauge_stats a, b;
    aisim_gauge_read(&parts, &a);
    aisim_gauge_read(&values, &b);
    CHECK_EQ(a.held_ns, b.held_ns);
    CHECK(a.mean == b.mean && a.peak == b.peak && a.p99 == b.p99);
    aisim_gauge_clear(&parts);
    aisim_gauge_clear(&values);
}

/* What shares the upper bits of its range is sorted all the same. */
static void crowds_are_sorted(void)
{
    enum { CROWD = 20000 };
    aisim_digest digest;
    aisim_digest_init(&digest, AISIM_PERCENTILE_NEAREST, 0);
    aisim_digest_add(&digest, 1e300, 1);
    aisim_digest_add(&digest, -1e300, 1);
    for (uint64_t i = 0; i < CROWD; i++) { /* 1 + k ulp, every k once, in a scattered order */
        aisim_digest_add(&digest, 1 + (double)(i * 7919 % CROWD) * 0x1p-52, 1);
    }
    bool ascending = true;
    for (uint32_t k = 1; k <= CROWD; k++) { /* behind -1e300 */
        double want = 1 + (double)(k - 1) * 0x1p-52;
        ascending = ascending && aisim_digest_percentile(&digest, 100.0 * k / (CROWD + 1)) == want;
        k += k > 100 && k < CROWD - 100 ? 997 : 0;
    }
    CHECK(ascending);
    CHECK(digest.n == CROWD + 2 && digest.samples.len == CROWD + 2);
    aisim_digest_clear(&digest);
}

int main(void)
{
    the_two_rules_on_one_to_ten();
    an_empty_digest_is_all_zero();
    values_up_to_a_bound_are_counted();
    weights_are_repetitions();
    the_order_of_additions_does_not_matter();
    a_sketch_stays_within_a_thousandth();
    the_limit_counts_distinct_values();
    a_merge_is_the_sum();
    percentiles_have_names();
    a_gauge_weighs_with_time();
    a_share_is_its_quotient();
    crowds_are_sorted();
    return check_done();
}
