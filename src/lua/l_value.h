/* l_value.h - Lua tables to value trees and back; see l_value.c. */
#ifndef AISIM_LUA_L_VALUE_H
#define AISIM_LUA_L_VALUE_H

#include "config/value.h"
#include "lua/l_common.h"

/** Converts the Lua value at index. Every mark is the line of the script that called. Functions and
 *  unknown userdata become FOREIGN values whose handle is a key of the refs table of s (s NULL:
 *  they are refused). Raises for tables that are neither list nor map, for keys that are no texts,
 *  for cycles.
 *  @return a tree owned by the caller */
aisim_value *aisim_l_to_value(lua_State *L, int index, const aisim_l_sim *s);

/** Pushes an object that frees the tree stored in it, if any. @return where to store it */
aisim_value **aisim_l_push_slot(lua_State *L);

/** Pushes a tree as tables. FOREIGN values become the anchored object (s NULL: their type name). */
void aisim_l_push_value(lua_State *L, const aisim_value *value, const aisim_l_sim *s);

#endif
