/* l_twin.h - what the files of the Lua module share. */
#ifndef AISIM_TWIN_LUA_H
#define AISIM_TWIN_LUA_H

#include <lauxlib.h>
#include <lua.h>

#ifdef AISIM_ENGINE_DOUBLE
#include "engine_double.h"
#else
#include "twin_internal.h"
#endif

extern const char *const twin_type_name;
extern const luaL_Reg twin_record_methods[];
extern const luaL_Reg twin_part_methods[];

#ifdef AISIM_ENGINE_DOUBLE
extern const luaL_Reg twin_host_functions[]; /* engine_host.c */
void twin_host_open(lua_State *L);
extern const luaL_Reg twin_tier_methods[]; /* engine_l_tier.c */
#else
extern const luaL_Reg twin_external_methods[]; /* l_external.c */
/** Raises what went wrong in a function of the connector during the last plan. */
void twin_raise_connector(lua_State *L, twin *t);
void twin_forget_connector(lua_State *L, twin *t);
#endif

/** The twin at index 1; raises when it has been freed. */
twin *twin_check(lua_State *L);

/** The list at the top of the stack as numbers, in memory that Lua owns and that is pushed; NULL
 *  (nothing pushed) for nil. */
uint64_t *twin_to_tokens(lua_State *L, uint32_t *n);

/** table[key] as an integer, or `other` when absent. */
lua_Integer twin_number(lua_State *L, int table, const char *key, lua_Integer other);

#endif
