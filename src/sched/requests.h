/* requests.h - the live requests of a simulation: slots with generations, and what ranks share.
 *
 * A request is named by its slot inside the engine and by (slot, generation) outside, so a stale
 * handle is recognised. Slots move when the table grows: keep slots, not pointers. */
#ifndef AISIM_SCHED_REQUESTS_H
#define AISIM_SCHED_REQUESTS_H

#include "aisim/events.h"
#include "aisim/request.h"
#include "base/array.h"
#include "base/map.h"

typedef struct aisim_requests {
    AISIM_ARRAY(aisim_request) slots;
    uint32_t free_slot; /* chained through `position` */
    uint32_t live;
    uint32_t next_id;
} aisim_requests;

void aisim_requests_init(aisim_requests *table);
void aisim_requests_deinit(aisim_requests *table);

/** A zeroed record with the next id and an own generation; state CREATED, times -1. @return slot */
uint32_t aisim_requests_take(aisim_requests *table);
void aisim_requests_give(aisim_requests *table, uint32_t slot);

static inline aisim_request *aisim_requests_at(const aisim_requests *table, uint32_t slot)
{
    return &table->slots.data[slot];
}

static inline uint32_t aisim_requests_slot(const aisim_requests *table, const aisim_request *r)
{
    return (uint32_t)(r - table->slots.data);
}

/** L = P + G. */
static inline uint32_t aisim_known(const aisim_request *r)
{
    return r->prompt_tokens + r->generated;
}

/** What every rank of a simulation needs besides its own state. */
typedef struct aisim_engine {
    aisim_requests requests;
    aisim_content *content;
    aisim_observers observers;
    /** Called once when a request has ended, after its terminal event; the slot is freed after it.
     */
    void (*ended)(void *context, uint32_t slot);
    void *context;
} aisim_engine;

#endif
