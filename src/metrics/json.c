/* json.c - a small writer; the caller is trusted to nest correctly. */
#include "metrics/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void aisim_json_free(aisim_json *json)
{
    aisim_array_free(&json->text);
}

void aisim_json_raw(aisim_json *json, const char *bytes, uint32_t size)
{
    aisim_array_reserve(&json->text, json->text.len + size);
    if (size > 0) {
        memcpy(json->text.data + json->text.len, bytes, size);
    }
    json->text.len += size;
}

static void put(aisim_json *json, const char *text)
{
    aisim_json_raw(json, text, (uint32_t)strlen(text));
}

static void new_line(aisim_json *json)
{
    if (json->indent > 0) {
        aisim_array_push(&json->text, '\n');
        for (uint32_t i = 0; i < json->depth * json->indent; i++) {
            aisim_array_push(&json->text, ' ');
        }
    }
}

/* What stands before a key or a value. */
static void separate(aisim_json *json)
{
    if (json->attached) {
        json->attached = false;
        return;
    }
    if (json->depth > 0) {
        if (json->filled) {
            aisim_array_push(&json->text, ',');
        }
        new_line(json);
    }
    json->filled = true;
}

void aisim_json_begin(aisim_json *json, char bracket)
{
    separate(json);
    aisim_array_push(&json->text, bracket);
    json->depth++;
    json->filled = false;
}

void aisim_json_end(aisim_json *json, char bracket)
{
    json->depth--;
    if (json->filled) {
        new_line(json);
    }
    aisim_array_push(&json->text, bracket);
    json->filled = true;
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* Length of the UTF-8 character at text, 0 when there is none (RFC 3629: no overlong form, no
 * surrogate, at most U+10FFFF). A terminating zero is no continuation, so this never reads past it.
 */
static uint32_t utf8_length(const unsigned char *text)
{
    uint32_t n = text[0] < 0x80    ? 1
                 : text[0] < 0xC2  ? 0
                 : text[0] < 0xE0  ? 2
                 : text[0] < 0xF0  ? 3
                 : text[0] <= 0xF4 ? 4
                                   : 0;
    for (uint32_t i = 1; i < n; i++) {
        if ((text[i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    if ((text[0] == 0xE0 && text[1] < 0xA0) || (text[0] == 0xED && text[1] >= 0xA0) ||
        (text[0] == 0xF0 && text[1] < 0x90) || (text[0] == 0xF4 && text[1] >= 0x90)) {
        return 0;
    }
    return n;
}

static void escaped(aisim_json *json, unsigned char c)
{
    static const char named[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    for (const char *pair = named; *pair != '\0'; pair += 2) {
        if ((unsigned char)*pair == c) {
            char out[2] = {'\\', pair[1]};
            aisim_json_raw(json, out, 2);
            return;
        }
    }
    char out[8];
    snprintf(out, sizeof out, "\\u%04x", (unsigned)c);
    put(json, out);
}

static void quoted(aisim_json *json, const char *text)
{
    aisim_array_push(&json->text, '"');
    const unsigned char *at = (const unsigned char *)text;
    while (*at != '\0') {
        uint32_t n = utf8_length(at);
        if (n == 0) {
            put(json, "\xEF\xBF\xBD");
            n = 1;
        } else if (n == 1 && (*at < 0x20 || *at == '"' || *at == '\\' || *at == 0x7F)) {
            escaped(json, *at);
        } else {
            aisim_json_raw(json, (const char *)at, n);
        }
        at += n;
    }
    aisim_array_push(&json->text, '"');
}

void aisim_json_key(aisim_json *json, const char *key)
{
    separate(json);
    quoted(json, key);
    put(json, json->indent > 0 ? ": " : ":");
    json->attached = true;
}

void aisim_json_text(aisim_json *json, const char *value)
{
    separate(json);
    if (value == NULL) {
        put(json, "null");
    } else {
        quoted(json, value);
    }
}

/* ---- numbers --------------------------------------------------------------------------------- */

uint32_t aisim_json_number(char *out, uint32_t size, double value)
{
    char text[48];
    if (value == floor(value) && fabs(value) < 1e15) { /* most values; also turns -0 into 0 */
        return (uint32_t)snprintf(out, size, "%lld", (long long)value);
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) {
            break;
        }
    }
    /* A locale may write something else for the point: one run of other bytes. */
    uint32_t n = 0;
    bool other = false;
    for (const char *at = text; *at != '\0' && n + 1 < size; at++) {
        bool plain = (*at >= '0' && *at <= '9') || *at == '-' || *at == '+' || *at == 'e';
        if (plain || !other) {
            out[n++] = plain ? *at : '.';
        }
        other = !plain;
    }
    out[n] = '\0';
    return n;
}

void aisim_json_null(aisim_json *json)
{
    aisim_json_text(json, NULL);
}

void aisim_json_bool(aisim_json *json, bool value)
{
    separate(json);
    put(json, value ? "true" : "false");
}

void aisim_json_int(aisim_json *json, int64_t value)
{
    char text[24];
    separate(json);
    snprintf(text, sizeof text, "%lld", (long long)value);
    put(json, text);
}

void aisim_json_uint(aisim_json *json, uint64_t value)
{
    char text[24];
    separate(json);
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    put(json, text);
}

void aisim_json_double(aisim_json *json, double value)
{
    char text[48];
    separate(json);
    if (!isfinite(value)) {
        put(json, "null");
        return;
    }
    aisim_json_number(text, sizeof text, value);
    put(json, text);
}
