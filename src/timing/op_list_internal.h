/* op_list_internal.h - what the builders of op lists share; private to op_list*.c. */
#ifndef AISIM_TIMING_OP_LIST_INTERNAL_H
#define AISIM_TIMING_OP_LIST_INTERNAL_H

#include "timing/op.h"

/** What a builder works with. */
typedef struct aisim_op_builder {
    aisim_op_list *list;
    const aisim_model *model;
    const aisim_parallelism *parallelism;
    const aisim_timing_fixes *fixes;
    aisim_phase phase;
    uint64_t tensor;
    uint8_t overlap, side; /* given to every operation pushed */
} aisim_op_builder;

aisim_op *aisim_op_push(aisim_op_builder *b, const char *name, aisim_op_kind kind, double count);
void aisim_op_push_elementwise(aisim_op_builder *b, const char *name, double count, uint64_t dim_in,
                               uint64_t dim_out);
/** @param quantised_in  the producer already wrote the GEMM's low precision */
void aisim_op_push_gemm(aisim_op_builder *b, const char *name, double count, uint64_t n, uint64_t k,
                        int dtype, bool quantised_in);
void aisim_op_push_all_reduce(aisim_op_builder *b, const char *name, double count, uint64_t width,
                              uint32_t gpus);
void aisim_op_push_attention(aisim_op_builder *b, double count, uint32_t window);
/** Embedding rows of this rank, all-reduced over the tensor group when split. */
void aisim_op_push_embedding(aisim_op_builder *b, uint64_t rows);
void aisim_op_push_logits(aisim_op_builder *b);
void aisim_op_push_pipeline_hop(aisim_op_builder *b);

/** Norm, qkv, attention, output projection of @p layers grouped-query layers. */
void aisim_op_list_gqa_attention(aisim_op_builder *b, double layers);

/** Exchange of tokens between attention ranks and expert ranks.
 *  @param before           before or after the experts
 *  @param reduced_already  the all-reduce of the tensor group stands elsewhere in the list */
void aisim_op_push_dispatch(aisim_op_builder *b, const char *name, double count, bool before,
                            bool reduced_already);
void aisim_op_push_router(aisim_op_builder *b, const char *name, double count);
void aisim_op_push_experts(aisim_op_builder *b, const char *name, double count);

/* One builder per architecture. */
void aisim_op_list_dense(aisim_op_builder *b);
void aisim_op_list_moe(aisim_op_builder *b);
void aisim_op_list_mla(aisim_op_builder *b);
void aisim_op_list_hybrid(aisim_op_builder *b);

#endif
