/* schema_check.h - what the schema_*.c files share; private to the schema. */
#ifndef AISIM_CONFIG_SCHEMA_CHECK_H
#define AISIM_CONFIG_SCHEMA_CHECK_H

#include "config/schema.h"

/** One word of aisim_field.choices. */
typedef struct aisim_choice {
    char word[48];
    bool modelled;
} aisim_choice;

/** Takes the next word off *choices ("a|~b"). @return false at the end. */
bool aisim_choice_next(const char **choices, aisim_choice *out);
/** Looks a word up. @return false when it is not among them. */
bool aisim_choice_find(const char *choices, const char *word, aisim_choice *out);
/** Appends the modelled words, "a, b". */
void aisim_choice_list(const char *choices, aisim_text *out);

/** A `when` taken apart. */
typedef struct aisim_when {
    char key[48];        /**< the sibling */
    char value[48];      /**< its effective value in the map */
    const char *choices; /**< the values that would do */
} aisim_when;

/** Whether a field has an effect in this map (NULL = nothing given). Fills out unless the field
 *  has no condition. */
bool aisim_field_applies(const aisim_field *field, const aisim_object *object,
                         const aisim_value *map, aisim_when *out);

/** What one message needs: where, and what the tree is called. */
typedef struct aisim_place {
    const char *prefix;
    const char *path;
    aisim_mark mark;
    aisim_error *err;
} aisim_place;

/* schema_scalar.c: each checks one value that is not null and normalises it. */
aisim_place aisim_place_of(const char *prefix, const char *path, const aisim_value *value,
                           aisim_error *err);
aisim_status aisim_wrong_type(const aisim_place *at, const aisim_field *field,
                              const aisim_value *value);
aisim_status aisim_not_modelled(const aisim_place *at, const char *shown, const char *note);
/** Whether the value is one of the words that may stand for a number. */
bool aisim_is_word(const aisim_value *value, const aisim_field *field);
aisim_status aisim_check_integer(aisim_value *value, const aisim_field *field,
                                 const aisim_place *at);
aisim_status aisim_check_seed(aisim_value *value, const aisim_field *field, const aisim_place *at);
aisim_status aisim_check_real(aisim_value *value, const aisim_field *field, const aisim_place *at);
aisim_status aisim_check_choice(aisim_value *value, const aisim_field *field,
                                const aisim_place *at);
aisim_status aisim_check_text(aisim_value *value, const aisim_field *field, const aisim_place *at);

/** Whether a value of a FOREIGN field is left to its owner: a foreign value, or a map that holds
 *  one. */
bool aisim_schema_is_foreign(const aisim_value *value, const aisim_field *field);

/** Checks and normalises one value that is not null. */
aisim_status aisim_schema_check_field(aisim_value *value, const aisim_field *field, aisim_mark key,
                                      const char *prefix, const char *path, aisim_error *err);

/** Fails with "unknown key …" and the nearest name of the object. */
aisim_status aisim_schema_unknown_key(const aisim_object *object, const char *key, aisim_mark mark,
                                      const char *prefix, aisim_error *err);

/** Fails with "unknown key …" and the nearest name of the object. */
aisim_status aisim_schema_unknown_key(const aisim_object *object, const char *key, aisim_mark mark,
                                      const char *prefix, aisim_error *err);

#endif
