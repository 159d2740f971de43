/* l_report.c - the recorder of a simulation and the primitives of its result (spec/lua-api.md §11).
 *
 * lua/aisim/results.lua makes the object that scripts see; here are the numbers: the flat table of
 * metrics, distributions, the report as JSON. The recorder lives as long as
 * the simulation, so a result may be read as long as somebody holds it. */
#include "lua/l_metrics.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/map.h"
#include "config/emit.h"
#include "lua/l_agentx.h"
#include "lua/l_cluster.h"
#include "lua/l_timing.h"

enum { KEPT_RECORDS = 100000 }; /* unless the run says otherwise: some 60 MB */

/* ---- life ------------------------------------------------------------------------------------ */

aisim_l_metrics *aisim_l_metrics_of(aisim_l_sim *s)
{
    if (s->metrics == NULL) {
        s->metrics = aisim_alloc_zero(1, sizeof *s->metrics);
        aisim_recorder_config_default(&s->metrics->config);
        s->metrics->max_records = KEPT_RECORDS;
    }
    return s->metrics;
}

void aisim_l_metrics_free(aisim_l_sim *s)
{
    aisim_l_metrics *m = s->metrics;
    if (m == NULL) {
        return;
    }
    for (uint32_t i = 0; i < m->declared.len; i++) {
        aisim_l_declared *d = m->declared.data[i];
        aisim_free(d->name);
        aisim_free(d->unit);
        aisim_free(d->help);
        aisim_free(d->by);
        aisim_free(d->num);
        aisim_free(d->den);
        d->name = NULL; /* the struct belongs to its Lua object */
    }
    if (m->built) {
        aisim_results_free(&m->results);
    }
    aisim_request_log_discard(m->logs.measured);
    aisim_request_log_discard(m->logs.preparation);
    aisim_profile_log_discard(m->profile_log);
    aisim_recorder_free(m->recorder);
    aisim_array_free(&m->declared);
    aisim_array_free(&m->slos);
    aisim_array_free(&m->records);
    for (uint32_t i = 0; i < m->names.len; i++) {
        aisim_free(m->names.data[i]);
    }
    aisim_array_free(&m->names);
    aisim_free(m);
    s->metrics = NULL;
}

/* A text of its file is valid during the call: the last record gets one that stays. */
static const char *kept_name(aisim_l_metrics *m, const char *name)
{
    if (name == NULL) {
        return NULL;
    }
    char *copy = aisim_strdup(name);
    aisim_array_push(&m->names, copy);
    return copy;
}

static void keep_names(aisim_l_metrics *m)
{
    aisim_record *record = &m->records.data[m->records.len - 1];
    record->name = kept_name(m, record->name);
    record->session_name = kept_name(m, record->session_name);
}

static void keep_record(void *context, const aisim_record *record)
{
    aisim_l_metrics *m = context;
    m->preparation_records += strcmp(record->phase, "profile") != 0;
    aisim_request_logs_sink(&m->logs, record);
    if (m->profile_log != NULL) {
        aisim_profile_log_add(m->profile_log, record);
    }
    if (m->records.len < m->max_records) {
        aisim_array_push(&m->records, *record);
        keep_names(m);
    } else {
        m->lost_records++;
    }
}

static double session_number(uint32_t session)
{
    return session == 0 ? (double)NAN : (double)session;
}

/* What the workload knows of the request. */
static void annotate(void *context, const aisim_request *request, aisim_record *record)
{
    const aisim_l_sim *s = context;
    aisim_descent descent;
    aisim_sim_descent(s->sim, request, &descent);
    record->root_session_id = session_number(descent.root_session);
    record->parent_session_id = session_number(descent.parent_session);
    record->name = descent.request;
    record->session_name = descent.session;
    if (descent.play != NULL) {
        record->play_id = descent.play;
        record->play_ordinal = descent.play_ordinal;
        record->lane = descent.lane;
    }
}

aisim_recorder *aisim_l_recorder(lua_State *L, aisim_l_sim *s)
{
    aisim_l_metrics *m = aisim_l_metrics_of(s);
    if (m->recorder != NULL) {
        return m->recorder;
    }
    m->config.sink = keep_record;
    m->config.sink_context = m;
    m->config.annotate = annotate;
    m->config.annotate_context = s;
    m->recorder = aisim_recorder_new(&m->config);
    for (uint32_t i = 0; i < m->declared.len; i++) {
        aisim_l_metric_attach(L, m, m->declared.data[i]);
    }
    return m->recorder;
}

/* The worker whose first rank that is; its ranks follow each other. */
static void record_worker(aisim_l_sim *s, aisim_recorder *recorder, uint32_t first_rank,
                          int64_t from_ns, bool provisioned)
{
    aisim_rank_view first, next;
    aisim_sim_rank(s->sim, first_rank, &first);
    const aisim_l_pool_info *pool = &aisim_l_cluster_of(s)->pools.data[first.pool];
    aisim_recorder_worker_info info = {.pool = pool->name,
                                       .role = aisim_l_role_text(pool->role),
                                       .gpus = pool->gpus,
                                       .blocks = pool->blocks,
                                       .block_size = pool->block_size,
                                       .batched_tokens = pool->batched_tokens,
                                       .first_rank = first_rank,
                                       .from_ns = from_ns,
                                       .provisioned = provisioned};
    do {
        info.ranks++;
        uint32_t rank = first_rank + info.ranks;
        next.worker = AISIM_NONE;
        if (rank < aisim_sim_ranks(s->sim)) {
            aisim_sim_rank(s->sim, rank, &next);
        }
    } while (next.worker == first.worker);
    aisim_recorder_worker(recorder, &info);
}

static void on_grown(void *context, aisim_sim *sim, uint32_t pool, uint32_t worker)
{
    aisim_l_sim *s = context;
    (void)pool;
    if (s->metrics != NULL && s->metrics->recorder != NULL) { /* its ranks are the newest */
        aisim_rank_view rank;
        uint32_t first = aisim_sim_ranks(sim);
        do {
            aisim_sim_rank(sim, --first, &rank);
        } while (rank.worker != worker || rank.rank_in_worker > 0);
        record_worker(s, s->metrics->recorder, first, aisim_sim_now(sim), false);
    }
}

/* The workers there are, in their order; those that come later are told by on_grown. */
static void add_workers(aisim_l_sim *s, aisim_recorder *recorder)
{
    uint32_t last = AISIM_NONE;
    for (uint32_t i = 0; i < aisim_sim_ranks(s->sim); i++) {
        aisim_rank_view rank;
        aisim_sim_rank(s->sim, i, &rank);
        if (rank.worker != last) {
            record_worker(s, recorder, i, 0, true);
        }
        last = rank.worker;
    }
    aisim_sim_on_grown(s->sim, on_grown, s);
}

uint16_t aisim_l_class_id(aisim_l_sim *s, const char *name)
{
    uint16_t id = aisim_sim_class(s->sim, name);
    if (id >= s->n_classes) {
        s->n_classes = id + 1;
        if (s->metrics != NULL && s->metrics->recorder != NULL) {
            aisim_recorder_class(s->metrics->recorder, id, name);
        }
    }
    return id;
}

void aisim_l_metrics_start(lua_State *L, aisim_l_sim *s)
{
    aisim_recorder *recorder = aisim_l_recorder(L, s);
    add_workers(s, recorder);
    const aisim_l_metrics *m = s->metrics;
    for (uint32_t i = 0; i < s->n_classes; i++) {
        aisim_recorder_class(recorder, (uint16_t)i, aisim_sim_class_name(s->sim, (uint16_t)i));
    }
    for (uint32_t i = 0; i < m->slos.len; i++) {
        aisim_recorder_class_slo(recorder, m->slos.data[i].class_id, &m->slos.data[i].slo);
    }
    aisim_observers *observers = aisim_sim_observers(s->sim);
    observers->list[observers->n++] = aisim_recorder_observer(recorder);
    aisim_observers_update(observers);
}

/* Of the resolved configurations of all pools, in order. @return NULL without a pool */
static const char *config_digest(aisim_l_sim *s, char out[17])
{
    const aisim_l_cluster *c = aisim_l_cluster_of(s);
    uint64_t digest = 0;
    for (uint32_t i = 0; i < c->pools.len; i++) {
        digest = digest * 1099511628211u ^ aisim_value_digest(c->pools.data[i].configuration);
    }
    snprintf(out, 17, "%016" PRIx64, digest);
    return c->pools.len > 0 ? out : NULL;
}

/* The report of what the recorder has seen. */
static void build_results(aisim_l_sim *s, aisim_results *results)
{
    char digest[17];
    const aisim_report_meta meta = {.version = AISIM_VERSION,
                                    .scenario = s->name[0] != '\0' ? s->name : NULL,
                                    .seed = aisim_sim_seed(s->sim),
                                    .config_digest = config_digest(s, digest),
                                    .interrupted = s->code == AISIM_EINTERRUPTED
                                                       ? "interrupted"
                                                       : aisim_sim_stop_reason(s->sim)};
    aisim_report_build(results, s->metrics->recorder, &meta);
    aisim_l_timing_report(s, results, aisim_results_find(results, 0, "totals"));
    aisim_l_agentx_report_all(s, results);
    aisim_l_configuration_report(s, results);
}

void aisim_l_metrics_finish(aisim_l_sim *s)
{
    aisim_l_metrics *m = s->metrics;
    aisim_recorder_finish(m->recorder, aisim_sim_now(s->sim));
    aisim_recorder_add_never_issued(m->recorder, aisim_l_agentx_never_issued(s));
    if (m->built) {
        aisim_results_free(&m->results);
    }
    build_results(s, &m->results);
    m->built = true;
}

aisim_l_metrics *aisim_l_check_built(lua_State *L, aisim_l_sim **out)
{
    aisim_l_sim *s = aisim_l_check_sim(L, 1);
    if (s->metrics == NULL || !s->metrics->built) {
        aisim_l_fail(L, "the simulation has not run yet");
    }
    *out = s;
    return s->metrics;
}

/* ---- settings -------------------------------------------------------------------------------- */

static double bound(lua_State *L, int table, const char *key)
{
    double value = lua_getfield(L, table, key) == LUA_TNUMBER ? lua_tonumber(L, -1) : (double)NAN;
    lua_pop(L, 1);
    return value;
}

/* core sim:slo_(class or nil, {ttft_ms=, itl_ms=, e2e_ms=}) */
static int sim_slo(lua_State *L)
{
    aisim_l_sim *s = aisim_l_check_control(L, 1);
    luaL_checktype(L, 3, LUA_TTABLE);
    aisim_l_metrics *m = aisim_l_metrics_of(s);
    aisim_slo slo = {bound(L, 3, "ttft_ms"), bound(L, 3, "itl_ms"), bound(L, 3, "e2e_ms")};
    if (m->recorder != NULL) {
        return aisim_l_fail(L, "sim:slo: comes before the run and the first value of a metric");
    }
    if (lua_isnoneornil(L, 2)) {
        m->config.slo = slo;
    } else {
        uint16_t class_id = aisim_l_class_id(s, luaL_checkstring(L, 2));
        aisim_array_push(&m->slos, (aisim_l_slo){class_id, slo});
    }
    return 0;
}

/* core sim:measure_(options): percentile_rule, duration, from_ms, to_ms, strict_slo, percentiles */
static int sim_measure(lua_State *L)
{
    aisim_l_sim *s = aisim_l_check_control(L, 1);
    luaL_checktype(L, 2, LUA_TTABLE);
    aisim_l_metrics *m = aisim_l_metrics_of(s);
    aisim_recorder_config *config = &m->config;
    aisim_error err = {0};
    if (m->recorder != NULL) {
        return aisim_l_fail(L, "sim:measure: comes before the run and the first value of a metric");
    }
    if (lua_getfield(L, 2, "percentile_rule") == LUA_TSTRING &&
        aisim_percentile_rule_parse(lua_tostring(L, -1), &config->rule, &err) != AISIM_OK) {
        return aisim_l_raise(L, &err);
    }
    if (lua_getfield(L, 2, "duration") == LUA_TSTRING &&
        aisim_duration_parse(lua_tostring(L, -1), &config->duration, &err) != AISIM_OK) {
        return aisim_l_raise(L, &err);
    }
    lua_getfield(L, 2, "strict_slo");
    config->strict_slo = lua_toboolean(L, -1);
    double from_ms = bound(L, 2, "from_ms");
    double to_ms = bound(L, 2, "to_ms");
    if (!isnan(from_ms) || !isnan(to_ms)) {
        config->window_from_ns = isnan(from_ms) ? 0 : aisim_ns_from_ms(from_ms);
        config->window_to_ns = isnan(to_ms) ? AISIM_NEVER : aisim_ns_from_ms(to_ms);
        config->measurement_start_ns = config->window_from_ns;
    }
    lua_getfield(L, 2, "percentiles");
    for (lua_Integer i = 1; lua_istable(L, -1) && i <= (lua_Integer)lua_rawlen(L, -1); i++) {
        if (config->n_extra_percentiles == AISIM_MAX_EXTRA_PERCENTILES) {
            return aisim_l_fail(L, "sim:measure.percentiles: at most %d",
                                AISIM_MAX_EXTRA_PERCENTILES);
        }
        lua_rawgeti(L, -1, i);
        config->extra_percentiles[config->n_extra_percentiles++] = lua_tonumber(L, -1);
        lua_pop(L, 1);
    }
    return 0;
}

/* core sim:keep_requests_(n) */
static int sim_keep_requests(lua_State *L)
{
    aisim_l_sim *s = aisim_l_check_sim(L, 1);
    aisim_l_metrics_of(s)->max_records = (uint64_t)luaL_checkinteger(L, 2);
    return 0;
}

/* ---- results --------------------------------------------------------------------------------- */

static void add_leaf(void *context, const char *name, const aisim_result *leaf)
{
    lua_State *L = context;
    if (leaf->kind == AISIM_RESULT_NULL) {
        return;
    }
    switch (leaf->kind) {
    case AISIM_RESULT_BOOL:
        lua_pushboolean(L, leaf->u.flag);
        break;
    case AISIM_RESULT_INT:
        lua_pushinteger(L, (lua_Integer)leaf->u.integer);
        break;
    case AISIM_RESULT_NUMBER:
        lua_pushnumber(L, leaf->u.number);
        break;
    default: /* texts are not metrics */
        return;
    }
    lua_setfield(L, -2, name);
}

static void push_flat(lua_State *L, const aisim_results *results)
{
    static const char *const parts[] = {"totals", "distributions", "classes", "custom"};
    lua_newtable(L);
    for (int i = 0; i < 4; i++) {
        uint32_t node = aisim_results_find(results, 0, parts[i]);
        if (node != AISIM_NONE) {
            aisim_results_flat(results, node, add_leaf, L);
        }
    }
}

/* core sim:flat_() -> table flat name -> number: totals, distributions, custom metrics */
static int sim_flat(lua_State *L)
{
    aisim_l_sim *s;
    push_flat(L, &aisim_l_check_built(L, &s)->results);
    return 1;
}

/* core sim:peek_() -> the same of a run that goes on, as it stands now. O(requests log requests).
 */
static int sim_peek(lua_State *L)
{
    aisim_l_sim *s = aisim_l_check_sim(L, 1);
    if (s->metrics == NULL || s->metrics->recorder == NULL) {
        return aisim_l_fail(L, "the simulation has not run yet");
    }
    aisim_results results;
    aisim_recorder_peek(s->metrics->recorder, aisim_sim_now(s->sim));
    build_results(s, &results);
    push_flat(L, &results);
    aisim_results_free(&results);
    return 1;
}

static void push_node(lua_State *L, const aisim_results *results, uint32_t node)
{
    const aisim_result *result = aisim_results_at(results, node);
    luaL_checkstack(L, 4, NULL);
    switch (result->kind) {
    case AISIM_RESULT_NULL:
        lua_pushnil(L);
        return;
    case AISIM_RESULT_BOOL:
        lua_pushboolean(L, result->u.flag);
        return;
    case AISIM_RESULT_INT:
        lua_pushinteger(L, (lua_Integer)result->u.integer);
        return;
    case AISIM_RESULT_NUMBER:
        lua_pushnumber(L, result->u.number);
        return;
    case AISIM_RESULT_TEXT:
        lua_pushstring(L, result->u.text);
        return;
    case AISIM_RESULT_OBJECT:
    case AISIM_RESULT_ARRAY:
        break;
    }
    lua_newtable(L);
    lua_Integer i = 0;
    for (uint32_t child = result->first; child != AISIM_NONE;
         child = aisim_results_at(results, child)->next) {
        push_node(L, results, child);
        const char *key = aisim_results_at(results, child)->key;
        if (key != NULL) {
            lua_setfield(L, -2, key);
        } else {
            lua_rawseti(L, -2, ++i);
        }
    }
}

/* core sim:results_(path) -> the part of the report as tables; nil when there is none */
static int sim_results(lua_State *L)
{
    aisim_l_sim *s;
    const aisim_results *results = &aisim_l_check_built(L, &s)->results;
    uint32_t node = 0;
    if (!lua_isnoneornil(L, 2)) {
        node = aisim_results_path(results, 0, luaL_checkstring(L, 2));
    }
    if (node == AISIM_NONE) {
        return 0;
    }
    push_node(L, results, node);
    return 1;
}

/* core sim:add_result_(name, number or nil): a derived metric, into `custom` of the report */
static int sim_add_result(lua_State *L)
{
    aisim_l_sim *s;
    aisim_results *results = &aisim_l_check_built(L, &s)->results;
    uint32_t custom = aisim_results_find(results, 0, "custom");
    double value = lua_isnoneornil(L, 3) ? (double)NAN : luaL_checknumber(L, 3);
    aisim_results_number(results, custom, luaL_checkstring(L, 2), value);
    return 0;
}

/* core sim:json_(indent) -> the report as text */
static int sim_json(lua_State *L)
{
    aisim_l_sim *s;
    const aisim_results *results = &aisim_l_check_built(L, &s)->results;
    aisim_json json = {.indent = (uint32_t)luaL_optinteger(L, 2, 0)};
    aisim_results_json(results, 0, &json);
    lua_pushlstring(L, json.text.data, json.text.len);
    aisim_json_free(&json);
    return 1;
}

/* A histogram of the scenario, of one label if given. */
static aisim_digest *custom_digest(aisim_recorder *recorder, const char *name, const char *label)
{
    aisim_metric *metric = aisim_custom_find(aisim_recorder_custom(recorder), name);
    if (metric == NULL || aisim_metric_spec_of(metric)->kind != AISIM_METRIC_HIST) {
        return NULL;
    }
    for (uint32_t cell = 1; label != NULL && cell < aisim_metric_cells(metric); cell++) {
        if (strcmp(aisim_metric_label(metric, cell), label) == 0) {
            return aisim_metric_digest(metric, cell);
        }
    }
    return label == NULL ? aisim_metric_digest(metric, 0) : NULL;
}

/* core sim:percentile_(key, class or nil, q) -> number; nil when there is no such distribution or
 * it is empty */
static int sim_percentile(lua_State *L)
{
    aisim_l_sim *s;
    aisim_l_metrics *m = aisim_l_check_built(L, &s);
    const char *key = luaL_checkstring(L, 2);
    const char *label = luaL_optstring(L, 3, NULL);
    aisim_digest *digest = custom_digest(m->recorder, key, label);
    if (digest == NULL) {
        int32_t class_id = label == NULL ? -1 : (int32_t)aisim_l_class_id(s, label);
        digest = aisim_recorder_distribution(m->recorder, key, class_id);
    }
    if (digest == NULL || digest->n == 0) {
        return 0;
    }
    lua_pushnumber(L, aisim_digest_percentile(digest, luaL_checknumber(L, 4)));
    return 1;
}

/* core sim:series_(name) -> t array, v array; nil when there is none */
static int sim_series(lua_State *L)
{
    aisim_l_sim *s;
    aisim_l_metrics *m = aisim_l_check_built(L, &s);
    aisim_metric *metric =
        aisim_custom_find(aisim_recorder_custom(m->recorder), luaL_checkstring(L, 2));
    if (metric == NULL || aisim_metric_spec_of(metric)->kind != AISIM_METRIC_SERIES) {
        return 0;
    }
    const int64_t *times;
    const double *values;
    uint32_t n = aisim_metric_points(metric, &times, &values);
    lua_createtable(L, (int)n, 0);
    lua_createtable(L, (int)n, 0);
    for (uint32_t i = 0; i < n; i++) {
        aisim_l_push_ms(L, times[i]);
        lua_rawseti(L, -3, (lua_Integer)i + 1);
        lua_pushnumber(L, values[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 2;
}

/* core.definitions() -> list of {key=, unit=, text=} */
static int l_definitions(lua_State *L)
{
    lua_newtable(L);
    const aisim_definition *definition;
    for (uint32_t i = 0; (definition = aisim_definition_at(i)) != NULL; i++) {
        lua_createtable(L, 0, 3);
        lua_pushstring(L, definition->key);
        lua_setfield(L, -2, "key");
        lua_pushstring(L, definition->unit);
        lua_setfield(L, -2, "unit");
        lua_pushstring(L, definition->text);
        lua_setfield(L, -2, "text");
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

/* core sim:classes_() -> names of the classes of traffic */
static int sim_classes(lua_State *L)
{
    const aisim_l_sim *s = aisim_l_check_sim(L, 1);
    lua_newtable(L);
    for (uint16_t i = 0; i < s->n_classes; i++) {
        const char *name = aisim_sim_class_name(s->sim, i);
        if (name != NULL && *name != '\0') {
            lua_pushstring(L, name);
            lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
        }
    }
    return 1;
}

void aisim_l_report_register(lua_State *L)
{
    static const luaL_Reg functions[] = {{"definitions", l_definitions}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
    aisim_l_extend(L, "aisim.Sim",
                   (const luaL_Reg[]){{"slo_", sim_slo},
                                      {"classes_", sim_classes},
                                      {"measure_", sim_measure},
                                      {"keep_requests_", sim_keep_requests},
                                      {"flat_", sim_flat},
                                      {"peek_", sim_peek},
                                      {"results_", sim_results},
                                      {"add_result_", sim_add_result},
                                      {"json_", sim_json},
                                      {"percentile_", sim_percentile},
                                      {"series_", sim_series},
                                      {NULL, NULL}});
}
