/* session_traffic.h - traffic of generated sessions (workload/sessions.h) at a pace (sim/pace.h).
 *
 * A unit is a session; at most one turn of it is at the server. The prompt of a turn starts with
 * what it keeps of the conversation, the answer that the engine has generated included, so blocks
 * of earlier outputs are found again where the engine caches them. A turn starts when its wait,
 * counted from the end of the turn before, has run; with a pace that has think times (user-centric
 * traffic) those are the waits. A turn that does not end with its full answer is the last of its
 * session. */
#ifndef AISIM_SIM_SESSION_TRAFFIC_H
#define AISIM_SIM_SESSION_TRAFFIC_H

#include "sim/pace.h"
#include "workload/sessions.h"

/** Zero-initialise, then set; sources belong to the simulation on success. */
typedef struct aisim_session_traffic_config {
    uint32_t pool;
    const char *class_name; /**< NULL = "" */
    const char *name;       /**< of its streams; copied */
    int32_t priority;
    aisim_session_source source;
    aisim_pace_config pace;
} aisim_session_traffic_config;

/** Adds the traffic. Memory: live sessions only.
 *  @return AISIM_OK, or what aisim_pace_init says */
aisim_status aisim_session_traffic(aisim_sim *sim, const aisim_session_traffic_config *config,
                                   aisim_error *err);

#endif
