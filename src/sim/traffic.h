/* traffic.h - traffic of single requests: a source of them (workload/generators.h) at a pace
 * (sim/pace.h). */
#ifndef AISIM_SIM_TRAFFIC_H
#define AISIM_SIM_TRAFFIC_H

#include "sim/pace.h"

/** Zero-initialise, then set; sources belong to the simulation on success. */
typedef struct aisim_traffic_config {
    uint32_t pool;
    const char *class_name; /**< NULL = "" */
    aisim_unit_source units;
    aisim_pace_config pace; /**< its units are requests too */
} aisim_traffic_config;

/** Adds the traffic.
 *  @return AISIM_OK, or what aisim_pace_init says: AISIM_EINVAL (no limit at all), AISIM_ERANGE */
aisim_status aisim_traffic(aisim_sim *sim, const aisim_traffic_config *config, aisim_error *err);

/** traffic 3.1, kv_capacity_fraction: how many units of `tokens` KV tokens each (> 0) fill the
 *  fraction of a pool's KV capacity, rounded to the nearest whole number, at least 1. */
double aisim_units_in_capacity(const aisim_sim *sim, uint32_t pool, double fraction, double tokens);

#endif
