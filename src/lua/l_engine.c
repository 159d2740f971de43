/* l_engine.c - from the engine table of sim:pool to a pool of the engine. */
#include "lua/l_engine.h"

#include <string.h>

#include "lua/l_value.h"
#include "timing/timing.h"

static uint64_t number(const aisim_value *tree, const char *path, uint64_t absent)
{
    const aisim_value *v = aisim_value_find((aisim_value *)(uintptr_t)tree, path);
    return v == NULL ? absent : (uint64_t)aisim_value_as_real(v);
}

static bool flag(const aisim_value *tree, const char *path, bool absent)
{
    const aisim_value *v = aisim_value_find((aisim_value *)(uintptr_t)tree, path);
    return v == NULL ? absent : aisim_value_as_bool(v);
}

uint32_t aisim_l_engine_add(lua_State *L, aisim_l_sim *s, const char *name, const char *role,
                            int workers, int engine)
{
    (void)role;
    aisim_value *tree = aisim_l_to_value(L, engine, s);
    aisim_pool_config config = {.name = name, .role = AISIM_ROLE_AGGREGATED};
    config.workers = (uint32_t)luaL_optinteger(L, workers, 1);
    aisim_rank_config_default(&config.rank);
    config.rank.kv.block_size = (uint32_t)number(tree, "kv_cache.block_size", 64);
    config.rank.kv.blocks = number(tree, "kv_cache.capacity.blocks", 1000);
    config.rank.kv.prefix_caching = flag(tree, "kv_cache.prefix_caching", true);
    config.rank.scheduler.context_length = number(tree, "context_length", 0);
    config.rank.scheduler.max_batched_tokens =
        (uint32_t)number(tree, "scheduler.max_batched_tokens", 8192);
    config.rank.scheduler.max_sequences = (uint32_t)number(tree, "scheduler.max_sequences", 256);
    const aisim_value *policy = aisim_value_find(tree, "scheduler.policy");
    if (policy != NULL && strcmp(aisim_value_as_text(policy), "priority") == 0) {
        config.rank.scheduler.policy = AISIM_POLICY_PRIORITY;
    }
    aisim_error err = {0};
    uint32_t index = 0;
    aisim_status status =
        aisim_timing_fixed((double)number(tree, "timing.prefill_ms", 0),
                           (double)number(tree, "timing.decode_ms", 0), &config.timing, &err);
    aisim_value_free(tree);
    if (status == AISIM_OK) {
        status = aisim_sim_pool_add(s->sim, &config, &index, &err);
    }
    if (status != AISIM_OK) {
        aisim_timing_free(config.timing);
        aisim_l_raise(L, &err);
    }
    return index;
}
