/* op.h - one operation of a forward pass, and the lists of them a model consists of.
 *
 * An operation has a kind, its sizes on one rank, and a count: how many layers launch it. What it
 * costs depends on the load of the pass (aisim_op_load). Lists follow timing.md §4; one builder per
 * architecture (op_list_*.c). Names are those of the reference's lists without the phase prefix;
 * attention carries its phase because a fused mixed pass has both. */
#ifndef AISIM_TIMING_OP_H
#define AISIM_TIMING_OP_H

#include <stdbool.h>
#include <stdint.h>

#include "timing/descriptors.h"

typedef enum {
    AISIM_OP_EMBEDDING,
    AISIM_OP_ELEMENTWISE,
    AISIM_OP_GEMM,
    AISIM_OP_PREFILL_ATTENTION,
    AISIM_OP_DECODE_ATTENTION,
    AISIM_OP_EXPERTS,
    AISIM_OP_MLA_PREFILL,
    AISIM_OP_MLA_DECODE,
    AISIM_OP_GDN_CONV,
    AISIM_OP_GDN_CONV_UPDATE,
    AISIM_OP_GDN_SCAN,
    AISIM_OP_GDN_RECURRENCE,
    AISIM_OP_ALL_REDUCE,
    AISIM_OP_ALL_GATHER,
    AISIM_OP_REDUCE_SCATTER,
    AISIM_OP_PIPELINE_HOP,
    AISIM_OP_KIND_COUNT
} aisim_op_kind;

/** Rows a GEMM sees. */
typedef enum {
    AISIM_ROWS_TOKENS, /**< every token of the pass */
    AISIM_ROWS_LOGITS  /**< only the positions that produce logits */
} aisim_op_rows;

/** Groups of an overlap: members of LEFT run beside members of RIGHT, the longer one counts. */
typedef enum { AISIM_SIDE_NONE, AISIM_SIDE_LEFT, AISIM_SIDE_RIGHT } aisim_op_side;

typedef struct aisim_op {
    const char *name;
    aisim_op_kind kind;
    double count;     /**< launches per pass, before the MTP factor */
    uint8_t overlap;  /**< 0 = none, else the number of the overlap it belongs to */
    uint8_t side;     /**< aisim_op_side */
    uint8_t dtype;    /**< aisim_dtype: weights; prefill attention: its arithmetic */
    uint8_t kv_dtype; /**< aisim_dtype of the KV cache, attention kinds */
    uint8_t curve;    /**< its decode curve (decode_curve.h); 0 = none */
    union {
        struct {
            uint64_t dim_in, dim_out; /**< elements read and written per token */
        } elementwise;                /**< also EMBEDDING (dim_in = table rows, dim_out = width) */
        struct {
            uint64_t n, k;
            uint8_t rows;      /**< aisim_op_rows */
            bool quantised_in; /**< the input is already in the low precision (§3.2) */
            bool narrow;       /**< so few outputs that no table need cover it (§3.2) */
        } gemm;
        struct {
            uint32_t heads, kv_heads, head_size, window;
            bool qk_norm;
        } attention;
        struct {
            uint64_t hidden, inter;
            uint32_t topk, experts, moe_tp, moe_ep, attn_dp;
            double skew;
        } experts;
        struct {
            uint32_t heads;
            uint32_t latent, nope, rope, value; /* widths: compressed KV, q/k parts, value */
            uint64_t weights;                   /* elements of the whole block, this rank */
        } mla;
        struct {
            uint64_t hidden;
            uint32_t key_heads, value_heads, head_size, conv_width;
        } gdn;
        struct {
            uint64_t width; /**< elements per token of this rank that take part */
            uint32_t gpus;
            uint32_t stages; /**< PIPELINE_HOP */
        } link;
    };
} aisim_op;

/** What a pass feeds to an operation. Which members an operation reads depends on its kind. */
typedef struct aisim_op_load {
    uint64_t tokens;     /**< x: tokens entering the operation on this rank */
    uint64_t logit_rows; /**< rows of the output head */
    uint64_t batch;      /**< b: sequences */
    uint64_t seq;        /**< s: new tokens per sequence */
    uint64_t past;       /**< p: past tokens per sequence */
    uint64_t context;    /**< len: attended length of a decode item, the new token included */
    bool items;          /**< the batch is that of the pass's items (§6 per request) */
    bool exact;          /**< context is one request's, not the mean of a batch (§3.4) */
} aisim_op_load;

typedef enum { AISIM_PHASE_PREFILL, AISIM_PHASE_DECODE } aisim_phase;

enum { AISIM_OP_LIST_MAX = 64 };

typedef struct aisim_op_list {
    uint32_t len;
    aisim_op ops[AISIM_OP_LIST_MAX];
} aisim_op_list;

/** Deviations from the reference's lists (timing.md §11); all false = the reference. */
typedef struct aisim_timing_fixes {
    bool
        block_gemm_floor; /**< Q1: block-FP8 GEMMs of decode passes without the host-launch floor */
    bool fringe_tokens;   /**< Q2: the fringe of attention grows with the tokens */
    bool mixed_logits;    /**< Q3: a fused pass computes logits for all rows that need them */
    bool moe_logits;      /**< Q4: the output head is part of MoE prefill lists (and weights) */
    bool mla_collectives; /**< Q5: two all-reduces per latent-attention layer, not four */
    bool mla_mixed;       /**< Q6: a mixed pass prices latent attention by phase */
    bool prefix_roof;     /**< Q9: a prefix never scales attention below the chunk's own roof */
} aisim_timing_fixes;

extern const aisim_field_table aisim_timing_fix_fields;

/** Builds the list of one phase. The model and the parallelism must have passed their checks. */
void aisim_op_list_build(aisim_op_list *list, const aisim_model *model,
                         const aisim_parallelism *parallelism, aisim_phase phase,
                         const aisim_timing_fixes *fixes);

/** Writes the sizes of an operation under a load ("m=2064 n=6144 k=4096 bfloat16"). */
void aisim_op_describe(const aisim_op *op, const aisim_op_load *load, char *out, size_t size);

/** Writes what an operation is apart from any load, as words "key=value": its type, its sizes on one
 *  rank and its number formats ("type=gemm n=6144 k=4096 dtype=bfloat16 quantised_in=0 narrow=0"). */
void aisim_op_sizes(const aisim_op *op, char *out, size_t size);

/** Class of a kind for reports: "gemm", "attention", "experts", "state", "link", "memory". */
const char *aisim_op_class_name(aisim_op_kind kind);

/** KV heads of one rank: ceil(kv / tensor), replicated beyond. */
uint32_t aisim_op_kv_heads(const aisim_model *model, uint32_t tensor);

#endif
