/* route.c - books, views and the decision of a router; policies: route_pick.c. */
#include "cluster/route.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "cluster/route_internal.h"

/* ---- life ------------------------------------------------------------------------------------ */

aisim_status aisim_route_new(const aisim_route_config *config, aisim_route **out, aisim_error *err)
{
    const aisim_route_options *o = &config->options;
    if (o->affinity != AISIM_AFFINITY_NONE && o->soft && !aisim_route_has_cost(o->policy)) {
        return aisim_fail(
            err, AISIM_EINVAL,
            "affinity.binding = 'soft' scales the cost of the bound target, and policy "
            "'%s' has no cost; use binding = 'hard', or kv, kv_v1, least_requests, "
            "least_tokens, least_kv",
            aisim_route_policy_text(o->policy));
    }
    aisim_route *route = aisim_alloc_zero(1, sizeof *route);
    route->config = *config;
    route->o = *o;
    route->last = AISIM_NONE;
    route->bound = AISIM_NONE;
    route->affinity.ttl_ns = o->affinity_ttl_ns;
    route->shared.context = config->context;
    route->shared.hold = config->hold;
    *out = route;
    return AISIM_OK;
}

void aisim_route_free(aisim_route *route)
{
    if (route == NULL) {
        return;
    }
    for (uint32_t i = 0; i < route->targets.len; i++) {
        aisim_span_set_deinit(&route->targets.data[i].active);
        for (uint32_t k = 0; k < AISIM_ROUTE_TIERS; k++) {
            aisim_span_set_deinit(&route->targets.data[i].tier[k]);
        }
    }
    for (uint32_t i = 0; i < route->records.len; i++) {
        aisim_array_free(&route->records.data[i].path);
    }
    for (uint32_t i = route->pending_head; i < route->pending.len; i++) {
        if (route->config.hold != NULL) {
            route->config.hold(route->config.context, route->pending.data[i].where.run, false);
        }
    }
    aisim_span_set_deinit(&route->shared);
    aisim_affinity_deinit(&route->affinity);
    aisim_array_free(&route->targets);
    aisim_array_free(&route->order);
    aisim_array_free(&route->records);
    aisim_array_free(&route->pending);
    aisim_array_free(&route->expiries);
    aisim_array_free(&route->cost);
    aisim_array_free(&route->cost2);
    aisim_array_free(&route->p);
    aisim_array_free(&route->gathered);
    aisim_array_free(&route->gathered_p);
    aisim_array_free(&route->tiers);
    aisim_array_free(&route->eligible);
    aisim_array_free(&route->preference);
    aisim_array_free(&route->weights);
    aisim_array_free(&route->key);
    aisim_free(route);
}

bool aisim_route_wants_blocks(const aisim_route *route)
{
    return route->config.everything || route->o.policy == AISIM_ROUTE_LEAST_TOKENS ||
           route->o.policy == AISIM_ROUTE_KV || route->o.policy == AISIM_ROUTE_KV_V1 ||
           route->o.overload_blocks_ratio >= 0.0;
}

bool aisim_route_wants_overlap(const aisim_route *route)
{
    return route->config.everything || route->o.policy == AISIM_ROUTE_PREFIX ||
           route->o.policy == AISIM_ROUTE_KV || route->o.policy == AISIM_ROUTE_KV_V1;
}

bool aisim_route_wants_host(const aisim_route *route)
{
    return route->config.everything || (route->o.policy == AISIM_ROUTE_KV &&
                                        (route->o.host_credit > 0.0 || route->o.disk_credit > 0.0 ||
                                         route->o.shared_credit > 0.0));
}

/* Somebody reads active_prefill_tokens: the chosen target's overlap is needed. */
bool aisim_route_wants_prefill(const aisim_route *route)
{
    return route->o.track_prefill &&
           (route->config.everything || route->o.policy == AISIM_ROUTE_LEAST_TOKENS ||
            route->o.policy == AISIM_ROUTE_KV || route->o.overload_prefill_tokens >= 0.0 ||
            route->o.queue_threshold >= 0.0);
}

bool aisim_route_wants_telemetry(const aisim_route *route)
{
    return route->o.policy == AISIM_ROUTE_LEAST_KV || route->o.policy == AISIM_ROUTE_SHORTEST_QUEUE;
}

bool aisim_route_wants_keys(const aisim_route *route)
{
    return route->o.affinity != AISIM_AFFINITY_NONE || route->o.policy == AISIM_ROUTE_HASH ||
           route->o.policy == AISIM_ROUTE_HASH_BOUNDED;
}

/* ---- targets --------------------------------------------------------------------------------- */

static bool lower(const route_target *a, const route_target *b)
{
    return a->worker != b->worker ? a->worker < b->worker : a->rank < b->rank;
}

uint32_t aisim_route_target(aisim_route *route, uint32_t worker, uint32_t rank, double weight,
                            uint64_t kv_total)
{
    route_target target = {.worker = worker, .rank = rank, .weight = weight};
    target.now.kv_total = target.seen.kv_total = kv_total;
    for (uint32_t k = 0; k < AISIM_ROUTE_TIERS; k++) {
        target.tier[k].context = route->config.context;
        target.tier[k].hold = route->config.hold;
    }
    uint32_t index = route->targets.len;
    aisim_array_push(&route->targets, target);
    aisim_array_push(&route->order, index);
    uint32_t at = route->order.len - 1;
    for (; at > 0 && lower(&target, &route->targets.data[route->order.data[at - 1]]); at--) {
        route->order.data[at] = route->order.data[at - 1];
    }
    route->order.data[at] = index;
    return index;
}

uint32_t aisim_route_targets(const aisim_route *route)
{
    return route->targets.len;
}

void aisim_route_state(aisim_route *route, uint32_t target, aisim_target_state state)
{
    route->targets.data[target].state = state;
    if (state != AISIM_TARGET_UP) {
        aisim_affinity_lost(&route->affinity, target); /* §3: for good */
    }
}

void aisim_route_report(aisim_route *route, uint32_t target, const aisim_route_telemetry *now)
{
    aisim_route_telemetry *t = &route->targets.data[target].now;
    t->waiting = now->waiting != AISIM_NONE ? now->waiting : t->waiting;
    t->running = now->running != AISIM_NONE ? now->running : t->running;
    t->kv_used = now->kv_used != UINT64_MAX ? now->kv_used : t->kv_used;
    t->kv_total = now->kv_total != UINT64_MAX ? now->kv_total : t->kv_total;
}

/* ---- records --------------------------------------------------------------------------------- */

static route_record *record_of(aisim_route *route, uint32_t slot)
{
    while (route->records.len <= slot) {
        route_record empty = {.state = ROUTE_FREE};
        aisim_array_push(&route->records, empty);
    }
    return &route->records.data[slot];
}

/* Remembers what an answer of the engine has to book. */
static void remember(aisim_route *route, const aisim_route_request *request, uint32_t target,
                     uint32_t entry)
{
    route_record *r = record_of(route, request->slot);
    r->state = ROUTE_SENT;
    r->target = target;
    r->tokens = request->tokens;
    r->generated = 0;
    r->entry = entry;
    r->uncached = 0;
    r->private_blocks = 0;
    r->path.len = 0;
    if (aisim_route_wants_prefill(route)) {
        uint32_t hit = route->tiers.data[target].device;
        if (route->config.usable != NULL && hit > 0) {
            uint32_t usable = route->config.usable(route->config.context, request->slot, target);
            hit = usable < hit ? usable : hit;
        }
        uint64_t cached = (uint64_t)hit * route->config.block_size;
        r->uncached = cached < request->tokens ? request->tokens - (uint32_t)cached : 0;
    }
    if (aisim_route_wants_blocks(route) || route->o.view == AISIM_VIEW_APPROXIMATE) {
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
    if (!aisim_route_wants_blocks(route)) {
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
    route_record *r = record_of(route, slot);
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
    route_record *r = record_of(route, slot);
    AISIM_CHECK(r->state == ROUTE_SENT);
    r->state = ROUTE_FREE;
    if (r->entry != AISIM_NONE) {
        aisim_affinity_answered(&route->affinity, r->entry, false, r->target, route->now_ns);
    }
}

void aisim_route_first_token(aisim_route *route, uint32_t slot)
{
    route_record *r = record_of(route, slot);
    if (r->state == ROUTE_BOOKED) {
        route->targets.data[r->target].active_prefill_tokens -= r->uncached;
        r->uncached = 0;
    }
}

void aisim_route_generated(aisim_route *route, uint32_t slot, uint32_t generated)
{
    route_record *r = record_of(route, slot);
    if (r->state != ROUTE_BOOKED || !route->o.track_output_blocks ||
        !aisim_route_wants_blocks(route)) {
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
    route_record *r = record_of(route, slot);
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

/* ---- the decision ---------------------------------------------------------------------------- */

static bool overloaded(const aisim_route *route, const route_target *t) /* §2: above, not at */
{
    double prefill = route->o.overload_prefill_tokens;
    double ratio = route->o.overload_blocks_ratio;
    return (prefill >= 0.0 && (double)t->active_prefill_tokens > prefill) ||
           (ratio >= 0.0 && (double)route_active_blocks(t) > ratio * (double)t->now.kv_total);
}

static void find_eligible(aisim_route *route, const aisim_route_request *request)
{
    route->eligible.len = 0;
    for (uint32_t i = 0; i < route->order.len; i++) {
        uint32_t target = route->order.data[i];
        const route_target *t = &route->targets.data[target];
        bool fine = t->state == AISIM_TARGET_UP && !overloaded(route, t);
        for (uint32_t j = 0; j < request->excluded; j++) {
            fine = fine && request->exclude[j] != target;
        }
        if (fine) {
            aisim_array_push(&route->eligible, target);
        }
    }
}

static bool is_eligible(const aisim_route *route, uint32_t target)
{
    for (uint32_t i = 0; i < route->eligible.len; i++) {
        if (route->eligible.data[i] == target) {
            return true;
        }
    }
    return false;
}

/* §4 "Router queue": admit while any eligible target has room. */
static bool held(const aisim_route *route)
{
    if (route->o.queue_threshold < 0.0) {
        return false;
    }
    double limit = route->o.queue_threshold * route->o.queue_max_batched_tokens;
    for (uint32_t i = 0; i < route->eligible.len; i++) {
        const route_target *t = &route->targets.data[route->eligible.data[i]];
        if ((double)t->active_prefill_tokens <= limit) {
            return false;
        }
    }
    return true;
}

static void blank(aisim_route *route)
{
    uint32_t n = route->targets.len;
    aisim_array_reserve(&route->cost, n);
    aisim_array_reserve(&route->cost2, n);
    aisim_array_reserve(&route->p, n);
    aisim_array_reserve(&route->tiers, n);
    route->preference.len = 0;
    for (uint32_t i = 0; i < n; i++) {
        route->cost.data[i] = route->cost2.data[i] = route->p.data[i] = (double)NAN;
        route->tiers.data[i] = (aisim_route_tiers){0};
    }
}

/* §3: binding, then the tentative choice of an unanswered dispatch. @return AISIM_NONE = neither */
static uint32_t by_affinity(aisim_route *route, uint32_t entry, aisim_route_by *by)
{
    const aisim_affinity_entry *e = &route->affinity.entries.data[entry];
    uint32_t bound = aisim_affinity_bound(&route->affinity, entry, route->now_ns);
    route->bound = route->o.soft ? bound : AISIM_NONE;
    if (route->o.soft) {
        return AISIM_NONE;
    }
    if (bound != AISIM_NONE) {
        *by = AISIM_BY_BINDING;
        return is_eligible(route, bound) ? bound : AISIM_NONE; /* passed over, the binding stays */
    }
    *by = AISIM_BY_TENTATIVE;
    bool usable =
        e->unanswered > 0 && e->tentative != AISIM_NONE && is_eligible(route, e->tentative);
    return usable ? e->tentative : AISIM_NONE;
}

static uint32_t choose(aisim_route *route, const aisim_route_request *request, uint32_t entry,
                       aisim_route_decision *out)
{
    if (request->pin != AISIM_NONE) {
        out->by = AISIM_BY_PIN;
        return is_eligible(route, request->pin) ? request->pin : AISIM_NONE;
    }
    if (route->eligible.len == 0 || held(route)) {
        return AISIM_NONE;
    }
    uint32_t target = entry != AISIM_NONE ? by_affinity(route, entry, &out->by) : AISIM_NONE;
    if (target != AISIM_NONE) {
        return target;
    }
    out->by = AISIM_BY_POLICY;
    return route_pick(route, request, &out->fallback);
}

static void record_overlap(aisim_route *route, aisim_route_decision *out)
{
    if (!aisim_route_wants_overlap(route) || out->target == AISIM_NONE) {
        return;
    }
    out->overlap = route->tiers.data[out->target].device;
    for (uint32_t i = 0; i < route->eligible.len; i++) {
        uint32_t device = route->tiers.data[route->eligible.data[i]].device;
        out->best = device > out->best ? device : out->best;
    }
}

aisim_status aisim_route_decide(aisim_route *route, int64_t now_ns,
                                const aisim_route_request *request, aisim_route_decision *out,
                                aisim_error *err)
{
    aisim_route_clock(route, now_ns);
    route_sample(route, true);
    blank(route);
    *out = (aisim_route_decision){.target = AISIM_NONE, .overlap = -1};
    route->bound = AISIM_NONE;
    route->draws = 0;
    aisim_status status = route_hash_key(route, request, err);
    const char *key = NULL;
    if (status == AISIM_OK) {
        status = route_affinity_key(route, request, &key, err);
    }
    if (status != AISIM_OK) {
        return status;
    }
    uint32_t entry = key != NULL ? aisim_affinity_find(&route->affinity, key) : AISIM_NONE;
    find_eligible(route, request);
    for (uint32_t i = 0; i < route->targets.len && aisim_route_wants_overlap(route); i++) {
        route->tiers.data[i] = route_tiers_of(route, i, request);
    }
    out->target = choose(route, request, entry, out);
    out->draws = route->draws;
    out->key_hash = route->hash_key;
    out->cost = route->cost.data;
    out->cost2 = route->cost2.data;
    out->p = route->p.data;
    out->tiers = route->tiers.data;
    out->order = route->preference.data;
    out->ordered = route->preference.len;
    record_overlap(route, out);
    if (out->target != AISIM_NONE) {
        if (aisim_route_wants_prefill(route) && !aisim_route_wants_overlap(route)) {
            route->tiers.data[out->target] = route_tiers_of(route, out->target, request);
        }
        remember(route, request, out->target, entry);
    }
    return AISIM_OK;
}

uint32_t aisim_route_bound(aisim_route *route, int64_t now_ns, const aisim_route_request *request)
{
    aisim_error ignored = {0};
    const char *key = NULL;
    aisim_route_clock(route, now_ns);
    if (route_affinity_key(route, request, &key, &ignored) != AISIM_OK || key == NULL) {
        return AISIM_NONE;
    }
    return aisim_affinity_bound(&route->affinity, aisim_affinity_find(&route->affinity, key),
                                now_ns);
}

void aisim_route_place(aisim_route *route, int64_t now_ns, const aisim_route_request *request,
                       uint32_t target)
{
    aisim_error ignored = {0};
    const char *key = NULL;
    aisim_route_clock(route, now_ns);
    if (record_of(route, request->slot)->state == ROUTE_SENT) {
        aisim_route_refuse(route, request->slot);
    }
    blank(route);
    if (aisim_route_wants_prefill(route)) {
        route->tiers.data[target] = route_tiers_of(route, target, request);
    }
    if (route_affinity_key(route, request, &key, &ignored) != AISIM_OK) {
        key = NULL;
    }
    uint32_t entry = key != NULL ? aisim_affinity_find(&route->affinity, key) : AISIM_NONE;
    remember(route, request, target, entry);
}

double aisim_route_queue_key(aisim_route *route, int64_t now_ns, const aisim_route_request *request)
{
    aisim_route_clock(route, now_ns);
    if (route->o.queue_order == AISIM_QUEUE_LCFS) {
        return -(route->arrivals += 1.0);
    }
    if (route->o.queue_order == AISIM_QUEUE_FCFS) {
        return 0.0;
    }
    double best = 0.0; /* wspt: taken when it queues */
    for (uint32_t i = 0; i < route->targets.len; i++) {
        if (route->targets.data[i].state == AISIM_TARGET_UP) {
            best = fmax(best, route_tiers_of(route, i, request).device);
        }
    }
    double work = fmax(1.0, request->tokens - best * route->config.block_size);
    return -request->weight / work;
}
