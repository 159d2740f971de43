/* weka.c - JSON object to play. With weka_fields.c the only file that knows the JSON library.
 *
 * Idea: one tree per play, thrown away as soon as its figures are copied. The order of the checks
 * is the order of the fields in traffic 1.2 to 1.4. */
#include "workload/weka.h"

#include <inttypes.h>
#include <string.h>

#include "base/array.h"
#include "workload/weka_fields.h"
#include "workload/weka_squeeze.h"

typedef struct reader {
    aisim_weka_cursor at;
    AISIM_ARRAY(aisim_weka_request) requests;
    AISIM_ARRAY(aisim_weka_group) groups;
    AISIM_ARRAY(aisim_id_run) ids;
    AISIM_ARRAY(char *) models;
} reader;

/* Appends count ids from first on to the list that starts at run `from`, keeping it canonical. */
static void add_ids(reader *in, uint32_t from, uint64_t first, uint64_t count)
{
    if (in->ids.len > from) {
        aisim_id_run *last = &in->ids.data[in->ids.len - 1];
        if (last->first + last->count == first) {
            last->count += count;
            return;
        }
    }
    aisim_array_push(&in->ids, (aisim_id_run){.first = first, .count = count});
}

static aisim_status get_ids(reader *in, const json_t *object, aisim_weka_request *request)
{
    const aisim_weka_cursor *at = &in->at;
    const json_t *list = aisim_weka_field(object, "hash_ids");
    const json_t *coded = aisim_weka_field(object, "hash_runs");
    request->id_first = in->ids.len;
    if (list != NULL && coded != NULL) {
        return aisim_weka_wrong(at, AISIM_EINVAL, "hash_runs", coded,
                                "either 'hash_ids' or 'hash_runs', not both");
    }
    const char *key = coded != NULL ? "hash_runs" : "hash_ids";
    const json_t *found = coded != NULL ? coded : list;
    size_t n = found == NULL ? 0 : json_array_size(found);
    if (found != NULL && !json_is_array(found)) {
        return aisim_weka_wrong(at, AISIM_EINVAL, key, found, "an array of whole numbers");
    }
    if (coded != NULL && n % 2 != 0) {
        return aisim_weka_fail(at, AISIM_EINVAL,
                               "'hash_runs' has %zu elements, expected pairs start,count", n);
    }
    uint64_t total = 0;
    const int64_t high = INT64_MAX - AISIM_WEKA_MAX_COUNT;
    for (size_t i = 0; i < n; i += coded != NULL ? 2 : 1) {
        int64_t first;
        int64_t count = 1;
        aisim_status status = aisim_weka_element(at, key, found, i, 0, high, &first);
        if (status == AISIM_OK && coded != NULL) {
            status = aisim_weka_element(at, key, found, i + 1, 1, AISIM_WEKA_MAX_COUNT, &count);
        }
        if (status != AISIM_OK) {
            return status;
        }
        total += (uint64_t)count;
        if (total > (uint64_t)AISIM_WEKA_MAX_COUNT) {
            return aisim_weka_fail(at, AISIM_ERANGE, "'%s' holds more than %" PRId64 " block ids",
                                   key, AISIM_WEKA_MAX_COUNT);
        }
        add_ids(in, request->id_first, (uint64_t)first, (uint64_t)count);
    }
    request->id_runs = in->ids.len - request->id_first;
    request->id_count = (uint32_t)total;
    return AISIM_OK;
}

static uint32_t model_index(reader *in, const char *name)
{
    for (uint32_t i = 0; i < in->models.len; i++) {
        if (strcmp(in->models.data[i], name) == 0) {
            return i;
        }
    }
    aisim_array_push(&in->models, aisim_strdup(name));
    return in->models.len - 1;
}

/* traffic 1.3 */
static aisim_status read_request(reader *in, const json_t *object, aisim_weka_request request)
{
    const aisim_weka_cursor *at = &in->at;
    const char *model = NULL;
    aisim_status status =
        aisim_weka_time(at, object, "t", AISIM_FIELD_REQUIRED, false, 0, &request.start_ns);
    if (status == AISIM_OK) {
        status = aisim_weka_text(at, object, "model", "a nonempty string", &model);
    }
    if (status == AISIM_OK) {
        status = aisim_weka_count(at, object, "in", AISIM_FIELD_REQUIRED, 1, &request.input_tokens);
    }
    if (status == AISIM_OK) {
        status =
            aisim_weka_count(at, object, "out", AISIM_FIELD_REQUIRED, 0, &request.output_tokens);
    }
    if (status == AISIM_OK) {
        status = aisim_weka_time(at, object, "api_time", AISIM_FIELD_OPTIONAL, false, 0,
                                 &request.api_ns);
    }
    if (status == AISIM_OK) {
        status = get_ids(in, object, &request);
    }
    if (status == AISIM_OK) {
        request.model = model_index(in, model);
        aisim_array_push(&in->requests, request);
    }
    return status;
}

/* Tells the kind of an entry and refuses what is none. */
static aisim_status entry_kind(const aisim_weka_cursor *at, const json_t *entry, bool nested,
                               bool *subagent)
{
    const char *expected =
        nested ? "\"n\" or \"s\" (subagents do not nest)" : "\"n\", \"s\" or \"subagent\"";
    if (!json_is_object(entry)) {
        char found[96];
        return aisim_weka_fail(at, AISIM_EINVAL, "found %s, expected an object",
                               aisim_weka_describe(entry, found, sizeof found));
    }
    const char *type;
    aisim_status status = aisim_weka_text(at, entry, "type", expected, &type);
    if (status != AISIM_OK) {
        return status;
    }
    *subagent = strcmp(type, "subagent") == 0;
    if ((*subagent && !nested) || strcmp(type, "n") == 0 || strcmp(type, "s") == 0) {
        return AISIM_OK;
    }
    return aisim_weka_wrong(at, AISIM_EINVAL, "type", json_object_get(entry, "type"), expected);
}

/* traffic 1.4: the head of a subagent. */
static aisim_status read_marker(const aisim_weka_cursor *at, const json_t *object,
                                aisim_weka_group *group, const json_t **children)
{
    const char *text;
    aisim_status status =
        aisim_weka_time(at, object, "t", AISIM_FIELD_REQUIRED, false, 0, &group->start_ns);
    if (status == AISIM_OK) {
        status = aisim_weka_text(at, object, "agent_id", "a nonempty string", &text);
    }
    if (status == AISIM_OK) {
        status = aisim_weka_time(at, object, "duration_ms", AISIM_FIELD_OPTIONAL, true, -1,
                                 &group->duration_ns);
    }
    if (status == AISIM_OK) {
        status = aisim_weka_count(at, object, "tool_tokens", AISIM_FIELD_OPTIONAL, 0,
                                  &group->tool_tokens);
    }
    if (status == AISIM_OK) {
        status = aisim_weka_count(at, object, "system_tokens", AISIM_FIELD_OPTIONAL, 0,
                                  &group->system_tokens);
    }
    const char *expected = "\"completed\" (the parent waited) or \"async_launched\" (background)";
    if (status == AISIM_OK) {
        status = aisim_weka_text(at, object, "status", expected, &text);
    }
    if (status == AISIM_OK) {
        status = aisim_weka_list(at, object, "requests", children);
    }
    if (status != AISIM_OK) {
        return status;
    }
    group->blocking = strcmp(text, "completed") == 0;
    if (!group->blocking && strcmp(text, "async_launched") != 0) {
        return aisim_weka_wrong(at, AISIM_EINVAL, "status", json_object_get(object, "status"),
                                expected);
    }
    if (group->blocking && json_array_size(*children) == 0) {
        return aisim_weka_fail(at, AISIM_EINVAL,
                               "a subagent with status \"completed\" and no requests is a wait "
                               "for something outside the recording, which is not modelled");
    }
    return AISIM_OK;
}

static aisim_status read_subagent(reader *in, const json_t *object, uint32_t outer)
{
    aisim_weka_group group = {.outer = outer};
    const json_t *children = NULL;
    aisim_status status = read_marker(&in->at, object, &group, &children);
    if (status != AISIM_OK || json_array_size(children) == 0) {
        return status; /* traffic 1.4: an empty background subagent is skipped */
    }
    uint32_t index = in->groups.len;
    aisim_array_push(&in->groups, group);
    for (uint32_t j = 0; j < json_array_size(children); j++) {
        bool nested;
        const json_t *child = json_array_get(children, j);
        in->at.inner = j;
        status = entry_kind(&in->at, child, true, &nested);
        if (status == AISIM_OK) {
            status = read_request(in, child,
                                  (aisim_weka_request){.outer = outer, .inner = j, .group = index});
        }
        if (status != AISIM_OK) {
            return status;
        }
    }
    return AISIM_OK;
}

static aisim_status read_entries(reader *in, const json_t *entries)
{
    for (uint32_t i = 0; i < json_array_size(entries); i++) {
        bool subagent = false;
        const json_t *entry = json_array_get(entries, i);
        in->at.outer = i;
        in->at.inner = AISIM_NONE;
        aisim_status status = entry_kind(&in->at, entry, false, &subagent);
        if (status == AISIM_OK && subagent) {
            status = read_subagent(in, entry, i);
        } else if (status == AISIM_OK) {
            status = read_request(
                in, entry,
                (aisim_weka_request){.outer = i, .inner = AISIM_NONE, .group = AISIM_NONE});
        }
        if (status != AISIM_OK) {
            return status;
        }
    }
    return AISIM_OK;
}

/* traffic 1.2 */
static aisim_status read_play(reader *in, const json_t *root, aisim_weka_play *out)
{
    aisim_weka_cursor *at = &in->at;
    const char *text = NULL;
    const json_t *entries = NULL;
    aisim_status status = aisim_weka_text(at, root, "id", "a nonempty string", &text);
    if (status != AISIM_OK) {
        return status;
    }
    at->play = text;
    status = aisim_weka_count(at, root, "block_size", AISIM_FIELD_REQUIRED, 1, &out->block_size);
    if (status == AISIM_OK) {
        status = aisim_weka_text(at, root, "hash_id_scope", "\"local\"", &text);
    }
    if (status == AISIM_OK && strcmp(text, "local") != 0) {
        status = aisim_weka_wrong(
            at, AISIM_EINVAL, "hash_id_scope", json_object_get(root, "hash_id_scope"),
            "\"local\": ids that mean something outside their play are not supported");
    }
    if (status == AISIM_OK) {
        status =
            aisim_weka_count(at, root, "tool_tokens", AISIM_FIELD_OPTIONAL, 0, &out->tool_tokens);
    }
    if (status == AISIM_OK) {
        status = aisim_weka_count(at, root, "system_tokens", AISIM_FIELD_OPTIONAL, 0,
                                  &out->system_tokens);
    }
    if (status == AISIM_OK) {
        status = aisim_weka_list(at, root, "requests", &entries);
    }
    if (status == AISIM_OK) {
        status = read_entries(in, entries);
    }
    if (status == AISIM_OK && in->requests.len == 0) {
        at->outer = AISIM_NONE;
        status = aisim_weka_fail(at, AISIM_EINVAL,
                                 "field 'requests' has no model request, expected at least one "
                                 "entry of type \"n\" or \"s\"");
    }
    if (status == AISIM_OK) {
        out->id = aisim_strdup(at->play);
    }
    return status;
}

aisim_status aisim_weka_parse(const char *text, size_t size, const char *file, int line,
                              aisim_weka_play *out, aisim_error *err)
{
    *out = (aisim_weka_play){0};
    json_error_t problem;
    json_t *root = NULL;
    char *shorter = NULL;
    size_t shorter_size = 0;
    if (aisim_weka_squeeze(text, size, &shorter, &shorter_size)) {
        root = json_loadb(shorter, shorter_size, JSON_REJECT_DUPLICATES, &problem);
        aisim_free(shorter);
    }
    if (root == NULL) { /* places in messages are those of the text itself */
        root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &problem);
    }
    if (root == NULL) {
        int column = problem.column > 0 ? problem.column : 0;
        int offset = problem.line > 0 ? problem.line - 1 : 0;
        return aisim_fail_at(err, AISIM_EPARSE, file, line + offset, column,
                             "not a JSON object: %s", problem.text);
    }
    reader in = {
        .at = {.file = file, .line = line, .outer = AISIM_NONE, .inner = AISIM_NONE, .err = err}};
    aisim_status status;
    if (json_is_object(root)) {
        status = read_play(&in, root, out);
    } else {
        char found[96];
        status = aisim_fail_at(err, AISIM_EINVAL, file, line, 0,
                               "found %s, expected one JSON object per play",
                               aisim_weka_describe(root, found, sizeof found));
    }
    json_decref(root);
    out->requests = in.requests.data;
    out->n_requests = in.requests.len;
    out->groups = in.groups.data;
    out->n_groups = in.groups.len;
    out->ids = aisim_realloc(in.ids.data, in.ids.len, sizeof *in.ids.data);
    out->n_ids = in.ids.len;
    out->models = in.models.data;
    out->n_models = in.models.len;
    out->file = aisim_strdup(file);
    out->line = line;
    if (status != AISIM_OK) {
        aisim_weka_play_deinit(out);
    }
    return status;
}

void aisim_weka_play_deinit(aisim_weka_play *play)
{
    aisim_free(play->id);
    aisim_free(play->file);
    aisim_free(play->requests);
    aisim_free(play->groups);
    aisim_free(play->ids);
    for (uint32_t i = 0; i < play->n_models; i++) {
        aisim_free(play->models[i]);
    }
    aisim_free(play->models);
    *play = (aisim_weka_play){0};
}

bool aisim_weka_has_relative_child(const aisim_weka_play *play)
{
    for (uint32_t i = 0; i < play->n_requests; i++) {
        const aisim_weka_request *r = &play->requests[i];
        if (r->group != AISIM_NONE &&
            r->start_ns < play->groups[r->group].start_ns - AISIM_PLAY_EPSILON_NS) {
            return true;
        }
    }
    return false;
}
