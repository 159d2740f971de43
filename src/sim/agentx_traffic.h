/* agentx_traffic.h - the AgentX client (workload/agentx.h) wired to a simulation: its clock, its
 * requests, the content of its plays. */
#ifndef AISIM_SIM_AGENTX_TRAFFIC_H
#define AISIM_SIM_AGENTX_TRAFFIC_H

#include "aisim/sim.h"
#include "workload/agentx.h"

typedef struct aisim_agentx_traffic aisim_agentx_traffic;

typedef struct aisim_agentx_requests {
    uint32_t pool;
    uint16_t class_id;
    int32_t priority;
} aisim_agentx_requests;

/** Adds the client to the simulation; it starts with the run and belongs to the simulation.
 *  Requests carry the traffic class and priority given, session = number of the conversation's
 * first request order + 1 within the run, and phase profile, primer or warmup. Emits phase,
 * play.start, play.end.
 *  @param corpus  finished; outlives the simulation
 *  @param as      where requests go, and as what
 *  @return AISIM_OK or what aisim_agentx_new says. */
aisim_status aisim_sim_agentx(aisim_sim *sim, const aisim_corpus *corpus,
                              const aisim_agentx_config *config, const aisim_agentx_requests *as,
                              aisim_agentx_traffic **out, aisim_error *err);

/** Accounting (traffic.md §2.6); valid until the simulation goes on. */
const aisim_agentx_report *aisim_agentx_traffic_report(aisim_agentx_traffic *traffic);

#endif
