/* offload.c - stores, the connector queue, and the headroom of a rank with a host tier. */
#include "sched/plan.h"

#include "base/clock.h"

static aisim_host *tier(const aisim_rank *rank)
{
    return rank->offload.host;
}

static bool shared(const aisim_rank *rank)
{
    return tier(rank)->group->shared;
}

void aisim_offload_attach(aisim_rank *rank, aisim_host *host)
{
    rank->offload.host = host;
}

void aisim_offload_deinit(aisim_rank *rank)
{
    aisim_array_free(&rank->offload.queue);
}

/* ---- headroom -------------------------------------------------------------------------------- */

/* Look-ahead tokens that count (E-R1, mtp.md §6). */
static uint32_t lookahead(const aisim_rank *rank)
{
    const aisim_speculation_config *s = &rank->config.speculation;
    return s->mode == AISIM_SPECULATION_NATIVE  ? s->lookahead_slots
           : s->mode == AISIM_SPECULATION_BURST ? s->depth
                                                : 0;
}

static uint32_t remaining(const aisim_rank *rank, const aisim_request *r, uint64_t owned)
{
    return (uint32_t)aisim_headroom_of(aisim_known(r), lookahead(rank), aisim_rank_limit(rank),
                                       rank->pool.block_size, owned);
}

static uint32_t prefill_headroom(const aisim_rank *rank, const aisim_request *r)
{
    return r->computed < r->prompt_tokens
               ? remaining(rank, r, aisim_lease_owned(&rank->pool, &r->lease))
               : 0;
}

void aisim_offload_refresh(aisim_rank *rank, uint32_t slot)
{
    if (tier(rank) == NULL) {
        return;
    }
    const aisim_request *r = aisim_rank_request(rank, slot);
    aisim_running *running = &rank->running.data[r->position];
    uint32_t now = prefill_headroom(rank, r);
    rank->offload.headroom += (uint64_t)now - running->headroom; /* E-R3; wraps back */
    running->headroom = now;
}

/* ---- connector queue ------------------------------------------------------------------------- */

static bool is_ready(const aisim_connector_entry *e)
{
    return e->stage == AISIM_CONNECTOR_AWAKE || e->stage == AISIM_CONNECTOR_LOADED;
}

static aisim_connector_entry *entry_of(const aisim_rank *rank, uint32_t slot)
{
    for (uint32_t i = 0; i < rank->offload.queue.len; i++) {
        if (rank->offload.queue.data[i].slot == slot) {
            return &rank->offload.queue.data[i];
        }
    }
    return NULL;
}

static void set_stage(aisim_rank *rank, aisim_connector_entry *e, aisim_connector_stage stage)
{
    rank->offload.ready -= is_ready(e);
    e->stage = (uint8_t)stage;
    rank->offload.ready += is_ready(e);
}

static aisim_length_stats *stats_of(aisim_rank *rank, bool resumed)
{
    return resumed ? &rank->queued_decode : &rank->queued_prefill;
}

/* The entry of the request; it joins at the end with its first deferral. */
static aisim_connector_entry *enter_queue(aisim_rank *rank, uint32_t slot)
{
    aisim_request *r = aisim_rank_request(rank, slot);
    if (r->state == AISIM_REQ_SKIPPED) {
        return entry_of(rank, slot);
    }
    aisim_connector_entry e = {.slot = slot,
                               .job = AISIM_NONE,
                               .stage = AISIM_CONNECTOR_SLEEPING,
                               .resumed = r->state == AISIM_REQ_PREEMPTED};
    aisim_rank_dequeue(rank, slot);
    aisim_length_add(stats_of(rank, e.resumed), e.resumed ? aisim_known(r) : r->prompt_tokens);
    r->state = AISIM_REQ_SKIPPED;
    aisim_array_push(&rank->offload.queue, e);
    return &rank->offload.queue.data[rank->offload.queue.len - 1];
}

void aisim_offload_forget(aisim_rank *rank, uint32_t slot)
{
    aisim_connector_entry *e = tier(rank) == NULL ? NULL : entry_of(rank, slot);
    if (e == NULL) {
        return;
    }
    const aisim_request *r = aisim_rank_request(rank, slot);
    aisim_length_remove(stats_of(rank, e->resumed), e->resumed ? aisim_known(r) : r->prompt_tokens);
    if (e->stage == AISIM_CONNECTOR_LOADING) {
        aisim_host_withdraw(tier(rank), e->job);
        rank->offload.withdrawn = true;
        int64_t *fence_ns = &rank->pool.extents.evicted_copy_ns;
        *fence_ns = e->start_ns > *fence_ns ? e->start_ns : *fence_ns; /* anonymous again */
    }
    rank->offload.headroom -= e->headroom;
    rank->offload.ready -= is_ready(e);
    aisim_array_remove(&rank->offload.queue, (uint32_t)(e - rank->offload.queue.data));
}

uint32_t aisim_offload_head(const aisim_rank *rank)
{
    for (uint32_t i = 0; rank->offload.ready > 0 && i < rank->offload.queue.len; i++) {
        if (is_ready(&rank->offload.queue.data[i])) {
            return rank->offload.queue.data[i].slot;
        }
    }
    return AISIM_NONE;
}

/* §7.5: all sleepers of the rank. */
static void wake_all(aisim_rank *rank)
{
    for (uint32_t i = 0; i < rank->offload.queue.len; i++) {
        if (rank->offload.queue.data[i].stage == AISIM_CONNECTOR_SLEEPING) {
            set_stage(rank, &rank->offload.queue.data[i], AISIM_CONNECTOR_AWAKE);
        }
    }
    rank->blocked = false;
}

bool aisim_offload_loaded(const aisim_rank *rank, const aisim_request *r)
{
    if (tier(rank) == NULL || r->state != AISIM_REQ_SKIPPED) {
        return false;
    }
    const aisim_connector_entry *e = entry_of(rank, aisim_requests_slot(r));
    return e != NULL && e->stage == AISIM_CONNECTOR_LOADED;
}

/* ---- lookup and load ------------------------------------------------------------------------- */

/* §7.6 point 3: the hit is frozen to the loaded prefix; the last token is computed here, and with
 * drafts the last block, if the connector says so. */
static void freeze(const aisim_rank *rank, const aisim_request *r, aisim_head_hit *hit)
{
    const aisim_connector_entry *e = entry_of(rank, aisim_requests_slot(r));
    uint32_t b = rank->pool.block_size, known = aisim_known(r);
    bool wants_output = aisim_rank_output_left(rank, r) > 0;
    uint32_t blocks = aisim_min_u32(e->loaded_blocks, (wants_output ? known - 1 : known) / b);
    if (blocks > 0 && wants_output && rank->rules.drop && rank->config.host.drop_applies_to_loads) {
        blocks--; /* E-H4 */
    }
    *hit = (aisim_head_hit){.tokens = blocks * b,
                            .reserved = e->loaded_blocks,
                            .from_host =
                                blocks > e->device_blocks ? (blocks - e->device_blocks) * b : 0,
                            .source = AISIM_NO_STATE,
                            .partial = AISIM_NONE};
}

/* §7.4: device blocks for the whole run, then the copy. False = capacity blocked. */
static bool start_load(aisim_rank *rank, uint32_t slot, uint32_t device, uint32_t run_blocks)
{
    aisim_request *r = aisim_rank_request(rank, slot);
    aisim_extents *extents = &rank->pool.extents;
    uint32_t loaded = device + run_blocks, tokens = loaded * rank->pool.block_size;
    aisim_grant grant = {.watermark = tokens, .slots = tokens, .hit_blocks = device};
    aisim_block_pool_lookup(&rank->pool, r->lease.run, device, &grant.hit_active);
    if (!rank->config.scheduler.reserve_full_prompt) { /* R2, N4: this takes the gate's place */
        grant.reserve = rank->offload.headroom + aisim_rank_admission_reserve(rank);
    }
    if (!aisim_grant_fits(&rank->pool, &r->lease, &grant)) {
        return false;
    }
    int64_t fence_ns = extents->evicted_copy_ns;
    extents->evicted_copy_ns = 0;
    aisim_grant_take(&rank->pool, &r->lease, &grant);
    int64_t start_ns = rank->now_ns; /* §5.1: a new owner that is a load waits by itself */
    start_ns = extents->evicted_copy_ns > start_ns ? extents->evicted_copy_ns : start_ns;
    extents->evicted_copy_ns = fence_ns;
    aisim_connector_entry *e = enter_queue(rank, slot);
    e->job = aisim_host_load(tier(rank), r->lease.run, device, loaded, slot, r->id, start_ns,
                             rank->now_ns);
    e->start_ns = start_ns;
    e->device_blocks = device;
    e->loaded_blocks = loaded;
    e->headroom = remaining(rank, r, loaded); /* E-R2 */
    rank->offload.headroom += e->headroom;
    set_stage(rank, e, AISIM_CONNECTOR_LOADING);
    aisim_offload_tell(rank, e->job, AISIM_EV_TRANSFER_START, rank->now_ns);
    return true;
}

aisim_offload_step aisim_offload_examine(aisim_rank *rank, uint32_t slot, aisim_head_hit *hit)
{
    aisim_request *r = aisim_rank_request(rank, slot);
    if (aisim_offload_loaded(rank, r)) {
        freeze(rank, r, hit); /* §7.2 step 1 */
        return AISIM_OFFLOAD_GO_ON;
    }
    if (r->flags & AISIM_REQF_NO_READ) {
        return AISIM_OFFLOAD_GO_ON;
    }
    aisim_host_query query = {.run = r->lease.run,
                              .prompt_blocks = r->prompt_tokens / rank->pool.block_size,
                              .device_blocks = hit->whole,
                              .request_id = r->id,
                              .latest_store = r->store_job};
    uint32_t blocks;
    aisim_host_outcome outcome = aisim_host_lookup(tier(rank), &query, &blocks);
    if (outcome == AISIM_HOST_MISS) {
        return AISIM_OFFLOAD_GO_ON;
    }
    if (outcome == AISIM_HOST_DEFERRED) {
        set_stage(rank, enter_queue(rank, slot), AISIM_CONNECTOR_SLEEPING);
        return AISIM_OFFLOAD_NEXT;
    }
    if (rank->config.scheduler.reserve_full_prompt && !aisim_rank_gate_opens(rank, r, hit, true)) {
        return AISIM_OFFLOAD_STOP; /* E-R4 */
    }
    return start_load(rank, slot, hit->whole, blocks) ? AISIM_OFFLOAD_NEXT : AISIM_OFFLOAD_STOP;
}

/* ---- stores ---------------------------------------------------------------------------------- */

/* §5: whatever of the prompt has become full below C and is not on host yet. */
static void store(aisim_rank *rank, uint32_t slot)
{
    aisim_request *r = aisim_rank_request(rank, slot);
    uint32_t b = rank->pool.block_size, keys = r->prompt_tokens / b, job;
    uint32_t end = aisim_min_u32(r->computed, r->prompt_tokens) / b;
    if (end <= r->stored_blocks) {
        return;
    }
    uint64_t evicted = tier(rank)->group->pool.evicted_blocks;
    aisim_host_admission result = aisim_host_prepare(tier(rank), r->lease.run, r->stored_blocks,
                                                     end, keys, slot, r->id, rank->now_ns, &job);
    if (result == AISIM_HOST_PREPARED) {
        const aisim_host_stretches *cohort = &aisim_host_job_at(tier(rank), job)->cohort;
        for (uint32_t i = 0; i < cohort->len; i++) {
            aisim_host_stretch s = cohort->data[i];
            aisim_extents_copy_begin(&rank->pool.extents, s.run, s.first, s.first + s.count,
                                     r->lease.owner, job, shared(rank));
        }
        r->store_job = job;
        evicted = tier(rank)->group->pool.evicted_blocks - evicted;
        if (evicted > 0 && aisim_wanted(&rank->engine->observers, AISIM_EV_HOST_EVICT)) {
            aisim_offload_tell_evicted(rank, job, evicted);
        }
    }
    if (result == AISIM_HOST_PREPARED || result == AISIM_HOST_PRESENT) {
        r->stored_blocks = end;
    }
}

void aisim_offload_close_plan(aisim_rank *rank)
{
    if (tier(rank) == NULL) {
        return;
    }
    const aisim_batch *batch = aisim_rank_current(rank);
    for (uint32_t i = 0; i < batch->plan.len; i++) {
        const aisim_plan_entry *p = &batch->plan.data[i];
        const aisim_request *r = aisim_rank_request(rank, p->slot);
        if (!p->undone && r->generation == p->generation && r->state == AISIM_REQ_RUNNING) {
            store(rank, p->slot);
        }
    }
    aisim_extents *extents = &rank->pool.extents;
    if (extents->evicted_copy_ns > rank->offload.compute_not_before_ns) {
        rank->offload.compute_not_before_ns = extents->evicted_copy_ns; /* §5.1 */
    }
    extents->evicted_copy_ns = 0;
}

int64_t aisim_offload_start(aisim_rank *rank, int64_t t_ns)
{
    int64_t fence_ns = rank->offload.compute_not_before_ns;
    if (fence_ns <= t_ns) {
        return t_ns;
    }
    rank->offload.fence_ns += fence_ns - t_ns;
    return fence_ns;
}

static void submit_stores(aisim_rank *rank, int64_t t_ns)
{
    uint32_t job;
    while ((job = aisim_host_submit(tier(rank), t_ns)) != AISIM_NONE) {
        aisim_extents_copy_ends(&rank->pool.extents, job,
                                aisim_host_job_at(tier(rank), job)->done_ns);
        aisim_offload_tell(rank, job, AISIM_EV_TRANSFER_START, t_ns);
    }
}

/* The sources of a store are ordinary blocks again; held ones go back, deepest first. */
static void free_sources(aisim_rank *rank, uint32_t job)
{
    const aisim_host_stretches *cohort = &aisim_host_job_at(tier(rank), job)->cohort;
    for (uint32_t i = cohort->len; i-- > 0;) {
        aisim_host_stretch s = cohort->data[i];
        aisim_extents_copy_done(&rank->pool.extents, s.run, s.first, s.first + s.count, job,
                                shared(rank));
    }
}

/* ---- ends ------------------------------------------------------------------------------------ */

/* §7.6: the reservation becomes the lease; the blocks are visible from now on. */
static void activate(aisim_rank *rank, uint32_t job)
{
    uint32_t slot = aisim_host_job_at(tier(rank), job)->slot;
    aisim_connector_entry *e = entry_of(rank, slot);
    AISIM_CHECK(e != NULL && e->stage == AISIM_CONNECTOR_LOADING && e->job == job);
    aisim_request *r = aisim_rank_request(rank, slot);
    aisim_rank_listen(rank);
    aisim_lease_publish(&rank->pool, &r->lease, e->loaded_blocks, NULL);
    e->job = AISIM_NONE;
    set_stage(rank, e, AISIM_CONNECTOR_LOADED);
}

static bool deliver(aisim_rank *rank, int64_t t_ns)
{
    bool any = false;
    uint32_t job;
    while ((job = aisim_host_done(tier(rank), t_ns)) != AISIM_NONE) {
        any = true;
        if (aisim_host_job_at(tier(rank), job)->kind == AISIM_HOST_STORE) {
            free_sources(rank, job);
        } else {
            activate(rank, job);
        }
        aisim_offload_tell(rank, job, AISIM_EV_TRANSFER_END, t_ns);
        aisim_host_forget(tier(rank), job);
    }
    return any;
}

bool aisim_offload_transfers(aisim_rank *rank, int64_t t_ns)
{
    bool any = deliver(rank, t_ns);
    if (rank->offload.withdrawn) { /* §8: at the boundary, after what has really ended */
        rank->offload.withdrawn = false;
        aisim_host_cancel_withdrawn(tier(rank), t_ns);
        any = true;
    }
    if (any) {
        wake_all(rank);
        aisim_rank_retry_reservations(rank);
        aisim_offload_show(rank, t_ns);
    }
    return any;
}

void aisim_offload_pass_end(aisim_rank *rank, int64_t end_ns)
{
    if (tier(rank) == NULL) {
        return;
    }
    if (shared(rank)) {
        aisim_host_group_advance(tier(rank)->group, end_ns);
    }
    submit_stores(rank, end_ns);
    aisim_rank_retry_reservations(rank);
    if (shared(rank)) { /* first bytes without latency, copies that take no time */
        aisim_host_group_advance(tier(rank)->group, end_ns);
    }
    aisim_offload_transfers(rank, end_ns);
    aisim_offload_show(rank, end_ns);
}

int64_t aisim_offload_next(const aisim_rank *rank)
{
    return tier(rank) == NULL || shared(rank) ? AISIM_NEVER : aisim_host_next(tier(rank));
}

void aisim_offload_settle_cancel(aisim_rank *rank, int64_t t_ns)
{
    if (tier(rank) != NULL && rank->offload.withdrawn && rank->in_flight == 0) {
        aisim_offload_transfers(rank, t_ns);
    }
}

void aisim_offload_leave(aisim_rank *rank, int64_t t_ns)
{
    if (tier(rank) == NULL) {
        return;
    }
    const aisim_host_group *group = tier(rank)->group;
    for (uint32_t i = 0; i < group->jobs.len; i++) {
        const aisim_host_job *job = &group->jobs.data[i];
        if (job->state != AISIM_HOST_JOB_FREE && job->kind == AISIM_HOST_STORE &&
            job->client == tier(rank)->client && !job->withdrawn) {
            free_sources(rank, i); /* holds are released once */
        }
    }
    aisim_host_leave(tier(rank), t_ns);
    rank->offload.withdrawn = false;
}

/* ---- verification ---------------------------------------------------------------------------- */

void aisim_offload_verify(const aisim_rank *rank)
{
    if (tier(rank) == NULL) {
        return;
    }
    uint64_t headroom = 0;
    uint32_t ready = 0;
    for (uint32_t i = 0; i < rank->running.len; i++) { /* I8 */
        const aisim_request *r = aisim_rank_request(rank, rank->running.data[i].slot);
        headroom += prefill_headroom(rank, r);
    }
    for (uint32_t i = 0; i < rank->offload.queue.len; i++) {
        const aisim_connector_entry *e = &rank->offload.queue.data[i];
        const aisim_request *r = aisim_rank_request(rank, e->slot);
        bool holds = e->stage == AISIM_CONNECTOR_LOADING || e->stage == AISIM_CONNECTOR_LOADED;
        AISIM_CHECK(r->state == AISIM_REQ_SKIPPED);
        AISIM_CHECK(aisim_lease_owned(&rank->pool, &r->lease) == (holds ? e->loaded_blocks : 0));
        headroom += holds ? remaining(rank, r, e->loaded_blocks) : 0;
        ready += is_ready(e);
    }
    AISIM_CHECK(headroom == rank->offload.headroom && ready == rank->offload.ready);
    aisim_host_verify(tier(rank));
}
