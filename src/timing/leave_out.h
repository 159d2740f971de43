/* leave_out.h - does a calibration predict rows that it was not made from?
 *
 * A part of the measured rows is withheld; the calibration is made from the others; both, the
 * calibration and the tables without those rows, then say what the withheld rows cost. */
#ifndef AISIM_TIMING_LEAVE_OUT_H
#define AISIM_TIMING_LEAVE_OUT_H

#include "timing/calibration.h"

/** A withheld row. */
typedef struct aisim_held_row {
    aisim_family family;
    uint32_t key[AISIM_TABLE_KEYS];
    uint32_t at[AISIM_TABLE_AXES];
    double ms;
    bool own;                /**< the calibration has a curve of this very shape */
    double calibrated_error; /**< relative to ms, signed; NaN: no price of this family */
    double table_error;      /**< of the tables without the row */
} aisim_held_row;

/** Splits a table at random, the same way each time.
 *  @param share     of the rows to withhold, (0, 1)
 *  @param kept      the rest; owned by the caller
 *  @param held      array of *n rows, errors not filled; the caller frees it (aisim_free)
 *  Families that are no operations of their own (FP8 scales) are kept whole. Cost: a sort. */
void aisim_table_split(const aisim_table *table, double share, aisim_table **kept,
                       aisim_held_row **held, size_t *n);

/** Fills `own` and the errors of withheld rows.
 *  @param calibrator  made from @p kept, all operations added
 *  @return AISIM_OK, AISIM_EIO. */
aisim_status aisim_leave_out_errors(aisim_calibrator *calibrator, aisim_table *kept,
                                    const aisim_hardware *hardware, aisim_held_row held[], size_t n,
                                    aisim_error *err);

/** "gemm", "prefill_attention", …: the name of a family in calibration files; NULL if it has none.
 */
const char *aisim_family_name(aisim_family family);

#endif
