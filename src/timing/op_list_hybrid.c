/* op_list_hybrid.c - gated delta-net layers between full-attention layers (Qwen3-Next, Qwen3.5;
 * timing.md §4 "Hybrid linear attention").
 *
 * Both kinds of layer have the same FFN; its operations are listed once per kind because the
 * experts of a decode pass overlap with the shared expert layer by layer. */
#include "timing/op_list_internal.h"

/* Names of the FFN operations by kind of layer, in the order they are pushed. */
typedef struct ffn_names {
    const char *norm, *gate_up, *act, *down, *all_reduce;
    const char *router, *pre, *experts, *post;
    const char *gate, *shared_up, *shared_act, *shared_down, *gate_mul, *merge;
} ffn_names;

#define FFN_NAMES(kind)                                                                            \
    {                                                                                              \
        kind "_ffn_norm", kind "_gate_ffn1_gemm", kind "_act_gate", kind "_ffn2_gemm",             \
            kind "_ffn_ar", kind "_router_gemm", kind "_moe_pre_dispatch", kind "_moe",            \
            kind "_moe_post_dispatch", kind "_shared_expert_gate_gemm",                            \
            kind "_shared_gate_up_gemm", kind "_shared_act_gate", kind "_shared_down_gemm",        \
            kind "_shared_expert_gate_mul", kind "_shared_merge"                                   \
    }

static const ffn_names linear_names = FFN_NAMES("gdn");
static const ffn_names full_names = FFN_NAMES("full");

static void push_gdn(aisim_op_builder *b, const char *name, aisim_op_kind kind, double count)
{
    const aisim_model *m = b->model;
    aisim_op *op = aisim_op_push(b, name, kind, count);
    op->gdn.hidden = m->hidden;
    op->gdn.key_heads = m->linear_key_heads / b->parallelism->tensor;
    op->gdn.value_heads = m->linear_value_heads / b->parallelism->tensor;
    op->gdn.head_size = m->linear_head_size;
    op->gdn.conv_width = m->conv_width;
}

static void push_linear_mixer(aisim_op_builder *b, double layers)
{
    const aisim_model *m = b->model;
    bool prefill = b->phase == AISIM_PHASE_PREFILL;
    uint64_t norm = 2 * (uint64_t)m->hidden, size = m->linear_head_size;
    uint64_t keys = m->linear_key_heads * size, values = m->linear_value_heads * size;
    aisim_op_push_elementwise(b, "gdn_norm", layers, norm, norm);
    aisim_op_push_gemm(b, "gdn_in_proj_gemm", layers, 2 * (keys + values) / b->tensor, m->hidden,
                       m->gemm_dtype, false);
    aisim_op_push_gemm(b, "gdn_in_proj_ba_gemm", layers,
                       2 * (uint64_t)m->linear_value_heads / b->tensor, m->hidden,
                       AISIM_DTYPE_BFLOAT16, false);
    push_gdn(b, "gdn_conv1d", prefill ? AISIM_OP_GDN_CONV : AISIM_OP_GDN_CONV_UPDATE, layers);
    push_gdn(b, prefill ? "gdn_scan" : "gdn_recurrence",
             prefill ? AISIM_OP_GDN_SCAN : AISIM_OP_GDN_RECURRENCE, layers);
    aisim_op_push_gemm(b, "gdn_out_proj_gemm", layers, m->hidden, values / b->tensor, m->gemm_dtype,
                       true);
    aisim_op_push_all_reduce(b, "gdn_ar", layers, m->hidden, b->parallelism->tensor);
}

static void push_dense_ffn(aisim_op_builder *b, const ffn_names *names, double layers)
{
    const aisim_model *m = b->model;
    uint64_t inter = m->intermediate / b->tensor;
    aisim_op_push_gemm(b, names->gate_up, layers, 2 * inter, m->hidden, m->gemm_dtype, false);
    aisim_op_push_elementwise(b, names->act, layers, 2 * inter, inter);
    aisim_op_push_gemm(b, names->down, layers, m->hidden, inter, m->gemm_dtype, true);
    aisim_op_push_all_reduce(b, names->all_reduce, layers, m->hidden, b->parallelism->tensor);
}

static void push_expert_ffn(aisim_op_builder *b, const ffn_names *names, double layers)
{
    const aisim_model *m = b->model;
    bool overlapped = b->phase == AISIM_PHASE_DECODE;
    uint64_t hidden = m->hidden, inter = m->shared_intermediate / b->tensor;
    b->overlap++;
    b->side = overlapped ? AISIM_SIDE_LEFT : AISIM_SIDE_NONE;
    aisim_op_push_router(b, names->router, layers);
    aisim_op_push_dispatch(b, names->pre, layers, true, true); /* reduced after the mixer */
    aisim_op_push_experts(b, names->experts, layers);
    b->side = overlapped ? AISIM_SIDE_RIGHT : AISIM_SIDE_NONE;
    if (m->shared_gate) {
        aisim_op_push_gemm(b, names->gate, layers, 1, hidden, AISIM_DTYPE_BFLOAT16, false);
    }
    aisim_op_push_gemm(b, names->shared_up, layers, 2 * inter, hidden, m->gemm_dtype, false);
    aisim_op_push_elementwise(b, names->shared_act, layers, 2 * inter, inter);
    aisim_op_push_gemm(b, names->shared_down, layers, hidden, inter, m->gemm_dtype, true);
    if (m->shared_gate) {
        aisim_op_push_elementwise(b, names->gate_mul, layers, hidden, hidden);
    }
    b->side = AISIM_SIDE_NONE;
    aisim_op_push_elementwise(b, names->merge, layers, 2 * hidden, hidden);
    aisim_op_push_dispatch(b, names->post, layers, false, false);
}

static void push_ffn(aisim_op_builder *b, const ffn_names *names, double layers)
{
    uint64_t norm = 2 * (uint64_t)b->model->hidden;
    aisim_op_push_elementwise(b, names->norm, layers, norm, norm);
    if (b->model->experts > 0) {
        push_expert_ffn(b, names, layers);
    } else {
        push_dense_ffn(b, names, layers);
    }
}

void aisim_op_list_hybrid(aisim_op_builder *b)
{
    const aisim_model *m = b->model;
    double linear = m->linear_layers, full = m->layers - m->linear_layers;
    aisim_op_push_embedding(b, m->vocabulary / b->tensor);
    aisim_op_push_all_reduce(b, "embedding_ar", 1, m->hidden, b->parallelism->tensor);
    push_linear_mixer(b, linear);
    push_ffn(b, &linear_names, linear);
    if (full > 0) {
        aisim_op_list_gqa_attention(b, full);
        aisim_op_push_all_reduce(b, "full_ar", full, m->hidden, b->parallelism->tensor);
        push_ffn(b, &full_names, full);
    }
    aisim_op_push_logits(b);
    aisim_op_push_pipeline_hop(b);
}
