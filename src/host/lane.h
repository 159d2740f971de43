/* lane.h - one direction of a private link: a FIFO whose jobs end when they were promised to
 * (spec/offload.md §4.1).
 *
 *     ready = s + latency, start = max(T, ready), done = start + n * BB / rate, T = done
 *
 * A busy period is kept as its begin and the blocks moved since, so that thousands of jobs behind
 * each other end where the formula says and not where rounded sums drift to. */
#ifndef AISIM_HOST_LANE_H
#define AISIM_HOST_LANE_H

#include <stdint.h>

typedef struct aisim_host_lane {
    double ns_per_block; /* 0 = unlimited */
    int64_t latency_ns;
    int64_t tail_ns;  /* T */
    int64_t begin_ns; /* of the busy period */
    uint64_t blocks;  /* submitted in it */
    int64_t busy_ns;  /* total over all jobs */
    int64_t wait_ns;  /* total from ready to start */
} aisim_host_lane;

/** @param gbps  decimal GB/s = bytes per nanosecond; 0 = unlimited */
void aisim_host_lane_init(aisim_host_lane *lane, double gbps, double block_bytes,
                          int64_t latency_ns);

/** A job that takes duration_ns once it moves; a lane has jobs of this kind or of the other.
 *  @return when it is done. O(1) */
int64_t aisim_host_lane_take(aisim_host_lane *lane, int64_t duration_ns, int64_t start_ns);

/** A job of `blocks` blocks that may not start before start_ns. @return when it is done. O(1) */
int64_t aisim_host_lane_submit(aisim_host_lane *lane, uint64_t blocks, int64_t start_ns);

#endif
