/* route.h - options of the built-in routing policies (spec/routing.md).
 *
 * One struct for all policies; the option table that names, bounds and explains them is the object
 * "router" of the configuration schema, shared by YAML, Lua, --set and `aisim help router`. Fill it
 * from aisim_route_options_default() by hand, or let src/config do it. Times are nanoseconds. */
#ifndef AISIM_ROUTE_H
#define AISIM_ROUTE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Policies in C, with the cost of one decision over n eligible targets (e = extents on the path of
 *  the prompt). Only a policy that reads overlaps or blocks pays for the e. */
#define AISIM_ROUTE_POLICY_LIST(X)                                                                 \
    X(ROUND_ROBIN, "round_robin")         /* O(n) */                                               \
    X(RANDOM, "random")                   /* O(n), one draw */                                     \
    X(LEAST_REQUESTS, "least_requests")   /* O(n) */                                               \
    X(LEAST_TOKENS, "least_tokens")       /* O(n), O(e) per dispatch */                            \
    X(LEAST_KV, "least_kv")               /* O(n) */                                               \
    X(SHORTEST_QUEUE, "shortest_queue")   /* O(n) */                                               \
    X(P2C, "p2c")                         /* O(n), two draws */                                    \
    X(WEIGHTED_RANDOM, "weighted_random") /* O(n), one draw */                                     \
    X(HASH, "hash")                       /* O(n) hashes, O(n^2) comparisons; no state */          \
    X(HASH_BOUNDED, "hash_bounded")       /* the same */                                           \
    X(PREFIX, "prefix")                   /* O(n e) */                                             \
    X(KV, "kv")                           /* O(n e), a draw per tie or one with temperature */     \
    X(KV_V1, "kv_v1")                     /* O(n e) */

typedef enum {
#define X(name, text) AISIM_ROUTE_##name,
    AISIM_ROUTE_POLICY_LIST(X)
#undef X
        AISIM_ROUTE_POLICIES
} aisim_route_policy;

typedef enum { AISIM_TIES_LOWEST, AISIM_TIES_RANDOM } aisim_route_ties;
typedef enum {
    AISIM_KEY_SESSION,
    AISIM_KEY_ROOT,
    AISIM_KEY_USER,
    AISIM_KEY_PREFIX
} aisim_route_key;
typedef enum { AISIM_VIEW_EVENTS, AISIM_VIEW_APPROXIMATE, AISIM_VIEW_ORACLE } aisim_cache_view;
typedef enum { AISIM_QUEUE_FCFS, AISIM_QUEUE_LCFS, AISIM_QUEUE_WSPT } aisim_queue_order;
typedef enum {
    AISIM_AFFINITY_NONE,
    AISIM_AFFINITY_SESSION,
    AISIM_AFFINITY_SIBLING_GROUP
} aisim_affinity_mode;

enum { AISIM_ROUTE_MAX_WEIGHTS = 64 };

/** Defaults and ranges beside each member; which policy reads what: the option table. */
typedef struct aisim_route_options {
    aisim_route_policy policy; /**< ROUND_ROBIN; with affinity: the inner policy */
    aisim_route_ties ties;     /**< LOWEST; least_requests, least_tokens, least_kv */
    aisim_route_key key;       /**< SESSION; hash, hash_bounded */
    uint32_t prefix_blocks;    /**< 1, >= 1; key PREFIX */
    double load_factor;        /**< 1.25, >= 1; hash_bounded */
    uint32_t n_weights;        /**< 0 = all workers weigh 1, else >= workers, further ones for those
                                    added later (1 behind the last); weighted_random */
    double weights[AISIM_ROUTE_MAX_WEIGHTS]; /**< >= 0, one of them > 0 */
    double threshold;                        /**< 0.5, 0..1; prefix */
    double balance_abs;                      /**< 32, >= 0 requests; prefix */
    double balance_rel;                      /**< 1.0001, >= 1; prefix */

    double overlap_score_credit;  /**< a, 1, 0..1; kv */
    double host_credit;           /**< wh, 0.75, >= 0; kv */
    double disk_credit;           /**< wd, 0.25, >= 0; kv */
    double shared_credit;         /**< m, 0, >= 0; kv */
    double prefill_load_scale;    /**< s, 1, >= 0; kv */
    double active_request_weight; /**< q, 0, >= 0; kv */
    double overlap_decay;         /**< lambda, 0 = off, >= 0; kv */
    double temperature;           /**< T, 0, >= 0; kv, kv_v1 */
    double overlap_weight;        /**< w, 1, >= 0; kv_v1 */
    bool track_prefill;           /**< true */
    bool track_output_blocks;     /**< false; costs O(live requests) per decision */

    aisim_cache_view view;       /**< EVENTS */
    int64_t event_delay_ns;      /**< 0, >= 0; view EVENTS */
    int64_t ttl_ns;              /**< 120 s, > 0; view APPROXIMATE */
    int64_t telemetry_period_ns; /**< 0 = always current */

    double overload_prefill_tokens; /**< above it a target is overloaded; < 0 = no limit */
    double overload_blocks_ratio;   /**< active blocks / all blocks; < 0 = no limit */

    aisim_queue_order queue_order; /**< FCFS */
    double queue_threshold;        /**< hold while all are above threshold * max_batched_tokens; < 0
                                        = never */
    double queue_max_batched_tokens;

    aisim_affinity_mode affinity; /**< NONE */
    bool soft;                    /**< false: a live binding decides; true: it scales the cost */
    double soft_factor;           /**< 0.5, >= 0 */
    int64_t affinity_ttl_ns;      /**< 3600 s, 1 s .. 31,536,000 s */
} aisim_route_options;

static inline aisim_route_options aisim_route_options_default(void)
{
    aisim_route_options o;
    memset(&o, 0, sizeof o);
    o.prefix_blocks = 1;
    o.load_factor = 1.25;
    o.threshold = 0.5;
    o.balance_abs = 32.0;
    o.balance_rel = 1.0001;
    o.overlap_score_credit = 1.0;
    o.host_credit = 0.75;
    o.disk_credit = 0.25;
    o.prefill_load_scale = 1.0;
    o.overlap_weight = 1.0;
    o.track_prefill = true;
    o.ttl_ns = INT64_C(120000000000);
    o.overload_prefill_tokens = -1.0;
    o.overload_blocks_ratio = -1.0;
    o.queue_threshold = -1.0;
    o.soft_factor = 0.5;
    o.affinity_ttl_ns = INT64_C(3600000000000);
    return o;
}

/** "round_robin", …; never NULL. */
static inline const char *aisim_route_policy_text(aisim_route_policy policy)
{
    static const char *const texts[AISIM_ROUTE_POLICIES + 1] = {
#define X(name, text) text,
        AISIM_ROUTE_POLICY_LIST(X)
#undef X
    };
    return texts[policy < AISIM_ROUTE_POLICIES ? policy : 0];
}

/** @return false = no such policy in C (session, sibling_group are affinity modes). */
static inline bool aisim_route_policy_named(const char *name, aisim_route_policy *out)
{
    for (uint32_t i = 0; i < AISIM_ROUTE_POLICIES; i++) {
        if (strcmp(aisim_route_policy_text((aisim_route_policy)i), name) == 0) {
            *out = (aisim_route_policy)i;
            return true;
        }
    }
    return false;
}

#ifdef __cplusplus
}
#endif
#endif
