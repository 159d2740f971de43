/* l_engine.h - from the engine table of sim:pool to a pool of the engine; see l_engine.c. */
#ifndef AISIM_LUA_L_ENGINE_H
#define AISIM_LUA_L_ENGINE_H

#include "lua/l_cluster.h"

/** Adds a pool and fills what the Lua side wants to know about it.
 *  @param workers  stack index of their number or nil (parallelism.replicas counts)
 *  @param engine   stack index of the engine table
 *  @param functions  stack index of a table of timing functions or nil
 *  @param points  stack index of a table of scheduler points or nil
 *  Raises with the position of the call. @return index of the pool, from 0 */
uint32_t aisim_l_engine_add(lua_State *L, aisim_l_sim *s, const char *name, const char *role,
                            int workers, int engine, int functions, int points,
                            aisim_l_pool_info *info);

void aisim_l_engine_register(lua_State *L);

#endif
