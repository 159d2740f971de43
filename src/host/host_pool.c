/* host_pool.c - sorted extents per run, one eviction list through them, splitting and merging.
 *
 * Invariants. Extents of a run are sorted and disjoint. An extent is in the eviction list
 * (`listed`) exactly when it is resident and, unless a finished load leaves blocks where they were
 * (R19), without pins. evictable counts blocks that are listed and without pins. Splitting keeps
 * the order: the half that is evicted first stands first. */
#include "host/host_pool.h"

#include <stdlib.h>

#include "base/check.h"

static aisim_host_extent *at(const aisim_host_pool *pool, uint32_t index)
{
    return &pool->slots.data[index];
}

static uint32_t end_of(const aisim_host_extent *e)
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

void aisim_host_pool_init(aisim_host_pool *pool, aisim_content *content, uint64_t capacity,
                          aisim_tie_break tie_break, bool refresh_on_load)
{
    *pool = (aisim_host_pool){.content = content,
                              .capacity = capacity,
                              .tie_break = tie_break,
                              .refresh_on_load = refresh_on_load,
                              .free_slot = AISIM_NONE,
                              .lru_first = AISIM_NONE,
                              .lru_last = AISIM_NONE};
}

void aisim_host_pool_deinit(aisim_host_pool *pool)
{
    for (uint32_t i = 0; i < pool->slots.len; i++) {
        if (pool->slots.data[i].state != AISIM_HOST_EXTENT_FREE) {
            aisim_content_release(pool->content, pool->slots.data[i].run);
        }
    }
    aisim_array_free(&pool->slots);
    aisim_array_free(&pool->heads);
    aisim_array_free(&pool->changes);
    aisim_array_free(&pool->sorted);
    aisim_array_free(&pool->missing);
}

/* ---- lists ----------------------------------------------------------------------------------- */

static uint32_t last_of(const aisim_host_pool *pool, uint32_t run)
{
    return run < pool->heads.len ? pool->heads.data[run].last : AISIM_NONE;
}

static uint32_t first_of(const aisim_host_pool *pool, uint32_t run)
{
    return run < pool->heads.len ? pool->heads.data[run].first : AISIM_NONE;
}

static uint32_t take_slot(aisim_host_pool *pool, const aisim_host_extent *value)
{
    uint32_t index = pool->free_slot;
    aisim_content_hold(pool->content, value->run);
    if (index == AISIM_NONE) {
        index = pool->slots.len;
        aisim_array_push(&pool->slots, *value);
    } else {
        pool->free_slot = at(pool, index)->next;
        *at(pool, index) = *value;
    }
    return index;
}

static void give_slot(aisim_host_pool *pool, uint32_t index)
{
    aisim_host_extent *e = at(pool, index);
    e->state = AISIM_HOST_EXTENT_FREE;
    e->next = pool->free_slot;
    pool->free_slot = index;
    aisim_content_release(pool->content, e->run);
}

/* Inserts behind `before` (AISIM_NONE = at the front) of its run. */
static void link_run(aisim_host_pool *pool, uint32_t index, uint32_t before)
{
    aisim_host_extent *e = at(pool, index);
    while (pool->heads.len <= e->run) {
        aisim_array_push(&pool->heads, (aisim_host_head){AISIM_NONE, AISIM_NONE});
    }
    aisim_host_head *head = &pool->heads.data[e->run];
    e->prev = before;
    e->next = before == AISIM_NONE ? head->first : at(pool, before)->next;
    *(e->next != AISIM_NONE ? &at(pool, e->next)->prev : &head->last) = index;
    *(before != AISIM_NONE ? &at(pool, before)->next : &head->first) = index;
}

static void unlink_run(aisim_host_pool *pool, uint32_t index)
{
    aisim_host_extent *e = at(pool, index);
    aisim_host_head *head = &pool->heads.data[e->run];
    *(e->next != AISIM_NONE ? &at(pool, e->next)->prev : &head->last) = e->prev;
    *(e->prev != AISIM_NONE ? &at(pool, e->prev)->next : &head->first) = e->next;
}

/* Inserts into the eviction order behind `before` (AISIM_NONE = as the next victim). */
static void link_lru(aisim_host_pool *pool, uint32_t index, uint32_t before)
{
    aisim_host_extent *e = at(pool, index);
    e->listed = true;
    e->lru_prev = before;
    e->lru_next = before == AISIM_NONE ? pool->lru_first : at(pool, before)->lru_next;
    *(e->lru_next != AISIM_NONE ? &at(pool, e->lru_next)->lru_prev : &pool->lru_last) = index;
    *(before != AISIM_NONE ? &at(pool, before)->lru_next : &pool->lru_first) = index;
}

static void unlink_lru(aisim_host_pool *pool, uint32_t index)
{
    aisim_host_extent *e = at(pool, index);
    e->listed = false;
    *(e->lru_next != AISIM_NONE ? &at(pool, e->lru_next)->lru_prev : &pool->lru_last) = e->lru_prev;
    *(e->lru_prev != AISIM_NONE ? &at(pool, e->lru_prev)->lru_next : &pool->lru_first) =
        e->lru_next;
}

/* The last extent of the run that begins at or before the block, AISIM_NONE = none. Searched from
 * the deep end, where stores and touches happen. */
static uint32_t at_or_before(const aisim_host_pool *pool, uint32_t run, uint32_t block)
{
    uint32_t i = last_of(pool, run);
    while (i != AISIM_NONE && at(pool, i)->first > block) {
        i = at(pool, i)->prev;
    }
    return i;
}

/* ---- splitting and merging ------------------------------------------------------------------- */

/* Cuts the extent at `block`; it keeps the shallow part. @return the deep part. */
static uint32_t split(aisim_host_pool *pool, uint32_t index, uint32_t block)
{
    aisim_host_extent deep = *at(pool, index);
    AISIM_ASSERT(block > deep.first && block < end_of(&deep));
    deep.count = end_of(&deep) - block;
    deep.first = block;
    uint32_t made = take_slot(pool, &deep);
    at(pool, index)->count -= deep.count;
    link_run(pool, made, index);
    if (deep.listed) {
        link_lru(pool, made, deep.ascending ? index : at(pool, index)->lru_prev);
    }
    return made;
}

/* Shrinks the extent to its part inside [first, end), which is not empty. @return that part. */
static uint32_t isolate(aisim_host_pool *pool, uint32_t index, uint32_t first, uint32_t end)
{
    if (end_of(at(pool, index)) > end) {
        split(pool, index, end);
    }
    return at(pool, index)->first < first ? split(pool, index, first) : index;
}

/* Which way two neighbours stand in the eviction order; one block has no direction. */
static bool stand_together(const aisim_host_pool *pool, uint32_t shallow, uint32_t deep,
                           bool *ascending)
{
    const aisim_host_extent *a = at(pool, shallow), *b = at(pool, deep);
    bool deep_first = (a->count == 1 || !a->ascending) && (b->count == 1 || !b->ascending);
    bool shallow_first = (a->count == 1 || a->ascending) && (b->count == 1 || b->ascending);
    *ascending = shallow_first && a->lru_next == deep;
    return *ascending || (deep_first && b->lru_next == shallow);
}

/* Merges `deep` into its shallower neighbour when both are in the same state and place. */
static void merge(aisim_host_pool *pool, uint32_t shallow, uint32_t deep)
{
    if (shallow == AISIM_NONE || deep == AISIM_NONE) {
        return;
    }
    aisim_host_extent *a = at(pool, shallow), *b = at(pool, deep);
    bool ascending;
    if (end_of(a) != b->first || !a->listed || !b->listed || a->pins != b->pins ||
        !stand_together(pool, shallow, deep, &ascending)) {
        return;
    }
    a->ascending = ascending;
    a->count += b->count;
    unlink_lru(pool, deep);
    unlink_run(pool, deep);
    give_slot(pool, deep);
}

static void merge_around(aisim_host_pool *pool, uint32_t index)
{
    merge(pool, index, at(pool, index)->next);
    merge(pool, at(pool, index)->prev, index);
}

/* The extent becomes the newest. */
static void renew(aisim_host_pool *pool, uint32_t index, bool ascending)
{
    at(pool, index)->ascending = ascending;
    link_lru(pool, index, pool->lru_last);
    merge_around(pool, index);
}

/* ---- events ---------------------------------------------------------------------------------- */

static void note(aisim_host_pool *pool, aisim_host_stretch blocks, bool stored, bool deep_first)
{
    if (pool->listening) {
        aisim_host_change change = {blocks, stored, deep_first, pool->next_event};
        aisim_array_push(&pool->changes, change);
    }
}

/* ---- admission ------------------------------------------------------------------------------- */

/* Part of the extent that lies in [first, end) is of the range: it is protected. */
static uint64_t protect(aisim_host_pool *pool, uint32_t index, uint32_t first, uint32_t end)
{
    if (!at(pool, index)->listed) {
        return 0; /* no victim anyway */
    }
    index = isolate(pool, index, first, end);
    at(pool, index)->guard = pool->guard;
    return at(pool, index)->pins == 0 ? at(pool, index)->count : 0;
}

/* Appends the absent parts of a stretch to `missing`. @return blocks of it that are evictable. */
static uint64_t find_missing(aisim_host_pool *pool, aisim_host_stretch s)
{
    uint32_t end = s.first + s.count, here = s.first;
    uint64_t guarded = 0;
    uint32_t i = at_or_before(pool, s.run, s.first);
    if (i == AISIM_NONE) {
        i = first_of(pool, s.run);
    } else if (end_of(at(pool, i)) <= s.first) {
        i = at(pool, i)->next;
    }
    while (i != AISIM_NONE && at(pool, i)->first < end) {
        const aisim_host_extent *e = at(pool, i);
        if (e->first > here) {
            aisim_array_push(&pool->missing, (aisim_host_stretch){s.run, here, e->first - here});
        }
        here = end_of(e);
        guarded += protect(pool, i, s.first, end);
        while (i != AISIM_NONE && end_of(at(pool, i)) <= min_u32(here, end)) {
            i = at(pool, i)->next; /* it may have been cut */
        }
        if (here >= end) {
            break;
        }
    }
    if (here < end) {
        aisim_array_push(&pool->missing, (aisim_host_stretch){s.run, here, end - here});
    }
    return guarded;
}

/* Takes the cuts of find_missing back; costs nothing where nothing was cut. */
static void heal(aisim_host_pool *pool, const aisim_host_stretch *range, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        uint32_t i = at_or_before(pool, range[k].run, range[k].first + range[k].count);
        while (i != AISIM_NONE && end_of(at(pool, i)) >= range[k].first) {
            uint32_t before = at(pool, i)->prev;
            merge(pool, before, i);
            i = before;
        }
    }
}

/* The next `blocks` victims go (§5: never one of the range). */
static void evict(aisim_host_pool *pool, uint64_t blocks)
{
    pool->evicted_blocks += blocks;
    pool->evictable -= blocks;
    pool->resident -= blocks;
    pool->used -= blocks;
    uint32_t i = pool->lru_first;
    while (blocks > 0) {
        aisim_host_extent *e = at(pool, i);
        uint32_t next = e->lru_next;
        if (e->pins == 0 && e->guard != pool->guard) {
            uint32_t cut = blocks < e->count ? (uint32_t)blocks : e->count;
            uint32_t first = e->ascending ? e->first : end_of(e) - cut;
            note(pool, (aisim_host_stretch){e->run, first, cut}, false, !e->ascending);
            blocks -= cut;
            e->count -= cut;
            e->first += e->ascending ? cut : 0;
            if (e->count == 0) {
                unlink_lru(pool, i);
                unlink_run(pool, i);
                give_slot(pool, i);
            }
        }
        i = next;
    }
}

uint32_t aisim_host_pool_deepest(const aisim_host_pool *pool, uint32_t run)
{
    uint32_t last = last_of(pool, run);
    return last == AISIM_NONE ? 0 : end_of(at(pool, last));
}

uint64_t aisim_host_pool_victims(const aisim_host_pool *pool, const uint32_t *runs, uint32_t n,
                                 uint64_t most)
{
    uint64_t found = 0;
    for (uint32_t i = pool->lru_first; i != AISIM_NONE && found < most; i = at(pool, i)->lru_next) {
        const aisim_host_extent *e = at(pool, i);
        for (uint32_t k = 0; k < n; k++) {
            if (runs[k] == e->run) {
                return found;
            }
        }
        found += e->pins == 0 ? e->count : 0;
    }
    return found < most ? found : most;
}

static void reserve(aisim_host_pool *pool, aisim_host_stretch s)
{
    aisim_host_extent made = {
        .run = s.run, .first = s.first, .count = s.count, .state = AISIM_HOST_EXTENT_PENDING};
    uint32_t before = at_or_before(pool, s.run, s.first);
    link_run(pool, take_slot(pool, &made), before);
}

aisim_host_admission aisim_host_pool_admit(aisim_host_pool *pool, const aisim_host_stretch *range,
                                           uint32_t n, aisim_host_stretches *cohort)
{
    uint64_t whole = 0, wanted = 0, guarded = 0;
    pool->missing.len = 0;
    pool->guard++;
    for (uint32_t k = 0; k < n; k++) {
        whole += range[k].count;
        guarded += find_missing(pool, range[k]);
    }
    for (uint32_t k = 0; k < pool->missing.len; k++) {
        wanted += pool->missing.data[k].count;
    }
    uint64_t free = pool->capacity - pool->used;
    aisim_host_admission result = AISIM_HOST_PREPARED;
    if (wanted == 0) {
        result = AISIM_HOST_PRESENT;
    } else if (wanted > free + (pool->evictable - guarded)) {
        result = whole > pool->capacity ? AISIM_HOST_UNFITTABLE : AISIM_HOST_RETRY;
    }
    if (result == AISIM_HOST_PREPARED) {
        if (wanted > free) {
            evict(pool, wanted - free);
            pool->next_event += pool->listening;
        }
        cohort->len = 0;
        for (uint32_t k = 0; k < pool->missing.len; k++) {
            reserve(pool, pool->missing.data[k]);
            aisim_array_push(cohort, pool->missing.data[k]);
        }
        pool->used += wanted;
        pool->peak_used = pool->used > pool->peak_used ? pool->used : pool->peak_used;
    }
    if (guarded > 0) {
        heal(pool, range, n);
    }
    return result;
}

/* ---- cohorts --------------------------------------------------------------------------------- */

static int by_key(const void *left, const void *right)
{
    const aisim_host_stretch *a = left, *b = right;
    if (a->run != b->run) {
        return a->run < b->run ? -1 : 1;
    }
    return a->first < b->first ? -1 : a->first > b->first;
}

/* What one cohort does to the extents inside a stretch, in the order in which they will be evicted:
 * what enters the list last is evicted last (R18). */
typedef void (*extent_fn)(aisim_host_pool *pool, uint32_t index, bool ascending);

static void visit_stretch(aisim_host_pool *pool, aisim_host_stretch s, bool ascending, extent_fn fn)
{
    uint32_t end = s.first + s.count, done = 0;
    while (done < s.count) { /* extents merge and split under way: look each up anew */
        uint32_t block = ascending ? s.first + done : end - done - 1;
        uint32_t i = at_or_before(pool, s.run, block);
        AISIM_CHECK(i != AISIM_NONE && end_of(at(pool, i)) > block);
        i = isolate(pool, i, ascending ? block : s.first, ascending ? end : block + 1);
        done += at(pool, i)->count;
        fn(pool, i, ascending);
    }
}

static void visit_cohort(aisim_host_pool *pool, const aisim_host_stretch *cohort, uint32_t n,
                         extent_fn fn)
{
    if (pool->tie_break == AISIM_TIE_KEY_ASC && n > 1) {
        pool->sorted.len = 0;
        for (uint32_t k = 0; k < n; k++) {
            aisim_array_push(&pool->sorted, cohort[k]);
        }
        qsort(pool->sorted.data, n, sizeof *pool->sorted.data, by_key);
        cohort = pool->sorted.data;
    }
    bool ascending = pool->tie_break != AISIM_TIE_DEEPEST_FIRST;
    for (uint32_t k = 0; k < n; k++) {
        visit_stretch(pool, cohort[ascending ? k : n - 1 - k], ascending, fn);
    }
}

static void land(aisim_host_pool *pool, uint32_t index, bool ascending)
{
    aisim_host_extent *e = at(pool, index);
    AISIM_CHECK(e->state == AISIM_HOST_EXTENT_PENDING);
    e->state = AISIM_HOST_EXTENT_RESIDENT;
    pool->resident += e->count;
    pool->evictable += e->count;
    pool->stored_blocks += e->count;
    renew(pool, index, ascending);
}

void aisim_host_pool_land(aisim_host_pool *pool, const aisim_host_stretch *cohort, uint32_t n)
{
    for (uint32_t k = 0; k < n && pool->listening; k++) {
        note(pool, cohort[k], true, false);
    }
    pool->next_event += pool->listening;
    visit_cohort(pool, cohort, n, land);
}

static void vanish(aisim_host_pool *pool, uint32_t index, bool ascending)
{
    (void)ascending;
    AISIM_CHECK(at(pool, index)->state == AISIM_HOST_EXTENT_PENDING);
    pool->used -= at(pool, index)->count;
    unlink_run(pool, index);
    give_slot(pool, index);
}

void aisim_host_pool_drop(aisim_host_pool *pool, const aisim_host_stretch *cohort, uint32_t n)
{
    visit_cohort(pool, cohort, n, vanish);
}

/* ---- lookup and touch ------------------------------------------------------------------------ */

aisim_host_match aisim_host_pool_match(const aisim_host_pool *pool, uint32_t run, uint32_t first,
                                       uint32_t end)
{
    aisim_host_match match = {0};
    uint32_t here = first, i = at_or_before(pool, run, first);
    while (i != AISIM_NONE && here < end && at(pool, i)->first <= here) {
        const aisim_host_extent *e = at(pool, i);
        if (end_of(e) > here) {
            match.pending = match.pending || e->state == AISIM_HOST_EXTENT_PENDING;
            match.pinned = match.pinned || e->pins > 0;
            here = min_u32(end_of(e), end);
            match.resident = match.pending ? match.resident : here - first;
        } else {
            break;
        }
        i = e->next;
    }
    match.blocks = here - first;
    return match;
}

void aisim_host_pool_touch(aisim_host_pool *pool, aisim_host_stretch s)
{
    uint32_t upto = s.first + s.count;
    while (upto > s.first) {
        uint32_t i = at_or_before(pool, s.run, upto - 1);
        if (i == AISIM_NONE || end_of(at(pool, i)) <= s.first) {
            return;
        }
        uint32_t next = max_u32(at(pool, i)->first, s.first);
        if (at(pool, i)->listed && at(pool, i)->pins == 0) {
            i = isolate(pool, i, s.first, upto);
            if (pool->lru_last != i || at(pool, i)->ascending) { /* else it is there already */
                unlink_lru(pool, i);
                renew(pool, i, false);
            } else {
                merge_around(pool, i);
            }
        }
        upto = next;
    }
}

/* ---- pins ------------------------------------------------------------------------------------ */

static void pin(aisim_host_pool *pool, uint32_t index, bool ascending)
{
    (void)ascending;
    aisim_host_extent *e = at(pool, index);
    AISIM_CHECK(e->state == AISIM_HOST_EXTENT_RESIDENT);
    if (e->pins++ == 0) {
        pool->evictable -= e->count;
        if (pool->refresh_on_load) {
            unlink_lru(pool, index);
        }
    }
}

void aisim_host_pool_pin(aisim_host_pool *pool, const aisim_host_stretch *cohort, uint32_t n)
{
    visit_cohort(pool, cohort, n, pin);
}

static void unpin(aisim_host_pool *pool, uint32_t index, bool ascending)
{
    aisim_host_extent *e = at(pool, index);
    AISIM_CHECK(e->pins > 0);
    if (--e->pins > 0) {
        return;
    }
    pool->evictable += e->count;
    if (pool->refresh_on_load) {
        renew(pool, index, ascending); /* §6: one epoch, newer than everything before */
    } else {
        merge_around(pool, index); /* R19 */
    }
}

void aisim_host_pool_unpin(aisim_host_pool *pool, const aisim_host_stretch *cohort, uint32_t n)
{
    visit_cohort(pool, cohort, n, unpin);
}

/* ---- the whole ------------------------------------------------------------------------------- */

void aisim_host_pool_reset(aisim_host_pool *pool)
{
    AISIM_CHECK(pool->used == pool->resident && pool->resident == pool->evictable);
    uint64_t evicted = pool->evicted_blocks;
    pool->guard++;
    if (pool->resident > 0) {
        evict(pool, pool->resident);
        pool->next_event += pool->listening;
    }
    pool->evicted_blocks = evicted; /* emptied, not evicted */
}

static void verify_extent(const aisim_host_pool *pool, const aisim_host_extent *e)
{
    bool resident = e->state == AISIM_HOST_EXTENT_RESIDENT;
    AISIM_CHECK(e->count > 0 && e->state != AISIM_HOST_EXTENT_FREE);
    AISIM_CHECK(resident || e->pins == 0);
    AISIM_CHECK(e->listed == (resident && (e->pins == 0 || !pool->refresh_on_load)));
}

void aisim_host_pool_verify(const aisim_host_pool *pool)
{
    uint64_t used = 0, resident = 0, evictable = 0, listed = 0, in_list = 0;
    for (uint32_t run = 0; run < pool->heads.len; run++) {
        uint32_t previous = AISIM_NONE, end = 0;
        for (uint32_t i = first_of(pool, run); i != AISIM_NONE; i = at(pool, i)->next) {
            const aisim_host_extent *e = at(pool, i);
            verify_extent(pool, e);
            AISIM_CHECK(e->run == run && e->prev == previous && e->first >= end);
            used += e->count;
            resident += e->state == AISIM_HOST_EXTENT_RESIDENT ? e->count : 0;
            evictable += e->listed && e->pins == 0 ? e->count : 0;
            listed += e->listed;
            end = end_of(e);
            previous = i;
        }
        AISIM_CHECK(last_of(pool, run) == previous);
    }
    uint32_t previous = AISIM_NONE;
    for (uint32_t i = pool->lru_first; i != AISIM_NONE; i = at(pool, i)->lru_next) {
        AISIM_CHECK(at(pool, i)->listed && at(pool, i)->lru_prev == previous);
        in_list++;
        previous = i;
    }
    AISIM_CHECK(pool->lru_last == previous && listed == in_list);
    AISIM_CHECK(used == pool->used && resident == pool->resident && evictable == pool->evictable);
    AISIM_CHECK(pool->used <= pool->capacity);
}
