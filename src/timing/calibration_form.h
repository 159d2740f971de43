/* calibration_form.h - what the writer and the reader of calibration files agree on; private.
 *
 * Per family: its name, how many leading key members are number formats, how many members its key
 * has, whether a record fixes the first axis (query heads), and which axes are outer and inner. */
#ifndef AISIM_TIMING_CALIBRATION_FORM_H
#define AISIM_TIMING_CALIBRATION_FORM_H

#include "timing/table.h"

enum { AISIM_CALIBRATION_STEPS = 512, AISIM_AXIS_MAX = 96 };

typedef struct aisim_calibration_form {
    const char *name;
    uint32_t formats; /* leading key members that are aisim_dtype */
    uint32_t keys;    /* key members in all */
    bool heads;       /* axis 0 is fixed per record and stands behind the key */
    bool outer;       /* a free outer axis exists; else OUTER and its axis line are left out */
    double launch_ms; /* c0 of timing.md §10: base = roof + launch */
} aisim_calibration_form;

/** @return the form of a family; name NULL: the family has no records. */
const aisim_calibration_form *aisim_calibration_form_of(aisim_family family);

/** Figures of the hardware descriptor that the codes rest on; NULL-terminated keys. */
extern const char *const aisim_calibration_constants[];

/** Index of the inner (last) axis and of the outer one among the family's axes. */
static inline uint32_t aisim_form_inner(aisim_family family)
{
    return aisim_family_axes(family) - 1;
}

static inline uint32_t aisim_form_outer(aisim_family family)
{
    return aisim_family_axes(family) - 2;
}

/** What codes are relative to: roof plus launch cost, ms. */
double aisim_calibration_base(const aisim_hardware *hardware, aisim_family family,
                              const uint32_t key[], const uint32_t at[]);

#endif
