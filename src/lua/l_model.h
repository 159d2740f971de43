/* l_model.h - a model on a machine: descriptors, capacity and pass timing; see l_model.c.
 *
 * Opaque on purpose: several rooms have names in common with the timing room, so l_model.c and
 * l_calibrate.c are the only files that see its descriptors. */
#ifndef AISIM_LUA_L_MODEL_H
#define AISIM_LUA_L_MODEL_H

#include "lua/l_base.h"
#include "timing/timing.h"

#define AISIM_L_MACHINE "aisim.Machine"

typedef struct aisim_l_machine aisim_l_machine;
struct aisim_model;
struct aisim_hardware;
struct aisim_parallelism;

/** Pushes an empty one: no model, one GPU. */
aisim_l_machine *aisim_l_push_machine(lua_State *L);

/** Fill in from a descriptor table at index (lua/aisim/models, lua/aisim/hardware). Raise for
 *  unknown keys and impossible values. */
void aisim_l_machine_model(lua_State *L, aisim_l_machine *machine, int table);
void aisim_l_machine_hardware(lua_State *L, aisim_l_machine *machine, int table);

/** tensor, pipeline, attention_data, moe_tensor, moe_expert. */
aisim_status aisim_l_machine_split(aisim_l_machine *machine, const uint32_t degrees[5],
                                   aisim_error *err);

/** What the model says, for one rank of this split. */
typedef struct aisim_l_machine_facts {
    const char *model; /**< NULL = none given */
    const char *hardware;
    uint64_t context_length;
    double bytes_per_token, state_bytes;
    double model_bytes_per_token, model_state_bytes; /**< of all GPUs that share a request */
    double gpus; /**< of one worker */
} aisim_l_machine_facts;
aisim_l_machine_facts aisim_l_machine_facts_of(const aisim_l_machine *machine);

/** KV blocks that fit (timing.md §8). */
aisim_status aisim_l_machine_blocks(const aisim_l_machine *machine, double memory_fraction,
                                    uint32_t max_batched_tokens, uint32_t block_size,
                                    uint32_t drafts, const char *pool, uint64_t *out,
                                    aisim_error *err);

enum { AISIM_L_MAX_FIXES = 8 };

/** What the key `timing` of an engine says, as plain numbers. */
typedef struct aisim_l_timing_spec {
    const char *type; /**< default, tables, roofline, fixed, linear, polynomial */
    double prefill_ms, decode_ms;
    double base_ms, per_prefill_token_ms, per_decode_ms, per_context_token_ms;
    double mfu, mbu;
    double pass_overhead_ms, prefill_layer_us;
    uint64_t graph_max_batch;
    bool serial, strict, per_request;
    double speedup;
    const char *path;        /**< tables: folder */
    const char *calibration; /**< default: text of the calibration, NULL = none for this hardware */
    const char *fixes[AISIM_L_MAX_FIXES];
    uint32_t n_fixes;
    uint64_t kv_capacity_tokens; /**< polynomial */
} aisim_l_timing_spec;

/** Builds a timing model. @return AISIM_OK, or EINVAL, ERANGE, ENOTMODELLED with a text. */
aisim_status aisim_l_machine_timing(const aisim_l_machine *machine, const aisim_l_timing_spec *spec,
                                    aisim_timing **out, aisim_error *err);

/** Its parts, for the files that see the timing room's descriptors. */
const struct aisim_model *aisim_l_machine_model_of(const aisim_l_machine *machine);
const struct aisim_hardware *aisim_l_machine_hardware_of(const aisim_l_machine *machine);
const struct aisim_parallelism *aisim_l_machine_parallelism_of(const aisim_l_machine *machine);

void aisim_l_model_register(lua_State *L);
void aisim_l_calibrate_register(lua_State *L);

#endif
