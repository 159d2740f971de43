/* submit.c - a request from its creation to its end, outside the ranks: arrival, admission,
 * routing, cancellation, and what happens when it is over. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "sim/sim_internal.h"

/* ---- creation -------------------------------------------------------------------------------- */

aisim_status aisim_sim_submit(aisim_sim *sim, const aisim_submit *submit, aisim_handle *out,
                              aisim_error *err)
{
    if (submit->at_ns < sim->now_ns) {
        return aisim_fail(err, AISIM_ERANGE,
                          "a request cannot arrive in the past (%.6f ms, now %.6f ms)",
                          (double)submit->at_ns / 1e6, (double)sim->now_ns / 1e6);
    }
    if (submit->pool >= sim->pools.len) {
        return aisim_fail(err, AISIM_ENOENT,
                          "no pool to send the request to: call sim:pool{…} first");
    }
    if ((uint64_t)submit->prompt_tokens + submit->output_tokens > UINT32_MAX / 2) {
        return aisim_fail(err, AISIM_ERANGE,
                          "prompt and output together have %" PRIu64 " tokens: at most %u",
                          (uint64_t)submit->prompt_tokens + submit->output_tokens, UINT32_MAX / 2);
    }
    uint32_t slot = aisim_requests_take(&sim->engine.requests);
    aisim_request *r = sim_request(sim, slot);
    aisim_content *content = sim->engine.content;
    if (submit->planned.tokens > 0) {
        aisim_content_hold(content, submit->planned.run);
        r->lease.run = submit->planned.run;
    } else {
        r->lease.run =
            aisim_content_append_private(content, submit->content, submit->output_tokens).run;
    }
    r->cookie = submit->cookie;
    r->arrival_ns = submit->at_ns;
    r->waiting_since_ns = submit->at_ns;
    r->prompt_tokens = submit->prompt_tokens;
    r->output_tokens = submit->output_tokens;
    r->priority = submit->priority;
    r->client = submit->client;
    r->session = submit->session;
    r->turn = submit->turn;
    r->class_id = submit->class_id;
    r->phase = submit->phase;
    r->flags = submit->flags;
    r->position = submit->pool;
    aisim_heap_push(&sim->heap, submit->at_ns, AISIM_CLASS_ARRIVAL, AISIM_ENTRY_ARRIVAL, slot,
                    r->generation, false);
    if (out != NULL) {
        *out = (aisim_handle){slot, r->generation};
    }
    return AISIM_OK;
}

const aisim_request *aisim_sim_request(const aisim_sim *sim, aisim_handle handle)
{
    if (handle.index >= sim->engine.requests.slots) {
        return NULL;
    }
    const aisim_request *r = sim_request(sim, handle.index);
    if (r->generation != handle.generation) {
        return NULL;
    }
    if (r->rank != AISIM_NONE) {
        aisim_cruise_sync(sim->ranks.data[r->rank], handle.index);
    }
    return r;
}

aisim_handle aisim_sim_handle(const aisim_sim *sim, const aisim_request *request)
{
    (void)sim;
    return (aisim_handle){aisim_requests_slot(request), request->generation};
}

/* ---- the end --------------------------------------------------------------------------------- */

void sim_leave(aisim_sim *sim, uint32_t slot, uint32_t rank, bool lost)
{
    const aisim_worker *worker = &sim->workers.data[sim->rank_workers.data[rank]];
    const aisim_router *router = &sim->pools.data[worker->pool].router;
    sim_unbook(sim, slot, rank);
    sim->retry_routers = true;
    if (lost && router->on_lost != NULL) {
        router->on_lost(router->context, sim_request(sim, slot), rank);
    } else if (!lost && router->on_done != NULL) {
        router->on_done(router->context, sim_request(sim, slot), rank);
    }
}

void sim_ended(void *context, uint32_t slot)
{
    aisim_sim *sim = context;
    aisim_request *r = sim_request(sim, slot);
    if (r->rank != AISIM_NONE) {
        sim_leave(sim, slot, r->rank, false);
    }
    sim_handoff_over(sim, slot);
    if (r->client != AISIM_NO_CLIENT && sim->clients.data[r->client].terminal != NULL) {
        aisim_client client = sim->clients.data[r->client];
        client.terminal(client.context, sim, r);
    }
    aisim_content_release(sim->engine.content, r->lease.run);
    aisim_requests_give(&sim->engine.requests, slot);
}

int64_t sim_ideal(void *context, const aisim_request *r)
{
    aisim_sim *sim = context;
    if (r->client == AISIM_NO_CLIENT || sim->clients.data[r->client].ideal == NULL) {
        return -1;
    }
    return sim->clients.data[r->client].ideal(sim->clients.data[r->client].context, r);
}

void sim_end(aisim_sim *sim, uint32_t slot, aisim_end_reason reason, aisim_where where)
{
    aisim_request *r = sim_request(sim, slot);
    r->end = (uint8_t)reason;
    r->state = AISIM_REQ_DONE;
    aisim_event event = {.type = aisim_end_is_rejection(reason) ? AISIM_EV_REJECT : AISIM_EV_FINISH,
                         .rank = r->rank,
                         .t_ns = sim->now_ns,
                         .request = r};
    if (event.type == AISIM_EV_REJECT) {
        event.u.reject.where = where;
    } else {
        event.u.finish.ideal_tokens = aisim_engine_ideal(&sim->engine, r);
    }
    if (aisim_wanted(&sim->engine.observers, event.type)) {
        aisim_emit(&sim->engine.observers, &event);
    }
    sim_ended(sim, slot);
}

/* ---- arrival and routing --------------------------------------------------------------------- */

static void look(const void *host, uint32_t rank, aisim_rank_view *out)
{
    aisim_sim_rank(host, rank, out);
}

static void list_targets(const aisim_sim *sim, sim_pool *pool)
{
    pool->targets_stale = false;
    pool->targets_version++;
    pool->targets.len = 0;
    for (uint32_t i = 0; i < pool->ranks.len; i++) {
        uint32_t rank = pool->ranks.data[i];
        if (sim->workers.data[sim->rank_workers.data[rank]].state == AISIM_WORKER_READY) {
            aisim_array_push(&pool->targets, rank);
        }
    }
}

aisim_targets sim_targets(aisim_sim *sim, sim_pool *pool)
{
    if (pool->targets_stale) {
        list_targets(sim, pool);
    }
    return (aisim_targets){.n = pool->targets.len,
                           .ranks = pool->targets.data,
                           .version = pool->targets_version,
                           .host = sim,
                           .look = look};
}

/* What was there and what the best target had (spec/routing.md §4, §7): true residency, so that
 * policies are compared on the same figures whatever they believe. */
static void measure_regret(const aisim_sim *sim, const sim_pool *pool, const aisim_request *r,
                           uint32_t rank, int64_t *chosen, int64_t *best)
{
    for (uint32_t i = 0; i < pool->targets.len; i++) {
        uint32_t target = pool->targets.data[i];
        int64_t blocks = (int64_t)aisim_sim_overlap_blocks(sim, r, target);
        *best = blocks > *best ? blocks : *best;
        *chosen = target == rank ? blocks : *chosen;
    }
}

/* How the last pick of a router came about. */
static aisim_choice choice_of(const aisim_router *router)
{
    aisim_choice choice = {"policy", (double)NAN};
    if (router->explain != NULL) {
        router->explain(router->context, &choice);
    }
    return choice;
}

void sim_enter(aisim_sim *sim, uint32_t slot, uint32_t rank, int64_t overlap, bool prefills)
{
    aisim_request *r = sim_request(sim, slot);
    const aisim_worker *worker = &sim->workers.data[sim->rank_workers.data[rank]];
    sim_book(sim, slot, rank, overlap, prefills);
    const aisim_router *router = &sim->pools.data[worker->pool].router;
    if (router->on_dispatch != NULL) {
        router->on_dispatch(router->context, r, rank);
    }
    if (!prefills && router->on_first_token != NULL) {
        router->on_first_token(router->context, r, rank); /* nothing to prefill there */
    }
    if (aisim_wanted(&sim->engine.observers, AISIM_EV_ROUTE)) {
        aisim_event event = {
            .type = AISIM_EV_ROUTE, .rank = rank, .t_ns = sim->now_ns, .request = r};
        event.u.route.worker = worker->index;
        event.u.route.bound = strcmp(choice_of(router).by, "binding") == 0;
        event.u.route.overlap_blocks = overlap;
        event.u.route.chosen_blocks = event.u.route.best_blocks = -1;
        sim_handoff_stage_of(sim, slot, &event);
        if (router->regret) {
            measure_regret(sim, &sim->pools.data[worker->pool], r, rank,
                           &event.u.route.chosen_blocks, &event.u.route.best_blocks);
        }
        aisim_emit(&sim->engine.observers, &event);
    }
}

static void dispatch(aisim_sim *sim, uint32_t slot, uint32_t rank, int64_t overlap)
{
    sim_request(sim, slot)->dispatched_ns = sim->now_ns;
    aisim_rank_submit(sim_touch(sim, rank), slot);
    sim_enter(sim, slot, rank, overlap, true);
    sim_wake(sim, sim->rank_workers.data[rank]);
}

/* What a decision was like, told before it changes anything. */
static void tell_decision(const aisim_sim *sim, const sim_pool *pool, const aisim_request *r,
                          uint32_t rank, int64_t overlap)
{
    aisim_choice choice = choice_of(&pool->router);
    aisim_rank_view view;
    aisim_sim_rank(sim, rank, &view);
    aisim_decision_facts facts = {.pool = pool->name,
                                  .policy = pool->router_name,
                                  .by = choice.by,
                                  .cost = choice.cost,
                                  .targets = pool->targets.len,
                                  .worker = view.worker,
                                  .rank_in_worker = view.rank_in_worker,
                                  .overlap_blocks = overlap,
                                  .chosen_blocks = aisim_sim_overlap_blocks(sim, r, rank),
                                  .active_requests = sim->loads.data[rank].active_requests,
                                  .waiting = view.waiting,
                                  .running = view.running,
                                  .kv_used = view.kv_active,
                                  .kv_total = view.kv_total};
    uint32_t best = rank;
    facts.best_blocks = facts.chosen_blocks;
    facts.active_requests_min = facts.active_requests;
    for (uint32_t i = 0; i < pool->targets.len; i++) {
        uint32_t target = pool->targets.data[i];
        uint64_t blocks = aisim_sim_overlap_blocks(sim, r, target);
        uint64_t active = sim->loads.data[target].active_requests;
        if (blocks > facts.best_blocks) {
            facts.best_blocks = blocks;
            best = target;
        }
        if (active < facts.active_requests_min) {
            facts.active_requests_min = active;
        }
    }
    aisim_sim_rank(sim, best, &view);
    facts.best_worker = view.worker;
    facts.best_rank_in_worker = view.rank_in_worker;
    aisim_event event = {.type = AISIM_EV_DECIDE, .rank = rank, .t_ns = sim->now_ns, .request = r};
    event.u.decision = &facts;
    aisim_emit(&sim->engine.observers, &event);
}

bool sim_route(aisim_sim *sim, uint32_t slot)
{
    sim_pool *pool = sim_pool_of(sim, sim_request(sim, slot));
    aisim_targets targets = sim_targets(sim, pool);
    if (targets.n == 0) {
        return false;
    }
    int64_t overlap = -1;
    aisim_error err;
    aisim_error_clear(&err);
    aisim_part before = aisim_part_enter(sim->engine.profile, AISIM_PART_ROUTER);
    uint32_t choice = pool->router.pick(pool->router.context, sim, sim_request(sim, slot), &targets,
                                        &overlap, &err);
    aisim_part_leave(sim->engine.profile, before);
    if (err.code != AISIM_OK) {
        aisim_sim_abort(sim, &err);
        return false;
    }
    if (choice == AISIM_NONE) {
        return false;
    }
    AISIM_CHECK(choice < targets.n);
    if (aisim_wanted(&sim->engine.observers, AISIM_EV_DECIDE)) {
        tell_decision(sim, pool, sim_request(sim, slot), pool->targets.data[choice], overlap);
    }
    if (sim_handoff_under_way(sim, slot)) {
        sim_handoff_place(sim, slot, pool->targets.data[choice], overlap);
    } else {
        dispatch(sim, slot, pool->targets.data[choice], overlap);
    }
    return true;
}

void sim_route_or_queue(aisim_sim *sim, uint32_t slot)
{
    sim_pool *pool = sim_pool_of(sim, sim_request(sim, slot));
    if (pool->queued.len > 0 || !sim_route(sim, slot)) { /* while a queue exists arrivals join it */
        sim_join_queue(sim, pool, slot);
    }
}

void sim_join_queue(aisim_sim *sim, sim_pool *pool, uint32_t slot)
{
    const aisim_router *router = &pool->router;
    aisim_array_push(&pool->queued, slot);
    if (router->queue_key == NULL) {
        return;
    }
    double key = router->queue_key(router->context, sim_request(sim, slot), true);
    uint32_t at = pool->queued.len - 1;
    for (; at > 0; at--) {
        uint32_t before = pool->queued.data[at - 1];
        if (router->queue_key(router->context, sim_request(sim, before), false) <= key) {
            break;
        }
        pool->queued.data[at] = before;
    }
    pool->queued.data[at] = slot;
}

static void hold_back(aisim_sim *sim, uint32_t slot, int64_t delay_ns)
{
    aisim_request *r = sim_request(sim, slot);
    r->flags |= AISIM_REQF_DELAYED;
    aisim_heap_push(&sim->heap, sim->now_ns + delay_ns, AISIM_CLASS_ARRIVAL, AISIM_ENTRY_ARRIVAL,
                    slot, r->generation, false);
}

/* Chooses its way, then goes to the router there, which takes its time. Without pools of two roles
 * that time has gone by already. */
static void place(aisim_sim *sim, uint32_t slot)
{
    if (!sim->handoffs.on) {
        sim_route_or_queue(sim, slot);
        return;
    }
    if (!sim_handoff_arrive(sim, slot)) {
        return;
    }
    int64_t delay_ns = sim_pool_of(sim, sim_request(sim, slot))->router.delay_ns;
    if (delay_ns == 0) {
        sim_route_or_queue(sim, slot);
        return;
    }
    sim_request(sim, slot)->flags |= AISIM_REQF_DECIDING;
    hold_back(sim, slot, delay_ns);
}

/* It has arrived before, its delay is over. */
static void go_on(aisim_sim *sim, uint32_t slot)
{
    aisim_request *r = sim_request(sim, slot);
    bool placed = (r->flags & AISIM_REQF_DECIDING) != 0;
    r->flags &= (uint8_t) ~(AISIM_REQF_DELAYED | AISIM_REQF_DECIDING);
    if (placed) {
        sim_route_or_queue(sim, slot);
    } else {
        place(sim, slot);
    }
}

void sim_arrive(aisim_sim *sim, uint32_t slot)
{
    aisim_request *r = sim_request(sim, slot);
    if (r->flags & AISIM_REQF_DELAYED) {
        go_on(sim, slot);
        return;
    }
    if (aisim_wanted(&sim->engine.observers, AISIM_EV_ARRIVE)) {
        aisim_event event = {
            .type = AISIM_EV_ARRIVE, .rank = AISIM_NONE, .t_ns = sim->now_ns, .request = r};
        aisim_emit(&sim->engine.observers, &event);
    }
    int64_t delay_ns = 0;
    if (sim->admission != NULL) {
        aisim_error err;
        aisim_error_clear(&err);
        bool admitted = sim->admission(sim->admission_context, sim, r, &delay_ns, &err);
        if (err.code != AISIM_OK) {
            aisim_sim_abort(sim, &err);
            return;
        }
        if (!admitted) {
            sim_end(sim, slot, AISIM_END_REJECTED_ADMISSION, AISIM_WHERE_ADMISSION);
            return;
        }
    }
    delay_ns += sim->handoffs.on ? 0 : sim_pool_of(sim, r)->router.delay_ns;
    if (delay_ns == 0) {
        place(sim, slot);
    } else {
        hold_back(sim, slot, delay_ns);
    }
}

void sim_retry_routers(aisim_sim *sim)
{
    sim->retry_routers = false;
    for (uint32_t i = 0; i < sim->pools.len; i++) {
        uint32_t served = 0;
        while (served < sim->pools.data[i].queued.len &&
               sim_route(sim, sim->pools.data[i].queued.data[served])) {
            served++;
        }
        sim_pool *pool = &sim->pools.data[i];
        if (served > 0) {
            pool->queued.len -= served;
            for (uint32_t j = 0; j < pool->queued.len; j++) {
                pool->queued.data[j] = pool->queued.data[j + served];
            }
        }
    }
}

uint64_t aisim_sim_overlap_blocks(const aisim_sim *sim, const aisim_request *request, uint32_t rank)
{
    aisim_block_pool *pool = &sim->ranks.data[rank]->pool;
    uint32_t active;
    return aisim_block_pool_lookup(pool, request->lease.run,
                                   request->prompt_tokens / pool->block_size, &active);
}

uint64_t aisim_sim_usable_blocks(const aisim_sim *sim, const aisim_request *request, uint32_t rank)
{
    return aisim_rank_usable_blocks(sim->ranks.data[rank], request);
}

static void on_first_token(void *context, uint32_t slot)
{
    aisim_sim *sim = context;
    const aisim_request *r = sim_request(sim, slot);
    const aisim_router *router = &sim_pool_of(sim, r)->router;
    sim_uncount_prefill(sim, slot, r->rank);
    if (router->on_first_token != NULL) {
        router->on_first_token(router->context, r, r->rank);
    }
    sim->retry_routers = true;
}

static void on_kv(void *context, uint32_t rank, aisim_tier tier, bool stored, uint32_t run,
                  uint32_t first, uint32_t count)
{
    aisim_sim *sim = context;
    if (tier == AISIM_TIER_HOST && sim_shared_tier(sim, rank)) {
        sim_tell_shared(sim, rank, stored, run, first, count);
        return;
    }
    uint32_t pool = sim->workers.data[sim->rank_workers.data[rank]].pool;
    const aisim_router *router = &sim->pools.data[pool].router;
    if (router->on_kv != NULL && (tier == AISIM_TIER_DEVICE || router->host_kv)) {
        router->on_kv(router->context, rank,
                      tier == AISIM_TIER_DEVICE ? AISIM_ROUTER_DEVICE : AISIM_ROUTER_HOST, stored,
                      run, first, count);
    }
}

void aisim_sim_router_listen(aisim_sim *sim, uint32_t index, const aisim_router *router)
{
    sim_pool *pool = &sim->pools.data[index];
    pool->router = *router;
    pool->router.name = pool->router_name;
    if (router->on_first_token != NULL) {
        sim->engine.first_token = on_first_token;
    }
    if (router->on_kv != NULL) {
        sim->engine.kv_changed = on_kv;
        sim->engine.kv_host = sim->engine.kv_host || router->host_kv;
    }
}

void aisim_sim_router(aisim_sim *sim, uint32_t index, const aisim_router *router)
{
    sim_pool *pool = &sim->pools.data[index];
    if (pool->router.free != NULL) {
        pool->router.free(pool->router.context);
    }
    aisim_free(pool->router_name);
    pool->router_name = aisim_strdup(router->name);
    aisim_sim_router_listen(sim, index, router);
}

const char *aisim_sim_router_name(const aisim_sim *sim, uint32_t index)
{
    return sim->pools.data[index].router_name;
}

void aisim_sim_lineage(const aisim_sim *sim, const aisim_request *request, aisim_lineage *out)
{
    uint32_t session = request->session != 0 ? request->session : AISIM_NO_SESSION;
    *out = (aisim_lineage){UINT64_MAX, session, AISIM_NO_SESSION, AISIM_NO_SESSION,
                           session != AISIM_NO_SESSION};
    if (request->client != AISIM_NO_CLIENT) {
        const aisim_client *client = &sim->clients.data[request->client];
        if (client->lineage != NULL) {
            client->lineage(client->context, request, out);
        }
    }
}

void aisim_sim_descent(const aisim_sim *sim, const aisim_request *request, aisim_descent *out)
{
    *out = (aisim_descent){.root_session = request->session};
    if (request->client != AISIM_NO_CLIENT) {
        const aisim_client *client = &sim->clients.data[request->client];
        if (client->descent != NULL) {
            client->descent(client->context, request, out);
        }
    }
}

void aisim_sim_admission(aisim_sim *sim, aisim_admission_fn fn, void *context)
{
    sim->admission = fn;
    sim->admission_context = context;
}

void aisim_sim_track_load(aisim_sim *sim)
{
    sim->track_load = true;
    sim->engine.first_token = on_first_token;
}
