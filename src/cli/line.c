/* line.c - lines typed at a terminal, with editing, history and completion: aisim.host.editor.
 *
 * libedit does the work; without it at build time aisim.host.editor is absent and the repl reads
 * plain lines. Its own input function is replaced, so that a signal ends the line at once. The
 * locale of the process stays "C"; only while a line is typed the thread has one with UTF-8
 * characters, so that the bytes arrive as they were typed. */
#define _GNU_SOURCE /* ppoll; wchar_t functions and locales beside POSIX */
#include "cli/line.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <unistd.h>

#include "cli/program.h"

/* Waits for something to read. Signals are let in only while it waits, so that none can come
 * between the look at the flag and the waiting. @return false = a signal came */
static bool wait_for_input(void)
{
    sigset_t ours, outside;
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    sigemptyset(&ours);
    sigaddset(&ours, SIGINT);
    sigaddset(&ours, SIGTERM);
    sigprocmask(SIG_BLOCK, &ours, &outside);
    int n = 0;
    do { /* a change of the window or the watchdog is no reason to return */
        n = *aisim_cli_interrupt() != 0 ? 0 : ppoll(&input, 1, NULL, &outside);
    } while (n < 0 && errno == EINTR && *aisim_cli_interrupt() == 0);
    sigprocmask(SIG_SETMASK, &outside, NULL);
    return n > 0;
}

/* wait(): until a line can be read, or a signal comes */
static int host_wait_for_input(lua_State *L)
{
    (void)L;
    wait_for_input();
    return 0;
}

#if AISIM_LIBEDIT

#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include <lauxlib.h>

enum { HISTORY_LINES = 1000 };

#define EDITOR "aisim.Editor"

typedef struct {
    EditLine *edit; /* NULL = closed */
    History *history;
    locale_t locale;
    lua_State *L; /* while a line is typed */
    int complete; /* registry: complete(text before the cursor) -> what to insert, text to show */
    const char *prompt;
} editor;

static editor *check_editor(lua_State *L)
{
    editor *e = luaL_checkudata(L, 1, EDITOR);
    luaL_argcheck(L, e->edit != NULL, 1, "the editor is closed");
    return e;
}

static editor *editor_of(EditLine *edit)
{
    void *e = NULL;
    el_get(edit, EL_CLIENTDATA, &e);
    return e;
}

static char *prompt_of(EditLine *edit)
{
    return (char *)(uintptr_t)editor_of(edit)->prompt;
}

/* One character. @return 1, 0 at the end of the input, -1 when a signal came */
static int read_character(EditLine *edit, wchar_t *out)
{
    mbstate_t state = {0};
    (void)edit;
    while (true) {
        char byte;
        ssize_t n = wait_for_input() ? read(STDIN_FILENO, &byte, 1) : -1;
        if (n != 1) {
            return n == 0 ? 0 : -1;
        }
        size_t used = mbrtowc(out, &byte, 1, &state);
        if (used == (size_t)-1) { /* not a character: as it is */
            *out = (wchar_t)(unsigned char)byte;
            return 1;
        }
        if (used != (size_t)-2) {
            return 1;
        }
    }
}

/* The Tab key. */
static unsigned char complete(EditLine *edit, int key)
{
    editor *e = editor_of(edit);
    lua_State *L = e->L;
    const LineInfo *line = el_line(edit);
    int top = lua_gettop(L);
    unsigned char answer = CC_REFRESH_BEEP;
    (void)key;
    lua_rawgeti(L, LUA_REGISTRYINDEX, e->complete);
    lua_pushlstring(L, line->buffer, (size_t)(line->cursor - line->buffer));
    if (lua_pcall(L, 1, 2, 0) == LUA_OK) {
        const char *insert = lua_tostring(L, -2), *show = lua_tostring(L, -1);
        if (insert != NULL && *insert != '\0' && el_insertstr(edit, insert) == 0) {
            answer = CC_REFRESH;
        } else if (show != NULL) {
            fputc('\n', stdout);
            fputs(show, stdout);
            fputc('\n', stdout);
            fflush(stdout);
            answer = CC_REDISPLAY;
        }
    }
    lua_settop(L, top);
    return answer;
}

/* What the user writes in, if its characters are UTF-8; else any that has them. */
static locale_t typing_locale(void)
{
    locale_t locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
    if (locale != (locale_t)0 && strcmp(nl_langinfo_l(CODESET, locale), "UTF-8") != 0) {
        freelocale(locale);
        locale = (locale_t)0;
    }
    return locale != (locale_t)0 ? locale : newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
}

/* Typing begins or ends. */
static locale_t type_in(const editor *e)
{
    return uselocale(e->locale != (locale_t)0 ? e->locale : (locale_t)0);
}

static void set_up(editor *e)
{
    EditLine *edit = e->edit;
    el_set(edit, EL_CLIENTDATA, e);
    el_set(edit, EL_PROMPT, prompt_of);
    el_set(edit, EL_EDITOR, "emacs");
    el_set(edit, EL_SIGNAL, 0); /* ours */
    el_set(edit, EL_GETCFN, read_character);
    el_set(edit, EL_HIST, history, e->history);
    /* el_set would leak copies of these texts */
    el_wset(edit, EL_ADDFN, L"aisim-complete", L"Complete a name", complete);
    el_set(edit, EL_BIND, "^I", "aisim-complete", NULL);
    el_set(edit, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_source(edit, NULL); /* ~/.editrc */
}

/** editor(complete) -> an editor for standard input, or nil where the terminal cannot. */
static int new_editor(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TFUNCTION);
    editor *e = lua_newuserdatauv(L, sizeof *e, 0);
    memset(e, 0, sizeof *e);
    e->complete = LUA_NOREF;
    e->locale = typing_locale();
    luaL_setmetatable(L, EDITOR);
    locale_t outside = type_in(e);
    e->edit = el_init("aisim", stdin, stdout, stderr);
    e->history = history_init();
    if (e->edit != NULL && e->history != NULL) {
        HistEvent event;
        history(e->history, &event, H_SETSIZE, HISTORY_LINES);
        history(e->history, &event, H_SETUNIQUE, 1);
        set_up(e);
    }
    uselocale(outside);
    if (e->edit == NULL || e->history == NULL) {
        return 0;
    }
    lua_pushvalue(L, 1);
    e->complete = luaL_ref(L, LUA_REGISTRYINDEX);
    return 1;
}

/* editor:line(prompt) -> text with its end of line, nil = end of the input, or nil, signal */
static int editor_line(lua_State *L)
{
    editor *e = check_editor(L);
    e->prompt = luaL_checkstring(L, 2);
    e->L = L;
    int n = 0;
    locale_t outside = type_in(e);
    el_resize(e->edit);
    const char *line = el_gets(e->edit, &n);
    if (line != NULL && n > 1) {
        HistEvent event;
        history(e->history, &event, H_ENTER, line);
    }
    uselocale(outside);
    if (line != NULL && n > 0) {
        lua_pushlstring(L, line, (size_t)n);
        return 1;
    }
    lua_pushnil(L);
    if (*aisim_cli_interrupt() == 0) {
        return 1;
    }
    lua_pushinteger(L, *aisim_cli_interrupt());
    return 2;
}

/* editor:load(path): the lines of earlier sessions; a file that is not there has none */
static int editor_load(lua_State *L)
{
    editor *e = check_editor(L);
    HistEvent event;
    locale_t outside = type_in(e);
    history(e->history, &event, H_LOAD, luaL_checkstring(L, 2));
    uselocale(outside);
    return 0;
}

/* editor:save(path) -> nil, or what went wrong */
static int editor_save(lua_State *L)
{
    editor *e = check_editor(L);
    const char *path = luaL_checkstring(L, 2);
    const char *part = lua_pushfstring(L, "%s.%d", path, (int)getpid());
    HistEvent event;
    locale_t outside = type_in(e);
    errno = 0;
    bool written = history(e->history, &event, H_SAVE, part) >= 0;
    uselocale(outside);
    if (written && rename(part, path) == 0) {
        return 0;
    }
    lua_pushstring(L, errno != 0 ? strerror(errno) : "it cannot be written");
    remove(part);
    return 1;
}

static int editor_close(lua_State *L)
{
    editor *e = luaL_checkudata(L, 1, EDITOR);
    if (e->history != NULL) {
        history_end(e->history);
    }
    if (e->edit != NULL) {
        el_end(e->edit);
    }
    if (e->locale != (locale_t)0) {
        freelocale(e->locale);
    }
    luaL_unref(L, LUA_REGISTRYINDEX, e->complete);
    *e = (editor){.complete = LUA_NOREF};
    return 0;
}

static void add_editor(lua_State *L)
{
    static const luaL_Reg methods[] = {{"line", editor_line},     {"load", editor_load},
                                       {"save", editor_save},     {"__gc", editor_close},
                                       {"__close", editor_close}, {NULL, NULL}};
    luaL_newmetatable(L, EDITOR);
    luaL_setfuncs(L, methods, 0);
    lua_pushvalue(L, -1);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
    lua_pushcfunction(L, new_editor);
    lua_setfield(L, -2, "editor");
}

#endif

void aisim_cli_add_input(lua_State *L)
{
    lua_pushcfunction(L, host_wait_for_input);
    lua_setfield(L, -2, "wait_for_input");
#if AISIM_LIBEDIT
    add_editor(L);
#endif
}
