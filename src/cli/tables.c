/* tables.c - module aisim.tables: the schema and configuration files for the verbs run, check and
 * help.
 *
 * Only translation: what is known is known in the room config, what is shown is decided in
 * lua/aisim/cli. Errors are raised as "file:line:column: text". */
#include "cli/tables.h"

#include <stdbool.h>
#include <stdio.h>

#include <lauxlib.h>

#include "config/emit.h"
#include "config/prediction.h"
#include "config/resolve.h"
#include "config/schema.h"
#include "lua/l_value.h"

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

static void push_pools(lua_State *L, const aisim_prediction *prediction)
{
    lua_createtable(L, (int)prediction->n_pools, 0);
    for (uint32_t i = 0; i < prediction->n_pools; i++) {
        lua_createtable(L, 0, 2);
        lua_pushstring(L, prediction->pools[i].name);
        lua_setfield(L, -2, "role");
        aisim_l_push_value(L, prediction->pools[i].engine, NULL);
        lua_setfield(L, -2, "engine");
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

/** prediction(path, sets) -> { tree, pools = { { role, engine } }, until_ms, digest, yaml }: the
 * file with the --set arguments laid over it, checked, every default written out; yaml says where
 * each value came from. */
static int tables_prediction(lua_State *L)
{
    const char *path = luaL_checkstring(L, 1);
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_Integer n = luaL_len(L, 2);
    const char **sets = lua_newuserdatauv(L, ((size_t)n + 1) * sizeof *sets, 0);
    for (lua_Integer i = 0; i < n; i++) {
        lua_rawgeti(L, 2, i + 1);
        sets[i] = luaL_checkstring(L, -1); /* stays alive in the argument table */
        lua_pop(L, 1);
    }
    aisim_prediction prediction;
    aisim_error err = {0};
    if (aisim_prediction_file(path, sets, (uint32_t)n, &prediction, &err) !=
        AISIM_OK) {
        char text[sizeof err.file + sizeof err.text + 32];
        lua_pushstring(L, aisim_error_format(&err, text, sizeof text));
        return lua_error(L);
    }
    aisim_text yaml = {0};
    aisim_emit_yaml_origins(prediction.tree, &yaml);
    lua_newtable(L);
    lua_pushstring(L, aisim_text_get(&yaml));
    lua_setfield(L, -2, "yaml");
    aisim_l_push_value(L, prediction.tree, NULL);
    lua_setfield(L, -2, "tree");
    push_pools(L, &prediction);
    lua_setfield(L, -2, "pools");
    if (prediction.max_virtual_time_ms > 0) {
        lua_pushnumber(L, prediction.max_virtual_time_ms);
        lua_setfield(L, -2, "until_ms");
    }
    char digest[20];
    snprintf(digest, sizeof digest, "%016llx", (unsigned long long)prediction.digest);
    lua_pushstring(L, digest);
    lua_setfield(L, -2, "digest");
    aisim_text_free(&yaml);
    aisim_prediction_free(&prediction);
    return 1;
}

int aisim_cli_open_tables(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"help", tables_help},
        {"paths", tables_paths},
        {"prediction", tables_prediction},
        {NULL, NULL},
    };
    luaL_newlib(L, functions);
    return 1;
}
