/* engine_tier.c - the engine double: a rank with a host tier, and the peer of a shared pool. */
#include "base/check.h"
#include "base/clock.h"
#include "engine_internal.h"
#include "sched/plan.h"

static aisim_host_group *group_of(const twin *t)
{
    return t->rank.offload.host->group;
}

void engine_tier_new(twin *t)
{
    const aisim_rank_config *config = &t->rank.config;
    if (config->host.scope == AISIM_HOST_NONE) {
        return;
    }
    uint32_t b = config->kv.block_size;
    double bytes = config->kv.bytes_per_token * b;
    aisim_host_group *group = aisim_host_group_new(t->engine.content, &config->host, b, bytes);
    aisim_offload_attach(&t->rank, aisim_host_join(group, &config->host, b, bytes, NULL));
    if (group->shared) {
        aisim_host_config peer = config->host;
        peer.touch_prompt_on_store = peer.touch_prompt_on_lookup = false;
        t->peer = aisim_host_join(group, &peer, b, bytes, NULL);
    }
    aisim_rank_listen(&t->rank);
}

void engine_tier_free(twin *t)
{
    if (t->rank.offload.host != NULL) {
        aisim_host_group_free(group_of(t));
    }
    aisim_array_free(&t->host_order);
    aisim_array_free(&t->host_told);
    aisim_array_free(&t->host_queue);
}

void twin_set_time(twin *t, int64_t t_ns)
{
    t->now_ns = t_ns;
}

int64_t twin_next_transfer(const twin *t)
{
    if (t->rank.offload.host == NULL) {
        return AISIM_NEVER;
    }
    return group_of(t)->shared ? aisim_host_group_next(group_of(t)) : aisim_offload_next(&t->rank);
}

/* Whatever has arrived for the peer is taken note of by nobody. */
static void advance(twin *t, int64_t t_ns)
{
    uint32_t job;
    if (group_of(t)->shared) {
        aisim_host_group_advance(group_of(t), t_ns);
        while ((job = aisim_host_done(t->peer, t_ns)) != AISIM_NONE) {
            aisim_host_forget(t->peer, job);
        }
    }
}

bool twin_transfers(twin *t, int64_t t_ns)
{
    advance(t, t_ns);
    bool any = aisim_offload_transfers(&t->rank, t_ns);
    engine_read_log(t);
    return any;
}

void twin_flow(twin *t, int64_t t_ns)
{
    advance(t, t_ns);
}

int64_t twin_fence(const twin *t)
{
    return t->rank.offload.compute_not_before_ns;
}

bool twin_peer_store(twin *t, uint32_t serial, uint32_t first, uint32_t end)
{
    const engine_row *w = &t->rows.data[serial];
    uint32_t job;
    if (aisim_host_prepare(t->peer, w->run, first, end, 0, 0, 0, t->now_ns, &job) !=
        AISIM_HOST_PREPARED) {
        return false;
    }
    const aisim_host_stretches *cohort = &aisim_host_job_at(t->peer, job)->cohort;
    for (uint32_t i = 0; i < cohort->len; i++) {
        for (uint32_t k = 0; k < cohort->data[i].count; k++) {
            engine_identity_of(t, cohort->data[i].run, cohort->data[i].first + k, w->view.id);
        }
    }
    return aisim_host_submit(t->peer, t->now_ns) == job;
}

bool twin_peer_load(twin *t, uint32_t serial, uint32_t first, uint32_t end)
{
    uint32_t run = t->rows.data[serial].run;
    const aisim_host_stretches *path = aisim_host_path(group_of(t), run, first, end);
    bool here = path->len > 0;
    for (uint32_t i = 0; i < path->len; i++) {
        aisim_host_stretch s = path->data[i];
        aisim_host_match m =
            aisim_host_pool_match(&group_of(t)->pool, s.run, s.first, s.first + s.count);
        here = here && m.blocks == s.count && !m.pending;
    }
    if (here) {
        aisim_host_load(t->peer, run, first, end, 0, 0, t->now_ns, t->now_ns);
    }
    return here;
}

static twin_name name_of(twin *t, uint32_t run, uint32_t block)
{
    return t->names_ever.data[engine_identity_of(t, run, block, TWIN_NONE)];
}

static void read_order(twin *t)
{
    const aisim_host_pool *pool = &group_of(t)->pool;
    t->host_order.len = 0;
    for (uint32_t i = pool->lru_first; i != AISIM_NONE; i = pool->slots.data[i].lru_next) {
        const aisim_host_extent *e = &pool->slots.data[i];
        for (uint32_t k = 0; e->pins == 0 && k < e->count; k++) {
            uint32_t block = e->ascending ? e->first + k : e->first + e->count - 1 - k;
            aisim_array_push(&t->host_order, name_of(t, e->run, block));
        }
    }
}

static void read_changes(twin *t)
{
    aisim_host_pool *pool = &group_of(t)->pool;
    t->host_told.len = 0;
    for (uint32_t i = 0; i < pool->changes.len; i++) {
        const aisim_host_change *c = &pool->changes.data[i];
        for (uint32_t k = 0; k < c->blocks.count; k++) {
            uint32_t back = c->blocks.first + c->blocks.count - 1 - k;
            bool down = !c->stored && c->deep_first;
            twin_host_event event = {c->stored,
                                     name_of(t, c->blocks.run, down ? back : c->blocks.first + k)};
            aisim_array_push(&t->host_told, event);
        }
    }
    pool->changes.len = 0;
}

void twin_host_look(twin *t, twin_host_view *out)
{
    static const uint32_t stages[] = {[AISIM_CONNECTOR_SLEEPING] = 0,
                                      [AISIM_CONNECTOR_AWAKE] = 1,
                                      [AISIM_CONNECTOR_LOADING] = 2,
                                      [AISIM_CONNECTOR_LOADED] = 3};
    const aisim_host_pool *pool = &group_of(t)->pool;
    read_order(t);
    read_changes(t);
    t->host_queue.len = 0;
    for (uint32_t i = 0; i < t->rank.offload.queue.len; i++) {
        const aisim_connector_entry *e = &t->rank.offload.queue.data[i];
        const aisim_request *r = aisim_requests_at(&t->engine.requests, e->slot);
        aisim_array_push(&t->host_queue,
                         (twin_pair){t->rows.data[serial_of(t, r)].view.id, stages[e->stage]});
    }
    *out = (twin_host_view){.used = (uint32_t)pool->used,
                            .pending = (uint32_t)(pool->used - pool->resident),
                            .pinned = (uint32_t)(pool->resident - pool->evictable),
                            .headroom = t->rank.offload.headroom,
                            .evicted = pool->evicted_blocks,
                            .stored = pool->stored_blocks,
                            .order = t->host_order.data,
                            .n_order = t->host_order.len,
                            .changes = t->host_told.data,
                            .n_changes = t->host_told.len,
                            .queue = t->host_queue.data,
                            .n_queue = t->host_queue.len};
}
