/* weka_fields.c - see the header. */
#include "workload/weka_fields.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "workload/weka.h"

aisim_status aisim_weka_fail(const aisim_weka_cursor *at, aisim_status code, const char *format,
                             ...)
{
    char where[160] = "play";
    if (at->play != NULL && at->outer == AISIM_NONE) {
        snprintf(where, sizeof where, "play '%.80s'", at->play);
    } else if (at->play != NULL && at->inner == AISIM_NONE) {
        snprintf(where, sizeof where, "play '%.80s', entry outer:%" PRIu32, at->play, at->outer);
    } else if (at->play != NULL) {
        snprintf(where, sizeof where, "play '%.80s', entry outer:%" PRIu32 ":inner:%" PRIu32,
                 at->play, at->outer, at->inner);
    }
    char message[700];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return aisim_fail_at(at->err, code, at->file, at->line, 0, "%s: %s", where, message);
}

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

aisim_status aisim_weka_missing(const aisim_weka_cursor *at, const json_t *object, const char *key,
                                const char *expected)
{
    char keys[256];
    keys_of(object, keys, sizeof keys);
    return aisim_weka_fail(at, AISIM_EINVAL, "field '%s' is missing, expected %s; keys found: %s",
                           key, expected, keys[0] != '\0' ? keys : "none");
}

const char *aisim_weka_describe(const json_t *value, char *out, size_t size)
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

aisim_status aisim_weka_wrong(const aisim_weka_cursor *at, aisim_status code, const char *key,
                              const json_t *value, const char *expected)
{
    char found[96];
    return aisim_weka_fail(at, code, "field '%s' is %s, expected %s", key,
                           aisim_weka_describe(value, found, sizeof found), expected);
}

const json_t *aisim_weka_field(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return value != NULL && json_is_null(value) ? NULL : value;
}

aisim_status aisim_weka_text(const aisim_weka_cursor *at, const json_t *object, const char *key,
                             const char *expected, const char **out)
{
    const json_t *value = aisim_weka_field(object, key);
    if (value == NULL) {
        return aisim_weka_missing(at, object, key, expected);
    }
    if (!json_is_string(value) || json_string_length(value) == 0) {
        return aisim_weka_wrong(at, AISIM_EINVAL, key, value, expected);
    }
    *out = json_string_value(value);
    return AISIM_OK;
}

/* Not there, or not what a count may be. */
static aisim_status bad_count(const aisim_weka_cursor *at, const json_t *object, const char *key,
                              aisim_status code, int64_t low)
{
    char expected[64];
    snprintf(expected, sizeof expected, "a whole number from %" PRId64 " to %" PRId64, low,
             AISIM_WEKA_MAX_COUNT);
    const json_t *value = aisim_weka_field(object, key);
    return value == NULL ? aisim_weka_missing(at, object, key, expected)
                         : aisim_weka_wrong(at, code, key, value, expected);
}

aisim_status aisim_weka_count(const aisim_weka_cursor *at, const json_t *object, const char *key,
                              aisim_field_presence need, int64_t low, uint32_t *out)
{
    *out = 0;
    const json_t *value = aisim_weka_field(object, key);
    if (value == NULL) {
        return need == AISIM_FIELD_OPTIONAL ? AISIM_OK
                                            : bad_count(at, object, key, AISIM_EINVAL, low);
    }
    int64_t number;
    if (json_is_integer(value)) {
        number = json_integer_value(value);
    } else if (json_is_real(value) &&
               fabs(json_real_value(value)) <= (double)AISIM_WEKA_MAX_COUNT &&
               json_real_value(value) == floor(json_real_value(value))) {
        number = (int64_t)json_real_value(value);
    } else {
        return bad_count(at, object, key, AISIM_EINVAL, low);
    }
    if (number < low || number > AISIM_WEKA_MAX_COUNT) {
        return bad_count(at, object, key, AISIM_ERANGE, low);
    }
    *out = (uint32_t)number;
    return AISIM_OK;
}

static aisim_status bad_time(const aisim_weka_cursor *at, const json_t *object, const char *key,
                             aisim_status code, bool milliseconds)
{
    char expected[80];
    snprintf(expected, sizeof expected, "a time in %s from 0 to %" PRId64,
             milliseconds ? "milliseconds" : "seconds",
             milliseconds ? AISIM_WEKA_MAX_SECONDS * 1000 : AISIM_WEKA_MAX_SECONDS);
    const json_t *value = aisim_weka_field(object, key);
    return value == NULL ? aisim_weka_missing(at, object, key, expected)
                         : aisim_weka_wrong(at, code, key, value, expected);
}

aisim_status aisim_weka_time(const aisim_weka_cursor *at, const json_t *object, const char *key,
                             aisim_field_presence need, bool milliseconds, int64_t absent_ns,
                             int64_t *out_ns)
{
    *out_ns = absent_ns;
    const json_t *value = aisim_weka_field(object, key);
    if (value == NULL) {
        return need == AISIM_FIELD_OPTIONAL ? AISIM_OK
                                            : bad_time(at, object, key, AISIM_EINVAL, milliseconds);
    }
    if (!json_is_number(value)) {
        return bad_time(at, object, key, AISIM_EINVAL, milliseconds);
    }
    double number = json_number_value(value);
    double limit = (double)AISIM_WEKA_MAX_SECONDS * (milliseconds ? 1000.0 : 1.0);
    if (!(number >= 0.0 && number <= limit)) {
        return bad_time(at, object, key, AISIM_ERANGE, milliseconds);
    }
    if (json_is_integer(value)) {
        *out_ns = json_integer_value(value) * (milliseconds ? AISIM_NS_PER_MS : AISIM_NS_PER_S);
    } else {
        *out_ns = milliseconds ? aisim_ns_from_ms(number) : aisim_ns_from_s(number);
    }
    return AISIM_OK;
}

aisim_status aisim_weka_list(const aisim_weka_cursor *at, const json_t *object, const char *key,
                             const json_t **out)
{
    *out = aisim_weka_field(object, key);
    if (*out == NULL) {
        return aisim_weka_missing(at, object, key, "an array of entries");
    }
    return json_is_array(*out)
               ? AISIM_OK
               : aisim_weka_wrong(at, AISIM_EINVAL, key, *out, "an array of entries");
}

aisim_status aisim_weka_element(const aisim_weka_cursor *at, const char *key, const json_t *list,
                                size_t i, int64_t low, int64_t high, int64_t *out)
{
    const json_t *value = json_array_get(list, i);
    if (json_is_integer(value)) {
        *out = json_integer_value(value);
        if (*out >= low && *out <= high) {
            return AISIM_OK;
        }
    }
    char found[96];
    return aisim_weka_fail(at, AISIM_ERANGE,
                           "element %zu of '%s' is %s, expected a whole number from %" PRId64
                           " to %" PRId64,
                           i, key, aisim_weka_describe(value, found, sizeof found), low, high);
}
