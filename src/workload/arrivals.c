/* arrivals.c - one function per kind that needs more than a line. */
#include "workload/arrivals.h"

#include <math.h>

#include "base/alloc.h"
#include "base/clock.h"

#define TWO_PI 6.283185307179586

const char *aisim_arrival_kind_name(aisim_arrival_kind kind)
{
    static const char *const names[] = {
#define X(name, text) text,
        AISIM_ARRIVAL_KINDS(X)
#undef X
    };
    return names[kind];
}

void aisim_arrivals_deinit(aisim_arrivals *arrivals)
{
    aisim_free(arrivals->times);
    aisim_free(arrivals->values);
    arrivals->times = NULL;
    arrivals->values = NULL;
    arrivals->n = 0;
}

double aisim_line_at(const int64_t *times, const double *values, uint32_t n, int64_t t_ns)
{
    uint32_t i = 0; /* points at or before t */
    while (i < n && times[i] <= t_ns) {
        i++;
    }
    if (i == 0 || i == n) {
        return values[i == 0 ? 0 : n - 1];
    }
    double part = (double)(t_ns - times[i - 1]) / (double)(times[i] - times[i - 1]);
    return values[i - 1] + part * (values[i] - values[i - 1]);
}

static bool step(aisim_arrival_cursor *cursor, int64_t gap_ns)
{
    cursor->t_ns = gap_ns >= AISIM_NEVER - cursor->t_ns ? AISIM_NEVER : cursor->t_ns + gap_ns;
    return true;
}

static bool advance(aisim_arrival_cursor *cursor, double seconds)
{
    return step(cursor, aisim_ns_from_s(seconds));
}

/* Inverts the integrated rate: consumes one unit exponential. */
static bool next_scheduled(const aisim_arrivals *p, aisim_rng *rng, aisim_arrival_cursor *cursor)
{
    double left = aisim_rng_exponential(rng, 1.0);
    int64_t t = cursor->t_ns > p->times[0] ? cursor->t_ns : p->times[0];
    for (uint32_t i = 0; i < p->n; i++) {
        int64_t end = i + 1 < p->n ? p->times[i + 1] : AISIM_NEVER;
        if (t >= end) {
            continue;
        }
        double per_ns = p->values[i] / 1e9;
        double room = end == AISIM_NEVER ? INFINITY : (double)(end - t) * per_ns;
        if (per_ns > 0.0 && left <= room) {
            cursor->t_ns = t;
            double gap_ns = left / per_ns;
            return step(cursor, gap_ns < 0x1p62 ? llround(gap_ns) : AISIM_NEVER);
        }
        if (end == AISIM_NEVER) {
            return false;
        }
        left -= room;
        t = end;
    }
    return false;
}

static double rate_at(const aisim_arrivals *p, int64_t t_ns)
{
    double phase = fmod((double)t_ns, p->c > 0 ? p->c : 1.0);
    switch (p->kind) {
    case AISIM_ARRIVALS_SQUARE:
        return phase < p->d * p->c ? p->a + p->b : p->a;
    case AISIM_ARRIVALS_SINE:
        return p->a + p->b * sin(TWO_PI * phase / p->c);
    default:
        return aisim_line_at(p->times, p->values, p->n, t_ns);
    }
}

static double highest_rate(const aisim_arrivals *p)
{
    double most = 0.0;
    if (p->kind != AISIM_ARRIVALS_RAMP) {
        return p->a + p->b;
    }
    for (uint32_t i = 0; i < p->n; i++) {
        most = fmax(most, p->values[i]);
    }
    return most;
}

/* traffic 3.1: candidates of the highest rate, each kept with probability rate / highest. */
static bool next_thinned(const aisim_arrivals *p, aisim_rng *rng, aisim_arrival_cursor *cursor)
{
    double most = highest_rate(p);
    bool dies = p->kind == AISIM_ARRIVALS_RAMP && p->values[p->n - 1] == 0.0;
    while (most > 0.0) {
        advance(cursor, aisim_rng_exponential(rng, 1.0 / most));
        if (dies && cursor->t_ns >= p->times[p->n - 1]) {
            return false;
        }
        if (cursor->t_ns == AISIM_NEVER || aisim_rng_unit(rng) * most < rate_at(p, cursor->t_ns)) {
            return true;
        }
    }
    return false;
}

bool aisim_arrivals_next(const aisim_arrivals *p, aisim_rng *rng, aisim_arrival_cursor *cursor)
{
    uint64_t n = cursor->n++;
    switch (p->kind) {
    case AISIM_ARRIVALS_POISSON:
        return advance(cursor, aisim_rng_exponential(rng, 1.0 / p->a));
    case AISIM_ARRIVALS_GAMMA:
        return advance(cursor, aisim_rng_gamma(rng, p->b) / (p->b * p->a));
    case AISIM_ARRIVALS_WEIBULL:
        return advance(cursor, pow(-log1p(-aisim_rng_unit(rng)), 1.0 / p->b) /
                                   (p->a * tgamma(1.0 + 1.0 / p->b)));
    case AISIM_ARRIVALS_CONSTANT:
        cursor->t_ns = aisim_ns_from_s((double)n / p->a);
        return true;
    case AISIM_ARRIVALS_BURST:
        cursor->t_ns = p->a > 0 ? aisim_ns_from_s(floor((double)n / p->a) * p->b / 1e9) : 0;
        return true;
    case AISIM_ARRIVALS_AT_ONCE:
        return (double)n < p->a;
    case AISIM_ARRIVALS_SCHEDULE:
        return next_scheduled(p, rng, cursor);
    case AISIM_ARRIVALS_SQUARE:
    case AISIM_ARRIVALS_SINE:
    case AISIM_ARRIVALS_RAMP:
        return next_thinned(p, rng, cursor);
    case AISIM_ARRIVALS_TRACE:
        if (n >= p->n) {
            return false;
        }
        cursor->t_ns = p->times[n];
        return true;
    case AISIM_ARRIVAL_KIND_COUNT:
        break;
    }
    return false;
}
