/* play_content.c - hash-consing of id lists, run by run.
 *
 * A child is found by (parent run, branch block, next id). While building, every run keeps its ids
 * in a growable list, because a later prompt may make it longer; at the end they are laid out one
 * behind another. Invariant: no run branches off at the end of another one, since what goes on
 * there goes into the run itself; except behind a shared run, which holds prefixes only. */
#include "workload/play_content.h"

#include "base/array.h"

typedef AISIM_ARRAY(aisim_id_run) id_array;

typedef struct growing_run {
    uint32_t parent;
    uint32_t start_blocks;
    uint32_t blocks;
    uint32_t entered; /* leading blocks that a request entered so far holds */
    bool shared;      /* made of prefixes, complete before the first request is entered */
    id_array ids;
} growing_run;

typedef struct builder {
    AISIM_ARRAY(growing_run) runs;
    aisim_map children; /* (parent, branch block), next id -> run */
} builder;

/* A place in a list of id runs. */
typedef struct position {
    const aisim_id_run *at;
    uint64_t offset; /* inside *at */
} position;

static uint64_t next_id(const position *p)
{
    return p->at->first + p->offset;
}

static void advance(position *p, uint64_t count)
{
    p->offset += count;
    if (p->offset == p->at->count) {
        p->at++;
        p->offset = 0;
    }
}

static uint64_t child_key(uint32_t parent, uint32_t branch_blocks)
{
    return (uint64_t)parent << 32 | branch_blocks;
}

/* Appends `count` ids from p on to the run. */
static void extend(growing_run *run, position p, uint32_t count)
{
    run->blocks += count;
    for (uint64_t left = count; left > 0;) {
        uint64_t step = p.at->count - p.offset;
        step = step < left ? step : left;
        aisim_id_run *last = run->ids.len > 0 ? &run->ids.data[run->ids.len - 1] : NULL;
        if (last != NULL && last->first + last->count == next_id(&p)) {
            last->count += step;
        } else {
            aisim_array_push(&run->ids, (aisim_id_run){.first = next_id(&p), .count = step});
        }
        left -= step;
        advance(&p, step);
    }
}

/* Walks along the run while ids agree, at most `left` blocks; moves p. @return blocks passed */
static uint32_t follow(const growing_run *run, position *p, uint32_t left)
{
    uint32_t passed = 0;
    position own = {.at = run->ids.data};
    uint32_t limit = left < run->blocks ? left : run->blocks;
    while (passed < limit && next_id(&own) == next_id(p)) {
        uint64_t step = own.at->count - own.offset;
        uint64_t other = p->at->count - p->offset;
        step = step < other ? step : other;
        step = step < limit - passed ? step : limit - passed;
        passed += (uint32_t)step;
        advance(&own, step);
        advance(p, step);
    }
    return passed;
}

/* The run that goes on with the next id behind (parent, block), opened if there is none. */
static uint32_t child(builder *b, uint32_t parent, uint32_t block, bool shared, uint64_t id)
{
    uint32_t run = aisim_map_get(&b->children, child_key(parent, block), id);
    if (run == AISIM_NONE) {
        run = b->runs.len;
        aisim_map_set(&b->children, child_key(parent, block), id, run);
        aisim_array_push(&b->runs,
                         (growing_run){.parent = parent, .start_blocks = block, .shared = shared});
    }
    return run;
}

/* Enters one list of n ids, n >= 1; `shared`: as a prefix that all instances have in common.
 * @return the run of its last id; *matched = leading ids that an earlier request held */
static uint32_t enter(builder *b, const aisim_id_run *ids, uint32_t n, bool shared,
                      uint32_t *matched)
{
    position p = {.at = ids};
    uint32_t done = 0;
    uint32_t parent = AISIM_NONE;
    bool known = true;
    *matched = 0;
    while (true) {
        uint32_t index = child(b, parent, done, shared, next_id(&p));
        growing_run *run = &b->runs.data[index];
        uint32_t passed = follow(run, &p, n - done);
        if (known) {
            *matched += passed < run->entered ? passed : run->entered;
            known = passed <= run->entered;
        }
        if (passed < n - done && passed == run->blocks && (shared || !run->shared)) {
            extend(run, p, n - done - passed);
            known = false;
            passed = n - done;
        }
        if (!shared && passed > run->entered) {
            run->entered = passed;
        }
        done += passed;
        if (done == n) {
            return index;
        }
        parent = index;
    }
}

/* traffic 2.1, after_system: the blocks that lie wholly in the prefix of tools and system prompt.
 */
static void enter_prefixes(builder *b, const aisim_play *play)
{
    for (uint32_t i = 0; i < play->n_requests; i++) {
        uint64_t prefix = aisim_play_prefix_tokens(play, i) / play->block_size;
        uint32_t known = aisim_play_known_blocks(play, i);
        uint32_t n = prefix < known ? (uint32_t)prefix : known;
        uint32_t matched;
        if (n > 0) {
            enter(b, play->ids + play->requests[i].id_first, n, true, &matched);
        }
    }
}

static void lay_out(builder *b, uint32_t block_size, aisim_play_content *out)
{
    for (uint32_t i = 0; i < b->runs.len; i++) {
        out->n_ids += b->runs.data[i].ids.len;
    }
    out->n_runs = b->runs.len;
    out->runs = aisim_alloc(out->n_runs, sizeof *out->runs);
    out->ids = aisim_alloc(out->n_ids, sizeof *out->ids);
    uint32_t used = 0;
    for (uint32_t i = 0; i < b->runs.len; i++) {
        growing_run *run = &b->runs.data[i];
        out->runs[i] = (aisim_content_run){.parent = run->parent,
                                           .id_first = used,
                                           .id_runs = run->ids.len,
                                           .start_tokens = (uint64_t)run->start_blocks * block_size,
                                           .length_tokens = (uint64_t)run->blocks * block_size,
                                           .shared = run->shared};
        memcpy(out->ids + used, run->ids.data, run->ids.len * sizeof *out->ids);
        used += run->ids.len;
        aisim_array_free(&run->ids);
    }
}

void aisim_play_content_build(const aisim_play *play, bool after_system, aisim_play_content *out)
{
    *out = (aisim_play_content){.n_requests = play->n_requests};
    out->requests = aisim_alloc(play->n_requests, sizeof *out->requests);
    builder b = {0};
    if (after_system) {
        enter_prefixes(&b, play);
    }
    for (uint32_t i = 0; i < play->n_requests; i++) {
        uint32_t known = aisim_play_known_blocks(play, i);
        uint32_t matched = 0;
        uint32_t run = AISIM_NONE;
        if (known > 0) {
            run = enter(&b, play->ids + play->requests[i].id_first, known, false, &matched);
        }
        out->requests[i] =
            (aisim_content_request){.run = run,
                                    .shared_tokens = (uint64_t)known * play->block_size,
                                    .matched_tokens = (uint64_t)matched * play->block_size};
    }
    lay_out(&b, play->block_size, out);
    aisim_array_free(&b.runs);
    aisim_map_free(&b.children);
}

void aisim_play_content_deinit(aisim_play_content *content)
{
    aisim_free(content->runs);
    aisim_free(content->requests);
    aisim_free(content->ids);
    *content = (aisim_play_content){0};
}

/* The runs a prompt passes and the token at which it ends. */
typedef struct path {
    AISIM_ARRAY(uint32_t) runs; /* from the last one up */
    uint64_t end_tokens;
} path;

static void find_path(const aisim_play_content *content, uint32_t request, path *out)
{
    *out = (path){.end_tokens = content->requests[request].shared_tokens};
    for (uint32_t run = content->requests[request].run; run != AISIM_NONE;
         run = content->runs[run].parent) {
        aisim_array_push(&out->runs, run);
    }
}

/* Where the path leaves its run at that depth: at the start of the next one, or at its end. */
static uint64_t leave_tokens(const aisim_play_content *content, const path *p, uint32_t depth)
{
    uint32_t below = p->runs.len - 1 - depth;
    return below == 0 ? p->end_tokens : content->runs[p->runs.data[below - 1]].start_tokens;
}

uint64_t aisim_play_content_common_tokens(const aisim_play_content *content, uint32_t a, uint32_t b,
                                          bool same_instance)
{
    path x;
    path y;
    find_path(content, a, &x);
    find_path(content, b, &y);
    uint64_t common = 0;
    for (uint32_t depth = 0; depth < x.runs.len && depth < y.runs.len; depth++) {
        uint32_t run = x.runs.data[x.runs.len - 1 - depth];
        if (run != y.runs.data[y.runs.len - 1 - depth] ||
            (!same_instance && !content->runs[run].shared)) {
            break;
        }
        uint64_t leave_x = leave_tokens(content, &x, depth);
        uint64_t leave_y = leave_tokens(content, &y, depth);
        common = leave_x < leave_y ? leave_x : leave_y;
        if (leave_x != leave_y) {
            break;
        }
    }
    aisim_array_free(&x.runs);
    aisim_array_free(&y.runs);
    return common;
}
