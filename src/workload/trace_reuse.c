/* trace_reuse.c - a hash map from (block, server) to a slot of one array; slots of one server are
 * chained by recency. */
#include "workload/trace_reuse.h"

#include "base/array.h"
#include "base/map.h"
#include "base/rng.h"

typedef struct slot {
    uint64_t key;
    uint32_t newer, older; /* within the server */
    int64_t touched_ns;
} slot;

typedef struct server {
    uint32_t newest, oldest; /* AISIM_NONE = empty */
    uint64_t resident;
} server;

struct aisim_reuse_cache {
    aisim_reuse_config config;
    aisim_reuse_result result;
    aisim_map map;
    AISIM_ARRAY(slot) slots;
    uint32_t free_slot;
    server *servers;
    AISIM_ARRAY(uint64_t) keys; /* of the current request */
};

aisim_reuse_cache *aisim_reuse_new(const aisim_reuse_config *config)
{
    aisim_reuse_cache *cache = aisim_alloc_zero(1, sizeof *cache);
    cache->config = *config;
    cache->free_slot = AISIM_NONE;
    cache->servers = aisim_alloc(config->servers, sizeof *cache->servers);
    for (uint32_t i = 0; i < config->servers; i++) {
        cache->servers[i] = (server){AISIM_NONE, AISIM_NONE, 0};
    }
    return cache;
}

void aisim_reuse_free(aisim_reuse_cache *cache)
{
    if (cache == NULL) {
        return;
    }
    aisim_map_free(&cache->map);
    aisim_array_free(&cache->slots);
    aisim_array_free(&cache->keys);
    aisim_free(cache->servers);
    aisim_free(cache);
}

/* ---- recency ---- */

static void detach(aisim_reuse_cache *cache, server *s, uint32_t index)
{
    slot *at = &cache->slots.data[index];
    if (at->newer != AISIM_NONE) {
        cache->slots.data[at->newer].older = at->older;
    } else {
        s->newest = at->older;
    }
    if (at->older != AISIM_NONE) {
        cache->slots.data[at->older].newer = at->newer;
    } else {
        s->oldest = at->newer;
    }
}

static void make_newest(aisim_reuse_cache *cache, server *s, uint32_t index)
{
    slot *at = &cache->slots.data[index];
    at->newer = AISIM_NONE;
    at->older = s->newest;
    if (s->newest != AISIM_NONE) {
        cache->slots.data[s->newest].newer = index;
    } else {
        s->oldest = index;
    }
    s->newest = index;
}

static void evict_oldest(aisim_reuse_cache *cache, uint32_t number)
{
    server *s = &cache->servers[number];
    uint32_t index = s->oldest;
    detach(cache, s, index);
    aisim_map_remove(&cache->map, cache->slots.data[index].key, number);
    cache->slots.data[index].older = cache->free_slot;
    cache->free_slot = index;
    s->resident--;
    cache->result.evictions++;
}

static void touch(aisim_reuse_cache *cache, uint32_t number, uint64_t key, int64_t now_ns)
{
    server *s = &cache->servers[number];
    uint32_t index = aisim_map_get(&cache->map, key, number);
    if (index != AISIM_NONE) {
        detach(cache, s, index);
    } else {
        index = cache->free_slot;
        if (index != AISIM_NONE) {
            cache->free_slot = cache->slots.data[index].older;
        } else {
            index = cache->slots.len;
            aisim_array_push(&cache->slots, (slot){0});
        }
        cache->slots.data[index].key = key;
        aisim_map_set(&cache->map, key, number, index);
        s->resident++;
    }
    cache->slots.data[index].touched_ns = now_ns;
    make_newest(cache, s, index);
    if (cache->config.capacity_blocks > 0 && s->resident > cache->config.capacity_blocks) {
        evict_oldest(cache, number);
    }
}

static bool present(const aisim_reuse_cache *cache, uint32_t number, uint64_t key, int64_t now_ns)
{
    uint32_t index = aisim_map_get(&cache->map, key, number);
    return index != AISIM_NONE &&
           (!cache->config.expires ||
            now_ns - cache->slots.data[index].touched_ns <= cache->config.ttl_ns);
}

/* ---- blocks ---- */

static uint32_t gcd(uint32_t a, uint32_t b)
{
    return b == 0 ? a : gcd(b, a % b);
}

/* Keys of the blocks that the ids cover, the last one perhaps in part. */
static void cut(aisim_reuse_cache *cache, uint64_t space, const aisim_id_run *ids, uint32_t n,
                uint32_t recorded, uint64_t tokens)
{
    uint32_t wanted = cache->config.block_size;
    uint32_t piece = gcd(recorded, wanted);
    uint64_t done = 0;
    uint64_t hash = space;
    cache->keys.len = 0;
    for (uint32_t i = 0; i < n; i++) {
        for (uint64_t k = 0; k < ids[i].count; k++) {
            for (uint32_t part = 0; part < recorded && done < tokens; part += piece) {
                uint64_t id = ids[i].first + k;
                hash = aisim_mix64(aisim_mix64(hash ^ id) ^ part);
                uint64_t step = tokens - done < piece ? tokens - done : piece;
                if (step < piece && recorded != wanted) {
                    hash = aisim_mix64(hash ^ (step << 32));
                }
                done += step;
                if (done % wanted == 0 || done == tokens) {
                    aisim_array_push(&cache->keys, hash);
                    hash = space; /* a block is what it holds; its past is the prefix rule's */
                }
            }
        }
    }
}

uint64_t aisim_reuse_add(aisim_reuse_cache *cache, uint64_t space, const aisim_id_run *ids,
                         uint32_t n_ids, uint32_t recorded, uint32_t input_tokens,
                         int64_t arrival_ns)
{
    const aisim_reuse_config *c = &cache->config;
    aisim_reuse_result *r = &cache->result;
    uint64_t covered = 0;
    for (uint32_t i = 0; i < n_ids; i++) {
        covered += ids[i].count;
    }
    covered = recorded > 0 ? covered * recorded : 0;
    covered = covered < input_tokens ? covered : input_tokens;
    cut(cache, aisim_mix64(space), ids, n_ids, recorded > 0 ? recorded : 1, covered);
    uint64_t looked = cache->keys.len;
    uint64_t inserted = cache->keys.len;
    if (c->full_only) {
        uint64_t usable = input_tokens > 0 ? input_tokens - 1u : 0;
        usable = (usable < covered ? usable : covered) / c->block_size;
        looked = usable < looked ? usable : looked;
        inserted = covered / c->block_size;
    }
    uint32_t number = (uint32_t)(r->requests % c->servers);
    uint64_t hit = 0;
    while (hit < looked && present(cache, number, cache->keys.data[hit], arrival_ns)) {
        hit++;
    }
    for (uint64_t i = 0; i < inserted; i++) {
        touch(cache, number, cache->keys.data[c->head_first ? i : inserted - 1 - i], arrival_ns);
    }
    uint64_t reused = hit * c->block_size;
    reused = reused < input_tokens ? reused : input_tokens;
    r->requests++;
    r->input_tokens += input_tokens;
    r->blocks_looked_up += looked;
    r->hit_blocks += hit;
    r->reused_tokens += reused;
    r->requests_with_hit += hit > 0;
    return reused;
}

uint64_t aisim_reuse_add_kept(aisim_reuse_cache *cache, uint32_t kept_tokens, uint32_t input_tokens)
{
    uint64_t reused = kept_tokens - kept_tokens % cache->config.block_size;
    cache->result.requests++;
    cache->result.input_tokens += input_tokens;
    cache->result.reused_tokens += reused;
    cache->result.requests_with_hit += reused > 0;
    return reused;
}

aisim_reuse_result aisim_reuse_get(const aisim_reuse_cache *cache)
{
    aisim_reuse_result result = cache->result;
    for (uint32_t i = 0; i < cache->config.servers; i++) {
        result.resident_blocks += cache->servers[i].resident;
    }
    return result;
}
