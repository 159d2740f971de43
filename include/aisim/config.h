/* config.h - the resolved configuration of one pool, as plain numbers.
 *
 * This is what the engine reads. It is filled either by hand (C embedding) from
 * aisim_pool_config_default(), or by src/config from a YAML file, a Lua table or --set, which share
 * one schema (names: spec/config.md). Every field has the default named beside it. "0 = none" is
 * said where zero means absence. Rules: spec/engine.md §2, spec/reconciliation.md (R1..R25). */
#ifndef AISIM_CONFIG_H
#define AISIM_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "aisim/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { AISIM_ROLE_AGGREGATED, AISIM_ROLE_PREFILL, AISIM_ROLE_DECODE } aisim_role;
typedef enum { AISIM_POLICY_FCFS, AISIM_POLICY_PRIORITY } aisim_policy;
typedef enum { AISIM_PREEMPTION_LIFO, AISIM_PREEMPTION_FIFO } aisim_preemption;
typedef enum { AISIM_NEVER_FITS_REJECT, AISIM_NEVER_FITS_WAIT } aisim_never_fits; /* R1 */
typedef enum {
    AISIM_SELF_PREEMPTION_CONTINUE,
    AISIM_SELF_PREEMPTION_END_PASS
} aisim_self_preemption; /* R6 */
typedef enum {
    AISIM_OVERLAP_NONE,
    AISIM_OVERLAP_PIPELINED,
    AISIM_OVERLAP_ASYNC
} aisim_overlap;                                                                /* R7 */
typedef enum { AISIM_UNKEYED_FRONT, AISIM_UNKEYED_BACK } aisim_unkeyed_release; /* R8 */
typedef enum { AISIM_STATE_NONE, AISIM_STATE_ALIGNED, AISIM_STATE_LATEST } aisim_state_mode;
typedef enum {
    AISIM_SPLIT_FIXED,
    AISIM_SPLIT_LEGACY,
    AISIM_SPLIT_UPSTREAM
} aisim_align_split; /* R10 */
typedef enum {
    AISIM_CHECKPOINTS_PROMPT_BOUNDARY,
    AISIM_CHECKPOINTS_CHUNK_END
} aisim_checkpoints;                                                               /* R11 */
typedef enum { AISIM_SAME_PASS_IGNORE, AISIM_SAME_PASS_WAIT } aisim_same_pass_hit; /* R12 */
typedef enum { AISIM_EVICTION_LRU, AISIM_EVICTION_SCORED } aisim_eviction_rule;
typedef enum {
    AISIM_SPECULATION_NONE,
    AISIM_SPECULATION_NATIVE,
    AISIM_SPECULATION_BURST
} aisim_speculation_mode; /* R13 */
typedef enum { AISIM_STREAM_PER_REQUEST, AISIM_STREAM_WORKER } aisim_draw_stream;
typedef enum {
    AISIM_HOST_NONE,
    AISIM_HOST_RANK_LOCAL,    /* every rank its own pool */
    AISIM_HOST_CLUSTER_SHARED /* one pool for the deployment */
} aisim_host_scope;
typedef enum {
    AISIM_TIE_DEEPEST_FIRST,
    AISIM_TIE_KEY_ASC,
    AISIM_TIE_LISTED
} aisim_tie_break; /* R18 */
typedef enum {
    AISIM_CAPACITY_DEFAULT,
    AISIM_CAPACITY_FIXED,
    AISIM_CAPACITY_BYTES
} aisim_capacity_type;

enum { AISIM_MAX_DRAFTS = 5 };

/** scheduler.* and what else one rank schedules by (spec/engine.md §2). */
typedef struct aisim_scheduler_config {
    uint32_t max_batched_tokens;           /**< B, 8192, >= 1 */
    uint32_t max_sequences;                /**< S, 256, >= 1 */
    uint64_t context_length;               /**< M in tokens, 0 = no limit, else >= 2 */
    bool chunked_prefill;                  /**< true */
    aisim_policy policy;                   /**< fcfs */
    aisim_preemption preemption;           /**< lifo; ignored under priority */
    uint32_t prefill_schedule_interval;    /**< I, 1, >= 1 */
    uint32_t long_prefill_token_threshold; /**< R4, 0 = off */
    double watermark;                      /**< R3, 0 <= w < 1 */
    aisim_never_fits never_fits;           /**< R1, reject */
    bool reserve_full_prompt;              /**< R2, true */
    bool admit_at_zero_budget;             /**< R5, true */
    aisim_self_preemption self_preemption; /**< R6, continue */
    aisim_overlap overlap;                 /**< R7, none */
    uint32_t preempting_pass_limit;        /**< E-T8, 10000 consecutive passes without a token */
} aisim_scheduler_config;

/** kv_cache.* of one rank. */
typedef struct aisim_kv_config {
    uint32_t block_size;        /**< b in tokens, 64, >= 2 */
    uint64_t blocks;            /**< N, resolved from kv_cache.capacity, >= 1 */
    bool prefix_caching;        /**< true */
    uint32_t prefix_match_unit; /**< u in tokens, 0 = unset; divides b; aligned state cache only */
    double bytes_per_token;     /**< of one rank; from the model unless given; 0 = unknown */
    aisim_unkeyed_release unkeyed_release; /**< R8, front */
    aisim_eviction_rule eviction; /**< lru; scored: by the scheduler point evict (aisim/points.h) */
    aisim_state_mode state_mode;  /**< none */
    uint32_t state_blocks;        /**< k, blocks of one recurrent state; 0 without state cache */
    double state_bytes;           /**< per request, 0 without state cache */
    aisim_align_split align_split;     /**< R10, fixed */
    aisim_checkpoints checkpoints;     /**< R11, prompt_boundary */
    aisim_same_pass_hit same_pass_hit; /**< R12, ignore */
} aisim_kv_config;

enum { AISIM_LAYOUT_ID_SIZE = 64 };

/** kv_cache.host_offload.* (spec/offload.md §2). Bandwidths in decimal GB/s, 0 = unlimited. */
typedef struct aisim_host_config {
    aisim_host_scope scope;                  /**< none */
    uint64_t blocks;                         /**< of the rank's pool, or of the shared one; >= 1 */
    double d2h_gbps, h2d_gbps;               /**< of the rank, 32 */
    double shared_d2h_gbps, shared_h2d_gbps; /**< of the shared pool, 80 */
    double latency_ms;                       /**< to the first byte, 0 */
    char layout_id[AISIM_LAYOUT_ID_SIZE];    /**< shared: what participants must agree on */
    bool touch_prompt_on_lookup;             /**< true; false = only the matched run */
    bool touch_prompt_on_store;              /**< true */
    bool drop_applies_to_loads;              /**< true: mtp_drop_applies_to_host_run */
    aisim_tie_break tie_break;               /**< R18, deepest_first */
    bool refresh_on_load;                    /**< R19, true */
} aisim_host_config;

/** speculation.* (spec/mtp.md §1). */
typedef struct aisim_speculation_config {
    aisim_speculation_mode mode;               /**< none */
    uint32_t depth;                            /**< drafts per verification, 1..AISIM_MAX_DRAFTS */
    double acceptance_rates[AISIM_MAX_DRAFTS]; /**< conditional, each in [0,1] */
    uint64_t seed;                             /**< 42 */
    aisim_draw_stream stream;                  /**< per_request */
    bool drop_matched_block;                   /**< R14, true */
    uint32_t lookahead_slots;                  /**< R15, = depth */
    bool first_chunk_lookahead;                /**< R16, false */
    bool pad_first_decode;                     /**< R17, false */
} aisim_speculation_config;

/** Everything one rank is built from. */
typedef struct aisim_rank_config {
    aisim_scheduler_config scheduler;
    aisim_kv_config kv;
    aisim_speculation_config speculation;
    aisim_host_config host;
    uint32_t group_ranks; /**< ranks of its worker (attention_data), 1 */
    int64_t startup_ns;   /**< a worker added at run time is ready so much later, 0 */
} aisim_rank_config;

/** Fills the defaults named above; blocks stays 0 (must be set). */
void aisim_rank_config_default(aisim_rank_config *config);

/** Checks ranges and combinations that the engine itself cannot run (not the YAML-level ones).
 *  @return AISIM_OK, AISIM_ERANGE or AISIM_EINVAL with a text that names the key and the bound. */
aisim_status aisim_rank_config_check(const aisim_rank_config *config, aisim_error *err);

#ifdef __cplusplus
}
#endif
#endif
