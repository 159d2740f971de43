/* emit.c - two writers over one scalar writer. Texts are plain where YAML reads them back as the
 * same text, else quoted with the escapes that YAML and JSON share. */
#include "config/emit.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "config/number.h"
#include "config/yaml.h"

/* Decodes one UTF-8 character. @return its bytes; 0 = not valid UTF-8. */
static size_t decode(const unsigned char *at, uint32_t *c)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = at[0] < 0x80 ? 1 : at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : at[0] >= 0xc0 ? 2 : 0;
    if (n < 2) {
        *c = at[0];
        return n;
    }
    *c = at[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((at[i] & 0xc0) != 0x80) {
            return 0;
        }
        *c = *c << 6 | (at[i] & 0x3fu);
    }
    return *c < least[n] || *c > 0x10ffff || (*c >= 0xd800 && *c < 0xe000) ? 0 : n;
}

/* Line breaks and what YAML does not call printable must be escaped. */
static bool stands_for_itself(uint32_t c)
{
    return (c >= 0x20 && c < 0x7f) ||
           (c >= 0xa0 && c != 0x2028 && c != 0x2029 && c != 0xfeff && c != 0xfffe && c != 0xffff);
}

static void quoted(const char *text, aisim_text *out)
{
    const unsigned char *at = (const unsigned char *)text;
    aisim_text_add(out, "\"");
    while (*at != '\0') {
        uint32_t c;
        size_t n = decode(at, &c);
        if (n == 0) {
            aisim_text_add(out, "\\ufffd"); /* from a Lua string */
            n = 1;
        } else if (c == '"' || c == '\\') {
            aisim_text_format(out, "\\%c", (char)c);
        } else if (c == '\n') {
            aisim_text_add(out, "\\n");
        } else if (stands_for_itself(c)) {
            aisim_text_add_n(out, (const char *)at, n);
        } else {
            aisim_text_format(out, "\\u%04x", c);
        }
        at += n;
    }
    aisim_text_add(out, "\"");
}

/* Whether the text may stand plain: simple characters, and no scalar of another kind. */
static bool plain_is_safe(const char *text)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_/.";
    static const char more[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                               "_/.-+";
    if (text[0] == '\0' || strchr(letters, text[0]) == NULL || text[strspn(text, more)] != '\0') {
        return false;
    }
    aisim_value *value = aisim_yaml_scalar((aisim_mark){0}, text);
    bool safe = aisim_value_kind_of(value) == AISIM_VALUE_TEXT;
    aisim_value_free(value);
    return safe;
}

static void scalar(const aisim_value *value, bool json, aisim_text *out)
{
    char number[AISIM_NUMBER_SIZE];
    switch (aisim_value_kind_of(value)) {
    case AISIM_VALUE_REAL: {
        double x = aisim_value_as_real(value);
        bool finite = isfinite(x);
        aisim_text_add(out, json && !finite ? "null" : aisim_number_show(x, number));
        break;
    }
    case AISIM_VALUE_TEXT: {
        const char *text = aisim_value_as_text(value);
        if (!json && plain_is_safe(text)) {
            aisim_text_add(out, text);
        } else {
            quoted(text, out);
        }
        break;
    }
    case AISIM_VALUE_FOREIGN: {
        aisim_text word = {0};
        aisim_text_format(&word, "<%s>", aisim_value_as_text(value));
        quoted(aisim_text_get(&word), out);
        aisim_text_free(&word);
        break;
    }
    default: {
        char small[32]; /* null, true, false, integers */
        aisim_text_add(out, aisim_value_show(value, small, sizeof small));
    }
    }
}

static bool is_collection(const aisim_value *value)
{
    aisim_value_kind kind = aisim_value_kind_of(value);
    return kind == AISIM_VALUE_LIST || kind == AISIM_VALUE_MAP;
}

void aisim_emit_json(const aisim_value *value, aisim_text *out)
{
    if (!is_collection(value)) {
        scalar(value, true, out);
        return;
    }
    bool map = aisim_value_kind_of(value) == AISIM_VALUE_MAP;
    aisim_text_add(out, map ? "{" : "[");
    for (uint32_t i = 0; i < aisim_value_len(value); i++) {
        aisim_text_add(out, i == 0 ? "" : ",");
        if (map) {
            quoted(aisim_value_key(value, i), out);
            aisim_text_add(out, ":");
        }
        aisim_emit_json(aisim_value_at(value, i), out);
    }
    aisim_text_add(out, map ? "}" : "]");
}

uint64_t aisim_value_digest(const aisim_value *value)
{
    aisim_text text = {0};
    aisim_emit_json(value, &text);
    uint64_t digest = aisim_hash_bytes(aisim_text_get(&text), text.len);
    aisim_text_free(&text);
    return digest;
}

/* ---- block YAML ------------------------------------------------------------------------------ */

static void key_text(const char *key, aisim_text *out)
{
    if (plain_is_safe(key)) {
        aisim_text_add(out, key);
    } else {
        quoted(key, out);
    }
}

/* Scalars, empty collections and lists of scalars fit behind the key. */
static bool fits_inline(const aisim_value *value)
{
    if (!is_collection(value) || aisim_value_len(value) == 0) {
        return true;
    }
    if (aisim_value_kind_of(value) == AISIM_VALUE_MAP) {
        return false;
    }
    for (uint32_t i = 0; i < aisim_value_len(value); i++) {
        if (is_collection(aisim_value_at(value, i))) {
            return false;
        }
    }
    return true;
}

static void inline_value(const aisim_value *value, aisim_text *out)
{
    if (!is_collection(value)) {
        scalar(value, false, out);
    } else if (aisim_value_kind_of(value) == AISIM_VALUE_MAP) {
        aisim_text_add(out, "{}");
    } else {
        aisim_text_add(out, "[");
        for (uint32_t i = 0; i < aisim_value_len(value); i++) {
            aisim_text_add(out, i == 0 ? "" : ", ");
            scalar(aisim_value_at(value, i), false, out);
        }
        aisim_text_add(out, "]");
    }
}

static void comment(const aisim_value *value, aisim_text *out)
{
    if (aisim_value_origin(value) == AISIM_ORIGIN_DEFAULT) {
        aisim_text_add(out, "  # default");
    } else if (aisim_value_origin(value) == AISIM_ORIGIN_SET) {
        aisim_text_add(out, "  # ");
        const char *name = aisim_source_name(aisim_value_mark(value).source);
        aisim_text_add_n(out, name, strcspn(name, "\n"));
    }
}

static void block(const aisim_value *value, size_t indent, bool first_line_open, bool origins,
                  aisim_text *out);

/* What follows "key:" or "-". */
static void child(const aisim_value *value, size_t indent, bool of_list, bool origins,
                  aisim_text *out)
{
    if (fits_inline(value)) {
        aisim_text_add(out, " ");
        inline_value(value, out);
        if (origins) {
            comment(value, out);
        }
        aisim_text_add(out, "\n");
    } else if (of_list) {
        aisim_text_add(out, " ");
        block(value, indent + 2, true, origins, out);
    } else {
        aisim_text_add(out, "\n");
        block(value, indent + 2, false, origins, out);
    }
}

static void block(const aisim_value *value, size_t indent, bool first_line_open, bool origins,
                  aisim_text *out)
{
    bool map = aisim_value_kind_of(value) == AISIM_VALUE_MAP;
    for (uint32_t i = 0; i < aisim_value_len(value); i++) {
        if (i > 0 || !first_line_open) {
            aisim_text_pad(out, ' ', indent);
        }
        if (map) {
            key_text(aisim_value_key(value, i), out);
            aisim_text_add(out, ":");
        } else {
            aisim_text_add(out, "-");
        }
        child(aisim_value_at(value, i), indent, !map, origins, out);
    }
}

static void emit(const aisim_value *value, bool origins, aisim_text *out)
{
    if (fits_inline(value)) {
        inline_value(value, out);
        aisim_text_add(out, "\n");
    } else {
        block(value, 0, false, origins, out);
    }
}

void aisim_emit_yaml(const aisim_value *value, aisim_text *out)
{
    emit(value, false, out);
}

void aisim_emit_yaml_origins(const aisim_value *value, aisim_text *out)
{
    emit(value, true, out);
}
