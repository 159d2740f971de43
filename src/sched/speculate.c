/* speculate.c - draws of accepted drafts (spec/mtp.md §2) and the burst reservation (E-M1).
 *
 * The native scheme needs nothing here but the draw: its drafts are part of a request's share and
 * its look-ahead part of the slots it asks for (mtp.md §3). */
#include "sched/plan.h"

uint64_t aisim_draw_key(uint64_t seed, uint32_t rank, uint64_t request)
{
    return aisim_mix64(aisim_mix64(seed + rank) ^ aisim_mix64(request));
}

uint32_t aisim_draw_from(uint64_t key, uint64_t step, const double *rates, uint32_t drafts)
{
    uint32_t j = 0;
    for (; j < drafts && rates[j] > 0.0; j++) {
        if (rates[j] >= 1.0) {
            continue; /* accepted without a draw */
        }
        double u = (double)(aisim_mix64(key + 64 * step + j) >> 11) * 0x1p-53;
        if (u >= rates[j]) {
            break;
        }
    }
    return j;
}

uint32_t aisim_draw_accepted(uint64_t seed, uint32_t rank, uint64_t request, uint64_t step,
                             const double *rates, uint32_t drafts)
{
    return aisim_draw_from(aisim_draw_key(seed, rank, request), step, rates, drafts);
}

static bool accepts(double rate, double u)
{
    return rate >= 1.0 || (rate > 0.0 && u < rate);
}

uint32_t aisim_rank_draw(aisim_rank *rank, aisim_request *r, uint32_t drafts)
{
    const aisim_speculation_config *config = &rank->config.speculation;
    if (drafts == 0) {
        return 0; /* nothing verified, nothing drawn */
    }
    if (config->stream == AISIM_STREAM_PER_REQUEST) {
        return aisim_draw_accepted(config->seed, rank->rank_in_worker, r->ordinal,
                                   r->verifications++, config->acceptance_rates, drafts);
    }
    for (uint32_t j = 0; j < drafts; j++) { /* in running order, one stream for the rank */
        double rate = config->acceptance_rates[j];
        bool certain = rate >= 1.0 || rate <= 0.0;
        if (!accepts(rate, certain ? 0.0 : aisim_rng_unit(&rank->draws))) {
            return j;
        }
    }
    return drafts;
}

/* ---- burst mode ------------------------------------------------------------------------------ */

uint32_t aisim_burst_width(uint32_t verify_width, uint32_t drafts, uint32_t output_left)
{
    return verify_width > drafts + 1 ? verify_width : aisim_min_u32(drafts + 1, output_left);
}

/* Tokens that a ready request needs storage for during its burst; a chain of drafts, no tree. */
static uint32_t burst_slots(const aisim_rank *rank, const aisim_request *r)
{
    uint32_t depth = rank->config.speculation.depth;
    return aisim_known(r) + aisim_burst_width(depth + 1, depth, aisim_rank_output_left(rank, r));
}

static bool ready(const aisim_rank *rank, const aisim_plan_entry *p)
{
    const aisim_request *r = aisim_rank_request(rank, p->slot);
    return p->samples && r->generation == p->generation && r->state == AISIM_REQ_RUNNING &&
           aisim_rank_output_left(rank, r) > 0 &&
           (r->flags & AISIM_REQF_PREFILL) == 0; /* mtp.md §9: never verifies */
}

/* E-M5: what cannot fit even alone ends here instead of evicting itself for ever. */
static void reject_oversized(aisim_rank *rank)
{
    aisim_batch *batch = aisim_rank_current(rank);
    uint32_t state = aisim_rank_stateful(rank) ? rank->config.kv.state_blocks : 0;
    for (uint32_t i = 0; i < batch->plan.len; i++) {
        aisim_plan_entry *p = &batch->plan.data[i];
        if (!ready(rank, p)) {
            continue;
        }
        aisim_request *r = aisim_rank_request(rank, p->slot);
        if (aisim_blocks_of(&rank->pool, burst_slots(rank, r)) + state > rank->pool.blocks) {
            p->samples = false;
            if (!p->prefill) {
                aisim_rank_shape_entry(rank, p, -1);
                p->lost = true;
            }
            aisim_rank_give_back(rank, p->slot, AISIM_NONE);
            aisim_rank_unrun(rank, r->position);
            aisim_rank_decide_reject(rank, p->slot, AISIM_END_REJECTED_CAPACITY);
        }
    }
}

static uint64_t burst_need(const aisim_rank *rank)
{
    const aisim_batch *batch = aisim_rank_current(rank);
    uint64_t need = 0;
    for (uint32_t i = 0; i < batch->plan.len; i++) {
        const aisim_plan_entry *p = &batch->plan.data[i];
        if (ready(rank, p)) {
            const aisim_request *r = aisim_rank_request(rank, p->slot);
            need += aisim_blocks_of(&rank->pool, burst_slots(rank, r)) -
                    aisim_blocks_of(&rank->pool, aisim_known(r));
        }
    }
    return need;
}

void aisim_rank_burst_reserve(aisim_rank *rank)
{
    if (rank->config.scheduler.never_fits == AISIM_NEVER_FITS_REJECT) {
        reject_oversized(rank);
    }
    while (burst_need(rank) > rank->pool.free + rank->pool.extents.inactive) {
        if (rank->running.len == 1 && aisim_rank_drop_arrived(rank, AISIM_NONE)) {
            continue; /* as in step 1 */
        }
        aisim_rank_preempt(rank, aisim_rank_victim(rank, AISIM_NONE), false);
    }
    aisim_batch *batch = aisim_rank_current(rank);
    for (uint32_t i = 0; i < batch->plan.len; i++) {
        aisim_plan_entry *p = &batch->plan.data[i];
        if (!ready(rank, p)) {
            continue;
        }
        aisim_request *r = aisim_rank_request(rank, p->slot);
        uint64_t goal = aisim_blocks_of(&rank->pool, burst_slots(rank, r));
        uint64_t owned = aisim_lease_owned(&rank->pool, &r->lease);
        if (goal > owned) {
            aisim_lease_reserve_opaque(&rank->pool, &r->lease, (uint32_t)(goal - owned));
        }
        p->verified = (uint8_t)rank->config.speculation.depth;
        if (p->prefill) { /* speculation removes "the first token comes with the prefill" (E-O4) */
            batch->shape.n_decode++;
            batch->shape.context_tokens += aisim_known(r);
        }
    }
}
