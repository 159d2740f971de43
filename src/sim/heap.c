/* heap.c - 4-ary heap of events, and the one entry before it. */
#include "sim/heap.h"

#include <assert.h>

static_assert(sizeof(aisim_entry) == 32, "an event is half a cache line");

static bool before(const aisim_entry *x, const aisim_entry *y)
{
    return x->t_ns < y->t_ns || (x->t_ns == y->t_ns && x->order < y->order);
}

static void sift_in(aisim_heap *heap, aisim_entry entry)
{
    aisim_array_push(&heap->entries, entry);
    aisim_entry *e = heap->entries.data;
    uint32_t i = heap->entries.len - 1;
    while (i > 0 && before(&entry, &e[(i - 1) / 4])) {
        e[i] = e[(i - 1) / 4];
        i = (i - 1) / 4;
    }
    e[i] = entry;
}

void aisim_heap_push(aisim_heap *heap, int64_t t_ns, uint32_t class_, aisim_entry_kind kind,
                     uint32_t a, uint32_t b, bool background)
{
    aisim_entry entry = {.t_ns = t_ns,
                         .order = (uint64_t)class_ << 56 | heap->sequence++,
                         .a = a,
                         .b = b,
                         .kind = (uint8_t)kind,
                         .background = background};
    heap->foreground += !background;
    bool earliest = heap->ahead ? before(&entry, &heap->next)
                                : heap->entries.len == 0 || before(&entry, heap->entries.data);
    if (!earliest) {
        sift_in(heap, entry);
        return;
    }
    if (heap->ahead) {
        sift_in(heap, heap->next);
    }
    heap->next = entry;
    heap->ahead = true;
}

/* The root of the heap. */
static aisim_entry sift_out(aisim_heap *heap)
{
    aisim_entry *e = heap->entries.data;
    aisim_entry top = e[0];
    aisim_entry last = e[--heap->entries.len];
    uint32_t n = heap->entries.len, i = 0;
    for (;;) {
        uint32_t first = 4 * i + 1, best = first;
        if (first >= n) {
            break;
        }
        for (uint32_t c = first + 1; c < first + 4 && c < n; c++) {
            if (before(&e[c], &e[best])) {
                best = c;
            }
        }
        if (!before(&e[best], &last)) {
            break;
        }
        e[i] = e[best];
        i = best;
    }
    if (n > 0) {
        e[i] = last;
    }
    return top;
}

aisim_entry aisim_heap_pop(aisim_heap *heap)
{
    aisim_entry top = heap->ahead ? heap->next : sift_out(heap);
    heap->ahead = false;
    heap->foreground -= !top.background;
    return top;
}

void aisim_heap_deinit(aisim_heap *heap)
{
    aisim_array_free(&heap->entries);
}
