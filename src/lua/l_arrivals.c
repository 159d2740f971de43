/* l_arrivals.c - when units of traffic start (spec/traffic.md §3.1).
 *
 * A process is immutable; whoever uses it keeps a cursor. Times are rounded to nanoseconds from the
 * exact sum of the gaps for constant rates (the n-th arrival is n / rate, no drift) and gap by gap
 * for random ones. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "lua/l_random.h"

typedef enum {
    A_POISSON,  /* rate a per second */
    A_GAMMA,    /* rate a, shape b */
    A_WEIBULL,  /* rate a, shape b */
    A_CONSTANT, /* rate a, first at 0 */
    A_SCHEDULE, /* Poisson with piecewise constant rate: times (ns), rates */
    A_BURST,    /* a units at once every b ms */
    A_AT_ONCE,  /* a units at 0 */
    A_TRACE,    /* times */
    A_FN        /* fn(now_ms, rng) -> next time in ms or nil */
} l_kind;

typedef struct l_arrivals {
    l_kind kind;
    double a, b;
    uint32_t n;
    int64_t *times;
    double *rates;
} l_arrivals;

/* Inverts the integrated rate: consumes one unit exponential. */
static bool next_scheduled(const l_arrivals *p, aisim_rng *rng, aisim_l_arrival_cursor *cursor)
{
    double left = aisim_rng_exponential(rng, 1.0);
    int64_t t = cursor->t_ns > p->times[0] ? cursor->t_ns : p->times[0];
    for (uint32_t i = 0; i < p->n; i++) {
        int64_t end = i + 1 < p->n ? p->times[i + 1] : AISIM_NEVER;
        if (t >= end) {
            continue;
        }
        double per_ns = p->rates[i] / 1e9;
        double room = end == AISIM_NEVER ? INFINITY : (double)(end - t) * per_ns;
        if (per_ns > 0.0 && left <= room) {
            cursor->t_ns = t + llround(left / per_ns);
            return true;
        }
        if (end == AISIM_NEVER) {
            return false;
        }
        left -= room;
        t = end;
    }
    return false;
}

static bool next_from_function(lua_State *L, int index, int rng, aisim_l_arrival_cursor *cursor)
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

bool aisim_l_next_arrival(lua_State *L, int index, int rng_index, aisim_l_arrival_cursor *cursor)
{
    const l_arrivals *p = luaL_checkudata(L, index, AISIM_L_ARRIVALS);
    aisim_rng *rng = luaL_checkudata(L, rng_index, AISIM_L_RNG);
    uint64_t n = cursor->n++;
    double u;
    switch (p->kind) {
    case A_POISSON:
        cursor->t_ns += aisim_ns_from_s(aisim_rng_exponential(rng, 1.0 / p->a));
        return true;
    case A_GAMMA:
        cursor->t_ns += aisim_ns_from_s(aisim_rng_gamma(rng, p->b) / (p->b * p->a));
        return true;
    case A_WEIBULL:
        u = -log1p(-aisim_rng_unit(rng));
        cursor->t_ns += aisim_ns_from_s(pow(u, 1.0 / p->b) / (p->a * tgamma(1.0 + 1.0 / p->b)));
        return true;
    case A_CONSTANT:
        cursor->t_ns = aisim_ns_from_s((double)n / p->a);
        return true;
    case A_SCHEDULE:
        return next_scheduled(p, rng, cursor);
    case A_BURST:
        cursor->t_ns = aisim_ns_from_ms(floor((double)n / p->a) * p->b);
        return true;
    case A_AT_ONCE:
        return (double)n < p->a;
    case A_TRACE:
        if (n >= p->n) {
            return false;
        }
        cursor->t_ns = p->times[n];
        return true;
    case A_FN:
        return next_from_function(L, lua_absindex(L, index), lua_absindex(L, rng_index), cursor);
    }
    return false;
}

static l_arrivals *new_arrivals(lua_State *L, l_kind kind, double a, double b)
{
    l_arrivals *p = lua_newuserdatauv(L, sizeof *p, 1);
    memset(p, 0, sizeof *p);
    p->kind = kind;
    p->a = a;
    p->b = b;
    luaL_setmetatable(L, AISIM_L_ARRIVALS);
    return p;
}

/* core.arrivals(kind, a, b) */
static int l_simple(lua_State *L)
{
    static const char *const names[] = {"poisson", "gamma",       "weibull", "constant_rate",
                                        "burst",   "all_at_once", NULL};
    static const l_kind kinds[] = {A_POISSON, A_GAMMA, A_WEIBULL, A_CONSTANT, A_BURST, A_AT_ONCE};
    l_kind kind = kinds[luaL_checkoption(L, 1, NULL, names)];
    new_arrivals(L, kind, luaL_checknumber(L, 2), luaL_optnumber(L, 3, 0));
    return 1;
}

/* core.arrivals_list(times_ms, rates or nil): a trace, or a schedule of rates; ascending, checked
 */
static int l_list(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    bool schedule = lua_type(L, 2) == LUA_TTABLE;
    l_arrivals *p = new_arrivals(L, schedule ? A_SCHEDULE : A_TRACE, 0, 0);
    p->n = (uint32_t)lua_rawlen(L, 1);
    p->times = aisim_alloc(p->n, sizeof *p->times);
    p->rates = schedule ? aisim_alloc(p->n, sizeof *p->rates) : NULL;
    for (uint32_t i = 0; i < p->n; i++) {
        lua_rawgeti(L, 1, (lua_Integer)i + 1);
        p->times[i] = aisim_ns_from_ms(lua_tonumber(L, -1));
        lua_pop(L, 1);
        if (schedule) {
            lua_rawgeti(L, 2, (lua_Integer)i + 1);
            p->rates[i] = lua_tonumber(L, -1);
            lua_pop(L, 1);
        }
    }
    return 1;
}

/* core.arrivals_fn(fn) */
static int l_fn(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TFUNCTION);
    new_arrivals(L, A_FN, 0, 0);
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1);
    return 1;
}

static int arrivals_gc(lua_State *L)
{
    l_arrivals *p = luaL_checkudata(L, 1, AISIM_L_ARRIVALS);
    aisim_free(p->times);
    aisim_free(p->rates);
    p->times = NULL;
    p->rates = NULL;
    return 0;
}

static int arrivals_tostring(lua_State *L)
{
    static const char *const names[] = {"poisson",       "gamma",    "weibull",
                                        "constant_rate", "schedule", "burst",
                                        "all_at_once",   "trace",    "function"};
    const l_arrivals *p = luaL_checkudata(L, 1, AISIM_L_ARRIVALS);
    lua_pushfstring(L, "arrivals %s", names[p->kind]);
    return 1;
}

/* arrivals:times(rng, n) -> the first n times in ms; for looking at a process without a run */
static int arrivals_times(lua_State *L)
{
    luaL_checkudata(L, 1, AISIM_L_ARRIVALS);
    luaL_checkudata(L, 2, AISIM_L_RNG);
    lua_Integer n = luaL_checkinteger(L, 3);
    aisim_l_arrival_cursor cursor = {0, 0};
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
