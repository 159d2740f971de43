/* op_list_dense.c - dense grouped-query models (Llama, Qwen3; timing.md §4 "Dense GQA"). */
#include "timing/op_list_internal.h"

/* Norm, qkv, attention, output projection. A gated query is twice as wide. */
void aisim_op_list_gqa_attention(aisim_op_builder *b, double layers)
{
    const aisim_model *m = b->model;
    uint64_t width = (uint64_t)m->heads * m->head_size / b->tensor;
    uint64_t kv = 2 * (uint64_t)m->head_size * aisim_op_kv_heads(m, b->parallelism->tensor);
    aisim_op_push_elementwise(b, "add_norm_1", layers, 2 * (uint64_t)m->hidden,
                              2 * (uint64_t)m->hidden);
    aisim_op_push_gemm(b, "qkv_gemm", layers, (m->gated_query ? 2 : 1) * width + kv, m->hidden,
                       m->gemm_dtype, false);
    if (m->window_layers > 0) {
        aisim_op_push_attention(b, m->window_layers, m->window_tokens);
    }
    if (layers > m->window_layers) {
        aisim_op_push_attention(b, layers - m->window_layers, 0);
    }
    aisim_op_push_gemm(b, "proj_gemm", layers, m->hidden, width, m->gemm_dtype, true);
}

void aisim_op_list_dense(aisim_op_builder *b)
{
    const aisim_model *m = b->model;
    double layers = m->layers;
    uint64_t hidden = m->hidden, inter = m->intermediate / b->tensor;
    aisim_op_push_embedding(b, m->vocabulary / b->tensor);
    aisim_op_list_gqa_attention(b, layers);
    aisim_op_push_elementwise(b, "add_norm_2", layers, 2 * hidden, 2 * hidden);
    aisim_op_push_gemm(b, "gate_ffn1_gemm", layers, 2 * inter, hidden, m->gemm_dtype, false);
    aisim_op_push_elementwise(b, "act_gate", layers, 2 * inter, inter);
    aisim_op_push_gemm(b, "ffn2_gemm", layers, hidden, inter, m->gemm_dtype, true);
    aisim_op_push_logits(b);
    aisim_op_push_all_reduce(b, "embedding_ar", 1, hidden, b->parallelism->tensor);
    aisim_op_push_all_reduce(b, "ar_1", layers, hidden, b->parallelism->tensor);
    aisim_op_push_all_reduce(b, "ar_2", layers, hidden, b->parallelism->tensor);
    aisim_op_push_pipeline_hop(b);
}
