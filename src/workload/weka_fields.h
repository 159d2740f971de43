/* weka_fields.h - the fields of one JSON object, checked, with messages that all read alike;
 * private to weka*.c.
 *
 * A place says what is being read. Texts, lines and columns are worked out only when a message is
 * needed. */
#ifndef AISIM_WORKLOAD_WEKA_FIELDS_H
#define AISIM_WORKLOAD_WEKA_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "aisim/status.h"
#include "base/array.h"
#include "workload/weka_json.h"

/* Where in the input. */
typedef struct aisim_weka_place {
    const char *file;
    int line;              /* of the first byte of text */
    const char *text;      /* the whole play */
    const char *play;      /* its id, NULL = not known yet */
    uint32_t outer, inner; /* entry, AISIM_NONE = none */
    aisim_error *err;
} aisim_weka_place;

typedef struct aisim_weka_member {
    aisim_json key, value;
} aisim_weka_member;

/* An object and its fields, in the order of the text. */
typedef struct aisim_weka_object {
    const char *at;
    AISIM_ARRAY(aisim_weka_member) members;
} aisim_weka_object;

typedef enum { AISIM_FIELD_REQUIRED, AISIM_FIELD_OPTIONAL } aisim_field_presence;

/** Fails at byte `byte` of the text: "play 'a', entry outer:3: <message>". @return code */
aisim_status aisim_weka_fail(const aisim_weka_place *at, aisim_status code, const char *byte,
                             const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 4, 5)))
#endif
    ;

/** The text is no JSON. @return AISIM_EPARSE */
aisim_status aisim_weka_no_json(const aisim_weka_place *at, const aisim_json_cursor *c);

/** "field 'key' is <value>, expected <expected>". @return code */
aisim_status aisim_weka_wrong(const aisim_weka_place *at, aisim_status code, const char *key,
                              const aisim_json *value, const char *expected);

/** A value for a message, into @p out. @return out */
const char *aisim_weka_describe(const aisim_json *value, char *out, size_t size);

/** Adds a field. @return AISIM_OK or AISIM_EINVAL (the key was there already) */
aisim_status aisim_weka_add_member(const aisim_weka_place *at, aisim_weka_object *object,
                                   aisim_weka_member member);

/** Passes an object (peek has said that it is one) and lists its fields. */
aisim_status aisim_weka_pass_object(const aisim_weka_place *at, aisim_json_cursor *c,
                                    aisim_weka_object *out);

/** The field, or NULL; null counts as absent, producers write it for "unknown". */
const aisim_json *aisim_weka_field(const aisim_weka_object *object, const char *key);

/** A nonempty text, required; still encoded. */
aisim_status aisim_weka_text(const aisim_weka_place *at, const aisim_weka_object *object,
                             const char *key, const char *expected, const aisim_json **out);

/** A whole number from low to AISIM_WEKA_MAX_COUNT (12.0 is one); absent = 0. */
aisim_status aisim_weka_count(const aisim_weka_place *at, const aisim_weka_object *object,
                              const char *key, aisim_field_presence need, int64_t low,
                              uint32_t *out);

/** A time in seconds, or milliseconds, >= 0, rounded once to nanoseconds. */
aisim_status aisim_weka_time(const aisim_weka_place *at, const aisim_weka_object *object,
                             const char *key, aisim_field_presence need, bool milliseconds,
                             int64_t absent_ns, int64_t *out_ns);

/** An array, required. */
aisim_status aisim_weka_list(const aisim_weka_place *at, const aisim_weka_object *object,
                             const char *key, const aisim_json **out);

/** A whole number from low to high as element i of the list called key. */
aisim_status aisim_weka_element(const aisim_weka_place *at, const char *key, size_t i,
                                const aisim_json *value, int64_t low, int64_t high, int64_t *out);

#endif
