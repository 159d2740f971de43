/* l_router.c - making routing policies: built-in ones, Lua functions, and one around the other
 * (spec/lua-api.md §7). A decision: l_router_pick.c; what a policy hears: l_router_calls.c. */
#include "lua/l_router.h"

#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "config/resolve_router.h"
#include "config/schema.h"
#include "lua/l_value.h"
#include "sim/routing.h"

/* ---- policies in C --------------------------------------------------------------------------- */

/* The options at index, checked by the schema that YAML files use too. Raises. */
static void read_options(lua_State *L, const aisim_l_sim *s, int index, aisim_route_options *out)
{
    luaL_checktype(L, index, LUA_TTABLE);
    aisim_value **tree = aisim_l_push_slot(L);
    aisim_error err = {0};
    *tree = aisim_l_to_value(L, index, s);
    if (aisim_schema_check(*tree, "router", "router: ", "", &err) != AISIM_OK ||
        aisim_config_router(*tree, out, &err) != AISIM_OK) {
        aisim_l_raise(L, &err);
    }
    lua_pop(L, 1);
}

void aisim_l_router_builtin(lua_State *L, aisim_l_sim *s, uint32_t pool, int index,
                            uint32_t advisor, aisim_router *out)
{
    aisim_route_options options;
    aisim_error err = {0};
    read_options(L, s, index, &options);
    if (aisim_router_new(s->sim, pool, &options, advisor, out, &err) != AISIM_OK) {
        aisim_l_raise(L, &err);
    }
}

/* core.router_check(options of a policy in C): raises what is wrong with them */
static int l_router_check(lua_State *L)
{
    aisim_route_options options;
    read_options(L, NULL, 1, &options);
    return 0;
}

/* ---- policies with Lua functions ------------------------------------------------------------- */

static void free_router(void *context)
{
    aisim_l_router *r = context;
    for (uint32_t i = 0; i < r->inners.len; i++) {
        if (r->inners.data[i].free != NULL) {
            r->inners.data[i].free(r->inners.data[i].context);
        }
    }
    aisim_array_free(&r->inners);
    aisim_array_free(&r->objects);
    aisim_array_free(&r->advice);
    aisim_array_free(&r->filters);
    aisim_array_free(&r->scorers);
    aisim_array_free(&r->kept);
    aisim_array_free(&r->ranks);
    aisim_array_free(&r->cost);
    aisim_array_free(&r->part);
    aisim_free(r->name);
    aisim_free(r);
}

static int anchor_field(lua_State *L, aisim_l_sim *s, int table, const char *key)
{
    if (lua_getfield(L, table, key) == LUA_TNIL) {
        lua_pop(L, 1);
        return LUA_NOREF;
    }
    return aisim_l_anchor(L, s);
}

/* A function among the fields to name in messages: pick, else the first that is there. */
static int place_of(const aisim_l_router *r)
{
    if (r->pick != LUA_NOREF) {
        return r->pick;
    }
    for (uint32_t i = 0; i < r->scorers.len; i++) {
        if (r->scorers.data[i].fn != LUA_NOREF) {
            return r->scorers.data[i].fn;
        }
    }
    return r->filters.len > 0 ? r->filters.data[0] : LUA_NOREF;
}

static void read_filters(lua_State *L, aisim_l_router *r, int table)
{
    lua_getfield(L, table, "filter");
    for (lua_Integer i = 1; lua_istable(L, -1) && i <= luaL_len(L, -1); i++) {
        lua_rawgeti(L, -1, i);
        aisim_array_push(&r->filters, aisim_l_anchor(L, r->s));
    }
    lua_pop(L, 1);
}

/* score: list of functions and of {options =, weight =}; the policies in C were made before and
 * stand in r->inners from `first` on, in the same order. */
static void read_scorers(lua_State *L, aisim_l_router *r, int table, uint32_t first)
{
    lua_getfield(L, table, "score");
    for (lua_Integer i = 1; lua_istable(L, -1) && i <= luaL_len(L, -1); i++) {
        aisim_l_scorer scorer = {.fn = LUA_NOREF};
        lua_rawgeti(L, -1, i);
        if (lua_isfunction(L, -1)) {
            scorer.fn = aisim_l_anchor(L, r->s);
        } else {
            scorer.inner = first++;
            lua_getfield(L, -1, "weight");
            scorer.weight = lua_tonumber(L, -1);
            lua_pop(L, 2);
        }
        aisim_array_push(&r->scorers, scorer);
    }
    lua_pop(L, 1);
}

typedef AISIM_ARRAY(aisim_router) router_list;

/* A list of policies while they are made: freed by Lua when something raises. */
static int list_gc(lua_State *L)
{
    router_list *list = lua_touserdata(L, 1);
    for (uint32_t i = 0; i < list->len; i++) {
        if (list->data[i].free != NULL) {
            list->data[i].free(list->data[i].context);
        }
    }
    aisim_array_free(list);
    return 0;
}

/* One more policy of the list, of the options on top of the stack (popped). */
static const aisim_router *make_inner(lua_State *L, aisim_l_sim *s, uint32_t pool,
                                      router_list *list)
{
    aisim_router made;
    aisim_l_router_builtin(L, s, pool, lua_gettop(L), list->len + 1, &made);
    aisim_array_push(list, made);
    lua_pop(L, 1);
    return &list->data[list->len - 1];
}

/* The policies in C: those that may be asked (wrap), or the one that keeps affinity, then the
 * scorers. Leaves the list on the stack. */
static router_list *make_inners(lua_State *L, aisim_l_sim *s, uint32_t pool, int table)
{
    router_list *list = lua_newuserdatauv(L, sizeof *list, 0);
    memset(list, 0, sizeof *list);
    lua_newtable(L);
    lua_pushcfunction(L, list_gc);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    lua_getfield(L, table, "wrap");
    for (lua_Integer i = 1; i <= luaL_len(L, -1); i++) {
        lua_rawgeti(L, -1, i);
        lua_getfield(L, -1, "options");
        make_inner(L, s, pool, list);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    if (lua_getfield(L, table, "affinity") == LUA_TTABLE) { /* {policy =, affinity =} */
        lua_pushvalue(L, -1);
        make_inner(L, s, pool, list);
    }
    lua_pop(L, 1);
    lua_getfield(L, table, "score");
    for (lua_Integer i = 1; lua_istable(L, -1) && i <= luaL_len(L, -1); i++) {
        if (lua_rawgeti(L, -1, i) == LUA_TTABLE) {
            lua_getfield(L, -1, "options");
            const aisim_router *made = make_inner(L, s, pool, list);
            if (made->cost == NULL || made->bound != NULL) {
                aisim_l_fail(L, "router.score: policy '%s' %s", made->name,
                             made->cost == NULL ? "has no cost that could be added"
                                                : "with affinity: give affinity to the router");
            }
        }
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return list;
}

/* The objects of wrap, which name the first policies; the others have none. */
static void read_objects(lua_State *L, aisim_l_router *r, int table)
{
    lua_getfield(L, table, "wrap");
    r->wrapped = (uint32_t)luaL_len(L, -1);
    for (uint32_t i = 0; i < r->inners.len; i++) {
        int object = LUA_NOREF;
        if (i < r->wrapped) {
            lua_rawgeti(L, -1, (lua_Integer)i + 1);
            object = aisim_l_anchor(L, r->s);
        }
        aisim_array_push(&r->objects, object);
    }
    lua_pop(L, 1);
}

static void read_calls(lua_State *L, aisim_l_router *r, int table)
{
    aisim_l_sim *s = r->s;
#define X(member) r->member = anchor_field(L, s, table, #member);
    AISIM_L_ROUTER_CALLS(X)
#undef X
    r->pick = anchor_field(L, s, table, "pick");
    r->ask = LUA_NOREF;
    r->costs = LUA_NOREF;
    lua_newtable(L);
    r->out = aisim_l_anchor(L, s);
    if (r->pick != LUA_NOREF) {
        lua_getfield(L, table, "pick");
        r->pick_arguments = aisim_l_wanted_arguments(L, -1, r->wrapped > 0 ? 4 : 3);
        lua_pushvalue(L, -1);
        const char *first = lua_getlocal(L, NULL, 1); /* a parameter's name; nothing is pushed */
        r->wants_request = first == NULL || strcmp(first, "_") != 0;
        lua_pop(L, 1);
        lua_pop(L, 1);
    }
    if (r->wrapped > 0) {
        lua_pushlightuserdata(L, r);
        lua_pushcclosure(L, aisim_l_router_inner, 1);
        r->ask = aisim_l_anchor(L, s);
    }
}

/* core sim:router_(pool number, checked options: name, pick, filter and score as lists, columns,
 * telemetry_period_ms, delay_ms, regret, tick_ms, wrap as a list of aisim.RouterPolicy, affinity,
 * callbacks) */
static int sim_router(lua_State *L)
{
    aisim_l_sim *s = aisim_l_check_control(L, 1);
    uint32_t pool = (uint32_t)luaL_checkinteger(L, 2) - 1;
    luaL_checktype(L, 3, LUA_TTABLE);
    lua_settop(L, 3);
    lua_getfield(L, 3, "name");                /* 4 */
    lua_getfield(L, 3, "columns");             /* 5 */
    lua_getfield(L, 3, "telemetry_period_ms"); /* 6 */
    lua_getfield(L, 3, "delay_ms");            /* 7 */
    lua_getfield(L, 3, "tick_ms");             /* 8 */
    const char *name = luaL_checkstring(L, 4);
    int64_t period_ns = aisim_l_check_ms(L, 6, "router: telemetry_period_ms");
    int64_t delay_ns = aisim_l_check_ms(L, 7, "router: delay_ms");
    int64_t tick_ns = aisim_l_check_ms(L, 8, "router: tick_ms");
    aisim_l_targets *targets = aisim_l_targets_new(L, s, name, 5, period_ns);
    router_list *inners = make_inners(L, s, pool, 3);
    aisim_l_router *r = aisim_alloc_zero(1, sizeof *r);
    r->s = s;
    r->name = aisim_strdup(name);
    r->targets = targets;
    r->tick_ns = tick_ns;
    targets->name = r->name;
    r->pool = pool;
    for (uint32_t i = 0; i < inners->len; i++) {
        aisim_array_push(&r->inners, inners->data[i]);
    }
    inners->len = 0; /* they belong to r now */
    read_objects(L, r, 3);
    read_calls(L, r, 3);
    read_filters(L, r, 3);
    bool bound = lua_getfield(L, 3, "affinity") != LUA_TNIL;
    read_scorers(L, r, 3, r->wrapped + bound);
    r->place = place_of(r);
    if (r->scorers.len > 0) {
        r->costs = aisim_l_targets_costs(L, targets);
    }
    lua_pushfstring(L, "router/%d/%s", (int)pool + 1, name);
    r->rng = aisim_rng_named(aisim_sim_seed(s->sim), lua_tostring(L, -1));
    r->router = (aisim_router){.name = r->name,
                               .context = r,
                               .pick = aisim_l_router_pick,
                               .free = free_router,
                               .delay_ns = delay_ns};
    lua_getfield(L, 3, "regret");
    r->router.regret = lua_toboolean(L, -1);
    aisim_l_router_listen(r, &r->router);
    targets->router = r;
    targets->bound = r->router.bound;
    targets->bound_context = r;
    aisim_sim_router(s->sim, pool, &r->router);
    if (r->on_tick != LUA_NOREF) {
        aisim_l_router_tick(r);
    }
    return 0;
}

/* core sim:router_builtin_(pool number, options, delay_ms, regret): a policy in C */
static int sim_router_builtin(lua_State *L)
{
    aisim_l_sim *s = aisim_l_check_control(L, 1);
    uint32_t pool = (uint32_t)luaL_checkinteger(L, 2) - 1;
    aisim_router router;
    lua_settop(L, 5);
    int64_t delay_ns = aisim_l_check_ms(L, 4, "router: delay_ms");
    aisim_l_router_builtin(L, s, pool, 3, 0, &router);
    router.delay_ns = delay_ns;
    router.regret = lua_toboolean(L, 5);
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
    static const luaL_Reg functions[] = {
        {"router_names", l_router_names}, {"router_check", l_router_check}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
    aisim_l_router_ask_register(L);
    aisim_l_extend(L, "aisim.Sim",
                   (const luaL_Reg[]){{"router_", sim_router},
                                      {"router_builtin_", sim_router_builtin},
                                      {"admission_", aisim_l_sim_admission},
                                      {NULL, NULL}});
}
