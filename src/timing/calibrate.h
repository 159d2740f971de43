/* calibrate.h - the curves a calibration is made of, while it is being made; private.
 *
 * A curve is one record of the file: all points of one key (and one number of query heads) on the
 * candidate axes, as the tables answer, and the masks of the knots that are kept. Without a free
 * outer axis there is one outer line. */
#ifndef AISIM_TIMING_CALIBRATE_H
#define AISIM_TIMING_CALIBRATE_H

#include "timing/calibration_code.h"
#include "timing/calibration_form.h"

typedef struct aisim_curve_axis {
    uint32_t count;
    uint32_t at[AISIM_AXIS_MAX]; /* rising */
} aisim_curve_axis;

typedef struct aisim_curve {
    aisim_family family;
    uint32_t key[AISIM_TABLE_KEYS];
    uint32_t heads;   /* 0 unless the form fixes them */
    double tolerance; /* largest relative error at a point that is not kept */
    const aisim_curve_axis *outer, *inner;
    double *ms; /* outer->count lines of inner->count; NaN = not part of the curve */
    aisim_mask lines;
    aisim_mask *knots; /* one per line */
} aisim_curve;

/** Chooses the knots: per line the cheapest set within the tolerance, then drops whole lines that
 *  their neighbours reproduce. Deterministic. */
void aisim_curve_fit(aisim_curve *curve, const aisim_hardware *hardware);

/** The axes' values of a point. */
static inline void aisim_curve_at(const aisim_curve *curve, uint32_t line, uint32_t column,
                                  uint32_t at[])
{
    at[0] = at[1] = at[2] = 0;
    if (aisim_calibration_form_of(curve->family)->heads) {
        at[0] = curve->heads;
    }
    if (aisim_calibration_form_of(curve->family)->outer) {
        at[aisim_form_outer(curve->family)] = curve->outer->at[line];
    }
    at[aisim_form_inner(curve->family)] = curve->inner->at[column];
}

#endif
