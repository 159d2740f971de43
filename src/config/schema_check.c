/* schema_check.c - validation and normalisation of maps and lists against the tables.
 *
 * Of a map, first every key that was written is looked up (an unknown key explains all that would
 * follow), then the fields are checked in table order, so that `type` is known good before the keys
 * that depend on it. The first mistake is the only one reported. */
#include "config/schema_check.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "config/near.h"
#include "config/number.h"

/* ---- lists and maps -------------------------------------------------------------------------- */

static aisim_status check_object(aisim_value *value, const aisim_object *object, const char *prefix,
                                 const char *path, aisim_error *err);

static aisim_status check_list(aisim_value *value, const aisim_field *field, const aisim_place *at)
{
    if (field->kind == AISIM_FIELD_TEXTS && aisim_value_kind_of(value) == AISIM_VALUE_TEXT) {
        aisim_value_wrap(value);
    }
    if (aisim_value_kind_of(value) != AISIM_VALUE_LIST) {
        return aisim_wrong_type(at, field, value);
    }
    uint32_t n = aisim_value_len(value);
    if (n == 0) {
        return aisim_fail_mark(at->err, at->mark, AISIM_EINVAL, "%s%s: must not be empty",
                               at->prefix, at->path);
    }
    if (field->kind == AISIM_FIELD_OBJECTS && n > field->max) {
        char note[64], shown[32];
        snprintf(shown, sizeof shown, "%u entries", n);
        snprintf(note, sizeof note, "modelled: %.0f", field->max);
        return aisim_not_modelled(at, shown, note);
    }
    aisim_status status = AISIM_OK;
    for (uint32_t i = 0; i < n && status == AISIM_OK; i++) {
        aisim_value *child = aisim_value_at(value, i);
        aisim_text path = {0};
        aisim_text_format(&path, "%s[%u]", at->path, i + 1);
        aisim_place inner = aisim_place_of(at->prefix, aisim_text_get(&path), child, at->err);
        aisim_field element = *field;
        element.choices = NULL;
        if (field->kind == AISIM_FIELD_REALS) {
            element.kind = AISIM_FIELD_REAL;
            status = aisim_check_real(child, &element, &inner);
        } else if (field->kind == AISIM_FIELD_TEXTS) {
            element.kind = AISIM_FIELD_TEXT;
            status = aisim_check_text(child, &element, &inner);
        } else {
            status = check_object(child, aisim_schema_object(field->object), at->prefix,
                                  aisim_text_get(&path), at->err);
        }
        aisim_text_free(&path);
    }
    return status;
}

bool aisim_schema_is_foreign(const aisim_value *value, const aisim_field *field)
{
    if ((field->flags & AISIM_FIELD_FOREIGN) == 0) {
        return false;
    }
    for (uint32_t i = 0; i < aisim_value_len(value); i++) {
        if (aisim_value_kind_of(aisim_value_at(value, i)) == AISIM_VALUE_FOREIGN) {
            return true;
        }
    }
    return aisim_value_kind_of(value) == AISIM_VALUE_FOREIGN;
}

static aisim_status check_model(aisim_value *value, const aisim_field *field, const aisim_place *at)
{
    return aisim_value_kind_of(value) == AISIM_VALUE_MAP ? AISIM_OK
                                                         : aisim_check_text(value, field, at);
}

static aisim_status check_kind(aisim_value *value, const aisim_field *field, const aisim_place *at)
{
    switch (field->kind) {
    case AISIM_FIELD_BOOL:
        return aisim_value_kind_of(value) == AISIM_VALUE_BOOL ? AISIM_OK
                                                              : aisim_wrong_type(at, field, value);
    case AISIM_FIELD_INTEGER:
    case AISIM_FIELD_COUNT:
    case AISIM_FIELD_BYTES:
        return aisim_check_integer(value, field, at);
    case AISIM_FIELD_SEED:
        return aisim_check_seed(value, field, at);
    case AISIM_FIELD_REAL:
    case AISIM_FIELD_MS:
    case AISIM_FIELD_SECONDS:
        return aisim_check_real(value, field, at);
    case AISIM_FIELD_TEXT:
        return aisim_check_text(value, field, at);
    case AISIM_FIELD_CHOICE:
        return aisim_check_choice(value, field, at);
    case AISIM_FIELD_REALS:
    case AISIM_FIELD_TEXTS:
    case AISIM_FIELD_OBJECTS:
        return check_list(value, field, at);
    case AISIM_FIELD_OBJECT:
        return check_object(value, aisim_schema_object(field->object), at->prefix, at->path,
                            at->err);
    case AISIM_FIELD_MODEL:
        return check_model(value, field, at);
    }
    AISIM_UNREACHABLE();
}

/* The default is a quoted text or an integer. */
static bool is_default(const aisim_value *value, const aisim_field *field)
{
    if (field->kind == AISIM_FIELD_TEXT) {
        const char *text = aisim_value_as_text(value);
        size_t n = strlen(text);
        return strlen(field->fallback) == n + 2 && strncmp(field->fallback + 1, text, n) == 0;
    }
    aisim_number only = aisim_number_scan(field->fallback);
    AISIM_CHECK(only.kind == AISIM_NUMBER_INTEGER);
    return aisim_value_as_real(value) == (double)only.integer;
}

/* DEFAULT_ONLY: keys whose other values the engine does not know. */
static aisim_status check_default_only(const aisim_value *value, const aisim_field *field,
                                       const aisim_place *at)
{
    if (is_default(value, field)) {
        return AISIM_OK;
    }
    char shown[96];
    return aisim_not_modelled(at, aisim_value_show(value, shown, sizeof shown), field->note);
}

/* A map with one law (object "distribution") in the place of a number. */
static aisim_status check_drawn(aisim_value *value, const aisim_place *at)
{
    const aisim_object *laws = aisim_schema_object("distribution");
    aisim_status status = check_object(value, laws, at->prefix, at->path, at->err);
    if (status == AISIM_OK && aisim_value_len(value) != 1) {
        return aisim_fail_mark(at->err, at->mark, AISIM_EINVAL,
                               "%s%s: one distribution expected, such as {lognormal: {p50: 800, "
                               "p99: 8000}}",
                               at->prefix, at->path);
    }
    return status;
}

aisim_status aisim_schema_check_field(aisim_value *value, const aisim_field *field, aisim_mark key,
                                      const char *prefix, const char *path, aisim_error *err)
{
    aisim_place at = aisim_place_of(prefix, path, value, err);
    if (field->status == AISIM_STATUS_NOT_MODELLED) {
        at.mark = key;
        return aisim_not_modelled(&at, NULL, field->note);
    }
    if (aisim_schema_is_foreign(value, field)) {
        return AISIM_OK;
    }
    if ((field->flags & AISIM_FIELD_DRAWN) && aisim_value_kind_of(value) == AISIM_VALUE_MAP) {
        return check_drawn(value, &at);
    }
    bool number = field->kind != AISIM_FIELD_CHOICE && field->choices != NULL;
    if (number && aisim_is_word(value, field)) {
        return AISIM_OK;
    }
    aisim_status status = check_kind(value, field, &at);
    if (status == AISIM_OK && field->status == AISIM_STATUS_DEFAULT_ONLY) {
        status = check_default_only(value, field, &at);
    }
    return status;
}

/* ---- one map --------------------------------------------------------------------------------- */

aisim_status aisim_schema_unknown_key(const aisim_object *object, const char *key, aisim_mark mark,
                                      const char *prefix, aisim_error *err)
{
    enum { LISTED = 14 };
    aisim_near search = {.name = key};
    aisim_text list = {0};
    const aisim_field *field;
    uint32_t listed = 0;
    for (uint32_t i = 0; (field = aisim_schema_field_at(object, i)) != NULL; i++) {
        aisim_near_offer(&search, field->key);
        if (field->status != AISIM_STATUS_NOT_MODELLED && ++listed <= LISTED) {
            aisim_text_format(&list, "%s%s", listed == 1 ? "" : ", ", field->key);
        }
    }
    if (listed > LISTED) {
        aisim_text_add(&list, ", ...");
    }
    aisim_status status =
        search.best != NULL
            ? aisim_fail_mark(err, mark, AISIM_ENOENT, "%sunknown key '%s' (did you mean '%s'?)",
                              prefix, key, search.best)
            : aisim_fail_mark(err, mark, AISIM_ENOENT, "%sunknown key '%s' (keys here: %s)", prefix,
                              key, aisim_text_get(&list));
    aisim_text_free(&list);
    return status;
}

/* A field that was written, in its map. */
static aisim_status check_entry(aisim_value *map, const aisim_object *object,
                                const aisim_field *field, uint32_t i, const char *prefix,
                                const char *path, aisim_error *err)
{
    aisim_mark key = aisim_value_key_mark(map, i);
    aisim_when when;
    if (field->status != AISIM_STATUS_NOT_MODELLED &&
        !aisim_field_applies(field, object, map, &when)) {
        aisim_text list = {0};
        aisim_choice_list(when.choices, &list);
        aisim_status status = aisim_fail_mark(
            err, key, AISIM_EINVAL, "%s%s: has no effect with %s = '%s' (it belongs to %s)", prefix,
            path, when.key, when.value, aisim_text_get(&list));
        aisim_text_free(&list);
        return status;
    }
    return aisim_schema_check_field(aisim_value_at(map, i), field, key, prefix, path, err);
}

static aisim_status missing_key(const aisim_value *map, const aisim_field *field,
                                const char *prefix, const char *path, aisim_error *err)
{
    return aisim_fail_mark(err, aisim_value_mark(map), AISIM_EINVAL, "%smissing key '%s' (%s)",
                           prefix, path, field->meaning);
}

static bool find_key(const aisim_value *map, const char *key, uint32_t *out)
{
    for (*out = 0; *out < aisim_value_len(map); (*out)++) {
        if (strcmp(aisim_value_key(map, *out), key) == 0) {
            return true;
        }
    }
    return false;
}

static aisim_status check_fields(aisim_value *map, const aisim_object *object, const char *prefix,
                                 const char *path, aisim_error *err)
{
    const aisim_field *field;
    aisim_status status = AISIM_OK;
    for (uint32_t f = 0; (field = aisim_schema_field_at(object, f)) != NULL; f++) {
        uint32_t i;
        bool given = find_key(map, field->key, &i) && !aisim_value_is_null(aisim_value_at(map, i));
        if (!given && (field->flags & AISIM_FIELD_REQUIRED) == 0) {
            continue;
        }
        aisim_when when;
        aisim_text full = {0};
        aisim_text_format(&full, "%s%s%s", path, path[0] == '\0' ? "" : ".", field->key);
        if (given) {
            status = check_entry(map, object, field, i, prefix, aisim_text_get(&full), err);
        } else if (aisim_field_applies(field, object, map, &when)) {
            status = missing_key(map, field, prefix, aisim_text_get(&full), err);
        }
        aisim_text_free(&full);
        if (status != AISIM_OK) {
            break;
        }
    }
    return status;
}

static aisim_status check_object(aisim_value *value, const aisim_object *object, const char *prefix,
                                 const char *path, aisim_error *err)
{
    AISIM_CHECK(object != NULL);
    if (aisim_value_kind_of(value) != AISIM_VALUE_MAP) {
        aisim_field as_map = {.kind = AISIM_FIELD_OBJECT};
        aisim_place at = aisim_place_of(prefix, path[0] == '\0' ? object->name : path, value, err);
        return aisim_wrong_type(&at, &as_map, value);
    }
    for (uint32_t i = 0; i < aisim_value_len(value); i++) {
        const char *key = aisim_value_key(value, i);
        if (aisim_schema_field(object, key) == NULL) {
            return aisim_schema_unknown_key(object, key, aisim_value_key_mark(value, i), prefix,
                                            err);
        }
    }
    return check_fields(value, object, prefix, path, err);
}

aisim_status aisim_schema_check(aisim_value *value, const char *object, const char *prefix,
                                const char *path, aisim_error *err)
{
    return check_object(value, aisim_schema_object(object), prefix, path, err);
}
