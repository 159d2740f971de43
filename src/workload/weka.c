/* weka.c - JSON object to play (traffic 1.2 to 1.4).
 *
 * Idea: the entries are read as they come, everything else of the play is listed and checked at the
 * end, so a play of many megabytes is looked at twice and never copied. The order of the checks
 * within an object is the order of the fields in the specification. */
#include "workload/weka.h"

#include <inttypes.h>
#include <string.h>

#include "base/array.h"
#include "workload/weka_fields.h"

typedef struct reader {
    aisim_weka_place at;
    aisim_json_cursor text;
    aisim_weka_object root, entry, child;
    bool has_entries;
    AISIM_ARRAY(aisim_weka_request) requests;
    AISIM_ARRAY(aisim_weka_group) groups;
    AISIM_ARRAY(aisim_id_run) ids;
    AISIM_ARRAY(char *) models;
} reader;

/* Decoded, to be freed. */
static char *copy_text(const aisim_json *text)
{
    char *copy = aisim_alloc((size_t)(text->end - text->at), 1);
    aisim_json_decode(text, copy);
    return copy;
}

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

/* The elements of a hash list; `coded`: pairs start,count. */
static aisim_status read_ids(reader *in, const char *key, const aisim_json *list, bool coded,
                             aisim_weka_request *request)
{
    aisim_json_cursor c = {.at = list->at, .end = list->end};
    const int64_t high = INT64_MAX - AISIM_WEKA_MAX_COUNT;
    int64_t start = 0;
    int64_t total = 0;
    bool first = true;
    size_t n = 0;
    aisim_json_enter(&c);
    for (; aisim_json_more(&c, ']', &first); n++) {
        aisim_json value = {.at = c.at};
        int64_t number;
        bool is_count = coded && n % 2 == 1;
        int64_t low = is_count ? 1 : 0;
        int64_t top = is_count ? AISIM_WEKA_MAX_COUNT : high;
        if (!aisim_json_plain(&c, &number) || number < low || number > top) {
            c.at = value.at;
            aisim_json_pass(&c, &value);
            aisim_status status = aisim_weka_element(&in->at, key, n, &value, low, top, &number);
            if (status != AISIM_OK) {
                return status;
            }
        }
        if (coded && !is_count) {
            start = number;
            continue;
        }
        int64_t count = is_count ? number : 1;
        total += count;
        if (total > AISIM_WEKA_MAX_COUNT) {
            return aisim_weka_fail(&in->at, AISIM_ERANGE, value.at,
                                   "'%s' holds more than %" PRId64 " block ids", key,
                                   AISIM_WEKA_MAX_COUNT);
        }
        add_ids(in, request->id_first, (uint64_t)(is_count ? start : number), (uint64_t)count);
    }
    if (coded && n % 2 != 0) {
        return aisim_weka_fail(&in->at, AISIM_EINVAL, list->at,
                               "'%s' has %zu elements, expected pairs start,count", key, n);
    }
    request->id_count = (uint32_t)total;
    return AISIM_OK;
}

static aisim_status get_ids(reader *in, const aisim_weka_object *object,
                            aisim_weka_request *request)
{
    const aisim_json *plain = aisim_weka_field(object, "hash_ids");
    const aisim_json *coded = aisim_weka_field(object, "hash_runs");
    const aisim_json *list = coded != NULL ? coded : plain;
    const char *key = coded != NULL ? "hash_runs" : "hash_ids";
    request->id_first = in->ids.len;
    if (list == NULL) {
        return AISIM_OK;
    }
    if (plain != NULL && coded != NULL) {
        return aisim_weka_wrong(&in->at, AISIM_EINVAL, key, coded,
                                "either 'hash_ids' or 'hash_runs', not both");
    }
    if (list->kind != AISIM_JSON_ARRAY) {
        return aisim_weka_wrong(&in->at, AISIM_EINVAL, key, list, "an array of whole numbers");
    }
    aisim_status status = read_ids(in, key, list, coded != NULL, request);
    request->id_runs = in->ids.len - request->id_first;
    return status;
}

static uint32_t model_index(reader *in, const aisim_json *text)
{
    bool plain = memchr(text->at, '\\', (size_t)(text->end - text->at)) == NULL;
    for (uint32_t i = 0; plain && i < in->models.len; i++) {
        if (aisim_json_is(text, in->models.data[i])) {
            return i;
        }
    }
    char *name = copy_text(text);
    for (uint32_t i = 0; i < in->models.len; i++) {
        if (strcmp(in->models.data[i], name) == 0) { /* written with escapes once */
            aisim_free(name);
            return i;
        }
    }
    aisim_array_push(&in->models, name);
    return in->models.len - 1;
}

/* traffic 1.3 */
static aisim_status read_request(reader *in, const aisim_weka_object *object,
                                 aisim_weka_request request)
{
    const aisim_weka_place *at = &in->at;
    const aisim_json *model = NULL;
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

/* Passes an entry, tells its kind and refuses what is none. */
static aisim_status pass_entry(const aisim_weka_place *at, aisim_json_cursor *c, bool nested,
                               aisim_weka_object *out, bool *subagent)
{
    const char *expected =
        nested ? "\"n\" or \"s\" (subagents do not nest)" : "\"n\", \"s\" or \"subagent\"";
    if (aisim_json_peek(c) != AISIM_JSON_OBJECT) {
        aisim_json value;
        char found[96];
        return !aisim_json_pass(c, &value)
                   ? aisim_weka_no_json(at, c)
                   : aisim_weka_fail(at, AISIM_EINVAL, value.at, "found %s, expected an object",
                                     aisim_weka_describe(&value, found, sizeof found));
    }
    aisim_status status = aisim_weka_pass_object(at, c, out);
    const aisim_json *type = NULL;
    if (status == AISIM_OK) {
        status = aisim_weka_text(at, out, "type", expected, &type);
    }
    if (status != AISIM_OK) {
        return status;
    }
    *subagent = aisim_json_is(type, "subagent");
    return (*subagent && !nested) || aisim_json_is(type, "n") || aisim_json_is(type, "s")
               ? AISIM_OK
               : aisim_weka_wrong(at, AISIM_EINVAL, "type", type, expected);
}

static bool is_empty(const aisim_json *list)
{
    aisim_json_cursor c = {.at = list->at, .end = list->end};
    bool first = true;
    aisim_json_enter(&c);
    return !aisim_json_more(&c, ']', &first);
}

/* traffic 1.4: the head of a subagent. */
static aisim_status read_marker(const aisim_weka_place *at, const aisim_weka_object *object,
                                aisim_weka_group *group, const aisim_json **children)
{
    const aisim_json *text = NULL;
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
    group->blocking = aisim_json_is(text, "completed");
    if (!group->blocking && !aisim_json_is(text, "async_launched")) {
        return aisim_weka_wrong(at, AISIM_EINVAL, "status", text, expected);
    }
    if (group->blocking && is_empty(*children)) {
        return aisim_weka_fail(at, AISIM_EINVAL, (*children)->at,
                               "a subagent with status \"completed\" and no requests is a wait "
                               "for something outside the recording, which is not modelled");
    }
    return AISIM_OK;
}

static aisim_status read_subagent(reader *in, uint32_t outer)
{
    aisim_weka_group group = {.outer = outer};
    const aisim_json *children = NULL;
    aisim_status status = read_marker(&in->at, &in->entry, &group, &children);
    if (status != AISIM_OK || is_empty(children)) {
        return status; /* traffic 1.4: an empty background subagent is skipped */
    }
    aisim_json_cursor c = {.at = children->at, .end = children->end};
    bool first = true;
    uint32_t index = in->groups.len;
    aisim_array_push(&in->groups, group);
    aisim_json_enter(&c);
    for (uint32_t j = 0; status == AISIM_OK && aisim_json_more(&c, ']', &first); j++) {
        bool nested;
        in->at.inner = j;
        status = pass_entry(&in->at, &c, true, &in->child, &nested);
        if (status == AISIM_OK) {
            status = read_request(in, &in->child,
                                  (aisim_weka_request){.outer = outer, .inner = j, .group = index});
        }
    }
    in->at.inner = AISIM_NONE;
    return status;
}

static aisim_status read_entries(reader *in)
{
    aisim_status status = AISIM_OK;
    bool first = true;
    aisim_json_enter(&in->text);
    for (uint32_t i = 0; status == AISIM_OK && aisim_json_more(&in->text, ']', &first); i++) {
        bool subagent = false;
        in->at.outer = i;
        status = pass_entry(&in->at, &in->text, false, &in->entry, &subagent);
        if (status == AISIM_OK && subagent) {
            status = read_subagent(in, i);
        } else if (status == AISIM_OK) {
            status = read_request(
                in, &in->entry,
                (aisim_weka_request){.outer = i, .inner = AISIM_NONE, .group = AISIM_NONE});
        }
    }
    in->at.outer = status == AISIM_OK ? AISIM_NONE : in->at.outer;
    return status;
}

/* One field of the play. The id is remembered as soon as it comes, for messages. */
static aisim_status read_member(reader *in)
{
    aisim_weka_member member;
    aisim_status status = AISIM_OK;
    if (!aisim_json_key(&in->text, &member.key)) {
        return AISIM_OK; /* the caller sees the problem */
    }
    if (aisim_json_is(&member.key, "requests") && !in->has_entries &&
        aisim_json_peek(&in->text) == AISIM_JSON_ARRAY) {
        in->has_entries = true;
        member.value = (aisim_json){.at = in->text.at, .kind = AISIM_JSON_ARRAY};
        status = read_entries(in);
        member.value.end = in->text.at;
    } else if (!aisim_json_pass(&in->text, &member.value)) {
        return AISIM_OK;
    }
    if (status == AISIM_OK && in->text.problem == NULL) {
        status = aisim_weka_add_member(&in->at, &in->root, member);
    }
    return status;
}

/* traffic 1.2, everything but the entries. */
static aisim_status check_play(reader *in, aisim_weka_play *out)
{
    const aisim_weka_place *at = &in->at;
    const aisim_weka_object *root = &in->root;
    const aisim_json *text = NULL;
    aisim_status status =
        aisim_weka_count(at, root, "block_size", AISIM_FIELD_REQUIRED, 1, &out->block_size);
    if (status == AISIM_OK) {
        status = aisim_weka_text(at, root, "hash_id_scope", "\"local\"", &text);
    }
    if (status == AISIM_OK && !aisim_json_is(text, "local")) {
        status = aisim_weka_wrong(at, AISIM_EINVAL, "hash_id_scope", text,
                                  "\"local\": ids that mean something outside their play are not "
                                  "supported");
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
        status = aisim_weka_list(at, root, "requests", &text);
    }
    if (status == AISIM_OK && in->requests.len == 0) {
        status = aisim_weka_fail(at, AISIM_EINVAL, text->at,
                                 "no model request, expected at least one entry of type \"n\" or "
                                 "\"s\"");
    }
    return status;
}

static aisim_status read_play(reader *in, aisim_weka_play *out)
{
    const aisim_json *id = NULL;
    aisim_status status = AISIM_OK;
    bool first = true;
    in->root.at = in->text.at;
    aisim_json_enter(&in->text);
    while (status == AISIM_OK && aisim_json_more(&in->text, '}', &first)) {
        status = read_member(in);
        if (out->id == NULL && status == AISIM_OK) {
            id = aisim_weka_field(&in->root, "id");
            if (id != NULL && id->kind == AISIM_JSON_TEXT) {
                out->id = copy_text(id);
                in->at.play = out->id;
            }
        }
    }
    if (status == AISIM_OK && (in->text.problem != NULL || !aisim_json_finish(&in->text))) {
        status = aisim_weka_no_json(&in->at, &in->text);
    }
    if (status == AISIM_OK) {
        status = aisim_weka_text(&in->at, &in->root, "id", "a nonempty string", &id);
    }
    return status == AISIM_OK ? check_play(in, out) : status;
}

/* The text is something else than an object. */
static aisim_status no_object(reader *in)
{
    aisim_json value;
    char found[96];
    if (!aisim_json_pass(&in->text, &value) || !aisim_json_finish(&in->text)) {
        return aisim_weka_no_json(&in->at, &in->text);
    }
    return aisim_weka_fail(&in->at, AISIM_EINVAL, value.at,
                           "found %s, expected one JSON object per play",
                           aisim_weka_describe(&value, found, sizeof found));
}

aisim_status aisim_weka_parse(const char *text, size_t size, const char *file, int line,
                              aisim_weka_play *out, aisim_error *err)
{
    *out = (aisim_weka_play){0};
    const char *from = text != NULL ? text : "";
    reader in = {.at = {.file = file,
                        .line = line,
                        .text = from,
                        .outer = AISIM_NONE,
                        .inner = AISIM_NONE,
                        .err = err},
                 .text = {.at = from, .end = from + size}};
    aisim_status status =
        aisim_json_peek(&in.text) == AISIM_JSON_OBJECT ? read_play(&in, out) : no_object(&in);
    aisim_array_free(&in.root.members);
    aisim_array_free(&in.entry.members);
    aisim_array_free(&in.child.members);
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
