/* test_rng.c - the generator against published numbers, streams and distributions (A7). */
#include "base/rng.h"
#include "check.h"

enum { DRAWS = 200000 };

/* The published sequence of the 64-bit splittable generator for the seed 1234567, and for 0. */
static void mix_is_the_published_generator(void)
{
    static const uint64_t want[] = {UINT64_C(6457827717110365317), UINT64_C(3203168211198807973),
                                    UINT64_C(9817491932198370423), UINT64_C(4593380528125082431),
                                    UINT64_C(16408922859458223821)};
    aisim_rng rng = {1234567};
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(aisim_rng_next(&rng), want[i]);
    }
    CHECK_EQ(aisim_mix64(0), UINT64_C(0xE220A8397B1DCDAF));
}

/* spec/mtp.md §2: u(step, j) of seed 42, rank 0, request 0; rates 1, 0.5 accept the first draft
 * without a draw and the second where u < 0.5. */
static void draws_of_the_speculation_example(void)
{
    static const int accepted[] = {1, 1, 1, 1, 2, 2, 1, 1, 1, 1, 1, 2, 1, 1, 2, 1};
    uint64_t k = aisim_mix64(42 + 0);
    uint64_t r = aisim_mix64(k ^ aisim_mix64(0));
    for (uint64_t step = 0; step < 16; step++) {
        double u = (double)(aisim_mix64(r + 64 * step + 1) >> 11) * 0x1p-53;
        CHECK_EQ(u < 0.5 ? 2 : 1, accepted[step]);
    }
}

static void text_hash_is_fnv_1a(void)
{
    CHECK_EQ(aisim_hash_text(""), UINT64_C(0xcbf29ce484222325));
    CHECK_EQ(aisim_hash_text("a"), UINT64_C(0xaf63dc4c8601ec8c));
    CHECK_EQ(aisim_hash_text("foobar"), UINT64_C(0x85944171f73967e8));
    CHECK_EQ(aisim_hash_bytes("foobar\0x", 6), aisim_hash_text("foobar"));
    CHECK(aisim_hash_bytes("foobar\0x", 8) != aisim_hash_text("foobar"));
}

static void a_stream_depends_on_seed_and_name_alone(void)
{
    aisim_rng one = aisim_rng_named(7, "arrivals"), again = aisim_rng_named(7, "arrivals");
    aisim_rng other_name = aisim_rng_named(7, "lengths");
    aisim_rng other_seed = aisim_rng_named(8, "arrivals");
    uint64_t first = aisim_rng_next(&one);
    CHECK_EQ(aisim_rng_next(&again), first);
    CHECK(aisim_rng_next(&other_name) != first);
    CHECK(aisim_rng_next(&other_seed) != first);
}

static void below_is_even_and_in_range(void)
{
    aisim_rng rng = aisim_rng_named(1, "below");
    uint32_t count[6] = {0}, outside = 0;
    for (int i = 0; i < DRAWS; i++) {
        uint64_t x = aisim_rng_below(&rng, 6);
        outside += x >= 6;
        count[x < 6 ? x : 0]++;
    }
    CHECK_EQ(outside, 0);
    double chi2 = 0.0, want = DRAWS / 6.0;
    for (int i = 0; i < 6; i++) {
        chi2 += (count[i] - want) * (count[i] - want) / want;
    }
    CHECK(chi2 < 20.5); /* 5 degrees of freedom, 0.1 % */
    CHECK_EQ(aisim_rng_below(&rng, 1), 0);
    CHECK(aisim_rng_below(&rng, UINT64_MAX) < UINT64_MAX);
}

typedef double draw_fn(aisim_rng *rng, double parameter);

static double unit(aisim_rng *rng, double ignored)
{
    (void)ignored;
    return aisim_rng_unit(rng);
}

static double normal(aisim_rng *rng, double ignored)
{
    (void)ignored;
    return aisim_rng_normal(rng);
}

/* Mean within five standard errors; variance within 5 %; nothing below the lower bound. */
static void moments(draw_fn *draw, double parameter, double mean, double variance, double lowest)
{
    aisim_rng rng = aisim_rng_named(42, "moments");
    double sum = 0.0, squares = 0.0, low = INFINITY;
    for (int i = 0; i < DRAWS; i++) {
        double x = draw(&rng, parameter);
        sum += x;
        squares += (x - mean) * (x - mean);
        low = x < low ? x : low;
    }
    CHECK_NEAR(sum / DRAWS, mean, 5.0 * sqrt(variance / DRAWS));
    CHECK_NEAR(squares / DRAWS, variance, 0.05 * variance);
    CHECK(low >= lowest);
}

int main(void)
{
    mix_is_the_published_generator();
    draws_of_the_speculation_example();
    text_hash_is_fnv_1a();
    a_stream_depends_on_seed_and_name_alone();
    below_is_even_and_in_range();
    moments(unit, 0.0, 0.5, 1.0 / 12.0, 0.0);
    moments(normal, 0.0, 0.0, 1.0, -INFINITY);
    moments(aisim_rng_exponential, 2.5, 2.5, 6.25, 0.0);
    moments(aisim_rng_gamma, 4.0, 4.0, 4.0, 0.0);
    moments(aisim_rng_gamma, 1.0, 1.0, 1.0, 0.0);
    moments(aisim_rng_gamma, 0.3, 0.3, 0.3, 0.0);
    return check_done();
}
