/* generators.c - the built-in sources: constants, exponential gaps, arrival processes. */
#include "workload/generators.h"

#include <math.h>

#include "base/alloc.h"

typedef struct gaps {
    double mean_ns;
    aisim_rng rng;
} gaps;

static bool constant_gap(void *context, int64_t *gap_ns, aisim_error *err)
{
    (void)err;
    *gap_ns = (int64_t)llround(((gaps *)context)->mean_ns);
    return true;
}

static bool exponential_gap(void *context, int64_t *gap_ns, aisim_error *err)
{
    (void)err;
    gaps *g = context;
    *gap_ns = (int64_t)llround(aisim_rng_exponential(&g->rng, g->mean_ns));
    return true;
}

aisim_gap_source aisim_gaps_constant(int64_t gap_ns)
{
    gaps *g = aisim_alloc_zero(1, sizeof *g);
    g->mean_ns = (double)gap_ns;
    return (aisim_gap_source){g, constant_gap, aisim_free};
}

aisim_gap_source aisim_gaps_exponential(double mean_ns, aisim_rng rng)
{
    gaps *g = aisim_alloc_zero(1, sizeof *g);
    *g = (gaps){mean_ns, rng};
    return (aisim_gap_source){g, exponential_gap, aisim_free};
}

typedef struct paced {
    aisim_arrivals arrivals;
    aisim_arrival_cursor cursor;
    aisim_rng rng;
} paced;

static bool arrival_gap(void *context, int64_t *gap_ns, aisim_error *err)
{
    (void)err;
    paced *p = context;
    int64_t last_ns = p->cursor.t_ns;
    bool more = aisim_arrivals_next(&p->arrivals, &p->rng, &p->cursor);
    *gap_ns = p->cursor.t_ns - last_ns;
    return more;
}

static void free_paced(void *context)
{
    paced *p = context;
    aisim_arrivals_deinit(&p->arrivals);
    aisim_free(p);
}

aisim_gap_source aisim_gaps_arrivals(const aisim_arrivals *arrivals, aisim_rng rng)
{
    paced *p = aisim_alloc_zero(1, sizeof *p);
    p->arrivals = *arrivals;
    p->rng = rng;
    return (aisim_gap_source){p, arrival_gap, free_paced};
}

static bool constant_unit(void *context, aisim_unit *unit, aisim_error *err)
{
    (void)err;
    *unit = *(const aisim_unit *)context;
    return true;
}

aisim_unit_source aisim_units_constant(uint32_t prompt_tokens, uint32_t output_tokens)
{
    aisim_unit *unit = aisim_alloc_zero(1, sizeof *unit);
    unit->prompt_tokens = prompt_tokens;
    unit->output_tokens = output_tokens;
    return (aisim_unit_source){unit, constant_unit, aisim_free};
}
