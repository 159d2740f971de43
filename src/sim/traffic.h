/* traffic.h - open and closed traffic: sources (workload/generators.h) put on the clock. */
#ifndef AISIM_SIM_TRAFFIC_H
#define AISIM_SIM_TRAFFIC_H

#include "aisim/sim.h"
#include "workload/generators.h"

/** What both kinds share. Zero-initialise, then set; sources belong to the simulation on success.
 */
typedef struct aisim_traffic_config {
    uint32_t pool;
    const char *class_name; /**< NULL = "" */
    aisim_unit_source units;
    int64_t until_ns;  /**< nothing arrives at or after it; AISIM_NEVER or 0 = no limit */
    uint64_t requests; /**< at most so many; 0 = no limit */
    uint8_t phase;     /**< aisim_phase */
} aisim_traffic_config;

/** Open: arrivals follow the gaps whatever the server does; the first arrival is one gap after the
 *  start, or at the start with first_at_start (constant_rate: traffic.md §3.1).
 *  @return AISIM_OK; AISIM_EINVAL (no limit at all). */
aisim_status aisim_traffic_open(aisim_sim *sim, const aisim_traffic_config *config,
                                aisim_gap_source gaps, bool first_at_start, aisim_error *err);

/** Closed: `users` users, each sends its next request `think` after the end of the one before; all
 *  start at 0. think.next NULL = no think time. A user stops for good when a source ends.
 *  @return AISIM_OK; AISIM_ERANGE (users), AISIM_EINVAL (no limit at all). */
aisim_status aisim_traffic_closed(aisim_sim *sim, const aisim_traffic_config *config,
                                  uint32_t users, aisim_gap_source think, aisim_error *err);

#endif
