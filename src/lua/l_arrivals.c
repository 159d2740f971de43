/* l_arrivals.c - arrival processes as Lua objects (spec/traffic.md §3.1): those of
 * workload/arrivals.h, and functions of the script. */
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "lua/l_random.h"

typedef struct l_arrivals {
    bool fn; /* user value 1: fn(now_ms, rng) -> next time in ms or nil */
    aisim_arrivals process;
} l_arrivals;

static bool next_from_function(lua_State *L, int index, int rng, aisim_arrival_cursor *cursor)
{
    lua_getiuservalue(L, index, 1);
    lua_pushnumber(L, aisim_ms_from_ns(cursor->t_ns));
    lua_pushvalue(L, rng);
    lua_call(L, 2, 1);
    if (lua_isnil(L, -1)) {
        lua_pop(L, 1);
        return false;
    }
    int is_number;
    double ms = lua_tonumberx(L, -1, &is_number);
    if (!is_number || !(ms >= 0)) {
        aisim_l_fail(L, "arrivals: the function must return a time in ms or nil, got %s",
                     luaL_tolstring(L, -1, NULL));
    }
    int64_t t = aisim_ns_from_ms(ms);
    if (t < cursor->t_ns) {
        aisim_l_fail(L, "arrivals: the function returned %f ms, which is before the last arrival",
                     ms);
    }
    cursor->t_ns = t;
    lua_pop(L, 1);
    return true;
}

bool aisim_l_next_arrival(lua_State *L, int index, int rng_index, aisim_arrival_cursor *cursor)
{
    const l_arrivals *p = luaL_checkudata(L, index, AISIM_L_ARRIVALS);
    aisim_rng *rng = luaL_checkudata(L, rng_index, AISIM_L_RNG);
    if (!p->fn) {
        return aisim_arrivals_next(&p->process, rng, cursor);
    }
    cursor->n++;
    return next_from_function(L, lua_absindex(L, index), lua_absindex(L, rng_index), cursor);
}

static l_arrivals *new_arrivals(lua_State *L, aisim_arrival_kind kind)
{
    l_arrivals *p = lua_newuserdatauv(L, sizeof *p, 1);
    *p = (l_arrivals){.process = {.kind = kind}};
    luaL_setmetatable(L, AISIM_L_ARRIVALS);
    return p;
}

static aisim_arrival_kind check_kind(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1);
    for (int i = 0; i < AISIM_ARRIVAL_KIND_COUNT; i++) {
        if (strcmp(name, aisim_arrival_kind_name((aisim_arrival_kind)i)) == 0) {
            return (aisim_arrival_kind)i;
        }
    }
    return (aisim_arrival_kind)luaL_argerror(L, 1, "kind of arrivals expected");
}

/* core.arrivals(kind, a, b, c, d): see AISIM_ARRIVAL_KINDS; checked by lua/aisim/arrivals.lua */
static int l_simple(lua_State *L)
{
    lua_settop(L, 5);
    aisim_arrivals *p = &new_arrivals(L, check_kind(L))->process;
    p->a = luaL_checknumber(L, 2);
    p->b = luaL_optnumber(L, 3, 0);
    p->c = luaL_optnumber(L, 4, 0);
    p->d = luaL_optnumber(L, 5, 0);
    return 1;
}

/* core.arrivals_list(kind, times_ms, rates or nil); ascending, checked */
static int l_list(lua_State *L)
{
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 3);
    bool rates = lua_type(L, 3) == LUA_TTABLE;
    aisim_arrivals *p = &new_arrivals(L, check_kind(L))->process;
    p->n = (uint32_t)lua_rawlen(L, 2);
    p->times = aisim_alloc(p->n, sizeof *p->times);
    p->values = rates ? aisim_alloc(p->n, sizeof *p->values) : NULL;
    for (uint32_t i = 0; i < p->n; i++) {
        lua_rawgeti(L, 2, (lua_Integer)i + 1);
        p->times[i] = aisim_ns_from_ms(lua_tonumber(L, -1));
        lua_pop(L, 1);
        if (rates) {
            lua_rawgeti(L, 3, (lua_Integer)i + 1);
            p->values[i] = lua_tonumber(L, -1);
            lua_pop(L, 1);
        }
    }
    return 1;
}

/* core.arrivals_fn(fn) */
static int l_fn(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TFUNCTION);
    new_arrivals(L, AISIM_ARRIVALS_TRACE)->fn = true;
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1);
    return 1;
}

static int arrivals_gc(lua_State *L)
{
    l_arrivals *p = luaL_checkudata(L, 1, AISIM_L_ARRIVALS);
    aisim_arrivals_deinit(&p->process);
    return 0;
}

static int arrivals_tostring(lua_State *L)
{
    const l_arrivals *p = luaL_checkudata(L, 1, AISIM_L_ARRIVALS);
    lua_pushfstring(L, "arrivals %s",
                    p->fn ? "function" : aisim_arrival_kind_name(p->process.kind));
    return 1;
}

/* arrivals:times(rng, n) -> the first n times in ms; for looking at a process without a run */
static int arrivals_times(lua_State *L)
{
    luaL_checkudata(L, 1, AISIM_L_ARRIVALS);
    luaL_checkudata(L, 2, AISIM_L_RNG);
    lua_Integer n = luaL_checkinteger(L, 3);
    aisim_arrival_cursor cursor = {0, 0};
    lua_newtable(L);
    for (lua_Integer i = 1; i <= n && aisim_l_next_arrival(L, 1, 2, &cursor); i++) {
        aisim_l_push_ms(L, cursor.t_ns);
        lua_rawseti(L, 4, i);
    }
    return 1;
}

void aisim_l_arrivals_register(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"arrivals", l_simple}, {"arrivals_list", l_list}, {"arrivals_fn", l_fn}, {NULL, NULL}};
    static const luaL_Reg methods[] = {{"times", arrivals_times}, {NULL, NULL}};
    static const aisim_l_class class_ = {AISIM_L_ARRIVALS,  methods,    NULL, NULL,
                                         arrivals_tostring, arrivals_gc};
    luaL_setfuncs(L, functions, 0);
    aisim_l_class_register(L, &class_);
}
