/* op_level.h - timing models that price every operation of a pass (timing.md §3-§7).
 *
 * A model descriptor and a parallelism give two operation lists (prefill, decode); a source of
 * latencies prices each operation; the composition rules of §6 turn the aggregates of a pass into
 * loads. Everything but attention depends on the number of tokens alone and is memoised in bounded
 * direct-mapped tables with full keys, so a memoised pass is bit-identical to a computed one. */
#ifndef AISIM_TIMING_OP_LEVEL_H
#define AISIM_TIMING_OP_LEVEL_H

#include "timing/op_cost.h"

typedef enum {
    AISIM_MIXED_FUSED, /**< one launch serves prefill and decode tokens (§6) */
    AISIM_MIXED_SERIAL /**< a prefill pass, then a decode pass */
} aisim_mixed;

/** "fused", "serial", NULL. */
extern const char *const aisim_mixed_words[];

/** How operations become a pass. Zero-initialised = the defaults. */
typedef struct aisim_op_level_options {
    int mixed;               /**< aisim_mixed */
    bool per_request;        /**< attention by the lengths of each item (timing.h, pass_items) */
    bool strict;             /**< refuse a pass that needs an operation without data (`deny`) */
    double pass_overhead_ms; /**< added to every pass: host time, >= 0 */
    double overhead_layer_us_prefill; /**< added per layer to a pass with prefill items */
    uint64_t
        cudagraph_max_batch; /**< decode passes with more tokens pay every launch; 0 = no limit */
    aisim_timing_fixes fixes;
} aisim_op_level_options;

extern const aisim_field_table aisim_op_level_fields;

/** Builds a model on any source.
 *  @param model, hardware  copied
 *  @param source           taken over; freed on error too
 *  @return AISIM_OK or AISIM_EINVAL / AISIM_ERANGE from the descriptor checks; *out NULL then. */
aisim_status aisim_timing_op_level(const aisim_model *model, const aisim_hardware *hardware,
                                   const aisim_parallelism *parallelism,
                                   const aisim_op_level_options *options, aisim_op_source *source,
                                   aisim_timing **out, aisim_error *err);

/** Overrides of the roofline model (lua-api.md §9); 0 = not given. Without them every operation
 *  reaches the default efficiency of its family (§7). */
typedef struct aisim_roofline_overrides {
    double mfu; /**< share of the arithmetic rate reached, (0, 1] */
    double mbu; /**< share of the memory and link bandwidth reached, (0, 1] */
} aisim_roofline_overrides;

/** The model without measurements: latency = max(compute / mfu, memory / mbu); a side that is not
 *  given keeps (roof + r_half) / u_max of its family. Element-wise kernels keep their formula.
 *  @param overrides  NULL = none
 *  @return AISIM_OK, AISIM_EINVAL (descriptors), AISIM_ERANGE (overrides). */
aisim_status aisim_timing_roofline(const aisim_model *model, const aisim_hardware *hardware,
                                   const aisim_parallelism *parallelism,
                                   const aisim_op_level_options *options,
                                   const aisim_roofline_overrides *overrides, aisim_timing **out,
                                   aisim_error *err);

/** The model on measured tables. @param folder  with the CSV files (table.h)
 *  @return AISIM_OK, AISIM_EINVAL (descriptors), or what aisim_table_load says. */
aisim_status aisim_timing_tables(const aisim_model *model, const aisim_hardware *hardware,
                                 const aisim_parallelism *parallelism,
                                 const aisim_op_level_options *options, const char *folder,
                                 aisim_timing **out, aisim_error *err);

/** The model on a calibration file (calibration.h).
 *  @return AISIM_OK, AISIM_EINVAL (descriptors), or what aisim_calibration_load says. */
aisim_status aisim_timing_calibrated(const aisim_model *model, const aisim_hardware *hardware,
                                     const aisim_parallelism *parallelism,
                                     const aisim_op_level_options *options, const char *path,
                                     aisim_timing **out, aisim_error *err);

/** Forgets everything memoised (tests compare the two). No-op for other models. */
void aisim_timing_forget(aisim_timing *timing);

#endif
