/* agentx.h - the AgentX client: lanes that replay plays, as a state machine without an engine.
 *
 * The client knows when a request has to be sent; whoever drives it owns the clock and the server.
 * Times are nanoseconds from the start of the run (0 = first preparation request).
 *
 *     while (!aisim_agentx_done(a)) {
 *         // 1. all terminals and settlements of this instant: aisim_agentx_terminal, _settled
 *         // 2. then aisim_agentx_advance(a, now) when now >= aisim_agentx_next_time_ns(a)
 *     }
 *
 * A lane is a client slot with one live play; it starts at a cut of its first play (traffic 2.2),
 * is prepared by primers and warmup requests (2.3), and from the barrier on replays play after
 * play until the deadline (2.4). Order at one instant: terminals, cutoff, refilled lanes, tree
 * guards in lane order, the global guard, ready requests by (lane, node ordinal).
 *
 * Invariants (2.6): issued = successful + failed + cancelled + in flight; planned = issued + never
 * issued. Memory is O(lanes * requests of a play + requests on the server) and one record per play
 * and shift (none with forget_plays); a play that is over leaves nothing else.
 * Not thread-safe. Rules: spec/traffic.md 1.6 (readiness), 2. */
#ifndef AISIM_WORKLOAD_AGENTX_H
#define AISIM_WORKLOAD_AGENTX_H

#include <stdbool.h>
#include <stdint.h>

#include "aisim/status.h"
#include "workload/agentx_config.h"
#include "workload/corpus.h"

/** A time that was not reached. */
#define AISIM_AGENTX_NO_TIME INT64_C(-1)

typedef enum {
    AISIM_AGENTX_START,
    AISIM_AGENTX_PRIMER,
    AISIM_AGENTX_WARMUP,
    AISIM_AGENTX_SETTLE, /**< preparation answered, server work not yet done */
    AISIM_AGENTX_PROFILE,
    AISIM_AGENTX_GRACE, /**< nothing is issued any more */
    AISIM_AGENTX_DRAIN, /**< cancelled, waiting for acknowledgements */
    AISIM_AGENTX_DONE,
    AISIM_AGENTX_FAILED /**< preparation failed: the barrier stays closed */
} aisim_agentx_phase;

typedef enum {
    AISIM_TERMINAL_COMPLETED,
    AISIM_TERMINAL_FAILED,   /**< failed or rejected */
    AISIM_TERMINAL_OVERFLOW, /**< rejected because it does not fit the context: a failure that,
                                  with on_error = continue, ends its conversation */
    AISIM_TERMINAL_CANCELLED
} aisim_terminal_status;

typedef enum {
    AISIM_PLAY_COMPLETED,
    AISIM_PLAY_FAILED,
    AISIM_PLAY_INCOMPLETE /**< still running; final once the run is over */
} aisim_play_status;

/** What to send. Conversations are those of the play instance: (slot, conversation) is a key that
 *  never comes back. Valid during the callback. */
typedef struct aisim_agentx_request {
    const aisim_play *play;
    uint32_t request; /**< node ordinal in the play */
    uint32_t lane;
    uint32_t k;               /**< number of the play in its lane, from 0 */
    uint64_t slot;            /**< k * lanes + lane: the namespace of block identities */
    aisim_agentx_phase phase; /**< primer, warmup or profile */
    uint32_t warmup_index;    /**< of the lane's warmup requests, from 0 */
    uint64_t input_tokens;
    uint64_t output_tokens; /**< 1 in preparation */
    uint32_t conversation;
    uint32_t parent, root; /**< AISIM_NONE = none, or lineage absent */
    bool lineage;          /**< false: parent and root are unknown */
} aisim_agentx_request;

/** One play instance. Times -1 = not reached. */
typedef struct aisim_agentx_play {
    const aisim_play *play; /**< its ordinal is the source */
    uint32_t lane, k;
    uint64_t slot;
    int64_t start_ns; /**< initial plays: the barrier */
    int64_t end_ns;   /**< lane freed */
    int64_t e2e_ns;   /**< completed plays: last terminal - first root dispatch or activation */
    aisim_play_status status;
    uint32_t planned, issued, successful, failed, cancelled; /**< never issued = planned - issued */
    uint32_t cause; /**< failed plays: the request, AISIM_NONE otherwise */
    int64_t cause_ns;
} aisim_agentx_play;

/** One correction by an idle guard. */
typedef struct aisim_agentx_shift {
    int64_t at_ns;
    int64_t shifted_by_ns;
    bool global;
    uint32_t lane, k; /**< of the play, when not global */
    uint32_t timers;  /**< pending timers that moved */
} aisim_agentx_shift;

/** Accounting (traffic 2.6). Final when the run is over, consistent at any time. */
typedef struct aisim_agentx_report {
    const aisim_agentx_config *config; /**< as it was given */
    aisim_agentx_phase phase;
    int64_t primer_end_ns, warmup_end_ns, barrier_ns, cutoff_ns, grace_end_ns, drain_end_ns;
    uint64_t primer_requests, warmup_requests;
    uint64_t planned, issued, successful, failed, cancelled, in_flight, never_issued, unsettled;
    uint64_t plays_started, plays_client_completed, plays_failed, plays_retired;
    uint64_t plays_server_quiescent;
    uint32_t corpus_cursor;   /**< source of the play that would come next */
    int64_t first_request_ns; /**< first profile request */
    int64_t first_success_arrival_ns, last_success_ns;
    int64_t observation_ns;          /**< 0 without a success */
    double throughput_rps;           /**< NaN without a success or when observation_ns is 0 */
    aisim_agentx_phase failed_phase; /**< when phase is FAILED */
    uint32_t failed_lane, failed_request, failed_warmup_index;
    int64_t failed_ns;
    const aisim_agentx_play *plays; /**< by (start, lane); NULL with forget_plays */
    uint32_t n_plays;
    const aisim_agentx_shift *shifts;
    uint32_t n_shifts;
} aisim_agentx_report;

/** What the client calls. send and cancel may answer at once by calling aisim_agentx_terminal;
 *  aisim_agentx_advance must not be called from inside. Others may be NULL. */
typedef struct aisim_agentx_callbacks {
    void (*send)(void *ctx, const aisim_agentx_request *request, uint64_t handle);
    void (*cancel)(void *ctx, uint64_t handle);
    void (*phase)(void *ctx, aisim_agentx_phase phase, int64_t now_ns);
    void (*play_start)(void *ctx, const aisim_agentx_play *play);
    void (*play_end)(void *ctx, const aisim_agentx_play *play); /**< incomplete ones too */
    void (*shift)(void *ctx, const aisim_agentx_shift *shift);
    bool (*server_quiet)(void *ctx); /**< asked before the barrier opens, besides settlements */
} aisim_agentx_callbacks;

typedef struct aisim_agentx aisim_agentx;

/** Checks the configuration and cuts the initial plays; nothing is sent yet.
 *  @param corpus     finished, outlives the client
 *  @param callbacks  copied
 *  @return AISIM_OK, AISIM_ERANGE (configuration), AISIM_EINVAL (a cut that history crosses) */
aisim_status aisim_agentx_new(const aisim_corpus *corpus, const aisim_agentx_config *config,
                              const aisim_agentx_callbacks *callbacks, void *ctx,
                              aisim_agentx **out, aisim_error *err);

/** NULL allowed. */
void aisim_agentx_free(aisim_agentx *agentx);

/** When advance has to be called next: a time >= the last one, or AISIM_NEVER when only the
 *  server can change anything (or the run is over). O(1). */
int64_t aisim_agentx_next_time_ns(const aisim_agentx *agentx);

/** Does everything that is due at now_ns. @p now_ns >= all times given before, and not beyond
 *  aisim_agentx_next_time_ns(). O(log lanes + log requests) per request. */
void aisim_agentx_advance(aisim_agentx *agentx, int64_t now_ns);

/** The server answered. Once per handle. A cancellation that was asked for counts as cancelled
 *  whatever the status says. Ignored when the run is over. */
void aisim_agentx_terminal(aisim_agentx *agentx, uint64_t handle, int64_t now_ns,
                           aisim_terminal_status status);

/** The server has nothing left to do for this request (blocks, transfers). Once per handle, before
 *  or after its terminal; the handle is dead once both have come. */
void aisim_agentx_settled(aisim_agentx *agentx, uint64_t handle, int64_t now_ns);

/** Over: phase DONE or FAILED. */
bool aisim_agentx_done(const aisim_agentx *agentx);

/** Valid until the next call. */
const aisim_agentx_report *aisim_agentx_report_get(aisim_agentx *agentx);

/** "0.3/outer:2", "primer/0/outer:1", "warmup/0/2/outer:1" into @p out (at least 96 bytes). */
char *aisim_agentx_request_key(const aisim_agentx_request *request, char *out);

/** "primer", "warmup", …; never NULL. */
const char *aisim_agentx_phase_name(aisim_agentx_phase phase);

#endif
