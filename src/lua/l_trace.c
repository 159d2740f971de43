/* l_trace.c - trace files for scripts and for the verb `trace`: rows one by one, reuse figures,
 * graph traces as plays. Options have been checked by lua/aisim/trace.lua. */
#include "lua/l_trace.h"

#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/rng.h"
#include "lua/l_limits.h"
#include "lua/l_plays.h"
#include "workload/reuse.h"
#include "workload/trace_plays.h"
#include "workload/trace_reuse.h"

#define AISIM_L_TRACE "aisim.TraceRows"

static lua_Number number_field(lua_State *L, int table, const char *key, lua_Number absent)
{
    lua_Number value = lua_getfield(L, table, key) == LUA_TNIL ? absent : lua_tonumber(L, -1);
    lua_pop(L, 1);
    return value;
}

aisim_trace *aisim_l_open_trace(lua_State *L, int paths, int table)
{
    luaL_checktype(L, paths, LUA_TTABLE);
    luaL_checktype(L, table, LUA_TTABLE);
    uint32_t n = (uint32_t)lua_rawlen(L, paths);
    const char **list = lua_newuserdatauv(L, (n + 1) * sizeof *list, 0);
    for (uint32_t i = 0; i < n; i++) {
        lua_rawgeti(L, paths, (lua_Integer)i + 1);
        list[i] = luaL_checkstring(L, -1);
        lua_pop(L, 1); /* the list keeps it */
    }
    aisim_trace_options options = {.block_size = (uint32_t)number_field(L, table, "block_size", 0),
                                   .limit = (uint64_t)number_field(L, table, "limit", 0),
                                   .from_ns =
                                       aisim_ns_from_ms(number_field(L, table, "from_ms", 0)),
                                   .to_ns = aisim_ns_from_ms(number_field(L, table, "to_ms", 0)),
                                   .keep_failed = number_field(L, table, "keep_failed", 0) != 0,
                                   .interrupt = &aisim_l_limits_of(L)->tripped};
    lua_getfield(L, table, "format");
    options.format = aisim_trace_format_find(luaL_optstring(L, -1, "auto"));
    aisim_error err = {0};
    aisim_trace *trace = NULL;
    if (options.format == AISIM_TRACE_FORMAT_COUNT) {
        aisim_fail(&err, AISIM_EINVAL, "unknown format '%s'", lua_tostring(L, -1));
    } else {
        aisim_l_frame native;
        aisim_l_native_begin(L, &native);
        aisim_trace_open(list, n, &options, &trace, &err);
        aisim_l_native_end(L, &native);
    }
    if (trace == NULL) {
        aisim_l_raise(L, &err);
    }
    lua_pop(L, 2);
    return trace;
}

/* ---- rows ---- */

/* core.trace(paths, options) -> rows */
static int l_trace(lua_State *L)
{
    aisim_trace *trace = aisim_l_open_trace(L, 1, 2);
    aisim_trace **slot = lua_newuserdatauv(L, sizeof *slot, 0);
    *slot = trace;
    luaL_setmetatable(L, AISIM_L_TRACE);
    return 1;
}

static aisim_trace *check_trace(lua_State *L)
{
    aisim_trace **slot = luaL_checkudata(L, 1, AISIM_L_TRACE);
    return *slot;
}

static int trace_gc(lua_State *L)
{
    aisim_trace **slot = luaL_checkudata(L, 1, AISIM_L_TRACE);
    aisim_trace_close(*slot);
    *slot = NULL;
    return 0;
}

static void set_text(lua_State *L, const char *key, const char *value)
{
    if (value != NULL) {
        lua_pushstring(L, value);
        lua_setfield(L, -2, key);
    }
}

static void set_integer(lua_State *L, const char *key, lua_Integer value)
{
    lua_pushinteger(L, value);
    lua_setfield(L, -2, key);
}

static void set_time(lua_State *L, const char *key, int64_t t_ns)
{
    if (t_ns != AISIM_TRACE_UNKNOWN) {
        aisim_l_push_ms(L, t_ns);
        lua_setfield(L, -2, key);
    }
}

/* rows:next(with ids) -> a table, or nil at the end */
static int trace_next(lua_State *L)
{
    aisim_trace *trace = check_trace(L);
    bool ids = lua_toboolean(L, 2);
    aisim_trace_row row;
    bool found = false;
    aisim_error err = {0};
    if (aisim_trace_next(trace, &row, &found, &err) != AISIM_OK) {
        return aisim_l_raise(L, &err);
    }
    if (!found) {
        return 0;
    }
    lua_createtable(L, 0, 10);
    set_text(L, "id", row.id);
    set_text(L, "session", row.session);
    set_text(L, "play", row.play);
    set_text(L, "model", row.model);
    set_time(L, "arrival_ms", row.arrival_ns);
    set_time(L, "end_ms", row.end_ns);
    set_time(L, "delay_ms", row.delay_ns);
    set_integer(L, "input_tokens", row.input_tokens);
    set_integer(L, "output_tokens", row.output_tokens);
    set_integer(L, "blocks", row.id_count);
    set_integer(L, "line", row.line);
    if (row.has_kept) {
        set_integer(L, "kept_tokens", row.kept_tokens);
    }
    if (row.delta) {
        lua_pushboolean(L, 1);
        lua_setfield(L, -2, "delta");
    }
    if (row.failed) {
        lua_pushboolean(L, 1);
        lua_setfield(L, -2, "failed");
    }
    uint64_t largest = 0;
    for (uint32_t i = 0; i < row.n_ids; i++) {
        uint64_t last = row.ids[i].first + row.ids[i].count - 1;
        largest = last > largest ? last : largest;
    }
    if (row.n_ids > 0) {
        set_integer(L, "max_id", (lua_Integer)largest);
    }
    if (ids) { /* start, count, … */
        lua_createtable(L, (int)row.n_ids * 2, 0);
        for (uint32_t i = 0; i < row.n_ids; i++) {
            lua_pushinteger(L, (lua_Integer)row.ids[i].first);
            lua_rawseti(L, -2, 2 * (lua_Integer)i + 1);
            lua_pushinteger(L, (lua_Integer)row.ids[i].count);
            lua_rawseti(L, -2, 2 * (lua_Integer)i + 2);
        }
        lua_setfield(L, -2, "runs");
    }
    return 1;
}

static int trace_about(lua_State *L)
{
    const aisim_trace *trace = check_trace(L);
    lua_pushstring(L, aisim_trace_format_name(aisim_trace_format_of(trace)));
    lua_pushinteger(L, aisim_trace_block_size(trace));
    lua_pushboolean(L, aisim_trace_is_graph(trace));
    return 3;
}

/* core.trace_detect(path) -> name of the format */
static int l_trace_detect(lua_State *L)
{
    aisim_trace_format format = AISIM_TRACE_AUTO;
    aisim_error err = {0};
    if (aisim_trace_detect(luaL_checkstring(L, 1), &format, &err) != AISIM_OK) {
        return aisim_l_raise(L, &err);
    }
    lua_pushstring(L, aisim_trace_format_name(format));
    return 1;
}

/* core.trace_formats() -> list of { name, what a row is } */
static int l_trace_formats(lua_State *L)
{
    lua_createtable(L, AISIM_TRACE_FORMAT_COUNT, 0);
    for (int i = 0; i < AISIM_TRACE_FORMAT_COUNT; i++) {
        lua_createtable(L, 2, 0);
        lua_pushstring(L, aisim_trace_format_name((aisim_trace_format)i));
        lua_rawseti(L, -2, 1);
        lua_pushstring(L, aisim_trace_format_row((aisim_trace_format)i));
        lua_rawseti(L, -2, 2);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

/* core.trace_plays(paths, options) -> plays */
static int l_trace_plays(lua_State *L)
{
    aisim_trace *trace = aisim_l_open_trace(L, 1, 2);
    aisim_corpus *corpus = NULL;
    aisim_error err = {0};
    aisim_l_frame native;
    aisim_l_native_begin(L, &native);
    aisim_trace_plays(trace, &corpus, &err);
    aisim_l_native_end(L, &native);
    aisim_trace_close(trace);
    if (corpus == NULL) {
        return aisim_l_raise(L, &err);
    }
    aisim_l_push_plays(L)->corpus = corpus;
    return 1;
}

/* ---- reuse ---- */

typedef struct caches {
    uint32_t n;
    aisim_reuse_cache *list[64];
} caches;

static bool flag_field(lua_State *L, int table, const char *key)
{
    lua_getfield(L, table, key);
    bool value = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return value;
}

/* A list of { block_size, capacity, servers, full_only, head_first, ttl_ms } */
static caches *new_caches(lua_State *L, int table, uint32_t block_size)
{
    luaL_checktype(L, table, LUA_TTABLE);
    caches *all = aisim_alloc_zero(1, sizeof *all);
    uint32_t n = (uint32_t)lua_rawlen(L, table);
    for (uint32_t i = 0; i < n && i < 64; i++) {
        lua_rawgeti(L, table, (lua_Integer)i + 1);
        int at = lua_gettop(L);
        aisim_reuse_config config = {
            .block_size = (uint32_t)number_field(L, at, "block_size", block_size),
            .capacity_blocks = (uint64_t)number_field(L, at, "capacity", 0),
            .servers = (uint32_t)number_field(L, at, "servers", 1),
            .full_only = flag_field(L, at, "full_only"),
            .head_first = flag_field(L, at, "head_first"),
            .expires = number_field(L, at, "ttl_ms", -1) >= 0,
            .ttl_ns = aisim_ns_from_ms(number_field(L, at, "ttl_ms", 0))};
        config.block_size = config.block_size > 0 ? config.block_size : 1;
        all->list[all->n++] = aisim_reuse_new(&config);
        lua_pop(L, 1);
    }
    return all;
}

static void free_caches(caches *all)
{
    for (uint32_t i = 0; i < all->n; i++) {
        aisim_reuse_free(all->list[i]);
    }
    aisim_free(all);
}

static int push_results(lua_State *L, caches *all)
{
    lua_createtable(L, (int)all->n, 0);
    for (uint32_t i = 0; i < all->n; i++) {
        aisim_reuse_result r = aisim_reuse_get(all->list[i]);
        lua_createtable(L, 0, 8);
        set_integer(L, "requests", (lua_Integer)r.requests);
        set_integer(L, "input_tokens", (lua_Integer)r.input_tokens);
        set_integer(L, "blocks_looked_up", (lua_Integer)r.blocks_looked_up);
        set_integer(L, "hit_blocks", (lua_Integer)r.hit_blocks);
        set_integer(L, "reused_tokens", (lua_Integer)r.reused_tokens);
        set_integer(L, "requests_with_hit", (lua_Integer)r.requests_with_hit);
        set_integer(L, "evictions", (lua_Integer)r.evictions);
        set_integer(L, "resident_blocks_end", (lua_Integer)r.resident_blocks);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    free_caches(all);
    return 1;
}

/* core.trace_reuse(paths, options, caches) -> one result per cache; one pass over the files */
static int l_trace_reuse(lua_State *L)
{
    aisim_trace *trace = aisim_l_open_trace(L, 1, 2);
    caches *all = new_caches(L, 3, aisim_trace_block_size(trace));
    aisim_trace_row row;
    bool found = true;
    aisim_error err = {0};
    while (aisim_trace_next(trace, &row, &found, &err) == AISIM_OK && found) {
        uint64_t space = row.play != NULL ? aisim_hash_text(row.play) : 0;
        for (uint32_t i = 0; i < all->n; i++) {
            if (row.has_kept) {
                aisim_reuse_add_kept(all->list[i], row.kept_tokens, row.input_tokens);
            } else {
                aisim_reuse_add(all->list[i], space, row.ids, row.n_ids, row.block_size,
                                row.input_tokens, row.arrival_ns);
            }
        }
    }
    aisim_trace_close(trace);
    if (err.code != AISIM_OK) {
        free_caches(all);
        return aisim_l_raise(L, &err);
    }
    return push_results(L, all);
}

/* core.plays_reuse(plays, caches): plays one after the other, requests in node order */
static int l_plays_reuse(lua_State *L)
{
    const aisim_corpus *corpus = aisim_l_check_plays(L, 1)->corpus;
    caches *all = new_caches(L, 2, corpus->block_size);
    for (uint32_t p = 0; p < corpus->n_plays; p++) {
        const aisim_play *play = &corpus->plays[p];
        AISIM_ARRAY(aisim_id_run) ids = {0};
        for (uint32_t i = 0; i < play->n_requests; i++) {
            const aisim_play_request *r = &play->requests[i];
            uint64_t left = aisim_play_known_blocks(play, i);
            ids.len = 0;
            for (uint32_t k = 0; k < r->id_runs && left > 0; k++) {
                aisim_id_run run = play->ids[r->id_first + k];
                run.count = run.count < left ? run.count : left;
                left -= run.count;
                aisim_array_push(&ids, run);
            }
            for (uint32_t c = 0; c < all->n; c++) {
                aisim_reuse_add(all->list[c], p + 1u, ids.data, ids.len, play->block_size,
                                r->input_tokens, r->start_ns);
            }
        }
        aisim_array_free(&ids);
    }
    return push_results(L, all);
}

/* core.plays_ideal(plays, block size) -> input tokens, reused tokens */
static int l_plays_ideal(lua_State *L)
{
    const aisim_corpus *corpus = aisim_l_check_plays(L, 1)->corpus;
    uint32_t block = (uint32_t)luaL_checkinteger(L, 2);
    aisim_ideal_reuse reuse = aisim_ideal_reuse_corpus(corpus, block > 0 ? block : 1);
    lua_pushinteger(L, (lua_Integer)reuse.input_tokens);
    lua_pushinteger(L, (lua_Integer)reuse.reused_tokens);
    return 2;
}

void aisim_l_trace_register(lua_State *L)
{
    static const luaL_Reg functions[] = {{"trace", l_trace},
                                         {"trace_detect", l_trace_detect},
                                         {"trace_plays", l_trace_plays},
                                         {"trace_formats", l_trace_formats},
                                         {"trace_reuse", l_trace_reuse},
                                         {"plays_reuse", l_plays_reuse},
                                         {"plays_ideal", l_plays_ideal},
                                         {NULL, NULL}};
    static const luaL_Reg methods[] = {{"next", trace_next}, {"about", trace_about}, {NULL, NULL}};
    luaL_newmetatable(L, AISIM_L_TRACE);
    lua_pushcfunction(L, trace_gc);
    lua_setfield(L, -2, "__gc");
    luaL_newlib(L, methods);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
    luaL_setfuncs(L, functions, 0);
}
