/* map.h - hash map from a pair of 64-bit words to a 32-bit value; open addressing, linear probing.
 *
 * Iteration is not offered: hash order must never reach a result (A2). Deletion shifts the cluster
 * back, so there are no tombstones. Load factor at most 3/4. */
#ifndef AISIM_BASE_MAP_H
#define AISIM_BASE_MAP_H

#include <stdbool.h>
#include <stdint.h>

#define AISIM_NONE UINT32_MAX

typedef struct aisim_map_slot {
    uint64_t a, b;
    uint32_t value; /* AISIM_NONE = empty */
} aisim_map_slot;

typedef struct aisim_map {
    aisim_map_slot *slots;
    uint32_t mask; /* slots - 1; 0 and slots NULL when empty */
    uint32_t len;
} aisim_map;

/** @return the value of (a, b), or AISIM_NONE. */
uint32_t aisim_map_get(const aisim_map *map, uint64_t a, uint64_t b);

/** Sets (a, b) to value (anything but AISIM_NONE), replacing an old one. */
void aisim_map_set(aisim_map *map, uint64_t a, uint64_t b, uint32_t value);

/** Removes (a, b). @return the value it had, or AISIM_NONE. */
uint32_t aisim_map_remove(aisim_map *map, uint64_t a, uint64_t b);

/** Frees the slots; the map is empty and usable again. */
void aisim_map_free(aisim_map *map);

#endif
