/* extent.h - resident blocks of one rank in extents: index, reference counts and LRU order (A4).
 *
 * An *extent* is a stretch of consecutive blocks [first, first + count) of one content run that are
 * in the same state: the same number of references, and, with none, consecutive places in the LRU
 * order. Block by block it means exactly the list of spec/engine.md §7:
 *
 *   - refs > 0: cached and active. refs = 0: inactive, the extent is linked into the LRU list.
 *   - Inside an inactive extent the deepest block is evicted first, because owners release tail
 *     first (E-B4). Evicting x blocks trims the deep end of the list's head.
 *   - Primaries of a run form a sorted list without overlap; that list is the index (one run, one
 *     block index = one identity, no hashing). Further copies of the same blocks (E-B6) are
 *     *duplicates*: a list per run in order of age, each with the slot of the request that owns it.
 *   - Neighbours in the same state are merged, so a run rarely has more than two or three extents.
 *
 * Recurrent states and pages that are visible in part are extents too (kv/mark.h), so that they
 * stand in the same LRU list.
 *
 * Each extent holds one reference to its content run. All operations are O(extents touched).
 */
#ifndef AISIM_KV_EXTENT_H
#define AISIM_KV_EXTENT_H

#include <stdbool.h>
#include <stdint.h>

#include "aisim/content.h"
#include "base/array.h"
#include "base/map.h"

typedef enum {
    AISIM_EXTENT_FREE,
    AISIM_EXTENT_PRIMARY,
    AISIM_EXTENT_DUPLICATE,
    AISIM_EXTENT_STATE, /* k blocks of a recurrent state; with a mark it is a checkpoint */
    AISIM_EXTENT_ALIAS  /* one page that is only visible in part; it has a mark */
} aisim_extent_kind;

typedef struct aisim_extent {
    uint32_t run;
    uint32_t first, count;       /* blocks */
    uint32_t refs;               /* leases that hold all of these blocks */
    uint32_t lru_prev, lru_next; /* refs = 0 */
    uint32_t prev, next;         /* of the same run: by block (primaries), by age (duplicates) */
    uint32_t owner;              /* duplicates: slot of the owner, AISIM_NONE once released */
    uint32_t mark;               /* further identity (kv/mark.h), AISIM_NONE = none */
    uint32_t copy;               /* number of the copy to host memory under way, AISIM_NONE */
    aisim_extent_kind kind;
} aisim_extent;

typedef struct aisim_extent_head {
    uint32_t first, last;    /* primaries */
    uint32_t oldest, newest; /* duplicates */
} aisim_extent_head;

/* Identity of a checkpoint or of a partial page: the first `tokens` tokens of a path through `run`.
 */
typedef struct aisim_mark {
    uint32_t extent;
    uint32_t run, tokens;
    uint32_t prev, next; /* of the run, by (tokens, age) */
    uint32_t pass;       /* of its publication */
    uint8_t list;        /* aisim_mark_list */
} aisim_mark;

typedef enum { AISIM_MARK_STATE, AISIM_MARK_PAGE } aisim_mark_list;

typedef struct aisim_mark_head {
    uint32_t first[2], last[2]; /* by aisim_mark_list */
} aisim_mark_head;

typedef struct aisim_extents {
    aisim_content *content;
    AISIM_ARRAY(aisim_extent) slots;
    AISIM_ARRAY(aisim_extent_head) heads; /* by content run */
    AISIM_ARRAY(aisim_mark) marks;
    AISIM_ARRAY(aisim_mark_head) mark_heads; /* by content run; empty without checkpoints */
    uint32_t free_mark;
    uint32_t next_serial; /* of states: tells a freed slot from a reused one */
    uint32_t free_slot;
    uint32_t lru_first, lru_last; /* head = next victim */
    uint64_t inactive;            /* blocks in the LRU list */
    uint64_t lost;                /* identities that lost their last copy to an eviction, total */
    AISIM_ARRAY(int64_t) copies;  /* by number: when the copy ends, AISIM_NEVER = not known */
    int64_t evicted_copy_ns;      /* latest end among evicted blocks that were being copied */
    uint32_t generation;          /* changes with every lookup-relevant change */
    struct aisim_eviction *eviction; /* by score (kv/extent_score.c); NULL = LRU */
} aisim_extents;

typedef enum {
    AISIM_GONE_LAST,     /* the identity has no copy left */
    AISIM_GONE_PROMOTED, /* the oldest duplicate answers now (E-B6) */
    AISIM_GONE_COPY,     /* a duplicate; the primary still answers */
    AISIM_GONE_OTHER     /* blocks of a state or a partial page: no identity of a full block */
} aisim_gone;

/** Copies of the blocks [first, first + count) of the run left the index.
 *  @param age  place of the copy among the copies of its identity, 0 = the primary; OTHER: the
 * extent of a partial page, AISIM_NONE for a state */
typedef void (*aisim_extent_gone_fn)(void *context, uint32_t run, uint32_t first, uint32_t count,
                                     aisim_gone how, uint32_t age);

/** Copies of the blocks were published; `first_copy`: the identity became visible. */
typedef void (*aisim_extent_made_fn)(void *context, uint32_t run, uint32_t first, uint32_t count,
                                     bool first_copy);

void aisim_extents_init(aisim_extents *set, aisim_content *content);
void aisim_extents_deinit(aisim_extents *set);

/** Residency of blocks [first, end) of the run: how many from `first` on are there without a gap,
 *  and how many of those are active. */
uint32_t aisim_extents_match(const aisim_extents *set, uint32_t run, uint32_t first, uint32_t end,
                             uint32_t *active);

/** One more reference to the primaries of [first, end), which must all be resident (E-B5). */
void aisim_extents_hold(aisim_extents *set, uint32_t run, uint32_t first, uint32_t end);

/** The owner gives [first, end) back, deepest block first (E-B3, E-B4). */
void aisim_extents_release(aisim_extents *set, uint32_t run, uint32_t first, uint32_t end,
                           uint32_t owner);

/** Indexes [first, end), just computed by the owner, which holds them. Blocks that were already
 *  visible become duplicates (E-B6).
 *  @param made  called for each stretch, shallow to deep */
void aisim_extents_publish(aisim_extents *set, uint32_t run, uint32_t first, uint32_t end,
                           uint32_t owner, aisim_extent_made_fn made, void *context);

/** Takes back a publication of the owner (E-V3): its copies of [first, end) leave the index without
 *  entering the LRU list; a duplicate of another request takes the place of a primary. A page that
 * is also visible in part keeps that identity and goes to the LRU list.
 *  @param gone  called for the stretches that lost a copy
 *  @return blocks that carry no identity any more: free */
uint32_t aisim_extents_withdraw(aisim_extents *set, uint32_t run, uint32_t first, uint32_t end,
                                uint32_t owner, aisim_extent_gone_fn gone, void *context);

/** A page of the owner that was visible in part (kind ALIAS) has become block `block` of `run` in
 * full.
 *  @return true = first copy */
bool aisim_extents_complete_page(aisim_extents *set, uint32_t page, uint32_t run, uint32_t block,
                                 uint32_t owner);

/** Evicts `blocks` blocks from the head of the LRU list (E-B7); there must be that many. */
void aisim_extents_evict(aisim_extents *set, uint64_t blocks, aisim_extent_gone_fn gone,
                         void *context);

/** What a block nobody uses is worth: see aisim/points.h, point evict. */
typedef double (*aisim_extent_score_fn)(void *context, int64_t age_ns, uint32_t depth,
                                        uint32_t reuse);

/** From now on what is worth least goes first (kv/extent_score.c). Before the first publication;
 *  without recurrent states and copies to host memory. @param clock  virtual time, read when needed
 */
void aisim_extents_score(aisim_extents *set, uint32_t block_size, aisim_extent_score_fn score,
                         void *context, const int64_t *clock);

/** Evicts by score; there must be that many blocks. e + blocks questions, e inactive extents. */
void aisim_extents_evict_scored(aisim_extents *set, uint64_t blocks, aisim_extent_gone_fn gone,
                                void *context);

/** Blocks [first, end) of the owner are being copied out (spec/offload.md §5.1); evicting one of
 * them raises evicted_copy_ns to the end of the copy, which aisim_extents_copy_ends tells.
 *  @param copy  number >= 0 that is not in use
 *  @param hold  they keep one more reference until the copy has ended */
void aisim_extents_copy_begin(aisim_extents *set, uint32_t run, uint32_t first, uint32_t end,
                              uint32_t owner, uint32_t copy, bool hold);
void aisim_extents_copy_ends(aisim_extents *set, uint32_t copy, int64_t end_ns);
/** The copy of [first, end) has ended; held blocks are given back, deepest first. */
void aisim_extents_copy_done(aisim_extents *set, uint32_t run, uint32_t first, uint32_t end,
                             uint32_t copy, bool hold);

/** Inside src/kv: slots, the LRU list. */
uint32_t aisim_extent_new(aisim_extents *set, aisim_extent value);
void aisim_extent_drop(aisim_extents *set, uint32_t index);
void aisim_extent_to_lru(aisim_extents *set, uint32_t index);
void aisim_extent_from_lru(aisim_extents *set, uint32_t index);

/** Walks everything and stops the process when an invariant is broken (I12, I13). */
void aisim_extents_verify(const aisim_extents *set);

#endif
