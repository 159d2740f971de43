/* extent_copy.c - blocks that are being copied to host memory (spec/offload.md §5.1).
 *
 * The number of the copy is part of an extent's state: it splits with the extent, moves with it to
 * the LRU list or to the place of a primary, and goes with it at an eviction. So the very copy of a
 * block that is being read is known, also among duplicates. */
#include "kv/extent_internal.h"

void aisim_extents_copy_begin(aisim_extents *set, uint32_t run, uint32_t first, uint32_t end,
                              uint32_t owner, uint32_t copy, bool hold)
{
    while (set->copies.len <= copy) {
        aisim_array_push(&set->copies, INT64_MAX);
    }
    set->copies.data[copy] = INT64_MAX;
    uint32_t upto = end;
    while (upto > first) {
        uint32_t i = aisim_extent_find_owned(set, run, upto - 1, owner);
        uint32_t low = first;
        if (i == AISIM_NONE) {
            low = aisim_extent_primary_part(set, run, first, upto, owner);
            i = aisim_extent_find_primary(set, run, upto - 1);
            AISIM_CHECK(i != AISIM_NONE);
        }
        i = aisim_extent_isolate(set, i, low, upto);
        aisim_extent *e = at(set, i);
        AISIM_CHECK(e->refs > 0 && e->copy == AISIM_NONE);
        e->copy = copy;
        e->refs += hold;
        upto = e->first;
    }
}

void aisim_extents_copy_ends(aisim_extents *set, uint32_t copy, int64_t end_ns)
{
    set->copies.data[copy] = end_ns;
}

/* The deepest extent of the copy that begins below `upto`, AISIM_NONE = none is left there. */
static uint32_t deepest(const aisim_extents *set, uint32_t run, uint32_t first, uint32_t upto,
                        uint32_t copy)
{
    uint32_t found = AISIM_NONE;
    for (uint32_t i = head_get(set, run)->last; i != AISIM_NONE && end_of(at(set, i)) > first;
         i = at(set, i)->prev) {
        if (at(set, i)->copy == copy && at(set, i)->first < upto) {
            found = i;
            break;
        }
    }
    for (uint32_t i = head_get(set, run)->newest; i != AISIM_NONE; i = at(set, i)->prev) {
        const aisim_extent *e = at(set, i);
        if (e->copy == copy && e->first < upto &&
            (found == AISIM_NONE || e->first > at(set, found)->first)) {
            found = i;
        }
    }
    return found;
}

void aisim_extents_copy_done(aisim_extents *set, uint32_t run, uint32_t first, uint32_t end,
                             uint32_t copy, bool hold)
{
    uint32_t upto = end, i;
    while (upto > first && (i = deepest(set, run, first, upto, copy)) != AISIM_NONE) {
        upto = at(set, i)->first;
        at(set, i)->copy = AISIM_NONE;
        if (hold) {
            aisim_extent_drop_ref(set, i);
        } else if (at(set, i)->kind == AISIM_EXTENT_PRIMARY) {
            aisim_extent_merge_around(set, i);
        }
    }
    if (hold) {
        set->generation++;
    }
}
