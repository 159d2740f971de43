/* engine_l_tier.c - a rank of the product with a host tier, for Lua. Times are milliseconds. */
#include "base/check.h"
#include "base/clock.h"
#include "engine_internal.h"
#include "l_twin.h"

static int64_t check_ns(lua_State *L, int at)
{
    return aisim_ns_from_ms(luaL_checknumber(L, at));
}

static int push_ms(lua_State *L, int64_t ns)
{
    if (ns == AISIM_NEVER) {
        return 0;
    }
    lua_pushnumber(L, aisim_ms_from_ns(ns));
    return 1;
}

static int l_set_time(lua_State *L)
{
    twin_set_time(twin_check(L), check_ns(L, 2));
    return 0;
}

/* next_transfer() -> ms, nil = none */
static int l_next_transfer(lua_State *L)
{
    return push_ms(L, twin_next_transfer(twin_check(L)));
}

/* transfers(t) -> whether anybody was woken */
static int l_transfers(lua_State *L)
{
    lua_pushboolean(L, twin_transfers(twin_check(L), check_ns(L, 2)));
    return 1;
}

/* flow(t): a shared pool while a pass is in flight */
static int l_flow(lua_State *L)
{
    twin_flow(twin_check(L), check_ns(L, 2));
    return 0;
}

/* fence() -> ms before which no pass computes */
static int l_fence(lua_State *L)
{
    return push_ms(L, twin_fence(twin_check(L)));
}

/* peer_store(serial, first, end) -> whether it began */
static int l_peer_store(lua_State *L)
{
    lua_pushboolean(L, twin_peer_store(twin_check(L), (uint32_t)luaL_checkinteger(L, 2),
                                       (uint32_t)luaL_checkinteger(L, 3),
                                       (uint32_t)luaL_checkinteger(L, 4)));
    return 1;
}

static void push_block(lua_State *L, twin_name name)
{
    lua_createtable(L, 0, 2);
    lua_pushinteger(L, name.id);
    lua_setfield(L, -2, "id");
    lua_pushinteger(L, name.index);
    lua_setfield(L, -2, "index");
}

/* host_look() -> {used, pending, pinned, headroom, changes = {{stored, block}}, queue = {{id,
 * stage}}}
 */
static int l_host_look(lua_State *L)
{
    static const char *const stages[] = {"asleep", "awake", "loading", "loaded"};
    twin_host_view view;
    twin_host_look(twin_check(L), &view);
    const struct {
        const char *key;
        uint64_t value;
    } numbers[] = {{"used", view.used},
                   {"pending", view.pending},
                   {"pinned", view.pinned},
                   {"headroom", view.headroom}};
    lua_newtable(L);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        lua_pushinteger(L, (lua_Integer)numbers[i].value);
        lua_setfield(L, -2, numbers[i].key);
    }
    lua_newtable(L);
    for (uint32_t i = 0; i < view.n_changes; i++) {
        lua_createtable(L, 0, 2);
        lua_pushboolean(L, view.changes[i].stored);
        lua_setfield(L, -2, "stored");
        push_block(L, view.changes[i].block);
        lua_setfield(L, -2, "block");
        lua_seti(L, -2, (lua_Integer)i + 1);
    }
    lua_setfield(L, -2, "changes");
    lua_newtable(L);
    for (uint32_t i = 0; i < view.n_queue; i++) {
        lua_createtable(L, 0, 2);
        lua_pushinteger(L, view.queue[i].id);
        lua_setfield(L, -2, "id");
        lua_pushstring(L, stages[view.queue[i].value]);
        lua_setfield(L, -2, "stage");
        lua_seti(L, -2, (lua_Integer)i + 1);
    }
    lua_setfield(L, -2, "queue");
    return 1;
}

/* host_jobs() -> list of {id, kind, state, blocks = {index, …}, prepared_ms, begin_ms, done_ms} */
static int l_host_jobs(lua_State *L)
{
    static const char *const states[] = {"free",    "prepared",  "moving",
                                         "arrived", "cancelled", "delivered"};
    const aisim_host_group *group = twin_check(L)->rank.offload.host->group;
    lua_newtable(L);
    lua_Integer n = 0;
    for (uint32_t i = 0; i < group->jobs.len; i++) {
        const aisim_host_job *job = &group->jobs.data[i];
        if (job->state == AISIM_HOST_JOB_FREE) {
            continue;
        }
        lua_newtable(L);
        lua_pushinteger(L, (lua_Integer)job->id);
        lua_setfield(L, -2, "id");
        lua_pushstring(L, job->kind == AISIM_HOST_STORE ? "store" : "load");
        lua_setfield(L, -2, "kind");
        lua_pushstring(L, states[job->state]);
        lua_setfield(L, -2, "state");
        lua_newtable(L);
        lua_Integer blocks = 0;
        for (uint32_t k = 0; k < job->cohort.len; k++) {
            for (uint32_t b = 0; b < job->cohort.data[k].count; b++) {
                lua_pushinteger(L, job->cohort.data[k].first + b);
                lua_seti(L, -2, ++blocks);
            }
        }
        lua_setfield(L, -2, "blocks");
        push_ms(L, job->prepared_ns);
        lua_setfield(L, -2, "prepared_ms");
        if (job->state != AISIM_HOST_JOB_PREPARED) {
            push_ms(L, job->begin_ns);
            lua_setfield(L, -2, "begin_ms");
        }
        if (push_ms(L, job->done_ns) == 1) {
            lua_setfield(L, -2, "done_ms");
        }
        lua_seti(L, -2, ++n);
    }
    return 1;
}

/* host_reused(serial) -> tokens loaded at first admission */
static int l_host_reused(lua_State *L)
{
    twin_view view;
    if (!twin_read(twin_check(L), (uint32_t)luaL_checkinteger(L, 2), &view)) {
        return 0;
    }
    lua_pushinteger(L, view.host_reused);
    return 1;
}

const luaL_Reg twin_tier_methods[] = {
    {"set_time", l_set_time},
    {"next_transfer", l_next_transfer},
    {"transfers", l_transfers},
    {"flow", l_flow},
    {"fence", l_fence},
    {"peer_store", l_peer_store},
    {"host_look", l_host_look},
    {"host_jobs", l_host_jobs},
    {"host_reused", l_host_reused},
    {NULL, NULL},
};
