/* alloc.h - the one place that calls malloc.
 *
 * Rooms above base never call malloc themselves: they use the growable arrays and pools of base,
 * which come here. When memory runs out the process says how much was wanted and ends with exit
 * status 3 (resource limit, spec/cli.md): no caller can do better half-way through a pass, and
 * files are only renamed to their final names when they are complete. */
#ifndef AISIM_BASE_ALLOC_H
#define AISIM_BASE_ALLOC_H

#include <stddef.h>

/** n elements of size bytes, uninitialised. n * size = 0 gives NULL. Never NULL otherwise. */
void *aisim_alloc(size_t n, size_t size);

/** Same, filled with zero bytes. */
void *aisim_alloc_zero(size_t n, size_t size);

/** Grows or shrinks; NULL allowed. Never NULL unless n * size = 0 (which frees). */
void *aisim_realloc(void *memory, size_t n, size_t size);

/** A copy of the text, to be freed with aisim_free. */
char *aisim_strdup(const char *text);

/** NULL allowed. */
void aisim_free(void *memory);

#endif
