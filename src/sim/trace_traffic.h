/* trace_traffic.h - a trace file on the clock of a simulation (traffic 3.1, 3.3).
 *
 * A unit is a request, or, where rows carry a session, all turns of it: a turn starts when the one
 * before it has ended and its delay has run. When units start is one of
 *   timestamps   as recorded, divided by speedup, counted from the first row (from_ns after it,
 * when the trace was opened so); a turn with a time of its own does not start before it concurrency
 * n in flight, the next one the moment one ends; times of the file mean nothing gaps         at
 * arrivals that somebody else draws Rows are read when they are needed; a session keeps the rows
 * that came up before their turn. With timestamps the rows of a file must be in order of time, or
 * it is read into memory and sorted.
 *
 * Content: block ids mean the same in the whole file. A turn that only adds goes on where the
 * answer before it ended; what no id covers is private. */
#ifndef AISIM_SIM_TRACE_TRAFFIC_H
#define AISIM_SIM_TRACE_TRAFFIC_H

#include "aisim/sim.h"
#include "workload/generators.h"
#include "workload/trace.h"

typedef enum { AISIM_TRACE_TIMESTAMPS, AISIM_TRACE_CONCURRENCY, AISIM_TRACE_GAPS } aisim_trace_load;

typedef struct aisim_trace_traffic_config {
    uint32_t pool;
    const char *class_name; /**< NULL = "" */
    aisim_trace_load load;
    double speedup;       /**< timestamps: > 0 */
    uint32_t concurrency; /**< concurrency: >= 1 */
    aisim_gap_source
        gaps;         /**< gaps: between starts of units; the first is one gap after the start */
    int64_t until_ns; /**< no unit and no turn starts at or after it; 0 or AISIM_NEVER = no limit */
    uint64_t requests; /**< at most so many; 0 = no limit */
    uint64_t sessions; /**< at most so many units; 0 = no limit */
    uint8_t phase;     /**< aisim_phase */
} aisim_trace_traffic_config;

/** Takes the trace, which must be fresh and no graph, and the gaps.
 *  @return AISIM_OK; AISIM_EINVAL (timestamps without any; a graph), AISIM_ERANGE */
aisim_status aisim_trace_traffic(aisim_sim *sim, aisim_trace *trace,
                                 const aisim_trace_traffic_config *config, aisim_error *err);

#endif
