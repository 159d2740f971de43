/* l_base.h - what every file of src/lua needs: errors with the script's position, classes.
 *
 * Knows nothing of simulations, so files that only bind another room include just this. */
#ifndef AISIM_LUA_L_BASE_H
#define AISIM_LUA_L_BASE_H

#include <lauxlib.h>
#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

#include "aisim/status.h"

/* ---- errors (l_error.c) ---------------------------------------------------------------------- */

/** Raises "file:line: text" with the position of the nearest script frame (frames of the aisim
 *  library are skipped). printf-like with the conversions of lua_pushfstring. */
int aisim_l_fail(lua_State *L, const char *format, ...);

/** Raises an engine error: its own position if it has one, else that of the script. */
int aisim_l_raise(lua_State *L, const aisim_error *err);

/** Pushes "file:line: " of the nearest script frame, "" if there is none. */
void aisim_l_where(lua_State *L);

/** Pushes a value as messages show it: a number, 'text', "a table". @return the text */
const char *aisim_l_push_shown(lua_State *L, int index);

/** Is the function of an activation record (filled with "S") the script's own: Lua, not library? */
bool aisim_l_is_script(lua_State *L, const lua_Debug *ar);

/** Replaces the error value on top by its text; never an address, which would differ between runs.
 *  Raises nothing: an __tostring that fails is named. */
void aisim_l_error_text(lua_State *L);

/** Pushes "file:line" of where the function at index was written. */
void aisim_l_where_function(lua_State *L, int index);

/* ---- classes (l_core.c) ---------------------------------------------------------------------- */

/** Creates the metatable of a class: __name, __metatable, __tostring, __gc (both NULL allowed) and
 *  `methods` as __index unless index is given, which then gets the methods table as upvalue 1. The
 *  methods table is also left in module.methods[name] for the Lua side to extend. Pops nothing. */
typedef struct aisim_l_class {
    const char *name;        /**< "aisim.Sim" */
    const luaL_Reg *methods; /**< NULL allowed */
    lua_CFunction index;     /**< NULL = methods table */
    lua_CFunction newindex;  /**< NULL = none */
    lua_CFunction tostring;  /**< NULL = none */
    lua_CFunction gc;        /**< NULL = none */
} aisim_l_class;
void aisim_l_class_register(lua_State *L, const aisim_l_class *class_);

/** Adds methods to a registered class; the module table is on top of the stack. */
void aisim_l_extend(lua_State *L, const char *name, const luaL_Reg *methods);

/** Pops a table of names and pushes an __index for tables that may lack some of them: nil for those,
 *  an error that begins with `what` for other keys. */
void aisim_l_push_strict_index(lua_State *L, const char *what);

/** Pushes " (did you mean 'x'?)" for a name that is no key of the table at names, or "". */
void aisim_l_push_hint(lua_State *L, const char *name, int names);

/** Raises "what: unknown field 'key' (did you mean …)": key at 2, known names = keys of names. */
int aisim_l_unknown_field(lua_State *L, int names, const char *what);

/** The userdata at index if its metatable is the class's, else NULL. */
void *aisim_l_test(lua_State *L, int index, const char *name);
void *aisim_l_check(lua_State *L, int index, const char *name);

#endif
