/* plan.c - one scheduling decision for a whole rank (spec/engine.md §4): running requests in order,
 * then the head of the waiting queue through the admission gate. */
#include "base/check.h"
#include "sched/plan.h"

/* ---- booking -----------------------------------------------------------------------------------
 */

void aisim_rank_shape_entry(aisim_rank *rank, const aisim_request *r, const aisim_plan_entry *entry,
                            int sign)
{
    aisim_pass_shape *shape = &rank->shape;
    uint64_t step = (uint64_t)(int64_t)sign; /* wraps back on undo */
    if (entry->prefill) {                    /* E-O4: prompt chunks and resumed contexts */
        shape->n_prefill += step;
        shape->new_tokens += step * entry->tokens;
        shape->past_tokens += step * entry->before;
    } else {
        shape->n_decode += step;
        shape->context_tokens += step * aisim_known(r);
    }
}

/* E-P5, E-P15: C moves by d, blocks completed by it become visible at once (E-H5). */
static void book(aisim_rank *rank, uint32_t slot, aisim_request *r, uint32_t d)
{
    aisim_plan_entry entry = {.slot = slot,
                              .generation = r->generation,
                              .before = r->computed,
                              .tokens = d,
                              .published_before = r->lease.published,
                              .prefill = r->computed < r->prompt_tokens ||
                                         (r->flags & AISIM_REQF_RESUMED) != 0};
    rank->running.data[r->position].entry = rank->plan.len;
    aisim_array_push(&rank->plan, entry);
    aisim_rank_shape_entry(rank, r, &entry, 1);
    r->computed += d;
    rank->budget_left -= d;
    aisim_lease_publish(&rank->pool, &r->lease, r->computed / rank->pool.block_size);
}

static void decide_reject(aisim_rank *rank, uint32_t slot, aisim_request *r,
                          aisim_end_reason reason)
{
    aisim_decision decision = {.kind = AISIM_DECIDED_REJECT,
                               .slot = slot,
                               .generation = r->generation,
                               .reason = (uint8_t)reason};
    aisim_array_push(&rank->decisions, decision);
    r->state = AISIM_REQ_DONE; /* in no queue any more; its end becomes visible at the pass end */
}

/* ---- step 1: running requests ------------------------------------------------------------------
 */

/* Tokens the request may compute now: L - C within the caps (E-P2, R4). */
static uint32_t share(const aisim_rank *rank, uint32_t missing)
{
    uint32_t threshold = rank->config.scheduler.long_prefill_token_threshold;
    if (threshold > 0 && missing > threshold) {
        missing = threshold;
    }
    return missing < rank->budget_left ? missing : rank->budget_left;
}

/* E-P2: chunking off and the rest of the prompt is more than the budget. */
static bool unsplittable(const aisim_rank *rank, const aisim_request *r, uint32_t done)
{
    if (rank->config.scheduler.chunked_prefill || done >= r->prompt_tokens) {
        return false;
    }
    uint32_t rest = r->prompt_tokens - done;
    uint32_t threshold = rank->config.scheduler.long_prefill_token_threshold;
    return (threshold > 0 && threshold < rest ? threshold : rest) > rank->budget_left;
}

static void plan_running(aisim_rank *rank)
{
    const aisim_scheduler_config *config = &rank->config.scheduler;
    uint32_t i = 0;
    while (i < rank->running.len && rank->budget_left > 0) {
        uint32_t slot = rank->running.data[i].slot;
        aisim_request *r = aisim_rank_request(rank, slot);
        uint32_t known = aisim_known(r);
        if (config->never_fits == AISIM_NEVER_FITS_REJECT &&
            aisim_blocks_of(&rank->pool, known) > rank->pool.blocks) { /* E-P1a, D1 */
            aisim_lease_release(&rank->pool, &r->lease, AISIM_NONE);
            aisim_rank_unrun(rank, i);
            decide_reject(rank, slot, r, AISIM_END_REJECTED_CAPACITY);
            continue;
        }
        if (rank->deferred && r->computed < r->prompt_tokens) { /* E-P1 */
            i++;
            continue;
        }
        if (unsplittable(rank, r, r->computed)) {
            break;
        }
        uint32_t d = share(rank, known - r->computed);
        if (d == 0) { /* E-P3: passed over, those behind it still run */
            i++;
            continue;
        }
        bool gone = false;
        while (!aisim_lease_allocate(&rank->pool, &r->lease, r->computed + d, 0)) { /* E-P4 */
            uint32_t victim = aisim_rank_victim(rank);
            gone = victim == i;
            aisim_rank_preempt(rank, victim);
            if (gone) {
                break;
            }
            if (victim < i) {
                i--; /* E-V3, D2 */
            }
        }
        if (gone) {
            if (config->self_preemption == AISIM_SELF_PREEMPTION_END_PASS) { /* R6 */
                break;
            }
            continue;
        }
        book(rank, slot, r, d);
        i++;
    }
}

/* ---- step 2: the waiting queue -----------------------------------------------------------------
 */

typedef struct hit {
    uint32_t blocks, active;
} hit;

/* E-P10 with the memo of a blocked head (§19.12). */
static hit lookup(aisim_rank *rank, uint32_t slot, const aisim_request *r)
{
    uint32_t generation = aisim_block_pool_generation(&rank->pool);
    if (rank->memo_slot == slot && rank->memo_request_generation == r->generation &&
        rank->memo_index_generation == generation && rank->memo_known == aisim_known(r)) {
        return (hit){rank->memo_hit, rank->memo_active};
    }
    hit found = {0, 0};
    if (!(r->flags & AISIM_REQF_NO_READ)) {
        uint32_t limit = aisim_rank_hit_bound(rank, r) / rank->pool.block_size; /* E-H3 */
        found.blocks = aisim_block_pool_lookup(&rank->pool, r->lease.run, limit, &found.active);
    }
    rank->memo_slot = slot;
    rank->memo_request_generation = r->generation;
    rank->memo_index_generation = generation;
    rank->memo_known = aisim_known(r);
    rank->memo_hit = found.blocks;
    rank->memo_active = found.active;
    return found;
}

/* Blocks of the optional admission reserve (E-P12b, R3). */
static uint64_t reserve(const aisim_rank *rank)
{
    double w = rank->config.scheduler.watermark;
    return w > 0.0 && rank->running.len > 0 ? (uint64_t)(w * (double)rank->pool.blocks) : 0;
}

/* E-P12: the whole known context is charged; idle hit blocks get no discount. */
static bool gate_opens(const aisim_rank *rank, const aisim_request *r, hit found)
{
    uint64_t need = aisim_blocks_of(&rank->pool, aisim_known(r)) - found.active;
    uint64_t available = rank->pool.free + rank->pool.extents.inactive;
    return need + reserve(rank) <= available;
}

/* R2 off: only what this pass allocates is charged (N4). */
static bool chunk_fits(const aisim_rank *rank, uint32_t target, hit found)
{
    uint64_t need = aisim_blocks_of(&rank->pool, target) - found.active;
    return need + reserve(rank) <= rank->pool.free + rank->pool.extents.inactive;
}

static aisim_end_reason reject_reason(const aisim_rank *rank, const aisim_request *r)
{
    uint64_t limit = rank->config.scheduler.context_length;
    if (r->prompt_tokens == 0) {
        return AISIM_END_REJECTED_EMPTY; /* E-T3 */
    }
    if (limit > 0 && r->prompt_tokens >= limit) {
        return AISIM_END_REJECTED_CONTEXT; /* E-T1 */
    }
    if (!rank->config.scheduler.chunked_prefill && limit == 0 &&
        r->prompt_tokens > rank->config.scheduler.max_batched_tokens) {
        return AISIM_END_REJECTED_CAPACITY; /* engine.md §2: it would wait for ever */
    }
    bool fits = aisim_blocks_of(&rank->pool, aisim_known(r)) <= rank->pool.blocks; /* E-P11 */
    if (rank->config.scheduler.never_fits == AISIM_NEVER_FITS_REJECT && !fits) {
        return AISIM_END_REJECTED_CAPACITY;
    }
    return AISIM_END_NONE;
}

static void admit(aisim_rank *rank, uint32_t slot, aisim_request *r, uint32_t reused)
{
    aisim_decision decision = {.kind = AISIM_DECIDED_ADMIT,
                               .slot = slot,
                               .generation = r->generation,
                               .tokens = reused,
                               .wait_ns = rank->begin_ns - r->waiting_since_ns};
    aisim_array_push(&rank->decisions, decision);
    aisim_rank_dequeue(rank, slot);
    uint32_t of_prompt = reused < r->prompt_tokens ? reused : r->prompt_tokens;
    if (r->admissions == 0) {
        r->first_admit_ns = rank->begin_ns;
        r->first_reused = of_prompt; /* E-L4 */
    } else {
        r->stall_ns += rank->begin_ns - r->waiting_since_ns;
        r->flags |= AISIM_REQF_RESUMED;
    }
    if (of_prompt > r->max_reused) {
        r->max_reused = of_prompt;
    }
    r->admissions++;
    r->state = AISIM_REQ_RUNNING;
    r->computed = reused;
    r->position = rank->running.len;
    aisim_running running = {slot, AISIM_NONE};
    aisim_array_push(&rank->running, running);
}

/* One turn of step 2. @return false = the loop stops. */
static bool plan_head(aisim_rank *rank)
{
    const aisim_scheduler_config *config = &rank->config.scheduler;
    uint32_t slot = aisim_queue_head(&rank->waiting);
    aisim_request *r = aisim_rank_request(rank, slot);
    aisim_end_reason reason = reject_reason(rank, r); /* E-P8, E-P11 */
    if (reason != AISIM_END_NONE) {
        aisim_rank_dequeue(rank, slot);
        decide_reject(rank, slot, r, reason);
        return true;
    }
    hit found = lookup(rank, slot, r);
    if (config->reserve_full_prompt && !gate_opens(rank, r, found)) {
        return false; /* E-P12 */
    }
    uint32_t reused = found.blocks * rank->pool.block_size;
    uint32_t missing = aisim_known(r) - reused;
    if (rank->deferred && missing > 1) {
        return false; /* E-P13 */
    }
    uint32_t d = share(rank, missing); /* E-P14 */
    if ((d == 0 && missing > 0) || unsplittable(rank, r, reused)) {
        return false;
    }
    if (!config->reserve_full_prompt && !chunk_fits(rank, reused + d, found)) {
        return false;
    }
    if (!aisim_lease_allocate(&rank->pool, &r->lease, reused + d, found.blocks)) {
        return false; /* cannot happen after the gate (E-P15) */
    }
    admit(rank, slot, r, reused);
    book(rank, slot, r, d);
    return !(d == 0 && rank->budget_left == 0); /* E-P16 */
}

static void plan_waiting(aisim_rank *rank)
{
    const aisim_scheduler_config *config = &rank->config.scheduler;
    while (rank->running.len < config->max_sequences && rank->waiting.slots.len > 0 && /* E-P7 */
           (rank->budget_left > 0 || config->admit_at_zero_budget)) {                  /* R5 */
        if (!plan_head(rank)) {
            break;
        }
    }
}

bool aisim_rank_plan(aisim_rank *rank, int64_t t_ns, bool defer)
{
    AISIM_CHECK(!rank->in_flight);
    rank->begin_ns = t_ns;
    rank->pool.listening = (rank->engine->observers.mask & (AISIM_EV_BIT(AISIM_EV_KV_STORE) |
                                                            AISIM_EV_BIT(AISIM_EV_KV_EVICT))) != 0;
    rank->plan.len = 0;
    rank->decisions.len = 0;
    rank->shape = (aisim_pass_shape){.verify_width = 1};
    rank->budget_left = rank->config.scheduler.max_batched_tokens; /* E-P0 */
    rank->preempted = false;
    rank->deferred = defer;
    plan_running(rank);
    if (!rank->preempted) { /* E-P6 */
        plan_waiting(rank);
    }
    if (!defer && !rank->preempted) {
        rank->capacity_bound = rank->waiting.slots.len > 0; /* E-P17 */
    }
    bool useful = rank->plan.len > 0 || rank->decisions.len > 0;
    rank->in_flight = useful;
    rank->blocked = !useful;
    return useful;
}
