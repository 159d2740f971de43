/* alloc.c - malloc with overflow check and one way to end when memory is gone. */
#include "base/alloc.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Noreturn void out_of_memory(size_t n, size_t size)
{
    fprintf(stderr, "aisim: out of memory: %zu x %zu bytes wanted\n", n, size);
    _Exit(3);
}

void *aisim_alloc(size_t n, size_t size)
{
    if (n == 0 || size == 0) {
        return NULL;
    }
    if (n > SIZE_MAX / size) {
        out_of_memory(n, size);
    }
    void *memory = malloc(n * size);
    if (memory == NULL) {
        out_of_memory(n, size);
    }
    return memory;
}

void *aisim_alloc_zero(size_t n, size_t size)
{
    if (n == 0 || size == 0) {
        return NULL;
    }
    void *memory = calloc(n, size);
    if (memory == NULL) {
        out_of_memory(n, size);
    }
    return memory;
}

void *aisim_realloc(void *memory, size_t n, size_t size)
{
    if (n == 0 || size == 0) {
        free(memory);
        return NULL;
    }
    if (n > SIZE_MAX / size) {
        out_of_memory(n, size);
    }
    void *grown = realloc(memory, n * size);
    if (grown == NULL) {
        out_of_memory(n, size);
    }
    return grown;
}

char *aisim_strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = aisim_alloc(size, 1);
    memcpy(copy, text, size);
    return copy;
}

void aisim_free(void *memory)
{
    free(memory);
}
