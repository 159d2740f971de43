/* l_timing.h - timing models as Lua objects (l_timing_object.c) and Lua functions as timing models
 * (l_timing.c). */
#ifndef AISIM_LUA_L_TIMING_H
#define AISIM_LUA_L_TIMING_H

#include "lua/l_common.h"
#include "lua/l_model.h"
#include "metrics/results.h"

#define AISIM_L_TIMING "aisim.Timing"

/** Pushes an object that owns a timing model; *slot may be set to NULL to take it back. */
aisim_timing **aisim_l_push_timing(lua_State *L, aisim_timing *timing);

/** A timing model that calls the functions of the table at `spec` (name, pure, pass or prefill and
 *  decode, transfer; checked by lua/aisim/timing.lua). @param machine  stack index of the pool's
 * machine, which built-in models called from the function take over.
 *  @param transfer  receives the price of transfers if the table has one. Raises. */
aisim_timing *aisim_l_timing_from_functions(lua_State *L, aisim_l_sim *s, int spec, int machine,
                                            aisim_transfer_price *transfer);

/** Adds the object `timing` to a node of the report: passes, time and where it came from, summed
 *  over the pools; operations without measured data by name (timing.md §7). */
void aisim_l_timing_report(const aisim_l_sim *s, aisim_results *results, uint32_t node);

void aisim_l_timing_object_register(lua_State *L);

#endif
