/* sessions.h - generators of sessions: what each turn of a conversation adds (traffic 3.2).
 *
 * A source describes one turn at a time; who runs the session (sim/session_traffic.h) keeps its
 * content and tells the source how long the conversation has become. Every session has a stream of
 * its own, a function of (seed, name, number of the session), so what a session draws depends on
 * nothing that other sessions or the server do.
 *
 *   synthetic   turns with new input and output; part of the first input is shared by a group
 *   agent       system prompt, task, then answers and tool results; compaction above a limit
 *   agentic     layers of shared context (global, group, session), growing history, reset, restart
 */
#ifndef AISIM_WORKLOAD_SESSIONS_H
#define AISIM_WORKLOAD_SESSIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "aisim/status.h"
#include "base/rng.h"

/** A quantity: a constant, or what next draws with the stream of the session. */
typedef struct aisim_draw {
    double constant;
    void *context;
    /** NULL = constant. @return false: an error is in err */
    bool (*next)(void *context, aisim_rng *rng, double *out, aisim_error *err);
} aisim_draw;

#define AISIM_CONSTANT(x) ((aisim_draw){.constant = (x)})

/** Leading tokens of the conversation that a turn keeps: all of them. */
#define AISIM_KEEP_ALL UINT32_MAX

enum { AISIM_TURN_EXTENTS = 2 };

/** One turn: its prompt is what it keeps of the conversation (prompt and answer of the turn
 * before), then the named extents, then private tokens. */
typedef struct aisim_turn {
    int64_t wait_ns;      /**< after the end of the turn before; 0 for the first */
    uint32_t keep_tokens; /**< 0 for the first */
    uint32_t n_extents;
    struct {
        uint64_t name; /**< equal names are equal content for everybody */
        uint32_t tokens;
    } extents[AISIM_TURN_EXTENTS];
    uint32_t new_tokens;
    uint32_t output_tokens; /**< >= 1 */
    bool last;              /**< the session ends with it */
    bool restart;           /**< it begins a session of its own that shares the history */
} aisim_turn;

/** What a source may keep of a session. */
typedef struct aisim_session_state {
    aisim_rng rng;
    uint32_t turn;  /**< to come, from 0 */
    uint32_t turns; /**< free for the source: turns in all */
    uint32_t head;  /**< free for the source: leading tokens that stay at a compaction */
} aisim_session_state;

typedef struct aisim_session_source {
    void *context;
    /** The next turn of a session whose conversation has context_tokens so far.
     *  @return false: an error is in err */
    bool (*next)(void *context, aisim_session_state *state, uint32_t context_tokens,
                 aisim_turn *turn, aisim_error *err);
    void (*free)(void *context); /**< NULL allowed */
} aisim_session_source;

/** Groups 1 .. n of equal content; 0 groups = nothing is shared. */
typedef struct aisim_session_groups {
    uint64_t name;    /**< of the content */
    aisim_draw group; /**< number of a group, >= 1 */
} aisim_session_groups;

typedef struct aisim_synthetic_session {
    aisim_draw turns, new_tokens, output_tokens; /**< each at least 1 */
    aisim_draw think_ms;                         /**< between turns, >= 0 */
    double shared_prefix_ratio; /**< 0..1 of the first input, rounded, are the group's */
    aisim_session_groups prefix;
} aisim_synthetic_session;

typedef struct aisim_agent_session {
    uint64_t system; /**< name of the system prompt, the same for all sessions */
    uint32_t system_tokens;
    aisim_draw task_tokens; /**< private, first turn */
    aisim_draw steps;       /**< requests of a session, at least 1 */
    aisim_draw output_tokens, tool_ms, tool_tokens;
    uint32_t compact_above_tokens; /**< a longer context keeps the system prompt … */
    uint32_t compact_to_tokens;    /**< … and a private summary of so many; 0, 0 = never */
} aisim_agent_session;

typedef struct aisim_agentic_session {
    uint64_t global; /**< tools and system prompt of all sessions */
    uint32_t global_tokens;
    aisim_session_groups group; /**< context that a group has in common */
    uint32_t group_tokens;
    aisim_draw session_tokens; /**< own context of a session */
    aisim_draw new_tokens, output_tokens, think_ms;
    double reset;   /**< 0..1: a turn is the last of its session; > 0 unless max_turns */
    double restart; /**< 0..1: a turn but the first opens a second session with the same history */
    uint32_t max_turns; /**< 0 = no limit */
} aisim_agentic_session;

/** Constructors copy the configuration; the draws must outlive the source. */
aisim_session_source aisim_session_synthetic(const aisim_synthetic_session *config);
aisim_session_source aisim_session_agent(const aisim_agent_session *config);
aisim_session_source aisim_session_agentic(const aisim_agentic_session *config);

/** The stream of session `number` (from 1) of the workload `name`. */
aisim_rng aisim_session_rng(uint64_t seed, const char *name, uint64_t number);

/** Mean of prompt + half the answer, tokens, over the turns of the first n sessions of a stream
 * that the traffic itself does not use (kv_capacity_fraction). */
aisim_status aisim_session_mean_tokens(const aisim_session_source *source, uint64_t seed,
                                       const char *name, uint32_t n, double *tokens,
                                       aisim_error *err);

#endif
