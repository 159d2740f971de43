/* functions.c - Lua module aisim_functions: the product's pure functions, for the vectors that give
 * numbers and want numbers. Nothing is computed here. A function that the product does not have is
 * missing, and the vectors that need it fail. */
#include <lauxlib.h>
#include <lua.h>
#include <math.h>

#include "cluster/worker.h"
#include "functions.h"
#include "host/host.h"
#include "kv/block_pool.h"
#include "sched/plan.h"
#include "sched/queue.h"
#include "sched/rank.h"
#include "sched/split.h"

/* state_blocks(bytes_per_request, bytes_per_token, block_size) -> k */
static int l_state_blocks(lua_State *L)
{
    lua_pushinteger(L, aisim_state_block_count(luaL_checknumber(L, 1), luaL_checknumber(L, 2),
                                               (uint32_t)luaL_checkinteger(L, 3)));
    return 1;
}

/* length_stats{length, …} -> count, sum, variance (E-F1) */
static int l_length_stats(lua_State *L)
{
    aisim_length_stats stats = {0};
    luaL_checktype(L, 1, LUA_TTABLE);
    for (lua_Integer i = 1; i <= (lua_Integer)lua_rawlen(L, 1); i++) {
        lua_geti(L, 1, i);
        aisim_length_add(&stats, (uint64_t)luaL_checkinteger(L, -1));
        lua_pop(L, 1);
    }
    lua_pushinteger(L, (lua_Integer)stats.count);
    lua_pushinteger(L, (lua_Integer)stats.sum);
    lua_pushnumber(L, aisim_length_variance(&stats));
    return 3;
}

/* lease_owned(block_size, watermark, opaque) -> blocks (E-K4) */
static int l_lease_owned(lua_State *L)
{
    aisim_block_pool pool = {.block_size = (uint32_t)luaL_checkinteger(L, 1)};
    aisim_lease lease = {.allocated = (uint32_t)luaL_checkinteger(L, 2),
                         .opaque = (uint32_t)luaL_checkinteger(L, 3)};
    luaL_argcheck(L, pool.block_size > 0, 1, "block size");
    lua_pushinteger(L, (lua_Integer)aisim_lease_owned(&pool, &lease));
    return 1;
}

/* headroom(block_size, prompt, allocated, opaque, lookahead) -> owned, remaining (E-K4, E-R1) */
static int l_headroom(lua_State *L)
{
    aisim_block_pool pool = {.block_size = (uint32_t)luaL_checkinteger(L, 1)};
    aisim_lease lease = {.allocated = (uint32_t)luaL_checkinteger(L, 3),
                         .opaque = (uint32_t)luaL_checkinteger(L, 4)};
    luaL_argcheck(L, pool.block_size > 0, 1, "block size");
    uint64_t owned = aisim_lease_owned(&pool, &lease);
    lua_pushinteger(L, (lua_Integer)owned);
    lua_pushinteger(L, (lua_Integer)aisim_headroom_of((uint64_t)luaL_checkinteger(L, 2),
                                                      (uint64_t)luaL_checkinteger(L, 5), UINT64_MAX,
                                                      pool.block_size, owned));
    return 2;
}

/* headroom_gate(blocks, active, headroom, need) -> admitted (E-R4) */
static int l_headroom_gate(lua_State *L)
{
    uint64_t available =
        aisim_load_available((uint64_t)luaL_checkinteger(L, 1), (uint64_t)luaL_checkinteger(L, 2),
                             (uint64_t)luaL_checkinteger(L, 3));
    lua_pushboolean(L, (uint64_t)luaL_checkinteger(L, 4) <= available);
    return 1;
}

/* transfer_ms(tokens, bytes_per_token, state_bytes, gb_per_s) -> ms (engine.md section 15) */
static int l_transfer_ms(lua_State *L)
{
    double gb_per_second = luaL_checknumber(L, 4);
    luaL_argcheck(L, gb_per_second > 0, 4, "bandwidth");
    lua_pushnumber(L, aisim_handoff_ms((uint64_t)luaL_checkinteger(L, 1), luaL_checknumber(L, 2),
                                       luaL_checknumber(L, 3), gb_per_second));
    return 1;
}

/* group_end(start_ms, {rank_end_ms, …}) -> ms (E-G1) */
static int l_group_end(lua_State *L)
{
    int64_t end_ns = llround(luaL_checknumber(L, 1) * 1e6);
    luaL_checktype(L, 2, LUA_TTABLE);
    for (lua_Integer i = 1; i <= (lua_Integer)lua_rawlen(L, 2); i++) {
        lua_geti(L, 2, i);
        end_ns = aisim_group_end_ns(end_ns, llround(luaL_checknumber(L, -1) * 1e6));
        lua_pop(L, 1);
    }
    lua_pushnumber(L, (double)end_ns / 1e6);
    return 1;
}

/* burst_width(verify_width, drafts, output_left) -> tokens (mtp.md section 8) */
static int l_burst_width(lua_State *L)
{
    lua_pushinteger(L, aisim_burst_width((uint32_t)luaL_checkinteger(L, 1),
                                         (uint32_t)luaL_checkinteger(L, 2),
                                         (uint32_t)luaL_checkinteger(L, 3)));
    return 1;
}

static const luaL_Reg functions[] = {
    {"transfer_ms", l_transfer_ms},
    {"group_end", l_group_end},
    {"burst_width", l_burst_width},
    {"headroom", l_headroom},
    {"headroom_gate", l_headroom_gate},
    {"state_blocks", l_state_blocks},
    {"length_stats", l_length_stats},
    {"rates_from_mean", functions_rates_from_mean},
    {"resolved_rates", functions_resolved_rates},
    {"lease_owned", l_lease_owned},
    {NULL, NULL},
};

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
int luaopen_aisim_functions(lua_State *L);

int luaopen_aisim_functions(lua_State *L)
{
    luaL_newlib(L, functions);
    return 1;
}
