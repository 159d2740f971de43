/* route_cost.c - the arithmetic of §4 without a router: cost of a target, choice among costs
 * (spec/routing.md §4). Built-in policies and the helpers of policies in Lua share it. */
#include <math.h>

#include "cluster/route.h"

static double positive(double x)
{
    return x > 0.0 ? x : 0.0;
}

double aisim_route_kv_cost(const aisim_route_options *o, const aisim_route_kv_terms *t)
{
    double bs = t->block_size;
    double decay = 1.0;
    if (o->overlap_decay > 0.0) {
        double r = fmax(1.0, ceil(t->tokens / bs));
        double behind = (t->active_prefill_tokens - t->least_prefill_tokens) / bs;
        decay = 1.0 / (1.0 + o->overlap_decay * behind / r);
    }
    double credit = o->overlap_score_credit * decay * t->have.device +
                    o->host_credit * t->have.host + o->disk_credit * t->have.disk +
                    o->shared_credit * t->have.shared;
    double busy = o->active_request_weight * t->active_requests;
    if (!o->track_prefill) { /* decode pool: load only, or conditional disaggregation */
        return (o->overlap_score_credit > 0.0 ? positive(t->decode_blocks - credit)
                                              : t->decode_blocks) +
               busy;
    }
    double raw = (t->active_prefill_tokens + t->tokens) / bs;
    return o->prefill_load_scale * positive(raw - credit) + t->decode_blocks + busy;
}

uint32_t aisim_route_least(const double cost[], uint32_t n, double (*draw)(void *context),
                           void *context)
{
    double minimum = INFINITY;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (cost[i] < minimum) {
            minimum = cost[i];
            kept = i;
        }
    }
    uint32_t k = 1;
    for (uint32_t i = kept + 1; draw != NULL && i < n; i++) {
        if (cost[i] <= minimum) {
            k++;
            kept = draw(context) * k < 1.0 ? i : kept;
        }
    }
    return kept;
}

uint32_t aisim_route_draw(const double p[], uint32_t n, double u)
{
    double sum = 0.0;
    uint32_t last = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (p[i] <= 0.0) {
            continue;
        }
        sum += p[i];
        last = i;
        if (sum >= u) {
            break;
        }
    }
    return last;
}

uint32_t aisim_route_softmax(const double cost[], uint32_t n, double temperature,
                             double (*draw)(void *context), void *context, double p[])
{
    double low = INFINITY;
    double high = -INFINITY;
    for (uint32_t i = 0; i < n; i++) {
        low = fmin(low, cost[i]);
        high = fmax(high, cost[i]);
    }
    double range = high - low;
    double sum = 0.0;
    for (uint32_t i = 0; i < n; i++) {
        p[i] = range > 0.0 ? exp(-(cost[i] - low) / (range * temperature)) : 1.0;
        sum += p[i];
    }
    for (uint32_t i = 0; i < n; i++) {
        p[i] /= sum;
    }
    return range > 0.0 ? aisim_route_draw(p, n, draw(context)) : (uint32_t)(draw(context) * n);
}
