/* decode_curve.h - attention of steady decode in a few additions.
 *
 * From pass to pass the batch stays and the length grows by one, so a memo of exact shapes never
 * hits. But for a given batch every source is piecewise linear in the length with breaks near
 * powers of two. A curve therefore holds, per batch and octave, the straight line through the two
 * ends, if the middle lies on it too (relative 1e-11); octaves where it does not are priced
 * directly. What is stored depends on the batch and the octave alone, never on the order of
 * queries. */
#ifndef AISIM_TIMING_DECODE_CURVE_H
#define AISIM_TIMING_DECODE_CURVE_H

#include "timing/op_cost.h"

/** Curves of one operation (decode attention or latent decode block) of one source. */
typedef struct aisim_decode_curve aisim_decode_curve;

/** @param source, op  must outlive the curve. Never NULL. */
aisim_decode_curve *aisim_decode_curve_new(aisim_op_source *source, const aisim_op *op);

/** NULL allowed. */
void aisim_decode_curve_free(aisim_decode_curve *curve);

/** Forgets all lines. */
void aisim_decode_curve_clear(aisim_decode_curve *curve);

/** Latency of one launch for a batch at exactly one length (both >= 1), ms. */
double aisim_decode_curve_price(aisim_decode_curve *curve, uint64_t batch, uint64_t length,
                                aisim_provenance *provenance);

/** Lengths over which the spread of a decode batch is averaged (timing.md §3.4). */
enum { AISIM_DECODE_SPREAD = 5 };

/** The i-th of them, evenly over [low, high], rounded down to whole tokens. */
static inline uint64_t aisim_decode_length(uint64_t low, uint64_t high, uint32_t i)
{
    return low + (high - low) * i / (AISIM_DECODE_SPREAD - 1);
}

/** Mean over the spread of [low, high], 1 <= low <= high. */
double aisim_decode_curve_mean(aisim_decode_curve *curve, uint64_t batch, uint64_t low,
                               uint64_t high, aisim_provenance *provenance);

#endif
