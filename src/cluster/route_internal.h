/* route_internal.h - the router object, shared by route.c and route_*.c. */
#ifndef AISIM_CLUSTER_ROUTE_INTERNAL_H
#define AISIM_CLUSTER_ROUTE_INTERNAL_H

#include "cluster/affinity.h"
#include "cluster/route.h"

typedef struct route_target {
    uint32_t worker, rank; /* from 1 */
    double weight;
    aisim_target_state state;
    uint64_t active_requests, active_prefill_tokens;
    uint64_t private_blocks;                /* active ones without a shared identity */
    aisim_span_set active;                  /* references of active shared blocks */
    aisim_span_set tier[AISIM_ROUTE_TIERS]; /* resident; approximate: DEVICE = time of expiry */
    aisim_route_telemetry now, seen;
} route_target;

typedef enum { ROUTE_FREE, ROUTE_SENT, ROUTE_BOOKED } route_record_state;

/* What the router remembers of a request, by slot. */
typedef struct route_record {
    route_record_state state;
    uint32_t target;
    uint32_t tokens;
    uint32_t uncached; /* still in active_prefill_tokens, once booked */
    uint32_t generated;
    uint32_t entry; /* of affinity, AISIM_NONE = no key */
    uint64_t private_blocks;
    AISIM_ARRAY(aisim_route_extent) path;
} route_record;

/* A KV event that is not visible yet. */
typedef struct route_pending {
    int64_t due_ns;
    uint32_t target;
    aisim_route_kv kind;
    aisim_route_tier tier;
    aisim_route_extent where;
} route_pending;

/* Blocks of a run on a target that may have expired (approximate view). */
typedef struct route_expiry {
    int64_t due_ns;
    uint64_t run;
    uint32_t target;
} route_expiry;

/* What a decision needs; fixed by the options. */
typedef struct route_wants {
    bool blocks, overlap, host, prefill, telemetry, keys, path; /* aisim_route_wants_* */
    bool cost, cost2, p;                                        /* the policy writes them */
    bool limits;                                                /* a target may be overloaded */
} route_wants;

struct aisim_route {
    aisim_route_config config;
    aisim_route_options o; /* = config.options */
    route_wants wants;
    int64_t now_ns;
    int64_t next_sample_ns;
    AISIM_ARRAY(route_target) targets;
    AISIM_ARRAY(uint32_t) order; /* targets by (worker, rank) */
    AISIM_ARRAY(route_record) records;
    AISIM_ARRAY(route_pending) pending; /* from pending_head on, by due_ns */
    uint32_t pending_head;
    AISIM_ARRAY(route_expiry) expiries; /* the same */
    uint32_t expiry_head;
    aisim_span_set shared;
    aisim_affinity affinity;
    uint32_t last;     /* round_robin: target chosen last, AISIM_NONE = none */
    double arrivals;   /* queued so far, for lcfs */
    uint64_t hash_key; /* of the decision, hash policies */
    /* of the decision, one entry per target; NaN = not eligible */
    AISIM_ARRAY(double) cost, cost2, p;
    AISIM_ARRAY(double) gathered, gathered_p; /* scratch: of each eligible target */
    AISIM_ARRAY(aisim_route_tiers) tiers;
    uint32_t blanked;               /* so many entries of these hold something */
    AISIM_ARRAY(uint32_t) eligible; /* targets in (worker, rank) order */
    bool eligible_stale;            /* … to be listed again */
    AISIM_ARRAY(uint32_t) preference;
    AISIM_ARRAY(uint64_t) weights; /* rendezvous, of each eligible target */
    AISIM_ARRAY(char) key;
    uint32_t bound; /* soft binding: the bound target, AISIM_NONE = none */
    uint32_t draws;
};

static inline uint64_t route_active_blocks(const route_target *t)
{
    return t->active.blocks + t->private_blocks;
}

/* Full and partial blocks of the prompt, R. */
static inline uint64_t route_blocks(const aisim_route *route, uint64_t tokens)
{
    return (tokens + route->config.block_size - 1) / route->config.block_size;
}

/* What is remembered of the request in a slot; made when absent. route_books.c */
route_record *route_record_of(aisim_route *route, uint32_t slot);
/* Remembers what an answer of the engine has to book. @param entry  of affinity, AISIM_NONE = none
 */
void route_remember(aisim_route *route, const aisim_route_request *request, uint32_t target,
                    uint32_t entry);
/* The target is in route->eligible. */
bool route_is_eligible(const aisim_route *route, uint32_t target);
/* Takes the samples that are due before this instant, or up to it. */
void route_sample(aisim_route *route, bool this_instant);
/* Leading blocks of the request on a target. */
aisim_route_tiers route_tiers_of(const aisim_route *route, uint32_t target,
                                 const aisim_route_request *request);
/* Key of affinity (§3), NULL = the request has none; valid until the next call. */
aisim_status route_affinity_key(aisim_route *route, const aisim_route_request *request,
                                const char **out, aisim_error *err);
/* Sets route->hash_key for the hash policies (§2). */
aisim_status route_hash_key(aisim_route *route, const aisim_route_request *request,
                            aisim_error *err);
/* route->eligible is not empty; answers one of it. route_pick.c */
uint32_t route_pick(aisim_route *route, const aisim_route_request *request, bool *fallback);

#endif
