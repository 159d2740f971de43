/* route_view.c - what a router believes about its targets: telemetry samples and the cache view
 * (spec/routing.md §1).
 *
 * The cache view is one set of spans per target and tier, fed by KV events that become visible
 * event_delay later, or, approximate, by what was sent where: then the value of a block is the time
 * at which it is assumed to be gone. */
#include "cluster/route_internal.h"

/* ---- telemetry ---------------------------------------------------------------------------------
 */

/* §1: samples at 0, p, 2p, … up to now; the one of this instant only before a decision, so that it
 * sees the engine events of the instant. */
void route_sample(aisim_route *route, bool this_instant)
{
    int64_t period = route->o.telemetry_period_ns;
    int64_t until = this_instant ? route->now_ns : route->now_ns - 1;
    if (period == 0 ? !this_instant : route->next_sample_ns > until) {
        return;
    }
    route->next_sample_ns = period > 0 ? (until / period + 1) * period : 0;
    for (uint32_t i = 0; i < route->targets.len; i++) {
        route->targets.data[i].seen = route->targets.data[i].now;
    }
}

/* ---- cache view ------------------------------------------------------------------------------ */

static void show(aisim_route *route, const route_pending *event)
{
    aisim_span_set *set = event->tier == AISIM_ROUTE_SHARED
                              ? &route->shared
                              : &route->targets.data[event->target].tier[event->tier];
    if (event->kind == AISIM_ROUTE_CLEARED) {
        aisim_span_clear(set);
    } else {
        aisim_span_apply(set, event->where, AISIM_SPAN_SET, event->kind == AISIM_ROUTE_STORED);
    }
}

/* A clear names no run: run 0 lives for ever. */
static void hold(aisim_route *route, const route_pending *event, bool held)
{
    if (route->config.hold != NULL) {
        route->config.hold(route->config.context, event->where.run, held);
    }
}

void aisim_route_kv_event(aisim_route *route, uint32_t target, aisim_route_kv kind,
                          aisim_route_tier tier, aisim_route_extent where)
{
    if (route->o.view != AISIM_VIEW_EVENTS && tier != AISIM_ROUTE_SHARED) {
        return;
    }
    route_pending event = {route->now_ns + route->o.event_delay_ns, target, kind, tier, where};
    if (route->o.event_delay_ns == 0 || tier == AISIM_ROUTE_SHARED) {
        show(route, &event);
        return;
    }
    hold(route, &event, true);
    aisim_array_push(&route->pending, event);
}

void aisim_route_clock(aisim_route *route, int64_t now_ns)
{
    route->now_ns = now_ns;
    route_sample(route, false);
    while (route->pending_head < route->pending.len &&
           route->pending.data[route->pending_head].due_ns <= now_ns) {
        route_pending event = route->pending.data[route->pending_head++];
        show(route, &event);
        hold(route, &event, false);
    }
    while (route->expiry_head < route->expiries.len &&
           route->expiries.data[route->expiry_head].due_ns <= now_ns) {
        const route_expiry *e = &route->expiries.data[route->expiry_head++];
        aisim_span_expire(&route->targets.data[e->target].tier[AISIM_ROUTE_DEVICE], e->run, now_ns);
    }
    if (route->pending_head == route->pending.len) {
        route->pending_head = route->pending.len = 0;
    }
    if (route->expiry_head == route->expiries.len) {
        route->expiry_head = route->expiries.len = 0;
    }
    aisim_affinity_expire(&route->affinity, now_ns);
}

static uint32_t walk(const aisim_span_set *set, const aisim_route_request *request, uint32_t from,
                     int64_t above)
{
    return set->blocks == 0 ? 0
                            : aisim_span_walk(set, request->path, request->extents, from, above);
}

/* Each lower tier goes on where the higher ones end (§1). */
aisim_route_tiers route_tiers_of(const aisim_route *route, uint32_t target,
                                 const aisim_route_request *request)
{
    aisim_route_tiers out = {0};
    if (route->o.view == AISIM_VIEW_ORACLE) {
        if (route->config.resident != NULL) {
            route->config.resident(route->config.context, request->slot, target, &out);
        }
        return out;
    }
    const aisim_span_set *tier = route->targets.data[target].tier;
    int64_t above = route->o.view == AISIM_VIEW_APPROXIMATE ? route->now_ns : 0;
    out.device = walk(&tier[AISIM_ROUTE_DEVICE], request, 0, above);
    uint32_t at = out.device;
    out.host = walk(&tier[AISIM_ROUTE_HOST], request, at, 0);
    at += out.host;
    out.disk = walk(&tier[AISIM_ROUTE_DISK], request, at, 0);
    at += out.disk;
    out.shared = walk(&route->shared, request, at, 0);
    return out;
}
