/* complete.c - the pass end: everything a pass did becomes visible together, in the order of E-O3
 * and spec/lua-api.md §6: decisions, chunks, completions without a token, tokens in running order,
 * rejections, KV events, the pass itself. */
#include "base/check.h"
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

static void show_decisions(const aisim_rank *rank, int64_t end_ns)
{
    for (uint32_t i = 0; i < rank->decisions.len; i++) {
        const aisim_decision *d = &rank->decisions.data[i];
        if (!alive(rank, d->slot, d->generation)) {
            continue;
        }
        aisim_event event = {
            .rank = rank->index, .t_ns = end_ns, .request = aisim_rank_request(rank, d->slot)};
        if (d->kind == AISIM_DECIDED_ADMIT) {
            event.type = AISIM_EV_ADMIT;
            event.u.admit.reused_tokens = d->tokens;
            event.u.admit.wait_ns = d->wait_ns;
            event.u.admit.begin_ns = rank->begin_ns;
        } else if (d->kind == AISIM_DECIDED_PREEMPT) {
            event.type = AISIM_EV_PREEMPT;
            event.u.preempt.lost_tokens = d->tokens;
            event.u.preempt.begin_ns = rank->begin_ns;
        } else {
            continue;
        }
        if (wanted(rank, event.type)) {
            emit(rank, &event);
        }
    }
}

static void show_chunks(const aisim_rank *rank, int64_t end_ns)
{
    if (!wanted(rank, AISIM_EV_CHUNK)) {
        return;
    }
    for (uint32_t i = 0; i < rank->plan.len; i++) {
        const aisim_plan_entry *p = &rank->plan.data[i];
        if (p->tokens == 0 || !p->prefill || !alive(rank, p->slot, p->generation)) {
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
    bool rejected = reason >= AISIM_END_REJECTED_EMPTY;
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

/* ---- tokens -------------------------------------------------------------------------------------
 */

/* Books the gap to the previous token: most requests share one value per pass. */
static void gap(aisim_rank *rank, const aisim_request *r, int64_t end_ns, aisim_pass_facts *facts)
{
    int64_t length = end_ns - r->last_token_ns;
    if (r->last_token_ns == rank->last_end_ns) {
        facts->gap_ns = length;
        facts->gap_count++;
    } else if (wanted(rank, AISIM_EV_GAP)) {
        aisim_event event = {
            .type = AISIM_EV_GAP, .rank = rank->index, .t_ns = end_ns, .request = r};
        event.u.gap.gap_ns = length;
        emit(rank, &event);
    }
}

/* E-O1: one sampled token. @return false = the request ended. */
static bool sample(aisim_rank *rank, uint32_t slot, int64_t end_ns, aisim_pass_facts *facts)
{
    aisim_request *r = aisim_rank_request(rank, slot);
    r->generated++;
    r->flags &= (uint8_t)~AISIM_REQF_RESUMED; /* caught up: the next pass decodes */
    facts->emitted++;
    aisim_event event = {.rank = rank->index, .t_ns = end_ns, .request = r};
    if (r->generated == 1) {
        r->first_token_ns = end_ns;
        event.type = AISIM_EV_FIRST_TOKEN;
        event.u.first_token.ttft_ns = end_ns - r->arrival_ns;
        r->last_token_ns = end_ns;
        if (wanted(rank, AISIM_EV_FIRST_TOKEN)) {
            emit(rank, &event);
        }
    } else {
        if (r->generated == 2) {
            r->second_token_ns = end_ns;
        }
        gap(rank, r, end_ns, facts);
        r->last_token_ns = end_ns;
    }
    if (wanted(rank, AISIM_EV_TOKENS)) {
        event.type = AISIM_EV_TOKENS;
        event.u.tokens.n = 1;
        emit(rank, &event);
    }
    r = aisim_rank_request(rank, slot);
    if (aisim_rank_output_left(rank, r) > 0) {
        return true;
    }
    aisim_lease_release(&rank->pool, &r->lease, AISIM_NONE); /* E-O2: reclaimable at once */
    finish(rank, slot, r->generated >= r->output_tokens ? AISIM_END_LENGTH : AISIM_END_CONTEXT,
           end_ns);
    return false;
}

/* A running request that has everything computed and wants no token (E-O1, E-T2). */
static bool done_without_token(const aisim_rank *rank, const aisim_request *r)
{
    return r->computed == aisim_known(r) && aisim_rank_output_left(rank, r) == 0;
}

/* Blocks go back before anything is shown: hooks read the state after the whole pass. */
static void deliver(aisim_rank *rank, int64_t end_ns, aisim_pass_facts *facts)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < rank->running.len; i++) { /* completions without a token first */
        aisim_running running = rank->running.data[i];
        aisim_request *r = aisim_rank_request(rank, running.slot);
        if (done_without_token(rank, r)) {
            aisim_lease_release(&rank->pool, &r->lease, AISIM_NONE);
            finish(rank, running.slot,
                   r->generated >= r->output_tokens ? AISIM_END_LENGTH : AISIM_END_CONTEXT, end_ns);
            continue;
        }
        r->position = kept;
        rank->running.data[kept++] = running;
    }
    rank->running.len = kept;
    kept = 0;
    for (uint32_t i = 0; i < rank->running.len; i++) {
        aisim_running running = rank->running.data[i];
        aisim_request *r = aisim_rank_request(rank, running.slot);
        running.entry = AISIM_NONE;
        if (r->computed == aisim_known(r) && !sample(rank, running.slot, end_ns, facts)) {
            continue;
        }
        aisim_rank_request(rank, running.slot)->position = kept;
        rank->running.data[kept++] = running;
    }
    rank->running.len = kept;
}

/* ---- facts of the pass
 * --------------------------------------------------------------------------- */

static void count_work(aisim_rank *rank, aisim_pass_facts *facts)
{
    for (uint32_t i = 0; i < rank->plan.len; i++) {
        const aisim_plan_entry *p = &rank->plan.data[i];
        if (p->tokens == 0 && !p->prefill) {
            continue;
        }
        facts->scheduled += p->tokens > 0;
        if (!p->prefill) {
            facts->decode_tokens += p->tokens;
            continue;
        }
        if (!alive(rank, p->slot, p->generation)) { /* cancelled meanwhile: its work counts */
            facts->prefill_tokens += p->tokens;
            continue;
        }
        aisim_request *r = aisim_rank_request(rank, p->slot);
        uint32_t after = p->before + p->tokens;
        uint32_t prompt_end = after < r->prompt_tokens ? after : r->prompt_tokens;
        uint32_t of_prompt = prompt_end > p->before ? prompt_end - p->before : 0;
        facts->prefill_tokens += of_prompt;
        facts->recomputed_tokens += p->tokens - of_prompt; /* D3 */
        facts->prefix_tokens += p->before < r->prompt_tokens ? p->before : r->prompt_tokens;
        if (r->computed_high > p->before) {
            r->recomputed += (after < r->computed_high ? after : r->computed_high) - p->before;
        }
    }
    facts->n_prefill = (uint32_t)rank->shape.n_prefill;
    facts->n_decode = (uint32_t)rank->shape.n_decode;
    facts->context_tokens = rank->shape.context_tokens;
}

static void show_kv(aisim_rank *rank, int64_t end_ns)
{
    aisim_block_pool *pool = &rank->pool;
    for (uint32_t i = 0; i < pool->log.len;) { /* E-H7: one call per KV event */
        aisim_kv_log_entry first = pool->log.data[i];
        aisim_event event = {.type = first.kind == AISIM_KV_STORED ? AISIM_EV_KV_STORE
                                                                   : AISIM_EV_KV_EVICT,
                             .rank = rank->index,
                             .t_ns = end_ns};
        event.u.kv.tier = AISIM_TIER_DEVICE;
        event.u.kv.run = first.run;
        event.u.kv.first_block = first.first;
        for (; i < pool->log.len && pool->log.data[i].event == first.event; i++) {
            bool counts = first.kind == AISIM_KV_STORED || pool->log.data[i].last_copy;
            event.u.kv.blocks += counts ? pool->log.data[i].count : 0;
        }
        if (event.u.kv.blocks > 0 && wanted(rank, event.type)) {
            emit(rank, &event);
        }
    }
    pool->log.len = 0;
}

void aisim_rank_complete(aisim_rank *rank, int64_t end_ns)
{
    AISIM_CHECK(rank->in_flight && end_ns >= rank->begin_ns); /* I10 */
    aisim_pass_facts facts = {
        .pass = rank->pass, .begin_ns = rank->begin_ns, .end_ns = end_ns, .gap_ns = 0};
    count_work(rank, &facts);
    show_decisions(rank, end_ns);
    show_chunks(rank, end_ns);
    deliver(rank, end_ns, &facts);
    for (uint32_t i = 0; i < rank->decisions.len; i++) {
        const aisim_decision *d = &rank->decisions.data[i];
        facts.n_preempted += d->kind == AISIM_DECIDED_PREEMPT;
        if (d->kind == AISIM_DECIDED_REJECT && alive(rank, d->slot, d->generation)) {
            finish(rank, d->slot, (aisim_end_reason)d->reason, end_ns);
        }
    }
    show_kv(rank, end_ns);
    facts.running = rank->running.len;
    facts.waiting = rank->waiting.slots.len;
    facts.active_blocks = aisim_block_pool_active(&rank->pool);
    facts.inactive_blocks = rank->pool.extents.inactive;
    facts.total_blocks = rank->pool.blocks;
    rank->last_end_ns = end_ns;
    rank->pass++;
    rank->in_flight = false;
    bool stuck = rank->preempted && facts.emitted == 0; /* E-T8 */
    rank->preempting_passes = stuck ? rank->preempting_passes + 1 : 0;
    if (wanted(rank, AISIM_EV_PASS_END)) {
        aisim_event event = {.type = AISIM_EV_PASS_END, .rank = rank->index, .t_ns = end_ns};
        event.u.pass = &facts;
        emit(rank, &event);
    }
}
