/* l_router.c - routing policies and admission written in Lua (spec/lua-api.md §7).
 *
 * A policy is the C struct aisim_router with a context; the engine does not know that it is Lua.
 * What pick returns is checked here: an index of a candidate, nil (queue), or nil and weights from
 * which C draws with the router's own stream. Anything else ends the run with a message that names
 * policy, time and request. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/rng.h"
#include "cluster/router.h"
#include "config/resolve_router.h"
#include "config/schema.h"
#include "lua/l_cluster.h"
#include "lua/l_targets.h"
#include "lua/l_value.h"

typedef struct l_router {
    aisim_l_sim *s;
    aisim_l_targets *targets;
    char *name;
    int pick, on_done;  /* refs */
    int pick_arguments; /* how many the function takes */
    int on_done_arguments;
    aisim_rng rng;
} l_router;

/* ---- errors ---------------------------------------------------------------------------------- */

/* "router 'x' returned WHAT at t=… for request …; HINT" with the place where pick was written. The
 * caller restores the stack. */
static uint32_t refuse(l_router *r, const aisim_request *request, const char *what,
                       const char *hint, aisim_error *err)
{
    lua_State *L = r->s->L;
    char t[40];
    lua_rawgeti(L, r->s->refs, r->pick);
    aisim_l_where_function(L, -1);
    lua_pushfstring(L, "%s: router '%s' returned %s at t=%s ms for request %d; %s",
                    lua_tostring(L, -1), r->name, what,
                    aisim_l_format_ms(t, aisim_sim_now(r->s->sim)), (int)request->id, hint);
    aisim_fail(err, AISIM_ECALLBACK, "%s", lua_tostring(L, -1));
    aisim_l_abort(r->s, L);
    return AISIM_NONE;
}

static uint32_t refuse_choice(l_router *r, const aisim_request *request, int value, uint32_t n,
                              aisim_error *err)
{
    lua_State *L = r->s->L;
    int type = lua_type(L, value);
    const char *what = type == LUA_TNUMBER || type == LUA_TSTRING
                           ? luaL_tolstring(L, value, NULL)
                           : lua_pushfstring(L, "a %s", luaL_typename(L, value));
    const char *hint = lua_pushfstring(L, "candidates are 1..%d (return nil to queue)", (int)n);
    return refuse(r, request, what, hint, err);
}

/* ---- choosing -------------------------------------------------------------------------------- */

static double weight_at(lua_State *L, int list, uint32_t i)
{
    int is_number;
    lua_rawgeti(L, list, (lua_Integer)i + 1);
    double weight = lua_tonumberx(L, -1, &is_number);
    lua_pop(L, 1);
    return is_number ? weight : (double)NAN;
}

/* Draws a candidate with the weights of the list. */
static uint32_t draw(l_router *r, const aisim_request *request, int list, uint32_t n,
                     aisim_error *err)
{
    lua_State *L = r->s->L;
    double sum = 0.0;
    for (uint32_t i = 0; i < n; i++) {
        double weight = weight_at(L, list, i);
        if (!isfinite(weight) || weight < 0.0) {
            lua_rawgeti(L, list, (lua_Integer)i + 1);
            const char *what = lua_pushfstring(L, "weight %s for candidate %d",
                                               lua_type(L, -1) == LUA_TNUMBER && isnan(weight)
                                                   ? "nan"
                                                   : luaL_tolstring(L, -1, NULL),
                                               (int)i + 1);
            return refuse(r, request, what, "weights are finite numbers >= 0", err);
        }
        sum += weight;
    }
    if (!(sum > 0.0) || !isfinite(sum)) {
        return refuse(r, request, "weights without a finite sum > 0",
                      "one of them must be > 0 (return nil to queue)", err);
    }
    double x = aisim_rng_unit(&r->rng) * sum;
    double seen = 0.0;
    uint32_t last = 0;
    for (uint32_t i = 0; i < n; i++) {
        double weight = weight_at(L, list, i);
        seen += weight;
        if (weight > 0.0) {
            last = i;
            if (x < seen) {
                return i;
            }
        }
    }
    return last; /* rounding left none */
}

/* value: index or nil; value + 1: weights or nil */
static uint32_t choose(l_router *r, const aisim_request *request, int value, uint32_t n,
                       aisim_error *err)
{
    lua_State *L = r->s->L;
    if (lua_isnil(L, value)) {
        if (lua_isnil(L, value + 1)) {
            return AISIM_NONE;
        }
        return lua_istable(L, value + 1) ? draw(r, request, value + 1, n, err)
                                         : refuse_choice(r, request, value + 1, n, err);
    }
    int is_integer = 0;
    lua_Integer i = 0;
    if (lua_type(L, value) == LUA_TNUMBER) {
        i = lua_tointegerx(L, value, &is_integer);
    }
    return is_integer && i >= 1 && i <= (lua_Integer)n ? (uint32_t)i - 1
                                                       : refuse_choice(r, request, value, n, err);
}

static uint32_t pick(void *context, aisim_sim *sim, const aisim_request *request,
                     const aisim_targets *targets, int64_t *overlap, aisim_error *err)
{
    l_router *r = context;
    aisim_l_sim *s = r->s;
    if (aisim_l_broken(s)) {
        return AISIM_NONE;
    }
    lua_State *L = s->L;
    int top = lua_gettop(L);
    uint64_t outer = aisim_l_begin(s);
    s->site = (aisim_l_site){"router", r->name, request, AISIM_NONE, targets->n};
    lua_rawgeti(L, s->refs, r->pick);
    int n = r->pick_arguments;
    if (n > 0) {
        aisim_l_push_view(L, s, request);
    }
    aisim_l_targets_push(r->targets, request, targets->n, targets->ranks);
    if (n > 2) {
        aisim_l_push_ms(L, aisim_sim_now(sim));
    }
    lua_settop(L, top + 1 + (n > 0 ? n : 0));
    uint32_t choice = AISIM_NONE;
    if (aisim_l_call(s, outer, n, 2)) {
        choice = choose(r, request, top + 1, targets->n, err);
        if (choice != AISIM_NONE) {
            *overlap = aisim_l_targets_overlap(r->targets, choice);
        }
    } else {
        aisim_fail(err, AISIM_ECALLBACK, "router '%s' failed", r->name);
    }
    r->targets->request = NULL;
    lua_settop(L, top);
    return choice;
}

const char *aisim_l_status_text(uint8_t end)
{
    switch ((aisim_end_reason)end) {
    case AISIM_END_LENGTH:
    case AISIM_END_CONTEXT:
        return "completed";
    case AISIM_END_CANCELLED:
        return "cancelled";
    default:
        return "rejected";
    }
}

/* on_done(req, target, status, now) */
static void on_done(void *context, const aisim_request *request, uint32_t rank)
{
    l_router *r = context;
    aisim_l_sim *s = r->s;
    if (aisim_l_broken(s) || s->L == NULL || r->on_done == LUA_NOREF) {
        return;
    }
    lua_State *L = s->L;
    uint64_t outer = aisim_l_begin(s);
    s->site = (aisim_l_site){"on_done of router", r->name, request, rank, 0};
    lua_rawgeti(L, s->refs, r->on_done);
    aisim_l_push_view(L, s, request);
    aisim_l_push_target(L, s, rank);
    lua_pushstring(L, aisim_l_status_text(request->end));
    aisim_l_push_ms(L, aisim_sim_now(s->sim));
    aisim_l_call(s, outer, 4, 0);
}

static void free_router(void *context)
{
    l_router *r = context;
    aisim_free(r->name);
    aisim_free(r);
}

/* core sim:router_(pool number, name, pick, on_done or nil, columns or nil, telemetry_period_ms) */
static int sim_router(lua_State *L)
{
    aisim_l_sim *s = aisim_l_check_control(L, 1);
    uint32_t pool = (uint32_t)luaL_checkinteger(L, 2) - 1;
    const char *name = luaL_checkstring(L, 3);
    luaL_checktype(L, 4, LUA_TFUNCTION);
    lua_settop(L, 7);
    int64_t period_ns = aisim_l_check_ms(L, 7, "router: telemetry_period_ms");
    aisim_l_targets *targets = aisim_l_targets_new(L, s, name, 6, period_ns);
    l_router *r = aisim_alloc_zero(1, sizeof *r);
    r->s = s;
    r->name = aisim_strdup(name);
    r->targets = targets;
    targets->name = r->name;
    r->pick_arguments = aisim_l_wanted_arguments(L, 4, 3);
    lua_pushvalue(L, 4);
    r->pick = aisim_l_anchor(L, s);
    r->on_done = LUA_NOREF;
    if (lua_type(L, 5) == LUA_TFUNCTION) {
        lua_pushvalue(L, 5);
        r->on_done = aisim_l_anchor(L, s);
    }
    lua_pushfstring(L, "router/%d/%s", (int)pool + 1, name);
    r->rng = aisim_rng_named(aisim_sim_seed(s->sim), lua_tostring(L, -1));
    const aisim_router router = {
        .name = r->name, .context = r, .pick = pick, .on_done = on_done, .free = free_router};
    aisim_sim_router(s->sim, pool, &router);
    return 0;
}

/* core sim:router_builtin_(pool number, options): a policy in C, options checked by the schema that
 * YAML files use too */
static int sim_router_builtin(lua_State *L)
{
    aisim_l_sim *s = aisim_l_check_control(L, 1);
    uint32_t pool = (uint32_t)luaL_checkinteger(L, 2) - 1;
    luaL_checktype(L, 3, LUA_TTABLE);
    aisim_value **tree = aisim_l_push_slot(L);
    aisim_route_options options;
    aisim_router router;
    aisim_error err = {0};
    *tree = aisim_l_to_value(L, 3, s);
    if (aisim_schema_check(*tree, "router", "router: ", "", &err) != AISIM_OK ||
        aisim_config_router(*tree, &options, &err) != AISIM_OK ||
        aisim_router_new(s->sim, pool, &options, &router, &err) != AISIM_OK) {
        return aisim_l_raise(L, &err);
    }
    aisim_sim_router(s->sim, pool, &router);
    return 0;
}

/* core.router_names() -> names of the built-in policies */
static int l_router_names(lua_State *L)
{
    lua_newtable(L);
    for (uint32_t i = 0; i < AISIM_ROUTE_POLICIES; i++) {
        lua_pushstring(L, aisim_route_policy_text((aisim_route_policy)i));
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_pushliteral(L, "session"); /* affinity around another policy */
    lua_rawseti(L, -2, AISIM_ROUTE_POLICIES + 1);
    lua_pushliteral(L, "sibling_group");
    lua_rawseti(L, -2, AISIM_ROUTE_POLICIES + 2);
    return 1;
}

/* ---- admission ------------------------------------------------------------------------------- */

typedef struct l_admission {
    aisim_l_targets *targets; /* NULL: the function does not take them */
    int fn;
    int arguments;
} l_admission;

static bool refuse_admission(aisim_l_sim *s, const l_admission *a, const aisim_request *request,
                             aisim_error *err)
{
    lua_State *L = s->L; /* what was wrong is on top */
    char t[40];
    lua_rawgeti(L, s->refs, a->fn);
    aisim_l_where_function(L, -1);
    lua_pushfstring(L,
                    "%s: admission returned %s at t=%s ms for request %d; true, or false and a "
                    "reason expected",
                    lua_tostring(L, -1), lua_tostring(L, -3),
                    aisim_l_format_ms(t, aisim_sim_now(s->sim)), (int)request->id);
    aisim_fail(err, AISIM_ECALLBACK, "%s", lua_tostring(L, -1));
    aisim_l_abort(s, L);
    return false;
}

static uint32_t all_ready(const aisim_l_sim *s, uint32_t *ranks)
{
    uint32_t n = 0;
    for (uint32_t rank = 0; rank < aisim_sim_ranks(s->sim); rank++) {
        aisim_rank_view view;
        aisim_sim_rank(s->sim, rank, &view);
        if (view.state == AISIM_WORKER_READY) {
            ranks[n++] = rank;
        }
    }
    return n;
}

static bool admit(void *context, aisim_sim *sim, const aisim_request *request, aisim_error *err)
{
    aisim_l_sim *s = context;
    if (aisim_l_broken(s)) {
        return true;
    }
    lua_State *L = s->L;
    int top = lua_gettop(L);
    lua_rawgeti(L, s->refs, s->cluster->admission);
    const l_admission *a = lua_touserdata(L, -1);
    uint64_t outer = aisim_l_begin(s);
    s->site = (aisim_l_site){"admission", NULL, request, AISIM_NONE, 0};
    lua_rawgeti(L, s->refs, a->fn);
    aisim_l_push_view(L, s, request);
    if (a->targets != NULL) {
        uint32_t *ranks = lua_newuserdatauv(L, aisim_sim_ranks(sim) * sizeof *ranks, 0);
        aisim_l_targets_push(a->targets, request, all_ready(s, ranks), ranks);
        lua_remove(L, -2);
    } else {
        lua_pushnil(L);
    }
    aisim_l_push_ms(L, aisim_sim_now(sim));
    if (!aisim_l_call(s, outer, 3, 2)) {
        aisim_fail(err, AISIM_ECALLBACK, "the admission function failed");
        lua_settop(L, top);
        return false;
    }
    bool go_on = lua_type(L, -2) == LUA_TBOOLEAN && lua_toboolean(L, -2);
    if (lua_type(L, -2) != LUA_TBOOLEAN) {
        lua_pushfstring(L, "a %s", luaL_typename(L, -2));
        go_on = refuse_admission(s, a, request, err);
    } else if (!go_on) {
        int type = lua_type(L, -1);
        if (type == LUA_TSTRING) {
            aisim_l_hooks_reject_reason(s, aisim_l_anchor(L, s));
        } else if (type == LUA_TNIL) {
            aisim_l_hooks_reject_reason(s, LUA_NOREF);
        } else {
            lua_pushfstring(L, "false and a %s as reason", luaL_typename(L, -1));
            go_on = refuse_admission(s, a, request, err);
        }
    }
    if (a->targets != NULL) {
        a->targets->request = NULL;
    }
    lua_settop(L, top);
    return go_on;
}

/* core sim:admission_(fn) */
static int sim_admission(lua_State *L)
{
    aisim_l_sim *s = aisim_l_check_control(L, 1);
    luaL_checktype(L, 2, LUA_TFUNCTION);
    lua_settop(L, 2);
    l_admission *a = lua_newuserdatauv(L, sizeof *a, 0);
    a->arguments = aisim_l_wanted_arguments(L, 2, 3);
    a->targets = NULL;
    if (a->arguments > 1) {
        lua_pushnil(L);
        a->targets = aisim_l_targets_new(L, s, "admission", lua_gettop(L), 0);
        lua_pop(L, 1);
    }
    lua_pushvalue(L, 2);
    a->fn = aisim_l_anchor(L, s);
    aisim_l_cluster_of(s)->admission = aisim_l_anchor(L, s);
    aisim_sim_admission(s->sim, admit, s);
    return 0;
}

void aisim_l_router_register(lua_State *L)
{
    static const luaL_Reg functions[] = {{"router_names", l_router_names}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
    aisim_l_extend(L, "aisim.Sim",
                   (const luaL_Reg[]){{"router_", sim_router},
                                      {"router_builtin_", sim_router_builtin},
                                      {"admission_", sim_admission},
                                      {NULL, NULL}});
}
