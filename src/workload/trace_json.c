/* trace_json.c - rows of the JSON formats (traffic 3.3). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "workload/trace_parts.h"
#include "workload/weka_fields.h"

/* Lengths and ids; the input length defaults to what the ids can hold. */
static aisim_status read_lengths(aisim_trace *trace, const aisim_trace_place *at,
                                 const json_t *object, aisim_trace_row *row)
{
    bool have = false;
    const json_t *ids = aisim_trace_field(object, "hash_ids", NULL);
    const json_t *runs = aisim_trace_field(object, "hash_runs", NULL);
    aisim_status status = AISIM_OK;
    if (ids != NULL && runs != NULL) {
        return aisim_trace_fail(at, AISIM_EINVAL,
                                "fields 'hash_ids' and 'hash_runs' say the same "
                                "thing; give one");
    }
    if (ids != NULL) {
        status = aisim_trace_ids(trace, at, ids, "hash_ids", row);
    } else if (runs != NULL) {
        status = aisim_trace_runs(trace, at, runs, "hash_runs", row);
    }
    if (status == AISIM_OK) {
        status = aisim_trace_count(at, object, "input_length", "input_tokens",
                                   ids == NULL && runs == NULL, &row->input_tokens, &have);
    }
    if (status == AISIM_OK && !have) {
        uint64_t capacity = (uint64_t)row->id_count * trace->block_size;
        if (capacity > INT32_MAX) {
            return aisim_trace_fail(at, AISIM_ERANGE, "'hash_ids' stands for %" PRIu64 " tokens",
                                    capacity);
        }
        row->input_tokens = (uint32_t)capacity;
    }
    if (status == AISIM_OK) {
        status = aisim_trace_count(at, object, "output_length", "output_tokens", true,
                                   &row->output_tokens, NULL);
    }
    uint32_t block = trace->block_size;
    uint64_t room = ((uint64_t)row->input_tokens + block - 1) / block;
    if (status == AISIM_OK && row->id_count > room) {
        return aisim_trace_fail(at, AISIM_EINVAL,
                                "'hash_ids' has %" PRIu32 " ids, but %" PRIu32
                                " tokens are %" PRIu64 " blocks of %" PRIu32
                                " (another block size than in the rows before?)",
                                row->id_count, row->input_tokens, room, block);
    }
    return status;
}

/* Fields that only the queues of another router have: nothing here could act on them. */
static aisim_status refuse_queue_fields(const aisim_trace_place *at, const json_t *object)
{
    static const char *const names[] = {"strict_priority", "policy_class"};
    for (int i = 0; i < 2; i++) {
        const json_t *value = aisim_trace_field(object, names[i], NULL);
        bool none = value == NULL || (json_is_integer(value) && json_integer_value(value) == 0);
        if (!none) {
            char found[96];
            return aisim_trace_fail(at, AISIM_ENOTMODELLED,
                                    "known, not modelled: field '%s' = %s (a queue of the router "
                                    "that was recorded; 'priority' is the engine's)",
                                    names[i], aisim_weka_describe(value, found, sizeof found));
        }
    }
    return AISIM_OK;
}

static aisim_status read_mooncake(aisim_trace *trace, const aisim_trace_place *at,
                                  const json_t *object, aisim_trace_row *row)
{
    aisim_status status = read_lengths(trace, at, object, row);
    if (status == AISIM_OK) {
        status = aisim_trace_time(at, object, "timestamp", "created_time", false, AISIM_NS_PER_MS,
                                  &row->arrival_ns);
    }
    if (status == AISIM_OK) {
        status = aisim_trace_time(at, object, "delay", "delay_ms", false, AISIM_NS_PER_MS,
                                  &row->delay_ns);
    }
    if (status == AISIM_OK) {
        status = aisim_trace_text(at, object, "request_id", false, trace->id, &row->id);
    }
    if (status == AISIM_OK) {
        status = aisim_trace_text(at, object, "session_id", false, trace->session, &row->session);
    }
    if (status == AISIM_OK) {
        status = aisim_trace_text(at, object, "model", false, trace->model, &row->model);
    }
    const json_t *turn = aisim_trace_field(object, "priority", NULL);
    if (status == AISIM_OK && turn != NULL) {
        if (!json_is_integer(turn) || json_integer_value(turn) < INT32_MIN ||
            json_integer_value(turn) > INT32_MAX) {
            return aisim_trace_fail(at, AISIM_EINVAL, "field 'priority': whole number expected");
        }
        row->priority = (int32_t)json_integer_value(turn);
    }
    row->delta = trace->format == AISIM_TRACE_MOONCAKE_DELTA;
    const json_t *output = aisim_trace_field(object, "output_token_ids", NULL);
    if (status == AISIM_OK && output != NULL) {
        status = aisim_trace_output_ids(trace, at, output, "output_token_ids", row);
    }
    return status == AISIM_OK ? refuse_queue_fields(at, object) : status;
}

/* ---- agentic_mooncake ---- */

static aisim_status read_header(aisim_trace *trace, const aisim_trace_place *at,
                                const json_t *object)
{
    const char *schema = json_string_value(json_object_get(object, "schema"));
    const json_t *version = json_object_get(object, "version");
    if (schema == NULL || strcmp(schema, "dynamo.agentic_mooncake") != 0) {
        return aisim_trace_fail(at, AISIM_EINVAL,
                                "field 'schema' is %s, expected "
                                "\"dynamo.agentic_mooncake\"",
                                schema == NULL ? "no text" : schema);
    }
    if (!json_is_integer(version) || json_integer_value(version) != 2) {
        return aisim_trace_fail(at, AISIM_EINVAL, "field 'version': 2 expected");
    }
    uint32_t block = 0;
    aisim_status status = aisim_trace_count(at, object, "block_size", NULL, true, &block, NULL);
    if (status == AISIM_OK && block == 0) {
        return aisim_trace_fail(at, AISIM_ERANGE, "field 'block_size' is 0, expected >= 1");
    }
    const char *scope = json_string_value(json_object_get(object, "hash_id_scope"));
    if (status == AISIM_OK && (scope == NULL || strcmp(scope, "local") != 0)) {
        return aisim_trace_fail(at, AISIM_EINVAL, "field 'hash_id_scope': \"local\" expected");
    }
    if (status == AISIM_OK && trace->block_size_given && trace->block_size != block) {
        return aisim_trace_fail(at, AISIM_EINVAL,
                                "field 'block_size' is %" PRIu32 ", expected %" PRIu32
                                " like before it",
                                block, trace->block_size);
    }
    trace->block_size = block;
    trace->block_size_given = true;
    return status;
}

static int word_index(const char *text, const char *const *words, int n)
{
    for (int i = 0; text != NULL && i < n; i++) {
        if (strcmp(text, words[i]) == 0) {
            return i;
        }
    }
    return -1;
}

static aisim_status read_dependency(aisim_trace *trace, const aisim_trace_place *at,
                                    const json_t *object)
{
    static const char *const triggers[] = {"dispatch", "completion"};
    static const char *const relations[] = {"sequence", "spawn", "replay_barrier", "join",
                                            "barrier"};
    aisim_trace_dependency d = {0};
    if (!json_is_object(object)) {
        return aisim_trace_fail(at, AISIM_EINVAL,
                                "'dependencies' holds something that is no "
                                "object");
    }
    aisim_status status =
        aisim_trace_text(at, object, "request_id", true, trace->session, &d.source);
    if (status == AISIM_OK && d.source == trace->session) {
        return aisim_trace_fail(at, AISIM_EINVAL, "dependency: field 'request_id': text expected");
    }
    if (status == AISIM_OK) {
        status =
            aisim_trace_time(at, object, "delay_ms", NULL, false, AISIM_NS_PER_MS, &d.delay_ns);
        d.delay_ns = d.delay_ns < 0 ? 0 : d.delay_ns;
    }
    int trigger = word_index(json_string_value(json_object_get(object, "trigger")), triggers, 2);
    int relation = word_index(json_string_value(json_object_get(object, "relation")), relations, 5);
    if (status == AISIM_OK && trigger < 0) {
        return aisim_trace_fail(at, AISIM_EINVAL,
                                "dependency: field 'trigger': dispatch or completion expected");
    }
    if (status == AISIM_OK && relation < 0) {
        return aisim_trace_fail(at, AISIM_EINVAL,
                                "dependency: field 'relation': sequence, spawn, join or "
                                "replay_barrier expected");
    }
    d.trigger = (uint8_t)trigger;
    d.relation = (uint8_t)(relation == 4 ? AISIM_RELATION_BARRIER : relation);
    if (status == AISIM_OK) {
        aisim_array_push(&trace->after, d);
    }
    return status;
}

/* wait_for and dependencies; the old form waits for all of wait_for and delay + tool_wait_ms more.
 */
static aisim_status read_dependencies(aisim_trace *trace, const aisim_trace_place *at,
                                      const json_t *object, aisim_trace_row *row)
{
    int64_t tool_ns = 0;
    trace->after.len = 0;
    const json_t *list = aisim_trace_field(object, "dependencies", NULL);
    const json_t *wait = aisim_trace_field(object, "wait_for", NULL);
    aisim_status status =
        aisim_trace_time(at, object, "tool_wait_ms", NULL, false, AISIM_NS_PER_MS, &tool_ns);
    if (status != AISIM_OK) {
        return status;
    }
    if ((list != NULL && !json_is_array(list)) || (wait != NULL && !json_is_array(wait))) {
        return aisim_trace_fail(at, AISIM_EINVAL, "field '%s': array expected",
                                list != NULL && !json_is_array(list) ? "dependencies" : "wait_for");
    }
    for (size_t i = 0; i < json_array_size(list) && status == AISIM_OK; i++) {
        status = read_dependency(trace, at, json_array_get(list, i));
    }
    int64_t delay = (row->delay_ns > 0 ? row->delay_ns : 0) + (tool_ns > 0 ? tool_ns : 0);
    for (size_t i = 0; i < json_array_size(wait) && status == AISIM_OK; i++) {
        const char *source = json_string_value(json_array_get(wait, i));
        if (source == NULL || source[0] == '\0') {
            return aisim_trace_fail(at, AISIM_EINVAL,
                                    "element %zu of 'wait_for': request id "
                                    "expected",
                                    i);
        }
        aisim_array_push(
            &trace->after,
            (aisim_trace_dependency){source, delay, AISIM_TRIGGER_COMPLETION,
                                     i == 0 ? AISIM_RELATION_SEQUENCE : AISIM_RELATION_JOIN});
    }
    return status;
}

static aisim_status read_agentic(aisim_trace *trace, const aisim_trace_place *at,
                                 const json_t *object, aisim_trace_row *row, bool *skip)
{
    if (json_object_get(object, "schema") != NULL) {
        *skip = true;
        return read_header(trace, at, object);
    }
    aisim_status status = read_mooncake(trace, at, object, row);
    if (status == AISIM_OK) {
        status = aisim_trace_text(at, object, "request_id", true, trace->id, &row->id);
    }
    if (status == AISIM_OK) {
        status = aisim_trace_text(at, object, "play_id", false, trace->play, &row->play);
    }
    if (status == AISIM_OK && row->arrival_ns < 0) {
        status = aisim_trace_time(at, object, "not_before_ms", NULL, false, AISIM_NS_PER_MS,
                                  &row->arrival_ns);
    }
    int64_t length = AISIM_TRACE_UNKNOWN;
    if (status == AISIM_OK) {
        status = aisim_trace_time(at, object, "recorded_duration_ms", NULL, false, AISIM_NS_PER_MS,
                                  &length);
    }
    if (length >= 0) {
        row->end_ns = (row->arrival_ns < 0 ? 0 : row->arrival_ns) + length;
    }
    return status == AISIM_OK ? read_dependencies(trace, at, object, row) : status;
}

/* ---- other forms ---- */

static aisim_status read_bailian(aisim_trace *trace, const aisim_trace_place *at,
                                 const json_t *object, aisim_trace_row *row)
{
    aisim_status status = read_lengths(trace, at, object, row);
    if (status == AISIM_OK) {
        status =
            aisim_trace_time(at, object, "timestamp", NULL, true, AISIM_NS_PER_S, &row->arrival_ns);
    }
    return status == AISIM_OK ? aisim_trace_text(at, object, "chat_id", true, trace->id, &row->id)
                              : status;
}

static aisim_status read_rounds(aisim_trace *trace, const aisim_trace_place *at,
                                const json_t *object, aisim_trace_row *row)
{
    aisim_status status =
        aisim_trace_count(at, object, "input_tokens_total", NULL, true, &row->input_tokens, NULL);
    if (status == AISIM_OK) {
        status =
            aisim_trace_count(at, object, "prefix_tokens", NULL, true, &row->kept_tokens, NULL);
    }
    if (status == AISIM_OK) {
        status =
            aisim_trace_count(at, object, "output_tokens", NULL, true, &row->output_tokens, NULL);
    }
    if (status == AISIM_OK && row->kept_tokens > row->input_tokens) {
        return aisim_trace_fail(at, AISIM_EINVAL,
                                "field 'prefix_tokens' is larger than "
                                "'input_tokens_total'");
    }
    row->has_kept = true;
    return status == AISIM_OK
               ? aisim_trace_text(at, object, "session_id", true, trace->session, &row->session)
               : status;
}

static aisim_status read_json_lengths(const aisim_trace_place *at, const json_t *object,
                                      aisim_trace_row *row)
{
    static const char *const inputs[] = {"input_length", "input_tokens", "prompt_tokens",
                                         "num_prefill_tokens", "input"};
    static const char *const outputs[] = {"output_length", "output_tokens", "completion_tokens",
                                          "num_decode_tokens", "output"};
    int in = 0;
    int out = 0;
    while (in < 4 && aisim_trace_field(object, inputs[in], NULL) == NULL) {
        in++;
    }
    while (out < 4 && aisim_trace_field(object, outputs[out], NULL) == NULL) {
        out++;
    }
    in = aisim_trace_field(object, inputs[in], NULL) == NULL ? 0 : in;
    out = aisim_trace_field(object, outputs[out], NULL) == NULL ? 0 : out;
    aisim_status status =
        aisim_trace_count(at, object, inputs[in], NULL, true, &row->input_tokens, NULL);
    return status == AISIM_OK
               ? aisim_trace_count(at, object, outputs[out], NULL, true, &row->output_tokens, NULL)
               : status;
}

aisim_status aisim_trace_json_row(aisim_trace *trace, const aisim_trace_place *at,
                                  const json_t *object, aisim_trace_row *row, bool *skip)
{
    switch (trace->format) {
    case AISIM_TRACE_AGENTIC_MOONCAKE:
        return read_agentic(trace, at, object, row, skip);
    case AISIM_TRACE_BAILIAN:
        return read_bailian(trace, at, object, row);
    case AISIM_TRACE_ROUNDS:
        return read_rounds(trace, at, object, row);
    case AISIM_TRACE_LENGTHS:
        return read_json_lengths(at, object, row);
    default:
        return read_mooncake(trace, at, object, row);
    }
}

/* ---- applied_compute_agentic ---- */

static aisim_status element(const aisim_trace_place *at, const json_t *object, const char *name,
                            uint32_t i, uint32_t n, double limit, double *out)
{
    const json_t *list = aisim_trace_field(object, name, NULL);
    if (list == NULL) {
        return aisim_trace_missing(at, object, name);
    }
    if (!json_is_array(list) || json_array_size(list) != n) {
        return aisim_trace_fail(at, AISIM_EINVAL,
                                "field '%s': array of %" PRIu32 " numbers expected (num_turns)",
                                name, n);
    }
    const json_t *value = json_array_get(list, i);
    *out = json_number_value(value);
    if (!json_is_number(value) || !(*out >= 0 && *out <= limit)) {
        return aisim_trace_fail(at, AISIM_ERANGE,
                                "element %" PRIu32 " of '%s': number from 0 to %g "
                                "expected",
                                i, name, limit);
    }
    return AISIM_OK;
}

aisim_status aisim_trace_session_rows(aisim_trace *trace, const aisim_trace_place *at,
                                      const json_t *object)
{
    uint32_t turns;
    uint32_t first;
    uint32_t last;
    aisim_trace_drop_rows(trace);
    aisim_status status = aisim_trace_count(at, object, "num_turns", NULL, true, &turns, NULL);
    if (status == AISIM_OK) {
        status = aisim_trace_count(at, object, "input_prompt_length", NULL, true, &first, NULL);
    }
    if (status == AISIM_OK) {
        status = aisim_trace_count(at, object, "final_assistant_response_length", NULL, true, &last,
                                   NULL);
    }
    if (status == AISIM_OK && turns > 1000000) {
        return aisim_trace_fail(
            at, AISIM_ERANGE, "field 'num_turns' is %" PRIu32 ", expected at most 1000000", turns);
    }
    char name[64];
    snprintf(name, sizeof name, "%" PRIu32 ":%d", trace->file, at->line);
    const char *session = status == AISIM_OK ? aisim_trace_keep(trace, name) : NULL;
    double added = first;
    double wait = -1;
    for (uint32_t i = 0; i <= turns && status == AISIM_OK; i++) {
        aisim_trace_row row = {.session = session,
                               .arrival_ns = AISIM_TRACE_UNKNOWN,
                               .end_ns = AISIM_TRACE_UNKNOWN,
                               .delay_ns = wait < 0 ? AISIM_TRACE_UNKNOWN : aisim_ns_from_s(wait),
                               .input_tokens = (uint32_t)added,
                               .output_tokens = last,
                               .delta = true,
                               .file = at->file,
                               .line = at->line};
        double answer = last;
        if (i < turns) {
            status = element(at, object, "assistant_response_length", i, turns, INT32_MAX, &answer);
            if (status == AISIM_OK) {
                status =
                    element(at, object, "tool_call_output_length", i, turns, INT32_MAX, &added);
            }
            if (status == AISIM_OK) {
                status = element(at, object, "tool_call_latency", i, turns, 1e9, &wait);
            }
        }
        row.output_tokens = (uint32_t)answer;
        aisim_array_push(&trace->rows, row);
    }
    return status;
}
