/* weka_json.c - a checking cursor over JSON text.
 *
 * Idea: most of a recording is numbers that are read once and fields nobody wants; a tree of them
 * costs ten times more than looking at the text twice. */
#include "workload/weka_json.h"

#include <string.h>

enum { MAX_DEPTH = 64 };

static bool fail(aisim_json_cursor *c, const char *problem)
{
    if (c->problem == NULL) {
        c->problem = problem;
    }
    return false;
}

static void skip_space(aisim_json_cursor *c)
{
    while (c->at < c->end &&
           (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r')) {
        c->at++;
    }
}

static bool is_digit(char ch)
{
    return ch >= '0' && ch <= '9';
}

static int hex(char ch)
{
    if (is_digit(ch)) {
        return ch - '0';
    }
    if (ch >= 'a' && ch <= 'f') {
        return ch - 'a' + 10;
    }
    return ch >= 'A' && ch <= 'F' ? ch - 'A' + 10 : -1;
}

/* The four digits behind \u, or -1. */
static int32_t code_unit(const char *at, const char *end)
{
    int32_t unit = 0;
    for (int i = 0; i < 4; i++) {
        int digit = at + i < end ? hex(at[i]) : -1;
        if (digit < 0) {
            return -1;
        }
        unit = unit * 16 + digit;
    }
    return unit;
}

static bool pass_escape(aisim_json_cursor *c)
{
    c->at++;
    if (c->at < c->end && *c->at != '\0' && strchr("\"\\/bfnrt", *c->at) != NULL) {
        c->at++;
        return true;
    }
    if (c->at == c->end || *c->at != 'u') {
        return fail(c, "unknown escape in a text");
    }
    int32_t unit = code_unit(c->at + 1, c->end);
    if (unit <= 0) {
        return fail(c, "\\u needs four hexadecimal digits, not all zero");
    }
    c->at += 5;
    if (unit < 0xD800 || unit > 0xDFFF) {
        return true;
    }
    int32_t low = unit < 0xDC00 && c->end - c->at >= 6 && c->at[0] == '\\' && c->at[1] == 'u'
                      ? code_unit(c->at + 2, c->end)
                      : -1;
    if (low < 0xDC00 || low > 0xDFFF) {
        return fail(c, "half of a surrogate pair");
    }
    c->at += 6;
    return true;
}

/* One character of several bytes: shortest form, no surrogates, at most U+10FFFF. */
static bool pass_utf8(aisim_json_cursor *c)
{
    const unsigned char *at = (const unsigned char *)c->at;
    uint32_t lead = at[0];
    int more = lead >= 0xC2 && lead <= 0xDF   ? 1
               : lead >= 0xE0 && lead <= 0xEF ? 2
               : lead >= 0xF0 && lead <= 0xF4 ? 3
                                              : 0;
    if (more == 0 || c->end - c->at <= more) {
        return fail(c, "not UTF-8");
    }
    uint32_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    uint32_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    for (int i = 1; i <= more; i++) {
        if (at[i] < low || at[i] > high) {
            return fail(c, "not UTF-8");
        }
        low = 0x80;
        high = 0xBF;
    }
    c->at += more + 1;
    return true;
}

static bool pass_text(aisim_json_cursor *c)
{
    c->at++;
    while (c->at < c->end) {
        unsigned char ch = (unsigned char)*c->at;
        if (ch == '"') {
            c->at++;
            return true;
        }
        if (ch < 0x20) {
            return fail(c, "control character in a text");
        }
        if (ch == '\\') {
            if (!pass_escape(c)) {
                return false;
            }
        } else if (ch < 0x80) {
            c->at++;
        } else if (!pass_utf8(c)) {
            return false;
        }
    }
    return fail(c, "the text ends inside a quoted text");
}

static void pass_digits(aisim_json_cursor *c)
{
    while (c->at < c->end && is_digit(*c->at)) {
        c->at++;
    }
}

static bool need_digits(aisim_json_cursor *c)
{
    if (c->at == c->end || !is_digit(*c->at)) {
        return fail(c, "digit expected");
    }
    pass_digits(c);
    return true;
}

static bool pass_number(aisim_json_cursor *c)
{
    if (*c->at == '-') {
        c->at++;
    }
    if (c->at < c->end && *c->at == '0') {
        c->at++;
    } else if (!need_digits(c)) {
        return false;
    }
    if (c->at < c->end && *c->at == '.') {
        c->at++;
        if (!need_digits(c)) {
            return false;
        }
    }
    if (c->at < c->end && (*c->at == 'e' || *c->at == 'E')) {
        c->at++;
        if (c->at < c->end && (*c->at == '+' || *c->at == '-')) {
            c->at++;
        }
        return need_digits(c);
    }
    return true;
}

static bool pass_word(aisim_json_cursor *c, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n) != 0) {
        return fail(c, "unknown word (null, true, false, a number or a quoted text expected)");
    }
    c->at += n;
    return true;
}

aisim_json_kind aisim_json_peek(aisim_json_cursor *c)
{
    skip_space(c);
    char ch = c->at < c->end ? *c->at : '\0';
    switch (ch) {
    case '{':
        return AISIM_JSON_OBJECT;
    case '[':
        return AISIM_JSON_ARRAY;
    case '"':
        return AISIM_JSON_TEXT;
    case 't':
        return AISIM_JSON_TRUE;
    case 'f':
        return AISIM_JSON_FALSE;
    default:
        return ch == '-' || is_digit(ch) ? AISIM_JSON_NUMBER : AISIM_JSON_NULL;
    }
}

bool aisim_json_plain(aisim_json_cursor *c, int64_t *out)
{
    const char *at = c->at;
    const char *end = c->end - at > 18 ? at + 18 : c->end;
    int64_t number = 0;
    while (at < end && is_digit(*at)) {
        number = number * 10 + (*at++ - '0');
    }
    /* no sign, no leading zero, no fraction, at most 17 digits, and the list goes on or ends */
    if (at == c->at || at == end || (*at != ',' && *at != ']') ||
        (*c->at == '0' && at - c->at > 1)) {
        return false;
    }
    c->at = at;
    *out = number;
    return true;
}

static bool pass_value(aisim_json_cursor *c, aisim_json *out, int depth);

static bool pass_container(aisim_json_cursor *c, bool object, int depth)
{
    if (depth == MAX_DEPTH) {
        return fail(c, "nested deeper than 64");
    }
    aisim_json_enter(c);
    bool first = true;
    aisim_json ignored;
    while (aisim_json_more(c, object ? '}' : ']', &first)) {
        if (object && !aisim_json_key(c, &ignored)) {
            return false;
        }
        int64_t number;
        if ((object || !aisim_json_plain(c, &number)) && !pass_value(c, &ignored, depth + 1)) {
            return false;
        }
    }
    return c->problem == NULL;
}

static bool pass_value(aisim_json_cursor *c, aisim_json *out, int depth)
{
    if (c->problem != NULL) {
        return false;
    }
    out->kind = aisim_json_peek(c);
    out->at = c->at;
    bool ok = false;
    if (c->at == c->end) {
        return fail(c, "the text ends where a value is expected");
    }
    switch (out->kind) {
    case AISIM_JSON_NULL:
        ok = pass_word(c, "null");
        break;
    case AISIM_JSON_FALSE:
        ok = pass_word(c, "false");
        break;
    case AISIM_JSON_TRUE:
        ok = pass_word(c, "true");
        break;
    case AISIM_JSON_NUMBER:
        ok = pass_number(c);
        break;
    case AISIM_JSON_TEXT:
        ok = pass_text(c);
        break;
    case AISIM_JSON_ARRAY:
    case AISIM_JSON_OBJECT:
        ok = pass_container(c, out->kind == AISIM_JSON_OBJECT, depth);
        break;
    }
    out->end = c->at;
    return ok;
}

bool aisim_json_pass(aisim_json_cursor *c, aisim_json *out)
{
    return pass_value(c, out, 0);
}

void aisim_json_enter(aisim_json_cursor *c)
{
    skip_space(c);
    c->at++;
}

bool aisim_json_more(aisim_json_cursor *c, char close, bool *first)
{
    if (c->problem != NULL) {
        return false;
    }
    skip_space(c);
    if (c->at < c->end && *c->at == close) {
        c->at++;
        return false;
    }
    if (!*first) {
        if (c->at == c->end || *c->at != ',') {
            return fail(c, c->at == c->end ? "the text ends inside brackets"
                                           : "comma or closing bracket expected");
        }
        c->at++;
        skip_space(c);
    }
    *first = false;
    return c->at < c->end ? true : fail(c, "the text ends inside brackets");
}

bool aisim_json_key(aisim_json_cursor *c, aisim_json *out)
{
    if (aisim_json_peek(c) != AISIM_JSON_TEXT) {
        return fail(c, "quoted key expected");
    }
    if (!pass_value(c, out, 0)) {
        return false;
    }
    skip_space(c);
    if (c->at == c->end || *c->at != ':') {
        return fail(c, "colon expected");
    }
    c->at++;
    return true;
}

bool aisim_json_finish(aisim_json_cursor *c)
{
    skip_space(c);
    return c->problem == NULL && c->at < c->end ? fail(c, "something follows the object")
                                                : c->problem == NULL;
}

bool aisim_json_is(const aisim_json *text, const char *plain)
{
    size_t n = strlen(plain);
    return (size_t)(text->end - text->at) == n + 2 && memcmp(text->at + 1, plain, n) == 0;
}

static size_t put_utf8(uint32_t code, char *out)
{
    unsigned char *to = (unsigned char *)out;
    if (code < 0x80) {
        to[0] = (unsigned char)code;
        return 1;
    }
    if (code < 0x800) {
        to[0] = (unsigned char)(0xC0 | code >> 6);
        to[1] = (unsigned char)(0x80 | (code & 0x3F));
        return 2;
    }
    if (code < 0x10000) {
        to[0] = (unsigned char)(0xE0 | code >> 12);
        to[1] = (unsigned char)(0x80 | (code >> 6 & 0x3F));
        to[2] = (unsigned char)(0x80 | (code & 0x3F));
        return 3;
    }
    to[0] = (unsigned char)(0xF0 | code >> 18);
    to[1] = (unsigned char)(0x80 | (code >> 12 & 0x3F));
    to[2] = (unsigned char)(0x80 | (code >> 6 & 0x3F));
    to[3] = (unsigned char)(0x80 | (code & 0x3F));
    return 4;
}

size_t aisim_json_decode(const aisim_json *text, char *out)
{
    static const char from[] = "bfnrt";
    static const char to[] = "\b\f\n\r\t";
    size_t n = 0;
    const char *end = text->end - 1;
    for (const char *at = text->at + 1; at < end;) {
        if (*at != '\\') {
            out[n++] = *at++;
        } else if (at[1] != 'u') {
            const char *plain = strchr(from, at[1]);
            out[n++] = plain != NULL ? to[plain - from] : at[1];
            at += 2;
        } else {
            uint32_t code = (uint32_t)code_unit(at + 2, end);
            at += 6;
            if (code >= 0xD800 && code <= 0xDBFF) {
                code =
                    0x10000 + ((code - 0xD800) << 10) + (uint32_t)code_unit(at + 2, end) - 0xDC00;
                at += 6;
            }
            n += put_utf8(code, out + n);
        }
    }
    out[n] = '\0';
    return n;
}

/* mantissa * 10^exponent; digits that do not fit only count as "not exact". */
typedef struct decimal {
    uint64_t mantissa;
    int64_t exponent;
    bool negative, exact;
} decimal;

static decimal split(const aisim_json *number)
{
    decimal d = {.exact = true};
    const char *at = number->at;
    const char *end = number->end;
    bool fraction = false;
    int64_t written = 0;
    if (*at == '-') {
        d.negative = true;
        at++;
    }
    for (; at < end && *at != 'e' && *at != 'E'; at++) {
        if (*at == '.') {
            fraction = true;
            continue;
        }
        if (d.mantissa <= (UINT64_MAX - 9) / 10) {
            d.mantissa = d.mantissa * 10 + (uint64_t)(*at - '0');
            d.exponent -= fraction;
        } else {
            d.exact = d.exact && *at == '0';
            d.exponent += !fraction;
        }
    }
    if (at < end) {
        bool below = *++at == '-';
        at += *at == '-' || *at == '+';
        for (; at < end; at++) {
            written = written < 100000 ? written * 10 + (*at - '0') : written;
        }
        d.exponent += below ? -written : written;
    }
    return d;
}

bool aisim_json_scaled(const aisim_json *number, int power, int64_t *out, bool *exact)
{
    decimal d = split(number);
    d.exponent += power;
    uint64_t value = d.mantissa;
    bool round_up = false;
    while (d.exponent < 0 && value > 0) {
        round_up = value % 10 >= 5; /* the last digit cut decides, ties away from zero */
        d.exact = d.exact && value % 10 == 0;
        value /= 10;
        d.exponent++;
    }
    value += round_up && d.exponent == 0;
    while (d.exponent > 0 && value > 0) {
        if (value > (uint64_t)INT64_MAX / 10) {
            return false;
        }
        value *= 10;
        d.exponent--;
    }
    *exact = d.exact;
    *out = d.negative ? -(int64_t)value : (int64_t)value;
    return value <= (uint64_t)INT64_MAX;
}
