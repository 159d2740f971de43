/* decode_curve.c - see decode_curve.h.
 *
 * Octave j spans the lengths whose (length - offset) has its highest bit at j. Grouped-query tables
 * break at 2^j, so the offset is 1 (2^j ends an octave, 2^j + 1 begins the next); latent blocks
 * break at 2^j + 1, offset 2. Slots are direct-mapped by batch and keep the batch as their tag. */
#include "timing/decode_curve.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"

enum { SLOTS = 512, OCTAVE_FIRST = 3, OCTAVE_END = 21 };

typedef struct octave_line {
    double start_ms, slope_ms; /* at the first length of the octave, per token */
} octave_line;

typedef struct curve_slot {
    uint64_t batch;         /* 0 = empty */
    uint32_t known, linear; /* bit per octave */
    uint8_t provenance[OCTAVE_END];
    octave_line line[OCTAVE_END];
} curve_slot;

struct aisim_decode_curve {
    aisim_op_source *source;
    const aisim_op *op;
    uint64_t offset;
    curve_slot *slots;
};

aisim_decode_curve *aisim_decode_curve_new(aisim_op_source *source, const aisim_op *op)
{
    aisim_decode_curve *curve = aisim_alloc_zero(1, sizeof *curve);
    curve->source = source;
    curve->op = op;
    curve->offset = op->kind == AISIM_OP_MLA_DECODE ? 2 : 1;
    curve->slots = aisim_alloc_zero(SLOTS, sizeof *curve->slots);
    return curve;
}

void aisim_decode_curve_free(aisim_decode_curve *curve)
{
    if (curve != NULL) {
        aisim_free(curve->slots);
        aisim_free(curve);
    }
}

void aisim_decode_curve_clear(aisim_decode_curve *curve)
{
    memset(curve->slots, 0, SLOTS * sizeof *curve->slots);
}

static double direct(const aisim_decode_curve *curve, uint64_t batch, uint64_t length,
                     aisim_provenance *provenance)
{
    aisim_op_load load = {.tokens = batch, .batch = batch, .seq = 1, .context = length};
    return curve->source->class->price(curve->source, curve->op, &load, provenance);
}

/* Position of the highest bit of x > 0. */
static inline uint32_t highest_bit(uint64_t x)
{
#if defined(__GNUC__)
    return 63U - (uint32_t)__builtin_clzll(x);
#else
    uint32_t bit = 0;
    while (x >>= 1) {
        bit++;
    }
    return bit;
#endif
}

/* Draws the line of an octave and tests its middle. */
static void learn(const aisim_decode_curve *curve, curve_slot *slot, uint32_t octave)
{
    uint64_t first = (UINT64_C(1) << octave) + curve->offset;
    uint64_t last = (UINT64_C(2) << octave) + curve->offset - 1;
    uint64_t middle = first + (last - first) / 2;
    aisim_provenance a, b, c;
    double start = direct(curve, slot->batch, first, &a);
    double end = direct(curve, slot->batch, last, &b);
    double between = direct(curve, slot->batch, middle, &c);
    double slope = (end - start) / (double)(last - first);
    double expected = start + slope * (double)(middle - first);
    slot->known |= UINT32_C(1) << octave;
    if (fabs(between - expected) <= 1e-11 * between) {
        slot->linear |= UINT32_C(1) << octave;
    }
    slot->line[octave] = (octave_line){start, slope};
    slot->provenance[octave] = (uint8_t)aisim_provenance_worse(aisim_provenance_worse(a, b), c);
}

static curve_slot *slot_of(const aisim_decode_curve *curve, uint64_t batch)
{
    curve_slot *slot = &curve->slots[batch % SLOTS];
    if (slot->batch != batch) {
        slot->batch = batch;
        slot->known = slot->linear = 0;
    }
    return slot;
}

/* The line of (batch, octave), drawn when it is first asked for; NULL: there is none. */
static inline const octave_line *line_of(const aisim_decode_curve *curve, curve_slot *slot,
                                         uint32_t octave)
{
    if ((slot->known >> octave & 1) == 0) {
        learn(curve, slot, octave);
    }
    return (slot->linear >> octave & 1) != 0 ? &slot->line[octave] : NULL;
}

static bool in_octaves(const aisim_decode_curve *curve, uint64_t length)
{
    return length >= (1 << OCTAVE_FIRST) + curve->offset &&
           length - curve->offset < UINT64_C(1) << OCTAVE_END;
}

double aisim_decode_curve_price(aisim_decode_curve *curve, uint64_t batch, uint64_t length,
                                aisim_provenance *provenance)
{
    if (!in_octaves(curve, length)) {
        return direct(curve, batch, length, provenance);
    }
    uint64_t distance = length - curve->offset;
    uint32_t octave = highest_bit(distance);
    curve_slot *slot = slot_of(curve, batch);
    const octave_line *line = line_of(curve, slot, octave);
    if (line == NULL) {
        return direct(curve, batch, length, provenance);
    }
    *provenance = (aisim_provenance)slot->provenance[octave];
    return line->start_ms + line->slope_ms * (double)(distance - (UINT64_C(1) << octave));
}

/* The spread ends where it begins: one line serves all. */
static double mean_on_line(const octave_line *line, uint64_t start, uint64_t low, uint64_t high)
{
    uint64_t steps = 0;
    for (uint32_t i = 0; i < AISIM_DECODE_SPREAD; i++) {
        steps += aisim_decode_length(low, high, i) - start;
    }
    return line->start_ms + line->slope_ms * ((double)steps / AISIM_DECODE_SPREAD);
}

double aisim_decode_curve_mean(aisim_decode_curve *curve, uint64_t batch, uint64_t low,
                               uint64_t high, aisim_provenance *provenance)
{
    bool inside = in_octaves(curve, low) && in_octaves(curve, high);
    uint32_t first = inside ? highest_bit(low - curve->offset) : 0;
    uint32_t last = inside ? highest_bit(high - curve->offset) : 0;
    const octave_line *left = NULL, *right = NULL;
    if (inside) {
        curve_slot *slot = slot_of(curve, batch);
        left = line_of(curve, slot, first);
        right = line_of(curve, slot, last);
        *provenance = aisim_provenance_worse((aisim_provenance)slot->provenance[first],
                                             (aisim_provenance)slot->provenance[last]);
    }
    uint64_t start = (UINT64_C(1) << first) + curve->offset;
    if (left != NULL && first == last) {
        return mean_on_line(left, start, low, high);
    }
    double sum = 0;
    if (left != NULL && right != NULL && last == first + 1) { /* the common case of the others */
        uint64_t edge = (UINT64_C(1) << last) + curve->offset;
        for (uint32_t i = 0; i < AISIM_DECODE_SPREAD; i++) {
            uint64_t length = aisim_decode_length(low, high, i);
            sum += length < edge ? left->start_ms + left->slope_ms * (double)(length - start)
                                 : right->start_ms + right->slope_ms * (double)(length - edge);
        }
        return sum / AISIM_DECODE_SPREAD;
    }
    *provenance = AISIM_PROVENANCE_MEASURED;
    for (uint32_t i = 0; i < AISIM_DECODE_SPREAD; i++) {
        aisim_provenance one;
        uint64_t length = aisim_decode_length(low, high, i);
        sum += aisim_decode_curve_price(curve, batch, length, &one);
        *provenance = aisim_provenance_worse(*provenance, one);
    }
    return sum / AISIM_DECODE_SPREAD;
}
