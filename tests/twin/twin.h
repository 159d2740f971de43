/* twin.h - a block-by-block model of one rank, to be compared with the engine.
 *
 * The engine keeps content and capacity in extents; this model keeps tokens, blocks, references and
 * the eviction order one by one, in the plainest way that follows the rules of spec/engine.md. It
 * is slow on purpose (a pass is O(blocks)) and shares no code with the rooms above src/base.
 *
 * A pass is two calls: twin_plan() books progress, blocks and publications, twin_complete()
 * appends tokens, finishes and frees (reconciliation N1). Between them requests may be submitted
 * and cancelled. Several plans may be outstanding; they complete oldest first unless told
 * otherwise. Time does not exist here: a pass is a pass.
 *
 * Counts are tokens or blocks. Ids of requests are the caller's; a request that has finished can
 * still be read through its serial (the n-th accepted request, from 0) until twin_free().
 * Out of range arguments are caller bugs and stop the process (AISIM_CHECK). Not thread-safe. */
#ifndef AISIM_TWIN_H
#define AISIM_TWIN_H

#include <stdbool.h>
#include <stdint.h>

#include "aisim/config.h"

typedef struct twin twin;

#define TWIN_NONE UINT32_MAX

typedef enum {
    TWIN_WAITING,   /**< never admitted since submission (E-L3) */
    TWIN_PREEMPTED, /**< lost its blocks, waits to be resumed */
    TWIN_RUNNING,
    TWIN_PENDING,  /**< handoff: waits for blocks at the destination (§15) */
    TWIN_RESERVED, /**< handoff: blocks taken, transfer under way */
    TWIN_HELD,     /**< handoff: source finished, its blocks are kept */
    TWIN_REMOTE,   /**< an asynchronous load fills its blocks (twin_external.h) */
    TWIN_FINISHED
} twin_status;

typedef enum {
    TWIN_LIVE,
    TWIN_LENGTH,
    TWIN_CONTEXT,
    TWIN_CANCELLED,
    TWIN_REJECTED_EMPTY,
    TWIN_REJECTED_CONTEXT,
    TWIN_REJECTED_CAPACITY,
    TWIN_REJECTED_BUDGET /**< chunking off, prompt longer than the budget (§2) */
} twin_reason;

/** "length", "context", "cancelled", "rejected:empty", …; "" while live. */
const char *twin_reason_name(twin_reason reason);

/** What is submitted. Zero-initialise; arrays are copied. */
typedef struct twin_submit_args {
    uint32_t id;
    const uint64_t *prompt; /**< token ids */
    uint32_t prompt_len;
    uint32_t output_len;
    const uint64_t *output_ids; /**< planned ids of the first outputs, may be NULL */
    uint32_t n_output_ids;
    int64_t priority; /**< smaller = more urgent */
    uint64_t salt;    /**< part of the root identity */
    bool no_read;     /**< lookup gives 0, publication as usual */
    bool hold;        /**< keeps its lease when it finishes (prefill side of a handoff) */
    bool blocked;     /**< waits in the second queue until twin_unblock() */
} twin_submit_args;

/** One scheduled request of a pass. */
typedef struct twin_item {
    uint32_t id, serial;
    uint32_t tokens;     /**< budget tokens, drafts included */
    uint32_t prefix;     /**< C before, at most P, hit included */
    uint32_t chunk;      /**< prompt tokens computed */
    uint32_t generated;  /**< known tokens behind the prompt computed in this pass */
    uint32_t recomputed; /**< those of them that had been computed before a preemption (D3) */
    uint32_t drafts;     /**< draft positions verified */
    uint32_t known;      /**< L at scheduling time */
    uint32_t slots;      /**< tokens for which capacity was asked */
    bool admitted;
    uint32_t reused; /**< of the admission */
} twin_item;

/** (request, number): what the number is depends on the list. */
typedef struct twin_pair {
    uint32_t id, value;
} twin_pair;

typedef struct twin_emitted {
    uint32_t id, serial;
    uint32_t tokens;   /**< delivered */
    uint32_t accepted; /**< drafts accepted, before the cut */
    uint32_t verified; /**< drafts verified */
    bool forward;      /**< counts as a decode forward (mtp.md §7) */
} twin_emitted;

/** A block as (publisher, block index). Evicted blocks: who published that copy, TWIN_NONE for
 *  blocks of a checkpoint. Events: who published that identity first in the life of the twin. */
typedef struct twin_name {
    uint32_t id, index;
} twin_name;

/** One KV event (E-H7): a run of names_len entries from names[first]. */
typedef struct twin_event {
    bool stored; /**< else removed */
    bool has_parent;
    twin_name parent; /**< of the first stored block */
    uint32_t first, len;
} twin_event;

/** What happened since the last twin_plan() began. Owned by the twin, valid until the next call. */
typedef struct twin_record {
    uint64_t pass; /**< 1, 2, … */
    uint32_t batch;
    bool deferred, changed; /**< changed = false: E-T8 */
    uint32_t budget_left;
    const twin_item *items;
    uint32_t n_items;
    const twin_pair *preempted; /**< value = C before the pass */
    uint32_t n_preempted;
    const twin_emitted *emitted;
    uint32_t n_emitted;
    const twin_pair *finished; /**< value = twin_reason; order of E-O3 */
    uint32_t n_finished;
    const twin_name *evicted;
    uint32_t n_evicted;
    const twin_event *events;
    uint32_t n_events;
    const twin_name *names;
    uint32_t n_names;
} twin_record;

/** State of one request. */
typedef struct twin_view {
    uint32_t id, serial, ordinal;
    twin_status status;
    twin_reason reason;
    uint32_t prompt, output, generated, known, computed, watermark; /**< P, O, G, L, C, A */
    uint32_t owned;     /**< token blocks of the lease, look-ahead included */
    uint32_t opaque;    /**< of them, look-ahead (E-M4) */
    uint32_t published; /**< leading blocks that have an identity in the index */
    uint32_t state_blocks;
    uint32_t drafts, placeholders;
    uint32_t reused; /**< at first admission; TWIN_NONE = never admitted (E-L4) */
    uint32_t preemptions;
    const uint32_t *readmit_reused;
    uint32_t n_readmit;
    const uint64_t *tokens; /**< known of them */
    const uint32_t *blocks; /**< owned of them, block ids 0 … N-1 */
    uint32_t missing;       /**< handoff destination: tokens to transfer */
    uint32_t host_reused;   /**< host tier: part of `reused` that was loaded */
} twin_view;

/** @param config a checked configuration; copied. @param rank index of the rank in its worker. */
twin *twin_new(const aisim_rank_config *config, uint32_t rank);
void twin_free(twin *t);

/** @return the serial of the request, or TWIN_NONE when the id is live (E-T4). */
uint32_t twin_submit(twin *t, const twin_submit_args *args);

/** Ends a live request in whatever stage it is (E-T5). @return false for a no-op. */
bool twin_cancel(twin *t, uint32_t id);

/** Moves a blocked request from the second queue into the waiting queue. */
bool twin_unblock(twin *t, uint32_t id);

/** Steps 0 to 2 of a pass. @return the batch, to be completed. */
uint32_t twin_plan(twin *t, bool defer_prefill);

/** Given by the caller instead of drawn: the result of one request of the batch. */
typedef struct twin_result {
    uint32_t serial;
    uint32_t tokens;     /**< number of tokens, base included; 0 = no row */
    const uint64_t *ids; /**< their ids, may be NULL */
    uint32_t drafts;     /**< drafts outstanding afterwards; TWIN_NONE = depth */
} twin_result;

/** Completes a batch. @param results NULL: one token per ready row, drafts drawn. Otherwise rows
 *  without a result get nothing. */
void twin_complete(twin *t, uint32_t batch, const twin_result *results, uint32_t n);

/** Both. */
void twin_pass(twin *t, bool defer_prefill);

const twin_record *twin_last(twin *t);

/** @return false when the id is not live. */
bool twin_find(const twin *t, uint32_t id, twin_view *out);
/** @return false when the serial was never given. */
bool twin_read(const twin *t, uint32_t serial, twin_view *out);

/** Lists of serials in order. @return the length. */
uint32_t twin_running(const twin *t, const uint32_t **serials);
uint32_t twin_waiting(const twin *t, const uint32_t **serials);
uint32_t twin_skipped(const twin *t, const uint32_t **serials);

typedef struct twin_totals {
    uint32_t active, inactive, free; /**< blocks (E-B1) */
    uint32_t live;                   /**< requests, held and reserved ones too */
    bool ready, drained;             /**< E-T7 */
    bool capacity_bound;             /**< E-P17 */
    bool livelock;                   /**< too many preempting passes without a token (E-T8) */
    uint64_t preemptions, decode_forwards, accepted_including_base;
    uint64_t lookups, lookup_tokens, hit_tokens; /**< first admissions only */
    /** Queued requests (E-F1): counts, tokens, population variance of the lengths (the twin leaves
     *  them 0). */
    uint64_t queued_prefill, queued_prefill_tokens, queued_decode, queued_decode_tokens;
    double queued_prefill_variance, queued_decode_variance;
    /** Rare paths, so that a test can say it reached them (the engine double leaves them 0). */
    uint64_t undone, withdrawn, withdrawn_promoted, duplicates, promoted, self_preemptions;
} twin_totals;

twin_totals twin_sum(const twin *t);

/** E-G2. @param ranks ranks of the group. */
bool twin_defers(const twin *t, uint32_t ranks, uint64_t wave_step);

/** Replaces the token budget of a pass from here on. */
void twin_set_budget(twin *t, uint32_t tokens);

/** A connector that offers `matched` tokens beyond the device hit to every lookup, at once. */
void twin_set_external(twin *t, uint32_t matched);

/** E-B8; with force everything running is preempted first. @return false: nothing changed. */
bool twin_reset(twin *t, bool force);

/** §15, destination. @return false: error, no state (id live, P >= M, or larger than the pool). */
bool twin_reserve(twin *t, const twin_submit_args *args);
/** The transfer has arrived. @return false for a no-op. */
bool twin_activate(twin *t, uint32_t id);
/** §15, source: gives the held lease back. @return false for a no-op. */
bool twin_release_source(twin *t, uint32_t id);

/** The split function of §11.4. @param cap B, or min(B, threshold). @param drop back-off of one
 *  block. @return tokens. */
uint32_t twin_align_split(aisim_align_split kind, uint32_t b, uint32_t u, uint32_t cap, bool drop,
                          uint32_t junction, uint32_t start, uint32_t prompt, uint32_t known,
                          uint32_t desired);

/** mtp.md §2, the draw of (seed, rank, request, step): accepted drafts of `drafts` verified. */
uint32_t twin_draw(uint64_t seed, uint32_t rank, uint64_t request, uint64_t step,
                   const double *rates, uint32_t drafts);

/* ---- host tier (config.host.scope is not none): time exists --------------------------------- */

/** The time of the next calls, in ns; never goes back. */
void twin_set_time(twin *t, int64_t t_ns);
/** The next end of a transfer or, in a shared pool, event of the link; INT64_MAX = none. */
int64_t twin_next_transfer(const twin *t);
/** What has ended by t_ns is settled and told to the rank; no pass is in flight. @return whether
 *  anybody was woken */
bool twin_transfers(twin *t, int64_t t_ns);
/** Shared pool, while a pass is in flight: what ends by t_ns becomes visible, the rank does not
 * hear of it yet. */
void twin_flow(twin *t, int64_t t_ns);
/** A pass planned now computes from here on, not before. */
int64_t twin_fence(const twin *t);
/** The other client of a shared pool stores or loads blocks [first, end) of that request's prompt.
 *  @return whether a transfer began */
bool twin_peer_store(twin *t, uint32_t serial, uint32_t first, uint32_t end);
bool twin_peer_load(twin *t, uint32_t serial, uint32_t first, uint32_t end);

typedef struct twin_host_event {
    bool stored;
    twin_name block;
} twin_host_event;

typedef struct twin_host_view {
    uint32_t used, pending, pinned; /**< blocks */
    uint64_t headroom, evicted, stored;
    const twin_name *order; /**< evictable blocks, next victim first */
    uint32_t n_order;
    const twin_host_event *changes; /**< since the last look */
    uint32_t n_changes;
    const twin_pair
        *queue; /**< connector queue: id, stage (0 asleep, 1 awake, 2 loading, 3 loaded) */
    uint32_t n_queue;
} twin_host_view;

void twin_host_look(twin *t, twin_host_view *out);

/** Walks everything and stops the process on a broken invariant (§17). */
void twin_verify(const twin *t);

#endif
