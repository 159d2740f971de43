/* route_pick.c - the built-in policies: each reads the books of the eligible targets and answers
 * one of them (spec/routing.md §2 and §4).
 *
 * Eligible targets come in (worker, rank) order, so "lowest" is "first". Costs are left in
 * route->cost for decision records. Draws come from one named stream, in the order written here. */
#include <math.h>

#include "cluster/route_internal.h"

static double draw_from(void *context)
{
    aisim_route *route = context;
    route->draws++;
    return route->config.draw != NULL ? route->config.draw(route->config.context)
                                      : aisim_rng_unit(&route->config.rng);
}

static double draw(aisim_route *route)
{
    return draw_from(route);
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

/* Values of the eligible targets side by side. */
static double *gather(aisim_route *route, const double *of_targets)
{
    uint32_t n = route->eligible.len;
    aisim_array_reserve(&route->gathered, n);
    for (uint32_t i = 0; i < n; i++) {
        route->gathered.data[i] = of_targets[route->eligible.data[i]];
    }
    return route->gathered.data;
}

static void scatter_p(aisim_route *route, const double *p)
{
    for (uint32_t i = 0; i < route->eligible.len; i++) {
        route->p.data[route->eligible.data[i]] = p[i];
    }
}

static uint32_t least(aisim_route *route, bool random_ties)
{
    return aisim_route_least(gather(route, route->cost.data), route->eligible.len,
                             random_ties ? draw_from : NULL, route);
}

static uint32_t softmax(aisim_route *route)
{
    const double *cost = gather(route, route->cost.data);
    aisim_array_reserve(&route->gathered_p, route->eligible.len);
    uint32_t choice = aisim_route_softmax(cost, route->eligible.len, route->o.temperature,
                                          draw_from, route, route->gathered_p.data);
    scatter_p(route, route->gathered_p.data);
    return choice;
}

static uint32_t by_cost(aisim_route *route)
{
    return route->o.temperature > 0.0 ? softmax(route) : least(route, true);
}

/* ---- load ------------------------------------------------------------------------------------ */

static double kv_share(const route_target *t)
{
    return t->seen.kv_total > 0 ? (double)t->seen.kv_used / (double)t->seen.kv_total : 0.0;
}

static double tokens_of(const aisim_route *route, const route_target *t)
{
    return (double)t->active_prefill_tokens +
           (double)route_active_blocks(t) * route->config.block_size;
}

static void fill_costs(aisim_route *route)
{
    double *cost = route->cost.data;
    for (uint32_t i = 0; i < route->eligible.len; i++) {
        const route_target *t = target_at(route, i);
        cost[route->eligible.data[i]] =
            route->o.policy == AISIM_ROUTE_LEAST_TOKENS ? tokens_of(route, t)
            : route->o.policy == AISIM_ROUTE_LEAST_KV   ? kv_share(t)
                                                        : (double)t->active_requests;
    }
    if (route->bound != AISIM_NONE && route_is_eligible(route, route->bound)) {
        cost[route->bound] *= route->o.soft_factor;
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
    uint32_t n = route->eligible.len;
    double sum = 0.0;
    aisim_array_reserve(&route->gathered_p, n);
    double *p = route->gathered_p.data;
    for (uint32_t i = 0; i < n; i++) {
        const route_target *t = target_at(route, i);
        p[i] = t->weight / (1.0 + (double)t->active_requests);
        sum += p[i];
    }
    if (!(sum > 0.0)) {
        scatter_p(route, p);
        return AISIM_NONE;
    }
    for (uint32_t i = 0; i < n; i++) {
        p[i] /= sum;
    }
    scatter_p(route, p);
    return aisim_route_draw(p, n, draw(route));
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
    uint64_t shared =
        t->active.blocks == 0 ? 0 : aisim_span_covered(&t->active, request->path, request->extents);
    return (double)(route_active_blocks(t) + r - shared);
}

static double kv_cost(const aisim_route *route, uint32_t target, const aisim_route_request *request,
                      double least_prefill)
{
    const route_target *t = &route->targets.data[target];
    double bs = route->config.block_size;
    const aisim_route_kv_terms terms = {.have = route->tiers.data[target],
                                        .block_size = bs,
                                        .tokens = request->tokens,
                                        .decode_blocks = decode_blocks(route, t, request),
                                        .active_prefill_tokens = (double)t->active_prefill_tokens,
                                        .least_prefill_tokens = least_prefill,
                                        .active_requests = (double)t->active_requests};
    if (route->o.policy == AISIM_ROUTE_KV_V1) {
        return route->o.overlap_weight * (terms.tokens - terms.have.device * bs) / bs +
               terms.decode_blocks;
    }
    return aisim_route_kv_cost(&route->o, &terms);
}

static uint32_t kv(aisim_route *route, const aisim_route_request *request)
{
    uint64_t least_prefill = UINT64_MAX;
    for (uint32_t i = 0; i < route->eligible.len; i++) {
        uint64_t tokens = target_at(route, i)->active_prefill_tokens;
        least_prefill = tokens < least_prefill ? tokens : least_prefill;
    }
    for (uint32_t i = 0; i < route->eligible.len; i++) {
        uint32_t target = route->eligible.data[i];
        double cost = kv_cost(route, target, request, (double)least_prefill);
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
