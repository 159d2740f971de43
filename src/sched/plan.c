/* plan.c - one scheduling decision for a whole rank (spec/engine.md §4): running requests in order,
 * then the head of the waiting queue (admit.c). */
#include "sched/plan.h"

#include "sched/split.h"

/* ---- shares ---------------------------------------------------------------------------------- */

static uint32_t threshold(const aisim_rank *rank)
{
    uint32_t n = rank->config.scheduler.long_prefill_token_threshold; /* R4 */
    return n == 0 ? UINT32_MAX : n;
}

uint32_t aisim_rank_share(const aisim_rank *rank, const aisim_request *r, uint32_t from,
                          uint32_t placeholders)
{
    uint32_t goal = aisim_known(r) + r->drafts + placeholders;
    uint32_t d = goal > from ? goal - from : 0;
    d = aisim_min_u32(aisim_min_u32(d, threshold(rank)), rank->budget_left);
    uint32_t limit = aisim_rank_limit(rank);
    if (limit != UINT32_MAX) { /* mtp.md §3; never binds without drafts */
        d = aisim_min_u32(d, limit - 1 > from ? limit - 1 - from : 0);
    }
    return d;
}

bool aisim_rank_unsplittable(const aisim_rank *rank, const aisim_request *r, uint32_t from)
{
    return !rank->config.scheduler.chunked_prefill && from < r->prompt_tokens &&
           aisim_min_u32(r->prompt_tokens - from, threshold(rank)) > rank->budget_left;
}

uint32_t aisim_rank_split(const aisim_rank *rank, const aisim_request *r, uint32_t junction,
                          uint32_t from, uint32_t d)
{
    const aisim_kv_config *kv = &rank->config.kv;
    if (kv->state_mode != AISIM_STATE_ALIGNED || !kv->prefix_caching) {
        return d; /* E-P3 */
    }
    aisim_split in = {.kind = kv->align_split,
                      .block_size = kv->block_size,
                      .unit = kv->prefix_match_unit,
                      .cap =
                          aisim_min_u32(rank->config.scheduler.max_batched_tokens, threshold(rank)),
                      .drop = rank->rules.drop,
                      .junction = junction,
                      .start = from,
                      .prompt = r->prompt_tokens,
                      .known = aisim_known(r),
                      .desired = d};
    return aisim_split_tokens(&in);
}

bool aisim_rank_fits_alone(const aisim_rank *rank, const aisim_request *r, uint32_t slots,
                           uint32_t state_blocks)
{
    uint32_t known = aisim_known(r);
    uint64_t blocks = aisim_blocks_of(&rank->pool, slots > known ? slots : known);
    return blocks + state_blocks <= rank->pool.blocks;
}

/* ---- booking --------------------------------------------------------------------------------- */

void aisim_rank_shape_entry(aisim_rank *rank, const aisim_plan_entry *entry, int sign)
{
    aisim_pass_shape *shape = &aisim_rank_current(rank)->shape;
    if (entry->idle) {
        return;
    }
    uint64_t step = (uint64_t)(int64_t)sign; /* wraps back on undo */
    if (entry->prefill) {                    /* E-O4: prompt chunks and resumed contexts */
        shape->n_prefill += step;
        shape->new_tokens += step * entry->tokens;
        shape->past_tokens += step * entry->before;
    } else {
        shape->n_decode += step;
        shape->context_tokens += step * entry->known;
    }
}

/* N1, async: outputs of this pass are anticipated. */
static void anticipate(aisim_rank *rank, aisim_request *r, const aisim_plan_entry *entry)
{
    if (rank->config.scheduler.overlap != AISIM_OVERLAP_ASYNC || !entry->samples) {
        return;
    }
    aisim_running *running = &rank->running.data[r->position];
    running->placeholders += 1u + entry->drafts;
    r->drafts = (uint8_t)rank->config.speculation.depth;
    running->unknown_drafts = r->drafts > 0;
}

void aisim_rank_checkpoint(aisim_rank *rank, const aisim_request *r, uint32_t recurrent,
                           uint32_t end)
{
    bool made = aisim_recurrent_publish(&rank->recurrents, recurrent, &rank->rules, &rank->pool, r,
                                        end, rank->plan_serial);
    if (made && aisim_wanted(&rank->engine->observers, AISIM_EV_STATE_CHECKPOINT)) {
        aisim_decision decision = {.kind = AISIM_DECIDED_CHECKPOINT,
                                   .slot = aisim_requests_slot(r),
                                   .generation = r->generation,
                                   .tokens = end};
        aisim_array_push(&aisim_rank_current(rank)->decisions, decision);
    }
}

aisim_plan_entry *aisim_rank_book(aisim_rank *rank, uint32_t slot, uint32_t from, uint32_t d,
                                  uint32_t slots)
{
    aisim_request *r = aisim_rank_request(rank, slot);
    aisim_running *running = &rank->running.data[r->position];
    uint32_t known = aisim_known(r), end = from + d;
    uint32_t real = aisim_min_u32(end, known), goal = known + running->placeholders;
    aisim_plan_entry entry = {.slot = slot,
                              .generation = r->generation,
                              .epoch = r->preemptions,
                              .before = from,
                              .tokens = d,
                              .known = known,
                              .slots = slots,
                              .published_before = r->lease.published,
                              .drafts = (uint8_t)(end > goal ? end - goal : 0),
                              .samples = end >= goal,
                              .idle = d == 0 && aisim_rank_output_left(rank, r) == 0,
                              .prefill =
                                  from < r->prompt_tokens || (r->flags & AISIM_REQF_RESUMED) != 0};
    entry.verified = entry.drafts;
    aisim_batch *batch = aisim_rank_current(rank);
    running->entry = batch->plan.len;
    aisim_array_push(&batch->plan, entry);
    aisim_rank_shape_entry(rank, &entry, 1);
    r->computed = end;
    rank->budget_left -= d;
    if (from < r->prompt_tokens) {
        rank->prompt_planned += aisim_min_u32(real, r->prompt_tokens) - from;
    }
    uint32_t *page = NULL;
    if (running->recurrent != AISIM_NONE) {
        page = &rank->recurrents.slots.data[running->recurrent].page;
    }
    aisim_lease_publish(&rank->pool, &r->lease, real / rank->pool.block_size, page); /* E-H5, N6 */
    if (running->recurrent != AISIM_NONE && d > 0 && end <= known) {
        aisim_rank_checkpoint(rank, r, running->recurrent, end); /* E-S3 */
    }
    if (entry.samples) {
        r->outstanding++;
    }
    aisim_offload_refresh(rank, slot);
    anticipate(rank, r, &entry);
    return &batch->plan.data[batch->plan.len - 1];
}

void aisim_rank_decide_reject(aisim_rank *rank, uint32_t slot, aisim_end_reason reason)
{
    aisim_request *r = aisim_rank_request(rank, slot);
    aisim_decision decision = {.kind = AISIM_DECIDED_REJECT,
                               .slot = slot,
                               .generation = r->generation,
                               .reason = (uint8_t)reason};
    aisim_array_push(&aisim_rank_current(rank)->decisions, decision);
    r->state = AISIM_REQ_DONE; /* in no queue any more; its end becomes visible at the pass end */
}

/* ---- step 1: running requests ---------------------------------------------------------------- */

static bool rejects(const aisim_rank *rank)
{
    return rank->config.scheduler.never_fits == AISIM_NEVER_FITS_REJECT; /* R1 */
}

/* N1, async: nothing of a further pass could be delivered. */
static bool passed_over(const aisim_rank *rank, const aisim_request *r)
{
    if (rank->config.scheduler.overlap != AISIM_OVERLAP_ASYNC) {
        return false;
    }
    uint32_t placeholders = rank->running.data[r->position].placeholders;
    return placeholders > 0 && (uint64_t)r->computed + 2 >=
                                   (uint64_t)r->prompt_tokens + r->output_tokens + placeholders;
}

static aisim_recurrent *state_of(const aisim_rank *rank, const aisim_request *r)
{
    uint32_t slot = rank->running.data[r->position].recurrent;
    return slot == AISIM_NONE ? NULL : &rank->recurrents.slots.data[slot];
}

/* E-K2, E-K3, E-P4, E-S7: capacity for a running request, its state included. */
static bool allocate(aisim_rank *rank, aisim_request *r, uint32_t target, uint32_t slots)
{
    aisim_grant grant = {.watermark = aisim_min_u32(slots, aisim_known(r)), .slots = slots};
    aisim_recurrent *state = state_of(rank, r);
    if (state != NULL) {
        aisim_recurrent_begin(state, &rank->pool, rank->plan_serial);
        grant.extra = aisim_recurrent_extra(state, &rank->rules, &rank->pool, target);
    }
    if (!aisim_grant_fits(&rank->pool, &r->lease, &grant)) {
        return false;
    }
    aisim_grant_take(&rank->pool, &r->lease, &grant);
    if (state != NULL) {
        aisim_recurrent_write(&rank->recurrents, rank->running.data[r->position].recurrent,
                              &rank->rules, &rank->pool, target, grant.extra, rank->plan_serial);
    }
    return true;
}

/* Room that the request needs beside its token blocks when nobody else is there (E-S13). */
static uint32_t own_state_blocks(const aisim_rank *rank, const aisim_request *r, uint32_t target)
{
    const aisim_recurrent *state = state_of(rank, r);
    if (state == NULL) {
        return 0;
    }
    return rank->config.kv.state_blocks +
           aisim_recurrent_extra(state, &rank->rules, &rank->pool, target);
}

typedef enum { STEP_NEXT, STEP_SAME_PLACE, STEP_END } step;

/* E-P4: capacity at the cost of victims, then booking. *place moves with the list. */
static step make_room(aisim_rank *rank, uint32_t *place, uint32_t d)
{
    uint32_t slot = rank->running.data[*place].slot;
    aisim_request *r = aisim_rank_request(rank, slot);
    uint32_t lookahead = aisim_rank_native(rank) ? rank->config.speculation.lookahead_slots : 0;
    uint32_t end = r->computed + d, target = aisim_min_u32(end, aisim_known(r));
    uint32_t slots = aisim_min_u32(end + lookahead, aisim_rank_limit(rank));
    if (rejects(rank) &&
        !aisim_rank_fits_alone(rank, r, slots, own_state_blocks(rank, r, target))) {
        aisim_rank_give_back(rank, slot, AISIM_NONE); /* E-P1a, D1; E-S13, N5 */
        aisim_rank_unrun(rank, *place);
        aisim_rank_decide_reject(rank, slot, AISIM_END_REJECTED_CAPACITY);
        return STEP_SAME_PLACE;
    }
    while (!allocate(rank, r, target, slots)) {
        if (rank->running.len == 1 && aisim_rank_drop_arrived(rank, AISIM_NONE)) {
            continue; /* it would give way to hand-offs that wait behind it, and again and again */
        }
        uint32_t victim = aisim_rank_victim(rank, *place);
        bool self = victim == *place;
        aisim_rank_preempt(rank, victim, true);
        if (self) {
            bool end_pass =
                rank->config.scheduler.self_preemption == AISIM_SELF_PREEMPTION_END_PASS; /* R6 */
            return end_pass ? STEP_END : STEP_SAME_PLACE;
        }
        *place -= victim < *place; /* E-V3, D2 */
    }
    aisim_rank_book(rank, slot, r->computed, d, slots);
    return STEP_NEXT;
}

static step plan_one(aisim_rank *rank, uint32_t *place)
{
    const aisim_request *r = aisim_rank_request(rank, rank->running.data[*place].slot);
    if ((rank->deferred && r->computed < r->prompt_tokens) || passed_over(rank, r)) {
        return STEP_NEXT; /* E-P1 */
    }
    if (aisim_rank_unsplittable(rank, r, r->computed)) {
        return STEP_END; /* E-P2 */
    }
    const aisim_running *running = &rank->running.data[*place];
    uint32_t d = aisim_rank_share(rank, r, r->computed, running->placeholders);
    if (d > 0 && aisim_rank_point(rank, AISIM_POINT_CHUNK)) {
        d = aisim_rank_ask_chunk(rank, r, r->computed, d);
    }
    if (d > 0) {
        d = aisim_rank_split(rank, r, running->junction, r->computed, d);
    }
    if (d == 0) {
        return STEP_NEXT; /* E-P3: passed over, those behind it still run */
    }
    return make_room(rank, place, d);
}

static void plan_running(aisim_rank *rank)
{
    uint32_t place = aisim_cruise_plan(rank) ? rank->cruise.n : 0;
    while (place < rank->running.len && rank->budget_left > 0) {
        step next = plan_one(rank, &place);
        if (next == STEP_END) {
            break;
        }
        place += next == STEP_NEXT;
    }
}

/* ---- the pass -------------------------------------------------------------------------------- */

static uint32_t take_batch(aisim_rank *rank)
{
    for (uint32_t i = 0; i < rank->batches.len; i++) {
        if (!rank->batches.data[i].in_use) {
            return i;
        }
    }
    aisim_array_push(&rank->batches, (aisim_batch){.in_use = false});
    return rank->batches.len - 1;
}

static void begin(aisim_rank *rank, int64_t t_ns, bool defer)
{
    rank->current = take_batch(rank);
    aisim_batch *batch = aisim_rank_current(rank);
    batch->begin_ns = t_ns;
    batch->plan.len = 0;
    batch->decisions.len = 0;
    batch->cruised = 0;
    bool speculates = rank->config.speculation.mode != AISIM_SPECULATION_NONE;
    batch->shape =
        (aisim_pass_shape){.verify_width = 1 + (speculates ? rank->config.speculation.depth : 0)};
    aisim_rank_listen(rank);
    rank->now_ns = t_ns;
    rank->plan_serial++;
    rank->budget_left = rank->config.scheduler.max_batched_tokens; /* E-P0 */
    rank->prompt_planned = 0;
    rank->preempted = false;
    rank->deferred = defer;
    rank->kept_waiting = 0;
    aisim_recurrents_begin_pass(&rank->recurrents, &rank->pool);
    for (uint32_t i = 0; rank->in_flight > 0 && i < rank->running.len; i++) {
        rank->running.data[i].entry = AISIM_NONE; /* of the batch planned before */
    }
}

/* N1, async: unknown drafts of a request that was not planned are dropped. */
static void drop_stale_drafts(aisim_rank *rank)
{
    for (uint32_t i = 0; i < rank->running.len; i++) {
        aisim_running *running = &rank->running.data[i];
        if (running->unknown_drafts && running->entry == AISIM_NONE) {
            aisim_rank_request(rank, running->slot)->drafts = 0;
            running->unknown_drafts = false;
        }
    }
}

uint32_t aisim_rank_plan(aisim_rank *rank, int64_t t_ns, bool defer)
{
    begin(rank, t_ns, defer);
    plan_running(rank);
    if (!rank->preempted) { /* E-P6 */
        aisim_rank_plan_waiting(rank);
    }
    if (rank->config.speculation.mode == AISIM_SPECULATION_BURST) {
        aisim_rank_burst_reserve(rank);
    }
    if (!defer && !rank->preempted) {
        rank->capacity_bound = rank->waiting.slots.len > 0 || rank->offload.ready > 0; /* E-P17 */
    }
    if (rank->config.scheduler.overlap == AISIM_OVERLAP_ASYNC) {
        drop_stale_drafts(rank);
    }
    aisim_offload_close_plan(rank);
    aisim_batch *batch = aisim_rank_current(rank);
    batch->in_use = batch->plan.len > 0 || batch->decisions.len > 0 || batch->cruised > 0;
    rank->in_flight += batch->in_use;
    rank->blocked = !batch->in_use && rank->in_flight == 0;
    return batch->in_use ? rank->current : AISIM_NONE;
}
