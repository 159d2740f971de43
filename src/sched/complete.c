/* complete.c - the pass end: everything a pass did becomes visible together, in the order of E-O3
 * and spec/lua-api.md §6: decisions, chunks, completions without a token, tokens in running order,
 * rejections, KV events, the pass itself. */
#include "sched/plan.h"

static void emit(const aisim_rank *rank, const aisim_event *event)
{
    aisim_emit(&rank->engine->observers, event);
}

static bool wanted(const aisim_rank *rank, aisim_event_type type)
{
    return aisim_wanted(&rank->engine->observers, type);
}

static bool alive(const aisim_rank *rank, uint32_t slot, uint32_t generation)
{
    return aisim_rank_request(rank, slot)->generation == generation;
}

/* ---- decisions ---------------------------------------------------------------------------------
 */

static void show_decisions(const aisim_rank *rank, const aisim_batch *batch, int64_t end_ns)
{
    for (uint32_t i = 0; i < batch->decisions.len; i++) {
        const aisim_decision *d = &batch->decisions.data[i];
        if (!alive(rank, d->slot, d->generation)) {
            continue;
        }
        aisim_event event = {
            .rank = rank->index, .t_ns = end_ns, .request = aisim_rank_request(rank, d->slot)};
        if (d->kind == AISIM_DECIDED_ADMIT) {
            event.type = AISIM_EV_ADMIT;
            event.u.admit.reused_tokens = d->tokens;
            event.u.admit.wait_ns = d->wait_ns;
            event.u.admit.begin_ns = batch->begin_ns;
        } else if (d->kind == AISIM_DECIDED_PREEMPT) {
            event.type = AISIM_EV_PREEMPT;
            event.u.preempt.lost_tokens = d->tokens;
            event.u.preempt.begin_ns = batch->begin_ns;
        } else {
            continue;
        }
        if (wanted(rank, event.type)) {
            emit(rank, &event);
        }
        if (d->restored && wanted(rank, AISIM_EV_STATE_RESTORE)) {
            event.type = AISIM_EV_STATE_RESTORE;
            event.u.state.at_tokens = d->tokens;
            emit(rank, &event);
        }
    }
}

static void show_checkpoints(const aisim_rank *rank, const aisim_batch *batch, int64_t end_ns)
{
    for (uint32_t i = 0; i < batch->decisions.len; i++) {
        const aisim_decision *d = &batch->decisions.data[i];
        if (d->kind == AISIM_DECIDED_CHECKPOINT && alive(rank, d->slot, d->generation)) {
            aisim_event event = {.type = AISIM_EV_STATE_CHECKPOINT,
                                 .rank = rank->index,
                                 .t_ns = end_ns,
                                 .request = aisim_rank_request(rank, d->slot)};
            event.u.state.at_tokens = d->tokens;
            emit(rank, &event);
        }
    }
}

static void show_chunks(const aisim_rank *rank, const aisim_batch *batch, int64_t end_ns)
{
    if (!wanted(rank, AISIM_EV_CHUNK)) {
        return;
    }
    for (uint32_t i = 0; i < batch->plan.len; i++) {
        const aisim_plan_entry *p = &batch->plan.data[i];
        if (p->tokens == 0 || p->undone || !p->prefill || !alive(rank, p->slot, p->generation)) {
            continue;
        }
        aisim_event event = {.type = AISIM_EV_CHUNK,
                             .rank = rank->index,
                             .t_ns = end_ns,
                             .request = aisim_rank_request(rank, p->slot)};
        event.u.chunk.start = p->before;
        event.u.chunk.tokens = p->tokens;
        emit(rank, &event);
    }
}

/* ---- endings ------------------------------------------------------------------------------------
 */

static void finish(aisim_rank *rank, uint32_t slot, aisim_end_reason reason, int64_t end_ns)
{
    aisim_request *r = aisim_rank_request(rank, slot);
    bool rejected = aisim_end_is_rejection(reason);
    r->end = (uint8_t)reason;
    r->state = AISIM_REQ_DONE;
    aisim_event event = {.type = rejected ? AISIM_EV_REJECT : AISIM_EV_FINISH,
                         .rank = rank->index,
                         .t_ns = end_ns,
                         .request = r};
    if (rejected) {
        event.u.reject.where = AISIM_WHERE_ENGINE;
    } else {
        event.u.finish.ideal_tokens = aisim_engine_ideal(rank->engine, r);
    }
    if (wanted(rank, event.type)) {
        emit(rank, &event);
    }
    rank->engine->ended(rank->engine->context, slot);
}

static aisim_end_reason end_of(const aisim_request *r)
{
    return r->generated >= r->output_tokens ? AISIM_END_LENGTH : AISIM_END_CONTEXT;
}

/* The last token is out, or none was wanted. Blocks go back at once (E-O2); a hand-off source keeps
 * them (E-K6). The request leaves the running list or the queue. */
void aisim_rank_leave(aisim_rank *rank, uint32_t slot, int64_t end_ns)
{
    aisim_request *r = aisim_rank_request(rank, slot);
    bool hold = (r->flags & AISIM_REQF_HOLD) != 0;
    if (!hold) {
        aisim_rank_give_back(rank, slot, AISIM_NONE);
    }
    if (hold) {
        aisim_running kept = {
            .slot = slot, .entry = AISIM_NONE, .recurrent = AISIM_NONE, .cruiser = AISIM_NONE};
        if (r->state == AISIM_REQ_RUNNING) {
            kept = rank->running.data[r->position];
        }
        aisim_array_push(&rank->held, kept);
    }
    if (r->state == AISIM_REQ_RUNNING) {
        rank->offload.headroom -= rank->running.data[r->position].headroom;
        rank->running.data[r->position].slot = AISIM_NONE; /* taken out when all have been seen */
        rank->left++;
    } else {
        aisim_rank_dequeue(rank, slot); /* N1: its last result came after a preemption */
    }
    if (hold) {
        r->end = (uint8_t)end_of(r);
        r->state = AISIM_REQ_HELD;
        rank->engine->held(rank->engine->context, slot);
        return;
    }
    finish(rank, slot, end_of(r), end_ns);
}

/* ---- tokens ---------------------------------------------------------------------------------- */

/* Books the gap to the previous token: most requests share one value per pass. */
static void gap(aisim_rank *rank, const aisim_request *r, int64_t end_ns, aisim_pass_facts *facts)
{
    int64_t length = end_ns - r->last_token_ns;
    if (r->last_token_ns == rank->previous_delivery_ns && (r->flags & AISIM_REQF_ARRIVED) == 0) {
        facts->gap_ns = length;
        facts->gap_count++;
    } else if (wanted(rank, AISIM_EV_GAP)) {
        aisim_event event = {
            .type = AISIM_EV_GAP, .rank = rank->index, .t_ns = end_ns, .request = r};
        event.u.gap.gap_ns = length;
        emit(rank, &event);
    }
}

/* n >= 1 tokens of one request at the pass end (E-O1, E-M2). */
static void show_tokens(aisim_rank *rank, aisim_request *r, uint32_t n, int64_t end_ns,
                        aisim_pass_facts *facts)
{
    aisim_event event = {.rank = rank->index, .t_ns = end_ns, .request = r};
    uint32_t before = r->generated - n;
    facts->emitted += n;
    facts->zero_gaps += n - 1;
    if (before == 0) {
        r->first_token_ns = end_ns;
        if (rank->engine->first_token != NULL) {
            rank->engine->first_token(rank->engine->context, r->lease.owner);
        }
    } else {
        gap(rank, r, end_ns, facts);
        r->flags &= (uint8_t)~AISIM_REQF_ARRIVED;
    }
    if (before < 2 && r->generated >= 2) {
        r->second_token_ns = end_ns;
    }
    r->last_token_ns = end_ns;
    if (before == 0 && wanted(rank, AISIM_EV_FIRST_TOKEN)) {
        event.type = AISIM_EV_FIRST_TOKEN;
        event.u.first_token.ttft_ns = end_ns - r->arrival_ns;
        emit(rank, &event);
    }
    if (wanted(rank, AISIM_EV_TOKENS)) {
        event.type = AISIM_EV_TOKENS;
        event.u.tokens.n = n;
        emit(rank, &event);
    }
}

/* Progress after a verification: rejected drafts never count (E-M3, mtp.md §3, N1, N7). */
static void settle(aisim_rank *rank, aisim_request *r, const aisim_plan_entry *p, uint32_t wanted_n,
                   uint32_t drafts)
{
    const aisim_speculation_config *config = &rank->config.speculation;
    if (p->epoch != r->preemptions || r->state != AISIM_REQ_RUNNING) {
        return; /* N1: preempted since; its tokens count, its progress does not */
    }
    if ((r->flags & AISIM_REQF_PREFILL) != 0) {
        return; /* mtp.md §9: verified nothing, and goes now */
    }
    aisim_running *running = &rank->running.data[r->position];
    if (config->mode == AISIM_SPECULATION_BURST) {
        r->computed = aisim_known(r) - 1;
        uint32_t *page = running->recurrent == AISIM_NONE
                             ? NULL
                             : &rank->recurrents.slots.data[running->recurrent].page;
        aisim_lease_publish(&rank->pool, &r->lease, r->computed / rank->pool.block_size, page);
        aisim_lease_return_opaque(&rank->pool, &r->lease, aisim_known(r));
    } else if (rank->config.scheduler.overlap == AISIM_OVERLAP_ASYNC) {
        uint32_t rejected = p->verified + 1u > wanted_n ? p->verified + 1u - wanted_n : 0;
        r->computed -= rejected;
        running->placeholders -= aisim_min_u32(running->placeholders, wanted_n + rejected);
    } else if (config->mode == AISIM_SPECULATION_NATIVE) {
        r->computed = aisim_known(r) - 1;
        r->drafts = (uint8_t)drafts;
        running->unknown_drafts = false;
    }
}

/* One sampled entry. */
static void sample(aisim_rank *rank, const aisim_plan_entry *p, const aisim_result *given,
                   int64_t end_ns, aisim_pass_facts *facts)
{
    aisim_request *r = aisim_rank_request(rank, p->slot);
    bool stale = p->epoch != r->preemptions;
    uint32_t wanted_n =
        given != NULL ? given->tokens : 1 + (stale ? 0 : aisim_rank_draw(rank, r, p->verified));
    if (wanted_n == 0) { /* the drafts of a row without output come off all the same */
        r->computed -= stale ? 0 : p->verified;
        return;
    }
    bool forward = rank->config.speculation.mode != AISIM_SPECULATION_NONE && !p->prefill;
    if (forward) { /* mtp.md §7: before the cut */
        rank->decode_forwards++;
        rank->accepted_with_base += wanted_n;
        r->accepted_drafts += wanted_n - 1;
    }
    if (p->verified > 0 && wanted(rank, AISIM_EV_VERIFY)) {
        aisim_event event = {
            .type = AISIM_EV_VERIFY, .rank = rank->index, .t_ns = end_ns, .request = r};
        event.u.verify.drafted = p->verified;
        event.u.verify.accepted = wanted_n - 1;
        emit(rank, &event);
    }
    uint32_t left = aisim_rank_output_left(rank, r);
    uint32_t n = wanted_n < left ? wanted_n : left;
    if (r->state == AISIM_REQ_PREEMPTED) { /* N1: known tokens of a queued request grow */
        aisim_length_remove(&rank->queued_decode, aisim_known(r));
        aisim_length_add(&rank->queued_decode, (uint64_t)aisim_known(r) + n);
    }
    r->generated += n;
    if (!stale) {
        r->flags &= (uint8_t)~AISIM_REQF_RESUMED; /* caught up: the next pass decodes */
    }
    bool free_drafts = given == NULL || given->drafts == AISIM_NONE;
    settle(rank, r, p, wanted_n, free_drafts ? rank->config.speculation.depth : given->drafts);
    show_tokens(rank, r, n, end_ns, facts);
    if (aisim_rank_output_left(rank, r) == 0) {
        aisim_rank_leave(rank, p->slot, end_ns);
    }
}

static const aisim_result *result_of(const aisim_result *results, uint32_t n, uint32_t slot)
{
    for (uint32_t i = 0; i < n; i++) {
        if (results[i].slot == slot) {
            return &results[i];
        }
    }
    return NULL;
}

static bool open(const aisim_request *r)
{
    return r->state == AISIM_REQ_RUNNING || r->state == AISIM_REQ_PREEMPTED;
}

/* Takes the entries of those who left out of the running list. */
static void close_ranks(aisim_rank *rank)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < rank->running.len; i++) {
        aisim_running running = rank->running.data[i];
        if (running.slot == AISIM_NONE) {
            continue;
        }
        if (kept < i) {
            aisim_rank_request(rank, running.slot)->position = kept;
            rank->running.data[kept] = running;
        }
        kept++;
    }
    rank->running.len = kept;
    rank->left = 0;
}

static void deliver(aisim_rank *rank, const aisim_batch *batch, int64_t end_ns,
                    const aisim_result *results, uint32_t n, aisim_pass_facts *facts)
{
    for (uint32_t i = 0; i < batch->plan.len; i++) { /* E-O3: first what ends without a token */
        const aisim_plan_entry *p = &batch->plan.data[i];
        const aisim_request *r = aisim_rank_request(rank, p->slot);
        if (p->samples && r->generation == p->generation && r->state == AISIM_REQ_RUNNING &&
            aisim_rank_output_left(rank, r) == 0) {
            aisim_rank_leave(rank, p->slot, end_ns);
        }
    }
    if (batch->cruised > 0) {
        aisim_cruise_complete(rank, end_ns, facts); /* the first of the running order */
    }
    for (uint32_t i = 0; i < batch->plan.len; i++) {
        const aisim_plan_entry *p = &batch->plan.data[i];
        aisim_request *r = aisim_rank_request(rank, p->slot);
        if (!p->samples || r->generation != p->generation) {
            continue;
        }
        if (r->outstanding > 0) {
            r->outstanding--;
        }
        const aisim_result *given = result_of(results, n, p->slot);
        if (open(r) && (results == NULL || given != NULL)) {
            sample(rank, p, given, end_ns, facts);
        }
    }
    for (uint32_t i = 0; rank->in_flight == 1 && i < batch->plan.len; i++) {
        const aisim_plan_entry *p = &batch->plan.data[i];
        const aisim_request *r = aisim_rank_request(rank, p->slot);
        if (r->generation == p->generation && r->state == AISIM_REQ_RUNNING) {
            rank->running.data[r->position].entry = AISIM_NONE;
        }
    }
    if (rank->left > 0) {
        close_ranks(rank);
    }
}

/* ---- facts of the pass ----------------------------------------------------------------------- */

static void count_entry(aisim_rank *rank, const aisim_plan_entry *p, aisim_pass_facts *facts)
{
    facts->scheduled += p->tokens > 0;
    if (!p->prefill) {
        facts->decode_tokens += p->tokens;
        return;
    }
    if (!alive(rank, p->slot, p->generation)) { /* cancelled meanwhile: its work counts */
        facts->prefill_tokens += p->tokens;
        return;
    }
    aisim_request *r = aisim_rank_request(rank, p->slot);
    uint32_t after = p->before + p->tokens;
    uint32_t prompt_end = aisim_min_u32(after, r->prompt_tokens);
    uint32_t of_prompt = prompt_end > p->before ? prompt_end - p->before : 0;
    facts->prefill_tokens += of_prompt;
    facts->recomputed_tokens += p->tokens - of_prompt; /* D3 */
    facts->prefix_tokens += aisim_min_u32(p->before, r->prompt_tokens);
    if (r->computed_high > p->before) {
        r->recomputed += aisim_min_u32(after, r->computed_high) - p->before;
    }
}

static void count_work(aisim_rank *rank, const aisim_batch *batch, aisim_pass_facts *facts)
{
    facts->scheduled = batch->cruised;
    facts->decode_tokens = batch->cruised;
    for (uint32_t i = 0; i < batch->plan.len; i++) {
        if (!batch->plan.data[i].undone && !batch->plan.data[i].lost) {
            count_entry(rank, &batch->plan.data[i], facts);
        }
    }
    for (uint32_t i = 0; i < batch->decisions.len; i++) {
        facts->n_preempted += batch->decisions.data[i].kind == AISIM_DECIDED_PREEMPT;
    }
    facts->n_prefill = (uint32_t)batch->shape.n_prefill;
    facts->n_decode = (uint32_t)batch->shape.n_decode;
    facts->context_tokens = batch->shape.context_tokens;
}

void aisim_rank_tell_kv(aisim_rank *rank)
{
    const aisim_engine *engine = rank->engine;
    const aisim_block_pool *pool = &rank->pool;
    for (uint32_t i = rank->kv_told; engine->kv_changed != NULL && i < pool->log.len; i++) {
        const aisim_kv_log_entry *e = &pool->log.data[i];
        if (e->kind == AISIM_KV_STORED ||
            (e->kind == AISIM_KV_EVICTED && e->how == AISIM_GONE_LAST)) {
            engine->kv_changed(engine->context, rank->index, AISIM_TIER_DEVICE,
                               e->kind == AISIM_KV_STORED, e->run, e->first, e->count);
        }
    }
    rank->kv_told = pool->log.len;
    aisim_rank_tell_host(rank);
}

void aisim_rank_show_kv(aisim_rank *rank, int64_t end_ns)
{
    aisim_block_pool *pool = &rank->pool;
    aisim_rank_tell_kv(rank);
    for (uint32_t i = 0; i < pool->log.len;) { /* E-H7: one call per KV event */
        aisim_kv_log_entry first = pool->log.data[i];
        if (first.kind != AISIM_KV_STORED && first.kind != AISIM_KV_EVICTED) {
            i++;
            continue;
        }
        aisim_event event = {.type = first.kind == AISIM_KV_STORED ? AISIM_EV_KV_STORE
                                                                   : AISIM_EV_KV_EVICT,
                             .rank = rank->index,
                             .t_ns = end_ns};
        event.u.kv.tier = AISIM_TIER_DEVICE;
        event.u.kv.run = first.run;
        event.u.kv.first_block = first.first;
        for (; i < pool->log.len && pool->log.data[i].event == first.event; i++) {
            bool counts = pool->log.data[i].how == AISIM_GONE_LAST;
            event.u.kv.blocks += counts ? pool->log.data[i].count : 0;
        }
        if (event.u.kv.blocks > 0 && wanted(rank, event.type)) {
            emit(rank, &event);
        }
    }
    pool->log.len = pool->tracing ? pool->log.len : 0; /* a test reads it first */
    rank->kv_told = pool->log.len;
}

static void fill_state(aisim_rank *rank, aisim_pass_facts *facts)
{
    facts->evicted = (uint32_t)(rank->pool.extents.lost - rank->told_lost);
    rank->told_lost = rank->pool.extents.lost;
    facts->running = rank->running.len;
    facts->waiting = rank->waiting.slots.len + rank->offload.queue.len;
    facts->active_blocks = aisim_block_pool_active(&rank->pool);
    facts->inactive_blocks = rank->pool.extents.inactive;
    facts->total_blocks = rank->pool.blocks;
}

void aisim_rank_complete(aisim_rank *rank, uint32_t index, int64_t end_ns,
                         const aisim_result *results, uint32_t n_results)
{
    aisim_batch *batch = &rank->batches.data[index];
    AISIM_CHECK(batch->in_use && end_ns >= batch->begin_ns); /* I10 */
    aisim_pass_facts facts = {.pass = rank->pass, .begin_ns = batch->begin_ns, .end_ns = end_ns};
    rank->previous_delivery_ns = rank->last_delivery_ns;
    count_work(rank, batch, &facts);
    show_decisions(rank, batch, end_ns);
    show_chunks(rank, batch, end_ns);
    if (wanted(rank, AISIM_EV_STATE_CHECKPOINT)) {
        show_checkpoints(rank, batch, end_ns);
    }
    deliver(rank, batch, end_ns, results, n_results, &facts);
    for (uint32_t i = 0; i < batch->decisions.len; i++) {
        aisim_decision d = batch->decisions.data[i];
        if (d.kind == AISIM_DECIDED_REJECT && alive(rank, d.slot, d.generation)) {
            finish(rank, d.slot, (aisim_end_reason)d.reason, end_ns);
        }
    }
    aisim_rank_retry_reservations(rank);
    aisim_rank_show_kv(rank, end_ns);
    fill_state(rank, &facts);
    rank->pass++;
    rank->in_flight--;
    batch->in_use = false;
    rank->blocked = false;
    if (facts.emitted > 0) {
        rank->last_delivery_ns = end_ns;
    }
    aisim_cruise_join(rank);
    bool stuck = facts.n_preempted > 0 && facts.emitted == 0; /* E-T8 */
    rank->preempting_passes = stuck ? rank->preempting_passes + 1 : 0;
    if (wanted(rank, AISIM_EV_PASS_END)) {
        aisim_event event = {.type = AISIM_EV_PASS_END, .rank = rank->index, .t_ns = end_ns};
        event.u.pass = &facts;
        emit(rank, &event);
    }
    aisim_offload_pass_end(rank, end_ns);
}
