/* sim.c - creation of a simulation, its cluster, and the plain questions. */
#include <string.h>

#include "cluster/router.h"
#include "sim/sim_internal.h"

static void on_failed(void *context, const aisim_error *err)
{
    aisim_sim_abort(context, err);
}

aisim_sim *aisim_sim_new(uint64_t seed)
{
    aisim_sim *sim = aisim_alloc_zero(1, sizeof *sim);
    sim->seed = seed;
    sim->engine.content = aisim_content_new();
    sim->engine.ended = sim_ended;
    sim->engine.ideal = sim_ideal;
    sim->engine.failed = on_failed;
    sim->engine.context = sim;
    aisim_requests_init(&sim->engine.requests);
    sim->free_timer = AISIM_NONE;
    aisim_sim_class(sim, "");
    return sim;
}

void aisim_sim_free(aisim_sim *sim)
{
    if (sim == NULL) {
        return;
    }
    for (uint32_t i = 0; i < sim->clients.len; i++) {
        if (sim->clients.data[i].free != NULL) {
            sim->clients.data[i].free(sim->clients.data[i].context);
        }
    }
    sim_tiers_free(sim);
    sim_handoffs_free(sim);
    for (uint32_t i = 0; i < sim->ranks.len; i++) {
        aisim_rank_deinit(sim->ranks.data[i]);
        aisim_free(sim->ranks.data[i]);
    }
    for (uint32_t i = 0; i < sim->workers.len; i++) {
        aisim_worker_deinit(&sim->workers.data[i]);
    }
    for (uint32_t i = 0; i < sim->pools.len; i++) {
        sim_pool *pool = &sim->pools.data[i];
        if (pool->router.free != NULL) {
            pool->router.free(pool->router.context);
        }
        aisim_timing_free(pool->timing);
        aisim_free(pool->points);
        aisim_free(pool->name);
        aisim_free(pool->router_name);
        aisim_array_free(&pool->workers);
        aisim_array_free(&pool->ranks);
        aisim_array_free(&pool->queued);
        aisim_array_free(&pool->targets);
    }
    for (uint32_t i = 0; i < sim->classes.len; i++) {
        aisim_free(sim->classes.data[i]);
    }
    aisim_array_free(&sim->pools);
    aisim_array_free(&sim->workers);
    aisim_array_free(&sim->ranks);
    aisim_array_free(&sim->rank_workers);
    aisim_array_free(&sim->touched);
    for (uint32_t i = 0; i < sim->loads.len; i++) {
        aisim_span_set_deinit(&sim->loads.data[i].blocks);
    }
    aisim_array_free(&sim->loads);
    aisim_array_free(&sim->booked);
    aisim_array_free(&sim->path);
    aisim_array_free(&sim->clients);
    aisim_array_free(&sim->timers);
    aisim_array_free(&sim->classes);
    aisim_array_free(&sim->changes);
    aisim_heap_deinit(&sim->heap);
    aisim_requests_deinit(&sim->engine.requests);
    aisim_content_free(sim->engine.content);
    aisim_free(sim->stop_reason);
    aisim_free(sim);
}

uint64_t aisim_sim_seed(const aisim_sim *sim)
{
    return sim->seed;
}

int64_t aisim_sim_now(const aisim_sim *sim)
{
    return sim->now_ns;
}

aisim_content *aisim_sim_content(aisim_sim *sim)
{
    return sim->engine.content;
}

aisim_observers *aisim_sim_observers(aisim_sim *sim)
{
    return &sim->engine.observers;
}

void aisim_sim_profile(aisim_sim *sim, struct aisim_profile *profile)
{
    sim->engine.profile = profile;
}

/* ---- cluster --------------------------------------------------------------------------------- */

uint32_t sim_add_worker(aisim_sim *sim, uint32_t pool_index)
{
    sim_pool *pool = &sim->pools.data[pool_index];
    uint32_t n = pool->rank.group_ranks;
    aisim_worker worker = {.index = sim->workers.len,
                           .pool = pool_index,
                           .first_rank = sim->ranks.len,
                           .n_ranks = n,
                           .ranks = aisim_alloc(n, sizeof(aisim_rank *)),
                           .timing = pool->timing,
                           .state = AISIM_WORKER_STOPPED,
                           .priced_ns = -1};
    for (uint32_t i = 0; i < n; i++) {
        aisim_rank *rank = aisim_alloc(1, sizeof *rank);
        aisim_rank_init(rank, &sim->engine, sim->ranks.len, &pool->rank);
        aisim_rank_set_index_in_worker(rank, i);
        aisim_rank_points(rank, pool->points);
        rank->worker = worker.index;
        worker.ranks[i] = rank;
        aisim_array_push(&pool->ranks, rank->index);
        aisim_array_push(&sim->ranks, rank);
        aisim_array_push(&sim->rank_workers, worker.index);
        aisim_array_push(&sim->touched, 0);
        aisim_array_push(&sim->loads, (sim_load){0});
        sim_tier_attach(sim, rank, pool->transfer);
    }
    aisim_array_push(&pool->workers, worker.index);
    aisim_array_push(&sim->workers, worker);
    pool->targets_stale = true;
    return worker.index;
}

/* A point that the configuration never asks, or that it needs and has not. */
static aisim_status check_points(const aisim_pool_config *config, aisim_error *err)
{
    const aisim_points *points = config->points;
    bool scored = config->rank.kv.eviction == AISIM_EVICTION_SCORED;
    bool evict = points != NULL && points->evict != NULL;
    if (scored != evict) {
        return aisim_fail(err, AISIM_EINVAL,
                          scored ? "pool '%s': kv_cache.eviction = 'scored' needs the scheduler "
                                   "point evict"
                                 : "pool '%s': the scheduler point evict needs kv_cache.eviction = "
                                   "'scored'",
                          config->name);
    }
    if (points != NULL && points->chunk != NULL && !config->rank.scheduler.chunked_prefill) {
        return aisim_fail(err, AISIM_EINVAL,
                          "pool '%s': the scheduler point chunk needs scheduler.chunked_prefill = "
                          "true",
                          config->name);
    }
    return AISIM_OK;
}

aisim_status aisim_sim_pool_add(aisim_sim *sim, const aisim_pool_config *config, uint32_t *out,
                                aisim_error *err)
{
    for (uint32_t i = 0; i < sim->pools.len; i++) {
        if (strcmp(sim->pools.data[i].name, config->name) == 0) {
            return aisim_fail(err, AISIM_EEXIST,
                              "pool '%s' exists already: give each pool its own name",
                              config->name);
        }
    }
    if (config->workers < 1) {
        return aisim_fail(err, AISIM_ERANGE, "pool '%s': workers = 0: must be ≥ 1", config->name);
    }
    aisim_status status = aisim_rank_config_check(&config->rank, err);
    if (status != AISIM_OK) {
        return status;
    }
    status = sim_tier_check(sim, config, err);
    if (status == AISIM_OK) {
        status = sim_handoff_check_pool(sim, config, err);
    }
    if (status == AISIM_OK) {
        status = check_points(config, err);
    }
    if (status != AISIM_OK) {
        return status;
    }
    sim_pool pool = {.name = aisim_strdup(config->name),
                     .role = config->role,
                     .rank = config->rank,
                     .timing = config->timing,
                     .transfer = config->transfer,
                     .router = aisim_router_round_robin(),
                     .router_name = aisim_strdup("round_robin")};
    if (config->points != NULL) {
        pool.points = aisim_alloc(1, sizeof *pool.points);
        *pool.points = *config->points;
    }
    uint32_t index = sim->pools.len;
    aisim_array_push(&sim->pools, pool);
    sim_handoff_pool(sim, index);
    for (uint32_t i = 0; i < config->workers; i++) {
        uint32_t worker = sim_add_worker(sim, index);
        sim->workers.data[worker].state = AISIM_WORKER_READY;
    }
    if (out != NULL) {
        *out = index;
    }
    return AISIM_OK;
}

uint32_t aisim_sim_pools(const aisim_sim *sim)
{
    return sim->pools.len;
}

bool aisim_sim_stateful(const aisim_sim *sim, uint32_t pool)
{
    return sim->pools.data[pool].rank.kv.state_mode != AISIM_STATE_NONE;
}

uint32_t aisim_sim_block_size(const aisim_sim *sim, uint32_t pool)
{
    return sim->pools.data[pool].rank.kv.block_size;
}

uint32_t aisim_sim_workers(const aisim_sim *sim)
{
    return sim->workers.len;
}

uint32_t aisim_sim_ranks(const aisim_sim *sim)
{
    return sim->ranks.len;
}

const char *aisim_worker_state_text(aisim_worker_state state)
{
    static const char *const texts[] = {"starting", "ready", "draining", "drained", "stopped"};
    return texts[state];
}

static uint32_t waiting(const aisim_rank *rank)
{
    return rank->waiting.slots.len + rank->offload.queue.len;
}

static uint64_t active_blocks(const sim_load *load)
{
    return load->blocks.blocks + load->private_blocks;
}

void aisim_sim_rank(const aisim_sim *sim, uint32_t index, aisim_rank_view *out)
{
    const aisim_rank *rank = sim->ranks.data[index];
    const aisim_worker *worker = &sim->workers.data[sim->rank_workers.data[index]];
    const sim_load *load = &sim->loads.data[index];
    *out = (aisim_rank_view){
        .pool = worker->pool,
        .worker = worker->index,
        .rank_in_worker = index - worker->first_rank,
        .state = worker->state,
        .waiting = waiting(rank),
        .running = rank->running.len,
        .kv_active = aisim_block_pool_active(&rank->pool),
        .kv_inactive = rank->pool.extents.inactive,
        .kv_total = rank->pool.blocks,
        .host_used = rank->offload.host == NULL ? 0 : rank->offload.host->group->pool.used,
        .passes = rank->pass,
        .active_requests = load->active_requests,
        .active_prefill_tokens = load->active_prefill_tokens,
        .active_blocks = active_blocks(load)};
}

uint64_t aisim_sim_state_blocks(const aisim_sim *sim, uint32_t index)
{
    const aisim_rank *rank = sim->ranks.data[index];
    if (!aisim_sim_stateful(sim, sim->workers.data[sim->rank_workers.data[index]].pool)) {
        return UINT64_MAX;
    }
    uint64_t blocks = aisim_state_blocks(&rank->pool);
    for (uint32_t i = 0; i < rank->running.len; i++) {
        uint32_t recurrent = rank->running.data[i].recurrent;
        blocks += recurrent == AISIM_NONE ? 0 : rank->recurrents.slots.data[recurrent].left;
    }
    return blocks;
}

uint64_t aisim_sim_router_queue(const aisim_sim *sim)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < sim->pools.len; i++) {
        n += sim->pools.data[i].queued.len;
    }
    return n;
}

uint64_t aisim_sim_figure(const aisim_sim *sim, aisim_figure figure, uint32_t index)
{
    const aisim_rank *rank = sim->ranks.data[index];
    const sim_load *load = &sim->loads.data[index];
    switch (figure) {
    case AISIM_FIGURE_ACTIVE_REQUESTS:
        return load->active_requests;
    case AISIM_FIGURE_ACTIVE_PREFILL_TOKENS:
        return load->active_prefill_tokens;
    case AISIM_FIGURE_ACTIVE_BLOCKS:
        return active_blocks(load);
    case AISIM_FIGURE_WAITING:
        return waiting(rank);
    case AISIM_FIGURE_RUNNING:
        return rank->running.len;
    case AISIM_FIGURE_KV_USED:
        return aisim_block_pool_active(&rank->pool);
    case AISIM_FIGURE_KV_TOTAL:
        return rank->pool.blocks;
    }
    return 0;
}

uint32_t aisim_sim_touched(aisim_sim *sim, uint32_t n, const uint32_t ranks[], uint64_t *reading,
                           uint32_t places[])
{
    const uint64_t *touched = sim->touched.data;
    uint64_t since = *reading;
    uint32_t found = 0;
    for (uint32_t i = 0; i < n; i++) { /* which ones is a surprise: no branch to guess wrong */
        places[found] = i;
        found += touched[ranks[i]] >= since;
    }
    *reading = ++sim->readings;
    return found;
}

aisim_status aisim_sim_flush_cache(aisim_sim *sim, uint32_t index, aisim_error *err)
{
    const aisim_worker *worker = &sim->workers.data[index];
    for (uint32_t i = 0; i < worker->n_ranks; i++) {
        if (aisim_block_pool_active(&worker->ranks[i]->pool) > 0) { /* E-B8 */
            return aisim_fail(err, AISIM_EBUSY,
                              "worker %u: the cache can be flushed only while nothing is active",
                              index + 1);
        }
    }
    for (uint32_t i = 0; i < worker->n_ranks; i++) {
        aisim_block_pool_reset(&sim_touch(sim, worker->first_rank + i)->pool);
    }
    return AISIM_OK;
}

/* ---- names ----------------------------------------------------------------------------------- */

uint16_t aisim_sim_class(aisim_sim *sim, const char *name)
{
    for (uint32_t i = 0; i < sim->classes.len; i++) {
        if (strcmp(sim->classes.data[i], name) == 0) {
            return (uint16_t)i;
        }
    }
    AISIM_CHECK(sim->classes.len < UINT16_MAX);
    aisim_array_push(&sim->classes, aisim_strdup(name));
    return (uint16_t)(sim->classes.len - 1);
}

const char *aisim_sim_class_name(const aisim_sim *sim, uint16_t class_id)
{
    return sim->classes.data[class_id];
}

uint32_t aisim_sim_next_session(aisim_sim *sim)
{
    return ++sim->sessions;
}

uint16_t aisim_sim_client_add(aisim_sim *sim, const aisim_client *client)
{
    AISIM_CHECK(sim->clients.len < AISIM_NO_CLIENT);
    aisim_array_push(&sim->clients, *client);
    return (uint16_t)(sim->clients.len - 1);
}

void aisim_sim_stats_get(const aisim_sim *sim, aisim_sim_stats *out)
{
    *out = (aisim_sim_stats){.events = sim->events,
                             .requests_created = sim->engine.requests.next_id - 1,
                             .requests_live =
                                 sim->engine.requests.live - sim->engine.requests.shadows};
    for (uint32_t i = 0; i < sim->ranks.len; i++) {
        out->passes += sim->ranks.data[i]->pass;
    }
}
