/* recurrent.h - the recurrent state of running requests (spec/engine.md §11).
 *
 * A running request of a state-cache model owns one working state. Before it is written again a
 * published one is preserved: it is left behind and a fresh one is written (which of the two sets
 * of blocks keeps the old content makes no difference, blocks have no ids). What it is left as
 * depends: the *previous* state is held until the request's next allocation in a later pass (E-S6),
 * a *held* one until the next pass begins (E-S5, tail case). One record per running request, in
 * slots. */
#ifndef AISIM_SCHED_RECURRENT_H
#define AISIM_SCHED_RECURRENT_H

#include "kv/mark.h"
#include "sched/requests.h"

typedef struct aisim_recurrent {
    aisim_state_ref working, previous, snapshot; /* snapshot: newest checkpoint, latest mode */
    aisim_state_ref step[4]; /* published or set aside in pass step_pass (E-S15) */
    uint32_t held[4];        /* extents held until the next pass begins */
    uint32_t n_step, n_held;
    uint32_t step_pass, previous_pass;
    uint32_t left; /* blocks of a previous state without identity: only their number matters */
    uint32_t slot; /* page of the working state (E-S6) */
    uint32_t page; /* extent of the partial page, AISIM_NONE = none */
    uint32_t page_pass;
} aisim_recurrent;

/** Sums over the run. Tokens: of the prompts looked up at admissions, those whose blocks were there
 *  and those that a checkpoint made usable (E-S8). */
typedef struct aisim_recurrent_totals {
    uint64_t published; /**< checkpoints */
    uint64_t admissions, restores;
    uint64_t matched_tokens, usable_tokens;
} aisim_recurrent_totals;

typedef struct aisim_recurrents {
    aisim_recurrent_totals totals;
    AISIM_ARRAY(aisim_recurrent) slots;
    AISIM_ARRAY(uint32_t) free_slots;
    AISIM_ARRAY(uint32_t) holders; /* records that hold something until the next pass begins */
} aisim_recurrents;

/** What the rules need to know; one per rank. */
typedef struct aisim_recurrent_rules {
    aisim_kv_config kv;
    bool drop;               /* a drafter loses the last matched block */
    bool rotating;           /* aligned mode with caching on */
    bool output_checkpoints; /* decoding publishes checkpoints too: latest mode, R11 chunk_end */
} aisim_recurrent_rules;

/** Something of it goes back at the next allocation in a later pass (E-S6). */
static inline bool aisim_recurrent_trails(const aisim_recurrent *s)
{
    return s->left > 0 || s->previous.extent != AISIM_NONE;
}

void aisim_recurrents_deinit(aisim_recurrents *set);

/** A record for a request that is being admitted. @return its slot */
uint32_t aisim_recurrent_take(aisim_recurrents *set);

/** E-P0: what the last pass held is given back. */
void aisim_recurrents_begin_pass(aisim_recurrents *set, aisim_block_pool *pool);

/** E-S7: gives back what an earlier pass left as previous. Before each allocation. */
void aisim_recurrent_begin(aisim_recurrent *s, aisim_block_pool *pool, uint32_t pass);

/** Blocks that a write up to `target` tokens takes beside the token blocks: 0 or k. */
uint32_t aisim_recurrent_extra(const aisim_recurrent *s, const aisim_recurrent_rules *rules,
                               const aisim_block_pool *pool, uint32_t target);

/** The write: with extra = k (already taken from the pool) the old working state is left behind. */
void aisim_recurrent_write(aisim_recurrents *set, uint32_t slot, const aisim_recurrent_rules *rules,
                           aisim_block_pool *pool, uint32_t target, uint32_t extra, uint32_t pass);

/** E-S9, E-S10: pins the source of a restore, before anything is taken.
 *  @param partial  extent of the partial page or AISIM_NONE */
void aisim_recurrent_pin(aisim_recurrents *set, uint32_t slot, const aisim_recurrent_rules *rules,
                         aisim_block_pool *pool, aisim_state_ref source, uint32_t partial,
                         uint32_t pass);

/** E-S2: the working state of an admitted request, k blocks already taken. */
void aisim_recurrent_start(aisim_recurrent *s, const aisim_recurrent_rules *rules,
                           aisim_block_pool *pool, uint32_t target);

/** E-S3: a decision of the request ended at `end` tokens. @return whether that is a checkpoint */
bool aisim_recurrent_publish(aisim_recurrents *set, uint32_t slot,
                             const aisim_recurrent_rules *rules, aisim_block_pool *pool,
                             const aisim_request *r, uint32_t end, uint32_t pass);

/** E-S15: checkpoints of this pass were never computed. Also takes a partial page of it back. */
void aisim_recurrent_discard_step(aisim_recurrent *s, aisim_block_pool *pool, uint32_t pass);

/** E-S14, after the token blocks; frees the record. */
void aisim_recurrent_release(aisim_recurrents *set, uint32_t slot, aisim_block_pool *pool);

#endif
