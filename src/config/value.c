/* value.c - a tagged union; maps are arrays of entries searched from the front, because a
 * configuration map has ten keys, not thousands (the YAML reader bounds them). */
#include "config/value.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/check.h"
#include "config/number.h"

struct aisim_source {
    uint32_t refs;
    aisim_origin origin;
    char *name;
};

typedef struct entry {
    char *key; /* NULL in a list */
    aisim_mark mark;
    aisim_value *value;
} entry;

struct aisim_value {
    aisim_value_kind kind;
    bool big; /* INTEGER: an unsigned value above INT64_MAX, as a bit pattern */
    aisim_mark mark;
    union {
        bool boolean;
        int64_t integer; /* INTEGER, handle of FOREIGN */
        double real;
    } as;
    char *text; /* TEXT, type name of FOREIGN */
    AISIM_ARRAY(entry) entries;
};

/* ---- sources and marks ----------------------------------------------------------------------- */

aisim_source *aisim_source_new(aisim_origin origin, const char *name)
{
    enum { CUT = 200 };
    aisim_source *source = aisim_alloc_zero(1, sizeof *source);
    source->refs = 1;
    source->origin = origin;
    size_t length = strlen(name);
    if (length <= CUT) {
        source->name = aisim_strdup(name);
    } else { /* the tail of a path and the head of a flag tell most */
        char cut[CUT + 8];
        if (origin == AISIM_ORIGIN_SET) {
            snprintf(cut, sizeof cut, "%.*s...", (int)CUT, name);
        } else {
            snprintf(cut, sizeof cut, "...%s", name + length - CUT);
        }
        source->name = aisim_strdup(cut);
    }
    return source;
}

void aisim_source_release(aisim_source *source)
{
    if (source != NULL && --source->refs == 0) {
        aisim_free(source->name);
        aisim_free(source);
    }
}

const char *aisim_source_name(const aisim_source *source)
{
    return source->name;
}

static aisim_mark mark_keep(aisim_mark mark)
{
    if (mark.source != NULL) {
        mark.source->refs++;
    }
    return mark;
}

static void mark_replace(aisim_mark *old, aisim_mark mark)
{
    aisim_mark kept = mark_keep(mark);
    aisim_source_release(old->source);
    *old = kept;
}

/* ---- making ---------------------------------------------------------------------------------- */

static aisim_value *make(aisim_value_kind kind, aisim_mark mark)
{
    aisim_value *value = aisim_alloc_zero(1, sizeof *value);
    value->kind = kind;
    value->mark = mark_keep(mark);
    return value;
}

aisim_value *aisim_value_null(aisim_mark mark)
{
    return make(AISIM_VALUE_NULL, mark);
}

aisim_value *aisim_value_bool(aisim_mark mark, bool x)
{
    aisim_value *value = make(AISIM_VALUE_BOOL, mark);
    value->as.boolean = x;
    return value;
}

aisim_value *aisim_value_integer(aisim_mark mark, int64_t x)
{
    aisim_value *value = make(AISIM_VALUE_INTEGER, mark);
    value->as.integer = x;
    return value;
}

aisim_value *aisim_value_unsigned(aisim_mark mark, uint64_t x)
{
    aisim_value *value = aisim_value_integer(mark, (int64_t)x);
    value->big = x > (uint64_t)INT64_MAX;
    return value;
}

aisim_value *aisim_value_real(aisim_mark mark, double x)
{
    aisim_value *value = make(AISIM_VALUE_REAL, mark);
    value->as.real = x;
    return value;
}

aisim_value *aisim_value_text(aisim_mark mark, const char *text)
{
    aisim_value *value = make(AISIM_VALUE_TEXT, mark);
    value->text = aisim_strdup(text);
    return value;
}

aisim_value *aisim_value_list(aisim_mark mark)
{
    return make(AISIM_VALUE_LIST, mark);
}

aisim_value *aisim_value_map(aisim_mark mark)
{
    return make(AISIM_VALUE_MAP, mark);
}

aisim_value *aisim_value_foreign(aisim_mark mark, const char *type_name, int64_t handle)
{
    aisim_value *value = make(AISIM_VALUE_FOREIGN, mark);
    value->text = aisim_strdup(type_name);
    value->as.integer = handle;
    return value;
}

void aisim_value_push(aisim_value *list, aisim_value *child)
{
    AISIM_CHECK(list->kind == AISIM_VALUE_LIST);
    entry e = {.value = child};
    aisim_array_push(&list->entries, e);
}

static entry *find_entry(const aisim_value *map, const char *key)
{
    for (uint32_t i = 0; i < map->entries.len; i++) {
        if (strcmp(map->entries.data[i].key, key) == 0) {
            return &map->entries.data[i];
        }
    }
    return NULL;
}

void aisim_value_put(aisim_value *map, const char *key, aisim_mark key_mark, aisim_value *child)
{
    AISIM_CHECK(map->kind == AISIM_VALUE_MAP);
    entry *old = find_entry(map, key);
    if (old != NULL) {
        mark_replace(&old->mark, key_mark);
        aisim_value_free(old->value);
        old->value = child;
        return;
    }
    entry e = {.key = aisim_strdup(key), .mark = mark_keep(key_mark), .value = child};
    aisim_array_push(&map->entries, e);
}

aisim_value *aisim_value_take(aisim_value *map, const char *key)
{
    AISIM_CHECK(map->kind == AISIM_VALUE_MAP);
    entry *old = find_entry(map, key);
    if (old == NULL) {
        return NULL;
    }
    aisim_value *value = old->value;
    aisim_free(old->key);
    aisim_source_release(old->mark.source);
    aisim_array_remove(&map->entries, old - map->entries.data);
    return value;
}

aisim_value *aisim_value_copy(const aisim_value *value)
{
    aisim_value *copy = make(value->kind, value->mark);
    copy->big = value->big;
    copy->as = value->as;
    copy->text = value->text == NULL ? NULL : aisim_strdup(value->text);
    aisim_array_reserve(&copy->entries, value->entries.len);
    for (uint32_t i = 0; i < value->entries.len; i++) {
        const entry *from = &value->entries.data[i];
        entry e = {.key = from->key == NULL ? NULL : aisim_strdup(from->key),
                   .mark = mark_keep(from->mark),
                   .value = aisim_value_copy(from->value)};
        aisim_array_push(&copy->entries, e);
    }
    return copy;
}

void aisim_value_merge(aisim_value *base, aisim_value *over)
{
    AISIM_CHECK(base->kind == AISIM_VALUE_MAP && over->kind == AISIM_VALUE_MAP);
    for (uint32_t i = 0; i < over->entries.len; i++) {
        entry *from = &over->entries.data[i];
        aisim_value *to = aisim_value_get(base, from->key);
        if (to != NULL && to->kind == AISIM_VALUE_MAP && from->value->kind == AISIM_VALUE_MAP) {
            aisim_value_merge(to, from->value);
        } else {
            aisim_value_put(base, from->key, from->mark, from->value);
        }
        from->value = NULL; /* taken */
    }
    aisim_value_free(over);
}

void aisim_value_free(aisim_value *value)
{
    if (value == NULL) {
        return;
    }
    for (uint32_t i = 0; i < value->entries.len; i++) {
        aisim_free(value->entries.data[i].key);
        aisim_source_release(value->entries.data[i].mark.source);
        aisim_value_free(value->entries.data[i].value);
    }
    aisim_array_free(&value->entries);
    aisim_free(value->text);
    aisim_source_release(value->mark.source);
    aisim_free(value);
}

/* ---- reading --------------------------------------------------------------------------------- */

aisim_value_kind aisim_value_kind_of(const aisim_value *value)
{
    return value->kind;
}

const char *aisim_value_kind_name(const aisim_value *value)
{
    static const char *const names[] = {"null",   "boolean", "integer", "number",
                                        "string", "list",    "map"};
    return value->kind == AISIM_VALUE_FOREIGN ? value->text : names[value->kind];
}

aisim_mark aisim_value_mark(const aisim_value *value)
{
    return value->mark;
}

aisim_origin aisim_value_origin(const aisim_value *value)
{
    return value->mark.source == NULL ? AISIM_ORIGIN_DEFAULT : value->mark.source->origin;
}

bool aisim_value_is_null(const aisim_value *value)
{
    return value == NULL || value->kind == AISIM_VALUE_NULL;
}

bool aisim_value_as_bool(const aisim_value *value)
{
    AISIM_CHECK(value->kind == AISIM_VALUE_BOOL);
    return value->as.boolean;
}

bool aisim_value_is_big(const aisim_value *value)
{
    return value->kind == AISIM_VALUE_INTEGER && value->big;
}

int64_t aisim_value_as_integer(const aisim_value *value)
{
    AISIM_CHECK(value->kind == AISIM_VALUE_INTEGER && !value->big);
    return value->as.integer;
}

uint64_t aisim_value_as_unsigned(const aisim_value *value)
{
    AISIM_CHECK(value->kind == AISIM_VALUE_INTEGER && (value->big || value->as.integer >= 0));
    return (uint64_t)value->as.integer;
}

double aisim_value_as_real(const aisim_value *value)
{
    if (value->kind == AISIM_VALUE_INTEGER) {
        return value->big ? (double)(uint64_t)value->as.integer : (double)value->as.integer;
    }
    AISIM_CHECK(value->kind == AISIM_VALUE_REAL);
    return value->as.real;
}

const char *aisim_value_as_text(const aisim_value *value)
{
    AISIM_CHECK(value->kind == AISIM_VALUE_TEXT || value->kind == AISIM_VALUE_FOREIGN);
    return value->text;
}

int64_t aisim_value_handle(const aisim_value *value)
{
    AISIM_CHECK(value->kind == AISIM_VALUE_FOREIGN);
    return value->as.integer;
}

uint32_t aisim_value_len(const aisim_value *value)
{
    return value->entries.len;
}

aisim_value *aisim_value_at(const aisim_value *value, uint32_t i)
{
    AISIM_CHECK(i < value->entries.len);
    return value->entries.data[i].value;
}

const char *aisim_value_key(const aisim_value *map, uint32_t i)
{
    AISIM_CHECK(map->kind == AISIM_VALUE_MAP && i < map->entries.len);
    return map->entries.data[i].key;
}

aisim_mark aisim_value_key_mark(const aisim_value *map, uint32_t i)
{
    AISIM_CHECK(map->kind == AISIM_VALUE_MAP && i < map->entries.len);
    return map->entries.data[i].mark;
}

aisim_value *aisim_value_get(const aisim_value *value, const char *key)
{
    if (value == NULL || value->kind != AISIM_VALUE_MAP) {
        return NULL;
    }
    const entry *found = find_entry(value, key);
    return found == NULL ? NULL : found->value;
}

aisim_value *aisim_value_find(const aisim_value *value, const char *path)
{
    aisim_value *at = NULL;
    for (;;) {
        size_t length = strcspn(path, ".");
        char key[128];
        if (length >= sizeof key) {
            return NULL;
        }
        memcpy(key, path, length);
        key[length] = '\0';
        at = aisim_value_get(value, key);
        if (at == NULL || path[length] == '\0') {
            return at;
        }
        value = at;
        path += length + 1;
    }
}

static bool same_scalar(const aisim_value *a, const aisim_value *b)
{
    switch (a->kind) {
    case AISIM_VALUE_BOOL:
        return a->as.boolean == b->as.boolean;
    case AISIM_VALUE_INTEGER:
        return a->as.integer == b->as.integer && a->big == b->big;
    case AISIM_VALUE_REAL:
        return a->as.real == b->as.real || (isnan(a->as.real) && isnan(b->as.real));
    case AISIM_VALUE_TEXT:
        return strcmp(a->text, b->text) == 0;
    case AISIM_VALUE_FOREIGN:
        return a->as.integer == b->as.integer && strcmp(a->text, b->text) == 0;
    default:
        return true;
    }
}

bool aisim_value_equal(const aisim_value *a, const aisim_value *b)
{
    if (a->kind != b->kind || a->entries.len != b->entries.len || !same_scalar(a, b)) {
        return false;
    }
    for (uint32_t i = 0; i < a->entries.len; i++) {
        const entry *x = &a->entries.data[i], *y = &b->entries.data[i];
        if ((a->kind == AISIM_VALUE_MAP && strcmp(x->key, y->key) != 0) ||
            !aisim_value_equal(x->value, y->value)) {
            return false;
        }
    }
    return true;
}

/* ---- changing -------------------------------------------------------------------------------- */

static void become(aisim_value *value, aisim_value_kind kind)
{
    AISIM_CHECK(value->kind != AISIM_VALUE_LIST && value->kind != AISIM_VALUE_MAP);
    aisim_free(value->text);
    value->text = NULL;
    value->big = false;
    value->kind = kind;
}

void aisim_value_set_integer(aisim_value *value, int64_t x)
{
    become(value, AISIM_VALUE_INTEGER);
    value->as.integer = x;
}

void aisim_value_set_real(aisim_value *value, double x)
{
    become(value, AISIM_VALUE_REAL);
    value->as.real = x;
}

void aisim_value_set_text(aisim_value *value, const char *text)
{
    char *copy = aisim_strdup(text);
    become(value, AISIM_VALUE_TEXT);
    value->text = copy;
}

void aisim_value_wrap(aisim_value *value)
{
    aisim_value *inner = aisim_alloc(1, sizeof *inner);
    *inner = *value; /* its reference to the source moves along */
    memset(value, 0, sizeof *value);
    value->kind = AISIM_VALUE_LIST;
    value->mark = mark_keep(inner->mark);
    aisim_value_push(value, inner);
}

/* ---- messages -------------------------------------------------------------------------------- */

char *aisim_value_show(const aisim_value *value, char *out, unsigned long size)
{
    char number[AISIM_NUMBER_SIZE];
    switch (value->kind) {
    case AISIM_VALUE_NULL:
        snprintf(out, size, "null");
        break;
    case AISIM_VALUE_BOOL:
        snprintf(out, size, value->as.boolean ? "true" : "false");
        break;
    case AISIM_VALUE_INTEGER:
        if (value->big) {
            snprintf(out, size, "%llu", (unsigned long long)value->as.integer);
        } else {
            snprintf(out, size, "%lld", (long long)value->as.integer);
        }
        break;
    case AISIM_VALUE_REAL:
        snprintf(out, size, "%s", aisim_number_show_plain(value->as.real, number));
        break;
    case AISIM_VALUE_TEXT:
        snprintf(out, size, strlen(value->text) > 60 ? "'%.57s...'" : "'%s'", value->text);
        break;
    default:
        snprintf(out, size, "a %s", aisim_value_kind_name(value));
        break;
    }
    return out;
}

aisim_status aisim_fail_mark(aisim_error *err, aisim_mark mark, aisim_status code,
                             const char *format, ...)
{
    char text[sizeof err->text];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (mark.source == NULL) {
        return aisim_fail(err, code, "%s", text);
    }
    return aisim_fail_at(err, code, mark.source->name, mark.line, mark.column, "%s", text);
}
