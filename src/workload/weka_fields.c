/* weka_fields.c - see the header. */
#include "workload/weka_fields.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "workload/weka.h"

static aisim_status fail_at_byte(const aisim_weka_place *at, aisim_status code, const char *byte,
                                 const char *where, const char *message)
{
    int line = at->line;
    const char *start = at->text;
    for (const char *p = at->text; p < byte; p++) {
        if (*p == '\n') {
            line++;
            start = p + 1;
        }
    }
    return aisim_fail_at(at->err, code, at->file, line, (int)(byte - start) + 1, "%s%s", where,
                         message);
}

aisim_status aisim_weka_fail(const aisim_weka_place *at, aisim_status code, const char *byte,
                             const char *format, ...)
{
    char where[160];
    int n = at->play != NULL ? snprintf(where, sizeof where, "play '%.80s'", at->play)
                             : snprintf(where, sizeof where, "play");
    if (at->outer != AISIM_NONE) {
        n += snprintf(where + n, sizeof where - (size_t)n, ", entry outer:%" PRIu32, at->outer);
    }
    if (at->inner != AISIM_NONE) {
        n += snprintf(where + n, sizeof where - (size_t)n, ":inner:%" PRIu32, at->inner);
    }
    snprintf(where + n, sizeof where - (size_t)n, ": ");
    char message[700];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return fail_at_byte(at, code, byte, where, message);
}

aisim_status aisim_weka_no_json(const aisim_weka_place *at, const aisim_json_cursor *c)
{
    return fail_at_byte(at, AISIM_EPARSE, c->at, "not a JSON object: ", c->problem);
}

static void keys_of(const aisim_weka_object *object, char *out, size_t size)
{
    size_t used = 0;
    snprintf(out, size, "none");
    for (uint32_t i = 0; i < object->members.len; i++) {
        const aisim_json *key = &object->members.data[i].key;
        int n = snprintf(out + used, size - used, "%s%.*s", used > 0 ? ", " : "",
                         (int)(key->end - key->at - 2), key->at + 1);
        if (n < 0 || (size_t)n >= size - used) {
            snprintf(out + size - 4, 4, "...");
            return;
        }
        used += (size_t)n;
    }
}

static aisim_status missing(const aisim_weka_place *at, const aisim_weka_object *object,
                            const char *key, const char *expected)
{
    char keys[256];
    keys_of(object, keys, sizeof keys);
    return aisim_weka_fail(at, AISIM_EINVAL, object->at,
                           "field '%s' is missing, expected %s; keys found: %s", key, expected,
                           keys);
}

const char *aisim_weka_describe(const aisim_json *value, char *out, size_t size)
{
    if (value->kind == AISIM_JSON_ARRAY || value->kind == AISIM_JSON_OBJECT) {
        snprintf(out, size, value->kind == AISIM_JSON_ARRAY ? "an array" : "an object");
        return out;
    }
    ptrdiff_t n = value->end - value->at;
    snprintf(out, size, "%.*s%s", n < 60 ? (int)n : 60, value->at, n < 60 ? "" : "...");
    return out;
}

aisim_status aisim_weka_wrong(const aisim_weka_place *at, aisim_status code, const char *key,
                              const aisim_json *value, const char *expected)
{
    char found[96];
    return aisim_weka_fail(at, code, value->at, "field '%s' is %s, expected %s", key,
                           aisim_weka_describe(value, found, sizeof found), expected);
}

static bool same_key(const aisim_json *a, const aisim_json *b)
{
    return a->end - a->at == b->end - b->at && memcmp(a->at, b->at, (size_t)(a->end - a->at)) == 0;
}

aisim_status aisim_weka_add_member(const aisim_weka_place *at, aisim_weka_object *object,
                                   aisim_weka_member member)
{
    for (uint32_t i = 0; i < object->members.len; i++) {
        if (same_key(&object->members.data[i].key, &member.key)) {
            return aisim_weka_fail(at, AISIM_EINVAL, member.key.at, "field %.*s appears twice",
                                   (int)(member.key.end - member.key.at), member.key.at);
        }
    }
    aisim_array_push(&object->members, member);
    return AISIM_OK;
}

aisim_status aisim_weka_pass_object(const aisim_weka_place *at, aisim_json_cursor *c,
                                    aisim_weka_object *out)
{
    out->members.len = 0;
    out->at = c->at;
    aisim_json_enter(c);
    bool first = true;
    while (aisim_json_more(c, '}', &first)) {
        aisim_weka_member member;
        if (!aisim_json_key(c, &member.key) || !aisim_json_pass(c, &member.value)) {
            break;
        }
        aisim_status status = aisim_weka_add_member(at, out, member);
        if (status != AISIM_OK) {
            return status;
        }
    }
    return c->problem != NULL ? aisim_weka_no_json(at, c) : AISIM_OK;
}

const aisim_json *aisim_weka_field(const aisim_weka_object *object, const char *key)
{
    for (uint32_t i = 0; i < object->members.len; i++) {
        const aisim_weka_member *member = &object->members.data[i];
        if (aisim_json_is(&member->key, key)) {
            return member->value.kind == AISIM_JSON_NULL ? NULL : &member->value;
        }
    }
    return NULL;
}

aisim_status aisim_weka_text(const aisim_weka_place *at, const aisim_weka_object *object,
                             const char *key, const char *expected, const aisim_json **out)
{
    *out = aisim_weka_field(object, key);
    if (*out == NULL) {
        return missing(at, object, key, expected);
    }
    return (*out)->kind == AISIM_JSON_TEXT && !aisim_json_is(*out, "")
               ? AISIM_OK
               : aisim_weka_wrong(at, AISIM_EINVAL, key, *out, expected);
}

/* Not there, or not what a count may be. */
static aisim_status bad_count(const aisim_weka_place *at, const aisim_weka_object *object,
                              const char *key, aisim_status code, int64_t low)
{
    char expected[64];
    snprintf(expected, sizeof expected, "a whole number from %" PRId64 " to %" PRId64, low,
             AISIM_WEKA_MAX_COUNT);
    const aisim_json *value = aisim_weka_field(object, key);
    return value == NULL ? missing(at, object, key, expected)
                         : aisim_weka_wrong(at, code, key, value, expected);
}

aisim_status aisim_weka_count(const aisim_weka_place *at, const aisim_weka_object *object,
                              const char *key, aisim_field_presence need, int64_t low,
                              uint32_t *out)
{
    *out = 0;
    const aisim_json *value = aisim_weka_field(object, key);
    if (value == NULL && need == AISIM_FIELD_OPTIONAL) {
        return AISIM_OK;
    }
    int64_t number = 0;
    bool exact = true;
    if (value == NULL || value->kind != AISIM_JSON_NUMBER) {
        return bad_count(at, object, key, AISIM_EINVAL, low);
    }
    if (!aisim_json_scaled(value, 0, &number, &exact) || number < low ||
        number > AISIM_WEKA_MAX_COUNT) {
        return bad_count(at, object, key, AISIM_ERANGE, low);
    }
    *out = (uint32_t)number;
    return exact ? AISIM_OK : bad_count(at, object, key, AISIM_EINVAL, low);
}

static aisim_status bad_time(const aisim_weka_place *at, const aisim_weka_object *object,
                             const char *key, aisim_status code, bool milliseconds)
{
    char expected[80];
    snprintf(expected, sizeof expected, "a time in %s from 0 to %" PRId64,
             milliseconds ? "milliseconds" : "seconds",
             milliseconds ? AISIM_WEKA_MAX_SECONDS * 1000 : AISIM_WEKA_MAX_SECONDS);
    const aisim_json *value = aisim_weka_field(object, key);
    return value == NULL ? missing(at, object, key, expected)
                         : aisim_weka_wrong(at, code, key, value, expected);
}

aisim_status aisim_weka_time(const aisim_weka_place *at, const aisim_weka_object *object,
                             const char *key, aisim_field_presence need, bool milliseconds,
                             int64_t absent_ns, int64_t *out_ns)
{
    *out_ns = absent_ns;
    const aisim_json *value = aisim_weka_field(object, key);
    if (value == NULL && need == AISIM_FIELD_OPTIONAL) {
        return AISIM_OK;
    }
    int64_t ns = 0;
    bool exact;
    if (value == NULL || value->kind != AISIM_JSON_NUMBER) {
        return bad_time(at, object, key, AISIM_EINVAL, milliseconds);
    }
    if (!aisim_json_scaled(value, milliseconds ? 6 : 9, &ns, &exact) || ns < 0 ||
        ns > AISIM_WEKA_MAX_SECONDS * INT64_C(1000000000)) {
        return bad_time(at, object, key, AISIM_ERANGE, milliseconds);
    }
    *out_ns = ns;
    return AISIM_OK;
}

aisim_status aisim_weka_list(const aisim_weka_place *at, const aisim_weka_object *object,
                             const char *key, const aisim_json **out)
{
    *out = aisim_weka_field(object, key);
    if (*out == NULL) {
        return missing(at, object, key, "an array of entries");
    }
    return (*out)->kind == AISIM_JSON_ARRAY
               ? AISIM_OK
               : aisim_weka_wrong(at, AISIM_EINVAL, key, *out, "an array of entries");
}

aisim_status aisim_weka_element(const aisim_weka_place *at, const char *key, size_t i,
                                const aisim_json *value, int64_t low, int64_t high, int64_t *out)
{
    bool exact = false;
    if (value->kind == AISIM_JSON_NUMBER && aisim_json_scaled(value, 0, out, &exact) && exact &&
        *out >= low && *out <= high) {
        return AISIM_OK;
    }
    char found[96];
    return aisim_weka_fail(at, AISIM_ERANGE, value->at,
                           "element %zu of '%s' is %s, expected a whole number from %" PRId64
                           " to %" PRId64,
                           i, key, aisim_weka_describe(value, found, sizeof found), low, high);
}
