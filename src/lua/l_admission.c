/* l_admission.c - admission written in Lua (spec/lua-api.md §7): one function for all arrivals,
 * asked before routing; it answers true, false and a reason,
 * or how many ms the request is held back. */
#include <math.h>

#include "base/clock.h"
#include "base/map.h"
#include "lua/l_cluster.h"
#include "lua/l_targets.h"

typedef struct l_admission {
    aisim_l_targets *targets; /* NULL: the function does not take them */
    int fn;
    int arguments;
} l_admission;

static bool refuse_admission(aisim_l_sim *s, const l_admission *a, const aisim_request *request,
                             aisim_error *err)
{
    return aisim_l_refuse_answer(s, a->fn, "admission",
                                 "true, false and a reason, or a delay in ms", request, err);
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

static bool admit(void *context, aisim_sim *sim, const aisim_request *request, int64_t *delay_ns,
                  aisim_error *err)
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
        aisim_targets ready = {.n = all_ready(s, ranks), .ranks = ranks};
        aisim_l_targets_push(a->targets, request, &ready);
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
    double delay_ms = lua_type(L, -2) == LUA_TNUMBER ? lua_tonumber(L, -2) : (double)NAN;
    if (isfinite(delay_ms) && delay_ms >= 0.0) {
        *delay_ns = aisim_ns_from_ms(delay_ms);
        go_on = true;
    } else if (lua_type(L, -2) != LUA_TBOOLEAN) {
        aisim_l_push_shown(L, -2);
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

int aisim_l_sim_admission(lua_State *L)
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
