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

/* ---- leases of whole prompts, for the vectors of one dense group
 * ---------------------------------
 */

/* E-H3, E-H4: blocks a request would reuse. */
static uint32_t hit_blocks(twin *t, const aisim_request *r, uint32_t *active)
{
    aisim_block_pool *pool = &t->rank.pool;
    *active = 0;
    if ((r->flags & AISIM_REQF_NO_READ) != 0) {
        return 0;
    }
    uint32_t limit = (aisim_known(r) - 1) / pool->block_size;
    uint32_t hit = aisim_block_pool_lookup(pool, r->lease.run, limit, active);
    if (hit > 0 && t->rank.rules.drop) {
        hit = aisim_block_pool_lookup(pool, r->lease.run, hit - 1, active);
    }
    return hit;
}

/* lease_lookup(serial) -> tokens */
static int l_lease_lookup(lua_State *L)
{
    twin *t = twin_check(L);
    uint32_t active;
    lua_pushinteger(L, (lua_Integer)hit_blocks(t, check_request(L, t), &active) *
                           t->rank.pool.block_size);
    return 1;
}

/* lease_extend(serial, new, lookahead, use_hit) -> ok, a list as long as the fresh blocks, first
 * copies stored, last copies removed */
static int l_lease_extend(lua_State *L)
{
    twin *t = twin_check(L);
    aisim_block_pool *pool = &t->rank.pool;
    aisim_request *r = check_request(L, t);
    uint64_t limit = t->rank.config.scheduler.context_length;
    aisim_grant grant = {0};
    uint32_t from = r->computed;
    if (lua_toboolean(L, 5)) {
        grant.hit_blocks = hit_blocks(t, r, &grant.hit_active);
        from = grant.hit_blocks * pool->block_size;
    }
    uint32_t end = from + (uint32_t)luaL_checkinteger(L, 3);
    uint32_t known = aisim_known(r);
    uint32_t real = end < known ? end : known;
    grant.slots = end + (uint32_t)luaL_checkinteger(L, 4);
    grant.slots = limit > 0 && grant.slots > limit ? (uint32_t)limit : grant.slots;
    grant.watermark = grant.slots < known ? grant.slots : known;
    pool->listening = true;
    bool ok = aisim_grant_fits(pool, &r->lease, &grant);
    lua_pushboolean(L, ok);
    if (!ok) {
        return 1;
    }
    lua_newtable(L);
    for (lua_Integer i = (lua_Integer)aisim_grant_fresh(pool, &r->lease, &grant); i > 0; i--) {
        lua_pushinteger(L, 0); /* blocks have no ids */
        lua_seti(L, -2, i);
    }
    aisim_grant_take(pool, &r->lease, &grant);
    aisim_lease_publish(pool, &r->lease, real / pool->block_size, NULL);
    lua_Integer stored = 0, removed = 0;
    for (uint32_t i = 0; i < pool->log.len; i++) {
        const aisim_kv_log_entry *e = &pool->log.data[i];
        stored += e->kind == AISIM_KV_STORED ? e->count : 0;
        removed += e->kind == AISIM_KV_EVICTED && e->how == AISIM_GONE_LAST ? e->count : 0;
    }
    engine_read_log(t);
    lua_pushinteger(L, stored);
    lua_pushinteger(L, removed);
    return 4;
}

/* lease_advance(serial, computed, {token, …}): the tokens must be those planned at submission */
static int l_lease_advance(lua_State *L)
{
    twin *t = twin_check(L);
    aisim_request *r = check_request(L, t);
    r->computed = (uint32_t)luaL_checkinteger(L, 3);
    if (lua_istable(L, 4)) {
        r->generated += (uint32_t)lua_rawlen(L, 4);
    }
    return 0;
}

/* lease_pages(serial) -> for each full page of the known tokens, whether it is indexed: a page is
 * only with all before it (I20) */
static int l_lease_pages(lua_State *L)
{
    twin *t = twin_check(L);
    const aisim_request *r = check_request(L, t);
    uint32_t n = t->rank.pool.prefix_caching ? aisim_known(r) / t->rank.pool.block_size : 0;
    uint32_t active, found = aisim_block_pool_lookup(&t->rank.pool, r->lease.run, n, &active);
    lua_newtable(L);
    for (uint32_t i = 0; i < n; i++) {
        lua_pushboolean(L, i < found);
        lua_seti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

/* pool_index() -> identities, blocks that carry one */
static int l_pool_index(lua_State *L)
{
    twin *t = twin_check(L);
    const aisim_extents *set = &t->rank.pool.extents;
    lua_Integer keys = 0, entries = 0;
    for (uint32_t i = 0; i < set->slots.len; i++) {
        const aisim_extent *e = &set->slots.data[i];
        bool primary = e->kind == AISIM_EXTENT_PRIMARY;
        keys += primary ? e->count : 0;
        entries += primary || e->kind == AISIM_EXTENT_DUPLICATE ? e->count : 0;
    }
    lua_pushinteger(L, keys);
    lua_pushinteger(L, entries);
    return 2;
}

const luaL_Reg twin_part_methods[] = {
    {"lease_lookup", l_lease_lookup},   {"lease_extend", l_lease_extend},
    {"lease_advance", l_lease_advance}, {"lease_pages", l_lease_pages},
    {"pool_index", l_pool_index},       {"pool_take", l_pool_take},
    {"pool_publish", l_pool_publish},   {"pool_release", l_pool_release},
    {"pool_lookup", l_pool_lookup},     {"lease_allocate", l_lease_allocate},
    {"lease_opaque", l_lease_opaque},   {"lease_sample", l_lease_sample},
    {"lease_release", l_lease_release}, {NULL, NULL},
};
