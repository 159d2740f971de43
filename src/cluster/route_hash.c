/* route_hash.c - the pure hash functions of routing (spec/routing.md §2). */
#include "cluster/route.h"

uint64_t aisim_route_text_key(const char *text)
{
    return aisim_mix64(aisim_hash_text(text));
}

uint64_t aisim_route_blocks_key(const uint64_t *ids, uint32_t n)
{
    uint64_t key = 0;
    for (uint32_t i = 0; i < n; i++) {
        key = aisim_mix64(key ^ ids[i]);
    }
    return key;
}

uint64_t aisim_route_rendezvous(uint64_t key, uint32_t worker, uint32_t rank)
{
    return aisim_mix64(key ^ aisim_mix64((uint64_t)worker * 65536 + rank));
}
