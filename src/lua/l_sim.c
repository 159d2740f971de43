/* l_sim.c - the class `sim`: life, binding to a Lua state, protected calls, run and stop.
 *
 * Invariants: s->L is not NULL exactly while the simulation is bound; the stack of s->L is as high
 * after a callback as before it; s->active is 0 outside callbacks. */
#include "lua/l_common.h"
#include "lua/l_files.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/map.h"
#include "lua/l_cluster.h"

#define SIM "aisim.Sim"

static const char instances_key; /* registry: weak table lightuserdata -> userdata */

/* ---- the userdata and its refs table --------------------------------------------------------- */

aisim_l_sim *aisim_l_check_sim(lua_State *L, int arg)
{
    aisim_l_sim *s = luaL_checkudata(L, arg, SIM);
    if (s->sim == NULL) {
        aisim_l_fail(L, "the simulation has been closed");
    }
    return s;
}

void aisim_l_refuse_in_batch(lua_State *L, const aisim_l_sim *s)
{
    if (s->in_batch) {
        aisim_l_fail(L, "a batched hook may not change the simulation; use a hook without batch");
    }
}

aisim_l_sim *aisim_l_check_control(lua_State *L, int arg)
{
    aisim_l_sim *s = aisim_l_check_sim(L, arg);
    aisim_l_refuse_in_batch(L, s);
    return s;
}

void aisim_l_push_self(lua_State *L, const aisim_l_sim *s)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &instances_key);
    lua_rawgetp(L, -1, s);
    lua_remove(L, -2);
}

void aisim_l_push_refs(lua_State *L, const aisim_l_sim *s)
{
    aisim_l_push_self(L, s);
    lua_getiuservalue(L, -1, 1);
    lua_remove(L, -2);
}

void aisim_l_push_ref_table(lua_State *L, const aisim_l_sim *s, const char *name)
{
    aisim_l_push_refs(L, s);
    if (lua_getfield(L, -1, name) != LUA_TTABLE) {
        lua_pop(L, 1);
        lua_newtable(L);
        lua_pushvalue(L, -1);
        lua_setfield(L, -3, name);
    }
    lua_remove(L, -2);
}

int aisim_l_anchor(lua_State *L, const aisim_l_sim *s)
{
    aisim_l_push_refs(L, s);
    lua_insert(L, -2);
    int ref = luaL_ref(L, -2);
    lua_pop(L, 1);
    return ref;
}

void aisim_l_release(lua_State *L, const aisim_l_sim *s, int ref)
{
    if (ref != LUA_NOREF) {
        aisim_l_push_refs(L, s);
        luaL_unref(L, -1, ref);
        lua_pop(L, 1);
    }
}

/* ---- protected calls ------------------------------------------------------------------------- */

static int message_handler(lua_State *L)
{
    lua_settop(L, 1);
    aisim_l_traceback(L, L, lua_touserdata(L, lua_upvalueindex(1)));
    return 1;
}

/* Leaves self, refs and the message handler on the stack of L. */
void aisim_l_bind(aisim_l_sim *s, lua_State *L)
{
    luaL_checkstack(L, 60, "too many nested simulations");
    aisim_l_push_self(L, s);
    lua_getiuservalue(L, -1, 1);
    lua_pushlightuserdata(L, s);
    lua_pushcclosure(L, message_handler, 1);
    s->handler = lua_gettop(L);
    s->refs = s->handler - 1;
    s->L = L;
}

void aisim_l_unbind(aisim_l_sim *s)
{
    lua_settop(s->L, s->refs - 2);
    s->L = NULL;
}

void aisim_l_abort(aisim_l_sim *s, lua_State *L)
{
    if (aisim_l_broken(s)) {
        lua_pop(L, 1);
        return;
    }
    aisim_error err = {0};
    aisim_l_error_text(L);
    if (s->limits->tripped != AISIM_L_UNLIMITED) { /* whatever the script made of it */
        lua_pop(L, 1);
        aisim_l_limits_push_message(L, s->limits);
    }
    bool limited = s->limits->tripped != AISIM_L_UNLIMITED || s->out_of_memory;
    aisim_fail(&err, limited ? AISIM_ELIMIT : AISIM_ECALLBACK, "%s", lua_tostring(L, -1));
    s->error_ref = aisim_l_anchor(L, s);
    aisim_sim_abort(s->sim, &err);
}

bool aisim_l_refuse_answer(aisim_l_sim *s, int fn, const char *who, const char *expected,
                           const aisim_request *request, aisim_error *err)
{
    lua_State *L = s->L; /* the answer is on top */
    char t[40];
    lua_rawgeti(L, s->refs, fn);
    aisim_l_where_function(L, -1);
    lua_pushfstring(L, "%s: %s returned %s at t=%s ms for request %d; %s expected",
                    lua_tostring(L, -1), who, lua_tostring(L, -3),
                    aisim_l_format_ms(t, aisim_sim_now(s->sim)), (int)request->id, expected);
    aisim_fail(err, AISIM_ECALLBACK, "%s", lua_tostring(L, -1));
    aisim_l_abort(s, L);
    return false;
}

enum { REMEMBERED_ROUNDS = 16 };

static int measured_call(aisim_l_sim *s, const aisim_l_frame *frame, int nargs, int nresults)
{
    aisim_part before = aisim_part_enter(&s->profile->watch, AISIM_PART_LUA);
    int64_t begun_ns = s->profile->watch.since_ns;
    int status = lua_pcall(s->L, nargs, nresults, s->handler);
    aisim_part_leave(&s->profile->watch, before);
    aisim_l_profile_add(s->profile, frame->kind, frame->name, begun_ns);
    return status;
}

/* Time is about to count as standing still: keeps which function of the script was called, so that
 * the error names it. */
static void remember_call(aisim_l_sim *s, int nargs)
{
    lua_State *L = s->L;
    lua_Debug ar;
    lua_pushvalue(L, -nargs - 1);
    lua_getinfo(L, ">S", &ar);
    if (!aisim_l_is_script(L, &ar)) {
        return;
    }
    aisim_l_where_function(L, -nargs - 1);
    lua_pushfstring(L, s->site.name != NULL ? "%s: %s '%s': " : "%s: %s: ", lua_tostring(L, -1),
                    s->site.kind, s->site.name);
    lua_setfield(L, s->refs, "standing");
    lua_pop(L, 1);
}

bool aisim_l_call(aisim_l_sim *s, uint64_t outer, int nargs, int nresults)
{
    if (aisim_sim_rounds_left(s->sim) <= REMEMBERED_ROUNDS) {
        remember_call(s, nargs);
    }
    aisim_l_frame frame = {.L = s->L, .kind = s->site.kind, .name = s->site.name, .sim = s};
    aisim_l_frame_enter(s->limits, &frame);
    int status = s->profile == NULL ? lua_pcall(s->L, nargs, nresults, s->handler)
                                    : measured_call(s, &frame, nargs, nresults);
    aisim_l_frame_leave(s->limits, &frame);
    s->active = outer;
    if (status == LUA_OK) {
        return true;
    }
    s->out_of_memory = status == LUA_ERRMEM;
    aisim_l_abort(s, s->L);
    return false;
}

int aisim_l_wanted_arguments(lua_State *L, int index, int available)
{
    lua_Debug ar;
    lua_pushvalue(L, index);
    lua_getinfo(L, ">u", &ar);
    return ar.isvararg || ar.nparams > available ? available : ar.nparams;
}

int64_t aisim_l_check_ms(lua_State *L, int arg, const char *what)
{
    lua_Number ms = luaL_checknumber(L, arg);
    if (!(ms >= 0)) {
        aisim_l_fail(L, "%s = %f: must be >= 0 ms", what, ms);
    }
    return aisim_ns_from_ms(ms);
}

/* ---- life ------------------------------------------------------------------------------------ */

/* core.sim(seed, name) */
static int l_new(lua_State *L)
{
    lua_Integer seed = luaL_checkinteger(L, 1);
    const char *name = luaL_optstring(L, 2, "");
    aisim_l_sim *s = lua_newuserdatauv(L, sizeof *s, 1);
    memset(s, 0, sizeof *s);
    s->error_ref = LUA_NOREF;
    s->limits = aisim_l_limits_of(L);
    luaL_setmetatable(L, SIM);
    lua_newtable(L);
    lua_setiuservalue(L, -2, 1);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &instances_key);
    lua_pushvalue(L, -2);
    lua_rawsetp(L, -2, s);
    lua_pop(L, 1);
    s->sim = aisim_sim_new((uint64_t)seed);
    s->name = aisim_strdup(name);
    s->n_classes = 1; /* "" */
    aisim_l_hooks_init(s);
    return 1;
}

static int sim_gc(lua_State *L)
{
    aisim_l_sim *s = luaL_checkudata(L, 1, SIM);
    if (s->sim == NULL) {
        return 0;
    }
    if (s->L != NULL) {
        return aisim_l_fail(L, "sim:close: the simulation is running");
    }
    aisim_sim_free(s->sim);
    s->sim = NULL;
    aisim_l_hooks_free(s);
    aisim_l_timers_free(s);
    aisim_l_cluster_free(s);
    aisim_l_sessions_free(s);
    aisim_l_files_free(s);
    aisim_l_metrics_free(s);
    aisim_l_replays_free(s);
    aisim_l_profile_free(s->profile);
    s->profile = NULL;
    aisim_free(s->name);
    s->name = NULL;
    return 0;
}

static int sim_tostring(lua_State *L)
{
    aisim_l_sim *s = luaL_checkudata(L, 1, SIM);
    if (s->sim == NULL) {
        lua_pushliteral(L, "sim (closed)");
    } else {
        char t[40];
        lua_pushfstring(L, "sim '%s' (seed %I, t = %s ms)", s->name,
                        (LUAI_UACINT)aisim_sim_seed(s->sim),
                        aisim_l_format_ms(t, aisim_sim_now(s->sim)));
    }
    return 1;
}

static const char *state_text(aisim_l_state state)
{
    static const char *const texts[] = {"new",     "running",     "finished",
                                        "stopped", "interrupted", "failed"};
    return texts[state];
}

/* fields now_ms, seed, name, state; else a method */
static int sim_index(lua_State *L)
{
    lua_settop(L, 2);
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) {
        return 1;
    }
    aisim_l_sim *s = luaL_checkudata(L, 1, SIM);
    const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
    if (strcmp(key, "name") == 0 && s->sim != NULL) {
        lua_pushstring(L, s->name);
    } else if (strcmp(key, "seed") == 0 && s->sim != NULL) {
        lua_pushinteger(L, (lua_Integer)aisim_sim_seed(s->sim));
    } else if (strcmp(key, "state") == 0) {
        lua_pushstring(L, state_text(s->state));
    } else if (strcmp(key, "error_code") == 0) {
        lua_pushstring(L, aisim_status_name(s->code));
    } else {
        return aisim_l_unknown_field(L, lua_upvalueindex(1), "sim");
    }
    return 1;
}

static int sim_now(lua_State *L)
{
    aisim_l_push_ms(L, aisim_sim_now(aisim_l_check_sim(L, 1)->sim));
    return 1;
}

/* sim:stop(reason) */
static int sim_stop(lua_State *L)
{
    aisim_l_sim *s = aisim_l_check_control(L, 1);
    aisim_sim_stop(s->sim, luaL_optstring(L, 2, "stopped by the script"));
    return 0;
}

/* ---- run ------------------------------------------------------------------------------------- */

int aisim_l_raise_failure(lua_State *L, const aisim_l_sim *s, const aisim_error *err)
{
    if (aisim_l_broken(s)) {
        aisim_l_push_refs(L, s);
        lua_rawgeti(L, -1, s->error_ref);
        return lua_error(L);
    }
    if (err->code == AISIM_ELIVELOCK && aisim_sim_rounds_left(s->sim) == 0) {
        aisim_l_push_refs(L, s);
        if (lua_getfield(L, -1, "standing") == LUA_TSTRING) {
            lua_pushstring(L, err->text);
            lua_concat(L, 2);
            return lua_error(L);
        }
    }
    return aisim_l_raise(L, err);
}

static volatile int *interrupt_flag(lua_State *L)
{
    lua_getfield(L, LUA_REGISTRYINDEX, "aisim.interrupt");
    volatile int *flag = lua_touserdata(L, -1);
    lua_pop(L, 1);
    return flag;
}

/* The function refs.progress, called outside events: it sees (t_ms, events) and changes nothing. */
static void report_progress(void *context, const aisim_sim *sim)
{
    aisim_l_sim *s = context;
    if (aisim_l_broken(s) || lua_getfield(s->L, s->refs, "progress") != LUA_TFUNCTION) {
        return;
    }
    aisim_sim_stats stats;
    aisim_sim_stats_get(sim, &stats);
    uint64_t outer = aisim_l_begin(s);
    s->site = (aisim_l_site){"progress function", NULL, NULL, AISIM_NONE, 0};
    aisim_l_push_ms(s->L, aisim_sim_now(sim));
    lua_pushinteger(s->L, (lua_Integer)stats.events);
    aisim_l_call(s, outer, 2, 0);
}

/* core sim:run_(until_ms or nil, progress or nil) -> state, reason or nil.  Once per simulation. */
static int sim_run(lua_State *L)
{
    aisim_l_sim *s = aisim_l_check_control(L, 1);
    if (s->state == AISIM_L_RUNNING) {
        return aisim_l_fail(L, "sim:run: the simulation is running; this is called from inside");
    }
    if (s->state != AISIM_L_NEW) {
        return aisim_l_fail(L, "sim:run: this simulation has already run; make a new one");
    }
    aisim_run_options options = {.until_ns = AISIM_NEVER, .interrupt = interrupt_flag(L)};
    if (!lua_isnoneornil(L, 2)) {
        options.until_ns = aisim_l_check_ms(L, 2, "sim:run: until_ms");
    }
    if (!lua_isnoneornil(L, 3)) {
        luaL_checktype(L, 3, LUA_TFUNCTION);
        aisim_l_push_refs(L, s);
        lua_pushvalue(L, 3);
        lua_setfield(L, -2, "progress");
        lua_pop(L, 1);
        options.progress = report_progress;
        options.progress_context = s;
    }
    options.max_wall_s = luaL_optnumber(L, 4, 0) / 1e3;
    aisim_error err = {0};
    aisim_l_handoff_start(L, s);
    aisim_l_metrics_start(L, s);
    aisim_l_files_start(s);
    s->state = AISIM_L_RUNNING;
    aisim_l_bind(s, L);
    aisim_l_frame native;
    aisim_l_native_begin(L, &native);
    aisim_status status = aisim_sim_run(s->sim, &options, &err);
    aisim_l_native_end(L, &native);
    aisim_l_unbind(s);
    s->code = status;
    s->site.kind = NULL;
    if (aisim_l_broken(s) || (status != AISIM_OK && status != AISIM_EINTERRUPTED)) {
        s->state = AISIM_L_FAILED;
        aisim_l_files_discard(s);
        return aisim_l_raise_failure(L, s, &err);
    }
    aisim_l_files_finish(L, s);
    aisim_l_metrics_finish(s);
    const char *reason = aisim_sim_stop_reason(s->sim);
    s->state = status == AISIM_EINTERRUPTED ? AISIM_L_INTERRUPTED
               : reason != NULL             ? AISIM_L_STOPPED
                                            : AISIM_L_FINISHED;
    lua_pushstring(L, state_text(s->state));
    lua_pushstring(L, reason);
    return 2;
}

/* core sim:stats_() -> events, passes, requests created, requests live */
static int sim_stats(lua_State *L)
{
    aisim_sim_stats stats;
    aisim_sim_stats_get(aisim_l_check_sim(L, 1)->sim, &stats);
    lua_pushinteger(L, (lua_Integer)stats.events);
    lua_pushinteger(L, (lua_Integer)stats.passes);
    lua_pushinteger(L, (lua_Integer)stats.requests_created);
    lua_pushinteger(L, (lua_Integer)stats.requests_live);
    return 4;
}

/* core sim:overrides_(list of {key=, value=, flag=}): --set flags of the configuration, kept by
 * reference; sim:pool marks those it used. Without an argument -> the list */
static int sim_overrides(lua_State *L)
{
    aisim_l_sim *s = aisim_l_check_sim(L, 1);
    if (lua_isnoneornil(L, 2)) {
        aisim_l_push_ref_table(L, s, "overrides");
        return 1;
    }
    luaL_checktype(L, 2, LUA_TTABLE);
    aisim_l_push_refs(L, s);
    lua_pushvalue(L, 2);
    lua_setfield(L, -2, "overrides");
    return 0;
}

/* core.interrupt_flag(lightuserdata): what a signal handler sets to end runs */
static int l_interrupt_flag(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TLIGHTUSERDATA);
    lua_settop(L, 1);
    lua_setfield(L, LUA_REGISTRYINDEX, "aisim.interrupt");
    return 0;
}

void aisim_l_sim_register(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"sim", l_new}, {"interrupt_flag", l_interrupt_flag}, {NULL, NULL}};
    static const luaL_Reg methods[] = {
        {"now", sim_now},      {"stop_", sim_stop},           {"run_", sim_run},
        {"stats_", sim_stats}, {"overrides_", sim_overrides}, {"close", sim_gc},
        {NULL, NULL}};
    static const aisim_l_class class_ = {SIM, methods, sim_index, NULL, sim_tostring, sim_gc};
    lua_newtable(L);
    lua_createtable(L, 0, 1);
    lua_pushliteral(L, "v");
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &instances_key);
    luaL_setfuncs(L, functions, 0);
    aisim_l_class_register(L, &class_);
}
