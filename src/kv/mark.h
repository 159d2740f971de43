/* mark.h - identities beside full blocks: checkpoints of recurrent states and pages that are
 * visible in part (spec/engine.md §11.1, E-S9).
 *
 * A *state* is an extent of k blocks. Private it belongs to one request (its working state); with a
 * mark it is a *checkpoint*, found under (run, tokens): the first `tokens` tokens of a path. It
 * is usable while all k blocks are there; losing one takes the mark away and the rest ages out
 * (E-S1). A *page* with a mark is one block whose first tokens % b tokens can be matched.
 *
 * Marks of a run form a list by (tokens, age), so "the largest length at most n" is found from the
 * end. A state may be freed behind the back of whoever remembers it: remember aisim_state_ref. */
#ifndef AISIM_KV_MARK_H
#define AISIM_KV_MARK_H

#include "kv/block_pool.h"

typedef struct aisim_state_ref {
    uint32_t extent; /* AISIM_NONE = none */
    uint32_t serial;
} aisim_state_ref;

#define AISIM_NO_STATE ((aisim_state_ref){AISIM_NONE, 0})

/** Gives the extent the identity (run, tokens), published in `pass`. */
void aisim_mark_add(aisim_extents *set, aisim_mark_list list, uint32_t extent, uint32_t run,
                    uint32_t tokens, uint32_t pass);
/** Takes the extent's mark away. */
void aisim_mark_remove(aisim_extents *set, uint32_t extent);

/** A private state over k blocks that the caller has just taken from the pool. */
aisim_state_ref aisim_state_new(aisim_block_pool *pool, uint32_t k);

/** The extent still exists. */
bool aisim_state_alive(const aisim_block_pool *pool, aisim_state_ref state);

/** It has an identity, all its blocks are there. */
bool aisim_state_published(const aisim_block_pool *pool, aisim_state_ref state);

/** E-S3: the state after the first `tokens` tokens of the path that ends in `run`. */
void aisim_state_publish(aisim_block_pool *pool, aisim_state_ref state, uint32_t run,
                         uint32_t tokens, uint32_t pass);

/** References to a state or a marked page. At zero it becomes inactive, or free without identity.
 */
void aisim_extent_hold(aisim_block_pool *pool, uint32_t extent);
void aisim_extent_unhold(aisim_block_pool *pool, uint32_t extent);

/** Takes the identity away; an inactive one becomes free. No-op for one that is gone. */
void aisim_state_discard(aisim_block_pool *pool, aisim_state_ref state);

/** What a lookup found. */
typedef struct aisim_state_hit {
    uint32_t tokens;
    aisim_state_ref state; /* AISIM_NO_STATE: nothing, tokens = 0 */
    bool same_pass;        /* R12 wait: the best one was published in this pass */
} aisim_state_hit;

/** The longest checkpoint on the path of `run` with at most `bound` tokens whose tokens are
 * resident: whole leading blocks are given, a last part needs a partial page. The oldest copy that
 * was not published in `pass`; with `wait`, one of this pass ends the search (R12). */
aisim_state_hit aisim_state_find(aisim_block_pool *pool, uint32_t run, uint32_t bound,
                                 uint32_t whole, uint32_t pass, bool wait);

/** Blocks of states that somebody holds. O(extents) */
uint64_t aisim_state_blocks(const aisim_block_pool *pool);

/** The oldest page visible in part that ends exactly after `tokens` tokens of the path, or
 * AISIM_NONE. */
uint32_t aisim_page_find(const aisim_block_pool *pool, uint32_t run, uint32_t tokens);

/** The longest partial page of the path in (above, bound], 0 = none. */
uint32_t aisim_page_longest(const aisim_block_pool *pool, uint32_t run, uint32_t above,
                            uint32_t bound);

/** A private page of the owner becomes visible up to `tokens` tokens of the path (E-S9).
 *  @return its extent */
uint32_t aisim_page_publish(aisim_block_pool *pool, const aisim_lease *lease, uint32_t tokens,
                            uint32_t pass);

/** Takes a publication of this pass back; the block is private again. */
void aisim_page_withdraw(aisim_block_pool *pool, uint32_t extent);

#endif
