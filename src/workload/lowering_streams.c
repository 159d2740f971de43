/* lowering_streams.c - step A: which requests of one scope continue one another (traffic 1.6 A).
 *
 * Idea: a prompt holds its whole history, so a request continues the chain whose last prompt is a
 * prefix of its own. A producer may have flattened parallel agents into one list; chains take them
 * apart again. A context compaction rewrites history and looks like a fork: a fork off a request
 * that nobody continued is spliced back (a seam).
 *
 * Invariants: every request is in exactly one chain; a spliced chain is empty and never looked at
 * again; a fork always names an earlier request than the first of its chain. */
#include "workload/lowering_parts.h"

#define SEAM_GAP_NS (INT64_C(3600) * 1000000000)

typedef struct chain {
    aisim_index_array requests;
    uint32_t fork;  /* request, AISIM_NONE = none */
    uint64_t depth; /* ids shared with the fork */
    bool spliced;
} chain;

typedef struct chains {
    const aisim_play *play;
    AISIM_ARRAY(chain) list;
    aisim_map of; /* request -> chain */
} chains;

static const aisim_play_request *request_at(const chains *set, uint32_t request)
{
    return &set->play->requests[request];
}

static uint32_t tail_of(const chain *c)
{
    return c->requests.data[c->requests.len - 1];
}

static void append(chains *set, uint32_t index, uint32_t request)
{
    aisim_array_push(&set->list.data[index].requests, request);
    aisim_map_set(&set->of, request, 0, index);
}

static void open_chain(chains *set, uint32_t request, uint32_t fork, uint64_t depth)
{
    aisim_array_push(&set->list, (chain){.fork = fork, .depth = depth});
    append(set, set->list.len - 1, request);
}

static bool ended_by(const aisim_play_request *source, int64_t time_ns)
{
    return source->end_ns <= time_ns + AISIM_PLAY_EPSILON_NS;
}

/* A.2: where one request goes. */
static void place(chains *set, uint32_t request)
{
    const aisim_play_request *r = request_at(set, request);
    if (r->id_count == 0 && set->list.len > 0) {
        append(set, 0, request);
        return;
    }
    uint32_t best = AISIM_NONE;
    uint64_t best_length = 0;
    uint32_t fork = AISIM_NONE;
    uint64_t fork_depth = 0;
    uint64_t fork_length = 0;
    for (uint32_t i = 0; i < set->list.len; i++) {
        uint32_t tail = tail_of(&set->list.data[i]);
        const aisim_play_request *t = request_at(set, tail);
        uint64_t common = aisim_play_common_ids(set->play, tail, request);
        if (common == t->id_count && t->model == r->model && ended_by(t, r->start_ns) &&
            (best == AISIM_NONE || t->id_count > best_length)) {
            best = i;
            best_length = t->id_count;
        }
        if (common > fork_depth ||
            (common == fork_depth && common > 0 && t->id_count > fork_length)) {
            fork = tail;
            fork_depth = common;
            fork_length = t->id_count;
        }
    }
    if (best != AISIM_NONE) {
        append(set, best, request);
    } else {
        open_chain(set, request, fork, fork_depth);
    }
}

static bool shares_an_id(const aisim_play *play, uint32_t a, uint32_t b)
{
    const aisim_play_request *x = &play->requests[a];
    const aisim_play_request *y = &play->requests[b];
    for (uint32_t i = 0; i < x->id_runs; i++) {
        const aisim_id_run *p = &play->ids[x->id_first + i];
        for (uint32_t j = 0; j < y->id_runs; j++) {
            const aisim_id_run *q = &play->ids[y->id_first + j];
            if (p->first < q->first + q->count && q->first < p->first + p->count) {
                return true;
            }
        }
    }
    return false;
}

/* A.1: title generation and quota probes share nothing with what follows. */
static bool is_preamble(const aisim_play *play, const uint32_t *nodes, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++) {
        if (aisim_play_common_ids(play, nodes[0], nodes[i]) > 0) {
            return false;
        }
    }
    if (play->requests[nodes[0]].output_tokens <= 64) {
        return n > 1;
    }
    for (uint32_t i = 1; i < n; i++) {
        if (shares_an_id(play, nodes[0], nodes[i])) {
            return false;
        }
    }
    return n > 1;
}

/* A.3: may this fork be a compaction of the chain that ended with `source`? */
static bool is_seam(const chains *set, uint32_t source, const chain *c)
{
    const aisim_play_request *s = request_at(set, source);
    const aisim_play_request *first = request_at(set, c->requests.data[0]);
    if (c->depth == 0 || !ended_by(s, first->start_ns) || s->model != first->model) {
        return false;
    }
    bool long_gap = first->start_ns - s->end_ns > SEAM_GAP_NS;
    return !(long_gap && c->depth * 2 < s->id_count);
}

/* The eligible fork with the greatest depth, then the earliest, then the lowest index. */
static uint32_t elect(const chains *set, uint32_t source)
{
    uint32_t best = AISIM_NONE;
    for (uint32_t i = 0; i < set->list.len; i++) {
        const chain *c = &set->list.data[i];
        if (c->spliced || c->fork != source || !is_seam(set, source, c)) {
            continue;
        }
        if (best == AISIM_NONE) {
            best = i;
            continue;
        }
        const chain *b = &set->list.data[best];
        int64_t start = request_at(set, c->requests.data[0])->start_ns;
        int64_t best_start = request_at(set, b->requests.data[0])->start_ns;
        if (c->depth > b->depth || (c->depth == b->depth && start < best_start)) {
            best = i;
        }
    }
    return best;
}

static void splice(chains *set, uint32_t owner, uint32_t index)
{
    chain *c = &set->list.data[index];
    for (uint32_t i = 0; i < c->requests.len; i++) {
        append(set, owner, c->requests.data[i]);
    }
    c->spliced = true;
    aisim_array_free(&c->requests);
}

/* The forks left over hang on the new tail if they can. @return true when one was moved. */
static bool move_forks(chains *set, uint32_t source, uint32_t tail)
{
    bool moved = false;
    for (uint32_t i = 0; i < set->list.len; i++) {
        chain *c = &set->list.data[i];
        if (c->spliced || c->fork != source) {
            continue;
        }
        uint32_t first = c->requests.data[0];
        uint64_t common = aisim_play_common_ids(set->play, tail, first);
        if (common > 0 && request_at(set, tail)->start_ns <= request_at(set, first)->start_ns) {
            c->fork = tail;
            c->depth = common;
            moved = true;
        }
    }
    return moved;
}

static bool authored_before(const chains *set, uint32_t a, uint32_t b)
{
    const aisim_play_request *x = request_at(set, a);
    const aisim_play_request *y = request_at(set, b);
    return x->outer != y->outer ? x->outer < y->outer : x->inner < y->inner;
}

static void push_once(aisim_index_array *list, uint32_t request)
{
    for (uint32_t i = 0; i < list->len; i++) {
        if (list->data[i] == request) {
            return;
        }
    }
    aisim_array_push(list, request);
}

/* A.3: fork sources in the order of their ids; a tail that inherits forks is looked at (again). */
static void close_seams(chains *set)
{
    aisim_index_array pending = {0};
    for (uint32_t i = 0; i < set->list.len; i++) {
        if (set->list.data[i].fork != AISIM_NONE) {
            push_once(&pending, set->list.data[i].fork);
        }
    }
    while (pending.len > 0) {
        uint32_t next = 0;
        for (uint32_t i = 1; i < pending.len; i++) {
            if (authored_before(set, pending.data[i], pending.data[next])) {
                next = i;
            }
        }
        uint32_t source = pending.data[next];
        aisim_array_remove(&pending, next);
        uint32_t owner = aisim_map_get(&set->of, source, 0);
        if (tail_of(&set->list.data[owner]) != source) {
            continue;
        }
        uint32_t elected = elect(set, source);
        if (elected == AISIM_NONE) {
            continue;
        }
        splice(set, owner, elected);
        uint32_t tail = tail_of(&set->list.data[owner]);
        if (move_forks(set, source, tail)) {
            push_once(&pending, tail);
        }
    }
    aisim_array_free(&pending);
}

void aisim_lower_streams(const aisim_play *play, uint32_t scope, const uint32_t *nodes, uint32_t n,
                         aisim_stream_array *streams)
{
    chains set = {.play = play};
    bool preamble = is_preamble(play, nodes, n);
    for (uint32_t i = preamble ? 1 : 0; i < n; i++) {
        place(&set, nodes[i]);
    }
    close_seams(&set);
    /* A.4: chain 0 holds the earliest request and has no fork, so it is never spliced: it is the
     * main stream. */
    for (uint32_t i = 0; i < set.list.len; i++) {
        chain *c = &set.list.data[i];
        if (c->spliced) {
            continue;
        }
        aisim_stream stream = {.scope = scope, .fork = c->fork, .main = i == 0};
        if (i == 0 && preamble) {
            aisim_array_push(&stream.requests, nodes[0]);
            for (uint32_t k = 0; k < c->requests.len; k++) {
                aisim_array_push(&stream.requests, c->requests.data[k]);
            }
            aisim_array_free(&c->requests);
        } else {
            stream.requests.data = c->requests.data;
            stream.requests.len = c->requests.len;
            stream.requests.cap = c->requests.cap;
        }
        aisim_array_push(streams, stream);
    }
    aisim_array_free(&set.list);
    aisim_map_free(&set.of);
}
