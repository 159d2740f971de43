/* queue.c - binary heap with back references, and exact length statistics. */
#include "sched/queue.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

uint64_t aisim_queue_key_of(aisim_queue *queue, const aisim_request *r, aisim_policy policy)
{
    if (policy == AISIM_POLICY_PRIORITY) {
        /* shift the signed priority to unsigned order */
        uint64_t urgency = (uint32_t)r->priority ^ UINT32_C(0x80000000);
        return urgency << 32 | r->ordinal;
    }
    if (r->state == AISIM_REQ_PREEMPTED) {
        return (UINT64_C(1) << 62) - ++queue->fronts; /* E-V2: in front of everything */
    }
    return (UINT64_C(1) << 62) + r->ordinal;
}

uint64_t aisim_queue_order_of(double number)
{
    double value = number == 0.0 ? 0.0 : number; /* one zero */
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint64_t sign = UINT64_C(1) << 63;
    return bits & sign ? ~bits : bits | sign;
}

static void place(aisim_queue *queue, aisim_requests *table, uint32_t i, aisim_queue_key key,
                  uint32_t slot)
{
    queue->keys.data[i] = key.key;
    queue->slots.data[i] = slot;
    if (queue->ordered) {
        queue->orders.data[i] = key.order;
    }
    aisim_requests_at(table, slot)->position = i;
}

static void sift_up(aisim_queue *queue, aisim_requests *table, uint32_t i, aisim_queue_key key,
                    uint32_t slot)
{
    while (i > 0 && aisim_queue_before(key, aisim_queue_at(queue, (i - 1) / 2))) {
        uint32_t parent = (i - 1) / 2;
        place(queue, table, i, aisim_queue_at(queue, parent), queue->slots.data[parent]);
        i = parent;
    }
    place(queue, table, i, key, slot);
}

static void sift_down(aisim_queue *queue, aisim_requests *table, uint32_t i, aisim_queue_key key,
                      uint32_t slot)
{
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child >= queue->keys.len) {
            break;
        }
        if (child + 1 < queue->keys.len &&
            aisim_queue_before(aisim_queue_at(queue, child + 1), aisim_queue_at(queue, child))) {
            child++;
        }
        if (!aisim_queue_before(aisim_queue_at(queue, child), key)) {
            break;
        }
        place(queue, table, i, aisim_queue_at(queue, child), queue->slots.data[child]);
        i = child;
    }
    place(queue, table, i, key, slot);
}

void aisim_queue_push(aisim_queue *queue, aisim_requests *table, uint32_t slot, aisim_queue_key key)
{
    aisim_array_push(&queue->keys, key.key);
    aisim_array_push(&queue->slots, slot);
    if (queue->ordered) {
        aisim_array_push(&queue->orders, key.order);
    }
    sift_up(queue, table, queue->keys.len - 1, key, slot);
}

void aisim_queue_remove(aisim_queue *queue, aisim_requests *table, uint32_t slot)
{
    uint32_t i = aisim_requests_at(table, slot)->position;
    AISIM_CHECK(i < queue->slots.len && queue->slots.data[i] == slot);
    aisim_requests_at(table, slot)->position = AISIM_NONE;
    aisim_queue_key key = aisim_queue_at(queue, queue->keys.len - 1);
    queue->keys.len--;
    queue->orders.len -= queue->ordered;
    uint32_t last = queue->slots.data[--queue->slots.len];
    if (i == queue->slots.len) {
        return;
    }
    if (i > 0 && aisim_queue_before(key, aisim_queue_at(queue, (i - 1) / 2))) {
        sift_up(queue, table, i, key, last);
    } else {
        sift_down(queue, table, i, key, last);
    }
}

typedef struct keyed {
    aisim_queue_key key;
    uint32_t slot;
} keyed;

static int by_key(const void *left, const void *right)
{
    const keyed *a = left, *b = right;
    return aisim_queue_before(b->key, a->key) - aisim_queue_before(a->key, b->key);
}

void aisim_queue_sorted(const aisim_queue *queue, uint32_t *out)
{
    uint32_t n = queue->slots.len;
    keyed *copy = aisim_alloc(n, sizeof *copy);
    for (uint32_t i = 0; i < n; i++) {
        copy[i] = (keyed){aisim_queue_at(queue, i), queue->slots.data[i]};
    }
    if (n > 0) {
        qsort(copy, n, sizeof *copy, by_key);
    }
    for (uint32_t i = 0; i < n; i++) {
        out[i] = copy[i].slot;
    }
    aisim_free(copy);
}

void aisim_queue_deinit(aisim_queue *queue)
{
    aisim_array_free(&queue->keys);
    aisim_array_free(&queue->slots);
    aisim_array_free(&queue->orders);
}

/* ---- length statistics ----------------------------------------------------------------------- */

/* length^2 < 2^64 for the 32-bit lengths of requests; the sum may need more. */
void aisim_length_add(aisim_length_stats *stats, uint64_t length)
{
    uint64_t square = length * length;
    stats->count++;
    stats->sum += length;
    stats->squares_low += square;
    stats->squares_high += stats->squares_low < square;
}

void aisim_length_remove(aisim_length_stats *stats, uint64_t length)
{
    uint64_t square = length * length;
    stats->count--;
    stats->sum -= length;
    stats->squares_high -= stats->squares_low < square;
    stats->squares_low -= square;
}

double aisim_length_variance(const aisim_length_stats *stats)
{
    if (stats->count == 0) {
        return 0.0;
    }
    double n = (double)stats->count;
    double mean = (double)stats->sum / n;
    double squares = (double)stats->squares_high * 0x1p64 + (double)stats->squares_low;
    double variance = squares / n - mean * mean;
    return variance > 0.0 ? variance : 0.0;
}
