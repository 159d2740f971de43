/* extent_list.c - lists of extents per run, the LRU list through them, splitting and merging.
 *
 * Invariants. Primaries of a run are sorted and disjoint; a primary and a duplicate may cover the
 * same blocks; every extent with refs = 0 is in the LRU list exactly once and no other is;
 * splitting keeps the LRU order because the deeper half is linked before the shallower one. */
#include "kv/extent_internal.h"
#include "kv/extent_score.h"

/* ---- slots and heads ------------------------------------------------------------------------- */

/* The head of a run that is about to get an extent. */
static aisim_extent_head *head_make(aisim_extents *set, uint32_t run)
{
    while (set->heads.len <= run) {
        aisim_array_push(&set->heads,
                         ((aisim_extent_head){AISIM_NONE, AISIM_NONE, AISIM_NONE, AISIM_NONE}));
    }
    return &set->heads.data[run];
}

uint32_t aisim_extent_new(aisim_extents *set, aisim_extent value)
{
    uint32_t index = set->free_slot;
    aisim_content_hold(set->content, value.run);
    if (index == AISIM_NONE) {
        index = set->slots.len;
        aisim_array_push(&set->slots, value);
    } else {
        set->free_slot = set->slots.data[index].next;
        set->slots.data[index] = value;
    }
    if (set->eviction != NULL) {
        aisim_extent_note_new(set, index);
    }
    return index;
}

/* Inserts an extent behind `before` (AISIM_NONE = at the front) of its run's primaries. */
void aisim_extent_link_primary(aisim_extents *set, uint32_t index, uint32_t before)
{
    aisim_extent *e = at(set, index);
    aisim_extent_head *head = head_make(set, e->run);
    e->prev = before;
    e->next = before == AISIM_NONE ? head->first : at(set, before)->next;
    if (e->next != AISIM_NONE) {
        at(set, e->next)->prev = index;
    } else {
        head->last = index;
    }
    if (before != AISIM_NONE) {
        at(set, before)->next = index;
    } else {
        head->first = index;
    }
}

/* Inserts a duplicate behind `before` in age order (AISIM_NONE = as the oldest). */
void aisim_extent_link_duplicate(aisim_extents *set, uint32_t index, uint32_t before)
{
    aisim_extent *e = at(set, index);
    aisim_extent_head *head = head_make(set, e->run);
    e->prev = before;
    e->next = before == AISIM_NONE ? head->oldest : at(set, before)->next;
    if (e->next != AISIM_NONE) {
        at(set, e->next)->prev = index;
    } else {
        head->newest = index;
    }
    if (before != AISIM_NONE) {
        at(set, before)->next = index;
    } else {
        head->oldest = index;
    }
}

/* Takes an extent out of its run's list; the slot stays. */
void aisim_extent_unlink_run(aisim_extents *set, uint32_t index)
{
    aisim_extent *e = at(set, index);
    aisim_extent_head *head = &set->heads.data[e->run];
    bool primary = e->kind == AISIM_EXTENT_PRIMARY;
    uint32_t *front = primary ? &head->first : &head->oldest;
    uint32_t *back = primary ? &head->last : &head->newest;
    if (e->prev != AISIM_NONE) {
        at(set, e->prev)->next = e->next;
    } else {
        *front = e->next;
    }
    if (e->next != AISIM_NONE) {
        at(set, e->next)->prev = e->prev;
    } else {
        *back = e->prev;
    }
}

void aisim_extent_drop(aisim_extents *set, uint32_t index)
{
    at(set, index)->kind = AISIM_EXTENT_FREE;
    at(set, index)->next = set->free_slot;
    set->free_slot = index;
    aisim_content_release(set->content, at(set, index)->run);
}

/* ---- LRU list -------------------------------------------------------------------------------- */

/* Links an extent before `next` (AISIM_NONE = at the tail). */
static void lru_link(aisim_extents *set, uint32_t index, uint32_t next)
{
    aisim_extent *e = at(set, index);
    e->lru_next = next;
    e->lru_prev = next == AISIM_NONE ? set->lru_last : at(set, next)->lru_prev;
    if (e->lru_prev != AISIM_NONE) {
        at(set, e->lru_prev)->lru_next = index;
    } else {
        set->lru_first = index;
    }
    if (next != AISIM_NONE) {
        at(set, next)->lru_prev = index;
    } else {
        set->lru_last = index;
    }
}

void aisim_extent_to_lru(aisim_extents *set, uint32_t index)
{
    set->inactive += at(set, index)->count;
    if (set->eviction != NULL) {
        set->eviction->notes.data[index].since_ns = *set->eviction->clock;
    }
    lru_link(set, index, AISIM_NONE);
}

void aisim_extent_lru_unlink(aisim_extents *set, uint32_t index)
{
    aisim_extent *e = at(set, index);
    if (e->lru_prev != AISIM_NONE) {
        at(set, e->lru_prev)->lru_next = e->lru_next;
    } else {
        set->lru_first = e->lru_next;
    }
    if (e->lru_next != AISIM_NONE) {
        at(set, e->lru_next)->lru_prev = e->lru_prev;
    } else {
        set->lru_last = e->lru_prev;
    }
}

void aisim_extent_from_lru(aisim_extents *set, uint32_t index)
{
    set->inactive -= at(set, index)->count;
    aisim_extent_lru_unlink(set, index);
}

/* ---- splitting and merging ------------------------------------------------------------------- */

/* Cuts the extent at block `where`; it keeps the shallow part. @return the new, deeper extent. */
uint32_t aisim_extent_split(aisim_extents *set, uint32_t index, uint32_t where)
{
    aisim_extent deep = *at(set, index);
    AISIM_ASSERT(where > deep.first && where < end_of(&deep));
    deep.count = end_of(&deep) - where;
    deep.first = where;
    uint32_t made = aisim_extent_new(set, deep);
    if (set->eviction != NULL) {
        set->eviction->notes.data[made] = set->eviction->notes.data[index];
    }
    aisim_extent *shallow = at(set, index);
    shallow->count -= deep.count;
    if (deep.kind == AISIM_EXTENT_PRIMARY) {
        aisim_extent_link_primary(set, made, index);
    } else {
        aisim_extent_link_duplicate(set, made, index);
    }
    if (deep.refs == 0) {
        lru_link(set, made, index); /* deeper blocks are evicted first */
    }
    return made;
}

/* Merges extent `deep` into its shallower neighbour when both are in the same state. */
bool aisim_extent_merge(aisim_extents *set, uint32_t shallow, uint32_t deep)
{
    if (shallow == AISIM_NONE || deep == AISIM_NONE) {
        return false;
    }
    aisim_extent *a = at(set, shallow), *b = at(set, deep);
    if (end_of(a) != b->first || a->refs != b->refs || a->kind != b->kind ||
        a->kind != AISIM_EXTENT_PRIMARY || a->mark != AISIM_NONE || b->mark != AISIM_NONE ||
        a->copy != b->copy) {
        return false;
    }
    if (set->eviction != NULL && !aisim_extent_same_note(set, shallow, deep, a->refs > 0)) {
        return false;
    }
    if (a->refs == 0) {
        if (b->lru_next != shallow) {
            return false;
        }
        aisim_extent_lru_unlink(set, deep);
    }
    a->count += b->count;
    aisim_extent_unlink_run(set, deep);
    aisim_extent_drop(set, deep);
    return true;
}

void aisim_extent_merge_around(aisim_extents *set, uint32_t index)
{
    aisim_extent_merge(set, index, at(set, index)->next);
    aisim_extent_merge(set, at(set, index)->prev, index);
}

/* ---- searching ------------------------------------------------------------------------------- */

/* The primary that contains the block, or AISIM_NONE; searched from the deep end. */
uint32_t aisim_extent_find_primary(const aisim_extents *set, uint32_t run, uint32_t block)
{
    uint32_t i = head_get(set, run)->last;
    while (i != AISIM_NONE && at(set, i)->first > block) {
        i = at(set, i)->prev;
    }
    return i != AISIM_NONE && block < end_of(at(set, i)) ? i : AISIM_NONE;
}

/* Cuts so that an extent covers exactly the part of [first, end) it had. @return that extent. */
uint32_t aisim_extent_isolate(aisim_extents *set, uint32_t index, uint32_t first, uint32_t end)
{
    if (end_of(at(set, index)) > end) {
        aisim_extent_split(set, index, end);
    }
    if (at(set, index)->first < first) {
        index = aisim_extent_split(set, index, first);
    }
    return index;
}

/* The owner's duplicate that contains the block, or AISIM_NONE. */
uint32_t aisim_extent_find_owned(const aisim_extents *set, uint32_t run, uint32_t block,
                                 uint32_t owner)
{
    for (uint32_t i = head_get(set, run)->newest; i != AISIM_NONE; i = at(set, i)->prev) {
        const aisim_extent *e = at(set, i);
        if (e->owner == owner && e->first <= block && block < end_of(e)) {
            return i;
        }
    }
    return AISIM_NONE;
}

/* First block of [first, upto) from which on the owner has no duplicate: the part below upto that
 * belongs to primaries. */
uint32_t aisim_extent_primary_part(const aisim_extents *set, uint32_t run, uint32_t first,
                                   uint32_t upto, uint32_t owner)
{
    uint32_t low = first;
    for (uint32_t i = head_get(set, run)->oldest; i != AISIM_NONE; i = at(set, i)->next) {
        const aisim_extent *e = at(set, i);
        if (e->owner == owner && e->first < upto) {
            low = max_u32(low, min_u32(end_of(e), upto));
        }
    }
    return low;
}
