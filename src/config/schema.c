/* schema.c - looking things up in the tables, and the resolved tree.
 *
 * A `when` is decided by the effective value of its sibling: what was written, else the default. */
#include "config/schema.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "config/number.h"
#include "config/schema_check.h"
#include "config/schema_rows.h"
#include "config/yaml.h"

/* ---- look-up --------------------------------------------------------------------------------- */

uint32_t aisim_schema_objects(void)
{
    return aisim_engine_objects_n + aisim_timing_objects_n + aisim_cache_objects_n +
           aisim_traffic_objects_n + aisim_load_objects_n + aisim_distribution_objects_n +
           aisim_router_objects_n;
}

const aisim_object *aisim_schema_object_at(uint32_t i)
{
    const struct {
        const aisim_object *objects;
        uint32_t n;
    } tables[] = {{aisim_engine_objects, aisim_engine_objects_n},
                  {aisim_timing_objects, aisim_timing_objects_n},
                  {aisim_cache_objects, aisim_cache_objects_n},
                  {aisim_traffic_objects, aisim_traffic_objects_n},
                  {aisim_load_objects, aisim_load_objects_n},
                  {aisim_distribution_objects, aisim_distribution_objects_n},
                  {aisim_router_objects, aisim_router_objects_n}};
    for (uint32_t t = 0; t < sizeof tables / sizeof *tables; t++) {
        if (i < tables[t].n) {
            return &tables[t].objects[i];
        }
        i -= tables[t].n;
    }
    return NULL;
}

const aisim_object *aisim_schema_object(const char *name)
{
    for (uint32_t i = 0; i < aisim_schema_objects(); i++) {
        if (strcmp(aisim_schema_object_at(i)->name, name) == 0) {
            return aisim_schema_object_at(i);
        }
    }
    return NULL;
}

const aisim_field *aisim_schema_field_at(const aisim_object *object, uint32_t i)
{
    for (uint32_t g = 0; g < sizeof object->groups / sizeof *object->groups; g++) {
        if (i < object->groups[g].n) {
            return &object->groups[g].rows[i];
        }
        i -= object->groups[g].n;
    }
    return NULL;
}

const aisim_field *aisim_schema_field(const aisim_object *object, const char *key)
{
    const aisim_field *field;
    for (uint32_t i = 0; (field = aisim_schema_field_at(object, i)) != NULL; i++) {
        if (strcmp(field->key, key) == 0) {
            return field;
        }
    }
    return NULL;
}

static bool walk(const aisim_object *object, const char *path, aisim_schema_visit fn, void *context)
{
    const aisim_field *field;
    bool go_on = true;
    for (uint32_t i = 0; go_on && (field = aisim_schema_field_at(object, i)) != NULL; i++) {
        aisim_text full = {0};
        aisim_text_format(&full, "%s%s%s", path, path[0] == '\0' ? "" : ".", field->key);
        go_on = fn(context, aisim_text_get(&full), field);
        if (go_on && field->kind == AISIM_FIELD_OBJECT && field->object != NULL) {
            go_on = walk(aisim_schema_object(field->object), aisim_text_get(&full), fn, context);
        }
        aisim_text_free(&full);
    }
    return go_on;
}

void aisim_schema_walk(const char *object, aisim_schema_visit fn, void *context)
{
    const aisim_object *found = aisim_schema_object(object);
    if (found != NULL) {
        walk(found, "", fn, context);
    }
}

/* ---- words ----------------------------------------------------------------------------------- */

bool aisim_choice_next(const char **choices, aisim_choice *out)
{
    const char *at = *choices;
    if (at == NULL || *at == '\0') {
        return false;
    }
    out->modelled = *at != '~';
    at += out->modelled ? 0 : 1;
    size_t n = strcspn(at, "|");
    AISIM_CHECK(n < sizeof out->word);
    memcpy(out->word, at, n);
    out->word[n] = '\0';
    *choices = at + n + (at[n] == '|' ? 1 : 0);
    return true;
}

bool aisim_choice_find(const char *choices, const char *word, aisim_choice *out)
{
    while (aisim_choice_next(&choices, out)) {
        if (strcmp(out->word, word) == 0) {
            return true;
        }
    }
    return false;
}

void aisim_choice_list(const char *choices, aisim_text *out)
{
    aisim_choice choice;
    const char *comma = "";
    while (aisim_choice_next(&choices, &choice)) {
        if (choice.modelled) {
            aisim_text_format(out, "%s%s", comma, choice.word);
            comma = ", ";
        }
    }
}

/* ---- when ------------------------------------------------------------------------------------ */

bool aisim_field_applies(const aisim_field *field, const aisim_object *object,
                         const aisim_value *map, aisim_when *out)
{
    if (field->when == NULL) {
        return true;
    }
    size_t n = strcspn(field->when, "=");
    AISIM_CHECK(n < sizeof out->key);
    memcpy(out->key, field->when, n);
    out->key[n] = '\0';
    out->choices = field->when + n + 1;
    const aisim_value *given = aisim_value_get(map, out->key);
    if (!aisim_value_is_null(given) && aisim_value_kind_of(given) == AISIM_VALUE_TEXT) {
        snprintf(out->value, sizeof out->value, "%s", aisim_value_as_text(given));
    } else {
        const aisim_field *sibling = aisim_schema_field(object, out->key);
        AISIM_CHECK(sibling != NULL && sibling->fallback != NULL);
        snprintf(out->value, sizeof out->value, "%s", sibling->fallback);
    }
    aisim_choice choice;
    return aisim_choice_find(out->choices, out->value, &choice);
}

/* ---- resolved tree --------------------------------------------------------------------------- */

static aisim_value *resolve_object(const aisim_value *given, const aisim_object *object);

/* The default of a field as a value; null when it has none. */
static aisim_value *fallback_of(const aisim_field *field)
{
    aisim_value *value = NULL;
    if (field->kind == AISIM_FIELD_OBJECT && (field->flags & AISIM_FIELD_FEATURE) == 0) {
        return resolve_object(NULL, aisim_schema_object(field->object));
    }
    if (field->fallback == NULL) {
        return aisim_value_null((aisim_mark){0});
    }
    if (field->kind == AISIM_FIELD_CHOICE) { /* "false" is a word there */
        return aisim_value_text((aisim_mark){0}, field->fallback);
    }
    aisim_error err = {0};
    aisim_status status =
        aisim_yaml_text(field->fallback, strlen(field->fallback), NULL, &value, &err);
    AISIM_CHECK(status == AISIM_OK);
    aisim_mark nowhere = {0};
    status = aisim_schema_check_field(value, field, nowhere, "", field->key, &err);
    AISIM_CHECK(status == AISIM_OK);
    return value;
}

static aisim_value *resolve_list(const aisim_value *given, const aisim_object *object)
{
    aisim_value *list = aisim_value_list(aisim_value_mark(given));
    for (uint32_t i = 0; i < aisim_value_len(given); i++) {
        aisim_value_push(list, resolve_object(aisim_value_at(given, i), object));
    }
    return list;
}

static aisim_value *resolve_field(const aisim_value *given, const aisim_field *field)
{
    if (aisim_value_is_null(given)) {
        return fallback_of(field);
    }
    bool is_map = aisim_value_kind_of(given) == AISIM_VALUE_MAP;
    if (field->kind == AISIM_FIELD_OBJECT && is_map && !aisim_schema_is_foreign(given, field)) {
        return resolve_object(given, aisim_schema_object(field->object));
    }
    if (field->kind == AISIM_FIELD_OBJECTS) {
        return resolve_list(given, aisim_schema_object(field->object));
    }
    return aisim_value_copy(given);
}

static aisim_mark key_mark_of(const aisim_value *map, const char *key)
{
    for (uint32_t i = 0; map != NULL && i < aisim_value_len(map); i++) {
        if (strcmp(aisim_value_key(map, i), key) == 0) {
            return aisim_value_key_mark(map, i);
        }
    }
    return (aisim_mark){0};
}

static aisim_value *resolve_object(const aisim_value *given, const aisim_object *object)
{
    if (aisim_value_is_null(given)) {
        given = NULL;
    }
    aisim_mark mark = {0};
    if (given != NULL) {
        mark = aisim_value_mark(given);
    }
    aisim_value *out = aisim_value_map(mark);
    const aisim_field *field;
    for (uint32_t i = 0; (field = aisim_schema_field_at(object, i)) != NULL; i++) {
        aisim_when when;
        if (field->status == AISIM_STATUS_NOT_MODELLED ||
            !aisim_field_applies(field, object, given, &when)) {
            continue;
        }
        aisim_value *value = resolve_field(aisim_value_get(given, field->key), field);
        aisim_value_put(out, field->key, key_mark_of(given, field->key), value);
    }
    return out;
}

aisim_value *aisim_schema_resolve(const aisim_value *value, const char *object)
{
    const aisim_object *found = aisim_schema_object(object);
    AISIM_CHECK(found != NULL);
    return resolve_object(value, found);
}
