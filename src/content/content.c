/* content.c - the content tree: interned runs, never split, grown at their end.
 *
 * Idea. A run is reached in two ways only: from its parent through the map key (parent, branch
 * position, kind, key), or by walking along it. Appending content at a node therefore first walks
 * the run, then asks the map, then grows the run in place or makes a child; whichever is found
 * first is the only place where that content can be, because the same order was used when it was
 * made.
 *
 * Invariants. start(parent) <= start(child) <= end(parent); a run's refs count the nodes given out,
 * its children and (through src/kv) its resident blocks; ids pieces of a run cover its length. The
 * map holds every keyed run exactly once; runs whose 128-bit map key coincide are chained by
 * `alias` and told apart by their facts, so no hash value ever decides what is equal. */
#include "aisim/content.h"

#include "base/array.h"
#include "base/check.h"
#include "base/map.h"
#include "base/rng.h"

typedef enum { KIND_FREE, KIND_ROOT, KIND_IDS, KIND_NAMED, KIND_PRIVATE } run_kind;

/* blocks [upto of the piece before, upto) of a run have the ids first, first + 1, … */
typedef struct id_piece {
    uint64_t first;
    uint32_t upto;
} id_piece;

typedef struct run {
    uint64_t key; /* first id, name or namespace */
    id_piece *pieces;
    uint32_t n_pieces, cap_pieces;
    uint32_t parent; /* next free run when KIND_FREE */
    uint32_t start, end;
    uint32_t refs;
    uint32_t alias;
    uint32_t block_tokens; /* KIND_IDS */
    run_kind kind;
} run;

struct aisim_content {
    AISIM_ARRAY(run) runs;
    aisim_map
        children; /* (parent, position | mixed kind and key) -> first run of the alias chain */
    uint32_t free_run;
    uint32_t live;
};

aisim_content *aisim_content_new(void)
{
    aisim_content *content = aisim_alloc_zero(1, sizeof *content);
    content->free_run = AISIM_NONE;
    run root = {.kind = KIND_ROOT, .refs = 1, .parent = AISIM_NONE, .alias = AISIM_NONE};
    aisim_array_push(&content->runs, root);
    content->live = 1;
    return content;
}

void aisim_content_free(aisim_content *content)
{
    if (content == NULL) {
        return;
    }
    for (uint32_t i = 0; i < content->runs.len; i++) {
        aisim_free(content->runs.data[i].pieces);
    }
    aisim_array_free(&content->runs);
    aisim_map_free(&content->children);
    aisim_free(content);
}

static run *at(const aisim_content *content, uint32_t index)
{
    AISIM_ASSERT(aisim_content_alive(content, index));
    return &content->runs.data[index];
}

/* ---- the map of keyed children --------------------------------------------------------------- */

static uint64_t place_word(uint32_t parent, uint32_t position)
{
    return (uint64_t)parent << 32 | position;
}

static uint64_t key_word(run_kind kind, uint32_t block_tokens, uint64_t key)
{
    return aisim_mix64(key ^ aisim_mix64((uint64_t)kind << 32 | block_tokens));
}

static bool is(const run *r, uint32_t parent, uint32_t position, run_kind kind,
               uint32_t block_tokens, uint64_t key)
{
    return r->parent == parent && r->start == position && r->kind == kind &&
           r->block_tokens == block_tokens && r->key == key;
}

static uint32_t find_child(const aisim_content *content, uint32_t parent, uint32_t position,
                           run_kind kind, uint32_t block_tokens, uint64_t key)
{
    uint32_t i = aisim_map_get(&content->children, place_word(parent, position),
                               key_word(kind, block_tokens, key));
    while (i != AISIM_NONE && !is(at(content, i), parent, position, kind, block_tokens, key)) {
        i = at(content, i)->alias;
    }
    return i;
}

static void map_insert(aisim_content *content, uint32_t index)
{
    run *r = at(content, index);
    uint64_t a = place_word(r->parent, r->start);
    uint64_t b = key_word(r->kind, r->block_tokens, r->key);
    r->alias = aisim_map_get(&content->children, a, b);
    aisim_map_set(&content->children, a, b, index);
}

static void map_remove(aisim_content *content, uint32_t index)
{
    run *r = at(content, index);
    uint64_t a = place_word(r->parent, r->start);
    uint64_t b = key_word(r->kind, r->block_tokens, r->key);
    uint32_t head = aisim_map_get(&content->children, a, b);
    if (head == index) {
        if (r->alias == AISIM_NONE) {
            aisim_map_remove(&content->children, a, b);
        } else {
            aisim_map_set(&content->children, a, b, r->alias);
        }
        return;
    }
    while (at(content, head)->alias != index) {
        head = at(content, head)->alias;
    }
    at(content, head)->alias = r->alias;
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* A run of length 0 with one reference for the caller; its parent gets one more. */
static uint32_t make_run(aisim_content *content, aisim_node node, run_kind kind,
                         uint32_t block_tokens, uint64_t key)
{
    uint32_t index = content->free_run;
    if (index == AISIM_NONE) {
        index = content->runs.len;
        aisim_array_push(&content->runs, (run){.kind = KIND_FREE, .parent = AISIM_NONE});
    }
    run *r = &content->runs.data[index];
    content->free_run = r->parent;
    *r = (run){.key = key,
               .parent = node.run,
               .start = node.tokens,
               .end = node.tokens,
               .refs = 1,
               .alias = AISIM_NONE,
               .block_tokens = block_tokens,
               .kind = kind};
    content->live++;
    at(content, node.run)->refs++;
    if (kind != KIND_PRIVATE) {
        map_insert(content, index);
    }
    return index;
}

bool aisim_content_alive(const aisim_content *content, uint32_t index)
{
    return index < content->runs.len && content->runs.data[index].kind != KIND_FREE;
}

void aisim_content_hold(aisim_content *content, uint32_t index)
{
    at(content, index)->refs++;
}

void aisim_content_release(aisim_content *content, uint32_t index)
{
    while (index != AISIM_NONE) {
        run *r = at(content, index);
        AISIM_ASSERT(r->refs > 0);
        if (--r->refs > 0) {
            return;
        }
        if (r->kind != KIND_PRIVATE) {
            map_remove(content, index);
        }
        uint32_t parent = r->parent;
        aisim_free(r->pieces);
        *r = (run){.kind = KIND_FREE, .parent = content->free_run};
        content->free_run = index;
        content->live--;
        index = parent;
    }
}

/* ---- hash-id lists --------------------------------------------------------------------------- */

/* The ids still to be appended: pieces[0] with its first `skip` ids already used. */
typedef struct id_cursor {
    const aisim_id_run *ids;
    uint32_t n;
    uint64_t skip;
} id_cursor;

static uint64_t cursor_id(const id_cursor *c)
{
    return c->ids->first + c->skip;
}

static void cursor_advance(id_cursor *c, uint64_t count)
{
    c->skip += count;
    while (c->n > 0 && c->skip >= c->ids->count) {
        c->skip -= c->ids->count;
        c->ids++;
        c->n--;
    }
}

static void push_piece(run *r, uint64_t first, uint64_t count)
{
    uint32_t begin = r->n_pieces == 0 ? 0 : r->pieces[r->n_pieces - 1].upto;
    if (r->n_pieces > 0) {
        id_piece *last = &r->pieces[r->n_pieces - 1];
        uint32_t before = r->n_pieces == 1 ? 0 : r->pieces[r->n_pieces - 2].upto;
        if (last->first + (last->upto - before) == first) {
            last->upto += (uint32_t)count;
            return;
        }
    }
    if (r->n_pieces == r->cap_pieces) {
        r->cap_pieces = r->cap_pieces == 0 ? 2 : r->cap_pieces * 2;
        r->pieces = aisim_realloc(r->pieces, r->cap_pieces, sizeof *r->pieces);
    }
    r->pieces[r->n_pieces++] = (id_piece){first, begin + (uint32_t)count};
}

/* Number of leading ids of the cursor that the run has from its block `block` on; advances the
 * cursor past them. A piece is found by binary search, then both sides move piece by piece. */
static uint32_t match_ids(const run *r, uint32_t block, id_cursor *c)
{
    uint32_t low = 0, high = r->n_pieces;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (r->pieces[middle].upto <= block) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    uint32_t matched = 0;
    for (uint32_t p = low; p < r->n_pieces && c->n > 0; p++) {
        uint32_t begin = p == 0 ? 0 : r->pieces[p - 1].upto;
        uint32_t here = block + matched;
        uint64_t id = r->pieces[p].first + (here - begin);
        uint64_t left = r->pieces[p].upto - here;
        while (left > 0 && c->n > 0 && cursor_id(c) == id) {
            uint64_t step = c->ids->count - c->skip;
            step = step < left ? step : left;
            cursor_advance(c, step);
            matched += (uint32_t)step;
            id += step;
            left -= step;
        }
        if (left > 0) {
            break;
        }
    }
    return matched;
}

/* Appends everything that is left of the cursor to the end of the run, at most `blocks`. */
static void grow_ids(run *r, id_cursor *c, uint64_t blocks)
{
    while (c->n > 0 && blocks > 0) {
        uint64_t step = c->ids->count - c->skip;
        step = step < blocks ? step : blocks;
        push_piece(r, cursor_id(c), step);
        r->end += (uint32_t)step * r->block_tokens;
        blocks -= step;
        cursor_advance(c, step);
    }
}

static uint64_t cursor_total(const id_cursor *c)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        total += c->ids[i].count;
    }
    return total;
}

/* A node inside a run of ids at a block edge can be walked or extended with ids of that size. */
static bool walkable(const run *r, uint32_t position, uint32_t block_tokens)
{
    return r->kind == KIND_IDS && r->block_tokens == block_tokens &&
           (position - r->start) % block_tokens == 0;
}

aisim_node aisim_content_append_ids(aisim_content *content, aisim_node node,
                                    const aisim_id_run *ids, uint32_t n, uint32_t block_tokens,
                                    uint32_t max_tokens)
{
    AISIM_CHECK(block_tokens > 0);
    id_cursor c = {ids, n, 0};
    cursor_advance(&c, 0);
    uint64_t blocks = cursor_total(&c);
    uint64_t wanted = ((uint64_t)max_tokens + block_tokens - 1) / block_tokens;
    blocks = blocks < wanted ? blocks : wanted;
    uint64_t tokens = blocks * block_tokens;
    tokens = tokens < max_tokens ? tokens : max_tokens;
    AISIM_CHECK(node.tokens + tokens + block_tokens < UINT32_MAX);
    uint32_t goal = node.tokens + (uint32_t)tokens;
    uint32_t current = node.run, position = node.tokens;
    aisim_content_hold(content, current);
    while (position < goal) {
        run *r = at(content, current);
        if (walkable(r, position, block_tokens)) {
            position += match_ids(r, (position - r->start) / block_tokens, &c) * block_tokens;
            if (position >= goal) {
                break;
            }
        }
        uint64_t left = (goal - position + block_tokens - 1) / block_tokens;
        uint32_t child =
            find_child(content, current, position, KIND_IDS, block_tokens, cursor_id(&c));
        if (child != AISIM_NONE) {
            aisim_content_hold(content, child);
            aisim_content_release(content, current);
            current = child;
            continue;
        }
        if (position == r->end && walkable(r, position, block_tokens) && r->end > r->start) {
            grow_ids(r, &c, left);
        } else {
            child = make_run(content, (aisim_node){current, position}, KIND_IDS, block_tokens,
                             cursor_id(&c));
            aisim_content_release(content, current);
            current = child;
            grow_ids(at(content, current), &c, left);
        }
        position = goal;
    }
    return (aisim_node){current, goal};
}

/* ---- the other sources ----------------------------------------------------------------------- */

aisim_node aisim_content_namespace(aisim_content *content, uint64_t key)
{
    uint32_t index = find_child(content, 0, 0, KIND_ROOT, 0, key);
    if (index == AISIM_NONE) {
        index = make_run(content, AISIM_ROOT, KIND_ROOT, 0, key);
    } else {
        aisim_content_hold(content, index);
    }
    return (aisim_node){index, 0};
}

aisim_node aisim_content_append_named(aisim_content *content, aisim_node node, uint64_t name,
                                      uint32_t tokens)
{
    AISIM_CHECK((uint64_t)node.tokens + tokens < UINT32_MAX);
    if (tokens == 0) {
        aisim_content_hold(content, node.run);
        return node;
    }
    uint32_t index = find_child(content, node.run, node.tokens, KIND_NAMED, 0, name);
    if (index == AISIM_NONE) {
        index = make_run(content, node, KIND_NAMED, 0, name);
    } else {
        aisim_content_hold(content, index);
    }
    run *r = at(content, index);
    if (r->end < node.tokens + tokens) {
        r->end = node.tokens + tokens; /* the stream goes on: same content, seen further */
    }
    return (aisim_node){index, node.tokens + tokens};
}

aisim_node aisim_content_append_private(aisim_content *content, aisim_node node, uint32_t tokens)
{
    AISIM_CHECK((uint64_t)node.tokens + tokens < UINT32_MAX);
    run *r = at(content, node.run);
    uint32_t index = node.run;
    if (r->kind == KIND_PRIVATE && r->end == node.tokens) {
        aisim_content_hold(content, index);
    } else if (tokens == 0) {
        aisim_content_hold(content, index);
        return node;
    } else {
        index = make_run(content, node, KIND_PRIVATE, 0, 0);
    }
    at(content, index)->end += tokens;
    return (aisim_node){index, node.tokens + tokens};
}

aisim_node aisim_content_branch(aisim_content *content, aisim_node node, uint32_t tokens)
{
    AISIM_CHECK((uint64_t)node.tokens + tokens < UINT32_MAX);
    AISIM_CHECK(node.tokens <= at(content, node.run)->end);
    uint32_t index = make_run(content, node, KIND_PRIVATE, 0, 0);
    at(content, index)->end += tokens;
    return (aisim_node){index, node.tokens + tokens};
}

/* ---- facts ----------------------------------------------------------------------------------- */

uint32_t aisim_content_parent(const aisim_content *content, uint32_t index)
{
    return at(content, index)->parent;
}

uint32_t aisim_content_start(const aisim_content *content, uint32_t index)
{
    return at(content, index)->start;
}

uint32_t aisim_content_end(const aisim_content *content, uint32_t index)
{
    return at(content, index)->end;
}

static uint32_t depth(const aisim_content *content, uint32_t index)
{
    uint32_t steps = 0;
    for (uint32_t i = index; at(content, i)->parent != AISIM_NONE; i = at(content, i)->parent) {
        steps++;
    }
    return steps;
}

static void leave_run(const aisim_content *content, aisim_node *node)
{
    const run *r = at(content, node->run);
    node->tokens = node->tokens < r->start ? node->tokens : r->start;
    node->run = r->parent;
}

aisim_node aisim_content_prefix(const aisim_content *content, aisim_node node, uint32_t tokens)
{
    while (node.run != AISIM_ROOT.run && tokens < aisim_content_start(content, node.run)) {
        node.run = aisim_content_parent(content, node.run);
    }
    return (aisim_node){node.run, tokens};
}

uint32_t aisim_content_common(const aisim_content *content, aisim_node a, aisim_node b)
{
    uint32_t depth_a = depth(content, a.run), depth_b = depth(content, b.run);
    for (; depth_a > depth_b; depth_a--) {
        leave_run(content, &a);
    }
    for (; depth_b > depth_a; depth_b--) {
        leave_run(content, &b);
    }
    while (a.run != b.run) {
        leave_run(content, &a);
        leave_run(content, &b);
    }
    return a.tokens < b.tokens ? a.tokens : b.tokens;
}

uint32_t aisim_content_live(const aisim_content *content)
{
    return content->live;
}
