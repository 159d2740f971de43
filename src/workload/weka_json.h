/* weka_json.h - reads JSON where it lies: a cursor over the text, values as slices of it.
 *
 * Nothing is built. Passing a value checks it completely (RFC 8259, UTF-8, nesting at most 64) and
 * yields a slice; numbers and texts are decoded from their slice when somebody wants them. Decimal
 * numbers become integers without a detour through binary fractions, so a time is rounded once
 * and no locale is asked. Memory: none but the text, which the caller owns. */
#ifndef AISIM_WORKLOAD_WEKA_JSON_H
#define AISIM_WORKLOAD_WEKA_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    AISIM_JSON_NULL,
    AISIM_JSON_FALSE,
    AISIM_JSON_TRUE,
    AISIM_JSON_NUMBER,
    AISIM_JSON_TEXT,
    AISIM_JSON_ARRAY,
    AISIM_JSON_OBJECT
} aisim_json_kind;

/** A checked value: [at, end) of the text; a text with its quotes. */
typedef struct aisim_json {
    const char *at, *end;
    aisim_json_kind kind;
} aisim_json;

/** Once `problem` is set every call fails and `at` stays where it happened. */
typedef struct aisim_json_cursor {
    const char *at, *end;
    const char *problem; /**< what is wrong, NULL = nothing */
} aisim_json_cursor;

/** What stands next, without moving; AISIM_JSON_NULL also at the end of the text. */
aisim_json_kind aisim_json_peek(aisim_json_cursor *c);

/** Passes one value of any kind. @return false on a problem */
bool aisim_json_pass(aisim_json_cursor *c, aisim_json *out);

/** Passes the bracket that opens an array or object (peek has said which). */
void aisim_json_enter(aisim_json_cursor *c);

/** True when another element follows (then the cursor stands on it), false behind the closing
 *  bracket or on a problem. @p first in: before the first element; set to false. */
bool aisim_json_more(aisim_json_cursor *c, char close, bool *first);

/** The quick way for lists of numbers: passes a whole number >= 0 of at most 17 digits that stands
 *  right here with a comma or a closing bracket right behind it. @return false: not moved */
bool aisim_json_plain(aisim_json_cursor *c, int64_t *out);

/** Passes a key and its colon. @return false on a problem */
bool aisim_json_key(aisim_json_cursor *c, aisim_json *out);

/** Nothing but white space may follow. @return false on a problem */
bool aisim_json_finish(aisim_json_cursor *c);

/** The text is spelled like @p plain, without escapes. */
bool aisim_json_is(const aisim_json *text, const char *plain);

/** Decodes a text, zero-terminated. @p out holds at least end - at bytes. @return length */
size_t aisim_json_decode(const aisim_json *text, char *out);

/** number * 10^power as an integer, rounded to nearest, ties away from zero.
 *  @param exact  set: whether nothing was rounded
 *  @return false when it does not fit int64 */
bool aisim_json_scaled(const aisim_json *number, int power, int64_t *out, bool *exact);

#endif
