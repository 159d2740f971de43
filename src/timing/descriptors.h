/* descriptors.h - what the timing rules know about a model, a GPU and a way to spread one over the
 * other.
 *
 * Plain structs of figures. The catalogue (lua/aisim/models, lua/aisim/hardware) is data in the
 * same keys; aisim_model_fields and aisim_hardware_fields are the only list of them.
 * Source of the figures and of the rules that read them: spec/timing.md §1, §2, §4, §8. */
#ifndef AISIM_TIMING_DESCRIPTORS_H
#define AISIM_TIMING_DESCRIPTORS_H

#include <stdbool.h>
#include <stdint.h>

#include "aisim/status.h"
#include "timing/fields.h"

/** Number formats of weights and KV cache (timing.md §1). */
typedef enum {
    AISIM_DTYPE_BFLOAT16,   /**< 2 bytes, BF16 rate */
    AISIM_DTYPE_FP8,        /**< 1 byte, FP8 rate, dynamic per-token activation scales */
    AISIM_DTYPE_FP8_STATIC, /**< 1 byte, FP8 rate, per-tensor scales of the checkpoint */
    AISIM_DTYPE_FP8_BLOCK,  /**< 1 byte, FP8 rate, 128 x 128 blocks */
    AISIM_DTYPE_INT4,       /**< half a byte, BF16 rate (weight only) */
    AISIM_DTYPE_MXFP4,      /**< half a byte, BF16 rate (weight only) */
    AISIM_DTYPE_COUNT
} aisim_dtype;

/** "bfloat16", "fp8", "fp8_static", "fp8_block", "int4_wo", "w4a16_mxfp4", NULL. */
extern const char *const aisim_dtype_words[];

/** Bytes of one element. */
double aisim_dtype_bytes(aisim_dtype dtype);

/** Which op list a model has (timing.md §4). */
typedef enum {
    AISIM_ARCHITECTURE_DENSE, /**< grouped-query attention, one FFN */
    AISIM_ARCHITECTURE_MOE,   /**< grouped-query attention, experts instead of the FFN */
    AISIM_ARCHITECTURE_MLA,   /**< latent attention measured as one block, experts, shared expert */
    AISIM_ARCHITECTURE_HYBRID, /**< gated delta-net layers between full-attention layers */
    AISIM_ARCHITECTURE_COUNT
} aisim_architecture;

/** "dense", "moe", "mla", "hybrid", NULL. */
extern const char *const aisim_architecture_words[];

/** A checkpoint. All counts are of the whole model, before any parallelism; 0 = has none. */
typedef struct aisim_model {
    char name[AISIM_FIELD_TEXT_MAX];
    int architecture;        /**< aisim_architecture */
    uint32_t layers;         /**< L */
    uint32_t hidden;         /**< H */
    uint32_t intermediate;   /**< I of a dense FFN */
    uint32_t heads;          /**< n, attention heads */
    uint32_t kv_heads;       /**< kv */
    uint32_t head_size;      /**< h */
    uint32_t vocabulary;     /**< V */
    uint64_t context_length; /**< longest context the checkpoint was made for, tokens */
    bool qk_norm;            /**< normalises q and k per head: the fringe of §3.3 grows */
    bool gated_query;        /**< the q projection carries an output gate (twice as wide) */
    uint32_t window_layers;  /**< layers whose attention sees the last window_tokens only */
    uint32_t window_tokens;
    uint32_t experts;             /**< E */
    uint32_t experts_per_token;   /**< top k */
    uint32_t expert_intermediate; /**< inner size of one routed expert */
    double expert_skew;           /**< exponent of the routing power law; 0 = balanced */
    uint32_t shared_intermediate; /**< inner size of the shared expert(s) together */
    bool shared_gate;             /**< the shared expert has a scalar gate */
    uint32_t q_lora_rank;         /**< MLA: rank of the query compression */
    uint32_t kv_lora_rank;        /**< MLA: rank of the KV compression, cached per token */
    uint32_t qk_nope_head_size;   /**< MLA: part of a q/k head without positions */
    uint32_t qk_rope_head_size;   /**< MLA: part with positions, cached per token */
    uint32_t v_head_size;         /**< MLA */
    uint32_t linear_layers;       /**< hybrid: layers with a recurrent state instead of KV */
    uint32_t linear_key_heads;
    uint32_t linear_value_heads;
    uint32_t linear_head_size; /**< size of a key and of a value head */
    uint32_t conv_width;       /**< taps of the causal convolution */
    int gemm_dtype;            /**< aisim_dtype of dense weights */
    int moe_dtype;             /**< of expert weights */
    int kv_dtype;              /**< of the KV cache: bfloat16 or fp8 */
    int attention_dtype;       /**< arithmetic of prefill attention */
} aisim_model;

extern const aisim_field_table aisim_model_fields;

/** All zero, dtypes bfloat16, architecture dense. */
void aisim_model_init(aisim_model *model);

/** Checks that the figures its architecture needs are there and agree with each other.
 *  @return AISIM_OK or AISIM_EINVAL naming the missing or contradicting key. */
aisim_status aisim_model_check(const aisim_model *model, aisim_error *err);

/** One kind of GPU and the links between them. */
typedef struct aisim_hardware {
    char name[AISIM_FIELD_TEXT_MAX];
    double memory_bytes;           /**< HBM of one GPU */
    double memory_bytes_per_s;     /**< HBM bandwidth */
    double elementwise_efficiency; /**< share of the bandwidth element-wise kernels reach */
    double elementwise_launch_us;  /**< and what each costs besides */
    double bf16_flops;             /**< dense tensor rate, FLOP/s */
    double fp8_flops;
    double int8_flops;
    double link_bytes_per_s;     /**< per GPU and direction inside a node */
    double node_bytes_per_s;     /**< per GPU between nodes */
    double pipeline_hop_us;      /**< latency of a hop between pipeline stages */
    double host_bytes_per_s;     /**< one direction, to the host */
    uint32_t gpus_per_node;      /**< also the largest measured all-reduce group */
    double runtime_bytes;        /**< context, graphs, allocator slack: never for KV */
    double collective_bytes_tp2; /**< communication buffers of one GPU, by group size */
    double collective_bytes_tp4;
    double collective_bytes_tp8; /**< also for larger groups */
    double power_watts;          /**< reporting only */
} aisim_hardware;

extern const aisim_field_table aisim_hardware_fields;

/** All zero. */
void aisim_hardware_init(aisim_hardware *hardware);

/** @return AISIM_OK or AISIM_EINVAL naming the missing key. */
aisim_status aisim_hardware_check(const aisim_hardware *hardware, aisim_error *err);

/** FLOP/s of a GEMM with weights of @p dtype (weight-only formats compute in BF16). */
double aisim_hardware_rate(const aisim_hardware *hardware, aisim_dtype dtype);

/** Communication buffers of one GPU in a tensor group of @p tensor. */
double aisim_hardware_collective_bytes(const aisim_hardware *hardware, uint32_t tensor);

/** How one worker spreads a model. GPUs = tensor * pipeline * attention_data. */
typedef struct aisim_parallelism {
    uint32_t tensor, pipeline, attention_data, moe_tensor, moe_expert; /**< all >= 1 */
} aisim_parallelism;

/** All 1. */
aisim_parallelism aisim_parallelism_one(void);

/** Validity of a model spread this way (timing.md §2).
 *  @return AISIM_OK or AISIM_EINVAL; the message says what would be legal. */
aisim_status aisim_parallelism_check(const aisim_parallelism *parallelism, const aisim_model *model,
                                     aisim_error *err);

#endif
