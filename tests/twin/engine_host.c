/* engine_host.c - the product's host tier alone, for Lua: keys of the vectors are blocks of one
 * content run, so neighbouring keys share extents. Times are milliseconds. */
#include "base/check.h"
#include "base/clock.h"
#include "engine_internal.h"
#include "host/host.h"
#include "l_twin.h"

static const char type_name[] = "aisim.test.host";

typedef struct host_test {
    aisim_content *content;
    aisim_host_group *group;
    aisim_host *host;
    uint32_t run;
    aisim_host_stretches keys; /* scratch */
} host_test;

static host_test *check_host(lua_State *L)
{
    return luaL_checkudata(L, 1, type_name);
}

static double number(lua_State *L, const char *key, double other)
{
    lua_getfield(L, 1, key);
    double value = lua_isnil(L, -1) ? other : luaL_checknumber(L, -1);
    lua_pop(L, 1);
    return value;
}

/* host{capacity_blocks, block_bytes, d2h_gbps, h2d_gbps, latency_ms, tie_break, keep_on_load};
 * tie_break counts the values of lru_tie_break from 0 */
static int l_host_new(lua_State *L)
{
    aisim_rank_config config;
    aisim_rank_config_default(&config);
    luaL_checktype(L, 1, LUA_TTABLE);
    config.host.scope = AISIM_HOST_RANK_LOCAL;
    config.host.blocks = (uint64_t)number(L, "capacity_blocks", 0);
    config.host.d2h_gbps = number(L, "d2h_gbps", 32);
    config.host.h2d_gbps = number(L, "h2d_gbps", 32);
    config.host.latency_ms = number(L, "latency_ms", 0);
    config.host.tie_break = (aisim_tie_break)number(L, "tie_break", AISIM_TIE_DEEPEST_FIRST);
    config.host.refresh_on_load = number(L, "keep_on_load", 0) <= 0;
    uint32_t b = (uint32_t)number(L, "block_size", 4);
    double bytes = number(L, "block_bytes", 1e6);
    host_test *t = lua_newuserdatauv(L, sizeof *t, 0);
    *t = (host_test){.content = aisim_content_new()};
    luaL_setmetatable(L, type_name);
    t->run = aisim_content_append_private(t->content, AISIM_ROOT, 100000 * b).run;
    t->group = aisim_host_group_new(t->content, &config.host, b, bytes);
    t->host = aisim_host_join(t->group, &config.host, b, bytes, NULL);
    t->group->pool.listening = true;
    return 1;
}

static int l_host_free(lua_State *L)
{
    host_test *t = check_host(L);
    aisim_host_group_free(t->group);
    aisim_content_release(t->content, t->run);
    aisim_content_free(t->content);
    aisim_array_free(&t->keys);
    return 0;
}

/* The list at `at` as stretches in its order. */
static void read_keys(lua_State *L, int at, host_test *t)
{
    luaL_checktype(L, at, LUA_TTABLE);
    t->keys.len = 0;
    for (lua_Integer i = 1; i <= (lua_Integer)lua_rawlen(L, at); i++) {
        lua_geti(L, at, i);
        uint32_t key = (uint32_t)luaL_checkinteger(L, -1);
        lua_pop(L, 1);
        aisim_host_stretch *last = t->keys.len > 0 ? &t->keys.data[t->keys.len - 1] : NULL;
        if (last != NULL && last->first + last->count == key) {
            last->count++;
        } else {
            aisim_array_push(&t->keys, (aisim_host_stretch){t->run, key, 1});
        }
    }
}

static int64_t check_ns(lua_State *L, int at)
{
    return aisim_ns_from_ms(luaL_checknumber(L, at));
}

static void push_evicted(lua_State *L, host_test *t)
{
    lua_newtable(L);
    lua_Integer n = 0;
    for (uint32_t i = 0; i < t->group->pool.changes.len; i++) {
        const aisim_host_change *c = &t->group->pool.changes.data[i];
        for (uint32_t k = 0; !c->stored && k < c->blocks.count; k++) {
            uint32_t back = c->blocks.first + c->blocks.count - 1 - k;
            lua_pushinteger(L, c->deep_first ? back : c->blocks.first + k);
            lua_seti(L, -2, ++n);
        }
    }
    t->group->pool.changes.len = 0;
}

static void push_cohort(lua_State *L, const aisim_host_stretches *cohort)
{
    lua_newtable(L);
    lua_Integer n = 0;
    for (uint32_t i = 0; i < cohort->len; i++) {
        for (uint32_t k = 0; k < cohort->data[i].count; k++) {
            lua_pushinteger(L, cohort->data[i].first + k);
            lua_seti(L, -2, ++n);
        }
    }
}

static const char *const admissions[] = {"prepared", "already_present", "retry", "unfittable"};

/* prepare(keys, t) -> "prepared", id, stored keys, evicted keys | another outcome */
static int l_prepare(lua_State *L)
{
    host_test *t = check_host(L);
    uint32_t job;
    read_keys(L, 2, t);
    t->group->pool.changes.len = 0;
    aisim_host_admission result =
        aisim_host_prepare_range(t->host, t->keys.data, t->keys.len, 0, 1, check_ns(L, 3), &job);
    lua_pushstring(L, admissions[result]);
    if (result != AISIM_HOST_PREPARED) {
        return 1;
    }
    lua_pushinteger(L, (lua_Integer)aisim_host_job_at(t->host, job)->id);
    push_cohort(L, &aisim_host_job_at(t->host, job)->cohort);
    push_evicted(L, t);
    return 4;
}

static void push_job(lua_State *L, const aisim_host_job *job)
{
    lua_createtable(L, 0, 3);
    lua_pushinteger(L, (lua_Integer)job->id);
    lua_setfield(L, -2, "id");
    lua_pushstring(L, job->kind == AISIM_HOST_STORE ? "store" : "load");
    lua_setfield(L, -2, "kind");
    lua_pushnumber(L, aisim_ms_from_ns(job->done_ns));
    lua_setfield(L, -2, "done_ms");
}

/* submit(t) -> list of {id, kind, done_ms} */
static int l_submit_stores(lua_State *L)
{
    host_test *t = check_host(L);
    lua_newtable(L);
    uint32_t job;
    for (lua_Integer n = 1; (job = aisim_host_submit(t->host, check_ns(L, 2))) != AISIM_NONE; n++) {
        push_job(L, aisim_host_job_at(t->host, job));
        lua_seti(L, -2, n);
    }
    return 1;
}

/* tick(t) -> list of {id, kind, done_ms} */
static int l_tick(lua_State *L)
{
    host_test *t = check_host(L);
    lua_newtable(L);
    uint32_t job;
    for (lua_Integer n = 1; (job = aisim_host_done(t->host, check_ns(L, 2))) != AISIM_NONE; n++) {
        push_job(L, aisim_host_job_at(t->host, job));
        lua_seti(L, -2, n);
        aisim_host_forget(t->host, job);
    }
    aisim_host_verify(t->host);
    return 1;
}

/* load(keys, t, not_before) -> nil (something is not ready) | {id, done_ms} */
static int l_load(lua_State *L)
{
    host_test *t = check_host(L);
    int64_t now_ns = check_ns(L, 3), start_ns = aisim_ns_from_ms(luaL_optnumber(L, 4, 0));
    read_keys(L, 2, t);
    for (uint32_t i = 0; i < t->keys.len; i++) {
        aisim_host_stretch s = t->keys.data[i];
        aisim_host_match m =
            aisim_host_pool_match(&t->group->pool, s.run, s.first, s.first + s.count);
        if (m.blocks < s.count || m.pending) {
            return 0;
        }
    }
    uint32_t job = aisim_host_load_range(t->host, t->keys.data, t->keys.len, 0, 2,
                                         start_ns > now_ns ? start_ns : now_ns, now_ns);
    push_job(L, aisim_host_job_at(t->host, job));
    return 1;
}

/* cancel(id, t) */
static int l_cancel_load(lua_State *L)
{
    host_test *t = check_host(L);
    uint64_t id = (uint64_t)luaL_checkinteger(L, 2);
    for (uint32_t i = 0; i < t->host->loads.len; i++) {
        if (aisim_host_job_at(t->host, t->host->loads.data[i])->id == id) {
            aisim_host_withdraw(t->host, t->host->loads.data[i]);
        }
    }
    aisim_host_cancel_withdrawn(t->host, check_ns(L, 3));
    return 0;
}

/* next() -> ms of the next completion, nil = none */
static int l_next(lua_State *L)
{
    int64_t next_ns = aisim_host_next(check_host(L)->host);
    if (next_ns == AISIM_NEVER) {
        return 0;
    }
    lua_pushnumber(L, aisim_ms_from_ns(next_ns));
    return 1;
}

/* touch(keys): one after the other, each newer */
static int l_touch(lua_State *L)
{
    host_test *t = check_host(L);
    read_keys(L, 2, t);
    for (uint32_t i = 0; i < t->keys.len; i++) {
        for (uint32_t k = 0; k < t->keys.data[i].count; k++) {
            aisim_host_stretch one = {t->run, t->keys.data[i].first + k, 1};
            aisim_host_pool_touch(&t->group->pool, one);
        }
    }
    return 0;
}

/* state(key) -> "hit", "pending", "miss" */
static int l_state(lua_State *L)
{
    host_test *t = check_host(L);
    uint32_t key = (uint32_t)luaL_checkinteger(L, 2);
    aisim_host_match m = aisim_host_pool_match(&t->group->pool, t->run, key, key + 1);
    lua_pushstring(L, m.blocks == 0 ? "miss" : m.pending ? "pending" : "hit");
    return 1;
}

/* lru() -> evictable and pinned keys, next victim first */
static int l_lru(lua_State *L)
{
    const aisim_host_pool *pool = &check_host(L)->group->pool;
    lua_newtable(L);
    lua_Integer n = 0;
    for (uint32_t i = pool->lru_first; i != AISIM_NONE; i = pool->slots.data[i].lru_next) {
        const aisim_host_extent *e = &pool->slots.data[i];
        for (uint32_t k = 0; k < e->count; k++) {
            lua_pushinteger(L, e->ascending ? e->first + k : e->first + e->count - 1 - k);
            lua_seti(L, -2, ++n);
        }
    }
    return 1;
}

/* settle(keys, what): "land" or "drop" those of them that are pending, "pin", "unpin" */
static int l_settle(lua_State *L)
{
    static const char *const whats[] = {"land", "drop", "pin", "unpin", NULL};
    host_test *t = check_host(L);
    aisim_host_pool *pool = &t->group->pool;
    int what = luaL_checkoption(L, 3, NULL, whats);
    read_keys(L, 2, t);
    for (uint32_t i = 0; i < t->keys.len && what < 2;) { /* of a stretch some may be resident */
        aisim_host_stretch *s = &t->keys.data[i];
        aisim_host_match m = aisim_host_pool_match(pool, s->run, s->first, s->first + 1);
        if (s->count > 1) {
            aisim_array_push(&t->keys, (aisim_host_stretch){0});
            for (uint32_t j = t->keys.len - 1; j > i + 1; j--) {
                t->keys.data[j] = t->keys.data[j - 1];
            }
            s = &t->keys.data[i];
            t->keys.data[i + 1] = (aisim_host_stretch){s->run, s->first + 1, s->count - 1};
            s->count = 1;
        }
        if (m.blocks == 1 && m.pending) {
            i++;
        } else {
            aisim_array_remove(&t->keys, i);
        }
    }
    void (*const calls[])(aisim_host_pool *, const aisim_host_stretch *, uint32_t) = {
        aisim_host_pool_land, aisim_host_pool_drop, aisim_host_pool_pin, aisim_host_pool_unpin};
    calls[what](pool, t->keys.data, t->keys.len);
    aisim_host_pool_verify(pool);
    return 0;
}

/* lookup(prompt_blocks, device_blocks) -> outcome, blocks */
static int l_lookup(lua_State *L)
{
    static const char *const outcomes[] = {"miss", "hit", "deferred"};
    host_test *t = check_host(L);
    aisim_host_query query = {t->run, (uint32_t)luaL_checkinteger(L, 2),
                              (uint32_t)luaL_checkinteger(L, 3), 3};
    uint32_t blocks;
    lua_pushstring(L, outcomes[aisim_host_lookup(t->host, &query, &blocks)]);
    lua_pushinteger(L, blocks);
    return 2;
}

/* headroom(known, lookahead, limit, block_size, owned) -> blocks */
static int l_headroom(lua_State *L)
{
    lua_pushinteger(L, (lua_Integer)aisim_headroom_of(
                           (uint64_t)luaL_checkinteger(L, 1), (uint64_t)luaL_checkinteger(L, 2),
                           (uint64_t)luaL_checkinteger(L, 3), (uint32_t)luaL_checkinteger(L, 4),
                           (uint64_t)luaL_checkinteger(L, 5)));
    return 1;
}

/* available(blocks, active, headroom) -> blocks */
static int l_available(lua_State *L)
{
    lua_pushinteger(L, (lua_Integer)aisim_load_available((uint64_t)luaL_checkinteger(L, 1),
                                                         (uint64_t)luaL_checkinteger(L, 2),
                                                         (uint64_t)luaL_checkinteger(L, 3)));
    return 1;
}

/* fair_link({{id, client, dir, submit, bytes, client_gbps, shared_gbps, latency_ms}, …}, {{t, id},
 * …}) -> {{id, at_ms}, …} in order of time. Clients are numbered from 0. */
static double field(lua_State *L, int list, lua_Integer i, const char *key)
{
    lua_geti(L, list, i);
    lua_getfield(L, -1, key);
    double value = luaL_checknumber(L, -1);
    lua_pop(L, 2);
    return value;
}

static void step_to(lua_State *L, aisim_fair_link *link, int64_t t_ns, lua_Integer *n)
{
    aisim_fair_dones done = {0};
    int64_t at_ns;
    while (aisim_fair_link_step(link, t_ns, &at_ns, &done)) {
        for (uint32_t i = 0; i < done.len; i++) {
            lua_createtable(L, 0, 2);
            lua_pushinteger(L, (lua_Integer)done.data[i].id);
            lua_setfield(L, -2, "id");
            lua_pushnumber(L, aisim_ms_from_ns(at_ns));
            lua_setfield(L, -2, "at_ms");
            lua_seti(L, -2, ++*n);
        }
    }
    aisim_array_free(&done);
}

static aisim_link_direction direction_of(lua_State *L, lua_Integer job)
{
    lua_geti(L, 1, job);
    lua_getfield(L, -1, "dir");
    bool reads = *luaL_checkstring(L, -1) == 'r';
    lua_pop(L, 2);
    return reads ? AISIM_LINK_READ : AISIM_LINK_WRITE;
}

/* fair_link({job, …}, {cancel, …}): both by time, clients numbered from 0 */
static int l_fair_link(lua_State *L)
{
    lua_Integer jobs = (lua_Integer)lua_rawlen(L, 1), cancels = (lua_Integer)lua_rawlen(L, 2);
    lua_Integer next_job = 1, next_cancel = 1, n = 0;
    aisim_fair_link link;
    aisim_fair_link_init(&link, 0, 0);
    for (lua_Integer i = 1; i <= jobs; i++) { /* a client and the pool have a rate per direction */
        uint32_t client = (uint32_t)field(L, 1, i, "client");
        while (client >= link.clients.len) {
            aisim_fair_link_join(&link, 0, 0, 0);
        }
        aisim_link_direction direction = direction_of(L, i);
        link.clients.data[client].rate[direction] = field(L, 1, i, "client_gbps");
        link.rate[direction] = field(L, 1, i, "shared_gbps");
    }
    lua_newtable(L);
    while (next_job <= jobs || next_cancel <= cancels) {
        double job_ms = next_job <= jobs ? field(L, 1, next_job, "submit") : HUGE_VAL;
        double cancel_ms = next_cancel <= cancels ? field(L, 2, next_cancel, "t") : HUGE_VAL;
        int64_t t_ns = aisim_ns_from_ms(job_ms <= cancel_ms ? job_ms : cancel_ms);
        step_to(L, &link, t_ns, &n);
        if (job_ms <= cancel_ms) {
            uint64_t id = (uint64_t)field(L, 1, next_job, "id");
            uint32_t client = (uint32_t)field(L, 1, next_job, "client");
            link.clients.data[client].latency_ns =
                aisim_ns_from_ms(field(L, 1, next_job, "latency_ms"));
            aisim_fair_link_submit(&link, t_ns, id, 0, client, direction_of(L, next_job),
                                   field(L, 1, next_job, "bytes"));
            next_job++;
        } else {
            aisim_fair_link_cancel(&link, t_ns, (uint64_t)field(L, 2, next_cancel, "id"));
            next_cancel++;
        }
    }
    step_to(L, &link, AISIM_NEVER / 4, &n);
    aisim_fair_link_deinit(&link);
    return 1;
}

static const luaL_Reg host_methods[] = {
    {"prepare", l_prepare}, {"submit", l_submit_stores}, {"tick", l_tick},     {"load", l_load},
    {"next", l_next},       {"cancel", l_cancel_load},   {"touch", l_touch},   {"state", l_state},
    {"lru", l_lru},         {"settle", l_settle},        {"lookup", l_lookup}, {NULL, NULL},
};

const luaL_Reg twin_host_functions[] = {
    {"host", l_host_new},
    {"headroom", l_headroom},
    {"available", l_available},
    {"fair_link", l_fair_link},
    {NULL, NULL},
};

void twin_host_open(lua_State *L)
{
    luaL_newmetatable(L, type_name);
    lua_newtable(L);
    luaL_setfuncs(L, host_methods, 0);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, l_host_free);
    lua_setfield(L, -2, "__gc");
    lua_pop(L, 1);
}
