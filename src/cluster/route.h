/* route.h - one router of one pool: what it knows, how it decides (spec/routing.md §1 to §4).
 *
 * The router keeps its own books: it is told of arrivals, answers, first tokens, ends, KV events,
 * telemetry and worker states, and knows nothing of the engine. sim/routing.c connects it to
 * a simulation. Targets are numbered from 0 as they are added; (worker, rank) order is kept
 * besides.
 *
 * Life: new -> targets -> decide / accept / refuse / first_token / done … -> free. Times never go
 * back. Requests are named by the caller's slot, unique while the request lives.
 *
 * Books. A request counts from accept to done: +1 request, + uncached tokens (until first_token), +
 * blocks. Blocks are extents (span.h), so a decision costs O(extents on the path) per target and
 * never O(tokens); blocks without a shared identity are a number. */
#ifndef AISIM_CLUSTER_ROUTE_H
#define AISIM_CLUSTER_ROUTE_H

#include "aisim/route.h"
#include "aisim/status.h"
#include "base/rng.h"
#include "cluster/span.h"

typedef struct aisim_route aisim_route;

/** What routing asks of a request. Texts may be NULL = it has none. */
typedef struct aisim_route_request {
    uint32_t slot;
    uint32_t tokens;                /**< prompt, isl */
    const aisim_route_extent *path; /**< leading full blocks with a shared identity */
    uint32_t extents;
    const char *id;   /**< key of a request that has no other */
    const char *play; /**< NULL = "" */
    const char *session;
    const char *parent, *root; /**< sessions of the same play */
    const char *user;
    bool no_lineage;         /**< nobody knows its parent and root */
    double weight;           /**< of wspt, > 0 */
    uint32_t pin;            /**< a target, or AISIM_NONE */
    const uint32_t *exclude; /**< targets it may not use */
    uint32_t excluded;
} aisim_route_request;

/** Why the target. */
typedef enum { AISIM_BY_POLICY, AISIM_BY_BINDING, AISIM_BY_TENTATIVE, AISIM_BY_PIN } aisim_route_by;
/** "policy", "binding", "tentative", "pin". */
static inline const char *aisim_route_by_text(aisim_route_by by)
{
    static const char *const texts[] = {"policy", "binding", "tentative", "pin"};
    return texts[by];
}

/** Leading blocks on a target: device, then host, disk, shared cache, each going on where the
 *  higher ones end. */
typedef struct aisim_route_tiers {
    uint32_t device, host, disk, shared;
} aisim_route_tiers;

/** One decision. Arrays have one entry per target, are the router's own and valid until the next
 *  call; NaN = not eligible or not computed. */
typedef struct aisim_route_decision {
    uint32_t target; /**< AISIM_NONE = queue */
    aisim_route_by by;
    bool fallback;         /**< prefix: least load decided */
    uint64_t key_hash;     /**< hash: of the key */
    uint32_t draws;        /**< used */
    int64_t overlap;       /**< device blocks on the chosen target, -1 = nobody asked */
    uint32_t best;         /**< largest device overlap of an eligible target */
    const double *cost;    /**< shortest_queue: waiting */
    const double *cost2;   /**< shortest_queue: running */
    const double *p;       /**< weighted_random, temperature > 0 */
    const uint32_t *order; /**< hash: the eligible targets by preference */
    uint32_t ordered;
    const aisim_route_tiers *tiers;
} aisim_route_decision;

typedef enum { AISIM_TARGET_UP, AISIM_TARGET_DRAIN, AISIM_TARGET_DOWN } aisim_target_state;
typedef enum {
    AISIM_ROUTE_DEVICE,
    AISIM_ROUTE_HOST,
    AISIM_ROUTE_DISK,
    AISIM_ROUTE_SHARED, /* one for all targets */
    AISIM_ROUTE_TIERS = AISIM_ROUTE_SHARED
} aisim_route_tier;
typedef enum { AISIM_ROUTE_STORED, AISIM_ROUTE_REMOVED, AISIM_ROUTE_CLEARED } aisim_route_kv;

/** What a router is made of. */
typedef struct aisim_route_config {
    aisim_route_options options;
    uint32_t block_size;
    bool everything;               /**< keep every book, whatever the policy reads */
    aisim_rng rng;                 /**< the router's named stream */
    void *context;                 /**< of the callbacks; NULL callbacks are legal */
    double (*draw)(void *context); /**< instead of rng */
    void (*hold)(void *context, uint64_t run, bool held);
    /** View ORACLE: true leading blocks of the request on a target. */
    void (*resident)(void *context, uint32_t slot, uint32_t target, aisim_route_tiers *out);
    /** Leading device blocks of the request that the target could use; NULL = all of them. */
    uint32_t (*usable)(void *context, uint32_t slot, uint32_t target);
} aisim_route_config;

/** @return AISIM_OK, or AISIM_EINVAL for options that contradict each other (soft binding with a
 *  policy without a cost). */
aisim_status aisim_route_new(const aisim_route_config *config, aisim_route **out, aisim_error *err);
void aisim_route_free(aisim_route *route); /**< NULL allowed */

/** The policy's cost is one number per target: soft binding can scale it, others can add it up. */
bool aisim_route_has_cost(aisim_route_policy policy);

/** Which books the policy needs: those who feed the router may leave out the rest. */
bool aisim_route_wants_blocks(const aisim_route *route);
bool aisim_route_wants_overlap(const aisim_route *route);
bool aisim_route_wants_host(const aisim_route *route);    /**< tiers below the device */
bool aisim_route_wants_prefill(const aisim_route *route); /**< and the chosen overlap */
bool aisim_route_wants_telemetry(const aisim_route *route);
bool aisim_route_wants_keys(const aisim_route *route); /**< texts of the request */
bool aisim_route_wants_path(const aisim_route *route); /**< its path */

/* ---- targets --------------------------------------------------------------------------------- */

/** worker and rank from 1. @return its number. */
uint32_t aisim_route_target(aisim_route *route, uint32_t worker, uint32_t rank, double weight,
                            uint64_t kv_total);
uint32_t aisim_route_targets(const aisim_route *route);
/** A target that drains or goes down loses its bindings for good (§3). */
void aisim_route_state(aisim_route *route, uint32_t target, aisim_target_state state);

/** Engine telemetry from now on; AISIM_NONE / UINT64_MAX = unchanged. */
typedef struct aisim_route_telemetry {
    uint32_t waiting, running;
    uint64_t kv_used, kv_total;
} aisim_route_telemetry;
void aisim_route_report(aisim_route *route, uint32_t target, const aisim_route_telemetry *now);

/** Time is now: samples of earlier instants are taken, KV events that are due become visible, life
 *  times end. Call it before reporting what happens at now_ns. */
void aisim_route_clock(aisim_route *route, int64_t now_ns);

/** Something happened in the cache of a target; visible event_delay later (§1). Tier SHARED, any
 *  target: in the one that the pool shares; visible at once, in every view. */
void aisim_route_kv_event(aisim_route *route, uint32_t target, aisim_route_kv kind,
                          aisim_route_tier tier, aisim_route_extent where);

/* ---- requests -------------------------------------------------------------------------------- */

/** Decides at now. Books nothing but the choice; the caller dispatches and answers.
 *  @return AISIM_OK, AISIM_EINVAL when the run has to be refused (lineage is missing). */
aisim_status aisim_route_decide(aisim_route *route, int64_t now_ns,
                                const aisim_route_request *request, aisim_route_decision *out,
                                aisim_error *err);
/** Target to which the affinity key of the request is bound, AISIM_NONE = it has none. */
uint32_t aisim_route_bound(aisim_route *route, int64_t now_ns, const aisim_route_request *request);
/** Somebody else decided: as if decide had chosen the target. An unanswered choice of the slot is
 *  refused first; a request without lineage is not bound. */
void aisim_route_place(aisim_route *route, int64_t now_ns, const aisim_route_request *request,
                       uint32_t target);
/** The engine's answer to the dispatch of the last decision for this slot. */
void aisim_route_accept(aisim_route *route, uint32_t slot);
void aisim_route_refuse(aisim_route *route, uint32_t slot);
void aisim_route_first_token(aisim_route *route, uint32_t slot);
void aisim_route_generated(aisim_route *route, uint32_t slot, uint32_t generated);
/** Terminal, or taken back to the router: no-op for a slot that is not booked. */
void aisim_route_done(aisim_route *route, uint32_t slot);

/** Place in the router queue: smaller first, ties first come (§2). */
double aisim_route_queue_key(aisim_route *route, int64_t now_ns,
                             const aisim_route_request *request);

typedef struct aisim_route_book {
    uint64_t active_requests, active_prefill_tokens, active_blocks;
} aisim_route_book;
aisim_route_book aisim_route_book_of(const aisim_route *route, uint32_t target);

/** Affinity keys in order of first use: text, bound target (AISIM_NONE = not or no longer bound),
 *  active requests. @return false behind the last. */
bool aisim_route_binding(const aisim_route *route, uint32_t i, const char **key, uint32_t *target,
                         uint32_t *leases);

/* ---- pure functions ----------------------------------------------------------------------------
 */

/** Key of a text: mix(FNV-1a 64). */
uint64_t aisim_route_text_key(const char *text);
/** k = mix(k ^ id) over the ids. */
uint64_t aisim_route_blocks_key(const uint64_t *ids, uint32_t n);
/** Rendezvous weight of a target, worker and rank from 1; the highest wins. */
uint64_t aisim_route_rendezvous(uint64_t key, uint32_t worker, uint32_t rank);

/** What the kv cost of a target is made of (§4). */
typedef struct aisim_route_kv_terms {
    aisim_route_tiers have;       /**< D, H, K, S */
    double block_size, tokens;    /**< bs, isl */
    double decode_blocks;         /**< active there once the request is */
    double active_prefill_tokens; /**< P_act */
    double least_prefill_tokens;  /**< the smallest P_act of an eligible target */
    double active_requests;
} aisim_route_kv_terms;

/** §4: cost of policy kv. Reads the options of kv only. */
double aisim_route_kv_cost(const aisim_route_options *options, const aisim_route_kv_terms *terms);

/** §4, T = 0: place of the smallest of n >= 1 costs. The k-th tied one, k >= 2, replaces the kept
 *  one if draw * k < 1; draw NULL = the first of them stays. */
uint32_t aisim_route_least(const double cost[], uint32_t n, double (*draw)(void *context),
                           void *context);

/** First of n places whose cumulative probability reaches u in [0, 1), the last one if rounding
 *  leaves none; what has no probability is left out. */
uint32_t aisim_route_draw(const double p[], uint32_t n, double u);

/** §4, T > 0: costs are range-normalised, then drawn; equal ones uniformly. One draw.
 *  @param p  receives the n probabilities */
uint32_t aisim_route_softmax(const double cost[], uint32_t n, double temperature,
                             double (*draw)(void *context), void *context, double p[]);

#endif
