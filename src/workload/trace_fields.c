/* trace_fields.c - fields of JSON rows, with the messages of spec/cli.md: file, line, field, what
 * was there instead. */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "workload/trace_parts.h"
#include "workload/weka_fields.h"
#include "workload/weka_squeeze.h"

#define MAX_TOKENS UINT64_C(2147483647)

aisim_status aisim_trace_fail(const aisim_trace_place *at, aisim_status code, const char *format,
                              ...)
{
    char message[700];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return aisim_fail_at(at->err, code, at->file, at->line, 0, "%s", message);
}

/* Sequence hashes are unsigned 64-bit numbers, which the JSON library cannot hold: every integer of
 * 19 digits and more outside of texts is put in quotes. */
static void quote_large_integers(const char *text, size_t size, aisim_text_array *out)
{
    bool quoted = false;
    for (size_t i = 0; i < size;) {
        char c = text[i];
        if (quoted || !isdigit((unsigned char)c)) {
            if (c == '\\' && quoted && i + 1 < size) {
                aisim_array_push(out, c);
                c = text[++i];
            } else if (c == '"') {
                quoted = !quoted;
            }
            aisim_array_push(out, c);
            i++;
            continue;
        }
        size_t end = i;
        while (end < size && isdigit((unsigned char)text[end])) {
            end++;
        }
        bool part = (i > 0 && strchr("-.eE+", text[i - 1]) != NULL) ||
                    (end < size && strchr(".eE", text[end]) != NULL);
        bool quote = end - i >= 19 && end - i <= 20 && !part;
        if (quote) {
            aisim_array_push(out, '"');
        }
        for (; i < end; i++) {
            aisim_array_push(out, text[i]);
        }
        if (quote) {
            aisim_array_push(out, '"');
        }
    }
}

static bool has_large_integer(const char *text, size_t size)
{
    size_t digits = 0;
    for (size_t i = 0; i < size; i++) {
        digits = isdigit((unsigned char)text[i]) ? digits + 1 : 0;
        if (digits == 19) {
            return true;
        }
    }
    return false;
}

aisim_status aisim_trace_parse_short(const aisim_trace_place *at, const char *text, size_t size,
                                     json_t **out, bool *shortened)
{
    char *shorter = NULL;
    size_t shorter_size = 0;
    *shortened = aisim_weka_squeeze(text, size, &shorter, &shorter_size);
    if (!*shortened) {
        return aisim_trace_parse(at, text, size, out);
    }
    aisim_error quiet = {0};
    const aisim_trace_place silent = {at->file, at->line, &quiet};
    aisim_status status = aisim_trace_parse(&silent, shorter, shorter_size, out);
    aisim_free(shorter);
    if (status != AISIM_OK) { /* the message speaks of the text as it is */
        *shortened = false;
        return aisim_trace_parse(at, text, size, out);
    }
    return status;
}

aisim_status aisim_trace_parse(const aisim_trace_place *at, const char *text, size_t size,
                               json_t **out)
{
    json_error_t problem;
    aisim_text_array copy = {0};
    if (has_large_integer(text, size)) {
        quote_large_integers(text, size, &copy);
        text = copy.data;
        size = copy.len;
    }
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &problem);
    aisim_array_free(&copy);
    if (root == NULL) {
        return aisim_fail_at(at->err, AISIM_EPARSE, at->file, at->line,
                             problem.column > 0 ? problem.column : 0, "not a JSON object: %s",
                             problem.text);
    }
    if (!json_is_object(root)) {
        char found[96];
        aisim_weka_describe(root, found, sizeof found);
        json_decref(root);
        return aisim_trace_fail(at, AISIM_EINVAL, "found %s, expected one JSON object per line",
                                found);
    }
    *out = root;
    return AISIM_OK;
}

const json_t *aisim_trace_field(const json_t *object, const char *name, const char *alias)
{
    const json_t *value = aisim_weka_field(object, name);
    return value == NULL && alias != NULL ? aisim_weka_field(object, alias) : value;
}

aisim_status aisim_trace_missing(const aisim_trace_place *at, const json_t *object,
                                 const char *name)
{
    char keys[400] = "";
    size_t used = 0;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        int n = snprintf(keys + used, sizeof keys - used, "%s%s", used > 0 ? ", " : "", key);
        if (n < 0 || (size_t)n >= sizeof keys - used) {
            break;
        }
        used += (size_t)n;
    }
    return aisim_trace_fail(at, AISIM_EINVAL, "field '%s' missing; keys found: %s", name,
                            keys[0] != '\0' ? keys : "none");
}

static aisim_status wrong(const aisim_trace_place *at, aisim_status code, const char *name,
                          const json_t *value, const char *expected)
{
    char found[96];
    return aisim_trace_fail(at, code, "field '%s' is %s, expected %s", name,
                            aisim_weka_describe(value, found, sizeof found), expected);
}

aisim_status aisim_trace_count(const aisim_trace_place *at, const json_t *object, const char *name,
                               const char *alias, bool required, uint32_t *out, bool *have)
{
    const json_t *value = aisim_trace_field(object, name, alias);
    *out = 0;
    if (have != NULL) {
        *have = value != NULL;
    }
    if (value == NULL) {
        return required ? aisim_trace_missing(at, object, name) : AISIM_OK;
    }
    const char *expected = "a whole number from 0 to 2147483647";
    double number = json_number_value(value);
    if (!json_is_number(value)) {
        return wrong(at, AISIM_EINVAL, name, value, expected);
    }
    if (!(number >= 0 && number <= (double)MAX_TOKENS) || number != floor(number)) {
        return wrong(at, AISIM_ERANGE, name, value, expected);
    }
    *out = (uint32_t)number;
    return AISIM_OK;
}

aisim_status aisim_trace_time(const aisim_trace_place *at, const json_t *object, const char *name,
                              const char *alias, bool required, int64_t unit_ns, int64_t *out)
{
    const json_t *value = aisim_trace_field(object, name, alias);
    *out = AISIM_TRACE_UNKNOWN;
    if (value == NULL) {
        return required ? aisim_trace_missing(at, object, name) : AISIM_OK;
    }
    if (!json_is_number(value)) {
        return wrong(at, AISIM_EINVAL, name, value, "a time, a number >= 0");
    }
    double limit = 4e18 / (double)unit_ns;
    double number = json_number_value(value);
    if (!(number >= 0 && number <= limit)) {
        char expected[80];
        snprintf(expected, sizeof expected, "a time from 0 to %.0f", limit);
        return wrong(at, AISIM_ERANGE, name, value, expected);
    }
    *out = json_is_integer(value) ? json_integer_value(value) * unit_ns
                                  : (int64_t)llround(number * (double)unit_ns);
    return AISIM_OK;
}

aisim_status aisim_trace_text(const aisim_trace_place *at, const json_t *object, const char *name,
                              bool required, char buffer[64], const char **out)
{
    const json_t *value = aisim_trace_field(object, name, NULL);
    *out = NULL;
    if (value == NULL) {
        return required ? aisim_trace_missing(at, object, name) : AISIM_OK;
    }
    if (json_is_integer(value)) {
        snprintf(buffer, 64, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        *out = buffer;
        return AISIM_OK;
    }
    if (!json_is_string(value) || json_string_length(value) == 0) {
        return wrong(at, AISIM_EINVAL, name, value, "a name or a whole number");
    }
    *out = json_string_value(value);
    return AISIM_OK;
}

/* One id: a whole number >= 0 of at most 64 bits. */
static bool read_id(const json_t *value, uint64_t *out)
{
    if (json_is_integer(value)) {
        *out = (uint64_t)json_integer_value(value);
        return json_integer_value(value) >= 0;
    }
    const char *text = json_string_value(value);
    if (text == NULL || text[0] == '\0') {
        return false;
    }
    *out = 0;
    for (; *text != '\0'; text++) {
        uint64_t digit = (uint64_t)(*text - '0');
        if (!isdigit((unsigned char)*text) || *out > (UINT64_MAX - digit) / 10) {
            return false;
        }
        *out = 10 * *out + digit;
    }
    return true;
}

static aisim_status read_ids(const aisim_trace_place *at, const json_t *list, const char *name,
                             uint64_t offset, aisim_id_runs *out)
{
    if (!json_is_array(list)) {
        return wrong(at, AISIM_EINVAL, name, list, "an array of ids");
    }
    size_t n = json_array_size(list);
    for (size_t i = 0; i < n; i++) {
        uint64_t id;
        if (!read_id(json_array_get(list, i), &id) || id >= UINT64_MAX - offset) {
            char found[96];
            aisim_weka_describe(json_array_get(list, i), found, sizeof found);
            return aisim_trace_fail(at, AISIM_ERANGE,
                                    "element %zu of '%s' is %s, expected a whole number >= 0", i,
                                    name, found);
        }
        id += offset;
        aisim_id_run *last = out->len > 0 ? &out->data[out->len - 1] : NULL;
        if (last != NULL && last->first + last->count == id) {
            last->count++;
        } else {
            aisim_array_push(out, (aisim_id_run){id, 1});
        }
    }
    return AISIM_OK;
}

aisim_status aisim_trace_runs(aisim_trace *trace, const aisim_trace_place *at, const json_t *list,
                              const char *name, aisim_trace_row *row)
{
    trace->ids.len = 0;
    size_t n = json_array_size(list);
    uint64_t total = 0;
    if (!json_is_array(list) || n % 2 != 0) {
        return wrong(at, AISIM_EINVAL, name, list, "an array start, count, start, count, ...");
    }
    for (size_t i = 0; i < n; i += 2) {
        uint64_t first, count;
        if (!read_id(json_array_get(list, i), &first) ||
            !read_id(json_array_get(list, i + 1), &count) || count == 0 ||
            count > MAX_TOKENS - total || first >= UINT64_MAX - count) {
            return aisim_trace_fail(at, AISIM_ERANGE,
                                    "element %zu of '%s': whole numbers start >= 0, count >= 1 "
                                    "expected",
                                    i, name);
        }
        total += count;
        aisim_array_push(&trace->ids, (aisim_id_run){first, count});
    }
    row->id_count = (uint32_t)total;
    return AISIM_OK;
}

aisim_status aisim_trace_ids(aisim_trace *trace, const aisim_trace_place *at, const json_t *list,
                             const char *name, aisim_trace_row *row)
{
    trace->ids.len = 0;
    aisim_status status = read_ids(at, list, name, 0, &trace->ids);
    row->id_count = (uint32_t)json_array_size(list);
    return status;
}

#define TOKEN_IDS (UINT64_C(1) << 62) /* apart from the ids of blocks */

aisim_status aisim_trace_output_ids(aisim_trace *trace, const aisim_trace_place *at,
                                    const json_t *list, const char *name, aisim_trace_row *row)
{
    trace->output_ids.len = 0;
    aisim_status status = read_ids(at, list, name, TOKEN_IDS, &trace->output_ids);
    if (status == AISIM_OK && json_array_size(list) != row->output_tokens) {
        return aisim_trace_fail(
            at, AISIM_EINVAL, "field '%s' has %zu ids, expected one per output token (%" PRIu32 ")",
            name, json_array_size(list), row->output_tokens);
    }
    return status;
}
