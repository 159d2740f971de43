/* l_timing.h - timing models as Lua objects and Lua functions as timing models; see l_timing.c. */
#ifndef AISIM_LUA_L_TIMING_H
#define AISIM_LUA_L_TIMING_H

#include "lua/l_common.h"
#include "lua/l_model.h"

#define AISIM_L_TIMING "aisim.Timing"

/** Pushes an object that owns a timing model; *slot may be set to NULL to take it back. */
aisim_timing **aisim_l_push_timing(lua_State *L, aisim_timing *timing);

/** A timing model that calls the functions of the table at `spec` (name, pure, pass or prefill and
 *  decode; checked by lua/aisim/timing.lua). @param machine  stack index of the pool's machine,
 *  which built-in models called from the function take over. Raises. */
aisim_timing *aisim_l_timing_from_functions(lua_State *L, aisim_l_sim *s, int spec, int machine);

#endif
