/* calibration.h - measured tables reduced to what the catalogue needs, in one small text file.
 *
 * A calibration is an aisim_table with few rows: for every operation of the catalogued models and
 * parallelisms the shortest set of knots whose interpolation (the rules of timing.md §5, the same
 * code as for the tables) stays within a tolerance of the tables; latencies quantised in ln space.
 * GEMM sites that the tables do not contain and lengths beyond them are stored as the tables'
 * resolvers answer, so evaluation needs no far neighbours. Any other shape is resolved from the
 * nearest stored ones. A loaded calibration is used through aisim_op_source_tables.
 *
 * File (text, one item per line, '#' starts a comment line):
 *
 *     aisim-calibration 1
 *     inputs 8d3f…            FNV-1a 64 of the tables it was made from
 *     hardware h200_sxm
 *     constant KEY VALUE      figures of the hardware descriptor that the codes rest on
 *     steps 512               latency = base * exp(code / steps)
 *     axis FAMILY outer|inner N…   the values a mask selects from
 *     slices FAMILY WORD…     records of one family and number formats follow
 *     KEY… [HEADS] OUTER MASKS CODES
 *
 * OUTER is a mask of the outer axis; MASKS holds one mask of the inner axis per outer value kept,
 * CODES one number per knot. Mask and number digits: calibration_code.h. */
#ifndef AISIM_TIMING_CALIBRATION_H
#define AISIM_TIMING_CALIBRATION_H

#include <stdio.h>

#include "timing/table.h"

/** Facts of a loaded calibration. */
typedef struct aisim_calibration_info {
    uint64_t inputs;  /**< hash of the tables it was made from */
    uint32_t records; /**< curves and grids */
    uint32_t numbers; /**< stored latencies */
} aisim_calibration_info;

/** Parses a calibration from memory.
 *  @param name      for messages, e.g. the path
 *  @param hardware  must agree with the constants of the file
 *  @param info      NULL allowed
 *  @return AISIM_OK, AISIM_EPARSE (name and line), AISIM_EINVAL (other hardware). *out NULL then.
 */
aisim_status aisim_calibration_parse(const char *text, const char *name,
                                     const aisim_hardware *hardware, aisim_table **out,
                                     aisim_calibration_info *info, aisim_error *err);

/** Same, from a file. @return also AISIM_ENOENT, AISIM_EIO. */
aisim_status aisim_calibration_load(const char *path, const aisim_hardware *hardware,
                                    aisim_table **out, aisim_calibration_info *info,
                                    aisim_error *err);

/** Hash of all rows and keys of a table; the same for equal contents. */
uint64_t aisim_table_hash(const aisim_table *table);

/** Making a calibration: collect operations, then fit and write. Deterministic: the same tables and
 *  the same calls in the same order give the same bytes. */
typedef struct aisim_calibrator aisim_calibrator;

/** @param table, hardware  must outlive the calibrator. Never NULL. */
aisim_calibrator *aisim_calibrator_new(aisim_table *table, const aisim_hardware *hardware);

/** NULL allowed. */
void aisim_calibrator_free(aisim_calibrator *calibrator);

/** Which operations of a configuration get curves of their own. */
typedef enum {
    AISIM_CALIBRATE_ALL,
    AISIM_CALIBRATE_KERNELS /**< experts, delta-net kernels and collectives: short curves that
                                 hardly carry over from other shapes */
} aisim_calibrate_scope;

/** Adds the operations of a model under a parallelism, as far as the tables know them.
 *  @return AISIM_OK or AISIM_EINVAL (descriptors). */
aisim_status aisim_calibrator_add(aisim_calibrator *calibrator, const aisim_model *model,
                                  const aisim_parallelism *parallelism, aisim_calibrate_scope scope,
                                  aisim_error *err);

/** Adds coarse shapes between which unknown ones are resolved. */
void aisim_calibrator_add_donors(aisim_calibrator *calibrator);

/** Selects the knots and writes the file, with the lines of @p origin (no '#') as its comment.
 *  @return AISIM_OK or AISIM_EIO. */
aisim_status aisim_calibrator_write(aisim_calibrator *calibrator, const char *const origin[],
                                    FILE *file, aisim_calibration_info *info, aisim_error *err);

#endif
