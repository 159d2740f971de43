/* capacity.h - how much KV cache fits beside the weights (timing.md §8). All sizes per GPU (rank
 * of the tensor group). */
#ifndef AISIM_TIMING_CAPACITY_H
#define AISIM_TIMING_CAPACITY_H

#include "timing/op.h"

/** What decides the capacity besides model, hardware and parallelism. */
typedef struct aisim_capacity_request {
    double memory_fraction;      /**< share of the memory the engine may use, (0, 1]; 0.9 */
    uint64_t max_batched_tokens; /**< largest pass, sizes the activations; >= 1 */
    uint32_t block_size;         /**< tokens, >= 1 */
    double safety_margin;        /**< share of the budget left unused, [0, 1); 0 */
    uint64_t state_slots;        /**< hybrid: requests whose recurrent state is charged; the
                                      reference charges 1 (Q10), a rank holds max_sequences */
    uint32_t drafts;             /**< MTP draft layers whose KV is charged: (L + k) / L; 0 */
    bool moe_logits;             /**< Q4: MoE weights include the output head */
} aisim_capacity_request;

/** 0.9, 8192 tokens, blocks of 16, no margin, 1 state, no drafts. */
aisim_capacity_request aisim_capacity_request_default(void);

typedef struct aisim_capacity {
    double weights_bytes;
    double activations_bytes;
    double runtime_bytes;
    double collective_bytes;
    double budget_bytes;           /**< left for KV and states; negative when nothing fits */
    double bytes_per_token;        /**< of all layers that keep every token */
    double window_bytes_per_token; /**< of windowed layers, for at most window_tokens tokens */
    double state_bytes;            /**< recurrent state of one request */
    uint64_t tokens;
    uint64_t blocks;
} aisim_capacity;

/** Weights of one rank (§8). */
double aisim_weights_bytes(const aisim_model *model, const aisim_parallelism *parallelism,
                           bool moe_logits);

/** KV bytes of one token in the layers that keep every token, and in windowed layers. */
double aisim_kv_bytes_per_token(const aisim_model *model, const aisim_parallelism *parallelism);
double aisim_kv_window_bytes_per_token(const aisim_model *model,
                                       const aisim_parallelism *parallelism);

/** Recurrent state of one request; 0 unless hybrid. */
double aisim_state_bytes(const aisim_model *model, const aisim_parallelism *parallelism);

/** KV bytes of a request of @p tokens tokens, windows considered, state excluded. */
double aisim_kv_bytes(const aisim_model *model, const aisim_parallelism *parallelism,
                      uint64_t tokens);

/** Computes the capacity.
 *  @param pool  name for the message, e.g. "main"
 *  @return AISIM_OK; AISIM_EINVAL / AISIM_ERANGE (inputs); AISIM_EFULL when not a single block
 *  fits: the message names the smallest tensor degree that would. *out is filled then, too. */
aisim_status aisim_capacity_compute(const aisim_model *model, const aisim_hardware *hardware,
                                    const aisim_parallelism *parallelism,
                                    const aisim_capacity_request *request, const char *pool,
                                    aisim_capacity *out, aisim_error *err);

#endif
