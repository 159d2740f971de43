/* tiers.c - host memory in the simulation: who shares which pool, and the ends of transfers on the
 * heap (spec/offload.md §3, §7.5).
 *
 * A private tier needs an entry only while its worker rests: a pass end looks at the lanes anyway,
 * so a busy rank never meets the heap for its transfers. A shared tier always has one, because
 * blocks become visible to others when they arrive. */
#include "base/clock.h"
#include "sim/sim_internal.h"

static double block_bytes(const aisim_rank_config *config)
{
    return config->kv.bytes_per_token * config->kv.block_size;
}

static uint32_t shared_tier(const aisim_sim *sim)
{
    uint32_t i = 0;
    while (i < sim->tiers.len && !sim->tiers.data[i].group->shared) {
        i++;
    }
    return i < sim->tiers.len ? i : AISIM_NONE;
}

aisim_status sim_tier_check(const aisim_sim *sim, const aisim_pool_config *pool, aisim_error *err)
{
    const aisim_rank_config *config = &pool->rank;
    uint32_t tier = shared_tier(sim);
    if (pool->transfer.price != NULL && config->host.scope == AISIM_HOST_NONE &&
        pool->role != AISIM_ROLE_PREFILL) {
        return aisim_fail(err, AISIM_EINVAL,
                          "timing.transfer: has no effect without kv_cache.host_offload (hand-offs "
                          "are priced by the prefill pool)");
    }
    if (pool->transfer.price != NULL && config->host.scope == AISIM_HOST_CLUSTER_SHARED) {
        return aisim_fail(err, AISIM_EINVAL,
                          "timing.transfer: copies of a cluster_shared tier share its links "
                          "equally, so how long one takes depends on the others and has no price; "
                          "use scope = 'dp_rank_local'");
    }
    if (config->host.scope != AISIM_HOST_CLUSTER_SHARED || tier == AISIM_NONE) {
        return AISIM_OK;
    }
    return aisim_host_contract(sim->tiers.data[tier].group, &config->host, config->kv.block_size,
                               block_bytes(config), err);
}

void sim_tier_attach(aisim_sim *sim, aisim_rank *rank, aisim_transfer_price price)
{
    const aisim_rank_config *config = &rank->config;
    uint32_t index = AISIM_NONE;
    if (config->host.scope == AISIM_HOST_CLUSTER_SHARED) {
        index = shared_tier(sim);
    }
    if (config->host.scope != AISIM_HOST_NONE && index == AISIM_NONE) {
        sim_tier tier = {.group = aisim_host_group_new(sim->engine.content, &config->host,
                                                       config->kv.block_size, block_bytes(config)),
                         .rank = rank->index,
                         .due_ns = AISIM_NEVER};
        index = sim->tiers.len;
        aisim_array_push(&sim->tiers, tier);
    }
    aisim_array_push(&sim->rank_tiers, index);
    if (index != AISIM_NONE) {
        aisim_host *host = aisim_host_join(sim->tiers.data[index].group, &config->host,
                                           config->kv.block_size, block_bytes(config), NULL);
        AISIM_CHECK(host != NULL); /* sim_tier_check */
        if (price.price != NULL) {
            aisim_host_priced(host, price, rank->worker);
        }
        aisim_offload_attach(rank, host);
    }
}

void sim_tiers_free(aisim_sim *sim)
{
    for (uint32_t i = 0; i < sim->tiers.len; i++) {
        aisim_host_group_free(sim->tiers.data[i].group);
    }
    aisim_array_free(&sim->tiers);
    aisim_array_free(&sim->rank_tiers);
}

bool sim_shared_tier(const aisim_sim *sim, uint32_t rank)
{
    uint32_t tier = sim->rank_tiers.data[rank];
    return tier != AISIM_NONE && sim->tiers.data[tier].group->shared;
}

void sim_tell_shared(aisim_sim *sim, uint32_t rank, bool stored, uint32_t run, uint32_t first,
                     uint32_t count)
{
    uint32_t tier = sim->rank_tiers.data[rank];
    for (uint32_t i = 0; i < sim->pools.len; i++) {
        const sim_pool *pool = &sim->pools.data[i];
        if (pool->router.on_kv == NULL || !pool->router.host_kv) {
            continue;
        }
        uint32_t of_pool = AISIM_NONE; /* the rank itself, or the first one that takes part */
        for (uint32_t k = 0; k < pool->ranks.len; k++) {
            uint32_t other = pool->ranks.data[k];
            bool fits = sim->rank_tiers.data[other] == tier;
            of_pool = fits && (of_pool == AISIM_NONE || other == rank) ? other : of_pool;
        }
        if (of_pool != AISIM_NONE) {
            pool->router.on_kv(pool->router.context, of_pool, AISIM_ROUTER_SHARED, stored, run,
                               first, count);
        }
    }
}

uint64_t aisim_sim_host_blocks(const aisim_sim *sim, const aisim_request *request, uint32_t rank,
                               aisim_router_tier tier)
{
    uint32_t index = sim->rank_tiers.data[rank];
    if (index == AISIM_NONE ||
        sim->tiers.data[index].group->shared != (tier == AISIM_ROUTER_SHARED)) {
        return 0;
    }
    aisim_host_group *group = sim->tiers.data[index].group;
    uint32_t device = (uint32_t)aisim_sim_overlap_blocks(sim, request, rank);
    return aisim_host_resident(group, request->lease.run, device,
                               request->prompt_tokens / group->block_size);
}

/* ---- ends of transfers ----------------------------------------------------------------------- */

static bool rests(const aisim_sim *sim, uint32_t rank)
{
    const aisim_worker *worker = &sim->workers.data[sim->rank_workers.data[rank]];
    return !worker->in_flight && !worker->begin_queued;
}

/* Something has arrived for a rank that rests: a pass end of another rank moved the link. */
static bool waits_for_us(const aisim_sim *sim, uint32_t index)
{
    for (uint32_t rank = 0; rank < sim->ranks.len; rank++) {
        if (sim->rank_tiers.data[rank] == index &&
            aisim_host_arrived(sim->ranks.data[rank]->offload.host) &&
            !sim->workers.data[sim->rank_workers.data[rank]].in_flight) {
            return true;
        }
    }
    return false;
}

static void watch(aisim_sim *sim, uint32_t index)
{
    sim_tier *tier = &sim->tiers.data[index];
    int64_t next_ns = AISIM_NEVER;
    if (tier->group->shared) {
        next_ns = waits_for_us(sim, index) ? sim->now_ns : aisim_host_group_next(tier->group);
    } else if (rests(sim, tier->rank)) {
        next_ns = aisim_offload_next(sim->ranks.data[tier->rank]);
    }
    if (next_ns != tier->due_ns && next_ns != AISIM_NEVER) {
        next_ns = next_ns > sim->now_ns ? next_ns : sim->now_ns;
        aisim_heap_push(&sim->heap, next_ns, AISIM_CLASS_TRANSFER, AISIM_ENTRY_TRANSFER, index, 0,
                        false);
    }
    tier->due_ns = next_ns;
}

void sim_watch_worker(aisim_sim *sim, uint32_t index)
{
    const aisim_worker *worker = &sim->workers.data[index];
    for (uint32_t i = 0; sim->tiers.len > 0 && i < worker->n_ranks; i++) {
        uint32_t tier = sim->rank_tiers.data[worker->first_rank + i];
        if (tier != AISIM_NONE) {
            watch(sim, tier);
        }
    }
}

/* What has ended is told to a rank at once when its worker is between passes, else at its pass end.
 */
static void deliver(aisim_sim *sim, uint32_t index)
{
    uint32_t worker = sim->rank_workers.data[index];
    if (!sim->workers.data[worker].in_flight &&
        aisim_offload_transfers(sim_touch(sim, index), sim->now_ns)) {
        sim_wake(sim, worker);
        sim_check_drained(sim, worker);
    }
}

void sim_transfer(aisim_sim *sim, uint32_t index)
{
    sim_tier *tier = &sim->tiers.data[index];
    tier->due_ns = AISIM_NEVER;
    if (tier->group->shared) {
        aisim_host_group_advance(tier->group, sim->now_ns);
        aisim_rank_tell_host(sim->ranks.data[tier->rank]);
    }
    for (uint32_t rank = 0; rank < sim->ranks.len; rank++) {
        if (sim->rank_tiers.data[rank] == index) {
            deliver(sim, rank);
        }
    }
    watch(sim, index);
}
