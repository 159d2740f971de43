/* timing.h - timing models: constants, a linear law, a polynomial, a function of one's own.
 *
 * A model tells how long one forward pass of one rank takes, from aggregates of the pass. It is
 * immutable after creation except for its memo tables and its error record: it belongs to one pool
 * (aisim_pool_config.timing, freed with the simulation), else to the caller. */
#ifndef AISIM_TIMING_H
#define AISIM_TIMING_H

#include <stdbool.h>
#include <stdint.h>

#include "aisim/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct aisim_timing aisim_timing;

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

/** Lengths of the single items of a pass, for models that price attention per request (§6). */
typedef struct aisim_pass_items {
    const uint64_t *chunk_len;   /**< new tokens of each prefill item, n_prefill entries */
    const uint64_t *chunk_start; /**< and their past tokens */
    const uint64_t *context;     /**< attended length of each decode item, n_decode entries */
    uint32_t n_chunks, n_contexts; /**< the same counts once more */
} aisim_pass_items;

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

/** Divides every duration by @p ratio (> 0; 0 = unscaled). timing.md §6. */
void aisim_timing_set_speedup(aisim_timing *timing, double ratio);

/** NULL allowed. */
void aisim_timing_free(aisim_timing *timing);

#ifdef __cplusplus
}
#endif
#endif
