/* l_plays_make.c - plays that are made or written instead of read: aisim.agentx_synthetic{…},
 * plays:save(path). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lua/l_limits.h"
#include "lua/l_plays.h"
#include "workload/synthetic.h"
#include "workload/trace_plays.h"
#include "workload/weka_write.h"

/* core.synthetic_fields() -> { name = numbers it takes } of all parameters that are numbers */
static int l_synthetic_fields(lua_State *L)
{
    static const char *const names[] = {
#define X(name, ...) #name,
        AISIM_SYNTHETIC_NUMBERS(X) AISIM_SYNTHETIC_LAWS(X) AISIM_SYNTHETIC_RANGES(X)
#undef X
            "group_counts"};
    aisim_synthetic_config config;
    aisim_synthetic_config_default(&config);
    lua_newtable(L);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        uint32_t n = 0;
        aisim_synthetic_config_field(&config, names[i], &n);
        lua_pushinteger(L, n);
        lua_setfield(L, -2, names[i]);
    }
    return 1;
}

/* One option into the configuration; the Lua side has checked names and kinds. */
static void set_option(lua_State *L, aisim_synthetic_config *config, const char *key)
{
    uint32_t n = 0;
    if (strcmp(key, "plays") == 0) {
        config->plays = (uint32_t)lua_tointeger(L, -1);
    } else if (strcmp(key, "seed") == 0) {
        config->seed = (uint64_t)lua_tointeger(L, -1);
    } else if (strcmp(key, "block_size") == 0) {
        config->block_size = (uint32_t)lua_tointeger(L, -1);
    } else if (strcmp(key, "whole_blocks") == 0) {
        config->whole_blocks = lua_toboolean(L, -1);
    } else if (strcmp(key, "api") == 0) {
        config->api =
            strcmp(lua_tostring(L, -1), "linear") == 0 ? AISIM_API_LINEAR : AISIM_API_LOGNORMAL;
    } else {
        double *at = aisim_synthetic_config_field(config, key, &n);
        for (uint32_t i = 0; at != NULL && i < n; i++) {
            if (n == 1) {
                at[0] = lua_tonumber(L, -1);
                break;
            }
            lua_rawgeti(L, -1, (lua_Integer)i + 1);
            at[i] = lua_tonumber(L, -1);
            lua_pop(L, 1);
        }
    }
}

/* core.agentx_synthetic(options, align_inputs) -> plays */
static int l_agentx_synthetic(lua_State *L)
{
    static const char *const aligns[] = {"false", "floor", "ceil", NULL};
    luaL_checktype(L, 1, LUA_TTABLE);
    aisim_corpus_options options = {.align_inputs =
                                        (aisim_align_inputs)luaL_checkoption(L, 2, "false", aligns),
                                    .interrupt = &aisim_l_limits_of(L)->tripped};
    aisim_synthetic_config config;
    aisim_error err = {0};
    aisim_synthetic_config_default(&config);
    if (lua_getfield(L, 1, "preset") != LUA_TNIL &&
        aisim_synthetic_config_preset(&config, lua_tostring(L, -1), &err) != AISIM_OK) {
        return aisim_l_fail(L, "aisim.agentx_synthetic: %s", err.text);
    }
    lua_pop(L, 1);
    lua_pushnil(L); /* the order of the keys does not matter: each sets a place of its own */
    while (lua_next(L, 1) != 0) {
        set_option(L, &config, lua_tostring(L, -2));
        lua_pop(L, 1);
    }
    aisim_l_corpus *made = aisim_l_push_plays(L);
    made->corpus = aisim_corpus_new(&options);
    aisim_l_frame native;
    aisim_l_native_begin(L, &native);
    bool complete = aisim_synthetic_plays(&config, made->corpus, &err) == AISIM_OK &&
                    aisim_corpus_finish(made->corpus, &err) == AISIM_OK;
    aisim_l_native_end(L, &native);
    if (!complete) {
        return aisim_l_fail(L, "aisim.agentx_synthetic: %s", err.text);
    }
    return 1;
}

/* core.plays_save(plays, path, hash_runs, graph): Weka JSON lines or agentic_mooncake; under a
 * temporary name until complete
 */
static int l_plays_save(lua_State *L)
{
    const aisim_corpus *corpus = aisim_l_check_plays(L, 1)->corpus;
    const char *path = luaL_checkstring(L, 2);
    bool runs = lua_toboolean(L, 3);
    const char *temporary = lua_pushfstring(L, "%s.part", path);
    FILE *file = fopen(temporary, "wb");
    if (file == NULL) {
        return aisim_l_fail(L, "%s: cannot be written: %s", path, strerror(errno));
    }
    bool graph = lua_toboolean(L, 4);
    if (graph) {
        aisim_graph_write(corpus, file);
    }
    const volatile int *tripped = &aisim_l_limits_of(L)->tripped;
    bool stopped = false;
    for (uint32_t i = 0; i < corpus->n_plays && !graph && !ferror(file) && !stopped; i++) {
        aisim_weka_write(&corpus->plays[i], runs, file);
        stopped = *tripped != AISIM_L_UNLIMITED;
    }
    bool broken = ferror(file) != 0;
    if (stopped) {
        fclose(file);
        remove(temporary);
        return aisim_l_fail(L, "%s: interrupted; nothing written", path);
    }
    if (fclose(file) != 0 || broken || rename(temporary, path) != 0) {
        int problem = errno;
        remove(temporary);
        return aisim_l_fail(L, "%s: cannot be written: %s", path, strerror(problem));
    }
    return 0;
}

void aisim_l_plays_make_register(lua_State *L)
{
    static const luaL_Reg functions[] = {{"agentx_synthetic", l_agentx_synthetic},
                                         {"synthetic_fields", l_synthetic_fields},
                                         {"plays_save", l_plays_save},
                                         {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
