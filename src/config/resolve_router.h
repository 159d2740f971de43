/* resolve_router.h - from a checked router table to the options the router reads.
 *
 *     aisim_schema_check(router, "router", "", "router", err)   keys, types, ranges
 *     aisim_config_router(router, &options, err)                combinations, numbers */
#ifndef AISIM_CONFIG_RESOLVE_ROUTER_H
#define AISIM_CONFIG_RESOLVE_ROUTER_H

#include "aisim/route.h"
#include "config/value.h"

/** Fills out. Keys that would do nothing with the policy, and keys that contradict each other, are
 *  AISIM_EINVAL at their place, with what they belong to.
 *  @param router  checked as object "router"; NULL = nothing given */
aisim_status aisim_config_router(const aisim_value *router, aisim_route_options *out,
                                 aisim_error *err);

#endif
