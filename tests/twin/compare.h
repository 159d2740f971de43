/* compare.h - random workloads driven into the twin and the engine and compared (A10).
 *
 * A *case* is a configuration of one rank, a list of requests and what happens to them; it can be
 * generated from (seed, index), printed, read back and made smaller. Pass numbers count calls of
 * plan from 0; an idle rank still counts them.
 *
 *   compare_make.c    (seed, index, features) -> case
 *   compare_text.c    case <-> text
 *   compare_run.c     drives both sides; compare_same.c compares, compare_count.c counts
 *   compare_shrink.c  a failing case -> a smaller one that still fails
 *   compare.c         the program */
#ifndef AISIM_COMPARE_H
#define AISIM_COMPARE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "aisim/config.h"
#include "base/array.h"

#define COMPARE_NONE UINT32_MAX

typedef AISIM_ARRAY(uint64_t) compare_tokens;
typedef AISIM_ARRAY(uint32_t) compare_passes;

typedef enum {
    COMPARE_PLAIN,
    COMPARE_SOURCE,      /**< keeps its blocks when it ends, until released (handoff) */
    COMPARE_DESTINATION, /**< reserved instead of submitted, then activated */
    COMPARE_BLOCKED      /**< waits in the second queue until it is unblocked */
} compare_role;

typedef struct compare_request {
    uint32_t id; /**< equal ids: the second is refused while the first lives (E-T4) */
    compare_tokens prompt;
    compare_tokens planned; /**< ids of the first outputs */
    uint32_t output;
    int32_t priority;
    uint64_t salt;
    bool no_read;
    uint32_t after;        /**< index of an earlier request, or none */
    uint32_t arrive;       /**< pass; with `after`, passes behind its end */
    bool arrive_in_flight; /**< between plan and complete of that pass */
    uint32_t cancel;       /**< pass, or none */
    bool cancel_in_flight;
    compare_role role;
    uint32_t hand; /**< passes to release, activation or unblocking */
} compare_request;

typedef struct compare_budget {
    uint32_t pass, tokens;
} compare_budget;

/** Shared host tier: what the other client does. */
typedef struct compare_peer {
    uint32_t pass, request;
    uint32_t first, end; /**< blocks of its prompt */
    bool load, in_flight;
} compare_peer;

typedef struct compare_case {
    aisim_rank_config config;
    AISIM_ARRAY(compare_request) requests;
    compare_passes defer; /**< passes that defer prefills */
    compare_passes reset; /**< passes before which the cache is reset */
    compare_passes flush; /**< the same with force: everything running is preempted first */
    AISIM_ARRAY(compare_budget) budgets;
    AISIM_ARRAY(compare_peer) peers;
    uint32_t pass_ns, gap_ns; /**< host tier: a pass takes one to four of these; rests in between */
    uint32_t connector;       /**< tokens that a connector offers to every lookup (tests only) */
    uint32_t look_every; /**< running requests are looked at in passes that this divides; 0 = all */
    bool listen;         /**< every other eight passes somebody listens for each token */
    bool waves; /**< deferral follows E-G2 with config.group_ranks and the pass as wave step */
} compare_case;

/* ---- features: what the generator may use ---------------------------------------------------- */

/** X(name, default). Switch a feature on here once the engine has it. */
#define COMPARE_FEATURES(X)                                                                        \
    X(cancel, true)                                                                                \
    X(in_flight, true)                                                                             \
    X(defer, true)                                                                                 \
    X(priority, true)                                                                              \
    X(fifo, true)                                                                                  \
    X(context_limit, true)                                                                         \
    X(unchunked, true)                                                                             \
    X(uncached, true)                                                                              \
    X(watermark, true)                                                                             \
    X(never_fits_wait, true)   /* R1 */                                                            \
    X(charge_chunk, true)      /* R2 */                                                            \
    X(prefill_threshold, true) /* R4 */                                                            \
    X(stop_at_zero, true)      /* R5 */                                                            \
    X(self_ends_pass, true)    /* R6 */                                                            \
    X(reset, true)                                                                                 \
    X(budget, true)                                                                                \
    X(salt, true)                                                                                  \
    X(no_read, true)                                                                               \
    X(sessions, true)                                                                              \
    X(duplicate_id, true)                                                                          \
    X(waves, true)                                                                                 \
    X(handoff, true)                                                                               \
    X(state_aligned, true)                                                                         \
    X(state_latest, true)                                                                          \
    X(mtp_native, true)                                                                            \
    X(mtp_burst, true)                                                                             \
    X(pipelined, true)                                                                             \
    X(async, true)                                                                                 \
    X(second_queue, true)                                                                          \
    X(connector, true)                                                                             \
    X(flush, true)                                                                                 \
    X(host, true)                                                                                  \
    X(host_shared, true)                                                                           \
    X(quiet, true)                                                                                 \
    X(listen, true)

typedef enum {
#define X(name, on) COMPARE_WITH_##name,
    COMPARE_FEATURES(X)
#undef X
        COMPARE_FEATURE_COUNT
} compare_feature;

extern const char *const compare_feature_names[COMPARE_FEATURE_COUNT];
uint64_t compare_features_default(void);
/** "a,b" = only these, "+a,-b" = changes to the default, "all".
 *  @return NULL, or the name that is unknown. */
const char *compare_features_parse(const char *list, uint64_t *features);

/* ---- coverage: X(name, what is counted) ------------------------------------------------------ */

#define COMPARE_COUNTERS(X)                                                                        \
    X(passes, "passes")                                                                            \
    X(passes_in_vain, "passes that could do nothing")                                              \
    X(quiet_passes, "passes at whose running requests nobody looked")                              \
    X(scheduled, "scheduled items")                                                                \
    X(chunks_open, "prompt chunks that leave a rest")                                              \
    X(admissions, "first admissions")                                                              \
    X(admissions_zero, "admissions without a token to compute")                                    \
    X(hits, "first admissions with a hit")                                                         \
    X(hits_partial, "hits shorter than the bound")                                                 \
    X(hits_full, "hits up to the bound")                                                           \
    X(hits_output, "hits that reach into planned outputs of another request")                      \
    X(readmissions, "admissions after a preemption")                                               \
    X(readmission_hits, "of them with a hit")                                                      \
    X(preemptions, "preemptions")                                                                  \
    X(preemptions_many, "passes with two and more victims")                                        \
    X(self_preemptions, "requests that had to make room for themselves")                           \
    X(undone, "preemptions of a request already scheduled in the pass")                            \
    X(withdrawn, "blocks whose publication was withdrawn")                                         \
    X(withdrawn_promoted, "of them with a copy that takes the place")                              \
    X(published, "blocks published")                                                               \
    X(duplicates, "of them further copies")                                                        \
    X(promoted, "copies that took the place of an evicted or withdrawn one")                       \
    X(evicted, "evicted blocks")                                                                   \
    X(evicted_copy, "of them copies, another one stays")                                           \
    X(blocked_head, "passes that end at a blocked head")                                           \
    X(blocked_by_slots, "passes that end with all slots taken and a queue")                        \
    X(blocked_behind, "blocked heads with a request behind them")                                  \
    X(deferred, "passes that defer prefills")                                                      \
    X(deferred_blocked, "deferring passes with a queue left")                                      \
    X(rejected_empty, "rejected: empty")                                                           \
    X(rejected_context, "rejected: context")                                                       \
    X(rejected_queued, "rejected at admission: capacity or budget")                                \
    X(rejected_running, "rejected while running")                                                  \
    X(finished_length, "finished: length")                                                         \
    X(finished_context, "finished: context")                                                       \
    X(finished_silent, "finished without an output token")                                         \
    X(cancel_waiting, "cancelled waiting")                                                         \
    X(cancel_preempted, "cancelled while preempted")                                               \
    X(cancel_running, "cancelled running")                                                         \
    X(cancel_in_flight, "cancelled while in flight")                                               \
    X(submit_in_flight, "submitted in flight")                                                     \
    X(refused_id, "refused: the id is live")                                                       \
    X(resets, "resets")                                                                            \
    X(resets_refused, "resets refused")                                                            \
    X(flushes, "resets with force while something ran")                                            \
    X(unblocked, "requests that came from the second queue")                                       \
    X(late_results, "tokens for a request that was preempted meanwhile (N1)")                      \
    X(livelocks, "passes with the livelock flag")                                                  \
    X(transfers_between, "ends of transfers between passes")                                       \
    X(fenced, "passes that wait for a copy")                                                       \
    X(peer_transfers, "transfers of the peer")                                                     \
    X(host_evicted, "evicted host blocks")                                                         \
    X(asleep, "looks at a sleeping request")                                                       \
    X(loading, "looks at a loading request")                                                       \
    X(loaded, "looks at a loaded request that waits")                                              \
    X(headroom, "looks with headroom")                                                             \
    X(held, "handoff sources held")                                                                \
    X(activated, "handoff destinations activated")                                                 \
    X(accepted_drafts, "accepted drafts")                                                          \
    X(cut_short, "workloads that ended at the pass limit")

typedef enum {
#define X(name, text) COMPARE_##name,
    COMPARE_COUNTERS(X)
#undef X
        COMPARE_COUNTER_COUNT
} compare_counter;

extern const char *const compare_counter_texts[COMPARE_COUNTER_COUNT];

typedef struct compare_result {
    bool same;
    uint32_t pass;
    char difference[512];
    uint64_t counters[COMPARE_COUNTER_COUNT];
} compare_result;

/* ---- the parts ------------------------------------------------------------------------------- */

compare_case *compare_make(uint64_t seed, uint64_t index, uint64_t features);
compare_case *compare_copy(const compare_case *from);
void compare_free(compare_case *c); /**< NULL allowed */

void compare_print(const compare_case *c, FILE *out);
/** @return NULL after printing what is wrong. */
compare_case *compare_parse(FILE *in, const char *name);

/** Drives both; stops at the first difference. A broken invariant ends the process. */
void compare_run(const compare_case *c, compare_result *result);

/** The case becomes smaller and still fails (differs, or ends its process).
 *  @return number of attempts. */
uint32_t compare_shrink(compare_case *c);

/** Runs the case in a process of its own. @return whether both sides agreed and the process lived.
 *  @param difference  of at least 512 bytes, or NULL */
bool compare_run_apart(const compare_case *c, char *difference);

#endif
