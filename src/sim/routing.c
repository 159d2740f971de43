/* routing.c - connects a router (cluster/route.h) to a simulation.
 *
 * Target i of the router is the i-th rank of the pool; a worker that is added later gets the next
 * targets and the next weight, 1 behind the last. A request is known by the slot of its
 * handle. The path of a prompt is read off the content tree: each run on it contributes the full
 * blocks whose last token lies in it, so a path is a few extents however long the prompt is. */
#include "sim/routing.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/rng.h"
#include "cluster/route.h"
#include "cluster/router.h"
#include "sim/sim_internal.h"

typedef struct builtin {
    aisim_route *route;
    aisim_sim *sim;
    uint32_t pool;
    AISIM_ARRAY(uint32_t) ranks;   /* of each target */
    AISIM_ARRAY(uint32_t) targets; /* of each rank, AISIM_NONE = of another pool */
    uint32_t workers;              /* that its targets belong to */
    uint32_t n_weights;            /* those of workers to come included */
    double weights[AISIM_ROUTE_MAX_WEIGHTS];
    uint32_t block_size;
    int64_t telemetry_period_ns;
    bool output_blocks;
    bool advises;
    uint64_t timer;                /* of samples, 0 = none */
    AISIM_ARRAY(uint32_t) changed; /* scratch: targets with other telemetry than at … */
    uint64_t reading;              /* … this reading of it */
    sim_path path;
    AISIM_ARRAY(aisim_handle) live; /* by slot, with output_blocks: who is booked */
    AISIM_ARRAY(double) keys;       /* by slot: place in the router queue */
    const aisim_request *request;   /* that is being decided */
    aisim_choice choice;            /* of the last pick */
    char id[12], play[36], session[12], parent[12], root[12];
} builtin;

/* ---- what routing asks of a request ------------------------------------------------------------
 */

static const char *write_number(char out[12], uint32_t number)
{
    snprintf(out, 12, "%u", number);
    return number == AISIM_NO_SESSION ? NULL : out;
}

static void read_keys(builtin *b, const aisim_request *request, aisim_route_request *out)
{
    aisim_lineage lineage;
    aisim_sim_lineage(b->sim, request, &lineage);
    if (lineage.play != UINT64_MAX) { /* instances of two clients may have the same number */
        snprintf(b->play, sizeof b->play, request->client == 0 ? "%llu" : "%llu.%u",
                 (unsigned long long)lineage.play, request->client);
        out->play = b->play;
    }
    out->id = write_number(b->id, request->id);
    out->session = write_number(b->session, lineage.session);
    out->parent = write_number(b->parent, lineage.parent);
    out->root = write_number(b->root, lineage.root);
    out->no_lineage = !lineage.known;
}

static aisim_route_request describe(builtin *b, const aisim_request *request)
{
    b->path.len = 0;
    if (aisim_route_wants_path(b->route)) {
        sim_prompt_path(aisim_sim_content(b->sim), request, b->block_size, &b->path);
    }
    b->request = request;
    aisim_route_request out = {.slot = aisim_sim_handle(b->sim, request).index,
                               .tokens = request->prompt_tokens,
                               .path = b->path.data,
                               .extents = b->path.len,
                               .weight = 1.0,
                               .pin = AISIM_NONE};
    if (aisim_route_wants_keys(b->route)) {
        read_keys(b, request, &out);
    }
    return out;
}

/* ---- callbacks of the router -------------------------------------------------------------------
 */

static void hold(void *context, uint64_t run, bool held)
{
    const builtin *b = context;
    if (held) {
        aisim_content_hold(aisim_sim_content(b->sim), (uint32_t)run);
    } else {
        aisim_content_release(aisim_sim_content(b->sim), (uint32_t)run);
    }
}

static void resident(void *context, uint32_t slot, uint32_t target, aisim_route_tiers *out)
{
    const builtin *b = context;
    uint32_t rank = b->ranks.data[target];
    (void)slot;
    out->device = (uint32_t)aisim_sim_overlap_blocks(b->sim, b->request, rank);
    if (aisim_route_wants_host(b->route)) {
        out->host = (uint32_t)aisim_sim_host_blocks(b->sim, b->request, rank, AISIM_ROUTER_HOST);
        out->shared =
            (uint32_t)aisim_sim_host_blocks(b->sim, b->request, rank, AISIM_ROUTER_SHARED);
    }
}

static uint32_t usable(void *context, uint32_t slot, uint32_t target)
{
    const builtin *b = context;
    (void)slot;
    return (uint32_t)aisim_sim_usable_blocks(b->sim, b->request, b->ranks.data[target]);
}

/* ---- callbacks of the simulation ---------------------------------------------------------------
 */

static void report_engine(builtin *b)
{
    aisim_array_reserve(&b->changed, b->ranks.len);
    uint32_t n =
        aisim_sim_touched(b->sim, b->ranks.len, b->ranks.data, &b->reading, b->changed.data);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t target = b->changed.data[i], rank = b->ranks.data[target];
        aisim_route_telemetry now = {
            .waiting = (uint32_t)aisim_sim_figure(b->sim, AISIM_FIGURE_WAITING, rank),
            .running = (uint32_t)aisim_sim_figure(b->sim, AISIM_FIGURE_RUNNING, rank),
            .kv_used = aisim_sim_figure(b->sim, AISIM_FIGURE_KV_USED, rank),
            .kv_total = aisim_sim_figure(b->sim, AISIM_FIGURE_KV_TOTAL, rank)};
        aisim_route_report(b->route, target, &now);
    }
}

/* Before the router's clock moves: what was true until now is what a sample that is due has seen.
 */
static void sample(void *context, aisim_sim *sim, int64_t t_ns)
{
    builtin *b = context;
    aisim_route_clock(b->route, t_ns);
    report_engine(b);
    b->timer =
        aisim_sim_timer(sim, t_ns + b->telemetry_period_ns, AISIM_CLASS_TIMER, true, sample, b);
}

static void count_output(const builtin *b)
{
    for (uint32_t slot = 0; slot < b->live.len; slot++) {
        const aisim_request *r = b->live.data[slot].index == AISIM_NONE
                                     ? NULL
                                     : aisim_sim_request(b->sim, b->live.data[slot]);
        if (r != NULL) {
            aisim_route_generated(b->route, slot, r->generated);
        }
    }
}

/* Before a decision: what the engine and the requests tell. */
static void look_around(builtin *b)
{
    if (aisim_route_wants_telemetry(b->route)) {
        aisim_route_clock(b->route, aisim_sim_now(b->sim));
        report_engine(b);
    }
    if (b->output_blocks) {
        count_output(b);
    }
}

static uint32_t pick(void *context, aisim_sim *sim, const aisim_request *request,
                     const aisim_targets *targets, int64_t *overlap, aisim_error *err)
{
    builtin *b = context;
    aisim_route_request asked = describe(b, request);
    aisim_route_decision decision;
    look_around(b);
    if (aisim_route_decide(b->route, aisim_sim_now(sim), &asked, &decision, err) != AISIM_OK ||
        decision.target == AISIM_NONE) {
        return AISIM_NONE;
    }
    *overlap = decision.overlap;
    b->choice = (aisim_choice){aisim_route_by_text(decision.by), decision.cost[decision.target]};
    if (b->advises) {
        aisim_route_refuse(b->route, asked.slot);
    }
    for (uint32_t i = 0; i < targets->n; i++) {
        if (targets->ranks[i] == b->ranks.data[decision.target]) {
            return i;
        }
    }
    return AISIM_NONE; /* not reached: the states of the workers are told */
}

static void explain(void *context, aisim_choice *out)
{
    *out = ((const builtin *)context)->choice;
}

static bool cost(void *context, aisim_sim *sim, const aisim_request *request,
                 const aisim_targets *targets, double *costs, aisim_error *err)
{
    builtin *b = context;
    aisim_route_request asked = describe(b, request);
    aisim_route_decision decision;
    look_around(b);
    if (aisim_route_decide(b->route, aisim_sim_now(sim), &asked, &decision, err) != AISIM_OK) {
        return false;
    }
    for (uint32_t i = 0; i < targets->n; i++) {
        costs[i] = decision.cost[b->targets.data[targets->ranks[i]]];
    }
    if (decision.target != AISIM_NONE) {
        aisim_route_refuse(b->route, asked.slot);
    }
    return true;
}

static uint32_t bound(void *context, const aisim_request *request)
{
    builtin *b = context;
    aisim_route_request asked = describe(b, request);
    uint32_t target = aisim_route_bound(b->route, aisim_sim_now(b->sim), &asked);
    return target == AISIM_NONE ? AISIM_NONE : b->ranks.data[target];
}

static void on_dispatch(void *context, const aisim_request *request, uint32_t rank)
{
    builtin *b = context;
    aisim_handle handle = aisim_sim_handle(b->sim, request);
    if (b->advises) {
        aisim_route_request placed = describe(b, request);
        aisim_route_place(b->route, aisim_sim_now(b->sim), &placed, b->targets.data[rank]);
    }
    aisim_route_accept(b->route, handle.index);
    while (b->output_blocks && b->live.len <= handle.index) {
        aisim_handle nobody = {AISIM_NONE, 0};
        aisim_array_push(&b->live, nobody);
    }
    if (b->output_blocks) {
        b->live.data[handle.index] = handle;
    }
}

static void on_first_token(void *context, const aisim_request *request, uint32_t rank)
{
    builtin *b = context;
    (void)rank;
    aisim_route_first_token(b->route, aisim_sim_handle(b->sim, request).index);
}

static void on_done(void *context, const aisim_request *request, uint32_t rank)
{
    builtin *b = context;
    (void)rank;
    uint32_t slot = aisim_sim_handle(b->sim, request).index;
    aisim_route_clock(b->route, aisim_sim_now(b->sim));
    aisim_route_done(b->route, slot);
    if (slot < b->live.len) {
        b->live.data[slot].index = AISIM_NONE;
    }
}

static void on_kv(void *context, uint32_t rank, aisim_router_tier tier, bool stored, uint32_t run,
                  uint32_t first, uint32_t count)
{
    static const aisim_route_tier tiers[] = {[AISIM_ROUTER_DEVICE] = AISIM_ROUTE_DEVICE,
                                             [AISIM_ROUTER_HOST] = AISIM_ROUTE_HOST,
                                             [AISIM_ROUTER_SHARED] = AISIM_ROUTE_SHARED};
    builtin *b = context;
    if (!aisim_content_alive(aisim_sim_content(b->sim), run)) {
        return; /* came and went since the last telling: the router never had it */
    }
    aisim_route_extent where = {run, first, count};
    aisim_route_clock(b->route, aisim_sim_now(b->sim));
    aisim_route_kv_event(b->route, b->targets.data[rank],
                         stored ? AISIM_ROUTE_STORED : AISIM_ROUTE_REMOVED, tiers[tier], where);
}

/* The ranks of a worker become targets. */
static void add_worker(builtin *b, uint32_t worker)
{
    double weight = b->workers < b->n_weights ? b->weights[b->workers] : 1.0;
    b->workers++;
    for (uint32_t rank = b->targets.len; rank < aisim_sim_ranks(b->sim); rank++) {
        aisim_rank_view view;
        aisim_sim_rank(b->sim, rank, &view);
        if (view.worker > worker) {
            return;
        }
        if (view.worker != worker) { /* of another pool */
            aisim_array_push(&b->targets, AISIM_NONE);
            continue;
        }
        aisim_array_push(&b->targets, b->ranks.len);
        aisim_array_push(&b->ranks, rank);
        b->reading = 0;
        aisim_route_target(b->route, b->workers, view.rank_in_worker + 1, weight, view.kv_total);
    }
}

static void show_state(const builtin *b, uint32_t target, uint8_t state)
{
    aisim_route_state(b->route, target,
                      state == AISIM_WORKER_READY      ? AISIM_TARGET_UP
                      : state == AISIM_WORKER_DRAINING ? AISIM_TARGET_DRAIN
                                                       : AISIM_TARGET_DOWN);
}

static void on_worker(void *context, uint32_t worker)
{
    builtin *b = context;
    aisim_rank_view last;
    aisim_route_clock(b->route, aisim_sim_now(b->sim));
    aisim_sim_rank(b->sim, b->ranks.data[b->ranks.len - 1], &last);
    if (worker > last.worker) {
        add_worker(b, worker);
    }
    for (uint32_t i = 0; i < b->ranks.len; i++) {
        aisim_rank_view view;
        aisim_sim_rank(b->sim, b->ranks.data[i], &view);
        if (view.worker == worker) {
            show_state(b, i, view.state);
        }
    }
}

static double queue_key(void *context, const aisim_request *request, bool joins)
{
    builtin *b = context;
    uint32_t slot = aisim_sim_handle(b->sim, request).index;
    if (joins) {
        aisim_route_request asked = describe(b, request);
        while (b->keys.len <= slot) {
            aisim_array_push(&b->keys, 0.0);
        }
        b->keys.data[slot] = aisim_route_queue_key(b->route, aisim_sim_now(b->sim), &asked);
    }
    return slot < b->keys.len ? b->keys.data[slot] : 0.0; /* it queued before this policy came */
}

static void free_builtin(void *context)
{
    builtin *b = context;
    if (b->timer != 0) {
        aisim_sim_timer_remove(b->sim, b->timer);
    }
    aisim_route_free(b->route);
    aisim_array_free(&b->ranks);
    aisim_array_free(&b->targets);
    aisim_array_free(&b->path);
    aisim_array_free(&b->changed);
    aisim_array_free(&b->live);
    aisim_array_free(&b->keys);
    aisim_free(b);
}

/* ---- making one --------------------------------------------------------------------------------
 */

/* Nothing but the counter is needed. */
static bool plain_round_robin(const aisim_route_options *o)
{
    return o->policy == AISIM_ROUTE_ROUND_ROBIN && o->affinity == AISIM_AFFINITY_NONE &&
           o->overload_prefill_tokens < 0.0 && o->overload_blocks_ratio < 0.0 &&
           o->queue_threshold < 0.0 && o->queue_order == AISIM_QUEUE_FCFS;
}

static aisim_status add_targets(builtin *b, const aisim_route_options *o, aisim_error *err)
{
    aisim_pool_view pool;
    aisim_sim_pool(b->sim, b->pool, &pool);
    if (o->n_weights > 0 && o->n_weights < pool.n_workers) {
        return aisim_fail(err, AISIM_EINVAL,
                          "router.weights has %u entries: the pool has %u workers, one each (those "
                          "behind are of workers added later)",
                          o->n_weights, pool.n_workers);
    }
    b->n_weights = o->n_weights;
    memcpy(b->weights, o->weights, sizeof b->weights);
    for (uint32_t i = 0; i < pool.n_workers; i++) {
        add_worker(b, pool.workers[i]);
    }
    for (uint32_t i = 0; i < b->ranks.len; i++) {
        aisim_rank_view view;
        aisim_sim_rank(b->sim, b->ranks.data[i], &view);
        show_state(b, i, view.state);
    }
    return AISIM_OK;
}

aisim_status aisim_router_new(aisim_sim *sim, uint32_t pool, const aisim_route_options *options,
                              uint32_t advisor, aisim_router *out, aisim_error *err)
{
    if (plain_round_robin(options)) {
        *out = aisim_router_round_robin();
        return AISIM_OK;
    }
    char stream[40];
    int n = snprintf(stream, sizeof stream, pool == 0 ? "router" : "router/%u", pool + 1);
    if (advisor > 1) {
        snprintf(stream + n, sizeof stream - (size_t)n, "+%u", advisor);
    }
    builtin *b = aisim_alloc_zero(1, sizeof *b);
    b->sim = sim;
    b->advises = advisor > 0;
    b->block_size = aisim_sim_block_size(sim, pool);
    b->telemetry_period_ns = options->telemetry_period_ns;
    b->pool = pool;
    aisim_route_config config = {.options = *options,
                                 .block_size = b->block_size,
                                 .rng = aisim_rng_named(aisim_sim_seed(sim), stream),
                                 .context = b,
                                 .hold = hold,
                                 .resident = resident};
    if (aisim_sim_stateful(sim, pool)) {
        config.usable = usable;
    }
    aisim_status status = aisim_route_new(&config, &b->route, err);
    if (status == AISIM_OK) {
        status = add_targets(b, options, err);
    }
    if (status != AISIM_OK) {
        free_builtin(b);
        return status;
    }
    b->output_blocks = options->track_output_blocks && aisim_route_wants_blocks(b->route);
    *out = (aisim_router){.name = aisim_route_policy_text(options->policy),
                          .context = b,
                          .pick = pick,
                          .on_done = on_done,
                          .free = free_builtin,
                          .on_dispatch = on_dispatch,
                          .on_lost = on_done,
                          .on_worker = on_worker,
                          .explain = explain};
    out->cost = aisim_route_has_cost(options->policy) ? cost : NULL;
    out->bound = options->affinity != AISIM_AFFINITY_NONE ? bound : NULL;
    if (aisim_route_wants_prefill(b->route)) {
        out->on_first_token = on_first_token;
    }
    if (options->view == AISIM_VIEW_EVENTS &&
        (aisim_route_wants_prefill(b->route) || aisim_route_wants_overlap(b->route) ||
         options->queue_order == AISIM_QUEUE_WSPT)) {
        out->on_kv = on_kv;
        out->host_kv = aisim_route_wants_host(b->route);
    }
    if (options->queue_order != AISIM_QUEUE_FCFS) {
        out->queue_key = queue_key;
    }
    if (options->telemetry_period_ns > 0 && aisim_route_wants_telemetry(b->route)) {
        int64_t period = options->telemetry_period_ns; /* §1: at multiples of it */
        int64_t first_ns = (aisim_sim_now(sim) + period - 1) / period * period;
        report_engine(b);
        b->timer = aisim_sim_timer(sim, first_ns, AISIM_CLASS_TIMER, true, sample, b);
    }
    return AISIM_OK;
}
