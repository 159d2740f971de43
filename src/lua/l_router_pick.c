/* l_router_pick.c - one decision of a policy with Lua functions (spec/lua-api.md §7).
 *
 * Filters in order, costs summed, one choice: pick, or the smallest cost. What the functions answer
 * is checked here; anything else than documented ends the run with a message that names policy,
 * time and request. */
#include <math.h>
#include <string.h>

#include "base/map.h"
#include "lua/l_router.h"

/* ---- errors ---------------------------------------------------------------------------------- */

uint32_t aisim_l_router_refuse(aisim_l_router *r, const aisim_request *request, const char *what,
                               const char *hint, aisim_error *err)
{
    lua_State *L = r->s->L;
    char t[40];
    lua_rawgeti(L, r->s->refs, r->place);
    aisim_l_where_function(L, -1);
    lua_pushfstring(L, "%s: router '%s' %s at t=%s ms for request %d; %s", lua_tostring(L, -1),
                    r->name, what, aisim_l_format_ms(t, aisim_sim_now(r->s->sim)), (int)request->id,
                    hint);
    aisim_fail(err, AISIM_ECALLBACK, "%s", lua_tostring(L, -1));
    aisim_l_abort(r->s, L);
    return AISIM_NONE;
}

static uint32_t refuse_choice(aisim_l_router *r, int value, aisim_error *err)
{
    lua_State *L = r->s->L;
    const char *what = lua_pushfstring(L, "returned %s", aisim_l_push_shown(L, value));
    const char *hint =
        lua_pushfstring(L, "candidates are 1..%d (%s)", (int)r->kept.len,
                        lua_isuserdata(L, value) ? "return the index i, not targets[i]"
                                                 : "return nil to queue");
    return aisim_l_router_refuse(r, r->request, what, hint, err);
}

/* ---- choosing -------------------------------------------------------------------------------- */

static double number_at(lua_State *L, int list, uint32_t i)
{
    int is_number = 0;
    lua_rawgeti(L, list, (lua_Integer)i + 1);
    double number = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumberx(L, -1, &is_number) : 0.0;
    lua_pop(L, 1);
    return is_number ? number : (double)NAN;
}

/* Draws a candidate with the weights of the list. */
static uint32_t draw(aisim_l_router *r, int list, aisim_error *err)
{
    lua_State *L = r->s->L;
    double sum = 0.0;
    for (uint32_t i = 0; i < r->kept.len; i++) {
        double weight = number_at(L, list, i);
        if (!isfinite(weight) || weight < 0.0) {
            lua_rawgeti(L, list, (lua_Integer)i + 1);
            const char *what = lua_pushfstring(L, "returned weight %s for candidate %d",
                                               aisim_l_push_shown(L, -1), (int)i + 1);
            return aisim_l_router_refuse(r, r->request, what, "weights are finite numbers >= 0",
                                         err);
        }
        sum += weight;
    }
    if (!(sum > 0.0) || !isfinite(sum)) {
        return aisim_l_router_refuse(r, r->request, "returned weights without a finite sum > 0",
                                     "one of them must be > 0 (return nil to queue)", err);
    }
    double x = aisim_rng_unit(&r->rng) * sum;
    double seen = 0.0;
    uint32_t last = 0;
    for (uint32_t i = 0; i < r->kept.len; i++) {
        double weight = number_at(L, list, i);
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

/* value: index or nil; value + 1: weights or nil. @return place among the kept ones */
static uint32_t weigh(aisim_l_router *r, int value, aisim_error *err)
{
    lua_State *L = r->s->L;
    if (lua_isnil(L, value)) {
        if (lua_isnil(L, value + 1)) {
            return AISIM_NONE;
        }
        return lua_istable(L, value + 1) ? draw(r, value + 1, err)
                                         : refuse_choice(r, value + 1, err);
    }
    int is_integer = 0; /* 2.0 is one, "2" is not */
    lua_Integer i = lua_type(L, value) == LUA_TNUMBER ? lua_tointegerx(L, value, &is_integer) : 0;
    return is_integer && i >= 1 && i <= (lua_Integer)r->kept.len ? (uint32_t)i - 1
                                                                 : refuse_choice(r, value, err);
}

/* Pops the two results of pick. @return place among the kept ones */
static uint32_t choose(aisim_l_router *r, aisim_error *err)
{
    lua_State *L = r->s->L;
    lua_Integer i = lua_isinteger(L, -2) ? lua_tointeger(L, -2) : 0;
    if (i >= 1 && i <= (lua_Integer)r->kept.len) {
        lua_pop(L, 2);
        return (uint32_t)i - 1;
    }
    int value = lua_gettop(L) - 1;
    uint32_t choice = weigh(r, value, err);
    lua_settop(L, value - 1);
    return choice;
}

/* The smallest cost; of equal ones the first. @return AISIM_NONE = no one would take it */
static uint32_t cheapest(const aisim_l_router *r)
{
    uint32_t best = AISIM_NONE;
    for (uint32_t i = 0; i < r->kept.len; i++) {
        double cost = r->cost.data[i];
        if (cost < INFINITY && (best == AISIM_NONE || cost < r->cost.data[best])) {
            best = i;
        }
    }
    return best;
}

/* ---- filters and costs ----------------------------------------------------------------------- */

/* All candidates are kept: 0, 1, … . The list of the last decision still says so unless a filter
 * has been at it. */
static void keep_all(aisim_l_router *r, uint32_t n)
{
    if (r->kept.len == n && r->kept_all) {
        return;
    }
    r->kept_all = true;
    r->kept.len = 0;
    for (uint32_t i = 0; i < n; i++) {
        aisim_array_push(&r->kept, i);
    }
}

/* The candidates that the filters have left. */
static const aisim_targets *left(aisim_l_router *r)
{
    if (r->kept_all) {
        return r->asked;
    }
    r->ranks.len = 0;
    for (uint32_t i = 0; i < r->kept.len; i++) {
        aisim_array_push(&r->ranks, r->asked->ranks[r->kept.data[i]]);
    }
    r->left = (aisim_targets){
        .n = r->ranks.len, .ranks = r->ranks.data, .host = r->asked->host, .look = r->asked->look};
    return &r->left;
}

/* Calls fn(req, targets, out): out holds one value per candidate before. @return true: out is on
 * top of the stack */
static bool fill(aisim_l_router *r, const char *kind, int fn, bool flags, aisim_error *err)
{
    aisim_l_sim *s = r->s;
    lua_State *L = s->L;
    uint32_t n = r->kept.len;
    lua_rawgeti(L, s->refs, r->out);
    for (uint32_t i = 0; i < n; i++) {
        if (flags) {
            lua_pushboolean(L, 1);
        } else {
            lua_pushnumber(L, 0.0);
        }
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_pushnil(L); /* the end of the list */
    lua_rawseti(L, -2, (lua_Integer)n + 1);
    uint64_t outer = aisim_l_begin(s);
    s->site = (aisim_l_site){kind, r->name, r->request, AISIM_NONE, n};
    lua_rawgeti(L, s->refs, fn);
    aisim_l_push_view(L, s, r->request);
    aisim_l_targets_push(r->targets, r->request, left(r));
    lua_pushvalue(L, -4);
    if (aisim_l_call(s, outer, 3, 0)) {
        return true;
    }
    aisim_fail(err, AISIM_ECALLBACK, "%s '%s' failed", kind, r->name);
    return false;
}

/* One filter: what it has not left true goes. */
static bool sieve(aisim_l_router *r, int fn, aisim_error *err)
{
    lua_State *L = r->s->L;
    int top = lua_gettop(L);
    if (!fill(r, "filter of router", fn, true, err)) {
        lua_settop(L, top);
        return false;
    }
    uint32_t still = 0;
    bool all = r->kept_all;
    r->kept_all = false;
    for (uint32_t i = 0; i < r->kept.len; i++) {
        if (lua_rawgeti(L, top + 1, (lua_Integer)i + 1) != LUA_TBOOLEAN) {
            const char *what = lua_pushfstring(L, "filtered candidate %d by %s", (int)i + 1,
                                               aisim_l_push_shown(L, -1));
            aisim_l_router_refuse(r, r->request, what, "out[i] is true or false", err);
            lua_settop(L, top);
            return false;
        }
        r->kept.data[still] = r->kept.data[i];
        still += (uint32_t)lua_toboolean(L, -1);
        lua_pop(L, 1);
    }
    r->kept_all = all && still == r->kept.len;
    r->kept.len = still;
    lua_settop(L, top);
    return true;
}

static bool add_part(aisim_l_router *r, const aisim_l_scorer *scorer, aisim_error *err)
{
    aisim_sim *sim = r->s->sim;
    aisim_router *inner = &r->inners.data[scorer->inner];
    const aisim_targets *candidates = left(r);
    aisim_array_reserve(&r->part, candidates->n);
    if (!inner->cost(inner->context, sim, r->request, candidates, r->part.data, err)) {
        return false;
    }
    for (uint32_t i = 0; i < candidates->n; i++) {
        double cost = r->part.data[i];
        r->cost.data[i] += isnan(cost) ? (double)INFINITY : cost * scorer->weight;
    }
    return true;
}

static bool add_score(aisim_l_router *r, int fn, aisim_error *err)
{
    lua_State *L = r->s->L;
    int top = lua_gettop(L);
    bool fine = fill(r, "score of router", fn, false, err);
    for (uint32_t i = 0; fine && i < r->kept.len; i++) {
        double cost = number_at(L, top + 1, i);
        fine = isfinite(cost);
        if (fine) {
            r->cost.data[i] += cost;
            continue;
        }
        lua_rawgeti(L, top + 1, (lua_Integer)i + 1);
        const char *value = aisim_l_push_shown(L, -1);
        aisim_l_router_refuse(
            r, r->request, lua_pushfstring(L, "gave candidate %d the cost %s", (int)i + 1, value),
            "costs are finite numbers, the smallest sum is chosen", err);
    }
    lua_settop(L, top);
    return fine;
}

static bool add_costs(aisim_l_router *r, aisim_error *err)
{
    aisim_array_reserve(&r->cost, r->kept.len);
    for (uint32_t i = 0; i < r->kept.len; i++) {
        r->cost.data[i] = 0.0;
    }
    for (uint32_t i = 0; i < r->scorers.len; i++) {
        const aisim_l_scorer *scorer = &r->scorers.data[i];
        bool fine =
            scorer->fn == LUA_NOREF ? add_part(r, scorer, err) : add_score(r, scorer->fn, err);
        if (!fine) {
            return false;
        }
    }
    return true;
}

/* ---- the decision ---------------------------------------------------------------------------- */

/* targets.cost for pick. */
static void write_costs(aisim_l_router *r)
{
    lua_State *L = r->s->L;
    lua_rawgeti(L, r->s->refs, r->costs);
    for (uint32_t i = 0; i < r->kept.len; i++) {
        lua_pushnumber(L, r->cost.data[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_pushnil(L);
    lua_rawseti(L, -2, (lua_Integer)r->kept.len + 1);
    lua_pop(L, 1);
}

/* Pushes the arguments that pick names: req, targets, now, inner. */
static void push_arguments(aisim_l_router *r)
{
    aisim_l_sim *s = r->s;
    lua_State *L = s->L;
    int n = r->pick_arguments;
    if (n > 0 && r->wants_request) {
        aisim_l_push_view(L, s, r->request);
    } else if (n > 0) {
        lua_pushnil(L);
    }
    aisim_l_targets_open(r->targets, r->request, left(r));
    if (n > 1) {
        lua_rawgeti(L, s->refs, r->targets->table);
    }
    if (n > 2) {
        aisim_l_push_ms(L, aisim_sim_now(s->sim));
    }
    if (n > 3) {
        lua_rawgeti(L, s->refs, r->ask);
    }
}

static uint32_t ask_pick(aisim_l_router *r, aisim_error *err)
{
    aisim_l_sim *s = r->s;
    if (r->scorers.len > 0) {
        write_costs(r);
    }
    uint64_t outer = aisim_l_begin(s);
    s->site = (aisim_l_site){"router", r->name, r->request, AISIM_NONE, r->kept.len};
    lua_rawgeti(s->L, s->refs, r->pick);
    push_arguments(r);
    if (aisim_l_call(s, outer, r->pick_arguments, 2)) {
        return choose(r, err);
    }
    aisim_fail(err, AISIM_ECALLBACK, "router '%s' failed", r->name);
    return AISIM_NONE;
}

/* Blocks that the choice counted on: those the functions looked at, else the prediction of the
 * policy whose advice was taken. */
static int64_t overlap_of(const aisim_l_router *r, uint32_t choice)
{
    int64_t overlap = aisim_l_targets_overlap(r->targets, r->asked->ranks[choice]);
    for (uint32_t i = r->advice.len; overlap < 0 && i > 0; i--) {
        if (r->advice.data[i - 1].choice == choice) {
            overlap = r->advice.data[i - 1].overlap;
        }
    }
    return overlap;
}

uint32_t aisim_l_router_pick(void *context, aisim_sim *sim, const aisim_request *request,
                             const aisim_targets *targets, int64_t *overlap, aisim_error *err)
{
    aisim_l_router *r = context;
    (void)sim;
    if (aisim_l_broken(r->s)) {
        return AISIM_NONE;
    }
    r->asked = targets;
    r->request = request;
    r->advice.len = 0;
    r->s->deciding = r;
    keep_all(r, targets->n);
    bool fine = true;
    for (uint32_t i = 0; fine && i < r->filters.len && r->kept.len > 0; i++) {
        fine = sieve(r, r->filters.data[i], err);
    }
    fine = fine && r->kept.len > 0;
    if (fine && r->scorers.len > 0) {
        fine = add_costs(r, err);
    }
    uint32_t choice = AISIM_NONE;
    if (fine) {
        choice = r->pick != LUA_NOREF ? ask_pick(r, err) : cheapest(r);
    }
    if (choice != AISIM_NONE) {
        choice = r->kept.data[choice];
        *overlap = overlap_of(r, choice);
    }
    r->targets->request = NULL;
    r->asked = NULL;
    r->s->deciding = NULL;
    r->decided = true;
    return choice;
}
