/* state.c - a Lua state with the embedded library, and running the program in it.
 *
 * "aisim.*" modules are found in the table built into the program or, for work on aisim itself, in
 * the folder AISIM_LUA_PATH. Everything the user sees is decided in lua/aisim/cli. */
#include "cli/embedded_lua.h"
#include "cli/program.h"
#include "cli/tables.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lauxlib.h>
#include <lualib.h>

enum { EXIT_LIMIT = 3, EXIT_INTERNAL = 70, SEARCHER_PLACE = 2 };

/** Opens the binding (src/lua). */
int luaopen_aisim_core(lua_State *L);

/* ---- finding modules ------------------------------------------------------------------------- */

/** Loads folder/name.lua or folder/name/init.lua. @return LUA_OK, an error, or -1: no such file. */
static int load_from_folder(lua_State *L, const char *folder, const char *module)
{
    static const char *const forms[] = {"%s.lua", "%s/init.lua"};
    const char *relative = luaL_gsub(L, module, ".", "/");
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const char *path = lua_pushfstring(L, forms[i], relative);
        const char *full = lua_pushfstring(L, "%s/%s", folder, path);
        FILE *file = fopen(full, "rb");
        if (!file) {
            continue;
        }
        luaL_Buffer text;
        size_t got;
        luaL_buffinit(L, &text);
        do {
            got = fread(luaL_prepbuffer(&text), 1, LUAL_BUFFERSIZE, file);
            luaL_addsize(&text, got);
        } while (got > 0);
        fclose(file);
        luaL_pushresult(&text);
        size_t length;
        const char *bytes = lua_tolstring(L, -1, &length);
        const char *name = lua_pushfstring(L, "@%s", path);
        return luaL_loadbufferx(L, bytes, length, name, "t");
    }
    return -1;
}

static int load_embedded(lua_State *L, const char *module)
{
    for (const aisim_embedded_file *file = aisim_embedded_files; file->path; file++) {
        if (file->module && strcmp(file->module, module) == 0) {
            const char *name = lua_pushfstring(L, "@%s", file->path);
            return luaL_loadbufferx(L, (const char *)file->bytes, file->length, name, "t");
        }
    }
    return -1;
}

/** A searcher for package.searchers. Chunk names begin with "@aisim/" wherever the text came from:
 *  that is how error messages know the frames of the library. */
static int search_library(lua_State *L)
{
    const char *module = luaL_checkstring(L, 1);
    const char *folder = getenv("AISIM_LUA_PATH");
    if (strncmp(module, "aisim", 5) != 0 || (module[5] != '\0' && module[5] != '.')) {
        return 0;
    }
    int status = -1;
    if (folder && *folder) {
        status = load_from_folder(L, folder, module);
    }
    if (status == -1) {
        status = load_embedded(L, module);
    }
    if (status == -1) {
        lua_pushfstring(L, "no module '%s' in the program", module);
        return 1;
    }
    if (status != LUA_OK) {
        return lua_error(L);
    }
    lua_pushfstring(L, "@%s", module);
    return 2;
}

static void install_searcher(lua_State *L)
{
    lua_getglobal(L, "package");
    lua_getfield(L, -1, "searchers");
    for (lua_Integer i = luaL_len(L, -1); i >= SEARCHER_PLACE; i--) {
        lua_rawgeti(L, -1, i);
        lua_rawseti(L, -2, i + 1);
    }
    lua_pushcfunction(L, search_library);
    lua_rawseti(L, -2, SEARCHER_PLACE);
    lua_pop(L, 2);
}

/* ---- open, run, close ------------------------------------------------------------------------ */

static int end_signals(lua_State *L)
{
    (void)L;
    aisim_cli_signals_end();
    return 0;
}

static int open_libraries(lua_State *L)
{
    luaL_openlibs(L);
    luaL_requiref(L, "aisim.core", luaopen_aisim_core, 0);
    luaL_requiref(L, "aisim.host", aisim_cli_open_host, 0);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
    lua_pushcfunction(L, aisim_cli_open_tables);
    lua_setfield(L, -2, "aisim.tables");
    install_searcher(L);
    /* The binding polls this during a run. */
    lua_pushlightuserdata(L, (void *)(uintptr_t)aisim_cli_interrupt());
    lua_setfield(L, LUA_REGISTRYINDEX, "aisim.interrupt");
    /* Made before any script: its finalizer runs after those of scripts, before the limits go. */
    lua_newuserdatauv(L, 0, 0);
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, end_signals);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    lua_setfield(L, LUA_REGISTRYINDEX, "aisim.signals");
    aisim_cli_signals_begin(aisim_l_limits_of(L));
    return 0;
}

lua_State *aisim_cli_open(void)
{
    lua_State *L = luaL_newstate();
    if (L == NULL) {
        return NULL;
    }
    lua_pushcfunction(L, open_libraries);
    if (lua_pcall(L, 0, 0, 0) != LUA_OK) {
        lua_close(L);
        return NULL;
    }
    return L;
}

static int start(lua_State *L)
{
    int argc = (int)lua_tointeger(L, 1);
    char **argv = lua_touserdata(L, 2);
    lua_getglobal(L, "require");
    lua_pushliteral(L, "aisim.cli");
    lua_call(L, 1, 1);
    lua_createtable(L, argc, 0);
    for (int i = 0; i < argc; i++) {
        lua_pushstring(L, argv[i]);
        lua_rawseti(L, -2, i);
    }
    lua_call(L, 1, 1);
    return 1;
}

static int with_traceback(lua_State *L)
{
    const char *text = lua_tostring(L, 1);
    luaL_traceback(L, L, text ? text : "(no text)", 1);
    return 1;
}

int aisim_cli_main(lua_State *L, int argc, char **argv)
{
    int status = EXIT_INTERNAL;
    lua_pushcfunction(L, with_traceback);
    lua_pushcfunction(L, start);
    lua_pushinteger(L, argc);
    lua_pushlightuserdata(L, argv);
    if (lua_pcall(L, 2, 1, 1) == LUA_OK) {
        status = (int)lua_tointeger(L, -1);
    } else if (*aisim_cli_interrupt() != 0) {
        status = 128 + *aisim_cli_interrupt();
    } else {
        fprintf(stderr, "aisim: internal error: %s\n", lua_tostring(L, -1));
    }
    lua_settop(L, 0);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "aisim: cannot write standard output: %s\n", strerror(errno));
        status = EXIT_LIMIT;
    }
    return status;
}

void aisim_cli_close(lua_State *L)
{
    aisim_l_limits *limits = aisim_l_limits_of(L);
    aisim_cli_polling(true); /* nothing left that could be raised into */
    limits->top = NULL;
    aisim_l_frame frame = {.L = L, .kind = "a finalizer"};
    aisim_l_frame_enter(limits, &frame);
    lua_close(L); /* the limits go with it */
}
