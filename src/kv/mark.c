/* mark.c - lists of marks per run, and the life of states and partial pages.
 *
 * Invariant: an extent of kind STATE or ALIAS with refs = 0 is in the LRU list; one without mark
 * and without references does not exist, except a state that lost a block and ages out. */
#include "kv/mark.h"

#include "base/check.h"

static aisim_extent *extent_at(const aisim_extents *set, uint32_t index)
{
    return &set->slots.data[index];
}

static const aisim_mark_head *head_of(const aisim_extents *set, uint32_t run)
{
    static const aisim_mark_head none = {{AISIM_NONE, AISIM_NONE}, {AISIM_NONE, AISIM_NONE}};
    return run < set->mark_heads.len ? &set->mark_heads.data[run] : &none;
}

void aisim_mark_add(aisim_extents *set, aisim_mark_list list, uint32_t extent, uint32_t run,
                    uint32_t tokens, uint32_t pass)
{
    uint32_t index = set->free_mark;
    if (index == AISIM_NONE) {
        index = set->marks.len;
        aisim_array_push(&set->marks, (aisim_mark){0});
    } else {
        set->free_mark = set->marks.data[index].next;
    }
    while (set->mark_heads.len <= run) {
        aisim_mark_head none = {{AISIM_NONE, AISIM_NONE}, {AISIM_NONE, AISIM_NONE}};
        aisim_array_push(&set->mark_heads, none);
    }
    aisim_mark_head *head = &set->mark_heads.data[run];
    aisim_mark *marks = set->marks.data;
    uint32_t before = head->last[list];
    while (before != AISIM_NONE && marks[before].tokens > tokens) {
        before = marks[before].prev;
    }
    uint32_t after = before == AISIM_NONE ? head->first[list] : marks[before].next;
    marks[index] = (aisim_mark){extent, run, tokens, before, after, pass, (uint8_t)list};
    *(before == AISIM_NONE ? &head->first[list] : &marks[before].next) = index;
    *(after == AISIM_NONE ? &head->last[list] : &marks[after].prev) = index;
    extent_at(set, extent)->mark = index;
    set->generation++;
}

void aisim_mark_remove(aisim_extents *set, uint32_t extent)
{
    uint32_t index = extent_at(set, extent)->mark;
    aisim_mark *marks = set->marks.data;
    aisim_mark *m = &marks[index];
    aisim_mark_head *head = &set->mark_heads.data[m->run];
    *(m->prev == AISIM_NONE ? &head->first[m->list] : &marks[m->prev].next) = m->next;
    *(m->next == AISIM_NONE ? &head->last[m->list] : &marks[m->next].prev) = m->prev;
    m->next = set->free_mark;
    set->free_mark = index;
    extent_at(set, extent)->mark = AISIM_NONE;
    set->generation++;
}

/* ---- paths ----------------------------------------------------------------------------------- */

/* The run on the path of `run` that contains token number tokens - 1. */
static uint32_t run_at(const aisim_block_pool *pool, uint32_t run, uint32_t tokens)
{
    while (aisim_content_start(pool->extents.content, run) >= tokens) {
        run = aisim_content_parent(pool->extents.content, run);
    }
    return run;
}

/* ---- states ---------------------------------------------------------------------------------- */

aisim_state_ref aisim_state_new(aisim_block_pool *pool, uint32_t k)
{
    aisim_extents *set = &pool->extents;
    aisim_extent value = {.run = 0,
                          .first = ++set->next_serial,
                          .count = k,
                          .refs = 1,
                          .lru_prev = AISIM_NONE,
                          .lru_next = AISIM_NONE,
                          .prev = AISIM_NONE,
                          .next = AISIM_NONE,
                          .owner = AISIM_NONE,
                          .mark = AISIM_NONE,
                          .copy = AISIM_NONE,
                          .kind = AISIM_EXTENT_STATE};
    return (aisim_state_ref){aisim_extent_new(set, value), set->next_serial};
}

uint64_t aisim_state_blocks(const aisim_block_pool *pool)
{
    uint64_t blocks = 0;
    for (uint32_t i = 0; i < pool->extents.slots.len; i++) {
        const aisim_extent *extent = extent_at(&pool->extents, i);
        blocks += extent->kind == AISIM_EXTENT_STATE && extent->refs > 0 ? extent->count : 0;
    }
    return blocks;
}

bool aisim_state_alive(const aisim_block_pool *pool, aisim_state_ref state)
{
    return state.extent != AISIM_NONE &&
           extent_at(&pool->extents, state.extent)->kind == AISIM_EXTENT_STATE &&
           extent_at(&pool->extents, state.extent)->first == state.serial;
}

bool aisim_state_published(const aisim_block_pool *pool, aisim_state_ref state)
{
    return aisim_state_alive(pool, state) &&
           extent_at(&pool->extents, state.extent)->mark != AISIM_NONE;
}

static void set_run(aisim_extents *set, uint32_t extent, uint32_t run)
{
    aisim_content_hold(set->content, run);
    aisim_content_release(set->content, extent_at(set, extent)->run);
    extent_at(set, extent)->run = run;
}

void aisim_state_publish(aisim_block_pool *pool, aisim_state_ref state, uint32_t run,
                         uint32_t tokens, uint32_t pass)
{
    run = run_at(pool, run, tokens);
    set_run(&pool->extents, state.extent, run);
    aisim_mark_add(&pool->extents, AISIM_MARK_STATE, state.extent, run, tokens, pass);
}

void aisim_extent_hold(aisim_block_pool *pool, uint32_t extent)
{
    if (extent_at(&pool->extents, extent)->refs++ == 0) {
        aisim_extent_from_lru(&pool->extents, extent);
    }
    pool->extents.generation++;
}

void aisim_extent_unhold(aisim_block_pool *pool, uint32_t extent)
{
    aisim_extent *e = extent_at(&pool->extents, extent);
    AISIM_CHECK(e->refs > 0);
    pool->extents.generation++;
    if (--e->refs > 0) {
        return;
    }
    if (e->kind == AISIM_EXTENT_STATE && e->mark == AISIM_NONE) {
        pool->free += e->count;
        aisim_extent_drop(&pool->extents, extent);
    } else {
        aisim_extent_to_lru(&pool->extents, extent);
    }
}

void aisim_state_discard(aisim_block_pool *pool, aisim_state_ref state)
{
    if (!aisim_state_alive(pool, state)) {
        return;
    }
    aisim_extent *e = extent_at(&pool->extents, state.extent);
    if (e->mark != AISIM_NONE) {
        aisim_mark_remove(&pool->extents, state.extent);
    }
    if (e->refs == 0) {
        aisim_extent_from_lru(&pool->extents, state.extent);
        pool->free += e->count;
        aisim_extent_drop(&pool->extents, state.extent);
    }
}

/* The oldest of the marks with the same length as `mark` (the newest of them) that may be read. */
static uint32_t readable(const aisim_extents *set, uint32_t mark, uint32_t pass, uint32_t *before)
{
    const aisim_mark *marks = set->marks.data;
    uint32_t tokens = marks[mark].tokens, best = AISIM_NONE;
    for (; mark != AISIM_NONE && marks[mark].tokens == tokens; mark = marks[mark].prev) {
        if (marks[mark].pass != pass) { /* E-S4 */
            best = mark;
        }
    }
    *before = mark;
    return best;
}

aisim_state_hit aisim_state_find(aisim_block_pool *pool, uint32_t run, uint32_t bound,
                                 uint32_t whole, uint32_t pass, bool wait)
{
    const aisim_extents *set = &pool->extents;
    const aisim_mark *marks = set->marks.data;
    uint32_t b = pool->block_size;
    uint32_t limit = bound;
    for (uint32_t r = run; r != AISIM_NONE; r = aisim_content_parent(set->content, r)) {
        uint32_t mark = head_of(set, r)->last[AISIM_MARK_STATE];
        while (mark != AISIM_NONE) {
            uint32_t tokens = marks[mark].tokens;
            if (tokens > limit || tokens / b > whole ||
                (tokens % b != 0 && aisim_page_find(pool, run, tokens) == AISIM_NONE)) {
                mark = marks[mark].prev;
                continue;
            }
            uint32_t before;
            uint32_t best = readable(set, mark, pass, &before);
            if (best != AISIM_NONE) {
                uint32_t extent = marks[best].extent;
                return (aisim_state_hit){tokens, {extent, extent_at(set, extent)->first}, false};
            }
            if (wait) {
                return (aisim_state_hit){tokens, AISIM_NO_STATE, true};
            }
            mark = before;
        }
        uint32_t start = aisim_content_start(set->content, r);
        limit = start < limit ? start : limit;
    }
    return (aisim_state_hit){0, AISIM_NO_STATE, false};
}

/* ---- partial pages --------------------------------------------------------------------------- */

uint32_t aisim_page_find(const aisim_block_pool *pool, uint32_t run, uint32_t tokens)
{
    const aisim_extents *set = &pool->extents;
    const aisim_mark *marks = set->marks.data;
    uint32_t mark = head_of(set, run_at(pool, run, tokens))->last[AISIM_MARK_PAGE];
    uint32_t oldest = AISIM_NONE;
    for (; mark != AISIM_NONE && marks[mark].tokens >= tokens; mark = marks[mark].prev) {
        if (marks[mark].tokens == tokens) {
            oldest = marks[mark].extent;
        }
    }
    return oldest;
}

uint32_t aisim_page_longest(const aisim_block_pool *pool, uint32_t run, uint32_t above,
                            uint32_t bound)
{
    const aisim_extents *set = &pool->extents;
    uint32_t limit = bound;
    for (uint32_t r = run; r != AISIM_NONE && limit > above;
         r = aisim_content_parent(set->content, r)) {
        uint32_t mark = head_of(set, r)->last[AISIM_MARK_PAGE];
        while (mark != AISIM_NONE && set->marks.data[mark].tokens > limit) {
            mark = set->marks.data[mark].prev;
        }
        if (mark != AISIM_NONE) {
            uint32_t tokens = set->marks.data[mark].tokens;
            return tokens > above ? tokens : 0;
        }
        uint32_t start = aisim_content_start(set->content, r);
        limit = start < limit ? start : limit;
    }
    return 0;
}

uint32_t aisim_page_publish(aisim_block_pool *pool, const aisim_lease *lease, uint32_t tokens,
                            uint32_t pass)
{
    uint32_t run = run_at(pool, lease->run, tokens);
    aisim_extent value = {.run = run,
                          .first = tokens / pool->block_size,
                          .count = 1,
                          .refs = 1,
                          .lru_prev = AISIM_NONE,
                          .lru_next = AISIM_NONE,
                          .prev = AISIM_NONE,
                          .next = AISIM_NONE,
                          .owner = AISIM_NONE,
                          .mark = AISIM_NONE,
                          .copy = AISIM_NONE,
                          .kind = AISIM_EXTENT_ALIAS};
    uint32_t extent = aisim_extent_new(&pool->extents, value);
    aisim_mark_add(&pool->extents, AISIM_MARK_PAGE, extent, run, tokens, pass);
    if (pool->tracing) {
        aisim_kv_log_entry entry = {.kind = AISIM_KV_PAGED,
                                    .event = UINT32_MAX,
                                    .run = run,
                                    .first = value.first,
                                    .count = 1,
                                    .owner = lease->owner,
                                    .age = extent};
        aisim_array_push(&pool->log, entry);
    }
    return extent;
}

void aisim_page_withdraw(aisim_block_pool *pool, uint32_t extent)
{
    aisim_mark_remove(&pool->extents, extent);
    aisim_extent_drop(&pool->extents, extent);
}
