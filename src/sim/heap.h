/* heap.h - the event heap: (time, class, sequence), smallest first (A2).
 *
 * Entries are 32 bytes in a flat 4-ary heap. The earliest one may stand before the heap instead, in
 * `next`: what is pushed as the next event and popped at once, as the ends of passes are, never
 * moves anything. Cancelling is lazy: an entry that has lost its meaning
 * is recognised when it is popped (by the serial or generation it carries). */
#ifndef AISIM_SIM_HEAP_H
#define AISIM_SIM_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/array.h"

typedef enum {
    AISIM_ENTRY_PASS_END,   /* a = worker, b = serial */
    AISIM_ENTRY_PASS_BEGIN, /* a = worker */
    AISIM_ENTRY_ARRIVAL,    /* a = slot, b = generation */
    AISIM_ENTRY_TIMER,      /* a = timer, b = generation */
    AISIM_ENTRY_TRANSFER,   /* a = host tier */
    AISIM_ENTRY_HANDOFF,    /* a = slot, b = serial of the transfer */
    AISIM_ENTRY_STARTED     /* a = worker */
} aisim_entry_kind;

typedef struct aisim_entry {
    int64_t t_ns;
    uint64_t order; /* class in the top 8 bits, sequence below */
    uint32_t a, b;
    uint8_t kind;
    bool background;
} aisim_entry;

typedef struct aisim_heap {
    AISIM_ARRAY(aisim_entry) entries;
    uint64_t sequence;
    uint64_t foreground; /* entries that keep the run alive */
    bool ahead;          /* `next` is an entry; none in the heap is before it */
    aisim_entry next;
} aisim_heap;

void aisim_heap_push(aisim_heap *heap, int64_t t_ns, uint32_t class_, aisim_entry_kind kind,
                     uint32_t a, uint32_t b, bool background);
/** Number of an entry: entries pushed later have greater ones. */
static inline uint64_t aisim_entry_sequence(const aisim_entry *entry)
{
    return entry->order & (UINT64_MAX >> 8);
}

/** The earliest entry; the heap is not empty. */
static inline const aisim_entry *aisim_heap_top(const aisim_heap *heap)
{
    return heap->ahead ? &heap->next : heap->entries.data;
}

static inline bool aisim_heap_empty(const aisim_heap *heap)
{
    return !heap->ahead && heap->entries.len == 0;
}

/** Removes and returns the earliest entry; the heap is not empty. */
aisim_entry aisim_heap_pop(aisim_heap *heap);
void aisim_heap_deinit(aisim_heap *heap);

#endif
