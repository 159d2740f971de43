/* play_content.c - hash-consing of id lists, run by run.
 *
 * A child is found by (parent run, branch block, next id). While building, every run keeps its ids
 * in a growable list, because a later prompt may make it longer; at the end they are laid out one
 * behind another. Invariant: no run branches off at the end of another one, since what goes on
 * there goes into the run itself. */
#include "workload/play_content.h"

#include "base/array.h"

typedef AISIM_ARRAY(aisim_id_run) id_array;

typedef struct growing_run {
    uint32_t parent;
    uint32_t start_blocks;
    uint32_t blocks;
    id_array ids;
} growing_run;

typedef struct builder {
    AISIM_ARRAY(growing_run) runs;
    aisim_map children; /* (parent, branch block), next id -> run */
} builder;

/* A place in a list of id runs. */
typedef struct position {
    const aisim_id_run *at;
    uint32_t offset; /* inside *at */
} position;

static uint64_t next_id(const position *p)
{
    return p->at->first + p->offset;
}

static void advance(position *p, uint32_t count)
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
    while (count > 0) {
        uint32_t step = p.at->count - p.offset;
        step = step < count ? step : count;
        aisim_id_run *last = run->ids.len > 0 ? &run->ids.data[run->ids.len - 1] : NULL;
        if (last != NULL && last->first + last->count == next_id(&p)) {
            last->count += step;
        } else {
            aisim_array_push(&run->ids, (aisim_id_run){.first = next_id(&p), .count = step});
        }
        count -= step;
        advance(&p, step);
    }
}

static uint32_t open_run(builder *b, uint32_t parent, uint32_t start_blocks, position p,
                         uint32_t count)
{
    uint32_t index = b->runs.len;
    growing_run run = {.parent = parent, .start_blocks = start_blocks};
    aisim_map_set(&b->children, child_key(parent, start_blocks), next_id(&p), index);
    extend(&run, p, count);
    aisim_array_push(&b->runs, run);
    return index;
}

/* Walks along the run while ids agree, at most `left` blocks; moves p. @return blocks passed */
static uint32_t follow(const growing_run *run, position *p, uint32_t left)
{
    uint32_t passed = 0;
    position own = {.at = run->ids.data};
    uint32_t limit = left < run->blocks ? left : run->blocks;
    while (passed < limit && next_id(&own) == next_id(p)) {
        uint32_t step = own.at->count - own.offset;
        uint32_t other = p->at->count - p->offset;
        step = step < other ? step : other;
        step = step < limit - passed ? step : limit - passed;
        passed += step;
        advance(&own, step);
        advance(p, step);
    }
    return passed;
}

/* Enters one list of n ids, n >= 1. @return the run of its last id; *matched = ids known before */
static uint32_t enter(builder *b, const aisim_id_run *ids, uint32_t n, uint32_t *matched)
{
    position p = {.at = ids};
    uint32_t done = 0;
    uint32_t parent = AISIM_NONE;
    while (true) {
        uint32_t run = aisim_map_get(&b->children, child_key(parent, done), next_id(&p));
        if (run == AISIM_NONE) {
            *matched = done;
            return open_run(b, parent, done, p, n - done);
        }
        uint32_t passed = follow(&b->runs.data[run], &p, n - done);
        done += passed;
        if (done == n) {
            *matched = done;
            return run;
        }
        if (passed == b->runs.data[run].blocks) {
            *matched = done;
            extend(&b->runs.data[run], p, n - done);
            return run;
        }
        parent = run;
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
                                           .length_tokens = (uint64_t)run->blocks * block_size};
        memcpy(out->ids + used, run->ids.data, run->ids.len * sizeof *out->ids);
        used += run->ids.len;
        aisim_array_free(&run->ids);
    }
}

void aisim_play_content_build(const aisim_play *play, aisim_play_content *out)
{
    *out = (aisim_play_content){.n_requests = play->n_requests};
    out->requests = aisim_alloc(play->n_requests, sizeof *out->requests);
    builder b = {0};
    for (uint32_t i = 0; i < play->n_requests; i++) {
        uint32_t known = aisim_play_known_blocks(play, i);
        uint32_t matched = 0;
        uint32_t run = AISIM_NONE;
        if (known > 0) {
            run = enter(&b, play->ids + play->requests[i].id_first, known, &matched);
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
