/* hardware.c - the keys of a hardware descriptor, and parallelism over it. */
#include "timing/descriptors.h"

#include <stddef.h>
#include <string.h>

#include "base/check.h"

#define F64(key, text)                                                                             \
    {                                                                                              \
#key, AISIM_FIELD_F64, offsetof(aisim_hardware, key), 0, 1e300, NULL, text                 \
    }

static const aisim_field hardware_fields[] = {
    {"name", AISIM_FIELD_TEXT, offsetof(aisim_hardware, name), 0, 0, NULL, "name in messages"},
    F64(memory_bytes, "memory of one GPU, bytes"),
    F64(memory_bytes_per_s, "memory bandwidth, bytes/s"),
    {"elementwise_efficiency", AISIM_FIELD_F64, offsetof(aisim_hardware, elementwise_efficiency), 0,
     1, NULL, "share of the bandwidth that element-wise kernels reach"},
    F64(elementwise_launch_us, "what an element-wise kernel costs besides, us"),
    F64(bf16_flops, "dense BF16 tensor rate, FLOP/s"),
    F64(fp8_flops, "dense FP8 tensor rate, FLOP/s"),
    F64(int8_flops, "dense INT8 tensor rate, op/s"),
    F64(link_bytes_per_s, "link per GPU and direction inside a node, bytes/s"),
    F64(node_bytes_per_s, "link per GPU between nodes, bytes/s"),
    F64(pipeline_hop_us, "latency of a hop between pipeline stages, us"),
    F64(host_bytes_per_s, "link to the host, one direction, bytes/s"),
    {"gpus_per_node", AISIM_FIELD_U32, offsetof(aisim_hardware, gpus_per_node), 1, 65536, NULL,
     "GPUs that share the fast links"},
    F64(runtime_bytes, "reserve that never holds KV, bytes"),
    F64(collective_bytes_tp2, "communication buffers in a group of 2, bytes"),
    F64(collective_bytes_tp4, "communication buffers in a group of 4, bytes"),
    F64(collective_bytes_tp8, "communication buffers in a group of 8 or more, bytes"),
    F64(power_watts, "power of one GPU, W (reports only)"),
};

const aisim_field_table aisim_hardware_fields = {
    "hardware", hardware_fields, sizeof hardware_fields / sizeof hardware_fields[0]};

void aisim_hardware_init(aisim_hardware *hardware)
{
    memset(hardware, 0, sizeof *hardware);
}

#define NEED(key)                                                                                  \
    do {                                                                                           \
        if (!(hardware->key > 0)) {                                                                \
            return aisim_fail(err, AISIM_EINVAL, "hardware '%s': '%s' must be above 0",            \
                              hardware->name, #key);                                               \
        }                                                                                          \
    } while (0)

aisim_status aisim_hardware_check(const aisim_hardware *hardware, aisim_error *err)
{
    NEED(memory_bytes);
    NEED(memory_bytes_per_s);
    NEED(elementwise_efficiency);
    NEED(bf16_flops);
    NEED(fp8_flops);
    NEED(link_bytes_per_s);
    NEED(node_bytes_per_s);
    NEED(gpus_per_node);
    return AISIM_OK;
}

double aisim_hardware_rate(const aisim_hardware *hardware, aisim_dtype dtype)
{
    switch (dtype) {
    case AISIM_DTYPE_FP8:
    case AISIM_DTYPE_FP8_STATIC:
    case AISIM_DTYPE_FP8_BLOCK:
        return hardware->fp8_flops;
    case AISIM_DTYPE_BFLOAT16:
    case AISIM_DTYPE_INT4:
    case AISIM_DTYPE_MXFP4:
        return hardware->bf16_flops;
    case AISIM_DTYPE_COUNT:
        break;
    }
    AISIM_UNREACHABLE();
}

double aisim_hardware_collective_bytes(const aisim_hardware *hardware, uint32_t tensor)
{
    if (tensor <= 1) {
        return 0;
    }
    return tensor == 2   ? hardware->collective_bytes_tp2
           : tensor <= 4 ? hardware->collective_bytes_tp4
                         : hardware->collective_bytes_tp8;
}

aisim_parallelism aisim_parallelism_one(void)
{
    return (aisim_parallelism){1, 1, 1, 1, 1};
}

static aisim_status check_expert_split(const aisim_parallelism *p, const aisim_model *model,
                                       aisim_error *err)
{
    if ((uint64_t)p->tensor * p->attention_data != (uint64_t)p->moe_tensor * p->moe_expert) {
        return aisim_fail(err, AISIM_EINVAL,
                          "parallelism: tensor * attention_data = %u must equal moe_tensor * "
                          "moe_expert = %u for the experts of '%s'",
                          (unsigned)(p->tensor * p->attention_data),
                          (unsigned)(p->moe_tensor * p->moe_expert), model->name);
    }
    if (p->moe_tensor != 1 && p->moe_expert != 1) {
        return aisim_fail(err, AISIM_EINVAL,
                          "parallelism: moe_tensor = %u and moe_expert = %u; one of them must be 1",
                          (unsigned)p->moe_tensor, (unsigned)p->moe_expert);
    }
    if (model->experts % p->moe_expert != 0) {
        return aisim_fail(err, AISIM_EINVAL,
                          "parallelism: moe_expert = %u does not divide the %u "
                          "experts of '%s'",
                          (unsigned)p->moe_expert, (unsigned)model->experts, model->name);
    }
    if (model->expert_intermediate % p->moe_tensor != 0 ||
        (model->moe_dtype == AISIM_DTYPE_FP8_BLOCK &&
         (model->expert_intermediate / p->moe_tensor) % 128 != 0)) {
        return aisim_fail(err, AISIM_EINVAL,
                          "parallelism: moe_tensor = %u does not cut the expert width %u of '%s' "
                          "into whole%s parts",
                          (unsigned)p->moe_tensor, (unsigned)model->expert_intermediate,
                          model->name,
                          model->moe_dtype == AISIM_DTYPE_FP8_BLOCK ? " 128-wide" : "");
    }
    return AISIM_OK;
}

aisim_status aisim_parallelism_check(const aisim_parallelism *p, const aisim_model *model,
                                     aisim_error *err)
{
    if (p->tensor == 0 || p->pipeline == 0 || p->attention_data == 0 || p->moe_tensor == 0 ||
        p->moe_expert == 0) {
        return aisim_fail(err, AISIM_EINVAL, "parallelism: every degree must be at least 1");
    }
    if (model->heads % p->tensor != 0) {
        return aisim_fail(err, AISIM_EINVAL,
                          "parallelism: tensor = %u does not divide the %u attention heads of '%s'",
                          (unsigned)p->tensor, (unsigned)model->heads, model->name);
    }
    if (model->architecture == AISIM_ARCHITECTURE_HYBRID &&
        (model->linear_key_heads % p->tensor != 0 || model->linear_value_heads % p->tensor != 0)) {
        return aisim_fail(err, AISIM_EINVAL,
                          "parallelism: tensor = %u does not divide the %u key and %u value heads "
                          "of the linear layers of '%s'",
                          (unsigned)p->tensor, (unsigned)model->linear_key_heads,
                          (unsigned)model->linear_value_heads, model->name);
    }
    if (p->pipeline > model->layers) {
        return aisim_fail(err, AISIM_EINVAL,
                          "parallelism: pipeline = %u is more than the %u "
                          "layers of '%s'",
                          (unsigned)p->pipeline, (unsigned)model->layers, model->name);
    }
    if (model->experts > 0) {
        return check_expert_split(p, model, err);
    }
    if (p->moe_tensor != 1 || p->moe_expert != 1) {
        return aisim_fail(err, AISIM_EINVAL,
                          "parallelism: moe_tensor and moe_expert must be 1: '%s' has no experts",
                          model->name);
    }
    return AISIM_OK;
}
