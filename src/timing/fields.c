/* fields.c - see fields.h. */
#include "timing/fields.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"

enum { LIST_MAX = 512, NAME_MAX_LEN = 63 };

const aisim_field *aisim_field_find(const aisim_field_table *table, const char *name)
{
    for (size_t i = 0; i < table->count; i++) {
        if (strcmp(table->fields[i].name, name) == 0) {
            return &table->fields[i];
        }
    }
    return NULL;
}

int aisim_word_find(const char *const *words, const char *word)
{
    for (int i = 0; words[i] != NULL; i++) {
        if (strcmp(words[i], word) == 0) {
            return i;
        }
    }
    return -1;
}

/* Edit distance of two short names (insertions, deletions, replacements). */
static unsigned edit_distance(const char *a, const char *b)
{
    unsigned row[NAME_MAX_LEN + 1];
    size_t m = strlen(a), n = strlen(b);
    if (m > NAME_MAX_LEN || n > NAME_MAX_LEN) {
        return NAME_MAX_LEN;
    }
    for (size_t j = 0; j <= n; j++) {
        row[j] = (unsigned)j;
    }
    for (size_t i = 1; i <= m; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= n; j++) {
            unsigned up = row[j];
            unsigned best = diagonal + (a[i - 1] != b[j - 1]);
            best = up + 1 < best ? up + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            row[j] = best;
            diagonal = up;
        }
    }
    return row[n];
}

static aisim_status unknown_key(const aisim_field_table *table, const char *name, aisim_error *err)
{
    const char *near = NULL;
    unsigned best = 4; /* farther than that is no typing mistake */
    for (size_t i = 0; i < table->count; i++) {
        unsigned distance = edit_distance(name, table->fields[i].name);
        if (distance < best) {
            best = distance;
            near = table->fields[i].name;
        }
    }
    return aisim_fail(err, AISIM_ENOENT, "%s: unknown key '%s'%s%s%s", table->what, name,
                      near != NULL ? "; did you mean '" : "", near != NULL ? near : "",
                      near != NULL ? "'?" : "");
}

aisim_status aisim_field_set_number(const aisim_field_table *table, void *object, const char *name,
                                    double value, aisim_error *err)
{
    const aisim_field *field = aisim_field_find(table, name);
    if (field == NULL) {
        return unknown_key(table, name, err);
    }
    if (field->type == AISIM_FIELD_WORD || field->type == AISIM_FIELD_TEXT) {
        return aisim_fail(err, AISIM_EINVAL, "%s.%s: expected a text, got the number %.17g",
                          table->what, name, value);
    }
    if (!(value >= field->min && value <= field->max)) {
        return aisim_fail(err, AISIM_ERANGE, "%s.%s = %.17g is outside %.17g..%.17g", table->what,
                          name, value, field->min, field->max);
    }
    if (field->type != AISIM_FIELD_F64 && value != floor(value)) {
        return aisim_fail(err, AISIM_EINVAL, "%s.%s = %.17g: expected a whole number", table->what,
                          name, value);
    }
    char *at = (char *)object + field->offset;
    switch (field->type) {
    case AISIM_FIELD_U32:
        *(uint32_t *)(void *)at = (uint32_t)value;
        break;
    case AISIM_FIELD_U64:
        *(uint64_t *)(void *)at = (uint64_t)value;
        break;
    case AISIM_FIELD_BOOL:
        *(bool *)(void *)at = value != 0;
        break;
    case AISIM_FIELD_F64:
        *(double *)(void *)at = value;
        break;
    case AISIM_FIELD_WORD:
    case AISIM_FIELD_TEXT:
        AISIM_UNREACHABLE();
    }
    return AISIM_OK;
}

static aisim_status unknown_word(const aisim_field_table *table, const aisim_field *field,
                                 const char *value, aisim_error *err)
{
    char list[LIST_MAX] = "";
    size_t used = 0;
    for (int i = 0; field->words[i] != NULL && used < sizeof list; i++) {
        int n =
            snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "", field->words[i]);
        used += n > 0 ? (size_t)n : 0;
    }
    return aisim_fail(err, AISIM_EINVAL, "%s.%s = '%s': expected one of %s", table->what,
                      field->name, value, list);
}

aisim_status aisim_field_set_text(const aisim_field_table *table, void *object, const char *name,
                                  const char *value, aisim_error *err)
{
    const aisim_field *field = aisim_field_find(table, name);
    if (field == NULL) {
        return unknown_key(table, name, err);
    }
    char *at = (char *)object + field->offset;
    if (field->type == AISIM_FIELD_WORD) {
        int index = aisim_word_find(field->words, value);
        if (index < 0) {
            return unknown_word(table, field, value, err);
        }
        *(int *)(void *)at = index;
        return AISIM_OK;
    }
    if (field->type == AISIM_FIELD_TEXT) {
        size_t length = strlen(value);
        if (length >= AISIM_FIELD_TEXT_MAX) {
            return aisim_fail(err, AISIM_ERANGE, "%s.%s: the text is longer than %d bytes",
                              table->what, name, AISIM_FIELD_TEXT_MAX - 1);
        }
        memcpy(at, value, length + 1);
        return AISIM_OK;
    }
    return aisim_fail(err, AISIM_EINVAL, "%s.%s: expected a number, got the text '%s'", table->what,
                      name, value);
}

double aisim_field_number(const aisim_field *field, const void *object)
{
    const char *at = (const char *)object + field->offset;
    switch (field->type) {
    case AISIM_FIELD_U32:
        return *(const uint32_t *)(const void *)at;
    case AISIM_FIELD_U64:
        return (double)*(const uint64_t *)(const void *)at;
    case AISIM_FIELD_BOOL:
        return *(const bool *)(const void *)at ? 1 : 0;
    case AISIM_FIELD_F64:
        return *(const double *)(const void *)at;
    case AISIM_FIELD_WORD:
        return *(const int *)(const void *)at;
    case AISIM_FIELD_TEXT:
        return 0;
    }
    AISIM_UNREACHABLE();
}
