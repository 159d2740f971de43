/* block_pool.c - capacity, lookup along content paths, and the life of a lease.
 *
 * A path is the chain of runs from the root to a leaf. Run r covers, on that path, the tokens from
 * its start to the branch position of the run behind it, hence the blocks
 * [floor(start / b), floor(branch / b)): a block belongs to the run with its last token. */
#include "kv/block_pool.h"

#include "base/check.h"
#include "kv/mark.h"

void aisim_block_pool_init(aisim_block_pool *pool, aisim_content *content,
                           const aisim_kv_config *config)
{
    *pool = (aisim_block_pool){.block_size = config->block_size,
                               .blocks = config->blocks,
                               .free = config->blocks,
                               .prefix_caching = config->prefix_caching};
    aisim_extents_init(&pool->extents, content);
}

void aisim_block_pool_deinit(aisim_block_pool *pool)
{
    aisim_extents_deinit(&pool->extents);
    aisim_array_free(&pool->log);
    aisim_array_free(&pool->path);
}

/* ---- events ---------------------------------------------------------------------------------- */

typedef struct log_context {
    aisim_block_pool *pool;
    uint32_t owner;
    uint32_t event;
    uint32_t last_end; /* path block behind the last stored stretch, AISIM_NONE = none */
} log_context;

static void log_made(void *context, uint32_t run, uint32_t first, uint32_t count, bool first_copy)
{
    log_context *c = context;
    aisim_block_pool *pool = c->pool;
    pool->stored_blocks += first_copy ? count : 0;
    if (!pool->listening || (!first_copy && !pool->tracing)) {
        return;
    }
    aisim_kv_log_entry entry = {.kind = first_copy ? AISIM_KV_STORED : AISIM_KV_COPIED,
                                .run = run,
                                .first = first,
                                .count = count,
                                .owner = c->owner};
    if (first_copy && c->last_end != first) {
        c->event = pool->next_event++; /* E-H7: a visible block in the middle splits the run */
    }
    if (first_copy) {
        c->last_end = first + count;
    }
    entry.event = first_copy ? c->event : UINT32_MAX;
    aisim_array_push(&pool->log, entry);
}

static void log_evicted(void *context, uint32_t run, uint32_t first, uint32_t count, aisim_gone how,
                        uint32_t age)
{
    log_context *c = context;
    aisim_kv_log_entry entry = {AISIM_KV_EVICTED, c->event, run, first, count,
                                AISIM_NONE,       how,      age};
    aisim_array_push(&c->pool->log, entry);
}

/* A trace keeps what was never announced: entry i from block `first` on becomes a plain copy. */
static void keep_as_copy(aisim_block_pool *pool, uint32_t i, uint32_t first)
{
    aisim_kv_log_entry copy = pool->log.data[i];
    copy.kind = AISIM_KV_COPIED;
    copy.event = UINT32_MAX;
    copy.count -= first - copy.first;
    copy.first = first;
    aisim_array_push(&pool->log, copy); /* room for one more */
    for (uint32_t j = pool->log.len - 1; j > i + 1; j--) {
        pool->log.data[j] = pool->log.data[j - 1];
    }
    pool->log.data[i + 1] = copy;
}

/* A withdrawn stretch leaves the log of this pass: it was never visible. */
static void unlog_stored(aisim_block_pool *pool, uint32_t run, uint32_t first, uint32_t count)
{
    pool->stored_blocks -= count;
    for (uint32_t i = pool->log.len; i-- > 0;) {
        aisim_kv_log_entry *e = &pool->log.data[i];
        if (e->kind != AISIM_KV_STORED || e->run != run || e->first >= first + count ||
            e->first + e->count <= first) {
            continue;
        }
        uint32_t kept = e->first < first ? first - e->first : 0; /* only the deep end goes */
        if (pool->tracing) {
            keep_as_copy(pool, i, e->first + kept);
        }
        if (kept > 0) {
            pool->log.data[i].count = kept;
        } else {
            aisim_array_remove(&pool->log, i);
        }
    }
}

static void log_withdrawn(void *context, uint32_t run, uint32_t first, uint32_t count,
                          aisim_gone how, uint32_t age)
{
    log_context *c = context;
    if (how == AISIM_GONE_LAST) {
        unlog_stored(c->pool, run, first, count);
    }
    if (c->pool->tracing) {
        aisim_kv_log_entry entry = {AISIM_KV_WITHDRAWN, UINT32_MAX, run, first, count,
                                    AISIM_NONE,         how,        age};
        aisim_array_push(&c->pool->log, entry);
    }
}

/* ---- capacity -------------------------------------------------------------------------------- */

/* E-B2: x blocks, free ones first, then evicted from the LRU head. The caller has checked. */
static void take(aisim_block_pool *pool, uint64_t x)
{
    uint64_t from_free = x < pool->free ? x : pool->free;
    pool->taken_blocks += x;
    pool->free -= from_free;
    x -= from_free;
    if (x > 0) {
        log_context c = {pool, AISIM_NONE, 0, 0};
        pool->evicted_blocks += x;
        if (pool->listening) {
            c.event = pool->next_event++;
        }
        aisim_extent_gone_fn gone = pool->listening ? log_evicted : NULL;
        if (pool->extents.eviction == NULL) {
            aisim_extents_evict(&pool->extents, x, gone, &c);
        } else {
            aisim_extents_evict_scored(&pool->extents, x, gone, &c);
        }
    }
}

/* ---- paths ----------------------------------------------------------------------------------- */

typedef struct segment {
    uint32_t run;
    uint32_t first, end; /* blocks */
} segment;

/* The segment of `run`, a run of some path, when the run behind it branches at token `limit`. */
static segment segment_of(const aisim_block_pool *pool, uint32_t run, uint32_t limit)
{
    uint32_t start = aisim_content_start(pool->extents.content, run);
    segment s = {run, start / pool->block_size, limit / pool->block_size};
    return s;
}

/* Fills pool->path with the runs from `leaf` up to the root. */
static void path_of(aisim_block_pool *pool, uint32_t leaf)
{
    pool->path.len = 0;
    for (uint32_t run = leaf; run != AISIM_NONE;
         run = aisim_content_parent(pool->extents.content, run)) {
        aisim_array_push(&pool->path, run);
    }
}

/* Segment number i of pool->path, 0 = the leaf. */
static segment path_segment(const aisim_block_pool *pool, uint32_t i)
{
    uint32_t limit =
        i == 0 ? UINT32_MAX : aisim_content_start(pool->extents.content, pool->path.data[i - 1]);
    return segment_of(pool, pool->path.data[i], limit);
}

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

uint32_t aisim_block_pool_lookup(aisim_block_pool *pool, uint32_t run, uint32_t limit_blocks,
                                 uint32_t *active)
{
    *active = 0;
    if (!pool->prefix_caching || limit_blocks == 0) {
        return 0;
    }
    aisim_part before = aisim_part_enter(pool->profile, AISIM_PART_KV);
    path_of(pool, run);
    uint32_t hit = 0;
    for (uint32_t i = pool->path.len; i-- > 0 && hit < limit_blocks;) {
        segment s = path_segment(pool, i);
        uint32_t end = min_u32(s.end, limit_blocks);
        if (end <= s.first) {
            continue;
        }
        uint32_t busy;
        uint32_t found = aisim_extents_match(&pool->extents, s.run, s.first, end, &busy);
        hit = s.first + found;
        *active += busy;
        if (hit < end) {
            break;
        }
    }
    aisim_part_leave(pool->profile, before);
    return hit;
}

/* ---- leases ---------------------------------------------------------------------------------- */

static void adopt(aisim_block_pool *pool, const aisim_lease *lease, uint32_t hit_blocks)
{
    path_of(pool, lease->run);
    for (uint32_t i = 0; i < pool->path.len; i++) {
        segment s = path_segment(pool, i);
        uint32_t end = min_u32(s.end, hit_blocks);
        if (end > s.first) {
            aisim_extents_hold(&pool->extents, s.run, s.first, end);
        }
    }
}

uint64_t aisim_grant_fresh(const aisim_block_pool *pool, const aisim_lease *lease,
                           const aisim_grant *grant)
{
    uint64_t goal = aisim_blocks_of(pool, grant->slots);
    uint64_t have = aisim_lease_owned(pool, lease) + grant->hit_blocks;
    return goal > have ? goal - have : 0;
}

bool aisim_grant_fits(const aisim_block_pool *pool, const aisim_lease *lease,
                      const aisim_grant *grant)
{
    uint64_t wanted = aisim_grant_fresh(pool, lease, grant) + grant->extra + grant->reserve +
                      (grant->hit_blocks - grant->hit_active) + grant->idle_pins;
    return wanted <= pool->free + pool->extents.inactive;
}

void aisim_grant_take(aisim_block_pool *pool, aisim_lease *lease, const aisim_grant *grant)
{
    aisim_part before = aisim_part_enter(pool->profile, AISIM_PART_KV);
    uint64_t fresh = aisim_grant_fresh(pool, lease, grant);
    uint64_t owned = aisim_lease_owned(pool, lease) + grant->hit_blocks + fresh;
    if (grant->hit_blocks > 0) {
        AISIM_CHECK(lease->allocated == 0 && lease->published == 0);
        adopt(pool, lease, grant->hit_blocks);
        lease->published = grant->hit_blocks;
    }
    take(pool, fresh + grant->extra);
    lease->allocated = max_u32(lease->allocated, grant->watermark); /* ownership never shrinks */
    lease->opaque = (uint32_t)(owned - aisim_blocks_of(pool, lease->allocated)); /* E-K3, E-K4 */
    aisim_part_leave(pool->profile, before);
}

bool aisim_lease_allocate(aisim_block_pool *pool, aisim_lease *lease, uint32_t target,
                          uint32_t hit_blocks)
{
    aisim_grant grant = {.watermark = target, .slots = target, .hit_blocks = hit_blocks};
    if (hit_blocks > 0) {
        aisim_block_pool_lookup(pool, lease->run, hit_blocks, &grant.hit_active);
    }
    if (!aisim_grant_fits(pool, lease, &grant)) {
        return false;
    }
    aisim_grant_take(pool, lease, &grant);
    return true;
}

bool aisim_lease_reserve_opaque(aisim_block_pool *pool, aisim_lease *lease, uint32_t n)
{
    if (n > pool->free + pool->extents.inactive) {
        return false;
    }
    take(pool, n);
    lease->opaque += n;
    return true;
}

void aisim_lease_return_opaque(aisim_block_pool *pool, aisim_lease *lease, uint32_t known)
{
    uint64_t owned = aisim_lease_owned(pool, lease), bound = aisim_blocks_of(pool, known);
    AISIM_CHECK(owned >= bound);
    pool->free += owned - bound;
    lease->opaque = 0;
    lease->allocated = known;
}

static void publish_stretch(aisim_block_pool *pool, const aisim_lease *lease, uint32_t run,
                            uint32_t first, uint32_t end, uint32_t *page, log_context *c)
{
    if (page != NULL && *page != AISIM_NONE) {
        uint32_t block = pool->extents.slots.data[*page].first;
        if (first <= block && block < end) {
            uint32_t extent = *page;
            *page = AISIM_NONE;
            publish_stretch(pool, lease, run, first, block, NULL, c);
            bool fresh =
                aisim_extents_complete_page(&pool->extents, extent, run, block, lease->owner);
            log_made(c, run, block, 1, fresh);
            first = block + 1;
        }
    }
    if (end > first) {
        aisim_extents_publish(&pool->extents, run, first, end, lease->owner, log_made, c);
    }
}

void aisim_lease_publish(aisim_block_pool *pool, aisim_lease *lease, uint32_t upto, uint32_t *page)
{
    if (!pool->prefix_caching || upto <= lease->published) {
        return;
    }
    aisim_part before = aisim_part_enter(pool->profile, AISIM_PART_KV);
    log_context c = {pool, lease->owner, 0, AISIM_NONE};
    /* the common case: everything in the leaf */
    segment s = segment_of(pool, lease->run, UINT32_MAX);
    if (lease->published >= s.first) {
        publish_stretch(pool, lease, s.run, lease->published, upto, page, &c);
    } else {
        path_of(pool, lease->run);
        for (uint32_t i = pool->path.len; i-- > 0;) {
            s = path_segment(pool, i);
            uint32_t first = max_u32(s.first, lease->published), end = min_u32(s.end, upto);
            if (end > first) {
                publish_stretch(pool, lease, s.run, first, end, page, &c);
            }
        }
    }
    lease->published = upto;
    aisim_part_leave(pool->profile, before);
}

void aisim_lease_release(aisim_block_pool *pool, aisim_lease *lease, uint32_t withdrawn_from,
                         uint32_t page)
{
    aisim_part before = aisim_part_enter(pool->profile, AISIM_PART_KV);
    uint64_t owned = aisim_lease_owned(pool, lease);
    AISIM_CHECK(owned >= lease->published);
    uint64_t to_free = owned - lease->published; /* opaque and private blocks */
    if (page !=
        AISIM_NONE) { /* private otherwise, but visible in part: the deepest with an identity */
        to_free--;
        aisim_extent_unhold(pool, page);
    }
    uint32_t limit = UINT32_MAX;
    uint32_t run = lease->run;
    while (lease->published > 0) {
        segment s = segment_of(pool, run, limit);
        uint32_t end = min_u32(s.end, lease->published);
        if (end > s.first) {
            uint32_t kept = max_u32(s.first, min_u32(withdrawn_from, end));
            if (kept < end) {
                log_context c = {pool, lease->owner, 0, 0};
                to_free += aisim_extents_withdraw(&pool->extents, s.run, kept, end, lease->owner,
                                                  log_withdrawn, &c);
            }
            if (kept > s.first) {
                aisim_extents_release(&pool->extents, s.run, s.first, kept, lease->owner);
            }
            lease->published = s.first;
        }
        limit = aisim_content_start(pool->extents.content, run);
        run = aisim_content_parent(pool->extents.content, run);
    }
    pool->free += to_free;
    lease->allocated = 0;
    lease->opaque = 0;
    pool->extents.generation++;
    aisim_part_leave(pool->profile, before);
}

bool aisim_block_pool_reset(aisim_block_pool *pool)
{
    if (aisim_block_pool_active(pool) > 0) {
        return false;
    }
    uint64_t cached = pool->extents.inactive;
    log_context c = {pool, AISIM_NONE, 0, 0};
    if (pool->listening && cached > 0) {
        c.event = pool->next_event++;
    }
    aisim_extents_evict(&pool->extents, cached, pool->listening ? log_evicted : NULL, &c);
    pool->free += cached;
    return true;
}

void aisim_block_pool_verify(const aisim_block_pool *pool)
{
    AISIM_CHECK(pool->free + pool->extents.inactive <= pool->blocks); /* I1 */
    aisim_extents_verify(&pool->extents);
}
