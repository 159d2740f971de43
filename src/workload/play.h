/* play.h - one recorded agent run as a graph of requests: plain data, read-only once lowered.
 *
 * A play is a tree of conversations; a conversation is a stream of requests that continue one
 * another. The requests stand in node order: the rank by (recorded start, authored order), where
 * the requests of a subagent stand at the place of their marker (traffic 1.6 D). Every index in
 * this file is an index into an array of the same play. All times are whole nanoseconds on the
 * recorded play clock; they were rounded once, when the figure was read.
 *
 * Prompts are lists of block ids in run-length form and never expanded (A3). A list is canonical:
 * neighbouring runs do not join, so two lists agree exactly as long as their runs agree.
 *
 * Rules: spec/traffic.md 1.2 to 1.7. */
#ifndef AISIM_WORKLOAD_PLAY_H
#define AISIM_WORKLOAD_PLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "aisim/content.h" /* aisim_id_run */
#include "base/map.h"      /* AISIM_NONE */

/** Two recorded times closer than this are the same time (traffic 1.6: eps = 1e-6 s). */
#define AISIM_PLAY_EPSILON_NS INT64_C(1000)

typedef enum { AISIM_TRIGGER_DISPATCH, AISIM_TRIGGER_COMPLETION } aisim_play_trigger;

typedef enum {
    AISIM_RELATION_SEQUENCE,
    AISIM_RELATION_SPAWN,
    AISIM_RELATION_BARRIER,
    AISIM_RELATION_JOIN,
    AISIM_RELATIONS
} aisim_play_relation;

/** target waits until source was sent (dispatch) or is done (completion), and delay_ns more. */
typedef struct aisim_play_edge {
    uint32_t source, target;
    int64_t delay_ns; /**< >= 0 */
    uint8_t trigger;  /**< aisim_play_trigger */
    uint8_t relation; /**< aisim_play_relation */
} aisim_play_edge;

/** One model request of the recording. */
typedef struct aisim_play_request {
    int64_t start_ns;       /**< recorded start */
    int64_t end_ns;         /**< recorded end, >= start_ns */
    uint32_t input_tokens;  /**< whole prompt, >= 1, after align_inputs */
    uint32_t output_tokens; /**< 0 = prefill only */
    uint32_t outer;         /**< entry of the play, from 0 */
    uint32_t inner;         /**< request of the subagent at that entry; AISIM_NONE = top level */
    uint32_t model;         /**< into models[] */
    uint32_t conversation;
    uint32_t id_first, id_runs;  /**< slice of ids[]: the recorded block ids, extra ones included */
    uint32_t id_count;           /**< ids in that slice, the runs added up */
    uint32_t in_first, in_edges; /**< slice of edges[]: incoming */
    uint32_t out_first, out_edges; /**< slice of out[]: indices of outgoing edges */
} aisim_play_request;

/** A stream of requests: one session of the play. */
typedef struct aisim_play_conversation {
    uint32_t scope;        /**< into scopes[] */
    uint32_t first, count; /**< slice of conversation_requests[], in stream order; count >= 1 */
    uint32_t parent, root; /**< conversations (traffic 1.7); AISIM_NONE = no parent / no lineage */
    bool lineage;          /**< false: parent and root are unknown and must not be guessed */
} aisim_play_conversation;

/** The top level of the play (scope 0) or one subagent. */
typedef struct aisim_play_scope {
    uint32_t outer;         /**< entry of the marker; AISIM_NONE for the top level */
    uint32_t tool_tokens;   /**< size of the tool definitions, 0 = unknown */
    uint32_t system_tokens; /**< size of the system prompt, 0 = unknown */
    uint32_t main;          /**< its main conversation */
    bool blocking;          /**< the parent waited */
    int64_t marker_ns;      /**< recorded time of the marker; 0 for the top level */
    int64_t duration_ns;    /**< recorded length of a subagent, -1 = unknown */
} aisim_play_scope;

typedef struct aisim_play {
    char *id;
    uint32_t ordinal;    /**< place in the corpus, from 0 */
    uint32_t block_size; /**< tokens per recorded block */
    aisim_play_request *requests;
    uint32_t n_requests;    /**< >= 1 */
    uint32_t root;          /**< the one request without incoming edge */
    aisim_play_edge *edges; /**< by target, then in the order of traffic 1.6 C */
    uint32_t n_edges;
    uint32_t *out;                          /**< indices into edges, by source, then target */
    aisim_play_conversation *conversations; /**< by first request */
    uint32_t n_conversations;
    uint32_t *conversation_requests;
    aisim_play_scope *scopes;
    uint32_t n_scopes;
    aisim_id_run *ids;
    uint32_t n_ids;
    char **models; /**< labels of the recording */
    uint32_t n_models;
    int64_t first_start_ns; /**< earliest recorded start */
    int64_t last_start_ns;  /**< latest recorded start */
} aisim_play;

/** Frees what the play holds, not the struct. */
void aisim_play_deinit(aisim_play *play);

/** Recorded start after the earliest one of the play: the authored gate (traffic 1.6 D). */
static inline int64_t aisim_play_not_before_ns(const aisim_play *play, uint32_t request)
{
    return play->requests[request].start_ns - play->first_start_ns;
}

/** Whole recorded blocks of the prompt that have an id (extra ids do not count). */
static inline uint32_t aisim_play_known_blocks(const aisim_play *play, uint32_t request)
{
    const aisim_play_request *r = &play->requests[request];
    uint32_t whole = r->input_tokens / play->block_size;
    return r->id_count < whole ? r->id_count : whole;
}

/** Tokens of the tool and system prefix of the play or, for its own requests, of the subagent. */
static inline uint64_t aisim_play_prefix_tokens(const aisim_play *play, uint32_t request)
{
    uint32_t conversation = play->requests[request].conversation;
    const aisim_play_scope *scope = &play->scopes[play->conversations[conversation].scope];
    return (uint64_t)scope->tool_tokens + scope->system_tokens;
}

/** Number of equal leading ids of two requests. O(id runs). */
uint64_t aisim_play_common_ids(const aisim_play *play, uint32_t a, uint32_t b);

/** First request that only waits for itself, over others: held up by a circle of edges; AISIM_NONE
 * = every request can be reached. O(requests + edges). */
uint32_t aisim_play_circle(const aisim_play *play);

/** "sequence", "spawn", "barrier", "join". */
const char *aisim_play_relation_name(aisim_play_relation relation);

/** "outer:3" or "outer:3:inner:0" into @p out (at least 48 bytes). @return out */
char *aisim_play_request_name(const aisim_play *play, uint32_t request, char *out);

#endif
