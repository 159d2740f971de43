/* results.c - nodes in one array, linked by numbers. */
#include "metrics/results.h"

#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/map.h"

void aisim_results_init(aisim_results *results)
{
    *results = (aisim_results){0};
    aisim_result root = {
        .kind = AISIM_RESULT_OBJECT, .first = AISIM_NONE, .last = AISIM_NONE, .next = AISIM_NONE};
    aisim_array_push(&results->nodes, root);
}

void aisim_results_free(aisim_results *results)
{
    for (uint32_t i = 0; i < results->nodes.len; i++) {
        aisim_result *node = &results->nodes.data[i];
        aisim_free(node->key);
        if (node->kind == AISIM_RESULT_TEXT) {
            aisim_free(node->u.text);
        }
    }
    aisim_array_free(&results->nodes);
}

const aisim_result *aisim_results_at(const aisim_results *results, uint32_t node)
{
    AISIM_CHECK(node < results->nodes.len);
    return &results->nodes.data[node];
}

/* ---- adding ---------------------------------------------------------------------------------- */

static uint32_t add(aisim_results *results, uint32_t parent, const char *key, aisim_result node)
{
    uint32_t index = results->nodes.len;
    AISIM_CHECK(parent < index);
    node.key = key == NULL ? NULL : aisim_strdup(key);
    node.first = node.last = node.next = AISIM_NONE;
    aisim_array_push(&results->nodes, node);
    aisim_result *above = &results->nodes.data[parent];
    AISIM_ASSERT(above->kind == (key == NULL ? AISIM_RESULT_ARRAY : AISIM_RESULT_OBJECT));
    if (above->first == AISIM_NONE) {
        above->first = index;
    } else {
        results->nodes.data[above->last].next = index;
    }
    above->last = index;
    return index;
}

uint32_t aisim_results_object(aisim_results *results, uint32_t parent, const char *key)
{
    return add(results, parent, key, (aisim_result){.kind = AISIM_RESULT_OBJECT});
}

uint32_t aisim_results_group(aisim_results *results, uint32_t parent, const char *key)
{
    return add(results, parent, key,
               (aisim_result){.kind = AISIM_RESULT_OBJECT, .transparent = true});
}

uint32_t aisim_results_array(aisim_results *results, uint32_t parent, const char *key)
{
    return add(results, parent, key, (aisim_result){.kind = AISIM_RESULT_ARRAY});
}

uint32_t aisim_results_null(aisim_results *results, uint32_t parent, const char *key)
{
    return add(results, parent, key, (aisim_result){.kind = AISIM_RESULT_NULL});
}

uint32_t aisim_results_bool(aisim_results *results, uint32_t parent, const char *key, bool value)
{
    return add(results, parent, key, (aisim_result){.kind = AISIM_RESULT_BOOL, .u.flag = value});
}

uint32_t aisim_results_int(aisim_results *results, uint32_t parent, const char *key, int64_t value)
{
    return add(results, parent, key, (aisim_result){.kind = AISIM_RESULT_INT, .u.integer = value});
}

uint32_t aisim_results_uint(aisim_results *results, uint32_t parent, const char *key,
                            uint64_t value)
{
    if (value > INT64_MAX) {
        return aisim_results_number(results, parent, key, (double)value);
    }
    return aisim_results_int(results, parent, key, (int64_t)value);
}

uint32_t aisim_results_number(aisim_results *results, uint32_t parent, const char *key,
                              double value)
{
    if (!isfinite(value)) {
        return aisim_results_null(results, parent, key);
    }
    return add(results, parent, key,
               (aisim_result){.kind = AISIM_RESULT_NUMBER, .u.number = value});
}

uint32_t aisim_results_text(aisim_results *results, uint32_t parent, const char *key,
                            const char *value)
{
    if (value == NULL) {
        return aisim_results_null(results, parent, key);
    }
    return add(results, parent, key,
               (aisim_result){.kind = AISIM_RESULT_TEXT, .u.text = aisim_strdup(value)});
}

/* ---- finding --------------------------------------------------------------------------------- */

uint32_t aisim_results_find(const aisim_results *results, uint32_t parent, const char *key)
{
    uint32_t node = results->nodes.data[parent].first;
    while (node != AISIM_NONE && (results->nodes.data[node].key == NULL ||
                                  strcmp(results->nodes.data[node].key, key) != 0)) {
        node = results->nodes.data[node].next;
    }
    return node;
}

uint32_t aisim_results_path(const aisim_results *results, uint32_t parent, const char *path)
{
    for (uint32_t node = results->nodes.data[parent].first; node != AISIM_NONE;
         node = results->nodes.data[node].next) {
        const char *key = results->nodes.data[node].key;
        size_t length = key == NULL ? 0 : strlen(key);
        if (length == 0 || strncmp(path, key, length) != 0) {
            continue;
        }
        if (path[length] == '\0') {
            return node;
        }
        uint32_t below =
            path[length] == '.' ? aisim_results_path(results, node, path + length + 1) : AISIM_NONE;
        if (below != AISIM_NONE) {
            return below;
        }
    }
    return AISIM_NONE;
}

double aisim_results_value(const aisim_results *results, uint32_t node)
{
    if (node == AISIM_NONE) {
        return (double)NAN;
    }
    const aisim_result *result = &results->nodes.data[node];
    switch (result->kind) {
    case AISIM_RESULT_BOOL:
        return result->u.flag;
    case AISIM_RESULT_INT:
        return (double)result->u.integer;
    case AISIM_RESULT_NUMBER:
        return result->u.number;
    default:
        return (double)NAN;
    }
}

/* ---- walking --------------------------------------------------------------------------------- */

typedef struct {
    const aisim_results *results;
    aisim_results_leaf fn;
    void *context;
    AISIM_ARRAY(char) name; /* terminated */
} flat_walk;

static void flat_children(flat_walk *walk, uint32_t parent)
{
    uint32_t length = walk->name.len; /* with the terminator, 0 = nothing yet */
    for (uint32_t node = walk->results->nodes.data[parent].first; node != AISIM_NONE;
         node = walk->results->nodes.data[node].next) {
        const aisim_result *result = &walk->results->nodes.data[node];
        if (result->kind == AISIM_RESULT_ARRAY) {
            continue;
        }
        if (!result->transparent) {
            if (length > 0) {
                walk->name.data[length - 1] = '.';
            }
            uint32_t size = (uint32_t)strlen(result->key) + 1;
            aisim_array_reserve(&walk->name, length + size);
            memcpy(walk->name.data + length, result->key, size);
            walk->name.len = length + size;
        }
        if (result->kind == AISIM_RESULT_OBJECT) {
            flat_children(walk, node);
        } else {
            walk->fn(walk->context, walk->name.data, result);
        }
        walk->name.len = length;
        if (length > 0) {
            walk->name.data[length - 1] = '\0';
        }
    }
}

void aisim_results_flat(const aisim_results *results, uint32_t node, aisim_results_leaf fn,
                        void *context)
{
    flat_walk walk = {.results = results, .fn = fn, .context = context};
    flat_children(&walk, node);
    aisim_array_free(&walk.name);
}

void aisim_results_json(const aisim_results *results, uint32_t node, aisim_json *json)
{
    const aisim_result *result = aisim_results_at(results, node);
    switch (result->kind) {
    case AISIM_RESULT_NULL:
        aisim_json_null(json);
        break;
    case AISIM_RESULT_BOOL:
        aisim_json_bool(json, result->u.flag);
        break;
    case AISIM_RESULT_INT:
        aisim_json_int(json, result->u.integer);
        break;
    case AISIM_RESULT_NUMBER:
        aisim_json_double(json, result->u.number);
        break;
    case AISIM_RESULT_TEXT:
        aisim_json_text(json, result->u.text);
        break;
    case AISIM_RESULT_OBJECT:
    case AISIM_RESULT_ARRAY: {
        bool object = result->kind == AISIM_RESULT_OBJECT;
        aisim_json_begin(json, object ? '{' : '[');
        for (uint32_t child = result->first; child != AISIM_NONE;
             child = results->nodes.data[child].next) {
            if (object) {
                aisim_json_key(json, results->nodes.data[child].key);
            }
            aisim_results_json(results, child, json);
        }
        aisim_json_end(json, object ? '}' : ']');
        break;
    }
    }
}
