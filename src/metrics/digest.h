/* digest.h - the distribution of a stream of numbers: n, mean, min, max, std, percentiles.
 *
 * Two representations behind one interface:
 *   exact   pairs (value, weight); a value that came lately waits in a small cache for more of its
 *           kind, so a bulk of equal token gaps is one step and one entry. What leaves the cache
 *           with weight 1, as most measured times do, is kept as a bare number until it is sorted.
 *           Percentiles follow the rule of the digest.
 *   sketch  counters in buckets of 1/512 of a power of two; bounded memory (4 KiB for each power of
 *           two that occurs). A percentile is within 0.1 % of the `nearest` rule.
 * A digest starts exact and turns into a sketch when it holds more distinct values than its limit;
 * under the rule AISIM_PERCENTILE_SKETCH it is one from the first value. n, min and max are always
 * exact, mean and std to the last few bits (compensated sums).
 * An exact digest gives the same results for every order of the same additions: sums run over the
 * sorted values. Rules: spec/report.md §2.
 *
 * Values are finite; the caller refuses others. Reading sorts, therefore no const. */
#ifndef AISIM_METRICS_DIGEST_H
#define AISIM_METRICS_DIGEST_H

#include <stdbool.h>
#include <stdint.h>

#include "aisim/status.h"
#include "base/array.h"

/** Percentile p of n sorted values v[0] … v[n - 1]. */
typedef enum {
    AISIM_PERCENTILE_LINEAR,  /**< k = (n - 1) p / 100, interpolated between neighbours; default */
    AISIM_PERCENTILE_NEAREST, /**< v[round((n - 1) p / 100)], halves away from zero */
    AISIM_PERCENTILE_SKETCH   /**< within 0.1 % of nearest, bounded memory */
} aisim_percentile_rule;

/** "linear", "nearest", "sketch"; never NULL. */
const char *aisim_percentile_rule_text(aisim_percentile_rule rule);

/** @return AISIM_OK or AISIM_EINVAL with the three names in the text. */
aisim_status aisim_percentile_rule_parse(const char *text, aisim_percentile_rule *out,
                                         aisim_error *err);

/** Distinct values up to which a digest stays exact unless told otherwise: 16 MB at most. */
enum { AISIM_DIGEST_LIMIT = 1000000 };

typedef struct aisim_sample {
    double value;
    uint64_t weight;
} aisim_sample;

struct aisim_sketch;

/** Places of the cache. */
enum { AISIM_DIGEST_RECENT = 64 };

typedef struct aisim_digest {
    aisim_percentile_rule rule;
    uint32_t limit;  /**< distinct values, >= 1 */
    uint32_t sorted; /**< leading samples that are ascending and distinct; heavy ones behind */
    uint64_t n;      /**< sum of the weights */
    double min, max; /**< 0 while n = 0 */
    AISIM_ARRAY(aisim_sample) samples;
    AISIM_ARRAY(double) single; /**< values of weight 1, in no order */
    aisim_sample *recent;       /**< by value, weight 0 = free place; NULL = nothing was added */
    struct aisim_sketch *sketch;          /**< NULL while exact */
} aisim_digest;

/** @param limit  0 = AISIM_DIGEST_LIMIT */
void aisim_digest_init(aisim_digest *digest, aisim_percentile_rule rule, uint32_t limit);

/** Frees what it holds; the digest is empty and usable again with the same rule and limit. */
void aisim_digest_clear(aisim_digest *digest);

/** Adds the value `weight` times. O(1) amortised. weight = 0 does nothing. */
void aisim_digest_add(aisim_digest *digest, double value, uint64_t weight);

/** Adds everything in `from`, which stays as it is (but may be sorted). */
void aisim_digest_merge(aisim_digest *digest, aisim_digest *from);

/** The statistics of spec/report.md §2. Empty: all 0. */
typedef struct aisim_stats {
    uint64_t n;
    double mean, min, max, median, std; /**< std: population */
    double p75, p90, p95, p99;
    bool sketched; /**< percentiles come from a sketch */
} aisim_stats;
void aisim_digest_stats(aisim_digest *digest, aisim_stats *out);

/** Sum of all values; 0 when empty. */
double aisim_digest_sum(aisim_digest *digest);

/** Mean; 0 when empty. */
double aisim_digest_mean(aisim_digest *digest);

/** Percentile p, 0 <= p <= 100, by the rule of the digest; 0 when empty. O(distinct values). */
double aisim_digest_percentile(aisim_digest *digest, double p);

/** Weight of the values <= bound; of a sketch those of the buckets whose middle is. O(distinct
 *  values). */
uint64_t aisim_digest_at_most(aisim_digest *digest, double bound);

/** Smallest value v such that values <= v have at least `percent` % of the weight (0 .. 100,
 * whole); 0 when empty. The p99 of a gauge, spec/report.md §3 kv_usage. */
double aisim_digest_share(aisim_digest *digest, uint32_t percent);

#endif
