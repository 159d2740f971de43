/* l_metric.c - metrics of a scenario: counter, gauge, hist, ratio, series (spec/lua-api.md §8).
 *
 * The values live in the recorder's registry (metrics/custom.h), so they are reset at the barrier
 * and appear in the report like the built-in ones. A metric may be declared before the recorder
 * exists, that is before sim:slo and the like have said how to record; the first value or the run
 * makes it. */
#include "lua/l_metrics.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/map.h"

static aisim_l_declared *check(lua_State *L)
{
    aisim_l_declared *d = luaL_checkudata(L, 1, AISIM_L_METRIC);
    if (d->s->sim == NULL) {
        aisim_l_fail(L, "the simulation has been closed");
    }
    if (d->metric == NULL) {
        aisim_l_recorder(L, d->s);
    }
    return d;
}

static double check_value(lua_State *L, const aisim_l_declared *d, const char *method)
{
    if (lua_type(L, 2) != LUA_TNUMBER) {
        aisim_l_fail(L, "metric '%s': %s: number expected, got %s", d->name, method,
                     lua_isnone(L, 2) ? "nil" : luaL_typename(L, 2));
    }
    return lua_tonumber(L, 2);
}

static const char *opt_label(lua_State *L, const aisim_l_declared *d)
{
    if (lua_isnoneornil(L, 3)) {
        return NULL;
    }
    if (*d->by == '\0') {
        aisim_l_fail(L, "metric '%s': has no labels; declare by = \"NAME\"", d->name);
    }
    if (lua_type(L, 3) != LUA_TSTRING) {
        aisim_l_fail(L, "metric '%s': label: text expected, got %s", d->name, luaL_typename(L, 3));
    }
    return lua_tostring(L, 3);
}

static int raise_metric(lua_State *L, const aisim_l_declared *d, const aisim_error *err)
{
    bool named = strncmp(err->text, "metric '", 8) == 0;
    return named ? aisim_l_fail(L, "%s", err->text)
                 : aisim_l_fail(L, "metric '%s': %s", d->name, err->text);
}

/* counter:add(x), hist:add(x, label) */
static int metric_add(lua_State *L)
{
    const aisim_l_declared *d = check(L);
    aisim_error err = {0};
    double x = check_value(L, d, "add");
    if (aisim_metric_add(d->metric, opt_label(L, d), x, &err) != AISIM_OK) {
        return raise_metric(L, d, &err);
    }
    return 0;
}

/* gauge:set(x, label) */
static int metric_set(lua_State *L)
{
    const aisim_l_declared *d = check(L);
    aisim_error err = {0};
    double x = check_value(L, d, "set");
    if (aisim_metric_set(d->metric, opt_label(L, d), aisim_sim_now(d->s->sim), x, &err) !=
        AISIM_OK) {
        return raise_metric(L, d, &err);
    }
    return 0;
}

/* counter.total, hist.count, .mean, …: the state so far */
static int metric_index(lua_State *L)
{
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(1)) == LUA_TFUNCTION) {
        return 1;
    }
    const aisim_l_declared *d = check(L);
    const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
    if (strcmp(key, "name") == 0) {
        lua_pushstring(L, d->name);
        return 1;
    }
    if (d->kind == AISIM_METRIC_COUNTER && strcmp(key, "total") == 0) {
        lua_pushnumber(L, aisim_metric_total(d->metric, 0));
        return 1;
    }
    if (d->kind == AISIM_METRIC_GAUGE && strcmp(key, "value") == 0) {
        const aisim_gauge *gauge = aisim_metric_gauge(d->metric, 0);
        if (gauge->set) {
            lua_pushnumber(L, gauge->value);
        } else {
            lua_pushnil(L);
        }
        return 1;
    }
    if (d->kind == AISIM_METRIC_HIST) {
        aisim_stats stats;
        aisim_digest_stats(aisim_metric_digest(d->metric, 0), &stats);
        const struct {
            const char *name;
            double value;
        } fields[] = {{"count", (double)stats.n}, {"n", (double)stats.n}, {"mean", stats.mean},
                      {"std", stats.std},         {"min", stats.min},     {"max", stats.max}};
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
            if (strcmp(fields[i].name, key) == 0) {
                lua_pushnumber(L, fields[i].value);
                return 1;
            }
        }
    }
    return aisim_l_unknown_field(L, lua_upvalueindex(1), aisim_metric_kind_text(d->kind));
}

/* hist:p(q) */
static int metric_p(lua_State *L)
{
    const aisim_l_declared *d = check(L);
    if (d->kind != AISIM_METRIC_HIST) {
        return aisim_l_fail(L, "metric '%s': p belongs to hist", d->name);
    }
    lua_Number q = luaL_checknumber(L, 2);
    if (!(q >= 0 && q <= 100)) {
        return aisim_l_fail(L, "metric '%s': p: 0 to 100 expected", d->name);
    }
    lua_pushnumber(L, aisim_digest_percentile(aisim_metric_digest(d->metric, 0), q));
    return 1;
}

static int metric_tostring(lua_State *L)
{
    const aisim_l_declared *d = luaL_checkudata(L, 1, AISIM_L_METRIC);
    lua_pushfstring(L, "%s '%s'", aisim_metric_kind_text(d->kind), d->name != NULL ? d->name : "?");
    return 1;
}

/* ---- declaration ----------------------------------------------------------------------------- */

void aisim_l_metric_attach(lua_State *L, aisim_l_metrics *m, aisim_l_declared *d)
{
    const aisim_metric_spec spec = {.kind = d->kind,
                                    .name = d->name,
                                    .unit = d->unit,
                                    .help = d->help,
                                    .by = d->by,
                                    .num = d->num,
                                    .den = d->den,
                                    .keep = d->keep,
                                    .series = d->series};
    aisim_error err = {0};
    aisim_custom *custom = aisim_recorder_custom(m->recorder);
    if (aisim_custom_add(custom, &spec, &d->metric, &err) != AISIM_OK) {
        aisim_l_raise(L, &err);
    }
}

/* A sample of a series: value() -> number or nil (a gap). */
static void take_sample(void *context, aisim_sim *sim, int64_t t_ns)
{
    aisim_l_declared *d = context;
    aisim_l_sim *s = d->s;
    if (aisim_l_broken(s)) {
        return;
    }
    lua_State *L = s->L;
    uint64_t outer = aisim_l_begin(s);
    s->site = (aisim_l_site){"series", d->name, NULL, AISIM_NONE, 0};
    lua_rawgeti(L, s->refs, d->value);
    aisim_l_push_ms(L, t_ns);
    if (!aisim_l_call(s, outer, 1, 1)) {
        return;
    }
    aisim_error err = {0};
    double x = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : (double)NAN;
    bool ok = lua_type(L, -1) == LUA_TNUMBER || lua_isnil(L, -1);
    if (!ok) {
        lua_rawgeti(L, s->refs, d->value);
        aisim_l_where_function(L, -1);
        lua_pushfstring(L, "%s: series '%s': number or nil expected, the function returned %s",
                        lua_tostring(L, -1), d->name, luaL_typename(L, -3));
        aisim_l_abort(s, L);
        lua_pop(L, 3);
        return;
    }
    lua_pop(L, 1);
    if (aisim_metric_push(d->metric, t_ns, x, &err) != AISIM_OK) {
        aisim_sim_abort(sim, &err);
        return;
    }
    aisim_sim_timer(sim, t_ns + d->every_ns, AISIM_CLASS_TICK, true, take_sample, d);
}

static char *copy_field(lua_State *L, int table, const char *key)
{
    lua_getfield(L, table, key);
    char *text = aisim_strdup(luaL_optstring(L, -1, ""));
    lua_pop(L, 1);
    return text;
}

/* core sim:metric_(kind, options) -> metric; options checked by lua/aisim/metrics.lua */
static int sim_metric(lua_State *L)
{
    static const char *const names[] = {"counter", "gauge", "hist", "ratio", "series", NULL};
    static const aisim_metric_kind kinds[] = {AISIM_METRIC_COUNTER, AISIM_METRIC_GAUGE,
                                              AISIM_METRIC_HIST, AISIM_METRIC_RATIO,
                                              AISIM_METRIC_SERIES};
    aisim_l_sim *s = aisim_l_check_control(L, 1);
    aisim_metric_kind kind = kinds[luaL_checkoption(L, 2, NULL, names)];
    luaL_checktype(L, 3, LUA_TTABLE);
    aisim_l_metrics *m = aisim_l_metrics_of(s);
    lua_getfield(L, 3, "name");
    const char *name = lua_tostring(L, -1);
    for (uint32_t i = 0; i < m->declared.len; i++) {
        if (strcmp(m->declared.data[i]->name, name) == 0) {
            return aisim_l_fail(L, "sim:%s: metric '%s' exists already", names[kind], name);
        }
    }
    aisim_l_declared *d = lua_newuserdatauv(L, sizeof *d, 1);
    memset(d, 0, sizeof *d);
    lua_pushvalue(L, -1);
    aisim_l_anchor(L, s); /* lives as long as the simulation */
    aisim_array_push(&m->declared, d);
    d->s = s;
    d->kind = kind;
    d->name = aisim_strdup(name);
    d->unit = copy_field(L, 3, "unit");
    d->help = copy_field(L, 3, "help");
    d->by = copy_field(L, 3, "by");
    d->num = copy_field(L, 3, "num");
    d->den = copy_field(L, 3, "den");
    lua_getfield(L, 3, "keep");
    d->keep = lua_toboolean(L, -1);
    lua_getfield(L, 3, "series");
    d->series = lua_toboolean(L, -1);
    lua_pop(L, 2);
    d->value = LUA_NOREF;
    luaL_setmetatable(L, AISIM_L_METRIC);
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1);
    if (m->recorder != NULL) {
        aisim_l_metric_attach(L, m, d);
    }
    if (kind == AISIM_METRIC_SERIES) {
        lua_getfield(L, 3, "value");
        d->value = aisim_l_anchor(L, s);
        lua_getfield(L, 3, "every_ms");
        d->every_ns = aisim_ns_from_ms(lua_tonumber(L, -1));
        lua_pop(L, 1);
        aisim_sim_timer(s->sim, aisim_sim_now(s->sim), AISIM_CLASS_TICK, true, take_sample, d);
    }
    return 1;
}

void aisim_l_metric_register(lua_State *L)
{
    static const luaL_Reg methods[] = {
        {"add", metric_add}, {"set", metric_set}, {"p", metric_p}, {NULL, NULL}};
    static const aisim_l_class class_ = {AISIM_L_METRIC, methods,         metric_index,
                                         NULL,           metric_tostring, NULL};
    aisim_l_class_register(L, &class_);
    aisim_l_extend(L, "aisim.Sim", (const luaL_Reg[]){{"metric_", sim_metric}, {NULL, NULL}});
}
