/* l_points.h - scheduler points written in Lua; see l_points.c. */
#ifndef AISIM_LUA_L_POINTS_H
#define AISIM_LUA_L_POINTS_H

#include "aisim/points.h"
#include "lua/l_common.h"

/** Fills the points of a pool from a table {order =, admit =, victim =, chunk =, evict =} of
 *  functions, each optional. Functions and context are anchored in the simulation.
 *  @return false: index holds nil or an empty table, nothing is set */
bool aisim_l_points_read(lua_State *L, aisim_l_sim *s, int index, aisim_points *out);

#endif
