/* value.h - the value tree: what YAML, a Lua table and --set have in common.
 *
 * A value is null, a boolean, an integer, a real number, a text, a list, a map whose keys keep
 * their order, or a foreign object (a Lua function or userdata that only its owner understands).
 * Every value, and every key of a map, carries a mark: where it was written. Marks make the
 * difference between "max_sequences = 0: must be >= 1" and the same sentence with file, line and
 * column.
 *
 * Ownership: a map or list owns its children; put, push and merge take what they are given; get and
 * at lend. A mark passed to a function is borrowed, its source is kept alive by the values.
 * Integers are 64 bits signed, plus unsigned ones of 2^63 .. 2^64-1 (seeds).
 *
 * Built from Lua: one aisim_source for the script, one mark per call (file and line of the caller),
 * keys put in sorted order, no deeper than AISIM_VALUE_MAX_DEPTH. */
#ifndef AISIM_CONFIG_VALUE_H
#define AISIM_CONFIG_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include "aisim/status.h"

enum { AISIM_VALUE_MAX_DEPTH = 64 }; /**< recursion of copy, free, check, emit relies on it */

typedef enum {
    AISIM_VALUE_NULL,
    AISIM_VALUE_BOOL,
    AISIM_VALUE_INTEGER,
    AISIM_VALUE_REAL,
    AISIM_VALUE_TEXT,
    AISIM_VALUE_LIST,
    AISIM_VALUE_MAP,
    AISIM_VALUE_FOREIGN
} aisim_value_kind;

typedef struct aisim_value aisim_value;

/* ---- where a value comes from ---------------------------------------------------------------- */

typedef enum {
    AISIM_ORIGIN_DEFAULT, /**< nobody wrote it: a default of the schema */
    AISIM_ORIGIN_FILE,    /**< a YAML file or a Lua script */
    AISIM_ORIGIN_SET      /**< a --set flag */
} aisim_origin;

/** A file or a flag, shared by the values that come from it (reference counted). */
typedef struct aisim_source aisim_source;

/** @param name  file name, or the flag as typed: "--set rate=4"; copied, cut to what an aisim_error
 *               can hold
 *  @return a source with one reference, to be given back with aisim_source_release */
aisim_source *aisim_source_new(aisim_origin origin, const char *name);
void aisim_source_release(aisim_source *source); /**< NULL allowed */
const char *aisim_source_name(const aisim_source *source);

/** A place. source NULL = a default, nowhere; line and column 0 = unknown. */
typedef struct aisim_mark {
    aisim_source *source;
    int line, column; /**< from 1 */
} aisim_mark;

/* ---- making ---------------------------------------------------------------------------------- */

aisim_value *aisim_value_null(aisim_mark mark);
aisim_value *aisim_value_bool(aisim_mark mark, bool x);
aisim_value *aisim_value_integer(aisim_mark mark, int64_t x);
aisim_value *aisim_value_unsigned(aisim_mark mark, uint64_t x);
aisim_value *aisim_value_real(aisim_mark mark, double x);
aisim_value *aisim_value_text(aisim_mark mark, const char *text); /**< copied */
aisim_value *aisim_value_list(aisim_mark mark);
aisim_value *aisim_value_map(aisim_mark mark);
/** @param type_name  "function", "timing model", …; copied, appears in messages and reports
 *  @param handle     for its owner, for example a Lua registry reference; copied with the value */
aisim_value *aisim_value_foreign(aisim_mark mark, const char *type_name, int64_t handle);

/** Appends to a list. Takes child. */
void aisim_value_push(aisim_value *list, aisim_value *child);

/** Sets a key of a map; an existing key keeps its place and gets the new mark. Takes child.
 *  O(keys of the map). */
void aisim_value_put(aisim_value *map, const char *key, aisim_mark key_mark, aisim_value *child);

/** Takes a key out of a map. @return its value, now owned by the caller, or NULL. */
aisim_value *aisim_value_take(aisim_value *map, const char *key);

/** A deep copy; marks are kept. */
aisim_value *aisim_value_copy(const aisim_value *value);

/** Lays over onto base: maps are merged key by key, anything else is replaced. A null in over
 *  replaces too (null = "the default"). Takes over; base must be a map and over too. */
void aisim_value_merge(aisim_value *base, aisim_value *over);

void aisim_value_free(aisim_value *value); /**< NULL allowed */

/* ---- reading --------------------------------------------------------------------------------- */

aisim_value_kind aisim_value_kind_of(const aisim_value *value);
const char *aisim_value_kind_name(const aisim_value *value); /**< "integer", "map", … */
aisim_mark aisim_value_mark(const aisim_value *value);       /**< borrowed */
aisim_origin aisim_value_origin(const aisim_value *value);

bool aisim_value_is_null(const aisim_value *value);         /**< true for NULL too */
bool aisim_value_as_bool(const aisim_value *value);         /**< BOOL only */
bool aisim_value_is_big(const aisim_value *value);          /**< an INTEGER above INT64_MAX */
int64_t aisim_value_as_integer(const aisim_value *value);   /**< INTEGER, not big */
uint64_t aisim_value_as_unsigned(const aisim_value *value); /**< INTEGER, big or >= 0 */
double aisim_value_as_real(const aisim_value *value);       /**< INTEGER or REAL */
const char *aisim_value_as_text(const aisim_value *value);  /**< TEXT; FOREIGN: its type name */
int64_t aisim_value_handle(const aisim_value *value);       /**< FOREIGN */

/** Number of entries of a LIST or MAP, else 0. */
uint32_t aisim_value_len(const aisim_value *value);
/** Entry i of a LIST or MAP, from 0. */
aisim_value *aisim_value_at(const aisim_value *value, uint32_t i);
const char *aisim_value_key(const aisim_value *map, uint32_t i);
aisim_mark aisim_value_key_mark(const aisim_value *map, uint32_t i);

/** The value of a key, NULL when absent or when value is no map. */
aisim_value *aisim_value_get(const aisim_value *value, const char *key);
/** Follows a dotted path through maps: "kv_cache.capacity.type". NULL when a part is absent. */
aisim_value *aisim_value_find(const aisim_value *value, const char *path);
/** Whether both are the same; marks do not count. 1 and 1.0 differ. */
bool aisim_value_equal(const aisim_value *a, const aisim_value *b);

/* ---- changing in place (the schema normalises "64GiB" to 68719476736) -------------------------
 */

void aisim_value_set_integer(aisim_value *value, int64_t x); /**< of a scalar; the mark stays */
void aisim_value_set_real(aisim_value *value, double x);
void aisim_value_set_text(aisim_value *value, const char *text);
/** x becomes [x]; the mark stays. */
void aisim_value_wrap(aisim_value *value);

/* ---- messages -------------------------------------------------------------------------------- */

/** Writes a short form for messages: 8192, 1.5, true, 'text', a list, a map, a function.
 *  @return @p out */
char *aisim_value_show(const aisim_value *value, char *out, unsigned long size);

/** aisim_fail_at with the place of a mark. @return @p code */
aisim_status aisim_fail_mark(aisim_error *err, aisim_mark mark, aisim_status code,
                             const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 4, 5)))
#endif
    ;

#endif
