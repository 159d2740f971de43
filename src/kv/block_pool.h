/* block_pool.h - the device KV pool of one rank: capacity, prefix index and leases (spec/engine.md
 * §7-9).
 *
 * Blocks have no ids. The pool counts free blocks; cached blocks live in extents (kv/extent.h);
 * everything else that is active is private to some lease and only counted there:
 *     free + inactive + active = N,   active = N - free - inactive          (E-B1)
 *
 * A *lease* (aisim_lease in aisim/request.h) says what a request owns with three numbers:
 *     owned = ceil(A / b) + q blocks;  the first `published` of them are held through the index
 *     (shared or published by itself), the others are private.               (E-K1, E-K4)
 * With prefix caching off nothing is ever published (E-H2).
 *
 * KV events (E-H7) are recorded only while `listening`, and stay in `log` until the pass end. */
#ifndef AISIM_KV_BLOCK_POOL_H
#define AISIM_KV_BLOCK_POOL_H

#include "aisim/config.h"
#include "aisim/request.h"
#include "base/profile.h"
#include "kv/extent.h"

typedef enum {
    AISIM_KV_STORED, /* first copy of an identity */
    AISIM_KV_EVICTED,
    AISIM_KV_COPIED,    /* a further copy; only while `tracing` */
    AISIM_KV_WITHDRAWN, /* E-V3; only while `tracing` */
    AISIM_KV_PAGED      /* a page visible in part, age = its extent; only while `tracing` */
} aisim_kv_log_kind;

/** One stretch of blocks of one content run. Stretches of one KV event carry the same event number;
 *  inside an eviction they stand in eviction order, deepest block of each stretch first. */
typedef struct aisim_kv_log_entry {
    aisim_kv_log_kind kind;
    uint32_t event;
    uint32_t run, first, count; /* blocks */
    uint32_t owner;             /* slot of the publisher */
    aisim_gone how;             /* evictions, withdrawals */
    uint32_t age;               /* place of the copy among its like, 0 = primary */
} aisim_kv_log_entry;

typedef struct aisim_block_pool {
    aisim_profile *profile; /* NULL = nobody asks */
    uint32_t block_size;
    uint64_t blocks; /* N */
    uint64_t free;
    bool prefix_caching;
    bool listening;
    bool tracing; /* tests: the life of every copy */
    aisim_extents extents;
    AISIM_ARRAY(aisim_kv_log_entry) log;
    uint32_t next_event;                                  /* E-H7: ids count up from 0 */
    uint64_t taken_blocks, evicted_blocks, stored_blocks; /* totals */
    AISIM_ARRAY(uint32_t) path; /* scratch: runs from the leaf to the root */
} aisim_block_pool;

void aisim_block_pool_init(aisim_block_pool *pool, aisim_content *content,
                           const aisim_kv_config *config);
void aisim_block_pool_deinit(aisim_block_pool *pool);

static inline uint64_t aisim_block_pool_active(const aisim_block_pool *pool)
{
    return pool->blocks - pool->free - pool->extents.inactive;
}

/** ceil(tokens / b). */
static inline uint64_t aisim_blocks_of(const aisim_block_pool *pool, uint64_t tokens)
{
    return (tokens + pool->block_size - 1) / pool->block_size;
}

/** Number that changes whenever a lookup could give another answer (§19.12). */
static inline uint32_t aisim_block_pool_generation(const aisim_block_pool *pool)
{
    return pool->extents.generation;
}

/** Leading resident full blocks of the path that ends in `run`, at most limit_blocks (E-H3 without
 *  the token bound). @param active  how many of them somebody holds. O(depth + extents matched). */
uint32_t aisim_block_pool_lookup(aisim_block_pool *pool, uint32_t run, uint32_t limit_blocks,
                                 uint32_t *active);

/** Blocks a lease owns: ceil(A / b) + q (E-K4). */
static inline uint64_t aisim_lease_owned(const aisim_block_pool *pool, const aisim_lease *lease)
{
    return aisim_blocks_of(pool, lease->allocated) + lease->opaque;
}

/** What a scheduling decision asks of the pool; one operation, all or nothing (E-B2, E-K2, E-S7).
 */
typedef struct aisim_grant {
    uint32_t watermark;  /**< A afterwards, at most the known tokens */
    uint32_t slots;      /**< tokens that need storage, look-ahead included; >= watermark */
    uint32_t hit_blocks; /**< leading blocks adopted from the index; only while nothing is owned */
    uint32_t hit_active; /**< how many of them somebody holds already (aisim_block_pool_lookup) */
    uint32_t extra;      /**< blocks for a recurrent state */
    uint32_t idle_pins;  /**< inactive blocks that the same operation pins besides the hit */
    uint64_t reserve;    /**< must stay available behind it (R2 off, N4) */
} aisim_grant;

/** Fresh token blocks the grant needs beyond what is owned and hit. */
uint64_t aisim_grant_fresh(const aisim_block_pool *pool, const aisim_lease *lease,
                           const aisim_grant *grant);

/** The grant is possible. Changes nothing. */
bool aisim_grant_fits(const aisim_block_pool *pool, const aisim_lease *lease,
                      const aisim_grant *grant);

/** Carries out a grant that fits: adopts the hit, takes fresh and extra blocks (free ones first,
 * then from the LRU head). Look-ahead blocks are bound as A grows over them (E-K3). */
void aisim_grant_take(aisim_block_pool *pool, aisim_lease *lease, const aisim_grant *grant);

/** E-K2 in one call: capacity for the first `target` tokens without look-ahead or state.
 *  @return false = it does not fit, nothing changed. */
bool aisim_lease_allocate(aisim_block_pool *pool, aisim_lease *lease, uint32_t target,
                          uint32_t hit_blocks);

/** Takes n look-ahead blocks that belong to no entry yet (E-M4). False = does not fit. */
bool aisim_lease_reserve_opaque(aisim_block_pool *pool, aisim_lease *lease, uint32_t n);

/** E-M1: look-ahead that was not used goes back; A becomes `known`. */
void aisim_lease_return_opaque(aisim_block_pool *pool, aisim_lease *lease, uint32_t known);

/** E-H5: blocks below `upto` that are not published yet become visible. No-op with caching off.
 *  @param page  the lease's partial page (kv/mark.h); set to AISIM_NONE when it became full. NULL =
 *               no such thing */
void aisim_lease_publish(aisim_block_pool *pool, aisim_lease *lease, uint32_t upto, uint32_t *page);

/** E-K5: gives everything back, deepest block first; idempotent. Blocks from `withdrawn_from` on
 * were published by a decision that is being undone: they leave the index and go to the free set
 * (E-V3); AISIM_NONE = none. @param page  partial page of the lease or AISIM_NONE. */
void aisim_lease_release(aisim_block_pool *pool, aisim_lease *lease, uint32_t withdrawn_from,
                         uint32_t page);

/** E-B8: empties the index. False = something is active, nothing changed. */
bool aisim_block_pool_reset(aisim_block_pool *pool);

/** Checks E-B1 and the extents. */
void aisim_block_pool_verify(const aisim_block_pool *pool);

#endif
