/* timing.h - how long one forward pass of one rank takes: what the engine asks a timing model.
 *
 * The scheduler hands over aggregates of the pass (aisim_pass_shape); the model answers with
 * nanoseconds. The models that everybody may make are in aisim/timing.h; beside them stand the
 * operation-level models (op_level.h), which price every operation of a transformer from rooflines,
 * measured tables or a calibration.
 *
 * The result depends on the shape alone; a memoised value is bit-identical to the computed one. */
#ifndef AISIM_TIMING_TIMING_H
#define AISIM_TIMING_TIMING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "aisim/timing.h"

/** What aisim_timing_pass_ns returns when the model failed. */
#define AISIM_TIMING_FAILED INT64_C(-1)

/** Duration of the pass, rounded once to whole nanoseconds. An empty pass takes 0.
 *  Hot path: no allocation; O(1) amortised for every built-in model.
 *  @return >= 0, or AISIM_TIMING_FAILED if a user function failed, returned something that is no
 *  positive finite number, or a strict model met a shape it cannot price: see aisim_timing_error.
 *  The built-in models never fail otherwise. */
int64_t aisim_timing_pass_ns(aisim_timing *timing, const aisim_pass_shape *shape);

/** Whether aisim_timing_pass_items_ns would use the items; otherwise nobody needs to collect them.
 */
bool aisim_timing_wants_items(const aisim_timing *timing);

/** Same as aisim_timing_pass_ns, with the items; O(items). The aggregates must be theirs. */
int64_t aisim_timing_pass_items_ns(aisim_timing *timing, const aisim_pass_shape *shape,
                                   const aisim_pass_items *items);

/** The first error of this object; code AISIM_OK = none. */
const aisim_error *aisim_timing_error(const aisim_timing *timing);

/** Where a contribution comes from. */
typedef enum {
    AISIM_PROVENANCE_MEASURED,     /**< a point of the tables */
    AISIM_PROVENANCE_INTERPOLATED, /**< between points */
    AISIM_PROVENANCE_EXTRAPOLATED, /**< beyond them, along the roofline */
    AISIM_PROVENANCE_CALIBRATED,   /**< a compact fit of the tables */
    AISIM_PROVENANCE_ROOFLINE,     /**< no data: roofline and a default efficiency (§7) */
    AISIM_PROVENANCE_FORMULA,      /**< a closed formula by definition, or the user's number */
    AISIM_PROVENANCE_COUNT
} aisim_provenance;

/** "measured", …; never NULL. */
const char *aisim_provenance_name(aisim_provenance provenance);

/** Where the time of the passes priced so far came from. */
typedef struct aisim_timing_usage {
    uint64_t passes;                      /**< priced, empty ones not among them */
    double total_ms;                      /**< their durations, before rounding */
    double by_ms[AISIM_PROVENANCE_COUNT]; /**< parts of it; hidden time of overlaps in none */
} aisim_timing_usage;

/** Usage since the object was made; explanations do not count. O(1). */
aisim_timing_usage aisim_timing_usage_of(const aisim_timing *timing);

/** Names of operations this object had to guess by roofline so far (§7).
 *  @return how many there are; fills up to @p capacity names (static texts). 0 for other models. */
size_t aisim_timing_guessed(const aisim_timing *timing, const char *names[], size_t capacity);

/** One line of an explanation: an operation, all layers together. */
typedef struct aisim_timing_part {
    char name[48];
    const char *kind;  /**< "gemm", "attention", "experts", "state", "link", "memory", "host",
                            "whole" */
    uint8_t overlap;   /**< number of the overlap it is part of; 0 = none */
    uint8_t side;      /**< 1 or 2: the group of the overlap; 0 = none */
    char shape[80];    /**< "m=2064 n=6144 k=4096 bfloat16" */
    char sizes[176];   /**< aisim_op_sizes: the operation without the load; "" = not of a model */
    double count;      /**< launches in the pass (layers; fractional with MTP) */
    double roof_ms;    /**< of all launches; 0 where there is no roof */
    double latency_ms; /**< contribution to the total */
    double hidden_ms;  /**< time that runs beside another group and does not add up */
    aisim_provenance provenance;
} aisim_timing_part;

/** Explains a pass: fills up to @p capacity parts, prefill before decode, and *total_ms.
 *  The parts' latency_ms add up to *total_ms (1e-9 relative) when all fit.
 *  @param total_ms  NULL allowed; before rounding to nanoseconds, speed-up included
 *  @return the number of parts the pass has, which may be more than @p capacity; 0 if the pass is
 *  empty or failed. Not a hot path. */
size_t aisim_timing_explain(aisim_timing *timing, const aisim_pass_shape *shape,
                            aisim_timing_part parts[], size_t capacity, double *total_ms);

/** Whether the duration is a function of the shape (all but callbacks that are not pure). */
bool aisim_timing_is_pure(const aisim_timing *timing);

#endif
