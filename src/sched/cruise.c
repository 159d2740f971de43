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
    aisim_array_free(&rank->cruise.trailing);
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

/* E-S5: the working state is a checkpoint, the next write sets it aside. */
static bool must_preserve(const aisim_rank *rank, uint32_t recurrent)
{
    return recurrent != AISIM_NONE && rank->rules.output_checkpoints &&
           aisim_state_published(&rank->pool, rank->recurrents.slots.data[recurrent].working);
}

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
    if (must_preserve(rank, running->recurrent)) {
        wait = 0;
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

/* Writes the cruisers of keys into out, by position. A bucket usually holds one or two groups, each
 * scheduled in running order and so in reverse here: they are merged. */
static void sort_due(uint64_t *keys, uint32_t n, uint32_t *out)
{
    uint32_t middle = 1, second = n;
    while (middle < n && keys[middle] < keys[middle - 1]) {
        middle++;
    }
    for (uint32_t i = middle + 1; i < n; i++) {
        if (keys[i] > keys[i - 1]) {
            qsort(keys, n, sizeof *keys, by_position);
            for (uint32_t k = 0; k < n; k++) {
                out[k] = (uint32_t)keys[k];
            }
            return;
        }
    }
    uint32_t first = middle < n ? middle : n, at = 0; /* both groups from their ends */
    while (at < n) {
        bool left = second == middle || second <= first ||
                    (first > 0 && keys[first - 1] < keys[second - 1]);
        if (first == 0) {
            left = false;
        }
        out[at++] = (uint32_t)keys[left ? --first : --second];
    }
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
    uint32_t n = cruise->keys.len;
    aisim_array_reserve(&cruise->due, n);
    sort_due(cruise->keys.data, n, cruise->due.data);
    cruise->due.len = n;
}

/* ---- joining and leaving --------------------------------------------------------------------- */

static bool possible(const aisim_rank *rank)
{
    const aisim_scheduler_config *s = &rank->config.scheduler;
    return rank->config.speculation.mode == AISIM_SPECULATION_NONE &&
           s->overlap == AISIM_OVERLAP_NONE && s->policy == AISIM_POLICY_FCFS &&
           s->preemption == AISIM_PREEMPTION_LIFO && !aisim_rank_point(rank, AISIM_POINT_VICTIM) &&
           !aisim_wanted(&rank->engine->observers, AISIM_EV_TOKENS);
}

/* E-S6: the previous state of a cruiser goes back at the next pass. */
static void trail(aisim_rank *rank, const aisim_request *r)
{
    const aisim_running *running = &rank->running.data[r->position];
    if (running->recurrent != AISIM_NONE &&
        aisim_recurrent_trails(&rank->recurrents.slots.data[running->recurrent])) {
        aisim_array_push(&rank->cruise.trailing, running->slot);
    }
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
            (r->flags & (AISIM_REQF_RESUMED | AISIM_REQF_HOLD | AISIM_REQF_ARRIVED)) != 0 ||
            r->last_token_ns != rank->last_delivery_ns ||
            (rank->offload.host != NULL &&
             r->stored_blocks < r->prompt_tokens / rank->pool.block_size)) { /* still stores */
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
        trail(rank, r);
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
    cruise->due.len = cruise->trailing.len = 0;
    cruise->cruisers.len = 0;
    cruise->free_cruiser = AISIM_NONE;
    for (uint32_t i = 0; i < cruise->buckets; i++) {
        cruise->wheel[i] = AISIM_NONE;
    }
}

/* ---- a pass ---------------------------------------------------------------------------------- */

/* What the due cruisers take, all together, if each fits alone. UINT64_MAX: one does not. */
static uint64_t due_blocks(const aisim_rank *rank)
{
    uint64_t need = 0;
    for (uint32_t i = 0; i < rank->cruise.due.len; i++) {
        aisim_cruiser *c = cruiser_at(rank, rank->cruise.due.data[i]);
        sync(rank, c);
        const aisim_request *r = aisim_rank_request(rank, c->slot);
        uint32_t recurrent = rank->running.data[r->position].recurrent;
        bool opens = r->computed % rank->pool.block_size == 0;
        if (!opens && !must_preserve(rank, recurrent)) {
            continue; /* its block is full after this pass, or it ends */
        }
        uint32_t target = r->computed + 1, extra = 0, own = 0;
        if (recurrent != AISIM_NONE) {
            extra = aisim_recurrent_extra(&rank->recurrents.slots.data[recurrent], &rank->rules,
                                          &rank->pool, target);
            own = rank->config.kv.state_blocks + extra;
        }
        if (!aisim_rank_fits_alone(rank, r, target, own)) {
            return UINT64_MAX;
        }
        need += extra + opens;
    }
    return need;
}

/* E-P4: the next block of one due cruiser, its state included. */
static void open_block(aisim_rank *rank, aisim_request *r, uint32_t recurrent, uint32_t target)
{
    aisim_grant grant = {.watermark = target, .slots = target};
    if (recurrent == AISIM_NONE) {
        aisim_grant_take(&rank->pool, &r->lease, &grant);
        return;
    }
    const aisim_recurrent *state = &rank->recurrents.slots.data[recurrent];
    grant.extra = aisim_recurrent_extra(state, &rank->rules, &rank->pool, target);
    aisim_grant_take(&rank->pool, &r->lease, &grant);
    aisim_recurrent_write(&rank->recurrents, recurrent, &rank->rules, &rank->pool, target,
                          grant.extra, rank->plan_serial);
    trail(rank, r);
}

/* E-P4, E-P5 for one due cruiser. */
static void attend(aisim_rank *rank, aisim_request *r)
{
    uint32_t b = rank->pool.block_size, target = r->computed + 1;
    uint32_t recurrent = rank->running.data[r->position].recurrent;
    if (r->computed % b == 0 || must_preserve(rank, recurrent)) {
        open_block(rank, r, recurrent, target);
    }
    if (target % b != 0) {
        return;
    }
    uint32_t *page = recurrent == AISIM_NONE ? NULL : &rank->recurrents.slots.data[recurrent].page;
    aisim_lease_publish(&rank->pool, &r->lease, target / b, page); /* E-H5 */
    if (recurrent != AISIM_NONE && rank->rules.output_checkpoints) {
        aisim_rank_checkpoint(rank, r, recurrent, target); /* E-S3 */
    }
}

/* Previous states go back; with enough free blocks the order among the takes makes no difference.
 * Who has left or cruises no longer looks after its own, and its slot may have another request. */
static void give_back_trailing(aisim_rank *rank)
{
    aisim_cruise *cruise = &rank->cruise;
    for (uint32_t i = 0; i < cruise->trailing.len; i++) {
        const aisim_request *r = aisim_rank_request(rank, cruise->trailing.data[i]);
        if (r->state != AISIM_REQ_RUNNING) {
            continue;
        }
        const aisim_running *running = &rank->running.data[r->position];
        if (running->cruiser != AISIM_NONE && running->recurrent != AISIM_NONE) {
            aisim_recurrent_begin(&rank->recurrents.slots.data[running->recurrent], &rank->pool,
                                  rank->plan_serial);
        }
    }
    cruise->trailing.len = 0;
}

bool aisim_cruise_plan(aisim_rank *rank)
{
    aisim_cruise *cruise = &rank->cruise;
    if (cruise->n == 0) {
        cruise->trailing.len = 0;
        return true;
    }
    if (cruise->n > rank->budget_left || !possible(rank)) {
        aisim_cruise_dissolve(rank);
        return false;
    }
    take_due(rank);
    uint64_t need = due_blocks(rank), free = rank->pool.free;
    if (need > free + rank->pool.extents.inactive || (need > free && cruise->trailing.len > 0)) {
        aisim_cruise_dissolve(rank); /* somebody would be preempted or rejected, or order matters */
        return false;
    }
    give_back_trailing(rank);
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
