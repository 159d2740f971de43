/* glide.c - see glide.h. What makes a pass simple is checked in aisim_glide_begin once for all
 * passes, and in aisim_glide_plan for what changes from pass to pass. */
#include "sched/glide.h"

#include "base/clock.h"
#include "sched/plan.h"

/* ---- what is checked once -------------------------------------------------------------------- */

static const aisim_rank_config *config_of(const aisim_glide *glide)
{
    return &glide->rank->config;
}

/* Passive observers may hear of passes, levels, verifications and ends of transfers; others of pass
 * ends, where decoders are alone. */
static bool observers_allow(const aisim_observers *observers, bool decoders_alone)
{
    uint64_t told = AISIM_EV_BIT(AISIM_EV_PASS_END) | AISIM_EV_BIT(AISIM_EV_KV_LEVEL) |
                    AISIM_EV_BIT(AISIM_EV_VERIFY) | AISIM_EV_BIT(AISIM_EV_TRANSFER_END);
    uint64_t untold = AISIM_EV_BIT(AISIM_EV_PASS_BEGIN) | AISIM_EV_BIT(AISIM_EV_CHUNK) |
                      AISIM_EV_BIT(AISIM_EV_TOKENS) | AISIM_EV_BIT(AISIM_EV_KV_STORE) |
                      AISIM_EV_BIT(AISIM_EV_KV_EVICT) | AISIM_EV_BIT(AISIM_EV_TRANSFER_START) |
                      AISIM_EV_BIT(AISIM_EV_HOST_STORE) | AISIM_EV_BIT(AISIM_EV_HOST_LOAD) |
                      AISIM_EV_BIT(AISIM_EV_HOST_EVICT) | AISIM_EV_BIT(AISIM_EV_STATE_CHECKPOINT);
    uint64_t active = observers->active_mask & told;
    return (observers->mask & untold) == 0 &&
           (active == 0 || (decoders_alone && active == AISIM_EV_BIT(AISIM_EV_PASS_END)));
}

static bool rules_allow(const aisim_rank *rank)
{
    const aisim_speculation_config *s = &rank->config.speculation;
    bool drafts = s->mode == AISIM_SPECULATION_NATIVE && s->stream == AISIM_STREAM_PER_REQUEST;
    return (s->mode == AISIM_SPECULATION_NONE || drafts) &&
           rank->config.scheduler.overlap == AISIM_OVERLAP_NONE &&
           rank->config.scheduler.chunked_prefill && rank->engine->kv_changed == NULL &&
           rank->point_mask == 0 && /* a point is asked in every pass */
           !rank->pool.tracing && rank->pool.log.len == 0 &&
           observers_allow(&rank->engine->observers, rank->offload.host == NULL);
}

/* Nobody stands in a queue that a pass end or a transfer could move. */
static bool at_rest(const aisim_rank *rank, int64_t t_ns)
{
    return rank->in_flight == 0 && rank->running.len > 0 && rank->pending.len == 0 &&
           rank->held.len == 0 && rank->skipped.len == 0 && rank->connector_tokens == 0 &&
           (rank->offload.host == NULL || !rank->offload.host->group->shared) &&
           rank->offload.queue.len == 0 && !rank->offload.withdrawn &&
           rank->offload.compute_not_before_ns <= t_ns &&
           rank->told_lost == rank->pool.extents.lost;
}

/* A request that has had its first token and decodes in every pass. */
static bool steady(const aisim_rank *rank, const aisim_request *r, uint32_t width)
{
    uint32_t b = rank->pool.block_size;
    return r->generated >= 1 && r->computed + 1 == aisim_known(r) && r->outstanding == 0 &&
           (r->flags & (AISIM_REQF_RESUMED | AISIM_REQF_ARRIVED)) == 0 && r->drafts == width - 1 &&
           r->last_token_ns == rank->last_delivery_ns &&
           (rank->offload.host == NULL || r->stored_blocks >= r->prompt_tokens / b);
}

/* An unfinished prompt that is computed for the first time; what is full is published and stored.
 */
static bool plain_prefill(const aisim_rank *rank, const aisim_request *r)
{
    uint32_t full = r->computed / rank->pool.block_size;
    return (r->flags & (AISIM_REQF_RESUMED | AISIM_REQF_ARRIVED)) == 0 &&
           r->computed_high <= r->computed && r->outstanding == 0 && r->drafts == 0 &&
           (!rank->pool.prefix_caching || r->lease.published == full) &&
           (rank->offload.host == NULL || r->stored_blocks == full);
}

/* E-P1a, E-S13, N5 for all the passes that may come. */
static bool fits_alone(const aisim_glide *glide, const aisim_request *r)
{
    uint32_t most = aisim_glide_slots(glide, r->prompt_tokens + r->output_tokens + glide->width);
    return config_of(glide)->scheduler.never_fits != AISIM_NEVER_FITS_REJECT ||
           aisim_rank_fits_alone(glide->rank, r, most, 2 * config_of(glide)->kv.state_blocks);
}

static void add_decoder(aisim_glide *glide, aisim_request *r)
{
    const aisim_speculation_config *s = &config_of(glide)->speculation;
    glide->decoders[glide->n++] =
        (aisim_glider){.request = r,
                       .draws = aisim_draw_key(s->seed, glide->rank->rank_in_worker, r->ordinal),
                       .recurrent = glide->rank->running.data[r->position].recurrent};
}

/* Sorts the running requests into decoders, the prefill, and those that get nothing behind it.
 * @return false: one of them is something else */
static bool pick_requests(aisim_glide *glide)
{
    aisim_rank *rank = glide->rank;
    uint32_t budget = config_of(glide)->scheduler.max_batched_tokens;
    uint32_t threshold = config_of(glide)->scheduler.long_prefill_token_threshold;
    if (rank->running.len > AISIM_GLIDERS) {
        return false;
    }
    aisim_cruise_sync_all(rank);
    for (uint32_t i = 0; i < rank->running.len && glide->prefill == NULL; i++) {
        aisim_request *r = aisim_rank_request(rank, rank->running.data[i].slot);
        if (budget <= glide->width || !fits_alone(glide, r)) {
            return false;
        }
        if (r->computed >= r->prompt_tokens) {
            if (!steady(rank, r, glide->width)) {
                return false;
            }
            add_decoder(glide, r);
            budget -= glide->width;
        } else if (!glide->states && plain_prefill(rank, r) &&
                   (threshold == 0 || threshold >= budget)) {
            glide->prefill = r;
            glide->chunk = budget;
            glide->computed = r->computed;
            glide->owned = aisim_lease_owned(&rank->pool, &r->lease);
        } else {
            return false;
        }
    }
    return threshold == 0 || threshold >= glide->width;
}

/* E-P7: the queue is not looked at, because nobody waits, all places are taken, or the prefill
 * leaves no budget. */
static bool nobody_joins(const aisim_glide *glide)
{
    const aisim_rank *rank = glide->rank;
    const aisim_scheduler_config *s = &rank->config.scheduler;
    bool at_zero = s->admit_at_zero_budget && rank->offload.host == NULL; /* R5 */
    return rank->waiting.slots.len == 0 || rank->running.len >= s->max_sequences ||
           (glide->prefill != NULL && !at_zero);
}

/* The run that holds the blocks from `first` up to the end of the prompt, AISIM_NONE = several. */
static uint32_t prompt_run(const aisim_glide *glide, uint32_t first)
{
    const aisim_rank *rank = glide->rank;
    const aisim_content *content = rank->engine->content;
    uint32_t b = rank->pool.block_size, last = glide->prefill->prompt_tokens / b;
    uint32_t end = UINT32_MAX;
    for (uint32_t run = glide->prefill->lease.run; run != AISIM_NONE;
         run = aisim_content_parent(content, run)) {
        uint32_t start = aisim_content_start(content, run);
        if (start / b < last || start / b <= first) {
            return start / b <= first && last <= end / b ? run : AISIM_NONE;
        }
        end = start;
    }
    return AISIM_NONE;
}

/* Nobody else publishes into the run: no decoder's path leads through it. */
static bool apart(const aisim_glide *glide, uint32_t run)
{
    const aisim_content *content = glide->rank->engine->content;
    for (uint32_t i = 0; i < glide->n; i++) {
        uint32_t depth = 0, r = glide->decoders[i].request->lease.run;
        for (; r != AISIM_NONE && depth < AISIM_STREAM_DEPTH; depth++) {
            if (r == run) {
                return false;
            }
            r = aisim_content_parent(content, r);
        }
        if (r != AISIM_NONE) {
            return false;
        }
    }
    return true;
}

/* The blocks to come of the prefill are its own, here and in host memory. */
static bool open_prefill(aisim_glide *glide)
{
    aisim_rank *rank = glide->rank;
    const aisim_request *r = glide->prefill;
    if (!rank->pool.prefix_caching) {
        return true;
    }
    uint32_t run = prompt_run(glide, r->lease.published);
    if (run == AISIM_NONE || !apart(glide, run) ||
        !aisim_extents_ends_at(&rank->pool.extents, run, r->lease.published)) {
        return false;
    }
    glide->stores = rank->offload.host != NULL;
    uint32_t keys = r->prompt_tokens / rank->pool.block_size;
    uint32_t ids[AISIM_GLIDERS + 1] = {r->id};
    for (uint32_t i = 0; i < glide->n; i++) {
        ids[i + 1] = glide->decoders[i].request->id;
    }
    return !glide->stores || aisim_host_stream_open(&glide->stream, rank->offload.host,
                                                    r->lease.run, run, r->stored_blocks, keys, keys,
                                                    aisim_requests_slot(r), ids, glide->n + 1);
}

/* Blocks that all passes of the glide may ask for, at most. */
static uint64_t most_blocks(const aisim_glide *glide)
{
    const aisim_block_pool *pool = &glide->rank->pool;
    uint64_t most = 0;
    for (uint32_t i = 0; i < glide->n; i++) {
        const aisim_request *r = glide->decoders[i].request;
        most += aisim_blocks_of(
            pool, aisim_glide_slots(glide, r->prompt_tokens + r->output_tokens + glide->width));
        most -= aisim_lease_owned(pool, &r->lease) < most ? aisim_lease_owned(pool, &r->lease) : 0;
    }
    if (glide->prefill != NULL) {
        uint64_t all =
            aisim_blocks_of(pool, aisim_glide_slots(glide, glide->prefill->prompt_tokens));
        most += all > glide->owned ? all - glide->owned : 0;
    }
    return most;
}

bool aisim_glide_begin(aisim_glide *glide, aisim_rank *rank, int64_t t_ns)
{
    if (!at_rest(rank, t_ns) || !rules_allow(rank)) {
        return false;
    }
    const aisim_speculation_config *s = &rank->config.speculation;
    bool native = s->mode == AISIM_SPECULATION_NATIVE;
    glide->rank = rank;
    glide->n = glide->passes = 0;
    glide->prefill = NULL;
    glide->states = aisim_rank_stateful(rank);
    glide->stores = false;
    glide->width = 1 + (native ? s->depth : 0);
    glide->lookahead = native ? s->lookahead_slots : 0;
    if (!pick_requests(glide) || !nobody_joins(glide)) {
        return false;
    }
    glide->heard = (rank->engine->observers.active_mask & AISIM_EV_BIT(AISIM_EV_PASS_END)) != 0;
    if (glide->heard && glide->prefill != NULL) {
        return false;
    }
    glide->free = rank->pool.free;
    glide->inactive = rank->pool.extents.inactive;
    uint64_t most = glide->states ? 0 : most_blocks(glide);
    glide->clean = glide->states ? glide->inactive : 0;
    if (most > glide->free) {
        glide->clean = aisim_extents_clean(&rank->pool.extents, most - glide->free);
    }
    if (glide->prefill != NULL && !open_prefill(glide)) {
        return false;
    }
    aisim_cruise_dissolve(rank);
    return true;
}

/* ---- a pass ---------------------------------------------------------------------------------- */

static bool plan_prefill(aisim_glide *glide)
{
    const aisim_request *r = glide->prefill;
    if (r->prompt_tokens - glide->computed <= glide->chunk) {
        return false; /* its last chunk samples, and leaves budget */
    }
    uint32_t end = glide->computed + glide->chunk;
    glide->fresh += aisim_glide_missing(glide, end, glide->owned);
    glide->shape.n_prefill = 1;
    glide->shape.new_tokens = glide->chunk;
    glide->shape.past_tokens = glide->computed;
    return !glide->stores ||
           aisim_host_stream_fits(&glide->stream, end / glide->rank->pool.block_size);
}

const aisim_pass_shape *aisim_glide_plan(aisim_glide *glide)
{
    glide->shape = (aisim_pass_shape){.verify_width = glide->width};
    glide->fresh = 0;
    if (!aisim_glide_plan_decoders(glide) || (glide->prefill != NULL && !plan_prefill(glide))) {
        return NULL;
    }
    return glide->fresh <= glide->free + glide->clean ? &glide->shape : NULL;
}

static bool wanted(const aisim_rank *rank, aisim_event_type type)
{
    return aisim_wanted(&rank->engine->observers, type);
}

static uint64_t active(const aisim_glide *glide)
{
    return glide->rank->pool.blocks - glide->free - glide->inactive;
}

/* E-B2: free blocks first, then from the old end of the list. */
static void take_fresh(aisim_glide *glide, aisim_pass_facts *facts)
{
    uint64_t from_free = glide->fresh < glide->free ? glide->fresh : glide->free;
    facts->evicted = (uint32_t)(glide->fresh - from_free);
    glide->free -= from_free;
    glide->clean -= facts->evicted;
    glide->inactive -= facts->evicted;
}

/* With states the order of all that is taken and given back matters: the pool has counted. */
static void read_pool(aisim_glide *glide, aisim_pass_facts *facts)
{
    aisim_rank *rank = glide->rank;
    glide->free = rank->pool.free;
    glide->clean = glide->inactive = rank->pool.extents.inactive;
    facts->evicted = (uint32_t)(rank->pool.extents.lost - rank->told_lost);
    rank->told_lost = rank->pool.extents.lost;
}

static void show_level(const aisim_glide *glide, int64_t t_ns)
{
    const aisim_rank *rank = glide->rank;
    if (wanted(rank, AISIM_EV_KV_LEVEL)) {
        aisim_event event = {.type = AISIM_EV_KV_LEVEL, .rank = rank->index, .t_ns = t_ns};
        event.u.level.used = active(glide);
        event.u.level.cached = glide->inactive;
        event.u.level.total = rank->pool.blocks;
        aisim_emit(&rank->engine->observers, &event);
    }
}

/* Copies from before the glide, then those of the stream: they stand in one lane. */
static void land_stores(aisim_glide *glide, int64_t end_ns)
{
    aisim_rank *rank = glide->rank;
    aisim_streamed store;
    if (glide->stores) {
        aisim_host_stream_submit(&glide->stream, end_ns);
    }
    if (rank->offload.host->outstanding > 0 && aisim_host_next(rank->offload.host) <= end_ns) {
        if (glide->stores) {
            aisim_host_stream_before_landing(&glide->stream);
        }
        aisim_offload_transfers(rank, end_ns);
    }
    while (glide->stores && aisim_host_stream_done(&glide->stream, end_ns, &store)) {
        aisim_offload_tell_streamed(rank, glide->prefill, &store, end_ns);
    }
}

void aisim_glide_commit(aisim_glide *glide, int64_t begin_ns, int64_t end_ns)
{
    aisim_rank *rank = glide->rank;
    aisim_pass_facts facts = {.pass = rank->pass++,
                              .begin_ns = begin_ns,
                              .end_ns = end_ns,
                              .prefill_tokens = glide->shape.new_tokens,
                              .prefix_tokens = glide->shape.past_tokens,
                              .decode_tokens = (uint64_t)glide->n * glide->width,
                              .context_tokens = glide->shape.context_tokens,
                              .n_prefill = (uint32_t)glide->shape.n_prefill,
                              .n_decode = glide->n,
                              .scheduled = glide->n + (glide->prefill != NULL)};
    rank->now_ns = begin_ns;
    rank->plan_serial++;
    if (!glide->states) {
        take_fresh(glide, &facts);
    }
    if (glide->states) {
        aisim_recurrents_begin_pass(&rank->recurrents, &rank->pool);
    }
    aisim_glide_book_decoders(glide);
    if (glide->states) {
        read_pool(glide, &facts);
    }
    if (glide->prefill != NULL) {
        uint32_t end = glide->computed + glide->chunk;
        glide->owned += aisim_glide_missing(glide, end, glide->owned);
        glide->computed = end;
        if (glide->stores && end / rank->pool.block_size > glide->stream.planned) {
            aisim_host_stream_prepare(&glide->stream, end / rank->pool.block_size, begin_ns);
        }
    }
    show_level(glide, begin_ns);
    aisim_glide_advance_decoders(glide, end_ns, &facts);
    if (glide->n > 0) {
        facts.gap_ns = end_ns - rank->last_delivery_ns;
        facts.gap_count = glide->n;
        rank->last_delivery_ns = end_ns;
    }
    facts.running = rank->running.len;
    facts.waiting = rank->waiting.slots.len;
    facts.active_blocks = active(glide);
    facts.inactive_blocks = glide->inactive;
    facts.total_blocks = rank->pool.blocks;
    glide->passes++;
    if (wanted(rank, AISIM_EV_PASS_END)) {
        aisim_event event = {.type = AISIM_EV_PASS_END, .rank = rank->index, .t_ns = end_ns};
        event.u.pass = &facts;
        aisim_emit(&rank->engine->observers, &event);
    }
    if (rank->offload.host != NULL) {
        land_stores(glide, end_ns);
    }
}

/* ---- end ------------------------------------------------------------------------------------- */

/* Its blocks on the device are still being read. */
static void still_moving(void *context, uint32_t job, aisim_streamed store)
{
    aisim_glide *glide = context;
    aisim_extents *extents = &glide->rank->pool.extents;
    uint32_t owner = glide->prefill->lease.owner;
    aisim_extents_copy_begin(extents, glide->stream.run, store.first, store.end, owner, job, false);
    aisim_extents_copy_ends(extents, job, store.done_ns);
}

static void end_prefill(aisim_glide *glide)
{
    aisim_rank *rank = glide->rank;
    aisim_request *r = glide->prefill;
    if (glide->computed > r->computed) {
        uint32_t slots = aisim_glide_slots(glide, glide->computed);
        aisim_grant grant = {.watermark = aisim_min_u32(slots, aisim_known(r)), .slots = slots};
        aisim_grant_take(&rank->pool, &r->lease, &grant);
        r->computed = glide->computed;
        aisim_lease_publish(&rank->pool, &r->lease, r->computed / rank->pool.block_size, NULL);
        aisim_offload_refresh(rank, aisim_requests_slot(r));
    }
    if (glide->stores) {
        r->stored_blocks = glide->stream.planned;
        aisim_host_stream_close(&glide->stream, still_moving, glide);
    }
}

void aisim_glide_end(aisim_glide *glide)
{
    aisim_rank *rank = glide->rank;
    if (glide->prefill != NULL) {
        end_prefill(glide);
    }
    if (glide->passes > 0) {
        rank->capacity_bound = rank->waiting.slots.len > 0; /* E-P17 */
        rank->preempting_passes = 0;
        rank->told_lost = rank->pool.extents.lost;
    }
    AISIM_CHECK(rank->pool.free == glide->free && rank->pool.extents.inactive == glide->inactive);
}
