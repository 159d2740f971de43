/* l_router_ask.c - what a policy in Lua may use of the policies in C: asking one
 * (aisim.router.kv{…}:pick, inner()), and the pieces they are made of: aisim.kv_cost,
 * aisim.softmax_pick, aisim.hash (spec/lua-api.md §14.7, spec/routing.md §6).
 *
 * An aisim.RouterPolicy is a description. The router that asks it holds the policy itself with its
 * own books: from the begin when wrap names it, else from its first decision on, when nothing has
 * been placed yet. Later it would know less than it has to, so that is refused. */
#include <math.h>
#include <string.h>

#include "base/map.h"
#include "cluster/route.h"
#include "lua/l_router.h"

/* ---- asking a policy ------------------------------------------------------------------------- */

/* Pushes its choice among the candidates that the filters have left, or nil = queue. */
static int push_choice(lua_State *L, aisim_l_router *r, uint32_t inner)
{
    aisim_error err = {0};
    aisim_router *policy = &r->inners.data[inner];
    aisim_l_advice said = {AISIM_NONE, -1};
    said.choice =
        policy->pick(policy->context, r->s->sim, r->request, r->asked, &said.overlap, &err);
    if (err.code != AISIM_OK) {
        return aisim_l_raise(L, &err);
    }
    aisim_array_push(&r->advice, said);
    for (uint32_t i = 0; said.choice != AISIM_NONE && i < r->kept.len; i++) {
        if (r->kept.data[i] == said.choice) {
            lua_pushinteger(L, (lua_Integer)i + 1);
            return 1;
        }
    }
    lua_pushnil(L); /* queue, or a filter has dropped it */
    return 1;
}

int aisim_l_router_inner(lua_State *L)
{
    aisim_l_router *r = lua_touserdata(L, lua_upvalueindex(1));
    if (r->asked == NULL) {
        return aisim_l_fail(L, "router '%s': the wrapped policy was asked outside of a decision",
                            r->name);
    }
    return push_choice(L, r, 0);
}

/* nil (the script does not take it), or the request of the decision. */
static void check_request(lua_State *L, int arg, const aisim_request *request, const char *who)
{
    if (lua_isnoneornil(L, arg)) {
        return;
    }
    luaL_checkudata(L, arg, "aisim.Request");
    lua_getfield(L, arg, "id");
    if (lua_tointeger(L, -1) != (lua_Integer)request->id) {
        aisim_l_fail(L, "%s: request %d is not the one of this decision (%d)", who,
                     (int)lua_tointeger(L, -1), (int)request->id);
    }
    lua_pop(L, 1);
}

static uint32_t find(lua_State *L, const aisim_l_router *r, int object)
{
    aisim_l_push_refs(L, r->s);
    uint32_t found = AISIM_NONE;
    for (uint32_t i = 0; found == AISIM_NONE && i < r->objects.len; i++) {
        if (r->objects.data[i] != LUA_NOREF) {
            lua_rawgeti(L, -1, r->objects.data[i]);
            found = lua_rawequal(L, -1, object) ? i : AISIM_NONE;
            lua_pop(L, 1);
        }
    }
    lua_pop(L, 1);
    return found;
}

/* The policy joins the router: it hears of everything from now on. */
static uint32_t join(lua_State *L, aisim_l_router *r, int object, const char *name)
{
    if (r->decided) {
        aisim_l_fail(L,
                     "router '%s': %s is asked for the first time in a later decision: it has not "
                     "seen the ones before; name it in the router: wrap = { it }",
                     r->name, name);
    }
    aisim_router made;
    lua_pushvalue(L, object);
    int ref = aisim_l_anchor(L, r->s);
    lua_getfield(L, object, "options");
    aisim_l_router_builtin(L, r->s, r->pool, lua_gettop(L), r->inners.len + 1, &made);
    lua_pop(L, 1);
    aisim_array_push(&r->inners, made);
    aisim_array_push(&r->objects, ref);
    aisim_l_router_listen(r, &r->router);
    r->targets->bound = r->router.bound;
    aisim_sim_router_listen(r->s->sim, r->pool, &r->router);
    return r->inners.len - 1;
}

/* core.router_ask(policy, req, targets, now) -> index or nil: policy:pick */
static int l_ask(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 3);
    const char *name = luaL_tolstring(L, 1, NULL); /* 4 */
    const aisim_l_targets *t = aisim_l_targets_at(L, 3);
    if (t == NULL || t->router == NULL || t->router->asked == NULL) {
        return aisim_l_fail(L, "%s: asked outside of a routing decision; call %s", name,
                            "policy:pick(req, targets, now) inside pick of a router");
    }
    aisim_l_router *r = t->router;
    check_request(L, 2, r->request, name);
    uint32_t inner = find(L, r, 1);
    return push_choice(L, r, inner != AISIM_NONE ? inner : join(L, r, 1, name));
}

/* ---- the cost of kv -------------------------------------------------------------------------- */

static const struct {
    const char *key;
    size_t at; /* of a double in aisim_route_options */
    double most;
} weights[] = {
    {"overlap_score_credit", offsetof(aisim_route_options, overlap_score_credit), 1.0},
    {"host_credit", offsetof(aisim_route_options, host_credit), INFINITY},
    {"disk_credit", offsetof(aisim_route_options, disk_credit), INFINITY},
    {"shared_credit", offsetof(aisim_route_options, shared_credit), INFINITY},
    {"prefill_load_scale", offsetof(aisim_route_options, prefill_load_scale), INFINITY},
    {"active_request_weight", offsetof(aisim_route_options, active_request_weight), INFINITY},
    {"overlap_decay", offsetof(aisim_route_options, overlap_decay), INFINITY}};

enum { WEIGHTS = sizeof weights / sizeof *weights };

static void unknown_weight(lua_State *L, const char *key)
{
    lua_newtable(L);
    for (uint32_t i = 0; i < WEIGHTS; i++) {
        lua_pushboolean(L, 1);
        lua_setfield(L, -2, weights[i].key);
    }
    lua_pushboolean(L, 1);
    lua_setfield(L, -2, "track_prefill");
    aisim_l_push_hint(L, key, lua_gettop(L));
    aisim_l_fail(L, "aisim.kv_cost: unknown weight '%s'%s", key, lua_tostring(L, -1));
}

static void read_weight(lua_State *L, const char *key, aisim_route_options *out)
{
    if (strcmp(key, "track_prefill") == 0) {
        if (!lua_isboolean(L, -1)) {
            aisim_l_fail(L, "aisim.kv_cost: track_prefill: boolean expected, got %s",
                         luaL_typename(L, -1));
        }
        out->track_prefill = lua_toboolean(L, -1);
        return;
    }
    uint32_t i = 0;
    while (i < WEIGHTS && strcmp(weights[i].key, key) != 0) {
        i++;
    }
    if (i == WEIGHTS) {
        unknown_weight(L, key);
    }
    double value = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : (double)NAN;
    if (!isfinite(value) || value < 0.0 || value > weights[i].most) {
        aisim_l_fail(L, "aisim.kv_cost: %s = %s: must be a number >= 0%s", key,
                     aisim_l_push_shown(L, -1), weights[i].most < INFINITY ? " and <= 1" : "");
    }
    memcpy((char *)out + weights[i].at, &value, sizeof value);
}

static void read_weights(lua_State *L, int arg, aisim_route_options *out)
{
    *out = aisim_route_options_default();
    if (lua_isnoneornil(L, arg)) {
        return;
    }
    luaL_checktype(L, arg, LUA_TTABLE);
    lua_pushnil(L);
    while (lua_next(L, arg) != 0) {
        if (lua_type(L, -2) != LUA_TSTRING) {
            unknown_weight(L, aisim_l_push_shown(L, -2));
        }
        read_weight(L, lua_tostring(L, -2), out);
        lua_pop(L, 1);
    }
}

static double least_prefill(const aisim_l_targets *t)
{
    double least = INFINITY;
    for (uint32_t i = 0; i < t->n; i++) {
        aisim_rank_view view;
        aisim_sim_rank(t->s->sim, t->ranks[i], &view);
        least = fmin(least, (double)view.active_prefill_tokens);
    }
    return least;
}

/* core.kv_cost(req, targets[i], weights or nil) -> cost (spec/routing.md §4) */
static int l_kv_cost(lua_State *L)
{
    uint32_t row;
    aisim_route_options o;
    lua_settop(L, 3);
    aisim_l_targets *t = aisim_l_check_target(L, 2, &row);
    check_request(L, 1, t->request, "aisim.kv_cost");
    read_weights(L, 3, &o);
    aisim_l_targets_check_load(L, t);
    aisim_sim *sim = t->s->sim;
    uint32_t rank = t->ranks[row];
    aisim_rank_view view;
    aisim_sim_rank(sim, rank, &view);
    aisim_route_kv_terms terms = {.block_size = aisim_sim_block_size(sim, view.pool),
                                  .tokens = t->request->prompt_tokens,
                                  .decode_blocks =
                                      (double)aisim_sim_potential_blocks(sim, t->request, rank),
                                  .active_prefill_tokens = (double)view.active_prefill_tokens,
                                  .active_requests = (double)view.active_requests};
    terms.least_prefill_tokens = o.overlap_decay > 0.0 ? least_prefill(t) : 0.0;
    terms.have.device = (uint32_t)aisim_sim_overlap_blocks(sim, t->request, rank);
    terms.have.host = (uint32_t)aisim_sim_host_blocks(sim, t->request, rank, AISIM_ROUTER_HOST);
    terms.have.shared = (uint32_t)aisim_sim_host_blocks(sim, t->request, rank, AISIM_ROUTER_SHARED);
    t->overlap_used = true;
    lua_pushnumber(L, aisim_route_kv_cost(&o, &terms));
    return 1;
}

/* ---- choosing and hashing -------------------------------------------------------------------- */

static double draw(void *context)
{
    aisim_l_router *r = context;
    return aisim_rng_unit(&r->rng);
}

/* The policy that is deciding: the innermost call that belongs to a simulation. */
static aisim_l_router *deciding(lua_State *L)
{
    const aisim_l_frame *frame = aisim_l_limits_of(L)->top;
    while (frame != NULL && frame->sim == NULL) {
        frame = frame->outer;
    }
    const aisim_l_sim *s = frame == NULL ? NULL : frame->sim;
    return s == NULL ? NULL : s->deciding;
}

/* core.softmax_pick(costs, T) -> index (spec/routing.md §4 "Pick") */
static int l_softmax_pick(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 2);
    aisim_l_router *r = deciding(L);
    if (r == NULL) {
        return aisim_l_fail(L, "aisim.softmax_pick: used outside of a routing decision (it draws "
                               "from the router's stream)");
    }
    double t = lua_type(L, 2) == LUA_TNUMBER ? lua_tonumber(L, 2) : (double)NAN;
    if (!isfinite(t) || t < 0.0) {
        return aisim_l_fail(L, "aisim.softmax_pick: temperature %s: must be a number >= 0",
                            aisim_l_push_shown(L, 2));
    }
    lua_Unsigned n = lua_rawlen(L, 1);
    if (n == 0) {
        return aisim_l_fail(L, "aisim.softmax_pick: list of costs expected, got an empty table");
    }
    double *cost = lua_newuserdatauv(L, 2 * n * sizeof *cost, 0);
    for (lua_Unsigned i = 0; i < n; i++) {
        lua_rawgeti(L, 1, (lua_Integer)i + 1);
        cost[i] = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : (double)NAN;
        if (!isfinite(cost[i])) {
            return aisim_l_fail(L, "aisim.softmax_pick: cost %d is %s: finite numbers expected",
                                (int)i + 1, aisim_l_push_shown(L, -1));
        }
        lua_pop(L, 1);
    }
    uint32_t choice = t > 0.0 ? aisim_route_softmax(cost, (uint32_t)n, t, draw, r, cost + n)
                              : aisim_route_least(cost, (uint32_t)n, draw, r);
    lua_pushinteger(L, (lua_Integer)choice + 1);
    return 1;
}

static uint32_t check_number(lua_State *L, int arg, const char *what)
{
    lua_Integer value = lua_isinteger(L, arg) ? lua_tointeger(L, arg) : 0;
    if (value < 1 || value > UINT32_MAX) {
        aisim_l_fail(L, "aisim.hash: %s: integer from 1 on expected, got %s", what,
                     aisim_l_push_shown(L, arg));
    }
    return (uint32_t)value;
}

/* core.route_hash(key) -> key hash; core.route_hash(key, worker, rank) -> weight of the target: 64
 * bits (spec/routing.md §2 "Rendezvous hash") */
static int l_hash(lua_State *L)
{
    lua_settop(L, 3);
    if (lua_type(L, 1) != LUA_TSTRING && !lua_isinteger(L, 1)) {
        return aisim_l_fail(L, "aisim.hash: key: text or integer expected, got %s",
                            luaL_typename(L, 1));
    }
    size_t length;
    const char *text = luaL_tolstring(L, 1, &length);
    if (strlen(text) != length) {
        return aisim_l_fail(L, "aisim.hash: key: text without zero bytes expected");
    }
    uint64_t key = aisim_route_text_key(text);
    if (!lua_isnil(L, 2) || !lua_isnil(L, 3)) {
        key = aisim_route_rendezvous(key, check_number(L, 2, "worker"), check_number(L, 3, "rank"));
    }
    lua_pushinteger(L, (lua_Integer)key);
    return 1;
}

void aisim_l_router_ask_register(lua_State *L)
{
    static const luaL_Reg functions[] = {{"router_ask", l_ask},
                                         {"kv_cost", l_kv_cost},
                                         {"softmax_pick", l_softmax_pick},
                                         {"route_hash", l_hash},
                                         {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
