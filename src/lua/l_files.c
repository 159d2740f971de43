/* l_files.c - request logs, decisions, time series and timeline of a run (spec/report.md §4 to §6).
 *
 * All are asked for before the run and cost nothing otherwise. The time series is sampled by ticks
 * of the simulation (class 6: after everything else of their instant), at changes of phase, and at
 * the end; a sample reads and changes nothing. Its text stays in memory, some 100 bytes per worker
 * and sample. Logs and timeline stream to disk. */
#include "lua/l_files.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/map.h"
#include "lua/l_cluster.h"
#include "lua/l_metrics.h"
#include "metrics/decision_log.h"
#include "metrics/timeline.h"
#include "metrics/timeseries.h"

typedef struct aisim_l_files {
    aisim_l_sim *s;
    int64_t every_ns; /* 0 = no time series */
    aisim_timeseries *series;
    aisim_timeline *timeline;      /* NULL = none */
    aisim_decision_log *decisions; /* the same */
    uint64_t in_flight, live_plays;
} aisim_l_files;

static aisim_l_files *files_of(aisim_l_sim *s)
{
    if (s->files == NULL) {
        s->files = aisim_alloc_zero(1, sizeof *s->files);
        s->files->s = s;
    }
    return s->files;
}

static void discard_logs(aisim_l_metrics *m)
{
    aisim_request_log_discard(m->logs.measured);
    aisim_request_log_discard(m->logs.preparation);
    aisim_profile_log_discard(m->profile_log);
    m->logs = (aisim_request_logs){0};
    m->profile_log = NULL;
}

void aisim_l_files_discard(aisim_l_sim *s)
{
    if (s->metrics != NULL) {
        discard_logs(s->metrics);
    }
    if (s->files != NULL) {
        aisim_timeline_discard(s->files->timeline);
        aisim_decision_log_discard(s->files->decisions);
        s->files->timeline = NULL;
        s->files->decisions = NULL;
    }
}

void aisim_l_files_free(aisim_l_sim *s)
{
    aisim_l_files_discard(s);
    if (s->files != NULL) {
        aisim_timeseries_free(s->files->series);
        aisim_free(s->files);
        s->files = NULL;
    }
}

/* ---- time series ----------------------------------------------------------------------------- */

/* One row per worker: its ranks added up. */
static void sample(aisim_l_files *files, int64_t t_ns)
{
    const aisim_sim *sim = files->s->sim;
    aisim_timeseries_state state = {0};
    uint32_t ranks = aisim_sim_ranks(sim);
    for (uint32_t i = 0; i < ranks; i++) {
        aisim_rank_view view;
        aisim_sim_rank(sim, i, &view);
        state.running += view.running;
        state.waiting += view.waiting;
        state.kv_used += view.kv_active;
        state.kv_cached += view.kv_inactive;
        state.kv_total += view.kv_total;
        state.host_used += view.host_used;
        uint64_t of_states = aisim_sim_state_blocks(sim, i);
        state.state_used = of_states == UINT64_MAX ? of_states : state.state_used + of_states;
        aisim_rank_view next = {.worker = AISIM_NONE};
        if (i + 1 < ranks) {
            aisim_sim_rank(sim, i + 1, &next);
        }
        if (next.worker != view.worker) {
            state.in_flight_clients = files->in_flight;
            state.live_plays = files->live_plays;
            state.router_queue = aisim_sim_router_queue(sim);
            aisim_timeseries_sample(files->series, t_ns, view.worker, &state);
            state = (aisim_timeseries_state){0};
        }
    }
}

static void sample_once(void *context, aisim_sim *sim, int64_t t_ns)
{
    (void)sim;
    sample(context, t_ns);
}

static void sample_again(void *context, aisim_sim *sim, int64_t t_ns)
{
    aisim_l_files *files = context;
    sample(files, t_ns);
    if (t_ns <= AISIM_NEVER - files->every_ns) {
        aisim_sim_timer(sim, t_ns + files->every_ns, AISIM_CLASS_TICK, true, sample_again, files);
    }
}

static void observe(void *context, const aisim_event *event)
{
    aisim_l_files *files = context;
    switch (event->type) {
    case AISIM_EV_ARRIVE:
        files->in_flight++;
        break;
    case AISIM_EV_FINISH:
    case AISIM_EV_REJECT:
        files->in_flight--;
        break;
    case AISIM_EV_PLAY_START:
        files->live_plays++;
        break;
    case AISIM_EV_PLAY_END:
        files->live_plays--;
        break;
    case AISIM_EV_PHASE:
        aisim_sim_timer(files->s->sim, event->t_ns, AISIM_CLASS_TICK, true, sample_once, files);
        break;
    default: /* RUN_END */
        sample(files, event->t_ns);
        break;
    }
}

static void start_series(aisim_l_files *files)
{
    aisim_l_sim *s = files->s;
    AISIM_ARRAY(uint32_t) workers = {0};
    for (uint32_t i = 0; i < aisim_sim_ranks(s->sim); i++) {
        aisim_rank_view view;
        aisim_sim_rank(s->sim, i, &view);
        aisim_array_push(&workers, view.worker);
    }
    files->series = aisim_timeseries_new(workers.data, workers.len);
    aisim_array_free(&workers);
    aisim_timeseries_custom(files->series, aisim_recorder_custom(s->metrics->recorder));
    static const aisim_event_type wanted[] = {
        AISIM_EV_ARRIVE,   AISIM_EV_FINISH, AISIM_EV_REJECT, AISIM_EV_PLAY_START,
        AISIM_EV_PLAY_END, AISIM_EV_PHASE,  AISIM_EV_RUN_END};
    aisim_observer own = {.context = files, .fn = observe};
    for (uint32_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        own.mask |= AISIM_EV_BIT(wanted[i]);
    }
    aisim_observers *observers = aisim_sim_observers(s->sim);
    observers->list[observers->n++] = own;
    observers->list[observers->n++] = aisim_timeseries_observer(files->series);
    aisim_sim_timer(s->sim, aisim_sim_now(s->sim), AISIM_CLASS_TICK, true, sample_again, files);
}

/* ---- timeline -------------------------------------------------------------------------------- */

static uint64_t host_blocks(void *context, uint32_t rank)
{
    const aisim_l_files *files = context;
    aisim_rank_view view;
    aisim_sim_rank(files->s->sim, rank, &view);
    return view.host_used;
}

static void start_timeline(aisim_l_files *files)
{
    aisim_l_sim *s = files->s;
    const aisim_l_cluster *cluster = aisim_l_cluster_of(s);
    for (uint32_t i = 0; i < aisim_sim_ranks(s->sim); i++) {
        aisim_rank_view view;
        aisim_sim_rank(s->sim, i, &view);
        aisim_timeline_rank(files->timeline, view.worker, cluster->pools.data[view.pool].name);
    }
    aisim_observers *observers = aisim_sim_observers(s->sim);
    observers->list[observers->n++] = aisim_timeline_observer(files->timeline);
}

void aisim_l_files_start(aisim_l_sim *s)
{
    aisim_l_files *files = s->files;
    if (files == NULL) {
        return;
    }
    if (files->every_ns > 0) {
        start_series(files);
    }
    if (files->timeline != NULL) {
        start_timeline(files);
    }
    if (files->decisions != NULL) {
        aisim_observers *observers = aisim_sim_observers(s->sim);
        observers->list[observers->n++] =
            aisim_decision_log_observer(files->decisions, s->metrics->recorder);
    }
    aisim_observers_update(aisim_sim_observers(s->sim));
}

/* A log of the preparation without a record is no file. */
static void finish_logs(lua_State *L, aisim_l_metrics *m)
{
    aisim_error err = {0};
    aisim_request_logs logs = m->logs;
    aisim_profile_log *profile_log = m->profile_log;
    m->logs = (aisim_request_logs){0};
    m->profile_log = NULL;
    aisim_status status =
        logs.measured != NULL ? aisim_request_log_close(logs.measured, &err) : AISIM_OK;
    if (status != AISIM_OK || m->preparation_records == 0) {
        aisim_request_log_discard(logs.preparation);
    } else if (logs.preparation != NULL) {
        status = aisim_request_log_close(logs.preparation, &err);
    }
    if (status != AISIM_OK) {
        aisim_profile_log_discard(profile_log);
    } else if (profile_log != NULL) {
        status = aisim_profile_log_close(profile_log, &err);
    }
    if (status != AISIM_OK) {
        aisim_l_raise(L, &err);
    }
}

static void finish_timeline(lua_State *L, aisim_l_sim *s)
{
    aisim_l_files *files = s->files;
    uint64_t lost = aisim_timeline_lost(files->timeline);
    if (lost > 0) {
        char text[160];
        snprintf(text, sizeof text,
                 "timeline.json stops before the end: %llu events more than its limit (a window, "
                 "every k-th pass or max_events help)",
                 (unsigned long long)lost);
        aisim_recorder_warn(s->metrics->recorder, text);
    }
    aisim_error err = {0};
    aisim_timeline *timeline = files->timeline;
    files->timeline = NULL;
    if (aisim_timeline_close(timeline, &err) != AISIM_OK) {
        aisim_l_raise(L, &err);
    }
}

void aisim_l_files_finish(lua_State *L, aisim_l_sim *s)
{
    aisim_l_files *files = s->files;
    finish_logs(L, s->metrics);
    if (files != NULL && files->decisions != NULL) {
        aisim_error err = {0};
        aisim_decision_log *decisions = files->decisions;
        files->decisions = NULL;
        if (aisim_decision_log_close(decisions, &err) != AISIM_OK) {
            aisim_l_raise(L, &err);
        }
    }
    if (files != NULL && files->timeline != NULL) {
        finish_timeline(L, s);
    }
}

/* ---- Lua ------------------------------------------------------------------------------------- */

/* core sim:sample_(every_ms): a row of the time series so often */
static int sim_sample(lua_State *L)
{
    aisim_l_sim *s = aisim_l_check_control(L, 1);
    files_of(s)->every_ns = aisim_l_check_ms(L, 2, "sim:run: series_ms");
    return 0;
}

/* core sim:log_(path, preparation, aiperf): every request as it ends, into files; each may be nil */
static int sim_log(lua_State *L)
{
    aisim_l_sim *s = aisim_l_check_control(L, 1);
    aisim_l_metrics *m = aisim_l_metrics_of(s);
    const char *path = luaL_optstring(L, 2, NULL), *preparation = luaL_optstring(L, 3, NULL);
    const char *aiperf = luaL_optstring(L, 4, NULL);
    aisim_error err = {0};
    discard_logs(m);
    aisim_status status = AISIM_OK;
    if (path != NULL) {
        status = aisim_request_log_open(path, &m->logs.measured, &err);
    }
    if (status == AISIM_OK && preparation != NULL) {
        status = aisim_request_log_open(preparation, &m->logs.preparation, &err);
    }
    if (status == AISIM_OK && aiperf != NULL) {
        status = aisim_profile_log_open(aiperf, &m->profile_log, &err);
    }
    if (status != AISIM_OK) {
        discard_logs(m);
        return aisim_l_raise(L, &err);
    }
    return 0;
}

/* core sim:timeseries_() -> the CSV so far; nil when none was asked for */
static int sim_timeseries(lua_State *L)
{
    const aisim_l_sim *s = aisim_l_check_sim(L, 1);
    if (s->files == NULL || s->files->series == NULL) {
        return 0;
    }
    uint32_t size;
    const char *text = aisim_timeseries_text(s->files->series, &size);
    lua_pushlstring(L, text, size);
    return 1;
}

static int64_t time_field(lua_State *L, const char *key, int64_t absent)
{
    int64_t ns = absent;
    if (lua_getfield(L, 3, key) == LUA_TNUMBER) {
        ns = aisim_ns_from_ms(lua_tonumber(L, -1));
    }
    lua_pop(L, 1);
    return ns;
}

/* core sim:timeline_(path, {from_ms=, until_ms=, every_pass=, max_events=}) */
static int sim_timeline(lua_State *L)
{
    aisim_l_sim *s = aisim_l_check_control(L, 1);
    const char *path = luaL_checkstring(L, 2);
    luaL_checktype(L, 3, LUA_TTABLE);
    aisim_l_files *files = files_of(s);
    aisim_timeline_options options;
    aisim_timeline_options_default(&options);
    options.from_ns = time_field(L, "from_ms", options.from_ns);
    options.until_ns = time_field(L, "until_ms", options.until_ns);
    lua_getfield(L, 3, "every_pass");
    options.every_pass = (uint32_t)luaL_optinteger(L, -1, options.every_pass);
    lua_getfield(L, 3, "max_events");
    options.max_events = (uint64_t)luaL_optinteger(L, -1, (lua_Integer)options.max_events);
    lua_pop(L, 2);
    options.host_blocks = host_blocks;
    options.context = files;
    aisim_error err = {0};
    aisim_timeline_discard(files->timeline);
    files->timeline = NULL;
    if (aisim_timeline_open(path, &options, &files->timeline, &err) != AISIM_OK) {
        return aisim_l_raise(L, &err);
    }
    return 0;
}

/* core sim:decisions_(path) */
static int sim_decisions(lua_State *L)
{
    aisim_l_sim *s = aisim_l_check_control(L, 1);
    const char *path = luaL_checkstring(L, 2);
    aisim_l_files *files = files_of(s);
    aisim_error err = {0};
    aisim_decision_log_discard(files->decisions);
    files->decisions = NULL;
    if (aisim_decision_log_open(path, &files->decisions, &err) != AISIM_OK) {
        return aisim_l_raise(L, &err);
    }
    return 0;
}

void aisim_l_files_register(lua_State *L)
{
    aisim_l_extend(L, "aisim.Sim",
                   (const luaL_Reg[]){{"log_", sim_log},
                                      {"sample_", sim_sample},
                                      {"timeseries_", sim_timeseries},
                                      {"timeline_", sim_timeline},
                                      {"decisions_", sim_decisions},
                                      {NULL, NULL}});
}
