/* routing.h - the built-in policies as routers of a simulation (spec/routing.md §2).
 *
 * A policy reads its own books (cluster/route.h), which the simulation's events feed; only the
 * books the policy needs are kept. Random streams are named "router" in the first pool and
 * "router/N" in pool N, so that pools draw independently and a pool's stream does not depend on the
 * others. Of the policies that one in Lua holds the k-th, k >= 2, appends "+k". */
#ifndef AISIM_SIM_ROUTING_H
#define AISIM_SIM_ROUTING_H

#include "aisim/route.h"
#include "aisim/sim.h"

/** The router of the options for a pool, its context owned by the caller through router.free. Give
 *  it to aisim_sim_router (which keeps it) before the first request arrives.
 *  @param advisor  0 = it decides; k >= 1: it is the k-th policy that another one asks, which may
 *                  dispatch elsewhere: nothing is remembered of a pick, the books follow
 *                  on_dispatch
 *  @return AISIM_OK; AISIM_EINVAL: options that contradict each other, or weights that are not one
 *  per worker */
aisim_status aisim_router_new(aisim_sim *sim, uint32_t pool, const aisim_route_options *options,
                              uint32_t advisor, aisim_router *out, aisim_error *err);

#endif
