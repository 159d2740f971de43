/* l_timing.c - Lua functions as timing models (spec/lua-api.md §9).
 *
 * Functions become a callback model. They get the five aggregates P, SN, SP, D, SK
 * as scalars, then `batch`, one table that is re-used: its columns are made when they are read, and
 * only a function that declares it makes the engine collect them. A result must be finite and > 0.
 * While a function runs, the machine of its pool is noted in the registry: a built-in model without
 * a model of its own prices for that machine (aisim.timing.roofline{} inside the function of a
 * pool).
 *
 * Engine -> Lua: l_timing_object.c. */
#include "lua/l_timing.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/map.h"
#include "lua/l_cluster.h"

static const char machine_key; /* registry: machine of the pool whose function is running */

typedef struct l_functions {
    aisim_l_sim *s;
    char *name;
    int pass, prefill, decode;     /* refs, LUA_NOREF = absent */
    int transfer;                  /* refs */
    int arguments;                 /* of pass */
    int batch;                     /* refs: the table */
    bool filled;                   /* it holds columns of the last call */
    const aisim_pass_items *items; /* of the call; NULL outside of one */
    int machine;                   /* refs */
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

/* ---- batch: max_context, chunk_start, chunk_len, context ------------------------------------- */

static const char *const batch_columns[] = {"max_context", "chunk_start", "chunk_len", "context",
                                            NULL};

/* After a call: what a script has kept of the table answers with an error from then on. */
static void clear_batch(l_functions *f, lua_State *L)
{
    f->items = NULL;
    if (f->filled) {
        lua_rawgeti(L, f->s->refs, f->batch);
        for (int i = 0; batch_columns[i] != NULL; i++) {
            lua_pushnil(L);
            lua_setfield(L, -2, batch_columns[i]);
        }
        lua_pop(L, 1);
    }
    f->filled = false;
}

static void push_column(lua_State *L, const uint64_t values[], uint32_t n)
{
    lua_createtable(L, (int)n, 0);
    for (uint32_t i = 0; i < n; i++) {
        lua_pushinteger(L, (lua_Integer)values[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

/* Longest attended length of the pass: of a decode item, or of a chunk with its past. */
static uint64_t max_context(const aisim_pass_items *items)
{
    uint64_t longest = 0;
    for (uint32_t i = 0; i < items->n_contexts; i++) {
        longest = items->context[i] > longest ? items->context[i] : longest;
    }
    for (uint32_t i = 0; i < items->n_chunks; i++) {
        uint64_t length = items->chunk_start[i] + items->chunk_len[i];
        longest = length > longest ? length : longest;
    }
    return longest;
}

/* __index(batch, name): makes the column and keeps it for this call. */
static int batch_index(lua_State *L)
{
    l_functions *f = lua_touserdata(L, lua_upvalueindex(1));
    const char *name = lua_tostring(L, 2);
    int column = 0;
    while (batch_columns[column] != NULL &&
           (name == NULL || strcmp(name, batch_columns[column]) != 0)) {
        column++;
    }
    if (batch_columns[column] == NULL) {
        return aisim_l_fail(L,
                            "batch: unknown field '%s'; there are max_context, chunk_start, "
                            "chunk_len and context",
                            luaL_tolstring(L, 2, NULL));
    }
    if (f->items == NULL) {
        return aisim_l_fail(L,
                            "batch: used after the timing function returned; copy what you need");
    }
    if (column == 0) {
        lua_pushinteger(L, (lua_Integer)max_context(f->items));
    } else if (column == 3) {
        push_column(L, f->items->context, f->items->n_contexts);
    } else {
        push_column(L, column == 1 ? f->items->chunk_start : f->items->chunk_len,
                    f->items->n_chunks);
    }
    f->filled = true;
    lua_pushvalue(L, 2);
    lua_pushvalue(L, -2);
    lua_rawset(L, 1);
    return 1;
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

static aisim_status price(void *context, const aisim_pass_shape *shape,
                          const aisim_pass_items *items, double *ms, aisim_error *err)
{
    l_functions *f = context;
    if (f->s->L == NULL || aisim_l_broken(f->s)) {
        return aisim_fail(err, AISIM_ECALLBACK, "timing model '%s' is called outside of a run",
                          f->name);
    }
    const uint64_t scalars[] = {shape->n_prefill, shape->new_tokens, shape->past_tokens,
                                shape->n_decode, shape->context_tokens};
    if (f->pass != LUA_NOREF) {
        f->items = items;
        aisim_status done = call(f, shape, f->pass, scalars, f->arguments < 5 ? f->arguments : 5,
                                 f->arguments > 5, ms, err);
        clear_batch(f, f->s->L);
        return done;
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

/* transfer(kind, bytes, src, dst) -> ms >= 0; after a mistake the run ends behind this event. */
static int64_t price_transfer(void *context, aisim_transfer kind, uint64_t bytes, uint32_t src,
                              uint32_t dst)
{
    static const char *const kinds[] = {[AISIM_TRANSFER_HANDOFF] = "handoff",
                                        [AISIM_TRANSFER_OFFLOAD] = "offload",
                                        [AISIM_TRANSFER_RESTORE] = "restore"};
    const l_functions *f = context;
    aisim_l_sim *s = f->s;
    if (s->L == NULL || aisim_l_broken(s)) {
        return 0;
    }
    lua_State *L = s->L;
    int top = lua_gettop(L);
    uint64_t outer = aisim_l_begin(s);
    s->site = (aisim_l_site){"timing model", f->name, NULL, AISIM_NONE, 0};
    lua_rawgeti(L, s->refs, f->transfer);
    lua_pushstring(L, kinds[kind]);
    lua_pushinteger(L, (lua_Integer)bytes);
    lua_pushinteger(L, (lua_Integer)src + 1);
    lua_pushinteger(L, (lua_Integer)dst + 1);
    double ms = 0.0;
    if (aisim_l_call(s, outer, 4, 1)) {
        ms = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : (double)NAN;
        if (!isfinite(ms) || ms < 0.0) {
            const char *got = aisim_l_push_shown(L, -1);
            lua_rawgeti(L, s->refs, f->transfer);
            aisim_l_where_function(L, -1);
            lua_pushfstring(L,
                            "%s: timing model '%s': transfer returned %s for '%s', bytes=%I, "
                            "src=%d, dst=%d; a finite number of ms >= 0 expected",
                            lua_tostring(L, -1), f->name, got, kinds[kind], (LUAI_UACINT)bytes,
                            (int)src + 1, (int)dst + 1);
            aisim_l_abort(s, L);
            ms = 0.0;
        }
    }
    lua_settop(L, top);
    return aisim_ns_from_ms(ms);
}

static int anchor_function(lua_State *L, aisim_l_sim *s, int spec, const char *key)
{
    if (lua_getfield(L, spec, key) != LUA_TFUNCTION) {
        lua_pop(L, 1);
        return LUA_NOREF;
    }
    return aisim_l_anchor(L, s);
}

aisim_timing *aisim_l_timing_from_functions(lua_State *L, aisim_l_sim *s, int spec, int machine,
                                            aisim_transfer_price *transfer)
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
    f->transfer = anchor_function(L, s, spec, "transfer");
    if (f->pass != LUA_NOREF) {
        lua_getfield(L, spec, "pass");
        f->arguments = aisim_l_wanted_arguments(L, -1, 6);
        lua_pop(L, 1);
    }
    lua_newtable(L); /* batch */
    lua_newtable(L);
    lua_pushlightuserdata(L, f);
    lua_pushcclosure(L, batch_index, 1);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
    f->batch = aisim_l_anchor(L, s);
    lua_pushvalue(L, machine);
    f->machine = aisim_l_anchor(L, s);
    lua_getfield(L, spec, "pure");
    const aisim_timing_traits traits = {.pure = lua_toboolean(L, -1), .items = f->arguments > 5};
    lua_pop(L, 2);
    if (f->transfer != LUA_NOREF) {
        *transfer = (aisim_transfer_price){price_transfer, f, traits.pure};
    }
    aisim_error err = {0};
    aisim_timing *timing = NULL;
    if (aisim_timing_callback(price, f, traits, &timing, &err) != AISIM_OK) {
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
