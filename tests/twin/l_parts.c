/* l_parts.c - the pool and the lease alone, for Lua. Block ids count from 0. */
#include "base/check.h"
#include "l_twin.h"

/* --- the pool alone --------------------------------------------------------------------------- */

static uint32_t hash_node(lua_State *L, twin *t, int at)
{
    uint64_t token = (uint64_t)luaL_checkinteger(L, at);
    return twin_intern(t, twin_root(t, 0), &token, 1);
}

static int push_taken(lua_State *L, twin *t, const twin_ids *taken)
{
    lua_pushboolean(L, 1);
    lua_createtable(L, (int)taken->len, 0);
    for (uint32_t i = 0; i < taken->len; i++) {
        lua_pushinteger(L, taken->data[i]);
        lua_seti(L, -2, (lua_Integer)i + 1);
    }
    lua_newtable(L); /* hashes that lost their last copy */
    lua_Integer n = 0;
    for (uint32_t i = 0; i < t->flat.len; i++) {
        if (!t->flat.data[i].stored) {
            lua_pushinteger(L, (lua_Integer)t->nodes.data[t->flat.data[i].node].tokens[0]);
            lua_seti(L, -2, ++n);
        }
    }
    return 3;
}

/* pool_take({hash, …}, fresh) -> ok, blocks (hits first), removed hashes */
static int l_pool_take(lua_State *L)
{
    twin *t = twin_check(L);
    luaL_checktype(L, 2, LUA_TTABLE);
    uint32_t fresh = (uint32_t)luaL_checkinteger(L, 3);
    twin_ids taken = {0};
    t->flat.len = 0;
    for (uint32_t i = 0; i < (uint32_t)lua_rawlen(L, 2); i++) {
        lua_geti(L, 2, (lua_Integer)i + 1);
        uint32_t node = hash_node(L, t, -1);
        const twin_ids *copies = &t->nodes.data[node].copies;
        if (copies->len > 0) {
            aisim_array_push(&taken, copies->data[0]);
        }
        lua_pop(L, 1);
    }
    if (fresh + twin_queued(t, &taken) > t->queue_len) {
        aisim_array_free(&taken);
        lua_pushboolean(L, 0);
        return 1;
    }
    for (uint32_t i = 0; i < taken.len; i++) {
        twin_ref(t, taken.data[i]);
    }
    twin_acquire(t, fresh, &taken);
    int results = push_taken(L, t, &taken);
    aisim_array_free(&taken);
    return results;
}

/* pool_publish(block, hash) -> whether it is the first copy */
static int l_pool_publish(lua_State *L)
{
    twin *t = twin_check(L);
    uint32_t block = (uint32_t)luaL_checkinteger(L, 2);
    luaL_argcheck(L, block < t->n_blocks, 2, "no such block");
    lua_pushboolean(L, twin_index_add(t, block, hash_node(L, t, 3), false, (twin_name){0, 0}));
    return 1;
}

static int l_pool_release(lua_State *L)
{
    twin *t = twin_check(L);
    uint32_t block = (uint32_t)luaL_checkinteger(L, 2);
    luaL_argcheck(L, block < t->n_blocks && t->blocks[block].refs > 0, 2, "not held");
    twin_unref(t, block);
    return 0;
}

/* pool_lookup(hash) -> hit, active */
static int l_pool_lookup(lua_State *L)
{
    twin *t = twin_check(L);
    uint32_t node = hash_node(L, t, 2);
    const twin_ids *copies = &t->nodes.data[node].copies;
    lua_pushboolean(L, copies->len > 0);
    lua_pushboolean(L, copies->len > 0 && t->blocks[copies->data[0]].refs > 0);
    return 2;
}

/* --- the lease alone -------------------------------------------------------------------------- */

static twin_request *check_request(lua_State *L, twin *t)
{
    lua_Integer serial = luaL_checkinteger(L, 2);
    luaL_argcheck(L, serial >= 0 && serial < t->requests.len, 2, "no such serial");
    return t->requests.data[serial];
}

/* lease_allocate(serial, target [, slots]) -> ok */
static int l_lease_allocate(lua_State *L)
{
    twin *t = twin_check(L);
    twin_request *r = check_request(L, t);
    uint32_t target = (uint32_t)luaL_checkinteger(L, 3);
    uint32_t slots = (uint32_t)luaL_optinteger(L, 4, target);
    lua_pushboolean(L, twin_allocate(t, r, target, slots));
    return 1;
}

/* lease_opaque(serial, n): n blocks of look-ahead */
static int l_lease_opaque(lua_State *L)
{
    twin *t = twin_check(L);
    twin_request *r = check_request(L, t);
    uint32_t n = (uint32_t)luaL_checkinteger(L, 3);
    luaL_argcheck(L, n <= t->queue_len, 3, "more than the pool has");
    twin_acquire(t, n, &r->blocks);
    return 0;
}

/* lease_sample(serial, n): n more known tokens */
static int l_lease_sample(lua_State *L)
{
    twin *t = twin_check(L);
    twin_request *r = check_request(L, t);
    for (lua_Integer n = luaL_checkinteger(L, 3); n > 0; n--) {
        uint64_t token = UINT64_C(1) << 63 | r->tokens.len;
        aisim_array_push(&r->tokens, token);
        r->generated++;
    }
    return 0;
}

/* lease_release(serial) */
static int l_lease_release(lua_State *L)
{
    twin *t = twin_check(L);
    twin_release(t, check_request(L, t));
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
