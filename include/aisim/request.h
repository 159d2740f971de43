/* request.h - one request as everybody sees it. Read-only outside src/sched and src/sim.
 *
 * All times are virtual nanoseconds, -1 = has not happened. Symbols of spec/engine.md §1: P prompt,
 * O requested output, G generated, L = P + G known, C computed, A allocation watermark.
 * A record lives from creation to its terminal event; the pointer given to an observer is valid
 * during the call. */
#ifndef AISIM_REQUEST_H
#define AISIM_REQUEST_H

#include <stdint.h>

#include "aisim/content.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    AISIM_REQ_CREATED, /**< arrives later, or waits at the router */
    AISIM_REQ_WAITING, /**< at a rank, never admitted */
    AISIM_REQ_RUNNING,
    AISIM_REQ_PREEMPTED, /**< was running, lost its blocks */
    AISIM_REQ_SKIPPED,   /**< in the second queue: cannot be scheduled yet */
    AISIM_REQ_PENDING,   /**< hand-off destination: waits for blocks (engine.md §15) */
    AISIM_REQ_RESERVED,  /**< hand-off destination: blocks taken, transfer under way */
    AISIM_REQ_HELD,      /**< hand-off source: finished, its blocks are kept */
    AISIM_REQ_DONE
} aisim_request_state;

/** Why a request ended. REJECTED_*: `reason` of request.reject in spec/lua-api.md §6. */
typedef enum {
    AISIM_END_NONE,
    AISIM_END_LENGTH,
    AISIM_END_CONTEXT,
    AISIM_END_CANCELLED,
    AISIM_END_REJECTED_EMPTY,
    AISIM_END_REJECTED_CONTEXT,
    AISIM_END_REJECTED_CAPACITY,
    AISIM_END_REJECTED_ADMISSION, /**< by the admission function */
    AISIM_END_REJECTED_ROUTER,
    AISIM_END_FAILED /**< its worker was lost, or whatever served it gave up */
} aisim_end_reason;

/** "length", "context", "cancelled", "empty", …; never NULL. */
const char *aisim_end_reason_text(aisim_end_reason reason);

/** In what part of the run the request was issued; only profile requests are measured. */
typedef enum { AISIM_PHASE_PROFILE, AISIM_PHASE_PRIMER, AISIM_PHASE_WARMUP } aisim_phase;

/** What a request owns of its rank's KV cache (spec/engine.md §9). Blocks are not listed: the
 * leading `published` ones are found through the content path, the rest are anonymous. */
typedef struct aisim_lease {
    uint32_t run;       /**< content: leaf run of prompt + output */
    uint32_t allocated; /**< A, tokens with storage */
    uint32_t published; /**< leading blocks owned through the prefix index */
    uint32_t opaque;    /**< q, look-ahead blocks that belong to no entry yet (E-K3) */
    uint32_t owner;     /**< slot of the request, names its duplicates */
} aisim_lease;

#define AISIM_NO_CLIENT UINT16_MAX

typedef struct aisim_request {
    int64_t arrival_ns;     /**< the client sends it */
    int64_t dispatched_ns;  /**< the router placed it */
    int64_t first_admit_ns; /**< begin of the pass that first scheduled it */
    int64_t first_token_ns;
    int64_t second_token_ns;
    int64_t last_token_ns;
    int64_t waiting_since_ns; /**< arrival, or begin of the pass that preempted it */
    int64_t stall_ns;         /**< preemption to re-admission, summed */
    uint32_t cookie;          /**< free for whoever issued it */
    uint32_t id;              /**< 1, 2, … in order of creation */
    uint32_t ordinal;         /**< arrival ordinal at its rank's scheduler (E-L2) */
    aisim_lease lease;
    uint32_t prompt_tokens; /**< P */
    uint32_t output_tokens; /**< O, requested */
    uint32_t generated;     /**< G */
    uint32_t computed;      /**< C */
    uint32_t computed_high; /**< largest C before a preemption: below it work is done again */
    uint32_t first_reused;  /**< tokens reused at first admission (E-L4) */
    uint32_t max_reused;    /**< maximum over admissions, prompt tokens */
    uint32_t host_reused;   /**< part of first_reused that came from the host tier */
    uint32_t recomputed;    /**< tokens computed again after preemptions */
    uint32_t admissions;
    uint32_t preemptions;
    uint32_t position;        /**< in the waiting heap or the running list */
    uint32_t rank;            /**< global rank index from 0, AISIM_NONE = not placed */
    uint32_t session;         /**< session number, 0 = none */
    uint32_t generation;      /**< of this slot */
    int32_t priority;         /**< smaller = more urgent */
    uint32_t verifications;   /**< verifications so far: the step of the draws (mtp.md §2) */
    uint32_t accepted_drafts; /**< drafts accepted in them, before a burst is cut (mtp.md §7) */
    uint32_t stored_blocks;   /**< host tier: prompt blocks below need no store any more */
    uint16_t client;          /**< index of the issuing client, AISIM_NO_CLIENT = none */
    uint16_t turn;            /**< of its session, from 0 */
    uint16_t class_id;        /**< traffic class, index into the simulation's class names */
    uint8_t state;            /**< aisim_request_state */
    uint8_t phase;            /**< aisim_phase */
    uint8_t end;              /**< aisim_end_reason */
    uint8_t flags;            /**< AISIM_REQF_… */
    uint8_t drafts;           /**< outstanding drafts (mtp.md §3) */
    uint8_t outstanding;      /**< results of passes in flight that will still come (N1) */
} aisim_request; /* 184 bytes: a waiting request costs this, 12 for its queue entry, its content */

enum {
    AISIM_REQF_NO_READ = 1,  /**< may not read the prefix cache, still fills it */
    AISIM_REQF_DECIDING = 2, /**< DELAYED by its router: only the decision is still to come */
    AISIM_REQF_PREFILL = 4,  /**< at the prefill side: its first token ends its stay there */
    AISIM_REQF_RESUMED = 8,  /**< re-admitted after a preemption, still recomputing */
    AISIM_REQF_HOLD = 16,    /**< keeps its lease at the end (hand-off source) */
    AISIM_REQF_MOVED = 32,   /**< hand-off: a second pool has admitted it */
    AISIM_REQF_DELAYED = 64, /**< has arrived and is held back by the admission or the router */
    AISIM_REQF_ARRIVED = 128 /**< hand-off: no token since it came to the decode side */
};

#ifdef __cplusplus
}
#endif
#endif
