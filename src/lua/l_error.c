/* l_error.c - positions, context and tracebacks of errors (spec/lua-api.md §12, STYLE §5).
 *
 * A message starts with the position of the *script*: frames of the aisim library and of C are
 * passed over, so it does not matter how many library functions lie between the user's line and
 * the check that failed. The library says once where it was loaded from
 * (core.library); its chunks are those whose source begins with that prefix. */
#include "lua/l_common.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/map.h"

enum {
    TRACE_FRAMES = 20,
    DRAWN_FRAMES = 3 /* handler, error, function of the script; further out is whoever runs it */
};

static const char library_key;

static bool is_library(lua_State *L, const char *source)
{
    if (strncmp(source, "@aisim/", 7) == 0) { /* chunk names of the embedded files */
        return true;
    }
    lua_rawgetp(L, LUA_REGISTRYINDEX, &library_key);
    const char *prefix = lua_tostring(L, -1);
    bool found = prefix != NULL && strncmp(source, prefix, strlen(prefix)) == 0;
    lua_pop(L, 1);
    return found;
}

bool aisim_l_is_script(lua_State *L, const lua_Debug *ar)
{
    return *ar->what != 'C' && !is_library(L, ar->source);
}

/* The whole name of a file; Lua's own short form cuts long paths. */
static const char *chunk_name(const lua_Debug *ar)
{
    return *ar->source == '@' ? ar->source + 1 : ar->short_src;
}

/* Pushes "file:line: " of the script's first frame among the innermost ones of a thread, "" without
 * one. */
static void push_where(lua_State *L, lua_State *from, int frames)
{
    lua_Debug ar;
    for (int level = 0; level < frames && lua_getstack(from, level, &ar); level++) {
        lua_getinfo(from, "Sl", &ar);
        if (aisim_l_is_script(L, &ar) && ar.currentline > 0) {
            lua_pushfstring(L, "%s:%d: ", chunk_name(&ar), ar.currentline);
            return;
        }
    }
    lua_pushliteral(L, "");
}

void aisim_l_where(lua_State *L)
{
    push_where(L, L, INT_MAX);
}

void aisim_l_where_function(lua_State *L, int index)
{
    lua_Debug ar;
    lua_pushvalue(L, index);
    lua_getinfo(L, ">S", &ar);
    if (*ar.what == 'C') {
        lua_pushliteral(L, "(a function in C)");
    } else if (ar.linedefined > 0) {
        lua_pushfstring(L, "%s:%d", chunk_name(&ar), ar.linedefined);
    } else {
        lua_pushstring(L, chunk_name(&ar));
    }
}

const char *aisim_l_push_shown(lua_State *L, int index)
{
    lua_Number x = lua_tonumber(L, index);
    switch (lua_type(L, index)) {
    case LUA_TNIL:
        return lua_pushliteral(L, "nil");
    case LUA_TNUMBER: /* the sign of a NaN is an accident of the machine */
        return isnan(x) ? lua_pushliteral(L, "nan") : luaL_tolstring(L, index, NULL);
    case LUA_TSTRING:
        return lua_pushfstring(L, "'%s'", lua_tostring(L, index));
    default:
        return lua_pushfstring(L, "a %s", luaL_typename(L, index));
    }
}

int aisim_l_fail(lua_State *L, const char *format, ...)
{
    aisim_l_where(L);
    va_list args;
    va_start(args, format);
    lua_pushvfstring(L, format, args);
    va_end(args);
    lua_concat(L, 2);
    return lua_error(L);
}

int aisim_l_raise(lua_State *L, const aisim_error *err)
{
    char text[sizeof err->file + sizeof err->text + 32];
    aisim_error_format(err, text, sizeof text);
    if (err->file[0] != '\0') {
        lua_pushstring(L, text);
        return lua_error(L);
    }
    return aisim_l_fail(L, "%s", text);
}

char *aisim_l_format_ms(char out[40], int64_t t_ns)
{
    snprintf(out, 40, "%.14g", (double)t_ns / 1e6);
    return out;
}

/* "  in hook 'request.finish' at t = 12.5 ms, request 7 (class "agent"), rank 2" */
static void add_context(luaL_Buffer *b, lua_State *L, const aisim_l_sim *s)
{
    const aisim_l_site *site = &s->site;
    char t[40];
    luaL_addstring(b, "\n  in ");
    luaL_addstring(b, site->kind);
    if (site->name != NULL) {
        lua_pushfstring(L, " '%s'", site->name);
        luaL_addvalue(b);
    }
    lua_pushfstring(L, " at t = %s ms", aisim_l_format_ms(t, aisim_sim_now(s->sim)));
    luaL_addvalue(b);
    if (site->request != NULL) {
        lua_pushfstring(L, ", request %d", (int)site->request->id);
        luaL_addvalue(b);
        const char *name = aisim_sim_class_name(s->sim, site->request->class_id);
        if (name != NULL && *name != '\0') {
            lua_pushfstring(L, " (class \"%s\")", name);
            luaL_addvalue(b);
        }
    }
    if (site->rank != AISIM_NONE) {
        aisim_rank_view view;
        aisim_sim_rank(s->sim, site->rank, &view);
        lua_pushfstring(L, ", worker %d rank %d", (int)view.worker + 1, (int)site->rank + 1);
        luaL_addvalue(b);
    }
    if (site->targets > 0) {
        lua_pushfstring(L, ", targets 1..%d", (int)site->targets);
        luaL_addvalue(b);
    }
}

static void add_frame(luaL_Buffer *b, lua_State *L, lua_State *from, lua_Debug *ar)
{
    lua_getinfo(from, "nt", ar);
    lua_pushfstring(L, "\n    %s:%d: in ", chunk_name(ar), ar->currentline);
    luaL_addvalue(b);
    if (*ar->what == 'm') {
        lua_pushliteral(L, "main chunk");
    } else if (*ar->namewhat != '\0') {
        lua_pushfstring(L, "function '%s'", ar->name);
    } else {
        lua_pushfstring(L, "function <%s:%d>", chunk_name(ar), ar->linedefined);
    }
    luaL_addvalue(b);
}

static int to_string(lua_State *L)
{
    luaL_tolstring(L, 1, NULL);
    return 1;
}

void aisim_l_error_text(lua_State *L)
{
    if (lua_type(L, -1) == LUA_TSTRING) {
        return;
    }
    const char *type = luaL_typename(L, -1);
    bool has_text = lua_type(L, -1) == LUA_TNUMBER;
    if (!has_text && luaL_getmetafield(L, -1, "__tostring") != LUA_TNIL) {
        has_text = true;
        lua_pop(L, 1);
    }
    if (has_text) {
        lua_pushcfunction(L, to_string);
        lua_pushvalue(L, -2);
        has_text = lua_pcall(L, 1, 1, 0) == LUA_OK;
        if (!has_text && lua_type(L, -1) == LUA_TSTRING) {
            lua_pushfstring(L, "(error object is a %s value whose __tostring fails: %s)", type,
                            lua_tostring(L, -1));
            lua_remove(L, -2);
            has_text = true;
        } else if (!has_text) {
            lua_pop(L, 1);
        }
    }
    if (!has_text) {
        lua_pushfstring(L, "(error object is a %s value)", type);
    }
    lua_remove(L, -2);
}

/* Adds the script's frames of a thread. @return how many have been shown so far */
static int add_frames(luaL_Buffer *b, lua_State *L, lua_State *from, int shown)
{
    lua_Debug ar;
    for (int level = 0; shown <= TRACE_FRAMES && lua_getstack(from, level, &ar); level++) {
        lua_getinfo(from, "Sl", &ar);
        if (!aisim_l_is_script(L, &ar)) {
            continue;
        }
        if (shown == 0) {
            luaL_addstring(b, "\nstack traceback:");
        }
        if (++shown > TRACE_FRAMES) {
            luaL_addstring(b, "\n    ...");
        } else {
            add_frame(b, L, from, &ar);
        }
    }
    return shown;
}

/* Does a message begin with "file:line:"? */
static bool has_position(const char *message)
{
    const char *end = strchr(message, '\n');
    for (const char *colon = message; (colon = strchr(colon, ':')) != NULL; colon++) {
        size_t digits = strspn(colon + 1, "0123456789");
        if (colon > message && digits > 0 && colon[1 + digits] == ':') {
            return end == NULL || colon < end;
        }
    }
    return false;
}

/* Gives the message on top of the stack a position when it has none: error("text", 0), a value that
 * is no text, a mistake that a function in C found. */
static void add_position(lua_State *L, lua_State *from, const aisim_l_sim *s)
{
    if (has_position(lua_tostring(L, -1))) {
        return;
    }
    bool drawn = s != NULL && s->place != NULL;
    push_where(L, from, drawn ? DRAWN_FRAMES : INT_MAX);
    if (drawn && *lua_tostring(L, -1) == '\0') {
        lua_pop(L, 1);
        lua_pushstring(L, s->place);
    }
    lua_insert(L, -2);
    lua_concat(L, 2);
}

void aisim_l_traceback(lua_State *L, lua_State *from, const aisim_l_sim *s)
{
    luaL_checkstack(L, 12, NULL);
    aisim_l_error_text(L);
    const char *message = lua_tostring(L, -1);
    if (strstr(message, "\nstack traceback:") != NULL) { /* passed on from an inner run */
        return;
    }
    add_position(L, from, s);
    int message_at = lua_gettop(L);
    luaL_Buffer b;
    luaL_buffinit(L, &b);
    lua_pushvalue(L, message_at);
    luaL_addvalue(&b);
    if (s != NULL && s->sim != NULL && s->site.kind != NULL) {
        add_context(&b, L, s);
    }
    int shown = add_frames(&b, L, from, 0);
    const aisim_l_frame *frame = aisim_l_limits_of(L)->top;
    while (frame != NULL && frame->L == from && frame->kind == NULL && frame->outer != NULL &&
           frame->outer->L != NULL) { /* a coroutine of the script: who resumed it */
        frame = frame->outer;
        from = frame->L;
        shown = add_frames(&b, L, from, shown);
    }
    luaL_pushresult(&b);
    lua_remove(L, message_at);
}

/* core.place(function) -> "file:line" of where it was written */
static int l_place(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TFUNCTION);
    aisim_l_where_function(L, 1);
    return 1;
}

/* core.where(): "file:line: " of the script */
static int l_where(lua_State *L)
{
    aisim_l_where(L);
    return 1;
}

/* core.fail(message): raises with the script's position */
static int l_fail(lua_State *L)
{
    return aisim_l_fail(L, "%s", luaL_checkstring(L, 1));
}

/* core.fail_in(function, message): raises with the place where the function was written */
static int l_fail_in(lua_State *L)
{
    aisim_l_where_function(L, 1);
    lua_pushfstring(L, "%s: %s", lua_tostring(L, -1), luaL_checkstring(L, 2));
    return lua_error(L);
}

/* core.traceback(error): message handler for whoever runs scripts; adds the script frames once */
static int l_traceback(lua_State *L)
{
    lua_settop(L, 1);
    aisim_l_traceback(L, L, NULL);
    return 1;
}

/* core.error_text(value) -> text of an error value */
static int l_error_text(lua_State *L)
{
    lua_settop(L, 1);
    aisim_l_error_text(L);
    return 1;
}

/* core.library(): the caller's folder is the aisim library */
static int l_library(lua_State *L)
{
    lua_Debug ar;
    if (!lua_getstack(L, 1, &ar)) {
        return 0;
    }
    lua_getinfo(L, "S", &ar);
    const char *slash = strrchr(ar.source, '/');
    if (*ar.source == '@' && slash != NULL) {
        lua_pushlstring(L, ar.source, (size_t)(slash - ar.source) + 1);
        lua_rawsetp(L, LUA_REGISTRYINDEX, &library_key);
    }
    return 0;
}

/* core.folder() -> folder of the library ending in "/", nil when it is embedded */
static int l_folder(lua_State *L)
{
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &library_key) != LUA_TSTRING ||
        strcmp(lua_tostring(L, -1), "@aisim/") == 0) {
        return 0;
    }
    lua_pushstring(L, lua_tostring(L, -1) + 1);
    return 1;
}

void aisim_l_error_register(lua_State *L)
{
    static const luaL_Reg functions[] = {{"where", l_where},
                                         {"fail", l_fail},
                                         {"traceback", l_traceback},
                                         {"library", l_library},
                                         {"folder", l_folder},
                                         {"place", l_place},
                                         {"error_text", l_error_text},
                                         {"fail_in", l_fail_in},
                                         {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
