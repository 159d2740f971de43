/* extent.c - what leases do with extents: match, hold, release, publish. */
#include "kv/extent_internal.h"
#include "kv/extent_score.h"

void aisim_extents_init(aisim_extents *set, aisim_content *content)
{
    *set = (aisim_extents){.content = content,
                           .free_slot = AISIM_NONE,
                           .free_mark = AISIM_NONE,
                           .lru_first = AISIM_NONE,
                           .lru_last = AISIM_NONE};
}

void aisim_extents_deinit(aisim_extents *set)
{
    for (uint32_t i = 0; i < set->slots.len; i++) {
        if (set->slots.data[i].kind != AISIM_EXTENT_FREE) {
            aisim_content_release(set->content, set->slots.data[i].run);
        }
    }
    aisim_array_free(&set->slots);
    aisim_array_free(&set->heads);
    aisim_array_free(&set->marks);
    aisim_array_free(&set->mark_heads);
    aisim_array_free(&set->copies);
    aisim_extent_eviction_free(set);
}

/* ---- lookup and references ------------------------------------------------------------------- */

uint32_t aisim_extents_match(const aisim_extents *set, uint32_t run, uint32_t first, uint32_t end,
                             uint32_t *active)
{
    uint32_t here = first;
    uint32_t busy = 0;
    for (uint32_t i = head_get(set, run)->first; i != AISIM_NONE && here < end;
         i = at(set, i)->next) {
        const aisim_extent *e = at(set, i);
        if (end_of(e) <= here) {
            continue;
        }
        if (e->first > here) {
            break;
        }
        uint32_t upto = min_u32(end_of(e), end);
        if (e->refs > 0) {
            busy += upto - here;
        }
        here = upto;
    }
    *active = busy;
    return here - first;
}

void aisim_extents_hold(aisim_extents *set, uint32_t run, uint32_t first, uint32_t end)
{
    uint32_t upto = end;
    while (upto > first) {
        uint32_t i = aisim_extent_find_primary(set, run, upto - 1);
        AISIM_CHECK(i != AISIM_NONE);
        i = aisim_extent_isolate(set, i, first, upto);
        aisim_extent *e = at(set, i);
        upto = e->first;
        if (e->refs++ == 0) {
            aisim_extent_from_lru(set, i);
        }
        if (set->eviction != NULL) {
            set->eviction->notes.data[i].reuse++;
        }
        aisim_extent_merge_around(set, i);
    }
    set->generation++;
}

void aisim_extent_drop_ref(aisim_extents *set, uint32_t index)
{
    aisim_extent *e = at(set, index);
    AISIM_ASSERT(e->refs > 0);
    if (--e->refs == 0) {
        aisim_extent_to_lru(set, index); /* E-B3: to the tail */
    }
    if (e->kind == AISIM_EXTENT_PRIMARY) {
        aisim_extent_merge_around(set, index);
    }
}

void aisim_extents_release(aisim_extents *set, uint32_t run, uint32_t first, uint32_t end,
                           uint32_t owner)
{
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
        upto = at(set, i)->first;
        at(set, i)->owner = AISIM_NONE;
        aisim_extent_drop_ref(set, i);
    }
    set->generation++;
}

/* ---- publication ----------------------------------------------------------------------------- */

void aisim_extents_publish(aisim_extents *set, uint32_t run, uint32_t first, uint32_t end,
                           uint32_t owner, aisim_extent_made_fn made_fn, void *context)
{
    aisim_extent made = {.run = run,
                         .refs = 1,
                         .lru_prev = AISIM_NONE,
                         .lru_next = AISIM_NONE,
                         .owner = AISIM_NONE,
                         .mark = AISIM_NONE,
                         .copy = AISIM_NONE};
    uint32_t before = head_get(set, run)->last; /* the last primary that begins at or before here */
    while (before != AISIM_NONE && at(set, before)->first > first) {
        before = at(set, before)->prev;
    }
    uint32_t here = first;
    while (here < end) {
        uint32_t next = before == AISIM_NONE ? head_get(set, run)->first : at(set, before)->next;
        made.first = here;
        if (before != AISIM_NONE && end_of(at(set, before)) > here) {
            uint32_t upto = min_u32(end_of(at(set, before)), end);
            made.kind = AISIM_EXTENT_DUPLICATE; /* E-B6: already visible, a further copy */
            made.owner = owner;
            made.count = upto - here;
            aisim_extent_link_duplicate(set, aisim_extent_new(set, made),
                                        head_get(set, run)->newest);
            made_fn(context, run, here, upto - here, false);
            here = upto;
        } else {
            uint32_t upto = next == AISIM_NONE ? end : min_u32(at(set, next)->first, end);
            made.kind = AISIM_EXTENT_PRIMARY;
            made.owner = AISIM_NONE;
            made.count = upto - here;
            uint32_t i = aisim_extent_new(set, made);
            aisim_extent_link_primary(set, i, before);
            before = aisim_extent_merge(set, before, i) ? before : i;
            made_fn(context, run, here, upto - here, true);
            here = upto;
        }
        if (next != AISIM_NONE && at(set, next)->first <= here) {
            before = next;
        }
    }
    set->generation++;
}

bool aisim_extents_complete_page(aisim_extents *set, uint32_t page, uint32_t run, uint32_t block,
                                 uint32_t owner)
{
    aisim_extent *e = at(set, page);
    AISIM_CHECK(e->kind == AISIM_EXTENT_ALIAS && e->count == 1);
    uint32_t before = head_get(set, run)->last;
    while (before != AISIM_NONE && at(set, before)->first > block) {
        before = at(set, before)->prev;
    }
    bool visible = before != AISIM_NONE && end_of(at(set, before)) > block;
    aisim_content_hold(set->content, run);
    aisim_content_release(set->content, e->run);
    e->run = run;
    e->first = block;
    e->kind = visible ? AISIM_EXTENT_DUPLICATE : AISIM_EXTENT_PRIMARY;
    e->owner = visible ? owner : AISIM_NONE;
    if (visible) {
        aisim_extent_link_duplicate(set, page, head_get(set, run)->newest);
    } else {
        aisim_extent_link_primary(set, page, before);
    }
    set->generation++;
    return !visible;
}
