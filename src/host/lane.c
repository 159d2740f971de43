/* lane.c - completion times of a FIFO lane. A cancelled job leaves no trace here: the jobs behind
 * it keep their times. */
#include "host/lane.h"

#include <math.h>

void aisim_host_lane_init(aisim_host_lane *lane, double gbps, double block_bytes,
                          int64_t latency_ns)
{
    *lane = (aisim_host_lane){.ns_per_block = gbps > 0.0 ? block_bytes / gbps : 0.0,
                              .latency_ns = latency_ns};
}

/* When a job begins to move: the lane is free, the first byte is there. */
static int64_t begin(aisim_host_lane *lane, int64_t start_ns)
{
    int64_t ready = start_ns + lane->latency_ns;
    if (ready > lane->tail_ns) {
        lane->begin_ns = ready;
        lane->blocks = 0;
        return ready;
    }
    lane->wait_ns += lane->tail_ns - ready; /* the latency hides behind a busy lane */
    return lane->tail_ns;
}

int64_t aisim_host_lane_take(aisim_host_lane *lane, int64_t duration_ns, int64_t start_ns)
{
    lane->tail_ns = begin(lane, start_ns) + duration_ns;
    lane->busy_ns += duration_ns;
    return lane->tail_ns;
}

int64_t aisim_host_lane_submit(aisim_host_lane *lane, uint64_t blocks, int64_t start_ns)
{
    int64_t start = begin(lane, start_ns);
    lane->blocks += blocks;
    lane->tail_ns = lane->begin_ns + llround((double)lane->blocks * lane->ns_per_block);
    lane->busy_ns += lane->tail_ns - start;
    return lane->tail_ns;
}
