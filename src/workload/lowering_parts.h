/* lowering_parts.h - what the steps of the lowering hand to one another; private to lowering*.c.
 *
 * Streams come out of step A scope by scope and are numbered by their first request before step C.
 * A stream's `fork` is the request its first one branched off from (AISIM_NONE = none). */
#ifndef AISIM_WORKLOAD_LOWERING_PARTS_H
#define AISIM_WORKLOAD_LOWERING_PARTS_H

#include "aisim/status.h"
#include "base/array.h"
#include "workload/play.h"

typedef AISIM_ARRAY(uint32_t) aisim_index_array;

typedef struct aisim_stream {
    aisim_index_array requests; /* in stream order, never empty */
    uint32_t scope;
    uint32_t fork;
    bool main;
} aisim_stream;

typedef AISIM_ARRAY(aisim_stream) aisim_stream_array;

/* Per scope what steps B and C need beyond aisim_play_scope. */
typedef struct aisim_scope_times {
    int64_t marker_ns;
    int64_t duration_ns; /* -1 = not recorded */
    uint32_t owner;      /* request, AISIM_NONE = none; step B */
} aisim_scope_times;

/** Step A for one scope: appends its streams. @p nodes in node order, n >= 1. */
void aisim_lower_streams(const aisim_play *play, uint32_t scope, const uint32_t *nodes, uint32_t n,
                         aisim_stream_array *streams);

/** Step C: edges, their two indexes and the root, after conversations have been numbered.
 *  @return AISIM_OK or AISIM_EINVAL (without file and line). */
aisim_status aisim_lower_edges(aisim_play *play, const aisim_stream *streams,
                               const aisim_scope_times *times, aisim_error *err);

/** 1.7: parents and roots of the conversations, from spawn edges. */
void aisim_lower_lineage(aisim_play *play);

#endif
