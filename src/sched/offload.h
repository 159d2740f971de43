/* offload.h - a rank with a host tier: what it stores, what it loads back, who waits for it
 * (spec/offload.md §5, §7, §8; host/host.h is the tier itself).
 *
 * Requests that wait for a transfer stand in the *connector queue*, in the order of their first
 * deferral, and are examined before the waiting queue. A sleeper is passed over until some transfer
 * of the rank has ended; `ready` says whether anybody is worth examining, so sleepers cost nothing.
 * When the walk stops at a head without room, requests whose load is done are tried all the same:
 * they hold blocks, so a head that waits for these would wait for ever (a decision beyond §7.5).
 *
 * The headroom of E-R3 is one number, moved by what each request contributes: unfinished prefills
 * keep theirs in their running entry, loads in their connector entry. */
#ifndef AISIM_SCHED_OFFLOAD_H
#define AISIM_SCHED_OFFLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/array.h"
#include "host/host.h"

struct aisim_rank;
struct aisim_request;
struct aisim_head_hit;

typedef enum {
    AISIM_CONNECTOR_SLEEPING, /* deferred: examined again after a transfer */
    AISIM_CONNECTOR_AWAKE,
    AISIM_CONNECTOR_LOADING,
    AISIM_CONNECTOR_LOADED /* activated: the lease holds the loaded prefix */
} aisim_connector_stage;

typedef struct aisim_connector_entry {
    uint32_t slot;
    uint32_t job;           /* LOADING: the load */
    uint32_t device_blocks; /* LOADING, LOADED: prefix found on the device */
    uint32_t loaded_blocks; /* with the run behind it */
    uint32_t headroom;      /* E-R2 */
    int64_t start_ns;       /* LOADING: its blocks may be read by a store until then */
    uint8_t stage;          /* aisim_connector_stage */
    bool resumed;           /* it was preempted: queued as decode (E-F1) */
} aisim_connector_entry;

typedef struct aisim_offload {
    aisim_host *host; /* NULL = no host tier */
    AISIM_ARRAY(aisim_connector_entry) queue;
    uint32_t ready;                /* entries AWAKE or LOADED */
    uint64_t headroom;             /* E-R3 */
    int64_t compute_not_before_ns; /* §5.1: the fence of private lanes */
    int64_t fence_ns;              /* total by which it delayed passes */
    bool withdrawn;                /* a load was cancelled while a pass is in flight */
} aisim_offload;

/** Gives the rank its host tier, before anything happens. */
void aisim_offload_attach(struct aisim_rank *rank, aisim_host *host);
void aisim_offload_deinit(struct aisim_rank *rank);

/* ---- inside a plan ------------------------------------------------------------------------- */

/** First connector entry worth examining, AISIM_NONE = none. */
uint32_t aisim_offload_head(const struct aisim_rank *rank);

/** First connector entry behind that of `slot` (AISIM_NONE = from the begin) whose load is done,
 *  AISIM_NONE = none. It has most of its blocks already: when the head finds no room, it may still
 *  go on, and if nothing else moves, only its end makes room. */
uint32_t aisim_offload_loaded_behind(const struct aisim_rank *rank, uint32_t slot);

typedef enum {
    AISIM_OFFLOAD_GO_ON, /* admit it with the hit */
    AISIM_OFFLOAD_NEXT,  /* it sleeps or loads now: next head */
    AISIM_OFFLOAD_STOP   /* nobody behind it is looked at in this pass */
} aisim_offload_step;

/** §7.2-§7.4 for the head after its device lookup. An activated request gets its frozen hit. */
aisim_offload_step aisim_offload_examine(struct aisim_rank *rank, uint32_t slot,
                                         struct aisim_head_hit *hit);
/** The request has its load behind it; a device lookup is of no use. */
bool aisim_offload_loaded(const struct aisim_rank *rank, const struct aisim_request *r);

/** §5: stores of the requests scheduled in the plan, in running order; then the fence is known. */
void aisim_offload_close_plan(struct aisim_rank *rank);

/** E-O4: when a pass planned at t_ns may begin to compute; the delay is counted. */
int64_t aisim_offload_start(struct aisim_rank *rank, int64_t t_ns);

/** E-R1: the contribution of a running request after its C, A, q or L changed. */
void aisim_offload_refresh(struct aisim_rank *rank, uint32_t slot);

/* ---- between plans ------------------------------------------------------------------------- */

/** The pass has ended: its stores are submitted (§5), then what has ended by now is delivered. */
void aisim_offload_pass_end(struct aisim_rank *rank, int64_t end_ns);

/** Transfers that ended by t_ns: blocks become visible, sleepers wake (§7.5, §7.6). No pass is in
 *  flight. @return whether anything ended */
bool aisim_offload_transfers(struct aisim_rank *rank, int64_t t_ns);

/** When the next transfer of a private tier ends, AISIM_NEVER = none moves. */
int64_t aisim_offload_next(const struct aisim_rank *rank);

/** The request leaves the connector queue: admitted, rejected or cancelled. No-op elsewhere. */
void aisim_offload_forget(struct aisim_rank *rank, uint32_t slot);
/** After a cancellation: a withdrawn load goes now, or at the end of the pass in flight (§8). */
void aisim_offload_settle_cancel(struct aisim_rank *rank, int64_t t_ns);

/** The worker stops: everything this rank has under way vanishes (§8). Its requests have left. */
void aisim_offload_leave(struct aisim_rank *rank, int64_t t_ns);

/** Recounts headroom and queue; expensive. */
void aisim_offload_verify(const struct aisim_rank *rank);

#endif
