/* l_engine.h - from the engine table of sim:pool to a pool of the engine; see l_engine.c. */
#ifndef AISIM_LUA_L_ENGINE_H
#define AISIM_LUA_L_ENGINE_H

#include "lua/l_common.h"

/** Adds a pool. @param workers  stack index of their number or nil (parallelism.replicas counts)
 *  @param engine  stack index of the engine table. Raises with the position of the call.
 *  @return index of the pool, from 0 */
uint32_t aisim_l_engine_add(lua_State *L, aisim_l_sim *s, const char *name, const char *role,
                            int workers, int engine);

#endif
