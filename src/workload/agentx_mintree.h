/* agentx_mintree.h - the smallest of n times, where single times change all the time.
 *
 * A tournament: leaf i holds the time of lane i, every inner node the smaller child. Setting one
 * time is O(log n), the minimum O(1), the lowest lane that is due O(log n). */
#ifndef AISIM_WORKLOAD_AGENTX_MINTREE_H
#define AISIM_WORKLOAD_AGENTX_MINTREE_H

#include <stdint.h>

typedef struct aisim_mintree {
    int64_t *nodes;  /* 1 = root; leaves from `leaves` on */
    uint32_t leaves; /* power of two >= n */
} aisim_mintree;

/** All n times AISIM_NEVER. @p n >= 1 */
void aisim_mintree_init(aisim_mintree *tree, uint32_t n);

void aisim_mintree_deinit(aisim_mintree *tree);

void aisim_mintree_set(aisim_mintree *tree, uint32_t i, int64_t time_ns);

static inline int64_t aisim_mintree_min(const aisim_mintree *tree)
{
    return tree->nodes[1];
}

static inline int64_t aisim_mintree_get(const aisim_mintree *tree, uint32_t i)
{
    return tree->nodes[tree->leaves + i];
}

/** The lowest i whose time is at or before time_ns, or AISIM_NONE. */
uint32_t aisim_mintree_first_due(const aisim_mintree *tree, int64_t time_ns);

#endif
