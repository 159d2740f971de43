/* route_books.c - what a router remembers of the requests that it has placed, and the books of its
 * targets that follow from it (spec/routing.md §1). */
#include "base/check.h"
#include "cluster/route_internal.h"

route_record *route_record_of(aisim_route *route, uint32_t slot)
{
    while (route->records.len <= slot) {
        route_record empty = {.state = ROUTE_FREE};
        aisim_array_push(&route->records, empty);
    }
    return &route->records.data[slot];
}

void route_remember(aisim_route *route, const aisim_route_request *request, uint32_t target,
                    uint32_t entry)
{
    route_record *r = route_record_of(route, request->slot);
    r->state = ROUTE_SENT;
    r->target = target;
    r->tokens = request->tokens;
    r->generated = 0;
    r->entry = entry;
    r->uncached = 0;
    r->private_blocks = 0;
    r->path.len = 0;
    if (route->wants.prefill) {
        uint32_t hit = route->tiers.data[target].device;
        if (route->config.usable != NULL && hit > 0) {
            uint32_t usable = route->config.usable(route->config.context, request->slot, target);
            hit = usable < hit ? usable : hit;
        }
        uint64_t cached = (uint64_t)hit * route->config.block_size;
        r->uncached = cached < request->tokens ? request->tokens - (uint32_t)cached : 0;
    }
    if (route->wants.blocks || route->o.view == AISIM_VIEW_APPROXIMATE) {
        uint64_t named = 0;
        for (uint32_t i = 0; i < request->extents; i++) {
            aisim_array_push(&r->path, request->path[i]);
            named += request->path[i].count;
        }
        r->private_blocks = route_blocks(route, request->tokens) - named;
    }
    if (entry != AISIM_NONE) {
        aisim_affinity_sent(&route->affinity, entry, target);
    }
}

static void count_blocks(aisim_route *route, const route_record *r, int64_t by)
{
    if (!route->wants.blocks) {
        return;
    }
    route_target *t = &route->targets.data[r->target];
    for (uint32_t i = 0; i < r->path.len; i++) {
        aisim_span_apply(&t->active, r->path.data[i], AISIM_SPAN_ADD, by);
    }
    t->private_blocks =
        by > 0 ? t->private_blocks + r->private_blocks : t->private_blocks - r->private_blocks;
}

/* Approximate view: the blocks are assumed to live from now on for ttl (§1). */
static void assume(aisim_route *route, const route_record *r)
{
    int64_t due = route->now_ns + route->o.ttl_ns;
    for (uint32_t i = 0; i < r->path.len; i++) {
        aisim_span_apply(&route->targets.data[r->target].tier[AISIM_ROUTE_DEVICE], r->path.data[i],
                         AISIM_SPAN_RAISE, due);
        route_expiry expiry = {due, r->path.data[i].run, r->target};
        aisim_array_push(&route->expiries, expiry);
    }
}

void aisim_route_accept(aisim_route *route, uint32_t slot)
{
    route_record *r = route_record_of(route, slot);
    AISIM_CHECK(r->state == ROUTE_SENT);
    r->state = ROUTE_BOOKED;
    route_target *t = &route->targets.data[r->target];
    t->active_requests++;
    t->active_prefill_tokens += r->uncached;
    count_blocks(route, r, 1);
    if (route->o.view == AISIM_VIEW_APPROXIMATE) {
        assume(route, r);
    }
    if (r->entry != AISIM_NONE) {
        aisim_affinity_answered(&route->affinity, r->entry, true, r->target, route->now_ns);
    }
}

void aisim_route_refuse(aisim_route *route, uint32_t slot)
{
    route_record *r = route_record_of(route, slot);
    AISIM_CHECK(r->state == ROUTE_SENT);
    r->state = ROUTE_FREE;
    if (r->entry != AISIM_NONE) {
        aisim_affinity_answered(&route->affinity, r->entry, false, r->target, route->now_ns);
    }
}

void aisim_route_first_token(aisim_route *route, uint32_t slot)
{
    route_record *r = route_record_of(route, slot);
    if (r->state == ROUTE_BOOKED) {
        route->targets.data[r->target].active_prefill_tokens -= r->uncached;
        r->uncached = 0;
    }
}

void aisim_route_generated(aisim_route *route, uint32_t slot, uint32_t generated)
{
    route_record *r = route_record_of(route, slot);
    if (r->state != ROUTE_BOOKED || !route->o.track_output_blocks || !route->wants.blocks) {
        return;
    }
    uint64_t more = route_blocks(route, (uint64_t)r->tokens + generated) -
                    route_blocks(route, (uint64_t)r->tokens + r->generated);
    r->generated = generated;
    r->private_blocks += more;
    route->targets.data[r->target].private_blocks += more;
}

void aisim_route_done(aisim_route *route, uint32_t slot)
{
    route_record *r = route_record_of(route, slot);
    if (r->state != ROUTE_BOOKED) {
        return;
    }
    aisim_route_first_token(route, slot);
    count_blocks(route, r, -1);
    route->targets.data[r->target].active_requests--;
    r->state = ROUTE_FREE;
    if (r->entry != AISIM_NONE) {
        aisim_affinity_release_lease(&route->affinity, r->entry, route->now_ns);
    }
}

aisim_route_book aisim_route_book_of(const aisim_route *route, uint32_t target)
{
    const route_target *t = &route->targets.data[target];
    return (aisim_route_book){t->active_requests, t->active_prefill_tokens, route_active_blocks(t)};
}

bool aisim_route_binding(const aisim_route *route, uint32_t i, const char **key, uint32_t *target,
                         uint32_t *leases)
{
    if (i >= route->affinity.entries.len) {
        return false;
    }
    const aisim_affinity_entry *e = &route->affinity.entries.data[i];
    *key = e->key == NULL ? "" : e->key;
    *target = aisim_affinity_bound(&route->affinity, i, route->now_ns);
    *leases = e->leases;
    return true;
}
