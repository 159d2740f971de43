/* requests.h - the live requests of a simulation: slots with generations, and what ranks share.
 *
 * A request is named by its slot inside the engine and by (slot, generation) outside, so a stale
 * handle is recognised. Records lie in chunks and never move. */
#ifndef AISIM_SCHED_REQUESTS_H
#define AISIM_SCHED_REQUESTS_H

#include "aisim/events.h"
#include "aisim/request.h"
#include "aisim/status.h"
#include "base/array.h"
#include "base/map.h"
#include "base/profile.h"

enum { AISIM_REQUEST_CHUNK = 512 }; /* records */

typedef struct aisim_requests {
    AISIM_ARRAY(aisim_request *) chunks;
    uint32_t slots;     /* ever taken */
    uint32_t free_slot; /* chained through `position` */
    uint32_t live; /* shadows included */
    uint32_t shadows;
    uint32_t next_id;
} aisim_requests;

void aisim_requests_init(aisim_requests *table);
void aisim_requests_deinit(aisim_requests *table);

/** A zeroed record with the next id and an own generation; state CREATED, times -1. @return slot */
uint32_t aisim_requests_take(aisim_requests *table);
/** A record that stands for another request at a second rank: it has id 0 and nobody sees it.
 *  Copies what a reservation asks (aisim_rank_reserve); cookie = slot of the request. @return slot */
uint32_t aisim_requests_shadow(aisim_requests *table, uint32_t of);
void aisim_requests_give(aisim_requests *table, uint32_t slot);

static inline aisim_request *aisim_requests_at(const aisim_requests *table, uint32_t slot)
{
    return &table->chunks.data[slot / AISIM_REQUEST_CHUNK][slot % AISIM_REQUEST_CHUNK];
}

/** Slot of a record. */
static inline uint32_t aisim_requests_slot(const aisim_request *r)
{
    return r->lease.owner;
}

static inline bool aisim_end_is_rejection(aisim_end_reason reason)
{
    return reason >= AISIM_END_REJECTED_EMPTY && reason <= AISIM_END_REJECTED_ROUTER;
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
    /** Called when a hand-off source has finished and keeps its lease (E-K6). */
    void (*held)(void *context, uint32_t slot);
    /** A hand-off reservation has its blocks; called inside the rank, so note it and act later.
     *  NULL = nobody waits for it. */
    void (*reserved)(void *context, uint32_t slot);
    /** Called at the first token of a request; NULL = nobody counts prefill load. */
    void (*first_token)(void *context, uint32_t slot);
    /** Blocks became visible or were evicted, told at the pass end (E-H7), those of the host tier
     *  also at the end of a transfer; NULL = nobody asks. Of a shared tier any of its ranks tells.
     */
    void (*kv_changed)(void *context, uint32_t rank, aisim_tier tier, bool stored, uint32_t run,
                       uint32_t first, uint32_t count);
    bool kv_host; /**< kv_changed is told of the host tier too */
    /** Prompt tokens an infinite cache would reuse, -1 = unknown; NULL = nobody knows. */
    int64_t (*ideal)(void *context, const aisim_request *r);
    /** A scheduler point failed or answered nonsense: the run ends after this event. NULL = told
     *  to nobody. */
    void (*failed)(void *context, const aisim_error *err);
    void *context;
    int64_t now_ns; /* virtual time, kept by whoever drives the ranks */
    aisim_profile *profile; /**< NULL = nobody asks */
} aisim_engine;

static inline int64_t aisim_engine_ideal(const aisim_engine *engine, const aisim_request *r)
{
    return engine->ideal == NULL ? -1 : engine->ideal(engine->context, r);
}

#endif
