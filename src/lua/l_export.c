/* l_export.c - what the exports of lua/aisim/export.lua need beyond the report (spec/report.md §5):
 * counts for histograms with given bounds, and what the cluster looks like at the end. */
#include "lua/l_metrics.h"

/* core sim:at_most_(key, {bound, …}) -> how many values of a distribution are <= each bound; sum;
 * n. nil when there is no such distribution. */
static int sim_at_most(lua_State *L)
{
    aisim_l_sim *s;
    const aisim_l_metrics *m = aisim_l_check_built(L, &s);
    aisim_digest *digest =
        aisim_recorder_distribution(m->recorder, luaL_checkstring(L, 2), -1);
    luaL_checktype(L, 3, LUA_TTABLE);
    if (digest == NULL) {
        return 0;
    }
    lua_Integer n = (lua_Integer)lua_rawlen(L, 3);
    lua_createtable(L, (int)n, 0);
    for (lua_Integer i = 1; i <= n; i++) {
        lua_rawgeti(L, 3, i);
        uint64_t count = aisim_digest_at_most(digest, lua_tonumber(L, -1));
        lua_pop(L, 1);
        lua_pushinteger(L, (lua_Integer)count);
        lua_rawseti(L, -2, i);
    }
    lua_pushnumber(L, aisim_digest_sum(digest));
    lua_pushinteger(L, (lua_Integer)digest->n);
    return 3;
}

static void set_count(lua_State *L, const char *key, uint64_t count)
{
    lua_pushinteger(L, (lua_Integer)count);
    lua_setfield(L, -2, key);
}

/* core sim:end_state_() -> {running=, waiting=, kv_used=, kv_total=} over the ranks of workers that
 * are not stopped, host_reused_tokens= of the cohort */
static int sim_end_state(lua_State *L)
{
    aisim_l_sim *s;
    const aisim_l_metrics *m = aisim_l_check_built(L, &s);
    uint64_t running = 0, waiting = 0, used = 0, total = 0;
    for (uint32_t i = 0; i < aisim_sim_ranks(s->sim); i++) {
        aisim_rank_view rank;
        aisim_sim_rank(s->sim, i, &rank);
        if (rank.state != AISIM_WORKER_STOPPED) {
            running += rank.running;
            waiting += rank.waiting;
            used += rank.kv_active;
            total += rank.kv_total;
        }
    }
    lua_createtable(L, 0, 5);
    set_count(L, "running", running);
    set_count(L, "waiting", waiting);
    set_count(L, "kv_used", used);
    set_count(L, "kv_total", total);
    set_count(L, "host_reused_tokens", aisim_recorder_host_reused(m->recorder));
    return 1;
}

void aisim_l_export_register(lua_State *L)
{
    aisim_l_extend(
        L, "aisim.Sim",
        (const luaL_Reg[]){{"at_most_", sim_at_most}, {"end_state_", sim_end_state}, {NULL, NULL}});
}
