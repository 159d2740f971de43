/* cruise.c - the wheel of steady decoders.
 *
 * Time is counted in cruise.passes: pass number q is the one that is in flight while passes == q. A
 * cruiser synced at s has advanced by passes - s tokens since. */
#include "sched/cruise.h"

#include <stdlib.h>

#include "sched/plan.h"

void aisim_cruise_init(aisim_rank *rank)
{
    aisim_cruise *cruise = &rank->cruise;
    *cruise = (aisim_cruise){.free_cruiser = AISIM_NONE, .buckets = 4};
    while (cruise->buckets < rank->config.kv.block_size + 2) {
        cruise->buckets *= 2;
    }
}

void aisim_cruise_deinit(aisim_rank *rank)
{
    aisim_array_free(&rank->cruise.cruisers);
    aisim_array_free(&rank->cruise.due);
    aisim_array_free(&rank->cruise.keys);
    aisim_free(rank->cruise.wheel);
}

static aisim_cruiser *cruiser_at(const aisim_rank *rank, uint32_t index)
{
    return &rank->cruise.cruisers.data[index];
}

/* ---- numbers ----------------------------------------------------------------------------------
 */

static void sync(const aisim_rank *rank, aisim_cruiser *c)
{
    aisim_request *r = aisim_rank_request(rank, c->slot);
    uint32_t passed = (uint32_t)(rank->cruise.passes - c->synced);
    if (passed == 0) {
        return;
    }
    r->computed += passed;
    r->generated += passed;
    r->lease.allocated = r->computed > r->lease.allocated ? r->computed : r->lease.allocated;
    r->last_token_ns = rank->last_delivery_ns;
    c->synced = rank->cruise.passes;
}

void aisim_cruise_sync(const aisim_rank *rank, uint32_t slot)
{
    const aisim_request *r = aisim_rank_request(rank, slot);
    if (r->state == AISIM_REQ_RUNNING && rank->cruise.n > 0 &&
        rank->running.data[r->position].cruiser != AISIM_NONE) {
        sync(rank, cruiser_at(rank, rank->running.data[r->position].cruiser));
    }
}

void aisim_cruise_sync_all(const aisim_rank *rank)
{
    for (uint32_t i = 0; i < rank->cruise.n; i++) {
        sync(rank, cruiser_at(rank, rank->running.data[i].cruiser));
    }
}

/* ---- the wheel ----------------------------------------------------------------------------------
 */

/* The next pass in which the synced cruiser needs attention. */
static uint64_t next_due(const aisim_rank *rank, const aisim_request *r,
                         const aisim_running *running)
{
    uint32_t b = rank->pool.block_size;
    uint32_t into = r->computed % b;
    uint32_t wait = into == 0 ? 0 : b - into - 1; /* passes until the block is full: publish */
    if (!rank->pool.prefix_caching && into != 0) {
        wait = b - into; /* nothing to publish: until the next block is opened */
    }
    uint32_t left = aisim_rank_output_left(rank, r);
    wait = aisim_min_u32(wait, left - 1); /* the pass that delivers the last token */
    if (running->recurrent != AISIM_NONE) {
        const aisim_recurrent *s = &rank->recurrents.slots.data[running->recurrent];
        if (s->previous.extent != AISIM_NONE || aisim_state_published(&rank->pool, s->working)) {
            wait = 0; /* E-S6, E-S5: the next allocation gives it back or preserves it */
        }
    }
    return rank->cruise.passes + wait;
}

static void schedule(aisim_rank *rank, uint32_t index)
{
    aisim_cruise *cruise = &rank->cruise;
    aisim_cruiser *c = cruiser_at(rank, index);
    const aisim_request *r = aisim_rank_request(rank, c->slot);
    c->due = next_due(rank, r, &rank->running.data[r->position]);
    uint32_t *bucket = &cruise->wheel[c->due & (cruise->buckets - 1)];
    c->next = *bucket;
    *bucket = index;
}

static void free_cruiser(aisim_cruise *cruise, uint32_t index)
{
    cruise->cruisers.data[index].next = cruise->free_cruiser;
    cruise->free_cruiser = index;
}

static int by_position(const void *left, const void *right)
{
    const uint64_t *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

/* Takes the bucket of this pass: cruise.due holds its cruisers in running order. */
static void take_due(aisim_rank *rank)
{
    aisim_cruise *cruise = &rank->cruise;
    uint32_t *bucket = &cruise->wheel[cruise->passes & (cruise->buckets - 1)];
    cruise->keys.len = cruise->due.len = 0;
    for (uint32_t i = *bucket; i != AISIM_NONE;) {
        uint32_t next = cruise->cruisers.data[i].next, slot = cruise->cruisers.data[i].slot;
        if (slot == AISIM_NONE) {
            free_cruiser(cruise, i); /* it has left */
        } else {
            uint64_t position = aisim_rank_request(rank, slot)->position;
            aisim_array_push(&cruise->keys, position << 32 | i);
        }
        i = next;
    }
    *bucket = AISIM_NONE;
    if (cruise->keys.len > 1) {
        qsort(cruise->keys.data, cruise->keys.len, sizeof *cruise->keys.data, by_position);
    }
    for (uint32_t i = 0; i < cruise->keys.len; i++) {
        aisim_array_push(&cruise->due, (uint32_t)cruise->keys.data[i]);
    }
}

/* ---- joining and leaving
 * -------------------------------------------------------------------------- */

static bool possible(const aisim_rank *rank)
{
    const aisim_scheduler_config *s = &rank->config.scheduler;
    return rank->config.speculation.mode == AISIM_SPECULATION_NONE &&
           s->overlap == AISIM_OVERLAP_NONE && s->policy == AISIM_POLICY_FCFS &&
           s->preemption == AISIM_PREEMPTION_LIFO &&
           !aisim_wanted(&rank->engine->observers, AISIM_EV_TOKENS);
}

void aisim_cruise_join(aisim_rank *rank)
{
    aisim_cruise *cruise = &rank->cruise;
    if (cruise->n == rank->running.len || !possible(rank)) {
        return;
    }
    if (cruise->wheel == NULL) {
        cruise->wheel = aisim_alloc(cruise->buckets, sizeof *cruise->wheel);
        for (uint32_t i = 0; i < cruise->buckets; i++) {
            cruise->wheel[i] = AISIM_NONE;
        }
    }
    while (cruise->n < rank->running.len) {
        aisim_running *running = &rank->running.data[cruise->n];
        const aisim_request *r = aisim_rank_request(rank, running->slot);
        if (r->generated < 2 || r->computed + 1 != aisim_known(r) ||
            (r->flags & AISIM_REQF_RESUMED) != 0 || r->last_token_ns != rank->last_delivery_ns) {
            return;
        }
        uint32_t index = cruise->free_cruiser;
        if (index == AISIM_NONE) {
            index = cruise->cruisers.len;
            aisim_array_push(&cruise->cruisers, (aisim_cruiser){0});
        } else {
            cruise->free_cruiser = cruise->cruisers.data[index].next;
        }
        running->cruiser = index;
        cruise->cruisers.data[index] =
            (aisim_cruiser){.slot = running->slot, .synced = cruise->passes};
        cruise->known_sum += aisim_known(r);
        cruise->n++;
        schedule(rank, index);
    }
}

/* Synced; its cruiser record is forgotten, the request is an ordinary one. */
static void let_go(aisim_rank *rank, uint32_t index)
{
    aisim_cruiser *c = cruiser_at(rank, index);
    const aisim_request *r = aisim_rank_request(rank, c->slot);
    sync(rank, c);
    rank->cruise.known_sum -= aisim_known(r);
    rank->running.data[r->position].cruiser = AISIM_NONE;
    c->slot = AISIM_NONE;
    rank->cruise.n--;
}

void aisim_cruise_leave(aisim_rank *rank, uint32_t slot)
{
    const aisim_request *r = aisim_rank_request(rank, slot);
    if (r->state != AISIM_REQ_RUNNING || rank->running.data[r->position].cruiser == AISIM_NONE) {
        return;
    }
    uint32_t index = rank->running.data[r->position].cruiser;
    bool in_due = false; /* then it is in no bucket any more */
    for (uint32_t i = 0; i < rank->cruise.due.len; i++) {
        if (rank->cruise.due.data[i] == index) {
            aisim_array_remove(&rank->cruise.due, i);
            in_due = true;
            break;
        }
    }
    let_go(rank, index);
    if (in_due) {
        free_cruiser(&rank->cruise, index);
    }
}

void aisim_cruise_dissolve(aisim_rank *rank)
{
    aisim_cruise *cruise = &rank->cruise;
    if (cruise->n == 0) {
        return;
    }
    aisim_cruise_sync_all(rank);
    for (uint32_t i = 0; i < cruise->n; i++) {
        rank->running.data[i].cruiser = AISIM_NONE;
    }
    cruise->n = 0;
    cruise->known_sum = 0;
    cruise->due.len = 0;
    cruise->cruisers.len = 0;
    cruise->free_cruiser = AISIM_NONE;
    for (uint32_t i = 0; i < cruise->buckets; i++) {
        cruise->wheel[i] = AISIM_NONE;
    }
}

/* ---- a pass
 * ------------------------------------------------------------------------------------------ */

static aisim_recurrent *state_of(const aisim_rank *rank, const aisim_request *r)
{
    uint32_t slot = rank->running.data[r->position].recurrent;
    return slot == AISIM_NONE ? NULL : &rank->recurrents.slots.data[slot];
}

/* What the due cruisers take, all together, if each fits alone. UINT64_MAX: one does not. */
static uint64_t due_blocks(const aisim_rank *rank)
{
    uint64_t need = 0;
    for (uint32_t i = 0; i < rank->cruise.due.len; i++) {
        aisim_cruiser *c = cruiser_at(rank, rank->cruise.due.data[i]);
        sync(rank, c);
        const aisim_request *r = aisim_rank_request(rank, c->slot);
        aisim_grant grant = {.slots = r->computed + 1};
        const aisim_recurrent *state = state_of(rank, r);
        uint32_t extra = 0, own = 0;
        if (state != NULL) {
            extra = aisim_recurrent_extra(state, &rank->rules, &rank->pool, r->computed + 1);
            own = rank->config.kv.state_blocks + extra;
        }
        if (!aisim_rank_fits_alone(rank, r, r->computed + 1, own)) {
            return UINT64_MAX;
        }
        need += aisim_grant_fresh(&rank->pool, &r->lease, &grant) + extra;
    }
    return need;
}

/* E-P4, E-P5 for one due cruiser. */
static void attend(aisim_rank *rank, aisim_request *r)
{
    uint32_t target = r->computed + 1;
    uint32_t recurrent = rank->running.data[r->position].recurrent;
    aisim_grant grant = {.watermark = target, .slots = target};
    uint32_t *page = NULL;
    if (recurrent != AISIM_NONE) {
        aisim_recurrent *state = &rank->recurrents.slots.data[recurrent];
        aisim_recurrent_begin(state, &rank->pool, rank->plan_serial);
        grant.extra = aisim_recurrent_extra(state, &rank->rules, &rank->pool, target);
        page = &state->page;
    }
    aisim_grant_take(&rank->pool, &r->lease, &grant);
    if (recurrent != AISIM_NONE) {
        aisim_recurrent_write(&rank->recurrents, recurrent, &rank->rules, &rank->pool, target,
                              grant.extra, rank->plan_serial);
    }
    aisim_lease_publish(&rank->pool, &r->lease, target / rank->pool.block_size, page); /* E-H5 */
    if (recurrent != AISIM_NONE) {
        aisim_recurrent_publish(&rank->recurrents, recurrent, &rank->rules, &rank->pool, r, target,
                                rank->plan_serial); /* E-S3 */
    }
}

bool aisim_cruise_plan(aisim_rank *rank)
{
    aisim_cruise *cruise = &rank->cruise;
    if (cruise->n == 0) {
        return true;
    }
    if (cruise->n > rank->budget_left || !possible(rank)) {
        aisim_cruise_dissolve(rank);
        return false;
    }
    take_due(rank);
    if (due_blocks(rank) > rank->pool.free + rank->pool.extents.inactive) {
        aisim_cruise_dissolve(rank); /* somebody would be preempted or rejected */
        return false;
    }
    for (uint32_t i = 0; i < cruise->due.len; i++) {
        attend(rank, aisim_rank_request(rank, cruiser_at(rank, cruise->due.data[i])->slot));
    }
    aisim_batch *batch = aisim_rank_current(rank);
    batch->cruised = cruise->n;
    batch->shape.n_decode += cruise->n;
    batch->shape.context_tokens += cruise->known_sum;
    rank->budget_left -= cruise->n;
    return true;
}

void aisim_cruise_complete(aisim_rank *rank, int64_t end_ns, aisim_pass_facts *facts)
{
    aisim_cruise *cruise = &rank->cruise;
    if (cruise->n == 0) {
        cruise->due.len = 0;
        return;
    }
    facts->emitted += cruise->n;
    facts->gap_ns = end_ns - rank->last_delivery_ns;
    facts->gap_count += cruise->n;
    cruise->known_sum += cruise->n;
    cruise->passes++;
    rank->last_delivery_ns = end_ns;
    for (uint32_t i = 0; i < cruise->due.len; i++) {
        uint32_t index = cruise->due.data[i];
        aisim_cruiser *c = cruiser_at(rank, index);
        sync(rank, c);
        uint32_t slot = c->slot;
        if (aisim_rank_output_left(rank, aisim_rank_request(rank, slot)) > 0) {
            schedule(rank, index);
            continue;
        }
        let_go(rank, index);
        free_cruiser(cruise, index);
        aisim_rank_leave(rank, slot, end_ns);
    }
    cruise->due.len = 0;
}
