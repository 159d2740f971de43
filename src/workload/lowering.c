/* lowering.c - the order of the steps, owners (B), numbering of conversations, lineage (1.7). */
#include "workload/lowering.h"

#include <stdlib.h>
#include <string.h>

#include "workload/lowering_parts.h"

static int compare_nodes(const void *a, const void *b)
{
    const aisim_play_request *x = a;
    const aisim_play_request *y = b;
    if (x->start_ns != y->start_ns) {
        return x->start_ns < y->start_ns ? -1 : 1;
    }
    if (x->outer != y->outer) {
        return x->outer < y->outer ? -1 : 1;
    }
    return x->inner < y->inner ? -1 : x->inner > y->inner;
}

/* traffic 1.3, align_inputs */
static uint32_t aligned(uint32_t input_tokens, uint32_t block, aisim_align_inputs align)
{
    uint64_t blocks = input_tokens / block;
    if (align == AISIM_ALIGN_CEIL) {
        blocks = ((uint64_t)input_tokens + block - 1) / block;
    } else if (align == AISIM_ALIGN_NONE) {
        return input_tokens;
    }
    return (uint32_t)((blocks > 0 ? blocks : 1) * block);
}

/* Moves the recording into the play: resolved times, node order, scopes. `scope_of` holds, until
 * conversations exist, the scope in the field `conversation`. */
static void take_requests(aisim_weka_play *raw, const aisim_lowering_options *options,
                          aisim_play *play)
{
    play->id = raw->id;
    play->block_size = raw->block_size;
    play->ids = raw->ids;
    play->n_ids = raw->n_ids;
    play->models = raw->models;
    play->n_models = raw->n_models;
    play->n_requests = raw->n_requests;
    play->requests = aisim_alloc_zero(raw->n_requests, sizeof *play->requests);
    for (uint32_t i = 0; i < raw->n_requests; i++) {
        const aisim_weka_request *r = &raw->requests[i];
        int64_t start_ns = r->start_ns;
        if (r->group != AISIM_NONE && options->relative) {
            start_ns += raw->groups[r->group].start_ns; /* traffic 1.4 */
        }
        play->requests[i] = (aisim_play_request){
            .start_ns = start_ns,
            .end_ns = start_ns + r->api_ns,
            .input_tokens = aligned(r->input_tokens, raw->block_size, options->align),
            .output_tokens = r->output_tokens,
            .outer = r->outer,
            .inner = r->inner,
            .model = r->model,
            .conversation = r->group == AISIM_NONE ? 0 : r->group + 1,
            .id_first = r->id_first,
            .id_runs = r->id_runs,
            .id_count = r->id_count};
    }
    qsort(play->requests, play->n_requests, sizeof *play->requests, compare_nodes);
    play->first_start_ns = play->requests[0].start_ns;
    play->last_start_ns = play->requests[play->n_requests - 1].start_ns;
    raw->id = NULL;
    raw->ids = NULL;
    raw->models = NULL;
    raw->n_models = 0;
}

static void take_scopes(const aisim_weka_play *raw, aisim_play *play, aisim_scope_times *times)
{
    play->n_scopes = raw->n_groups + 1;
    play->scopes = aisim_alloc(play->n_scopes, sizeof *play->scopes);
    play->scopes[0] = (aisim_play_scope){.outer = AISIM_NONE,
                                         .tool_tokens = raw->tool_tokens,
                                         .system_tokens = raw->system_tokens,
                                         .main = AISIM_NONE,
                                         .blocking = true,
                                         .duration_ns = -1};
    times[0] = (aisim_scope_times){.duration_ns = -1, .owner = AISIM_NONE};
    for (uint32_t i = 0; i < raw->n_groups; i++) {
        const aisim_weka_group *g = &raw->groups[i];
        play->scopes[i + 1] = (aisim_play_scope){.outer = g->outer,
                                                 .tool_tokens = g->tool_tokens,
                                                 .system_tokens = g->system_tokens,
                                                 .main = AISIM_NONE,
                                                 .blocking = g->blocking,
                                                 .marker_ns = g->start_ns,
                                                 .duration_ns = g->duration_ns};
        times[i + 1] = (aisim_scope_times){
            .marker_ns = g->start_ns, .duration_ns = g->duration_ns, .owner = AISIM_NONE};
    }
}

/* B: the top-level request that stands closest before the marker. */
static void find_owners(const aisim_play *play, aisim_scope_times *times)
{
    for (uint32_t i = 0; i < play->n_requests; i++) {
        const aisim_play_request *r = &play->requests[i];
        if (r->inner != AISIM_NONE) {
            continue;
        }
        for (uint32_t s = 1; s < play->n_scopes; s++) {
            uint32_t owner = times[s].owner;
            if (r->outer < play->scopes[s].outer &&
                (owner == AISIM_NONE || r->outer > play->requests[owner].outer)) {
                times[s].owner = i;
            }
        }
    }
}

/* A for every scope. */
static void find_streams(const aisim_play *play, aisim_stream_array *streams)
{
    aisim_index_array nodes = {0};
    for (uint32_t scope = 0; scope < play->n_scopes; scope++) {
        nodes.len = 0;
        for (uint32_t i = 0; i < play->n_requests; i++) {
            if (play->requests[i].conversation == scope) {
                aisim_array_push(&nodes, i);
            }
        }
        if (nodes.len > 0) {
            aisim_lower_streams(play, scope, nodes.data, nodes.len, streams);
        }
    }
    aisim_array_free(&nodes);
}

static int compare_streams(const void *a, const void *b)
{
    const aisim_stream *x = a;
    const aisim_stream *y = b;
    return x->requests.data[0] < y->requests.data[0] ? -1 : 1;
}

/* Conversations are numbered by their first request. */
static void number_conversations(aisim_play *play, aisim_stream_array *streams)
{
    qsort(streams->data, streams->len, sizeof *streams->data, compare_streams);
    play->n_conversations = streams->len;
    play->conversations = aisim_alloc_zero(streams->len, sizeof *play->conversations);
    play->conversation_requests =
        aisim_alloc(play->n_requests, sizeof *play->conversation_requests);
    uint32_t used = 0;
    for (uint32_t s = 0; s < streams->len; s++) {
        const aisim_stream *stream = &streams->data[s];
        play->conversations[s] = (aisim_play_conversation){
            .scope = stream->scope, .first = used, .count = stream->requests.len};
        for (uint32_t i = 0; i < stream->requests.len; i++) {
            uint32_t request = stream->requests.data[i];
            play->conversation_requests[used++] = request;
            play->requests[request].conversation = s;
        }
        if (stream->main) {
            play->scopes[stream->scope].main = s;
        }
    }
}

/* 1.7: the one parent of a conversation. @return false when there are several or it is itself */
static bool only_parent(const aisim_play *play, uint32_t conversation, uint32_t *parent)
{
    const aisim_play_conversation *c = &play->conversations[conversation];
    *parent = AISIM_NONE;
    for (uint32_t i = 0; i < c->count; i++) {
        const aisim_play_request *r = &play->requests[play->conversation_requests[c->first + i]];
        for (uint32_t e = 0; e < r->in_edges; e++) {
            const aisim_play_edge *edge = &play->edges[r->in_first + e];
            if (edge->relation != AISIM_RELATION_SPAWN) {
                continue;
            }
            uint32_t from = play->requests[edge->source].conversation;
            if (from == conversation || (*parent != AISIM_NONE && *parent != from)) {
                return false;
            }
            *parent = from;
        }
    }
    return true;
}

/* 1.7: climbs to the root; a dead end or more steps than conversations leaves lineage absent. */
void aisim_lower_lineage(aisim_play *play)
{
    for (uint32_t s = 0; s < play->n_conversations; s++) {
        play->conversations[s].lineage = only_parent(play, s, &play->conversations[s].parent);
    }
    bool *known = aisim_alloc(play->n_conversations, sizeof *known);
    for (uint32_t s = 0; s < play->n_conversations; s++) {
        uint32_t up = s;
        uint32_t steps = 0;
        while (play->conversations[up].lineage && play->conversations[up].parent != AISIM_NONE &&
               steps <= play->n_conversations) {
            up = play->conversations[up].parent;
            steps++;
        }
        known[s] = play->conversations[up].lineage && steps <= play->n_conversations;
        play->conversations[s].root = known[s] ? up : AISIM_NONE;
    }
    for (uint32_t s = 0; s < play->n_conversations; s++) {
        play->conversations[s].lineage = known[s];
        if (!known[s]) {
            play->conversations[s].parent = AISIM_NONE;
        }
    }
    aisim_free(known);
}

aisim_status aisim_lower_play(aisim_weka_play *raw, const aisim_lowering_options *options,
                              uint32_t ordinal, aisim_play *out, aisim_error *err)
{
    *out = (aisim_play){.ordinal = ordinal};
    aisim_scope_times *times = aisim_alloc(raw->n_groups + 1, sizeof *times);
    aisim_stream_array streams = {0};
    take_requests(raw, options, out);
    take_scopes(raw, out, times);
    find_owners(out, times);
    find_streams(out, &streams);
    number_conversations(out, &streams);
    aisim_error problem = {0};
    aisim_status status = aisim_lower_edges(out, streams.data, times, &problem);
    if (status == AISIM_OK) {
        aisim_lower_lineage(out);
    } else {
        aisim_fail_at(err, status, raw->file, raw->line, 0, "%s", problem.text);
        aisim_play_deinit(out);
    }
    for (uint32_t s = 0; s < streams.len; s++) {
        aisim_array_free(&streams.data[s].requests);
    }
    aisim_array_free(&streams);
    aisim_free(times);
    aisim_weka_play_deinit(raw);
    return status;
}
