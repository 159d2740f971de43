/* schema.h - one table per object says which keys exist, and everything is derived from it:
 * validation of YAML, Lua tables and --set, defaults, the resolved configuration, `aisim help
 * engine`, completion. Keys, defaults and meanings: spec/config.md.
 *
 * Objects nest by name: field `scheduler` of object `engine` is an object `scheduler`. Top objects:
 *   prediction  a whole YAML file: traffic, router, engine, evaluation, execution
 *   deployment  its `engine` part: engine keys and workers.<role>
 *   engine      one role's worth, engine keys and worker keys side by side (Lua's sim:pool)
 *
 * null means "not given" everywhere. A value that could do nothing is an error, not a decoration.
 */
#ifndef AISIM_CONFIG_SCHEMA_H
#define AISIM_CONFIG_SCHEMA_H

#include <stdbool.h>
#include <stdint.h>

#include "aisim/status.h"
#include "config/text.h"
#include "config/value.h"

typedef enum {
    AISIM_FIELD_BOOL,
    AISIM_FIELD_INTEGER, /**< within +-2^53 unless bounded otherwise */
    AISIM_FIELD_COUNT,   /**< an integer; "10k", "128Ki" too */
    AISIM_FIELD_BYTES,   /**< an integer; "64GiB", "80GB" too */
    AISIM_FIELD_SEED,    /**< unsigned, 64 bits */
    AISIM_FIELD_REAL,    /**< finite */
    AISIM_FIELD_MS,      /**< milliseconds, finite; "250ms", "2m" too */
    AISIM_FIELD_SECONDS, /**< seconds, finite; "250ms", "2m" too */
    AISIM_FIELD_TEXT,    /**< not empty */
    AISIM_FIELD_CHOICE,  /**< one of choices; true and false are taken as words */
    AISIM_FIELD_REALS,   /**< list of real numbers; bounds hold for each */
    AISIM_FIELD_TEXTS,   /**< list of texts, not empty; one text is a list of one */
    AISIM_FIELD_OBJECT,  /**< map checked as object */
    AISIM_FIELD_OBJECTS, /**< list of such maps */
    AISIM_FIELD_MODEL    /**< a name, or a map that the timing room checks */
} aisim_field_kind;

typedef enum {
    AISIM_STATUS_USED,
    AISIM_STATUS_DEFAULT_ONLY, /**< another value than the default is known, not modelled */
    AISIM_STATUS_NOT_MODELLED  /**< known, not modelled */
} aisim_field_status;

enum { /* aisim_field.flags */
       AISIM_FIELD_REQUIRED = 1,
       AISIM_FIELD_HAS_MIN = 2,
       AISIM_FIELD_HAS_MAX = 4,
       AISIM_FIELD_MIN_OPEN = 8,  /**< > min instead of >= min */
       AISIM_FIELD_MAX_OPEN = 16, /**< < max instead of <= max */
       AISIM_FIELD_FEATURE = 32,  /**< OBJECT: absent = switched off, not "all defaults" */
       AISIM_FIELD_FOREIGN = 64,  /**< a Lua function, or a map that holds one, is taken as it is */
       AISIM_FIELD_DRAWN = 128    /**< number: or a distribution, {lognormal: {p50: 8, p99: 80}} */
};

/** One row of the table. Unset texts are NULL. */
typedef struct aisim_field {
    const char *key;
    const char *fallback; /**< default as YAML text; NULL = none (null in the resolved tree) */
    const char *choices; /**< "a|b|~c": the words of a CHOICE, ~ = known, not modelled. For numbers:
                              words allowed instead of a number ("auto", "max") */
    const char *unit;    /**< "tokens", "GB/s", … */
    const char *meaning; /**< one line */
    const char *upstream; /**< option of vLLM that means the same */
    const char *when;     /**< "type=fixed|bytes": only with these values of the sibling key */
    const char *object;   /**< OBJECT, OBJECTS: its name */
    const char *note;     /**< NOT_MODELLED, DEFAULT_ONLY: what to do instead */
    double min, max;
    aisim_field_kind kind;
    aisim_field_status status;
    uint32_t flags;
} aisim_field;

/** A group of rows; an object is one to three groups. */
typedef struct aisim_fields {
    const aisim_field *rows;
    uint32_t n;
} aisim_fields;

typedef struct aisim_object {
    const char *name;
    const char *title; /**< one line for help */
    aisim_fields groups[3];
} aisim_object;

/* ---- the tables ------------------------------------------------------------------------------ */

/** The object of that name, NULL if there is none. */
const aisim_object *aisim_schema_object(const char *name);

/** Objects in a fixed order. */
uint32_t aisim_schema_objects(void);
const aisim_object *aisim_schema_object_at(uint32_t i);

/** Field i of an object, from 0, NULL behind the last. */
const aisim_field *aisim_schema_field_at(const aisim_object *object, uint32_t i);
/** The field of that key, NULL if there is none. */
const aisim_field *aisim_schema_field(const aisim_object *object, const char *key);

/** Calls fn for every field below an object, depth first, in table order, with its full path
 *  ("scheduler.max_sequences"); objects come before their fields. For completion and --set.
 *  fn returns false to stop. */
typedef bool (*aisim_schema_visit)(void *context, const char *path, const aisim_field *field);
void aisim_schema_walk(const char *object, aisim_schema_visit fn, void *context);

/* ---- checking -------------------------------------------------------------------------------- */

/** Checks a tree against an object and normalises it in place: "64GiB" becomes 68719476736, 8192.0
 *  becomes 8192 where an integer is wanted, 1 becomes 1.0 where a real number is.
 *  @param prefix  put before every message, "" or "pool: "
 *  @param path    where the tree sits, for messages, "" or "engine"
 *  @return AISIM_OK or, at the place of the offending value or key:
 *    AISIM_ENOENT        unknown key 'max_sequnces' (did you mean 'max_sequences'?)
 *    AISIM_EINVAL        wrong type, word that is no choice, missing key, value without effect
 *    AISIM_ERANGE        scheduler.max_sequences = 0: must be >= 1
 *    AISIM_ENOTMODELLED  known, not modelled: … */
aisim_status aisim_schema_check(aisim_value *value, const char *object, const char *prefix,
                                const char *path, aisim_error *err);

/** A copy of a checked tree in table order with every default written out; what nobody wrote has
 *  origin DEFAULT. Features that are off are null. Checking and resolving it again gives the same.
 *  @param value  NULL = nothing given */
aisim_value *aisim_schema_resolve(const aisim_value *value, const char *object);

/* ---- help ------------------------------------------------------------------------------------ */

/** Appends the table of an object and everything below it for people: key, default, range or
 *  choices, meaning, option of vLLM. At most 100 columns. @return false for an unknown object. */
bool aisim_schema_help(const char *object, aisim_text *out);

/** Appends "must be …" without "must be": ">= 1", ">= 0 and < 1", "fcfs, priority". */
void aisim_schema_range(const aisim_field *field, aisim_text *out);

#endif
