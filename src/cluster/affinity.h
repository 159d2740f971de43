/* affinity.h - bindings of keys to targets (spec/routing.md §3).
 *
 * An entry per key: target, leases (active requests), time of the last release, and the tentative
 * choice of dispatches nobody has answered yet. A binding is live while a lease is held or now <
 * release + TTL; it is made when the engine accepts. Entries that can do nothing any more are
 * dropped in the order of their release, so memory follows the live keys. */
#ifndef AISIM_CLUSTER_AFFINITY_H
#define AISIM_CLUSTER_AFFINITY_H

#include <stdbool.h>

#include "base/array.h"
#include "base/map.h"

typedef struct aisim_affinity_entry {
    char *key;       /* NULL = free */
    uint32_t target; /* AISIM_NONE = not bound */
    uint32_t tentative;
    uint32_t unanswered;
    uint32_t leases;
    uint32_t next; /* same hash, or next free */
    int64_t released_ns;
    uint64_t hash;
} aisim_affinity_entry;

typedef struct aisim_affinity_release {
    int64_t t_ns;
    uint32_t entry;
} aisim_affinity_release;

typedef struct aisim_affinity {
    int64_t ttl_ns;
    aisim_map index; /* hash -> first entry */
    AISIM_ARRAY(aisim_affinity_entry) entries;
    AISIM_ARRAY(uint32_t) unused;
    AISIM_ARRAY(aisim_affinity_release) releases; /* from `head` on, by time */
    uint32_t head;
} aisim_affinity;

void aisim_affinity_deinit(aisim_affinity *a);
/** The entry of a key, made if new. */
uint32_t aisim_affinity_find(aisim_affinity *a, const char *key);
/** Where the key is bound, AISIM_NONE = no live binding. */
uint32_t aisim_affinity_bound(const aisim_affinity *a, uint32_t entry, int64_t now_ns);
void aisim_affinity_sent(aisim_affinity *a, uint32_t entry, uint32_t target);
void aisim_affinity_answered(aisim_affinity *a, uint32_t entry, bool accepted, uint32_t target,
                             int64_t now_ns);
void aisim_affinity_release_lease(aisim_affinity *a, uint32_t entry, int64_t now_ns);
/** Bindings and tentative choices of the target are gone for good. */
void aisim_affinity_lost(aisim_affinity *a, uint32_t target);
/** Drops what has expired. */
void aisim_affinity_expire(aisim_affinity *a, int64_t now_ns);

#endif
