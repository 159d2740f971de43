/* op_cost.c - formulas around a source of latencies (timing.md §3, §11). */
#include "timing/op_cost.h"

#include "base/check.h"
#include "timing/decode_curve.h"

static double max2(double a, double b)
{
    return a > b ? a : b;
}

/* §3.3 E: rotary embedding, KV write and head norms, priced per launch; Q2 lets them grow with the
 * tokens. The factor 1.1 covers the gaps between these small kernels. */
double aisim_op_fringe_ms(const aisim_op_pricing *pricing, const aisim_op *op, double tokens)
{
    const aisim_hardware *hw = pricing->hardware;
    double scale = pricing->fixes.fringe_tokens ? tokens : 1;
    double q = (double)op->attention.heads * op->attention.head_size * scale;
    double k = (double)op->attention.kv_heads * op->attention.head_size * scale;
    double ms =
        2 * aisim_op_elementwise_ms(hw, 2 * q + 2 * k) + 2 * aisim_op_elementwise_ms(hw, 2 * k);
    if (op->attention.qk_norm) {
        ms += 4 * aisim_op_elementwise_ms(hw, 2 * q) + 4 * aisim_op_elementwise_ms(hw, 2 * k);
    }
    return 1.1 * ms;
}

/* A row of the table, or a point between two of them: chunk after chunk lies in the same cell. */
static double whole_prompt(const aisim_op_pricing *pricing, const aisim_op *op,
                           const aisim_op_load *whole, aisim_provenance *provenance)
{
    aisim_op_source *source = pricing->source;
    if (op->curve == 0 || pricing->cells == NULL || source->class->cell == NULL) {
        return source->class->price(source, op, whole, provenance);
    }
    uint64_t place = whole->seq / 4096 + 16 * (whole->batch - 1); /* most cells are wider */
    aisim_price_cell *cell = &pricing->cells[op->curve][place % AISIM_PRICE_CELLS];
    if (cell->batch != whole->batch || whole->seq <= cell->low || whole->seq >= cell->high) {
        cell->batch = 0;
        if (!source->class->cell(source, op, whole, cell)) {
            return source->class->price(source, op, whole, provenance);
        }
        cell->batch = whole->batch;
    }
    *provenance = cell->provenance;
    return aisim_price_cell_ms(cell, whole->seq);
}

/* §3.3, §3.6: a table row is a whole causal prompt of f tokens; a chunk with a cached prefix is the
 * share of its attended pairs. Q9: but never below what the chunk itself must read and compute. */
static double causal_chunk(const aisim_op_pricing *pricing, const aisim_op *op,
                           const aisim_op_load *load, aisim_provenance *provenance)
{
    aisim_op_load whole = *load;
    whole.seq = load->seq + load->past;
    whole.past = 0;
    double ms = whole_prompt(pricing, op, &whole, provenance);
    double f = (double)whole.seq, p = (double)load->past;
    ms *= (f * f - p * p) / (f * f);
    if (pricing->fixes.prefix_roof) {
        ms = max2(ms, aisim_roof_ms(aisim_op_roof(pricing->hardware, op, load)));
    }
    return ms;
}

static double decode_price(const aisim_op_pricing *pricing, const aisim_op *op,
                           const aisim_op_load *load, uint64_t length, aisim_provenance *provenance)
{
    if (op->curve > 0 && pricing->curves != NULL) {
        return aisim_decode_curve_price(pricing->curves[op->curve], load->batch, length,
                                        provenance);
    }
    aisim_op_load at = *load;
    at.context = length;
    return pricing->source->class->price(pricing->source, op, &at, provenance);
}

/* §3.4: lengths in a batch differ; five of them, evenly over +-10 % */
static double decode_spread(const aisim_op_pricing *pricing, const aisim_op *op,
                            const aisim_op_load *load, aisim_provenance *provenance)
{
    double len = (double)load->context;
    uint64_t low = (uint64_t)(0.9 * len), high = (uint64_t)(1.1 * len);
    low = low > 0 ? low : 1;
    if (op->curve > 0 && pricing->curves != NULL) {
        return aisim_decode_curve_mean(pricing->curves[op->curve], load->batch, low, high,
                                       provenance);
    }
    double sum = 0;
    *provenance = AISIM_PROVENANCE_MEASURED;
    for (uint32_t i = 0; i < AISIM_DECODE_SPREAD; i++) {
        aisim_provenance one;
        uint64_t length = aisim_decode_length(low, high, i);
        sum += decode_price(pricing, op, load, length, &one);
        *provenance = aisim_provenance_worse(*provenance, one);
    }
    return sum / AISIM_DECODE_SPREAD;
}

/* Q1: rows of block-FP8 GEMMs carry ~50 us of host launch that a captured decode pass does not */
static double without_launch_floor(const aisim_op_pricing *pricing, const aisim_op *op,
                                   const aisim_op_load *load, double ms)
{
    aisim_op plain = *op;
    aisim_provenance ignored;
    plain.dtype = AISIM_DTYPE_FP8;
    return max2(pricing->source->class->price(pricing->source, &plain, load, &ignored), ms - 0.050);
}

static double gemm_cost(const aisim_op_pricing *pricing, const aisim_op *op,
                        const aisim_op_load *load, bool decode_pass, aisim_provenance *provenance)
{
    double ms = pricing->source->class->price(pricing->source, op, load, provenance);
    if (pricing->fixes.block_gemm_floor && decode_pass && op->dtype == AISIM_DTYPE_FP8_BLOCK &&
        *provenance != AISIM_PROVENANCE_ROOFLINE) {
        return without_launch_floor(pricing, op, load, ms);
    }
    return ms;
}

/* §3.8: groups larger than a node are scaled from the largest measured group */
static double all_reduce_cost(const aisim_op_pricing *pricing, const aisim_op *op,
                              const aisim_op_load *load, aisim_provenance *provenance)
{
    const aisim_hardware *hw = pricing->hardware;
    if (op->link.gpus <= hw->gpus_per_node) {
        return pricing->source->class->price(pricing->source, op, load, provenance);
    }
    aisim_op inside = *op;
    inside.link.gpus = hw->gpus_per_node;
    double g = op->link.gpus, node = hw->gpus_per_node;
    double ms = pricing->source->class->price(pricing->source, &inside, load, provenance);
    *provenance = aisim_provenance_worse(*provenance, AISIM_PROVENANCE_EXTRAPOLATED);
    return ms * ((g - 1) / g) * (node / (node - 1)) * (hw->link_bytes_per_s / hw->node_bytes_per_s);
}

aisim_op_price aisim_op_cost(const aisim_op_pricing *pricing, const aisim_op *op,
                             const aisim_op_load *load, bool decode_pass)
{
    const aisim_hardware *hw = pricing->hardware;
    aisim_op_price price = {0, AISIM_PROVENANCE_FORMULA};
    double x = (double)load->tokens;
    switch (op->kind) {
    case AISIM_OP_EMBEDDING: /* §3.1 */
        price.ms = aisim_op_elementwise_ms(hw, 2 * x * (double)op->elementwise.dim_out);
        return price;
    case AISIM_OP_ELEMENTWISE: /* §3.1 */
        price.ms = aisim_op_elementwise_ms(
            hw, 2 * x * (double)(op->elementwise.dim_in + op->elementwise.dim_out));
        return price;
    case AISIM_OP_GEMM:
        price.ms = gemm_cost(pricing, op, load, decode_pass, &price.provenance);
        return price;
    case AISIM_OP_PREFILL_ATTENTION:
        price.ms = causal_chunk(pricing, op, load, &price.provenance) +
                   (op->fringe_ms > 0
                        ? op->fringe_ms
                        : aisim_op_fringe_ms(pricing, op, (double)(load->batch * load->seq)));
        return price;
    case AISIM_OP_DECODE_ATTENTION:
        if (load->exact) {
            price.ms = decode_price(pricing, op, load, load->context, &price.provenance);
            return price;
        }
        price.ms = decode_spread(pricing, op, load, &price.provenance);
        return price;
    case AISIM_OP_MLA_DECODE:
        price.ms = decode_price(pricing, op, load, load->context, &price.provenance);
        return price;
    case AISIM_OP_MLA_PREFILL:
        price.ms = causal_chunk(pricing, op, load, &price.provenance);
        return price;
    case AISIM_OP_ALL_REDUCE:
        price.ms = all_reduce_cost(pricing, op, load, &price.provenance);
        return price;
    case AISIM_OP_PIPELINE_HOP: /* §3.8 */
        price.ms = aisim_roof_ms(aisim_op_roof(hw, op, load)) +
                   1e-3 * (op->link.stages - 1) * hw->pipeline_hop_us;
        return price;
    case AISIM_OP_EXPERTS:
    case AISIM_OP_GDN_CONV:
    case AISIM_OP_GDN_CONV_UPDATE:
    case AISIM_OP_GDN_SCAN:
    case AISIM_OP_GDN_RECURRENCE:
    case AISIM_OP_ALL_GATHER:
    case AISIM_OP_REDUCE_SCATTER:
        price.ms = pricing->source->class->price(pricing->source, op, load, &price.provenance);
        return price;
    case AISIM_OP_KIND_COUNT:
        break;
    }
    AISIM_UNREACHABLE();
}
