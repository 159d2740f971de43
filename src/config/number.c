/* number.c - the scanner checks the form itself and leaves only the conversion to strtod, with the
 * decimal point that the locale of the process wants. */
#include "config/number.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SCAN_MAX = 320 }; /* longer texts are no numbers */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Length of the longest prefix "12", "1.5", ".5", "5." with an optional exponent; 0 = none. No
 * sign. *real tells whether there is a point or an exponent. */
static size_t decimal_length(const char *text, bool *real)
{
    size_t n = 0, digits = 0;
    *real = false;
    while (is_digit(text[n])) {
        n++, digits++;
    }
    if (text[n] == '.') {
        *real = true;
        n++;
        while (is_digit(text[n])) {
            n++, digits++;
        }
    }
    if (digits == 0) {
        return 0;
    }
    if (text[n] == 'e' || text[n] == 'E') {
        size_t m = n + 1;
        if (text[m] == '+' || text[m] == '-') {
            m++;
        }
        if (is_digit(text[m])) {
            while (is_digit(text[m])) {
                m++;
            }
            *real = true;
            n = m;
        }
    }
    return n;
}

/* n characters of a checked decimal form, through strtod. */
static double convert(const char *text, size_t n)
{
    char copy[SCAN_MAX + 16];
    const char *point = localeconv()->decimal_point;
    size_t width = strlen(point), at = 0;
    if (width > 8) {
        width = 8;
    }
    for (size_t i = 0; i < n && at < SCAN_MAX; i++) {
        if (text[i] == '.') {
            memcpy(copy + at, point, width);
            at += width;
        } else {
            copy[at++] = text[i];
        }
    }
    copy[at] = '\0';
    return strtod(copy, NULL);
}

static aisim_number integer_of(const char *digits, int base, bool negative, double fallback)
{
    aisim_number out = {AISIM_NUMBER_REAL, 0, fallback};
    errno = 0;
    unsigned long long magnitude = strtoull(digits, NULL, base);
    if (errno == ERANGE) {
        return out;
    }
    if (magnitude <= (unsigned long long)INT64_MAX) {
        out.kind = AISIM_NUMBER_INTEGER;
        out.integer = negative ? -(int64_t)magnitude : (int64_t)magnitude;
    } else if (negative && magnitude == (unsigned long long)INT64_MAX + 1) {
        out.kind = AISIM_NUMBER_INTEGER;
        out.integer = INT64_MIN;
    } else if (!negative) {
        out.kind = AISIM_NUMBER_UNSIGNED;
        out.integer = (int64_t)magnitude;
    }
    return out;
}

static bool all_of(const char *text, const char *set)
{
    return text[0] != '\0' && text[strspn(text, set)] == '\0';
}

static bool one_of(const char *text, const char *a, const char *b, const char *c)
{
    return strcmp(text, a) == 0 || strcmp(text, b) == 0 || strcmp(text, c) == 0;
}

aisim_number aisim_number_scan(const char *text)
{
    aisim_number none = {AISIM_NUMBER_NONE, 0, 0};
    if (strlen(text) > SCAN_MAX) {
        return none;
    }
    if (one_of(text, ".nan", ".NaN", ".NAN")) {
        return (aisim_number){AISIM_NUMBER_REAL, 0, (double)NAN};
    }
    if (text[0] == '0' && text[1] == 'x' && all_of(text + 2, "0123456789abcdefABCDEF")) {
        return integer_of(text + 2, 16, false, INFINITY);
    }
    if (text[0] == '0' && text[1] == 'o' && all_of(text + 2, "01234567")) {
        return integer_of(text + 2, 8, false, INFINITY);
    }
    bool negative = text[0] == '-', real;
    if (negative || text[0] == '+') {
        text++;
    }
    if (one_of(text, ".inf", ".Inf", ".INF")) {
        return (aisim_number){AISIM_NUMBER_REAL, 0,
                              negative ? -(double)INFINITY : (double)INFINITY};
    }
    size_t n = decimal_length(text, &real);
    if (n == 0 || text[n] != '\0') {
        return none;
    }
    double x = convert(text, n);
    x = negative ? -x : x;
    return real ? (aisim_number){AISIM_NUMBER_REAL, 0, x} : integer_of(text, 10, negative, x);
}

/* ---- units ----------------------------------------------------------------------------------- */

typedef struct unit_row {
    const char *name;
    double factor;
} unit_row;

static const unit_row count_units[] = {
    {"k", 1e3},        {"K", 1e3},           {"M", 1e6},
    {"G", 1e9},        {"T", 1e12},          {"Ki", 1024.0},
    {"Mi", 1048576.0}, {"Gi", 1073741824.0}, {"Ti", 1099511627776.0},
};
static const unit_row byte_units[] = {
    {"B", 1.0},
    {"kB", 1e3},
    {"KB", 1e3},
    {"MB", 1e6},
    {"GB", 1e9},
    {"TB", 1e12},
    {"KiB", 1024.0},
    {"MiB", 1048576.0},
    {"kiB", 1024.0},
    {"GiB", 1073741824.0},
    {"TiB", 1099511627776.0},
};
/* in nanoseconds, so that every factor is a whole number */
static const unit_row time_units[] = {
    {"ns", 1.0}, {"us", 1e3},   {"µs", 1e3},   {"ms", 1e6},    {"s", 1e9},
    {"m", 6e10}, {"min", 6e10}, {"h", 3.6e12}, {"d", 8.64e13},
};

#define ROWS(table) (sizeof(table) / sizeof *(table))

static bool unit_factor(const char *name, const unit_row *rows, size_t n, double *out)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            *out = rows[i].factor;
            return true;
        }
    }
    return false;
}

bool aisim_number_scan_unit(const char *text, aisim_unit unit, double *out)
{
    bool real, negative = text[0] == '-';
    if (negative || text[0] == '+') {
        text++;
    }
    size_t n = strlen(text) > SCAN_MAX ? 0 : decimal_length(text, &real);
    if (n == 0) {
        return false;
    }
    const char *name = text + n + (text[n] == ' ' ? 1 : 0);
    double factor, divisor = 1.0;
    bool known = false;
    if (unit == AISIM_UNIT_COUNT || unit == AISIM_UNIT_BYTES) {
        known =
            unit_factor(name, count_units, ROWS(count_units), &factor) ||
            (unit == AISIM_UNIT_BYTES && unit_factor(name, byte_units, ROWS(byte_units), &factor));
    } else {
        known = unit_factor(name, time_units, ROWS(time_units), &factor);
        divisor = unit == AISIM_UNIT_MILLISECONDS ? 1e6 : 1e9;
    }
    if (!known) {
        return false;
    }
    double x = convert(text, n) * factor / divisor;
    *out = negative ? -x : x;
    return true;
}

/* ---- writing --------------------------------------------------------------------------------- */

char *aisim_number_show_plain(double x, char out[AISIM_NUMBER_SIZE])
{
    if (isnan(x)) {
        return strcpy(out, ".nan");
    }
    if (isinf(x)) {
        return strcpy(out, x > 0 ? ".inf" : "-.inf");
    }
    const char *point = localeconv()->decimal_point;
    for (int precision = 1; precision <= 17; precision++) {
        snprintf(out, AISIM_NUMBER_SIZE, "%.*g", precision, x);
        if (precision == 17 || strtod(out, NULL) == x) {
            break;
        }
    }
    if (strchr(out, 'e') != NULL && fabs(x) < 1e15 && fabs(x) >= 1 && x == floor(x)) {
        snprintf(out, AISIM_NUMBER_SIZE, "%.0f", x); /* 120000, not 1.2e+05 */
    }
    char *found = strstr(out, point);
    if (found != NULL && strcmp(point, ".") != 0) {
        size_t width = strlen(point);
        *found = '.';
        memmove(found + 1, found + width, strlen(found + width) + 1);
    }
    return out;
}

char *aisim_number_show(double x, char out[AISIM_NUMBER_SIZE])
{
    aisim_number_show_plain(x, out);
    if (out[strspn(out, "-0123456789")] == '\0') {
        strcat(out, ".0");
    }
    return out;
}
