/* events.h - what the engine tells whoever listens (A6).
 *
 * One event record, a type tag, and observers that say with a bit mask what they want. An event
 * nobody asked for costs one bit test. Events become visible at the pass end, in the order of
 * spec/lua-api.md §6 "Order and numbers"; pass.begin is the only exception. Observers read; they
 * change the simulation only through aisim/sim.h calls, which act after the current event.
 * Classes (price): request and run events keep every fast path; PASS events make the engine stop at
 * each pass; TOKEN events (CHUNK, TOKENS) at each request of each pass. */
#ifndef AISIM_EVENTS_H
#define AISIM_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "aisim/request.h"

#ifdef __cplusplus
extern "C" {
#endif

/** X(name, hook): hook = name in scenarios, "" = internal. */
#define AISIM_EVENT_LIST(X)                                                                        \
    X(RUN_START, "run.start")                                                                      \
    X(RUN_END, "run.end")                                                                          \
    X(ARRIVE, "request.arrive")                                                                    \
    X(ROUTE, "request.route")                                                                      \
    X(ADMIT, "request.admit")                                                                      \
    X(FIRST_TOKEN, "request.first_token")                                                          \
    X(PREEMPT, "request.preempt")                                                                  \
    X(FINISH, "request.finish")                                                                    \
    X(REJECT, "request.reject")                                                                    \
    X(TRANSFER_START, "transfer.start")                                                            \
    X(TRANSFER_END, "transfer.end")                                                                \
    X(HOST_STORE, "host.store")                                                                    \
    X(HOST_LOAD, "host.load")                                                                      \
    X(HOST_EVICT, "host.evict")                                                                    \
    X(STATE_CHECKPOINT, "state.checkpoint")                                                        \
    X(STATE_RESTORE, "state.restore")                                                              \
    X(WORKER_STATE, "worker.state")                                                                \
    X(PASS_BEGIN, "pass.begin")                                                                    \
    X(PASS_END, "pass.end")                                                                        \
    X(KV_STORE, "kv.store")                                                                        \
    X(KV_EVICT, "kv.evict")                                                                        \
    X(PLAY_START, "play.start")                                                                    \
    X(PLAY_END, "play.end")                                                                        \
    X(PHASE, "phase")                                                                              \
    X(CHUNK, "request.chunk")                                                                      \
    X(TOKENS, "request.tokens")                                                                    \
    X(GAP, "")                                                                                     \
    X(KV_LEVEL, "")                                                                                \
    X(VERIFY, "")                                                                                  \
    X(RANK_TOTALS, "")                                                                             \
    X(UNFINISHED, "")                                                                              \
    X(DECIDE, "")                                                                                  \
    X(EDGE, "")                                                                                    \
    X(SHIFT, "")

typedef enum {
#define X(name, hook) AISIM_EV_##name,
    AISIM_EVENT_LIST(X)
#undef X
        AISIM_EV_COUNT
} aisim_event_type;

#define AISIM_EV_BIT(type) (UINT64_C(1) << (type))

/** Where a rejection was decided (request.reject `where`). */
typedef enum { AISIM_WHERE_ADMISSION, AISIM_WHERE_ROUTER, AISIM_WHERE_ENGINE } aisim_where;
typedef enum { AISIM_TIER_DEVICE, AISIM_TIER_HOST, AISIM_TIER_STATE } aisim_tier;

typedef enum {
    AISIM_TRANSFER_HANDOFF,
    AISIM_TRANSFER_OFFLOAD,
    AISIM_TRANSFER_RESTORE
} aisim_transfer;

/** Prices transfers instead of bandwidths (spec/lua-api.md §9): nanoseconds >= 0 for so many bytes
 *  between two workers (the same one: the worker and its host memory). Transfers of one lane stand
 *  behind each other; the latency to the first byte stays. */
typedef struct aisim_transfer_price {
    int64_t (*price)(void *context, aisim_transfer kind, uint64_t bytes, uint32_t src,
                     uint32_t dst); /**< NULL = bandwidths */
    void *context;                  /**< of the caller; outlives the simulation */
    bool pure; /**< depends on its arguments alone: it may be asked while ranks fast-forward */
} aisim_transfer_price; /**< `kind` of transfer.start and transfer.end */

/** Facts of one pass of one rank. */
typedef struct aisim_pass_facts {
    uint64_t pass;              /**< number on its rank, from 0 */
    int64_t begin_ns, end_ns;   /**< end of the group for ranks in lock step */
    uint64_t prefill_tokens;    /**< prompt tokens computed */
    uint64_t recomputed_tokens; /**< generated tokens computed again (D3) */
    uint64_t prefix_tokens;     /**< sum of C before, prefill items, at most P each (E-F1) */
    uint64_t decode_tokens;     /**< scheduled tokens of decode items */
    uint64_t context_tokens;    /**< sum of L of decode items */
    uint32_t n_prefill;         /**< items that are prefill: computed prompt or resumed */
    uint32_t n_decode;
    uint32_t scheduled;        /**< requests with tokens */
    uint32_t emitted;          /**< tokens delivered */
    uint32_t running, waiting; /**< after the pass */
    uint32_t n_preempted;
    uint32_t evicted; /**< identities that the device lost since the pass before */
    uint64_t active_blocks, inactive_blocks, total_blocks; /**< after the pass */
    int64_t gap_ns; /**< token gap shared by gap_count requests: those that delivered a token here
                         and in the previous pass of this rank that delivered any … */
    uint32_t gap_count; /**< … the gap of every other request arrives as GAP event */
    uint32_t zero_gaps; /**< gaps of 0 inside bursts */
} aisim_pass_facts;

/** What one rank has done with its two tiers of blocks (RANK_TOTALS). Pairs: stores, loads. */
typedef struct aisim_rank_totals {
    uint64_t allocated_blocks; /**< taken fresh from the device pool */
    uint64_t published_blocks; /**< identities that became visible on the device */
    uint64_t evicted_blocks;   /**< cached device blocks that made room */
    bool state; /**< it keeps recurrent states (spec/engine.md §11); the next six are 0 without */
    uint64_t state_checkpoints; /**< published */
    double state_bytes;         /**< of one */
    uint64_t state_admissions, state_restores;
    uint64_t state_matched_tokens, state_usable_tokens; /**< E-S8: blocks there; a checkpoint too */
    bool host; /**< the rank has a host tier; the rest is 0 without one */
    bool pool;                 /**< first rank of its host pool: the next five speak of the pool */
    uint64_t host_blocks, host_resident, host_used, host_peak, host_evicted;
    uint64_t jobs[2], completed[2], blocks[2], bytes[2]; /**< submitted, ended, submitted */
    int64_t transfer_ns[2];                              /**< submission to end, summed */
    int64_t busy_ns[2];                                  /**< private lanes: moving */
    int64_t wait_ns[2];                                  /**< private lanes: behind other jobs */
    uint64_t cancelled_loads;
    uint64_t retries, unfittable;                 /**< store ranges that found no room */
    uint64_t lookups, hits, hit_blocks, deferred; /**< of waiting requests */
    int64_t fence_ns;                             /**< by which copies delayed passes */
} aisim_rank_totals;

/** One decision of a router (DECIDE), with what was there before its request was placed. Blocks are
 *  leading full prompt blocks; resident ones are the truth, whatever the policy believes. */
typedef struct aisim_decision_facts {
    const char *pool, *policy; /**< names */
    const char *by;            /**< "policy", "binding", "tentative", "pin" (spec/routing.md §3, §4) */
    double cost;               /**< of the chosen target, NaN = the policy has none */
    uint32_t targets;          /**< that were eligible */
    uint32_t worker, rank_in_worker;           /**< chosen: global worker, its rank; from 0 */
    uint32_t best_worker, best_rank_in_worker; /**< eligible target with most resident blocks; ties:
                                                    the chosen one, then the lowest */
    int64_t overlap_blocks;            /**< the policy counted on, -1 = it does not use overlaps */
    uint64_t chosen_blocks, best_blocks; /**< resident on those two */
    uint64_t active_requests, active_requests_min; /**< of the chosen, least of the eligible */
    uint64_t waiting, running, kv_used, kv_total;  /**< of the chosen */
} aisim_decision_facts;

typedef struct aisim_event {
    aisim_event_type type;
    uint32_t rank;                /**< global rank from 0, AISIM_NONE = none */
    int64_t t_ns;                 /**< time of visibility */
    const aisim_request *request; /**< NULL for run and pass events */
    union {
        struct {
            uint32_t worker;        /**< global worker from 0 */
            bool bound;             /**< a live affinity binding decided */
            int64_t overlap_blocks; /**< -1 = the policy does not use overlaps */
            int64_t chosen_blocks; /**< router.regret: there on the chosen target, -1 = not asked */
            int64_t best_blocks;   /**< the same on the eligible target that has most */
            uint32_t stage;        /**< hand-off: 1 prefill, 2 decode router; else 0 */
            int64_t wait_ns; /**< since its arrival, its last loss, or the choice of stage 1 */
        } route;
        struct {
            uint32_t reused_tokens;
            int64_t wait_ns;
            int64_t begin_ns; /**< begin of the admitting pass */
        } admit;
        struct {
            int64_t ttft_ns;
        } first_token;
        struct {
            uint32_t lost_tokens; /**< C before the pass */
            int64_t begin_ns;     /**< begin of the pass that preempted */
        } preempt;
        struct {
            int64_t ideal_tokens; /**< what an infinite cache would have reused, -1 = unknown */
        } finish;                 /**< reason: request->end */
        struct {
            aisim_where where;
        } reject; /**< reason: request->end */
        struct {
            uint32_t start, tokens;
        } chunk;
        struct {
            uint32_t n;
        } tokens;
        struct {
            int64_t gap_ns;
        } gap; /**< an irregular token gap of request */
        struct {
            uint32_t blocks;
            aisim_tier tier;
            uint32_t run, first_block; /**< identity of the first block */
            uint32_t request_id;       /**< publisher (kv.store), 0 for evictions */
        } kv;
        struct {
            uint32_t worker;
            const char *from, *to;
        } worker;
        struct {
            uint64_t waiting, running, free_blocks, pass;
        } pass_begin;
        struct {
            uint32_t lane;
            const char *play;
            const char *status; /**< play.end only */
        } play;
        struct {
            const char *from, *to;
        } phase;
        struct {
            uint64_t used, cached, total; /**< KV_LEVEL: blocks from now on */
        } level;
        const aisim_pass_facts *pass;
        struct {
            aisim_transfer kind;
            uint32_t src, dst; /**< global workers from 0 (offload, restore: the same twice) */
            uint64_t bytes;
            int64_t begin_ns;    /**< transfer.end: when the transfer started */
            int64_t held_ns;     /**< handoff: since when the source keeps the blocks for it */
            int64_t end_ns;      /**< when it ends or ended, perhaps inside a pass; INT64_MAX / 2 =
                                      not known yet, 0 = at t_ns */
            uint64_t blocks;     /**< offload, restore */
            uint32_t request_id; /**< also of a request that has ended (request NULL) */
        } transfer;
        struct {
            uint32_t at_tokens; /**< STATE_CHECKPOINT, STATE_RESTORE: C whose state it is */
        } state;
        struct {
            uint32_t drafted, accepted; /**< VERIFY: one verification of request, before trimming */
        } verify;
        const aisim_rank_totals *totals; /**< RANK_TOTALS, valid during the call */
        struct {
            uint32_t source_id;   /**< EDGE: the request that `request` has waited for */
            const char *relation; /**< "spawn", "join", "barrier" */
            bool at_dispatch;     /**< for its dispatch, not for its end */
        } edge;
        struct {
            uint32_t lane;         /**< SHIFT: whose pending requests come earlier, AISIM_NONE = of
                                        all lanes */
            int64_t shifted_by_ns; /**< by so much */
        } shift;
        const aisim_decision_facts *decision; /**< DECIDE, valid during the call */
    } u;
} aisim_event;

typedef void (*aisim_observe_fn)(void *context, const aisim_event *event);

typedef struct aisim_observer {
    uint64_t mask; /**< AISIM_EV_BIT(…) of what it wants */
    void *context;
    aisim_observe_fn fn;
    bool passive; /**< looks at the event and what it points to, at nothing else, changes nothing:
                       passes in which nothing is decided may then be told in one go */
} aisim_observer;

enum { AISIM_MAX_OBSERVERS = 8 };

/** The observers of one simulation. mask = union of theirs; recompute the masks with
 *  aisim_observers_update() after changing one. */
typedef struct aisim_observers {
    uint64_t mask;
    uint64_t active_mask; /**< of those that are not passive */
    uint32_t n;
    uint8_t first[AISIM_EV_COUNT], end[AISIM_EV_COUNT]; /**< by type: who wants it is among these */
    aisim_observer list[AISIM_MAX_OBSERVERS];
} aisim_observers;

static inline void aisim_observers_update(aisim_observers *observers)
{
    observers->mask = observers->active_mask = 0;
    for (uint32_t i = 0; i < observers->n; i++) {
        observers->mask |= observers->list[i].mask;
        observers->active_mask |= observers->list[i].passive ? 0 : observers->list[i].mask;
    }
    for (uint32_t type = 0; type < AISIM_EV_COUNT; type++) {
        observers->first[type] = observers->end[type] = 0;
        for (uint32_t i = observers->n; i-- > 0;) {
            if (observers->list[i].mask & AISIM_EV_BIT(type)) {
                observers->first[type] = (uint8_t)i;
                if (observers->end[type] == 0) {
                    observers->end[type] = (uint8_t)(i + 1);
                }
            }
        }
    }
}

static inline int aisim_wanted(const aisim_observers *observers, aisim_event_type type)
{
    return (observers->mask & AISIM_EV_BIT(type)) != 0;
}

static inline void aisim_emit(const aisim_observers *observers, const aisim_event *event)
{
    for (uint32_t i = observers->first[event->type]; i < observers->end[event->type]; i++) {
        if (observers->list[i].mask & AISIM_EV_BIT(event->type)) {
            observers->list[i].fn(observers->list[i].context, event);
        }
    }
}

/* Internal events. GAP, VERIFY: in the place of request.tokens of their request. KV_LEVEL: whenever
 * the level of a rank changes outside of a pass end, that is after planning. UNFINISHED: once for
 * each request that has arrived and is still live, by id, just before RUN_END (t_ns = end of the
 * run), so that its scheduler events are counted. RANK_TOTALS: once for each rank before RUN_END.
 * DECIDE: whenever a router has placed a request, in each pool, before anything is booked;
 * `request` has arrived and is not dispatched yet. EDGE: agent plays, a request was
 * created because another one was sent or has ended, in another conversation. SHIFT: an idle guard
 * has cut a gap (spec/traffic.md §2.5).
 * HOST_STORE, HOST_LOAD, HOST_EVICT use u.transfer (end_ns: when it will be done); an eviction is
 * told with the store that needs the room. */

/** Hook name of the event ("" = internal); never NULL. */
const char *aisim_event_hook(aisim_event_type type);

#ifdef __cplusplus
}
#endif
#endif
