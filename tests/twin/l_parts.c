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

static void push_ids(lua_State *L, const uint32_t *ids, uint32_t n)
{
    lua_createtable(L, (int)n, 0);
    for (uint32_t i = 0; i < n; i++) {
        lua_pushinteger(L, ids[i]);
        lua_seti(L, -2, (lua_Integer)i + 1);
    }
}

/* lease_lookup(serial) -> tokens, blocks (E-H3, E-H4) */
static int l_lease_lookup(lua_State *L)
{
    twin *t = twin_check(L);
    twin_hit hit;
    twin_lookup(t, check_request(L, t), &hit);
    lua_pushinteger(L, hit.tokens);
    push_ids(L, hit.blocks.data, hit.blocks.len);
    twin_hit_free(&hit);
    return 2;
}

/* lease_extend(serial, new, lookahead, use_hit) -> ok, fresh blocks, stored, removed: books `new`
 * tokens behind C (or behind the hit) and publishes what they complete. */
static int l_lease_extend(lua_State *L)
{
    twin *t = twin_check(L);
    twin_request *r = check_request(L, t);
    uint32_t new_tokens = (uint32_t)luaL_checkinteger(L, 3);
    uint32_t lookahead = (uint32_t)luaL_checkinteger(L, 4);
    twin_hit hit = {.partial = TWIN_NONE, .checkpoint = TWIN_NONE};
    t->flat.len = 0;
    uint32_t from = r->computed;
    if (lua_toboolean(L, 5)) {
        twin_lookup(t, r, &hit);
        from = hit.tokens;
    }
    uint32_t end = from + new_tokens;
    uint32_t slots = twin_min(end + lookahead, t->limit);
    uint32_t held = r->blocks.len + hit.blocks.len;
    bool ok = r->blocks.len == 0 ? twin_admit_allocate(t, r, &hit, end, slots, 0)
                                 : twin_allocate(t, r, end, slots);
    twin_hit_free(&hit);
    lua_pushboolean(L, ok);
    if (!ok) {
        return 1;
    }
    twin_publish(t, r, twin_min(end, r->tokens.len));
    push_ids(L, r->blocks.data + twin_min(held, r->blocks.len),
             r->blocks.len - twin_min(held, r->blocks.len));
    lua_Integer stored = 0;
    for (uint32_t i = 0; i < t->flat.len; i++) {
        stored += t->flat.data[i].stored;
    }
    lua_pushinteger(L, stored);
    lua_pushinteger(L, (lua_Integer)t->flat.len - stored);
    return 4;
}

/* lease_advance(serial, computed, {token, …}): C, and more known tokens */
static int l_lease_advance(lua_State *L)
{
    twin *t = twin_check(L);
    twin_request *r = check_request(L, t);
    r->computed = (uint32_t)luaL_checkinteger(L, 3);
    lua_settop(L, 4);
    uint32_t n = 0;
    const uint64_t *tokens = twin_to_tokens(L, &n);
    for (uint32_t i = 0; i < n; i++) {
        aisim_array_push(&r->tokens, tokens[i]);
        r->generated++;
    }
    return 0;
}

/* lease_pages(serial) -> for each full page of the known tokens, whether it is indexed */
static int l_lease_pages(lua_State *L)
{
    twin *t = twin_check(L);
    twin_request *r = check_request(L, t);
    lua_newtable(L);
    for (uint32_t i = 0; t->caching && i < r->tokens.len / t->b; i++) {
        uint32_t node = twin_node_at(t, r, (i + 1) * t->b);
        lua_pushboolean(L, t->nodes.data[node].copies.len > 0);
        lua_seti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

/* pool_queue() -> unreferenced blocks, next victim first */
static int l_pool_queue(lua_State *L)
{
    twin *t = twin_check(L);
    lua_newtable(L);
    lua_Integer n = 0;
    for (uint32_t i = t->head; i != TWIN_NONE; i = t->blocks[i].next) {
        lua_pushinteger(L, i);
        lua_seti(L, -2, ++n);
    }
    return 1;
}

/* pool_refs(block) */
static int l_pool_refs(lua_State *L)
{
    twin *t = twin_check(L);
    lua_Integer block = luaL_checkinteger(L, 2);
    luaL_argcheck(L, block >= 0 && block < t->n_blocks, 2, "no such block");
    lua_pushinteger(L, t->blocks[block].refs);
    return 1;
}

/* pool_index() -> identities, blocks that carry one */
static int l_pool_index(lua_State *L)
{
    twin *t = twin_check(L);
    lua_Integer keys = 0;
    lua_Integer entries = 0;
    for (uint32_t i = 0; i < t->nodes.len; i++) {
        keys += t->nodes.data[i].copies.len > 0;
        entries += t->nodes.data[i].copies.len;
    }
    lua_pushinteger(L, keys);
    lua_pushinteger(L, entries);
    return 2;
}

const luaL_Reg twin_part_methods[] = {
    {"lease_lookup", l_lease_lookup},   {"lease_extend", l_lease_extend},
    {"lease_advance", l_lease_advance}, {"lease_pages", l_lease_pages},
    {"pool_queue", l_pool_queue},       {"pool_refs", l_pool_refs},
    {"pool_index", l_pool_index},       {"pool_take", l_pool_take},
    {"pool_publish", l_pool_publish},   {"pool_release", l_pool_release},
    {"pool_lookup", l_pool_lookup},     {"lease_allocate", l_lease_allocate},
    {"lease_opaque", l_lease_opaque},   {"lease_sample", l_lease_sample},
    {"lease_release", l_lease_release}, {NULL, NULL},
};
