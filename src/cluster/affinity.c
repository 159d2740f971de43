/* affinity.c - bindings. */
#include "cluster/affinity.h"

#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"

void aisim_affinity_deinit(aisim_affinity *a)
{
    for (uint32_t i = 0; i < a->entries.len; i++) {
        aisim_free(a->entries.data[i].key);
    }
    aisim_array_free(&a->entries);
    aisim_array_free(&a->unused);
    aisim_array_free(&a->releases);
    aisim_map_free(&a->index);
}

uint32_t aisim_affinity_find(aisim_affinity *a, const char *key)
{
    uint64_t hash = aisim_hash_text(key);
    uint32_t first = aisim_map_get(&a->index, hash, 0);
    for (uint32_t i = first; i != AISIM_NONE; i = a->entries.data[i].next) {
        if (strcmp(a->entries.data[i].key, key) == 0) {
            return i;
        }
    }
    aisim_affinity_entry entry = {.key = aisim_strdup(key),
                                  .target = AISIM_NONE,
                                  .tentative = AISIM_NONE,
                                  .next = first,
                                  .hash = hash};
    uint32_t i = a->entries.len;
    if (a->unused.len > 0) {
        i = a->unused.data[--a->unused.len];
        a->entries.data[i] = entry;
    } else {
        aisim_array_push(&a->entries, entry);
    }
    aisim_map_set(&a->index, hash, 0, i);
    return i;
}

static void drop(aisim_affinity *a, uint32_t i)
{
    aisim_affinity_entry *e = &a->entries.data[i];
    uint32_t first = aisim_map_get(&a->index, e->hash, 0);
    if (first == i && e->next == AISIM_NONE) {
        aisim_map_remove(&a->index, e->hash, 0);
    } else if (first == i) {
        aisim_map_set(&a->index, e->hash, 0, e->next);
    } else {
        uint32_t before = first;
        while (a->entries.data[before].next != i) {
            before = a->entries.data[before].next;
        }
        a->entries.data[before].next = e->next;
    }
    aisim_free(e->key);
    *e = (aisim_affinity_entry){.target = AISIM_NONE, .tentative = AISIM_NONE};
    aisim_array_push(&a->unused, i);
}

uint32_t aisim_affinity_bound(const aisim_affinity *a, uint32_t entry, int64_t now_ns)
{
    const aisim_affinity_entry *e = &a->entries.data[entry];
    bool live = e->leases > 0 || now_ns < e->released_ns + a->ttl_ns; /* §3: at equality expired */
    return live ? e->target : AISIM_NONE;
}

void aisim_affinity_sent(aisim_affinity *a, uint32_t entry, uint32_t target)
{
    aisim_affinity_entry *e = &a->entries.data[entry];
    bool keep = e->unanswered > 0 && e->tentative != AISIM_NONE; /* NONE: its target was lost */
    e->tentative = keep ? e->tentative : target;
    e->unanswered++;
}

void aisim_affinity_answered(aisim_affinity *a, uint32_t entry, bool accepted, uint32_t target,
                             int64_t now_ns)
{
    aisim_affinity_entry *e = &a->entries.data[entry];
    e->unanswered--;
    if (accepted) {
        if (aisim_affinity_bound(a, entry, now_ns) == AISIM_NONE) {
            e->target = target;
        }
        e->leases++;
    }
}

void aisim_affinity_release_lease(aisim_affinity *a, uint32_t entry, int64_t now_ns)
{
    aisim_affinity_entry *e = &a->entries.data[entry];
    if (--e->leases == 0) {
        e->released_ns = now_ns;
        aisim_affinity_release release = {now_ns, entry};
        aisim_array_push(&a->releases, release);
    }
}

void aisim_affinity_lost(aisim_affinity *a, uint32_t target)
{
    for (uint32_t i = 0; i < a->entries.len; i++) {
        aisim_affinity_entry *e = &a->entries.data[i];
        e->target = e->target == target ? AISIM_NONE : e->target;
        e->tentative = e->tentative == target ? AISIM_NONE : e->tentative;
    }
}

void aisim_affinity_expire(aisim_affinity *a, int64_t now_ns)
{
    while (a->head < a->releases.len && a->releases.data[a->head].t_ns + a->ttl_ns <= now_ns) {
        aisim_affinity_release release = a->releases.data[a->head++];
        const aisim_affinity_entry *e = &a->entries.data[release.entry];
        if (e->key != NULL && e->leases == 0 && e->unanswered == 0 &&
            e->released_ns == release.t_ns) {
            drop(a, release.entry);
        }
    }
    if (a->head > 64 && a->head * 2 > a->releases.len) {
        a->releases.len -= a->head;
        memmove(a->releases.data, a->releases.data + a->head,
                a->releases.len * sizeof *a->releases.data);
        a->head = 0;
    }
}
