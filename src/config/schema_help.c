/* schema_help.c - the tables as text: one section per object, three columns, wrapped at 100. */
#include <string.h>

#include "config/schema_check.h"

enum { LINE = 100, KEY_MOST = 34, DEFAULT_MOST = 20 };

static size_t most(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Characters, not bytes: tables are UTF-8. */
static size_t width(const char *text)
{
    size_t n = 0;
    for (; *text != '\0'; text++) {
        n += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return n;
}

static bool is_section(const aisim_field *field)
{
    return field->kind == AISIM_FIELD_OBJECT && field->object != NULL;
}

/* A default that is a distribution: named in column two, written out in column three. */
static bool is_law(const aisim_field *field)
{
    return field->fallback != NULL && field->fallback[0] == '{';
}

/* Column two: "8192 tokens", "-", "off". */
static void fallback_text(const aisim_field *field, aisim_text *out)
{
    if (field->fallback == NULL) {
        aisim_text_add(out, field->flags & AISIM_FIELD_REQUIRED ? "required" : "-");
        return;
    }
    const char *text = field->fallback;
    if (is_law(field)) {
        aisim_text_add_n(out, text + 1, strcspn(text + 1, ":"));
        return;
    }
    if (text[0] == '"') { /* quoted so that YAML sees a text */
        aisim_text_add_n(out, text + 1, strlen(text) - 2);
    } else {
        aisim_text_add(out, text);
    }
    if (field->unit != NULL && strspn(text, "0123456789.") == strlen(text)) {
        aisim_text_format(out, " %s", field->unit);
    }
}

/* Column three: meaning; range; condition [vLLM: option]. */
static void meaning_text(const aisim_field *field, aisim_text *out)
{
    if (field->status == AISIM_STATUS_NOT_MODELLED) {
        aisim_text_format(out, "known, not modelled: %s", field->note);
        return;
    }
    aisim_text_add(out, field->meaning);
    aisim_text range = {0};
    aisim_schema_range(field, &range);
    if (field->kind != AISIM_FIELD_OBJECTS && range.len > 0) {
        const char *lead = field->kind == AISIM_FIELD_CHOICE ? "one of " : "";
        aisim_text_format(out, "; %s%s", lead, aisim_text_get(&range));
    }
    aisim_text_free(&range);
    if (field->kind != AISIM_FIELD_CHOICE && field->choices != NULL) {
        aisim_text_add(out, " or ");
        aisim_choice_list(field->choices, out);
    }
    if (field->flags & AISIM_FIELD_DRAWN) {
        aisim_text_add(out, "; or a distribution");
    }
    if (is_law(field)) {
        aisim_text_format(out, "; default %s", field->fallback);
    }
    if (field->when != NULL) {
        size_t n = strcspn(field->when, "=");
        aisim_text_format(out, "; with %.*s = ", (int)n, field->when);
        aisim_choice_list(field->when + n + 1, out);
    }
    if (field->status == AISIM_STATUS_DEFAULT_ONLY) {
        aisim_text_format(out, "; only the default is modelled");
    }
    if (field->upstream != NULL) {
        aisim_text_format(out, " [vLLM: %s]", field->upstream);
    }
}

/* Words of text from column `indent` on, broken before LINE. */
static void wrapped(const char *text, size_t indent, aisim_text *out)
{
    size_t at = indent;
    while (*text != '\0') {
        size_t n = strcspn(text, " ");
        if (n > 0 && strchr("<=>", text[n - 1]) != NULL && text[n] == ' ') {
            n += 1 + strcspn(text + n + 1, " "); /* ">= 1" stays together */
        }
        aisim_text word = {0};
        aisim_text_add_n(&word, text, n);
        size_t w = width(aisim_text_get(&word));
        if (at > indent && at + 1 + w > LINE) {
            aisim_text_add(out, "\n");
            aisim_text_pad(out, ' ', indent);
            at = indent;
        } else if (at > indent) {
            aisim_text_add(out, " ");
            at++;
        }
        aisim_text_add(out, aisim_text_get(&word));
        at += w;
        aisim_text_free(&word);
        text += n;
        text += strspn(text, " ");
    }
    aisim_text_add(out, "\n");
}

static void column(const char *text, size_t size, aisim_text *out)
{
    aisim_text_add(out, text);
    size_t w = width(text);
    aisim_text_pad(out, ' ', (w < size ? size - w : 0) + 2);
}

static void rows(const aisim_object *object, aisim_text *out)
{
    const aisim_field *field;
    size_t keys = 0, fallbacks = 0;
    for (uint32_t i = 0; (field = aisim_schema_field_at(object, i)) != NULL; i++) {
        aisim_text text = {0};
        fallback_text(field, &text);
        keys = most(keys, is_section(field) ? 0 : width(field->key));
        fallbacks = most(fallbacks, is_section(field) ? 0 : width(aisim_text_get(&text)));
        aisim_text_free(&text);
    }
    keys = keys > KEY_MOST ? KEY_MOST : keys;
    fallbacks = fallbacks > DEFAULT_MOST ? DEFAULT_MOST : fallbacks;
    for (uint32_t i = 0; (field = aisim_schema_field_at(object, i)) != NULL; i++) {
        if (is_section(field)) {
            continue;
        }
        aisim_text second = {0}, third = {0};
        fallback_text(field, &second);
        meaning_text(field, &third);
        aisim_text_add(out, "  ");
        column(field->key, keys, out);
        column(aisim_text_get(&second), fallbacks, out);
        wrapped(aisim_text_get(&third), 2 + keys + 2 + fallbacks + 2, out);
        aisim_text_free(&second);
        aisim_text_free(&third);
    }
}

static void section(const aisim_object *object, const char *path, const aisim_field *as,
                    aisim_text *out)
{
    aisim_text_format(out, "%s: %s", path, object->title);
    if (as != NULL && (as->flags & AISIM_FIELD_FEATURE)) {
        aisim_text_add(out, " (optional)");
    }
    aisim_text_add(out, "\n");
    rows(object, out);
    const aisim_field *field;
    for (uint32_t i = 0; (field = aisim_schema_field_at(object, i)) != NULL; i++) {
        if (is_section(field)) {
            aisim_text full = {0};
            bool file = strcmp(path, "prediction") == 0; /* keys of a file start at its top */
            aisim_text_format(&full, "%s%s%s", file ? "" : path, file ? "" : ".", field->key);
            aisim_text_add(out, "\n");
            section(aisim_schema_object(field->object), aisim_text_get(&full), field, out);
            aisim_text_free(&full);
        }
    }
}

bool aisim_schema_help(const char *object, aisim_text *out)
{
    const aisim_object *found = aisim_schema_object(object);
    if (found == NULL) {
        return false;
    }
    section(found, found->name, NULL, out);
    return true;
}
