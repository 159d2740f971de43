/* process.c - posix_spawn and waitpid for Lua. A child gets default signal handlers (exec resets
 * them) and belongs to the process group of its parent, so that Ctrl-C reaches it too. */
#include "cli/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lua.h>

extern char **environ;

enum { SIGNALLED = 128 };

/* The texts of the table at index 1 as a vector for exec; they live as long as the table. */
static char **argument_vector(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_Integer n = luaL_len(L, 1);
    luaL_argcheck(L, n >= 1, 1, "a program expected");
    const char **argv = lua_newuserdatauv(L, ((size_t)n + 1) * sizeof *argv, 0);
    for (lua_Integer i = 0; i < n; i++) {
        lua_rawgeti(L, 1, i + 1);
        argv[i] = luaL_checkstring(L, -1);
        lua_pop(L, 1);
    }
    argv[n] = NULL;
    return (char **)argv;
}

static int host_spawn(lua_State *L)
{
    char **argv = argument_vector(L);
    const char *error_path = luaL_checkstring(L, 2);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, error_path,
                                     O_WRONLY | O_CREAT | O_TRUNC, 0666);
    pid_t pid;
    int problem = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (problem != 0) {
        lua_pushnil(L);
        lua_pushstring(L, strerror(problem));
        return 2;
    }
    lua_pushinteger(L, pid);
    return 1;
}

static int host_wait(lua_State *L)
{
    int status;
    pid_t pid = waitpid(-1, &status, 0);
    if (pid <= 0) {
        return 0;
    }
    lua_pushinteger(L, pid);
    lua_pushinteger(L, WIFEXITED(status) ? WEXITSTATUS(status) : SIGNALLED + WTERMSIG(status));
    return 2;
}

static int host_kill(lua_State *L)
{
    lua_Integer pid = luaL_checkinteger(L, 1);
    luaL_argcheck(L, pid > 1, 1, "number of a child expected");
    kill((pid_t)pid, SIGTERM);
    return 0;
}

static int host_processors(lua_State *L)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    lua_pushinteger(L, n < 1 ? 1 : n);
    return 1;
}

const luaL_Reg aisim_cli_process_functions[] = {
    {"spawn", host_spawn},           {"wait", host_wait}, {"kill", host_kill},
    {"processors", host_processors}, {NULL, NULL},
};
