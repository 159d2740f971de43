/* l_dist.c - distributions: drawn in C, described in Lua (lua/aisim/dist.lua).
 *
 * A distribution is a userdata {kind, two parameters, table}; parts of a mixture and user functions
 * are its user value. Numbers count as constants wherever a distribution is accepted. Draws are a
 * pure function of the stream: one kind always consumes the stream in the same way. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "lua/l_random.h"

typedef enum {
    D_CONST,     /* a */
    D_UNIFORM,   /* [a, b) */
    D_EXP,       /* mean a */
    D_GAMMA,     /* shape a, scale b */
    D_NORMAL,    /* mean a, standard deviation b */
    D_LOGNORMAL, /* exp(normal(a, b)) */
    D_PARETO,    /* a * u^(-1/b) */
    D_ZIPF,      /* rank 1..n with weight 1/rank^s: cumulative table */
    D_EMPIRICAL, /* values with cumulative weights */
    D_MIXTURE,   /* parts with cumulative weights */
    D_CLAMP,     /* part, cut to [a, b] */
    D_FN         /* fn(rng) */
} l_kind;

typedef struct l_dist {
    l_kind kind;
    double a, b;
    uint32_t n;
    double *values;            /* EMPIRICAL */
    double *cumulative;        /* weights summed; the last one is the total */
    const struct l_dist *part; /* CLAMP: of a distribution that needs no Lua, else NULL */
} l_dist;

/* ---- drawing --------------------------------------------------------------------------------- */

/* First index whose cumulative weight exceeds u * total. */
static uint32_t pick(const l_dist *d, double u)
{
    double x = u * d->cumulative[d->n - 1];
    uint32_t low = 0;
    uint32_t high = d->n - 1;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (d->cumulative[middle] > x) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

static double draw_part(lua_State *L, int dist, int rng, uint32_t i)
{
    luaL_checkstack(L, 8, "distributions nested too deeply");
    lua_getiuservalue(L, dist, 1);
    lua_rawgeti(L, -1, (lua_Integer)i + 1);
    double x = aisim_l_draw(L, lua_gettop(L), rng);
    lua_pop(L, 2);
    return x;
}

static double draw_function(lua_State *L, int dist, int rng)
{
    luaL_checkstack(L, 8, "distributions nested too deeply");
    lua_getiuservalue(L, dist, 1);
    lua_rawgeti(L, -1, 1);
    lua_pushvalue(L, rng);
    lua_call(L, 1, 1);
    int is_number;
    double x = lua_tonumberx(L, -1, &is_number);
    if (!is_number) {
        lua_rawgeti(L, -2, 1);
        aisim_l_where_function(L, -1);
        luaL_error(L, "%s: dist.fn: number expected, the function returned %s", lua_tostring(L, -1),
                   luaL_typename(L, -3));
    }
    lua_pop(L, 2);
    return x;
}

/* Draws of these kinds need no Lua. */
static bool is_plain(const l_dist *d)
{
    return d->kind == D_CLAMP ? d->part != NULL : d->kind != D_MIXTURE && d->kind != D_FN;
}

static double draw_plain(const l_dist *d, aisim_rng *rng)
{
    switch (d->kind) {
    case D_CONST:
        return d->a;
    case D_UNIFORM:
        return d->a + (d->b - d->a) * aisim_rng_unit(rng);
    case D_EXP:
        return aisim_rng_exponential(rng, d->a);
    case D_GAMMA:
        return d->b * aisim_rng_gamma(rng, d->a);
    case D_NORMAL:
        return d->a + d->b * aisim_rng_normal(rng);
    case D_LOGNORMAL:
        return exp(d->a + d->b * aisim_rng_normal(rng));
    case D_PARETO:
        return d->a * pow(1.0 - aisim_rng_unit(rng), -1.0 / d->b);
    case D_ZIPF:
        return (double)pick(d, aisim_rng_unit(rng)) + 1.0;
    case D_EMPIRICAL:
        return d->values[pick(d, aisim_rng_unit(rng))];
    case D_CLAMP:
        return fmin(d->b, fmax(d->a, draw_plain(d->part, rng)));
    case D_MIXTURE:
    case D_FN:
        break;
    }
    return 0.0;
}

const void *aisim_l_plain_dist(lua_State *L, int index)
{
    const l_dist *d = luaL_testudata(L, index, AISIM_L_DIST);
    return d != NULL && is_plain(d) ? d : NULL;
}

double aisim_l_draw_plain(const void *dist, aisim_rng *rng)
{
    return draw_plain(dist, rng);
}

static double draw(lua_State *L, int index, int rng_index)
{
    const l_dist *d = luaL_checkudata(L, index, AISIM_L_DIST);
    aisim_rng *rng = luaL_checkudata(L, rng_index, AISIM_L_RNG);
    if (is_plain(d)) {
        return draw_plain(d, rng);
    }
    switch (d->kind) {
    case D_MIXTURE:
        return draw_part(L, index, rng_index, pick(d, aisim_rng_unit(rng)));
    case D_CLAMP:
        return fmin(d->b, fmax(d->a, draw_part(L, index, rng_index, 0)));
    default:
        return draw_function(L, index, rng_index);
    }
}

double aisim_l_draw(lua_State *L, int dist, int rng)
{
    double x;
    dist = lua_absindex(L, dist);
    rng = lua_absindex(L, rng);
    if (lua_type(L, dist) == LUA_TNUMBER) {
        x = lua_tonumber(L, dist);
    } else if (lua_type(L, dist) == LUA_TFUNCTION) {
        lua_pushvalue(L, dist);
        lua_pushvalue(L, rng);
        lua_call(L, 1, 1);
        if (lua_type(L, -1) != LUA_TNUMBER) {
            aisim_l_push_shown(L, -1);
            aisim_l_where_function(L, dist);
            return luaL_error(L, "%s: number expected, the function returned %s",
                              lua_tostring(L, -1), lua_tostring(L, -2));
        }
        x = lua_tonumber(L, -1);
        lua_pop(L, 1);
    } else if (luaL_testudata(L, dist, AISIM_L_DIST) != NULL) {
        x = draw(L, dist, rng);
    } else {
        return aisim_l_fail(L, "distribution or number expected, got %s", luaL_typename(L, dist));
    }
    if (!isfinite(x)) {
        lua_pushnumber(L, x);
        aisim_l_fail(L, "the distribution gave %s, which is not finite", aisim_l_push_shown(L, -1));
    }
    return x;
}

bool aisim_l_dist_is_constant(lua_State *L, int dist)
{
    const l_dist *d = luaL_testudata(L, dist, AISIM_L_DIST);
    return lua_type(L, dist) == LUA_TNUMBER || (d != NULL && d->kind == D_CONST);
}

uint32_t aisim_l_draw_count(lua_State *L, int dist, int rng, uint32_t least, const char *what)
{
    double x = aisim_l_draw(L, dist, rng);
    if (x < 0 || x > 2147483647.0) {
        aisim_l_fail(L, "%s: the distribution gave %f; 0 .. 2147483647 expected", what, x);
    }
    uint32_t n = (uint32_t)llround(x);
    return n < least ? least : n;
}

/* ---- making ---------------------------------------------------------------------------------- */

static l_dist *new_dist(lua_State *L, l_kind kind, double a, double b)
{
    l_dist *d = lua_newuserdatauv(L, sizeof *d, 1);
    memset(d, 0, sizeof *d);
    d->kind = kind;
    d->a = a;
    d->b = b;
    luaL_setmetatable(L, AISIM_L_DIST);
    return d;
}

static void add_weights(lua_State *L, l_dist *d, int list)
{
    d->n = (uint32_t)lua_rawlen(L, list);
    d->cumulative = aisim_alloc(d->n, sizeof *d->cumulative);
    double sum = 0.0;
    for (uint32_t i = 0; i < d->n; i++) {
        lua_rawgeti(L, list, (lua_Integer)i + 1);
        sum += lua_tonumber(L, -1);
        d->cumulative[i] = sum;
        lua_pop(L, 1);
    }
}

/* core.dist(kind, a, b): the kinds with two parameters */
static int l_simple(lua_State *L)
{
    static const char *const names[] = {"const",  "uniform",   "exp",    "gamma",
                                        "normal", "lognormal", "pareto", NULL};
    static const l_kind kinds[] = {D_CONST,  D_UNIFORM,   D_EXP,   D_GAMMA,
                                   D_NORMAL, D_LOGNORMAL, D_PARETO};
    l_kind kind = kinds[luaL_checkoption(L, 1, NULL, names)];
    new_dist(L, kind, luaL_checknumber(L, 2), luaL_optnumber(L, 3, 0));
    return 1;
}

/* core.dist_zipf(n, s) */
static int l_zipf(lua_State *L)
{
    lua_Integer n = luaL_checkinteger(L, 1);
    double s = luaL_checknumber(L, 2);
    luaL_argcheck(L, n >= 1 && n <= 100000000, 1, "1 .. 100000000 expected");
    l_dist *d = new_dist(L, D_ZIPF, s, 0);
    d->n = (uint32_t)n;
    d->cumulative = aisim_alloc(d->n, sizeof *d->cumulative);
    double sum = 0.0;
    for (uint32_t i = 0; i < d->n; i++) {
        sum += pow((double)i + 1.0, -s);
        d->cumulative[i] = sum;
    }
    return 1;
}

/* core.dist_empirical(values, weights) */
static int l_empirical(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_checktype(L, 2, LUA_TTABLE);
    l_dist *d = new_dist(L, D_EMPIRICAL, 0, 0);
    add_weights(L, d, 2);
    d->values = aisim_alloc(d->n, sizeof *d->values);
    for (uint32_t i = 0; i < d->n; i++) {
        lua_rawgeti(L, 1, (lua_Integer)i + 1);
        d->values[i] = lua_tonumber(L, -1);
        lua_pop(L, 1);
    }
    return 1;
}

/* core.dist_mixture(parts, weights) */
static int l_mixture(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_checktype(L, 2, LUA_TTABLE);
    l_dist *d = new_dist(L, D_MIXTURE, 0, 0);
    add_weights(L, d, 2);
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1);
    return 1;
}

/* core.dist_clamp(part, low, high); core.dist_fn(fn) */
static int l_clamp(lua_State *L)
{
    luaL_checkany(L, 1);
    l_dist *d = new_dist(L, D_CLAMP, luaL_checknumber(L, 2), luaL_checknumber(L, 3));
    d->part = aisim_l_plain_dist(L, 1); /* the user value keeps it */
    lua_createtable(L, 1, 0);
    lua_pushvalue(L, 1);
    lua_rawseti(L, -2, 1);
    lua_setiuservalue(L, -2, 1);
    return 1;
}

static int l_fn(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TFUNCTION);
    new_dist(L, D_FN, 0, 0);
    lua_createtable(L, 1, 0);
    lua_pushvalue(L, 1);
    lua_rawseti(L, -2, 1);
    lua_setiuservalue(L, -2, 1);
    return 1;
}

static int dist_sample(lua_State *L)
{
    luaL_checkudata(L, 1, AISIM_L_DIST);
    luaL_checkudata(L, 2, AISIM_L_RNG);
    lua_pushnumber(L, draw(L, 1, 2));
    return 1;
}

static int dist_gc(lua_State *L)
{
    l_dist *d = luaL_checkudata(L, 1, AISIM_L_DIST);
    aisim_free(d->values);
    aisim_free(d->cumulative);
    d->values = d->cumulative = NULL;
    return 0;
}

static int dist_tostring(lua_State *L)
{
    static const char *const names[] = {"const",     "uniform",   "exp",    "gamma",
                                        "normal",    "lognormal", "pareto", "zipf",
                                        "empirical", "mixture",   "clamp",  "fn"};
    const l_dist *d = luaL_checkudata(L, 1, AISIM_L_DIST);
    lua_pushfstring(L, "distribution %s", names[d->kind]);
    return 1;
}

void aisim_l_dist_register(lua_State *L)
{
    static const luaL_Reg functions[] = {{"dist", l_simple},
                                         {"dist_zipf", l_zipf},
                                         {"dist_empirical", l_empirical},
                                         {"dist_mixture", l_mixture},
                                         {"dist_clamp", l_clamp},
                                         {"dist_fn", l_fn},
                                         {NULL, NULL}};
    static const luaL_Reg methods[] = {{"sample", dist_sample}, {NULL, NULL}};
    static const aisim_l_class class_ = {AISIM_L_DIST, methods, NULL, NULL, dist_tostring, dist_gc};
    luaL_setfuncs(L, functions, 0);
    aisim_l_class_register(L, &class_);
}
