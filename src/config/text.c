/* text.c - the zero byte is kept behind the last character, outside len. */
#include "config/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void aisim_text_add_n(aisim_text *text, const char *bytes, size_t n)
{
    aisim_array_reserve(text, text->len + n + 1);
    memcpy(text->data + text->len, bytes, n);
    text->len += (uint32_t)n;
    text->data[text->len] = '\0';
}

void aisim_text_add(aisim_text *text, const char *bytes)
{
    aisim_text_add_n(text, bytes, strlen(bytes));
}

void aisim_text_pad(aisim_text *text, char c, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        aisim_text_add_n(text, &c, 1);
    }
}

void aisim_text_format(aisim_text *text, const char *format, ...)
{
    char small[512];
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(small, sizeof small, format, args);
    va_end(args);
    if (n >= 0 && (size_t)n < sizeof small) {
        aisim_text_add_n(text, small, (size_t)n);
    } else if (n >= 0) {
        aisim_array_reserve(text, text->len + (uint32_t)n + 1);
        vsnprintf(text->data + text->len, (size_t)n + 1, format, again);
        text->len += (uint32_t)n;
    }
    va_end(again);
}

const char *aisim_text_get(const aisim_text *text)
{
    return text->data == NULL ? "" : text->data;
}

void aisim_text_free(aisim_text *text)
{
    aisim_array_free(text);
}
