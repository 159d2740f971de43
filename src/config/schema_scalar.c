/* schema_scalar.c - one number, word or text against its row of the table, and what the messages
 * about it say. Numbers are compared as doubles: bounds and integers stay within 2^53. */
#include "config/schema_check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "config/near.h"
#include "config/number.h"

static const double EXACT = 9007199254740992.0; /* 2^53 */

aisim_place aisim_place_of(const char *prefix, const char *path, const aisim_value *value,
                           aisim_error *err)
{
    return (aisim_place){prefix, path, aisim_value_mark(value), err};
}

/* ---- messages -------------------------------------------------------------------------------- */

static const char *const expected_names[] = {
    [AISIM_FIELD_BOOL] = "boolean",
    [AISIM_FIELD_INTEGER] = "integer",
    [AISIM_FIELD_COUNT] = "integer",
    [AISIM_FIELD_BYTES] = "integer or a size such as '64GiB'",
    [AISIM_FIELD_SEED] = "integer",
    [AISIM_FIELD_REAL] = "number",
    [AISIM_FIELD_MS] = "number of milliseconds or a duration such as '250ms'",
    [AISIM_FIELD_SECONDS] = "number of seconds or a duration such as '2m'",
    [AISIM_FIELD_TEXT] = "string",
    [AISIM_FIELD_CHOICE] = "string",
    [AISIM_FIELD_REALS] = "list of numbers",
    [AISIM_FIELD_TEXTS] = "list of strings",
    [AISIM_FIELD_OBJECT] = "map",
    [AISIM_FIELD_OBJECTS] = "list of maps",
    [AISIM_FIELD_MODEL] = "string or map",
};

/* "integer 5", "string 'x'", "a list" */
static const char *found_text(const aisim_value *value, char *out, size_t size)
{
    char shown[96];
    switch (aisim_value_kind_of(value)) {
    case AISIM_VALUE_LIST:
    case AISIM_VALUE_MAP:
    case AISIM_VALUE_FOREIGN:
        snprintf(out, size, "a %s", aisim_value_kind_name(value));
        break;
    case AISIM_VALUE_NULL:
        snprintf(out, size, "null");
        break;
    default:
        snprintf(out, size, "%s %s", aisim_value_kind_name(value),
                 aisim_value_show(value, shown, sizeof shown));
    }
    return out;
}

aisim_status aisim_wrong_type(const aisim_place *at, const aisim_field *field,
                              const aisim_value *value)
{
    char found[128];
    const char *hint = "";
    found_text(value, found, sizeof found);
    if (field->kind == AISIM_FIELD_BOOL && aisim_value_kind_of(value) == AISIM_VALUE_TEXT) {
        hint = " (write true or false)";
    }
    aisim_text words = {0};
    if (field->choices != NULL && field->kind != AISIM_FIELD_CHOICE) {
        aisim_text_add(&words, " or ");
        aisim_choice_list(field->choices, &words);
    }
    aisim_status status = aisim_fail_mark(
        at->err, at->mark, AISIM_EINVAL, "%s%s: %s%s expected, got %s%s", at->prefix, at->path,
        expected_names[field->kind], aisim_text_get(&words), found, hint);
    aisim_text_free(&words);
    return status;
}

static void bound(double x, aisim_text *out)
{
    char number[AISIM_NUMBER_SIZE];
    if (x == floor(x) && fabs(x) < 1e18) {
        aisim_text_format(out, "%.0f", x);
    } else {
        aisim_text_add(out, aisim_number_show_plain(x, number));
    }
}

void aisim_schema_range(const aisim_field *field, aisim_text *out)
{
    if (field->kind == AISIM_FIELD_CHOICE) {
        aisim_choice_list(field->choices, out);
        return;
    }
    if (field->kind == AISIM_FIELD_SEED) {
        aisim_text_add(out, ">= 0 and < 2^64");
        return;
    }
    bool low = field->flags & AISIM_FIELD_HAS_MIN, high = field->flags & AISIM_FIELD_HAS_MAX;
    high = high && field->max < 4294967295.0; /* the width of the engine's numbers: no news */
    if (low) {
        aisim_text_add(out, field->flags & AISIM_FIELD_MIN_OPEN ? "> " : ">= ");
        bound(field->min, out);
    }
    if (high) {
        aisim_text_add(out, low ? " and " : "");
        aisim_text_add(out, field->flags & AISIM_FIELD_MAX_OPEN ? "< " : "<= ");
        bound(field->max, out);
    }
}

static aisim_status out_of_range(const aisim_place *at, const aisim_field *field, const char *shown,
                                 const char *rule)
{
    aisim_text text = {0};
    aisim_schema_range(field, &text);
    aisim_status status =
        aisim_fail_mark(at->err, at->mark, AISIM_ERANGE, "%s%s = %s: must be %s", at->prefix,
                        at->path, shown, rule != NULL ? rule : aisim_text_get(&text));
    aisim_text_free(&text);
    return status;
}

aisim_status aisim_not_modelled(const aisim_place *at, const char *shown, const char *note)
{
    return aisim_fail_mark(
        at->err, at->mark, AISIM_ENOTMODELLED, "%sknown, not modelled: %s%s%s%s%s%s", at->prefix,
        at->path, shown == NULL ? "" : " = ", shown == NULL ? "" : shown, note == NULL ? "" : " (",
        note == NULL ? "" : note, note == NULL ? "" : ")");
}

/* ---- numbers --------------------------------------------------------------------------------- */

static bool in_bounds(const aisim_field *field, double x)
{
    uint32_t flags = field->flags;
    if ((flags & AISIM_FIELD_HAS_MIN) &&
        !(flags & AISIM_FIELD_MIN_OPEN ? x > field->min : x >= field->min)) {
        return false;
    }
    return !(flags & AISIM_FIELD_HAS_MAX) ||
           (flags & AISIM_FIELD_MAX_OPEN ? x < field->max : x <= field->max);
}

/* "64GiB" and friends, where the field takes them. */
static bool from_unit(const aisim_value *value, aisim_field_kind kind, double *x)
{
    aisim_unit unit;
    switch (kind) {
    case AISIM_FIELD_COUNT:
        unit = AISIM_UNIT_COUNT;
        break;
    case AISIM_FIELD_BYTES:
        unit = AISIM_UNIT_BYTES;
        break;
    case AISIM_FIELD_MS:
        unit = AISIM_UNIT_MILLISECONDS;
        break;
    case AISIM_FIELD_SECONDS:
        unit = AISIM_UNIT_SECONDS;
        break;
    default:
        return false;
    }
    return aisim_value_kind_of(value) == AISIM_VALUE_TEXT &&
           aisim_number_scan_unit(aisim_value_as_text(value), unit, x);
}

/* The number a value stands for; false = it is none. */
static bool number_of(const aisim_value *value, const aisim_field *field, double *x)
{
    aisim_value_kind kind = aisim_value_kind_of(value);
    if (kind == AISIM_VALUE_INTEGER || kind == AISIM_VALUE_REAL) {
        *x = aisim_value_as_real(value);
        return true;
    }
    return from_unit(value, field->kind, x);
}

bool aisim_is_word(const aisim_value *value, const aisim_field *field)
{
    aisim_choice choice;
    return aisim_value_kind_of(value) == AISIM_VALUE_TEXT &&
           aisim_choice_find(field->choices, aisim_value_as_text(value), &choice);
}

aisim_status aisim_check_integer(aisim_value *value, const aisim_field *field,
                                 const aisim_place *at)
{
    double x;
    char shown[96];
    if (!number_of(value, field, &x)) {
        return aisim_wrong_type(at, field, value);
    }
    aisim_value_show(value, shown, sizeof shown);
    if (!in_bounds(field, x)) {
        return field->max >= 4294967295.0 && x > field->max
                   ? out_of_range(at, field, shown, "< 2^32")
                   : out_of_range(at, field, shown, NULL);
    }
    if (fabs(x) > EXACT) {
        return out_of_range(at, field, shown, "at most 2^53");
    }
    if (x != floor(x)) {
        return aisim_fail_mark(at->err, at->mark, AISIM_EINVAL, "%s%s = %s: must be a whole number",
                               at->prefix, at->path, shown);
    }
    aisim_value_set_integer(value, (int64_t)x);
    return AISIM_OK;
}

aisim_status aisim_check_seed(aisim_value *value, const aisim_field *field, const aisim_place *at)
{
    char shown[96];
    double x;
    if (!number_of(value, field, &x)) {
        return aisim_wrong_type(at, field, value);
    }
    bool whole = aisim_value_kind_of(value) == AISIM_VALUE_INTEGER;
    if (whole && (aisim_value_is_big(value) || aisim_value_as_integer(value) >= 0)) {
        return AISIM_OK;
    }
    if (!whole && x >= 0 && x <= EXACT && x == floor(x)) {
        aisim_value_set_integer(value, (int64_t)x);
        return AISIM_OK;
    }
    return out_of_range(at, field, aisim_value_show(value, shown, sizeof shown),
                        "a whole number >= 0 and < 2^64");
}

aisim_status aisim_check_real(aisim_value *value, const aisim_field *field, const aisim_place *at)
{
    double x;
    char shown[96];
    if (!number_of(value, field, &x)) {
        return aisim_wrong_type(at, field, value);
    }
    aisim_value_show(value, shown, sizeof shown);
    if (!isfinite(x)) {
        return out_of_range(at, field, shown, "finite");
    }
    if (!in_bounds(field, x)) {
        return out_of_range(at, field, shown, NULL);
    }
    aisim_value_set_real(value, x);
    return AISIM_OK;
}

/* ---- words and texts ------------------------------------------------------------------------- */

static aisim_status unknown_word(const aisim_place *at, const aisim_field *field, const char *word)
{
    aisim_near search = {.name = word};
    aisim_choice choice, words[32];
    uint32_t n = 0;
    const char *rest = field->choices;
    while (n < 32 && aisim_choice_next(&rest, &choice)) {
        words[n] = choice;
        aisim_near_offer(&search, words[n++].word);
    }
    aisim_text list = {0};
    aisim_choice_list(field->choices, &list);
    aisim_status status =
        search.best == NULL
            ? aisim_fail_mark(at->err, at->mark, AISIM_EINVAL, "%s%s = '%s': must be one of %s",
                              at->prefix, at->path, word, aisim_text_get(&list))
            : aisim_fail_mark(at->err, at->mark, AISIM_EINVAL,
                              "%s%s = '%s': must be one of %s (did you mean '%s'?)", at->prefix,
                              at->path, word, aisim_text_get(&list), search.best);
    aisim_text_free(&list);
    return status;
}

aisim_status aisim_check_choice(aisim_value *value, const aisim_field *field, const aisim_place *at)
{
    if (aisim_value_kind_of(value) == AISIM_VALUE_BOOL) {
        aisim_value_set_text(value, aisim_value_as_bool(value) ? "true" : "false");
    }
    if (aisim_value_kind_of(value) != AISIM_VALUE_TEXT) {
        return aisim_wrong_type(at, field, value);
    }
    aisim_choice choice;
    const char *word = aisim_value_as_text(value);
    if (!aisim_choice_find(field->choices, word, &choice)) {
        return unknown_word(at, field, word);
    }
    if (choice.modelled) {
        return AISIM_OK;
    }
    aisim_text note = {0};
    char shown[64];
    snprintf(shown, sizeof shown, "'%s'", choice.word);
    if (field->note != NULL) {
        aisim_text_add(&note, field->note);
    } else {
        aisim_text_add(&note, "modelled: ");
        aisim_choice_list(field->choices, &note);
    }
    aisim_status status = aisim_not_modelled(at, shown, aisim_text_get(&note));
    aisim_text_free(&note);
    return status;
}

aisim_status aisim_check_text(aisim_value *value, const aisim_field *field, const aisim_place *at)
{
    if (aisim_value_kind_of(value) != AISIM_VALUE_TEXT) {
        return aisim_wrong_type(at, field, value);
    }
    if (aisim_value_as_text(value)[0] == '\0') {
        return aisim_fail_mark(at->err, at->mark, AISIM_EINVAL, "%s%s: must not be empty",
                               at->prefix, at->path);
    }
    return AISIM_OK;
}
