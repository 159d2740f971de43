/* l_workload.c - open and closed traffic whose parts are Lua objects (spec/lua-api.md §5).
 *
 * The drivers live in src/sim/traffic.c; this file gives them their sources. A draw may call Lua
 * (distributions and arrivals written as functions), so each step of a source is one protected
 * call. Every source of randomness has a stream of its own below the workload's name. */
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/map.h"
#include "lua/l_cluster.h"
#include "lua/l_content.h"
#include "lua/l_random.h"
#include "lua/l_trace.h"
#include "sim/trace_traffic.h"
#include "sim/traffic.h"

typedef struct l_source {
    aisim_l_sim *s;
    char *name; /* of the workload */
    int gaps;   /* refs: arrivals, or the distribution of think times in ms */
    int gap_stream;
    int prompt, output, group; /* refs: distributions; group LUA_NOREF = no prefix */
    int prompt_stream, output_stream, group_stream;
    aisim_l_arrival_cursor cursor;
    char *prefix;
    uint32_t prefix_tokens;
    int32_t priority;
    bool constant;   /* every unit is alike … */
    aisim_unit unit; /* … and this is it, once one has been drawn */
} l_source;

static void source_free(void *context)
{
    l_source *source = context;
    aisim_free(source->name);
    aisim_free(source->prefix);
    aisim_free(source);
}

/* Runs a step under protection; its results are on s->L. */
static bool step(l_source *source, lua_CFunction fn, int nresults, aisim_error *err)
{
    aisim_l_sim *s = source->s;
    if (aisim_l_broken(s)) {
        return false;
    }
    uint64_t outer = aisim_l_begin(s);
    s->site = (aisim_l_site){"workload", source->name, NULL, AISIM_NONE, 0};
    lua_pushcfunction(s->L, fn);
    lua_pushlightuserdata(s->L, source);
    if (!aisim_l_call(s, outer, 1, nresults)) {
        aisim_fail(err, AISIM_ECALLBACK, "workload '%s' failed", source->name);
        return false;
    }
    return true;
}

/* Pushes refs[ref]; the refs table is at index 2 of the step. */
static int push(lua_State *L, int ref)
{
    lua_rawgeti(L, 2, ref);
    return lua_gettop(L);
}

/* ---- gaps ------------------------------------------------------------------------------------ */

static int step_arrival(lua_State *L)
{
    l_source *source = lua_touserdata(L, 1);
    aisim_l_push_refs(L, source->s);
    int64_t last = source->cursor.t_ns;
    int arrivals = push(L, source->gaps);
    int stream = push(L, source->gap_stream);
    if (!aisim_l_next_arrival(L, arrivals, stream, &source->cursor)) {
        return 0;
    }
    lua_pushinteger(L, source->cursor.t_ns - last);
    return 1;
}

static int step_think(lua_State *L)
{
    l_source *source = lua_touserdata(L, 1);
    aisim_l_push_refs(L, source->s);
    int dist = push(L, source->gaps);
    double ms = aisim_l_draw(L, dist, push(L, source->gap_stream));
    if (ms < 0) {
        return aisim_l_fail(L, "think_ms: the distribution gave %f; >= 0 expected", ms);
    }
    lua_pushinteger(L, aisim_ns_from_ms(ms));
    return 1;
}

static bool next_gap(l_source *source, lua_CFunction fn, int64_t *gap_ns, aisim_error *err)
{
    if (!step(source, fn, 1, err)) {
        return false;
    }
    bool more = !lua_isnil(source->s->L, -1);
    *gap_ns = lua_tointeger(source->s->L, -1);
    lua_pop(source->s->L, 1);
    return more;
}

static bool next_arrival(void *context, int64_t *gap_ns, aisim_error *err)
{
    return next_gap(context, step_arrival, gap_ns, err);
}

static bool next_think(void *context, int64_t *gap_ns, aisim_error *err)
{
    return next_gap(context, step_think, gap_ns, err);
}

/* ---- units ----------------------------------------------------------------------------------- */

/* -> prompt tokens, output tokens, group (0 = no prefix) */
static int step_unit(lua_State *L)
{
    l_source *source = lua_touserdata(L, 1);
    aisim_l_push_refs(L, source->s);
    int dist = push(L, source->prompt);
    uint32_t prompt = aisim_l_draw_count(L, dist, push(L, source->prompt_stream), 1, "prompt");
    dist = push(L, source->output);
    uint32_t output = aisim_l_draw_count(L, dist, push(L, source->output_stream), 1, "output");
    uint32_t group = 0;
    if (source->group != LUA_NOREF) {
        dist = push(L, source->group);
        group = aisim_l_draw_count(L, dist, push(L, source->group_stream), 1, "prefix");
    }
    lua_pushinteger(L, prompt);
    lua_pushinteger(L, output);
    lua_pushinteger(L, group);
    return 3;
}

static bool next_unit(void *context, aisim_unit *unit, aisim_error *err)
{
    l_source *source = context;
    if (source->constant && source->unit.prompt_tokens > 0) {
        *unit = source->unit;
        return true;
    }
    if (!step(source, step_unit, 3, err)) {
        return false;
    }
    lua_State *L = source->s->L;
    unit->prompt_tokens = (uint32_t)lua_tointeger(L, -3);
    unit->output_tokens = (uint32_t)lua_tointeger(L, -2);
    uint64_t group = (uint64_t)lua_tointeger(L, -1);
    lua_pop(L, 3);
    unit->priority = source->priority;
    if (group > 0) { /* the prefix adds to the drawn length (spec/traffic.md §3.2) */
        unit->prefix = aisim_mix64(aisim_hash_text(source->prefix) ^ group);
        unit->prefix_tokens = source->prefix_tokens;
        unit->prompt_tokens += source->prefix_tokens;
    }
    source->unit = *unit;
    return true;
}

/* ---- making ---------------------------------------------------------------------------------- */

static int anchor_field(lua_State *L, aisim_l_sim *s, int table, const char *key)
{
    if (lua_getfield(L, table, key) == LUA_TNIL) {
        lua_pop(L, 1);
        return LUA_NOREF;
    }
    return aisim_l_anchor(L, s);
}

static int anchor_stream(lua_State *L, aisim_l_sim *s, const char *name, const char *part)
{
    lua_pushfstring(L, "%s/%s", name, part);
    aisim_l_push_stream(L, s, lua_tostring(L, -1));
    int ref = aisim_l_anchor(L, s);
    lua_pop(L, 1);
    return ref;
}

static lua_Number number_field(lua_State *L, int table, const char *key, lua_Number absent)
{
    lua_Number value = lua_getfield(L, table, key) == LUA_TNIL ? absent : lua_tonumber(L, -1);
    lua_pop(L, 1);
    return value;
}

/* The options were checked by lua/aisim/workload.lua. */
static l_source *new_source(lua_State *L, aisim_l_sim *s, int table, const char *gaps)
{
    lua_getfield(L, table, "rng");
    const char *name = lua_tostring(L, -1);
    l_source *source = aisim_alloc_zero(1, sizeof *source);
    source->s = s;
    source->name = aisim_strdup(name);
    source->gaps = anchor_field(L, s, table, gaps);
    source->gap_stream = anchor_stream(L, s, name, gaps);
    source->prompt = anchor_field(L, s, table, "prompt");
    source->prompt_stream = anchor_stream(L, s, name, "prompt");
    source->output = anchor_field(L, s, table, "output");
    source->output_stream = anchor_stream(L, s, name, "output");
    source->group = anchor_field(L, s, table, "prefix_group");
    source->group_stream = anchor_stream(L, s, name, "prefix");
    lua_getfield(L, table, "prompt");
    lua_getfield(L, table, "output");
    source->constant = aisim_l_dist_is_constant(L, -1) && aisim_l_dist_is_constant(L, -2) &&
                       source->group == LUA_NOREF;
    lua_pop(L, 2);
    source->prefix_tokens = (uint32_t)number_field(L, table, "prefix_tokens", 0);
    source->priority = (int32_t)number_field(L, table, "priority", 0);
    lua_getfield(L, table, "prefix_name");
    source->prefix = aisim_strdup(luaL_optstring(L, -1, ""));
    lua_pop(L, 2);
    return source;
}

static aisim_traffic_config read_config(lua_State *L, int table, l_source *source)
{
    aisim_traffic_config config = {
        .pool = (uint32_t)number_field(L, table, "pool", 1) - 1,
        .units = {source, next_unit, NULL},
        .requests = (uint64_t)number_field(L, table, "requests", 0),
    };
    lua_Number until = number_field(L, table, "until_ms", -1);
    config.until_ns = until < 0 ? AISIM_NEVER : aisim_ns_from_ms(until);
    lua_getfield(L, table, "class");
    config.class_name = luaL_optstring(L, -1, "");
    lua_pop(L, 1); /* the table keeps it */
    aisim_l_sim *s = source->s;
    uint16_t class_id = aisim_l_class_id(s, config.class_name);
    lua_Number deadline = number_field(L, table, "deadline_ms", -1);
    if (deadline >= 0) {
        s->has_class_deadlines = true;
        aisim_l_push_ref_table(L, s, "class_deadlines");
        lua_pushnumber(L, deadline);
        lua_rawseti(L, -2, class_id);
        lua_pop(L, 1);
    }
    return config;
}

static void finish(lua_State *L, l_source *source, aisim_status status, const aisim_error *err)
{
    if (status != AISIM_OK) {
        source_free(source);
        aisim_l_raise(L, err);
    }
}

/* core sim:open_(options) */
static int sim_open(lua_State *L)
{
    aisim_l_sim *s = aisim_l_check_control(L, 1);
    luaL_checktype(L, 2, LUA_TTABLE);
    l_source *source = new_source(L, s, 2, "arrivals");
    aisim_traffic_config config = read_config(L, 2, source);
    aisim_gap_source gaps = {source, next_arrival, source_free};
    aisim_error err = {0};
    finish(L, source, aisim_traffic_open(s->sim, &config, gaps, false, &err), &err);
    return 0;
}

/* core sim:closed_(options) */
static int sim_closed(lua_State *L)
{
    aisim_l_sim *s = aisim_l_check_control(L, 1);
    luaL_checktype(L, 2, LUA_TTABLE);
    l_source *source = new_source(L, s, 2, "think_ms");
    aisim_traffic_config config = read_config(L, 2, source);
    config.units.free = source_free; /* think times are optional, units are not */
    aisim_gap_source think = {source, source->gaps == LUA_NOREF ? NULL : next_think, NULL};
    aisim_error err = {0};
    uint32_t users = (uint32_t)number_field(L, 2, "users", 1);
    finish(L, source, aisim_traffic_closed(s->sim, &config, users, think, &err), &err);
    return 0;
}

/* core sim:trace_(paths, options): a trace file with one of three loads */
static int sim_trace(lua_State *L)
{
    aisim_l_sim *s = aisim_l_check_control(L, 1);
    aisim_trace *trace = aisim_l_open_trace(L, 2, 3);
    l_source *source = new_source(L, s, 3, "arrivals");
    aisim_traffic_config common = read_config(L, 3, source);
    aisim_trace_traffic_config config = {
        .pool = common.pool,
        .class_name = common.class_name,
        .speedup = number_field(L, 3, "speedup", 1),
        .concurrency = (uint32_t)number_field(L, 3, "concurrency", 0),
        .until_ns = common.until_ns,
        .requests = common.requests,
        .sessions = (uint64_t)number_field(L, 3, "sessions", 0),
    };
    config.load = source->gaps != LUA_NOREF ? AISIM_TRACE_GAPS
                  : config.concurrency > 0  ? AISIM_TRACE_CONCURRENCY
                                            : AISIM_TRACE_TIMESTAMPS;
    aisim_error err = {0};
    if (config.load == AISIM_TRACE_GAPS) {
        config.gaps = (aisim_gap_source){source, next_arrival, source_free};
    }
    if (aisim_trace_traffic(s->sim, trace, &config, &err) != AISIM_OK) {
        aisim_trace_close(trace);
        source_free(source);
        return aisim_l_raise(L, &err);
    }
    if (config.load != AISIM_TRACE_GAPS) {
        source_free(source);
    }
    return 0;
}

void aisim_l_workload_register(lua_State *L)
{
    aisim_l_extend(
        L, "aisim.Sim",
        (const luaL_Reg[]){
            {"open_", sim_open}, {"closed_", sim_closed}, {"trace_", sim_trace}, {NULL, NULL}});
}
