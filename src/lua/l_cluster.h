/* l_cluster.h - pools and workers as scripts see them; see l_pool.c. */
#ifndef AISIM_LUA_L_CLUSTER_H
#define AISIM_LUA_L_CLUSTER_H

#include "base/array.h"
#include "config/value.h"
#include "lua/l_common.h"

#define AISIM_L_POOL "aisim.Pool"

/** What the Lua side knows of a pool beyond the engine. */
typedef struct aisim_l_pool_info {
    char *name;
    aisim_role role;
    char *line;   /**< "8 × qwen3-32b on h200_sxm, tp 2, 24310 blocks of 16 (auto)" */
    char *timing; /**< "default", "fixed", …, "function" */
    char *served; /**< name of the model, NULL = none */
    uint64_t context_length; /**< M, 0 = no limit */
    double gpus;  /**< of one worker */
    uint64_t blocks, batched_tokens; /**< of one rank */
    uint32_t block_size;
    aisim_value *configuration; /**< the engine table, resolved; owned */
    int machine;                /**< refs */
    struct aisim_timing *model; /**< of the pool, which owns it */
} aisim_l_pool_info;

typedef struct aisim_l_cluster {
    AISIM_ARRAY(aisim_l_pool_info) pools;
    AISIM_ARRAY(void *) timing_functions; /**< contexts of models written in Lua (l_timing.c) */
    int admission;                        /**< refs: function, LUA_NOREF = none */
    struct aisim_l_handoff *handoff;      /**< l_handoff.c; NULL = nobody spoke of it */
} aisim_l_cluster;

/** A pool of role prefill or decode says how transfers go (its engine table, kv_transfer); two that
 *  say different things are refused. @param who  "pool 'x'" or "sim:handoff". Raises */
void aisim_l_handoff_given(lua_State *L, aisim_l_sim *s, const char *who,
                           const aisim_value *transfer);
/** The link with overrides and defaults, written into the configurations of its two pools.
 *  @return it, of the prefill pool; NULL = there are not both pools. Raises */
const aisim_value *aisim_l_handoff_show(lua_State *L, aisim_l_sim *s);
/** The run begins: what the model tells, the link of the simulation. Raises */
void aisim_l_handoff_start(lua_State *L, aisim_l_sim *s);
void aisim_l_handoff_free(aisim_l_cluster *cluster);

void aisim_l_timing_functions_free(aisim_l_cluster *cluster);

/** The cluster of a simulation, created at first use. */
aisim_l_cluster *aisim_l_cluster_of(aisim_l_sim *s);

/** A pool named by a text or a pool object at a stack index. @return its index, from 0; raises */
uint32_t aisim_l_check_pool(lua_State *L, aisim_l_sim *s, int index);

/** "aggregated", "prefill", "decode". */
const char *aisim_l_role_text(aisim_role role);

/** `configuration` of the report: what every pool is, every default written out. */
struct aisim_results;
void aisim_l_configuration_report(aisim_l_sim *s, struct aisim_results *out);

/** Pushes the handle of a worker. */
void aisim_l_push_worker(lua_State *L, aisim_l_sim *s, uint32_t worker);

/** "completed", "rejected", "cancelled": what a router hears of an end. */
const char *aisim_l_status_text(uint8_t end);

#endif
