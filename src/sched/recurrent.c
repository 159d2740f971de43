/* recurrent.c - working states, preservation, publication and release. */
#include "sched/recurrent.h"

#include "base/check.h"
#include "sched/split.h"

void aisim_recurrents_deinit(aisim_recurrents *set)
{
    aisim_array_free(&set->slots);
    aisim_array_free(&set->free_slots);
    aisim_array_free(&set->holders);
}

uint32_t aisim_recurrent_take(aisim_recurrents *set)
{
    aisim_recurrent fresh = {.working = AISIM_NO_STATE,
                             .previous = AISIM_NO_STATE,
                             .snapshot = AISIM_NO_STATE,
                             .page = AISIM_NONE};
    if (set->free_slots.len > 0) {
        uint32_t slot = set->free_slots.data[--set->free_slots.len];
        set->slots.data[slot] = fresh;
        return slot;
    }
    aisim_array_push(&set->slots, fresh);
    return set->slots.len - 1;
}

/* ---- holds ----------------------------------------------------------------------------------- */

static void hold_for_pass(aisim_recurrents *set, uint32_t slot, uint32_t extent)
{
    aisim_recurrent *s = &set->slots.data[slot];
    AISIM_CHECK(s->n_held < 4);
    if (s->n_held == 0) {
        aisim_array_push(&set->holders, slot);
    }
    s->held[s->n_held++] = extent;
}

static void unhold_all(aisim_recurrent *s, aisim_block_pool *pool)
{
    while (s->n_held > 0) {
        aisim_extent_unhold(pool, s->held[--s->n_held]);
    }
}

static void unhold_previous(aisim_recurrent *s, aisim_block_pool *pool)
{
    pool->free += s->left;
    s->left = 0;
    if (s->previous.extent != AISIM_NONE) {
        aisim_extent_unhold(pool, s->previous.extent);
        s->previous = AISIM_NO_STATE;
    }
}

void aisim_recurrents_begin_pass(aisim_recurrents *set, aisim_block_pool *pool)
{
    for (uint32_t i = 0; i < set->holders.len; i++) {
        unhold_all(&set->slots.data[set->holders.data[i]], pool);
    }
    set->holders.len = 0;
}

void aisim_recurrent_begin(aisim_recurrent *s, aisim_block_pool *pool, uint32_t pass)
{
    if (s->previous_pass != pass) {
        unhold_previous(s, pool);
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

static uint32_t page_of(const aisim_recurrent_rules *rules, uint32_t target)
{
    return target == 0 ? 0 : (target - 1) / rules->kv.block_size;
}

static bool rotates(const aisim_recurrent *s, const aisim_recurrent_rules *rules, uint32_t target)
{
    return rules->rotating && page_of(rules, target) != s->slot;
}

uint32_t aisim_recurrent_extra(const aisim_recurrent *s, const aisim_recurrent_rules *rules,
                               const aisim_block_pool *pool, uint32_t target)
{
    bool preserve = rotates(s, rules, target) || aisim_state_published(pool, s->working);
    return preserve ? rules->kv.state_blocks : 0;
}

static void remember_step(aisim_recurrent *s, aisim_state_ref state, uint32_t pass)
{
    if (s->step_pass != pass) {
        s->step_pass = pass;
        s->n_step = 0;
    }
    AISIM_CHECK(s->n_step < 4);
    s->step[s->n_step++] = state;
}

void aisim_recurrent_write(aisim_recurrents *set, uint32_t slot, const aisim_recurrent_rules *rules,
                           aisim_block_pool *pool, uint32_t target, uint32_t extra, uint32_t pass)
{
    aisim_recurrent *s = &set->slots.data[slot];
    if (extra == 0) {
        return;
    }
    if (rotates(s, rules, target)) { /* E-S6 */
        AISIM_CHECK(!aisim_recurrent_trails(s));
        s->previous_pass = pass;
        s->slot = page_of(rules, target);
        if (!aisim_state_published(pool, s->working)) {
            s->left = extra; /* nobody can tell the old blocks from the new ones */
            return;
        }
        s->previous = s->working;
    } else { /* E-S5, E-S6 tail case */
        remember_step(s, s->working, pass);
        hold_for_pass(set, slot, s->working.extent);
    }
    s->working = aisim_state_new(pool, extra);
}

void aisim_recurrent_pin(aisim_recurrents *set, uint32_t slot, const aisim_recurrent_rules *rules,
                         aisim_block_pool *pool, aisim_state_ref source, uint32_t partial,
                         uint32_t pass)
{
    aisim_recurrent *s = &set->slots.data[slot];
    if (source.extent == AISIM_NONE) {
        return;
    }
    if (partial != AISIM_NONE) { /* E-S9: copied to a fresh page in this pass */
        aisim_extent_hold(pool, partial);
        hold_for_pass(set, slot, partial);
    }
    aisim_extent_hold(pool, source.extent);
    if (rules->kv.state_mode == AISIM_STATE_ALIGNED && partial == AISIM_NONE) {
        s->previous = source; /* until the next allocation in a later pass */
        s->previous_pass = pass;
    } else {
        hold_for_pass(set, slot, source.extent);
    }
}

void aisim_recurrent_start(aisim_recurrent *s, const aisim_recurrent_rules *rules,
                           aisim_block_pool *pool, uint32_t target)
{
    s->working = aisim_state_new(pool, rules->kv.state_blocks);
    s->slot = page_of(rules, target);
}

/* ---- publication ----------------------------------------------------------------------------- */

/* §11.2 */
static bool publishable(const aisim_recurrent_rules *rules, const aisim_request *r, uint32_t end)
{
    const aisim_kv_config *kv = &rules->kv;
    if (end == 0 || !kv->prefix_caching) {
        return false;
    }
    if (kv->state_mode == AISIM_STATE_LATEST) {
        return end % kv->block_size == 0;
    }
    if (end ==
        aisim_prompt_tail(r->prompt_tokens, kv->block_size, kv->prefix_match_unit, rules->drop)) {
        return true;
    }
    if (kv->checkpoints == AISIM_CHECKPOINTS_CHUNK_END) { /* R11 */
        return end % kv->block_size == 0;
    }
    return end == aisim_prompt_boundary(r->prompt_tokens, kv->block_size, rules->drop);
}

bool aisim_recurrent_publish(aisim_recurrents *set, uint32_t slot,
                             const aisim_recurrent_rules *rules, aisim_block_pool *pool,
                             const aisim_request *r, uint32_t end, uint32_t pass)
{
    aisim_recurrent *s = &set->slots.data[slot];
    if (!publishable(rules, r, end)) {
        return false;
    }
    if (end % rules->kv.block_size != 0 && s->page == AISIM_NONE) { /* E-S9 */
        s->page = aisim_page_publish(pool, &r->lease, end, pass);
        s->page_pass = pass;
    }
    if (rules->kv.state_mode == AISIM_STATE_LATEST) {
        aisim_state_discard(pool, s->snapshot); /* §11.2: only the newest is kept */
    }
    aisim_state_publish(pool, s->working, r->lease.run, end, pass);
    set->totals.published++;
    s->snapshot = s->working;
    remember_step(s, s->working, pass);
    return true;
}

/* ---- release --------------------------------------------------------------------------------- */

void aisim_recurrent_discard_step(aisim_recurrent *s, aisim_block_pool *pool, uint32_t pass)
{
    if (s->page != AISIM_NONE && s->page_pass == pass) {
        aisim_page_withdraw(pool, s->page);
        s->page = AISIM_NONE;
    }
    if (s->step_pass != pass) {
        return;
    }
    for (uint32_t i = 0; i < s->n_step; i++) {
        aisim_state_discard(pool, s->step[i]);
    }
    s->n_step = 0;
}

void aisim_recurrent_release(aisim_recurrents *set, uint32_t slot, aisim_block_pool *pool)
{
    aisim_recurrent *s = &set->slots.data[slot];
    unhold_previous(s, pool);
    unhold_all(s, pool);
    if (s->working.extent != AISIM_NONE) {
        aisim_extent_unhold(pool, s->working.extent);
    }
    aisim_array_push(&set->free_slots, slot);
}
