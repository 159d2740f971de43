/* l_workload.c - traffic of requests, of sessions and of trace rows whose parts are Lua objects
 * (spec/lua-api.md §5). The drivers live in src/sim; this file gives them their sources. */
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "lua/l_content.h"
#include "lua/l_source.h"
#include "lua/l_trace.h"
#include "sim/session_traffic.h"
#include "sim/trace_traffic.h"
#include "sim/traffic.h"

/* ---- single requests ------------------------------------------------------------------------- */

typedef struct l_units {
    aisim_l_source *source;
    int prompt, output, group, rows; /* refs: distributions; LUA_NOREF = not given */
    int prompt_stream, output_stream, group_stream;
    uint64_t prefix;
    uint32_t prefix_tokens;
    int32_t priority;
    bool constant;   /* every unit is alike … */
    aisim_unit unit; /* … and this is it, once one has been drawn */
} l_units;

static uint32_t draw_part(lua_State *L, int ref, int stream, const char *what)
{
    int dist = aisim_l_push_part(L, ref);
    return aisim_l_draw_count(L, dist, aisim_l_push_part(L, stream), 1, what);
}

/* -> prompt tokens, output tokens, group (0 = no prefix) */
static int step_unit(lua_State *L)
{
    const aisim_l_source *source = lua_touserdata(L, 1);
    const l_units *u = source->more;
    aisim_l_push_refs(L, source->s);
    uint32_t prompt, output;
    if (u->rows != LUA_NOREF) { /* { index, prompts, outputs }: lengths that belong together */
        int rows = aisim_l_push_part(L, u->rows);
        lua_rawgeti(L, rows, 1);
        int index = lua_gettop(L);
        lua_Integer row =
            aisim_l_draw_count(L, index, aisim_l_push_part(L, u->prompt_stream), 1, "rows");
        lua_rawgeti(L, rows, 2);
        lua_rawgeti(L, -1, row);
        prompt = (uint32_t)lua_tointeger(L, -1);
        lua_rawgeti(L, rows, 3);
        lua_rawgeti(L, -1, row);
        output = (uint32_t)lua_tointeger(L, -1);
    } else {
        prompt = draw_part(L, u->prompt, u->prompt_stream, "prompt");
        output = draw_part(L, u->output, u->output_stream, "output");
    }
    uint32_t group = u->group == LUA_NOREF ? 0 : draw_part(L, u->group, u->group_stream, "prefix");
    lua_pushinteger(L, prompt);
    lua_pushinteger(L, output);
    lua_pushinteger(L, group);
    return 3;
}

static bool next_unit(void *context, aisim_unit *unit, aisim_error *err)
{
    l_units *u = context;
    if (u->constant && u->unit.prompt_tokens > 0) {
        *unit = u->unit;
        return true;
    }
    if (!aisim_l_source_step(u->source, step_unit, 3, err)) {
        return false;
    }
    lua_State *L = u->source->s->L;
    unit->prompt_tokens = (uint32_t)lua_tointeger(L, -3);
    unit->output_tokens = (uint32_t)lua_tointeger(L, -2);
    uint64_t group = (uint64_t)lua_tointeger(L, -1);
    lua_pop(L, 3);
    unit->priority = u->priority;
    if (group > 0) { /* the prefix adds to the drawn length (spec/traffic.md §3.2) */
        unit->prefix = aisim_mix64(u->prefix ^ group);
        unit->prefix_tokens = u->prefix_tokens;
        unit->prompt_tokens += u->prefix_tokens;
    }
    u->unit = *unit;
    return true;
}

/* @param streams  name below which it draws */
static aisim_unit_source read_units(lua_State *L, int table, aisim_l_source *source,
                                    const char *streams)
{
    aisim_l_sim *s = source->s;
    l_units *u = aisim_alloc_zero(1, sizeof *u);
    source->more = u;
    u->source = source;
    u->prompt = aisim_l_anchor_field(L, s, table, "prompt");
    u->prompt_stream = aisim_l_anchor_stream(L, s, streams, "prompt");
    u->output = aisim_l_anchor_field(L, s, table, "output");
    u->output_stream = aisim_l_anchor_stream(L, s, streams, "output");
    u->rows = aisim_l_anchor_field(L, s, table, "rows");
    u->group = aisim_l_anchor_field(L, s, table, "prefix_group");
    u->group_stream = aisim_l_anchor_stream(L, s, streams, "prefix");
    lua_getfield(L, table, "prompt");
    lua_getfield(L, table, "output");
    u->constant = u->rows == LUA_NOREF && u->group == LUA_NOREF &&
                  aisim_l_dist_is_constant(L, -1) && aisim_l_dist_is_constant(L, -2);
    lua_pop(L, 2);
    u->prefix = aisim_l_name_field(L, table, "prefix_name");
    u->prefix_tokens = (uint32_t)aisim_l_number_field(L, table, "prefix_tokens", 0);
    u->priority = (int32_t)aisim_l_number_field(L, table, "priority", 0);
    return (aisim_unit_source){u, next_unit, NULL};
}

static uint32_t pool_field(lua_State *L, int table)
{
    return (uint32_t)aisim_l_number_field(L, table, "pool", 1) - 1;
}

/* core sim:requests_(options) */
static int sim_requests(lua_State *L)
{
    aisim_l_sim *s = aisim_l_check_control(L, 1);
    luaL_checktype(L, 2, LUA_TTABLE);
    aisim_l_source *source = aisim_l_source_new(L, s, 2);
    aisim_traffic_config config = {.pool = pool_field(L, 2),
                                   .class_name = aisim_l_read_class(L, 2, s),
                                   .units = read_units(L, 2, source, source->name),
                                   .pace = aisim_l_read_pace(L, 2, source)};
    aisim_error err = {0};
    if (aisim_traffic(s->sim, &config, &err) != AISIM_OK) {
        return aisim_l_source_refused(L, source, &err);
    }
    return 0;
}

/* ---- sessions -------------------------------------------------------------------------------- */

enum { DRAWS = 8 };

static aisim_session_source read_synthetic(lua_State *L, int t, aisim_l_source *source,
                                           aisim_l_draw_of *keep)
{
    aisim_synthetic_session c = {
        .turns = aisim_l_draw_field(L, source, t, "turns", &keep[0]),
        .new_tokens = aisim_l_draw_field(L, source, t, "new_input_tokens_per_turn", &keep[1]),
        .output_tokens = aisim_l_draw_field(L, source, t, "output_tokens_per_turn", &keep[2]),
        .think_ms = aisim_l_draw_field(L, source, t, "inter_turn_delay_ms", &keep[3]),
        .shared_prefix_ratio = aisim_l_number_field(L, t, "shared_prefix_ratio", 0),
        .prefix = {aisim_l_name_field(L, t, "prefix_name"),
                   aisim_l_draw_field(L, source, t, "prefix_group", &keep[4])}};
    return aisim_session_synthetic(&c);
}

static aisim_session_source read_agent(lua_State *L, int t, aisim_l_source *source,
                                       aisim_l_draw_of *keep)
{
    aisim_agent_session c = {
        .system = aisim_l_name_field(L, t, "system_name"),
        .system_tokens = (uint32_t)aisim_l_number_field(L, t, "system_tokens", 0),
        .task_tokens = aisim_l_draw_field(L, source, t, "task", &keep[0]),
        .steps = aisim_l_draw_field(L, source, t, "steps", &keep[1]),
        .output_tokens = aisim_l_draw_field(L, source, t, "output", &keep[2]),
        .tool_ms = aisim_l_draw_field(L, source, t, "tool_ms", &keep[3]),
        .tool_tokens = aisim_l_draw_field(L, source, t, "tool_tokens", &keep[4]),
        .compact_above_tokens = (uint32_t)aisim_l_number_field(L, t, "compact_above_tokens", 0),
        .compact_to_tokens = (uint32_t)aisim_l_number_field(L, t, "compact_to_tokens", 0)};
    return aisim_session_agent(&c);
}

static aisim_session_source read_agentic(lua_State *L, int t, aisim_l_source *source,
                                         aisim_l_draw_of *keep)
{
    aisim_agentic_session c = {
        .global = aisim_l_name_field(L, t, "global_name"),
        .global_tokens = (uint32_t)aisim_l_number_field(L, t, "global_tokens", 0),
        .group = {aisim_l_name_field(L, t, "prefix_name"),
                  aisim_l_draw_field(L, source, t, "prefix_group", &keep[0])},
        .group_tokens = (uint32_t)aisim_l_number_field(L, t, "group_tokens", 0),
        .session_tokens = aisim_l_draw_field(L, source, t, "session_tokens", &keep[1]),
        .new_tokens = aisim_l_draw_field(L, source, t, "new_tokens", &keep[2]),
        .output_tokens = aisim_l_draw_field(L, source, t, "output", &keep[3]),
        .think_ms = aisim_l_draw_field(L, source, t, "turn_gap_ms", &keep[4]),
        .reset = aisim_l_number_field(L, t, "reset", 0),
        .restart = aisim_l_number_field(L, t, "restart", 0),
        .max_turns = (uint32_t)aisim_l_number_field(L, t, "max_turns", 0)};
    return aisim_session_agentic(&c);
}

static const char *const session_kinds[] = {"synthetic_session", "agent", "agentic_code", NULL};

static aisim_session_source read_sessions(lua_State *L, int kind, int table, aisim_l_source *source)
{
    static aisim_session_source (*const readers[])(lua_State *, int, aisim_l_source *,
                                                   aisim_l_draw_of *) = {read_synthetic, read_agent,
                                                                         read_agentic};
    int index = luaL_checkoption(L, kind, NULL, session_kinds);
    source->more = aisim_alloc_zero(DRAWS, sizeof(aisim_l_draw_of));
    return readers[index](L, table, source, source->more);
}

/* core sim:generated_(kind, options) */
static int sim_generated(lua_State *L)
{
    aisim_l_sim *s = aisim_l_check_control(L, 1);
    luaL_checktype(L, 3, LUA_TTABLE);
    luaL_checkoption(L, 2, NULL, session_kinds);
    aisim_l_source *source = aisim_l_source_new(L, s, 3);
    aisim_session_traffic_config config = {.pool = pool_field(L, 3),
                                           .class_name = aisim_l_read_class(L, 3, s),
                                           .name = source->name,
                                           .priority =
                                               (int32_t)aisim_l_number_field(L, 3, "priority", 0),
                                           .source = read_sessions(L, 2, 3, source),
                                           .pace = aisim_l_read_pace(L, 3, source)};
    aisim_error err = {0};
    if (aisim_session_traffic(s->sim, &config, &err) != AISIM_OK) {
        config.source.free(config.source.context);
        return aisim_l_source_refused(L, source, &err);
    }
    return 0;
}

/* ---- traces ---------------------------------------------------------------------------------- */

/* core sim:trace_(paths, options): a trace file at its times or at a pace */
static int sim_trace(lua_State *L)
{
    aisim_l_sim *s = aisim_l_check_control(L, 1);
    aisim_trace *trace = aisim_l_open_trace(L, 2, 3);
    aisim_l_source *source = aisim_l_source_new(L, s, 3);
    aisim_trace_traffic_config config = {.pool = pool_field(L, 3),
                                         .class_name = aisim_l_read_class(L, 3, s),
                                         .speedup = aisim_l_number_field(L, 3, "speedup", 1),
                                         .pace = aisim_l_read_pace(L, 3, source)};
    config.timestamps = config.pace.gaps.next == NULL && config.pace.n_levels == 0;
    aisim_error err = {0};
    if (aisim_trace_traffic(s->sim, trace, &config, &err) != AISIM_OK) {
        aisim_trace_close(trace);
        return aisim_l_source_refused(L, source, &err);
    }
    return 0;
}

/* ---- kv_capacity_fraction -------------------------------------------------------------------- */

enum { MEAN_REQUESTS = 20000, MEAN_SESSIONS = 2000 };

/* Mean of prompt + output / 2 of requests, from streams that the traffic itself does not use. */
static aisim_status mean_of_units(lua_State *L, int table, aisim_l_source *source, double *tokens,
                                  aisim_error *err)
{
    lua_pushfstring(L, "%s/mean", source->name);
    aisim_unit_source units = read_units(L, table, source, lua_tostring(L, -1));
    lua_pop(L, 1);
    double sum = 0;
    for (int i = 0; i < MEAN_REQUESTS; i++) {
        aisim_unit unit = {0};
        if (!units.next(units.context, &unit, err)) {
            return err->code == AISIM_OK ? AISIM_ECALLBACK : err->code;
        }
        sum += (double)unit.prompt_tokens + 0.5 * unit.output_tokens;
    }
    *tokens = sum / MEAN_REQUESTS;
    return AISIM_OK;
}

static aisim_status mean_of_trace(lua_State *L, double *tokens, aisim_error *err)
{
    aisim_trace *trace = aisim_l_open_trace(L, 4, 3);
    aisim_status status = aisim_trace_mean_tokens(trace, tokens, err);
    aisim_trace_close(trace);
    return status;
}

/* core sim:fit_(kind, options, paths) -> units that fill options.kv_capacity_fraction of the pool
 */
static int sim_fit(lua_State *L)
{
    aisim_l_sim *s = aisim_l_check_control(L, 1);
    luaL_checktype(L, 3, LUA_TTABLE);
    const char *kind = luaL_checkstring(L, 2);
    aisim_error err = {0};
    double tokens = 1;
    aisim_status status;
    if (s->L != NULL) {
        return aisim_l_fail(L, "kv_capacity_fraction: only before the run");
    }
    aisim_l_bind(s, L);
    if (strcmp(kind, "trace") == 0) {
        status = mean_of_trace(L, &tokens, &err);
    } else {
        aisim_l_source *source = aisim_l_source_new(L, s, 3);
        if (strcmp(kind, "requests") == 0) {
            status = mean_of_units(L, 3, source, &tokens, &err);
        } else {
            aisim_session_source sessions = read_sessions(L, 2, 3, source);
            status = aisim_session_mean_tokens(&sessions, aisim_sim_seed(s->sim), source->name,
                                               MEAN_SESSIONS, &tokens, &err);
            sessions.free(sessions.context);
        }
        aisim_l_source_free(source);
    }
    aisim_l_unbind(s);
    if (status != AISIM_OK) {
        return aisim_l_raise_failure(L, s, &err);
    }
    lua_Number fraction = aisim_l_number_field(L, 3, "kv_capacity_fraction", 1);
    lua_pushinteger(
        L, (lua_Integer)aisim_units_in_capacity(s->sim, pool_field(L, 3), fraction, tokens));
    return 1;
}

/* core sim:warming_() -> workloads whose warmup has not ended */
static int sim_warming(lua_State *L)
{
    lua_pushinteger(L, aisim_sim_warming(aisim_l_check_sim(L, 1)->sim));
    return 1;
}

void aisim_l_workload_register(lua_State *L)
{
    aisim_l_extend(L, "aisim.Sim",
                   (const luaL_Reg[]){{"requests_", sim_requests},
                                      {"generated_", sim_generated},
                                      {"trace_", sim_trace},
                                      {"fit_", sim_fit},
                                      {"warming_", sim_warming},
                                      {NULL, NULL}});
}
