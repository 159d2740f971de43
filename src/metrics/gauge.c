/* gauge.c - segments of constant value become weights of a digest. */
#include "metrics/gauge.h"

#include "base/check.h"

void aisim_gauge_init(aisim_gauge *gauge)
{
    *gauge = (aisim_gauge){0};
    aisim_digest_init(&gauge->held, AISIM_PERCENTILE_NEAREST, 0);
}

void aisim_gauge_clear(aisim_gauge *gauge)
{
    aisim_digest_clear(&gauge->held);
    gauge->set = false;
}

void aisim_gauge_copy(aisim_gauge *to, aisim_gauge *from)
{
    aisim_digest_merge(&to->held, &from->held);
    to->value = from->value;
    to->since_ns = from->since_ns;
    to->set = from->set;
}

void aisim_gauge_end(aisim_gauge *gauge, int64_t t_ns)
{
    if (gauge->set && t_ns > gauge->since_ns) {
        aisim_digest_add(&gauge->held, gauge->value, (uint64_t)(t_ns - gauge->since_ns));
        gauge->since_ns = t_ns;
    }
}

void aisim_gauge_begin(aisim_gauge *gauge, int64_t t_ns)
{
    aisim_digest_clear(&gauge->held);
    if (gauge->set && t_ns > gauge->since_ns) {
        gauge->since_ns = t_ns;
    }
}

void aisim_gauge_set(aisim_gauge *gauge, int64_t t_ns, double value)
{
    if (!gauge->set) {
        gauge->since_ns = t_ns;
        gauge->set = true;
    } else if (value == gauge->value) {
        return;
    } else {
        AISIM_ASSERT(t_ns >= gauge->since_ns);
        aisim_gauge_end(gauge, t_ns);
    }
    gauge->value = value;
}

void aisim_gauge_read(aisim_gauge *gauge, aisim_gauge_stats *out)
{
    *out = (aisim_gauge_stats){.held_ns = (int64_t)gauge->held.n};
    if (gauge->held.n > 0) {
        out->mean = aisim_digest_mean(&gauge->held);
        out->peak = gauge->held.max;
        out->p99 = aisim_digest_share(&gauge->held, 99);
    }
}
