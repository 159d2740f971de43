/* extent_score.h - inside src/kv: what eviction by score remembers of extents; see
 * extent_score.c. */
#ifndef AISIM_KV_EXTENT_SCORE_H
#define AISIM_KV_EXTENT_SCORE_H

#include "kv/extent.h"

typedef struct aisim_extent_note {
    int64_t since_ns; /* last release; while it is unused */
    uint32_t reuse;   /* leases that have adopted it */
} aisim_extent_note;

typedef struct aisim_score {
    double score;
    uint32_t place; /* in the LRU list */
    uint32_t extent;
} aisim_score;

struct aisim_eviction {
    aisim_extent_score_fn score;
    void *context;
    const int64_t *clock; /* now */
    uint32_t block_size;
    AISIM_ARRAY(aisim_extent_note) notes; /* by slot */
    AISIM_ARRAY(aisim_score) heap;        /* scratch of one eviction */
    AISIM_ARRAY(uint32_t) places;         /* the same, by slot */
};

typedef struct aisim_eviction aisim_eviction;

void aisim_extent_eviction_free(aisim_extents *set);

/** A new extent in this slot. */
static inline void aisim_extent_note_new(aisim_extents *set, uint32_t index)
{
    aisim_extent_note fresh = {0, 0};
    while (set->eviction->notes.len <= index) {
        aisim_array_push(&set->eviction->notes, fresh);
    }
    set->eviction->notes.data[index] = fresh;
}

/** Two neighbours that only differ in where they stand. @param used  somebody holds both */
static inline bool aisim_extent_same_note(const aisim_extents *set, uint32_t a, uint32_t b,
                                          bool used)
{
    const aisim_extent_note *notes = set->eviction->notes.data;
    return notes[a].reuse == notes[b].reuse && (used || notes[a].since_ns == notes[b].since_ns);
}

#endif
