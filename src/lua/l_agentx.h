/* l_agentx.h - the accounting of AgentX replays in the report. */
#ifndef AISIM_LUA_L_AGENTX_H
#define AISIM_LUA_L_AGENTX_H

#include "lua/l_cluster.h"
#include "metrics/results.h"
#include "workload/agentx.h"

/** Object `key` of the report's root. */
void aisim_l_agentx_results(aisim_results *out, const char *key, const aisim_agentx_report *report);

/** One object per replay of the simulation: "agentx", "agentx#2", … */
void aisim_l_agentx_report_all(aisim_l_sim *s, aisim_results *out);

/** Requests of plays that were begun, over all replays, that were never sent. */
uint64_t aisim_l_agentx_never_issued(const aisim_l_sim *s);

#endif
