/* prediction.h - a whole YAML file (`aisim run FILE.yaml`): read, overridden, checked, resolved.
 *
 * Result: the resolved tree and one engine table per pool. The layer above builds the simulation by
 * reading the tree (every key of the schema that applies is there); nothing here builds anything.
 * Beside the tables of the schema these combinations are refused: load and source that do not go
 * together, a run without end, AgentX keys without the key they need, roles that the mode does not
 * have, kv_transfer without a transfer. */
#ifndef AISIM_CONFIG_PREDICTION_H
#define AISIM_CONFIG_PREDICTION_H

#include <stdint.h>

#include "aisim/config.h"
#include "config/value.h"

typedef struct aisim_prediction_pool {
    aisim_role role;
    const char *name;    /**< "aggregated", "prefill", "decode" */
    aisim_value *engine; /**< one role's worth, checked and resolved; input of aisim_config_rank */
} aisim_prediction_pool;

typedef struct aisim_prediction {
    aisim_value *tree; /**< object "prediction", every default written out */
    aisim_prediction_pool pools[2];
    uint32_t n_pools;
    double max_virtual_time_ms; /**< 0 = no such stop */
    double memory_limit_bytes;  /**< 0 = none */
    uint64_t digest;            /**< of the tree; the same for any order of keys in the file */
} aisim_prediction;

/** Reads a file and lays --set flags over it.
 *  @param sets      arguments "path=value" as typed, applied in order
 *  @param out       to be given to aisim_prediction_free; all zero on error
 *  @return AISIM_OK or what reading, --set and checking say. */
aisim_status aisim_prediction_file(const char *path, const char *const sets[], uint32_t n_sets,
                                   aisim_prediction *out, aisim_error *err);

/** Same for a tree that is already there. Takes tree. */
aisim_status aisim_prediction_tree(aisim_value *tree, const char *const sets[], uint32_t n_sets,
                                   aisim_prediction *out, aisim_error *err);

void aisim_prediction_free(aisim_prediction *prediction);

/** One role's worth of a checked deployment (the `engine` of a file): its engine keys and the keys
 *  of workers.<role> side by side, resolved. @param role  "aggregated", "prefill" or "decode" */
aisim_value *aisim_config_role(const aisim_value *deployment, const char *role);

#endif
