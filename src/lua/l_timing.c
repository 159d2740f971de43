/* l_timing.c - Lua functions as timing models (spec/lua-api.md §9).
 *
 * Functions become a callback model. They get the five aggregates P, SN, SP, D, SK
 * as scalars, then `batch`, one table that is re-used. A result must be finite and > 0. While a
 * function runs, the machine of its pool is noted in the registry: a built-in model without a model
 * of its own prices for that machine (aisim.timing.roofline{} inside the function of a pool).
 *
 * Engine -> Lua: l_timing_object.c. */
#include "lua/l_timing.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "lua/l_cluster.h"

static const char machine_key; /* registry: machine of the pool whose function is running */

typedef struct l_functions {
    aisim_l_sim *s;
    char *name;
    int pass, prefill, decode; /* refs, LUA_NOREF = absent */
    int arguments;             /* of pass */
    int batch;                 /* refs: the table */
    int machine;               /* refs */
} l_functions;

/* ---- Lua functions as a model ---------------------------------------------------------------- */

static aisim_status bad_result(l_functions *f, const aisim_pass_shape *shape, int fn,
                               aisim_error *err)
{
    aisim_l_sim *s = f->s;
    lua_State *L = s->L; /* the result is on top */
    const char *got = aisim_l_push_shown(L, -1);
    lua_rawgeti(L, s->refs, fn);
    aisim_l_where_function(L, -1);
    lua_pushfstring(L,
                    "%s: timing model '%s' returned %s for n_prefill=%I new_tokens=%I "
                    "past_tokens=%I n_decode=%I context_tokens=%I; a finite number of ms > 0 "
                    "expected",
                    lua_tostring(L, -1), f->name, got, (LUAI_UACINT)shape->n_prefill,
                    (LUAI_UACINT)shape->new_tokens, (LUAI_UACINT)shape->past_tokens,
                    (LUAI_UACINT)shape->n_decode, (LUAI_UACINT)shape->context_tokens);
    aisim_fail(err, AISIM_ECALLBACK, "%s", lua_tostring(L, -1));
    aisim_l_abort(s, L);
    return AISIM_ECALLBACK;
}

/* Calls refs[fn] with n scalars. */
static aisim_status call(l_functions *f, const aisim_pass_shape *shape, int fn,
                         const uint64_t scalars[], int n, bool batch, double *ms, aisim_error *err)
{
    aisim_l_sim *s = f->s;
    lua_State *L = s->L;
    int top = lua_gettop(L);
    uint64_t outer = aisim_l_begin(s);
    s->site = (aisim_l_site){"timing model", f->name, NULL, AISIM_NONE, 0};
    lua_rawgeti(L, s->refs, f->machine);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &machine_key);
    lua_rawgeti(L, s->refs, fn);
    for (int i = 0; i < n; i++) {
        lua_pushinteger(L, (lua_Integer)scalars[i]);
    }
    if (batch) {
        lua_rawgeti(L, s->refs, f->batch);
        lua_pushliteral(L, "max_context");
        lua_pushinteger(L, (lua_Integer)shape->max_context);
        lua_rawset(L, -3);
    }
    bool ok = aisim_l_call(s, outer, n + (batch ? 1 : 0), 1);
    lua_pushnil(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &machine_key);
    if (!ok) {
        lua_settop(L, top);
        return aisim_fail(err, AISIM_ECALLBACK, "timing model '%s' failed", f->name);
    }
    aisim_status status = AISIM_OK;
    *ms = lua_tonumber(L, -1);
    if (lua_type(L, -1) != LUA_TNUMBER || !isfinite(*ms) || !(*ms > 0.0)) {
        status = bad_result(f, shape, fn, err);
    }
    lua_settop(L, top);
    return status;
}

static aisim_status price(void *context, const aisim_pass_shape *shape, double *ms,
                          aisim_error *err)
{
    l_functions *f = context;
    if (f->s->L == NULL || aisim_l_broken(f->s)) {
        return aisim_fail(err, AISIM_ECALLBACK, "timing model '%s' is called outside of a run",
                          f->name);
    }
    const uint64_t scalars[] = {shape->n_prefill, shape->new_tokens, shape->past_tokens,
                                shape->n_decode, shape->context_tokens};
    if (f->pass != LUA_NOREF) {
        return call(f, shape, f->pass, scalars, f->arguments < 5 ? f->arguments : 5,
                    f->arguments > 5, ms, err);
    }
    double prefill_ms = 0.0;
    double decode_ms = 0.0;
    aisim_status status = AISIM_OK;
    if (shape->n_prefill > 0) {
        status = call(f, shape, f->prefill, scalars, 3, false, &prefill_ms, err);
    }
    if (status == AISIM_OK && shape->n_decode > 0) {
        status = call(f, shape, f->decode, scalars + 3, 2, false, &decode_ms, err);
    }
    *ms = prefill_ms + decode_ms;
    return status;
}

static int batch_index(lua_State *L)
{
    return aisim_l_fail(L, "batch: known, not modelled: '%s' (there is max_context)",
                        luaL_tolstring(L, 2, NULL));
}

static int anchor_function(lua_State *L, aisim_l_sim *s, int spec, const char *key)
{
    if (lua_getfield(L, spec, key) != LUA_TFUNCTION) {
        lua_pop(L, 1);
        return LUA_NOREF;
    }
    return aisim_l_anchor(L, s);
}

aisim_timing *aisim_l_timing_from_functions(lua_State *L, aisim_l_sim *s, int spec, int machine)
{
    aisim_l_cluster *cluster = aisim_l_cluster_of(s);
    l_functions *f = aisim_alloc_zero(1, sizeof *f);
    aisim_array_push(&cluster->timing_functions, f);
    f->s = s;
    lua_getfield(L, spec, "name");
    f->name = aisim_strdup(lua_tostring(L, -1));
    f->pass = anchor_function(L, s, spec, "pass");
    f->prefill = anchor_function(L, s, spec, "prefill");
    f->decode = anchor_function(L, s, spec, "decode");
    if (f->pass != LUA_NOREF) {
        lua_getfield(L, spec, "pass");
        f->arguments = aisim_l_wanted_arguments(L, -1, 6);
        lua_pop(L, 1);
    }
    lua_newtable(L); /* batch */
    lua_newtable(L);
    lua_pushcfunction(L, batch_index);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
    f->batch = aisim_l_anchor(L, s);
    lua_pushvalue(L, machine);
    f->machine = aisim_l_anchor(L, s);
    lua_getfield(L, spec, "pure");
    bool pure = lua_toboolean(L, -1);
    lua_pop(L, 2);
    aisim_error err = {0};
    aisim_timing *timing = NULL;
    if (aisim_timing_callback(price, f, pure, &timing, &err) != AISIM_OK) {
        aisim_l_raise(L, &err);
    }
    return timing;
}

void aisim_l_timing_functions_free(aisim_l_cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->timing_functions.len; i++) {
        l_functions *f = cluster->timing_functions.data[i];
        aisim_free(f->name);
        aisim_free(f);
    }
    aisim_array_free(&cluster->timing_functions);
}

/* core.current_machine() -> machine of the pool whose timing function is running, or nil */
static int l_current_machine(lua_State *L)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &machine_key);
    return 1;
}

void aisim_l_timing_register(lua_State *L)
{
    static const luaL_Reg functions[] = {{"current_machine", l_current_machine}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
    aisim_l_timing_object_register(L);
}
