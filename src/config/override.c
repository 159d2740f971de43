/* override.c - the path is checked against the tables before the tree is touched. */
#include "config/override.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "config/schema_check.h"
#include "config/text.h"
#include "config/yaml.h"

enum { SEGMENT = 128 };

/* The next part of a dotted path. @return false when it is empty or too long. */
static bool take_segment(const char **path, char out[SEGMENT], bool *last)
{
    size_t n = strcspn(*path, ".");
    *last = (*path)[n] == '\0';
    if (n == 0 || n >= SEGMENT) {
        return false;
    }
    memcpy(out, *path, n);
    out[n] = '\0';
    *path += n + (*last ? 0 : 1);
    return true;
}

typedef struct key_search {
    const char *key;
    char path[256]; /* "" = not found */
} key_search;

static bool ends_with_key(void *context, const char *path, const aisim_field *field)
{
    key_search *search = context;
    if (strcmp(field->key, search->key) != 0 || field->status == AISIM_STATUS_NOT_MODELLED) {
        return true;
    }
    snprintf(search->path, sizeof search->path, "%s", path);
    return false;
}

/* A bare key that exists somewhere below gets its full path. */
static aisim_status unknown(const char *top, const aisim_object *object, const char *key,
                            aisim_mark mark, aisim_error *err)
{
    key_search search = {.key = key};
    if (object == aisim_schema_object(top)) {
        aisim_schema_walk(top, ends_with_key, &search);
    }
    if (search.path[0] == '\0') {
        return aisim_schema_unknown_key(object, key, mark, "", err);
    }
    return aisim_fail_mark(err, mark, AISIM_ENOENT, "unknown key '%s' (did you mean '%s'?)", key,
                           search.path);
}

static aisim_status check_path(const char *object_name, const char *path, aisim_mark mark,
                               aisim_error *err)
{
    const aisim_object *object = aisim_schema_object(object_name);
    AISIM_CHECK(object != NULL);
    const char *rest = path;
    bool last = false;
    while (!last) {
        char key[SEGMENT];
        if (!take_segment(&rest, key, &last)) {
            return aisim_fail_mark(err, mark, AISIM_EINVAL,
                                   "'%s' is no path of keys (a.b.c=value expected)", path);
        }
        const aisim_field *field = aisim_schema_field(object, key);
        if (field == NULL) {
            return unknown(object_name, object, key, mark, err);
        }
        aisim_place at = {"", path, mark, err};
        if (field->status == AISIM_STATUS_NOT_MODELLED) {
            return aisim_not_modelled(&at, NULL, field->note);
        }
        if (field->kind == AISIM_FIELD_MODEL) {
            return AISIM_OK; /* dimensions are not ours to know */
        }
        if (!last && field->kind != AISIM_FIELD_OBJECT) {
            return aisim_fail_mark(err, mark, AISIM_EINVAL,
                                   "'%s' has no keys below it; set it as a whole", key);
        }
        if (!last) {
            object = aisim_schema_object(field->object);
        }
    }
    return AISIM_OK;
}

static void put_at(aisim_value *tree, const char *path, aisim_mark mark, aisim_value *value)
{
    bool last = false;
    for (;;) {
        char key[SEGMENT];
        if (!take_segment(&path, key, &last)) {
            aisim_value_free(value); /* only below model: refused by whoever reads that map */
            return;
        }
        if (last) {
            aisim_value_put(tree, key, mark, value);
            return;
        }
        aisim_value *child = aisim_value_get(tree, key);
        if (child == NULL || aisim_value_kind_of(child) != AISIM_VALUE_MAP) {
            child = aisim_value_map(mark);
            aisim_value_put(tree, key, mark, child);
        }
        tree = child;
    }
}

aisim_status aisim_config_set_in(aisim_value *tree, const char *object, const char *path,
                                 const char *value, aisim_error *err)
{
    aisim_text flag = {0};
    aisim_text_format(&flag, "--set %s=%s", path, value);
    aisim_mark mark = {aisim_source_new(AISIM_ORIGIN_SET, aisim_text_get(&flag)), 0, 0};
    aisim_text_free(&flag);
    aisim_value *parsed = NULL;
    aisim_status status = check_path(object, path, mark, err);
    if (status == AISIM_OK) {
        status = aisim_yaml_text(value, strlen(value), mark.source, &parsed, err);
    }
    if (status == AISIM_OK) {
        put_at(tree, path, mark, parsed);
    }
    aisim_source_release(mark.source);
    return status;
}

aisim_status aisim_config_set(aisim_value *tree, const char *path, const char *value,
                              aisim_error *err)
{
    return aisim_config_set_in(tree, "prediction", path, value, err);
}

aisim_status aisim_config_set_flag(aisim_value *tree, const char *object, const char *argument,
                                   aisim_error *err)
{
    const char *equals = strchr(argument, '=');
    if (equals == NULL) {
        char name[256];
        snprintf(name, sizeof name, "--set %s", argument);
        return aisim_fail_at(err, AISIM_EINVAL, name, 0, 0, "'=' and a value expected");
    }
    size_t n = (size_t)(equals - argument);
    char *path = aisim_alloc(n + 1, 1);
    memcpy(path, argument, n);
    path[n] = '\0';
    aisim_status status = aisim_config_set_in(tree, object, path, equals + 1, err);
    aisim_free(path);
    return status;
}
