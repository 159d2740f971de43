/* fields.h - named fields of a plain struct, so that other code can walk and fill it.
 *
 * A descriptor (aisim_model, aisim_hardware, …) publishes one table of aisim_field. The
 * configuration reads it to check keys, the command line prints it as help, and the setters below
 * fill the struct from named numbers and words. Nothing else describes the keys: the table is the
 * only list of them. */
#ifndef AISIM_TIMING_FIELDS_H
#define AISIM_TIMING_FIELDS_H

#include <stddef.h>
#include <stdint.h>

#include "aisim/status.h"

typedef enum {
    AISIM_FIELD_U32,
    AISIM_FIELD_U64,
    AISIM_FIELD_F64,
    AISIM_FIELD_BOOL, /**< a bool; numbers 0 and 1 are accepted */
    AISIM_FIELD_WORD, /**< an enumeration stored as int; `words` lists its values in order */
    AISIM_FIELD_TEXT  /**< char[AISIM_FIELD_TEXT_MAX] inside the struct */
} aisim_field_type;

enum { AISIM_FIELD_TEXT_MAX = 64 };

typedef struct aisim_field {
    const char *name;
    aisim_field_type type;
    size_t offset;
    double min, max;          /**< inclusive; numbers only */
    const char *const *words; /**< NULL-terminated; WORD only */
    const char *meaning;      /**< with the unit */
} aisim_field;

/** A struct kind: what error messages call it, and its fields. */
typedef struct aisim_field_table {
    const char *what; /**< "model", "hardware" */
    const aisim_field *fields;
    size_t count;
} aisim_field_table;

/** @return the field called @p name, or NULL. O(count). */
const aisim_field *aisim_field_find(const aisim_field_table *table, const char *name);

/** Stores a number in the field @p name of @p object (U32, U64, F64, BOOL).
 *  @return AISIM_OK, AISIM_ENOENT (unknown key, with a near name), AISIM_EINVAL (the field wants a
 *  word, or a whole number), AISIM_ERANGE (the message names the bounds). */
aisim_status aisim_field_set_number(const aisim_field_table *table, void *object, const char *name,
                                    double value, aisim_error *err);

/** Stores a text in the field @p name of @p object (WORD, TEXT).
 *  @return as aisim_field_set_number; an unknown word lists the legal ones. */
aisim_status aisim_field_set_text(const aisim_field_table *table, void *object, const char *name,
                                  const char *value, aisim_error *err);

/** @return the value of a numeric field as a double (WORD: its index; TEXT: 0). */
double aisim_field_number(const aisim_field *field, const void *object);

/** @return the index of @p word in a NULL-terminated list, or -1. */
int aisim_word_find(const char *const *words, const char *word);

#endif
