/* status.c - names and texts of status codes, and the one way to fill an error record. */
#include "aisim/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *aisim_status_name(aisim_status code)
{
    switch (code) {
#define X(name, text)                                                                              \
    case AISIM_##name:                                                                             \
        return #name;
        AISIM_STATUS_LIST(X)
#undef X
    }
    return "?";
}

const char *aisim_status_text(aisim_status code)
{
    switch (code) {
#define X(name, text)                                                                              \
    case AISIM_##name:                                                                             \
        return text;
        AISIM_STATUS_LIST(X)
#undef X
    }
    return "unknown status";
}

static aisim_status fail_v(aisim_error *err, aisim_status code, const char *file, int line,
                           int column, const char *format, va_list args)
{
    if (err == NULL || err->code != AISIM_OK) {
        return code;
    }
    err->code = code;
    err->line = line;
    err->column = column;
    err->file[0] = '\0';
    if (file != NULL) {
        snprintf(err->file, sizeof err->file, "%s", file);
    }
    vsnprintf(err->text, sizeof err->text, format, args);
    return code;
}

aisim_status aisim_fail(aisim_error *err, aisim_status code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fail_v(err, code, NULL, 0, 0, format, args);
    va_end(args);
    return code;
}

aisim_status aisim_fail_at(aisim_error *err, aisim_status code, const char *file, int line,
                           int column, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fail_v(err, code, file, line, column, format, args);
    va_end(args);
    return code;
}

char *aisim_error_format(const aisim_error *err, char *out, unsigned long size)
{
    if (err->file[0] == '\0') {
        snprintf(out, size, "%s", err->text);
    } else if (err->line == 0) {
        snprintf(out, size, "%s: %s", err->file, err->text);
    } else if (err->column == 0) {
        snprintf(out, size, "%s:%d: %s", err->file, err->line, err->text);
    } else {
        snprintf(out, size, "%s:%d:%d: %s", err->file, err->line, err->column, err->text);
    }
    return out;
}
