/* l_trace.h - trace files as Lua objects; see l_trace.c. */
#ifndef AISIM_LUA_L_TRACE_H
#define AISIM_LUA_L_TRACE_H

#include "lua/l_common.h"
#include "workload/trace.h"

/** Opens what the list of paths and the option table at these indices say; raises on mistakes. */
aisim_trace *aisim_l_open_trace(lua_State *L, int paths, int table);

#endif
