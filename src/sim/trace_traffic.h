/* trace_traffic.h - a trace file on the clock of a simulation (traffic 3.1, 3.3).
 *
 * A unit is a request, or, where rows carry a session, all turns of it: a turn starts when the one
 * before it has ended and its delay has run. Units start as recorded, divided by speedup, counted
 * from the first row (from_ns after it, when the trace was opened so); a turn with a time of its
 * own does not start before it. Or they start at a pace (sim/pace.h), and the times of the file
 * mean nothing; a pace with think times uses them instead of the recorded delays too. Rows are read
 * when they are needed; a session keeps the rows that came up before their turn. With recorded
 * times the rows of a file must be in order of time, or it is read into memory and sorted.
 *
 * Content: block ids mean the same in the whole file. A turn that only adds goes on where the
 * answer before it ended; what no id covers is private. */
#ifndef AISIM_SIM_TRACE_TRAFFIC_H
#define AISIM_SIM_TRACE_TRAFFIC_H

#include "sim/pace.h"
#include "workload/trace.h"

typedef struct aisim_trace_traffic_config {
    uint32_t pool;
    const char *class_name; /**< NULL = "" */
    bool timestamps;        /**< recorded times instead of a pace; pace keeps limits and warmup */
    double speedup;         /**< timestamps: finite, > 0 */
    aisim_pace_config pace;
} aisim_trace_traffic_config;

/** kv_capacity_fraction: mean of prompt + half the answer over the rows of a trace, in tokens, > 0.
 *  Reads the files once. */
aisim_status aisim_trace_mean_tokens(const aisim_trace *trace, double *tokens, aisim_error *err);

/** Takes the trace, which must be fresh and no graph, and the sources of the pace.
 *  @return AISIM_OK; AISIM_EINVAL (timestamps without any; a graph), AISIM_ERANGE */
aisim_status aisim_trace_traffic(aisim_sim *sim, aisim_trace *trace,
                                 const aisim_trace_traffic_config *config, aisim_error *err);

#endif
