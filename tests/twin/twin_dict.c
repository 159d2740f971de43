/* twin_dict.c - identities: a dictionary of (parent, tokens).
 *
 * Two prefixes have the same identity exactly when all their tokens and their salt are equal: the
 * bucket only shortens the search, equality is decided on the tokens. Identities are never
 * forgotten, so they can be compared as integers for the life of the twin. */
#include "twin_internal.h"

static uint64_t bucket_of(const twin *t, uint32_t parent, const uint64_t *tokens, uint32_t n)
{
    uint64_t hash = aisim_mix64(parent);
    for (uint32_t i = 0; i < n; i++) {
        hash = aisim_mix64(hash ^ tokens[i]);
    }
    return hash % t->n_buckets;
}

static void grow(twin *t)
{
    aisim_free(t->buckets);
    t->n_buckets = t->n_buckets == 0 ? 1024 : t->n_buckets * 4;
    t->buckets = aisim_alloc(t->n_buckets, sizeof *t->buckets);
    for (uint32_t i = 0; i < t->n_buckets; i++) {
        t->buckets[i] = TWIN_NONE;
    }
    for (uint32_t i = 0; i < t->nodes.len; i++) {
        twin_node *node = &t->nodes.data[i];
        uint64_t at = bucket_of(t, node->parent, node->tokens, node->n);
        node->bucket_next = t->buckets[at];
        t->buckets[at] = i;
    }
}

uint32_t twin_intern(twin *t, uint32_t parent, const uint64_t *tokens, uint32_t n)
{
    if (t->nodes.len >= t->n_buckets) {
        grow(t);
    }
    uint64_t at = bucket_of(t, parent, tokens, n);
    for (uint32_t i = t->buckets[at]; i != TWIN_NONE; i = t->nodes.data[i].bucket_next) {
        const twin_node *node = &t->nodes.data[i];
        if (node->parent == parent && node->n == n &&
            memcmp(node->tokens, tokens, n * sizeof *tokens) == 0) {
            return i;
        }
    }
    twin_node node = {.parent = parent, .n = n, .bucket_next = t->buckets[at]};
    node.tokens = aisim_alloc(n, sizeof *tokens);
    memcpy(node.tokens, tokens, n * sizeof *tokens);
    t->buckets[at] = t->nodes.len;
    aisim_array_push(&t->nodes, node);
    return t->nodes.len - 1;
}

uint32_t twin_root(twin *t, uint64_t salt)
{
    return twin_intern(t, TWIN_NONE, &salt, 1);
}

void twin_dict_free(twin *t)
{
    for (uint32_t i = 0; i < t->nodes.len; i++) {
        aisim_free(t->nodes.data[i].tokens);
        aisim_array_free(&t->nodes.data[i].copies);
        aisim_array_free(&t->nodes.data[i].checkpoints);
    }
    aisim_array_free(&t->nodes);
    aisim_free(t->buckets);
}
