/* emit.h - a value tree as YAML, as JSON, and as a digest.
 *
 * Keys come in the order of the tree; a tree from aisim_schema_resolve is in the order of the
 * schema, so that the same configuration gives the same bytes however its file was ordered.
 * Doubles are the shortest text that reads back the same. */
#ifndef AISIM_CONFIG_EMIT_H
#define AISIM_CONFIG_EMIT_H

#include <stdint.h>

#include "config/text.h"
#include "config/value.h"

/** Appends the tree as block YAML, one key a line, lists of scalars in [flow] form; ends with a
 *  newline. aisim_yaml_text reads it back to an equal tree (foreign values become texts). */
void aisim_emit_yaml(const aisim_value *value, aisim_text *out);

/** Same, with " # default", " # --set …" or nothing behind each scalar (aisim check). */
void aisim_emit_yaml_origins(const aisim_value *value, aisim_text *out);

/** Appends the tree as JSON on one line. Not-a-number and infinities become null. */
void aisim_emit_json(const aisim_value *value, aisim_text *out);

/** FNV-1a, 64 bits, of the JSON text: the digest of a configuration. */
uint64_t aisim_value_digest(const aisim_value *value);

#endif
