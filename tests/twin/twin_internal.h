/* twin_internal.h - the parts of the twin and what they show each other.
 *
 * dictionary  (parent identity, tokens) -> identity, exact: no hash decides equality
 * pool        blocks one by one; one queue of unreferenced blocks, the next victim first
 * lease       tokens, blocks and publications of one request
 * state       recurrent state and checkpoints (§11)
 * queues      who stands where, preemption
 * sched       the pass
 * external    requests held up by a connector outside (twin_external.h) */
#ifndef AISIM_TWIN_INTERNAL_H
#define AISIM_TWIN_INTERNAL_H

#include "base/array.h"
#include "base/map.h"
#include "base/rng.h"
#include "twin.h"
#include "twin_external.h"

typedef AISIM_ARRAY(uint32_t) twin_ids;

/** An identity: all tokens from the root to here. A root has the salt as its only token. */
typedef struct twin_node {
    uint32_t parent;
    uint32_t n;
    uint64_t *tokens;
    uint32_t bucket_next;
    twin_ids copies;      /**< blocks that carry it, oldest first (E-B6) */
    twin_ids checkpoints; /**< complete checkpoints of it, oldest first */
    twin_name name;       /**< first publisher */
    bool named;
} twin_node;

typedef struct twin_block {
    uint32_t refs;
    bool queued;
    uint32_t prev, next; /**< in the queue */
    uint32_t node;       /**< identity of the full page */
    uint32_t alias;      /**< identity of its first tokens (E-S9) */
    uint32_t checkpoint; /**< the checkpoint it is a part of */
    twin_name name;      /**< who published this copy */
} twin_block;

/** k blocks that hold the state after the tokens of node (E-S1). */
typedef struct twin_checkpoint {
    uint32_t node;
    uint64_t pass;   /**< of its publication (E-S4) */
    twin_ids blocks; /**< those still resident */
    bool complete;
} twin_checkpoint;

typedef struct twin_flat_event {
    bool stored;
    uint32_t node;
    uint32_t batch;
} twin_flat_event;

typedef struct twin_request {
    uint32_t id, serial, ordinal;
    twin_status status;
    twin_reason reason;
    uint32_t prompt, output, generated; /* P, O, G */
    AISIM_ARRAY(uint64_t) tokens;       /* L of them */
    AISIM_ARRAY(uint64_t) planned;
    int64_t priority;
    uint64_t salt;
    bool no_read, hold, blocked;
    /* external connector (twin_external.h) */
    bool aside;                   /* in the second queue by its doing */
    bool received;                /* the load has ended */
    bool loaded;                  /* its blocks hold what was loaded, not admitted since */
    bool kept;                    /* finished, its blocks are in use by a transfer yet */
    uint32_t local;               /* device hit when the load began */
    uint64_t asked;               /* pass in which the connector said: later */
    uint32_t computed, watermark; /* C, A */
    uint32_t high;                /* largest C before a preemption */
    twin_ids chain;               /* identities of the full blocks of the known tokens */
    twin_ids blocks;              /* bound ones, then the look-ahead */
    uint32_t published;           /* cursor, in blocks (N6) */
    bool admitted_before;
    uint32_t reused;
    twin_ids readmit;
    uint32_t preemptions;
    uint32_t missing;
    /* this pass */
    uint64_t pass; /* in which it was scheduled */
    uint32_t pass_tokens, pass_computed, pass_published;
    uint32_t pass_alias; /* block that got an alias */
    /* state cache */
    twin_ids working, previous, copies;
    uint32_t working_checkpoint; /* of the working blocks, or none */
    uint32_t snapshot;           /* latest mode: newest checkpoint of this request */
    uint32_t slot;
    uint64_t previous_pass;
    twin_ids step_checkpoints; /* published or moved in step_pass */
    uint64_t step_pass;
    uint32_t junction;
    /* speculation and overlap */
    uint32_t drafts;
    bool drafts_unknown;
    uint32_t placeholders;
    uint32_t outstanding; /* results not yet in */
    /* host tier */
    bool connected;        /* in the connector queue */
    uint32_t cursor;       /* prompt blocks that need no store any more */
    uint64_t latest_store; /* its id + 1, 0 = none */
    uint32_t host_reused;
    uint64_t verifications;
} twin_request;

typedef struct twin_row {
    uint32_t serial;
    uint32_t epoch; /* preemptions when planned */
    uint32_t verified;
    bool samples;
    bool prefill;
} twin_row;

typedef struct twin_batch {
    uint32_t id;
    AISIM_ARRAY(twin_row) rows;
    twin_ids rejected;
} twin_batch;

typedef struct twin_hit {
    uint32_t tokens;
    twin_ids blocks;     /* whole pages */
    uint32_t partial;    /* page matched in part, or none */
    uint32_t checkpoint; /* or none */
    uint32_t active;     /* of blocks, those somebody references */
    uint32_t junction;
    bool same_pass;    /* R12: written in this pass */
    uint32_t reserved; /* blocks the lease has already (a finished load) */
    uint32_t host;     /* tokens of the hit that were loaded */
    uint32_t external;
} twin_hit;

struct twin {
    aisim_rank_config config;
    struct twin_host *host; /* NULL = no host tier */
    bool host_withdrawn;    /* a load was cancelled and stands in its lane yet */
    bool flying;            /* a pass that is not in vain is in flight */
    int64_t now_ns;
    uint32_t rank;
    uint32_t b, n_blocks, budget_per_pass, limit; /* limit = M, or TWIN_NONE */
    uint32_t depth, lookahead, k;
    bool native, burst, caching, stateful, aligned;
    uint32_t external;
    twin_connector connector; /* match == NULL: none */
    /* dictionary */
    AISIM_ARRAY(twin_node) nodes;
    uint32_t *buckets;
    uint32_t n_buckets;
    /* pool */
    twin_block *blocks;
    uint32_t head, tail, queue_len, keyed_len;
    AISIM_ARRAY(twin_checkpoint) checkpoints;
    /* requests */
    AISIM_ARRAY(twin_request *) requests;
    aisim_map live; /* id -> serial */
    uint32_t n_live, next_ordinal;
    twin_ids running, waiting, skipped, pending;
    AISIM_ARRAY(twin_batch) batches;
    uint32_t next_batch;
    aisim_rng worker_stream;
    /* pass */
    uint64_t pass;
    uint32_t budget;
    uint32_t prompt_planned;
    bool preempted, capacity_bound, deferred, rejected_any;
    uint32_t batch_rows;
    uint32_t acquisition;
    uint32_t streak;
    twin_totals totals;
    AISIM_ARRAY(twin_item) items;
    AISIM_ARRAY(twin_pair) preempted_list, finished;
    AISIM_ARRAY(twin_emitted) emitted;
    AISIM_ARRAY(twin_name) evicted, names;
    AISIM_ARRAY(twin_flat_event) flat;
    AISIM_ARRAY(twin_event) events;
    twin_record record;
};

static inline uint32_t twin_ceil(uint32_t tokens, uint32_t b)
{
    return tokens / b + (tokens % b != 0);
}

static inline uint32_t twin_min(uint32_t x, uint32_t y)
{
    return x < y ? x : y;
}

static inline uint32_t twin_max(uint32_t x, uint32_t y)
{
    return x > y ? x : y;
}

/* twin_dict.c */
uint32_t twin_intern(twin *t, uint32_t parent, const uint64_t *tokens, uint32_t n);
uint32_t twin_root(twin *t, uint64_t salt);
void twin_dict_free(twin *t);

/* twin_pool.c */
void twin_pool_init(twin *t);
void twin_pool_free(twin *t);
bool twin_block_keyed(const twin_block *block);
void twin_ref(twin *t, uint32_t block);
void twin_unref(twin *t, uint32_t block);
void twin_unref_all(twin *t, twin_ids *blocks);
void twin_acquire(twin *t, uint32_t n, twin_ids *out);
uint32_t twin_queued(const twin *t, const twin_ids *blocks);
bool twin_index_add(twin *t, uint32_t block, uint32_t node, bool alias, twin_name by);
void twin_index_withdraw(twin *t, uint32_t block, bool alias);
void twin_index_remove(twin *t, uint32_t block);
void twin_settle(twin *t, uint32_t block);
uint32_t twin_checkpoint_add(twin *t, uint32_t node, const twin_ids *blocks);
void twin_checkpoint_move(twin *t, uint32_t checkpoint, const twin_ids *to);
void twin_checkpoint_discard(twin *t, uint32_t checkpoint);

/* twin_lease.c */
uint32_t twin_node_at(twin *t, twin_request *r, uint32_t tokens);
uint32_t twin_remaining(const twin *t, const twin_request *r);
void twin_lookup(twin *t, twin_request *r, twin_hit *hit);
void twin_hit_free(twin_hit *hit);
bool twin_allocate(twin *t, twin_request *r, uint32_t target, uint32_t slots);
bool twin_admit_allocate(twin *t, twin_request *r, const twin_hit *hit, uint32_t target,
                         uint32_t slots, uint32_t reserve);
void twin_publish(twin *t, twin_request *r, uint32_t tokens);
void twin_withdraw(twin *t, twin_request *r);
void twin_release(twin *t, twin_request *r);

/* twin_state.c */
uint32_t twin_boundary(const twin *t, uint32_t prompt);
uint32_t twin_state_extra(const twin *t, const twin_request *r, uint32_t target);
void twin_state_begin(twin *t, twin_request *r);
void twin_state_write(twin *t, twin_request *r, uint32_t target, const twin_ids *fresh);
void twin_state_admit(twin *t, twin_request *r, const twin_hit *hit, uint32_t target,
                      const twin_ids *fresh);
void twin_state_publish(twin *t, twin_request *r, uint32_t end);
void twin_state_release(twin *t, twin_request *r);
void twin_state_discard_step(twin *t, twin_request *r);
uint32_t twin_state_find(twin *t, uint32_t node, bool *same_pass);

/* twin_queues.c */
bool twin_has_priority(const twin *t);
/** Under `priority`: x goes first. */
bool twin_before(const twin_request *x, const twin_request *y);
void twin_insert_waiting(twin *t, twin_request *r);
void twin_insert_skipped(twin *t, twin_request *r);
void twin_preempt(twin *t, twin_request *r, bool undo);
twin_request *twin_victim(const twin *t);
void twin_leave(twin *t, twin_request *r, twin_reason reason);
void twin_ids_remove(twin_ids *list, uint32_t value);
twin_batch *twin_batch_find(twin *t, uint32_t id);

/* twin_external.c */
uint32_t twin_external_head(const twin *t);
uint32_t twin_external_ready(const twin *t);
uint64_t twin_external_headroom(const twin *t);
void twin_external_promote(twin *t, twin_request *r);
/** 0 = go on with the hit, 1 = next head, 2 = stop */
int twin_external_examine(twin *t, twin_request *r, twin_hit *hit);
bool twin_external_keeps(twin *t, twin_request *r);

/* twin_mtp.c */
void twin_burst_reserve(twin *t, twin_batch *batch);
uint32_t twin_draw_row(twin *t, twin_request *r, uint32_t drafts);
void twin_burst_return(twin *t, twin_request *r);

/* twin_handoff.c */
void twin_retry_reservations(twin *t);
bool twin_held_back(const twin *t, const twin_request *r);

#endif
