/* agentx_mintree.c - see the header. */
#include "workload/agentx_mintree.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/map.h"

void aisim_mintree_init(aisim_mintree *tree, uint32_t n)
{
    tree->leaves = 1;
    while (tree->leaves < n) {
        tree->leaves *= 2;
    }
    tree->nodes = aisim_alloc((size_t)tree->leaves * 2, sizeof *tree->nodes);
    for (uint32_t i = 0; i < tree->leaves * 2; i++) {
        tree->nodes[i] = AISIM_NEVER;
    }
}

void aisim_mintree_deinit(aisim_mintree *tree)
{
    aisim_free(tree->nodes);
    *tree = (aisim_mintree){0};
}

void aisim_mintree_set(aisim_mintree *tree, uint32_t i, int64_t time_ns)
{
    uint32_t node = tree->leaves + i;
    tree->nodes[node] = time_ns;
    while (node > 1) {
        node /= 2;
        int64_t left = tree->nodes[node * 2];
        int64_t right = tree->nodes[node * 2 + 1];
        int64_t smaller = left < right ? left : right;
        if (tree->nodes[node] == smaller) {
            return;
        }
        tree->nodes[node] = smaller;
    }
}

uint32_t aisim_mintree_first_due(const aisim_mintree *tree, int64_t time_ns)
{
    if (tree->nodes[1] > time_ns) {
        return AISIM_NONE;
    }
    uint32_t node = 1;
    while (node < tree->leaves) {
        node = tree->nodes[node * 2] <= time_ns ? node * 2 : node * 2 + 1;
    }
    return node - tree->leaves;
}
