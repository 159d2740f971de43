/* weka_fields.h - one field of a JSON object, checked, with messages that all read alike; private
 * to weka*.c.
 *
 * A cursor says what is being read. Texts for messages are put together only when one is needed. */
#ifndef AISIM_WORKLOAD_WEKA_FIELDS_H
#define AISIM_WORKLOAD_WEKA_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "aisim/status.h"

typedef struct aisim_weka_cursor {
    const char *file;
    int line;
    const char *play;      /* NULL: the id is not known yet */
    uint32_t outer, inner; /* entry, AISIM_NONE = none */
    aisim_error *err;
} aisim_weka_cursor;

typedef enum { AISIM_FIELD_REQUIRED, AISIM_FIELD_OPTIONAL } aisim_field_presence;

/** Fails at the cursor: "play 'a', entry outer:3: <message>". @return code */
aisim_status aisim_weka_fail(const aisim_weka_cursor *at, aisim_status code, const char *format,
                             ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;

/** "field 'key' is <value>, expected <expected>". @return code */
aisim_status aisim_weka_wrong(const aisim_weka_cursor *at, aisim_status code, const char *key,
                              const json_t *value, const char *expected);

/** The field is not there: says what was. @return AISIM_EINVAL */
aisim_status aisim_weka_missing(const aisim_weka_cursor *at, const json_t *object, const char *key,
                                const char *expected);

/** A value for a message, into @p out. @return out */
const char *aisim_weka_describe(const json_t *value, char *out, size_t size);

/** The field, or NULL; null counts as absent, producers write it for "unknown". */
const json_t *aisim_weka_field(const json_t *object, const char *key);

/** A nonempty text, required. @p out points into the object. */
aisim_status aisim_weka_text(const aisim_weka_cursor *at, const json_t *object, const char *key,
                             const char *expected, const char **out);

/** A whole number from low to AISIM_WEKA_MAX_COUNT (12.0 is one); absent = 0. */
aisim_status aisim_weka_count(const aisim_weka_cursor *at, const json_t *object, const char *key,
                              aisim_field_presence need, int64_t low, uint32_t *out);

/** A time in seconds, or milliseconds, >= 0, rounded once to nanoseconds. */
aisim_status aisim_weka_time(const aisim_weka_cursor *at, const json_t *object, const char *key,
                             aisim_field_presence need, bool milliseconds, int64_t absent_ns,
                             int64_t *out_ns);

/** An array, required. */
aisim_status aisim_weka_list(const aisim_weka_cursor *at, const json_t *object, const char *key,
                             const json_t **out);

/** Element i of a list: a whole number from low to high. */
aisim_status aisim_weka_element(const aisim_weka_cursor *at, const char *key, const json_t *list,
                                size_t i, int64_t low, int64_t high, int64_t *out);

#endif
