/* l_timing_object.c - timing models as Lua objects, and what a run says about its models.
 *
 * An object prices a pass (pass), shows its operations (explain) and where the time of all passes
 * so far came from (usage). It owns its model (core.timing) or borrows that of a pool
 * (sim:timing_(pool)); a pool's model may be a Lua function, which is called outside of a run here,
 * so the simulation is bound for the length of the call. */
#include "lua/l_timing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lua/l_cluster.h"

enum { PARTS_MAX = 160, NAMES_MAX = 128 };

typedef struct l_timing { /* user value 1: the simulation whose pool owns the model */
    aisim_timing *timing;
    bool borrowed;
} l_timing;

aisim_timing **aisim_l_push_timing(lua_State *L, aisim_timing *timing)
{
    l_timing *object = lua_newuserdatauv(L, sizeof *object, 1);
    *object = (l_timing){timing, false};
    luaL_setmetatable(L, AISIM_L_TIMING);
    return &object->timing;
}

static int timing_gc(lua_State *L)
{
    l_timing *object = luaL_checkudata(L, 1, AISIM_L_TIMING);
    if (!object->borrowed) {
        aisim_timing_free(object->timing);
    }
    object->timing = NULL;
    return 0;
}

/* timing:close(): frees an owned model early; tables are large */
static int timing_close(lua_State *L)
{
    return timing_gc(L);
}

/* core sim:timing_(pool) -> timing object of a pool */
static int sim_timing(lua_State *L)
{
    aisim_l_sim *s = aisim_l_check_sim(L, 1);
    uint32_t pool = aisim_l_check_pool(L, s, 2);
    aisim_l_push_timing(L, aisim_l_cluster_of(s)->pools.data[pool].model);
    ((l_timing *)lua_touserdata(L, -1))->borrowed = true;
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1);
    return 1;
}

static uint64_t count(lua_State *L, int arg)
{
    int is_number;
    lua_Number x = lua_tonumberx(L, arg, &is_number);
    if (!is_number || !(x >= 0) || x > 9e15) {
        aisim_l_fail(L, "timing:pass: argument %d: number >= 0 expected, got %s", arg - 1,
                     luaL_tolstring(L, arg, NULL));
    }
    return (uint64_t)llround(x);
}

/* Arguments n_prefill, new_tokens, past_tokens, n_decode, context_tokens[, verify_width]. */
static aisim_pass_shape check_shape(lua_State *L)
{
    aisim_pass_shape shape = {.n_prefill = count(L, 2),
                              .new_tokens = count(L, 3),
                              .past_tokens = count(L, 4),
                              .n_decode = count(L, 5),
                              .context_tokens = count(L, 6),
                              .verify_width = 1};
    if (!lua_isnoneornil(L, 7)) {
        shape.verify_width = (uint32_t)luaL_checkinteger(L, 7);
    }
    return shape;
}

/* The model, ready to be called; *bound is what must be unbound afterwards, if anything. */
static aisim_timing *begin(lua_State *L, aisim_l_sim **bound)
{
    const l_timing *object = luaL_checkudata(L, 1, AISIM_L_TIMING);
    *bound = NULL;
    if (object->timing == NULL) {
        aisim_l_fail(L, "timing: this model belongs to a pool now, or is closed");
    }
    if (object->borrowed) {
        lua_getiuservalue(L, 1, 1);
        aisim_l_sim *s = aisim_l_check_sim(L, -1);
        if (s->L == NULL) {
            aisim_l_bind(s, L);
            *bound = s;
        }
    }
    return object->timing;
}

static void end(aisim_l_sim *bound)
{
    if (bound != NULL) {
        aisim_l_unbind(bound);
    }
}

static int raise_failure(lua_State *L, const aisim_timing *timing, const aisim_l_sim *bound)
{
    const aisim_error *err = aisim_timing_error(timing);
    return bound != NULL ? aisim_l_raise_failure(L, bound, err) : aisim_l_raise(L, err);
}

/* timing:pass(n_prefill, new_tokens, past_tokens, n_decode, context_tokens[, verify_width]) -> ms
 */
static int timing_pass(lua_State *L)
{
    const aisim_pass_shape shape = check_shape(L);
    aisim_l_sim *bound;
    aisim_timing *timing = begin(L, &bound);
    int64_t ns = aisim_timing_pass_ns(timing, &shape);
    end(bound);
    if (ns == AISIM_TIMING_FAILED) {
        return raise_failure(L, timing, bound);
    }
    aisim_l_push_ms(L, ns);
    return 1;
}

static void set_number(lua_State *L, const char *key, double value)
{
    lua_pushnumber(L, value);
    lua_setfield(L, -2, key);
}

static void set_text(lua_State *L, const char *key, const char *value)
{
    lua_pushstring(L, value);
    lua_setfield(L, -2, key);
}

/* timing:explain(as pass) -> list of operations { name, kind, shape, sizes, count, roof_ms, ms,
 * hidden_ms, overlap, side, provenance }, total ms. Their ms add up to the total. */
static int timing_explain(lua_State *L)
{
    const aisim_pass_shape shape = check_shape(L);
    aisim_timing_part *parts = lua_newuserdatauv(L, PARTS_MAX * sizeof *parts, 0);
    double total_ms = 0;
    aisim_l_sim *bound;
    aisim_timing *timing = begin(L, &bound);
    size_t n = aisim_timing_explain(timing, &shape, parts, PARTS_MAX, &total_ms);
    end(bound);
    if (n == 0 && aisim_timing_error(timing)->code != AISIM_OK) {
        return raise_failure(L, timing, bound);
    }
    n = n < PARTS_MAX ? n : PARTS_MAX;
    lua_createtable(L, (int)n, 0);
    for (size_t i = 0; i < n; i++) {
        const aisim_timing_part *part = &parts[i];
        lua_createtable(L, 0, 11);
        set_text(L, "name", part->name);
        set_text(L, "kind", part->kind);
        set_text(L, "shape", part->shape);
        set_text(L, "sizes", part->sizes);
        set_number(L, "count", part->count);
        set_number(L, "roof_ms", part->roof_ms);
        set_number(L, "ms", part->latency_ms);
        set_number(L, "hidden_ms", part->hidden_ms);
        lua_pushinteger(L, part->overlap);
        lua_setfield(L, -2, "overlap");
        lua_pushinteger(L, part->side);
        lua_setfield(L, -2, "side");
        set_text(L, "provenance", aisim_provenance_name(part->provenance));
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_pushnumber(L, total_ms);
    return 2;
}

/* timing:guessed() -> names of operations that had to be guessed by roofline so far (§7) */
static int timing_guessed(lua_State *L)
{
    const l_timing *object = luaL_checkudata(L, 1, AISIM_L_TIMING);
    const char *names[NAMES_MAX];
    size_t n = object->timing != NULL ? aisim_timing_guessed(object->timing, names, NAMES_MAX) : 0;
    lua_newtable(L);
    for (size_t i = 0; i < n && i < NAMES_MAX; i++) {
        lua_pushstring(L, names[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

/* Adds the names of guessed operations that are not there yet: a phase more is no other operation.
 */
static size_t add_guessed(const aisim_timing *timing, const char *names[], size_t n)
{
    const char *found[NAMES_MAX];
    size_t count = aisim_timing_guessed(timing, found, NAMES_MAX), before = n;
    for (size_t i = 0; i < count && i < NAMES_MAX; i++) {
        size_t same = before;
        while (same < n && strcmp(names[same], found[i]) != 0) {
            same++;
        }
        if (same == n && n < NAMES_MAX) {
            names[n++] = found[i];
        }
    }
    return n;
}

void aisim_l_timing_report(const aisim_l_sim *s, aisim_results *results, uint32_t node)
{
    aisim_timing_usage sum = {0};
    const char *names[NAMES_MAX];
    size_t guessed = 0;
    for (uint32_t i = 0; s->cluster != NULL && i < s->cluster->pools.len; i++) {
        const aisim_timing *timing = s->cluster->pools.data[i].model;
        aisim_timing_usage usage = aisim_timing_usage_of(timing);
        sum.passes += usage.passes;
        sum.total_ms += usage.total_ms;
        for (int p = 0; p < AISIM_PROVENANCE_COUNT; p++) {
            sum.by_ms[p] += usage.by_ms[p];
        }
        guessed = add_guessed(timing, names, guessed);
    }
    node = aisim_results_object(results, node, "timing");
    aisim_results_uint(results, node, "passes", sum.passes);
    aisim_results_number(results, node, "time_ms", sum.total_ms);
    for (int p = 0; p < AISIM_PROVENANCE_COUNT; p++) {
        char key[48];
        snprintf(key, sizeof key, "%s_time_ratio", aisim_provenance_name((aisim_provenance)p));
        aisim_results_number(results, node, key,
                             sum.total_ms > 0 ? sum.by_ms[p] / sum.total_ms : (double)NAN);
    }
    aisim_results_uint(results, node, "roofline_ops", guessed);
    node = aisim_results_array(results, node, "roofline_names");
    for (size_t i = 0; i < guessed; i++) {
        aisim_results_text(results, node, NULL, names[i]);
    }
}

void aisim_l_timing_object_register(lua_State *L)
{
    static const luaL_Reg methods[] = {{"pass", timing_pass},
                                       {"explain", timing_explain},
                                       {"guessed", timing_guessed},
                                       {"close", timing_close},
                                       {NULL, NULL}};
    static const aisim_l_class class_ = {AISIM_L_TIMING, methods, NULL, NULL, NULL, timing_gc};
    aisim_l_class_register(L, &class_);
    aisim_l_extend(L, "aisim.Sim", (const luaL_Reg[]){{"timing_", sim_timing}, {NULL, NULL}});
}
