/* l_router.c - routing policies written in Lua, built-in ones, and one around the other
 * (spec/lua-api.md §7).
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
#include "config/resolve_router.h"
#include "config/schema.h"
#include "lua/l_cluster.h"
#include "lua/l_targets.h"
#include "lua/l_value.h"
#include "sim/routing.h"

typedef struct l_router {
    aisim_l_sim *s;
    aisim_l_targets *targets;
    char *name;
    int pick, on_done;  /* refs */
    int pick_arguments; /* how many the function takes */
    bool wants_request; /* the first is not called _ */
    int on_done_arguments;
    int ask;            /* ref of the function that asks the wrapped policy, LUA_NOREF = none */
    aisim_router inner; /* the wrapped policy; pick NULL = none */
    const aisim_targets *asked; /* of the decision that is being made, else NULL */
    const aisim_request *asked_request;
    uint32_t inner_choice;
    int64_t inner_overlap;
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
    const char *what = aisim_l_push_shown(L, value);
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
                                               aisim_l_push_shown(L, -1), (int)i + 1);
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
    if (n > 0 && r->wants_request) {
        aisim_l_push_view(L, s, request);
    } else if (n > 0) {
        lua_pushnil(L);
    }
    aisim_l_targets_push(r->targets, request, targets->n, targets->ranks);
    if (n > 2) {
        aisim_l_push_ms(L, aisim_sim_now(sim));
    }
    lua_settop(L, top + 1 + (n > 3 ? 3 : n));
    if (n > 3) {
        lua_rawgeti(L, s->refs, r->ask); /* nil without wrap */
    }
    r->asked = targets;
    r->asked_request = request;
    r->inner_choice = AISIM_NONE;
    r->inner_overlap = -1;
    uint32_t choice = AISIM_NONE;
    if (aisim_l_call(s, outer, n, 2)) {
        choice = choose(r, request, top + 1, targets->n, err);
        if (choice != AISIM_NONE) {
            *overlap = aisim_l_targets_overlap(r->targets, choice);
            if (*overlap < 0 && choice == r->inner_choice) {
                *overlap = r->inner_overlap; /* its prediction decided */
            }
        }
    } else {
        aisim_fail(err, AISIM_ECALLBACK, "router '%s' failed", r->name);
    }
    r->targets->request = NULL;
    r->asked = NULL;
    lua_settop(L, top);
    return choice;
}

/* ---- a wrapped policy ------------------------------------------------------------------------ */

/* inner() -> what the wrapped policy would choose: index of a candidate, nil = queue. Upvalue 1:
 * the router. */
static int ask_inner(lua_State *L)
{
    l_router *r = lua_touserdata(L, lua_upvalueindex(1));
    if (r->asked == NULL) {
        return aisim_l_fail(L, "router '%s': the wrapped policy was asked outside of a decision",
                            r->name);
    }
    aisim_error err = {0};
    uint32_t choice = r->inner.pick(r->inner.context, r->s->sim, r->asked_request, r->asked,
                                    &r->inner_overlap, &err);
    if (err.code != AISIM_OK) {
        return aisim_l_raise(L, &err);
    }
    r->inner_choice = choice;
    if (choice == AISIM_NONE) {
        lua_pushnil(L);
    } else {
        lua_pushinteger(L, (lua_Integer)choice + 1);
    }
    return 1;
}

static void inner_dispatch(void *context, const aisim_request *request, uint32_t rank)
{
    const l_router *r = context;
    r->inner.on_dispatch(r->inner.context, request, rank);
}

static void inner_first_token(void *context, const aisim_request *request, uint32_t rank)
{
    const l_router *r = context;
    r->inner.on_first_token(r->inner.context, request, rank);
}

static void inner_lost(void *context, const aisim_request *request, uint32_t rank)
{
    const l_router *r = context;
    r->inner.on_lost(r->inner.context, request, rank);
}

static void inner_worker(void *context, uint32_t worker)
{
    const l_router *r = context;
    r->inner.on_worker(r->inner.context, worker);
}

static void inner_kv(void *context, uint32_t rank, bool stored, uint32_t run, uint32_t first,
                     uint32_t count)
{
    const l_router *r = context;
    r->inner.on_kv(r->inner.context, rank, stored, run, first, count);
}

static double inner_queue_key(void *context, const aisim_request *request, bool joins)
{
    const l_router *r = context;
    return r->inner.queue_key(r->inner.context, request, joins);
}

/* The callbacks that the wrapped policy wants, and no others. */
static void forward(const l_router *r, aisim_router *out)
{
    const aisim_router *inner = &r->inner;
    out->on_dispatch = inner->on_dispatch != NULL ? inner_dispatch : NULL;
    out->on_first_token = inner->on_first_token != NULL ? inner_first_token : NULL;
    out->on_lost = inner->on_lost != NULL ? inner_lost : NULL;
    out->on_worker = inner->on_worker != NULL ? inner_worker : NULL;
    out->on_kv = inner->on_kv != NULL ? inner_kv : NULL;
    out->queue_key = inner->queue_key != NULL ? inner_queue_key : NULL;
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
    if (r->inner.on_done != NULL) {
        r->inner.on_done(r->inner.context, request, rank);
    }
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
    if (r->inner.free != NULL) {
        r->inner.free(r->inner.context);
    }
    aisim_free(r->name);
    aisim_free(r);
}

/* The policy in C of the options at index, checked by the schema that YAML files use too. Raises.
 */
static void make_builtin(lua_State *L, aisim_l_sim *s, uint32_t pool, int index, bool advises,
                         aisim_router *out)
{
    luaL_checktype(L, index, LUA_TTABLE);
    aisim_value **tree = aisim_l_push_slot(L);
    aisim_route_options options;
    aisim_error err = {0};
    *tree = aisim_l_to_value(L, index, s);
    if (aisim_schema_check(*tree, "router", "router: ", "", &err) != AISIM_OK ||
        aisim_config_router(*tree, &options, &err) != AISIM_OK ||
        aisim_router_new(s->sim, pool, &options, advises, out, &err) != AISIM_OK) {
        aisim_l_raise(L, &err);
    }
    lua_pop(L, 1);
}

/* core sim:router_(pool number, name, pick, on_done or nil, columns or nil, telemetry_period_ms,
 * options of the wrapped policy or nil) */
static int sim_router(lua_State *L)
{
    aisim_l_sim *s = aisim_l_check_control(L, 1);
    uint32_t pool = (uint32_t)luaL_checkinteger(L, 2) - 1;
    const char *name = luaL_checkstring(L, 3);
    luaL_checktype(L, 4, LUA_TFUNCTION);
    lua_settop(L, 8);
    int64_t period_ns = aisim_l_check_ms(L, 7, "router: telemetry_period_ms");
    aisim_l_targets *targets = aisim_l_targets_new(L, s, name, 6, period_ns);
    aisim_router inner = {0};
    if (!lua_isnil(L, 8)) {
        make_builtin(L, s, pool, 8, true, &inner);
    }
    l_router *r = aisim_alloc_zero(1, sizeof *r);
    r->s = s;
    r->name = aisim_strdup(name);
    r->targets = targets;
    targets->name = r->name;
    r->inner = inner;
    r->pick_arguments = aisim_l_wanted_arguments(L, 4, inner.pick != NULL ? 4 : 3);
    lua_pushvalue(L, 4);
    const char *first = lua_getlocal(L, NULL, 1); /* a parameter's name; nothing is pushed */
    r->wants_request = first == NULL || strcmp(first, "_") != 0;
    lua_pop(L, 1);
    lua_pushvalue(L, 4);
    r->pick = aisim_l_anchor(L, s);
    r->on_done = LUA_NOREF;
    r->ask = LUA_NOREF;
    if (inner.pick != NULL) {
        lua_pushlightuserdata(L, r);
        lua_pushcclosure(L, ask_inner, 1);
        r->ask = aisim_l_anchor(L, s);
    }
    if (lua_type(L, 5) == LUA_TFUNCTION) {
        lua_pushvalue(L, 5);
        r->on_done = aisim_l_anchor(L, s);
    }
    lua_pushfstring(L, "router/%d/%s", (int)pool + 1, name);
    r->rng = aisim_rng_named(aisim_sim_seed(s->sim), lua_tostring(L, -1));
    aisim_router router = {
        .name = r->name, .context = r, .pick = pick, .on_done = on_done, .free = free_router};
    if (inner.pick != NULL) {
        forward(r, &router);
    }
    aisim_sim_router(s->sim, pool, &router);
    return 0;
}

/* core sim:router_builtin_(pool number, options): a policy in C */
static int sim_router_builtin(lua_State *L)
{
    aisim_l_sim *s = aisim_l_check_control(L, 1);
    uint32_t pool = (uint32_t)luaL_checkinteger(L, 2) - 1;
    aisim_router router;
    make_builtin(L, s, pool, 3, false, &router);
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

void aisim_l_router_register(lua_State *L)
{
    static const luaL_Reg functions[] = {{"router_names", l_router_names}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
    aisim_l_extend(L, "aisim.Sim",
                   (const luaL_Reg[]){{"router_", sim_router},
                                      {"router_builtin_", sim_router_builtin},
                                      {"admission_", aisim_l_sim_admission},
                                      {NULL, NULL}});
}
