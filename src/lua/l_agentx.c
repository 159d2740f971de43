/* l_agentx.c - AgentX replay on the clock of a simulation (spec/traffic.md §2). The client is
 * workload/agentx.h, its wiring sim/agentx_traffic.h; here options go in and the accounting comes
 * out. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "lua/l_agentx.h"
#include "lua/l_cluster.h"
#include "lua/l_plays.h"
#include "lua/l_source.h"
#include "sim/agentx_traffic.h"

/** Replays of one simulation; corpora are released after the engine. */
typedef struct aisim_l_replay {
    aisim_l_corpus *corpus;
    aisim_agentx_traffic *traffic;
} aisim_l_replay;

typedef struct aisim_l_replays {
    AISIM_ARRAY(aisim_l_replay) list;
} aisim_l_replays;

void aisim_l_replays_free(aisim_l_sim *s)
{
    for (uint32_t i = 0; s->replays != NULL && i < s->replays->list.len; i++) {
        aisim_l_corpus_release(s->replays->list.data[i].corpus);
    }
    if (s->replays != NULL) {
        aisim_array_free(&s->replays->list);
        aisim_free(s->replays);
        s->replays = NULL;
    }
}

/* ---- options --------------------------------------------------------------------------------- */

static bool get(lua_State *L, int table, const char *key)
{
    if (lua_getfield(L, table, key) == LUA_TNIL) {
        lua_pop(L, 1);
        return false;
    }
    return true;
}

static void get_number(lua_State *L, int table, const char *key, double *out)
{
    if (get(L, table, key)) {
        *out = lua_tonumber(L, -1);
        lua_pop(L, 1);
    }
}

static void get_flag(lua_State *L, int table, const char *key, bool *out)
{
    if (get(L, table, key)) {
        *out = lua_toboolean(L, -1);
        lua_pop(L, 1);
    }
}

/* The option is one of two words; the Lua side has checked it. @return its number */
static int get_word(lua_State *L, int table, const char *key, const char *second, int absent)
{
    int value = absent;
    if (get(L, table, key)) {
        value = strcmp(lua_tostring(L, -1), second) == 0;
        lua_pop(L, 1);
    }
    return value;
}

static void read_profile(lua_State *L, int table, aisim_agentx_profile *profile)
{
    if (!get(L, table, "profile")) {
        return;
    }
    int at = lua_gettop(L);
    get_number(L, at, "duration_seconds", &profile->duration_seconds);
    get_number(L, at, "response_grace_seconds", &profile->response_grace_seconds);
    get_number(L, at, "cancel_drain_seconds", &profile->cancel_drain_seconds);
    get_number(L, at, "tree_idle_cap_seconds", &profile->tree_idle_cap_seconds);
    get_number(L, at, "global_idle_cap_seconds", &profile->global_idle_cap_seconds);
    lua_pop(L, 1);
}

/* Draws for tests; they live in a userdata left on the stack. */
static void read_draws(lua_State *L, int table, aisim_agentx_config *config)
{
    if (!get(L, table, "u")) {
        return;
    }
    uint32_t n = (uint32_t)lua_rawlen(L, -1);
    double *u = lua_newuserdatauv(L, (n + 1) * sizeof *u, 0);
    for (uint32_t i = 0; i < n; i++) {
        lua_rawgeti(L, -2, (lua_Integer)i + 1);
        u[i] = lua_tonumber(L, -1);
        lua_pop(L, 1);
    }
    config->u = u;
    config->n_u = n;
}

static void read_config(lua_State *L, int table, aisim_agentx_config *config)
{
    aisim_error err = {0};
    aisim_agentx_config_default(config);
    if (get(L, table, "preset")) {
        if (aisim_agentx_config_preset(config, lua_tostring(L, -1), &err) != AISIM_OK) {
            aisim_l_raise(L, &err);
        }
        lua_pop(L, 1);
    }
    double lanes = 0, requests = config->warmup_requests_per_lane;
    get_number(L, table, "lanes", &lanes);
    config->lanes = (uint32_t)lanes;
    if (get(L, table, "seed")) {
        config->seed = (uint64_t)lua_tointeger(L, -1);
        lua_pop(L, 1);
    }
    if (get(L, table, "t_star")) {
        for (int i = 0; i < 2; i++) {
            lua_rawgeti(L, -1, i + 1);
            config->t_star[i] = lua_tonumber(L, -1);
            lua_pop(L, 1);
        }
        lua_pop(L, 1);
    }
    get_flag(L, table, "warmup", &config->warmup);
    get_number(L, table, "warmup_requests_per_lane", &requests);
    config->warmup_requests_per_lane = (uint32_t)requests;
    config->warmup_mode =
        (aisim_warmup_mode)get_word(L, table, "warmup_mode", "advance", (int)config->warmup_mode);
    read_profile(L, table, &config->profile);
    get_number(L, table, "speedup", &config->speedup);
    get_flag(L, table, "authored_gate", &config->authored_gate);
    config->cache_identity = (aisim_cache_identity)get_word(
        L, table, "cache_identity", "after_system", (int)config->cache_identity);
    config->on_error =
        (aisim_on_error)get_word(L, table, "on_error", "continue", (int)config->on_error);
    get_flag(L, table, "once", &config->once);
    get_flag(L, table, "shared_clock", &config->shared_clock);
    double until_ms = 0, sessions = 0;
    get_number(L, table, "until_ms", &until_ms);
    config->until_ns = aisim_ns_from_ms(until_ms);
    if (get(L, table, "requests")) {
        config->requests = (uint64_t)lua_tointeger(L, -1);
        lua_pop(L, 1);
    }
    get_number(L, table, "sessions", &sessions);
    config->max_plays = sessions < UINT32_MAX ? (uint32_t)sessions : UINT32_MAX;
    read_draws(L, table, config);
}

/* core sim:agentx_(plays, options, pool number) -> number of the replay */
static int sim_agentx(lua_State *L)
{
    aisim_l_sim *s = aisim_l_check_control(L, 1);
    aisim_l_corpus *corpus = aisim_l_check_plays(L, 2);
    luaL_checktype(L, 3, LUA_TTABLE);
    aisim_agentx_config config;
    aisim_error err = {0};
    double priority = 0;
    read_config(L, 3, &config);
    get_number(L, 3, "priority", &priority);
    const char *class_name = aisim_l_read_class(L, 3, s);
    const aisim_agentx_requests as = {(uint32_t)luaL_checkinteger(L, 4) - 1,
                                      aisim_sim_class(s->sim, class_name), (int32_t)priority};
    if (s->replays == NULL) {
        s->replays = aisim_alloc_zero(1, sizeof *s->replays);
    }
    aisim_l_replay replay = {corpus, NULL};
    if (aisim_sim_agentx(s->sim, corpus->corpus, &config, &as, &replay.traffic, &err) != AISIM_OK) {
        return aisim_l_fail(L, "aisim.agentx: %s", err.text);
    }
    aisim_l_corpus_hold(corpus);
    aisim_array_push(&s->replays->list, replay);
    lua_pushinteger(L, s->replays->list.len);
    return 1;
}

/* ---- accounting ------------------------------------------------------------------------------ */

static void set_time(lua_State *L, const char *key, int64_t t_ns)
{
    if (t_ns != AISIM_AGENTX_NO_TIME) {
        aisim_l_push_ms(L, t_ns);
        lua_setfield(L, -2, key);
    }
}

static void set_count(lua_State *L, const char *key, uint64_t n)
{
    lua_pushinteger(L, (lua_Integer)n);
    lua_setfield(L, -2, key);
}

static const char *phase_name(aisim_agentx_phase phase)
{
    static const char *const names[] = {"start", "primer", "warmup", "settle", "profile",
                                        "grace", "drain",  "done",   "failed"};
    return names[phase];
}

static void push_plays_of(lua_State *L, const aisim_agentx_report *report)
{
    static const char *const statuses[] = {"completed", "failed", "incomplete"};
    lua_createtable(L, (int)report->n_plays, 0);
    for (uint32_t i = 0; i < report->n_plays; i++) {
        const aisim_agentx_play *play = &report->plays[i];
        lua_createtable(L, 0, 12);
        lua_pushstring(L, play->play->id);
        lua_setfield(L, -2, "play");
        lua_pushstring(L, statuses[play->status]);
        lua_setfield(L, -2, "status");
        set_count(L, "ordinal", play->play->ordinal);
        set_count(L, "lane", play->lane);
        set_count(L, "k", play->k);
        set_time(L, "start_ms", play->start_ns);
        set_time(L, "end_ms", play->end_ns);
        set_time(L, "e2e_ms", play->e2e_ns);
        set_count(L, "planned", play->planned);
        set_count(L, "issued", play->issued);
        set_count(L, "successful", play->successful);
        set_count(L, "failed", play->failed);
        set_count(L, "cancelled", play->cancelled);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

static void push_shifts(lua_State *L, const aisim_agentx_report *report)
{
    lua_createtable(L, (int)report->n_shifts, 0);
    for (uint32_t i = 0; i < report->n_shifts; i++) {
        const aisim_agentx_shift *shift = &report->shifts[i];
        lua_createtable(L, 0, 5);
        set_time(L, "at_ms", shift->at_ns);
        set_time(L, "shifted_by_ms", shift->shifted_by_ns);
        set_count(L, "timers", shift->timers);
        if (shift->global) {
            lua_pushboolean(L, 1);
            lua_setfield(L, -2, "global");
        } else {
            set_count(L, "lane", shift->lane);
            set_count(L, "k", shift->k);
        }
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

/* core sim:agentx_report_(i) -> accounting of the i-th replay (spec/traffic.md §2.6), or nil */
static int sim_agentx_report(lua_State *L)
{
    aisim_l_sim *s = aisim_l_check_sim(L, 1);
    lua_Integer i = luaL_optinteger(L, 2, 1);
    if (s->replays == NULL || i < 1 || i > (lua_Integer)s->replays->list.len) {
        return 0;
    }
    const aisim_agentx_report *report =
        aisim_agentx_traffic_report(s->replays->list.data[i - 1].traffic);
    lua_newtable(L);
    lua_pushboolean(L, report->config->authored_gate);
    lua_setfield(L, -2, "authored_gate");
    lua_pushstring(L, phase_name(report->phase));
    lua_setfield(L, -2, "phase");
    set_time(L, "primer_end_ms", report->primer_end_ns);
    set_time(L, "warmup_end_ms", report->warmup_end_ns);
    set_time(L, "barrier_ms", report->barrier_ns);
    set_time(L, "cutoff_ms", report->cutoff_ns);
    set_time(L, "grace_end_ms", report->grace_end_ns);
    set_time(L, "drain_end_ms", report->drain_end_ns);
    set_count(L, "primer_requests", report->primer_requests);
    set_count(L, "warmup_requests", report->warmup_requests);
    set_count(L, "planned", report->planned);
    set_count(L, "issued", report->issued);
    set_count(L, "successful", report->successful);
    set_count(L, "failed", report->failed);
    set_count(L, "cancelled", report->cancelled);
    set_count(L, "in_flight", report->in_flight);
    set_count(L, "never_issued", report->never_issued);
    set_count(L, "unsettled", report->unsettled);
    set_count(L, "plays_started", report->plays_started);
    set_count(L, "plays_client_completed", report->plays_client_completed);
    set_count(L, "plays_failed", report->plays_failed);
    set_count(L, "plays_retired", report->plays_retired);
    set_count(L, "plays_server_quiescent", report->plays_server_quiescent);
    set_count(L, "corpus_cursor", report->corpus_cursor);
    set_time(L, "first_request_ms", report->first_request_ns);
    set_time(L, "last_success_ms", report->last_success_ns);
    set_time(L, "observation_duration_ms", report->observation_ns);
    if (isfinite(report->throughput_rps)) {
        lua_pushnumber(L, report->throughput_rps);
        lua_setfield(L, -2, "throughput_rps");
    }
    if (report->phase == AISIM_AGENTX_FAILED) {
        lua_createtable(L, 0, 3);
        lua_pushstring(L, phase_name(report->failed_phase));
        lua_setfield(L, -2, "phase");
        set_time(L, "at_ms", report->failed_ns);
        set_count(L, "lane", report->failed_lane);
        lua_setfield(L, -2, "failure");
    }
    push_plays_of(L, report);
    lua_setfield(L, -2, "plays");
    push_shifts(L, report);
    lua_setfield(L, -2, "shifts");
    return 1;
}

void aisim_l_agentx_report_all(aisim_l_sim *s, aisim_results *out)
{
    for (uint32_t i = 0; s->replays != NULL && i < s->replays->list.len; i++) {
        char key[32] = "agentx";
        if (i > 0) {
            snprintf(key, sizeof key, "agentx#%u", i + 1);
        }
        aisim_l_agentx_results(out, key,
                               aisim_agentx_traffic_report(s->replays->list.data[i].traffic));
    }
}

uint64_t aisim_l_agentx_never_issued(const aisim_l_sim *s)
{
    uint64_t n = 0;
    for (uint32_t i = 0; s->replays != NULL && i < s->replays->list.len; i++) {
        n += aisim_agentx_traffic_report(s->replays->list.data[i].traffic)->never_issued;
    }
    return n;
}

void aisim_l_agentx_register(lua_State *L)
{
    aisim_l_extend(L, "aisim.Sim",
                   (const luaL_Reg[]){{"agentx_", sim_agentx},
                                      {"agentx_report_", sim_agentx_report},
                                      {NULL, NULL}});
}
