/* extent_evict.c - how blocks leave the index: eviction, withdrawal; and the walk that checks it
 * all. */
#include "kv/extent_internal.h"
#include "kv/mark.h"

/* ---- eviction and withdrawal ----------------------------------------------------------------- */

/* Blocks [first, end) have just lost their primary: the oldest duplicate of each takes its place,
 * the rest is gone. Deep part first, so that `gone` sees the order of eviction. */
static void lose(aisim_extents *set, uint32_t run, uint32_t first, uint32_t end,
                 aisim_extent_gone_fn gone, void *context)
{
    if (first >= end) {
        return;
    }
    uint32_t i = head_get(set, run)->oldest;
    while (i != AISIM_NONE && (at(set, i)->first >= end || end_of(at(set, i)) <= first)) {
        i = at(set, i)->next;
    }
    if (i == AISIM_NONE) {
        set->lost += end - first;
        if (gone != NULL) {
            gone(context, run, first, end - first, AISIM_GONE_LAST, 0);
        }
        return;
    }
    i = aisim_extent_isolate(set, i, first, end);
    uint32_t low = at(set, i)->first, high = end_of(at(set, i));
    lose(set, run, high, end, gone, context);
    aisim_extent_unlink_run(set, i);
    at(set, i)->kind = AISIM_EXTENT_PRIMARY; /* E-B6: promoted where it stands */
    at(set, i)->owner = AISIM_NONE;
    uint32_t before = head_get(set, run)->last;
    while (before != AISIM_NONE && at(set, before)->first > low) {
        before = at(set, before)->prev;
    }
    aisim_extent_link_primary(set, i, before);
    if (gone != NULL) {
        gone(context, run, low, high - low, AISIM_GONE_PROMOTED, 0);
    }
    aisim_extent_merge_around(set, i);
    lose(set, run, first, low, gone, context);
}

/* Tells of a duplicate's blocks, deepest first; each may have another number of older copies. */
static void tell_copy(const aisim_extents *set, uint32_t index, uint32_t first, uint32_t end,
                      aisim_extent_gone_fn gone, void *context)
{
    uint32_t run = at(set, index)->run;
    for (uint32_t block = end; gone != NULL && block-- > first;) {
        uint32_t age = 1;
        for (uint32_t i = at(set, index)->prev; i != AISIM_NONE; i = at(set, i)->prev) {
            age += at(set, i)->first <= block && block < end_of(at(set, i));
        }
        gone(context, run, block, 1, AISIM_GONE_COPY, age);
    }
}

uint32_t aisim_extents_withdraw(aisim_extents *set, uint32_t run, uint32_t first, uint32_t end,
                                uint32_t owner, aisim_extent_gone_fn gone, void *context)
{
    uint32_t upto = end, freed = 0;
    while (upto > first) {
        uint32_t i = aisim_extent_find_owned(set, run, upto - 1, owner);
        uint32_t low = first;
        bool primary = i == AISIM_NONE;
        if (primary) {
            low = aisim_extent_primary_part(set, run, first, upto, owner);
            i = aisim_extent_find_primary(set, run, upto - 1);
            AISIM_CHECK(i != AISIM_NONE);
        }
        i = aisim_extent_isolate(set, i, low, upto);
        AISIM_CHECK(at(set, i)->refs == 1);
        uint32_t begin = at(set, i)->first;
        if (!primary) {
            tell_copy(set, i, begin, upto, gone, context);
        }
        aisim_extent_unlink_run(set, i);
        if (primary) {
            uint64_t lost = set->lost;
            lose(set, run, begin, upto, gone, context);
            set->lost = lost; /* withdrawn, not evicted */
        }
        if (at(set, i)->mark != AISIM_NONE) { /* still visible in part: an ordinary release */
            at(set, i)->kind = AISIM_EXTENT_ALIAS;
            at(set, i)->owner = AISIM_NONE;
            at(set, i)->refs = 0;
            aisim_extent_to_lru(set, i);
        } else {
            freed += upto - begin;
            aisim_extent_drop(set, i);
        }
        upto = begin;
    }
    set->generation++;
    return freed;
}

void aisim_extent_trim(aisim_extents *set, uint32_t i, uint32_t cut, aisim_extent_gone_fn gone,
                       void *context)
{
    aisim_extent *e = at(set, i);
    aisim_extent_kind kind = e->kind;
    uint32_t run = e->run, end = end_of(e);
    bool empty = cut == e->count;
    if (e->copy != AISIM_NONE) { /* offload.md §5.1: whoever gets it waits for the copy */
        int64_t end_ns = set->copies.data[e->copy];
        set->evicted_copy_ns = end_ns > set->evicted_copy_ns ? end_ns : set->evicted_copy_ns;
    }
    if (kind == AISIM_EXTENT_DUPLICATE) {
        tell_copy(set, i, end - cut, end, gone, context);
    }
    e->count -= cut;
    if (e->mark != AISIM_NONE) {
        aisim_mark_remove(set, i); /* E-S1: a state that lost a block is of no use */
    }
    if (empty) {
        aisim_extent_lru_unlink(set, i);
        if (kind == AISIM_EXTENT_PRIMARY || kind == AISIM_EXTENT_DUPLICATE) {
            aisim_extent_unlink_run(set, i);
        }
    }
    if (kind == AISIM_EXTENT_PRIMARY) {
        lose(set, run, end - cut, end, gone, context);
    } else if (gone != NULL && kind != AISIM_EXTENT_DUPLICATE) {
        gone(context, run, end - cut, cut, AISIM_GONE_OTHER,
             kind == AISIM_EXTENT_ALIAS ? i : AISIM_NONE);
    }
    if (empty) {
        aisim_extent_drop(set, i);
    }
}

void aisim_extents_evict(aisim_extents *set, uint64_t blocks, aisim_extent_gone_fn gone,
                         void *context)
{
    AISIM_CHECK(blocks <= set->inactive);
    set->inactive -= blocks;
    while (blocks > 0) {
        uint32_t i = set->lru_first;
        uint32_t count = at(set, i)->count;
        uint32_t cut = blocks < count ? (uint32_t)blocks : count;
        blocks -= cut;
        aisim_extent_trim(set, i, cut, gone, context);
    }
    set->generation++;
}

/* ---- verification ---------------------------------------------------------------------------- */

void aisim_extents_verify(const aisim_extents *set)
{
    uint64_t listed = 0;
    uint32_t previous = AISIM_NONE;
    for (uint32_t i = set->lru_first; i != AISIM_NONE; i = at(set, i)->lru_next) { /* I12 */
        const aisim_extent *e = at(set, i);
        AISIM_CHECK(e->kind != AISIM_EXTENT_FREE && e->refs == 0 && e->count > 0);
        AISIM_CHECK(e->lru_prev == previous && e->owner == AISIM_NONE);
        listed += e->count;
        previous = i;
    }
    AISIM_CHECK(previous == set->lru_last && listed == set->inactive);
    for (uint32_t run = 0; run < set->heads.len; run++) { /* I13 */
        previous = AISIM_NONE;
        uint32_t end = 0;
        for (uint32_t i = set->heads.data[run].first; i != AISIM_NONE; i = at(set, i)->next) {
            const aisim_extent *e = at(set, i);
            AISIM_CHECK(e->kind == AISIM_EXTENT_PRIMARY && e->run == run && e->prev == previous);
            AISIM_CHECK(e->first >= end && e->count > 0 && e->owner == AISIM_NONE);
            end = end_of(e);
            previous = i;
        }
        AISIM_CHECK(set->heads.data[run].last == previous);
        previous = AISIM_NONE;
        for (uint32_t i = set->heads.data[run].oldest; i != AISIM_NONE; i = at(set, i)->next) {
            const aisim_extent *e = at(set, i);
            AISIM_CHECK(e->kind == AISIM_EXTENT_DUPLICATE && e->run == run && e->prev == previous);
            AISIM_CHECK(e->count > 0 && (e->refs > 0 || e->owner == AISIM_NONE));
            previous = i;
        }
        AISIM_CHECK(set->heads.data[run].newest == previous);
    }
}
