/* host.c - the module aisim.host: what the system knows and Lua cannot ask.
 *
 * The process locale stays "C", so numbers look the same everywhere; the locale of the user is
 * asked only whether its character set is UTF-8. */
#include "cli/embedded_lua.h"
#include "cli/line.h"
#include "cli/process.h"
#include "cli/program.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <lauxlib.h>

#ifndef AISIM_VERSION
#define AISIM_VERSION "unknown"
#endif

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
    if (*aisim_cli_interrupt() == 0) {
        return 0;
    }
    lua_pushinteger(L, *aisim_cli_interrupt());
    return 1;
}

/** polling(on): a run that looks at the flag begins or has ended. Ends the raising, too. */
static int host_polling(lua_State *L)
{
    aisim_cli_polling(lua_toboolean(L, 1));
    return 0;
}

/** quiet(): the signal has been answered; Lua code runs undisturbed again. */
static int host_quiet(lua_State *L)
{
    aisim_l_limits_reset(L, aisim_l_limits_of(L));
    return 0;
}

/** resume(): the signal has been answered; the next one is the first again. */
static int host_resume(lua_State *L)
{
    aisim_l_limits *limits = aisim_l_limits_of(L);
    aisim_l_limits_reset(L, limits);
    aisim_cli_signals_begin(limits);
    return 0;
}

/** watch(seconds): every call into a script may take so long; 0 = for ever. */
static int host_watch(lua_State *L)
{
    if (!aisim_cli_watch(luaL_checknumber(L, 1))) {
        return luaL_error(L, "no timer for --hook-timeout: %s", strerror(errno));
    }
    return 0;
}

/** limit_process(bytes): the program, engine included, takes no more memory than that. Not with an
 *  address sanitizer, which needs the address space for itself. */
static int host_limit_process(lua_State *L)
{
    lua_Number bytes = luaL_checknumber(L, 1);
#if !defined(__SANITIZE_ADDRESS__)
    struct rlimit limit;
    if (getrlimit(RLIMIT_DATA, &limit) == 0 && bytes < 0x1p62) {
        rlim_t wanted = (rlim_t)bytes;
        limit.rlim_cur =
            limit.rlim_max == RLIM_INFINITY || wanted < limit.rlim_max ? wanted : limit.rlim_max;
        setrlimit(RLIMIT_DATA, &limit);
    }
#else
    (void)bytes;
#endif
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

int aisim_cli_open_host(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"clock", host_clock},
        {"interrupted", host_interrupted},
        {"polling", host_polling},
        {"quiet", host_quiet},
        {"resume", host_resume},
        {"terminal", host_terminal},
        {"utf8", host_utf8},
        {"file", host_file},
        {"modules", host_modules},
        {"program", host_program},
        {"watch", host_watch},
        {"limit_process", host_limit_process},
        {NULL, NULL},
    };
    luaL_newlib(L, functions);
    luaL_setfuncs(L, aisim_cli_process_functions, 0);
    aisim_cli_add_input(L);
    lua_pushliteral(L, AISIM_VERSION);
    lua_setfield(L, -2, "version");
    return 1;
}
