/* engine_parts.c - the product's pool and lease alone, for Lua: what l_parts.c is to the twin.
 *
 * A block handle of the pool vectors is a lease of one block; a hash is a run of one block, so the
 * extents are driven as they are. */
#include "base/check.h"
#include "engine_internal.h"
#include "l_twin.h"

static aisim_node hash_node(lua_State *L, twin *t, int at)
{
    aisim_id_run id = {(uint64_t)luaL_checkinteger(L, at), 1};
    uint32_t b = t->rank.pool.block_size;
    aisim_node node = aisim_content_append_ids(t->engine.content, AISIM_ROOT, &id, 1, b, b);
    aisim_array_push(&t->held, node.run);
    return node;
}

static uint32_t part_new(twin *t, uint32_t run)
{
    aisim_lease lease = {.run = run, .owner = UINT32_MAX - 1 - t->parts.len};
    aisim_array_push(&t->parts, lease);
    return t->parts.len - 1;
}

static void push_removed(lua_State *L, twin *t)
{
    lua_newtable(L);
    lua_Integer n = 0;
    for (uint32_t i = 0; i < t->rank.pool.log.len; i++) {
        const aisim_kv_log_entry *e = &t->rank.pool.log.data[i];
        for (uint32_t j = 0;
             j < t->hashes.len && e->kind == AISIM_KV_EVICTED && e->how == AISIM_GONE_LAST; j++) {
            if (t->hashes.data[j].run == e->run) {
                lua_pushinteger(L, (lua_Integer)t->hashes.data[j].hash);
                lua_seti(L, -2, ++n);
                break;
            }
        }
    }
}

/* pool_take({hash, …}, fresh) -> ok, handles (hits first), removed hashes */
static int l_pool_take(lua_State *L)
{
    twin *t = twin_check(L);
    aisim_block_pool *pool = &t->rank.pool;
    luaL_checktype(L, 2, LUA_TTABLE);
    uint32_t fresh = (uint32_t)luaL_checkinteger(L, 3);
    pool->listening = true;
    pool->log.len = 0;
    uint32_t first = t->parts.len;
    uint64_t idle = 0;
    for (lua_Integer i = 1; i <= (lua_Integer)lua_rawlen(L, 2); i++) {
        lua_geti(L, 2, i);
        aisim_node node = hash_node(L, t, -1);
        lua_pop(L, 1);
        uint32_t active;
        if (aisim_block_pool_lookup(pool, node.run, 1, &active) == 1) {
            part_new(t, node.run);
            idle += active == 0;
        }
    }
    if (fresh > pool->free + pool->extents.inactive - idle) {
        t->parts.len = first;
        lua_pushboolean(L, 0);
        return 1;
    }
    uint32_t hits = t->parts.len - first;
    for (uint32_t i = 0; i < fresh; i++) {
        part_new(t, 0);
    }
    lua_pushboolean(L, 1);
    lua_newtable(L);
    for (uint32_t i = first; i < t->parts.len; i++) {
        bool ok = aisim_lease_allocate(pool, &t->parts.data[i], pool->block_size, i - first < hits);
        luaL_argcheck(L, ok, 1, "no block");
        lua_pushinteger(L, i);
        lua_seti(L, -2, (lua_Integer)(i - first) + 1);
    }
    push_removed(L, t);
    return 3;
}

static aisim_lease *check_part(lua_State *L, twin *t)
{
    lua_Integer i = luaL_checkinteger(L, 2);
    luaL_argcheck(L, i >= 0 && i < t->parts.len, 2, "no such block");
    return &t->parts.data[i];
}

/* pool_publish(handle, hash) -> whether it is the first copy */
static int l_pool_publish(lua_State *L)
{
    twin *t = twin_check(L);
    aisim_lease *lease = check_part(L, t);
    lease->run = hash_node(L, t, 3).run;
    engine_hash known = {lease->run, (uint64_t)luaL_checkinteger(L, 3)};
    aisim_array_push(&t->hashes, known);
    t->rank.pool.listening = true;
    t->rank.pool.log.len = 0;
    aisim_lease_publish(&t->rank.pool, lease, 1, NULL);
    lua_pushboolean(L,
                    t->rank.pool.log.len > 0 && t->rank.pool.log.data[0].kind == AISIM_KV_STORED);
    return 1;
}

static int l_pool_release(lua_State *L)
{
    twin *t = twin_check(L);
    aisim_lease_release(&t->rank.pool, check_part(L, t), AISIM_NONE, AISIM_NONE);
    return 0;
}

/* pool_lookup(hash) -> hit, active */
static int l_pool_lookup(lua_State *L)
{
    twin *t = twin_check(L);
    uint32_t active;
    aisim_node node = hash_node(L, t, 2);
    lua_pushboolean(L, aisim_block_pool_lookup(&t->rank.pool, node.run, 1, &active) == 1);
    lua_pushboolean(L, active > 0);
    return 2;
}

static aisim_request *check_request(lua_State *L, twin *t)
{
    lua_Integer serial = luaL_checkinteger(L, 2);
    luaL_argcheck(L, serial >= 0 && serial < t->rows.len, 2, "no such serial");
    return aisim_requests_at(&t->engine.requests, t->rows.data[serial].slot);
}

static int l_lease_allocate(lua_State *L)
{
    twin *t = twin_check(L);
    aisim_request *r = check_request(L, t);
    lua_pushboolean(
        L, aisim_lease_allocate(&t->rank.pool, &r->lease, (uint32_t)luaL_checkinteger(L, 3), 0));
    return 1;
}

static int l_lease_opaque(lua_State *L)
{
    twin *t = twin_check(L);
    aisim_request *r = check_request(L, t);
    bool ok =
        aisim_lease_reserve_opaque(&t->rank.pool, &r->lease, (uint32_t)luaL_checkinteger(L, 3));
    luaL_argcheck(L, ok, 3, "more than the pool has");
    return 0;
}

static int l_lease_sample(lua_State *L)
{
    twin *t = twin_check(L);
    check_request(L, t)->generated += (uint32_t)luaL_checkinteger(L, 3);
    return 0;
}

static int l_lease_release(lua_State *L)
{
    twin *t = twin_check(L);
    aisim_lease_release(&t->rank.pool, &check_request(L, t)->lease, AISIM_NONE, AISIM_NONE);
    return 0;
}

const luaL_Reg twin_part_methods[] = {
    {"pool_take", l_pool_take},
    {"pool_publish", l_pool_publish},
    {"pool_release", l_pool_release},
    {"pool_lookup", l_pool_lookup},
    {"lease_allocate", l_lease_allocate},
    {"lease_opaque", l_lease_opaque},
    {"lease_sample", l_lease_sample},
    {"lease_release", l_lease_release},
    {NULL, NULL},
};
