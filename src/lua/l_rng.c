/* l_rng.c - named random streams (A7): sim:rng("think").
 *
 * A stream is a pure function of (seed, name): adding one shifts no other. The same name gives the
 * same object, so two places that ask for "think" share one sequence. */
#include <math.h>
#include <string.h>

#include "lua/l_random.h"

static aisim_rng *check(lua_State *L, int arg)
{
    return luaL_checkudata(L, arg, AISIM_L_RNG);
}

void aisim_l_push_new_stream(lua_State *L, uint64_t seed, const char *name)
{
    aisim_rng *rng = lua_newuserdatauv(L, sizeof *rng, 0);
    *rng = aisim_rng_named(seed, name);
    luaL_setmetatable(L, AISIM_L_RNG);
}

void aisim_l_push_stream(lua_State *L, aisim_l_sim *s, const char *name)
{
    aisim_l_push_ref_table(L, s, "streams");
    if (lua_getfield(L, -1, name) == LUA_TNIL) {
        lua_pop(L, 1);
        aisim_l_push_new_stream(L, aisim_sim_seed(s->sim), name);
        lua_pushvalue(L, -1);
        lua_setfield(L, -3, name);
    }
    lua_remove(L, -2);
}

/* sim:rng(name) */
static int sim_rng(lua_State *L)
{
    aisim_l_sim *s = aisim_l_check_sim(L, 1);
    if (lua_type(L, 2) != LUA_TSTRING) {
        return aisim_l_fail(L, "sim:rng: name of a stream expected, got %s", luaL_typename(L, 2));
    }
    aisim_l_push_stream(L, s, lua_tostring(L, 2));
    return 1;
}

/* core.rng(seed, name): a stream outside a simulation */
static int l_rng(lua_State *L)
{
    aisim_l_push_new_stream(L, (uint64_t)luaL_checkinteger(L, 1), luaL_checkstring(L, 2));
    return 1;
}

/* The arguments of math.random from `first` on. */
static int random_of(lua_State *L, aisim_rng *rng, int first)
{
    lua_Integer low = 1;
    lua_Integer high;
    switch (lua_gettop(L) - first) {
    case -1:
        lua_pushnumber(L, aisim_rng_unit(rng));
        return 1;
    case 0:
        high = luaL_checkinteger(L, first);
        if (high == 0) { /* all 64 bits, as math.random(0) */
            lua_pushinteger(L, (lua_Integer)aisim_rng_next(rng));
            return 1;
        }
        break;
    default:
        low = luaL_checkinteger(L, first);
        high = luaL_checkinteger(L, first + 1);
        break;
    }
    if (low > high) {
        return aisim_l_fail(L, "random: interval %I..%I is empty", (LUAI_UACINT)low,
                            (LUAI_UACINT)high);
    }
    uint64_t width = (uint64_t)high - (uint64_t)low;
    uint64_t offset = width == UINT64_MAX ? aisim_rng_next(rng) : aisim_rng_below(rng, width + 1);
    lua_pushinteger(L, (lua_Integer)((uint64_t)low + offset));
    return 1;
}

/* rng:random() in [0, 1), rng:random(n) in 1..n, rng:random(m, n) in m..n: as math.random */
static int rng_random(lua_State *L)
{
    return random_of(L, check(L, 1), 2);
}

/* ---- math.random ----------------------------------------------------------------------------- */

static int math_random(lua_State *L)
{
    return random_of(L, lua_touserdata(L, lua_upvalueindex(1)), 1);
}

/* math.randomseed(x): a stream of its own for each x; without argument back to the simulation's */
static int math_randomseed(lua_State *L)
{
    aisim_rng *rng = lua_touserdata(L, lua_upvalueindex(1));
    uint64_t seed = (uint64_t)lua_tointeger(L, lua_upvalueindex(2));
    if (!lua_isnoneornil(L, 1)) {
        lua_Number x = luaL_checknumber(L, 1);
        seed = aisim_mix64(seed ^ aisim_hash_bytes(&x, sizeof x));
    }
    *rng = aisim_rng_named(seed, "math.random");
    return 0;
}

/* core.seed_math(seed): math.random becomes a stream of the seed, so that it determines the run */
static int l_seed_math(lua_State *L)
{
    lua_Integer seed = luaL_checkinteger(L, 1);
    lua_settop(L, 1);
    lua_getglobal(L, "math");
    luaL_checktype(L, 2, LUA_TTABLE);
    aisim_l_push_new_stream(L, (uint64_t)seed, "math.random");
    lua_pushvalue(L, 3);
    lua_pushcclosure(L, math_random, 1);
    lua_setfield(L, 2, "random");
    lua_pushvalue(L, 3);
    lua_pushinteger(L, seed);
    lua_pushcclosure(L, math_randomseed, 2);
    lua_setfield(L, 2, "randomseed");
    return 0;
}

/* rng:uniform(a, b) */
static int rng_uniform(lua_State *L)
{
    aisim_rng *rng = check(L, 1);
    double a = luaL_optnumber(L, 2, 0);
    double b = luaL_optnumber(L, 3, 1);
    lua_pushnumber(L, a + (b - a) * aisim_rng_unit(rng));
    return 1;
}

/* rng:exp(mean) */
static int rng_exp(lua_State *L)
{
    lua_pushnumber(L, aisim_rng_exponential(check(L, 1), luaL_optnumber(L, 2, 1)));
    return 1;
}

/* rng:normal(mean, std) */
static int rng_normal(lua_State *L)
{
    aisim_rng *rng = check(L, 1);
    lua_pushnumber(L, luaL_optnumber(L, 2, 0) + luaL_optnumber(L, 3, 1) * aisim_rng_normal(rng));
    return 1;
}

/* rng:sample(dist) */
static int rng_sample(lua_State *L)
{
    check(L, 1);
    lua_pushnumber(L, aisim_l_draw(L, 2, 1));
    return 1;
}

/* rng:pick(list) -> one of its items */
static int rng_pick(lua_State *L)
{
    aisim_rng *rng = check(L, 1);
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_Unsigned n = lua_rawlen(L, 2);
    if (n == 0) {
        return aisim_l_fail(L, "rng:pick: the list is empty");
    }
    lua_rawgeti(L, 2, (lua_Integer)aisim_rng_below(rng, n) + 1);
    return 1;
}

/* rng:chance(p) -> boolean */
static int rng_chance(lua_State *L)
{
    aisim_rng *rng = check(L, 1);
    lua_pushboolean(L, aisim_rng_unit(rng) < luaL_checknumber(L, 2));
    return 1;
}

static int rng_tostring(lua_State *L)
{
    check(L, 1);
    lua_pushliteral(L, "random stream");
    return 1;
}

void aisim_l_rng_register(lua_State *L)
{
    static const luaL_Reg functions[] = {{"rng", l_rng}, {"seed_math", l_seed_math}, {NULL, NULL}};
    static const luaL_Reg methods[] = {{"random", rng_random}, {"uniform", rng_uniform},
                                       {"exp", rng_exp},       {"normal", rng_normal},
                                       {"sample", rng_sample}, {"pick", rng_pick},
                                       {"chance", rng_chance}, {NULL, NULL}};
    static const aisim_l_class class_ = {AISIM_L_RNG, methods, NULL, NULL, rng_tostring, NULL};
    luaL_setfuncs(L, functions, 0);
    aisim_l_class_register(L, &class_);
    aisim_l_extend(L, "aisim.Sim", (const luaL_Reg[]){{"rng", sim_rng}, {NULL, NULL}});
}
