/* capacity.c - weights, activations and what is left for KV (timing.md §8).
 *
 * Byte counts are whole numbers below 2^53, so double arithmetic is exact. */
#include "timing/capacity.h"

#include <math.h>
#include <stdio.h>

#include "base/check.h"

#define GIB (1024.0 * 1024.0 * 1024.0)
#define MIB (1024.0 * 1024.0)

aisim_capacity_request aisim_capacity_request_default(void)
{
    return (aisim_capacity_request){
        .memory_fraction = 0.9, .max_batched_tokens = 8192, .block_size = 16, .state_slots = 1};
}

static double op_weights(const aisim_op *op)
{
    switch (op->kind) {
    case AISIM_OP_GEMM:
        return (double)op->gemm.n * (double)op->gemm.k * aisim_dtype_bytes(op->dtype);
    case AISIM_OP_EMBEDDING:
        return (double)op->elementwise.dim_in * (double)op->elementwise.dim_out * 2;
    case AISIM_OP_MLA_PREFILL:
        return (double)op->mla.weights * aisim_dtype_bytes(op->dtype);
    case AISIM_OP_EXPERTS:
        return 3.0 * (double)op->experts.hidden * (double)op->experts.inter * op->experts.experts /
               ((double)op->experts.moe_tp * op->experts.moe_ep) * aisim_dtype_bytes(op->dtype);
    default:
        return 0;
    }
}

double aisim_weights_bytes(const aisim_model *model, const aisim_parallelism *parallelism,
                           bool moe_logits)
{
    aisim_op_list list;
    aisim_timing_fixes fixes = {.moe_logits = moe_logits};
    aisim_op_list_build(&list, model, parallelism, AISIM_PHASE_PREFILL, &fixes);
    double bytes = 0;
    for (uint32_t i = 0; i < list.len; i++) {
        bytes += list.ops[i].count * op_weights(&list.ops[i]);
    }
    return bytes / parallelism->pipeline;
}

/* Bytes of activation per token and element of attention width, by tensor degree 1, 2, 4, 8. */
static double activation_factor(const aisim_model *model, uint32_t tensor)
{
    static const double factors[3][4] = {
        {11, 6.5, 5, 5},  /* dense */
        {22, 13, 10, 10}, /* experts */
        {10, 6, 5, 5},    /* hybrid */
    };
    int row = model->architecture == AISIM_ARCHITECTURE_HYBRID ? 2 : model->experts > 0 ? 1 : 0;
    int column = tensor <= 1 ? 0 : tensor <= 2 ? 1 : tensor <= 4 ? 2 : 3;
    return factors[row][column];
}

static double activations(const aisim_model *model, const aisim_parallelism *p,
                          uint64_t max_batched_tokens)
{
    bool latent = model->architecture == AISIM_ARCHITECTURE_MLA;
    double tokens = (double)max_batched_tokens;
    double width = latent ? model->hidden : (double)model->heads * model->head_size;
    double bytes = fmax(70 * MIB, 2 * tokens * width * activation_factor(model, p->tensor));
    if (latent) { /* buffers of the expert dispatch */
        bytes += tokens * model->hidden * p->attention_data * model->experts *
                 model->experts_per_token / p->moe_expert / 128 * 4;
    }
    return bytes;
}

static double gqa_layer_bytes(const aisim_model *model, const aisim_parallelism *p)
{
    return 2.0 * aisim_op_kv_heads(model, p->tensor) * model->head_size *
           aisim_dtype_bytes((aisim_dtype)model->kv_dtype);
}

double aisim_kv_bytes_per_token(const aisim_model *model, const aisim_parallelism *p)
{
    if (model->architecture == AISIM_ARCHITECTURE_MLA) { /* one latent vector, not split */
        return (double)model->layers * (model->kv_lora_rank + model->qk_rope_head_size) *
               aisim_dtype_bytes((aisim_dtype)model->kv_dtype);
    }
    uint32_t layers = model->layers - model->window_layers - model->linear_layers;
    return layers * gqa_layer_bytes(model, p);
}

double aisim_kv_window_bytes_per_token(const aisim_model *model, const aisim_parallelism *p)
{
    return model->window_layers * gqa_layer_bytes(model, p);
}

double aisim_state_bytes(const aisim_model *model, const aisim_parallelism *p)
{
    if (model->architecture != AISIM_ARCHITECTURE_HYBRID) {
        return 0;
    }
    double size = model->linear_head_size, tensor = p->tensor;
    double recurrent = model->linear_value_heads / tensor * size * size * 4;
    double conv = (2 * model->linear_key_heads * size + model->linear_value_heads * size) / tensor *
                  (model->conv_width - 1) * 2;
    return model->linear_layers * (recurrent + conv);
}

double aisim_kv_bytes(const aisim_model *model, const aisim_parallelism *p, uint64_t tokens)
{
    double windowed = fmin((double)tokens, model->window_tokens);
    return (double)tokens * aisim_kv_bytes_per_token(model, p) +
           windowed * aisim_kv_window_bytes_per_token(model, p);
}

/* Tokens of one sequence that fit: the window layers stop growing at the window. */
static double tokens_that_fit(const aisim_model *model, const aisim_capacity *c, double budget)
{
    double both = c->bytes_per_token + c->window_bytes_per_token;
    double in_window = floor(budget / both);
    if (model->window_layers == 0 || in_window < model->window_tokens) {
        return in_window;
    }
    if (c->bytes_per_token <= 0) {
        return in_window;
    }
    return floor((budget - model->window_tokens * c->window_bytes_per_token) / c->bytes_per_token);
}

static void compute(const aisim_model *model, const aisim_hardware *hw, const aisim_parallelism *p,
                    const aisim_capacity_request *request, aisim_capacity *out)
{
    double drafts = (double)(model->layers + request->drafts) / model->layers;
    out->weights_bytes = aisim_weights_bytes(model, p, request->moe_logits);
    out->activations_bytes = activations(model, p, request->max_batched_tokens);
    out->runtime_bytes = hw->runtime_bytes;
    out->collective_bytes = aisim_hardware_collective_bytes(hw, p->tensor);
    out->budget_bytes = hw->memory_bytes * request->memory_fraction - out->weights_bytes -
                        out->activations_bytes - out->runtime_bytes - out->collective_bytes;
    out->bytes_per_token = drafts * aisim_kv_bytes_per_token(model, p) / p->pipeline;
    out->window_bytes_per_token = drafts * aisim_kv_window_bytes_per_token(model, p) / p->pipeline;
    out->state_bytes = aisim_state_bytes(model, p) / p->pipeline;
    double budget = out->budget_bytes * (1 - request->safety_margin) -
                    (double)request->state_slots * out->state_bytes;
    double tokens = budget > 0 ? tokens_that_fit(model, out, budget) : 0;
    out->tokens = tokens > 0 ? (uint64_t)tokens : 0;
    out->blocks = out->tokens / request->block_size;
}

/* The smallest larger tensor degree for which a block fits, everything else equal; experts follow
 * the tensor group the way they already did. 0 = none. */
static uint32_t smallest_tensor(const aisim_model *model, const aisim_hardware *hw,
                                const aisim_parallelism *p, const aisim_capacity_request *request)
{
    for (uint32_t tensor = p->tensor * 2; tensor <= 64; tensor *= 2) {
        aisim_parallelism wider = *p;
        aisim_capacity c;
        wider.tensor = tensor;
        if (model->experts > 0) {
            uint32_t gpus = tensor * p->attention_data;
            wider.moe_expert = p->moe_expert > 1 ? gpus : 1;
            wider.moe_tensor = p->moe_expert > 1 ? 1 : gpus;
        }
        if (aisim_parallelism_check(&wider, model, NULL) != AISIM_OK) {
            continue;
        }
        compute(model, hw, &wider, request, &c);
        if (c.blocks > 0) {
            return tensor;
        }
    }
    return 0;
}

static aisim_status does_not_fit(const aisim_model *model, const aisim_hardware *hw,
                                 const aisim_parallelism *p, const aisim_capacity_request *request,
                                 const char *pool, const aisim_capacity *c, aisim_error *err)
{
    uint32_t tensor = smallest_tensor(model, hw, p, request);
    char advice[64] = "no tensor up to 64 fits";
    if (tensor > 0) {
        snprintf(advice, sizeof advice, "smallest tensor that fits: %u", (unsigned)tensor);
    }
    double reserve = c->activations_bytes + c->runtime_bytes + c->collective_bytes +
                     (double)request->state_slots * c->state_bytes;
    return aisim_fail(
        err, AISIM_EFULL,
        "pool '%s': weights %.1f GiB + reserve do not fit %u × %s: per GPU %.1f GiB of weights "
        "and %.1f GiB reserve leave no KV block of %u tokens in %.1f GiB (memory_fraction %g of "
        "%.1f GiB); %s",
        pool, c->weights_bytes * p->tensor * p->pipeline / GIB,
        (unsigned)(p->tensor * p->pipeline * p->attention_data), hw->name, c->weights_bytes / GIB,
        reserve / GIB, (unsigned)request->block_size,
        hw->memory_bytes * request->memory_fraction / GIB, request->memory_fraction,
        hw->memory_bytes / GIB, advice);
}

aisim_status aisim_capacity_compute(const aisim_model *model, const aisim_hardware *hardware,
                                    const aisim_parallelism *parallelism,
                                    const aisim_capacity_request *request, const char *pool,
                                    aisim_capacity *out, aisim_error *err)
{
    aisim_status status = aisim_model_check(model, err);
    if (status == AISIM_OK) {
        status = aisim_hardware_check(hardware, err);
    }
    if (status == AISIM_OK) {
        status = aisim_parallelism_check(parallelism, model, err);
    }
    if (status != AISIM_OK) {
        return status;
    }
    if (!(request->memory_fraction > 0 && request->memory_fraction <= 1)) {
        return aisim_fail(err, AISIM_ERANGE, "memory_fraction = %g must lie in (0, 1]",
                          request->memory_fraction);
    }
    if (!(request->safety_margin >= 0 && request->safety_margin < 1)) {
        return aisim_fail(err, AISIM_ERANGE, "safety_margin = %g must lie in [0, 1)",
                          request->safety_margin);
    }
    AISIM_CHECK(request->block_size > 0 && request->max_batched_tokens > 0);
    compute(model, hardware, parallelism, request, out);
    if (out->blocks == 0) {
        return does_not_fit(model, hardware, parallelism, request, pool, out, err);
    }
    return AISIM_OK;
}
