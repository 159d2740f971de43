/* route.c - life and decision of a router; its books: route_books.c, policies: route_pick.c. */
#include "cluster/route.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "cluster/route_internal.h"

/* ---- life ------------------------------------------------------------------------------------ */

static bool is_one_of(aisim_route_policy policy, uint32_t set)
{
    return (set & UINT32_C(1) << policy) != 0;
}

#define ONE(policy) (UINT32_C(1) << AISIM_ROUTE_##policy)

/* What the options make a decision read and write. */
static void set_wants(aisim_route *route)
{
    const aisim_route_options *o = &route->o;
    bool all = route->config.everything;
    bool kv = is_one_of(o->policy, ONE(KV) | ONE(KV_V1));
    bool tokens = o->policy == AISIM_ROUTE_LEAST_TOKENS;
    bool hash = is_one_of(o->policy, ONE(HASH) | ONE(HASH_BOUNDED));
    route_wants *w = &route->wants;
    w->blocks = all || tokens || kv || o->overload_blocks_ratio >= 0.0;
    w->overlap = all || kv || o->policy == AISIM_ROUTE_PREFIX;
    w->host = all || (o->policy == AISIM_ROUTE_KV &&
                      (o->host_credit > 0.0 || o->disk_credit > 0.0 || o->shared_credit > 0.0));
    w->prefill = o->track_prefill && /* somebody reads active_prefill_tokens */
                 (all || tokens || o->policy == AISIM_ROUTE_KV ||
                  o->overload_prefill_tokens >= 0.0 || o->queue_threshold >= 0.0);
    w->telemetry = is_one_of(o->policy, ONE(LEAST_KV) | ONE(SHORTEST_QUEUE));
    w->keys = o->affinity != AISIM_AFFINITY_NONE || hash;
    w->path = all || w->blocks || w->overlap || w->prefill || o->view == AISIM_VIEW_APPROXIMATE ||
              o->queue_order == AISIM_QUEUE_WSPT || (hash && o->key == AISIM_KEY_PREFIX);
    w->cost = kv || is_one_of(o->policy, ONE(LEAST_REQUESTS) | ONE(LEAST_TOKENS) | ONE(LEAST_KV) |
                                             ONE(SHORTEST_QUEUE) | ONE(PREFIX));
    w->cost2 = o->policy == AISIM_ROUTE_SHORTEST_QUEUE;
    w->p = o->policy == AISIM_ROUTE_WEIGHTED_RANDOM || o->temperature > 0.0;
    w->limits = o->overload_prefill_tokens >= 0.0 || o->overload_blocks_ratio >= 0.0;
}

#undef ONE

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
    route->eligible_stale = true;
    set_wants(route);
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
    return route->wants.blocks;
}

bool aisim_route_wants_overlap(const aisim_route *route)
{
    return route->wants.overlap;
}

bool aisim_route_wants_host(const aisim_route *route)
{
    return route->wants.host;
}

bool aisim_route_wants_prefill(const aisim_route *route)
{
    return route->wants.prefill;
}

bool aisim_route_wants_telemetry(const aisim_route *route)
{
    return route->wants.telemetry;
}

bool aisim_route_wants_keys(const aisim_route *route)
{
    return route->wants.keys;
}

bool aisim_route_wants_path(const aisim_route *route)
{
    return route->wants.path;
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
    route->eligible_stale = true;
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
    route->eligible_stale = true;
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

/* ---- the decision ---------------------------------------------------------------------------- */

static bool overloaded(const aisim_route *route, const route_target *t) /* §2: above, not at */
{
    double prefill = route->o.overload_prefill_tokens;
    double ratio = route->o.overload_blocks_ratio;
    return (prefill >= 0.0 && (double)t->active_prefill_tokens > prefill) ||
           (ratio >= 0.0 && (double)route_active_blocks(t) > ratio * (double)t->now.kv_total);
}

/* Lists the eligible targets, unless only states decide and none has changed. */
static void find_eligible(aisim_route *route, const aisim_route_request *request)
{
    bool special = route->wants.limits || request->excluded > 0;
    if (!special && !route->eligible_stale) {
        return;
    }
    route->eligible_stale = special;
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

bool route_is_eligible(const aisim_route *route, uint32_t target)
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

static void fill_nan(double *values, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++) {
        values[i] = (double)NAN;
    }
}

/* Nothing is computed yet: what an earlier decision may have written, and new targets. */
static void blank(aisim_route *route)
{
    uint32_t n = route->targets.len, known = route->blanked;
    const route_wants *w = &route->wants;
    aisim_array_reserve(&route->cost, n);
    aisim_array_reserve(&route->cost2, n);
    aisim_array_reserve(&route->p, n);
    aisim_array_reserve(&route->tiers, n);
    route->blanked = n;
    route->preference.len = 0;
    fill_nan(route->cost.data, w->cost ? 0 : known, n);
    fill_nan(route->cost2.data, w->cost2 ? 0 : known, n);
    fill_nan(route->p.data, w->p ? 0 : known, n);
    for (uint32_t i = w->overlap || w->prefill ? 0 : known; i < n; i++) {
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
        return route_is_eligible(route, bound) ? bound
                                               : AISIM_NONE; /* passed over, the binding stays */
    }
    *by = AISIM_BY_TENTATIVE;
    bool usable =
        e->unanswered > 0 && e->tentative != AISIM_NONE && route_is_eligible(route, e->tentative);
    return usable ? e->tentative : AISIM_NONE;
}

static uint32_t choose(aisim_route *route, const aisim_route_request *request, uint32_t entry,
                       aisim_route_decision *out)
{
    if (request->pin != AISIM_NONE) {
        out->by = AISIM_BY_PIN;
        return route_is_eligible(route, request->pin) ? request->pin : AISIM_NONE;
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
    if (route->wants.telemetry) {
        route_sample(route, true);
    }
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
    for (uint32_t i = 0; i < route->targets.len && route->wants.overlap; i++) {
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
        route_remember(route, request, out->target, entry);
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
    if (route_record_of(route, request->slot)->state == ROUTE_SENT) {
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
    route_remember(route, request, target, entry);
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
