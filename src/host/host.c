/* host.c - groups, clients, stores, lookups, loads.
 *
 * Invariants. A job is in exactly one place: the free list, `prepared` of its client, a lane queue
 * (private), the link (shared), `arrived` (shared), or with its owner (DELIVERED). outstanding
 * counts the jobs of a client between preparation and delivery; withdrawn ones count until they
 * have left their place. `loads` lists the loads whose sources are pinned. */
#include "host/host.h"

#include <string.h>

#include "base/check.h"
#include "base/clock.h"

static aisim_host_job *job_at(const aisim_host_group *group, uint32_t job)
{
    return &group->jobs.data[job];
}

/* ---- queues ---------------------------------------------------------------------------------- */

static const aisim_host_queue empty = {AISIM_NONE, AISIM_NONE};

static void append(aisim_host_group *group, aisim_host_queue *queue, uint32_t job)
{
    job_at(group, job)->next = AISIM_NONE;
    *(queue->first == AISIM_NONE ? &queue->first : &job_at(group, queue->last)->next) = job;
    queue->last = job;
}

static uint32_t pop(aisim_host_group *group, aisim_host_queue *queue)
{
    uint32_t job = queue->first;
    queue->first = job_at(group, job)->next;
    if (queue->first == AISIM_NONE) {
        queue->last = AISIM_NONE;
    }
    return job;
}

/* ---- life ------------------------------------------------------------------------------------ */

aisim_host_group *aisim_host_group_new(aisim_content *content, const aisim_host_config *config,
                                       uint32_t block_size, double block_bytes)
{
    aisim_host_group *group = aisim_alloc_zero(1, sizeof *group);
    aisim_host_pool_init(&group->pool, content, config->blocks, config->tie_break,
                         config->refresh_on_load);
    group->free_job = AISIM_NONE;
    group->shared = config->scope == AISIM_HOST_CLUSTER_SHARED;
    group->block_size = block_size;
    group->block_bytes = block_bytes;
    group->contract = *config;
    aisim_fair_link_init(&group->link, config->shared_d2h_gbps, config->shared_h2d_gbps);
    return group;
}

void aisim_host_group_free(aisim_host_group *group)
{
    if (group == NULL) {
        return;
    }
    for (uint32_t i = 0; i < group->clients.len; i++) {
        aisim_array_free(&group->clients.data[i]->loads);
        aisim_map_free(&group->clients.data[i]->latest);
        aisim_free(group->clients.data[i]);
    }
    for (uint32_t i = 0; i < group->jobs.len; i++) {
        aisim_array_free(&group->jobs.data[i].cohort);
    }
    aisim_array_free(&group->clients);
    aisim_array_free(&group->jobs);
    aisim_array_free(&group->arrived);
    aisim_array_free(&group->path);
    aisim_fair_link_deinit(&group->link);
    aisim_host_pool_deinit(&group->pool);
    aisim_free(group);
}

static bool agrees(const aisim_host_group *group, const aisim_host_config *config,
                   uint32_t block_size, double block_bytes)
{
    const aisim_host_config *has = &group->contract;
    return strcmp(has->layout_id, config->layout_id) == 0 && group->block_size == block_size &&
           group->block_bytes == block_bytes && has->blocks == config->blocks &&
           has->shared_d2h_gbps == config->shared_d2h_gbps &&
           has->shared_h2d_gbps == config->shared_h2d_gbps;
}

aisim_status aisim_host_contract(const aisim_host_group *group, const aisim_host_config *config,
                                 uint32_t block_size, double block_bytes, aisim_error *err)
{
    const aisim_host_config *has = &group->contract;
    if (agrees(group, config, block_size, block_bytes)) {
        return AISIM_OK;
    }
    return aisim_fail(
        err, AISIM_EINVAL,
        "kv_cache.host_offload: incompatible with the shared pool: the pool has kv_layout_id '%s', "
        "block_size %u, %.17g bytes per block, num_host_blocks %llu, shared bandwidths %g and %g "
        "GB/s; this participant '%s', %u, %.17g, %llu, %g and %g",
        has->layout_id, group->block_size, group->block_bytes, (unsigned long long)has->blocks,
        has->shared_d2h_gbps, has->shared_h2d_gbps, config->layout_id, block_size, block_bytes,
        (unsigned long long)config->blocks, config->shared_d2h_gbps, config->shared_h2d_gbps);
}

aisim_host *aisim_host_join(aisim_host_group *group, const aisim_host_config *config,
                            uint32_t block_size, double block_bytes, aisim_error *err)
{
    AISIM_CHECK(group->shared || group->clients.len == 0);
    if (aisim_host_contract(group, config, block_size, block_bytes, err) != AISIM_OK) {
        return NULL;
    }
    aisim_host *host = aisim_alloc_zero(1, sizeof *host);
    int64_t latency_ns = aisim_ns_from_ms(config->latency_ms);
    host->group = group;
    host->config = *config;
    host->client = group->clients.len;
    host->lane[0] = host->lane[1] = host->prepared = host->arrived = empty;
    aisim_host_lane_init(&host->lanes[AISIM_HOST_STORE], config->d2h_gbps, block_bytes, latency_ns);
    aisim_host_lane_init(&host->lanes[AISIM_HOST_LOAD], config->h2d_gbps, block_bytes, latency_ns);
    aisim_fair_link_join(&group->link, config->d2h_gbps, config->h2d_gbps, latency_ns);
    aisim_array_push(&group->clients, host);
    return host;
}

void aisim_host_priced(aisim_host *host, aisim_transfer_price price, uint32_t worker)
{
    AISIM_CHECK(!host->group->shared);
    host->price = price;
    host->worker = worker;
}

int64_t aisim_host_move(aisim_host *host, aisim_host_kind kind, uint64_t blocks, int64_t start_ns)
{
    const aisim_transfer_price *p = &host->price;
    aisim_host_lane *lane = &host->lanes[kind];
    if (p->price == NULL) {
        return aisim_host_lane_submit(lane, blocks, start_ns);
    }
    int64_t ns = p->price(
        p->context, kind == AISIM_HOST_STORE ? AISIM_TRANSFER_OFFLOAD : AISIM_TRANSFER_RESTORE,
        (uint64_t)((double)blocks * host->group->block_bytes), host->worker, host->worker);
    return aisim_host_lane_take(lane, ns, start_ns);
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static uint32_t take_job(aisim_host *host, aisim_host_kind kind)
{
    aisim_host_group *group = host->group;
    uint32_t index = group->free_job;
    if (index == AISIM_NONE) {
        index = group->jobs.len;
        aisim_array_push(&group->jobs, (aisim_host_job){0});
    } else {
        group->free_job = job_at(group, index)->next;
    }
    aisim_host_job *job = job_at(group, index);
    job->kind = kind;
    job->client = host->client;
    job->withdrawn = false;
    job->done_ns = AISIM_NEVER;
    job->next = AISIM_NONE;
    return index;
}

static void give_job(aisim_host_group *group, uint32_t index)
{
    aisim_host_job *job = job_at(group, index);
    if (job->kind == AISIM_HOST_STORE) {
        aisim_map *latest = &group->clients.data[job->client]->latest;
        if (aisim_map_get(latest, job->request_id, 0) == index) {
            aisim_map_remove(latest, job->request_id, 0);
        }
    }
    job->state = AISIM_HOST_JOB_FREE;
    job->cohort.len = 0;
    job->next = group->free_job;
    group->free_job = index;
}

void aisim_host_forget(aisim_host *host, uint32_t job)
{
    AISIM_CHECK(job_at(host->group, job)->state == AISIM_HOST_JOB_DELIVERED);
    give_job(host->group, job);
}

static void own(aisim_host *host, uint32_t index, uint32_t slot, uint32_t request_id, int64_t t_ns)
{
    aisim_host_job *job = job_at(host->group, index);
    job->id = host->group->next_id++;
    job->slot = slot;
    job->request_id = request_id;
    job->prepared_ns = t_ns;
    job->blocks = 0;
    for (uint32_t i = 0; i < job->cohort.len; i++) {
        job->blocks += job->cohort.data[i].count;
    }
    host->outstanding++;
    if (job->kind == AISIM_HOST_STORE) {
        aisim_map_set(&host->latest, request_id, 0, index);
    }
}

/* ---- stores ---------------------------------------------------------------------------------- */

aisim_host_admission aisim_host_prepare_range(aisim_host *host, const aisim_host_stretch *range,
                                              uint32_t n, uint32_t slot, uint32_t request_id,
                                              int64_t t_ns, uint32_t *job)
{
    aisim_host_group *group = host->group;
    uint32_t index = take_job(host, AISIM_HOST_STORE);
    aisim_host_admission result =
        aisim_host_pool_admit(&group->pool, range, n, &job_at(group, index)->cohort);
    if (result != AISIM_HOST_PREPARED) {
        give_job(group, index);
        host->totals.retries += result != AISIM_HOST_PRESENT;
        host->totals.unfittable += result == AISIM_HOST_UNFITTABLE;
        return result;
    }
    own(host, index, slot, request_id, t_ns);
    job_at(group, index)->state = AISIM_HOST_JOB_PREPARED;
    append(group, &host->prepared, index);
    *job = index;
    return result;
}

aisim_host_admission aisim_host_prepare(aisim_host *host, uint32_t run, uint32_t first,
                                        uint32_t end, uint32_t prompt_blocks, uint32_t slot,
                                        uint32_t request_id, int64_t t_ns, uint32_t *job)
{
    aisim_host_group *group = host->group;
    aisim_host_path(group, run, first, end);
    aisim_host_admission result = aisim_host_prepare_range(host, group->path.data, group->path.len,
                                                           slot, request_id, t_ns, job);
    if (result == AISIM_HOST_PREPARED && host->config.touch_prompt_on_store) {
        aisim_host_touch(group, run, 0, prompt_blocks);
    }
    return result;
}

static void begin_move(aisim_host *host, uint32_t index, int64_t start_ns, int64_t t_ns)
{
    aisim_host_group *group = host->group;
    aisim_host_job *job = job_at(group, index);
    job->state = AISIM_HOST_JOB_MOVING;
    job->begin_ns = t_ns;
    host->totals.jobs[job->kind]++;
    host->totals.blocks[job->kind] += job->blocks;
    if (group->shared) {
        aisim_link_direction direction =
            job->kind == AISIM_HOST_STORE ? AISIM_LINK_WRITE : AISIM_LINK_READ;
        aisim_fair_link_submit(&group->link, start_ns, job->id, index, host->client, direction,
                               (double)job->blocks * group->block_bytes);
    } else {
        job->done_ns = aisim_host_move(host, job->kind, job->blocks, start_ns);
        append(group, &host->lane[job->kind], index);
    }
}

uint32_t aisim_host_submit(aisim_host *host, int64_t t_ns)
{
    if (host->prepared.first == AISIM_NONE) {
        return AISIM_NONE;
    }
    uint32_t index = pop(host->group, &host->prepared);
    begin_move(host, index, t_ns, t_ns);
    return index;
}

uint32_t aisim_host_adopt(aisim_host *host, uint32_t slot, uint32_t request_id, uint64_t id,
                          int64_t prepared_ns, int64_t begin_ns, int64_t done_ns)
{
    uint32_t index = take_job(host, AISIM_HOST_STORE);
    aisim_host_job *job = job_at(host->group, index);
    job->id = id;
    job->slot = slot;
    job->request_id = request_id;
    job->prepared_ns = prepared_ns;
    job->begin_ns = begin_ns;
    job->done_ns = done_ns;
    job->state = AISIM_HOST_JOB_MOVING;
    aisim_map_set(&host->latest, request_id, 0, index);
    append(host->group, &host->lane[AISIM_HOST_STORE], index);
    host->outstanding++;
    return index;
}

/* ---- lookup ---------------------------------------------------------------------------------- */

/* This rank loads a block of the stretch (§7.2 step 5). */
static bool loading(const aisim_host *host, aisim_host_stretch s)
{
    for (uint32_t i = 0; i < host->loads.len; i++) {
        const aisim_host_stretches *cohort = &job_at(host->group, host->loads.data[i])->cohort;
        for (uint32_t k = 0; k < cohort->len; k++) {
            const aisim_host_stretch *c = &cohort->data[k];
            if (c->run == s.run && c->first < s.first + s.count && s.first < c->first + c->count) {
                return true;
            }
        }
    }
    return false;
}

static uint32_t match_path(const aisim_host *host, bool *wait)
{
    const aisim_host_group *group = host->group;
    uint32_t matched = 0;
    for (uint32_t i = 0; i < group->path.len; i++) {
        aisim_host_stretch s = group->path.data[i];
        aisim_host_match m = aisim_host_pool_match(&group->pool, s.run, s.first, s.first + s.count);
        matched += m.blocks;
        *wait = *wait || m.pending ||
                (m.pinned && loading(host, (aisim_host_stretch){s.run, s.first, m.blocks}));
        if (m.blocks < s.count) {
            break; /* a run never skips a gap */
        }
    }
    return matched;
}

aisim_host_outcome aisim_host_lookup(aisim_host *host, const aisim_host_query *q, uint32_t *blocks)
{
    aisim_host_group *group = host->group;
    host->totals.lookups++;
    *blocks = 0;
    if (aisim_map_get(&host->latest, q->request_id, 0) != AISIM_NONE) {
        host->totals.deferred++;
        return AISIM_HOST_DEFERRED; /* step 3: without touching */
    }
    bool wait = false;
    uint32_t matched = 0;
    if (q->device_blocks < q->prompt_blocks) { /* steps 4, 5 */
        aisim_host_path(group, q->run, q->device_blocks, q->prompt_blocks);
        matched = match_path(host, &wait);
    }
    if (host->config.touch_prompt_on_lookup) { /* step 6, §10 */
        aisim_host_touch(group, q->run, 0, q->prompt_blocks);
    } else {
        aisim_host_touch(group, q->run, q->device_blocks, q->device_blocks + matched);
    }
    if (matched == 0) {
        return AISIM_HOST_MISS;
    }
    if (wait) {
        host->totals.deferred++;
        return AISIM_HOST_DEFERRED;
    }
    host->totals.hits++;
    host->totals.hit_blocks += matched;
    *blocks = matched;
    return AISIM_HOST_HIT;
}

/* ---- loads ----------------------------------------------------------------------------------- */

uint32_t aisim_host_load_range(aisim_host *host, const aisim_host_stretch *range, uint32_t n,
                               uint32_t slot, uint32_t request_id, int64_t start_ns, int64_t now_ns)
{
    aisim_host_group *group = host->group;
    uint32_t index = take_job(host, AISIM_HOST_LOAD);
    aisim_host_job *job = job_at(group, index);
    for (uint32_t i = 0; i < n; i++) {
        aisim_array_push(&job->cohort, range[i]);
    }
    own(host, index, slot, request_id, now_ns);
    aisim_host_pool_pin(&group->pool, job->cohort.data, job->cohort.len);
    aisim_array_push(&host->loads, index);
    begin_move(host, index, start_ns, now_ns);
    return index;
}

uint32_t aisim_host_load(aisim_host *host, uint32_t run, uint32_t first, uint32_t end,
                         uint32_t slot, uint32_t request_id, int64_t start_ns, int64_t now_ns)
{
    aisim_host_path(host->group, run, first, end);
    return aisim_host_load_range(host, host->group->path.data, host->group->path.len, slot,
                                 request_id, start_ns, now_ns);
}

void aisim_host_withdraw(aisim_host *host, uint32_t job)
{
    job_at(host->group, job)->withdrawn = true;
}

static void stop_loading(aisim_host *host, uint32_t index)
{
    for (uint32_t i = 0; i < host->loads.len; i++) {
        if (host->loads.data[i] == index) {
            aisim_array_remove(&host->loads, i);
            return;
        }
    }
}

uint32_t aisim_host_cancel_withdrawn(aisim_host *host, int64_t t_ns)
{
    aisim_host_group *group = host->group;
    uint32_t cancelled = 0;
    for (uint32_t i = 0; i < host->loads.len;) {
        uint32_t index = host->loads.data[i];
        aisim_host_job *job = job_at(group, index);
        if (!job->withdrawn || job->done_ns <= t_ns) {
            i++;
            continue;
        }
        aisim_array_remove(&host->loads, i);
        aisim_host_pool_unpin(&group->pool, job->cohort.data, job->cohort.len);
        host->totals.cancelled_loads++;
        host->outstanding--;
        cancelled++;
        if (group->shared) {
            aisim_fair_link_cancel(&group->link, t_ns, job->id);
            give_job(group, index);
        } else {
            job->state = AISIM_HOST_JOB_CANCELLED; /* §4.1: it keeps its place in the lane */
        }
    }
    return cancelled;
}

/* ---- ends ------------------------------------------------------------------------------------ */

/* The host side of a transfer that has ended at at_ns. */
static void settle(aisim_host *host, uint32_t index, int64_t at_ns)
{
    aisim_host_job *job = job_at(host->group, index);
    aisim_host_pool *pool = &host->group->pool;
    job->state = AISIM_HOST_JOB_ARRIVED;
    job->done_ns = at_ns;
    host->totals.completed[job->kind]++;
    host->totals.transfer_ns[job->kind] += at_ns - job->begin_ns;
    if (job->kind == AISIM_HOST_STORE) {
        aisim_host_pool_land(pool, job->cohort.data, job->cohort.len);
    } else {
        stop_loading(host, index);
        aisim_host_pool_unpin(pool, job->cohort.data, job->cohort.len);
    }
}

/* The job at the head of a lane, cancelled ones swept away. */
static uint32_t lane_head(aisim_host *host, aisim_host_kind kind)
{
    aisim_host_queue *queue = &host->lane[kind];
    while (queue->first != AISIM_NONE &&
           job_at(host->group, queue->first)->state == AISIM_HOST_JOB_CANCELLED) {
        give_job(host->group, pop(host->group, queue));
    }
    return queue->first;
}

/* The kind of lane whose head ends first, stores before loads at one time (§4.1). */
static uint32_t next_head(aisim_host *host, aisim_host_kind *kind)
{
    uint32_t store = lane_head(host, AISIM_HOST_STORE), load = lane_head(host, AISIM_HOST_LOAD);
    bool loads = store == AISIM_NONE ||
                 (load != AISIM_NONE &&
                  job_at(host->group, load)->done_ns < job_at(host->group, store)->done_ns);
    *kind = loads ? AISIM_HOST_LOAD : AISIM_HOST_STORE;
    return loads ? load : store;
}

int64_t aisim_host_next(aisim_host *host)
{
    aisim_host_kind kind;
    uint32_t head = next_head(host, &kind);
    return head == AISIM_NONE ? AISIM_NEVER : job_at(host->group, head)->done_ns;
}

/* @return the job, now with its owner; AISIM_NONE = its owner does not want it */
static uint32_t deliver(aisim_host *host, uint32_t index)
{
    aisim_host_job *job = job_at(host->group, index);
    host->outstanding--;
    if (job->withdrawn) {
        give_job(host->group, index);
        return AISIM_NONE;
    }
    job->state = AISIM_HOST_JOB_DELIVERED;
    return index;
}

uint32_t aisim_host_done(aisim_host *host, int64_t t_ns)
{
    uint32_t found = AISIM_NONE;
    while (found == AISIM_NONE && host->group->shared) {
        if (host->arrived.first == AISIM_NONE) {
            return AISIM_NONE;
        }
        found = deliver(host, pop(host->group, &host->arrived));
    }
    while (found == AISIM_NONE) {
        aisim_host_kind kind;
        uint32_t head = next_head(host, &kind);
        if (head == AISIM_NONE || job_at(host->group, head)->done_ns > t_ns) {
            return AISIM_NONE;
        }
        pop(host->group, &host->lane[kind]);
        settle(host, head, job_at(host->group, head)->done_ns);
        found = deliver(host, head);
    }
    return found;
}

int64_t aisim_host_group_next(const aisim_host_group *group)
{
    return aisim_fair_link_next(&group->link);
}

void aisim_host_group_advance(aisim_host_group *group, int64_t t_ns)
{
    int64_t at_ns = t_ns;
    while (aisim_fair_link_step(&group->link, t_ns, &at_ns, &group->arrived)) {
        for (uint32_t i = 0; i < group->arrived.len; i++) {
            aisim_host *host = group->clients.data[group->arrived.data[i].client];
            uint32_t job = group->arrived.data[i].tag;
            settle(host, job, at_ns);
            append(group, &host->arrived, job);
        }
    }
}

/* ---- leaving --------------------------------------------------------------------------------- */

void aisim_host_leave(aisim_host *host, int64_t t_ns)
{
    aisim_host_group *group = host->group;
    while (host->prepared.first != AISIM_NONE) {
        uint32_t index = pop(group, &host->prepared);
        aisim_host_job *job = job_at(group, index);
        aisim_host_pool_drop(&group->pool, job->cohort.data, job->cohort.len);
        host->outstanding--;
        give_job(group, index);
    }
    for (uint32_t i = 0; i < group->jobs.len; i++) { /* rare: a worker stops */
        aisim_host_job *job = job_at(group, i);
        bool mine = job->client == host->client && job->state != AISIM_HOST_JOB_FREE;
        job->withdrawn = job->withdrawn || mine;
    }
    aisim_host_cancel_withdrawn(host, t_ns);
    if (group->shared) {
        return;
    }
    while (aisim_host_done(host, AISIM_NEVER - 1) != AISIM_NONE) {
        AISIM_UNREACHABLE(); /* everything is withdrawn */
    }
    aisim_host_pool_reset(&group->pool);
}

void aisim_host_verify(const aisim_host *host)
{
    const aisim_host_group *group = host->group;
    uint32_t mine = 0, loads = 0;
    aisim_host_pool_verify(&group->pool);
    for (uint32_t i = 0; i < group->jobs.len; i++) {
        const aisim_host_job *job = job_at(group, i);
        bool alive = job->client == host->client &&
                     (job->state == AISIM_HOST_JOB_PREPARED ||
                      job->state == AISIM_HOST_JOB_MOVING || job->state == AISIM_HOST_JOB_ARRIVED);
        mine += alive;
        loads += alive && job->kind == AISIM_HOST_LOAD && job->state == AISIM_HOST_JOB_MOVING;
    }
    AISIM_CHECK(mine == host->outstanding && loads == host->loads.len);
}
