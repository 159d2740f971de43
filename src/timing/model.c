/* model.c - the keys of a model descriptor and what must hold between them. */
#include "timing/descriptors.h"

#include <stddef.h>
#include <string.h>

const char *const aisim_dtype_words[] = {"bfloat16", "fp8",         "fp8_static", "fp8_block",
                                         "int4_wo",  "w4a16_mxfp4", NULL};

const char *const aisim_architecture_words[] = {"dense", "moe", "mla", "hybrid", NULL};

/* timing.md §1 */
double aisim_dtype_bytes(aisim_dtype dtype)
{
    static const double bytes[AISIM_DTYPE_COUNT] = {2, 1, 1, 1, 0.5, 0.5};
    return bytes[dtype];
}

#define U32(key, lo, hi, text)                                                                     \
    {                                                                                              \
#key, AISIM_FIELD_U32, offsetof(aisim_model, key), lo, hi, NULL, text                      \
    }
#define FLAG(key, text)                                                                            \
    {                                                                                              \
#key, AISIM_FIELD_BOOL, offsetof(aisim_model, key), 0, 1, NULL, text                       \
    }
#define WORD(key, list, text)                                                                      \
    {                                                                                              \
#key, AISIM_FIELD_WORD, offsetof(aisim_model, key), 0, 0, list, text                       \
    }

static const aisim_field model_fields[] = {
    {"name", AISIM_FIELD_TEXT, offsetof(aisim_model, name), 0, 0, NULL, "name in messages"},
    WORD(architecture, aisim_architecture_words, "which operations a layer consists of"),
    U32(layers, 1, 4096, "layers of the whole model"),
    U32(hidden, 1, 1048576, "width of the residual stream"),
    U32(intermediate, 0, 4194304, "inner width of the dense FFN; 0 = none"),
    U32(heads, 1, 65536, "attention heads"),
    U32(kv_heads, 1, 65536, "key/value heads"),
    U32(head_size, 1, 65536, "width of one head"),
    U32(vocabulary, 1, 16777216, "rows of the embedding"),
    {"context_length", AISIM_FIELD_U64, offsetof(aisim_model, context_length), 0, 1e12, NULL,
     "longest context in tokens; 0 = unknown"},
    FLAG(qk_norm, "q and k are normalised per head"),
    FLAG(gated_query, "the q projection carries an output gate"),
    U32(window_layers, 0, 4096, "layers with windowed attention"),
    U32(window_tokens, 0, 16777216, "tokens such a layer sees"),
    U32(experts, 0, 65536, "routed experts of a layer; 0 = none"),
    U32(experts_per_token, 0, 65536, "experts that compute one token"),
    U32(expert_intermediate, 0, 4194304, "inner width of one routed expert"),
    {"expert_skew", AISIM_FIELD_F64, offsetof(aisim_model, expert_skew), 0, 10, NULL,
     "exponent of the routing power law; 0 = balanced"},
    U32(shared_intermediate, 0, 4194304, "inner width of the shared experts; 0 = none"),
    FLAG(shared_gate, "the shared expert has a scalar gate"),
    U32(q_lora_rank, 0, 1048576, "latent attention: rank of the query compression"),
    U32(kv_lora_rank, 0, 1048576, "latent attention: rank of the KV compression"),
    U32(qk_nope_head_size, 0, 65536, "latent attention: q/k width without positions"),
    U32(qk_rope_head_size, 0, 65536, "latent attention: q/k width with positions"),
    U32(v_head_size, 0, 65536, "latent attention: value width"),
    U32(linear_layers, 0, 4096, "layers with a recurrent state instead of KV"),
    U32(linear_key_heads, 0, 65536, "key heads of such a layer"),
    U32(linear_value_heads, 0, 65536, "value heads of such a layer"),
    U32(linear_head_size, 0, 65536, "width of one key or value head there"),
    U32(conv_width, 0, 64, "taps of its causal convolution"),
    WORD(gemm_dtype, aisim_dtype_words, "format of dense weights"),
    WORD(moe_dtype, aisim_dtype_words, "format of expert weights"),
    WORD(kv_dtype, aisim_dtype_words, "format of the KV cache: bfloat16 or fp8"),
    WORD(attention_dtype, aisim_dtype_words, "arithmetic of prefill attention"),
};

const aisim_field_table aisim_model_fields = {"model", model_fields,
                                              sizeof model_fields / sizeof model_fields[0]};

void aisim_model_init(aisim_model *model)
{
    memset(model, 0, sizeof *model);
}

/* A key that this architecture needs is zero. */
static aisim_status missing(const aisim_model *model, const char *key, aisim_error *err)
{
    return aisim_fail(err, AISIM_EINVAL, "model '%s': a %s model needs '%s' above 0", model->name,
                      aisim_architecture_words[model->architecture], key);
}

#define NEED(key)                                                                                  \
    do {                                                                                           \
        if (model->key == 0) {                                                                     \
            return missing(model, #key, err);                                                      \
        }                                                                                          \
    } while (0)

static aisim_status check_experts(const aisim_model *model, aisim_error *err)
{
    NEED(experts);
    NEED(experts_per_token);
    NEED(expert_intermediate);
    if (model->experts_per_token > model->experts) {
        return aisim_fail(
            err, AISIM_EINVAL, "model '%s': experts_per_token = %u is more than experts = %u",
            model->name, (unsigned)model->experts_per_token, (unsigned)model->experts);
    }
    return AISIM_OK;
}

static aisim_status check_latent(const aisim_model *model, aisim_error *err)
{
    NEED(q_lora_rank);
    NEED(kv_lora_rank);
    NEED(qk_nope_head_size);
    NEED(qk_rope_head_size);
    NEED(v_head_size);
    NEED(shared_intermediate);
    return check_experts(model, err);
}

static aisim_status check_hybrid(const aisim_model *model, aisim_error *err)
{
    NEED(linear_layers);
    NEED(linear_key_heads);
    NEED(linear_value_heads);
    NEED(linear_head_size);
    NEED(conv_width);
    if (model->linear_layers > model->layers) {
        return aisim_fail(err, AISIM_EINVAL, "model '%s': linear_layers = %u of %u layers",
                          model->name, (unsigned)model->linear_layers, (unsigned)model->layers);
    }
    if (model->experts > 0) {
        NEED(shared_intermediate);
        return check_experts(model, err);
    }
    NEED(intermediate);
    return AISIM_OK;
}

aisim_status aisim_model_check(const aisim_model *model, aisim_error *err)
{
    NEED(layers);
    NEED(hidden);
    NEED(heads);
    NEED(kv_heads);
    NEED(head_size);
    NEED(vocabulary);
    if (model->kv_heads > model->heads || model->heads % model->kv_heads != 0) {
        return aisim_fail(err, AISIM_EINVAL,
                          "model '%s': heads = %u is no multiple of kv_heads "
                          "= %u",
                          model->name, (unsigned)model->heads, (unsigned)model->kv_heads);
    }
    if (model->window_layers > model->layers ||
        (model->window_layers > 0) != (model->window_tokens > 0)) {
        return aisim_fail(err, AISIM_EINVAL,
                          "model '%s': window_layers = %u and window_tokens = %u; both or none, "
                          "at most %u layers",
                          model->name, (unsigned)model->window_layers,
                          (unsigned)model->window_tokens, (unsigned)model->layers);
    }
    if (model->kv_dtype != AISIM_DTYPE_BFLOAT16 && model->kv_dtype != AISIM_DTYPE_FP8) {
        return aisim_fail(err, AISIM_EINVAL, "model '%s': kv_dtype must be bfloat16 or fp8",
                          model->name);
    }
    switch ((aisim_architecture)model->architecture) {
    case AISIM_ARCHITECTURE_DENSE:
        NEED(intermediate);
        return AISIM_OK;
    case AISIM_ARCHITECTURE_MOE:
        return check_experts(model, err);
    case AISIM_ARCHITECTURE_MLA:
        return check_latent(model, err);
    case AISIM_ARCHITECTURE_HYBRID:
        return check_hybrid(model, err);
    case AISIM_ARCHITECTURE_COUNT:
        break;
    }
    return aisim_fail(err, AISIM_EINVAL, "model '%s': unknown architecture", model->name);
}
