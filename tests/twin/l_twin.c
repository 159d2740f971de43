/* l_twin.c - the twin as a Lua module, for tests.
 *
 *     local twin = require "aisim_twin"
 *     local t = twin.new{block_size = 4, num_blocks = 8, max_batched_tokens = 16, max_seqs = 2}
 *     t:submit{id = 1, prompt = {1, 2, 3}, output = 2}
 *     local record = t:pass()
 *
 * Configuration keys are those of vectors/engine.json, and for the options of reconciliation.md
 * their names there. Requests are integers: `id` is the caller's, `serial` counts from 0. Lists in
 * a record hold ids. Unknown keys are errors. */
#include <lauxlib.h>
#include <lua.h>
#include <string.h>

#include "l_twin.h"

#ifdef AISIM_ENGINE_DOUBLE
const char *const twin_type_name = "aisim_engine"; /* both modules in one process */
#else
const char *const twin_type_name = "aisim_twin";
#endif

twin *twin_check(lua_State *L)
{
    twin **at = luaL_checkudata(L, 1, twin_type_name);
    luaL_argcheck(L, *at != NULL, 1, "the twin has been freed");
    return *at;
}

static int choice(lua_State *L, int at, const char *key, const char *const names[])
{
    const char *name = luaL_checkstring(L, at);
    for (int i = 0; names[i] != NULL; i++) {
        if (strcmp(name, names[i]) == 0) {
            return i;
        }
    }
    return luaL_error(L, "%s: unknown value '%s'", key, name);
}

static void set_count(lua_State *L, const char *key, uint32_t *out)
{
    lua_Integer n = luaL_checkinteger(L, -1);
    if (n < 0 || n > UINT32_MAX - 1) {
        luaL_error(L, "%s out of range", key);
    }
    *out = (uint32_t)n;
}

/* --- configuration ---------------------------------------------------------------------------- */

static aisim_rank_config defaults(void)
{
    aisim_rank_config config = {0};
    config.host = (aisim_host_config){.d2h_gbps = 32.0,
                                      .h2d_gbps = 32.0,
                                      .shared_d2h_gbps = 80.0,
                                      .shared_h2d_gbps = 80.0,
                                      .touch_prompt_on_lookup = true,
                                      .touch_prompt_on_store = true,
                                      .drop_applies_to_loads = true,
                                      .refresh_on_load = true};
    config.scheduler.max_batched_tokens = 8192;
    config.scheduler.max_sequences = 256;
    config.scheduler.chunked_prefill = true;
    config.scheduler.prefill_schedule_interval = 1;
    config.scheduler.reserve_full_prompt = true;
    config.scheduler.admit_at_zero_budget = true;
    config.scheduler.preempting_pass_limit = 10000;
    config.kv.block_size = 64;
    config.kv.prefix_caching = true;
    config.speculation.seed = 42;
    config.speculation.drop_matched_block = true;
    config.speculation.lookahead_slots = UINT32_MAX;
    config.group_ranks = 1;
    return config;
}

static const char *const policies[] = {"fcfs", "priority", NULL};
static const char *const preemptions[] = {"lifo", "fifo", NULL};
static const char *const never_fits[] = {"reject", "wait", NULL};
static const char *const self_preemptions[] = {"continue", "end_pass", NULL};
static const char *const overlaps[] = {"none", "pipelined", "async", NULL};
static const char *const unkeyed[] = {"front", "back", NULL};
static const char *const state_modes[] = {"none", "aligned", "latest", NULL};
static const char *const splits[] = {"fixed", "legacy", "upstream", NULL};
static const char *const checkpoints[] = {"prompt_boundary", "chunk_end", NULL};
static const char *const same_pass[] = {"ignore", "wait", NULL};
static const char *const speculations[] = {"none", "native", "burst", NULL};
static const char *const streams[] = {"per_request", "worker", NULL};

static void read_mtp(lua_State *L, aisim_speculation_config *config)
{
    luaL_checktype(L, -1, LUA_TTABLE);
    lua_getfield(L, -1, "mode");
    config->mode = (aisim_speculation_mode)choice(L, -1, "mtp.mode", speculations);
    lua_getfield(L, -2, "depth");
    set_count(L, "mtp.depth", &config->depth);
    lua_getfield(L, -3, "accept");
    for (int i = 0; lua_istable(L, -1) && i < AISIM_MAX_DRAFTS; i++) {
        lua_geti(L, -1, i + 1);
        config->acceptance_rates[i] = lua_isnil(L, -1) ? 0.0 : luaL_checknumber(L, -1);
        lua_pop(L, 1);
    }
    lua_pop(L, 3);
}

static void read_state_cache(lua_State *L, aisim_kv_config *config)
{
    luaL_checktype(L, -1, LUA_TTABLE);
    lua_getfield(L, -1, "mode");
    config->state_mode = (aisim_state_mode)choice(L, -1, "state_cache.mode", state_modes);
    lua_getfield(L, -2, "blocks");
    set_count(L, "state_cache.blocks", &config->state_blocks);
    lua_pop(L, 2);
}

/* The table on top: keys of offload.json, section host. */
static void read_host(lua_State *L, aisim_host_config *config)
{
    static const char *const scopes[] = {"", "dp_rank_local", "cluster_shared", NULL};
    static const char *const connectors[] = {"offloading_v0_24", "offloading_v0_32", NULL};
    const struct {
        const char *key;
        double *out;
    } numbers[] = {{"d2h_gbps", &config->d2h_gbps},
                   {"h2d_gbps", &config->h2d_gbps},
                   {"shared_d2h_gbps", &config->shared_d2h_gbps},
                   {"shared_h2d_gbps", &config->shared_h2d_gbps},
                   {"latency_ms", &config->latency_ms}};
    static const char *const tie_breaks[] = {"deepest_first", "key_asc", "listed", NULL};
    luaL_checktype(L, -1, LUA_TTABLE);
    config->scope = AISIM_HOST_RANK_LOCAL;
    lua_pushnil(L);
    while (lua_next(L, -2) != 0) {
        const char *key = luaL_checkstring(L, -2);
        bool known = false;
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
            if (strcmp(key, numbers[i].key) == 0) {
                *numbers[i].out = luaL_checknumber(L, -1);
                known = true;
            }
        }
        if (strcmp(key, "num_host_blocks") == 0) {
            config->blocks = (uint64_t)luaL_checkinteger(L, -1);
        } else if (strcmp(key, "scope") == 0) {
            config->scope = (aisim_host_scope)choice(L, -1, key, scopes);
        } else if (strcmp(key, "connector") == 0) {
            bool old = choice(L, -1, key, connectors) == 0;
            config->touch_prompt_on_lookup = config->touch_prompt_on_store = old;
            config->drop_applies_to_loads = old;
        } else if (strcmp(key, "lru_tie_break") == 0) {
            config->tie_break = (aisim_tie_break)choice(L, -1, key, tie_breaks);
        } else if (strcmp(key, "refresh_on_load") == 0) {
            config->refresh_on_load = lua_toboolean(L, -1);
        } else if (!known) {
            luaL_error(L, "unknown key 'host.%s'", key);
        }
        lua_pop(L, 1);
    }
}

/* One key of the configuration, its value on top of the stack. @return false when unknown. */
static bool read_scheduler_key(lua_State *L, const char *key, aisim_scheduler_config *config)
{
#define IS(name) (strcmp(key, name) == 0)
    uint32_t n = 0;
    if (IS("max_batched_tokens")) {
        set_count(L, key, &config->max_batched_tokens);
    } else if (IS("max_seqs")) {
        set_count(L, key, &config->max_sequences);
    } else if (IS("max_model_len")) {
        set_count(L, key, &n);
        config->context_length = n;
    } else if (IS("chunked_prefill")) {
        config->chunked_prefill = lua_toboolean(L, -1);
    } else if (IS("policy")) {
        config->policy = (aisim_policy)choice(L, -1, key, policies);
    } else if (IS("preemption")) {
        config->preemption = (aisim_preemption)choice(L, -1, key, preemptions);
    } else if (IS("prefill_interval")) {
        set_count(L, key, &config->prefill_schedule_interval);
    } else if (IS("long_prefill_token_threshold")) {
        set_count(L, key, &config->long_prefill_token_threshold);
    } else if (IS("watermark")) {
        config->watermark = luaL_checknumber(L, -1);
    } else if (IS("never_fits")) {
        config->never_fits = (aisim_never_fits)choice(L, -1, key, never_fits);
    } else if (IS("reserve_full_prompt")) {
        config->reserve_full_prompt = lua_toboolean(L, -1);
    } else if (IS("admit_at_zero_budget")) {
        config->admit_at_zero_budget = lua_toboolean(L, -1);
    } else if (IS("self_preemption")) {
        config->self_preemption = (aisim_self_preemption)choice(L, -1, key, self_preemptions);
    } else if (IS("overlap")) {
        config->overlap = (aisim_overlap)choice(L, -1, key, overlaps);
    } else if (IS("preempting_pass_limit")) {
        set_count(L, key, &config->preempting_pass_limit);
    } else {
        return false;
    }
    return true;
}

static bool read_kv_key(lua_State *L, const char *key, aisim_kv_config *config)
{
    uint32_t n = 0;
    if (IS("block_size")) {
        set_count(L, key, &config->block_size);
    } else if (IS("num_blocks")) {
        set_count(L, key, &n);
        config->blocks = n;
    } else if (IS("prefix_caching")) {
        config->prefix_caching = lua_toboolean(L, -1);
    } else if (IS("prefix_match_unit")) {
        set_count(L, key, &config->prefix_match_unit);
    } else if (IS("unkeyed_release")) {
        config->unkeyed_release = (aisim_unkeyed_release)choice(L, -1, key, unkeyed);
    } else if (IS("align_split")) {
        config->align_split = (aisim_align_split)choice(L, -1, key, splits);
    } else if (IS("checkpoints")) {
        config->checkpoints = (aisim_checkpoints)choice(L, -1, key, checkpoints);
    } else if (IS("same_pass_hit")) {
        config->same_pass_hit = (aisim_same_pass_hit)choice(L, -1, key, same_pass);
    } else if (IS("state_cache")) {
        read_state_cache(L, config);
    } else {
        return false;
    }
    return true;
}

static bool read_speculation_key(lua_State *L, const char *key, aisim_speculation_config *config)
{
    if (IS("mtp")) {
        read_mtp(L, config);
    } else if (IS("seed")) {
        config->seed = (uint64_t)luaL_checkinteger(L, -1);
    } else if (IS("stream")) {
        config->stream = (aisim_draw_stream)choice(L, -1, key, streams);
    } else if (IS("drop_matched_block")) {
        config->drop_matched_block = lua_toboolean(L, -1);
    } else if (IS("lookahead_slots")) {
        set_count(L, key, &config->lookahead_slots);
    } else if (IS("first_chunk_lookahead")) {
        config->first_chunk_lookahead = lua_toboolean(L, -1);
    } else if (IS("pad_first_decode")) {
        config->pad_first_decode = lua_toboolean(L, -1);
    } else {
        return false;
    }
    return true;
#undef IS
}

static int l_new(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    aisim_rank_config config = defaults();
    uint32_t rank = 0;
    lua_pushnil(L);
    while (lua_next(L, 1) != 0) {
        luaL_argcheck(L, lua_type(L, -2) == LUA_TSTRING, 1, "keys must be strings");
        const char *key = lua_tostring(L, -2);
        if (strcmp(key, "rank") == 0) {
            set_count(L, key, &rank);
        } else if (strcmp(key, "host") == 0) {
            read_host(L, &config.host);
        } else if (strcmp(key, "bytes_per_token") == 0) {
            config.kv.bytes_per_token = luaL_checknumber(L, -1);
        } else if (!read_scheduler_key(L, key, &config.scheduler) &&
                   !read_kv_key(L, key, &config.kv) &&
                   !read_speculation_key(L, key, &config.speculation)) {
            return luaL_error(L, "unknown configuration key '%s'", key);
        }
        lua_pop(L, 1);
    }
    luaL_argcheck(L, config.kv.blocks >= 1 && config.kv.block_size >= 2, 1, "pool or block size");
    if (config.speculation.lookahead_slots == UINT32_MAX) {
        config.speculation.lookahead_slots = config.speculation.depth;
    }
    twin **at = lua_newuserdatauv(L, sizeof *at, 0);
    *at = NULL;
    luaL_setmetatable(L, twin_type_name);
    *at = twin_new(&config, rank);
    return 1;
}

static int l_free(lua_State *L)
{
    twin **at = luaL_checkudata(L, 1, twin_type_name);
#ifndef AISIM_ENGINE_DOUBLE
    twin_forget_connector(L, *at);
#endif
    twin_free(*at);
    *at = NULL;
    return 0;
}

/* --- commands --------------------------------------------------------------------------------- */

/* The list at the top of the stack as numbers; NULL for nil. */
uint64_t *twin_to_tokens(lua_State *L, uint32_t *n)
{
    *n = 0;
    if (lua_isnil(L, -1)) {
        return NULL;
    }
    luaL_checktype(L, -1, LUA_TTABLE);
    uint32_t len = (uint32_t)lua_rawlen(L, -1);
    uint64_t *tokens = lua_newuserdatauv(L, (len + 1) * sizeof *tokens, 0); /* L owns it */
    for (uint32_t i = 0; i < len; i++) {
        lua_geti(L, -2, (lua_Integer)i + 1);
        tokens[i] = (uint64_t)luaL_checkinteger(L, -1);
        lua_pop(L, 1);
    }
    *n = len;
    return tokens;
}

static bool flag(lua_State *L, int table, const char *key)
{
    lua_getfield(L, table, key);
    bool on = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return on;
}

lua_Integer twin_number(lua_State *L, int table, const char *key, lua_Integer other)
{
    lua_getfield(L, table, key);
    lua_Integer n = luaL_optinteger(L, -1, other);
    lua_pop(L, 1);
    return n;
}

/* Leaves the token arrays on the stack. */
static twin_submit_args check_args(lua_State *L, int table)
{
    luaL_checktype(L, table, LUA_TTABLE);
    luaL_checkstack(L, 8, NULL);
    twin_submit_args args = {0};
    args.id = (uint32_t)twin_number(L, table, "id", 0);
    args.output_len = (uint32_t)twin_number(L, table, "output", 0);
    args.priority = twin_number(L, table, "priority", 0);
    args.salt = (uint64_t)twin_number(L, table, "salt", 0);
    args.no_read = flag(L, table, "no_read");
    args.hold = flag(L, table, "hold");
    args.blocked = flag(L, table, "blocked");
    lua_getfield(L, table, "prompt");
    args.prompt = twin_to_tokens(L, &args.prompt_len);
    lua_getfield(L, table, "output_ids");
    args.output_ids = twin_to_tokens(L, &args.n_output_ids);
    return args;
}

static int l_submit(lua_State *L)
{
    twin *t = twin_check(L);
    twin_submit_args args = check_args(L, 2);
    uint32_t serial = twin_submit(t, &args);
    if (serial == TWIN_NONE) {
        lua_pushnil(L);
        lua_pushstring(L, "the id is live");
        return 2;
    }
    lua_pushinteger(L, serial);
    return 1;
}

static int l_reserve(lua_State *L)
{
    twin *t = twin_check(L);
    twin_submit_args args = check_args(L, 2);
    lua_pushboolean(L, twin_reserve(t, &args));
    return 1;
}

static int by_id(lua_State *L, bool (*function)(twin *, uint32_t))
{
    twin *t = twin_check(L);
    lua_pushboolean(L, function(t, (uint32_t)luaL_checkinteger(L, 2)));
    return 1;
}

static int l_cancel(lua_State *L)
{
    return by_id(L, twin_cancel);
}

static int l_unblock(lua_State *L)
{
    return by_id(L, twin_unblock);
}

static int l_activate(lua_State *L)
{
    return by_id(L, twin_activate);
}

static int l_release_source(lua_State *L)
{
    return by_id(L, twin_release_source);
}

static int l_reset(lua_State *L)
{
    twin *t = twin_check(L);
    lua_pushboolean(L, twin_reset(t, lua_toboolean(L, 2)));
    return 1;
}

static int l_set_budget(lua_State *L)
{
    twin *t = twin_check(L);
    twin_set_budget(t, (uint32_t)luaL_checkinteger(L, 2));
    return 0;
}

static int l_set_external(lua_State *L)
{
    twin *t = twin_check(L);
    twin_set_external(t, (uint32_t)luaL_checkinteger(L, 2));
    return 0;
}

static int l_defers(lua_State *L)
{
    twin *t = twin_check(L);
    lua_pushboolean(
        L, twin_defers(t, (uint32_t)luaL_checkinteger(L, 2), (uint64_t)luaL_checkinteger(L, 3)));
    return 1;
}

static int l_verify(lua_State *L)
{
    twin_verify(twin_check(L));
    return 0;
}

/* --- functions -------------------------------------------------------------------------------- */

static int l_align_split(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_getfield(L, 1, "kind");
    aisim_align_split kind = (aisim_align_split)choice(L, -1, "kind", splits);
    uint32_t prompt = (uint32_t)twin_number(L, 1, "prompt", 0);
    luaL_argcheck(L, prompt > 0, 1, "prompt must be at least 1");
    uint32_t tokens = twin_align_split(
        kind, (uint32_t)twin_number(L, 1, "block_size", 64), (uint32_t)twin_number(L, 1, "unit", 0),
        (uint32_t)twin_number(L, 1, "cap", 8192), flag(L, 1, "drop"),
        (uint32_t)twin_number(L, 1, "junction", 0), (uint32_t)twin_number(L, 1, "start", 0), prompt,
        (uint32_t)twin_number(L, 1, "known", prompt), (uint32_t)twin_number(L, 1, "desired", 0));
    lua_pushinteger(L, tokens);
    return 1;
}

/* draw(seed, rank, request, step, {rate, …}) -> accepted drafts */
static int l_draw(lua_State *L)
{
    double rates[AISIM_MAX_DRAFTS] = {0};
    luaL_checktype(L, 5, LUA_TTABLE);
    uint32_t n = (uint32_t)lua_rawlen(L, 5);
    luaL_argcheck(L, n <= AISIM_MAX_DRAFTS, 5, "too many rates");
    for (uint32_t i = 0; i < n; i++) {
        lua_geti(L, 5, (lua_Integer)i + 1);
        rates[i] = luaL_checknumber(L, -1);
        lua_pop(L, 1);
    }
    lua_pushinteger(L,
                    twin_draw((uint64_t)luaL_checkinteger(L, 1), (uint32_t)luaL_checkinteger(L, 2),
                              (uint64_t)luaL_checkinteger(L, 3), (uint64_t)luaL_checkinteger(L, 4),
                              rates, n));
    return 1;
}

static const luaL_Reg methods[] = {
    {"submit", l_submit},   {"cancel", l_cancel},         {"unblock", l_unblock},
    {"reserve", l_reserve}, {"activate", l_activate},     {"release_source", l_release_source},
    {"reset", l_reset},     {"set_budget", l_set_budget}, {"set_external", l_set_external},
    {"defers", l_defers},   {"verify", l_verify},         {"free", l_free},
    {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"new", l_new},
    {"align_split", l_align_split},
    {"draw", l_draw},
    {NULL, NULL},
};

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
int luaopen_aisim_twin(lua_State *L);

int luaopen_aisim_twin(lua_State *L)
{
    luaL_newmetatable(L, twin_type_name);
    lua_newtable(L);
    luaL_setfuncs(L, methods, 0);
    luaL_setfuncs(L, twin_record_methods, 0);
    luaL_setfuncs(L, twin_part_methods, 0);
#ifdef AISIM_ENGINE_DOUBLE
    luaL_setfuncs(L, twin_tier_methods, 0);
#else
    luaL_setfuncs(L, twin_external_methods, 0);
#endif
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, l_free);
    lua_setfield(L, -2, "__gc");
    lua_pop(L, 1);
    luaL_newlib(L, functions);
#ifdef AISIM_ENGINE_DOUBLE
    twin_host_open(L);
    luaL_setfuncs(L, twin_host_functions, 0);
#else
    lua_pushboolean(L, true);
    lua_setfield(L, -2, "has_connector");
#endif
    return 1;
}
