/* op_list.c - dispatch and the pieces all op lists share (timing.md §4). */
#include "timing/op.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "timing/op_list_internal.h"

#define FIX(key, text)                                                                             \
    {                                                                                              \
#key, AISIM_FIELD_BOOL, offsetof(aisim_timing_fixes, key), 0, 1, NULL, text                \
    }

static const aisim_field fix_fields[] = {
    FIX(block_gemm_floor, "block-FP8 GEMMs of decode passes without the host-launch floor"),
    FIX(fringe_tokens, "the fringe of attention grows with the tokens"),
    FIX(mixed_logits, "a fused pass computes logits for all rows that need them"),
    FIX(moe_logits, "the output head is part of MoE prefill lists and weights"),
    FIX(mla_collectives, "two all-reduces per latent-attention layer, not four"),
    FIX(mla_mixed, "a mixed pass prices latent attention by phase"),
    FIX(prefix_roof, "a prefix never scales attention below the chunk's own roof"),
};

const aisim_field_table aisim_timing_fix_fields = {"timing.fix", fix_fields,
                                                   sizeof fix_fields / sizeof fix_fields[0]};

enum { NARROW = 32 }; /* §3.2: the tables start here (scalar gates, b/a projections are below) */

uint32_t aisim_op_kv_heads(const aisim_model *model, uint32_t tensor)
{
    return (model->kv_heads + tensor - 1) / tensor;
}

aisim_op *aisim_op_push(aisim_op_builder *b, const char *name, aisim_op_kind kind, double count)
{
    AISIM_CHECK(b->list->len < AISIM_OP_LIST_MAX);
    aisim_op *op = &b->list->ops[b->list->len++];
    memset(op, 0, sizeof *op);
    op->name = name;
    op->kind = kind;
    op->count = count;
    op->overlap = b->side != AISIM_SIDE_NONE ? b->overlap : 0;
    op->side = b->side;
    return op;
}

void aisim_op_push_elementwise(aisim_op_builder *b, const char *name, double count, uint64_t dim_in,
                               uint64_t dim_out)
{
    aisim_op *op = aisim_op_push(b, name, AISIM_OP_ELEMENTWISE, count);
    op->elementwise.dim_in = dim_in;
    op->elementwise.dim_out = dim_out;
}

void aisim_op_push_gemm(aisim_op_builder *b, const char *name, double count, uint64_t n, uint64_t k,
                        int dtype, bool quantised_in)
{
    aisim_op *op = aisim_op_push(b, name, AISIM_OP_GEMM, count);
    op->dtype = (uint8_t)dtype;
    op->gemm.n = n;
    op->gemm.k = k;
    op->gemm.quantised_in = quantised_in;
    op->gemm.narrow = n < NARROW;
}

void aisim_op_push_all_reduce(aisim_op_builder *b, const char *name, double count, uint64_t width,
                              uint32_t gpus)
{
    if (gpus <= 1) {
        return; /* §3.8: nothing to exchange */
    }
    aisim_op *op = aisim_op_push(b, name, AISIM_OP_ALL_REDUCE, count);
    op->link.width = width;
    op->link.gpus = gpus;
}

void aisim_op_push_attention(aisim_op_builder *b, double count, uint32_t window)
{
    const aisim_model *m = b->model;
    bool prefill = b->phase == AISIM_PHASE_PREFILL;
    aisim_op *op =
        aisim_op_push(b, prefill ? "prefill_attention" : "decode_attention",
                      prefill ? AISIM_OP_PREFILL_ATTENTION : AISIM_OP_DECODE_ATTENTION, count);
    op->dtype = (uint8_t)m->attention_dtype;
    op->kv_dtype = (uint8_t)m->kv_dtype;
    op->attention.heads = m->heads / b->parallelism->tensor;
    op->attention.kv_heads = aisim_op_kv_heads(m, b->parallelism->tensor);
    op->attention.head_size = m->head_size;
    op->attention.window = window;
    op->attention.qk_norm = m->qk_norm;
}

void aisim_op_push_embedding(aisim_op_builder *b, uint64_t rows)
{
    aisim_op *op = aisim_op_push(b, "embedding", AISIM_OP_EMBEDDING, 1);
    op->elementwise.dim_in = rows;
    op->elementwise.dim_out = b->model->hidden;
}

void aisim_op_push_logits(aisim_op_builder *b)
{
    aisim_op_push_gemm(b, "logits_gemm", 1, b->model->vocabulary / b->tensor, b->model->hidden,
                       AISIM_DTYPE_BFLOAT16, false);
    b->list->ops[b->list->len - 1].gemm.rows = AISIM_ROWS_LOGITS;
}

void aisim_op_push_pipeline_hop(aisim_op_builder *b)
{
    uint32_t stages = b->parallelism->pipeline;
    if (stages > 1) {
        aisim_op *op = aisim_op_push(b, "pipeline_hop", AISIM_OP_PIPELINE_HOP, 1);
        op->link.width = b->model->hidden;
        op->link.stages = stages;
    }
}

void aisim_op_list_build(aisim_op_list *list, const aisim_model *model,
                         const aisim_parallelism *parallelism, aisim_phase phase,
                         const aisim_timing_fixes *fixes)
{
    aisim_op_builder builder = {list, model, parallelism, fixes, phase, parallelism->tensor, 0, 0};
    list->len = 0;
    switch ((aisim_architecture)model->architecture) {
    case AISIM_ARCHITECTURE_DENSE:
        aisim_op_list_dense(&builder);
        return;
    case AISIM_ARCHITECTURE_MOE:
        aisim_op_list_moe(&builder);
        return;
    case AISIM_ARCHITECTURE_MLA:
        aisim_op_list_mla(&builder);
        return;
    case AISIM_ARCHITECTURE_HYBRID:
        aisim_op_list_hybrid(&builder);
        return;
    case AISIM_ARCHITECTURE_COUNT:
        break;
    }
    AISIM_UNREACHABLE();
}

const char *aisim_op_class_name(aisim_op_kind kind)
{
    static const char *const names[AISIM_OP_KIND_COUNT] = {
        "memory", "memory", "gemm",  "attention", "attention", "experts", "attention", "attention",
        "state",  "state",  "state", "state",     "link",      "link",    "link",      "link"};
    return names[kind];
}

void aisim_op_sizes(const aisim_op *op, char *out, size_t size)
{
    static const char *const types[AISIM_OP_KIND_COUNT] = {
        "embedding",        "elementwise",     "gemm",           "prefill_attention",
        "decode_attention", "experts",         "mla_prefill",    "mla_decode",
        "gdn_conv",         "gdn_conv_update", "gdn_scan",       "gdn_recurrence",
        "all_reduce",       "all_gather",      "reduce_scatter", "pipeline_hop"};
    const char *dtype = aisim_dtype_words[op->dtype], *kv_dtype = aisim_dtype_words[op->kv_dtype];
    int n = snprintf(out, size, "type=%s ", types[op->kind]);
    out += n;
    size -= (size_t)n;
    switch (op->kind) {
    case AISIM_OP_EMBEDDING:
        snprintf(out, size, "rows=%" PRIu64 " width=%" PRIu64, op->elementwise.dim_in,
                 op->elementwise.dim_out);
        return;
    case AISIM_OP_ELEMENTWISE:
        snprintf(out, size, "in=%" PRIu64 " out=%" PRIu64, op->elementwise.dim_in,
                 op->elementwise.dim_out);
        return;
    case AISIM_OP_GEMM:
        snprintf(out, size, "n=%" PRIu64 " k=%" PRIu64 " dtype=%s quantised_in=%d narrow=%d",
                 op->gemm.n, op->gemm.k, dtype, op->gemm.quantised_in, op->gemm.narrow);
        return;
    case AISIM_OP_PREFILL_ATTENTION:
    case AISIM_OP_DECODE_ATTENTION:
        snprintf(out, size,
                 "heads=%u kv_heads=%u head_size=%u window=%u qk_norm=%d dtype=%s kv_dtype=%s",
                 (unsigned)op->attention.heads, (unsigned)op->attention.kv_heads,
                 (unsigned)op->attention.head_size, (unsigned)op->attention.window,
                 op->attention.qk_norm, dtype, kv_dtype);
        return;
    case AISIM_OP_EXPERTS:
        snprintf(out, size,
                 "hidden=%" PRIu64 " inter=%" PRIu64 " topk=%u experts=%u moe_tensor=%u "
                 "moe_expert=%u attention_data=%u skew=%g dtype=%s",
                 op->experts.hidden, op->experts.inter, (unsigned)op->experts.topk,
                 (unsigned)op->experts.experts, (unsigned)op->experts.moe_tp,
                 (unsigned)op->experts.moe_ep, (unsigned)op->experts.attn_dp, op->experts.skew,
                 dtype);
        return;
    case AISIM_OP_MLA_PREFILL:
    case AISIM_OP_MLA_DECODE:
        snprintf(out, size, "heads=%u latent=%u nope=%u rope=%u value=%u dtype=%s kv_dtype=%s",
                 (unsigned)op->mla.heads, (unsigned)op->mla.latent, (unsigned)op->mla.nope,
                 (unsigned)op->mla.rope, (unsigned)op->mla.value, dtype, kv_dtype);
        return;
    case AISIM_OP_GDN_CONV:
    case AISIM_OP_GDN_CONV_UPDATE:
    case AISIM_OP_GDN_SCAN:
    case AISIM_OP_GDN_RECURRENCE:
        snprintf(out, size,
                 "hidden=%" PRIu64 " key_heads=%u value_heads=%u head_size=%u conv_width=%u",
                 op->gdn.hidden, (unsigned)op->gdn.key_heads, (unsigned)op->gdn.value_heads,
                 (unsigned)op->gdn.head_size, (unsigned)op->gdn.conv_width);
        return;
    case AISIM_OP_ALL_REDUCE:
    case AISIM_OP_ALL_GATHER:
    case AISIM_OP_REDUCE_SCATTER:
        snprintf(out, size, "width=%" PRIu64 " gpus=%u", op->link.width, (unsigned)op->link.gpus);
        return;
    case AISIM_OP_PIPELINE_HOP:
        snprintf(out, size, "width=%" PRIu64 " stages=%u", op->link.width,
                 (unsigned)op->link.stages);
        return;
    case AISIM_OP_KIND_COUNT:
        break;
    }
    AISIM_UNREACHABLE();
}

void aisim_op_describe(const aisim_op *op, const aisim_op_load *load, char *out, size_t size)
{
    switch (op->kind) {
    case AISIM_OP_EMBEDDING:
    case AISIM_OP_ELEMENTWISE:
        snprintf(out, size, "x=%" PRIu64 " in=%" PRIu64 " out=%" PRIu64, load->tokens,
                 op->elementwise.dim_in, op->elementwise.dim_out);
        return;
    case AISIM_OP_GEMM:
        snprintf(out, size, "m=%" PRIu64 " n=%" PRIu64 " k=%" PRIu64 " %s",
                 op->gemm.rows == AISIM_ROWS_LOGITS ? load->logit_rows : load->tokens, op->gemm.n,
                 op->gemm.k, aisim_dtype_words[op->dtype]);
        return;
    case AISIM_OP_PREFILL_ATTENTION:
        snprintf(out, size, "b=%" PRIu64 " s=%" PRIu64 " p=%" PRIu64 " heads=%u/%ux%u window=%u",
                 load->batch, load->seq, load->past, (unsigned)op->attention.heads,
                 (unsigned)op->attention.kv_heads, (unsigned)op->attention.head_size,
                 (unsigned)op->attention.window);
        return;
    case AISIM_OP_DECODE_ATTENTION:
        snprintf(out, size, "b=%" PRIu64 " len=%" PRIu64 " heads=%u/%ux%u window=%u", load->batch,
                 load->context, (unsigned)op->attention.heads, (unsigned)op->attention.kv_heads,
                 (unsigned)op->attention.head_size, (unsigned)op->attention.window);
        return;
    case AISIM_OP_EXPERTS:
        snprintf(out, size, "x=%" PRIu64 " %u of %u, %" PRIu64 "x%" PRIu64 " tp=%u ep=%u %s",
                 load->tokens * op->experts.attn_dp, (unsigned)op->experts.topk,
                 (unsigned)op->experts.experts, op->experts.hidden, op->experts.inter,
                 (unsigned)op->experts.moe_tp, (unsigned)op->experts.moe_ep,
                 aisim_dtype_words[op->dtype]);
        return;
    case AISIM_OP_MLA_PREFILL:
        snprintf(out, size, "b=%" PRIu64 " s=%" PRIu64 " p=%" PRIu64 " heads=%u", load->batch,
                 load->seq, load->past, (unsigned)op->mla.heads);
        return;
    case AISIM_OP_MLA_DECODE:
        snprintf(out, size, "b=%" PRIu64 " len=%" PRIu64 " heads=%u", load->batch, load->context,
                 (unsigned)op->mla.heads);
        return;
    case AISIM_OP_GDN_CONV:
    case AISIM_OP_GDN_CONV_UPDATE:
    case AISIM_OP_GDN_SCAN:
    case AISIM_OP_GDN_RECURRENCE:
        snprintf(out, size, "b=%" PRIu64 " s=%" PRIu64 " key_heads=%u value_heads=%u", load->batch,
                 load->seq, (unsigned)op->gdn.key_heads, (unsigned)op->gdn.value_heads);
        return;
    case AISIM_OP_ALL_REDUCE:
    case AISIM_OP_ALL_GATHER:
    case AISIM_OP_REDUCE_SCATTER:
        snprintf(out, size, "elements=%" PRIu64 " gpus=%u", load->tokens * op->link.width,
                 (unsigned)op->link.gpus);
        return;
    case AISIM_OP_PIPELINE_HOP:
        snprintf(out, size, "x=%" PRIu64 " stages=%u", load->tokens, (unsigned)op->link.stages);
        return;
    case AISIM_OP_KIND_COUNT:
        break;
    }
    AISIM_UNREACHABLE();
}
