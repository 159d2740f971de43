/* lowering_edges.c - step C: who waits for whom (traffic 1.6 C), and the check of the graph.
 *
 * Edges are collected in the order of the specification with a linked list per target, so that of
 * two equal ones the first stays; at the end they are laid out by target, and an index by source
 * is added for the client, which fires them. */
#include "workload/lowering_parts.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"

typedef struct linked_edge {
    aisim_play_edge edge;
    uint32_t next; /* of the same target */
} linked_edge;

typedef struct builder {
    aisim_play *play;
    const aisim_stream *streams;
    const aisim_scope_times *times;
    AISIM_ARRAY(linked_edge) edges;
    uint32_t *first, *last; /* per target */
    aisim_error *err;
} builder;

static const aisim_play_request *at(const builder *b, uint32_t request)
{
    return &b->play->requests[request];
}

static uint32_t last_of(const aisim_stream *stream)
{
    return stream->requests.data[stream->requests.len - 1];
}

static void add(builder *b, uint32_t source, uint32_t target, aisim_play_trigger trigger,
                int64_t delay_ns, aisim_play_relation relation)
{
    for (uint32_t e = b->first[target]; e != AISIM_NONE; e = b->edges.data[e].next) {
        const aisim_play_edge *old = &b->edges.data[e].edge;
        if (old->source == source && old->trigger == (uint8_t)trigger &&
            old->relation == (uint8_t)relation) {
            return;
        }
    }
    uint32_t index = b->edges.len;
    aisim_play_edge edge = {.source = source,
                            .target = target,
                            .delay_ns = delay_ns > 0 ? delay_ns : 0,
                            .trigger = (uint8_t)trigger,
                            .relation = (uint8_t)relation};
    aisim_array_push(&b->edges, (linked_edge){.edge = edge, .next = AISIM_NONE});
    if (b->first[target] == AISIM_NONE) {
        b->first[target] = index;
    } else {
        b->edges.data[b->last[target]].next = index;
    }
    b->last[target] = index;
}

static void add_sequences(builder *b)
{
    for (uint32_t s = 0; s < b->play->n_conversations; s++) {
        const aisim_index_array *list = &b->streams[s].requests;
        for (uint32_t i = 1; i < list->len; i++) {
            uint32_t source = list->data[i - 1];
            uint32_t target = list->data[i];
            add(b, source, target, AISIM_TRIGGER_COMPLETION,
                at(b, target)->start_ns - at(b, source)->end_ns, AISIM_RELATION_SEQUENCE);
        }
    }
}

static void add_spawns(builder *b)
{
    for (uint32_t s = 0; s < b->play->n_conversations; s++) {
        const aisim_stream *stream = &b->streams[s];
        uint32_t source = stream->main ? b->times[stream->scope].owner : stream->fork;
        if (source == AISIM_NONE) {
            continue;
        }
        uint32_t target = stream->requests.data[0];
        int64_t start_ns = at(b, target)->start_ns;
        if (start_ns < at(b, source)->end_ns) {
            add(b, source, target, AISIM_TRIGGER_DISPATCH, start_ns - at(b, source)->start_ns,
                AISIM_RELATION_SPAWN);
        } else {
            add(b, source, target, AISIM_TRIGGER_COMPLETION, start_ns - at(b, source)->end_ns,
                AISIM_RELATION_SPAWN);
        }
    }
}

/* ---- barrier ---------------------------------------------------------------------------------
 * Per stream the requests sorted by (end, start, node) and a mark that moves with the start of x.
 * Ended by t(x) + eps and started before x: below the mark, skipping what started in the same
 * epsilon. */

typedef struct by_end {
    int64_t end_ns, start_ns;
    uint32_t request;
} by_end;

static int compare_by_end(const void *a, const void *b)
{
    const by_end *x = a;
    const by_end *y = b;
    if (x->end_ns != y->end_ns) {
        return x->end_ns < y->end_ns ? -1 : 1;
    }
    if (x->start_ns != y->start_ns) {
        return x->start_ns < y->start_ns ? -1 : 1;
    }
    return x->request < y->request ? -1 : 1;
}

typedef struct ended_list {
    by_end *list;
    uint32_t len, mark;
    uint32_t stream;
} ended_list;

/* The last request of one stream that x may have waited for, or AISIM_NONE. */
static uint32_t last_ended(ended_list *ended, int64_t start_ns)
{
    while (ended->mark < ended->len &&
           ended->list[ended->mark].end_ns <= start_ns + AISIM_PLAY_EPSILON_NS) {
        ended->mark++;
    }
    for (uint32_t i = ended->mark; i > 0; i--) {
        if (ended->list[i - 1].start_ns < start_ns) {
            return ended->list[i - 1].request;
        }
    }
    return AISIM_NONE;
}

/* Drops what another of the set makes superfluous, adds the rest. If any request of the set
 * dominates, the one that started last does. */
static void add_undominated(builder *b, const uint32_t *set, uint32_t n, uint32_t target)
{
    int64_t latest_ns = INT64_MIN;
    for (uint32_t i = 0; i < n; i++) {
        int64_t start_ns = at(b, set[i])->start_ns;
        latest_ns = start_ns > latest_ns ? start_ns : latest_ns;
    }
    for (uint32_t i = 0; i < n; i++) {
        const aisim_play_request *r = at(b, set[i]);
        if (r->start_ns < latest_ns && r->end_ns <= latest_ns + AISIM_PLAY_EPSILON_NS) {
            continue;
        }
        add(b, set[i], target, AISIM_TRIGGER_COMPLETION, 0, AISIM_RELATION_BARRIER);
    }
}

static void add_barriers_of_scope(builder *b, const uint32_t *streams, uint32_t n)
{
    ended_list *ended = aisim_alloc_zero(n, sizeof *ended);
    AISIM_ARRAY(by_end) pool = {0};
    aisim_index_array targets = {0};
    aisim_index_array set = {0};
    for (uint32_t i = 0; i < n; i++) {
        const aisim_index_array *list = &b->streams[streams[i]].requests;
        for (uint32_t k = 0; k < list->len; k++) {
            const aisim_play_request *r = at(b, list->data[k]);
            aisim_array_push(
                &pool,
                (by_end){.end_ns = r->end_ns, .start_ns = r->start_ns, .request = list->data[k]});
            aisim_array_push(&targets, list->data[k]);
        }
    }
    uint32_t used = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t len = b->streams[streams[i]].requests.len;
        ended[i] = (ended_list){.list = pool.data + used, .len = len, .stream = streams[i]};
        qsort(ended[i].list, len, sizeof *ended[i].list, compare_by_end);
        used += len;
    }
    /* node order = start order: the marks only move forward */
    bool *wanted = aisim_alloc_zero(b->play->n_requests, sizeof *wanted);
    for (uint32_t i = 0; i < targets.len; i++) {
        wanted[targets.data[i]] = true;
    }
    for (uint32_t x = 0; x < b->play->n_requests; x++) {
        if (!wanted[x]) {
            continue;
        }
        set.len = 0;
        for (uint32_t i = 0; i < n; i++) {
            if (ended[i].stream != at(b, x)->conversation) {
                uint32_t source = last_ended(&ended[i], at(b, x)->start_ns);
                if (source != AISIM_NONE) {
                    aisim_array_push(&set, source);
                }
            }
        }
        add_undominated(b, set.data, set.len, x);
    }
    aisim_free(wanted);
    aisim_free(ended);
    aisim_array_free(&pool);
    aisim_array_free(&targets);
    aisim_array_free(&set);
}

static void add_barriers(builder *b)
{
    aisim_index_array streams = {0};
    for (uint32_t scope = 0; scope < b->play->n_scopes; scope++) {
        streams.len = 0;
        for (uint32_t s = 0; s < b->play->n_conversations; s++) {
            if (b->streams[s].scope == scope) {
                aisim_array_push(&streams, s);
            }
        }
        if (streams.len > 1) {
            add_barriers_of_scope(b, streams.data, streams.len);
        }
    }
    aisim_array_free(&streams);
}

/* ---- join ------------------------------------------------------------------------------------ */

/* The first request behind the marker, in authored order, that continues the owner's stream. */
static uint32_t join_target(const builder *b, uint32_t scope, int64_t end_ns)
{
    uint32_t owner = b->times[scope].owner;
    uint32_t marker = b->play->scopes[scope].outer;
    uint32_t found = AISIM_NONE;
    const aisim_index_array *list = &b->streams[at(b, owner)->conversation].requests;
    for (uint32_t i = 0; i < list->len; i++) {
        const aisim_play_request *r = at(b, list->data[i]);
        if (r->outer > marker && r->start_ns + AISIM_PLAY_EPSILON_NS >= end_ns &&
            (found == AISIM_NONE || r->outer < at(b, found)->outer)) {
            found = list->data[i];
        }
    }
    return found;
}

static aisim_status add_join(builder *b, uint32_t scope)
{
    const aisim_scope_times *times = &b->times[scope];
    int64_t end_ns = times->marker_ns + times->duration_ns;
    if (times->duration_ns < 0) {
        end_ns = INT64_MIN;
        for (uint32_t i = 0; i < b->play->n_requests; i++) {
            if (b->streams[at(b, i)->conversation].scope == scope && at(b, i)->end_ns > end_ns) {
                end_ns = at(b, i)->end_ns;
            }
        }
    }
    uint32_t target = join_target(b, scope, end_ns);
    for (uint32_t s = 0; target != AISIM_NONE && s < b->play->n_conversations; s++) {
        if (b->streams[s].scope != scope) {
            continue;
        }
        uint32_t source = last_of(&b->streams[s]);
        int64_t delay_ns = at(b, target)->start_ns - at(b, source)->end_ns;
        if (delay_ns < -AISIM_PLAY_EPSILON_NS) {
            char child[48];
            char parent[48];
            return aisim_fail(b->err, AISIM_EINVAL,
                              "play '%s' contradicts itself: %s, which waited for the subagent at "
                              "outer:%" PRIu32 ", starts %.6f s before its request %s ends",
                              b->play->id, aisim_play_request_name(b->play, target, parent),
                              b->play->scopes[scope].outer, -aisim_s_from_ns(delay_ns),
                              aisim_play_request_name(b->play, source, child));
        }
        add(b, source, target, AISIM_TRIGGER_COMPLETION, delay_ns, AISIM_RELATION_JOIN);
    }
    return AISIM_OK;
}

static aisim_status add_joins(builder *b)
{
    for (uint32_t scope = 1; scope < b->play->n_scopes; scope++) {
        if (b->play->scopes[scope].blocking && b->times[scope].owner != AISIM_NONE) {
            aisim_status status = add_join(b, scope);
            if (status != AISIM_OK) {
                return status;
            }
        }
    }
    return AISIM_OK;
}

/* ---- root, layout, check --------------------------------------------------------------------- */

/* A stream nobody leads to starts with the play's first root request. */
static aisim_status add_root_spawns(builder *b)
{
    aisim_play *play = b->play;
    play->root = AISIM_NONE;
    for (uint32_t i = 0; i < play->n_requests && play->root == AISIM_NONE; i++) {
        if (b->first[i] == AISIM_NONE) {
            play->root = i;
        }
    }
    if (play->root == AISIM_NONE) {
        return aisim_fail(b->err, AISIM_EINVAL,
                          "play '%s': every request waits for another one, no request can start",
                          play->id);
    }
    for (uint32_t s = 0; s < play->n_conversations; s++) {
        uint32_t target = b->streams[s].requests.data[0];
        if (target != play->root && b->first[target] == AISIM_NONE) {
            add(b, play->root, target, AISIM_TRIGGER_DISPATCH,
                at(b, target)->start_ns - at(b, play->root)->start_ns, AISIM_RELATION_SPAWN);
        }
    }
    return AISIM_OK;
}

static void lay_out(builder *b)
{
    aisim_play *play = b->play;
    uint32_t n = play->n_requests;
    play->n_edges = b->edges.len;
    play->edges = aisim_alloc(play->n_edges, sizeof *play->edges);
    play->out = aisim_alloc(play->n_edges, sizeof *play->out);
    uint32_t used = 0;
    for (uint32_t i = 0; i < n; i++) {
        play->requests[i].in_first = used;
        for (uint32_t e = b->first[i]; e != AISIM_NONE; e = b->edges.data[e].next) {
            play->edges[used++] = b->edges.data[e].edge;
            play->requests[b->edges.data[e].edge.source].out_edges++;
        }
        play->requests[i].in_edges = used - play->requests[i].in_first;
    }
    used = 0;
    for (uint32_t i = 0; i < n; i++) {
        play->requests[i].out_first = used;
        used += play->requests[i].out_edges;
        play->requests[i].out_edges = 0;
    }
    for (uint32_t e = 0; e < play->n_edges; e++) {
        aisim_play_request *source = &play->requests[play->edges[e].source];
        play->out[source->out_first + source->out_edges++] = e;
    }
}

/* One root is given by construction; walking from it must reach everything, or there is a cycle. */
static aisim_status check_acyclic(builder *b)
{
    uint32_t held = aisim_play_circle(b->play);
    char name[48];
    return held == AISIM_NONE
               ? AISIM_OK
               : aisim_fail(
                     b->err, AISIM_EINVAL,
                     "play '%s': its requests wait for one another in a circle that holds up "
                     "%s",
                     b->play->id, aisim_play_request_name(b->play, held, name));
}

aisim_status aisim_lower_edges(aisim_play *play, const aisim_stream *streams,
                               const aisim_scope_times *times, aisim_error *err)
{
    builder b = {.play = play, .streams = streams, .times = times, .err = err};
    b.first = aisim_alloc(play->n_requests, sizeof *b.first);
    b.last = aisim_alloc(play->n_requests, sizeof *b.last);
    for (uint32_t i = 0; i < play->n_requests; i++) {
        b.first[i] = b.last[i] = AISIM_NONE;
    }
    add_sequences(&b);
    add_spawns(&b);
    add_barriers(&b);
    aisim_status status = add_joins(&b);
    if (status == AISIM_OK) {
        status = add_root_spawns(&b);
    }
    if (status == AISIM_OK) {
        lay_out(&b);
        status = check_acyclic(&b);
    }
    aisim_array_free(&b.edges);
    aisim_free(b.first);
    aisim_free(b.last);
    return status;
}
