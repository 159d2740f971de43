/* trace_reuse.h - what a prefix cache of a given size would find of a trace: no engine, no time,
 * one request after the other.
 *
 * A request is matched, then its blocks are put in, before the next one is looked at. A block
 * counts only when every earlier block of the prompt counts. The block size may differ from the
 * recorded one (traffic 3.4): both are cut into pieces of gcd(recorded, wanted) tokens, and a block
 * is the pieces it consists of; lengths are never rounded. */
#ifndef AISIM_WORKLOAD_TRACE_REUSE_H
#define AISIM_WORKLOAD_TRACE_REUSE_H

#include <stdbool.h>
#include <stdint.h>

#include "aisim/content.h"

typedef struct aisim_reuse_config {
    uint32_t block_size;      /**< wanted, >= 1 */
    uint64_t capacity_blocks; /**< per server, least recently used out first; 0 = never evict */
    uint32_t servers;         /**< request i goes to server i mod servers; >= 1 */
    bool full_only;  /**< whole blocks only and the last token always computed; false: the last,
                          partial block counts too */
    bool head_first; /**< blocks are touched from the first to the last; false: the other way */
    bool expires;    /**< no capacity: a block lives ttl_ns after its latest touch */
    int64_t ttl_ns;  /**< >= 0 */
} aisim_reuse_config;

typedef struct aisim_reuse_result {
    uint64_t requests, input_tokens, blocks_looked_up, hit_blocks, reused_tokens;
    uint64_t requests_with_hit, evictions, resident_blocks;
} aisim_reuse_result;

typedef struct aisim_reuse_cache aisim_reuse_cache;

aisim_reuse_cache *aisim_reuse_new(const aisim_reuse_config *config);
void aisim_reuse_free(aisim_reuse_cache *cache); /**< NULL allowed */

/** The next request.
 *  @param space         ids mean something inside it
 *  @param recorded      tokens per recorded block; the ids cover at most that many tokens each
 *  @param arrival_ns    for `expires`
 *  @return tokens reused. O(blocks) */
uint64_t aisim_reuse_add(aisim_reuse_cache *cache, uint64_t space, const aisim_id_run *ids,
                         uint32_t n_ids, uint32_t recorded, uint32_t input_tokens,
                         int64_t arrival_ns);

/** A request whose reuse is known from its session: leading tokens that it has in common with the
 *  conversation so far. @return tokens reused */
uint64_t aisim_reuse_add_kept(aisim_reuse_cache *cache, uint32_t kept_tokens,
                              uint32_t input_tokens);

aisim_reuse_result aisim_reuse_get(const aisim_reuse_cache *cache);

#endif
