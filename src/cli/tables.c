/* tables.c - module aisim.tables: the schema for the verbs run, check and help.
 *
 * Only translation: what is known is known in the room config, what is shown is decided in
 * lua/aisim/cli. Errors are raised as "file:line:column: text". */
#include "cli/tables.h"

#include <stdbool.h>

#include <lauxlib.h>

#include "config/schema.h"

/** help(object) -> text, or nil for an unknown object. */
static int tables_help(lua_State *L)
{
    aisim_text text = {0};
    bool known = aisim_schema_help(luaL_checkstring(L, 1), &text);
    if (known) {
        lua_pushstring(L, aisim_text_get(&text));
    } else {
        lua_pushnil(L);
    }
    aisim_text_free(&text);
    return 1;
}

/** paths(object) -> list of every key below it: "scheduler.max_sequences", … */
static bool add_path(void *context, const char *path, const aisim_field *field)
{
    lua_State *L = context;
    (void)field;
    lua_pushstring(L, path);
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
    return true;
}

static int tables_paths(lua_State *L)
{
    const char *object = luaL_checkstring(L, 1);
    lua_newtable(L);
    aisim_schema_walk(object, add_path, L);
    return 1;
}

int aisim_cli_open_tables(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"help", tables_help},
        {"paths", tables_paths},
        {NULL, NULL},
    };
    luaL_newlib(L, functions);
    return 1;
}
