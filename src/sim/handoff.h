/* handoff.h - inside src/sim: requests on their way through a prefill and a decode rank
 * (handoff.c).
 *
 * A request is one record. It is at the prefill rank until the transfer has ended and at the decode
 * rank afterwards; until then a shadow (aisim_requests_shadow) stands at the decode rank and holds
 * its reservation. What follows from an event of a rank (a reservation granted, a prompt computed)
 * is noted there and done after the event (sim_handoff_settle). */
#ifndef AISIM_SIM_HANDOFF_H
#define AISIM_SIM_HANDOFF_H

#include "aisim/sim.h"
#include "base/array.h"

typedef enum {
    HANDOFF_NONE,     /* takes no hand-off, or has it behind it */
    HANDOFF_ROUTING,  /* a router has still to place it, the prefill pool's first */
    HANDOFF_DECIDING, /* the delay of the decode router is running */
    HANDOFF_PENDING,  /* both ends are chosen, the decode rank has not granted the blocks */
    HANDOFF_PREFILL,  /* at the prefill rank */
    HANDOFF_TRANSFER
} sim_handoff_stage;

typedef struct sim_handoff {
    sim_handoff_stage stage;
    uint32_t id;                        /* of the request; the ends are kept while it lives */
    uint32_t prefill_rank, decode_rank; /* AISIM_NONE = not chosen */
    uint32_t shadow;                    /* slot, AISIM_NONE = none */
    uint32_t serial;                    /* of its transfer, or of its decision */
    int64_t since_ns;                   /* it waits for its router */
    int64_t held_ns, begin_ns;          /* prompt computed; transfer starts */
    uint64_t bytes;
} sim_handoff;

typedef AISIM_ARRAY(uint32_t) sim_slots;

typedef struct sim_handoffs {
    bool on; /* there are pools for it */
    uint32_t prefill_pool, decode_pool;
    aisim_handoff_config config;
    aisim_decide_fn decide;
    void *decide_context;
    AISIM_ARRAY(sim_handoff) of; /* by slot */
    uint32_t serial;
    bool todo;                         /* one of the lists is not empty */
    AISIM_ARRAY(aisim_handle) granted; /* reservations that have got their blocks */
    AISIM_ARRAY(aisim_handle) held;    /* prompts computed */
    sim_slots left;                    /* workers that a request has left */
} sim_handoffs;

void sim_handoffs_free(aisim_sim *sim);
/** A pool of this role can be added. */
aisim_status sim_handoff_check_pool(const aisim_sim *sim, const aisim_pool_config *config,
                                    aisim_error *err);
/** A pool was added. */
void sim_handoff_pool(aisim_sim *sim, uint32_t pool);
/** A run can begin: both roles or neither. */
aisim_status sim_handoff_check(const aisim_sim *sim, aisim_error *err);
/** An arriving request for one of the two pools chooses its way: position = pool to be routed in.
 *  @return false = the decider failed, the run ends */
bool sim_handoff_arrive(aisim_sim *sim, uint32_t slot);
/** It is between its arrival and its activation at a decode rank. */
bool sim_handoff_under_way(const aisim_sim *sim, uint32_t slot);
/** A router has chosen a rank for a request that is under way. */
void sim_handoff_place(aisim_sim *sim, uint32_t slot, uint32_t rank, int64_t overlap);
/** The transfer, or the delay of the decode router, on the heap has ended. */
void sim_handoff_due(aisim_sim *sim, uint32_t slot);
/** The entry names a transfer or a delay that is still under way. */
bool sim_handoff_moves(const aisim_sim *sim, uint32_t slot, uint32_t serial);
/** Which of its two routers places it, for request.route. */
void sim_handoff_stage_of(const aisim_sim *sim, uint32_t slot, aisim_event *event);
/** Does what was noted during an event. */
void sim_handoff_settle(aisim_sim *sim);
/** The request is over: what it holds besides its own rank goes back. */
void sim_handoff_over(aisim_sim *sim, uint32_t slot);
/** A worker stops: adds those whose hand-off has an end there, besides those that run or wait
 * there, to the list and gives their blocks back on both sides; by id. */
void sim_handoff_lose(aisim_sim *sim, uint32_t worker, sim_slots *lost);
/** A request lost by a worker starts again, off the books of its other end too.
 *  @return the pool whose router places it first */
uint32_t sim_handoff_restart(aisim_sim *sim, uint32_t slot);

#endif
