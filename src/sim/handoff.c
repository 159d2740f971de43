/* handoff.c - hand-off in a whole simulation: destination first (spec/engine.md §15, routing.md
 * §5).
 *
 *   arrival -> prefill router -> decode router -> reservation at the decode rank -> prefill rank
 *           -> transfer -> activation at the decode rank, source released
 *
 * Nothing here costs a request that takes no hand-off more than a test, and no pass anything. */
#include "sim/handoff.h"

#include <stdlib.h>

#include "base/clock.h"
#include "sim/sim_internal.h"

/* ---- pools ----------------------------------------------------------------------------------- */

static const char *role_text(aisim_role role)
{
    static const char *const texts[] = {"aggregated", "prefill", "decode"};
    return texts[role];
}

aisim_status sim_handoff_check_pool(const aisim_sim *sim, const aisim_pool_config *config,
                                    aisim_error *err)
{
    for (uint32_t i = 0; config->role != AISIM_ROLE_AGGREGATED && i < sim->pools.len; i++) {
        if (sim->pools.data[i].role == config->role) {
            return aisim_fail(err, AISIM_EEXIST,
                              "pool '%s': there is a pool of role %s already ('%s'); one hand-off "
                              "has one pool of each role",
                              config->name, role_text(config->role), sim->pools.data[i].name);
        }
    }
    return AISIM_OK;
}

static void on_reserved(void *context, uint32_t shadow)
{
    aisim_sim *sim = context;
    uint32_t slot = sim_request(sim, shadow)->cookie;
    aisim_array_push(&sim->handoffs.granted, aisim_sim_handle(sim, sim_request(sim, slot)));
    sim->handoffs.todo = true;
}

static void on_held(void *context, uint32_t slot)
{
    aisim_sim *sim = context;
    aisim_array_push(&sim->handoffs.held, aisim_sim_handle(sim, sim_request(sim, slot)));
    sim->handoffs.todo = true;
}

void sim_handoff_pool(aisim_sim *sim, uint32_t index)
{
    sim_handoffs *all = &sim->handoffs;
    aisim_role role = sim->pools.data[index].role;
    if (role == AISIM_ROLE_AGGREGATED) {
        return;
    }
    if (!all->on) {
        all->on = true;
        all->prefill_pool = all->decode_pool = AISIM_NONE;
        sim->engine.held = on_held;
        sim->engine.reserved = on_reserved;
    }
    *(role == AISIM_ROLE_PREFILL ? &all->prefill_pool : &all->decode_pool) = index;
}

aisim_status sim_handoff_check(const aisim_sim *sim, aisim_error *err)
{
    const sim_handoffs *all = &sim->handoffs;
    if (!all->on) {
        return AISIM_OK;
    }
    if (all->prefill_pool != AISIM_NONE && all->decode_pool != AISIM_NONE) {
        bool priced = sim->pools.data[all->prefill_pool].transfer.price != NULL;
        if (priced && all->config.gb_per_second > 0) {
            return aisim_fail(
                err, AISIM_EINVAL,
                "handoff: bandwidth_gb_per_second has no effect with timing.transfer of "
                "pool '%s'; leave one of them out",
                sim->pools.data[all->prefill_pool].name);
        }
        return AISIM_OK;
    }
    bool prefill = all->prefill_pool != AISIM_NONE;
    return aisim_fail(err, AISIM_EINVAL,
                      "pool '%s' of role %s has no partner: add a pool of role %s",
                      sim->pools.data[prefill ? all->prefill_pool : all->decode_pool].name,
                      role_text(prefill ? AISIM_ROLE_PREFILL : AISIM_ROLE_DECODE),
                      role_text(prefill ? AISIM_ROLE_DECODE : AISIM_ROLE_PREFILL));
}

void aisim_sim_handoff(aisim_sim *sim, const aisim_handoff_config *config)
{
    AISIM_CHECK(config->gb_per_second >= 0 && config->latency_ns >= 0 &&
                config->bytes_per_token >= 0 && config->state_bytes >= 0);
    sim->handoffs.config = *config;
}

void aisim_sim_decider(aisim_sim *sim, aisim_decide_fn fn, void *context)
{
    sim->handoffs.decide = fn;
    sim->handoffs.decide_context = context;
}

void sim_handoffs_free(aisim_sim *sim)
{
    aisim_array_free(&sim->handoffs.of);
    aisim_array_free(&sim->handoffs.granted);
    aisim_array_free(&sim->handoffs.held);
    aisim_array_free(&sim->handoffs.left);
}

/* ---- small questions ------------------------------------------------------------------------- */

bool sim_handoff_under_way(const aisim_sim *sim, uint32_t slot)
{
    return slot < sim->handoffs.of.len && sim->handoffs.of.data[slot].stage != HANDOFF_NONE;
}

bool sim_handoff_moves(const aisim_sim *sim, uint32_t slot, uint32_t serial)
{
    const sim_handoff *h = &sim->handoffs.of.data[slot];
    return (h->stage == HANDOFF_TRANSFER || h->stage == HANDOFF_DECIDING) && h->serial == serial;
}

void sim_handoff_stage_of(const aisim_sim *sim, uint32_t slot, aisim_event *event)
{
    event->u.route.stage = 0;
    event->u.route.wait_ns = sim->now_ns - sim_request(sim, slot)->arrival_ns;
    if (sim_handoff_under_way(sim, slot)) {
        const sim_handoff *h = &sim->handoffs.of.data[slot];
        event->u.route.stage = h->decode_rank == AISIM_NONE ? 1 : 2;
        event->u.route.wait_ns = sim->now_ns - h->since_ns;
    }
}

static uint32_t worker_of(const aisim_sim *sim, uint32_t rank)
{
    return rank == AISIM_NONE ? AISIM_NONE : sim->rank_workers.data[rank];
}

/* Blocks of the rank were taken or given back outside of a pass: levels, and whoever waits. */
static void changed(aisim_sim *sim, uint32_t rank)
{
    aisim_worker_show_level(sim->ranks.data[rank], &sim->engine.observers, sim->now_ns);
    sim_wake(sim, worker_of(sim, rank));
}

static void leave(aisim_sim *sim, uint32_t slot, uint32_t rank, bool lost)
{
    sim_leave(sim, slot, rank, lost);
    aisim_array_push(&sim->handoffs.left, worker_of(sim, rank));
    sim->handoffs.todo = true;
}

static void open(aisim_sim *sim, uint32_t slot)
{
    static const sim_handoff none = {
        .prefill_rank = AISIM_NONE, .decode_rank = AISIM_NONE, .shadow = AISIM_NONE};
    while (sim->handoffs.of.len <= slot) {
        aisim_array_push(&sim->handoffs.of, none);
    }
    sim->handoffs.of.data[slot] = none;
    sim->handoffs.of.data[slot].stage = HANDOFF_ROUTING;
    sim->handoffs.of.data[slot].id = sim_request(sim, slot)->id;
    sim->handoffs.of.data[slot].since_ns = sim->now_ns;
    sim_request(sim, slot)->position = sim->handoffs.prefill_pool;
}

/* ---- the choice between local and remote ------------------------------------------------------
 */

static bool roomy(const aisim_sim *sim, const aisim_targets *targets)
{
    for (uint32_t i = 0; i < targets->n; i++) {
        const aisim_block_pool *pool = &sim->ranks.data[targets->ranks[i]]->pool;
        double usage = (double)aisim_block_pool_active(pool) / (double)pool->blocks;
        if (usage < sim->handoffs.config.local_below_usage) {
            return true;
        }
    }
    return false;
}

static bool decides_local(aisim_sim *sim, uint32_t slot, aisim_error *err)
{
    const sim_handoffs *all = &sim->handoffs;
    const aisim_request *r = sim_request(sim, slot);
    bool asks = all->decide != NULL || all->config.local_below_tokens > 0 ||
                all->config.local_below_usage > 0;
    if (!asks) {
        return false;
    }
    aisim_targets targets = sim_targets(sim, &sim->pools.data[all->decode_pool]);
    uint64_t overlap = 0;
    for (uint32_t i = 0; i < targets.n; i++) {
        uint64_t here = aisim_sim_overlap_blocks(sim, r, targets.ranks[i]);
        overlap = here > overlap ? here : overlap;
    }
    if (targets.n == 0) {
        return false;
    }
    if (all->decide != NULL) {
        return all->decide(all->decide_context, sim, r, overlap, &targets, err);
    }
    uint64_t there = overlap * aisim_sim_block_size(sim, all->decode_pool);
    return r->prompt_tokens - there < all->config.local_below_tokens || roomy(sim, &targets);
}

/* The prefill pass gives all the output there will be. */
static bool one_token(const aisim_sim *sim, const aisim_request *r)
{
    uint32_t rank = sim->pools.data[sim->handoffs.prefill_pool].ranks.data[0];
    return aisim_rank_output_left(sim->ranks.data[rank], r) <= 1;
}

bool sim_handoff_arrive(aisim_sim *sim, uint32_t slot)
{
    aisim_request *r = sim_request(sim, slot);
    const sim_handoffs *all = &sim->handoffs;
    if (r->position != all->prefill_pool && r->position != all->decode_pool) {
        return true; /* an aggregated pool beside them */
    }
    if (one_token(sim, r)) {
        r->position = all->prefill_pool;
        return true;
    }
    aisim_error err;
    aisim_error_clear(&err);
    bool local = decides_local(sim, slot, &err);
    if (err.code != AISIM_OK) {
        aisim_sim_abort(sim, &err);
        return false;
    }
    if (local) {
        r->position = all->decode_pool;
    } else {
        open(sim, slot);
        all->of.data[slot].since_ns = r->arrival_ns;
    }
    return true;
}

/* ---- routing and reservation ------------------------------------------------------------------
 */

static void reserve(aisim_sim *sim, uint32_t slot)
{
    sim_handoff *h = &sim->handoffs.of.data[slot];
    const aisim_rank *rank = sim->ranks.data[h->decode_rank];
    aisim_end_reason reason = aisim_rank_unreservable(rank, sim_request(sim, slot));
    if (reason != AISIM_END_NONE) { /* §15.1: an error, no state */
        sim_end(sim, slot, reason, AISIM_WHERE_ENGINE);
        return;
    }
    h->stage = HANDOFF_PENDING;
    h->shadow = aisim_requests_shadow(&sim->engine.requests, slot);
    aisim_rank_reserve(sim_touch(sim, h->decode_rank), h->shadow);
    changed(sim, h->decode_rank);
}

/* The decode router decides, after its delay (spec/lua-api.md §7). */
static void decide_decode(aisim_sim *sim, uint32_t slot)
{
    sim_handoff *h = &sim->handoffs.of.data[slot];
    int64_t delay_ns = sim->pools.data[sim->handoffs.decode_pool].router.delay_ns;
    h->since_ns = sim->now_ns;
    if (delay_ns == 0) {
        sim_route_or_queue(sim, slot);
        return;
    }
    h->stage = HANDOFF_DECIDING;
    h->serial = ++sim->handoffs.serial;
    aisim_heap_push(&sim->heap, sim->now_ns + delay_ns, AISIM_CLASS_ARRIVAL, AISIM_ENTRY_HANDOFF,
                    slot, h->serial, false);
}

void sim_handoff_place(aisim_sim *sim, uint32_t slot, uint32_t rank, int64_t overlap)
{
    sim_handoff *h = &sim->handoffs.of.data[slot];
    if (h->prefill_rank == AISIM_NONE) {
        h->prefill_rank = rank; /* the decode router sees the choice */
        sim_request(sim, slot)->position = sim->handoffs.decode_pool;
        sim_enter(sim, slot, rank, overlap, true);
        decide_decode(sim, slot);
        return;
    }
    h->decode_rank = rank;
    sim_request(sim, slot)->dispatched_ns = sim->now_ns; /* both routers have placed it */
    sim_enter(sim, slot, rank, overlap, false);
    reserve(sim, slot);
}

static void begin_prefill(aisim_sim *sim, uint32_t slot)
{
    sim_handoff *h = &sim->handoffs.of.data[slot];
    h->stage = HANDOFF_PREFILL;
    sim_request(sim, slot)->flags |= AISIM_REQF_HOLD | AISIM_REQF_PREFILL;
    aisim_rank_submit(sim_touch(sim, h->prefill_rank), slot);
    sim_wake(sim, worker_of(sim, h->prefill_rank));
}

/* ---- transfer ---------------------------------------------------------------------------------
 */

static void tell(aisim_sim *sim, uint32_t slot, aisim_event_type type, int64_t end_ns)
{
    if (!aisim_wanted(&sim->engine.observers, type)) {
        return;
    }
    const sim_handoff *h = &sim->handoffs.of.data[slot];
    const aisim_request *r = sim_request(sim, slot);
    aisim_event event = {.type = type, .rank = h->prefill_rank, .t_ns = sim->now_ns, .request = r};
    event.u.transfer.kind = AISIM_TRANSFER_HANDOFF;
    event.u.transfer.src = worker_of(sim, h->prefill_rank);
    event.u.transfer.dst = worker_of(sim, h->decode_rank);
    event.u.transfer.bytes = h->bytes;
    event.u.transfer.begin_ns = h->begin_ns;
    event.u.transfer.held_ns = h->held_ns;
    event.u.transfer.end_ns = end_ns;
    event.u.transfer.request_id = r->id;
    aisim_emit(&sim->engine.observers, &event);
}

static int64_t duration_ns(const aisim_sim *sim, const sim_handoff *h, uint64_t tokens)
{
    const aisim_handoff_config *link = &sim->handoffs.config;
    uint32_t src = worker_of(sim, h->prefill_rank), dst = worker_of(sim, h->decode_rank);
    const aisim_transfer_price *p = &sim->pools.data[sim->workers.data[src].pool].transfer;
    if (p->price != NULL) {
        return link->latency_ns + p->price(p->context, AISIM_TRANSFER_HANDOFF, h->bytes, src, dst);
    }
    double ms = link->gb_per_second > 0 ? aisim_handoff_ms(tokens, link->bytes_per_token,
                                                           link->state_bytes, link->gb_per_second)
                                        : 0.0;
    return link->latency_ns + aisim_ns_from_ms(ms);
}

/* The prompt is computed and its first token delivered. */
static void begin_transfer(aisim_sim *sim, uint32_t slot)
{
    sim_handoff *h = &sim->handoffs.of.data[slot];
    aisim_request *r = sim_request(sim, slot);
    const aisim_handoff_config *link = &sim->handoffs.config;
    const aisim_rank *to = sim->ranks.data[h->decode_rank];
    const aisim_request *shadow = sim_request(sim, h->shadow);
    r->flags &= (uint8_t) ~(AISIM_REQF_HOLD | AISIM_REQF_PREFILL);
    if (aisim_rank_output_left(to, r) == 0) { /* the decode rank's context limit is reached */
        aisim_rank_cancel(sim_touch(sim, h->prefill_rank), slot);
        changed(sim, h->prefill_rank);
        sim_end(sim, slot, AISIM_END_CONTEXT, AISIM_WHERE_ENGINE);
        return;
    }
    uint64_t tokens = link->timing == AISIM_HANDOFF_FULL_PROMPT ? aisim_known(shadow)
                                                                : aisim_rank_missing(to, h->shadow);
    h->stage = HANDOFF_TRANSFER;
    h->serial = ++sim->handoffs.serial;
    h->held_ns = sim->now_ns;
    h->begin_ns = shadow->waiting_since_ns > sim->now_ns ? shadow->waiting_since_ns : sim->now_ns;
    h->bytes = (uint64_t)((double)tokens * link->bytes_per_token + link->state_bytes + 0.5);
    int64_t end_ns = h->begin_ns + duration_ns(sim, h, tokens);
    tell(sim, slot, AISIM_EV_TRANSFER_START, end_ns);
    aisim_heap_push(&sim->heap, end_ns, AISIM_CLASS_TRANSFER, AISIM_ENTRY_HANDOFF, slot, h->serial,
                    false);
}

static void transferred(aisim_sim *sim, uint32_t slot)
{
    tell(sim, slot, AISIM_EV_TRANSFER_END, sim->now_ns);
    sim_handoff h = sim->handoffs.of.data[slot];
    aisim_request *r = sim_request(sim, slot);
    aisim_rank *to = sim_touch(sim, h.decode_rank);
    aisim_rank_release_source(sim_touch(sim, h.prefill_rank), slot);
    leave(sim, slot, h.prefill_rank, false);
    changed(sim, h.prefill_rank);
    sim->handoffs.of.data[slot].stage = HANDOFF_NONE;
    r->end = AISIM_END_NONE;
    r->drafts = 0; /* mtp.md §9 */
    r->waiting_since_ns = sim->now_ns;
    r->flags &= (uint8_t)~AISIM_REQF_RESUMED; /* if it was: caught up without a token */
    r->flags |= AISIM_REQF_ARRIVED;
    aisim_rank_adopt(to, h.shadow, slot);
    aisim_requests_give(&sim->engine.requests, h.shadow);
    aisim_rank_activate(to, slot);
    changed(sim, h.decode_rank);
}

void sim_handoff_due(aisim_sim *sim, uint32_t slot)
{
    if (sim->handoffs.of.data[slot].stage == HANDOFF_TRANSFER) {
        transferred(sim, slot);
        return;
    }
    sim->handoffs.of.data[slot].stage = HANDOFF_ROUTING;
    sim_route_or_queue(sim, slot);
}

void sim_handoff_settle(aisim_sim *sim)
{
    sim_handoffs *all = &sim->handoffs;
    all->todo = false;
    for (uint32_t i = 0; i < all->granted.len; i++) {
        aisim_handle which = all->granted.data[i];
        bool lives = sim_request(sim, which.index)->generation == which.generation;
        const sim_handoff *h = &all->of.data[which.index];
        if (lives && h->stage == HANDOFF_PENDING &&
            sim_request(sim, h->shadow)->state == AISIM_REQ_RESERVED) {
            begin_prefill(sim, which.index);
            changed(sim, all->of.data[which.index].decode_rank);
        }
    }
    all->granted.len = 0;
    for (uint32_t i = 0; i < all->held.len; i++) {
        aisim_handle which = all->held.data[i];
        const aisim_request *r = sim_request(sim, which.index);
        if (r->generation == which.generation && r->state == AISIM_REQ_HELD &&
            all->of.data[which.index].stage == HANDOFF_PREFILL) {
            begin_transfer(sim, which.index);
        }
    }
    all->held.len = 0;
    for (uint32_t i = 0; i < all->left.len; i++) {
        sim_check_drained(sim, all->left.data[i]);
    }
    all->left.len = 0;
}

/* ---- ends -------------------------------------------------------------------------------------
 */

/* Gives back what the shadow holds. */
static void drop_shadow(aisim_sim *sim, sim_handoff *h)
{
    if (h->shadow != AISIM_NONE) {
        aisim_rank_cancel(sim_touch(sim, h->decode_rank), h->shadow);
        aisim_requests_give(&sim->engine.requests, h->shadow);
        h->shadow = AISIM_NONE;
        changed(sim, h->decode_rank);
    }
}

/* Off the books of the ends where the request itself is not. */
static void close(aisim_sim *sim, uint32_t slot, bool lost)
{
    sim_handoff *h = &sim->handoffs.of.data[slot];
    uint32_t at = sim_request(sim, slot)->rank;
    drop_shadow(sim, h);
    if (h->decode_rank != AISIM_NONE) {
        leave(sim, slot, h->decode_rank, lost);
    }
    if (h->prefill_rank != AISIM_NONE && at == AISIM_NONE) {
        leave(sim, slot, h->prefill_rank, lost);
    }
    h->stage = HANDOFF_NONE;
}

void sim_handoff_over(aisim_sim *sim, uint32_t slot)
{
    if (sim_handoff_under_way(sim, slot)) {
        close(sim, slot, false);
    }
}

static int by_value(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

void sim_handoff_lose(aisim_sim *sim, uint32_t worker, sim_slots *lost)
{
    AISIM_ARRAY(uint64_t) found = {0}; /* id, slot */
    for (uint32_t slot = 0; slot < sim->handoffs.of.len; slot++) {
        sim_handoff *h = &sim->handoffs.of.data[slot];
        aisim_request *r = sim_request(sim, slot);
        bool source = worker_of(sim, h->prefill_rank) == worker;
        if (h->stage == HANDOFF_NONE || (!source && worker_of(sim, h->decode_rank) != worker)) {
            continue;
        }
        drop_shadow(sim, h);
        bool listed = source && (r->state == AISIM_REQ_RUNNING || r->state == AISIM_REQ_WAITING ||
                                 r->state == AISIM_REQ_PREEMPTED || r->state == AISIM_REQ_SKIPPED);
        if (listed) {
            continue; /* among those that run or wait there */
        }
        if (r->rank != AISIM_NONE) {
            aisim_rank_withdraw(sim_touch(sim, r->rank), slot);
            aisim_offload_settle_cancel(sim_touch(sim, r->rank), sim->now_ns);
            changed(sim, r->rank);
        } else {
            sim_unqueue(sim, slot);
        }
        uint64_t key = (uint64_t)r->id << 32 | slot;
        aisim_array_push(&found, key);
    }
    if (found.len > 0) {
        qsort(found.data, found.len, sizeof *found.data, by_value);
    }
    for (uint32_t i = 0; i < found.len; i++) {
        aisim_array_push(lost, (uint32_t)found.data[i]);
    }
    aisim_array_free(&found);
}

uint32_t aisim_sim_prefill_rank(const aisim_sim *sim, const aisim_request *request)
{
    uint32_t slot = request->lease.owner;
    if (slot >= sim->handoffs.of.len || sim->handoffs.of.data[slot].id != request->id) {
        return AISIM_NONE;
    }
    return sim->handoffs.of.data[slot].prefill_rank;
}

uint32_t sim_handoff_restart(aisim_sim *sim, uint32_t slot)
{
    aisim_request *r = sim_request(sim, slot);
    bool remote = aisim_sim_prefill_rank(sim, r) != AISIM_NONE || sim_handoff_under_way(sim, slot);
    if (!remote) {
        return sim->workers.data[worker_of(sim, r->rank)].pool;
    }
    if (sim_handoff_under_way(sim, slot)) {
        close(sim, slot, true);
    }
    r->flags &= (uint8_t) ~(AISIM_REQF_HOLD | AISIM_REQF_PREFILL | AISIM_REQF_ARRIVED);
    r->end = AISIM_END_NONE;
    r->drafts = 0;
    open(sim, slot);
    return sim->handoffs.prefill_pool;
}
