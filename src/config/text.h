/* text.h - growable text: always ends in a zero byte, appends only.
 *
 *     aisim_text out = {0};
 *     aisim_text_add(&out, "blocks: ");
 *     aisim_text_format(&out, "%u", n);
 *     puts(aisim_text_get(&out));
 *     aisim_text_free(&out); */
#ifndef AISIM_CONFIG_TEXT_H
#define AISIM_CONFIG_TEXT_H

#include <stddef.h>

#include "base/array.h"

typedef AISIM_ARRAY(char) aisim_text;

/** Appends n bytes. */
void aisim_text_add_n(aisim_text *text, const char *bytes, size_t n);

/** Appends a text. */
void aisim_text_add(aisim_text *text, const char *bytes);

/** Appends one character n times. */
void aisim_text_pad(aisim_text *text, char c, size_t n);

/** Appends printf output. Not for doubles: the decimal point follows the locale (number.h). */
void aisim_text_format(aisim_text *text, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

/** The text so far, never NULL; valid until the next append. */
const char *aisim_text_get(const aisim_text *text);

void aisim_text_free(aisim_text *text);

#endif
