/* glide_decoders.c - the decoders of a glide: what they need, what is booked, what they deliver.
 *
 * Most passes of a decoder stay inside a block: then C and A move and nothing else. `quiet` and
 * `room` of a glider say until when; it is found out anew whenever something else was booked. */
#include "sched/glide.h"

uint64_t aisim_glide_missing(const aisim_glide *glide, uint32_t tokens, uint64_t owned)
{
    uint64_t goal = aisim_blocks_of(&glide->rank->pool, aisim_glide_slots(glide, tokens));
    return goal > owned ? goal - owned : 0;
}

static aisim_recurrent *state_of(const aisim_glide *glide, const aisim_glider *d)
{
    return d->recurrent == AISIM_NONE ? NULL : &glide->rank->recurrents.slots.data[d->recurrent];
}

static bool is_quiet(const aisim_glide *glide, const aisim_glider *d)
{
    const aisim_request *r = d->request;
    return aisim_known(r) < d->quiet &&
           aisim_glide_slots(glide, r->computed + glide->width) <= d->room;
}

/* ---- plan ------------------------------------------------------------------------------------ */

/* Blocks of the pass: for tokens, and to preserve or rotate the state (E-S5, E-S6). */
static uint64_t needs(const aisim_glide *glide, const aisim_glider *d)
{
    const aisim_rank *rank = glide->rank;
    const aisim_request *r = d->request;
    const aisim_recurrent *state = state_of(glide, d);
    uint32_t end = r->computed + glide->width, extra = 0;
    if (is_quiet(glide, d)) {
        return 0;
    }
    if (state != NULL) {
        extra = aisim_recurrent_extra(state, &rank->rules, &rank->pool,
                                      aisim_min_u32(end, aisim_known(r)));
    }
    return extra + aisim_glide_missing(glide, end, aisim_lease_owned(&rank->pool, &r->lease));
}

bool aisim_glide_plan_decoders(aisim_glide *glide)
{
    const aisim_rank *rank = glide->rank;
    uint32_t limit = aisim_rank_limit(rank);
    for (uint32_t i = 0; i < glide->n; i++) {
        aisim_glider *d = &glide->decoders[i];
        const aisim_request *r = d->request;
        d->emits = 1;
        if (glide->width > 1) {
            d->emits +=
                aisim_draw_from(d->draws, r->verifications,
                                rank->config.speculation.acceptance_rates, glide->width - 1);
        }
        if (d->emits >= aisim_rank_output_left(rank, r) ||
            (limit != UINT32_MAX && r->computed + glide->width + 1 > limit)) {
            return false;
        }
        glide->fresh += needs(glide, d);
        glide->shape.n_decode++;
        glide->shape.context_tokens += aisim_known(r);
    }
    return true;
}

/* ---- booking --------------------------------------------------------------------------------- */

/* As aisim_rank_plan does it for one running request. */
static void book(aisim_glide *glide, aisim_glider *d, uint32_t end, uint32_t slots)
{
    aisim_rank *rank = glide->rank;
    aisim_request *r = d->request;
    aisim_recurrent *state = state_of(glide, d);
    uint32_t known = aisim_known(r), target = aisim_min_u32(end, known);
    aisim_grant grant = {.watermark = aisim_min_u32(slots, known), .slots = slots};
    if (state != NULL) {
        aisim_recurrent_begin(state, &rank->pool, rank->plan_serial);
        grant.extra = aisim_recurrent_extra(state, &rank->rules, &rank->pool, target);
    }
    aisim_grant_take(&rank->pool, &r->lease, &grant);
    if (state != NULL) {
        aisim_recurrent_write(&rank->recurrents, d->recurrent, &rank->rules, &rank->pool, target,
                              grant.extra, rank->plan_serial);
    }
    uint32_t *page = state == NULL ? NULL : &state->page;
    aisim_lease_publish(&rank->pool, &r->lease, known / rank->pool.block_size, page);
    if (state != NULL && end <= known) {
        aisim_recurrent_publish(&rank->recurrents, d->recurrent, &rank->rules, &rank->pool, r, end,
                                rank->plan_serial); /* E-S3 */
    }
}

/* Inside a block nothing is taken, published or written over that must be kept. */
static void look_ahead(const aisim_glide *glide, aisim_glider *d)
{
    const aisim_block_pool *pool = &glide->rank->pool;
    const aisim_recurrent *state = state_of(glide, d);
    uint32_t known = aisim_known(d->request), b = pool->block_size;
    bool busy = state != NULL &&
                (aisim_recurrent_trails(state) || aisim_state_published(pool, state->working));
    d->room = aisim_lease_owned(pool, &d->request->lease) * b;
    d->quiet = known % b == 0 || busy ? 0 : (known / b + 1) * b;
}

void aisim_glide_book_decoders(aisim_glide *glide)
{
    for (uint32_t i = 0; i < glide->n; i++) {
        aisim_glider *d = &glide->decoders[i];
        aisim_request *r = d->request;
        uint32_t end = r->computed + glide->width, slots = aisim_glide_slots(glide, end);
        if (is_quiet(glide, d)) {
            uint32_t watermark = aisim_min_u32(slots, aisim_known(r));
            if (watermark > r->lease.allocated) {
                r->lease.allocated = watermark;
            }
        } else {
            book(glide, d, end, slots);
            look_ahead(glide, d);
        }
        r->computed = end;
    }
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static void show_verification(const aisim_glide *glide, const aisim_glider *d, int64_t end_ns)
{
    const aisim_observers *observers = &glide->rank->engine->observers;
    if (glide->width > 1 && aisim_wanted(observers, AISIM_EV_VERIFY)) {
        aisim_event event = {.type = AISIM_EV_VERIFY,
                             .rank = glide->rank->index,
                             .t_ns = end_ns,
                             .request = d->request};
        event.u.verify.drafted = glide->width - 1;
        event.u.verify.accepted = d->emits - 1;
        aisim_emit(observers, &event);
    }
}

void aisim_glide_advance_decoders(aisim_glide *glide, int64_t end_ns, aisim_pass_facts *facts)
{
    aisim_rank *rank = glide->rank;
    bool speculates = rank->config.speculation.mode != AISIM_SPECULATION_NONE;
    for (uint32_t i = 0; i < glide->n; i++) {
        const aisim_glider *d = &glide->decoders[i];
        aisim_request *r = d->request;
        if (speculates) {
            rank->decode_forwards++;
            rank->accepted_with_base += d->emits;
            r->accepted_drafts += d->emits - 1;
            r->verifications++;
        }
        show_verification(glide, d, end_ns);
        if (r->generated < 2 && r->generated + d->emits >= 2) {
            r->second_token_ns = end_ns;
        }
        r->generated += d->emits;
        r->computed = aisim_known(r) - 1;
        r->last_token_ns = end_ns;
        facts->emitted += d->emits;
        facts->zero_gaps += d->emits - 1;
    }
}
