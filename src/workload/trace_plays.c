/* trace_plays.c - collects rows, groups them by play, resolves ids to indices. */
#include "workload/trace_plays.h"

#include <inttypes.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/rng.h"
#include "workload/play_build.h"
#include "workload/weka_write.h"

typedef struct item {
    aisim_play_node node;
    char *id, *session, *model, *play;
    aisim_id_run *ids;
    const char *file;
    int line;
    uint32_t group; /* representative of what hangs together */
    uint32_t number, next;
} item;

typedef struct wait {
    char *source;
    uint32_t target;
    aisim_trace_dependency d;
} wait;

typedef struct collector {
    AISIM_ARRAY(item) items;
    AISIM_ARRAY(wait) waits;
    AISIM_ARRAY(uint32_t) sources; /* of waits */
    aisim_map ids, groups, sessions;
} collector;

static char *copy_text(const char *text)
{
    return text == NULL ? NULL : aisim_strdup(text);
}

static uint64_t scope_of(const char *play)
{
    return play == NULL ? 0 : aisim_hash_text(play);
}

static void take_row(collector *c, const aisim_trace_row *row)
{
    uint32_t index = c->items.len;
    int64_t start = row->arrival_ns < 0 ? 0 : row->arrival_ns;
    item it = {.id = copy_text(row->id),
               .session = copy_text(row->session),
               .model = copy_text(row->model),
               .play = copy_text(row->play),
               .file = row->file,
               .line = row->line,
               .group = index,
               .next = AISIM_NONE};
    it.ids = aisim_alloc(row->n_ids, sizeof *it.ids);
    if (row->n_ids > 0) {
        memcpy(it.ids, row->ids, row->n_ids * sizeof *it.ids);
    }
    it.node = (aisim_play_node){.start_ns = start,
                                .end_ns = row->end_ns > start ? row->end_ns : start,
                                .input_tokens = row->input_tokens,
                                .output_tokens = row->output_tokens,
                                .name = it.id,
                                .session = it.session,
                                .model = it.model,
                                .ids = it.ids,
                                .n_ids = row->n_ids,
                                .outer = AISIM_NONE,
                                .inner = AISIM_NONE};
    aisim_array_push(&c->items, it);
    aisim_map_set(&c->ids, aisim_hash_text(row->id), scope_of(row->play), index);
    for (uint32_t i = 0; i < row->n_after; i++) {
        aisim_array_push(&c->waits,
                         (wait){aisim_strdup(row->after[i].source), index, row->after[i]});
    }
}

static uint32_t root_of(collector *c, uint32_t i)
{
    while (c->items.data[i].group != i) {
        c->items.data[i].group = c->items.data[c->items.data[i].group].group;
        i = c->items.data[i].group;
    }
    return i;
}

static void join(collector *c, uint32_t a, uint32_t b)
{
    a = root_of(c, a);
    b = root_of(c, b);
    if (a < b) {
        c->items.data[b].group = a;
    } else {
        c->items.data[a].group = b;
    }
}

/* Finds the other end of every wait and what hangs together. */
static aisim_status resolve(collector *c, aisim_error *err)
{
    for (uint32_t i = 0; i < c->items.len; i++) {
        const item *it = &c->items.data[i];
        uint64_t scope = scope_of(it->play);
        uint64_t key = it->play != NULL      ? 0
                       : it->session != NULL ? aisim_hash_text(it->session)
                                             : i;
        uint64_t kind = it->play != NULL ? scope : it->session != NULL ? 1 : 2;
        uint32_t other = aisim_map_get(&c->groups, key, kind);
        if (other == AISIM_NONE) {
            aisim_map_set(&c->groups, key, kind, i);
        } else {
            join(c, other, i);
        }
    }
    for (uint32_t i = 0; i < c->waits.len; i++) {
        const wait *w = &c->waits.data[i];
        const item *it = &c->items.data[w->target];
        uint32_t source = aisim_map_get(&c->ids, aisim_hash_text(w->source), scope_of(it->play));
        if (source == AISIM_NONE) {
            return aisim_fail_at(err, AISIM_EINVAL, it->file, it->line, 0,
                                 "request '%s' waits for '%s', which is not in the trace", it->id,
                                 w->source);
        }
        if (source == w->target) {
            return aisim_fail_at(err, AISIM_EINVAL, it->file, it->line, 0,
                                 "request '%s' waits for itself", it->id);
        }
        aisim_array_push(&c->sources, source);
        join(c, source, w->target);
    }
    return AISIM_OK;
}

/* One play: the items whose representative is `root`. */
static aisim_status build(collector *c, uint32_t root, uint32_t block_size, const uint32_t *members,
                          uint32_t n, aisim_play *out, aisim_error *err)
{
    aisim_play_node *nodes = aisim_alloc(n, sizeof *nodes);
    AISIM_ARRAY(aisim_play_edge) edges = {0};
    for (uint32_t i = 0; i < n; i++) {
        nodes[i] = c->items.data[members[i]].node;
        c->items.data[members[i]].number = i;
    }
    for (uint32_t i = 0; i < c->waits.len; i++) {
        const wait *w = &c->waits.data[i];
        if (root_of(c, w->target) == root) {
            aisim_array_push(&edges, (aisim_play_edge){c->items.data[c->sources.data[i]].number,
                                                       c->items.data[w->target].number,
                                                       w->d.delay_ns, w->d.trigger, w->d.relation});
        }
    }
    const item *first = &c->items.data[root];
    const char *id = first->play != NULL      ? first->play
                     : first->session != NULL ? first->session
                                              : first->id;
    aisim_play_parts parts = {.id = id,
                              .block_size = block_size,
                              .nodes = nodes,
                              .n_nodes = n,
                              .edges = edges.data,
                              .n_edges = edges.len};
    aisim_error problem = {0};
    aisim_status status = aisim_play_build(&parts, 0, out, &problem);
    if (status != AISIM_OK) {
        aisim_fail_at(err, status, first->file, first->line, 0, "%s", problem.text);
    }
    aisim_array_free(&edges);
    aisim_free(nodes);
    return status;
}

static aisim_status build_all(collector *c, uint32_t block_size, aisim_corpus **out,
                              aisim_error *err)
{
    AISIM_ARRAY(aisim_play) plays = {0};
    uint32_t n = c->items.len;
    uint32_t *members = aisim_alloc(n, sizeof *members);
    uint32_t *last = aisim_alloc(n, sizeof *last);
    aisim_status status = AISIM_OK;
    for (uint32_t i = 0; i < n; i++) { /* chains by representative, which is the first of them */
        uint32_t root = root_of(c, i);
        if (root != i) {
            c->items.data[last[root]].next = i;
        }
        last[root] = i;
    }
    for (uint32_t i = 0; i < n && status == AISIM_OK; i++) {
        if (root_of(c, i) != i) {
            continue;
        }
        uint32_t count = 0;
        for (uint32_t k = i; k != AISIM_NONE; k = c->items.data[k].next) {
            members[count++] = k;
        }
        aisim_play play;
        status = build(c, i, block_size, members, count, &play, err);
        if (status == AISIM_OK) {
            aisim_array_push(&plays, play);
        }
    }
    aisim_free(members);
    aisim_free(last);
    if (status == AISIM_OK) {
        *out = aisim_corpus_of_plays(plays.data, plays.len);
        return AISIM_OK;
    }
    for (uint32_t i = 0; i < plays.len; i++) {
        aisim_play_deinit(&plays.data[i]);
    }
    aisim_array_free(&plays);
    return status;
}

aisim_status aisim_trace_plays(aisim_trace *trace, aisim_corpus **out, aisim_error *err)
{
    collector c = {0};
    aisim_status status = AISIM_OK;
    bool found = true;
    *out = NULL;
    while (status == AISIM_OK && found) {
        aisim_trace_row row;
        status = aisim_trace_next(trace, &row, &found, err);
        if (status == AISIM_OK && found) {
            take_row(&c, &row);
        }
    }
    if (status == AISIM_OK && c.items.len == 0) {
        status = aisim_fail(err, AISIM_EINVAL, "the trace holds no request");
    }
    if (status == AISIM_OK) {
        status = resolve(&c, err);
    }
    if (status == AISIM_OK) {
        uint32_t block = aisim_trace_block_size(trace);
        status = build_all(&c, block > 0 ? block : 1, out, err);
    }
    for (uint32_t i = 0; i < c.items.len; i++) {
        item *it = &c.items.data[i];
        aisim_free(it->id);
        aisim_free(it->session);
        aisim_free(it->model);
        aisim_free(it->play);
        aisim_free(it->ids);
    }
    for (uint32_t i = 0; i < c.waits.len; i++) {
        aisim_free(c.waits.data[i].source);
    }
    aisim_array_free(&c.items);
    aisim_array_free(&c.waits);
    aisim_array_free(&c.sources);
    aisim_map_free(&c.ids);
    aisim_map_free(&c.groups);
    aisim_map_free(&c.sessions);
    return status;
}

/* ---- writing ---- */

static void write_ms(int64_t ns, FILE *out)
{
    fprintf(out, "%" PRId64, ns / AISIM_NS_PER_MS);
    if (ns % AISIM_NS_PER_MS != 0) {
        fprintf(out, ".%06" PRId64, ns % AISIM_NS_PER_MS);
    }
}

static void write_request(const aisim_play *play, uint32_t i, FILE *out)
{
    static const char *const relations[] = {"sequence", "spawn", "replay_barrier", "join"};
    const aisim_play_request *r = &play->requests[i];
    fprintf(out, "{\"request_id\":\"%" PRIu32 "/%" PRIu32 "\",\"play_id\":", play->ordinal, i);
    aisim_json_write_text(play->id, out);
    fprintf(out, ",\"session_id\":\"%" PRIu32 "/%" PRIu32 "\",\"model\":", play->ordinal,
            r->conversation);
    aisim_json_write_text(play->models[r->model], out);
    fprintf(out, ",\"input_length\":%" PRIu32 ",\"output_length\":%" PRIu32 ",\"hash_ids\":[",
            r->input_tokens, r->output_tokens);
    uint64_t room = ((uint64_t)r->input_tokens + play->block_size - 1) / play->block_size;
    for (uint32_t k = 0; k < r->id_runs && room > 0; k++) { /* extra ids mean nothing */
        aisim_id_run run = play->ids[r->id_first + k];
        run.count = run.count < room ? run.count : room;
        room -= run.count;
        aisim_json_write_ids(&run, k > 0, out);
    }
    fputs("],\"not_before_ms\":", out);
    write_ms(r->start_ns, out);
    fputs(",\"recorded_duration_ms\":", out);
    write_ms(r->end_ns - r->start_ns, out);
    fputs(",\"dependencies\":[", out);
    for (uint32_t e = 0; e < r->in_edges; e++) {
        const aisim_play_edge *edge = &play->edges[r->in_first + e];
        fprintf(out,
                "%s{\"request_id\":\"%" PRIu32 "/%" PRIu32 "\",\"trigger\":\"%s\",\"delay_ms\":",
                e > 0 ? "," : "", play->ordinal, edge->source,
                edge->trigger == AISIM_TRIGGER_DISPATCH ? "dispatch" : "completion");
        write_ms(edge->delay_ns, out);
        fprintf(out, ",\"relation\":\"%s\"}", relations[edge->relation]);
    }
    fputs("]}\n", out);
}

void aisim_graph_write(const aisim_corpus *corpus, FILE *out)
{
    fprintf(out,
            "{\"schema\":\"dynamo.agentic_mooncake\",\"version\":2,\"block_size\":%" PRIu32
            ",\"hash_id_scope\":\"local\",\"source\":{\"format\":\"aisim\",\"digest\":\"%016" PRIx64
            "\"}}\n",
            corpus->block_size, corpus->digest);
    for (uint32_t p = 0; p < corpus->n_plays; p++) {
        for (uint32_t i = 0; i < corpus->plays[p].n_requests; i++) {
            write_request(&corpus->plays[p], i, out);
        }
    }
}
