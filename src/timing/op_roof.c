/* op_roof.c - speed-of-light bounds of every kind of operation (timing.md §3).
 *
 * All arithmetic in double: sizes stay far below 2^53. */
#include "timing/op_cost.h"

#include "base/check.h"

static double min2(double a, double b)
{
    return a < b ? a : b;
}

static aisim_roof roof_of(double flops, double rate, double bytes, double bandwidth)
{
    return (aisim_roof){1e3 * flops / rate, 1e3 * bytes / bandwidth};
}

double aisim_op_elementwise_ms(const aisim_hardware *hw, double bytes)
{
    return 1e3 * bytes / (hw->elementwise_efficiency * hw->memory_bytes_per_s) +
           1e-3 * hw->elementwise_launch_us;
}

/* §3.2 */
static aisim_roof gemm_roof(const aisim_hardware *hw, const aisim_op *op, double m)
{
    double n = (double)op->gemm.n, k = (double)op->gemm.k;
    double bytes = aisim_dtype_bytes(op->dtype) * (m * n + m * k + n * k);
    return roof_of(2 * m * n * k, aisim_hardware_rate(hw, op->dtype), bytes,
                   hw->memory_bytes_per_s);
}

/* §3.3: f = s + p; a window cuts what a query sees once the context is longer than it */
static aisim_roof prefill_roof(const aisim_hardware *hw, const aisim_op *op,
                               const aisim_op_load *load)
{
    double b = (double)load->batch, s = (double)load->seq, p = (double)load->past, f = s + p;
    double n = op->attention.heads, kv = op->attention.kv_heads, h = op->attention.head_size;
    double w = op->attention.window;
    double pairs = w > 0 && f > w ? s * w : (f * f - p * p) / 2;
    double bytes = 4 * b * n * s * h + aisim_dtype_bytes(op->kv_dtype) * 2 * b * kv * f * h;
    return roof_of(4 * b * n * h * pairs, aisim_hardware_rate(hw, op->dtype), bytes,
                   hw->memory_bytes_per_s);
}

/* §3.4 */
static aisim_roof decode_roof(const aisim_hardware *hw, const aisim_op *op,
                              const aisim_op_load *load)
{
    double b = (double)load->batch, len = (double)load->context - 1;
    double n = op->attention.heads, kv = op->attention.kv_heads, h = op->attention.head_size;
    if (op->attention.window > 0) {
        len = min2(len, op->attention.window);
    }
    double bytes = b * (4 * n * h + 2 * kv * len * h * aisim_dtype_bytes(op->kv_dtype));
    return roof_of(4 * b * n * h * len, aisim_hardware_rate(hw, op->kv_dtype), bytes,
                   hw->memory_bytes_per_s);
}

/* §3.5 */
static aisim_roof experts_roof(const aisim_hardware *hw, const aisim_op *op, double tokens)
{
    double routed = tokens * op->experts.topk;
    double hidden = (double)op->experts.hidden, inter = (double)op->experts.inter;
    double ep = op->experts.moe_ep, tp = op->experts.moe_tp, experts = op->experts.experts;
    double bytes =
        aisim_dtype_bytes(op->dtype) * (2 * hidden * routed / ep + 3 * inter * routed / (ep * tp) +
                                        3 * hidden * inter / tp * min2(experts / ep, routed / ep));
    return roof_of(6 * routed * hidden * inter / (ep * tp), aisim_hardware_rate(hw, op->dtype),
                   bytes, hw->memory_bytes_per_s);
}

/* §3.6: heads of full width in prefill, absorbed products on the compressed cache in decode */
static aisim_roof mla_prefill_roof(const aisim_hardware *hw, const aisim_op *op,
                                   const aisim_op_load *load)
{
    double b = (double)load->batch, s = (double)load->seq, p = (double)load->past, f = s + p;
    double n = op->mla.heads;
    double width = (double)op->mla.nope + op->mla.rope + op->mla.value;
    double bytes = b * n * (width * f * aisim_dtype_bytes(op->kv_dtype) + 2 * width * s);
    return roof_of(b * n * width * (f * f - p * p), hw->bf16_flops, bytes, hw->memory_bytes_per_s);
}

static aisim_roof mla_decode_roof(const aisim_hardware *hw, const aisim_op *op,
                                  const aisim_op_load *load)
{
    double b = (double)load->batch, len = (double)load->context, n = op->mla.heads;
    double latent = op->mla.latent, nope = op->mla.nope, key = latent + op->mla.rope;
    double bytes =
        b * (2 * (key + latent) * n + (len - 1) * key * aisim_dtype_bytes(op->kv_dtype)) +
        2 * n * ((nope + latent) * b + nope * latent) * aisim_dtype_bytes(op->dtype);
    double compute_ms = 1e3 * (2 * b * n * (key + latent) * len / hw->bf16_flops +
                               4 * b * n * nope * latent / aisim_hardware_rate(hw, op->dtype));
    return (aisim_roof){compute_ms, 1e3 * bytes / hw->memory_bytes_per_s};
}

/* §3.7 */
static aisim_roof gdn_roof(const aisim_hardware *hw, const aisim_op *op, const aisim_op_load *load)
{
    double b = (double)load->batch, s = (double)load->seq, x = b * s;
    double size = op->gdn.head_size;
    double keys = op->gdn.key_heads * size, values = op->gdn.value_heads * size;
    double state = op->gdn.value_heads * size * size;
    double bytes = 12 * x * (2 * keys + values);
    if (op->kind == AISIM_OP_GDN_SCAN || op->kind == AISIM_OP_GDN_RECURRENCE) {
        bytes = 2 * x * (2 * keys + values) + 2 * x * values + 8 * state * b;
    }
    if (op->kind == AISIM_OP_GDN_SCAN) {
        bytes += 4 * b * state * (double)(load->seq / 64);
    }
    return (aisim_roof){0, 1e3 * bytes / hw->memory_bytes_per_s};
}

/* §3.8: beyond a node the ring is as slow as the links between nodes */
static aisim_roof link_roof(const aisim_hardware *hw, const aisim_op *op, double tokens)
{
    double g = op->link.gpus, elements = tokens * (double)op->link.width;
    double bytes = (op->kind == AISIM_OP_ALL_REDUCE ? 4 : 2) * elements * (g - 1) / g;
    double rate = op->link.gpus > hw->gpus_per_node ? hw->node_bytes_per_s : hw->link_bytes_per_s;
    return (aisim_roof){0, 1e3 * bytes / rate};
}

aisim_roof aisim_op_roof(const aisim_hardware *hw, const aisim_op *op, const aisim_op_load *load)
{
    double x = (double)load->tokens;
    switch (op->kind) {
    case AISIM_OP_EMBEDDING:
        return (aisim_roof){0, 2e3 * x * (double)op->elementwise.dim_out / hw->memory_bytes_per_s};
    case AISIM_OP_ELEMENTWISE:
        return (aisim_roof){0, 2e3 * x *
                                   (double)(op->elementwise.dim_in + op->elementwise.dim_out) /
                                   hw->memory_bytes_per_s};
    case AISIM_OP_GEMM:
        return gemm_roof(hw, op, op->gemm.rows == AISIM_ROWS_LOGITS ? (double)load->logit_rows : x);
    case AISIM_OP_PREFILL_ATTENTION:
        return prefill_roof(hw, op, load);
    case AISIM_OP_DECODE_ATTENTION:
        return decode_roof(hw, op, load);
    case AISIM_OP_EXPERTS:
        return experts_roof(hw, op, x * op->experts.attn_dp);
    case AISIM_OP_MLA_PREFILL:
        return mla_prefill_roof(hw, op, load);
    case AISIM_OP_MLA_DECODE:
        return mla_decode_roof(hw, op, load);
    case AISIM_OP_GDN_CONV:
    case AISIM_OP_GDN_CONV_UPDATE:
    case AISIM_OP_GDN_SCAN:
    case AISIM_OP_GDN_RECURRENCE:
        return gdn_roof(hw, op, load);
    case AISIM_OP_ALL_REDUCE:
    case AISIM_OP_ALL_GATHER:
    case AISIM_OP_REDUCE_SCATTER:
        return link_roof(hw, op, x);
    case AISIM_OP_PIPELINE_HOP:
        return (aisim_roof){0, (op->link.stages - 1) * 2e3 * x * (double)op->link.width /
                                   hw->node_bytes_per_s};
    case AISIM_OP_KIND_COUNT:
        break;
    }
    AISIM_UNREACHABLE();
}
