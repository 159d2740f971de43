/* rng.c - named streams and the distributions that need nothing but a stream. */
#include "base/rng.h"

#include <math.h>
#include <string.h>

uint64_t aisim_hash_bytes(const void *bytes, uint64_t size)
{
    const unsigned char *at = bytes;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (uint64_t i = 0; i < size; i++) {
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

uint64_t aisim_hash_text(const char *text)
{
    return aisim_hash_bytes(text, strlen(text));
}

aisim_rng aisim_rng_named(uint64_t seed, const char *name)
{
    aisim_rng rng = {aisim_mix64(aisim_mix64(seed) ^ aisim_hash_text(name))};
    return rng;
}

uint64_t aisim_rng_below(aisim_rng *rng, uint64_t n)
{
    uint64_t limit = UINT64_MAX - UINT64_MAX % n; /* a multiple of n */
    uint64_t x;
    do {
        x = aisim_rng_next(rng);
    } while (x >= limit);
    return x % n;
}

double aisim_rng_exponential(aisim_rng *rng, double mean)
{
    return -mean * log1p(-aisim_rng_unit(rng));
}

double aisim_rng_normal(aisim_rng *rng)
{
    for (;;) {
        double u = 2.0 * aisim_rng_unit(rng) - 1.0;
        double v = 2.0 * aisim_rng_unit(rng) - 1.0;
        double s = u * u + v * v;
        if (s > 0.0 && s < 1.0) {
            return u * sqrt(-2.0 * log(s) / s);
        }
    }
}

double aisim_rng_gamma(aisim_rng *rng, double shape)
{
    if (shape < 1.0) {
        double g = aisim_rng_gamma(rng, shape + 1.0);
        double u = aisim_rng_unit(rng);
        return g * pow(u > 0.0 ? u : 0x1p-54, 1.0 / shape);
    }
    double d = shape - 1.0 / 3.0;
    double c = 1.0 / sqrt(9.0 * d);
    for (;;) {
        double x = aisim_rng_normal(rng);
        double v = 1.0 + c * x;
        if (v <= 0.0) {
            continue;
        }
        v = v * v * v;
        double u = aisim_rng_unit(rng);
        if (u > 0.0 && log(u) < 0.5 * x * x + d - d * v + d * log(v)) {
            return d * v;
        }
    }
}
