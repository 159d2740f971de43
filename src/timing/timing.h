/* timing.h - how long one forward pass of one rank takes.
 *
 * The scheduler hands over aggregates of the pass (aisim_pass_shape); the model answers with
 * nanoseconds. Built-in models: constants (fixed), a linear law, the polynomial of timing.md §6, a
 * user function, and the operation-level models (op_level.h), which price every operation of a
 * transformer from rooflines, measured tables or a calibration.
 *
 * A timing object is immutable after creation except for its memo tables and its error record: it
 * belongs to one rank (or to a pool that runs in one thread). The result depends on the shape
 * alone; a memoised value is bit-identical to the computed one. */
#ifndef AISIM_TIMING_TIMING_H
#define AISIM_TIMING_TIMING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "aisim/status.h"

/** One forward pass of one rank, as the scheduler hands it over: aggregates only, O(1) to build
 *  (timing.md §2, engine.md E-O4, D3). */
typedef struct aisim_pass_shape {
    uint64_t n_prefill;      /**< P: items that computed prompt (or resumed) tokens */
    uint64_t new_tokens;     /**< SN: their new tokens, recomputed generated ones included (D3) */
    uint64_t past_tokens;    /**< SP: their past tokens (prefix hits and earlier chunks) */
    uint64_t n_decode;       /**< D: decode items (requests) */
    uint64_t context_tokens; /**< SK: sum of attended lengths, the token being decoded included */
    uint32_t verify_width;   /**< tokens a decode item computes: 1, or 1 + drafts with MTP */
} aisim_pass_shape;

typedef struct aisim_timing aisim_timing;

/** What aisim_timing_pass_ns returns when the model failed. */
#define AISIM_TIMING_FAILED INT64_C(-1)

/** Duration of the pass, rounded once to whole nanoseconds. An empty pass takes 0.
 *  Hot path: no allocation; O(1) amortised for every built-in model.
 *  @return >= 0, or AISIM_TIMING_FAILED if a user function failed, returned something that is no
 *  positive finite number, or a strict model met a shape it cannot price: see aisim_timing_error.
 *  The built-in models never fail otherwise. */
int64_t aisim_timing_pass_ns(aisim_timing *timing, const aisim_pass_shape *shape);

/** Lengths of the single items of a pass, for models that price attention per request (§6). */
typedef struct aisim_pass_items {
    const uint64_t *chunk_len;   /**< new tokens of each prefill item, n_prefill entries */
    const uint64_t *chunk_start; /**< and their past tokens */
    const uint64_t *context;     /**< attended length of each decode item, n_decode entries */
    uint32_t n_chunks, n_contexts; /**< the same counts once more */
} aisim_pass_items;

/** Whether aisim_timing_pass_items_ns would use the items; otherwise nobody needs to collect them.
 */
bool aisim_timing_wants_items(const aisim_timing *timing);

/** Same as aisim_timing_pass_ns, with the items; O(items). The aggregates must be theirs. */
int64_t aisim_timing_pass_items_ns(aisim_timing *timing, const aisim_pass_shape *shape,
                                   const aisim_pass_items *items);

/** The first error of this object; code AISIM_OK = none. */
const aisim_error *aisim_timing_error(const aisim_timing *timing);

/** Divides every duration by @p ratio (> 0; 0 = unscaled). timing.md §6. */
void aisim_timing_set_speedup(aisim_timing *timing, double ratio);

/** NULL allowed. */
void aisim_timing_free(aisim_timing *timing);

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

/** Constants: prefill_ms if the pass has a prefill item, plus decode_ms if it has a decode item.
 *  @return AISIM_OK or AISIM_ERANGE (both finite, >= 0); *out is NULL on error. */
aisim_status aisim_timing_fixed(double prefill_ms, double decode_ms, aisim_timing **out,
                                aisim_error *err);

/** base + per_prefill_token * SN + per_decode * D + per_context_token * SK (lua-api.md §9).
 *  All finite and >= 0. */
typedef struct aisim_timing_linear_law {
    double base_ms;
    double per_prefill_token_ms;
    double per_decode_ms;
    double per_context_token_ms; /**< of the contexts that decode items attend */
} aisim_timing_linear_law;

/** @return AISIM_OK or AISIM_ERANGE naming the coefficient. An empty pass takes 0. */
aisim_status aisim_timing_linear(const aisim_timing_linear_law *law, aisim_timing **out,
                                 aisim_error *err);

/** The polynomial of timing.md §6. @param kv_capacity_tokens of one rank, >= 1.
 *  @return AISIM_OK or AISIM_ERANGE. */
aisim_status aisim_timing_polynomial(uint64_t kv_capacity_tokens, aisim_timing **out,
                                     aisim_error *err);

/** A user function: stores milliseconds in *ms (finite, > 0).
 *  @param items  lengths of the single items, valid during the call; NULL unless asked for.
 *  @return AISIM_OK; anything else stops the run with the error it left in @p err. */
typedef aisim_status (*aisim_timing_function)(void *context, const aisim_pass_shape *shape,
                                              const aisim_pass_items *items, double *ms,
                                              aisim_error *err);

/** What a user function promises and wants. */
typedef struct aisim_timing_traits {
    bool pure;  /**< depends on its arguments alone: the engine may fast-forward, and without items
                     values are memoised by shape (direct table, bounded) */
    bool items; /**< wants the items: every pass collects them, O(items) */
} aisim_timing_traits;

/** A model from a user function. @param context is the caller's, must outlive the object. */
aisim_status aisim_timing_callback(aisim_timing_function function, void *context,
                                   aisim_timing_traits traits, aisim_timing **out,
                                   aisim_error *err);

/** Whether the duration is a function of the shape (all but callbacks that are not pure). */
bool aisim_timing_is_pure(const aisim_timing *timing);

#endif
