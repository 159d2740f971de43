/* agentx_snapshot.h - a play cut at t*: what is history, what remains, and when (traffic 2.2).
 *
 * History = requests that started before t*. The rest is retained: its remaining delay covers the
 * authored gate and everything history already triggered; edges between retained requests stay
 * live. Conversations are numbered by their first request, so conversation order is index order.
 * Moving the frontier (warmup mode advance) turns retained requests into history afterwards. */
#ifndef AISIM_WORKLOAD_AGENTX_SNAPSHOT_H
#define AISIM_WORKLOAD_AGENTX_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

#include "aisim/status.h"
#include "workload/play.h"

typedef struct aisim_agentx_snapshot {
    int64_t t_star_ns; /**< on the recorded play clock */
    bool *history;     /**< per request of the play */
    uint32_t retained; /**< >= 1 */
    uint32_t *primers; /**< requests, in conversation order */
    uint32_t n_primers;
    uint32_t crossing; /**< edges from retained to history; not 0 = the cut is refused */
} aisim_agentx_snapshot;

/** t* = first + fraction * (last - first), in whole nanoseconds. @p fraction 0 .. 1 */
int64_t aisim_agentx_t_star_ns(const aisim_play *play, double fraction);

/** Cuts. @p out is filled in any case and freed by the caller.
 *  @return AISIM_OK, AISIM_EINVAL when history depends on a retained request (message: play, both
 *          requests, t*). O(requests + edges). */
aisim_status aisim_agentx_snapshot_cut(const aisim_play *play, int64_t t_star_ns,
                                       aisim_agentx_snapshot *out, aisim_error *err);

void aisim_agentx_snapshot_deinit(aisim_agentx_snapshot *snapshot);

/** Incoming edges of a retained request whose source is retained. */
uint32_t aisim_agentx_live_edges(const aisim_play *play, const aisim_agentx_snapshot *snapshot,
                                 uint32_t request);

/** Remaining delay of a retained request in recorded nanoseconds, >= 0. Without @p authored_gate
 *  a request with a live edge keeps only what history triggered (traffic 1.6). */
int64_t aisim_agentx_remaining_ns(const aisim_play *play, const aisim_agentx_snapshot *snapshot,
                                  uint32_t request, bool authored_gate);

/** The retained request that mode advance sends next: the earliest in node order whose
 *  dependencies are all history. AISIM_NONE when only one is left, which is never sent ahead. */
uint32_t aisim_agentx_next_ahead(const aisim_play *play, const aisim_agentx_snapshot *snapshot);

/** Moves the frontier past a request that was sent ahead (traffic 2.3). */
void aisim_agentx_move_frontier(const aisim_play *play, aisim_agentx_snapshot *snapshot,
                                uint32_t request);

/** The earliest retained request. */
uint32_t aisim_agentx_earliest_retained(const aisim_play *play,
                                        const aisim_agentx_snapshot *snapshot);

#endif
