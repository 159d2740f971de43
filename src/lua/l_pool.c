/* l_pool.c - pools and workers: sim:pool, pool:worker(i), their figures and commands
 * (spec/lua-api.md §4).
 *
 * Handles hold a number, never a pointer, and read the engine at each access. Commands act after
 * the current event. */
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "lua/l_cluster.h"
#include "lua/l_engine.h"

#define WORKER "aisim.Worker"

typedef struct l_handle { /* of a pool or a worker; user value: the simulation */
    uint32_t index;
} l_handle;

aisim_l_cluster *aisim_l_cluster_of(aisim_l_sim *s)
{
    if (s->cluster == NULL) {
        s->cluster = aisim_alloc_zero(1, sizeof *s->cluster);
        s->cluster->admission = LUA_NOREF;
    }
    return s->cluster;
}

void aisim_l_cluster_free(aisim_l_sim *s)
{
    aisim_l_cluster *c = s->cluster;
    for (uint32_t i = 0; c != NULL && i < c->pools.len; i++) {
        aisim_free(c->pools.data[i].name);
        aisim_free(c->pools.data[i].line);
        aisim_free(c->pools.data[i].timing);
        aisim_free(c->pools.data[i].served);
        aisim_value_free(c->pools.data[i].configuration);
    }
    if (c != NULL) {
        aisim_l_timing_functions_free(c);
        aisim_l_handoff_free(c);
        aisim_array_free(&c->pools);
        aisim_free(c);
        s->cluster = NULL;
    }
}

static void push_handle(lua_State *L, const aisim_l_sim *s, const char *class_, uint32_t index)
{
    l_handle *handle = lua_newuserdatauv(L, sizeof *handle, 1);
    handle->index = index;
    luaL_setmetatable(L, class_);
    aisim_l_push_self(L, s);
    lua_setiuservalue(L, -2, 1);
}

static uint32_t check_handle(lua_State *L, const char *class_, aisim_l_sim **s)
{
    l_handle *handle = luaL_checkudata(L, 1, class_);
    lua_getiuservalue(L, 1, 1);
    *s = aisim_l_check_sim(L, -1);
    lua_pop(L, 1);
    return handle->index;
}

/* ---- figures --------------------------------------------------------------------------------- */

typedef struct l_sums {
    lua_Integer waiting, running, active_requests, active_prefill_tokens, active_blocks;
    lua_Integer kv_used, kv_cached, kv_total, host_used;
} l_sums;

static void add_rank(const aisim_l_sim *s, uint32_t rank, l_sums *sums)
{
    aisim_rank_view view;
    aisim_sim_rank(s->sim, rank, &view);
    sums->waiting += view.waiting;
    sums->running += view.running;
    sums->active_requests += (lua_Integer)view.active_requests;
    sums->active_prefill_tokens += (lua_Integer)view.active_prefill_tokens;
    sums->active_blocks += (lua_Integer)view.active_blocks;
    sums->kv_used += (lua_Integer)view.kv_active;
    sums->kv_cached += (lua_Integer)view.kv_inactive;
    sums->host_used += (lua_Integer)view.host_used;
    sums->kv_total += (lua_Integer)view.kv_total;
}

static void add_ranks(const aisim_l_sim *s, uint32_t worker, l_sums *sums)
{
    aisim_rank_view view;
    for (uint32_t rank = 0; rank < aisim_sim_ranks(s->sim); rank++) {
        aisim_sim_rank(s->sim, rank, &view);
        if (view.worker == worker) {
            add_rank(s, rank, sums);
        }
    }
}

/* @return true when key is a figure; it is then on the stack */
static bool push_figure(lua_State *L, const char *key, const l_sums *sums)
{
    const struct {
        const char *name;
        lua_Integer value;
    } figures[] = {{"waiting", sums->waiting},
                   {"running", sums->running},
                   {"active_requests", sums->active_requests},
                   {"active_prefill_tokens", sums->active_prefill_tokens},
                   {"active_blocks", sums->active_blocks},
                   {"kv_used", sums->kv_used},
                   {"kv_cached", sums->kv_cached},
                   {"kv_total", sums->kv_total},
                   {"host_used", sums->host_used}};
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        if (strcmp(figures[i].name, key) == 0) {
            lua_pushinteger(L, figures[i].value);
            return true;
        }
    }
    return false;
}

static const char *const figure_names[] = {
    "waiting",       "running", "active_requests", "active_prefill_tokens",
    "active_blocks", "kv_used", "kv_cached",       "kv_total",
    "host_used",     NULL};

/* ---- workers --------------------------------------------------------------------------------- */

void aisim_l_push_worker(lua_State *L, aisim_l_sim *s, uint32_t worker)
{
    push_handle(L, s, WORKER, worker);
}

static aisim_worker_state worker_state(const aisim_l_sim *s, uint32_t worker, uint32_t *pool,
                                       lua_Integer *ranks)
{
    aisim_rank_view view;
    aisim_worker_state state = AISIM_WORKER_READY;
    *ranks = 0;
    for (uint32_t rank = 0; rank < aisim_sim_ranks(s->sim); rank++) {
        aisim_sim_rank(s->sim, rank, &view);
        if (view.worker == worker) {
            state = view.state;
            *pool = view.pool;
            ++*ranks;
        }
    }
    return state;
}

static int worker_index(lua_State *L)
{
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(1)) == LUA_TFUNCTION) {
        return 1;
    }
    aisim_l_sim *s;
    uint32_t worker = check_handle(L, WORKER, &s);
    const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
    uint32_t pool = 0;
    lua_Integer ranks;
    if (strcmp(key, "id") == 0) {
        lua_pushinteger(L, (lua_Integer)worker + 1);
        return 1;
    }
    if (strcmp(key, "state") == 0) {
        lua_pushstring(L, aisim_worker_state_text(worker_state(s, worker, &pool, &ranks)));
        return 1;
    }
    if (strcmp(key, "ranks") == 0) {
        worker_state(s, worker, &pool, &ranks);
        lua_pushinteger(L, ranks);
        return 1;
    }
    if (strcmp(key, "pool") == 0) {
        worker_state(s, worker, &pool, &ranks);
        push_handle(L, s, AISIM_L_POOL, pool);
        return 1;
    }
    l_sums sums = {0};
    add_ranks(s, worker, &sums);
    if (push_figure(L, key, &sums)) {
        return 1;
    }
    return aisim_l_unknown_field(L, lua_upvalueindex(1), "worker");
}

static int command(lua_State *L, aisim_worker_command what)
{
    aisim_l_sim *s;
    uint32_t worker = check_handle(L, WORKER, &s);
    aisim_l_refuse_in_batch(L, s);
    aisim_sim_worker(s->sim, worker, what);
    return 0;
}

static int worker_drain(lua_State *L)
{
    return command(L, AISIM_WORKER_DRAIN);
}

static int worker_stop(lua_State *L)
{
    return command(L, AISIM_WORKER_STOP);
}

static int worker_resume(lua_State *L)
{
    return command(L, AISIM_WORKER_RESUME);
}

/* worker:flush_cache() -> true, or nil, message, code while blocks are in use */
static int worker_flush_cache(lua_State *L)
{
    aisim_l_sim *s;
    uint32_t worker = check_handle(L, WORKER, &s);
    aisim_l_refuse_in_batch(L, s);
    aisim_error err = {0};
    aisim_status status = aisim_sim_flush_cache(s->sim, worker, &err);
    if (status == AISIM_OK) {
        lua_pushboolean(L, 1);
        return 1;
    }
    lua_pushnil(L);
    lua_pushstring(L, err.text);
    lua_pushstring(L, aisim_status_name(status));
    return 3;
}

static int worker_tostring(lua_State *L)
{
    const l_handle *handle = luaL_checkudata(L, 1, WORKER);
    lua_pushfstring(L, "worker %d", (int)handle->index + 1);
    return 1;
}

/* ---- pools ----------------------------------------------------------------------------------- */

uint32_t aisim_l_check_pool(lua_State *L, aisim_l_sim *s, int index)
{
    const aisim_l_cluster *c = aisim_l_cluster_of(s);
    const l_handle *handle = luaL_testudata(L, index, AISIM_L_POOL);
    if (handle != NULL) {
        lua_getiuservalue(L, index, 1);
        if (lua_touserdata(L, -1) != s) {
            aisim_l_fail(L, "the pool belongs to another simulation");
        }
        lua_pop(L, 1);
        return handle->index;
    }
    if (lua_type(L, index) != LUA_TSTRING) {
        aisim_l_fail(L, "pool: name or pool expected, got %s", luaL_typename(L, index));
    }
    const char *name = lua_tostring(L, index);
    lua_newtable(L);
    for (uint32_t i = 0; i < c->pools.len; i++) {
        if (strcmp(c->pools.data[i].name, name) == 0) {
            lua_pop(L, 1);
            return i;
        }
        lua_pushboolean(L, 1);
        lua_setfield(L, -2, c->pools.data[i].name);
    }
    aisim_l_push_hint(L, name, lua_gettop(L));
    aisim_l_fail(L, "unknown pool '%s'%s", name, lua_tostring(L, -1));
    return 0;
}

static int pool_index(lua_State *L)
{
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(1)) == LUA_TFUNCTION) {
        return 1;
    }
    aisim_l_sim *s;
    uint32_t index = check_handle(L, AISIM_L_POOL, &s);
    const aisim_l_pool_info *pool = &aisim_l_cluster_of(s)->pools.data[index];
    const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
    if (strcmp(key, "name") == 0) {
        lua_pushstring(L, pool->name);
        return 1;
    }
    aisim_pool_view view;
    aisim_sim_pool(s->sim, index, &view);
    const struct {
        const char *name;
        lua_Integer value;
    } numbers[] = {{"workers", view.n_workers},
                   {"ranks", view.n_ranks},
                   {"blocks", (lua_Integer)pool->blocks},
                   {"ready", view.ready},
                   {"starting", view.starting},
                   {"draining", view.draining},
                   {"queued", view.queued}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (strcmp(key, numbers[i].name) == 0) {
            lua_pushinteger(L, numbers[i].value);
            return 1;
        }
    }
    l_sums sums = {0};
    for (uint32_t i = 0; i < view.n_ranks; i++) {
        add_rank(s, view.ranks[i], &sums);
    }
    if (push_figure(L, key, &sums)) {
        return 1;
    }
    return aisim_l_unknown_field(L, lua_upvalueindex(1), "pool");
}

/* pool:worker(i), i from 1 inside the pool */
static int pool_worker(lua_State *L)
{
    aisim_l_sim *s;
    uint32_t index = check_handle(L, AISIM_L_POOL, &s);
    const aisim_l_pool_info *pool = &aisim_l_cluster_of(s)->pools.data[index];
    aisim_pool_view view;
    aisim_sim_pool(s->sim, index, &view);
    int is_integer;
    lua_Integer i = lua_tointegerx(L, 2, &is_integer);
    if (!is_integer || i < 1 || i > (lua_Integer)view.n_workers) {
        return aisim_l_fail(L, "pool '%s' has workers 1..%d, got %s", pool->name,
                            (int)view.n_workers, luaL_tolstring(L, 2, NULL));
    }
    aisim_l_push_worker(L, s, view.workers[i - 1]);
    return 1;
}

/* core pool:add_(n, startup_ms or nil = of the engine) */
static int pool_add(lua_State *L)
{
    aisim_l_sim *s;
    uint32_t index = check_handle(L, AISIM_L_POOL, &s);
    aisim_pool_view view;
    aisim_l_refuse_in_batch(L, s);
    aisim_sim_pool(s->sim, index, &view);
    int64_t startup_ns =
        lua_isnoneornil(L, 3) ? view.startup_ns : aisim_l_check_ms(L, 3, "pool:add: startup_ms");
    aisim_sim_pool_grow(s->sim, index, (uint32_t)luaL_checkinteger(L, 2), startup_ns);
    return 0;
}

/* core pool:remove_(n, drain) */
static int pool_remove(lua_State *L)
{
    aisim_l_sim *s;
    uint32_t index = check_handle(L, AISIM_L_POOL, &s);
    aisim_l_refuse_in_batch(L, s);
    aisim_sim_pool_shrink(s->sim, index, (uint32_t)luaL_checkinteger(L, 2), lua_toboolean(L, 3));
    return 0;
}

static int pool_tostring(lua_State *L)
{
    const l_handle *handle = luaL_checkudata(L, 1, AISIM_L_POOL);
    lua_getiuservalue(L, 1, 1);
    aisim_l_sim *s = lua_touserdata(L, -1);
    if (s->sim == NULL) {
        lua_pushliteral(L, "pool (closed)");
        return 1;
    }
    const aisim_l_pool_info *pool = &aisim_l_cluster_of(s)->pools.data[handle->index];
    aisim_pool_view view;
    aisim_sim_pool(s->sim, handle->index, &view);
    lua_pushfstring(L, "pool '%s' (%d workers)", pool->name, (int)view.n_workers);
    return 1;
}

/* core sim:pool_(name, role, workers, engine, timing functions or nil, points or nil) -> pool */
static int sim_pool(lua_State *L)
{
    aisim_l_sim *s = aisim_l_check_control(L, 1);
    aisim_l_pool_info info = {0};
    const char *name = luaL_checkstring(L, 2);
    lua_settop(L, 7);
    uint32_t index = aisim_l_engine_add(L, s, name, luaL_checkstring(L, 3), 4, 5, 6, 7, &info);
    info.name = aisim_strdup(name);
    aisim_array_push(&aisim_l_cluster_of(s)->pools, info);
    push_handle(L, s, AISIM_L_POOL, index);
    return 1;
}

/* core sim:pool_number_(name or pool) -> number from 1 */
static int sim_pool_number(lua_State *L)
{
    aisim_l_sim *s = aisim_l_check_sim(L, 1);
    lua_pushinteger(L, (lua_Integer)aisim_l_check_pool(L, s, 2) + 1);
    return 1;
}

/* core sim:pool_handle_(number) -> pool */
static int sim_pool_handle(lua_State *L)
{
    aisim_l_sim *s = aisim_l_check_sim(L, 1);
    push_handle(L, s, AISIM_L_POOL, (uint32_t)luaL_checkinteger(L, 2) - 1);
    return 1;
}

/* core sim:pools_() -> list of {name=, role=, line=, timing=, model=, context_length=, workers=,
 * gpus=, blocks=, block_size=}: what the screen and the exports say */
static int sim_pools(lua_State *L)
{
    const aisim_l_cluster *c = aisim_l_cluster_of(aisim_l_check_sim(L, 1));
    lua_createtable(L, (int)c->pools.len, 0);
    for (uint32_t i = 0; i < c->pools.len; i++) {
        const aisim_l_pool_info *pool = &c->pools.data[i];
        lua_createtable(L, 0, 10);
        lua_pushstring(L, pool->served);
        lua_setfield(L, -2, "model");
        lua_pushinteger(L, (lua_Integer)pool->context_length);
        lua_setfield(L, -2, "context_length");
        lua_pushstring(L, pool->name);
        lua_setfield(L, -2, "name");
        lua_pushstring(L, aisim_l_role_text(pool->role));
        lua_setfield(L, -2, "role");
        lua_pushinteger(L, (lua_Integer)pool->blocks);
        lua_setfield(L, -2, "blocks");
        lua_pushinteger(L, pool->block_size);
        lua_setfield(L, -2, "block_size");
        lua_pushstring(L, pool->line);
        lua_setfield(L, -2, "line");
        lua_pushstring(L, pool->timing);
        lua_setfield(L, -2, "timing");
        aisim_pool_view view;
        aisim_sim_pool(aisim_l_check_sim(L, 1)->sim, i, &view);
        lua_pushinteger(L, view.n_workers);
        lua_setfield(L, -2, "workers");
        lua_pushnumber(L, pool->gpus);
        lua_setfield(L, -2, "gpus");
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

/* core sim:ranks_() -> number of ranks */
static int sim_ranks(lua_State *L)
{
    lua_pushinteger(L, aisim_sim_ranks(aisim_l_check_sim(L, 1)->sim));
    return 1;
}

static void add_figure_names(lua_State *L, const char *class_, const char *const *more)
{
    lua_getfield(L, -1, "methods");
    lua_getfield(L, -1, class_);
    for (int list = 0; list < 2; list++) {
        for (const char *const *name = list == 0 ? figure_names : more; *name != NULL; name++) {
            lua_pushboolean(L, 1);
            lua_setfield(L, -2, *name);
        }
    }
    lua_pop(L, 2);
}

void aisim_l_pool_register(lua_State *L)
{
    static const luaL_Reg worker_methods[] = {{"drain", worker_drain},
                                              {"stop", worker_stop},
                                              {"resume", worker_resume},
                                              {"flush_cache", worker_flush_cache},
                                              {NULL, NULL}};
    static const luaL_Reg pool_methods[] = {
        {"worker", pool_worker}, {"add_", pool_add}, {"remove_", pool_remove}, {NULL, NULL}};
    static const aisim_l_class worker_class = {WORKER, worker_methods,  worker_index,
                                               NULL,   worker_tostring, NULL};
    static const aisim_l_class pool_class = {AISIM_L_POOL, pool_methods,  pool_index,
                                             NULL,         pool_tostring, NULL};
    aisim_l_class_register(L, &worker_class);
    aisim_l_class_register(L, &pool_class);
    add_figure_names(L, WORKER, (const char *const[]){"id", "state", "ranks", "pool", NULL});
    add_figure_names(L, AISIM_L_POOL,
                     (const char *const[]){"name", "workers", "ranks", "blocks", "ready",
                                           "starting", "draining", "queued", NULL});
    aisim_l_extend(L, "aisim.Sim",
                   (const luaL_Reg[]){{"pool_", sim_pool},
                                      {"pool_number_", sim_pool_number},
                                      {"pool_handle_", sim_pool_handle},
                                      {"ranks_", sim_ranks},
                                      {"pools_", sim_pools},
                                      {NULL, NULL}});
}
