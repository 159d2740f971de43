/* queue.h - the waiting requests of one rank: a heap by key, with removal by request.
 *
 * Order (E-V2, E-L2): preempted requests first, the one preempted last in front; then fresh ones by
 * arrival ordinal. Under `priority`: by (priority, ordinal) throughout. The key is one 64-bit
 * number, smallest first, so an arrival at the tail costs O(1) (the heap property already holds)
 * and everything else O(log n). request.position holds the place in the heap. With the scheduler
 * point `order` its number comes first and this key settles ties. */
#ifndef AISIM_SCHED_QUEUE_H
#define AISIM_SCHED_QUEUE_H

#include <stdbool.h>

#include "aisim/config.h"
#include "sched/requests.h"

/** Place of a request in a queue: smaller = earlier. */
typedef struct aisim_queue_key {
    uint64_t order; /* of the point `order`; 0 without it */
    uint64_t key;
} aisim_queue_key;

typedef struct aisim_queue {
    AISIM_ARRAY(uint64_t) keys; /* two arrays, 12 bytes a request */
    AISIM_ARRAY(uint32_t) slots;
    AISIM_ARRAY(uint64_t) orders; /* only if ordered */
    uint64_t fronts;              /* insertions at the front so far */
    bool ordered;                 /* the point `order` is set */
} aisim_queue;

/** Key of a request that arrives or returns, without the point. */
uint64_t aisim_queue_key_of(aisim_queue *queue, const aisim_request *r, aisim_policy policy);

/** The number of the point as a key: same order. @param number  finite */
uint64_t aisim_queue_order_of(double number);

void aisim_queue_push(aisim_queue *queue, aisim_requests *table, uint32_t slot,
                      aisim_queue_key key);

/** Key of the request at place i of the heap. */
static inline aisim_queue_key aisim_queue_at(const aisim_queue *queue, uint32_t i)
{
    aisim_queue_key key = {queue->ordered ? queue->orders.data[i] : 0, queue->keys.data[i]};
    return key;
}

/** a stands before b. */
static inline bool aisim_queue_before(aisim_queue_key a, aisim_queue_key b)
{
    return a.order != b.order ? a.order < b.order : a.key < b.key;
}

/** Slot of the head, AISIM_NONE when empty. */
static inline uint32_t aisim_queue_head(const aisim_queue *queue)
{
    return queue->slots.len == 0 ? AISIM_NONE : queue->slots.data[0];
}

/** Removes a request wherever it stands. */
void aisim_queue_remove(aisim_queue *queue, aisim_requests *table, uint32_t slot);

/** All slots in queue order into out (room for slots.len). O(n log n); for tests and reports. */
void aisim_queue_sorted(const aisim_queue *queue, uint32_t *out);

void aisim_queue_deinit(aisim_queue *queue);

/** Count, sum and sum of squares of lengths under insertion and removal: exact (E-F1). */
typedef struct aisim_length_stats {
    uint64_t count;
    uint64_t sum;
    uint64_t squares_low, squares_high; /* 128 bits */
} aisim_length_stats;

void aisim_length_add(aisim_length_stats *stats, uint64_t length);
void aisim_length_remove(aisim_length_stats *stats, uint64_t length);
/** Population variance; 0 when empty. */
double aisim_length_variance(const aisim_length_stats *stats);

#endif
