/* array.h - growable array, typed by a macro.
 *
 *     AISIM_ARRAY(uint32_t) queue = {0};
 *     aisim_array_push(&queue, 7);
 *     for (uint32_t i = 0; i < queue.len; i++) use(queue.data[i]);
 *     aisim_array_free(&queue);
 *
 * Grows by doubling and keeps its capacity, so a pass in steady state allocates nothing.
 * Elements move when it grows: keep indices, not pointers. */
#ifndef AISIM_BASE_ARRAY_H
#define AISIM_BASE_ARRAY_H

#include <stdint.h>
#include <string.h>

#include "base/alloc.h"

#define AISIM_ARRAY(type)                                                                          \
    struct {                                                                                       \
        type *data;                                                                                \
        uint32_t len;                                                                              \
        uint32_t cap;                                                                              \
    }

/** Room for n elements in all. */
#define aisim_array_reserve(a, n)                                                                  \
    do {                                                                                           \
        uint32_t aisim_need_ = (uint32_t)(n);                                                      \
        if (aisim_need_ > (a)->cap) {                                                              \
            uint32_t aisim_cap_ = (a)->cap < 8 ? 8 : (a)->cap;                                     \
            while (aisim_cap_ < aisim_need_) {                                                     \
                aisim_cap_ *= 2;                                                                   \
            }                                                                                      \
            (a)->data = aisim_realloc((a)->data, aisim_cap_, sizeof *(a)->data);                   \
            (a)->cap = aisim_cap_;                                                                 \
        }                                                                                          \
    } while (0)

#define aisim_array_push(a, ...)                                                                   \
    do {                                                                                           \
        aisim_array_reserve((a), (a)->len + 1);                                                    \
        (a)->data[(a)->len++] = __VA_ARGS__;                                                       \
    } while (0)

/** Removes element i, keeping the order of the rest. O(n - i). */
#define aisim_array_remove(a, i)                                                                   \
    do {                                                                                           \
        uint32_t aisim_at_ = (uint32_t)(i);                                                        \
        memmove((a)->data + aisim_at_, (a)->data + aisim_at_ + 1,                                  \
                ((a)->len - aisim_at_ - 1) * sizeof *(a)->data);                                   \
        (a)->len--;                                                                                \
    } while (0)

#define aisim_array_free(a)                                                                        \
    do {                                                                                           \
        aisim_free((a)->data);                                                                     \
        (a)->data = NULL;                                                                          \
        (a)->len = (a)->cap = 0;                                                                   \
    } while (0)

#endif
