/* rng.h - named random streams (A7).
 *
 * A stream is a pure function of (seed, name): its n-th number is mix(state0 + n * golden), where
 * mix is the 64-bit finaliser that spec/mtp.md §2 writes out. Adding a stream shifts no other. */
#ifndef AISIM_BASE_RNG_H
#define AISIM_BASE_RNG_H

#include <stdint.h>

typedef struct aisim_rng {
    uint64_t state;
} aisim_rng;

/** One step of the splittable generator: adds the golden ratio, then mixes. */
static inline uint64_t aisim_mix64(uint64_t x)
{
    x += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

/** FNV-1a, 64 bits, of a text. */
uint64_t aisim_hash_text(const char *text);

/** FNV-1a, 64 bits, of bytes. */
uint64_t aisim_hash_bytes(const void *bytes, uint64_t size);

/** The stream of (seed, name). */
aisim_rng aisim_rng_named(uint64_t seed, const char *name);

static inline uint64_t aisim_rng_next(aisim_rng *rng)
{
    uint64_t out = aisim_mix64(rng->state);
    rng->state += UINT64_C(0x9E3779B97F4A7C15);
    return out;
}

/** Uniform in [0, 1), 53 bits. */
static inline double aisim_rng_unit(aisim_rng *rng)
{
    return (double)(aisim_rng_next(rng) >> 11) * 0x1p-53;
}

/** Uniform integer in [0, n), n >= 1; unbiased. */
uint64_t aisim_rng_below(aisim_rng *rng, uint64_t n);

/** Exponential with the given mean: -mean * ln(1 - u). */
double aisim_rng_exponential(aisim_rng *rng, double mean);

/** Standard normal (Marsaglia's polar method; consumes a varying number of draws). */
double aisim_rng_normal(aisim_rng *rng);

/** Gamma with shape k > 0 and scale 1 (Marsaglia and Tsang 2000; k < 1 by the power of a uniform).
 */
double aisim_rng_gamma(aisim_rng *rng, double shape);

#endif
