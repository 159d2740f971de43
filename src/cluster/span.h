/* span.h - values of blocks, kept in spans: for every run a sorted list of stretches of blocks that
 * have the same value (A4). 0 = not there.
 *
 * A set serves as residency (value 1), as reference counts of active blocks, and as times of
 * expiry. Invariants: spans of a run are sorted, disjoint, not empty, never 0; neighbours that
 * touch differ. Nothing depends on hash order. A run that is in the set is held through the
 * callbacks, so that its number cannot be given to other content meanwhile. */
#ifndef AISIM_CLUSTER_SPAN_H
#define AISIM_CLUSTER_SPAN_H

#include <stdint.h>

#include "base/array.h"
#include "base/map.h"

/** Blocks first .. first + count - 1 of a run. */
typedef struct aisim_route_extent {
    uint64_t run;
    uint32_t first, count;
} aisim_route_extent;

typedef struct aisim_span {
    uint32_t first, count;
    int64_t value;
} aisim_span;

typedef AISIM_ARRAY(aisim_span) aisim_span_list;

typedef struct aisim_span_set {
    aisim_map index;                    /* run -> list */
    AISIM_ARRAY(aisim_span_list) lists; /* an empty one is unused */
    AISIM_ARRAY(uint64_t) runs;         /* of each list */
    AISIM_ARRAY(uint32_t) unused;
    aisim_span_list scratch;
    uint64_t blocks;                                      /* with a value */
    void *context;                                        /* of hold */
    void (*hold)(void *context, uint64_t run, bool held); /* NULL = nobody cares */
} aisim_span_set;

void aisim_span_set_deinit(aisim_span_set *set);

typedef enum { AISIM_SPAN_SET, AISIM_SPAN_ADD, AISIM_SPAN_RAISE } aisim_span_op;

/** SET: the blocks get the value (0 removes). ADD: it is added. RAISE: the larger one.
 *  O(spans of the run). */
void aisim_span_apply(aisim_span_set *set, aisim_route_extent where, aisim_span_op op,
                      int64_t value);

/** Drops the spans of a run whose value is <= value. */
void aisim_span_expire(aisim_span_set *set, uint64_t run, int64_t value);

/** Forgets everything. */
void aisim_span_clear(aisim_span_set *set);

/** Leading blocks of the path from block `from` on whose value is > above. O(extents + spans). */
uint32_t aisim_span_walk(const aisim_span_set *set, const aisim_route_extent *path, uint32_t n,
                         uint32_t from, int64_t above);

/** Blocks of the path that have a value, wherever they are. O(extents + spans). */
uint64_t aisim_span_covered(const aisim_span_set *set, const aisim_route_extent *path, uint32_t n);

#endif
