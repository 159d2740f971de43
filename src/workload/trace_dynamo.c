/* trace_dynamo.c - request traces of a serving front end, version 1 (traffic 3.3).
 *
 * A file holds events; what counts is the end of a request, and the end of a tool. Links go both
 * ways (a tool names the request that called it, the session it started, the request that used its
 * result), so all events are read first. Requests are then ordered by (start, end, id). Without any
 * agent context the rows are plain; with a context on all of them they form a graph:
 *   sequence  neighbours in one session: completion of the earlier one, delay = start - its end
 *   spawn     first request of a child session: after the request whose tool started it, or the
 * last one of the parent session that had begun before it join      the request that used a
 * blocking tool's result waits for the last one of the child and a mixture is refused. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/rng.h"
#include "workload/trace_parts.h"

typedef struct tool {
    const char *session, *source, *consumer, *child;
    int64_t start_ns, end_ns;
    bool background;
} tool;

typedef struct loader {
    aisim_trace *trace;
    AISIM_ARRAY(tool) tools;
    AISIM_ARRAY(const char *) parents; /* of rows: the parent session or NULL */
    uint32_t with_context;
    aisim_map requests; /* hash of the id -> row, once sorted */
    aisim_map latest;   /* hash of the session -> its last row so far */
} loader;

static aisim_status object_field(const aisim_trace_place *at, const json_t *object,
                                 const char *name, const json_t **out)
{
    *out = aisim_trace_field(object, name, NULL);
    if (*out == NULL) {
        return aisim_trace_missing(at, object, name);
    }
    return json_is_object(*out)
               ? AISIM_OK
               : aisim_trace_fail(at, AISIM_EINVAL, "field '%s': object expected", name);
}

static aisim_status kept_text(loader *in, const aisim_trace_place *at, const json_t *object,
                              const char *name, bool required, const char **out)
{
    char buffer[64];
    const char *text = NULL;
    aisim_status status = aisim_trace_text(at, object, name, required, buffer, &text);
    *out = aisim_trace_keep(in->trace, text);
    return status;
}

/* Start and end: received + total, or event time and total before it. */
static aisim_status read_times(const aisim_trace_place *at, const json_t *event,
                               const json_t *request, aisim_trace_row *row)
{
    int64_t event_ns;
    int64_t received_ns;
    int64_t total_ns;
    aisim_status status =
        aisim_trace_time(at, event, "event_time_unix_ms", NULL, true, AISIM_NS_PER_MS, &event_ns);
    if (status == AISIM_OK) {
        status = aisim_trace_time(at, request, "request_received_ms", NULL, false, AISIM_NS_PER_MS,
                                  &received_ns);
    }
    if (status == AISIM_OK) {
        status =
            aisim_trace_time(at, request, "total_time_ms", NULL, false, AISIM_NS_PER_MS, &total_ns);
    }
    if (status != AISIM_OK) {
        return status;
    }
    if (received_ns < 0) {
        received_ns = event_ns - (total_ns < 0 ? 0 : total_ns);
    }
    if (total_ns < 0) {
        total_ns = event_ns > received_ns ? event_ns - received_ns : 0;
    }
    row->arrival_ns = received_ns < 0 ? 0 : received_ns;
    row->end_ns = row->arrival_ns + total_ns;
    return AISIM_OK;
}

static aisim_status read_replay(loader *in, const aisim_trace_place *at, const json_t *request,
                                aisim_trace_row *row)
{
    aisim_trace *trace = in->trace;
    const json_t *replay;
    aisim_status status = object_field(at, request, "replay", &replay);
    uint32_t block = 0;
    if (status == AISIM_OK) {
        status = aisim_trace_count(at, replay, "trace_block_size", NULL, true, &block, NULL);
    }
    if (status == AISIM_OK) {
        status =
            aisim_trace_count(at, replay, "input_length", NULL, true, &row->input_tokens, NULL);
    }
    const json_t *hashes = aisim_trace_field(replay, "input_sequence_hashes", NULL);
    if (status == AISIM_OK && hashes == NULL) {
        status = aisim_trace_missing(at, replay, "input_sequence_hashes");
    }
    if (status == AISIM_OK && (block == 0 || row->input_tokens == 0)) {
        status = aisim_trace_fail(at, AISIM_ERANGE, "field '%s' is 0, expected >= 1",
                                  block == 0 ? "trace_block_size" : "input_length");
    }
    if (status == AISIM_OK && trace->block_size != 0 && trace->block_size != block) {
        status = aisim_trace_fail(at, AISIM_EINVAL,
                                  "field 'trace_block_size' is %" PRIu32 ", expected %" PRIu32
                                  " like before it",
                                  block, trace->block_size);
    }
    if (status == AISIM_OK) {
        trace->block_size = block;
        status = aisim_trace_ids(trace, at, hashes, "input_sequence_hashes", row);
    }
    uint32_t room = block == 0 ? 0 : (row->input_tokens - 1) / block + 1;
    if (status == AISIM_OK && row->id_count > room) {
        status = aisim_trace_fail(
            at, AISIM_EINVAL, "'input_sequence_hashes' has %" PRIu32 " entries, expected %" PRIu32,
            row->id_count, room);
    }
    if (status == AISIM_OK && trace->ids.len > 0) {
        aisim_id_run *copy = aisim_alloc(trace->ids.len, sizeof *copy);
        memcpy(copy, trace->ids.data, trace->ids.len * sizeof *copy);
        aisim_array_push(&trace->lists, copy);
        row->ids = copy;
        row->n_ids = trace->ids.len;
        row->block_size = block;
    }
    return status;
}

static aisim_status read_request(loader *in, const aisim_trace_place *at, const json_t *event)
{
    const json_t *request;
    aisim_trace_row row = {.delay_ns = AISIM_TRACE_UNKNOWN, .file = at->file, .line = at->line};
    const char *parent = NULL;
    aisim_status status = object_field(at, event, "request", &request);
    if (status == AISIM_OK) {
        status = kept_text(in, at, request, "request_id", true, &row.id);
    }
    if (status == AISIM_OK) {
        status = kept_text(in, at, request, "model", false, &row.model);
    }
    if (status == AISIM_OK) {
        status =
            aisim_trace_count(at, request, "output_tokens", NULL, true, &row.output_tokens, NULL);
    }
    if (status == AISIM_OK) {
        status = read_times(at, event, request, &row);
    }
    if (status == AISIM_OK) {
        status = read_replay(in, at, request, &row);
    }
    const json_t *context = aisim_trace_field(event, "agent_context", NULL);
    if (status == AISIM_OK && json_is_object(context)) {
        in->with_context++;
        status = kept_text(in, at, context, "session_id", true, &row.session);
        if (status == AISIM_OK) {
            status = kept_text(in, at, context, "parent_session_id", false, &parent);
        }
    }
    if (status == AISIM_OK) {
        aisim_array_push(&in->trace->rows, row);
        aisim_array_push(&in->parents, parent);
    }
    return status;
}

/* Links of a tool stand beside its times, or in an object named after the agent. */
static aisim_status read_tool(loader *in, const aisim_trace_place *at, const json_t *event)
{
    const json_t *context = aisim_trace_field(event, "agent_context", NULL);
    const json_t *object = aisim_trace_field(event, "tool", NULL);
    tool t = {.start_ns = -1};
    if (!json_is_object(context) || !json_is_object(object)) {
        return AISIM_OK; /* a tool nobody can place */
    }
    aisim_status status = kept_text(in, at, context, "session_id", true, &t.session);
    if (status == AISIM_OK) {
        status = aisim_trace_time(at, object, "ended_at_unix_ms", NULL, false, AISIM_NS_PER_MS,
                                  &t.end_ns);
    }
    if (status == AISIM_OK && t.end_ns < 0) {
        status = aisim_trace_time(at, event, "event_time_unix_ms", NULL, true, AISIM_NS_PER_MS,
                                  &t.end_ns);
    }
    if (status == AISIM_OK) {
        status = aisim_trace_time(at, object, "started_at_unix_ms", NULL, false, AISIM_NS_PER_MS,
                                  &t.start_ns);
    }
    const json_t *links = aisim_trace_field(object, "claude", NULL);
    links = json_is_object(links) ? links : object;
    if (status == AISIM_OK) {
        status = kept_text(in, at, links, "source_request_id", false, &t.source);
    }
    if (status == AISIM_OK) {
        status = kept_text(in, at, links, "consumer_request_id", false, &t.consumer);
    }
    if (status == AISIM_OK) {
        status = kept_text(in, at, links, "child_session_id", false, &t.child);
    }
    const char *mode = json_string_value(json_object_get(links, "execution_mode"));
    t.background = mode != NULL && (strcmp(mode, "background") == 0 || strcmp(mode, "async") == 0);
    if (status == AISIM_OK) {
        aisim_array_push(&in->tools, t);
    }
    return status;
}

static aisim_status read_event(loader *in, const aisim_trace_place *at, const json_t *object)
{
    const json_t *event = json_object_get(object, "event");
    event = json_is_object(event) ? event : object;
    const char *type = NULL;
    char buffer[64];
    aisim_status status = aisim_trace_text(at, event, "event_type", true, buffer, &type);
    if (status != AISIM_OK || strcmp(type, "request_payload") == 0 ||
        strcmp(type, "tool_start") == 0) {
        return status;
    }
    const char *schema = json_string_value(json_object_get(event, "schema"));
    if (schema != NULL && strcmp(schema, "dynamo.request.trace.v1") != 0) {
        return aisim_trace_fail(at, AISIM_EINVAL,
                                "field 'schema' is '%.60s', expected 'dynamo.request.trace.v1'",
                                schema);
    }
    if (strcmp(type, "request_end") == 0) {
        return read_request(in, at, event);
    }
    if (strcmp(type, "tool_end") == 0 || strcmp(type, "tool_error") == 0) {
        return read_tool(in, at, event);
    }
    return aisim_trace_fail(at, AISIM_EINVAL,
                            "field 'event_type' is '%.60s', expected request_end, "
                            "request_payload, tool_start, tool_end or tool_error",
                            type);
}

/* ---- graph ---- */

static bool same(const char *a, const char *b)
{
    return a != NULL && b != NULL && strcmp(a, b) == 0;
}

static uint32_t find_request(const loader *in, const char *id)
{
    return id == NULL ? AISIM_NONE : aisim_map_get(&in->requests, aisim_hash_text(id), 0);
}

/* The last row of a session that began at or before a time; any = whatever the time. */
static uint32_t last_of(const aisim_trace *trace, const char *session, int64_t at_ns, bool any)
{
    uint32_t found = AISIM_NONE;
    for (uint32_t i = 0; i < trace->rows.len; i++) {
        const aisim_trace_row *row = &trace->rows.data[i];
        if (same(row->session, session) && (any || row->arrival_ns <= at_ns)) {
            found = i;
        }
    }
    return found;
}

static void add_edge(aisim_trace *trace, uint32_t source, uint32_t target, uint8_t relation)
{
    const aisim_trace_row *from = &trace->rows.data[source];
    const aisim_trace_row *to = &trace->rows.data[target];
    bool running = to->arrival_ns < from->end_ns && relation == AISIM_RELATION_SPAWN;
    int64_t delay = to->arrival_ns - (running ? from->arrival_ns : from->end_ns);
    aisim_array_push(&trace->after,
                     (aisim_trace_dependency){.source = from->id,
                                              .delay_ns = delay > 0 ? delay : 0,
                                              .trigger = running ? AISIM_TRIGGER_DISPATCH
                                                                 : AISIM_TRIGGER_COMPLETION,
                                              .relation = relation});
}

static void link_row(loader *in, uint32_t i)
{
    aisim_trace *trace = in->trace;
    aisim_trace_row *row = &trace->rows.data[i];
    uint64_t session = aisim_hash_text(row->session);
    uint32_t before = aisim_map_get(&in->latest, session, 0);
    aisim_map_set(&in->latest, session, 0, i);
    trace->after.len = 0;
    if (before != AISIM_NONE) {
        add_edge(trace, before, i, AISIM_RELATION_SEQUENCE);
    } else {
        uint32_t source = AISIM_NONE;
        for (uint32_t k = 0; k < in->tools.len && source == AISIM_NONE; k++) {
            if (same(in->tools.data[k].child, row->session)) {
                source = find_request(in, in->tools.data[k].source);
            }
        }
        if (source == AISIM_NONE && in->parents.data[i] != NULL) {
            source = last_of(trace, in->parents.data[i], row->arrival_ns, false);
        }
        if (source != AISIM_NONE && source < i) {
            add_edge(trace, source, i, AISIM_RELATION_SPAWN);
        }
    }
    for (uint32_t k = 0; k < in->tools.len; k++) {
        const tool *t = &in->tools.data[k];
        if (t->background || t->child == NULL || !same(t->session, row->session) ||
            (t->consumer != NULL ? !same(t->consumer, row->id)
                                 : before == AISIM_NONE || row->arrival_ns < t->end_ns ||
                                       trace->rows.data[before].arrival_ns >= t->end_ns)) {
            continue;
        }
        uint32_t last = last_of(trace, t->child, 0, true);
        if (last != AISIM_NONE && last < i) {
            add_edge(trace, last, i, AISIM_RELATION_JOIN);
        }
    }
    if (trace->after.len > 0) {
        aisim_trace_dependency *copy = aisim_alloc(trace->after.len, sizeof *copy);
        memcpy(copy, trace->after.data, trace->after.len * sizeof *copy);
        aisim_array_push(&trace->dependencies, copy);
        row->after = copy;
        row->n_after = trace->after.len;
    }
}

/* A play is a session without parent and everything below it. */
static const char *root_session(const loader *in, uint32_t i)
{
    const aisim_trace *trace = in->trace;
    const char *session = trace->rows.data[i].session;
    const char *parent = in->parents.data[i];
    for (uint32_t steps = 0; parent != NULL && steps < 64; steps++) {
        uint32_t up = last_of(trace, parent, 0, true);
        if (up == AISIM_NONE) {
            return parent;
        }
        session = parent;
        parent = in->parents.data[up];
    }
    return session;
}

typedef struct sorted {
    aisim_trace_row row;
    const char *parent;
} sorted;

static int compare(const void *a, const void *b)
{
    const aisim_trace_row *x = &((const sorted *)a)->row;
    const aisim_trace_row *y = &((const sorted *)b)->row;
    if (x->arrival_ns != y->arrival_ns) {
        return x->arrival_ns < y->arrival_ns ? -1 : 1;
    }
    if (x->end_ns != y->end_ns) {
        return x->end_ns < y->end_ns ? -1 : 1;
    }
    return strcmp(x->id, y->id);
}

static aisim_status sort_rows(loader *in, aisim_error *err)
{
    aisim_trace *trace = in->trace;
    uint32_t n = trace->rows.len;
    sorted *list = aisim_alloc(n, sizeof *list);
    for (uint32_t i = 0; i < n; i++) {
        list[i] = (sorted){trace->rows.data[i], in->parents.data[i]};
    }
    qsort(list, n, sizeof *list, compare);
    int64_t first = n > 0 ? list[0].row.arrival_ns : 0;
    aisim_status status = AISIM_OK;
    for (uint32_t i = 0; i < n; i++) {
        trace->rows.data[i] = list[i].row;
        trace->rows.data[i].arrival_ns -= first; /* unix time: counted from the first request */
        trace->rows.data[i].end_ns -= first;
        in->parents.data[i] = list[i].parent;
    }
    for (uint32_t i = 0; i < in->tools.len; i++) {
        in->tools.data[i].end_ns -= first;
    }
    aisim_free(list);
    for (uint32_t i = 0; i < n && status == AISIM_OK; i++) {
        const aisim_trace_row *row = &trace->rows.data[i];
        const aisim_trace_place at = {row->file, row->line, err};
        uint32_t other = find_request(in, row->id);
        aisim_map_set(&in->requests, aisim_hash_text(row->id), 0, i);
        if (other != AISIM_NONE) {
            status = aisim_trace_fail(&at, AISIM_EEXIST,
                                      "request id '%s' was already used at %s:%d", row->id,
                                      trace->rows.data[other].file, trace->rows.data[other].line);
        }
    }
    return status;
}

aisim_status aisim_trace_dynamo_load(aisim_trace *trace, aisim_error *err)
{
    loader in = {.trace = trace};
    aisim_status status = AISIM_OK;
    bool found = true;
    trace->block_size = 0;
    while (status == AISIM_OK && found) {
        status = aisim_trace_line(trace, &found, err);
        if (status != AISIM_OK || !found) {
            break;
        }
        const aisim_trace_place at = {trace->files.data[trace->file - 1], trace->reader.line, err};
        json_t *root = NULL;
        status = aisim_trace_parse(&at, trace->reader.text, trace->reader.size, &root);
        if (status == AISIM_OK) {
            status = read_event(&in, &at, root);
        }
        json_decref(root);
    }
    uint32_t n = trace->rows.len;
    if (status == AISIM_OK && n == 0) {
        status = aisim_fail_at(err, AISIM_EINVAL, trace->files.data[0], 0, 0,
                               "no event of type request_end");
    }
    if (status == AISIM_OK && in.with_context != 0 && in.with_context != n) {
        status = aisim_fail_at(err, AISIM_EINVAL, trace->files.data[0], 0, 0,
                               "%" PRIu32 " of %" PRIu32 " requests have an agent_context; all or "
                               "none expected",
                               in.with_context, n);
    }
    if (status == AISIM_OK) {
        status = sort_rows(&in, err);
    }
    trace->graph = in.with_context > 0;
    for (uint32_t i = 0; status == AISIM_OK && trace->graph && i < n; i++) {
        link_row(&in, i);
        trace->rows.data[i].play = root_session(&in, i);
    }
    aisim_map_free(&in.requests);
    aisim_map_free(&in.latest);
    aisim_array_free(&in.tools);
    aisim_array_free(&in.parents);
    return status;
}
