/* extent_score.c - eviction by score instead of age (kv_cache.eviction = scored, point `evict`).
 *
 * Block by block: as long as room is needed,
 *   1. a further copy of a block that is cached anyway goes first, the one released longest ago;
 *   2. else, of the blocks nobody uses and no unused cached block continues, the one with the
 *      smallest score; of equals the one released longest ago. So a prompt loses its end before its
 *      beginning whatever the scores say (E-B4, I20).
 * Scores are taken at the moment of the eviction.
 *
 * All blocks of an extent were released together and reused equally often, so only its deepest one
 * can be next. A block that goes makes the one before it a candidate: in the same extent, in the
 * one before, or in the parent run, where a map counts the runs that hang on a block. Cost of
 * evicting x blocks with e inactive extents: e + x questions, O((e + x) log e). */
#include "kv/extent_score.h"

#include "kv/extent_internal.h"

/* ---- what is remembered of an extent -----------------------------------------------------------
 */

void aisim_extents_score(aisim_extents *set, uint32_t block_size, aisim_extent_score_fn score,
                         void *context, const int64_t *clock)
{
    AISIM_CHECK(set->eviction == NULL && set->slots.len == 0);
    set->eviction = aisim_alloc_zero(1, sizeof *set->eviction);
    set->eviction->block_size = block_size;
    set->eviction->score = score;
    set->eviction->context = context;
    set->eviction->clock = clock;
}

void aisim_extent_eviction_free(aisim_extents *set)
{
    if (set->eviction != NULL) {
        aisim_array_free(&set->eviction->notes);
        aisim_array_free(&set->eviction->heap);
        aisim_array_free(&set->eviction->places);
        aisim_free(set->eviction);
        set->eviction = NULL;
    }
}

/* ---- candidates ------------------------------------------------------------------------------ */

typedef struct scored {
    aisim_extents *set;
    aisim_eviction *e;
    aisim_map hanging; /* (run, block) -> unused child runs whose first block follows it */
} scored;

static bool unused_primary(const aisim_extents *set, uint32_t i)
{
    return i != AISIM_NONE && at(set, i)->kind == AISIM_EXTENT_PRIMARY && at(set, i)->refs == 0;
}

/* Block `first` of the run begins it: the run and block it follows. @return false = the root's */
static bool parent_block(const scored *s, uint32_t run, uint32_t first, uint32_t *parent)
{
    const aisim_content *content = s->set->content;
    uint32_t b = s->e->block_size;
    if (first == 0 || aisim_content_start(content, run) / b != first) {
        return false;
    }
    uint32_t p = aisim_content_parent(content, run);
    while (p != AISIM_NONE && aisim_content_start(content, p) / b > first - 1) {
        p = aisim_content_parent(content, p); /* it has no block of its own here */
    }
    *parent = p;
    return p != AISIM_NONE;
}

static uint32_t hanging_at(const scored *s, uint32_t run, uint32_t block)
{
    uint32_t n = aisim_map_get(&s->hanging, run, block);
    return n == AISIM_NONE ? 0 : n;
}

/* The deepest block of the extent may go. */
static bool is_candidate(const scored *s, uint32_t i)
{
    const aisim_extent *x = at(s->set, i);
    bool continued = unused_primary(s->set, x->next) && at(s->set, x->next)->first == end_of(x);
    return !continued && hanging_at(s, x->run, end_of(x) - 1) == 0;
}

static bool before(const aisim_score *a, const aisim_score *b)
{
    return a->score != b->score ? a->score < b->score : a->place < b->place;
}

static void push(scored *s, aisim_score item)
{
    aisim_array_push(&s->e->heap, item);
    aisim_score *heap = s->e->heap.data;
    uint32_t i = s->e->heap.len - 1;
    for (; i > 0 && before(&item, &heap[(i - 1) / 2]); i = (i - 1) / 2) {
        heap[i] = heap[(i - 1) / 2];
    }
    heap[i] = item;
}

static aisim_score pop(scored *s)
{
    aisim_score *heap = s->e->heap.data;
    aisim_score top = heap[0], last = heap[--s->e->heap.len];
    uint32_t n = s->e->heap.len, i = 0;
    for (uint32_t child = 1; child < n; child = 2 * i + 1) {
        child += child + 1 < n && before(&heap[child + 1], &heap[child]);
        if (!before(&heap[child], &last)) {
            break;
        }
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last; /* one behind the end when nothing is left: still allocated */
    return top;
}

/* Score of block `block`, the deepest left of extent i. */
static aisim_score score_of(const scored *s, uint32_t i, uint32_t block)
{
    const aisim_extent_note *note = &s->e->notes.data[i];
    int64_t age_ns = *s->e->clock - note->since_ns;
    aisim_score item = {s->e->score(s->e->context, age_ns, block, note->reuse),
                        s->e->places.data[i], i};
    return item;
}

static void offer(scored *s, uint32_t i)
{
    if (unused_primary(s->set, i) && is_candidate(s, i)) {
        push(s, score_of(s, i, end_of(at(s->set, i)) - 1));
    }
}

/* Counts the runs that hang on each block, then offers what may go. */
static void collect(scored *s)
{
    const aisim_extents *set = s->set;
    uint32_t place = 0, parent;
    s->e->heap.len = 0;
    aisim_array_reserve(&s->e->places, set->slots.len);
    for (uint32_t i = set->lru_first; i != AISIM_NONE; i = at(set, i)->lru_next) {
        const aisim_extent *x = at(set, i);
        s->e->places.data[i] = place++;
        if (parent_block(s, x->run, x->first, &parent)) {
            aisim_map_set(&s->hanging, parent, x->first - 1,
                          hanging_at(s, parent, x->first - 1) + 1);
        }
    }
    for (uint32_t i = set->lru_first; i != AISIM_NONE; i = at(set, i)->lru_next) {
        offer(s, i);
    }
}

/* ---- eviction -------------------------------------------------------------------------------- */

/* A run that hung on this block has lost its first one: the block may be next. */
static void let_go(scored *s, uint32_t run, uint32_t block)
{
    uint32_t left = hanging_at(s, run, block) - 1;
    aisim_map_set(&s->hanging, run, block, left);
    uint32_t i = left == 0 ? aisim_extent_find_primary(s->set, run, block) : AISIM_NONE;
    if (i != AISIM_NONE && end_of(at(s->set, i)) == block + 1) {
        offer(s, i);
    }
}

/* Trims the extent of the best candidate as long as it stays the best. @return blocks that went */
static uint32_t take_best(scored *s, uint64_t wanted, aisim_extent_gone_fn gone, void *context)
{
    aisim_score best = pop(s);
    aisim_extent x = *at(s->set, best.extent);
    uint32_t cut = 1;
    for (; cut < x.count && cut < wanted; cut++) {
        uint32_t block = end_of(&x) - cut - 1;
        if (hanging_at(s, x.run, block) > 0) {
            break;
        }
        aisim_score next = score_of(s, best.extent, block);
        if (s->e->heap.len > 0 && before(&s->e->heap.data[0], &next)) {
            push(s, next);
            break;
        }
    }
    uint32_t previous = x.prev, parent; /* asked before the run goes with its last block */
    bool hangs = parent_block(s, x.run, x.first, &parent);
    aisim_extent_trim(s->set, best.extent, cut, gone, context);
    if (cut == x.count) {
        if (previous != AISIM_NONE && end_of(at(s->set, previous)) == x.first) {
            offer(s, previous);
        }
        if (hangs) {
            let_go(s, parent, x.first - 1);
        }
    }
    return cut;
}

/* Copies beside the block that answers, oldest release first. @return blocks that went */
static uint64_t take_copies(aisim_extents *set, uint64_t wanted, aisim_extent_gone_fn gone,
                            void *context)
{
    uint64_t left = wanted;
    for (uint32_t i = set->lru_first, next; i != AISIM_NONE && left > 0; i = next) {
        next = at(set, i)->lru_next;
        if (at(set, i)->kind == AISIM_EXTENT_DUPLICATE) {
            uint32_t cut = left < at(set, i)->count ? (uint32_t)left : at(set, i)->count;
            aisim_extent_trim(set, i, cut, gone, context);
            left -= cut;
        }
    }
    return wanted - left;
}

void aisim_extents_evict_scored(aisim_extents *set, uint64_t blocks, aisim_extent_gone_fn gone,
                                void *context)
{
    AISIM_CHECK(blocks <= set->inactive);
    set->inactive -= blocks;
    blocks -= take_copies(set, blocks, gone, context);
    if (blocks > 0) {
        scored s = {set, set->eviction, {0}};
        collect(&s);
        while (blocks > 0) {
            AISIM_CHECK(s.e->heap.len > 0); /* the deepest unused block of a prompt always may go */
            blocks -= take_best(&s, blocks, gone, context);
        }
        aisim_map_free(&s.hanging);
    }
    set->generation++;
}
