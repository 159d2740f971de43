/* weka.c - JSON object to play. The only file that knows the JSON library.
 *
 * Idea: one tree per play, thrown away as soon as its figures are copied. A cursor carries what a
 * message needs: file, line, play id and the path of the entry that is being read. The order of
 * the checks is the order of the fields in traffic 1.2 to 1.4. */
#include "workload/weka.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"

typedef struct cursor {
    const char *file;
    int line;
    char where[160]; /* "play 'a', request outer:3:inner:0" */
    aisim_error *err;
} cursor;

typedef AISIM_ARRAY(aisim_weka_request) request_array;
typedef AISIM_ARRAY(aisim_weka_group) group_array;
typedef AISIM_ARRAY(aisim_id_run) run_array;
typedef AISIM_ARRAY(char *) text_array;

typedef struct reader {
    cursor at;
    request_array requests;
    group_array groups;
    run_array ids;
    text_array models;
} reader;

/* What a field must be; one row per kind of figure so that all messages read alike. */
typedef enum { REQUIRED, OPTIONAL } presence;

static void keys_of(const json_t *object, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    const char *key;
    json_t *value;
    /* jansson's macro wants a non-const object; nothing is changed */
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        int n = snprintf(out + used, size - used, "%s%s", used > 0 ? ", " : "", key);
        if (n < 0 || (size_t)n >= size - used) {
            snprintf(out + size - 4, 4, "...");
            return;
        }
        used += (size_t)n;
    }
}

static aisim_status missing(const cursor *at, const json_t *object, const char *key,
                            const char *expected)
{
    char keys[256];
    keys_of(object, keys, sizeof keys);
    return aisim_fail_at(at->err, AISIM_EINVAL, at->file, at->line, 0,
                         "%s: field '%s' is missing, expected %s; keys found: %s", at->where, key,
                         expected, keys[0] != '\0' ? keys : "none");
}

static const char *describe(const json_t *value, char *out, size_t size)
{
    switch (json_typeof(value)) {
    case JSON_INTEGER:
        snprintf(out, size, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        break;
    case JSON_REAL:
        snprintf(out, size, "%.17g", json_real_value(value));
        break;
    case JSON_STRING:
        snprintf(out, size, "\"%.60s\"", json_string_value(value));
        break;
    case JSON_OBJECT:
        snprintf(out, size, "an object");
        break;
    case JSON_ARRAY:
        snprintf(out, size, "an array");
        break;
    case JSON_TRUE:
        snprintf(out, size, "true");
        break;
    case JSON_FALSE:
        snprintf(out, size, "false");
        break;
    case JSON_NULL:
        snprintf(out, size, "null");
        break;
    }
    return out;
}

static aisim_status wrong(const cursor *at, aisim_status code, const char *key, const json_t *value,
                          const char *expected)
{
    char found[96];
    return aisim_fail_at(at->err, code, at->file, at->line, 0, "%s: field '%s' is %s, expected %s",
                         at->where, key, describe(value, found, sizeof found), expected);
}

/* null counts as absent: producers write it for "unknown". */
static const json_t *field(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return value != NULL && json_is_null(value) ? NULL : value;
}

static aisim_status get_text(const cursor *at, const json_t *object, const char *key,
                             const char *expected, const char **out)
{
    const json_t *value = field(object, key);
    if (value == NULL) {
        return missing(at, object, key, expected);
    }
    if (!json_is_string(value) || json_string_length(value) == 0) {
        return wrong(at, AISIM_EINVAL, key, value, expected);
    }
    *out = json_string_value(value);
    return AISIM_OK;
}

/* A whole number from low to AISIM_WEKA_MAX_COUNT; 12.0 is one. */
static aisim_status get_count(const cursor *at, const json_t *object, const char *key,
                              presence need, int64_t low, uint32_t *out)
{
    char expected[64];
    snprintf(expected, sizeof expected, "a whole number from %" PRId64 " to %" PRId64, low,
             AISIM_WEKA_MAX_COUNT);
    const json_t *value = field(object, key);
    if (value == NULL) {
        *out = 0;
        return need == OPTIONAL ? AISIM_OK : missing(at, object, key, expected);
    }
    int64_t number;
    if (json_is_integer(value)) {
        number = json_integer_value(value);
    } else if (json_is_real(value) && fabs(json_real_value(value)) <= (double)INT32_MAX &&
               json_real_value(value) == floor(json_real_value(value))) {
        number = (int64_t)json_real_value(value);
    } else {
        return wrong(at, AISIM_EINVAL, key, value, expected);
    }
    if (number < low || number > AISIM_WEKA_MAX_COUNT) {
        return wrong(at, AISIM_ERANGE, key, value, expected);
    }
    *out = (uint32_t)number;
    return AISIM_OK;
}

/* Seconds, or milliseconds for duration_ms, to nanoseconds; absent = `absent`. */
static aisim_status get_time(const cursor *at, const json_t *object, const char *key, presence need,
                             bool milliseconds, int64_t absent, int64_t *out)
{
    int64_t limit = milliseconds ? AISIM_WEKA_MAX_SECONDS * 1000 : AISIM_WEKA_MAX_SECONDS;
    char expected[80];
    snprintf(expected, sizeof expected, "a time in %s from 0 to %" PRId64,
             milliseconds ? "milliseconds" : "seconds", limit);
    const json_t *value = field(object, key);
    if (value == NULL) {
        *out = absent;
        return need == OPTIONAL ? AISIM_OK : missing(at, object, key, expected);
    }
    if (!json_is_number(value)) {
        return wrong(at, AISIM_EINVAL, key, value, expected);
    }
    double number = json_number_value(value);
    if (!(number >= 0.0 && number <= (double)limit)) {
        return wrong(at, AISIM_ERANGE, key, value, expected);
    }
    if (json_is_integer(value)) {
        *out = json_integer_value(value) * (milliseconds ? AISIM_NS_PER_MS : AISIM_NS_PER_S);
    } else {
        *out = milliseconds ? aisim_ns_from_ms(number) : aisim_ns_from_s(number);
    }
    return AISIM_OK;
}

/* Appends count ids from first on to the list that starts at run `from`, keeping it canonical. */
static void add_ids(reader *in, uint32_t from, uint64_t first, uint32_t count)
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

static aisim_status get_element(const cursor *at, const char *key, const json_t *list, size_t i,
                                int64_t low, int64_t high, int64_t *out)
{
    const json_t *value = json_array_get(list, i);
    if (json_is_integer(value)) {
        *out = json_integer_value(value);
        if (*out >= low && *out <= high) {
            return AISIM_OK;
        }
    }
    char found[96];
    return aisim_fail_at(at->err, AISIM_ERANGE, at->file, at->line, 0,
                         "%s: element %zu of '%s' is %s, expected a whole number from %" PRId64
                         " to %" PRId64,
                         at->where, i, key, describe(value, found, sizeof found), low, high);
}

static aisim_status get_ids(reader *in, const json_t *object, aisim_weka_request *request)
{
    const cursor *at = &in->at;
    const json_t *list = field(object, "hash_ids");
    const json_t *coded = field(object, "hash_runs");
    request->id_first = in->ids.len;
    if (list != NULL && coded != NULL) {
        return wrong(at, AISIM_EINVAL, "hash_runs", coded,
                     "either 'hash_ids' or 'hash_runs', not both");
    }
    const char *key = coded != NULL ? "hash_runs" : "hash_ids";
    const json_t *found = coded != NULL ? coded : list;
    size_t n = found == NULL ? 0 : json_array_size(found);
    if (found != NULL && !json_is_array(found)) {
        return wrong(at, AISIM_EINVAL, key, found, "an array of whole numbers");
    }
    if (coded != NULL && n % 2 != 0) {
        return aisim_fail_at(at->err, AISIM_EINVAL, at->file, at->line, 0,
                             "%s: 'hash_runs' has %zu elements, expected pairs start,count",
                             at->where, n);
    }
    uint64_t total = 0;
    const int64_t high = INT64_MAX - AISIM_WEKA_MAX_COUNT;
    for (size_t i = 0; i < n; i += coded != NULL ? 2 : 1) {
        int64_t first;
        int64_t count = 1;
        aisim_status status = get_element(at, key, found, i, 0, high, &first);
        if (status == AISIM_OK && coded != NULL) {
            status = get_element(at, key, found, i + 1, 1, AISIM_WEKA_MAX_COUNT, &count);
        }
        if (status != AISIM_OK) {
            return status;
        }
        total += (uint64_t)count;
        if (total > (uint64_t)AISIM_WEKA_MAX_COUNT) {
            return aisim_fail_at(at->err, AISIM_ERANGE, at->file, at->line, 0,
                                 "%s: '%s' holds more than %" PRId64 " block ids", at->where, key,
                                 AISIM_WEKA_MAX_COUNT);
        }
        add_ids(in, request->id_first, (uint64_t)first, (uint32_t)count);
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
    const cursor *at = &in->at;
    const char *model = NULL;
    aisim_status status = get_time(at, object, "t", REQUIRED, false, 0, &request.start_ns);
    if (status == AISIM_OK) {
        status = get_text(at, object, "model", "a nonempty string", &model);
    }
    if (status == AISIM_OK) {
        status = get_count(at, object, "in", REQUIRED, 1, &request.input_tokens);
    }
    if (status == AISIM_OK) {
        status = get_count(at, object, "out", REQUIRED, 0, &request.output_tokens);
    }
    if (status == AISIM_OK) {
        status = get_time(at, object, "api_time", OPTIONAL, false, 0, &request.api_ns);
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
static aisim_status entry_kind(const cursor *at, const json_t *entry, bool nested, bool *subagent)
{
    const char *expected =
        nested ? "\"n\" or \"s\" (subagents do not nest)" : "\"n\", \"s\" or \"subagent\"";
    if (!json_is_object(entry)) {
        char found[96];
        return aisim_fail_at(at->err, AISIM_EINVAL, at->file, at->line, 0,
                             "%s is %s, expected an object", at->where,
                             describe(entry, found, sizeof found));
    }
    const char *type;
    aisim_status status = get_text(at, entry, "type", expected, &type);
    if (status != AISIM_OK) {
        return status;
    }
    *subagent = strcmp(type, "subagent") == 0;
    if ((*subagent && !nested) || strcmp(type, "n") == 0 || strcmp(type, "s") == 0) {
        return AISIM_OK;
    }
    return wrong(at, AISIM_EINVAL, "type", json_object_get(entry, "type"), expected);
}

static void point_at(cursor *at, const char *play, uint32_t outer, uint32_t inner)
{
    if (inner == AISIM_NONE) {
        snprintf(at->where, sizeof at->where, "play '%.80s', entry outer:%" PRIu32, play, outer);
    } else {
        snprintf(at->where, sizeof at->where,
                 "play '%.80s', entry outer:%" PRIu32 ":inner:%" PRIu32, play, outer, inner);
    }
}

static aisim_status get_list(const cursor *at, const json_t *object, const char *key,
                             const json_t **out)
{
    const json_t *list = field(object, key);
    if (list == NULL) {
        return missing(at, object, key, "an array of entries");
    }
    if (!json_is_array(list)) {
        return wrong(at, AISIM_EINVAL, key, list, "an array of entries");
    }
    *out = list;
    return AISIM_OK;
}

/* traffic 1.4: the head of a subagent. */
static aisim_status read_marker(const cursor *at, const json_t *object, aisim_weka_group *group,
                                const json_t **children)
{
    const char *text;
    aisim_status status = get_time(at, object, "t", REQUIRED, false, 0, &group->start_ns);
    if (status == AISIM_OK) {
        status = get_text(at, object, "agent_id", "a nonempty string", &text);
    }
    if (status == AISIM_OK) {
        status = get_time(at, object, "duration_ms", OPTIONAL, true, -1, &group->duration_ns);
    }
    if (status == AISIM_OK) {
        status = get_count(at, object, "tool_tokens", OPTIONAL, 0, &group->tool_tokens);
    }
    if (status == AISIM_OK) {
        status = get_count(at, object, "system_tokens", OPTIONAL, 0, &group->system_tokens);
    }
    const char *expected = "\"completed\" (the parent waited) or \"async_launched\" (background)";
    if (status == AISIM_OK) {
        status = get_text(at, object, "status", expected, &text);
    }
    if (status == AISIM_OK) {
        status = get_list(at, object, "requests", children);
    }
    if (status != AISIM_OK) {
        return status;
    }
    group->blocking = strcmp(text, "completed") == 0;
    if (!group->blocking && strcmp(text, "async_launched") != 0) {
        return wrong(at, AISIM_EINVAL, "status", json_object_get(object, "status"), expected);
    }
    if (group->blocking && json_array_size(*children) == 0) {
        return aisim_fail_at(at->err, AISIM_EINVAL, at->file, at->line, 0,
                             "%s: a subagent with status \"completed\" and no requests is a wait "
                             "for something outside the recording, which is not modelled",
                             at->where);
    }
    return AISIM_OK;
}

static aisim_status read_subagent(reader *in, const char *play, const json_t *object,
                                  uint32_t outer)
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
        point_at(&in->at, play, outer, j);
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

static aisim_status read_entries(reader *in, const char *play, const json_t *entries)
{
    for (uint32_t i = 0; i < json_array_size(entries); i++) {
        bool subagent = false;
        const json_t *entry = json_array_get(entries, i);
        point_at(&in->at, play, i, AISIM_NONE);
        aisim_status status = entry_kind(&in->at, entry, false, &subagent);
        if (status == AISIM_OK && subagent) {
            status = read_subagent(in, play, entry, i);
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
    cursor *at = &in->at;
    const char *text = NULL;
    const json_t *entries = NULL;
    snprintf(at->where, sizeof at->where, "play");
    aisim_status status = get_text(at, root, "id", "a nonempty string", &text);
    if (status != AISIM_OK) {
        return status;
    }
    const char *id = text;
    snprintf(at->where, sizeof at->where, "play '%.80s'", id);
    status = get_count(at, root, "block_size", REQUIRED, 1, &out->block_size);
    if (status == AISIM_OK) {
        status = get_text(at, root, "hash_id_scope", "\"local\"", &text);
    }
    if (status == AISIM_OK && strcmp(text, "local") != 0) {
        status = wrong(at, AISIM_EINVAL, "hash_id_scope", json_object_get(root, "hash_id_scope"),
                       "\"local\": ids that mean something outside their play are not supported");
    }
    if (status == AISIM_OK) {
        status = get_count(at, root, "tool_tokens", OPTIONAL, 0, &out->tool_tokens);
    }
    if (status == AISIM_OK) {
        status = get_count(at, root, "system_tokens", OPTIONAL, 0, &out->system_tokens);
    }
    if (status == AISIM_OK) {
        status = get_list(at, root, "requests", &entries);
    }
    if (status == AISIM_OK) {
        status = read_entries(in, id, entries);
    }
    if (status == AISIM_OK && in->requests.len == 0) {
        snprintf(at->where, sizeof at->where, "play '%.80s'", id);
        status = aisim_fail_at(at->err, AISIM_EINVAL, at->file, at->line, 0,
                               "%s has no model request, expected at least one entry of type "
                               "\"n\" or \"s\"",
                               at->where);
    }
    if (status == AISIM_OK) {
        out->id = aisim_strdup(id);
    }
    return status;
}

aisim_status aisim_weka_parse(const char *text, size_t size, const char *file, int line,
                              aisim_weka_play *out, aisim_error *err)
{
    *out = (aisim_weka_play){0};
    json_error_t problem;
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &problem);
    if (root == NULL) {
        int column = problem.column > 0 ? problem.column : 0;
        int offset = problem.line > 0 ? problem.line - 1 : 0;
        return aisim_fail_at(err, AISIM_EPARSE, file, line + offset, column,
                             "not a JSON object: %s", problem.text);
    }
    reader in = {.at = {.file = file, .line = line, .where = "", .err = err}};
    aisim_status status;
    if (json_is_object(root)) {
        status = read_play(&in, root, out);
    } else {
        char found[96];
        status = aisim_fail_at(err, AISIM_EINVAL, file, line, 0,
                               "found %s, expected one JSON object per play",
                               describe(root, found, sizeof found));
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
