/* extent.c - lists of extents per run, the LRU list through them, splitting and merging.
 *
 * Invariants. Primaries of a run are sorted and disjoint; a primary and a duplicate may cover the
 * same blocks; every extent with refs = 0 is in the LRU list exactly once and no other is;
 * splitting keeps the LRU order because the deeper half is linked before the shallower one. */
#include "kv/extent.h"

#include "base/check.h"
#include "kv/mark.h"

static aisim_extent *at(const aisim_extents *set, uint32_t index)
{
    return &set->slots.data[index];
}

static uint32_t end_of(const aisim_extent *e)
{
    return e->first + e->count;
}

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

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
}

/* ---- slots and heads ------------------------------------------------------------------------- */

static const aisim_extent_head no_extents = {AISIM_NONE, AISIM_NONE, AISIM_NONE, AISIM_NONE};

static const aisim_extent_head *head_get(const aisim_extents *set, uint32_t run)
{
    return run < set->heads.len ? &set->heads.data[run] : &no_extents;
}

/* The head of a run that is about to get an extent. */
static aisim_extent_head *head_make(aisim_extents *set, uint32_t run)
{
    while (set->heads.len <= run) {
        aisim_array_push(&set->heads, no_extents);
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
    return index;
}

/* Inserts an extent behind `before` (AISIM_NONE = at the front) of its run's primaries. */
static void link_primary(aisim_extents *set, uint32_t index, uint32_t before)
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
static void link_duplicate(aisim_extents *set, uint32_t index, uint32_t before)
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
static void unlink_run(aisim_extents *set, uint32_t index)
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
    lru_link(set, index, AISIM_NONE);
}

static void lru_unlink(aisim_extents *set, uint32_t index)
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
    lru_unlink(set, index);
}

/* ---- splitting and merging ------------------------------------------------------------------- */

/* Cuts the extent at block `where`; it keeps the shallow part. @return the new, deeper extent. */
static uint32_t split(aisim_extents *set, uint32_t index, uint32_t where)
{
    aisim_extent deep = *at(set, index);
    AISIM_ASSERT(where > deep.first && where < end_of(&deep));
    deep.count = end_of(&deep) - where;
    deep.first = where;
    uint32_t made = aisim_extent_new(set, deep);
    aisim_extent *shallow = at(set, index);
    shallow->count -= deep.count;
    if (deep.kind == AISIM_EXTENT_PRIMARY) {
        link_primary(set, made, index);
    } else {
        link_duplicate(set, made, index);
    }
    if (deep.refs == 0) {
        lru_link(set, made, index); /* deeper blocks are evicted first */
    }
    return made;
}

/* Merges extent `deep` into its shallower neighbour when both are in the same state. */
static bool merge(aisim_extents *set, uint32_t shallow, uint32_t deep)
{
    if (shallow == AISIM_NONE || deep == AISIM_NONE) {
        return false;
    }
    aisim_extent *a = at(set, shallow), *b = at(set, deep);
    if (end_of(a) != b->first || a->refs != b->refs || a->kind != b->kind ||
        a->kind != AISIM_EXTENT_PRIMARY || a->mark != AISIM_NONE || b->mark != AISIM_NONE) {
        return false;
    }
    if (a->refs == 0) {
        if (b->lru_next != shallow) {
            return false;
        }
        lru_unlink(set, deep);
    }
    a->count += b->count;
    unlink_run(set, deep);
    aisim_extent_drop(set, deep);
    return true;
}

static void merge_around(aisim_extents *set, uint32_t index)
{
    merge(set, index, at(set, index)->next);
    merge(set, at(set, index)->prev, index);
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

/* The primary that contains the block, or AISIM_NONE; searched from the deep end. */
static uint32_t find_primary(const aisim_extents *set, uint32_t run, uint32_t block)
{
    uint32_t i = head_get(set, run)->last;
    while (i != AISIM_NONE && at(set, i)->first > block) {
        i = at(set, i)->prev;
    }
    return i != AISIM_NONE && block < end_of(at(set, i)) ? i : AISIM_NONE;
}

/* Cuts so that an extent covers exactly the part of [first, end) it had. @return that extent. */
static uint32_t isolate(aisim_extents *set, uint32_t index, uint32_t first, uint32_t end)
{
    if (end_of(at(set, index)) > end) {
        split(set, index, end);
    }
    if (at(set, index)->first < first) {
        index = split(set, index, first);
    }
    return index;
}

void aisim_extents_hold(aisim_extents *set, uint32_t run, uint32_t first, uint32_t end)
{
    uint32_t upto = end;
    while (upto > first) {
        uint32_t i = find_primary(set, run, upto - 1);
        AISIM_CHECK(i != AISIM_NONE);
        i = isolate(set, i, first, upto);
        aisim_extent *e = at(set, i);
        upto = e->first;
        if (e->refs++ == 0) {
            aisim_extent_from_lru(set, i);
        }
        merge_around(set, i);
    }
    set->generation++;
}

/* The owner's duplicate that contains the block, or AISIM_NONE. */
static uint32_t find_owned(const aisim_extents *set, uint32_t run, uint32_t block, uint32_t owner)
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
static uint32_t primary_part(const aisim_extents *set, uint32_t run, uint32_t first, uint32_t upto,
                             uint32_t owner)
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

static void drop_ref(aisim_extents *set, uint32_t index)
{
    aisim_extent *e = at(set, index);
    AISIM_ASSERT(e->refs > 0);
    if (--e->refs == 0) {
        aisim_extent_to_lru(set, index); /* E-B3: to the tail */
    }
    if (e->kind == AISIM_EXTENT_PRIMARY) {
        merge_around(set, index);
    }
}

void aisim_extents_release(aisim_extents *set, uint32_t run, uint32_t first, uint32_t end,
                           uint32_t owner)
{
    uint32_t upto = end;
    while (upto > first) {
        uint32_t i = find_owned(set, run, upto - 1, owner);
        uint32_t low = first;
        if (i == AISIM_NONE) {
            low = primary_part(set, run, first, upto, owner);
            i = find_primary(set, run, upto - 1);
            AISIM_CHECK(i != AISIM_NONE);
        }
        i = isolate(set, i, low, upto);
        upto = at(set, i)->first;
        at(set, i)->owner = AISIM_NONE;
        drop_ref(set, i);
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
                         .mark = AISIM_NONE};
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
            link_duplicate(set, aisim_extent_new(set, made), head_get(set, run)->newest);
            made_fn(context, run, here, upto - here, false);
            here = upto;
        } else {
            uint32_t upto = next == AISIM_NONE ? end : min_u32(at(set, next)->first, end);
            made.kind = AISIM_EXTENT_PRIMARY;
            made.owner = AISIM_NONE;
            made.count = upto - here;
            uint32_t i = aisim_extent_new(set, made);
            link_primary(set, i, before);
            before = merge(set, before, i) ? before : i;
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
        link_duplicate(set, page, head_get(set, run)->newest);
    } else {
        link_primary(set, page, before);
    }
    set->generation++;
    return !visible;
}

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
        if (gone != NULL) {
            gone(context, run, first, end - first, AISIM_GONE_LAST, 0);
        }
        return;
    }
    i = isolate(set, i, first, end);
    uint32_t low = at(set, i)->first, high = end_of(at(set, i));
    lose(set, run, high, end, gone, context);
    unlink_run(set, i);
    at(set, i)->kind = AISIM_EXTENT_PRIMARY; /* E-B6: promoted where it stands */
    at(set, i)->owner = AISIM_NONE;
    uint32_t before = head_get(set, run)->last;
    while (before != AISIM_NONE && at(set, before)->first > low) {
        before = at(set, before)->prev;
    }
    link_primary(set, i, before);
    if (gone != NULL) {
        gone(context, run, low, high - low, AISIM_GONE_PROMOTED, 0);
    }
    merge_around(set, i);
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
        uint32_t i = find_owned(set, run, upto - 1, owner);
        uint32_t low = first;
        bool primary = i == AISIM_NONE;
        if (primary) {
            low = primary_part(set, run, first, upto, owner);
            i = find_primary(set, run, upto - 1);
            AISIM_CHECK(i != AISIM_NONE);
        }
        i = isolate(set, i, low, upto);
        AISIM_CHECK(at(set, i)->refs == 1);
        uint32_t begin = at(set, i)->first;
        if (!primary) {
            tell_copy(set, i, begin, upto, gone, context);
        }
        unlink_run(set, i);
        if (primary) {
            lose(set, run, begin, upto, gone, context);
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

/* Trims `cut` blocks from the deep end of an inactive extent. */
static void trim(aisim_extents *set, uint32_t i, uint32_t cut, aisim_extent_gone_fn gone,
                 void *context)
{
    aisim_extent *e = at(set, i);
    aisim_extent_kind kind = e->kind;
    uint32_t run = e->run, end = end_of(e);
    bool empty = cut == e->count;
    if (kind == AISIM_EXTENT_DUPLICATE) {
        tell_copy(set, i, end - cut, end, gone, context);
    }
    e->count -= cut;
    if (e->mark != AISIM_NONE) {
        aisim_mark_remove(set, i); /* E-S1: a state that lost a block is of no use */
    }
    if (empty) {
        lru_unlink(set, i);
        if (kind == AISIM_EXTENT_PRIMARY || kind == AISIM_EXTENT_DUPLICATE) {
            unlink_run(set, i);
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
        trim(set, i, cut, gone, context);
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
