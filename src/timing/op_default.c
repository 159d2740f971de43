/* op_default.c - what an operation costs when nothing was measured (timing.md §7).
 *
 * util(r) = u_max * r / (r + r_half), hence latency = (roof + r_half) / u_max: a share of the speed
 * of light for long operations and a floor for short ones. */
#include "timing/op_cost.h"

#include <math.h>

#include "base/alloc.h"

typedef struct default_curve {
    double u_max, half_us;
} default_curve;

static default_curve curve_of(const aisim_op *op)
{
    switch (op->kind) {
    case AISIM_OP_GEMM:
        return op->dtype == AISIM_DTYPE_FP8 || op->dtype == AISIM_DTYPE_FP8_STATIC
                   ? (default_curve){0.62, 5}
               : op->dtype == AISIM_DTYPE_FP8_BLOCK ? (default_curve){0.60, 6}
                                                    : (default_curve){0.80, 4};
    case AISIM_OP_PREFILL_ATTENTION:
        return (default_curve){0.60, 8};
    case AISIM_OP_DECODE_ATTENTION:
        return (default_curve){0.75, 6};
    case AISIM_OP_EXPERTS:
        return aisim_dtype_bytes(op->dtype) < 1 ? (default_curve){0.40, 60}
                                                : (default_curve){0.55, 30};
    case AISIM_OP_MLA_PREFILL:
    case AISIM_OP_MLA_DECODE:
        return (default_curve){0.55, 60};
    case AISIM_OP_GDN_SCAN:
        return (default_curve){0.35, 10};
    case AISIM_OP_GDN_CONV:
    case AISIM_OP_GDN_CONV_UPDATE:
    case AISIM_OP_GDN_RECURRENCE:
        return (default_curve){0.70, 4};
    case AISIM_OP_ALL_REDUCE:
    case AISIM_OP_ALL_GATHER:
    case AISIM_OP_REDUCE_SCATTER:
        return (default_curve){0.75, 4};
    case AISIM_OP_EMBEDDING:
    case AISIM_OP_ELEMENTWISE:
    case AISIM_OP_PIPELINE_HOP:
    case AISIM_OP_KIND_COUNT:
        break;
    }
    return (default_curve){1, 0}; /* formulas: never asked */
}

static double on_curve(default_curve curve, double roof_ms)
{
    return (roof_ms + 1e-3 * curve.half_us) / curve.u_max;
}

double aisim_op_default_ms(const aisim_op *op, aisim_roof roof)
{
    return on_curve(curve_of(op), aisim_roof_ms(roof));
}

typedef struct roofline_source {
    aisim_op_source base;
    aisim_hardware hardware;
    double mfu, mbu;
} roofline_source;

static double roofline_price(aisim_op_source *source, const aisim_op *op, const aisim_op_load *load,
                             aisim_provenance *provenance)
{
    const roofline_source *self = (const roofline_source *)source;
    aisim_roof roof = aisim_op_roof(&self->hardware, op, load);
    default_curve curve = curve_of(op);
    *provenance = AISIM_PROVENANCE_ROOFLINE;
    double compute = self->mfu > 0 ? roof.compute_ms / self->mfu : on_curve(curve, roof.compute_ms);
    double memory = self->mbu > 0 ? roof.memory_ms / self->mbu : on_curve(curve, roof.memory_ms);
    return compute > memory ? compute : memory;
}

static void roofline_free(aisim_op_source *source)
{
    aisim_free(source);
}

static const aisim_op_source_class roofline_class = {"roofline", roofline_price, NULL,
                                                     roofline_free};

aisim_op_source *aisim_op_source_roofline(const aisim_hardware *hardware, double mfu, double mbu)
{
    roofline_source *self = aisim_alloc_zero(1, sizeof *self);
    self->base.class = &roofline_class;
    self->hardware = *hardware;
    self->mfu = mfu;
    self->mbu = mbu;
    return &self->base;
}

void aisim_op_source_free(aisim_op_source *source)
{
    if (source != NULL) {
        source->class->free(source);
    }
}
