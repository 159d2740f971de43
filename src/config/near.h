/* near.h - "did you mean": the known name closest to a misspelt one. */
#ifndef AISIM_CONFIG_NEAR_H
#define AISIM_CONFIG_NEAR_H

#include <stdint.h>

/** Edits (insert, delete, replace, swap of neighbours) between two names, at most limit + 1.
 *  O(length of a * length of b); names beyond 63 bytes are limit + 1 apart. */
uint32_t aisim_near_distance(const char *a, const char *b, uint32_t limit);

/** A search over candidates: zero-initialise apart from name, offer each, then read best. */
typedef struct aisim_near {
    const char *name; /**< what was typed */
    const char *best; /**< the closest so far, the first offered of equals; NULL = none is near */
    uint32_t distance;
} aisim_near;

/** Offers a candidate. Near is at most 2 edits, and fewer than half of the longer name's length. */
void aisim_near_offer(aisim_near *search, const char *candidate);

#endif
