/* main.c - the program: a Lua state with the embedded library, and what Lua cannot do itself.
 *
 * Idea: everything the user sees is decided in lua/aisim/cli. This file only
 *   - opens a state, finds "aisim.*" modules in the table built into the program (or, for work on
 *     aisim itself, in the folder AISIM_LUA_PATH) and starts aisim.cli with the arguments,
 *   - turns SIGINT and SIGTERM into a number that the engine polls: a run ends cleanly. While no
 * run is polling, and at the second signal in any case, a count hook raises in the running Lua code
 *     instead; a third signal kills,
 *   - answers what the terminal can do.
 * The process locale stays "C", so numbers look the same everywhere; the locale of the user is
 * asked only whether its character set is UTF-8.
 * Invariant: the exit status is the one aisim.cli returned; 70 if it could not even return. */
#include "cli/embedded_lua.h"
#include "cli/process.h"
#include "cli/tables.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#ifndef AISIM_VERSION
#define AISIM_VERSION "unknown"
#endif

enum { EXIT_LIMIT = 3, EXIT_INTERNAL = 70, SEARCHER_PLACE = 2 };

/** Opens the binding (src/lua). */
int luaopen_aisim_core(lua_State *L);

/* What a signal handler may touch. */
static volatile int interrupt_signal; /* 0 = none; polled by the engine */
static volatile sig_atomic_t polling; /* a run looks at interrupt_signal */
static lua_State *signal_state;

/* ---- signals --------------------------------------------------------------------------------- */

/* Raises in script code only: the library, message handlers included, goes on undisturbed, and a
 * pcall in the script gains nothing, because its next instruction raises again. */
static void raise_interrupted(lua_State *L, lua_Debug *ar)
{
    lua_getinfo(L, "S", ar);
    if (*ar->what != 'C' && strncmp(ar->source, "@aisim/", 7) != 0) {
        luaL_error(L, "interrupted");
    }
}

static void on_signal(int number)
{
    bool second = interrupt_signal != 0;
    interrupt_signal = number;
    if (second || !polling) {
        lua_sethook(signal_state, raise_interrupted,
                    LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT, 1);
    }
    if (second) {
        signal(number, SIG_DFL);
    }
}

static void catch_signals(lua_State *L)
{
    struct sigaction action = {.sa_handler = on_signal};
    signal_state = L;
    static const int numbers[] = {SIGINT, SIGTERM};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction inherited;
        sigaction(numbers[i], NULL, &inherited);
        if (inherited.sa_handler != SIG_IGN) { /* a background job of a shell stays deaf */
            sigaction(numbers[i], &action, NULL);
        }
    }
}

/* ---- module aisim.host ----------------------------------------------------------------------- */

/** clock() -> seconds of a clock that never goes back. For wall.json and the progress line only. */
static int host_clock(lua_State *L)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    lua_pushnumber(L, (lua_Number)now.tv_sec + (lua_Number)now.tv_nsec * 1e-9);
    return 1;
}

/** interrupted() -> number of the signal that asked to stop, or nil. */
static int host_interrupted(lua_State *L)
{
    if (interrupt_signal == 0) {
        return 0;
    }
    lua_pushinteger(L, interrupt_signal);
    return 1;
}

/** polling(on): a run that looks at the flag begins or has ended. Ends the raising, too. */
static int host_polling(lua_State *L)
{
    polling = lua_toboolean(L, 1);
    return 0;
}

/** quiet(): the signal has been answered; Lua code runs undisturbed again. */
static int host_quiet(lua_State *L)
{
    lua_sethook(L, NULL, 0, 0);
    return 0;
}

/** terminal(fd) -> boolean, columns (nil if unknown). */
static int host_terminal(lua_State *L)
{
    int fd = (int)luaL_checkinteger(L, 1);
    struct winsize size = {0};
    lua_pushboolean(L, isatty(fd));
    if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
        lua_pushinteger(L, size.ws_col);
        return 2;
    }
    return 1;
}

/** utf8() -> does the locale of the user say UTF-8? The locale of the process stays "C". */
static int host_utf8(lua_State *L)
{
    locale_t user = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
    const char *name = user ? nl_langinfo_l(CODESET, user) : "";
    lua_pushboolean(L, strcmp(name, "UTF-8") == 0);
    if (user) {
        freelocale(user);
    }
    return 1;
}

/** file(path) -> bytes of an embedded file ("aisim/hardware/h200_sxm.csv"), or nil. */
static int host_file(lua_State *L)
{
    const char *path = luaL_checkstring(L, 1);
    for (const aisim_embedded_file *file = aisim_embedded_files; file->path; file++) {
        if (strcmp(file->path, path) == 0) {
            lua_pushlstring(L, (const char *)file->bytes, file->length);
            return 1;
        }
    }
    return 0;
}

/** program() -> path of the running program, or nil where the system does not say. */
static int host_program(lua_State *L)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path);
    if (n <= 0 || (size_t)n == sizeof path) {
        return 0;
    }
    lua_pushlstring(L, path, (size_t)n);
    return 1;
}

/** modules(prefix) -> list of the embedded modules whose names begin so, sorted. */
static int host_modules(lua_State *L)
{
    size_t length;
    const char *prefix = luaL_checklstring(L, 1, &length);
    lua_Integer n = 0;
    lua_newtable(L);
    for (const aisim_embedded_file *file = aisim_embedded_files; file->path; file++) {
        if (file->module && strncmp(file->module, prefix, length) == 0) {
            lua_pushstring(L, file->module);
            lua_rawseti(L, -2, ++n);
        }
    }
    return 1;
}

static int open_host(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"clock", host_clock}, {"interrupted", host_interrupted}, {"polling", host_polling},
        {"quiet", host_quiet}, {"terminal", host_terminal},       {"utf8", host_utf8},
        {"file", host_file},   {"modules", host_modules},         {"program", host_program},
        {NULL, NULL},
    };
    luaL_newlib(L, functions);
    luaL_setfuncs(L, aisim_cli_process_functions, 0);
    lua_pushliteral(L, AISIM_VERSION);
    lua_setfield(L, -2, "version");
    return 1;
}

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

/* ---- start ----------------------------------------------------------------------------------- */

/** require "aisim.cli"(arguments) -> exit status */
static int start(lua_State *L)
{
    int argc = (int)lua_tointeger(L, 1);
    char **argv = lua_touserdata(L, 2);

    luaL_openlibs(L);
    luaL_requiref(L, "aisim.host", open_host, 0);
    lua_pop(L, 1);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
    lua_pushcfunction(L, luaopen_aisim_core);
    lua_setfield(L, -2, "aisim.core");
    lua_pushcfunction(L, aisim_cli_open_tables);
    lua_setfield(L, -2, "aisim.tables");
    lua_pop(L, 1);
    install_searcher(L);
    /* The binding polls this during a run. */
    lua_pushlightuserdata(L, (void *)(uintptr_t)&interrupt_signal);
    lua_setfield(L, LUA_REGISTRYINDEX, "aisim.interrupt");

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

int main(int argc, char **argv)
{
    lua_State *L = luaL_newstate();
    if (!L) {
        fputs("aisim: not enough memory\n", stderr);
        return EXIT_LIMIT;
    }
    catch_signals(L);
    lua_pushcfunction(L, with_traceback);
    lua_pushcfunction(L, start);
    lua_pushinteger(L, argc);
    lua_pushlightuserdata(L, argv);
    int status = EXIT_INTERNAL;
    if (lua_pcall(L, 2, 1, 1) == LUA_OK) {
        status = (int)lua_tointeger(L, -1);
    } else if (interrupt_signal) {
        status = 128 + interrupt_signal;
    } else {
        fprintf(stderr, "aisim: internal error: %s\n", lua_tostring(L, -1));
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "aisim: cannot write standard output: %s\n", strerror(errno));
        status = EXIT_LIMIT;
    }
    polling = 1; /* nothing left that could be raised into */
    lua_close(L);
    return status;
}
