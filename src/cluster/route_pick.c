/* route_pick.c - the built-in policies: each reads the books of the eligible targets and answers
 * one of them (spec/routing.md §2 and §4).
 *
 * Eligible targets come in (worker, rank) order, so "lowest" is "first". Costs are left in
 * route->cost for decision records. Draws come from one named stream, in the order written here. */
#include <math.h>

#include "cluster/route_internal.h"

static double draw(aisim_route *route)
{
    route->draws++;
    return route->config.draw != NULL ? route->config.draw(route->config.context)
                                      : aisim_rng_unit(&route->config.rng);
}

static route_target *target_at(const aisim_route *route, uint32_t i)
{
    return &route->targets.data[route->eligible.data[i]];
}

static double cost_at(const aisim_route *route, uint32_t i)
{
    return route->cost.data[route->eligible.data[i]];
}

/* ---- choosing among costs -------------------------------------------------------------------- */

/* §4: the minimum first; then the k-th tied target, k >= 2, replaces the kept one if u * k < 1. */
static uint32_t least(aisim_route *route, bool random_ties)
{
    double minimum = INFINITY;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < route->eligible.len; i++) {
        if (cost_at(route, i) < minimum) {
            minimum = cost_at(route, i);
            kept = i;
        }
    }
    uint32_t k = 1;
    for (uint32_t i = kept + 1; random_ties && i < route->eligible.len; i++) {
        if (cost_at(route, i) <= minimum) {
            k++;
            kept = draw(route) * k < 1.0 ? i : kept;
        }
    }
    return kept;
}

/* First index whose cumulative probability reaches u, the last one if rounding leaves none; what
 * has no probability is left out. */
static uint32_t draw_by_p(aisim_route *route)
{
    double u = draw(route);
    double sum = 0.0;
    uint32_t last = 0;
    for (uint32_t i = 0; i < route->eligible.len; i++) {
        double p = route->p.data[route->eligible.data[i]];
        if (p <= 0.0) {
            continue;
        }
        sum += p;
        last = i;
        if (sum >= u) {
            break;
        }
    }
    return last;
}

static void normalise(aisim_route *route, double sum)
{
    for (uint32_t i = 0; i < route->eligible.len; i++) {
        route->p.data[route->eligible.data[i]] /= sum;
    }
}

/* §4, T > 0: costs are range-normalised first. */
static uint32_t softmax(aisim_route *route)
{
    uint32_t n = route->eligible.len;
    double low = INFINITY;
    double high = -INFINITY;
    for (uint32_t i = 0; i < n; i++) {
        low = fmin(low, cost_at(route, i));
        high = fmax(high, cost_at(route, i));
    }
    double range = high - low;
    double sum = 0.0;
    for (uint32_t i = 0; i < n; i++) {
        double p =
            range > 0.0 ? exp(-(cost_at(route, i) - low) / (range * route->o.temperature)) : 1.0;
        route->p.data[route->eligible.data[i]] = p;
        sum += p;
    }
    normalise(route, sum);
    return range > 0.0 ? draw_by_p(route) : (uint32_t)(draw(route) * n);
}

static uint32_t by_cost(aisim_route *route)
{
    return route->o.temperature > 0.0 ? softmax(route) : least(route, true);
}

/* ---- load ------------------------------------------------------------------------------------ */

static double least_cost(const aisim_route *route, const route_target *t)
{
    switch (route->o.policy) {
    case AISIM_ROUTE_LEAST_TOKENS:
        return (double)t->active_prefill_tokens +
               (double)route_active_blocks(t) * route->config.block_size;
    case AISIM_ROUTE_LEAST_KV:
        return t->seen.kv_total > 0 ? (double)t->seen.kv_used / (double)t->seen.kv_total : 0.0;
    default:
        return (double)t->active_requests;
    }
}

static void fill_costs(aisim_route *route)
{
    for (uint32_t i = 0; i < route->eligible.len; i++) {
        uint32_t target = route->eligible.data[i];
        double cost = least_cost(route, target_at(route, i));
        route->cost.data[target] = target == route->bound ? cost * route->o.soft_factor : cost;
    }
}

static uint32_t least_load(aisim_route *route)
{
    fill_costs(route);
    return least(route, route->o.ties == AISIM_TIES_RANDOM);
}

/* Waiting first, then running; both are shown, one number decides. */
static uint32_t shortest_queue(aisim_route *route)
{
    for (uint32_t i = 0; i < route->eligible.len; i++) {
        const route_target *t = target_at(route, i);
        route->cost.data[route->eligible.data[i]] = t->seen.waiting * 0x1p32 + t->seen.running;
    }
    uint32_t choice = least(route, route->o.ties == AISIM_TIES_RANDOM);
    for (uint32_t i = 0; i < route->eligible.len; i++) {
        const route_target *t = target_at(route, i);
        route->cost.data[route->eligible.data[i]] = t->seen.waiting;
        route->cost2.data[route->eligible.data[i]] = t->seen.running;
    }
    return choice;
}

static uint32_t round_robin(aisim_route *route)
{
    uint32_t at = 0; /* place of the last choice in (worker, rank) order, and one more */
    for (uint32_t i = 0; route->last != AISIM_NONE && i < route->order.len; i++) {
        at = route->order.data[i] == route->last ? i + 1 : at;
    }
    uint32_t next = 0; /* first eligible target from there on, wrapping */
    for (uint32_t i = 0; i < at; i++) {
        next += next < route->eligible.len && route->eligible.data[next] == route->order.data[i];
    }
    next = next == route->eligible.len ? 0 : next;
    route->last = route->eligible.data[next];
    return next;
}

static uint32_t p2c(aisim_route *route)
{
    uint32_t n = route->eligible.len;
    if (n == 1) {
        return 0;
    }
    uint32_t i = (uint32_t)(draw(route) * n);
    uint32_t j = (uint32_t)(draw(route) * (n - 1));
    j += j >= i;
    return target_at(route, j)->active_requests < target_at(route, i)->active_requests ? j : i;
}

/* Weight 0 is left out. @return AISIM_NONE when no eligible target has a weight */
static uint32_t weighted_random(aisim_route *route)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < route->eligible.len; i++) {
        const route_target *t = target_at(route, i);
        double weight = t->weight / (1.0 + (double)t->active_requests);
        route->p.data[route->eligible.data[i]] = weight;
        sum += weight;
    }
    if (!(sum > 0.0)) {
        return AISIM_NONE;
    }
    normalise(route, sum);
    return draw_by_p(route);
}

/* ---- hash ------------------------------------------------------------------------------------ */

/* Preference order by rendezvous weight: insertion, so that equal weights keep (worker, rank). */
static void prefer(aisim_route *route)
{
    route->preference.len = route->weights.len = 0;
    for (uint32_t i = 0; i < route->eligible.len; i++) {
        const route_target *t = target_at(route, i);
        uint64_t weight = aisim_route_rendezvous(route->hash_key, t->worker, t->rank);
        aisim_array_push(&route->weights, weight);
        aisim_array_push(&route->preference, i);
        uint32_t at = i;
        for (; at > 0 && route->weights.data[route->preference.data[at - 1]] < weight; at--) {
            route->preference.data[at] = route->preference.data[at - 1];
        }
        route->preference.data[at] = i;
    }
}

static uint32_t hash(aisim_route *route)
{
    prefer(route);
    uint32_t choice = route->preference.data[0];
    if (route->o.policy == AISIM_ROUTE_HASH_BOUNDED) {
        double sum = 0.0;
        for (uint32_t i = 0; i < route->eligible.len; i++) {
            sum += (double)target_at(route, i)->active_requests;
        }
        double bound = route->o.load_factor * (sum / route->eligible.len);
        for (uint32_t i = 0; i < route->preference.len; i++) {
            choice = route->preference.data[i];
            if ((double)target_at(route, choice)->active_requests <= bound) {
                break;
            }
        }
    }
    for (uint32_t i = 0; i < route->preference.len; i++) {
        route->preference.data[i] = route->eligible.data[route->preference.data[i]];
    }
    return choice;
}

/* ---- overlap --------------------------------------------------------------------------------- */

static uint32_t device_at(const aisim_route *route, uint32_t i)
{
    return route->tiers.data[route->eligible.data[i]].device;
}

static uint32_t prefix(aisim_route *route, const aisim_route_request *request, bool *fallback)
{
    uint32_t best = 0;
    double least_active = INFINITY;
    double most_active = 0.0;
    for (uint32_t i = 0; i < route->eligible.len; i++) {
        double active = (double)target_at(route, i)->active_requests;
        best = device_at(route, i) > best ? device_at(route, i) : best;
        least_active = fmin(least_active, active);
        most_active = fmax(most_active, active);
    }
    double share =
        request->tokens > 0 ? (double)best * route->config.block_size / request->tokens : 0;
    *fallback = share < route->o.threshold || (most_active - least_active > route->o.balance_abs &&
                                               most_active > route->o.balance_rel * least_active);
    fill_costs(route);
    uint32_t choice = AISIM_NONE;
    for (uint32_t i = 0; i < route->eligible.len; i++) {
        if ((*fallback || device_at(route, i) == best) &&
            (choice == AISIM_NONE || cost_at(route, i) < cost_at(route, choice))) {
            choice = i;
        }
    }
    return choice;
}

/* Potential decode blocks: those there and those this request would add (§4). */
static double decode_blocks(const aisim_route *route, const route_target *t,
                            const aisim_route_request *request)
{
    uint64_t r = route_blocks(route, request->tokens);
    r = r > 0 ? r : 1;
    return (double)(route_active_blocks(t) + r -
                    aisim_span_covered(&t->active, request->path, request->extents));
}

static double kv_cost(const aisim_route *route, uint32_t target, const aisim_route_request *request,
                      double least_prefill)
{
    const aisim_route_options *o = &route->o;
    const route_target *t = &route->targets.data[target];
    const aisim_route_tiers *have = &route->tiers.data[target];
    double bs = route->config.block_size;
    double isl = request->tokens;
    double decode = decode_blocks(route, t, request);
    if (o->policy == AISIM_ROUTE_KV_V1) {
        return o->overlap_weight * (isl - have->device * bs) / bs + decode;
    }
    double r = fmax(1.0, (double)route_blocks(route, request->tokens));
    double prefill = (double)t->active_prefill_tokens;
    double decay = 1.0 / (1.0 + o->overlap_decay * ((prefill - least_prefill) / bs) / r);
    double credit = o->overlap_score_credit * decay * have->device + o->host_credit * have->host +
                    o->disk_credit * have->disk + o->shared_credit * have->shared;
    double busy = o->active_request_weight * (double)t->active_requests;
    if (!o->track_prefill) { /* decode pool: load only, or conditional disaggregation */
        return (o->overlap_score_credit > 0.0 ? fmax(0.0, decode - credit) : decode) + busy;
    }
    double raw = (prefill + isl) / bs;
    return o->prefill_load_scale * fmax(0.0, raw - credit) + decode + busy;
}

static uint32_t kv(aisim_route *route, const aisim_route_request *request)
{
    double least_prefill = INFINITY;
    for (uint32_t i = 0; i < route->eligible.len; i++) {
        least_prefill = fmin(least_prefill, (double)target_at(route, i)->active_prefill_tokens);
    }
    for (uint32_t i = 0; i < route->eligible.len; i++) {
        uint32_t target = route->eligible.data[i];
        double cost = kv_cost(route, target, request, least_prefill);
        route->cost.data[target] = target == route->bound ? cost * route->o.soft_factor : cost;
    }
    return by_cost(route);
}

bool aisim_route_has_cost(aisim_route_policy policy)
{
    return policy == AISIM_ROUTE_KV || policy == AISIM_ROUTE_KV_V1 ||
           policy == AISIM_ROUTE_LEAST_REQUESTS || policy == AISIM_ROUTE_LEAST_TOKENS ||
           policy == AISIM_ROUTE_LEAST_KV;
}

uint32_t route_pick(aisim_route *route, const aisim_route_request *request, bool *fallback)
{
    uint32_t choice = 0;
    switch (route->o.policy) {
    case AISIM_ROUTE_ROUND_ROBIN:
        choice = round_robin(route);
        break;
    case AISIM_ROUTE_RANDOM:
        choice = (uint32_t)(draw(route) * route->eligible.len);
        break;
    case AISIM_ROUTE_LEAST_REQUESTS:
    case AISIM_ROUTE_LEAST_TOKENS:
    case AISIM_ROUTE_LEAST_KV:
        choice = least_load(route);
        break;
    case AISIM_ROUTE_SHORTEST_QUEUE:
        choice = shortest_queue(route);
        break;
    case AISIM_ROUTE_P2C:
        choice = p2c(route);
        break;
    case AISIM_ROUTE_WEIGHTED_RANDOM:
        choice = weighted_random(route);
        break;
    case AISIM_ROUTE_HASH:
    case AISIM_ROUTE_HASH_BOUNDED:
        choice = hash(route);
        break;
    case AISIM_ROUTE_PREFIX:
        choice = prefix(route, request, fallback);
        break;
    case AISIM_ROUTE_KV:
    case AISIM_ROUTE_KV_V1:
        choice = kv(route, request);
        break;
    case AISIM_ROUTE_POLICIES:
        break;
    }
    return choice == AISIM_NONE ? AISIM_NONE : route->eligible.data[choice];
}
