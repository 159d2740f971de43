/* host_pool.h - KV blocks in host memory, in extents: residency, pins and eviction order
 * (spec/offload.md §5, §6, §12).
 *
 * Blocks carry the identity they have on the device: (content run, block index). A block is
 *   pending    reserved by a store whose copy has not ended: not found as ready, not a victim
 *   resident   ready; with pins > 0 some load reads it, then it is no victim either
 * An *extent* is a stretch of blocks of one run in one state and, when evictable, at consecutive
 * places of the eviction order. The order is one list; ties of §6 are settled when blocks enter it:
 * a *cohort* (what one transfer brings) enters at once, and `ascending` says from which end of the
 * extent victims are cut. Touching a prompt in reverse gives the same order as a cohort that is
 * evicted deepest first, so a whole prompt is one node again after a touch.
 *
 * Every call is O(stretches given + extents touched). Callers name blocks as stretches in *cohort
 * order*: along a content path, root first. Each extent holds one reference to its run. */
#ifndef AISIM_HOST_POOL_H
#define AISIM_HOST_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "aisim/config.h"
#include "aisim/content.h"
#include "base/array.h"
#include "base/map.h"

/** Blocks [first, first + count) of a content run. */
typedef struct aisim_host_stretch {
    uint32_t run, first, count;
} aisim_host_stretch;

typedef AISIM_ARRAY(aisim_host_stretch) aisim_host_stretches;

typedef enum {
    AISIM_HOST_EXTENT_FREE,
    AISIM_HOST_EXTENT_PENDING,
    AISIM_HOST_EXTENT_RESIDENT
} aisim_host_extent_state;

typedef struct aisim_host_extent {
    uint32_t run, first, count;
    uint32_t prev, next;         /* of the run, by block */
    uint32_t lru_prev, lru_next; /* in the eviction order */
    uint32_t pins;               /* loads that read all of these blocks */
    uint32_t guard;              /* admission that must not evict it */
    uint8_t state;               /* aisim_host_extent_state */
    bool ascending;              /* the shallow end is evicted first, else the deep end */
    bool listed;                 /* stands in the eviction order */
} aisim_host_extent;

typedef struct aisim_host_head {
    uint32_t first, last;
} aisim_host_head;

/** A change of residency, for KV events: stored when a copy has landed, removed at an eviction. */
typedef struct aisim_host_change {
    aisim_host_stretch blocks;
    bool stored;
    bool deep_first; /* removed: order of eviction inside the stretch */
    uint32_t event;  /* stretches of one store or of one admission carry the same number */
} aisim_host_change;

typedef struct aisim_host_pool {
    aisim_content *content;
    uint64_t capacity, used, resident; /* blocks; used = resident + pending */
    uint64_t evictable;                /* resident without pins */
    aisim_tie_break tie_break;         /* R18 */
    bool refresh_on_load;              /* R19 */
    AISIM_ARRAY(aisim_host_extent) slots;
    AISIM_ARRAY(aisim_host_head) heads; /* by content run */
    uint32_t free_slot;
    uint32_t lru_first, lru_last; /* first = next victim */
    uint32_t guard;               /* counts admissions */
    bool listening;               /* record changes */
    AISIM_ARRAY(aisim_host_change) changes;
    uint32_t told; /* of them: routers know */
    uint32_t next_event;
    uint64_t evicted_blocks, stored_blocks, peak_used; /* totals */
    aisim_host_stretches sorted, missing;              /* scratch */
} aisim_host_pool;

/** @param capacity  blocks, >= 1 */
void aisim_host_pool_init(aisim_host_pool *pool, aisim_content *content, uint64_t capacity,
                          aisim_tie_break tie_break, bool refresh_on_load);
void aisim_host_pool_deinit(aisim_host_pool *pool);

typedef enum {
    AISIM_HOST_PREPARED,  /**< missing blocks are reserved and pending, victims are gone */
    AISIM_HOST_PRESENT,   /**< nothing of the range is missing */
    AISIM_HOST_RETRY,     /**< not enough victims; nothing changed */
    AISIM_HOST_UNFITTABLE /**< the same, and the range is larger than the pool */
} aisim_host_admission;

/** Atomic admission of a store range (§5): what is absent becomes pending. Never evicts pending or
 *  pinned blocks or blocks of the range.
 *  @param range   n stretches in cohort order, disjoint
 *  @param cohort  PREPARED: receives the missing stretches in cohort order (replaced) */
aisim_host_admission aisim_host_pool_admit(aisim_host_pool *pool, const aisim_host_stretch *range,
                                           uint32_t n, aisim_host_stretches *cohort);

/** Block behind the deepest one of the run that is here, pending ones too; 0 = none. O(1) */
uint32_t aisim_host_pool_deepest(const aisim_host_pool *pool, uint32_t run);

/** Blocks that the next evictions could take before they meet one of the n runs; counting stops at
 *  `most`. O(extents counted) */
uint64_t aisim_host_pool_victims(const aisim_host_pool *pool, const uint32_t *runs, uint32_t n,
                                 uint64_t most);

/** The copy of a cohort has ended: its blocks are resident, the newest, one epoch (§6). */
void aisim_host_pool_land(aisim_host_pool *pool, const aisim_host_stretch *cohort, uint32_t n);

/** The store vanishes: its pending blocks are absent again. */
void aisim_host_pool_drop(aisim_host_pool *pool, const aisim_host_stretch *cohort, uint32_t n);

typedef struct aisim_host_match {
    uint32_t blocks;      /**< from `first` on without a gap, pending ones too */
    uint32_t resident;    /**< the same without pending ones */
    bool pending, pinned; /**< some of them are */
} aisim_host_match;

/** Blocks [first, end) of the run that are here, from `first` on. */
aisim_host_match aisim_host_pool_match(const aisim_host_pool *pool, uint32_t run, uint32_t first,
                                       uint32_t end);

/** The blocks of the stretch become the newest, one after the other from the deep end: its first
 *  block ends newest. Absent, pending and pinned ones are passed over. */
void aisim_host_pool_touch(aisim_host_pool *pool, aisim_host_stretch blocks);

/** One more load reads the cohort. All of it must be resident. */
void aisim_host_pool_pin(aisim_host_pool *pool, const aisim_host_stretch *cohort, uint32_t n);
/** One load less; blocks without pins are the newest, one epoch, or stand where they stood (R19).
 */
void aisim_host_pool_unpin(aisim_host_pool *pool, const aisim_host_stretch *cohort, uint32_t n);

/** Forgets everything. Nothing may be pinned or pending. */
void aisim_host_pool_reset(aisim_host_pool *pool);

/** Walks everything and stops the process when an invariant is broken. */
void aisim_host_pool_verify(const aisim_host_pool *pool);

#endif
