/* table_family.c - where operations lie in the tables, and back. */
#include "timing/table.h"

#include <math.h>
#include <string.h>

#include "base/check.h"

typedef struct family_info {
    uint32_t axes, sqrt_axis;
    aisim_op_kind kind;
} family_info;

static const family_info families[AISIM_FAMILY_COUNT] = {
    [AISIM_FAMILY_GEMM] = {1, AISIM_TABLE_AXES, AISIM_OP_GEMM},
    [AISIM_FAMILY_PREFILL_ATTENTION] = {3, 1, AISIM_OP_PREFILL_ATTENTION},
    [AISIM_FAMILY_DECODE_ATTENTION] = {3, AISIM_TABLE_AXES, AISIM_OP_DECODE_ATTENTION},
    [AISIM_FAMILY_EXPERTS] = {1, AISIM_TABLE_AXES, AISIM_OP_EXPERTS},
    [AISIM_FAMILY_MLA_PREFILL] = {3, 1, AISIM_OP_MLA_PREFILL},
    [AISIM_FAMILY_MLA_DECODE] = {3, AISIM_TABLE_AXES, AISIM_OP_MLA_DECODE},
    [AISIM_FAMILY_GDN_CONV] = {2, AISIM_TABLE_AXES, AISIM_OP_GDN_CONV},
    [AISIM_FAMILY_GDN_CONV_UPDATE] = {1, AISIM_TABLE_AXES, AISIM_OP_GDN_CONV_UPDATE},
    [AISIM_FAMILY_GDN_SCAN] = {2, AISIM_TABLE_AXES, AISIM_OP_GDN_SCAN},
    [AISIM_FAMILY_GDN_RECURRENCE] = {1, AISIM_TABLE_AXES, AISIM_OP_GDN_RECURRENCE},
    [AISIM_FAMILY_ALL_REDUCE] = {1, AISIM_TABLE_AXES, AISIM_OP_ALL_REDUCE},
    [AISIM_FAMILY_ALL_GATHER] = {1, AISIM_TABLE_AXES, AISIM_OP_ALL_GATHER},
    [AISIM_FAMILY_REDUCE_SCATTER] = {1, AISIM_TABLE_AXES, AISIM_OP_REDUCE_SCATTER},
    [AISIM_FAMILY_COMPUTE_SCALE] = {2, AISIM_TABLE_AXES, AISIM_OP_KIND_COUNT},
    [AISIM_FAMILY_SCALE_MATRIX] = {2, AISIM_TABLE_AXES, AISIM_OP_KIND_COUNT},
};

uint32_t aisim_family_axes(aisim_family family)
{
    return families[family].axes;
}

uint32_t aisim_family_sqrt_axis(aisim_family family)
{
    return families[family].sqrt_axis;
}

/* Axes are 32 bits wide: the largest message (2^32 elements) is far beyond any table. */
static uint32_t clip(uint64_t x)
{
    return x > UINT32_MAX ? UINT32_MAX : (uint32_t)x;
}

static void set3(uint32_t at[], uint64_t a, uint64_t b, uint64_t c)
{
    at[0] = clip(a);
    at[1] = clip(b);
    at[2] = clip(c);
}

static void attention_key(const aisim_op *op, uint32_t key[])
{
    key[0] = op->dtype;
    key[1] = op->kv_dtype;
    key[2] = op->attention.head_size;
    key[3] = op->attention.window;
    key[4] = op->attention.kv_heads == op->attention.heads ? 0 : op->attention.kv_heads;
}

static void experts_key(const aisim_op *op, uint32_t key[])
{
    key[0] = op->dtype;
    key[1] = clip(op->experts.hidden);
    key[2] = clip(op->experts.inter);
    key[3] = op->experts.topk;
    key[4] = op->experts.experts;
    key[5] = op->experts.moe_tp;
    key[6] = op->experts.moe_ep;
    key[7] = (uint32_t)lround(100 * op->experts.skew);
}

static void gdn_key(const aisim_op *op, uint32_t key[])
{
    key[0] = clip(op->gdn.hidden);
    key[1] = op->gdn.key_heads;
    key[2] = op->gdn.value_heads;
    key[3] = op->gdn.head_size;
}

static aisim_family family_of(const aisim_op *op)
{
    for (int f = 0; f < AISIM_FAMILY_COUNT; f++) {
        if (families[f].kind == op->kind) {
            return (aisim_family)f;
        }
    }
    AISIM_UNREACHABLE();
}

void aisim_table_query_of(const aisim_op *op, const aisim_op_load *load, aisim_table_query *query)
{
    memset(query, 0, sizeof *query);
    query->family = family_of(op);
    query->axes = families[query->family].axes;
    switch (op->kind) {
    case AISIM_OP_GEMM:
        query->key[0] = op->dtype;
        query->key[1] = clip(op->gemm.n);
        query->key[2] = clip(op->gemm.k);
        query->key[3] = op->dtype == AISIM_DTYPE_FP8_STATIC && op->gemm.quantised_in;
        set3(query->at, op->gemm.rows == AISIM_ROWS_LOGITS ? load->logit_rows : load->tokens, 0, 0);
        return;
    case AISIM_OP_PREFILL_ATTENTION:
        attention_key(op, query->key);
        set3(query->at, op->attention.heads, load->seq, load->batch);
        return;
    case AISIM_OP_DECODE_ATTENTION:
        attention_key(op, query->key);
        set3(query->at, op->attention.heads, load->batch, load->context);
        return;
    case AISIM_OP_EXPERTS:
        experts_key(op, query->key);
        set3(query->at, load->tokens * op->experts.attn_dp, 0, 0);
        return;
    case AISIM_OP_MLA_PREFILL:
        query->key[0] = op->kv_dtype;
        query->key[1] = op->dtype;
        set3(query->at, op->mla.heads, load->seq, load->batch);
        return;
    case AISIM_OP_MLA_DECODE:
        query->key[0] = op->kv_dtype;
        query->key[1] = op->dtype;
        set3(query->at, op->mla.heads, load->batch, load->context);
        return;
    case AISIM_OP_GDN_CONV:
    case AISIM_OP_GDN_CONV_UPDATE:
    case AISIM_OP_GDN_SCAN:
    case AISIM_OP_GDN_RECURRENCE:
        gdn_key(op, query->key);
        set3(query->at, load->batch, query->axes == 2 ? load->seq : 0, 0);
        return;
    case AISIM_OP_ALL_REDUCE:
    case AISIM_OP_ALL_GATHER:
    case AISIM_OP_REDUCE_SCATTER:
        query->key[0] = op->link.gpus;
        set3(query->at, load->tokens * op->link.width, 0, 0);
        return;
    case AISIM_OP_EMBEDDING:
    case AISIM_OP_ELEMENTWISE:
    case AISIM_OP_PIPELINE_HOP:
    case AISIM_OP_KIND_COUNT:
        break;
    }
    AISIM_UNREACHABLE();
}

static void op_attention(const uint32_t key[], const uint32_t at[], aisim_op *op)
{
    op->dtype = (uint8_t)key[0];
    op->kv_dtype = (uint8_t)key[1];
    op->attention.head_size = key[2];
    op->attention.window = key[3];
    op->attention.heads = at[0];
    op->attention.kv_heads = key[4] == 0 ? at[0] : key[4];
}

static void op_mla(const uint32_t key[], const uint32_t at[], aisim_op *op)
{
    op->kv_dtype = (uint8_t)key[0];
    op->dtype = (uint8_t)key[1];
    op->mla.heads = at[0];
    op->mla.latent = 512; /* what the measured block is (DeepSeek-V3) */
    op->mla.nope = 128;
    op->mla.rope = 64;
    op->mla.value = 128;
}

static void op_experts(const uint32_t key[], aisim_op *op)
{
    op->dtype = (uint8_t)key[0];
    op->experts.hidden = key[1];
    op->experts.inter = key[2];
    op->experts.topk = key[3];
    op->experts.experts = key[4];
    op->experts.moe_tp = key[5];
    op->experts.moe_ep = key[6];
    op->experts.attn_dp = 1;
    op->experts.skew = key[7] / 100.0;
}

void aisim_table_op_of(aisim_family family, const uint32_t key[], const uint32_t at[], aisim_op *op,
                       aisim_op_load *load)
{
    memset(op, 0, sizeof *op);
    memset(load, 0, sizeof *load);
    op->kind = families[family].kind;
    switch (op->kind) {
    case AISIM_OP_GEMM:
        op->dtype = (uint8_t)key[0];
        op->gemm.n = key[1];
        op->gemm.k = key[2];
        op->gemm.quantised_in = key[3] != 0;
        load->tokens = at[0];
        return;
    case AISIM_OP_PREFILL_ATTENTION:
        op_attention(key, at, op);
        load->seq = at[1];
        load->batch = at[2];
        return;
    case AISIM_OP_DECODE_ATTENTION:
        op_attention(key, at, op);
        load->batch = at[1];
        load->context = at[2];
        return;
    case AISIM_OP_EXPERTS:
        op_experts(key, op);
        load->tokens = at[0];
        return;
    case AISIM_OP_MLA_PREFILL:
        op_mla(key, at, op);
        load->seq = at[1];
        load->batch = at[2];
        return;
    case AISIM_OP_MLA_DECODE:
        op_mla(key, at, op);
        load->batch = at[1];
        load->context = at[2];
        return;
    case AISIM_OP_GDN_CONV:
    case AISIM_OP_GDN_CONV_UPDATE:
    case AISIM_OP_GDN_SCAN:
    case AISIM_OP_GDN_RECURRENCE:
        op->gdn.hidden = key[0];
        op->gdn.key_heads = key[1];
        op->gdn.value_heads = key[2];
        op->gdn.head_size = key[3];
        load->batch = at[0];
        load->seq = families[family].axes == 2 ? at[1] : 1;
        return;
    case AISIM_OP_ALL_REDUCE:
    case AISIM_OP_ALL_GATHER:
    case AISIM_OP_REDUCE_SCATTER:
        op->link.gpus = key[0];
        op->link.width = 1;
        load->tokens = at[0];
        return;
    default:
        AISIM_UNREACHABLE();
    }
}

double aisim_table_roof(const aisim_hardware *hw, aisim_family family, const uint32_t key[],
                        const uint32_t at[])
{
    /* §3.2: the two quantisation kernels read 2 and write 1 byte per element, or read twice */
    if (family == AISIM_FAMILY_COMPUTE_SCALE || family == AISIM_FAMILY_SCALE_MATRIX) {
        double bytes = family == AISIM_FAMILY_COMPUTE_SCALE ? 2 : 3;
        return 1e3 * bytes * at[0] * at[1] / hw->memory_bytes_per_s;
    }
    aisim_op op;
    aisim_op_load load;
    aisim_table_op_of(family, key, at, &op, &load);
    return aisim_roof_ms(aisim_op_roof(hw, &op, &load));
}
