/* twin_mtp.c - draws (mtp.md §2) and the burst reservation (E-M1).
 *
 * The native scheme needs nothing here but the draw: its drafts are part of the share of a request
 * and its look-ahead is part of the slots it asks for (mtp.md §3). */
#include "base/check.h"
#include "twin_internal.h"

uint32_t twin_draw(uint64_t seed, uint32_t rank, uint64_t request, uint64_t step,
                   const double *rates, uint32_t drafts)
{
    uint64_t k = aisim_mix64(seed + rank);
    uint64_t r = aisim_mix64(k ^ aisim_mix64(request));
    uint32_t accepted = 0;
    for (uint32_t j = 0; j < drafts; j++) {
        if (rates[j] < 1.0) {
            double u = (double)(aisim_mix64(r + 64 * step + j) >> 11) * 0x1p-53;
            if (rates[j] <= 0.0 || u >= rates[j]) {
                break;
            }
        }
        accepted++;
    }
    return accepted;
}

/* The draw of one verification of one request; nothing verified, nothing drawn. */
uint32_t twin_draw_row(twin *t, twin_request *r, uint32_t drafts)
{
    if (drafts == 0) {
        return 0;
    }
    const aisim_speculation_config *config = &t->config.speculation;
    if (config->stream == AISIM_STREAM_PER_REQUEST) {
        return twin_draw(config->seed, t->rank, r->ordinal, r->verifications++,
                         config->acceptance_rates, drafts);
    }
    uint32_t accepted = 0;
    while (accepted < drafts) {
        double rate = config->acceptance_rates[accepted];
        if (rate < 1.0 && (rate <= 0.0 || aisim_rng_unit(&t->worker_stream) >= rate)) {
            break;
        }
        accepted++;
    }
    return accepted;
}

static uint32_t burst_slots(const twin *t, const twin_request *r)
{
    return r->tokens.len + twin_min(t->depth + 1, twin_remaining(t, r));
}

static bool ready(const twin *t, const twin_request *r)
{
    return r->computed == r->tokens.len && twin_remaining(t, r) > 0;
}

/* E-M5: what can not fit alone ends here. */
static void reject_oversized(twin *t, twin_batch *batch)
{
    if (t->config.scheduler.never_fits != AISIM_NEVER_FITS_REJECT) {
        return;
    }
    for (uint32_t i = 0; i < batch->rows.len; i++) {
        twin_request *r = t->requests.data[batch->rows.data[i].serial];
        if (ready(t, r) && twin_ceil(burst_slots(t, r), t->b) + t->k > t->n_blocks) {
            aisim_array_push(&batch->rejected, r->serial);
            aisim_array_remove(&batch->rows, i);
            i--;
            twin_leave(t, r, TWIN_REJECTED_CAPACITY);
        }
    }
}

/* E-M1: blocks for all ready requests together, or a victim. The pass itself has run: what a
 * victim computed and published in it stays (a request admitted later in this pass may have hit
 * it), only its verification is lost. */
void twin_burst_reserve(twin *t, twin_batch *batch)
{
    reject_oversized(t, batch);
    for (;;) {
        uint32_t need = 0;
        for (uint32_t i = 0; i < batch->rows.len; i++) {
            const twin_request *r = t->requests.data[batch->rows.data[i].serial];
            if (ready(t, r)) {
                need += twin_ceil(burst_slots(t, r), t->b) - twin_ceil(r->tokens.len, t->b);
            }
        }
        if (need <= t->queue_len) {
            break;
        }
        twin_request *victim = twin_victim(t);
        twin_preempt(t, victim, false);
    }
    for (uint32_t i = 0; i < batch->rows.len; i++) {
        twin_request *r = t->requests.data[batch->rows.data[i].serial];
        if (ready(t, r)) {
            uint32_t goal = twin_ceil(burst_slots(t, r), t->b);
            twin_acquire(t, goal - r->blocks.len, &r->blocks);
            batch->rows.data[i].verified = t->depth;
        }
    }
}

/* E-M1, E-M3: what the burst did not use goes back, and A = L. */
void twin_burst_return(twin *t, twin_request *r)
{
    while (r->blocks.len > twin_ceil(r->tokens.len, t->b)) {
        twin_unref(t, r->blocks.data[--r->blocks.len]);
    }
    r->watermark = r->tokens.len;
}
