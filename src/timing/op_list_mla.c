/* op_list_mla.c - latent attention with routed and shared experts (DeepSeek-V3/R1; timing.md §4).
 *
 * The attention block was measured whole (§3.6): one operation from the down projection to the
 * output projection. All layers are priced as MoE layers (Q7). */
#include "timing/op_list_internal.h"

static void push_block(aisim_op_builder *b, double layers)
{
    const aisim_model *m = b->model;
    bool prefill = b->phase == AISIM_PHASE_PREFILL;
    aisim_op *op = aisim_op_push(b, "mla_module",
                                 prefill ? AISIM_OP_MLA_PREFILL : AISIM_OP_MLA_DECODE, layers);
    uint64_t heads = m->heads / b->tensor;
    op->dtype = (uint8_t)m->gemm_dtype;
    op->kv_dtype = (uint8_t)m->kv_dtype;
    op->mla.heads = (uint32_t)heads;
    op->mla.latent = m->kv_lora_rank;
    op->mla.nope = m->qk_nope_head_size;
    op->mla.rope = m->qk_rope_head_size;
    op->mla.value = m->v_head_size;
    uint64_t head = m->qk_nope_head_size + m->qk_rope_head_size;
    uint64_t down = (m->q_lora_rank + m->kv_lora_rank + m->qk_rope_head_size) * (uint64_t)m->hidden;
    op->mla.weights = down + heads * head * m->q_lora_rank +
                      heads * (m->qk_nope_head_size + m->v_head_size) * m->kv_lora_rank +
                      (uint64_t)m->hidden * heads * m->v_head_size;
}

static void push_shared(aisim_op_builder *b, double layers)
{
    const aisim_model *m = b->model;
    uint64_t inter = m->shared_intermediate / b->tensor;
    aisim_op_push_gemm(b, "shared_gate_up_gemm", layers, 2 * inter, m->hidden, m->gemm_dtype,
                       false);
    aisim_op_push_elementwise(b, "shared_act_gate", layers, 2 * inter, inter);
    aisim_op_push_gemm(b, "shared_ffn2_gemm", layers, m->hidden, inter, m->gemm_dtype, false);
}

static void push_routed(aisim_op_builder *b, double layers)
{
    bool reduced = b->fixes->mla_collectives; /* Q5: the two explicit all-reduces are the layer's */
    aisim_op_push_router(b, "router_gemm", layers);
    aisim_op_push_dispatch(b, "moe_pre_dispatch", layers, true, reduced);
    aisim_op_push_experts(b, "moe", layers);
    aisim_op_push_dispatch(b, "moe_post_dispatch", layers, false, reduced);
}

void aisim_op_list_mla(aisim_op_builder *b)
{
    const aisim_model *m = b->model;
    double layers = m->layers;
    uint64_t norm = 2 * (uint64_t)m->hidden;
    aisim_op_push_embedding(b, m->vocabulary); /* every rank holds the whole table */
    aisim_op_push_elementwise(b, "add_norm_1", layers, norm, norm);
    push_block(b, layers);
    aisim_op_push_elementwise(b, "add_norm_2", layers, norm, norm);
    bool overlapped = b->phase == AISIM_PHASE_DECODE;
    b->overlap = 1;
    b->side = overlapped ? AISIM_SIDE_RIGHT : AISIM_SIDE_NONE;
    push_shared(b, layers);
    b->side = overlapped ? AISIM_SIDE_LEFT : AISIM_SIDE_NONE;
    push_routed(b, layers);
    b->side = AISIM_SIDE_NONE;
    aisim_op_push_logits(b);
    aisim_op_push_all_reduce(b, "tp_allreduce", 2 * layers, m->hidden, b->parallelism->tensor);
    aisim_op_push_pipeline_hop(b);
}
