/* yaml.c - one recursive function per construct over libyaml's events.
 *
 * The reader owns one event at a time; every parse_* function starts with the event that opens its
 * construct and ends having consumed the one that closes it. Errors unwind by return value; a value
 * under construction is freed by the function that made it. Anchors are a flat list: name and a
 * borrowed pointer into the tree, NULL while the anchored value is still open. */
#include "config/yaml.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "base/array.h"
#include "base/map.h"
#include "base/rng.h"
#include "config/number.h"
#include "config/yaml_problem.h"

typedef struct anchor {
    char *name;
    const aisim_value *value; /* NULL = still being read */
} anchor;

typedef struct reader {
    yaml_parser_t parser;
    yaml_event_t event; /* valid when has_event */
    bool has_event;
    aisim_source *source;
    bool flag; /* the text of a --set: no lines */
    const char *text;
    size_t length;
    uint32_t depth;
    uint32_t values;
    AISIM_ARRAY(anchor) anchors;
    aisim_error *err;
} reader;

static aisim_mark mark_at(const reader *r, yaml_mark_t at)
{
    aisim_mark mark = {r->source, (int)at.line + 1, (int)at.column + 1};
    if (r->flag) {
        mark.line = mark.column = 0;
    }
    return mark;
}

static aisim_mark here(const reader *r)
{
    return mark_at(r, r->event.start_mark);
}

/* ---- events ---------------------------------------------------------------------------------- */

static aisim_status next(reader *r)
{
    if (r->has_event) {
        yaml_event_delete(&r->event);
        r->has_event = false;
    }
    if (!yaml_parser_parse(&r->parser, &r->event)) {
        return aisim_yaml_problem(&r->parser, r->text, r->length,
                                  (aisim_mark){r->source, r->flag ? 0 : 1, 0}, r->err);
    }
    r->has_event = true;
    return AISIM_OK;
}

static aisim_status count_value(reader *r)
{
    if (++r->values > AISIM_YAML_MAX_VALUES) {
        return aisim_fail_mark(r->err, here(r), AISIM_ELIMIT, "more than %d values",
                               AISIM_YAML_MAX_VALUES);
    }
    return AISIM_OK;
}

static aisim_status refuse_tag(reader *r, const yaml_char_t *tag)
{
    if (tag == NULL || strcmp((const char *)tag, "!") == 0) {
        return AISIM_OK;
    }
    return aisim_fail_mark(r->err, here(r), AISIM_EPARSE,
                           "tag '%s' is not supported; quote a text, leave numbers plain",
                           (const char *)tag);
}

static uint32_t copied_values(const aisim_value *value)
{
    uint32_t n = 1;
    for (uint32_t i = 0; i < aisim_value_len(value); i++) {
        n += copied_values(aisim_value_at(value, i));
    }
    return n;
}

static uint32_t height(const aisim_value *value)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < aisim_value_len(value); i++) {
        uint32_t h = height(aisim_value_at(value, i));
        most = h > most ? h : most;
    }
    return most + 1;
}

/* Registers an anchor that opens now; *opened becomes its index + 1, 0 for no name. */
static aisim_status open_anchor(reader *r, const yaml_char_t *name, uint32_t *opened)
{
    *opened = 0;
    if (name == NULL) {
        return AISIM_OK;
    }
    if (r->anchors.len == AISIM_YAML_MAX_ANCHORS) {
        return aisim_fail_mark(r->err, here(r), AISIM_ELIMIT, "more than %d anchors",
                               AISIM_YAML_MAX_ANCHORS);
    }
    anchor a = {aisim_strdup((const char *)name), NULL};
    aisim_array_push(&r->anchors, a);
    *opened = r->anchors.len;
    return AISIM_OK;
}

static aisim_status parse_alias(reader *r, aisim_value **out)
{
    const char *name = (const char *)r->event.data.alias.anchor;
    const anchor *found = NULL;
    for (uint32_t i = 0; i < r->anchors.len; i++) { /* the latest of that name counts */
        found = strcmp(r->anchors.data[i].name, name) == 0 ? &r->anchors.data[i] : found;
    }
    if (found == NULL) {
        return aisim_fail_mark(r->err, here(r), AISIM_EPARSE, "unknown anchor '*%s'", name);
    }
    if (found->value == NULL) {
        return aisim_fail_mark(r->err, here(r), AISIM_EPARSE, "'*%s' is used inside its own anchor",
                               name);
    }
    if (r->depth + height(found->value) > AISIM_VALUE_MAX_DEPTH) {
        return aisim_fail_mark(r->err, here(r), AISIM_ELIMIT, "nested deeper than %d levels",
                               AISIM_VALUE_MAX_DEPTH);
    }
    r->values += copied_values(found->value);
    aisim_status status = count_value(r);
    if (status == AISIM_OK) {
        *out = aisim_value_copy(found->value);
    }
    return status;
}

/* ---- scalars --------------------------------------------------------------------------------- */

static bool any_of(const char *text, const char *const *words)
{
    for (; *words != NULL; words++) {
        if (strcmp(text, *words) == 0) {
            return true;
        }
    }
    return false;
}

aisim_value *aisim_yaml_scalar(aisim_mark mark, const char *text)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const trues[] = {"true", "True", "TRUE", NULL};
    static const char *const falses[] = {"false", "False", "FALSE", NULL};
    if (any_of(text, nulls)) {
        return aisim_value_null(mark);
    }
    if (any_of(text, trues) || any_of(text, falses)) {
        return aisim_value_bool(mark, text[0] == 't' || text[0] == 'T');
    }
    aisim_number number = aisim_number_scan(text);
    switch (number.kind) {
    case AISIM_NUMBER_INTEGER:
        return aisim_value_integer(mark, number.integer);
    case AISIM_NUMBER_UNSIGNED:
        return aisim_value_unsigned(mark, (uint64_t)number.integer);
    case AISIM_NUMBER_REAL:
        return aisim_value_real(mark, number.real);
    default:
        return aisim_value_text(mark, text);
    }
}

static aisim_status scalar_text(reader *r, const char **out)
{
    const char *text = (const char *)r->event.data.scalar.value;
    if (strlen(text) != r->event.data.scalar.length) {
        return aisim_fail_mark(r->err, here(r), AISIM_EPARSE, "text with a zero byte");
    }
    *out = text;
    return AISIM_OK;
}

static aisim_status parse_scalar(reader *r, aisim_value **out)
{
    const char *text = NULL;
    aisim_status status = scalar_text(r, &text);
    if (status != AISIM_OK) {
        return status;
    }
    bool plain = r->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    *out = plain ? aisim_yaml_scalar(here(r), text) : aisim_value_text(here(r), text);
    return AISIM_OK;
}

/* ---- lists and maps -------------------------------------------------------------------------- */

static aisim_status parse_value(reader *r, aisim_value **out);

static aisim_status parse_list(reader *r, aisim_value *list)
{
    for (;;) {
        aisim_status status = next(r);
        if (status != AISIM_OK || r->event.type == YAML_SEQUENCE_END_EVENT) {
            return status;
        }
        aisim_value *child = NULL;
        status = parse_value(r, &child);
        if (status != AISIM_OK) {
            return status;
        }
        aisim_value_push(list, child);
    }
}

/* Reads the key in r->event into *key (to be freed), refusing what is no plain key. */
static aisim_status parse_key(reader *r, const aisim_value *map, aisim_map *seen, char **key)
{
    if (r->event.type != YAML_SCALAR_EVENT) {
        return aisim_fail_mark(r->err, here(r), AISIM_EPARSE, "a key must be a plain name");
    }
    const char *text = NULL;
    aisim_status status = scalar_text(r, &text);
    if (status == AISIM_OK) {
        status = refuse_tag(r, r->event.data.scalar.tag);
    }
    if (status == AISIM_OK && r->event.data.scalar.anchor != NULL) {
        status = aisim_fail_mark(r->err, here(r), AISIM_EPARSE,
                                 "an anchor on a key is not supported; put it on the value");
    }
    if (status != AISIM_OK) {
        return status;
    }
    if (strcmp(text, "<<") == 0) {
        return aisim_fail_mark(r->err, here(r), AISIM_EPARSE,
                               "merge keys (<<) are not supported; write the keys out, or use an "
                               "alias for the whole map");
    }
    if (text[0] == '\0') {
        return aisim_fail_mark(r->err, here(r), AISIM_EPARSE, "a key is missing before ':'");
    }
    if (strlen(text) > AISIM_YAML_MAX_KEY) {
        return aisim_fail_mark(r->err, here(r), AISIM_ELIMIT, "a key of more than %d bytes",
                               AISIM_YAML_MAX_KEY);
    }
    /* a hash that was seen is only a hint: the map itself decides */
    uint64_t hash = aisim_hash_text(text);
    if (aisim_map_get(seen, hash, strlen(text)) != AISIM_NONE) {
        for (uint32_t i = 0; i < aisim_value_len(map); i++) {
            if (strcmp(aisim_value_key(map, i), text) == 0) {
                int line = aisim_value_key_mark(map, i).line;
                return line == 0
                           ? aisim_fail_mark(r->err, here(r), AISIM_EPARSE, "duplicate key '%s'",
                                             text)
                           : aisim_fail_mark(r->err, here(r), AISIM_EPARSE,
                                             "duplicate key '%s' (first in line %d)", text, line);
            }
        }
    }
    aisim_map_set(seen, hash, strlen(text), 0);
    *key = aisim_strdup(text);
    return AISIM_OK;
}

static aisim_status parse_entries(reader *r, aisim_value *map, aisim_map *seen)
{
    for (;;) {
        aisim_status status = next(r);
        if (status != AISIM_OK || r->event.type == YAML_MAPPING_END_EVENT) {
            return status;
        }
        if (aisim_value_len(map) == AISIM_YAML_MAX_KEYS) {
            return aisim_fail_mark(r->err, here(r), AISIM_ELIMIT, "more than %d keys in one map",
                                   AISIM_YAML_MAX_KEYS);
        }
        char *key = NULL;
        aisim_value *child = NULL;
        aisim_mark mark = here(r);
        status = parse_key(r, map, seen, &key);
        if (status == AISIM_OK) {
            status = next(r);
        }
        if (status == AISIM_OK) {
            status = parse_value(r, &child);
        }
        if (status == AISIM_OK) {
            aisim_value_put(map, key, mark, child);
        }
        aisim_free(key);
        if (status != AISIM_OK) {
            return status;
        }
    }
}

static aisim_status parse_map(reader *r, aisim_value *map)
{
    aisim_map seen = {0};
    aisim_status status = parse_entries(r, map, &seen);
    aisim_map_free(&seen);
    return status;
}

static aisim_status parse_collection(reader *r, bool is_map, aisim_value **out)
{
    if (++r->depth > AISIM_VALUE_MAX_DEPTH - 1) {
        return aisim_fail_mark(r->err, here(r), AISIM_ELIMIT, "nested deeper than %d levels",
                               AISIM_VALUE_MAX_DEPTH);
    }
    aisim_value *value = is_map ? aisim_value_map(here(r)) : aisim_value_list(here(r));
    aisim_status status = is_map ? parse_map(r, value) : parse_list(r, value);
    r->depth--;
    if (status != AISIM_OK) {
        aisim_value_free(value);
        return status;
    }
    *out = value;
    return AISIM_OK;
}

/* The value that starts with r->event. */
static aisim_status parse_value(reader *r, aisim_value **out)
{
    const yaml_char_t *tag = NULL, *name = NULL;
    switch (r->event.type) {
    case YAML_ALIAS_EVENT:
        return parse_alias(r, out);
    case YAML_SCALAR_EVENT:
        tag = r->event.data.scalar.tag;
        name = r->event.data.scalar.anchor;
        break;
    case YAML_SEQUENCE_START_EVENT:
        tag = r->event.data.sequence_start.tag;
        name = r->event.data.sequence_start.anchor;
        break;
    case YAML_MAPPING_START_EVENT:
        tag = r->event.data.mapping_start.tag;
        name = r->event.data.mapping_start.anchor;
        break;
    default:
        return aisim_fail_mark(r->err, here(r), AISIM_EPARSE, "malformed YAML");
    }
    aisim_status status = refuse_tag(r, tag);
    if (status == AISIM_OK) {
        status = count_value(r);
    }
    uint32_t opened = 0;
    if (status == AISIM_OK) {
        status = open_anchor(r, name, &opened);
    }
    if (status != AISIM_OK) {
        return status;
    }
    if (r->event.type == YAML_SCALAR_EVENT) {
        status = parse_scalar(r, out);
    } else {
        status = parse_collection(r, r->event.type == YAML_MAPPING_START_EVENT, out);
    }
    if (status == AISIM_OK && opened != 0) {
        r->anchors.data[opened - 1].value = *out;
    }
    return status;
}

/* ---- documents ------------------------------------------------------------------------------- */

static aisim_status parse_stream(reader *r, aisim_value **out)
{
    aisim_status status = next(r); /* stream start */
    if (status == AISIM_OK) {
        status = next(r);
    }
    if (status != AISIM_OK) {
        return status;
    }
    if (r->event.type == YAML_STREAM_END_EVENT) {
        *out = aisim_value_null(here(r));
        return AISIM_OK;
    }
    status = next(r); /* past document start */
    if (status == AISIM_OK) {
        status = parse_value(r, out);
    }
    if (status == AISIM_OK) {
        status = next(r); /* document end */
    }
    if (status == AISIM_OK) {
        status = next(r);
    }
    if (status == AISIM_OK && r->event.type != YAML_STREAM_END_EVENT) {
        status = aisim_fail_mark(r->err, here(r), AISIM_EPARSE,
                                 "a second document starts here; one per file expected");
    }
    return status;
}

aisim_status aisim_yaml_text(const char *text, size_t length, aisim_source *source,
                             aisim_value **out, aisim_error *err)
{
    aisim_value *probe = aisim_value_null((aisim_mark){source, 0, 0});
    reader r = {.source = source,
                .flag = aisim_value_origin(probe) == AISIM_ORIGIN_SET,
                .text = text,
                .length = length,
                .err = err};
    aisim_value_free(probe);
    if (length > AISIM_YAML_MAX_BYTES) {
        return aisim_fail_mark(err, (aisim_mark){source, 0, 0}, AISIM_ELIMIT, "larger than %d MiB",
                               AISIM_YAML_MAX_BYTES >> 20);
    }
    if (!yaml_parser_initialize(&r.parser)) {
        return aisim_fail(err, AISIM_ENOMEM, "out of memory");
    }
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, length);
    aisim_value *tree = NULL;
    aisim_status status = parse_stream(&r, &tree);
    if (r.has_event) {
        yaml_event_delete(&r.event);
    }
    yaml_parser_delete(&r.parser);
    for (uint32_t i = 0; i < r.anchors.len; i++) {
        aisim_free(r.anchors.data[i].name);
    }
    aisim_array_free(&r.anchors);
    if (status != AISIM_OK) {
        aisim_value_free(tree);
        return status;
    }
    *out = tree;
    return AISIM_OK;
}

static aisim_status read_all(FILE *file, const char *path, char **out, size_t *length,
                             aisim_error *err)
{
    AISIM_ARRAY(char) bytes = {0};
    size_t got = 1;
    while (got > 0 && bytes.len <= AISIM_YAML_MAX_BYTES) {
        aisim_array_reserve(&bytes, bytes.len + 65536);
        got = fread(bytes.data + bytes.len, 1, 65536, file);
        bytes.len += (uint32_t)got;
    }
    if (ferror(file)) {
        aisim_array_free(&bytes);
        return aisim_fail_at(err, AISIM_EIO, path, 0, 0, "cannot be read: %s", strerror(errno));
    }
    *out = bytes.data;
    *length = bytes.len;
    return AISIM_OK;
}

aisim_status aisim_yaml_file(const char *path, aisim_value **out, aisim_error *err)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return aisim_fail_at(err, AISIM_EIO, path, 0, 0, "cannot be opened: %s", strerror(errno));
    }
    char *text = NULL;
    size_t length = 0;
    aisim_status status = read_all(file, path, &text, &length, err);
    fclose(file);
    if (status == AISIM_OK) {
        aisim_source *source = aisim_source_new(AISIM_ORIGIN_FILE, path);
        status = aisim_yaml_text(text, length, source, out, err);
        aisim_source_release(source);
    }
    aisim_free(text);
    return status;
}
