/* recorder_state.h - what a recorder holds; shared by recorder.c and the writers of the report. */
#ifndef AISIM_METRICS_RECORDER_STATE_H
#define AISIM_METRICS_RECORDER_STATE_H

#include "base/array.h"
#include "base/map.h"
#include "metrics/gaps.h"
#include "metrics/levels.h"
#include "metrics/recorder.h"
#include "metrics/trend.h"

/** Request-level distributions: members of aisim_record. X(member). */
#define AISIM_DISTRIBUTION_LIST(X)                                                                 \
    X(ttft_ms)                                                                                     \
    X(ttst_ms)                                                                                     \
    X(t2_ms)                                                                                       \
    X(e2e_ms)                                                                                      \
    X(itl_ms)                                                                                      \
    X(decode_ms)                                                                                   \
    X(output_tok_s_per_user)                                                                       \
    X(prefill_tok_s_per_user)                                                                      \
    X(e2e_output_tok_s)                                                                            \
    X(e2e_per_token_ms)                                                                            \
    X(queue_ms)                                                                                    \
    X(router_queue_ms)                                                                             \
    X(prefill_router_queue_ms)                                                                     \
    X(decode_router_queue_ms)                                                                      \
    X(engine_queue_ms)                                                                             \
    X(prefill_ms)                                                                                  \
    X(preempt_stall_ms)                                                                            \
    X(input_tokens)                                                                                \
    X(output_tokens)                                                                               \
    X(reused_tokens)                                                                               \
    X(first_admission_reused_tokens)                                                               \
    X(accept_len)

typedef enum {
#define X(member) AISIM_DIST_##member,
    AISIM_DISTRIBUTION_LIST(X)
#undef X
        AISIM_DISTRIBUTIONS
} aisim_distribution;

/** Key of a distribution. */
const char *aisim_distribution_key(uint32_t index);

/** Hand-offs of one request. */
typedef struct aisim_handed {
    uint64_t bytes;
    uint32_t worker;    /* where its prompt was computed, last */
    bool sent;          /* the two above are known */
    int64_t wait_ns[2]; /* at the routers of prefill and decode, last; -1 = not placed */
} aisim_handed;

typedef struct aisim_class_state {
    char *name; /* NULL = not told */
    bool used;  /* a measured request of it has arrived */
    bool has_slo;
    aisim_slo slo;
    uint64_t arrived, completed, good;
    aisim_digest *distributions; /* AISIM_DISTRIBUTIONS, NULL while it is the only class */
} aisim_class_state;

typedef struct aisim_provision {
    int64_t t_ns;
    bool on;
} aisim_provision;

typedef struct aisim_worker_sums {
    char *pool, *role;
    double gpus;
    uint32_t first_rank, ranks;
    uint64_t blocks, batched_tokens;
    uint32_t block_size;
    AISIM_ARRAY(aisim_provision) provisions; /* ascending */
    uint64_t routed; /* placements of measured requests */
    uint64_t completed, input_tokens, output_tokens, preemptions, evicted_blocks;
} aisim_worker_sums;

/** Sums over passes of one rank. */
typedef struct aisim_rank_sums {
    uint32_t worker;
    uint64_t passes, prefill_passes, decode_passes, mixed_passes;
    uint64_t prefill_tokens, recomputed_tokens, decode_tokens, emitted;
    int64_t busy_ns;
} aisim_rank_sums;

/* Residency at the decision about a live request, by slot. */
typedef struct aisim_overlap {
    uint32_t request_id; /* 0 = none */
    int64_t chosen_blocks, best_blocks;
} aisim_overlap;

/* Decisions about measured requests (spec/routing.md §7). */
typedef struct aisim_routing_sums {
    uint64_t placements, affinity_hits;
    uint64_t sessions, moves;      /* sessions with a placement; placements elsewhere than before */
    aisim_map last;                /* (session, role) -> worker */
} aisim_routing_sums;

typedef struct aisim_transfer_sums {
    uint64_t jobs, bytes;
    int64_t time_ns;
    int64_t hold_ns; /* hand-offs: the source kept its blocks */
} aisim_transfer_sums;

typedef struct aisim_phase_mark {
    int64_t t_ns;
    char *from, *to;
} aisim_phase_mark;

enum { AISIM_SPEC_POSITIONS = 8, AISIM_TRANSFER_KINDS = 3 };

struct aisim_recorder {
    aisim_recorder_config config;
    int64_t start_ns; /* measurement start */
    int64_t end_ns;   /* end of the run, -1 = running */
    bool finished;

    /* requests */
    uint64_t arrived, outcomes[AISIM_OUTCOMES], preparation, never_issued;
    uint64_t crossed_start, crossed_end;
    int64_t first_arrival_ns, last_completion_ns; /* of the cohort, -1 = none */
    uint32_t first_measured;                      /* id of the first measured arrival, 0 = none */
    bool first_known; /* … and it completed: observation start is fixed */
    uint64_t input_tokens, output_tokens, reused_tokens, first_reused_tokens, hits;
    uint64_t host_reused_tokens; /* part of first_reused_tokens */
    uint64_t ideal_tokens;
    bool ideal_known;
    uint64_t good, good_output_tokens;
    bool any_slo;
    uint64_t preemptions, readmissions, recomputed;
    AISIM_ARRAY(uint32_t) completions; /* per second since the start */

    /* speculation: measured requests */
    uint64_t drafts, drafted, accepted;
    uint64_t accepted_more[AISIM_SPEC_POSITIONS]; /* verifications that accepted more than j */
    uint32_t positions;                           /* drafts of the widest verification */

    /* router.regret: of live requests, and of the cohort */
    AISIM_ARRAY(aisim_overlap) overlaps;
    uint64_t regret_decisions, chosen_blocks, best_blocks;
    aisim_routing_sums routing;

    /* distributions */
    aisim_digest distributions[AISIM_DISTRIBUTIONS];
    aisim_digest pass_tokens, pass_requests, pass_ms, play_ms;
    aisim_gaps gaps;
    AISIM_ARRAY(aisim_class_state) classes;
    uint32_t classes_used;
    uint16_t only_class;

    /* cluster */
    aisim_levels levels;
    AISIM_ARRAY(aisim_worker_sums) workers;
    AISIM_ARRAY(aisim_rank_sums) ranks;
    aisim_transfer_sums transfers[AISIM_TRANSFER_KINDS];
    aisim_map handed;                      /* request id -> its place in handed_over */
    AISIM_ARRAY(aisim_handed) handed_over; /* live requests that were handed off */
    AISIM_ARRAY(uint32_t) handed_free;
    aisim_rank_totals blocks; /* summed over ranks, at the end of the run */
    uint64_t evicted_blocks, plays_total, plays_completed;
    AISIM_ARRAY(int64_t) lane_start_ns; /* of the live play of each lane, -1 = none */

    AISIM_ARRAY(aisim_phase_mark) phases;
    AISIM_ARRAY(char *) warnings;
    aisim_trend trend;
    aisim_custom *custom;
};

/** State of a class, added if new. */
aisim_class_state *aisim_recorder_class_state(aisim_recorder *recorder, uint16_t class_id);
/** What ends at t_ns is in the figures: not of the preparation, not outside of the window. */
bool aisim_recorder_counts(const aisim_recorder *recorder, int64_t t_ns);
/** What neither the request nor the events tell: names of its class, its play, its sessions. */
void aisim_recorder_names(const aisim_recorder *recorder, const aisim_request *request,
                          aisim_record *record);
/** transfer.end */
void aisim_recorder_transfer(aisim_recorder *recorder, const aisim_event *event);
/** request.route of one of the two routers of a hand-off. */
void aisim_recorder_stage(aisim_recorder *recorder, const aisim_event *event);
/** Hand-offs of a request that is over, asked once. @return false = it had none */
bool aisim_recorder_handed(aisim_recorder *recorder, uint32_t request_id, aisim_handed *out);
/** request.route: who was placed where (recorder_routing.c). */
void aisim_recorder_route(aisim_recorder *recorder, const aisim_event *event);
/** Residency at the decision, if router.regret asked for it. */
void aisim_recorder_overlap(const aisim_recorder *recorder, const aisim_request *request,
                            aisim_record *record);
/** RANK_TOTALS: sums over ranks; the facts of a pool come with its first rank. */
void aisim_recorder_totals(aisim_recorder *recorder, const aisim_rank_totals *totals);
/** Sums of a rank, added if new. */
aisim_rank_sums *aisim_recorder_rank_sums(aisim_recorder *recorder, uint32_t rank);
/** KV level of a rank from t on; folds the log now and then. */
void aisim_recorder_level(aisim_recorder *recorder, int64_t t_ns, uint32_t rank, uint64_t used,
                          uint64_t cached, uint64_t total);

#endif
