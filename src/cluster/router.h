/* router.h - choosing a rank of a pool for a request: eligibility and the built-in policies
 * (spec/routing.md §2). */
#ifndef AISIM_CLUSTER_ROUTER_H
#define AISIM_CLUSTER_ROUTER_H

#include "aisim/sim.h"

/** The default: next eligible target in (worker, rank) order after the one chosen last. */
aisim_router aisim_router_round_robin(void);

/** The built-in policy of that name, its context owned by the caller through router.free.
 *  @return false = no such policy */
bool aisim_router_builtin(const char *name, uint64_t seed, aisim_router *out);

/** Names of the built-in policies, NULL-terminated. */
const char *const *aisim_router_names(void);

#endif
