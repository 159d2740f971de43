/* extent_internal.h - inside src/kv: the lists of extents (extent_list.c) as the operations see
 * them. */
#ifndef AISIM_KV_EXTENT_INTERNAL_H
#define AISIM_KV_EXTENT_INTERNAL_H

#include "base/check.h"
#include "kv/extent.h"

static inline aisim_extent *at(const aisim_extents *set, uint32_t index)
{
    return &set->slots.data[index];
}

static inline uint32_t end_of(const aisim_extent *e)
{
    return e->first + e->count;
}

static inline uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static inline uint32_t max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static inline const aisim_extent_head *head_get(const aisim_extents *set, uint32_t run)
{
    static const aisim_extent_head none = {AISIM_NONE, AISIM_NONE, AISIM_NONE, AISIM_NONE};
    return run < set->heads.len ? &set->heads.data[run] : &none;
}

/** Inserts an extent behind `before` (AISIM_NONE = at the front) of its run's primaries. */
void aisim_extent_link_primary(aisim_extents *set, uint32_t index, uint32_t before);
/** Inserts a duplicate behind `before` in age order (AISIM_NONE = as the oldest). */
void aisim_extent_link_duplicate(aisim_extents *set, uint32_t index, uint32_t before);
/** Takes an extent out of its run's list; the slot stays. */
void aisim_extent_unlink_run(aisim_extents *set, uint32_t index);
void aisim_extent_lru_unlink(aisim_extents *set, uint32_t index);
/** Cuts the extent at block `where`; it keeps the shallow part. @return the new, deeper extent. */
uint32_t aisim_extent_split(aisim_extents *set, uint32_t index, uint32_t where);
/** Merges extent `deep` into its shallower neighbour when both are in the same state. */
bool aisim_extent_merge(aisim_extents *set, uint32_t shallow, uint32_t deep);
void aisim_extent_merge_around(aisim_extents *set, uint32_t index);
/** One reference less; without any it goes to the tail of the LRU list (E-B3). */
void aisim_extent_drop_ref(aisim_extents *set, uint32_t index);
/** Trims `cut` blocks from the deep end of an inactive extent, which goes with the last of them.
 *  The caller has taken them off set->inactive (extent_evict.c). */
void aisim_extent_trim(aisim_extents *set, uint32_t index, uint32_t cut, aisim_extent_gone_fn gone,
                       void *context);
/** The primary that contains the block, or AISIM_NONE; searched from the deep end. */
uint32_t aisim_extent_find_primary(const aisim_extents *set, uint32_t run, uint32_t block);
/** Cuts so that an extent covers exactly the part of [first, end) it had. @return that extent. */
uint32_t aisim_extent_isolate(aisim_extents *set, uint32_t index, uint32_t first, uint32_t end);
/** The owner's duplicate that contains the block, or AISIM_NONE. */
uint32_t aisim_extent_find_owned(const aisim_extents *set, uint32_t run, uint32_t block,
                                 uint32_t owner);
/** First block of [first, upto) from which on the owner has no duplicate: the part below upto that
 *  belongs to primaries. */
uint32_t aisim_extent_primary_part(const aisim_extents *set, uint32_t run, uint32_t first,
                                   uint32_t upto, uint32_t owner);

#endif
