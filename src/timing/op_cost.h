/* op_cost.h - what one launch of an operation costs (timing.md §3).
 *
 * Three layers. The *roof* is the speed of light: arithmetic or memory or link, whichever is
 * longer. A *source* knows measured latencies (tables, a calibration) or guesses them (roofline).
 * aisim_op_cost puts both together and adds what is formula by definition: element-wise kernels,
 * the scaling of causal attention by its cached prefix, its fringe, the length spread of decode. */
#ifndef AISIM_TIMING_OP_COST_H
#define AISIM_TIMING_OP_COST_H

#include "timing/op.h"
#include "timing/timing.h"

/** Lower bounds of one launch, in ms. Collectives count their link time as memory. */
typedef struct aisim_roof {
    double compute_ms, memory_ms;
} aisim_roof;

/** @return the roof of one launch (§3). Attention: of the load's chunk and past. */
aisim_roof aisim_op_roof(const aisim_hardware *hardware, const aisim_op *op,
                         const aisim_op_load *load);

static inline double aisim_roof_ms(aisim_roof roof)
{
    return roof.compute_ms > roof.memory_ms ? roof.compute_ms : roof.memory_ms;
}

/** An element-wise kernel that moves @p bytes (§3.1). */
double aisim_op_elementwise_ms(const aisim_hardware *hardware, double bytes);

/** A source of latencies. price() answers for one launch:
 *  GEMM, experts, collectives, delta-net kernels at the load; prefill attention at full length
 *  (load->seq = f, past 0); decode attention at exactly load->context. Tokens of collectives and
 *  experts are those of this rank. Never NaN; > 0; hot, allocates nothing. */
typedef struct aisim_op_source aisim_op_source;

/** A stretch of full lengths f in which the square root of a prefill's attention is a straight
 * line: low < f < high. */
typedef struct aisim_price_cell {
    uint64_t batch; /**< 0 = empty */
    uint64_t low, high;
    double low_root, high_root; /**< sqrt(ms) at low and high */
    aisim_provenance provenance;
} aisim_price_cell;

static inline double aisim_price_cell_ms(const aisim_price_cell *cell, uint64_t f)
{
    double weight = ((double)f - (double)cell->low) / ((double)cell->high - (double)cell->low);
    double root = cell->low_root + (cell->high_root - cell->low_root) * weight;
    return root * root;
}

typedef struct aisim_op_source_class {
    const char *name;
    double (*price)(aisim_op_source *source, const aisim_op *op, const aisim_op_load *load,
                    aisim_provenance *provenance);
    /** NULL = has none. The cell in which the load (whole causal prompt) of a prefill attention
     *  lies; price() anywhere in it is aisim_price_cell_ms, bit for bit. Fills all but `batch`.
     *  @return false = it lies in none */
    bool (*cell)(aisim_op_source *source, const aisim_op *op, const aisim_op_load *load,
                 aisim_price_cell *cell);
    void (*free)(aisim_op_source *source);
} aisim_op_source_class;

struct aisim_op_source {
    const aisim_op_source_class *class;
};

/** NULL allowed. */
void aisim_op_source_free(aisim_op_source *source);

/** The source that has no data: roof over a default efficiency (§7).
 *  @param mfu, mbu  0 = default curve; else the fixed share of the arithmetic or memory roof that
 *                   is reached: latency = max(compute / mfu, memory / mbu), the side that is not
 *                   given keeping its default curve. Both in (0, 1].
 *  @param hardware  copied */
aisim_op_source *aisim_op_source_roofline(const aisim_hardware *hardware, double mfu, double mbu);

/** Latency of one launch from the default efficiency curve of its family (§7). */
double aisim_op_default_ms(const aisim_op *op, aisim_roof roof);

enum { AISIM_PRICE_CELLS = 64 };

/** All that pricing an operation needs. */
typedef struct aisim_op_pricing {
    const aisim_hardware *hardware;
    aisim_op_source *source;
    aisim_timing_fixes fixes;
    struct aisim_decode_curve *
        *curves; /**< by aisim_op.curve; entry 0 unused. NULL: price directly */
    aisim_price_cell (*cells)[AISIM_PRICE_CELLS]; /**< the same for prefill */
} aisim_op_pricing;

/** What attention costs beside the table row (§3.3 E), ms of one launch with so many tokens. */
double aisim_op_fringe_ms(const aisim_op_pricing *pricing, const aisim_op *op, double tokens);

typedef struct aisim_op_price {
    double ms; /**< one launch */
    aisim_provenance provenance;
} aisim_op_price;

/** @param decode_pass  the pass has no prefill items (Q1 acts there only) */
aisim_op_price aisim_op_cost(const aisim_op_pricing *pricing, const aisim_op *op,
                             const aisim_op_load *load, bool decode_pass);

/** The less certain of two provenances. */
static inline aisim_provenance aisim_provenance_worse(aisim_provenance a, aisim_provenance b)
{
    return a > b ? a : b;
}

#endif
