/* l_pass.c - the view of a pass given to pass.begin and pass.end.
 *
 * One object per simulation, re-used; its numbers are copied in, so a field costs no look-up in the
 * engine, and the stamp says whether its call is still active. */
#include <string.h>

#include "base/map.h"
#include "lua/l_hooks.h"

#define PASS "aisim.Pass"

typedef struct l_pass {
    aisim_l_sim *s;
    uint64_t stamp;
    uint32_t rank;
    bool begin; /* pass.begin: only the queue figures are known */
    int64_t t_ns;
    uint64_t waiting, running, free_blocks;
    aisim_pass_facts facts;
} l_pass;

static const char pass_key; /* refs: the view */

void aisim_l_push_pass(lua_State *L, aisim_l_sim *s, const aisim_event *event)
{
    lua_pushvalue(L, s->refs);
    l_pass *p;
    if (lua_rawgetp(L, -1, &pass_key) == LUA_TUSERDATA) {
        p = lua_touserdata(L, -1);
    } else {
        lua_pop(L, 1);
        p = lua_newuserdatauv(L, sizeof *p, 1);
        luaL_setmetatable(L, PASS);
        aisim_l_push_self(L, s);
        lua_setiuservalue(L, -2, 1);
        lua_pushvalue(L, -1);
        lua_rawsetp(L, -3, &pass_key);
    }
    lua_remove(L, -2);
    p->s = s;
    p->stamp = s->active;
    p->rank = event->rank;
    p->begin = event->type == AISIM_EV_PASS_BEGIN;
    p->t_ns = event->t_ns;
    if (p->begin) {
        memset(&p->facts, 0, sizeof p->facts);
        p->waiting = event->u.pass_begin.waiting;
        p->running = event->u.pass_begin.running;
        p->free_blocks = event->u.pass_begin.free_blocks;
    } else {
        p->facts = *event->u.pass;
        p->waiting = p->facts.waiting;
        p->running = p->facts.running;
        p->free_blocks = p->facts.total_blocks - p->facts.active_blocks;
    }
}

/* X(field, expression, known at pass.begin) */
#define FIELDS(X)                                                                                  \
    X(rank, (lua_Integer)p->rank + 1, true)                                                        \
    X(waiting, (lua_Integer)p->waiting, true)                                                      \
    X(running, (lua_Integer)p->running, true)                                                      \
    X(free_blocks, (lua_Integer)p->free_blocks, true)                                              \
    X(number, (lua_Integer)p->facts.pass + 1, false)                                               \
    X(prefill_tokens, (lua_Integer)p->facts.prefill_tokens, false)                                 \
    X(recomputed_tokens, (lua_Integer)p->facts.recomputed_tokens, false)                           \
    X(prefix_tokens, (lua_Integer)p->facts.prefix_tokens, false)                                   \
    X(decode_tokens, (lua_Integer)p->facts.decode_tokens, false)                                   \
    X(context_tokens, (lua_Integer)p->facts.context_tokens, false)                                 \
    X(n_prefill, (lua_Integer)p->facts.n_prefill, false)                                           \
    X(n_decode, (lua_Integer)p->facts.n_decode, false)                                             \
    X(scheduled, (lua_Integer)p->facts.scheduled, false)                                           \
    X(emitted, (lua_Integer)p->facts.emitted, false)                                               \
    X(preempted, (lua_Integer)p->facts.n_preempted, false)                                         \
    X(active_blocks, (lua_Integer)p->facts.active_blocks, false)                                   \
    X(inactive_blocks, (lua_Integer)p->facts.inactive_blocks, false)                               \
    X(total_blocks, (lua_Integer)p->facts.total_blocks, false)

typedef enum {
    F_NONE,
#define X(name, expression, early) F_##name,
    FIELDS(X)
#undef X
        F_begin_ms,
    F_end_ms,
    F_COUNT
} field;

static void push_field(lua_State *L, const l_pass *p, field f)
{
    switch (f) {
#define X(name, expression, early)                                                                 \
    case F_##name:                                                                                 \
        if ((early) || !p->begin) {                                                                \
            lua_pushinteger(L, expression);                                                        \
        } else {                                                                                   \
            lua_pushnil(L);                                                                        \
        }                                                                                          \
        return;
        FIELDS(X)
#undef X
    case F_begin_ms:
        aisim_l_push_ms(L, p->begin ? p->t_ns : p->facts.begin_ns);
        return;
    case F_end_ms:
        if (p->begin) {
            lua_pushnil(L);
        } else {
            aisim_l_push_ms(L, p->facts.end_ns);
        }
        return;
    case F_NONE:
    case F_COUNT:
        break;
    }
    lua_pushnil(L);
}

static const l_pass *check_active(lua_State *L)
{
    const l_pass *p = luaL_checkudata(L, 1, PASS);
    if (p->stamp != p->s->active) {
        aisim_l_fail(L, "pass: view used after its hook returned; use pass:copy()");
    }
    return p;
}

static int pass_index(lua_State *L)
{
    lua_pushvalue(L, 2);
    int type = lua_rawget(L, lua_upvalueindex(1));
    if (type == LUA_TFUNCTION) {
        return 1;
    }
    if (type != LUA_TNUMBER) {
        return aisim_l_unknown_field(L, lua_upvalueindex(1), "pass");
    }
    push_field(L, check_active(L), (field)lua_tointeger(L, -1));
    return 1;
}

static const char *const field_names[] = {NULL,
#define X(name, expression, early) #name,
                                          FIELDS(X)
#undef X
                                              "begin_ms",
                                          "end_ms"};

static int pass_copy(lua_State *L)
{
    const l_pass *p = check_active(L);
    lua_createtable(L, 0, F_COUNT - 1);
    for (int f = F_NONE + 1; f < F_COUNT; f++) {
        push_field(L, p, (field)f);
        lua_setfield(L, -2, field_names[f]);
    }
    return 1;
}

static int pass_tostring(lua_State *L)
{
    const l_pass *p = luaL_checkudata(L, 1, PASS);
    lua_pushfstring(L, "pass of rank %d%s", (int)p->rank + 1,
                    p->stamp == p->s->active ? "" : " (stale view)");
    return 1;
}

void aisim_l_pass_register(lua_State *L)
{
    static const luaL_Reg methods[] = {{"copy", pass_copy}, {NULL, NULL}};
    static const aisim_l_class class_ = {PASS, methods, pass_index, NULL, pass_tostring, NULL};
    aisim_l_class_register(L, &class_);
    lua_getfield(L, -1, "methods");
    lua_getfield(L, -1, PASS);
    for (int f = F_NONE + 1; f < F_COUNT; f++) {
        lua_pushinteger(L, f);
        lua_setfield(L, -2, field_names[f]);
    }
    lua_pop(L, 2);
}
