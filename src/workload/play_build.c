/* play_build.c - order, conversations, edges by target and by source, check for circles. */
#include "workload/play_build.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/rng.h"
#include "workload/lowering_parts.h"

typedef AISIM_ARRAY(aisim_play_edge) edge_array;

/* node -> place in node order */
typedef struct rank {
    int64_t start_ns;
    uint32_t node;
} rank;

static int compare_ranks(const void *a, const void *b)
{
    const rank *x = a;
    const rank *y = b;
    if (x->start_ns != y->start_ns) {
        return x->start_ns < y->start_ns ? -1 : 1;
    }
    return x->node < y->node ? -1 : 1;
}

static const char *name_of(const aisim_play_parts *parts, uint32_t node)
{
    const char *name = parts->nodes[node].name;
    return name != NULL ? name : "?";
}

static aisim_status check_parts(const aisim_play_parts *parts, aisim_error *err)
{
    if (parts->n_nodes == 0) {
        return aisim_fail(err, AISIM_EINVAL, "play '%s': no request", parts->id);
    }
    if (parts->block_size == 0) {
        return aisim_fail(err, AISIM_ERANGE, "play '%s': block_size = 0: must be >= 1", parts->id);
    }
    for (uint32_t i = 0; i < parts->n_nodes; i++) {
        const aisim_play_node *node = &parts->nodes[i];
        if (node->input_tokens < 1) {
            return aisim_fail(err, AISIM_ERANGE, "play '%s', request %s: no prompt tokens",
                              parts->id, name_of(parts, i));
        }
        if (node->start_ns < 0 || node->end_ns < node->start_ns) {
            return aisim_fail(err, AISIM_ERANGE, "play '%s', request %s: it ends before it starts",
                              parts->id, name_of(parts, i));
        }
    }
    for (uint32_t e = 0; e < parts->n_edges; e++) {
        const aisim_play_edge *edge = &parts->edges[e];
        if (edge->source >= parts->n_nodes || edge->target >= parts->n_nodes) {
            return aisim_fail(err, AISIM_EINVAL, "play '%s': edge to a request that is not there",
                              parts->id);
        }
        if (edge->source == edge->target) {
            return aisim_fail(err, AISIM_EINVAL, "play '%s': request %s waits for itself",
                              parts->id, name_of(parts, edge->source));
        }
        if (edge->delay_ns < 0) {
            return aisim_fail(err, AISIM_ERANGE, "play '%s', request %s: negative delay", parts->id,
                              name_of(parts, edge->target));
        }
    }
    return AISIM_OK;
}

static uint32_t model_index(aisim_play *play, const char *name)
{
    for (uint32_t i = 0; i < play->n_models; i++) {
        if (strcmp(play->models[i], name) == 0) {
            return i;
        }
    }
    play->models = aisim_realloc(play->models, play->n_models + 1, sizeof *play->models);
    play->models[play->n_models] = aisim_strdup(name);
    return play->n_models++;
}

static void copy_requests(const aisim_play_parts *parts, const rank *order, aisim_play *play)
{
    AISIM_ARRAY(aisim_id_run) ids = {0};
    play->requests = aisim_alloc_zero(parts->n_nodes, sizeof *play->requests);
    play->n_requests = parts->n_nodes;
    for (uint32_t i = 0; i < parts->n_nodes; i++) {
        const aisim_play_node *node = &parts->nodes[order[i].node];
        uint64_t count = 0;
        aisim_play_request *r = &play->requests[i];
        *r = (aisim_play_request){.start_ns = node->start_ns,
                                  .end_ns = node->end_ns,
                                  .input_tokens = node->input_tokens,
                                  .output_tokens = node->output_tokens,
                                  .outer = node->outer,
                                  .inner = node->inner,
                                  .id_first = ids.len};
        if (node->outer == AISIM_NONE) {
            r->outer = i;
        }
        bool named = node->model != NULL && node->model[0] != '\0';
        r->model = model_index(play, named ? node->model : "model");
        for (uint32_t k = 0; k < node->n_ids; k++) {
            aisim_array_push(&ids, node->ids[k]);
            count += node->ids[k].count;
        }
        r->id_runs = node->n_ids;
        r->id_count = (uint32_t)count;
    }
    play->ids = ids.data;
    play->n_ids = ids.len;
    play->first_start_ns = play->requests[0].start_ns;
    play->last_start_ns = play->requests[play->n_requests - 1].start_ns;
}

/* Conversations in the order of their first request, and the scopes they are in. */
static void find_conversations(const aisim_play_parts *parts, const rank *order, aisim_play *play)
{
    aisim_map names = {0};
    uint32_t *next = aisim_alloc(play->n_requests, sizeof *next);
    play->n_scopes = parts->scopes == NULL ? 1 : parts->n_scopes;
    play->scopes = aisim_alloc_zero(play->n_scopes, sizeof *play->scopes);
    for (uint32_t s = 0; s < play->n_scopes; s++) {
        play->scopes[s] = parts->scopes == NULL
                              ? (aisim_play_scope){.outer = AISIM_NONE, .duration_ns = -1}
                              : parts->scopes[s];
        play->scopes[s].main = AISIM_NONE;
    }
    play->conversations = aisim_alloc_zero(play->n_requests, sizeof *play->conversations);
    play->conversation_requests =
        aisim_alloc(play->n_requests, sizeof *play->conversation_requests);
    for (uint32_t i = 0; i < play->n_requests; i++) {
        const aisim_play_node *node = &parts->nodes[order[i].node];
        uint64_t hash = node->session == NULL ? i : aisim_hash_text(node->session);
        uint64_t kind = node->session == NULL;
        uint32_t c = aisim_map_get(&names, hash, kind);
        if (c == AISIM_NONE) {
            c = play->n_conversations++;
            aisim_map_set(&names, hash, kind, c);
            play->conversations[c].scope = node->scope < play->n_scopes ? node->scope : 0;
            aisim_play_scope *scope = &play->scopes[play->conversations[c].scope];
            scope->main = scope->main == AISIM_NONE ? c : scope->main;
        }
        play->requests[i].conversation = c;
        play->conversations[c].count++;
    }
    uint32_t used = 0;
    for (uint32_t c = 0; c < play->n_conversations; c++) {
        play->conversations[c].first = next[c] = used;
        used += play->conversations[c].count;
    }
    for (uint32_t i = 0; i < play->n_requests; i++) {
        play->conversation_requests[next[play->requests[i].conversation]++] = i;
    }
    for (uint32_t s = 0; s < play->n_scopes; s++) {
        play->scopes[s].main = play->scopes[s].main == AISIM_NONE ? 0 : play->scopes[s].main;
    }
    aisim_free(next);
    aisim_map_free(&names);
}

/* Given edges in node order, each once, and those of requests that nobody leads to. */
static aisim_status collect_edges(const aisim_play_parts *parts, const uint32_t *place,
                                  aisim_play *play, edge_array *edges, aisim_error *err)
{
    aisim_map seen = {0};
    for (uint32_t e = 0; e < parts->n_edges; e++) {
        aisim_play_edge edge = parts->edges[e];
        edge.source = place[edge.source];
        edge.target = place[edge.target];
        uint64_t key = (uint64_t)edge.source << 32 | edge.target;
        if (aisim_map_get(&seen, key, edge.relation) == AISIM_NONE) {
            aisim_map_set(&seen, key, edge.relation, e);
            play->requests[edge.target].in_edges++;
            aisim_array_push(edges, edge);
        }
    }
    aisim_map_free(&seen);
    play->root = AISIM_NONE;
    for (uint32_t i = 0; i < play->n_requests && play->root == AISIM_NONE; i++) {
        play->root = play->requests[i].in_edges == 0 ? i : AISIM_NONE;
    }
    if (play->root == AISIM_NONE) {
        return aisim_fail(err, AISIM_EINVAL,
                          "play '%s': every request waits for another one, no request can start",
                          play->id);
    }
    int64_t root_ns = play->requests[play->root].start_ns;
    for (uint32_t i = 0; i < play->n_requests; i++) {
        if (play->requests[i].in_edges == 0 && i != play->root) {
            int64_t delay = play->requests[i].start_ns - root_ns;
            aisim_array_push(edges, (aisim_play_edge){.source = play->root,
                                                      .target = i,
                                                      .delay_ns = delay > 0 ? delay : 0,
                                                      .trigger = AISIM_TRIGGER_DISPATCH,
                                                      .relation = AISIM_RELATION_SPAWN});
            play->requests[i].in_edges = 1;
        }
    }
    return AISIM_OK;
}

static void lay_out(aisim_play *play, const edge_array *edges)
{
    uint32_t n = play->n_requests;
    play->n_edges = edges->len;
    play->edges = aisim_alloc(edges->len, sizeof *play->edges);
    play->out = aisim_alloc(edges->len, sizeof *play->out);
    uint32_t used = 0;
    for (uint32_t i = 0; i < n; i++) {
        play->requests[i].in_first = used;
        used += play->requests[i].in_edges;
        play->requests[i].in_edges = 0;
    }
    for (uint32_t e = 0; e < edges->len; e++) {
        aisim_play_request *target = &play->requests[edges->data[e].target];
        play->edges[target->in_first + target->in_edges++] = edges->data[e];
        play->requests[edges->data[e].source].out_edges++;
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

static aisim_status check_circles(const aisim_play_parts *parts, const rank *order,
                                  const aisim_play *play, aisim_error *err)
{
    uint32_t held = aisim_play_circle(play);
    return held == AISIM_NONE
               ? AISIM_OK
               : aisim_fail(
                     err, AISIM_EINVAL,
                     "play '%s': its requests wait for one another in a circle that holds up "
                     "%s",
                     play->id, name_of(parts, order[held].node));
}

aisim_status aisim_play_build(const aisim_play_parts *parts, uint32_t ordinal, aisim_play *out,
                              aisim_error *err)
{
    *out = (aisim_play){0};
    aisim_status status = check_parts(parts, err);
    if (status != AISIM_OK) {
        return status;
    }
    rank *order = aisim_alloc(parts->n_nodes, sizeof *order);
    uint32_t *place = aisim_alloc(parts->n_nodes, sizeof *place);
    for (uint32_t i = 0; i < parts->n_nodes; i++) {
        order[i] = (rank){parts->nodes[i].start_ns, i};
    }
    qsort(order, parts->n_nodes, sizeof *order, compare_ranks);
    for (uint32_t i = 0; i < parts->n_nodes; i++) {
        place[order[i].node] = i;
    }
    edge_array edges = {0};
    out->id = aisim_strdup(parts->id);
    out->ordinal = ordinal;
    out->block_size = parts->block_size;
    copy_requests(parts, order, out);
    find_conversations(parts, order, out);
    status = collect_edges(parts, place, out, &edges, err);
    if (status == AISIM_OK) {
        lay_out(out, &edges);
        status = check_circles(parts, order, out, err);
    }
    if (status == AISIM_OK) {
        aisim_lower_lineage(out);
    } else {
        aisim_play_deinit(out);
    }
    aisim_array_free(&edges);
    aisim_free(order);
    aisim_free(place);
    return status;
}
