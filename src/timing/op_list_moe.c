/* op_list_moe.c - routed experts and their dispatch; grouped-query MoE models (Qwen3 MoE, gpt-oss;
 * timing.md §4 "MoE GQA"). */
#include "timing/op_list_internal.h"

static void push_exchange(aisim_op_builder *b, const char *name, aisim_op_kind kind, double count)
{
    const aisim_parallelism *p = b->parallelism;
    aisim_op *op = aisim_op_push(b, name, kind, count);
    op->link.width = (uint64_t)b->model->hidden * p->attention_data;
    op->link.gpus = p->moe_tensor * p->moe_expert;
}

/* Tokens of all attention ranks meet before the experts and part after them. Without attention data
 * parallelism every rank has them all and the exchange is the all-reduce of the layer. */
void aisim_op_push_dispatch(aisim_op_builder *b, const char *name, double count, bool before,
                            bool reduced_already)
{
    const aisim_parallelism *p = b->parallelism;
    if (!reduced_already) {
        aisim_op_push_all_reduce(b, name, count, b->model->hidden, p->tensor);
    }
    if (p->attention_data > 1) {
        push_exchange(b, name, before ? AISIM_OP_ALL_GATHER : AISIM_OP_REDUCE_SCATTER, count);
    }
}

void aisim_op_push_router(aisim_op_builder *b, const char *name, double count)
{
    aisim_op_push_gemm(b, name, count, b->model->experts, b->model->hidden, AISIM_DTYPE_BFLOAT16,
                       false);
}

void aisim_op_push_experts(aisim_op_builder *b, const char *name, double count)
{
    const aisim_model *m = b->model;
    const aisim_parallelism *p = b->parallelism;
    aisim_op *op = aisim_op_push(b, name, AISIM_OP_EXPERTS, count);
    op->dtype = (uint8_t)m->moe_dtype;
    op->experts.hidden = m->hidden;
    op->experts.inter = m->expert_intermediate;
    op->experts.topk = m->experts_per_token;
    op->experts.experts = m->experts;
    op->experts.moe_tp = p->moe_tensor;
    op->experts.moe_ep = p->moe_expert;
    op->experts.attn_dp = p->attention_data;
    op->experts.skew = m->expert_skew;
}

void aisim_op_list_moe(aisim_op_builder *b)
{
    const aisim_model *m = b->model;
    double layers = m->layers;
    aisim_op_push_embedding(b, m->vocabulary / b->tensor);
    aisim_op_list_gqa_attention(b, layers);
    aisim_op_push_elementwise(b, "add_norm_2", layers, 2 * (uint64_t)m->hidden,
                              2 * (uint64_t)m->hidden);
    aisim_op_push_router(b, "router_gemm", layers);
    aisim_op_push_dispatch(b, "moe_pre_dispatch", layers, true, false);
    aisim_op_push_experts(b, "moe", layers);
    aisim_op_push_dispatch(b, "moe_post_dispatch", layers, false, false);
    if (b->phase == AISIM_PHASE_DECODE || b->fixes->moe_logits) { /* Q4 */
        aisim_op_push_logits(b);
    }
    aisim_op_push_all_reduce(b, "embedding_ar", 1, m->hidden, b->parallelism->tensor);
    aisim_op_push_pipeline_hop(b);
}
