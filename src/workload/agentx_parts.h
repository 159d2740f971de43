/* agentx_parts.h - the state of the AgentX client, shared by agentx*.c; private.
 *
 * Who owns what: agentx.c the phases and the order at one instant, agentx_prepare.c primers and
 * warmup, agentx_lane.c the live play of a lane, agentx_server.c handles and answers.
 *
 * Ready times of a lane are kept on a clock that idle shifts do not touch: stored = real + the
 * lane's shift_ns. A shift moves every gate and every fired edge of the unsent requests at once by
 * adding to shift_ns, in O(1).
 *
 * Invariants: a request is a timer exactly when all its live edges have fired and it is unsent;
 * lane.outstanding is the number of its sent requests without terminal; lane.open the number of
 * requests of its play without terminal that are not skipped. */
#ifndef AISIM_WORKLOAD_AGENTX_PARTS_H
#define AISIM_WORKLOAD_AGENTX_PARTS_H

#include "base/array.h"
#include "base/check.h"
#include "base/clock.h"
#include "workload/agentx.h"
#include "workload/agentx_mintree.h"
#include "workload/agentx_snapshot.h"

typedef enum {
    AISIM_TURN_HISTORY, /* before the cut, or sent ahead: never executed */
    AISIM_TURN_WAITING, /* an edge has not fired */
    AISIM_TURN_TIMER,   /* waits for its ready time only */
    AISIM_TURN_SENT,
    AISIM_TURN_ENDED,
    AISIM_TURN_SKIPPED /* will never be sent */
} aisim_turn_state;

typedef struct aisim_turn {
    int64_t ready_ns; /* on the lane's unshifted clock */
    uint32_t waiting; /* live incoming edges that have not fired */
    uint32_t handle;  /* index, while sent */
    uint8_t state;    /* aisim_turn_state */
} aisim_turn;

typedef struct aisim_lane {
    const aisim_play *play; /* NULL: no live play */
    aisim_agentx_play record;
    uint32_t record_index; /* in the list of plays */
    uint32_t settling;     /* group of its server work */
    aisim_turn *turns;
    uint32_t turn_capacity;
    AISIM_ARRAY(uint32_t) timers; /* heap by (ready_ns, node) */
    AISIM_ARRAY(uint32_t) due;    /* heap by node: timers of this instant */
    int64_t shift_ns;
    int64_t idle_since_ns;
    int64_t first_dispatch_ns;
    uint32_t outstanding;
    uint32_t open;
    /* preparation */
    aisim_agentx_snapshot cut;
    uint32_t primers_sent;
    uint32_t warmups_sent;
    bool preparing; /* its preparation request is on the server */
} aisim_lane;

/* A request the server knows. */
typedef struct aisim_handle {
    int64_t sent_ns;
    uint32_t generation;
    uint32_t lane;
    uint32_t request;
    uint32_t settling; /* group of its play; AISIM_NONE in preparation */
    uint32_t warmup_index;
    uint8_t phase; /* aisim_agentx_phase it was sent in */
    bool live, terminal, settled;
} aisim_handle;

/* Server work of one play instance; lives until the play is retired and the work is done. */
typedef struct aisim_settling {
    uint32_t unsettled;
    bool retired;
} aisim_settling;

struct aisim_agentx {
    uint32_t first_plays; /* source plays started for the first time (once) */
    const aisim_corpus *corpus;
    aisim_agentx_config config;
    aisim_agentx_callbacks call;
    void *ctx;
    aisim_agentx_report report;
    int64_t now_ns;
    int64_t tree_cap_ns, global_cap_ns, deadline_ns, grace_end_ns, drain_end_ns;
    int64_t idle_since_ns; /* of all lanes together */
    bool advancing;
    bool wake;            /* something happened that advance has to look at */
    uint64_t outstanding; /* profile requests on the server without terminal */
    uint64_t unsettled;   /* preparation requests whose server work goes on */
    uint64_t settled;     /* profile requests whose server work is done */
    uint32_t preparing;   /* lanes with a preparation request on the server */
    aisim_lane *lanes;
    aisim_mintree timer_times; /* per lane: earliest timer */
    aisim_mintree guard_times; /* per lane: when its tree guard acts */
    AISIM_ARRAY(aisim_handle) handles;
    AISIM_ARRAY(uint32_t) free_handles;
    AISIM_ARRAY(aisim_settling) settlings;
    AISIM_ARRAY(uint32_t) free_settlings;
    AISIM_ARRAY(aisim_agentx_play) plays;
    AISIM_ARRAY(aisim_agentx_shift) shifts;
};

/** As many requests as the stop rule allows have been issued. */
static inline bool aisim_agentx_sent_all(const aisim_agentx *a)
{
    return a->config.requests > 0 && a->report.issued >= a->config.requests;
}

/* agentx_server.c */

/** Sends; returns the handle index. The caller has updated its own state before. */
uint32_t aisim_agentx_send(aisim_agentx *a, uint32_t lane, uint32_t request,
                           aisim_agentx_phase phase, uint32_t warmup_index);

/** The 64-bit name of a handle index. */
uint64_t aisim_agentx_handle_name(const aisim_agentx *a, uint32_t index);

/** The group of a play that is over; counts it quiescent now or when its work is done. */
void aisim_agentx_retire_settling(aisim_agentx *a, uint32_t settling);

/** A group for a new play. */
uint32_t aisim_agentx_new_settling(aisim_agentx *a);

/* agentx_lane.c */

/** Puts the next play of the lane into place: from the cut when `from_cut`, else from turn zero. */
void aisim_lane_start(aisim_agentx *a, uint32_t lane, const aisim_play *play, bool from_cut);

/** Sends what is due in this lane, the smallest node first. */
void aisim_lane_send_due(aisim_agentx *a, uint32_t lane);

/** A request of the live play has ended. */
void aisim_lane_terminal(aisim_agentx *a, uint32_t lane, uint32_t request,
                         aisim_terminal_status status);

/** Moves all gates and fired edges of the lane earlier. */
void aisim_lane_shift(aisim_agentx *a, uint32_t lane, int64_t by_ns);

/** The run is over: closes the record of a play that is not. */
void aisim_lane_close(aisim_agentx *a, uint32_t lane);

void aisim_lane_deinit(aisim_lane *lane);

/* agentx_prepare.c */

/** Cuts the initial play of every lane. */
aisim_status aisim_agentx_prepare_init(aisim_agentx *a, aisim_error *err);

/** Sends the next preparation requests of this phase. @return true when the phase is over. */
bool aisim_agentx_prepare_step(aisim_agentx *a);

/** A preparation request has ended. */
void aisim_agentx_prepare_terminal(aisim_agentx *a, const aisim_handle *handle,
                                   aisim_terminal_status status);

#endif
