/* router.h - the router of a pool that names none (spec/routing.md §2); all others: route.h. */
#ifndef AISIM_CLUSTER_ROUTER_H
#define AISIM_CLUSTER_ROUTER_H

#include "aisim/sim.h"

/** Next eligible target in (worker, rank) order after the one chosen last. O(targets). */
aisim_router aisim_router_round_robin(void);

#endif
