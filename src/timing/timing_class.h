/* timing_class.h - the seam a timing model plugs into; private to src/timing.
 *
 * A model embeds aisim_timing as its first member and fills a class. pass_ms gets non-empty shapes
 * only and returns milliseconds >= 0, or NaN after it has left an error in timing->error. */
#ifndef AISIM_TIMING_TIMING_CLASS_H
#define AISIM_TIMING_TIMING_CLASS_H

#include "timing/timing.h"

typedef struct aisim_timing_class {
    const char *name;
    double (*pass_ms)(aisim_timing *timing, const aisim_pass_shape *shape);
    /** NULL: like pass_ms. Shapes with the lengths of their items. */
    double (*items_ms)(aisim_timing *timing, const aisim_pass_shape *shape,
                       const aisim_pass_items *items);
    /** NULL: one part "pass", formula. Same contract as aisim_timing_explain, without speed-up. */
    size_t (*explain)(aisim_timing *timing, const aisim_pass_shape *shape,
                      aisim_timing_part parts[], size_t capacity, double *total_ms);
    void (*free)(aisim_timing *timing); /**< releases the whole object */
} aisim_timing_class;

struct aisim_timing {
    const aisim_timing_class *class;
    double scale; /* 1, or 1 / speed-up */
    bool pure;
    bool wants_items;
    aisim_timing_usage usage; /* unscaled; by_ms without `formula`, which is the rest */
    aisim_error error;
};

/** Sets the common part of a new object. */
void aisim_timing_init(aisim_timing *timing, const aisim_timing_class *class, bool pure);

#endif
