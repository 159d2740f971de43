/* l_limits.c - see l_limits.h. In this order: frames, tripping, the hook, memory, coroutines, Lua. */
#include "lua/l_limits.h"

#include <stdio.h>
#include <string.h>

#include "lua/l_common.h"

static const char limits_key;  /* registry: the object */
static const char message_key; /* registry: message of the limit that was reached */

static void on_hook(lua_State *L, lua_Debug *ar);

aisim_l_limits *aisim_l_limits_of(lua_State *L)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &limits_key);
    aisim_l_limits *limits = lua_touserdata(L, -1);
    lua_pop(L, 1);
    return limits;
}

/* ---- frames ---------------------------------------------------------------------------------- */

void aisim_l_frame_stop(const aisim_l_frame *frame)
{
    if (frame->L != NULL) {
        lua_sethook(frame->L, on_hook, LUA_MASKCOUNT, 1);
    }
}

void aisim_l_native_begin(lua_State *L, aisim_l_frame *frame)
{
    *frame = (aisim_l_frame){.L = NULL};
    aisim_l_frame_enter(aisim_l_limits_of(L), frame);
}

void aisim_l_native_end(lua_State *L, const aisim_l_frame *frame)
{
    aisim_l_frame_leave(aisim_l_limits_of(L), frame);
}

/* The frame that says what was called: the first with a kind. */
static const aisim_l_frame *named(const aisim_l_frame *frame)
{
    while (frame != NULL && frame->kind == NULL && frame->L != NULL) {
        frame = frame->outer;
    }
    return frame;
}

/* ---- tripping -------------------------------------------------------------------------------- */

static void hook_chain(const aisim_l_limits *limits, lua_Hook hook, int mask, int count)
{
    for (const aisim_l_frame *frame = limits->top; frame != NULL; frame = frame->outer) {
        if (frame->L != NULL) {
            lua_sethook(frame->L, hook, mask, count);
        }
    }
}

void aisim_l_limits_trip(aisim_l_limits *limits, aisim_l_limit what)
{
    if (limits->tripped == AISIM_L_UNLIMITED || limits->tripped == AISIM_L_LIMIT_MEMORY ||
        what == AISIM_L_LIMIT_INTERRUPT) {
        limits->tripped = what;
    }
    hook_chain(limits, on_hook, LUA_MASKCOUNT, 1);
}

const aisim_l_frame *aisim_l_limits_tick(aisim_l_limits *limits)
{
    aisim_l_frame *frame = (aisim_l_frame *)named(limits->top);
    if (frame == NULL || frame->L == NULL) {
        return NULL; /* no script, or one that waits for the engine */
    }
    uint32_t ticks = ++frame->ticks;
    if (ticks == AISIM_L_TICKS) {
        aisim_l_limits_trip(limits, AISIM_L_LIMIT_TIME);
    }
    return ticks >= 2 * AISIM_L_TICKS ? frame : NULL;
}

void aisim_l_limits_reset(lua_State *L, aisim_l_limits *limits)
{
    limits->tripped = AISIM_L_UNLIMITED;
    limits->place[0] = '\0';
    limits->refused_bytes = 0;
    limits->refused = false;
    lua_pushnil(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &message_key);
    bool counts = limits->max_instructions > 0;
    int mask = counts ? LUA_MASKCOUNT : 0;
    lua_sethook(L, counts ? on_hook : NULL, mask, limits->interval);
    hook_chain(limits, counts ? on_hook : NULL, mask, limits->interval);
}

/* ---- the message ----------------------------------------------------------------------------- */

/* "hook 'pass.end'", "session 3", "setup" */
static const char *push_subject(lua_State *L, const aisim_l_frame *frame)
{
    if (frame == NULL || frame->kind == NULL) {
        return lua_pushliteral(L, "the script");
    }
    if (frame->name != NULL) {
        return lua_pushfstring(L, "%s '%s'", frame->kind, frame->name);
    }
    if (frame->number != 0) {
        return lua_pushfstring(L, "%s %d", frame->kind, (int)frame->number);
    }
    return lua_pushstring(L, frame->kind);
}

static void push_text(lua_State *L, const aisim_l_limits *limits)
{
    char size[40];
    switch (limits->tripped) {
    case AISIM_L_LIMIT_TIME:
        push_subject(L, named(limits->top));
        snprintf(size, sizeof size, "%g", limits->timeout_s);
        lua_pushfstring(L, "%s did not return within %s s (--hook-timeout)", lua_tostring(L, -1),
                        size);
        lua_remove(L, -2);
        return;
    case AISIM_L_LIMIT_INSTRUCTIONS:
        lua_pushfstring(L, "the script has used its %I instructions (--max-instructions)",
                        (LUAI_UACINT)limits->max_instructions);
        return;
    case AISIM_L_LIMIT_MEMORY:
        snprintf(size, sizeof size, "%.4g", (double)limits->told_bytes / (1024.0 * 1024.0));
        lua_pushfstring(L, "the script needs more than %s MiB (--memory-limit)", size);
        return;
    default:
        lua_pushliteral(L, "interrupted");
    }
}

/* Raises the message; makes it the first time. `ar` is the instruction that is about to run. */
static int raise(lua_State *L, const aisim_l_limits *limits, const lua_Debug *ar)
{
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &message_key) != LUA_TSTRING) {
        lua_pushfstring(L, "%s:%d: ", *ar->source == '@' ? ar->source + 1 : ar->short_src,
                        ar->currentline);
        push_text(L, limits);
        lua_concat(L, 2);
        const aisim_l_frame *frame = named(limits->top);
        aisim_l_traceback(L, L, frame != NULL ? frame->sim : NULL);
        lua_pushvalue(L, -1);
        lua_rawsetp(L, LUA_REGISTRYINDEX, &message_key);
    }
    return lua_error(L);
}

void aisim_l_limits_push_message(lua_State *L, aisim_l_limits *limits)
{
    if (limits->tripped == AISIM_L_UNLIMITED) {
        lua_pushnil(L);
        return;
    }
    limits->soft_bytes = limits->hard_bytes = SIZE_MAX;
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &message_key) != LUA_TSTRING) {
        lua_pop(L, 1);
        lua_pushstring(L, limits->place); /* memory was refused in a C function */
        push_text(L, limits);
        lua_concat(L, 2);
    }
}

/* ---- the hook -------------------------------------------------------------------------------- */

/* Memory may have been garbage. @return true if less than an eighth is free even without it */
static bool out_of_memory(lua_State *L, const aisim_l_limits *limits)
{
    lua_gc(L, LUA_GCCOLLECT);
    return limits->bytes > limits->soft_bytes - limits->soft_bytes / 8;
}

/* A refusal that no second request has followed counts, too: an instruction has ended since. */
static bool was_refused(const aisim_l_limits *limits)
{
    return limits->refused || limits->refused_bytes != 0;
}

static void on_hook(lua_State *L, lua_Debug *ar)
{
    aisim_l_limits *limits = aisim_l_limits_of(L);
    if (limits->tripped == AISIM_L_UNLIMITED) {
        if (limits->top == NULL) {
            return; /* the program's own code */
        }
        limits->instructions += (uint64_t)limits->interval;
        if (limits->instructions < limits->max_instructions) {
            return;
        }
        aisim_l_limits_trip(limits, AISIM_L_LIMIT_INSTRUCTIONS);
    }
    lua_getinfo(L, "Sl", ar);
    if (!aisim_l_is_script(L, ar)) {
        return;
    }
    if (limits->tripped == AISIM_L_LIMIT_MEMORY && !was_refused(limits) &&
        !out_of_memory(L, limits)) {
        aisim_l_limits_reset(L, limits);
        return;
    }
    raise(L, limits, ar);
}

/* ---- memory ---------------------------------------------------------------------------------- */

void aisim_l_limits_note_place(aisim_l_limits *limits)
{
    lua_State *L = limits->top != NULL ? limits->top->L : NULL;
    lua_Debug ar;
    for (int level = 0; L != NULL && limits->place[0] == '\0' && lua_getstack(L, level, &ar);
         level++) {
        lua_getinfo(L, "Sl", &ar);
        if (*ar.what != 'C' && *ar.source == '@' && strncmp(ar.source, "@aisim/", 7) != 0) {
            snprintf(limits->place, sizeof limits->place, "%s:%d: ", ar.source + 1, ar.currentline);
        }
    }
}

/* Lua collects its garbage after a refusal and asks for the same again: then it counts. */
static void note_refusal(aisim_l_limits *limits, size_t size)
{
    limits->refused = limits->refused || limits->refused_bytes != 0;
    limits->refused_bytes = size;
    aisim_l_limits_note_place(limits);
}

static void note_success(aisim_l_limits *limits, size_t size)
{
    if (limits->refused_bytes == size && !limits->refused) {
        limits->place[0] = '\0';
    } else {
        limits->refused = true;
    }
    limits->refused_bytes = 0;
}

static void *count_bytes(void *context, void *block, size_t old_size, size_t size)
{
    aisim_l_limits *limits = context;
    size_t before = block != NULL ? old_size : 0;
    if (size > before) {
        const aisim_l_frame *frame = limits->top;
        size_t grown = size - before > SIZE_MAX - limits->bytes ? SIZE_MAX
                                                                : limits->bytes + (size - before);
        if (grown > limits->soft_bytes && frame != NULL) {
            if (limits->tripped == AISIM_L_UNLIMITED) {
                aisim_l_limits_trip(limits, AISIM_L_LIMIT_MEMORY);
            }
            if (grown > limits->hard_bytes && frame->L != NULL) {
                note_refusal(limits, size);
                return NULL;
            }
        }
        if (limits->refused_bytes != 0) {
            note_success(limits, size);
        }
    }
    void *got = limits->inner(limits->inner_context, block, old_size, size);
    if (got != NULL || size == 0) {
        limits->bytes = limits->bytes - before + size;
    }
    return got;
}

static void limit_memory(lua_State *L, aisim_l_limits *limits, size_t bytes)
{
    if (limits->inner == NULL) {
        limits->inner = lua_getallocf(L, &limits->inner_context);
        limits->bytes = (size_t)lua_gc(L, LUA_GCCOUNT) * 1024 + (size_t)lua_gc(L, LUA_GCCOUNTB);
        lua_setallocf(L, count_bytes, limits);
    }
    limits->told_bytes = limits->soft_bytes = bytes;
    limits->hard_bytes = bytes > SIZE_MAX / 2 ? SIZE_MAX : bytes + bytes / 4;
}

/* The state closes: what is freed after this object must not come by. */
static int limits_gc(lua_State *L)
{
    aisim_l_limits *limits = lua_touserdata(L, 1);
    if (limits->inner != NULL) {
        lua_setallocf(L, limits->inner, limits->inner_context);
        limits->inner = NULL;
    }
    return 0;
}

/* ---- coroutines of the script ---------------------------------------------------------------- */

/* Calls the function at upvalue 1 with the arguments, thread `co` running. A limit that was reached
 * meanwhile is raised here as well. @return number of results */
static int call_on(lua_State *L, lua_State *co)
{
    aisim_l_limits *limits = lua_touserdata(L, lua_upvalueindex(2));
    aisim_l_frame frame = {.L = co};
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    aisim_l_frame_enter(limits, &frame);
    int status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
    aisim_l_frame_leave(limits, &frame);
    if (limits->tripped != AISIM_L_UNLIMITED &&
        lua_rawgetp(L, LUA_REGISTRYINDEX, &message_key) == LUA_TSTRING) {
        lua_error(L);
    }
    if (limits->tripped != AISIM_L_UNLIMITED) {
        lua_pop(L, 1);
    }
    return status == LUA_OK ? lua_gettop(L) : lua_error(L);
}

/* coroutine.resume, coroutine.close */
static int on_thread(lua_State *L)
{
    lua_State *co = lua_tothread(L, 1);
    return co != NULL ? call_on(L, co) : luaL_typeerror(L, 1, "thread");
}

/* What coroutine.wrap returns; upvalue 3: the thread. */
static int wrapped(lua_State *L)
{
    lua_State *co = lua_tothread(L, lua_upvalueindex(3));
    lua_pushvalue(L, lua_upvalueindex(3));
    lua_insert(L, 1);
    int n = call_on(L, co);
    if (lua_toboolean(L, 1)) {
        return n - 1;
    }
    if (lua_status(co) != LUA_OK && lua_status(co) != LUA_YIELD) {
        lua_resetthread(co); /* closes what it has opened; its error stays the first one */
        lua_settop(co, 0);
    }
    if (lua_type(L, 2) == LUA_TSTRING) {
        luaL_where(L, 1);
        lua_insert(L, 2);
        lua_concat(L, 2);
    }
    return lua_error(L);
}

static int wrap(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TFUNCTION);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_pushvalue(L, lua_upvalueindex(2));
    lua_State *co = lua_newthread(L);
    lua_pushvalue(L, 1);
    lua_xmove(L, co, 1);
    lua_pushcclosure(L, wrapped, 3);
    return 1;
}

/* The library's functions, each in a frame. */
static void watch_coroutines(lua_State *L, aisim_l_limits *limits)
{
    if (lua_getglobal(L, "coroutine") != LUA_TTABLE) {
        lua_pop(L, 1);
        return;
    }
    static const luaL_Reg functions[] = {
        {"wrap", wrap}, {"resume", on_thread}, {"close", on_thread}, {NULL, NULL}};
    lua_getfield(L, -1, "wrap");
    bool done = lua_tocfunction(L, -1) == wrap;
    lua_pop(L, 1);
    for (const luaL_Reg *f = functions; !done && f->name != NULL; f++) {
        lua_getfield(L, -1, f->func == wrap ? "resume" : f->name);
        lua_pushlightuserdata(L, limits);
        lua_pushcclosure(L, f->func, 2);
        lua_setfield(L, -2, f->name);
    }
    lua_pop(L, 1);
}

/* ---- Lua ------------------------------------------------------------------------------------- */

/* core.limit(timeout_s, max_instructions, bytes): 0 = no limit. The time is kept by whoever calls
 * aisim_l_limits_tick. */
static int l_limit(lua_State *L)
{
    aisim_l_limits *limits = aisim_l_limits_of(L);
    limits->timeout_s = luaL_checknumber(L, 1);
    lua_Integer instructions = luaL_checkinteger(L, 2);
    lua_Number bytes = luaL_checknumber(L, 3);
    watch_coroutines(L, limits);
    limits->max_instructions = (uint64_t)instructions;
    if (instructions > 0) {
        limits->interval = instructions < 100 ? (int)instructions : 100;
        lua_sethook(L, on_hook, LUA_MASKCOUNT, limits->interval);
    }
    if (bytes > 0) {
        limit_memory(L, limits, (size_t)bytes);
    }
    return 0;
}

static int call_close(lua_State *L)
{
    const aisim_l_frame *frame = lua_touserdata(L, 1);
    aisim_l_frame_leave(aisim_l_limits_of(L), frame);
    return 0;
}

/* core.call(kind, name or nil) -> to-be-closed value: what the script does meanwhile is that call */
static int l_call(lua_State *L)
{
    lua_settop(L, 2);
    const char *kind = luaL_checkstring(L, 1);
    const char *name = luaL_optstring(L, 2, NULL);
    aisim_l_frame *frame = lua_newuserdatauv(L, sizeof *frame, 2);
    memset(frame, 0, sizeof *frame);
    frame->L = L;
    frame->kind = kind;
    frame->name = name;
    for (int i = 1; i <= 2; i++) { /* keeps the texts */
        lua_pushvalue(L, i);
        lua_setiuservalue(L, -2, i);
    }
    lua_newtable(L);
    lua_pushcfunction(L, call_close);
    lua_setfield(L, -2, "__close");
    lua_setmetatable(L, -2);
    aisim_l_frame_enter(aisim_l_limits_of(L), frame);
    return 1;
}

/* core.in_call() -> is a script's code running? */
static int l_in_call(lua_State *L)
{
    lua_pushboolean(L, aisim_l_limits_of(L)->top != NULL);
    return 1;
}

/* core.limit_message() -> message of the limit that was reached, or nil */
static int l_limit_message(lua_State *L)
{
    aisim_l_limits_push_message(L, aisim_l_limits_of(L));
    return 1;
}

void aisim_l_limits_register(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"limit", l_limit},
        {"call", l_call},
        {"in_call", l_in_call},
        {"limit_message", l_limit_message},
        {NULL, NULL}};
    aisim_l_limits *limits = lua_newuserdatauv(L, sizeof *limits, 0);
    memset(limits, 0, sizeof *limits);
    limits->soft_bytes = limits->hard_bytes = SIZE_MAX;
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, limits_gc);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &limits_key);
    luaL_setfuncs(L, functions, 0);
}
