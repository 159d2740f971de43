/* json.h - writes one JSON text into a growing buffer.
 *
 *     aisim_json json = {0};
 *     aisim_json_begin(&json, '{');
 *     aisim_json_key(&json, "n");
 *     aisim_json_uint(&json, 3);
 *     aisim_json_end(&json, '}');
 *     fwrite(json.text.data, 1, json.text.len, file);
 *     aisim_json_free(&json);
 *
 * Commas and (with indent > 0) line breaks come by themselves. The result is a pure function of the
 * calls: keys in the order of the calls, doubles in the shortest of %.15g, %.16g, %.17g that reads
 * back as the same number, '.' whatever the locale, a number that is not finite becomes null, bytes
 * that are no UTF-8 become U+FFFD (spec/report.md §5). */
#ifndef AISIM_METRICS_JSON_H
#define AISIM_METRICS_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/array.h"

typedef struct aisim_json {
    AISIM_ARRAY(char) text; /**< not terminated */
    uint32_t indent;        /**< spaces per level; 0 = one line */
    uint32_t depth;
    bool filled;   /**< something stands in the open object or array */
    bool attached; /**< a key was just written */
} aisim_json;

void aisim_json_free(aisim_json *json);

/** Opens an object '{' or an array '['; closes it with '}' or ']'. */
void aisim_json_begin(aisim_json *json, char bracket);
void aisim_json_end(aisim_json *json, char bracket);

/** Inside an object, before each value. */
void aisim_json_key(aisim_json *json, const char *key);

void aisim_json_null(aisim_json *json);
void aisim_json_bool(aisim_json *json, bool value);
void aisim_json_int(aisim_json *json, int64_t value);
void aisim_json_uint(aisim_json *json, uint64_t value);
void aisim_json_double(aisim_json *json, double value);
void aisim_json_text(aisim_json *json, const char *value); /**< NULL = null */

/** Appends bytes as they are, outside of any value: a line feed between records. */
void aisim_json_raw(aisim_json *json, const char *bytes, uint32_t size);

/** The shortest text of a finite number; size >= 32. @return its length. */
uint32_t aisim_json_number(char *out, uint32_t size, double value);

#endif
