/* queue.c - binary heap with back references, and exact length statistics. */
#include "sched/queue.h"

#include <stdlib.h>

#include "base/check.h"

uint64_t aisim_queue_key(aisim_queue *queue, const aisim_request *r, aisim_policy policy)
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

static void place(aisim_queue *queue, aisim_requests *table, uint32_t i, aisim_queue_item item)
{
    queue->heap.data[i] = item;
    aisim_requests_at(table, item.slot)->position = i;
}

static void sift_up(aisim_queue *queue, aisim_requests *table, uint32_t i, aisim_queue_item item)
{
    while (i > 0 && queue->heap.data[(i - 1) / 2].key > item.key) {
        place(queue, table, i, queue->heap.data[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    place(queue, table, i, item);
}

static void sift_down(aisim_queue *queue, aisim_requests *table, uint32_t i, aisim_queue_item item)
{
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child >= queue->heap.len) {
            break;
        }
        if (child + 1 < queue->heap.len &&
            queue->heap.data[child + 1].key < queue->heap.data[child].key) {
            child++;
        }
        if (queue->heap.data[child].key >= item.key) {
            break;
        }
        place(queue, table, i, queue->heap.data[child]);
        i = child;
    }
    place(queue, table, i, item);
}

void aisim_queue_push(aisim_queue *queue, aisim_requests *table, uint32_t slot, uint64_t key)
{
    aisim_queue_item item = {key, slot};
    aisim_array_push(&queue->heap, item);
    sift_up(queue, table, queue->heap.len - 1, item);
}

void aisim_queue_remove(aisim_queue *queue, aisim_requests *table, uint32_t slot)
{
    uint32_t i = aisim_requests_at(table, slot)->position;
    AISIM_CHECK(i < queue->heap.len && queue->heap.data[i].slot == slot);
    aisim_requests_at(table, slot)->position = AISIM_NONE;
    aisim_queue_item last = queue->heap.data[--queue->heap.len];
    if (i == queue->heap.len) {
        return;
    }
    if (i > 0 && queue->heap.data[(i - 1) / 2].key > last.key) {
        sift_up(queue, table, i, last);
    } else {
        sift_down(queue, table, i, last);
    }
}

static int by_key(const void *left, const void *right)
{
    const aisim_queue_item *a = left, *b = right;
    return (a->key > b->key) - (a->key < b->key);
}

void aisim_queue_sorted(const aisim_queue *queue, uint32_t *out)
{
    uint32_t n = queue->heap.len;
    aisim_queue_item *copy = aisim_alloc(n, sizeof *copy);
    for (uint32_t i = 0; i < n; i++) {
        copy[i] = queue->heap.data[i];
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
    aisim_array_free(&queue->heap);
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
