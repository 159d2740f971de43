/* admit.c - step 2 of a pass: the head of the waiting queue through the admission gate
 * (spec/engine.md §4.3, §8, §11.5, §11.7). */
#include "sched/plan.h"

/* ---- lookup ---------------------------------------------------------------------------------- */

static bool drops(const aisim_rank *rank, const aisim_request *r)
{
    return rank->rules.drop && aisim_rank_output_left(rank, r) > 0; /* E-H4, R14 */
}

/* E-H3: the last token is recomputed while output is wanted. */
static uint32_t hit_bound(const aisim_rank *rank, const aisim_request *r)
{
    uint32_t known = aisim_known(r);
    return aisim_rank_output_left(rank, r) > 0 ? known - 1 : known;
}

/* E-H3, E-H4. */
static void find_tokens(aisim_rank *rank, const aisim_request *r, aisim_head_hit *hit)
{
    aisim_block_pool *pool = &rank->pool;
    uint32_t limit = hit_bound(rank, r) / pool->block_size;
    hit->whole = limit;
    if (rank->offload.host != NULL) {
        uint32_t all = aisim_known(r) / pool->block_size;
        hit->whole = aisim_block_pool_lookup(pool, r->lease.run, all, &hit->active);
        limit = aisim_min_u32(limit, hit->whole);
    }
    hit->blocks = aisim_block_pool_lookup(pool, r->lease.run, limit, &hit->active);
    if (hit->blocks > 0 && drops(rank, r)) {
        hit->blocks--;
        aisim_block_pool_lookup(pool, r->lease.run, hit->blocks, &hit->active);
    }
    hit->tokens = hit->blocks * pool->block_size;
}

/* E-S8, E-S9: the longest length at which tokens and a checkpoint agree that is complete: not one
 * of `pass`. */
static void find_state(aisim_rank *rank, const aisim_request *r, uint32_t pass, aisim_head_hit *hit)
{
    aisim_block_pool *pool = &rank->pool;
    const aisim_kv_config *kv = &rank->config.kv;
    uint32_t b = pool->block_size, active;
    uint32_t bound = hit_bound(rank, r);
    uint32_t whole = aisim_block_pool_lookup(pool, r->lease.run, aisim_known(r) / b, &active);
    bool fine = kv->prefix_match_unit > 0 && kv->prefix_match_unit < b;
    uint32_t dense = aisim_min_u32(whole * b, bound / b * b);
    if (fine && bound > whole * b) { /* the last page may match partly */
        uint32_t upto = aisim_min_u32(bound, whole * b + b - 1);
        uint32_t part = aisim_page_longest(pool, r->lease.run, whole * b, upto);
        dense = part > dense ? part : dense;
    } else if (fine) { /* bound lies in a whole page: only the beginning of that page counts */
        uint32_t part = aisim_page_longest(pool, r->lease.run, dense, bound);
        dense = part > dense ? part : dense;
    }
    if (dense >= b && drops(rank, r)) {
        dense -= b; /* once, before a checkpoint is searched */
    }
    bool wait = kv->same_pass_hit == AISIM_SAME_PASS_WAIT; /* R12 */
    aisim_state_hit found = aisim_state_find(pool, r->lease.run, dense, whole, pass, wait);
    hit->tokens = found.tokens;
    hit->source = found.state;
    hit->same_pass = found.same_pass;
    hit->junction = dense > found.tokens ? dense : 0; /* N2 */
    hit->blocks = found.tokens / b;
    if (found.tokens % b != 0) {
        hit->partial = aisim_page_find(pool, r->lease.run, found.tokens);
    }
    aisim_block_pool_lookup(pool, r->lease.run, hit->blocks, &hit->active);
}

static bool memo_holds(const aisim_rank *rank, uint32_t slot, const aisim_request *r)
{
    return rank->memo_slot == slot && rank->memo_request_generation == r->generation &&
           rank->memo_index_generation == aisim_block_pool_generation(&rank->pool) &&
           rank->memo_known == aisim_known(r) && rank->memo_stable;
}

/* E-P10 with the memo of a blocked head (§19.12). */
static aisim_head_hit lookup(aisim_rank *rank, uint32_t slot, const aisim_request *r)
{
    if (memo_holds(rank, slot, r)) {
        return rank->memo;
    }
    aisim_head_hit hit = {.source = AISIM_NO_STATE, .partial = AISIM_NONE};
    if (rank->pool.prefix_caching && !(r->flags & AISIM_REQF_NO_READ)) {
        if (aisim_rank_stateful(rank)) {
            find_state(rank, r, rank->plan_serial, &hit);
        } else {
            find_tokens(rank, r, &hit);
        }
    }
    rank->memo_slot = slot;
    rank->memo_request_generation = r->generation;
    rank->memo_index_generation = aisim_block_pool_generation(&rank->pool);
    rank->memo_known = aisim_known(r);
    rank->memo_stable = !aisim_rank_stateful(rank); /* a checkpoint may become visible by itself */
    rank->memo = hit;
    return hit;
}

uint32_t aisim_rank_usable_blocks(aisim_rank *rank, const aisim_request *r)
{
    uint32_t active;
    if (!rank->pool.prefix_caching || !aisim_rank_stateful(rank)) {
        return aisim_block_pool_lookup(&rank->pool, r->lease.run,
                                       r->prompt_tokens / rank->pool.block_size, &active);
    }
    aisim_head_hit hit = {.source = AISIM_NO_STATE, .partial = AISIM_NONE};
    uint32_t running =
        rank->plan_serial + (rank->in_flight == 0); /* its checkpoints are not there */
    find_state(rank, r, running, &hit);
    return hit.tokens / rank->pool.block_size;
}

/* ---- gate ------------------------------------------------------------------------------------ */

uint64_t aisim_rank_admission_reserve(const aisim_rank *rank)
{
    double w = rank->config.scheduler.watermark;
    return w > 0.0 && rank->running.len > 0 ? (uint64_t)(w * (double)rank->pool.blocks) : 0;
}

/* Inactive blocks that a restore pins: source and partial page (E-S11). */
static uint32_t idle_pins(const aisim_rank *rank, const aisim_head_hit *hit)
{
    const aisim_extent *extents = rank->pool.extents.slots.data;
    uint32_t idle = 0;
    if (hit->source.extent != AISIM_NONE && extents[hit->source.extent].refs == 0) {
        idle += extents[hit->source.extent].count;
    }
    if (hit->partial != AISIM_NONE && extents[hit->partial].refs == 0) {
        idle++;
    }
    return idle;
}

/* E-P12: the whole known context is charged; idle hit blocks get no discount. */
static uint64_t gate_needs(const aisim_rank *rank, const aisim_request *r,
                           const aisim_head_hit *hit)
{
    uint64_t need = aisim_blocks_of(&rank->pool, aisim_known(r));
    uint64_t there = hit->reserved > hit->active ? hit->reserved : hit->active;
    need -= there < need ? there : need;
    if (aisim_rank_stateful(rank)) {
        need += rank->config.kv.state_blocks + idle_pins(rank, hit);
    }
    return need;
}

bool aisim_rank_gate_opens(const aisim_rank *rank, const aisim_request *r,
                           const aisim_head_hit *hit, bool load)
{
    uint64_t need = gate_needs(rank, r, hit);
    uint64_t available =
        aisim_load_available(rank->pool.blocks, aisim_block_pool_active(&rank->pool),
                             load ? rank->offload.headroom : 0); /* E-R4 */
    return need + aisim_rank_admission_reserve(rank) <= available;
}

static aisim_end_reason reject_reason(const aisim_rank *rank, const aisim_request *r)
{
    if (r->prompt_tokens == 0) {
        return AISIM_END_REJECTED_EMPTY; /* E-T3 */
    }
    if (r->prompt_tokens >= aisim_rank_limit(rank)) {
        return AISIM_END_REJECTED_CONTEXT; /* E-T1 */
    }
    if (!rank->config.scheduler.chunked_prefill && rank->config.scheduler.context_length == 0 &&
        r->prompt_tokens > rank->config.scheduler.max_batched_tokens) {
        return AISIM_END_REJECTED_CAPACITY; /* engine.md §2: it would wait for ever */
    }
    return AISIM_END_NONE;
}

/* ---- admission ------------------------------------------------------------------------------- */

/* The request leaves whatever queue it stands in. */
static void take_out(aisim_rank *rank, uint32_t slot)
{
    if (aisim_rank_request(rank, slot)->state == AISIM_REQ_SKIPPED) {
        aisim_offload_forget(rank, slot);
    } else {
        aisim_rank_dequeue(rank, slot);
    }
}

/* The request leaves the queue for the running list; C = reused. */
static void join(aisim_rank *rank, uint32_t slot, uint32_t reused, uint32_t recurrent,
                 uint32_t junction)
{
    aisim_request *r = aisim_rank_request(rank, slot);
    aisim_decision decision = {.kind = AISIM_DECIDED_ADMIT,
                               .slot = slot,
                               .generation = r->generation,
                               .tokens = reused,
                               .wait_ns = rank->now_ns - r->waiting_since_ns};
    aisim_array_push(&aisim_rank_current(rank)->decisions, decision);
    rank->arrived -= aisim_rank_arrived(r);
    bool came = (r->flags & AISIM_REQF_ARRIVED) != 0 && r->state != AISIM_REQ_PREEMPTED;
    take_out(rank, slot);
    uint32_t of_prompt = aisim_min_u32(reused, r->prompt_tokens);
    if (came) { /* first in this pool: report.md §1 counts stalls and reuse per pool */
        r->flags |= AISIM_REQF_MOVED | (r->computed == 0 ? AISIM_REQF_RESUMED : 0);
    } else if (r->admissions == 0) {
        r->first_admit_ns = rank->now_ns;
        r->first_reused = of_prompt; /* E-L4 */
    } else {
        r->stall_ns += rank->now_ns - r->waiting_since_ns;
        r->flags |= AISIM_REQF_RESUMED;
    }
    if (of_prompt > r->max_reused && (r->flags & AISIM_REQF_MOVED) == 0) {
        r->max_reused = of_prompt;
    }
    r->admissions++;
    r->state = AISIM_REQ_RUNNING;
    r->position = rank->running.len;
    aisim_running running = {.slot = slot,
                             .entry = AISIM_NONE,
                             .recurrent = recurrent,
                             .cruiser = AISIM_NONE,
                             .junction = junction};
    aisim_array_push(&rank->running, running);
}

static void enter(aisim_rank *rank, uint32_t slot, uint32_t reused, uint32_t recurrent,
                  uint32_t junction, uint32_t d, uint32_t slots)
{
    join(rank, slot, reused, recurrent, junction);
    if (recurrent != AISIM_NONE && reused > 0) { /* E-S8: without its state nothing is reused */
        aisim_batch *batch = aisim_rank_current(rank);
        batch->decisions.data[batch->decisions.len - 1].restored = true;
    }
    aisim_plan_entry *entry = aisim_rank_book(rank, slot, reused, d, slots);
    entry->admitted = true;
    entry->reused = reused;
}

typedef enum { ADMITTED, NEXT_HEAD, STOP, SKIP } outcome;

static outcome reject_head(aisim_rank *rank, uint32_t slot, aisim_end_reason reason)
{
    rank->arrived -= aisim_rank_arrived(aisim_rank_request(rank, slot));
    take_out(rank, slot);
    aisim_rank_give_back(rank, slot, AISIM_NONE); /* an activated hand-off owns its prompt */
    aisim_rank_decide_reject(rank, slot, reason);
    return NEXT_HEAD;
}

static aisim_recurrent *received_state(const aisim_rank *rank, uint32_t slot)
{
    for (uint32_t i = 0; i < rank->received.len; i++) {
        if (rank->received.data[i].slot == slot) {
            return &rank->recurrents.slots.data[rank->received.data[i].recurrent];
        }
    }
    return NULL;
}

/* E-P9: an activated hand-off has everything already, but for the token that came with it. */
static outcome admit_resident(aisim_rank *rank, uint32_t slot)
{
    aisim_request *r = aisim_rank_request(rank, slot);
    uint32_t known = aisim_known(r), from = r->computed, d = known - from, own = 0;
    aisim_grant grant = {.watermark = known, .slots = known};
    aisim_recurrent *state = received_state(rank, slot);
    if (state != NULL && d > 0) { /* E-S7 */
        aisim_recurrent_begin(state, &rank->pool, rank->plan_serial);
        grant.extra = aisim_recurrent_extra(state, &rank->rules, &rank->pool, known);
        own = rank->config.kv.state_blocks + grant.extra;
    }
    if (rank->config.scheduler.never_fits == AISIM_NEVER_FITS_REJECT &&
        !aisim_rank_fits_alone(rank, r, 0, own)) { /* its first token crossed the end of the pool */
        return reject_head(rank, slot, AISIM_END_REJECTED_CAPACITY);
    }
    if (d > rank->budget_left || !aisim_grant_fits(&rank->pool, &r->lease, &grant)) {
        return STOP;
    }
    aisim_grant_take(&rank->pool, &r->lease, &grant);
    uint32_t recurrent = aisim_rank_take_received(rank, slot);
    if (recurrent != AISIM_NONE && d > 0) {
        aisim_recurrent_write(&rank->recurrents, recurrent, &rank->rules, &rank->pool, known,
                              grant.extra, rank->plan_serial);
    }
    join(rank, slot, r->prompt_tokens, recurrent, 0);
    aisim_plan_entry *entry = aisim_rank_book(rank, slot, from, d, known);
    entry->admitted = true;
    entry->reused = r->prompt_tokens;
    return ADMITTED;
}

/* N3: the first decode after a near-total hit is padded to the width of a verification. */
static bool padded(const aisim_rank *rank, const aisim_request *r, uint32_t reused)
{
    const aisim_speculation_config *config = &rank->config.speculation;
    return config->pad_first_decode && config->mode != AISIM_SPECULATION_NONE && reused > 0 &&
           aisim_known(r) - reused == 1 && rank->prompt_planned == 0 &&
           (uint64_t)reused + 1 + config->depth < aisim_rank_limit(rank);
}

static bool take_capacity(aisim_rank *rank, aisim_request *r, const aisim_head_hit *hit,
                          uint32_t target, uint32_t slots, uint32_t *recurrent)
{
    bool stateful = aisim_rank_stateful(rank);
    aisim_grant grant = {.watermark = aisim_min_u32(slots, aisim_known(r)),
                         .slots = slots,
                         .hit_blocks = hit->blocks,
                         .hit_active = hit->active,
                         .extra = stateful ? rank->config.kv.state_blocks : 0,
                         .idle_pins = idle_pins(rank, hit),
                         .reserve = rank->config.scheduler.reserve_full_prompt
                                        ? 0
                                        : aisim_rank_admission_reserve(rank)};
    if (!aisim_grant_fits(&rank->pool, &r->lease, &grant)) {
        return false;
    }
    *recurrent = AISIM_NONE;
    if (stateful) {
        *recurrent = aisim_recurrent_take(&rank->recurrents);
        aisim_recurrent_pin(&rank->recurrents, *recurrent, &rank->rules, &rank->pool, hit->source,
                            hit->partial, rank->plan_serial);
    }
    aisim_grant_take(&rank->pool, &r->lease, &grant);
    if (stateful) {
        aisim_recurrent_start(&rank->recurrents.slots.data[*recurrent], &rank->rules, &rank->pool,
                              target);
    }
    return true;
}

static void count_state(aisim_rank *rank, const aisim_head_hit *hit)
{
    aisim_recurrent_totals *totals = &rank->recurrents.totals;
    totals->admissions++;
    totals->restores += hit->source.extent != AISIM_NONE;
    totals->usable_tokens += hit->tokens;
    totals->matched_tokens += hit->junction > hit->tokens ? hit->junction : hit->tokens;
}

static outcome admit_with_hit(aisim_rank *rank, uint32_t slot, const aisim_head_hit *hit)
{
    const aisim_scheduler_config *config = &rank->config.scheduler;
    aisim_request *r = aisim_rank_request(rank, slot);
    uint32_t reused = hit->tokens + hit->external, known = aisim_known(r);
    bool rejects = config->never_fits == AISIM_NEVER_FITS_REJECT; /* R1 */
    uint32_t state = 0;
    if (aisim_rank_stateful(rank)) { /* E-S12 */
        uint32_t k = rank->config.kv.state_blocks;
        state = k + (hit->source.extent != AISIM_NONE ? k : 0) + (hit->partial != AISIM_NONE);
    }
    if (rejects && !aisim_rank_fits_alone(rank, r, 0, state)) { /* E-P11 */
        return reject_head(rank, slot, AISIM_END_REJECTED_CAPACITY);
    }
    if (config->reserve_full_prompt && !aisim_rank_gate_opens(rank, r, hit, false)) {
        return STOP; /* E-P12, R2 */
    }
    if (rank->deferred && known - reused > 1) {
        return STOP; /* E-P13 */
    }
    uint32_t d = aisim_rank_share(rank, r, reused, 0); /* E-P14 */
    bool pad = padded(rank, r, reused);
    if (d > 0 && !pad && aisim_rank_point(rank, AISIM_POINT_CHUNK)) {
        d = aisim_rank_ask_chunk(rank, r, reused, d);
    }
    if (pad) {
        d = 1 + rank->config.speculation.depth;
        if (d > rank->budget_left) {
            return STOP;
        }
    }
    if (aisim_rank_unsplittable(rank, r, reused)) {
        return STOP;
    }
    if (d > 0 && !pad) {
        d = aisim_rank_split(rank, r, hit->junction, reused, d);
    }
    if (d == 0 && reused < known) {
        return STOP;
    }
    bool looks_ahead = rank->config.speculation.first_chunk_lookahead || /* R16 */
                       (hit->reserved > 0 && reused > 0);                /* mtp.md §9: C > 0 */
    uint32_t lookahead =
        aisim_rank_native(rank) && looks_ahead ? rank->config.speculation.lookahead_slots : 0;
    uint32_t slots = aisim_min_u32(reused + d + lookahead, aisim_rank_limit(rank));
    if (rejects && !aisim_rank_fits_alone(rank, r, slots, state)) { /* N5 */
        return reject_head(rank, slot, AISIM_END_REJECTED_CAPACITY);
    }
    uint32_t recurrent;
    if (!take_capacity(rank, r, hit, aisim_min_u32(reused + d, known), slots, &recurrent)) {
        return STOP; /* N4; cannot happen after the gate without look-ahead (E-P15) */
    }
    if (hit->reserved > 0) { /* offload.md §7.6 */
        r->host_reused = r->admissions == 0 ? hit->from_host : r->host_reused;
        r->stored_blocks = reused / rank->pool.block_size;
    }
    if (recurrent != AISIM_NONE) {
        count_state(rank, hit);
    }
    enter(rank, slot, reused, recurrent, hit->junction, d, slots);
    return ADMITTED;
}

/* Point admit. ADMITTED: no objection, the gate decides; what can never fit is not asked about. */
static outcome ask_admit(aisim_rank *rank, uint32_t slot, const aisim_head_hit *hit)
{
    const aisim_request *r = aisim_rank_request(rank, slot);
    if (rank->config.scheduler.never_fits == AISIM_NEVER_FITS_REJECT &&
        !aisim_rank_fits_alone(rank, r, 0, 0)) {
        return ADMITTED;
    }
    uint64_t free_blocks = rank->pool.blocks - aisim_block_pool_active(&rank->pool);
    switch (aisim_rank_ask_admit(rank, slot, gate_needs(rank, r, hit), free_blocks)) {
    case AISIM_ADMIT_SKIP:
        return SKIP;
    case AISIM_ADMIT_STOP:
        return STOP;
    case AISIM_ADMIT_YES:
        break;
    }
    return ADMITTED;
}

static outcome plan_head(aisim_rank *rank, uint32_t slot)
{
    aisim_request *r = aisim_rank_request(rank, slot);
    aisim_end_reason reason = reject_reason(rank, r); /* E-P8 */
    if (reason != AISIM_END_NONE) {
        return reject_head(rank, slot, reason);
    }
    if (r->outstanding > 0 || aisim_rank_held_back(rank, r)) {
        return STOP; /* N1; §15 point 5 */
    }
    if (r->computed >= r->prompt_tokens && r->lease.allocated >= r->prompt_tokens) {
        return admit_resident(rank, slot);
    }
    aisim_head_hit hit = {.source = AISIM_NO_STATE, .partial = AISIM_NONE};
    if (!aisim_offload_loaded(rank, r)) {
        hit = lookup(rank, slot, r);
    }
    if (rank->connector_tokens > 0) {
        uint32_t rest = aisim_known(r) - hit.tokens; /* the last token is computed here */
        hit.external = aisim_min_u32(rank->connector_tokens, rest > 0 ? rest - 1 : 0);
    }
    if (hit.same_pass) {
        return STOP;
    }
    if (aisim_rank_point(rank, AISIM_POINT_ADMIT) && r->state != AISIM_REQ_SKIPPED) {
        outcome asked = ask_admit(rank, slot, &hit);
        if (asked != ADMITTED) {
            return asked;
        }
    }
    if (rank->offload.host != NULL) {
        if (rank->config.scheduler.never_fits == AISIM_NEVER_FITS_REJECT &&
            !aisim_rank_fits_alone(rank, r, 0, 0)) { /* E-P11, before anything is touched */
            return reject_head(rank, slot, AISIM_END_REJECTED_CAPACITY);
        }
        aisim_offload_step step = aisim_offload_examine(rank, slot, &hit);
        if (step != AISIM_OFFLOAD_GO_ON) {
            return step == AISIM_OFFLOAD_NEXT ? NEXT_HEAD : STOP;
        }
    }
    return admit_with_hit(rank, slot, &hit);
}

/* A hand-off that has arrived, then the connector queue (offload.md §7.5); under `priority` the
 * better key of both heads. */
static uint32_t next_head(const aisim_rank *rank)
{
    uint32_t waits = aisim_queue_head(&rank->waiting), ready = aisim_offload_head(rank);
    if (ready == AISIM_NONE || waits == AISIM_NONE) {
        return ready == AISIM_NONE ? waits : ready;
    }
    const aisim_request *a = aisim_rank_request(rank, ready), *b = aisim_rank_request(rank, waits);
    if (aisim_rank_arrived(b)) {
        return waits;
    }
    bool later =
        rank->config.scheduler.policy == AISIM_POLICY_PRIORITY &&
        (b->priority < a->priority || (b->priority == a->priority && b->ordinal < a->ordinal));
    return later ? waits : ready;
}

/* Nothing runs, so nothing will come free, and what blocks the head is held by hand-offs that wait
 * behind it with their blocks: the newest of them loses its own. Rare: a prompt that ends at a
 * block boundary needs one block more than was reserved for it. */
static bool unblock(aisim_rank *rank, uint32_t head)
{
    if (rank->running.len > 0 || rank->in_flight > 0 || !aisim_rank_drop_arrived(rank, head)) {
        return false;
    }
    if (aisim_rank_held_back(rank, aisim_rank_request(rank, head))) {
        aisim_rank_retry_reservations(rank);
    }
    return true;
}

/* The head waits outside the queue while those behind it are looked at; it keeps its place. */
static void step_aside(aisim_rank *rank, uint32_t slot)
{
    aisim_queue *queue = &rank->waiting;
    aisim_skipped passed = {slot, aisim_queue_at(queue, aisim_rank_request(rank, slot)->position)};
    aisim_array_push(&rank->passed, passed);
    aisim_queue_remove(queue, &rank->engine->requests, slot);
}

static void step_back(aisim_rank *rank)
{
    for (uint32_t i = 0; i < rank->passed.len; i++) {
        aisim_queue_push(&rank->waiting, &rank->engine->requests, rank->passed.data[i].slot,
                         rank->passed.data[i].key);
    }
    rank->passed.len = 0;
}

void aisim_rank_plan_waiting(aisim_rank *rank)
{
    const aisim_scheduler_config *config = &rank->config.scheduler;
    bool at_zero = config->admit_at_zero_budget && rank->offload.host == NULL; /* R5 */
    uint32_t head = next_head(rank), passed = AISIM_NONE;
    bool stopped = false;
    while (rank->running.len < config->max_sequences && (rank->budget_left > 0 || at_zero) &&
           head != AISIM_NONE) { /* E-P7 */
        outcome result = plan_head(rank, head);
        if (result == STOP && !stopped && rank->arrived > 0 && unblock(rank, head)) {
            head = next_head(rank);
            continue;
        }
        if (result == STOP) { /* nobody overtakes but those who hold their blocks already */
            bool connector = aisim_rank_request(rank, head)->state == AISIM_REQ_SKIPPED;
            passed = connector ? head : AISIM_NONE;
            stopped = true;
        }
        if (result == SKIP) {
            step_aside(rank, head);
        }
        const aisim_batch *batch = aisim_rank_current(rank);
        if (result == ADMITTED && rank->budget_left == 0 &&
            batch->plan.data[batch->plan.len - 1].tokens == 0) {
            break; /* E-P16 */
        }
        head = stopped ? aisim_offload_loaded_behind(rank, passed) : next_head(rank);
    }
    step_back(rank);
}
