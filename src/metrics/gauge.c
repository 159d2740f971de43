/* gauge.c - segments of constant value become weights of a digest. */
#include "metrics/gauge.h"

#include "base/alloc.h"
#include "base/check.h"

void aisim_gauge_init(aisim_gauge *gauge)
{
    *gauge = (aisim_gauge){.least = 1};
    aisim_digest_init(&gauge->held, AISIM_PERCENTILE_NEAREST, 0);
}

/* ---- shares ---------------------------------------------------------------------------------- */

static void forget_parts(aisim_gauge *gauge)
{
    for (uint32_t part = gauge->least; part <= gauge->most; part++) {
        gauge->parts[part] = 0;
    }
    gauge->least = 1;
    gauge->most = 0;
}

/* What was counted by parts joins the digest. */
static void melt(aisim_gauge *gauge)
{
    for (uint32_t part = gauge->least; part <= gauge->most; part++) {
        double value = (double)part / (double)gauge->whole;
        aisim_digest_add(&gauge->held, value, gauge->parts[part]);
    }
    forget_parts(gauge);
}

/* From now on parts of `whole` are counted; 0 = none. */
static void count_parts_of(aisim_gauge *gauge, uint32_t whole)
{
    melt(gauge);
    aisim_free(gauge->parts);
    gauge->parts = whole > 0 ? aisim_alloc_zero((size_t)whole + 1, sizeof *gauge->parts) : NULL;
    gauge->whole = whole;
}

static void count_part(aisim_gauge *gauge, uint64_t ns)
{
    uint32_t part = gauge->part;
    gauge->parts[part] += ns;
    if (gauge->least > gauge->most) {
        gauge->least = gauge->most = part;
    } else if (part < gauge->least) {
        gauge->least = part;
    } else if (part > gauge->most) {
        gauge->most = part;
    }
}

/* ---- values ---------------------------------------------------------------------------------- */

void aisim_gauge_clear(aisim_gauge *gauge)
{
    aisim_digest_clear(&gauge->held);
    aisim_free(gauge->parts);
    aisim_digest held = gauge->held;
    *gauge = (aisim_gauge){.held = held, .least = 1};
}

void aisim_gauge_copy(aisim_gauge *to, aisim_gauge *from)
{
    melt(from);
    aisim_digest_merge(&to->held, &from->held);
    to->value = from->value;
    to->since_ns = from->since_ns;
    to->set = from->set;
}

void aisim_gauge_end(aisim_gauge *gauge, int64_t t_ns)
{
    if (gauge->set && t_ns > gauge->since_ns) {
        uint64_t ns = (uint64_t)(t_ns - gauge->since_ns);
        if (gauge->whole > 0) {
            count_part(gauge, ns);
        } else {
            aisim_digest_add(&gauge->held, gauge->value, ns);
        }
        gauge->since_ns = t_ns;
    }
}

void aisim_gauge_begin(aisim_gauge *gauge, int64_t t_ns)
{
    forget_parts(gauge);
    aisim_digest_clear(&gauge->held);
    if (gauge->set && t_ns > gauge->since_ns) {
        gauge->since_ns = t_ns;
    }
}

/* The value changes; what it was is counted. */
static void change(aisim_gauge *gauge, int64_t t_ns, double value)
{
    if (!gauge->set) {
        gauge->since_ns = t_ns;
        gauge->set = true;
    } else {
        AISIM_ASSERT(t_ns >= gauge->since_ns);
        aisim_gauge_end(gauge, t_ns);
    }
    gauge->value = value;
}

void aisim_gauge_set(aisim_gauge *gauge, int64_t t_ns, double value)
{
    if (gauge->set && gauge->whole == 0 && value == gauge->value) {
        return;
    }
    change(gauge, t_ns, value);
    if (gauge->whole > 0) {
        count_parts_of(gauge, 0);
    }
}

void aisim_gauge_set_share(aisim_gauge *gauge, int64_t t_ns, uint64_t part, uint64_t whole)
{
    if (whole > AISIM_GAUGE_PARTS) {
        aisim_gauge_set(gauge, t_ns, (double)part / (double)whole);
        return;
    }
    AISIM_ASSERT(part <= whole && whole > 0);
    if (gauge->set && gauge->whole == whole && gauge->part == part) {
        return;
    }
    change(gauge, t_ns, (double)part / (double)whole);
    if (gauge->whole != whole) {
        count_parts_of(gauge, (uint32_t)whole);
    }
    gauge->part = (uint32_t)part;
}

void aisim_gauge_read(aisim_gauge *gauge, aisim_gauge_stats *out)
{
    melt(gauge);
    *out = (aisim_gauge_stats){.held_ns = (int64_t)gauge->held.n};
    if (gauge->held.n > 0) {
        out->mean = aisim_digest_mean(&gauge->held);
        out->peak = gauge->held.max;
        out->p99 = aisim_digest_share(&gauge->held, 99);
    }
}
