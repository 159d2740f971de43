/* l_prediction.c - configuration files as tables, for `aisim run FILE.yaml` and sim:cluster.
 *
 * Only translation: what a file may say is known in the room config, what a key becomes is decided
 * in lua/aisim/predict.lua. Errors are raised as "file:line:column: text". */
#include <stdio.h>

#include "config/emit.h"
#include "config/prediction.h"
#include "lua/l_value.h"

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

/* places.model = "FILE:LINE:COLUMN: engine.model": of names that only the catalogue can judge */
static void push_places(lua_State *L, const aisim_value *tree)
{
    static const char *const keys[] = {"model", "hardware"};
    const aisim_value *engine = aisim_value_get(tree, "engine");
    lua_newtable(L);
    for (size_t i = 0; engine != NULL && i < sizeof keys / sizeof *keys; i++) {
        const aisim_value *value = aisim_value_get(engine, keys[i]);
        if (value != NULL) {
            aisim_error err = {0};
            char text[sizeof err.file + sizeof err.text + 32];
            aisim_fail_mark(&err, aisim_value_mark(value), AISIM_ENOENT, "engine.%s", keys[i]);
            lua_pushstring(L, aisim_error_format(&err, text, sizeof text));
            lua_setfield(L, -2, keys[i]);
        }
    }
}

/* core.prediction(path, sets) -> { tree, pools = { { role, engine } }, until_ms, digest, yaml,
 * places }: the file with the --set arguments laid over it, checked, every default written out; yaml says
 * where each value came from. */
static int l_prediction(lua_State *L)
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
    if (aisim_prediction_file(path, sets, (uint32_t)n, &prediction, &err) != AISIM_OK) {
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
    push_places(L, prediction.tree);
    lua_setfield(L, -2, "places");
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

void aisim_l_prediction_register(lua_State *L)
{
    static const luaL_Reg functions[] = {{"prediction", l_prediction}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
