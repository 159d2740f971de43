/* digest.c - pairs while they are few, buckets when they are many.
 *
 * Exact: a value and its weight wait in `recent` until another value needs the place, then they
 * move to `single` (weight 1) or to the tail of `samples` behind its sorted, distinct prefix.
 * Reading, or too long a tail, sorts both tails and merges them into the prefix. Invariant: the
 * weights in the three places sum to n.
 *
 * Sketch: a bucket is the exponent of the value and the 9 upper bits of its mantissa. Its
 * representative is the middle, so the error is below 2^-10 = 0.098 % of the value; adding costs a
 * shift, no logarithm. Values that are 0 or subnormal share one counter. Mean and spread are
 * carried along: a compensated sum, and the weighted recurrence of Welford (1962), merged as in
 * Chan, Golub and LeVeque (1979). */
#include "metrics/digest.h"

#include <math.h>
#include <string.h>

#include "base/check.h"
#include "metrics/digest_sort.h"

enum { SUB_BITS = 9, SUB = 1 << SUB_BITS, OCTAVES = 2047 };
enum { TAIL = 1 << 17 }; /* values worth a merge */

struct aisim_sketch {
    uint64_t *octave[2][OCTAVES]; /* [negative][exponent]: SUB counters, NULL = all 0 */
    uint64_t zero;
    double sum, carry; /* compensated */
    double mean, m2;   /* of the recurrence */
    uint64_t seen;     /* values in the recurrence */
};

/* ---- rules ----------------------------------------------------------------------------------- */

static const char *const rule_names[] = {"linear", "nearest", "sketch"};

const char *aisim_percentile_rule_text(aisim_percentile_rule rule)
{
    return rule_names[rule];
}

aisim_status aisim_percentile_rule_parse(const char *text, aisim_percentile_rule *out,
                                         aisim_error *err)
{
    for (uint32_t i = 0; i < 3; i++) {
        if (strcmp(text, rule_names[i]) == 0) {
            *out = (aisim_percentile_rule)i;
            return AISIM_OK;
        }
    }
    return aisim_fail(err, AISIM_EINVAL,
                      "unknown percentile rule '%s' (expected linear, nearest or sketch)", text);
}

/* ---- compensated sums ------------------------------------------------------------------------ */

/* Neumaier's variant: what a rounding loses is collected in carry. */
static void sum_add(double *sum, double *carry, double value)
{
    double total = *sum + value;
    if (fabs(*sum) >= fabs(value)) {
        *carry += (*sum - total) + value;
    } else {
        *carry += (value - total) + *sum;
    }
    *sum = total;
}

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double double_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* ---- exact ----------------------------------------------------------------------------------- */

static void keep(aisim_digest *digest, const aisim_sample *sample)
{
    if (sample->weight == 1) {
        aisim_array_push(&digest->single, sample->value);
    } else if (sample->weight > 1) {
        aisim_array_push(&digest->samples, *sample);
    }
}

static void empty_recent(aisim_digest *digest)
{
    for (uint32_t i = 0; digest->recent != NULL && i < AISIM_DIGEST_RECENT; i++) {
        keep(digest, &digest->recent[i]);
        digest->recent[i].weight = 0;
    }
}

/* Three ascending rows become one without equal neighbours: samples [0, sorted), those behind, and
 * the single values. */
static void merge(aisim_digest *digest)
{
    const aisim_sample *data = digest->samples.data;
    const double *single = digest->single.data;
    uint32_t sorted = digest->sorted, len = digest->samples.len, n = digest->single.len;
    uint32_t i = 0, j = sorted, k = 0, out = 0;
    aisim_sample *merged = aisim_alloc((size_t)len + n, sizeof *merged);
    while (i < sorted || j < len || k < n) {
        double left = i < sorted ? data[i].value : INFINITY;
        double right = j < len ? data[j].value : INFINITY;
        aisim_sample next;
        if (k < n && single[k] <= left && single[k] <= right) {
            next = (aisim_sample){single[k++], 1};
        } else {
            next = left <= right ? data[i++] : data[j++];
        }
        if (out > 0 && merged[out - 1].value == next.value) {
            merged[out - 1].weight += next.weight;
        } else {
            merged[out++] = next;
        }
    }
    aisim_array_free(&digest->samples);
    digest->samples.data = merged;
    digest->samples.cap = len + n;
    digest->samples.len = digest->sorted = out;
    digest->single.len = 0;
}

/* Afterwards all samples are ascending and distinct, and there is nothing else. */
static void compact(aisim_digest *digest)
{
    empty_recent(digest);
    uint32_t heavy = digest->samples.len - digest->sorted, n = digest->single.len;
    if (heavy > 0) {
        aisim_samples_sort(digest->samples.data + digest->sorted, heavy);
    }
    if (n > 0) {
        aisim_values_sort(digest->single.data, n);
    }
    if (heavy > 0 || n > 0) {
        merge(digest);
    }
}

static double exact_sum(const aisim_digest *digest)
{
    double sum = 0, carry = 0;
    for (uint32_t i = 0; i < digest->samples.len; i++) {
        const aisim_sample *sample = &digest->samples.data[i];
        sum_add(&sum, &carry, sample->value * (double)sample->weight);
    }
    return sum + carry;
}

/* Sum of squared distances from the mean. */
static double exact_m2(const aisim_digest *digest, double mean)
{
    double sum = 0, carry = 0;
    for (uint32_t i = 0; i < digest->samples.len; i++) {
        const aisim_sample *sample = &digest->samples.data[i];
        double distance = sample->value - mean;
        sum_add(&sum, &carry, distance * distance * (double)sample->weight);
    }
    return sum + carry;
}

/* ---- sketch ---------------------------------------------------------------------------------- */

static void sketch_count(struct aisim_sketch *sketch, double value, uint64_t weight)
{
    uint64_t bits = bits_of(value);
    uint32_t exponent = (uint32_t)(bits >> 52) & 0x7FF;
    if (exponent == 0) {
        sketch->zero += weight;
        return;
    }
    uint64_t **octave = &sketch->octave[bits >> 63][exponent];
    if (*octave == NULL) {
        *octave = aisim_alloc_zero(SUB, sizeof **octave);
    }
    (*octave)[(bits >> (52 - SUB_BITS)) & (SUB - 1)] += weight;
}

/* The middle of a bucket. */
static double sketch_value(uint32_t negative, uint32_t exponent, uint32_t sub)
{
    uint64_t middle = (uint64_t)1 << (51 - SUB_BITS);
    return double_of((uint64_t)negative << 63 | (uint64_t)exponent << 52 |
                     (uint64_t)sub << (52 - SUB_BITS) | middle);
}

/* Joins `count` values with the given mean and squared distances to the recurrence. */
static void sketch_moments(struct aisim_sketch *sketch, uint64_t count, double mean, double m2)
{
    double a = (double)sketch->seen, b = (double)count;
    double distance = mean - sketch->mean;
    sketch->mean += distance * (b / (a + b));
    sketch->m2 += m2 + distance * distance * (a * b / (a + b));
    sketch->seen += count;
}

static void sketch_add(struct aisim_sketch *sketch, double value, uint64_t weight)
{
    sketch_count(sketch, value, weight);
    sum_add(&sketch->sum, &sketch->carry, value * (double)weight);
    sketch_moments(sketch, weight, value, 0);
}

static void free_exact(aisim_digest *digest)
{
    aisim_array_free(&digest->samples);
    aisim_array_free(&digest->single);
    aisim_free(digest->recent);
    digest->recent = NULL;
    digest->sorted = 0;
}

/* From now on a sketch; the samples move into it. */
static void become_sketch(aisim_digest *digest)
{
    struct aisim_sketch *sketch = aisim_alloc_zero(1, sizeof *sketch);
    compact(digest);
    for (uint32_t i = 0; i < digest->samples.len; i++) {
        sketch_add(sketch, digest->samples.data[i].value, digest->samples.data[i].weight);
    }
    free_exact(digest);
    digest->sketch = sketch;
}

static void sketch_merge(struct aisim_sketch *sketch, const struct aisim_sketch *from)
{
    for (uint32_t sign = 0; sign < 2; sign++) {
        for (uint32_t exponent = 0; exponent < OCTAVES; exponent++) {
            const uint64_t *source = from->octave[sign][exponent];
            uint64_t **target = &sketch->octave[sign][exponent];
            if (source == NULL) {
                continue;
            }
            if (*target == NULL) {
                *target = aisim_alloc_zero(SUB, sizeof **target);
            }
            for (uint32_t sub = 0; sub < SUB; sub++) {
                (*target)[sub] += source[sub];
            }
        }
    }
    sketch->zero += from->zero;
    sum_add(&sketch->sum, &sketch->carry, from->sum);
    sum_add(&sketch->sum, &sketch->carry, from->carry);
    sketch_moments(sketch, from->seen, from->mean, from->m2);
}

static void sketch_free(struct aisim_sketch *sketch)
{
    if (sketch == NULL) {
        return;
    }
    for (uint32_t sign = 0; sign < 2; sign++) {
        for (uint32_t exponent = 0; exponent < OCTAVES; exponent++) {
            aisim_free(sketch->octave[sign][exponent]);
        }
    }
    aisim_free(sketch);
}

/* ---- both: the value at a position of the sorted stream -------------------------------------- */

static double clamped(const aisim_digest *digest, double value)
{
    return fmin(fmax(value, digest->min), digest->max);
}

/* Value of bucket walk position k (from 0), ascending: large negatives first, large positives last.
 */
static double sketch_at(const aisim_digest *digest, uint64_t k)
{
    const struct aisim_sketch *sketch = digest->sketch;
    uint64_t before = 0;
    for (uint32_t step = 0; step < 2 * OCTAVES; step++) {
        uint32_t negative = step < OCTAVES;
        uint32_t exponent = negative ? OCTAVES - 1 - step : step - OCTAVES;
        if (step == OCTAVES) {
            before += sketch->zero;
            if (before > k) {
                return 0;
            }
        }
        const uint64_t *octave = sketch->octave[negative][exponent];
        for (uint32_t i = 0; octave != NULL && i < SUB; i++) {
            uint32_t sub = negative ? SUB - 1 - i : i;
            before += octave[sub];
            if (before > k) {
                return clamped(digest, sketch_value(negative, exponent, sub));
            }
        }
    }
    return digest->max;
}

/* Weight of the buckets of one sign and power of two whose middle is <= bound. */
static uint64_t octave_at_most(const struct aisim_sketch *sketch, uint32_t negative,
                               uint32_t exponent, double bound)
{
    const uint64_t *octave = sketch->octave[negative][exponent];
    uint64_t weight = 0;
    for (uint32_t sub = 0; octave != NULL && sub < SUB; sub++) {
        weight += sketch_value(negative, exponent, sub) <= bound ? octave[sub] : 0;
    }
    return weight;
}

static uint64_t sketch_at_most(const struct aisim_sketch *sketch, double bound)
{
    uint64_t weight = bound >= 0 ? sketch->zero : 0;
    for (uint32_t exponent = 0; exponent < OCTAVES; exponent++) {
        weight += octave_at_most(sketch, 0, exponent, bound);
        weight += octave_at_most(sketch, 1, exponent, bound);
    }
    return weight;
}

/* Value at position k (from 0) of the sorted stream; *next: the one behind it. */
static double exact_at(const aisim_digest *digest, uint64_t k, double *next)
{
    uint32_t i = 0;
    uint64_t before = 0;
    if (digest->n == digest->samples.len) { /* every value once */
        before = i = (uint32_t)k;
    }
    while (before + digest->samples.data[i].weight <= k) {
        before += digest->samples.data[i++].weight;
    }
    double value = digest->samples.data[i].value;
    bool last = before + digest->samples.data[i].weight == k + 1;
    *next = last && i + 1 < digest->samples.len ? digest->samples.data[i + 1].value : value;
    return value;
}

/* ---- public ---------------------------------------------------------------------------------- */

void aisim_digest_init(aisim_digest *digest, aisim_percentile_rule rule, uint32_t limit)
{
    *digest = (aisim_digest){.rule = rule, .limit = limit == 0 ? AISIM_DIGEST_LIMIT : limit};
}

void aisim_digest_clear(aisim_digest *digest)
{
    free_exact(digest);
    sketch_free(digest->sketch);
    aisim_digest_init(digest, digest->rule, digest->limit);
}

/* Merges the tails when they have grown to the size of the prefix, so that each addition pays for a
 * constant number of moves, and gives up being exact when that no longer frees half of the limit.
 */
static void make_room(aisim_digest *digest)
{
    uint32_t held = digest->samples.len + digest->single.len, tail = held - digest->sorted;
    bool full = held >= digest->limit;
    if (full || (tail >= TAIL && tail >= digest->sorted)) {
        compact(digest);
        if (full && digest->samples.len > digest->limit / 2) {
            become_sketch(digest);
        }
    }
}

/* The place of a value in `recent`. */
static uint32_t place_of(double value)
{
    return (uint32_t)(bits_of(value) * UINT64_C(0x9E3779B97F4A7C15) >> 58);
}

/* The first value, or one beyond those that came before. */
static void widen(aisim_digest *digest, double value)
{
    if (digest->n > 0) {
        digest->min = fmin(digest->min, value);
        digest->max = fmax(digest->max, value);
        return;
    }
    digest->min = digest->max = value;
    if (digest->rule == AISIM_PERCENTILE_SKETCH && digest->sketch == NULL) {
        become_sketch(digest);
    } else if (digest->sketch == NULL && digest->recent == NULL) {
        digest->recent = aisim_alloc_zero(AISIM_DIGEST_RECENT, sizeof *digest->recent);
    }
}

void aisim_digest_add(aisim_digest *digest, double value, uint64_t weight)
{
    AISIM_ASSERT(isfinite(value));
    if (weight == 0) {
        return;
    }
    value += 0.0; /* -0 becomes 0 */
    if (digest->n == 0 || value < digest->min || value > digest->max) {
        widen(digest, value);
    }
    digest->n += weight;
    if (digest->sketch != NULL) {
        sketch_add(digest->sketch, value, weight);
        return;
    }
    aisim_sample *recent = &digest->recent[place_of(value)];
    if (recent->value == value) {
        recent->weight += weight;
        return;
    }
    aisim_sample old = *recent;
    *recent = (aisim_sample){value, weight};
    if (old.weight > 0) {
        keep(digest, &old);
        make_room(digest);
    }
}

void aisim_digest_merge(aisim_digest *digest, aisim_digest *from)
{
    if (from->n == 0) {
        return;
    }
    if (from->sketch == NULL) {
        compact(from);
        for (uint32_t i = 0; i < from->samples.len; i++) {
            aisim_digest_add(digest, from->samples.data[i].value, from->samples.data[i].weight);
        }
        return;
    }
    if (digest->sketch == NULL) {
        become_sketch(digest);
    }
    sketch_merge(digest->sketch, from->sketch);
    digest->min = digest->n == 0 ? from->min : fmin(digest->min, from->min);
    digest->max = digest->n == 0 ? from->max : fmax(digest->max, from->max);
    digest->n += from->n;
}

double aisim_digest_sum(aisim_digest *digest)
{
    if (digest->n == 0) {
        return 0;
    }
    if (digest->sketch != NULL) {
        return digest->sketch->sum + digest->sketch->carry;
    }
    compact(digest);
    return exact_sum(digest);
}

double aisim_digest_mean(aisim_digest *digest)
{
    return digest->n == 0 ? 0 : aisim_digest_sum(digest) / (double)digest->n;
}

double aisim_digest_percentile(aisim_digest *digest, double p)
{
    if (digest->n == 0) {
        return 0;
    }
    double position = (double)(digest->n - 1) * p / 100;
    if (digest->sketch != NULL) {
        return sketch_at(digest, (uint64_t)llround(position));
    }
    compact(digest);
    double next;
    if (digest->rule == AISIM_PERCENTILE_NEAREST) {
        return exact_at(digest, (uint64_t)llround(position), &next);
    }
    double whole = floor(position);
    double value = exact_at(digest, (uint64_t)whole, &next);
    return value + (next - value) * (position - whole);
}

uint64_t aisim_digest_at_most(aisim_digest *digest, double bound)
{
    if (digest->n == 0 || bound < digest->min) {
        return 0;
    }
    if (bound >= digest->max) {
        return digest->n;
    }
    if (digest->sketch != NULL) {
        return sketch_at_most(digest->sketch, bound);
    }
    compact(digest);
    uint64_t weight = 0;
    for (uint32_t i = 0; i < digest->samples.len && digest->samples.data[i].value <= bound; i++) {
        weight += digest->samples.data[i].weight;
    }
    return weight;
}

double aisim_digest_share(aisim_digest *digest, uint32_t percent)
{
    if (digest->n == 0) {
        return 0;
    }
    /* values above v may have at most `over` of the weight: n (100 - percent) / 100, rounded down
     */
    uint64_t rest = 100 - percent;
    uint64_t over = digest->n / 100 * rest + digest->n % 100 * rest / 100;
    uint64_t position = digest->n - over;
    position -= position > 0;
    if (digest->sketch != NULL) {
        return sketch_at(digest, position);
    }
    compact(digest);
    double next;
    return exact_at(digest, position, &next);
}

void aisim_digest_stats(aisim_digest *digest, aisim_stats *out)
{
    *out = (aisim_stats){.n = digest->n, .sketched = digest->sketch != NULL};
    if (digest->n == 0) {
        return;
    }
    out->mean = aisim_digest_mean(digest);
    double m2 = digest->sketch != NULL ? digest->sketch->m2 : exact_m2(digest, out->mean);
    out->std = sqrt(m2 / (double)digest->n);
    out->min = digest->min;
    out->max = digest->max;
    out->median = aisim_digest_percentile(digest, 50);
    out->p75 = aisim_digest_percentile(digest, 75);
    out->p90 = aisim_digest_percentile(digest, 90);
    out->p95 = aisim_digest_percentile(digest, 95);
    out->p99 = aisim_digest_percentile(digest, 99);
}
