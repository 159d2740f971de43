/* yaml.h - reads YAML 1.2 (and so JSON) into a value tree with a line and column on every value.
 *
 * Taken: block and flow maps and lists, plain, quoted and block scalars, comments, anchors and
 * aliases (an alias is a copy; its positions are those of the anchor). Plain scalars follow the
 * YAML 1.2 core schema: true/false, null or ~, 12, 0x1f, 0o17, 1.5e3, .inf, .nan; "yes", "on" and
 * 12:30 are texts, and so is everything quoted.
 *
 * Refused, each with its place: tags, merge keys (<<), keys that are no scalars, duplicate keys, a
 * second document, tabs in the indentation, zero bytes, and whatever passes the limits below. */
#ifndef AISIM_CONFIG_YAML_H
#define AISIM_CONFIG_YAML_H

#include <stddef.h>

#include "config/value.h"

enum {
    AISIM_YAML_MAX_BYTES = 16 << 20, /**< of one text */
    AISIM_YAML_MAX_VALUES = 1000000, /**< of one text, copies by aliases included */
    AISIM_YAML_MAX_KEYS = 10000,     /**< of one map */
    AISIM_YAML_MAX_KEY = 255,        /**< bytes of one key */
    AISIM_YAML_MAX_ANCHORS = 1000    /**< of one text */
};                                   /* nesting: AISIM_VALUE_MAX_DEPTH */

/** Reads a file.
 *  @param out  receives the tree, owned by the caller; null for an empty file. Untouched on error
 *  @return AISIM_OK, AISIM_EIO (cannot be read), AISIM_EPARSE, AISIM_ELIMIT. */
aisim_status aisim_yaml_file(const char *path, aisim_value **out, aisim_error *err);

/** Reads a text of the given length.
 *  @param source  where it comes from, for the marks. A source of origin SET (a flag) gets no line
 *                 and column: the whole flag is the place
 *  @return as aisim_yaml_file, without AISIM_EIO. */
aisim_status aisim_yaml_text(const char *text, size_t length, aisim_source *source,
                             aisim_value **out, aisim_error *err);

/** What a plain scalar means: true, 12, 1.5, null or the text itself. Never fails. */
aisim_value *aisim_yaml_scalar(aisim_mark mark, const char *text);

#endif
